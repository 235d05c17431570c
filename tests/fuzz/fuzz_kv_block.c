// SPDX-License-Identifier: MIT
// Fuzz target: blocks of prompts with hostile edits, or any bytes in place of one. Loading must end in an
// error that leaves the sequence as it was, or in a sequence that goes on and gives the same block again.
//
// The input: byte 0 has bit 0: the cache's format, bit 1: the second block, bit 2: checksums are left wrong,
// bit 3: all that follows is the file, bit 4: the pool is full. Then come edits: two bytes of place, a byte of
// what to do, a value.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/kv_block.h"
#include "engine/session.h"
#include "kv_block_support.h"
#include "made_models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

enum { FORMAT = 1, SECOND = 2, WRONG_SUMS = 4, RAW = 8, FULL = 16, N = HEARTH_BLOCK_TOKENS };

static struct image {
    uint8_t *bytes;
    size_t n;
    struct hearth_block_key key;
    float *logits; // of the next step
} images[4];       // FORMAT | SECOND

static struct hearth_model *model;
static struct hearth_session *sessions[2]; // one for each format
static int empty[2], begun[2];             // their sequences: without tokens, with one block
static char folder[64], path[128];         // where blocks are saved
static hearth_token tokens[2 * N];

// ---- files

static const char *as_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char name[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        CHECK(fd >= 0);
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    }
    CHECK(ftruncate(fd, 0) == 0);
    for (size_t done = 0; done < size;) {
        const ssize_t n = pwrite(fd, data + done, size - done, (off_t)done);
        CHECK(n > 0);
        done += (size_t)n;
    }
    return name;
}

// Saves block i of a sequence; the caller frees the file's bytes.
static uint8_t *save(const struct hearth_session *s, int seq, int i, const struct hearth_block_key *key,
                     size_t *n)
{
    unlink(path);
    CHECK(hearth_block_save(s, seq, i, key, 1234, path, NULL) == 0);
    FILE *f = fopen(path, "rb");
    CHECK(f);
    *n = (size_t)hearth_block_file_bytes(s);
    uint8_t *bytes = malloc(*n + 1);
    CHECK(bytes && fread(bytes, 1, *n + 1, f) == *n);
    fclose(f);
    return bytes;
}

static const float *next_logits(struct hearth_session *s, int seq)
{
    const hearth_token token = 7;
    CHECK(hearth_step(s, &seq, &token, 1, NULL) == 0);
    return hearth_logits(s, 0);
}

static void make_images(int format)
{
    struct hearth_session *s = sessions[format];
    struct hearth_block_key key;
    CHECK(hearth_block_root(s, &key, NULL) == 0);
    empty[format] = hearth_seq_new(s, NULL);
    const int seq = begun[format] = hearth_seq_new(s, NULL);
    CHECK(empty[format] >= 0 && seq >= 0);
    for (int i = 0; i < 2; i++) {
        struct image *m = &images[format | i * SECOND];
        CHECK(hearth_prompt(s, seq, tokens + i * N, N, NULL, NULL, NULL) == 0);
        hearth_block_next(&key, tokens + i * N);
        m->key = key;
        m->bytes = save(s, seq, i, &key, &m->n);
        m->logits = malloc(MADE_VOCAB * sizeof *m->logits);
        CHECK(m->logits);
        memcpy(m->logits, next_logits(s, seq), MADE_VOCAB * sizeof *m->logits);
        CHECK(hearth_seq_truncate(s, seq, (i + 1) * N, NULL) == 0);
    }
    CHECK(hearth_seq_truncate(s, seq, N, NULL) == 0);
}

static void clean_up(void)
{
    for (int i = 0; i < 2; i++)
        hearth_session_close(&sessions[i]);
    hearth_model_close(&model);
    for (int i = 0; i < 4; i++) {
        free(images[i].bytes);
        free(images[i].logits);
    }
    unlink(path);
    rmdir(folder);
}

