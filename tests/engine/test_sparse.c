// SPDX-License-Identifier: MIT
// Sparse models: PowerInfer's files (tests/golden/pwri) against an independent forward pass, with all neurons
// and with those that the predictors name; and against themselves: exact gives the bytes of off, and
// nothing but file, mode and tokens matters.
#include "check.h"

#include <unistd.h>

#include "base/cpu.h"
#include "engine/session.h"
#include "golden_models.h"
#include "sparse/space.h"
#include "sparse/trace.h"

#define GOLDEN_PWRI HEARTH_SOURCE_DIR "/tests/golden/pwri/"

static const char *const files[] = {"llama.F16",   "llama.Q4_0", "bamboo.F16", "bamboo.Q4_0", "falcon.F16",
                                    "falcon.Q4_0", "opt.F16",    "opt.Q4_0",   "experts.Q4_0"};
#define N_FILES (sizeof files / sizeof files[0])

static const enum hearth_sparsity modes[] = {HEARTH_SPARSITY_OFF, HEARTH_SPARSITY_EXACT,
                                             HEARTH_SPARSITY_PREDICT};
static const char *const mode_names[] = {"off", "exact", "predict"};

// What the reference says with all neurons and with the predicted ones.
struct sparse_golden {
    char path[512];
    struct golden dense, predict;
    size_t bytes; // of all logits
};

static void read_pwri(struct sparse_golden *g, const char *name)
{
    char which[60];
    snprintf(g->path, sizeof g->path, GOLDEN_PWRI "%s.gguf", name);
    snprintf(which, sizeof which, "../pwri/%s.dense", name);
    assert_true(golden_read(&g->dense, which));
    snprintf(which, sizeof which, "../pwri/%s.predict", name);
    assert_true(golden_read(&g->predict, which));
    g->bytes = (size_t)g->dense.n_tokens * g->dense.n_vocab * sizeof(float);
}

static void free_pwri(struct sparse_golden *g)
{
    golden_free(&g->dense);
    golden_free(&g->predict);
}

static struct hearth_model *open_model(const char *path, const char *cpu)
{
    struct hearth_model *m = NULL;
    struct hearth_model_params p = hearth_model_params_default();
    p.cpu = cpu;
    CHECK(hearth_model_open(&m, path, &p, &check_error));
    return m;
}

static struct hearth_session_params params_of(enum hearth_sparsity mode, int n_threads)
{
    struct hearth_session_params p = hearth_session_params_default();
    p.sparsity = mode;
    p.n_threads = n_threads;
    p.type_k = p.type_v = HEARTH_KV_F32;
    return p;
}

static bool keep_row(void *arg, int index, const float *logits)
{
    struct sparse_golden *const *g = arg;
    memcpy((float *)(void *)g[1] + (size_t)index * g[0]->dense.n_vocab, logits,
           g[0]->dense.n_vocab * sizeof *logits);
    return true;
}

// Logits of all of the golden's tokens, malloc'ed.
static float *evaluate(const struct hearth_model *m, struct sparse_golden *g, enum hearth_phase phase,
                       struct hearth_session_params p)
{
    const struct golden *d = &g->dense;
    float *out = malloc(g->bytes);
    struct hearth_session *s = NULL;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    int seq = hearth_seq_new(s, NULL);
    void *arg[2] = {g, out};
    if (phase == HEARTH_PHASE_PROMPT)
        CHECK(hearth_prompt(s, seq, d->ids, (int)d->n_tokens, keep_row, arg, &check_error));
    else
        for (uint32_t i = 0; i < d->n_tokens; i++) {
            CHECK(hearth_step(s, &seq, &d->ids[i], 1, &check_error));
            keep_row(arg, (int)i, hearth_logits(s, 0));
        }
    hearth_session_close(&s);
    return out;
}

// ---- against the reference

