// SPDX-License-Identifier: MIT
// Fuzz target: small models of every architecture with hostile edits. Opening and running one must end in an
// error or in logits that are the same however the work is cut; nothing may touch memory that is not its own.
//
// The input is a list of edits, not a file: byte 0 chooses the model, byte 1 the session's options; then
// edits of one number of the header each, or of one byte anywhere.
#include <math.h>
#include <stdint.h>
#include <sys/mman.h>

#include "../model/arch_models.h"
#include "hearth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

// ---- models

static const struct made makes[] = {
    {.arch = "llama", .optional = true, .predictors = true, .by_neuron = true},
    {.arch = "llama", .experts = true},
    {.arch = "llama", .experts = true, .split_experts = true, .type = HEARTH_TYPE_F16},
    {.arch = "llama",
     .set = {{"rope.scaling.type", 's', 0, "yarn"},
             {"rope.scaling.factor", 'f', 4, NULL},
             {"rope.scaling.original_context_length", 'u', 64, NULL},
             {"attention.sliding_window", 'u', 20, NULL}}},
    {.arch = "bamboo"},
    {.arch = "bamboo", .predictors = true},
    {.arch = "falcon", .optional = true},
    {.arch = "opt", .optional = true},
    {.arch = "qwen2", .type = HEARTH_TYPE_F16},
    {.arch = "qwen3"},
    {.arch = "qwen3moe", .experts = true, .type = HEARTH_TYPE_BF16},
    {.arch = "ernie4_5-moe",
     .experts = true,
     .leading = true,
     .shared = true,
     .optional = true,
     .set = {{"leading_dense_block_count", 'u', 1, NULL},
             {"interleave_moe_layer_step", 'u', 1, NULL},
             {"expert_shared_feed_forward_length", 'u', MADE_F_SHARED, NULL}}},
    {.arch = "minimax-m2", .experts = true},
    {.arch = "mistral3",
     .set = {{"attention.temperature_scale", 'f', 0.3, NULL},
             {"rope.scaling.type", 's', 0, "yarn"},
             {"rope.scaling.factor", 'f', 4, NULL},
             {"rope.scaling.original_context_length", 'u', 16, NULL},
             {"rope.scaling.yarn_log_multiplier", 'f', 1, NULL}}},
    {.arch = "qwen4exp", .experts = true, .grams = true},
    {.arch = "gemma3n", .borrows = true},
    {.arch = "deepseek32", .experts = true, .two_step_q = true},
    {.arch = "deepseek4", .experts = true, .by_token = true},
    {.arch = "hy_v4", .experts = true, .two_step_q = true, .shares_choice = true},
};
// Behind these come formats in blocks, which have no room in the small made ones, and what test_arch makes: a model of
// every architecture.
static const char *const goldens[] = {"drelu.Q4_0", "mixtral.Q8_0", "k-mixed.Q4_K_M", "window.Q8_0"};
enum {
    N_MADE = sizeof makes / sizeof *makes,
    N_OWN = N_MADE + sizeof goldens / sizeof *goldens,
    N_ALL = N_OWN + N_MODELS,
    MAX_FIELDS = 4096
};

// A number of the header.
struct field {
    uint32_t at;
    uint8_t size;
};

static struct image {
    uint8_t *bytes;
    size_t n, n_fields;
    struct field fields[MAX_FIELDS];
} images[N_ALL];
_Static_assert(N_ALL <= 256, "a byte chooses one");

static uint64_t get(const struct image *m, size_t at, size_t size)
{
    uint64_t v = 0;
    memcpy(&v, m->bytes + at, size);
    return v;
}

// Remembers the number at `*at` and steps over it.
static uint64_t field(struct image *m, size_t *at, uint8_t size)
{
    if (m->n_fields < MAX_FIELDS)
        m->fields[m->n_fields++] = (struct field){(uint32_t)*at, size};
    *at += size;
    return get(m, *at - size, size);
}

static void scan_value(struct image *m, size_t *at, uint64_t type)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == HEARTH_GGUF_STRING) {
        uint64_t n = field(m, at, 8);
        *at += n;
    } else {
        field(m, at, sizes[type]);
    }
}

