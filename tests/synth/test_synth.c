// SPDX-License-Identifier: MIT
// Synthetic models: the statistics that are planted in them show when they run, in every layer, sampled and
// greedy; and the files themselves.
#include "check.h"

#include <unistd.h>

#include "synth/synth.h"
#include "gguf/checksums.h"
#include "model/pack.h"
#include "synth_stats.h"

static char path[512], other[512];

static int set_up(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(path, sizeof path, "%s", in_folder("model.gguf"));
    snprintf(other, sizeof other, "%s", in_folder("other.gguf"));
    return 0;
}

static void make_with(const char *preset, const char *to, uint64_t seed, int n_threads, bool early,
                      bool drift)
{
    const struct hearth_synth_params p = {
        .seed = seed, .n_threads = n_threads, .early_predictors = early, .drift = drift};
    CHECK(hearth_synth(preset, to, &p, &check_error));
}

static void make(const char *preset, const char *to, uint64_t seed, int n_threads)
{
    make_with(preset, to, seed, n_threads, false, false);
}

// ---- statistics

struct range {
    double low, high; // both 0: not looked at
};

struct expected {
    const char *preset;
    bool early; // predictors look at the layer before
    bool drift;
    struct range gate, active, top20, top50, first20, jaccard, in_union, first_repeats, expert_hits;
    struct range found, in_vain; // in all layers but the first
    double missed, idle;         // at most
};

static const struct expected expected[] = {
    {.preset = "tiny-turbosparse",
     .gate = {0.09, 0.12},
     .active = {0.09, 0.11},
     .top20 = {0.65, 0.80},
     .top50 = {0.88, 0.98},
     .jaccard = {0.30, 0.40},
     .in_union = {0.67, 0.80},
     .found = {0.85, 0.93},
     .in_vain = {0.10, 0.15},
     .missed = 0.06,
     .idle = 0.11},
    {.preset = "tiny-turbosparse", .early = true, .missed = 0.14, .idle = 0.16},
    {.preset = "tiny-turbosparse-moe",
     .gate = {0.14, 0.18},
     .active = {0.14, 0.16},
     .top20 = {0.63, 0.80},
     .top50 = {0.88, 0.98},
     .first_repeats = {0.20, 0.30},
     .missed = 0.06,
     .idle = 0.11},
    {.preset = "tiny-turbosparse-pack",
     .gate = {0.14, 0.18},
     .active = {0.14, 0.16},
     .top20 = {0.63, 0.80},
     .top50 = {0.88, 0.98},
     .first20 = {0.60, 0.80},
     .first_repeats = {0.20, 0.30},
     .missed = 0.06,
     .idle = 0.11},
    {.preset = "tiny-relullama",
     .gate = {0.28, 0.33},
     .active = {0.28, 0.33},
     .top20 = {0.40, 0.55},
     .top50 = {0.73, 0.85},
     .missed = 0.05,
     .idle = 0.05},
    {.preset = "tiny-opt",
     .active = {0.03, 0.05},
     .top20 = {0.72, 0.85},
     .top50 = {0.94, 0.99},
     .missed = 0.09,
     .idle = 0.15},
    {.preset = "tiny-falcon",
     .active = {0.045, 0.065},
     .top20 = {0.70, 0.85},
     .top50 = {0.93, 0.99},
     .missed = 0.10,
     .idle = 0.10},
    {.preset = "tiny-qwen3-moe", .expert_hits = {0.70, 0.78}},
    {.preset = "tiny-gemma-4-moe", .expert_hits = {0.60, 0.75}},
    {.preset = "tiny-qwen3.8", .expert_hits = {0.50, 0.75}},
    {.preset = "tiny-turbosparse",
     .drift = true,
     .gate = {0.09, 0.12},
     .active = {0.09, 0.11},
     .top20 = {0.65, 0.80},
     .top50 = {0.88, 0.98},
     .jaccard = {0.12, 0.16},
     .in_union = {0.67, 0.80},
     .found = {0.56, 0.67},
     .in_vain = {0.42, 0.52},
     .missed = 0.07,
     .idle = 0.11},
    {.preset = "tiny-turbosparse-moe",
     .drift = true,
     .gate = {0.14, 0.18},
     .active = {0.14, 0.16},
     .top20 = {0.63, 0.80},
     .top50 = {0.88, 0.98},
     .first_repeats = {0.18, 0.30},
     .missed = 0.06,
     .idle = 0.11},
    {.preset = "tiny-turbosparse-pack",
     .drift = true,
     .gate = {0.14, 0.18},
     .active = {0.14, 0.16},
     .top20 = {0.63, 0.80},
     .top50 = {0.88, 0.98},
     .first20 = {0.60, 0.80},
     .first_repeats = {0.18, 0.30},
     .missed = 0.06,
     .idle = 0.11},
    {.preset = "tiny-relullama",
     .drift = true,
     .gate = {0.28, 0.33},
     .active = {0.28, 0.33},
     .top20 = {0.40, 0.55},
     .top50 = {0.73, 0.85},
     .jaccard = {0.23, 0.31},
     .found = {0.61, 0.72},
     .in_vain = {0.20, 0.27},
     .missed = 0.05,
     .idle = 0.05},
    {.preset = "tiny-opt",
     .drift = true,
     .active = {0.03, 0.05},
     .top20 = {0.72, 0.85},
     .top50 = {0.94, 0.99},
     .jaccard = {0.05, 0.09},
     .found = {0.46, 0.56},
     .in_vain = {0.50, 0.62},
     .missed = 0.13,
     .idle = 0.22},
    {.preset = "tiny-falcon",
     .drift = true,
     .active = {0.045, 0.065},
     .top20 = {0.67, 0.85},
     .top50 = {0.91, 0.99},
     .jaccard = {0.07, 0.11},
     .found = {0.44, 0.56},
     .in_vain = {0.47, 0.56},
     .missed = 0.10,
     .idle = 0.10},
};