static void test_reference(void **state)
{
    (void)state;
    for (size_t f = 0; f < N_FILES; f++) {
        struct sparse_golden g;
        read_pwri(&g, files[f]);
        struct hearth_model *m = open_model(g.path, NULL);
        // Prompts meet 4-bit weights with 8-bit activations, steps with 15-bit ones.
        const bool plain = strstr(files[f], "F16") != NULL;
        const double bars[2] = {plain ? 1e-5 : 4e-2, plain ? 1e-5 : 3e-4};
        for (int mode = 0; mode < 3; mode++)
            for (int phase = 0; phase < 2; phase++) {
                // Prompts are dense in every mode.
                const bool masked = modes[mode] == HEARTH_SPARSITY_PREDICT && phase == HEARTH_PHASE_STEP;
                const float *want = masked ? g.predict.original : g.dense.original;
                float *out = evaluate(m, &g, (enum hearth_phase)phase, params_of(modes[mode], 2));
                const double error = relative_l2(out, want, g.bytes / sizeof(float));
                printf("%-12s %-7s %-6s relative L2 %.2e\n", files[f], mode_names[mode],
                       phase ? "step" : "prompt", error);
                assert_true(error < bars[phase]);
                free(out);
            }
        hearth_model_close(&m);
        free_pwri(&g);
    }
}

// Without predictors' threshold all neurons are computed; with one that nothing reaches, none.
static void test_thresholds(void **state)
{
    (void)state;
    for (size_t f = 0; f < N_FILES; f++) {
        struct sparse_golden g;
        read_pwri(&g, files[f]);
        struct hearth_model *m = open_model(g.path, NULL);
        float *off = evaluate(m, &g, HEARTH_PHASE_STEP, params_of(HEARTH_SPARSITY_OFF, 2));
        float *file = evaluate(m, &g, HEARTH_PHASE_STEP, params_of(HEARTH_SPARSITY_PREDICT, 2));
        struct hearth_session_params p = params_of(HEARTH_SPARSITY_PREDICT, 2);
        p.predict_threshold = -1e30f;
        float *all = evaluate(m, &g, HEARTH_PHASE_STEP, p);
        assert_memory_equal(all, off, g.bytes);
        p.predict_threshold = 1e30f;
        float *none = evaluate(m, &g, HEARTH_PHASE_STEP, p);
        assert_memory_not_equal(none, off, g.bytes);
        assert_memory_not_equal(none, file, g.bytes);
        p.predict_threshold = m->hp.predict_threshold;
        float *same = evaluate(m, &g, HEARTH_PHASE_STEP, p);
        assert_memory_equal(same, file, g.bytes);
        float *automatic = evaluate(m, &g, HEARTH_PHASE_STEP, params_of(HEARTH_SPARSITY_AUTO, 2));
        assert_memory_equal(automatic, file, g.bytes);
        free(off);
        free(file);
        free(all);
        free(none);
        free(same);
        free(automatic);
        hearth_model_close(&m);
        free_pwri(&g);
    }
}

// ---- against themselves

static void test_exact_is_off(void **state)
{
    (void)state;
    for (size_t f = 0; f < N_FILES; f++) {
        struct sparse_golden g;
        read_pwri(&g, files[f]);
        struct hearth_model *m = open_model(g.path, NULL);
        float *off = evaluate(m, &g, HEARTH_PHASE_STEP, params_of(HEARTH_SPARSITY_OFF, 2));
        float *exact = evaluate(m, &g, HEARTH_PHASE_STEP, params_of(HEARTH_SPARSITY_EXACT, 2));
        assert_memory_equal(exact, off, g.bytes);
        free(off);
        free(exact);
        hearth_model_close(&m);
        free_pwri(&g);
    }
}

static void test_threads_and_levels(void **state)
{
    (void)state;
    for (size_t f = 0; f < N_FILES; f++) {
        struct sparse_golden g;
        read_pwri(&g, files[f]);
        float *want[3][2] = {{NULL}};
        for (size_t l = 0; hearth_cpu_level(l); l++) {
            unsigned flags;
            if (!hearth_cpu_limit(hearth_cpu_level(l), &flags))
                continue;
            struct hearth_model *m = open_model(g.path, hearth_cpu_level(l));
            const int threads[] = {1, 2, 3, 8};
            for (int mode = 0; mode < 3; mode++)
                for (int phase = 0; phase < 2; phase++)
                    for (size_t t = 0; t < 4; t++) {
                        float *out =
                            evaluate(m, &g, (enum hearth_phase)phase, params_of(modes[mode], threads[t]));
                        if (!want[mode][phase]) {
                            want[mode][phase] = out;
                            continue;
                        }
                        assert_memory_equal(out, want[mode][phase], g.bytes);
                        free(out);
                    }
            hearth_model_close(&m);
        }
        for (int mode = 0; mode < 3; mode++)
            for (int phase = 0; phase < 2; phase++)
                free(want[mode][phase]);
        free_pwri(&g);
    }
}

