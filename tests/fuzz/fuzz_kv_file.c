// SPDX-License-Identifier: MIT
// Fuzz target: saved sequences with hostile edits, or any bytes in place of one. Loading must end in an error
// that leaves the session as it was, or in a sequence that can go on and that is the same file when it is
// saved again.
//
// The input: byte 0 has bit 0: the cache's format, bit 1: with steps, bit 2: checksums are left wrong, bit 3:
// all that follows is the file; byte 1 chooses the length. Then come edits: two bytes of place, a byte of
// what to do, a value.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/session.h"
#include "kv_file_support.h"
#include "made_models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

static const int lengths[] = {0, 1, 3, 63, 64, 65, 100, 130};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths, N_KINDS = 4 };
enum { FORMAT = 1, STEPS = 2, WRONG_SUMS = 4, RAW = 8 };
enum { POOL = 128 }; // positions in the sessions that load: too few for the longest

static struct image {
    uint8_t *bytes;
    size_t n;
    int n_tokens;
    float *logits; // of the next step
} images[N_LENGTHS * N_KINDS];

static struct hearth_model *model;
static struct hearth_session *sessions[2]; // one for each format
static char folder[64], path[128];         // where sequences are saved

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

static void read_image(struct image *m)
{
    FILE *f = fopen(path, "rb");
    CHECK(f);
    fseek(f, 0, SEEK_END);
    m->n = (size_t)ftell(f);
    rewind(f);
    m->bytes = malloc(m->n);
    CHECK(m->bytes && fread(m->bytes, 1, m->n, f) == m->n);
    fclose(f);
}

static const float *next_logits(struct hearth_session *s, int seq)
{
    const hearth_token token = 7;
    CHECK(hearth_step(s, &seq, &token, 1, NULL) == 0);
    return hearth_logits(s, 0);
}

static void make_image(struct image *m, struct hearth_session *s, int n, bool steps)
{
    int seq = hearth_seq_new(s, NULL);
    CHECK(seq >= 0);
    for (int i = 0; i < n; i++) {
        const hearth_token token = (i * 37 + 11) % MADE_VOCAB;
        if (steps && i % 3 == 1)
            CHECK(hearth_step(s, &seq, &token, 1, NULL) == 0);
        else
            CHECK(hearth_prompt(s, seq, &token, 1, NULL, NULL, NULL) == 0);
    }
    CHECK(hearth_seq_save(s, seq, path, NULL) == 0);
    read_image(m);
    m->n_tokens = n;
    m->logits = malloc(MADE_VOCAB * sizeof *m->logits);
    CHECK(m->logits);
    memcpy(m->logits, next_logits(s, seq), MADE_VOCAB * sizeof *m->logits);
    hearth_seq_free(s, seq);
}

static void clean_up(void)
{
    for (int i = 0; i < 2; i++)
        hearth_session_close(&sessions[i]);
    hearth_model_close(&model);
    for (size_t i = 0; i < N_LENGTHS * N_KINDS; i++) {
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
    for (int i = 0; i < 2; i++) {
        struct hearth_session_params p = hearth_session_params_default();
        p.n_ctx = 140;
        p.kv_tokens = POOL;
        p.n_threads = 1;
        p.type_k = i ? HEARTH_KV_F32 : HEARTH_KV_F16;
        p.type_v = HEARTH_KV_F16;
        // The images come from a session that has room.
        struct hearth_session *roomy = NULL;
        CHECK(hearth_session_open(&sessions[i], model, &p, NULL) == 0);
        p.kv_tokens = 0;
        CHECK(hearth_session_open(&roomy, model, &p, NULL) == 0);
        for (int k = 0; k < N_LENGTHS; k++)
            for (int steps = 0; steps < 2; steps++)
                make_image(&images[k * N_KINDS + steps * STEPS + i], roomy, lengths[k], steps == 1);
        hearth_session_close(&roomy);
    }
    atexit(clean_up);
}

// ---- one input

static size_t token_bytes(const struct hearth_session *s)
{
    return hearth_kv_row_bytes(&s->kv);
}

// What the file would be but for the model's name in it, which is for messages only.
static void forget_name(uint8_t *bytes, size_t n, const struct hearth_session *s)
{
    memset(bytes + KV_FILE_NAME, 0, KV_FILE_HEADER - 4 - KV_FILE_NAME);
    kv_file_repair(bytes, n, token_bytes(s));
}

static void use(struct hearth_session *s, int seq, uint8_t *bytes, size_t n)
{
    struct image again;
    CHECK(hearth_seq_save(s, seq, path, NULL) == 0);
    read_image(&again);
    CHECK(again.n == n);
    forget_name(again.bytes, n, s);
    forget_name(bytes, n, s);
    CHECK(!memcmp(again.bytes, bytes, n));
    free(again.bytes);
    if (hearth_seq_length(s, seq) < hearth_session_n_ctx(s) && s->kv.n_free)
        next_logits(s, seq);
}

static void check_failed(const struct hearth_session *s, int rc, const struct hearth_error *err)
{
    CHECK(err->code == rc && strlen(err->message) > 10);
    CHECK(s->kv.n_free == s->kv.n_pages && !s->kv.seqs[0].used);
}

static void run(struct hearth_session *s, uint8_t *bytes, size_t n, const struct image *unchanged)
{
    struct hearth_error err = {0};
    const int seq = hearth_seq_load(s, as_file(bytes, n), &err);
    CHECK(!hearth_kv_check(&s->kv));
    if (seq < 0) {
        check_failed(s, seq, &err);
        CHECK(!unchanged || (seq == HEARTH_E_KV_FULL && unchanged->n_tokens > POOL));
        return;
    }
    if (unchanged && s->kv.n_free)
        CHECK(!memcmp(next_logits(s, seq), unchanged->logits, MADE_VOCAB * sizeof(float)));
    else
        use(s, seq, bytes, n);
    hearth_seq_free(s, seq);
    CHECK(!hearth_kv_check(&s->kv) && s->kv.n_free == s->kv.n_pages);
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
    if (size < 2)
        return 0;
    const int options = data[0];
    struct hearth_session *s = sessions[options & FORMAT];
    const struct image *m = &images[data[1] % N_LENGTHS * N_KINDS + (options & (FORMAT | STEPS))];
    data += 2;
    size -= 2;
    size_t n = options & RAW ? size : m->n;
    uint8_t *bytes = malloc(n + 1);
    CHECK(bytes);
    if (n)
        memcpy(bytes, options & RAW ? data : m->bytes, n);
    for (size_t i = 0; i + 4 <= size && i < 256 && !(options & RAW); i += 4)
        edit(data + i, bytes, &n);
    if (!(options & WRONG_SUMS))
        kv_file_repair(bytes, n, token_bytes(s));
    run(s, bytes, n, size < 4 && !(options & RAW) ? m : NULL);
    free(bytes);
    return 0;
}