static void within(const char *preset, int layer, const char *what, double value, struct range r)
{
    if (r.high > 0 && !(value >= r.low && value <= r.high))
        fail_msg("%s, layer %d: %s is %.4f, not in %.3f..%.3f", preset, layer, what, value, r.low, r.high);
}

static void measure(const struct expected *e, const struct hearth_model *m, int n_seqs, int n_steps,
                    float temp)
{
    struct hearth_session_params p = hearth_session_params_default();
    struct hearth_session *s = NULL;
    struct stats st;
    p.max_seqs = n_seqs;
    p.n_ctx = n_steps + 1;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    stats_open(&st, s);
    int different = 0;
    CHECK(different = stats_generate(&st, n_seqs, n_steps, temp, &check_error));
    assert_in_range(different, n_steps / 8, n_steps); // of the second half: no short circle
    for (int i = 0; i < m->hp.n_layer; i++) {
        const struct stats_layer l = stats_of(&st, i);
        within(e->preset, i, "share of gates > 0", l.gate, e->gate);
        within(e->preset, i, "share of active neurons", l.active, e->active);
        within(e->preset, i, "share of the top fifth", l.top20, e->top20);
        within(e->preset, i, "share of the top half", l.top50, e->top50);
        within(e->preset, i, "share of the first fifth", l.first20, e->first20);
        within(e->preset, i, "overlap of consecutive tokens", l.jaccard, e->jaccard);
        within(e->preset, i, "repeats of the first choice", l.first_repeats, e->first_repeats);
        within(e->preset, i, "hits of a quarter of the experts", l.expert_hits, e->expert_hits);
        if (i > 0) {
            within(e->preset, i, "share of active neurons found ahead", l.found, e->found);
            within(e->preset, i, "share of those read ahead in vain", l.in_vain, e->in_vain);
        }
        if (n_seqs == STATS_SEQS)
            within(e->preset, i, "union of the batch", l.in_union, e->in_union);
        if (e->missed > 0) {
            within(e->preset, i, "active but not predicted", l.missed, (struct range){0, e->missed});
            within(e->preset, i, "predicted but not active", l.idle, (struct range){0, e->idle});
        }
    }
    stats_close(&st);
    hearth_session_close(&s);
}