// More sequences in a step than go through a layer together (HEARTH_SPARSE_ROWS), each at another token.
static void test_batch_mates(void **state)
{
    (void)state;
    enum { MATES = 19, MINE = 17 };
    for (size_t f = 0; f < N_FILES; f++)
        for (int mode = 0; mode < 3; mode++) {
            struct sparse_golden g;
            read_pwri(&g, files[f]);
            const struct golden *d = &g.dense;
            struct hearth_model *m = open_model(g.path, NULL);
            struct hearth_session_params p = params_of(modes[mode], 2);
            float *want = evaluate(m, &g, HEARTH_PHASE_STEP, p);
            struct hearth_session *s = NULL;
            p.max_seqs = MATES;
            CHECK(hearth_session_open(&s, m, &p, &check_error));
            int seqs[MATES];
            for (int i = 0; i < MATES; i++)
                seqs[i] = hearth_seq_new(s, NULL);
            for (uint32_t t = 0; t < d->n_tokens; t++) {
                hearth_token tokens[MATES];
                for (int i = 0; i < MATES; i++)
                    tokens[i] =
                        i == MINE ? d->ids[t] : (hearth_token)((t * 13 + (uint32_t)i * 7) % d->n_vocab);
                // The number of mates changes from step to step.
                const int n = MINE + 1 + (int)(t % 2);
                CHECK(hearth_step(s, seqs, tokens, n, &check_error));
                assert_memory_equal(hearth_logits(s, MINE), want + (size_t)t * d->n_vocab,
                                    d->n_vocab * sizeof *want);
            }
            free(want);
            hearth_session_close(&s);
            hearth_model_close(&m);
            free_pwri(&g);
        }
}

// Leaving out by magnitude: nothing at first, more and more as the threshold rises; and it is not for every
// mode.
static void test_magnitude(void **state)
{
    (void)state;
    struct golden g;
    assert_true(golden_read(&g, "mistral-gqa.Q4_0"));
    struct hearth_model *m = open_model(g.path, NULL);
    struct sparse_golden sg = {.dense = g, .bytes = (size_t)g.n_tokens * g.n_vocab * sizeof(float)};
    float *off = evaluate(m, &sg, HEARTH_PHASE_STEP, params_of(HEARTH_SPARSITY_AUTO, 2));
    double last = 0;
    const float thresholds[] = {1e-30f, 1e-3f, 0.05f, 0.5f};
    for (int i = 0; i < 4; i++) {
        struct hearth_session_params p = params_of(HEARTH_SPARSITY_AUTO, 2);
        p.sparsity_threshold = thresholds[i];
        float *out = evaluate(m, &sg, HEARTH_PHASE_STEP, p);
        const double error = relative_l2(out, off, sg.bytes / sizeof(float));
        printf("sparsity threshold %g: relative L2 %.2e\n", (double)thresholds[i], error);
        assert_true(i == 0 ? error == 0 : error > last);
        last = error;
        free(out);
    }
    assert_true(last > 1e-2);
    struct hearth_session *s = NULL;
    struct hearth_error err = {0};
    struct hearth_session_params p = params_of(HEARTH_SPARSITY_OFF, 1);
    p.sparsity_threshold = 0.1f;
    assert_int_equal(hearth_session_open(&s, m, &p, &err), HEARTH_E_INVALID);
    p = params_of(HEARTH_SPARSITY_PREDICT, 1);
    assert_int_equal(hearth_session_open(&s, m, &p, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "no predictors"));
    p = params_of(HEARTH_SPARSITY_EXACT, 1);
    p.sparsity_threshold = -1.0f;
    assert_int_equal(hearth_session_open(&s, m, &p, &err), HEARTH_E_INVALID);
    p.sparsity_threshold = NAN;
    assert_int_equal(hearth_session_open(&s, m, &p, &err), HEARTH_E_INVALID);
    free(off);
    hearth_model_close(&m);
    golden_free(&g);
}

