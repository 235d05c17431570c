// SPDX-License-Identifier: MIT
// Packs when things go wrong: keys and tensors that lie, weights that a format cannot hold, files cut short,
// flipped bits, no memory, a full disk, a packer that is killed or stopped, two at once.
#include "failing_alloc.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "convert/pack.h"
#include "convert/profile.h"
#include "gguf/checksums.h"
#include "made_models.h"
#include "pack_support.h"

static struct hearth_error err;
static char source[512], packed[512], bad[512], profiled[512];

static int pack_to(const char *out, bool (*progress)(void *, float), void *arg)
{
    const struct hearth_pack_params params = {
        .profile = profiled, .memory = 20000, .n_threads = 1, .progress = progress, .progress_arg = arg};
    err = (struct hearth_error){0};
    return hearth_pack_write(source, out, &params, NULL, &err);
}

// ---- weights that a format cannot hold

static float too_large;

static float one_is_large(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    return !strcmp(tensor, "blk.1.ffn_down.weight") && row == 3 && column == 5 ? too_large : usual;
}

// What a format cannot hold is refused by name, as when a model is quantised.
static void test_unsound(void **state)
{
    (void)state;
    static const struct {
        float number;
        const char *down;
    } cases[] = {{1e5f, "F16"}, {1e38f, "Q8_0"}, {INFINITY, "Q4_0"},
                 {NAN, "Q8_0"}, {1e5f, "Q8_0"},  {NAN, "F32"}};
    char from[512];
    snprintf(from, sizeof from, "%s", in_folder("unsound.gguf"));
    for (int i = 0; i < 6; i++) {
        too_large = cases[i].number;
        made_write(from, &(struct made){.arch = "llama",
                                        .value = one_is_large,
                                        .set = {{"feed_forward.activation", 's', 0, "relu"}}});
        unlink(bad);
        const struct hearth_pack_params params = {.down = cases[i].down, .n_threads = 2};
        if (i < 4)
            REFUSED(hearth_pack_write(from, bad, &params, NULL, &check_error), HEARTH_E_FORMAT,
                    "blk.1.ffn_down.weight has weights that are infinite, not a number, or too large");
        else // it holds that, or keeps the bits
            CHECK(hearth_pack_write(from, bad, &params, NULL, &check_error));
        assert_int_equal(access(bad, F_OK), i < 4 ? -1 : 0);
    }
}

// ---- packs that lie

// One difference from a good pack, and what the message must say.
struct lie {
    const char *says;
    const char *without;     // key or tensor to leave out
    const char *key;         // to replace,
    const void *values;      // by an array of u32,
    int n_values;            // or with -1 by one number;
    uint32_t type_of_values; // of the array, HEARTH_GGUF_U8: u32
    const char *texts;       // a key to become an array of n_values texts
    const char *tensor;      // to give another shape, or type, or content
    uint64_t ne[3];          // if ne[0]
    int type;                // if not 0
    int poke;                // element of an I32 tensor to set
    int32_t value;           // if poke is not 0
};

static bool is(struct hearth_str s, const char *text)
{
    return text && s.n == strlen(text) && memcmp(s.s, text, s.n) == 0;
}

static void put_lie(struct hearth_gguf_writer *w, const struct lie *lie)
{
    if (lie->key && lie->n_values < 0)
        MADE_OK(hearth_gguf_put_u32(w, lie->key, *(const uint32_t *)lie->values, &err));
    else if (lie->key)
        MADE_OK(hearth_gguf_put_array(
            w, lie->key, lie->type_of_values ? (enum hearth_gguf_type)lie->type_of_values : HEARTH_GGUF_U32,
            lie->values, (uint64_t)lie->n_values, &err));
    if (lie->texts) {
        struct hearth_str *texts = calloc((size_t)lie->n_values, sizeof *texts);
        for (int i = 0; i < lie->n_values; i++)
            texts[i] = (struct hearth_str){"1", 1};
        MADE_OK(hearth_gguf_put_strings(w, lie->texts, texts, (uint64_t)lie->n_values, &err));
        free(texts);
    }
}