static void scan(struct image *m)
{
    size_t at = 4;
    field(m, &at, 4);
    const uint64_t n_tensors = field(m, &at, 8), n_kv = field(m, &at, 8);
    for (uint64_t i = 0; i < n_kv; i++) {
        uint64_t n = field(m, &at, 8);
        at += n;
        uint64_t type = field(m, &at, 4), count = 1;
        const bool array = type == HEARTH_GGUF_ARRAY;
        if (array) {
            type = field(m, &at, 4);
            count = field(m, &at, 8);
        }
        for (uint64_t j = 0; j < count; j++) {
            const size_t before = m->n_fields;
            scan_value(m, &at, type);
            if (j >= 4) // a few elements of each array will do
                m->n_fields = before;
        }
    }
    for (uint64_t i = 0; i < n_tensors; i++) {
        uint64_t n = field(m, &at, 8);
        at += n;
        uint64_t n_dims = field(m, &at, 4);
        for (uint64_t j = 0; j < n_dims; j++)
            field(m, &at, 8);
        field(m, &at, 4);
        field(m, &at, 8);
    }
}

// The bytes as a file in memory. One for the whole run.
static const char *as_file(const uint8_t *bytes, size_t n)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        CHECK(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    CHECK(ftruncate(fd, 0) == 0);
    CHECK(pwrite(fd, bytes, n, 0) == (ssize_t)n);
    return path;
}

static void read_image(struct image *m, const char *path)
{
    FILE *f = fopen(path, "rb");
    CHECK(f);
    fseek(f, 0, SEEK_END);
    m->n = (size_t)ftell(f);
    rewind(f);
    m->bytes = malloc(m->n);
    CHECK(m->bytes && fread(m->bytes, 1, m->n, f) == m->n);
    fclose(f);
    scan(m);
}

static void make_image(struct image *m, const struct made *made)
{
    char path[] = "/tmp/hearth-fuzz-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    made_write(path, made);
    read_image(m, path);
    unlink(path);
}

static void make_images(void)
{
    for (size_t i = 0; i < N_MADE; i++)
        make_image(&images[i], &makes[i]);
    for (size_t i = N_OWN; i < N_ALL; i++)
        make_image(&images[i], &models[i - N_OWN]);
    for (size_t i = N_MADE; i < N_OWN; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/golden/models/%s.gguf", HEARTH_SOURCE_DIR, goldens[i - N_MADE]);
        read_image(&images[i], path);
    }
}

// ---- edits

struct input {
    const uint8_t *p;
    size_t n;
};

static uint64_t next(struct input *in, size_t size)
{
    uint64_t v = 0;
    const size_t have = size < in->n ? size : in->n;
    memcpy(&v, in->p, have);
    in->p += have;
    in->n -= have;
    return v;
}

static void edit(struct input *in, const struct image *m, uint8_t *bytes)
{
    static const uint64_t odd[] = {0,          1,          2,          3,          0x7f800000, 0x7fc00000,
                                   0xff800000, 0x3f800000, 0x7fffffff, 0x80000000, 0xffffffff, 64,
                                   4096,       65536,      UINT64_MAX, INT64_MAX};
    const uint64_t op = next(in, 1);
    if (op & 0x80) { // a byte anywhere; with 0x40 four bytes, which can be any float
        const size_t width = op & 0x40 ? 4 : 1;
        const size_t at = next(in, 3) % (m->n - 4);
        const uint64_t v = next(in, width);
        memcpy(bytes + at, &v, width);
        return;
    }
    const struct field f = m->fields[next(in, 2) % m->n_fields];
    uint64_t v = 0;
    memcpy(&v, bytes + f.at, f.size);
    switch (op % 5) {
    case 0:
        v = odd[op / 5 % (sizeof odd / sizeof *odd)];
        break;
    case 1:
        v = next(in, 8);
        break;
    case 2:
        v += 1 + op / 5;
        break;
    case 3:
        v -= 1 + op / 5;
        break;
    default:
        v = next(in, 1);
        break;
    }
    memcpy(bytes + f.at, &v, f.size);
}

// ---- running

enum { N_PROMPT = 21, N_STEPS = 3 };

static void check_error(int rc, const struct hearth_error *err)
{
    CHECK(rc < 0 && err->code == rc && strlen(err->message) > 10);
}

static bool all_finite(const float *logits, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            return false;
    return true;
}