// PowerInfer's list of what goes to a GPU may lie beside the model; it is not read.
static void test_gpu_index(void **state)
{
    (void)state;
    struct sparse_golden g;
    read_pwri(&g, "bamboo.Q4_0");
    struct hearth_model *m = open_model(g.path, NULL);
    float *want = evaluate(m, &g, HEARTH_PHASE_STEP, params_of(HEARTH_SPARSITY_AUTO, 2));
    hearth_model_close(&m);
    char data[4096];
    const char *path = in_folder("model.gguf"), *index = in_folder("model.gguf.generated.gpuidx");
    FILE *from = fopen(g.path, "rb"), *to = fopen(path, "wb"), *beside = fopen(index, "wb");
    assert_true(from && to && beside);
    for (size_t n; (n = fread(data, 1, sizeof data, from)) > 0;)
        assert_int_equal(fwrite(data, 1, n, to), n);
    assert_true(fputs("PWRI and nonsense", beside) >= 0);
    fclose(from);
    fclose(to);
    fclose(beside);
    m = open_model(path, NULL);
    float *got = evaluate(m, &g, HEARTH_PHASE_STEP, params_of(HEARTH_SPARSITY_AUTO, 2));
    assert_memory_equal(got, want, g.bytes);
    free(got);
    free(want);
    hearth_model_close(&m);
    unlink(path);
    unlink(index);
    free_pwri(&g);
}

static void test_clusters(void **state)
{
    (void)state;
    const size_t f[] = {1, 320, 448, 449, 928, 1056, 1536, 3136, 3137, 14336, 14337, 28672, 100000};
    const size_t size[] = {448, 448, 448, 240, 240, 272, 384, 400, 448, 448, 464, 896, 3136};
    for (size_t i = 0; i < sizeof f / sizeof f[0]; i++) {
        assert_int_equal(hearth_cluster_size(f[i]), size[i]);
        assert_true(hearth_cluster_count(f[i]) <= HEARTH_CLUSTERS);
        assert_true(hearth_cluster_count(f[i]) * size[i] >= f[i]);
        assert_true((hearth_cluster_count(f[i]) - 1) * size[i] < f[i]);
    }
    // Of two widths, the narrower one may have the larger clusters.
    assert_int_equal(hearth_largest_cluster(&(struct hearth_hparams){.n_ff = 1344, .n_ff_narrow = 896}), 448);
    assert_int_equal(hearth_largest_cluster(&(struct hearth_hparams){.n_ff = 28672, .n_ff_narrow = 14336}),
                     896);
    assert_int_equal(hearth_largest_cluster(&(struct hearth_hparams){.n_ff = 1344}), 336);
    assert_int_equal(
        hearth_largest_cluster(&(struct hearth_hparams){.n_ff = 9000, .n_expert = 8, .n_ff_exp = 928}), 240);
}

// ---- traces

#define TRACED_STEPS 4
#define TRACED_SEQS  3

// The neurons that were active for some token of a step, space by space.
struct active {
    const struct hearth_model *m;
    uint8_t *marks, *visited; // [spaces x F], [spaces]
    size_t f, x;
};

static void mark(void *arg, int layer, int expert, struct hearth_row row, const float *act)
{
    (void)row;
    struct active *a = arg;
    const size_t space = (size_t)layer * a->x + (size_t)expert;
    a->visited[space] = 1;
    for (size_t j = 0; j < a->f; j++)
        a->marks[space * a->f + j] |= act[j] != 0.0f;
}

// Holds one step's sets against what was active: the same, or (predicted) at least that and not all.
static void check_step(const struct hearth_trace *t, uint32_t step, const struct active *a, bool predicted)
{
    uint64_t first, computed = 0;
    uint32_t n_sets, n, at = 0, *ids = malloc(a->f * sizeof *ids);
    const uint32_t n_spaces = hearth_trace_info(t)->n_spaces;
    uint8_t *in_trace = malloc(a->f);
    assert_int_equal(hearth_trace_step_at(t, step, &first, &n_sets), TRACED_SEQS);
    for (uint32_t space = 0; space < n_spaces; space++) {
        if (!a->visited[space])
            continue;
        assert_true(at < n_sets);
        assert_int_equal(hearth_trace_set_at(t, first + at, &n), space);
        hearth_trace_ids(t, first + at++, ids);
        memset(in_trace, 0, a->f);
        for (uint32_t i = 0; i < n; i++)
            in_trace[ids[i]] = 1;
        computed += n;
        for (size_t j = 0; j < a->f; j++)
            if (predicted)
                assert_true(in_trace[j] >= a->marks[space * a->f + j]);
            else
                assert_int_equal(in_trace[j], a->marks[space * a->f + j]);
    }
    assert_int_equal(at, n_sets);
    assert_true(computed > 0 && computed < (uint64_t)n_sets * a->f);
    free(in_trace);
    free(ids);
}