static void write_lie_of(const char *from, const struct lie *lie)
{
    struct hearth_gguf *g;
    struct hearth_gguf_writer *w;
    MADE_OK(hearth_gguf_open(&g, from, &err));
    MADE_OK(hearth_gguf_writer_open(&w, bad, &err));
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g); i++) {
        const struct hearth_gguf_kv *kv = hearth_gguf_kv_at(g, i);
        if (!is(kv->key, lie->without) && !is(kv->key, lie->key))
            MADE_OK(hearth_gguf_put_kv(w, kv, &err));
    }
    put_lie(w, lie);
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++) {
            const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
            const bool changed = is(t->name, lie->tensor), reshaped = changed && lie->ne[0];
            if (is(t->name, lie->without) || is(t->name, HEARTH_CHECKSUMS_NAME))
                continue;
            const uint32_t type = changed && lie->type ? (uint32_t)lie->type : t->type;
            const uint64_t *ne = reshaped ? lie->ne : t->ne;
            const uint64_t bytes = reshaped ? hearth_type_bytes(type, ne[0]) * ne[1] * ne[2]
                                            : hearth_type_bytes(type, ne[0] * ne[1] * ne[2]);
            if (pass == 0) {
                MADE_OK(hearth_gguf_put_tensor(w, t->name.s, type, 3, ne, &err));
                continue;
            }
            uint8_t *data = calloc(1, bytes > t->bytes ? bytes : t->bytes);
            MADE_OK(hearth_gguf_read(g, t, data, 0, t->bytes, &err));
            if (changed && lie->poke)
                memcpy(data + 4 * lie->poke, &lie->value, 4);
            MADE_OK(hearth_gguf_write(w, data, bytes, &err));
            free(data);
        }
    MADE_OK(hearth_gguf_finish(&w, &err));
    hearth_gguf_close(&g);
}

static void write_lie(const struct lie *lie)
{
    write_lie_of(packed, lie);
}

