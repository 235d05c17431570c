// SPDX-License-Identifier: MIT
#include "serve/prefix_files.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"

#define NAME_END  ".hearthkv"
#define PATH_SIZE 4096
#define NAME_SIZE (1 + 2 * HEARTH_SHA256_BYTES + sizeof NAME_END)
// After a write that failed, the next try.
#define PAUSE_NS 60000000000u

// What the writer has to do.
struct work {
    int seq, n; // seq -1: nothing
    hearth_token *tokens;
    uint32_t cost_us;
};

struct hearth_prefix_files {
    struct hearth_prefix_files_params params;
    char folder[PATH_SIZE - NAME_SIZE];
    struct hearth_block_key root;
    uint64_t block_bytes;
    bool said_damaged; // by the thread that owns the session

    // The writer's own.
    uint64_t bytes, unseen; // of the folder's blocks; of it written since the folder was last looked at
    uint64_t paused_until;
    bool said_failed;

    _Atomic uint64_t written;
    atomic_bool interrupted;
    pthread_t thread;
    pthread_mutex_t mutex; // for all below
    pthread_cond_t given, idle;
    struct work work;
    bool busy, ending;
};

static void path_of(const struct hearth_prefix_files *f, const struct hearth_block_key *key, char *path)
{
    int n = snprintf(path, PATH_SIZE, "%s/", f->folder);
    for (int i = 0; i < HEARTH_SHA256_BYTES; i++)
        n += snprintf(path + n, (size_t)(PATH_SIZE - n), "%02x", key->bytes[i]);
    snprintf(path + n, (size_t)(PATH_SIZE - n), "%s", NAME_END);
}

// ---- reading

struct hearth_block_key hearth_prefix_files_root(const struct hearth_prefix_files *files)
{
    return files->root;
}

bool hearth_prefix_files_has(const struct hearth_prefix_files *files, const struct hearth_block_key *key)
{
    char path[PATH_SIZE];
    path_of(files, key, path);
    return hearth_file_exists(path);
}

int hearth_prefix_files_load(struct hearth_prefix_files *files, int seq, const struct hearth_block_key *key,
                             const hearth_token tokens[HEARTH_BLOCK_TOKENS], uint32_t *cost_us)
{
    char path[PATH_SIZE];
    struct hearth_error err = {0};
    path_of(files, key, path);
    const int rc = hearth_block_load(files->params.session, seq, key, tokens, path, cost_us, &err);
    if (rc != HEARTH_E_FORMAT)
        return rc;
    hearth_cache_file_remove(path);
    if (!files->said_damaged)
        hearth_log(HEARTH_LOG_WARNING, "%s; it is removed, as are others of the kind", err.message);
    files->said_damaged = true;
    return rc;
}

// ---- writing

static void say_failed(struct hearth_prefix_files *f, const struct hearth_error *err)
{
    f->paused_until = hearth_now_ns() + PAUSE_NS;
    if (!f->said_failed)
        hearth_log(HEARTH_LOG_WARNING, "%s: prompts are not kept on disk while this is so", err->message);
    f->said_failed = true;
}

// Bytes that the blocks of one prompt may have.
static uint64_t most_of_one(const struct hearth_prefix_files *f)
{
    return f->params.most - f->params.most / 16;
}

// Makes room for another block. The folder is looked at when it seems full, and now and then because other
// servers may write to it. Some more is removed, so that this is seldom.
static int make_room(struct hearth_prefix_files *f, struct hearth_error *err)
{
    const uint64_t most = f->params.most;
    if (f->bytes + f->block_bytes <= most && f->unseen <= most / 32)
        return HEARTH_OK;
    int rc = hearth_folder_trim(f->folder, NAME_END, most, &f->bytes, err);
    if (!rc && f->bytes + f->block_bytes > most)
        rc = hearth_folder_trim(f->folder, NAME_END, most_of_one(f) - f->block_bytes, &f->bytes, err);
    f->unseen = 0;
    return rc;
}

// `used`: when the prompt was, in nanoseconds since 1970. Of its blocks the first counts as used last, since
// the others are worth nothing without it.
static void write_block(struct hearth_prefix_files *f, const struct work *w, int i,
                        const struct hearth_block_key *key, uint64_t used)
{
    char path[PATH_SIZE];
    struct hearth_error err = {0};
    path_of(f, key, path);
    used -= (uint64_t)i * 1000;
    if (hearth_cache_file_touch(path, used) || hearth_now_ns() < f->paused_until)
        return;
    int rc = make_room(f, &err);
    if (!rc)
        rc = hearth_block_save(f->params.session, w->seq, i, key, w->cost_us, path, &err);
    if (rc) {
        say_failed(f, &err);
        return;
    }
    (void)hearth_cache_file_touch(path, used);
    f->bytes += f->block_bytes;
    f->unseen += f->block_bytes;
    atomic_fetch_add(&f->written, 1);
}

static void write_blocks(struct hearth_prefix_files *f, const struct work *w)
{
    struct hearth_block_key key = f->root;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t used = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    const uint64_t most = most_of_one(f) / f->block_bytes;
    for (int i = 0; i < w->n && (uint64_t)i < most && !atomic_load(&f->interrupted); i++) {
        hearth_block_next(&key, w->tokens + (size_t)i * HEARTH_BLOCK_TOKENS);
        write_block(f, w, i, &key, used);
    }
}