static void trace_one(const char *name, enum hearth_sparsity mode)
{
    char gguf[512];
    const char *path = in_folder("trace");
    snprintf(gguf, sizeof gguf, GOLDEN_PWRI "%s.gguf", name);
    struct hearth_model *m = open_model(gguf, NULL);
    const struct hearth_hparams *hp = &m->hp;
    struct hearth_session_params p = params_of(mode, 2);
    p.max_seqs = TRACED_SEQS;
    struct hearth_session *s = NULL;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    struct active a = {.m = m,
                       .f = (size_t)(hp->n_expert ? hp->n_ff_exp : hp->n_ff),
                       .x = (size_t)(hp->n_expert ? hp->n_expert : 1)};
    const size_t spaces = (size_t)hp->n_layer * a.x;
    uint8_t *marks = calloc(TRACED_STEPS, spaces * a.f), *visited = calloc(TRACED_STEPS, spaces);
    hearth_session_probes(s)->on_neurons = mark;
    hearth_session_probes(s)->on_neurons_arg = &a;
    int seqs[TRACED_SEQS];
    for (int i = 0; i < TRACED_SEQS; i++)
        seqs[i] = hearth_seq_new(s, NULL);
    CHECK(hearth_session_trace(s, path, &check_error));
    assert_int_equal(hearth_session_trace(s, path, NULL), HEARTH_E_INVALID);
    for (size_t i = 0; i < TRACED_STEPS; i++) {
        const hearth_token tokens[] = {(hearth_token)(3 + i), (hearth_token)(40 + 7 * i),
                                       (hearth_token)(90 - i)};
        a.marks = marks + i * spaces * a.f;
        a.visited = visited + i * spaces;
        CHECK(hearth_step(s, seqs, tokens, TRACED_SEQS, &check_error));
    }
    CHECK(hearth_session_trace_end(s, &check_error));
    hearth_session_close(&s);

    struct hearth_trace *t = NULL;
    CHECK(hearth_trace_open(&t, path, &check_error));
    assert_int_equal(hearth_trace_info(t)->active, mode != HEARTH_SPARSITY_PREDICT);
    assert_int_equal(hearth_trace_info(t)->n_spaces, spaces);
    assert_true(hearth_trace_info(t)->spaces[0].bundle_bytes > 0);
    assert_int_equal(hearth_trace_n_steps(t), TRACED_STEPS);
    for (uint32_t i = 0; i < TRACED_STEPS; i++) {
        a.marks = marks + i * spaces * a.f;
        a.visited = visited + i * spaces;
        check_step(t, i, &a, mode == HEARTH_SPARSITY_PREDICT);
    }
    hearth_trace_close(&t);
    free(marks);
    free(visited);
    hearth_model_close(&m);
    unlink(path);
}

static void test_traces(void **state)
{
    (void)state;
    for (size_t f = 0; f < N_FILES; f++) {
        trace_one(files[f], HEARTH_SPARSITY_EXACT);
        trace_one(files[f], HEARTH_SPARSITY_PREDICT);
    }
    // Without spaces there is no trace, and without an end no file.
    struct hearth_model *m = open_model(HEARTH_SOURCE_DIR "/tests/golden/models/llama-mha.F32.gguf", NULL);
    struct hearth_session_params p = params_of(HEARTH_SPARSITY_AUTO, 1);
    struct hearth_session *s = NULL;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    const char *none = in_folder("none");
    assert_int_equal(hearth_session_trace(s, none, NULL), HEARTH_E_INVALID);
    assert_int_equal(hearth_session_trace_end(s, NULL), HEARTH_OK);
    hearth_session_close(&s);
    p.sparsity_threshold = 0.01f;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    CHECK(hearth_session_trace(s, none, &check_error));
    hearth_session_close(&s);
    assert_int_equal(access(none, F_OK), -1);
    hearth_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clusters),    cmocka_unit_test(test_reference),
        cmocka_unit_test(test_thresholds),  cmocka_unit_test(test_exact_is_off),
        cmocka_unit_test(test_magnitude),   cmocka_unit_test(test_threads_and_levels),
        cmocka_unit_test(test_batch_mates), cmocka_unit_test(test_gpu_index),
        cmocka_unit_test(test_traces),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