// Activations' magnitudes that are none: in a pack and in a profile.
static void test_magnitudes(void **state)
{
    (void)state;
    enum { N = MADE_LAYERS * HEARTH_MAGNITUDES };
    static float good[N + 1], copy[N + 1];
    static uint8_t bools[N];
    for (int i = 0; i <= N; i++)
        good[i] = (float)(i % HEARTH_MAGNITUDES) / 7;
    const struct {
        float value; // to put at
        int at, n;
        enum hearth_gguf_type type;
        bool sound;
    } cases[] = {
        {0, 0, N, HEARTH_GGUF_F32, true},
        {0, 0, N - 1, HEARTH_GGUF_F32, false},
        {0, 0, N + 1, HEARTH_GGUF_F32, false},
        {0, 0, N, HEARTH_GGUF_I32, false},
        {0, 0, N, HEARTH_GGUF_BOOL, false},
        {0, 0, N, HEARTH_GGUF_STRING, false},
        {NAN, 0, N, HEARTH_GGUF_F32, false},
        {NAN, N - 1, N, HEARTH_GGUF_F32, false},
        {INFINITY, N - 1, N, HEARTH_GGUF_F32, false},
        {-1, 0, N, HEARTH_GGUF_F32, false},
        {-1, HEARTH_MAGNITUDES, N, HEARTH_GGUF_F32, false},
        {0.1f, 50, N, HEARTH_GGUF_F32, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int profile = 0; profile < 2; profile++) {
            const char *key = profile ? "hearth.profile.magnitudes" : "hearth.pack.magnitudes";
            memcpy(copy, good, sizeof copy);
            if (cases[i].value != 0)
                copy[cases[i].at] = cases[i].value;
            const struct lie lie = {.without = key,
                                    .key = cases[i].type == HEARTH_GGUF_STRING ? NULL : key,
                                    .type_of_values = cases[i].type,
                                    .values = cases[i].type == HEARTH_GGUF_BOOL ? (const void *)bools
                                                                                : (const void *)copy,
                                    .n_values = cases[i].n,
                                    .texts = cases[i].type == HEARTH_GGUF_STRING ? key : NULL};
            write_lie_of(profile ? profiled : packed, &lie);
            struct hearth_model *m = NULL;
            struct hearth_profile *p = NULL;
            const int rc = profile ? hearth_profile_open(&p, bad, &err) : try_model(bad, false, &m, &err);
            if (cases[i].sound ? rc != 0 : rc != HEARTH_E_FORMAT || !strstr(err.message, key))
                fail_msg("case %zu, profile %d: %d, %s", i, profile, rc, err.message);
            hearth_model_close(&m);
            hearth_profile_close(&p);
        }
}

static void test_lies(void **state)
{
    (void)state;
    static const uint32_t ones[] = {1, 1, 1}, zeros[] = {0, 0, 0}, unknown[] = {0, 77}, two = 2,
                          many[] = {49, 0};
    static const uint32_t falling[] = {1, 2, 4, 8, 16, 16}, blocks[] = {12, 12}, integers[] = {24, 24},
                          five = 5, eight = 8, wide = 4096;
    static const struct lie lies[] = {
        {.says = "version 5", .key = "hearth.pack.version", .values = &five, .n_values = -1},
        {.says = "not apart from the bundles", .key = "hearth.pack.version", .values = &two, .n_values = -1},
        {.says = "hearth.pack.up_type", .without = "hearth.pack.up_type"},
        {.says = "hearth.pack.up_type", .key = "hearth.pack.up_type", .values = zeros, .n_values = 3},
        {.says = "hearth.pack.up_type", .key = "hearth.pack.up_type", .values = &two, .n_values = -1},
        {.says = "unknown number format", .key = "hearth.pack.down_type", .values = unknown, .n_values = 2},
        {.says = "do not fit", .key = "hearth.pack.down_type", .values = blocks, .n_values = 2},
        {.says = "not supported", .key = "hearth.pack.up_type", .values = integers, .n_values = 2},
        {.says = "no gate", .without = "hearth.pack.gate_type"},
        {.says = "hearth.pack.gate_type", .key = "hearth.pack.gate_type", .values = ones, .n_values = 1},
        {.says = "blk.1.ffn_bundles", .without = "blk.1.ffn_bundles"},
        {.says = "blk.0.ffn_bundles",
         .tensor = "blk.0.ffn_bundles",
         .ne = {1024, MADE_F, 1},
         .type = HEARTH_TYPE_I16},
        {.says = "blk.1.ffn_bundles", .tensor = "blk.1.ffn_bundles", .ne = {512, MADE_F + 1, 1}},
        {.says = "blk.1.ffn_bundles", .tensor = "blk.1.ffn_bundles", .ne = {512, MADE_F, 2}},
        {.says = "blk.0.ffn_bundles", .tensor = "blk.0.ffn_bundles", .ne = {500, MADE_F, 1}},
        {.says = "blk.0.ffn_bundles", .tensor = "blk.0.ffn_bundles", .ne = {256, MADE_F, 1}},
        {.says = "blk.0.ffn_bundles", .key = "general.alignment", .values = &eight, .n_values = -1},
        {.says = "not a permutation", .tensor = "blk.1.ffn_order", .poke = 7, .value = MADE_F},
        {.says = "not a permutation", .tensor = "blk.1.ffn_order", .poke = 7, .value = -1},
        {.says = "blk.0.ffn_order", .tensor = "blk.0.ffn_order", .ne = {MADE_F - 1, 1, 1}},
        {.says = "blk.0.ffn_order", .tensor = "blk.0.ffn_order", .type = HEARTH_TYPE_F16},
        {.says = "blk.0.ffn_counts", .without = "blk.0.ffn_counts"},
        {.says = "blk.0.ffn_visits", .tensor = "blk.0.ffn_visits", .ne = {1, 5, 1}},
        {.says = "hearth.pack.batches", .key = "hearth.pack.batches", .values = falling, .n_values = 6},
        {.says = "hearth.pack.batches", .key = "hearth.pack.batches", .values = zeros, .n_values = 0},
        {.says = "hearth.pack.always", .key = "hearth.pack.always", .values = many, .n_values = 2},
        {.says = "hearth.pack.always", .key = "hearth.pack.always", .values = ones, .n_values = 3},
        {.says = "hearth.pack.down_from", .key = "hearth.pack.down_from", .values = ones, .n_values = 3},
        {.says = "llama.embedding_length", .without = "llama.embedding_length"},
        {.says = "llama.block_count", .without = "llama.block_count"},
        {.says = "hyper-parameters", .key = "llama.feed_forward_length", .values = &eight, .n_values = -1},
        {.says = "hearth.pack.gate_type", .key = "llama.block_count", .values = &eight, .n_values = -1},
        {.says = "blk.0.ffn_bundles", .key = "llama.embedding_length", .values = &wide, .n_values = -1},
    };
    struct hearth_model *m;
    write_lie(&(struct lie){0}); // none
    m = open_model(bad, false);
    hearth_model_close(&m);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        write_lie(&lies[i]);
        const int rc = try_model(bad, false, &m, &err);
        if (!rc || !strstr(err.message, lies[i].says) || !strstr(err.message, bad))
            fail_msg("lie %zu: %d, %s", i, rc, err.message);
    }
    // A wider stride than is needed is none.
    struct hearth_gguf *g;
    write_lie(&(struct lie){.tensor = "blk.0.ffn_bundles", .ne = {1024, MADE_F, 1}});
    MADE_OK(hearth_gguf_open(&g, bad, &err));
    hearth_gguf_close(&g);
    m = open_model(bad, false);
    assert_int_equal(m->pack->layers[0].stride, 1024);
    hearth_model_close(&m);
}