static void test_statistics(void **state)
{
    const struct expected *e = *state;
    if (SANITIZED) // the same numbers, in minutes
        skip();
    const struct hearth_model_params p = hearth_model_params_default();
    struct hearth_model *m = NULL;
    make_with(e->preset, path, 1, 0, e->early, e->drift);
    CHECK(hearth_model_open(&m, path, &p, &check_error));
    measure(e, m, STATS_SEQS, e->drift ? 40 : 60, 0.8f);
    measure(e, m, 1, e->drift ? 200 : 1500, 0.0f);
    hearth_model_close(&m);
}

// ---- files

static uint8_t *slurp(const char *from, size_t *size)
{
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

static bool same_files(void)
{
    size_t a_size, b_size;
    uint8_t *a = slurp(path, &a_size), *b = slurp(other, &b_size);
    const bool same = a_size == b_size && !memcmp(a, b, a_size);
    free(a);
    free(b);
    return same;
}

static void test_bytes(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny-dense", "tiny-turbosparse", "tiny-turbosparse-moe",
                                          "tiny-turbosparse-pack", "tiny-opt"};
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        for (int drift = 0; drift <= (i > 0); drift++) {
            make_with(presets[i], path, 1, 1, false, drift);
            make_with(presets[i], other, 1, 3, false, drift);
            assert_true(same_files());
            make_with(presets[i], other, 2, 1, false, drift);
            assert_false(same_files());
        }
        make(presets[i], other, 1, 1);
        assert_int_equal(same_files(), i == 0);
    }
}

// What a stream that drifts has in place of another: values, not shapes.
static void test_drift(void **state)
{
    (void)state;
    struct hearth_gguf *steady = NULL, *drifting = NULL;
    make("tiny-opt", path, 1, 0);
    make_with("tiny-opt", other, 1, 0, false, true);
    CHECK(hearth_gguf_open(&steady, path, &check_error));
    CHECK(hearth_gguf_open(&drifting, other, &check_error));
    assert_int_equal(hearth_gguf_n_tensors(steady), hearth_gguf_n_tensors(drifting));
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(steady); i++) {
        const struct hearth_gguf_tensor *a = hearth_gguf_tensor_at(steady, i);
        const struct hearth_gguf_tensor *b = hearth_gguf_tensor_at(drifting, i);
        assert_string_equal(a->name.s, b->name.s);
        assert_int_equal(a->type, b->type);
        assert_memory_equal(a->ne, b->ne, sizeof a->ne);
    }
    hearth_gguf_close(&steady);
    hearth_gguf_close(&drifting);
}

static void test_container(void **state)
{
    (void)state;
    struct hearth_gguf *g = NULL;
    make("tiny-relullama", path, 1, 0);
    CHECK(hearth_gguf_open(&g, path, &check_error));
    assert_true(hearth_gguf_is_pwri(g));
    assert_non_null(hearth_gguf_tensor(g, "blk.2.ffn_down_t.weight"));
    hearth_gguf_close(&g);
    make("tiny-turbosparse", path, 1, 0);
    CHECK(hearth_gguf_open(&g, path, &check_error));
    assert_false(hearth_gguf_is_pwri(g));
    assert_int_equal(hearth_gguf_tensor(g, "blk.3.fc1.weight")->ne[1], 96);
    hearth_gguf_close(&g);
}