static void set_up(void)
{
    snprintf(folder, sizeof folder, "/tmp/hearth-fuzz-XXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    made_write(path, &(struct made){.arch = "llama"});
    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 1;
    CHECK(hearth_model_open(&model, path, &params, NULL) == 0);
    for (int i = 0; i < 2 * N; i++)
        tokens[i] = (i * 37 + 11) % MADE_VOCAB;
    for (int i = 0; i < 2; i++) {
        struct hearth_session_params p = hearth_session_params_default();
        p.n_ctx = 4 * N;
        p.kv_tokens = 4 * N;
        p.max_seqs = 3;
        p.n_threads = 1;
        p.type_k = i ? HEARTH_KV_F32 : HEARTH_KV_F16;
        CHECK(hearth_session_open(&sessions[i], model, &p, NULL) == 0);
        make_images(i);
    }
    atexit(clean_up);
}

// ---- one input

static void use(struct hearth_session *s, int seq, int i, const struct image *m, const uint8_t *bytes)
{
    size_t n;
    uint8_t *again = save(s, seq, i, &m->key, &n);
    CHECK(n == m->n && !memcmp(again, bytes, KV_BLOCK_COST)); // all that counts in the header
    CHECK(!memcmp(again + KV_BLOCK_HEADER, bytes + KV_BLOCK_HEADER, n - KV_BLOCK_HEADER));
    free(again);
    next_logits(s, seq);
}

static void check_failed(int rc, const struct hearth_error *err, bool full)
{
    CHECK(err->code == rc && strlen(err->message) > 10);
    CHECK(rc == HEARTH_E_FORMAT || (full && rc == HEARTH_E_KV_FULL));
}

static void run(int options, const uint8_t *bytes, size_t n, bool unchanged)
{
    const int format = options & FORMAT, i = options & SECOND ? 1 : 0;
    const struct image *m = &images[options & (FORMAT | SECOND)];
    struct hearth_session *s = sessions[format];
    struct hearth_error err = {0};
    uint32_t cost_us = 0;
    const int seq = hearth_seq_fork(s, i ? begun[format] : empty[format], i * N, NULL);
    const int filler = options & FULL ? 3 * N : 0;
    CHECK(seq >= 0);
    if (filler)
        CHECK(hearth_prompt(s, empty[format], (hearth_token[3 * N]){1}, filler, NULL, NULL, NULL) == 0);
    const int rc = hearth_block_load(s, seq, &m->key, tokens + i * N, as_file(bytes, n), &cost_us, &err);
    CHECK(!hearth_kv_check(&s->kv));
    CHECK(hearth_seq_length(s, seq) == (rc ? i * N : (i + 1) * N));
    if (rc)
        check_failed(rc, &err, filler > 0);
    else if (unchanged)
        CHECK(cost_us == 1234 && !memcmp(next_logits(s, seq), m->logits, MADE_VOCAB * sizeof(float)));
    else
        use(s, seq, i, m, bytes);
    CHECK(!rc || !unchanged || filler);
    hearth_seq_free(s, seq);
    CHECK(hearth_seq_truncate(s, empty[format], 0, NULL) == 0);
    CHECK(!hearth_kv_check(&s->kv) && s->kv.n_free == s->kv.n_pages - 1);
}

static void edit(const uint8_t *e, uint8_t *bytes, size_t *n)
{
    const size_t at = ((size_t)e[0] | (size_t)e[1] << 8) % (*n + 1);
    if (e[2] % 8 == 7)
        *n = at;                            // cut off
    else if (at + 4 <= *n && e[2] % 8 == 6) // a number
        memset(bytes + at, e[3], 4);
    else if (at < *n && e[2] % 8 == 5) // one more, or less
        bytes[at] = (uint8_t)(bytes[at] + (e[3] & 1 ? 1 : -1));
    else if (at < *n)
        bytes[at] = e[3];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!model)
        set_up();
    if (size < 1)
        return 0;
    const int options = data[0];
    const struct image *m = &images[options & (FORMAT | SECOND)];
    data++;
    size--;
    size_t n = options & RAW ? size : m->n;
    uint8_t *bytes = malloc(n + 1);
    CHECK(bytes);
    if (n)
        memcpy(bytes, options & RAW ? data : m->bytes, n);
    for (size_t i = 0; i + 4 <= size && i < 256 && !(options & RAW); i += 4)
        edit(data + i, bytes, &n);
    if (!(options & WRONG_SUMS))
        kv_block_repair(bytes, n);
    run(options, bytes, n, size < 4 && !(options & RAW));
    free(bytes);
    return 0;
}