// ---- damage

static uint32_t random_state = 99;

static size_t random_below(size_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (size_t)((uint64_t)random_state * n >> 32);
}

// Any flipped bit is found with verify, or the file cannot even be opened; without it, nothing crashes.
static void test_flips(void **state)
{
    (void)state;
    struct file_bytes b = read_whole(packed);
    struct hearth_gguf *g;
    struct hearth_model *m;
    MADE_OK(hearth_gguf_open(&g, packed, &err));
    const struct hearth_gguf_tensor *sums = hearth_gguf_tensor(g, HEARTH_CHECKSUMS_NAME);
    const size_t covered = (size_t)(sums->offset + sums->bytes);
    hearth_gguf_close(&g);
    int opened = 0;
    for (int i = 0; i < 300; i++) {
        const size_t at = random_below(i < 100 ? 8000 : covered);
        const uint8_t bit = (uint8_t)(1u << random_below(8));
        b.p[at] ^= bit;
        write_whole(bad, b.p, b.n);
        if (!try_model(bad, true, &m, &err))
            fail_msg("bit %u of byte %zu: not noticed", bit, at);
        assert_null(m);
        opened += !try_model(bad, false, &m, &err);
        hearth_model_close(&m);
        b.p[at] ^= bit;
    }
    assert_true(opened > 100);
    free(b.p);
}

static void test_truncated(void **state)
{
    (void)state;
    struct file_bytes b = read_whole(packed);
    struct hearth_model *m;
    for (int i = 0; i < 60; i++) {
        const size_t n = i < 30 ? (size_t)i * 250 : random_below(b.n - 4096);
        write_whole(bad, b.p, n);
        const int rc = try_model(bad, i % 2, &m, &err);
        assert_true(rc < 0 && strstr(err.message, bad));
    }
    free(b.p);
}

// The same for profiles.
static void test_damaged_profile(void **state)
{
    (void)state;
    struct file_bytes b = read_whole(profiled);
    int32_t *counts = calloc(6 * MADE_F, 4), visits[6];
    int refused = 0;
    for (int i = 0; i < 400; i++) {
        const size_t at = random_below(b.n);
        const uint8_t bit = (uint8_t)(1u << random_below(8));
        b.p[at] ^= bit;
        write_whole(bad, b.p, i % 4 ? b.n : at);
        struct hearth_profile *p;
        int rc = hearth_profile_open(&p, bad, &err);
        for (uint32_t layer = 0; !rc && layer < MADE_LAYERS && p->n_ff == MADE_F && p->n_batches == 6;
             layer++)
            rc = hearth_profile_read(p, layer, counts, visits, &err);
        refused += rc != 0;
        hearth_profile_close(&p);
        b.p[at] ^= bit;
    }
    assert_true(refused > 100);
    free(counts);
    free(b.p);
}

// ---- no memory

static int look_into(void)
{
    struct hearth_gguf *g = NULL;
    struct hearth_pack *p = NULL;
    struct hearth_checksums *c = NULL;
    static int32_t order[MADE_F];
    int rc = hearth_gguf_open(&g, packed, &err);
    if (!rc)
        rc = hearth_checksums_open(&c, g, &err);
    if (!rc)
        rc = hearth_checksums_verify(c, 1, NULL, NULL, &err);
    if (!rc)
        rc = hearth_pack_open(&p, g, &err);
    if (!rc)
        rc = hearth_pack_order(p, 1, 0, order, &err);
    hearth_pack_close(&p);
    hearth_checksums_close(&c);
    hearth_gguf_close(&g);
    return rc;
}

static int pack_again(void)
{
    return pack_to(bad, NULL, NULL);
}

static int load(void)
{
    struct hearth_model *m = NULL;
    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 1;
    int rc = hearth_model_open(&m, packed, &params, &err);
    hearth_model_close(&m);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    int (*const calls[])(void) = {look_into, pack_again, load};
    for (size_t i = 0; i < 3; i++) {
        unlink(bad);
        const int files = count_files();
        for (long n = 0;; n++) {
            assert_true(n < 100000);
            err = (struct hearth_error){0};
            failures = 0;
            countdown = n;
            armed = forever = true;
            const int rc = calls[i]();
            armed = false;
            if (rc && (rc != HEARTH_E_MEMORY || err.code != rc || count_files() != files))
                fail_msg("call %zu, allocation %ld: %d, %s", i, n, rc, err.message);
            if (failures == 0)
                break;
        }
    }
}