static void look_first(struct hearth_prefix_files *f)
{
    struct hearth_error err = {0};
    if (hearth_folder_trim(f->folder, NAME_END, f->params.most, &f->bytes, &err))
        say_failed(f, &err);
}

static void *run(void *arg)
{
    struct hearth_prefix_files *f = arg;
    look_first(f);
    pthread_mutex_lock(&f->mutex);
    while (!f->ending) {
        if (!f->busy) {
            pthread_cond_wait(&f->given, &f->mutex);
            continue;
        }
        const struct work w = f->work;
        pthread_mutex_unlock(&f->mutex);
        write_blocks(f, &w);
        free(w.tokens);
        pthread_mutex_lock(&f->mutex);
        f->busy = false;
        f->work.tokens = NULL;
        pthread_cond_signal(&f->idle);
        pthread_mutex_unlock(&f->mutex);
        f->params.wake(f->params.arg);
        pthread_mutex_lock(&f->mutex);
    }
    pthread_mutex_unlock(&f->mutex);
    return NULL;
}

bool hearth_prefix_files_idle(struct hearth_prefix_files *f)
{
    pthread_mutex_lock(&f->mutex);
    const bool busy = f->busy;
    pthread_mutex_unlock(&f->mutex);
    if (!busy && f->work.seq >= 0) {
        hearth_seq_free(f->params.session, f->work.seq);
        f->work.seq = -1;
    }
    return !busy;
}

void hearth_prefix_files_write(struct hearth_prefix_files *f, int seq, const hearth_token *tokens, int n,
                               uint32_t cost_us)
{
    const size_t count = (size_t)n * HEARTH_BLOCK_TOKENS;
    hearth_token *copy = hearth_calloc(count, sizeof *copy);
    if (!copy) {
        hearth_seq_free(f->params.session, seq);
        return;
    }
    memcpy(copy, tokens, count * sizeof *copy);
    pthread_mutex_lock(&f->mutex);
    f->work = (struct work){.seq = seq, .n = n, .tokens = copy, .cost_us = cost_us};
    f->busy = true;
    pthread_cond_signal(&f->given);
    pthread_mutex_unlock(&f->mutex);
}

void hearth_prefix_files_await(struct hearth_prefix_files *f, uint64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    pthread_mutex_lock(&f->mutex);
    for (int late = 0; f->busy && !late;)
        late = pthread_cond_timedwait(&f->idle, &f->mutex, &until);
    pthread_mutex_unlock(&f->mutex);
}

void hearth_prefix_files_interrupt(struct hearth_prefix_files *f)
{
    atomic_store(&f->interrupted, true);
    pthread_mutex_lock(&f->mutex);
    while (f->busy)
        pthread_cond_wait(&f->idle, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
    atomic_store(&f->interrupted, false);
    (void)hearth_prefix_files_idle(f);
}

uint64_t hearth_prefix_files_written(const struct hearth_prefix_files *files)
{
    return atomic_load(&files->written);
}

// ---- opening

static int check_folder(struct hearth_prefix_files *f, struct hearth_error *err)
{
    const struct hearth_prefix_files_params *p = &f->params;
    if ((size_t)snprintf(f->folder, sizeof f->folder, "%s", p->folder) >= sizeof f->folder)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: the name is too long", p->folder);
    const int rc = hearth_folder_make(p->folder, err);
    if (rc)
        return rc;
    if (!hearth_folder_is_own(p->folder))
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%s: others may write to this folder, and so into the model's memory; chmod 700 "
                           "makes it yours alone",
                           p->folder);
    if (most_of_one(f) < f->block_bytes)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: with this model, %d tokens take %llu bytes", p->folder,
                           HEARTH_BLOCK_TOKENS, (unsigned long long)f->block_bytes);
    return HEARTH_OK;
}

int hearth_prefix_files_open(struct hearth_prefix_files **out,
                             const struct hearth_prefix_files_params *params, struct hearth_error *err)
{
    struct hearth_prefix_files *f = hearth_calloc(1, sizeof *f);
    *out = NULL;
    if (!f)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for prompts on disk");
    f->params = *params;
    f->work.seq = -1;
    f->block_bytes = hearth_block_file_bytes(params->session);
    int rc = check_folder(f, err);
    if (!rc)
        rc = hearth_block_root(params->session, &f->root, err);
    if (rc) {
        free(f);
        return rc;
    }
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->given, NULL);
    pthread_cond_init(&f->idle, NULL);
    const int failed = pthread_create(&f->thread, NULL, run, f);
    if (failed) {
        free(f);
        return hearth_fail_errno(err, failed, "cannot start a thread");
    }
    *out = f;
    return HEARTH_OK;
}

void hearth_prefix_files_close(struct hearth_prefix_files **files)
{
    struct hearth_prefix_files *f = *files;
    if (!f)
        return;
    atomic_store(&f->interrupted, true);
    pthread_mutex_lock(&f->mutex);
    f->ending = true;
    pthread_cond_signal(&f->given);
    pthread_mutex_unlock(&f->mutex);
    pthread_join(f->thread, NULL);
    free(f->work.tokens);
    f->work.tokens = NULL;
    f->busy = false;
    (void)hearth_prefix_files_idle(f);
    pthread_mutex_destroy(&f->mutex);
    pthread_cond_destroy(&f->given);
    pthread_cond_destroy(&f->idle);
    free(f);
    *files = NULL;
}