// Runs prompt and steps, in micro-batches of `n_ubatch` and with a second sequence beside when `forks`;
// appends the logits of the sequence to `out`, [1 + N_STEPS][n_vocab].
static bool run(const struct hearth_model *m, uint64_t options, int n_ubatch, bool forks, float *out)
{
    const int n_vocab = hearth_model_info(m)->n_vocab;
    struct hearth_session_params params = hearth_session_params_default();
    params.n_ctx = options & 1 ? 80 : 30;
    params.max_seqs = 2;
    params.n_ubatch = n_ubatch;
    params.n_threads = 1;
    params.type_k = (enum hearth_kv_type)(options >> 1 & 3);
    params.type_v = (enum hearth_kv_type)(options >> 3 & 3);
    params.sparsity = (enum hearth_sparsity)(options >> 5 & 3);
    struct hearth_session *s = NULL;
    struct hearth_error err = {0};
    int rc = hearth_session_open(&s, m, &params, &err);
    if (rc) {
        check_error(rc, &err);
        return false;
    }
    hearth_token prompt[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = (hearth_token)((i * 37 + 1) % n_vocab);
    int seqs[2] = {hearth_seq_new(s, &err), -1};
    CHECK(seqs[0] == 0);
    rc = hearth_prompt(s, seqs[0], prompt, N_PROMPT, NULL, NULL, &err);
    if (!rc)
        memcpy(out, hearth_logits(s, 0), (size_t)n_vocab * sizeof *out);
    if (!rc && forks) {
        seqs[1] = hearth_seq_fork(s, seqs[0], 10, &err);
        CHECK(seqs[1] == 1);
    }
    for (int i = 0; i < N_STEPS && !rc; i++) {
        const hearth_token tokens[2] = {(hearth_token)((i + 5) % n_vocab), (hearth_token)((i + 9) % n_vocab)};
        rc = hearth_step(s, seqs, tokens, forks ? 2 : 1, &err);
        if (!rc)
            memcpy(out + (size_t)(i + 1) * (size_t)n_vocab, hearth_logits(s, 0),
                   (size_t)n_vocab * sizeof *out);
    }
    if (rc)
        check_error(rc, &err);
    hearth_session_close(&s);
    return !rc;
}

static void sample(const struct hearth_model *m, const float *logits)
{
    struct hearth_sampler_params params = hearth_sampler_params_default();
    params.seed = 1;
    struct hearth_sampler *s = NULL;
    CHECK(hearth_sampler_open(&s, hearth_model_info(m)->n_vocab, &params, NULL) == 0);
    const hearth_token t = hearth_sample(s, logits);
    char text[64];
    CHECK(t >= 0 && t < hearth_model_info(m)->n_vocab);
    hearth_token_bytes(m, t, true, text, sizeof text);
    hearth_sampler_accept(s, t);
    hearth_sampler_close(&s);
}

static void use(const struct hearth_model *m, uint64_t options)
{
    const size_t n_vocab = (size_t)hearth_model_info(m)->n_vocab, n = (1 + N_STEPS) * n_vocab;
    float *logits = malloc(2 * n * sizeof *logits);
    CHECK(logits);
    if (run(m, options, 16, false, logits)) {
        sample(m, logits + n - n_vocab);
        CHECK(run(m, options, 5, true, logits + n));
        if (all_finite(logits, (int)n))
            CHECK(!memcmp(logits, logits + n, n * sizeof *logits));
    }
    free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!images[0].bytes)
        make_images();
    struct input in = {data, size};
    const struct image *m = &images[next(&in, 1) % N_ALL];
    const uint64_t options = next(&in, 1);
    uint8_t *bytes = malloc(m->n);
    CHECK(bytes);
    memcpy(bytes, m->bytes, m->n);
    for (int i = 0; i < 64 && in.n; i++)
        edit(&in, m, bytes);
    const char *path = as_file(bytes, m->n);
    free(bytes);

    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 1;
    params.cpu = options & 0x80 ? "c" : NULL;
    struct hearth_model *model = NULL;
    struct hearth_error err = {0};
    int rc = hearth_model_open(&model, path, &params, &err);
    CHECK(!rc == !!model);
    if (rc) {
        check_error(rc, &err);
        CHECK(strlen(err.message) > 10);
        return 0;
    }
    use(model, options);
    hearth_model_close(&model);
    return 0;
}