// ---- packing that does not end well

static bool stop_halfway(void *arg, float share)
{
    (void)arg;
    return share < 0.5f;
}

static bool die_halfway(void *arg, float share)
{
    (void)arg;
    if (share > 0.5f)
        raise(SIGKILL);
    return true;
}

static void test_stopped(void **state)
{
    (void)state;
    unlink(bad);
    const int files = count_files();
    assert_int_equal(pack_to(bad, stop_halfway, NULL), HEARTH_E_INTERRUPTED);
    assert_int_equal(count_files(), files);
}

// A killed packer leaves at most something that the next one removes; the old file stays.
static void test_killed(void **state)
{
    (void)state;
    write_whole(bad, (const uint8_t *)"old", 3);
    const int files = count_files();
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pack_to(bad, die_halfway, NULL);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    struct file_bytes b = read_whole(bad);
    assert_true(b.n == 3 && memcmp(b.p, "old", 3) == 0);
    free(b.p);
    assert_int_equal(pack_to(bad, NULL, NULL), 0);
    assert_same_files(bad, packed);
    assert_int_equal(count_files(), files);
}

// Killed at any time from outside: under the name there is nothing or all of it.
static void test_killed_at_any_time(void **state)
{
    (void)state;
    unlink(bad);
    const int files = count_files();
    int whole = 0;
    for (int i = 0; i < 60; i++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(pack_to(bad, NULL, NULL) ? 1 : 0);
        usleep((useconds_t)random_below(i % 2 ? 4000 : 20000));
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (access(bad, F_OK) == 0) {
            assert_same_files(bad, packed);
            unlink(bad);
            whole++;
        }
        assert_true(count_files() <= files + 1);
    }
    assert_true(whole < 60);
    assert_int_equal(pack_to(bad, NULL, NULL), 0);
    assert_same_files(bad, packed);
    assert_int_equal(count_files(), files + 1);
}

static void test_two_at_once(void **state)
{
    (void)state;
    unlink(bad);
    const int files = count_files();
    pid_t pids[4];
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(pack_to(bad, NULL, NULL) ? 1 : 0);
    }
    for (int i = 0; i < 4; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_same_files(bad, packed);
    assert_int_equal(count_files(), files + 1);
}

// Played by a limit on the size of files, at several places of the file.
static void test_full_disk(void **state)
{
    (void)state;
    unlink(bad);
    const int files = count_files();
    struct file_bytes b = read_whole(packed);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t limit = 0; limit < b.n; limit += b.n / 7) {
        small = (struct rlimit){limit, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const int rc = pack_to(bad, NULL, NULL);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(rc, HEARTH_E_IO);
        assert_non_null(strstr(err.message, bad));
        assert_int_equal(count_files(), files);
    }
    signal(SIGXFSZ, SIG_DFL);
    free(b.p);
}

static int set_up(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(source, sizeof source, "%s", in_folder("source.gguf"));
    snprintf(packed, sizeof packed, "%s", in_folder("packed.hearth.gguf"));
    snprintf(bad, sizeof bad, "%s", in_folder("bad.hearth.gguf"));
    snprintf(profiled, sizeof profiled, "%s", in_folder("profile"));
    const struct made made = {.arch = "llama",
                              .predictors = true,
                              .optional = true,
                              .set = {{"feed_forward.activation", 's', 0, "relu"}}};
    made_write(source, &made);
    hearth_token tokens[200];
    for (int i = 0; i < 200; i++)
        tokens[i] = i * 7 % MADE_VOCAB;
    const struct hearth_profile_params params = {.n_threads = 1};
    struct hearth_model *m = open_model(source, false);
    MADE_OK(hearth_profile(m, tokens, 200, &params, profiled, NULL, &err));
    hearth_model_close(&m);
    MADE_OK(pack_to(packed, NULL, NULL));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unsound),     cmocka_unit_test(test_lies),
        cmocka_unit_test(test_magnitudes),  cmocka_unit_test(test_flips),
        cmocka_unit_test(test_truncated),   cmocka_unit_test(test_damaged_profile),
        cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_killed),      cmocka_unit_test(test_killed_at_any_time),
        cmocka_unit_test(test_two_at_once), cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