// Keys that Hearth needs not, but llama.cpp does.
static void test_keys_of_others(void **state)
{
    (void)state;
    struct hearth_gguf *g = NULL;
    make("tiny-qwen3.6", path, 1, 0);
    CHECK(hearth_gguf_open(&g, path, &check_error));
    const struct hearth_gguf_kv *sections = hearth_gguf_find(g, "qwen35moe.rope.dimension_sections");
    assert_non_null(sections);
    assert_int_equal(sections->count, 4);
    hearth_gguf_close(&g);
    make("tiny-qwen3.8", path, 1, 0);
    CHECK(hearth_gguf_open(&g, path, &check_error));
    assert_non_null(hearth_gguf_find(g, "qwen4exp.rope.dimension_sections"));
    assert_int_equal(hearth_gguf_tensor(g, "per_layer_token_embd.weight")->ne[1], 40000);
    hearth_gguf_close(&g);
    make("tiny-glm-5", path, 1, 0);
    CHECK(hearth_gguf_open(&g, path, &check_error));
    const struct hearth_gguf_kv *types = hearth_gguf_find(g, "glm-dsa.attention.indexer.types");
    assert_int_equal(types->count, 6);
    for (int i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.indexer.proj.weight", i);
        assert_int_equal(hearth_gguf_kv_i64(types, (uint64_t)i) != 0, hearth_gguf_tensor(g, name) != NULL);
        assert_int_equal(hearth_gguf_tensor(g, name) != NULL, i < 3);
    }
    hearth_gguf_close(&g);
    make("tiny-gemma-4-moe", path, 1, 0);
    CHECK(hearth_gguf_open(&g, path, &check_error));
    assert_non_null(hearth_gguf_find(g, "gemma4.embedding_length_per_layer_input"));
    hearth_gguf_close(&g);
}

static void test_pack(void **state)
{
    (void)state;
    struct hearth_gguf *g = NULL;
    struct hearth_pack *pack = NULL;
    struct hearth_checksums *sums = NULL;
    make("tiny-turbosparse-pack", path, 1, 0);
    CHECK(hearth_gguf_open(&g, path, &check_error));
    assert_true(hearth_gguf_is_pack(g));
    CHECK(hearth_pack_open(&pack, g, &check_error));
    assert_int_equal(pack->n_expert, 8);
    CHECK(hearth_checksums_open(&sums, g, &check_error));
    assert_non_null(sums);
    CHECK(hearth_checksums_verify(sums, 2, NULL, NULL, &check_error));
    hearth_checksums_close(&sums);
    hearth_pack_close(&pack);
    hearth_gguf_close(&g);
}

static bool stop_halfway(void *arg, uint64_t done, uint64_t total)
{
    (void)arg;
    return done < total / 2;
}

static void test_errors(void **state)
{
    (void)state;
    struct hearth_error err = {0};
    const struct hearth_synth_params p = {.seed = 1, .progress = stop_halfway};
    unlink(path);
    assert_int_equal(hearth_synth("no-such-preset", path, &p, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_synth("tiny-turbosparse", path, &p, &err), HEARTH_E_INTERRUPTED);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_true(hearth_synth("tiny-dense", "/no/such/folder/x.gguf", &p, &err) < 0);
    const struct hearth_synth_params drift = {.seed = 1, .drift = true};
    assert_int_equal(hearth_synth("tiny-dense", path, &drift, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "--drift"));
    assert_int_equal(hearth_synth("tiny-qwen3-moe", path, &drift, &err), HEARTH_E_INVALID);
}

static void test_names(void **state)
{
    (void)state;
    const char *what, *name, *before;
    int n = 0;
    for (; (name = hearth_synth_preset(n, &what)) != NULL; n++) {
        assert_true(strlen(what) > 10);
        for (int i = 0; i < n; i++) {
            before = hearth_synth_preset(i, NULL);
            assert_string_not_equal(name, before);
        }
    }
    assert_true(n >= 10);
    assert_null(hearth_synth_preset(-1, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_container),
        cmocka_unit_test(test_keys_of_others),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_errors),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[0]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[1]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[2]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[3]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[4]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[5]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[6]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[7]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[8]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[9]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[10]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[11]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[12]),
        cmocka_unit_test_prestate(test_statistics, (void *)&expected[13]),
    };
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
