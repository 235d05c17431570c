// SPDX-License-Identifier: MIT
// The engine against the reference (golden logits and greedy continuations), and against itself: logits are
// the same bytes for any thread count, micro-batch, batch-mates, sharing of prefixes and CPU level.
#include "check.h"

#include "base/cpu.h"
#include "engine/session.h"
#include "golden_models.h"

// ---- helpers

static struct hearth_model *open_model(const char *path, const char *cpu)
{
    struct hearth_model *m = NULL;
    struct hearth_model_params p = hearth_model_params_default();
    p.cpu = cpu;
    CHECK(hearth_model_open(&m, path, &p, &check_error));
    return m;
}

// Whether a test leaves a golden out of what takes long, where test_bits and test_logits have all: half of them, in an
// emulator four of five. One of at_least is left in at the most. *n_seen: the test's own.
static bool is_left_out(int *n_seen, int at_least)
{
#ifdef HEARTH_EMULATED
    const int step = 5;
#else
    const int step = is_thorough() ? 1 : 2;
#endif
    return (*n_seen)++ % (step > at_least ? step : at_least) != 0;
}

// Of `p`, what is zero takes the default.
static struct hearth_session *open_session(const struct hearth_model *m, struct hearth_session_params p)
{
    struct hearth_session *s = NULL;
    p.size = sizeof p;
    if (!p.n_threads)
        p.n_threads = 2;
    if (!p.max_seqs)
        p.max_seqs = 1;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    return s;
}

struct sink {
    float *rows;
    size_t n_vocab;
    int count;
};

static bool keep_row(void *arg, int index, const float *logits)
{
    struct sink *k = arg;
    assert_int_equal(index, k->count);
    memcpy(k->rows + (size_t)index * k->n_vocab, logits, k->n_vocab * sizeof(float));
    k->count++;
    return true;
}

// Logits of all tokens of the golden in one phase, [n_tokens][n_vocab], malloc'ed.
static float *evaluate(const struct hearth_model *m, const struct golden *g, enum hearth_phase phase,
                       struct hearth_session_params p)
{
    float *out = malloc((size_t)g->n_tokens * g->n_vocab * sizeof(float));
    struct hearth_session *s = open_session(m, p);
    int seq = hearth_seq_new(s, NULL);
    if (phase == HEARTH_PHASE_PROMPT) {
        struct sink sink = {out, g->n_vocab, 0};
        CHECK(hearth_prompt(s, seq, g->ids, (int)g->n_tokens, keep_row, &sink, &check_error));
        assert_int_equal(sink.count, g->n_tokens);
    } else {
        for (uint32_t i = 0; i < g->n_tokens; i++) {
            CHECK(hearth_step(s, &seq, &g->ids[i], 1, &check_error));
            memcpy(out + (size_t)i * g->n_vocab, hearth_logits(s, 0), g->n_vocab * sizeof(float));
        }
    }
    hearth_session_close(&s);
    return out;
}

static size_t bytes_of(const struct golden *g)
{
    return (size_t)g->n_tokens * g->n_vocab * sizeof(float);
}

// ---- against the reference

// Whether prompts meet weights that use 8-bit activations.
static bool rough_prompts(const struct hearth_model *m)
{
    const struct hearth_layer *l = &m->weights.layers[0];
    const struct hearth_weight *w = &l->attn_q, *e = &l->ffn_up_exps;
    return (hearth_type_info(w->type)->unit_elems && hearth_prompt_planes(w->type) == 1) ||
           (hearth_has(e) && hearth_type_info(e->type)->unit_elems && hearth_prompt_planes(e->type) == 1);
}

static void check_logits(const struct golden *g)
{
    struct hearth_model *m = open_model(g->path, NULL);
    assert_int_equal(hearth_model_info(m)->n_vocab, g->n_vocab);
    const size_t n = (size_t)g->n_tokens * g->n_vocab;
    const double allowed = relative_l2(g->decoded, g->original, n) + 1e-3;
    for (int phase = 0; phase < 2; phase++) {
        float *out =
            evaluate(m, g, (enum hearth_phase)phase,
                     (struct hearth_session_params){.type_k = HEARTH_KV_F32, .type_v = HEARTH_KV_F32});
        double exact = relative_l2(out, g->decoded, n), loss = relative_l2(out, g->original, n);
        printf("%-20s %-6s relative L2 %.2e of the decoded weights, %.2e of the original\n", g->name,
               phase ? "step" : "prompt", exact, loss);
        // 15-bit activations keep quantised models within 1e-3 of their own weights, whatever those lost;
        // 8-bit ones, which only 4-bit weights meet, add less than a hundredth to what those lost.
        const bool rough = phase == HEARTH_PHASE_PROMPT && rough_prompts(m);
        assert_true(exact < (g->decoded == g->original ? 1e-4 : rough ? 4e-2 : 1e-3));
        assert_true(loss <= (rough ? 1.01 : 1.0) * allowed);
        free(out);
    }
    hearth_model_close(&m);
}

static void test_logits(void **state)
{
    (void)state;
    assert_true(golden_each(check_logits) >= 14);
}

// Halved precision of the cache must cost little.
static void check_kv_types(const struct golden *g)
{
    struct hearth_model *m = open_model(g->path, NULL);
    const size_t n = (size_t)g->n_tokens * g->n_vocab;
    const enum hearth_kv_type types[] = {HEARTH_KV_F16, HEARTH_KV_Q8_0};
    // Where a router is in doubt, a rounding may change the experts.
    const double slack = m->hp.n_expert ? 10 : 1, bound[] = {2e-3 * slack, 3e-2 * slack};
    for (int i = 0; i < 2; i++) {
        struct hearth_session_params p = hearth_session_params_default();
        p.type_k = p.type_v = types[i];
        p.n_threads = 2;
        struct hearth_session *s = NULL;
        struct hearth_error err = {0};
        bool fits = types[i] == HEARTH_KV_F16 || m->hp.head_dim % 32 == 0;
        if (!fits) {
            assert_int_equal(hearth_session_open(&s, m, &p, &err), HEARTH_E_INVALID);
            assert_non_null(strstr(err.message, "f16"));
            continue;
        }
        float *out = evaluate(m, g, HEARTH_PHASE_STEP, p);
        double error = relative_l2(out, g->decoded, n);
        printf("%-20s %s relative L2 %.2e\n", g->name, i ? "q8_0" : "f16 ", error);
        assert_true(error < bound[i]);
        free(out);
    }
    hearth_model_close(&m);
}

static void test_kv_types(void **state)
{
    (void)state;
    golden_each(check_kv_types);
}

static int greedy_of(const float *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void check_greedy(const struct golden *g)
{
    char path[512], prompt[256], ids_text[2048], want_text[2048];
    snprintf(path, sizeof path, GOLDEN_MODELS "%s.greedy", g->name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(prompt, sizeof prompt, f));
    assert_non_null(fgets(ids_text, sizeof ids_text, f));
    assert_non_null(fgets(want_text, sizeof want_text, f));
    fclose(f);
    prompt[strcspn(prompt, "\n")] = '\0';

    struct hearth_model *m = open_model(g->path, NULL);
    hearth_token ids[256];
    int n = (int)hearth_tokenize(m, prompt, strlen(prompt), HEARTH_TOKENIZE_BOS, ids, 256, NULL);
    char *at = ids_text;
    for (int i = 0; i < n; i++)
        assert_int_equal(ids[i], strtol(at, &at, 10));
    assert_int_equal(strspn(at, " \n"), strlen(at));

    struct hearth_session *s =
        open_session(m, (struct hearth_session_params){.type_k = HEARTH_KV_F32, .type_v = HEARTH_KV_F32});
    int seq = hearth_seq_new(s, NULL);
    CHECK(hearth_prompt(s, seq, ids, n, NULL, NULL, &check_error));
    at = want_text;
    for (char *end; strtol(at, &end, 10), end != at;) {
        hearth_token want = (hearth_token)strtol(at, &at, 10);
        assert_int_equal(greedy_of(hearth_logits(s, 0), (int)g->n_vocab), want);
        CHECK(hearth_step(s, &seq, &want, 1, &check_error));
    }
    hearth_session_close(&s);
    hearth_model_close(&m);
}

static void test_greedy(void **state)
{
    (void)state;
    golden_each(check_greedy);
}

// ---- experts

// What the reference chose: lines of a layer, a token's place and the ids, ascending.
struct expert_lines {
    const struct golden *g;
    FILE *f;
    int *ids; // [n_layer][n_tokens][n_used] of all layers; those without experts have none
    const struct hearth_hparams *hp;
    int n_layer, n_used, seen, different;
};

static void compare_experts(void *arg, int layer, struct hearth_row row, const int *ids, const float *weights,
                            int n)
{
    (void)weights;
    struct expert_lines *e = arg;
    assert_int_equal(n, e->n_used);
    const int *want = e->ids + ((size_t)layer * e->g->n_tokens + (size_t)row.pos) * (size_t)n;
    e->different += memcmp(ids, want, (size_t)n * sizeof *ids) != 0;
    e->seen++;
}

static void read_experts(struct expert_lines *e)
{
    const size_t n = (size_t)e->n_layer * e->g->n_tokens * (size_t)e->n_used;
    e->ids = malloc(n * sizeof *e->ids);
    for (int layer = 0; layer < e->n_layer; layer++)
        for (int token = 0; token < (int)e->g->n_tokens && hearth_has_experts(e->hp, layer); token++) {
            int at[2];
            assert_int_equal(fscanf(e->f, "%d %d", &at[0], &at[1]), 2);
            assert_true(at[0] == layer && at[1] == token);
            for (int i = 0; i < e->n_used; i++)
                assert_int_equal(
                    fscanf(e->f, "%d",
                           e->ids + ((size_t)layer * e->g->n_tokens + (size_t)token) * (size_t)e->n_used + i),
                    1);
        }
}

static void check_experts(const struct golden *g)
{
    char file[512];
    snprintf(file, sizeof file, GOLDEN_MODELS "%s.experts", g->name);
    struct hearth_model *m = open_model(g->path, NULL);
    int n_layer = 0; // that have experts
    for (int i = 0; i < m->hp.n_layer; i++)
        n_layer += hearth_has_experts(&m->hp, i);
    struct expert_lines e = {g, fopen(file, "r"), NULL, &m->hp, m->hp.n_layer, m->hp.n_expert_used, 0, 0};
    assert_int_equal(e.f != NULL, m->hp.n_expert != 0);
    if (e.f) {
        read_experts(&e);
        fclose(e.f);
        for (int phase = 0; phase < 2; phase++) {
            struct hearth_session *s = open_session(
                m, (struct hearth_session_params){.type_k = HEARTH_KV_F32, .type_v = HEARTH_KV_F32});
            hearth_session_probes(s)->on_experts = compare_experts;
            hearth_session_probes(s)->on_experts_arg = &e;
            int seq = hearth_seq_new(s, NULL);
            e.seen = e.different = 0;
            if (phase == HEARTH_PHASE_PROMPT)
                CHECK(hearth_prompt(s, seq, g->ids, (int)g->n_tokens, NULL, NULL, &check_error));
            else
                for (uint32_t i = 0; i < g->n_tokens; i++)
                    CHECK(hearth_step(s, &seq, &g->ids[i], 1, &check_error));
            assert_int_equal(e.seen, n_layer * (int)g->n_tokens);
            // 8-bit activations may tip a router that is in doubt, now and then.
            const bool rough = phase == HEARTH_PHASE_PROMPT && rough_prompts(m);
            printf("%-20s %-6s %d of %d choices of experts are not the reference's\n", g->name,
                   phase ? "step" : "prompt", e.different, e.seen);
            assert_true(e.different <= (rough ? e.seen / 20 : 0));
            hearth_session_close(&s);
        }
    }
    free(e.ids);
    hearth_model_close(&m);
}

static void test_experts(void **state)
{
    (void)state;
    golden_each(check_experts);
}

// ---- invariance

static void check_threads_and_ubatch(const struct golden *g)
{
    static int n_seen;
    if (is_left_out(&n_seen, 1))
        return;
    struct hearth_model *m = open_model(g->path, NULL);
    float *want[2];
    for (int phase = 0; phase < 2; phase++)
        want[phase] =
            evaluate(m, g, (enum hearth_phase)phase, (struct hearth_session_params){.n_threads = 1});
    const int threads[] = {2, 3, 8};
    for (size_t i = 0; i < 3; i++)
        for (int phase = 0; phase < 2; phase++) {
            float *out = evaluate(m, g, (enum hearth_phase)phase,
                                  (struct hearth_session_params){.n_threads = threads[i]});
            assert_memory_equal(out, want[phase], bytes_of(g));
            free(out);
        }
    const int ubatch[] = {1, 2, 5, 7, 16};
    for (size_t i = 0; i < 5; i++) {
        float *out =
            evaluate(m, g, HEARTH_PHASE_PROMPT, (struct hearth_session_params){.n_ubatch = ubatch[i]});
        assert_memory_equal(out, want[0], bytes_of(g));
        free(out);
    }
    free(want[0]);
    free(want[1]);
    hearth_model_close(&m);
}

static void test_threads_and_ubatch(void **state)
{
    (void)state;
    golden_each(check_threads_and_ubatch);
}

// Several sequences at different positions in one step: each as if alone, shared prefixes included.
static void check_batch_mates(const struct golden *g)
{
    static int n_seen;
    if (is_left_out(&n_seen, 1))
        return;
    struct hearth_model *m = open_model(g->path, NULL);
    const size_t row = (size_t)g->n_vocab * sizeof(float);
    struct hearth_session_params p = {.max_seqs = 5};
    struct hearth_session *s = open_session(m, p);
    const int n = (int)g->n_tokens, half = n / 2;

    // Alone: prompt of `half`, then steps.
    float *alone = malloc((size_t)n * row);
    int seq = hearth_seq_new(s, NULL);
    CHECK(hearth_prompt(s, seq, g->ids, half, NULL, NULL, &check_error));
    for (int i = half; i < n; i++) {
        CHECK(hearth_step(s, &seq, &g->ids[i], 1, &check_error));
        memcpy((char *)alone + (size_t)i * row, hearth_logits(s, 0), row);
    }
    hearth_seq_free(s, seq);

    // The same in a batch: two forks of one prompt and two strangers of other lengths.
    int base = hearth_seq_new(s, NULL);
    CHECK(hearth_prompt(s, base, g->ids, half, NULL, NULL, &check_error));
    int fork = hearth_seq_fork(s, base, half, NULL);
    int stranger[2] = {hearth_seq_new(s, NULL), hearth_seq_new(s, NULL)};
    CHECK(hearth_prompt(s, stranger[0], g->ids, 3, NULL, NULL, &check_error));
    CHECK(hearth_prompt(s, stranger[1], g->ids + 1, 1, NULL, NULL, &check_error));
    for (int i = half; i < n; i++) {
        const int seqs[] = {stranger[0], base, stranger[1], fork};
        const hearth_token tokens[] = {g->ids[n - i], g->ids[i], g->ids[i - half], g->ids[i]};
        CHECK(hearth_step(s, seqs, tokens, 4, &check_error));
        assert_memory_equal(hearth_logits(s, 1), (char *)alone + (size_t)i * row, row);
        assert_memory_equal(hearth_logits(s, 3), (char *)alone + (size_t)i * row, row);
    }

    // Cutting a sequence back and going on gives the same again.
    CHECK(hearth_seq_truncate(s, fork, half, &check_error));
    CHECK(hearth_step(s, &fork, &g->ids[half], 1, &check_error));
    assert_memory_equal(hearth_logits(s, 0), (char *)alone + (size_t)half * row, row);
    free(alone);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

static void test_batch_mates(void **state)
{
    (void)state;
    golden_each(check_batch_mates);
}

static void check_cpu_levels(const struct golden *g)
{
    static int n_seen;
    static size_t turn;
    if (is_left_out(&n_seen, SANITIZED ? 4 : 1))
        return;
    struct hearth_model *m = open_model(g->path, "c");
    float *want[2];
    for (int phase = 0; phase < 2; phase++)
        want[phase] = evaluate(m, g, (enum hearth_phase)phase, (struct hearth_session_params){0});
    hearth_model_close(&m);
    // Each model takes one half of them, the next one the other.
    const bool many = hearth_cpu_level(1) && hearth_cpu_level(2);
    turn++;
    for (size_t i = 1; hearth_cpu_level(i); i++) {
        unsigned flags;
        if ((many && (turn + i) % 2) || !hearth_cpu_limit(hearth_cpu_level(i), &flags))
            continue;
        m = open_model(g->path, hearth_cpu_level(i));
        for (int phase = 0; phase < 2; phase++) {
            float *out = evaluate(m, g, (enum hearth_phase)phase, (struct hearth_session_params){0});
            assert_memory_equal(out, want[phase], bytes_of(g));
            free(out);
        }
        hearth_model_close(&m);
    }
    free(want[0]);
    free(want[1]);
}

static void test_cpu_levels(void **state)
{
    (void)state;
    golden_each(check_cpu_levels);
}

// Sharing pages across many page borders: forks at every kind of place must never see each other's writes.
static void test_long_forks(void **state)
{
    (void)state;
    struct golden g;
    assert_true(golden_read(&g, "relu.Q8_0"));
    struct hearth_model *m = open_model(g.path, NULL);
    enum { N = 200 };
    hearth_token ids[N];
    for (int i = 0; i < N; i++)
        ids[i] = i ? (hearth_token)((i * 37 + 11) % (int)g.n_vocab) : g.ids[0];
    struct hearth_session *s = open_session(m, (struct hearth_session_params){.max_seqs = 3, .n_ctx = 512});
    const size_t row = g.n_vocab * sizeof(float);
    int a = hearth_seq_new(s, NULL);
    CHECK(hearth_prompt(s, a, ids, N, NULL, NULL, &check_error));
    float *want = malloc(row);
    memcpy(want, hearth_logits(s, 0), row);
    const int cuts[] = {1, 63, 64, 65, 127, 128, 199};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        int b = hearth_seq_fork(s, a, cuts[i], NULL);
        int c = hearth_seq_fork(s, a, cuts[i], NULL);
        assert_true(b >= 0 && c >= 0);
        CHECK(hearth_prompt(s, c, ids + 1, 70, NULL, NULL, &check_error)); // writes into its own copy
        CHECK(hearth_prompt(s, b, ids + cuts[i], N - cuts[i], NULL, NULL, &check_error));
        assert_memory_equal(hearth_logits(s, 0), want, row);
        hearth_seq_free(s, b);
        hearth_seq_free(s, c);
    }
    free(want);
    hearth_session_close(&s);
    hearth_model_close(&m);
    golden_free(&g);
}

// ---- limits and misuse

static void test_limits(void **state)
{
    (void)state;
    struct golden g;
    assert_true(golden_read(&g, "drelu.Q8_0"));
    struct hearth_model *m = open_model(g.path, NULL);
    struct hearth_session *s = open_session(m, (struct hearth_session_params){.max_seqs = 2, .n_ctx = 10});
    struct hearth_error err = {0};
    assert_int_equal(hearth_session_n_ctx(s), 10);
    assert_int_equal(hearth_step(s, (int[]){0}, g.ids, 1, &err), HEARTH_E_INVALID);
    int a = hearth_seq_new(s, NULL), b = hearth_seq_new(s, NULL);
    assert_int_equal(hearth_seq_new(s, &err), HEARTH_E_BUDGET);
    assert_int_equal(hearth_prompt(s, a, g.ids, 11, NULL, NULL, &err), HEARTH_E_BUDGET);
    assert_int_equal(hearth_seq_length(s, a), 0);
    CHECK(hearth_prompt(s, a, g.ids, 10, NULL, NULL, &check_error));
    assert_int_equal(hearth_step(s, &a, g.ids, 1, &err), HEARTH_E_BUDGET);
    assert_non_null(strstr(err.message, "n_ctx"));
    assert_int_equal(hearth_step(s, (int[]){b, b}, g.ids, 2, &err), HEARTH_E_INVALID);
    hearth_token bad = (hearth_token)g.n_vocab;
    assert_int_equal(hearth_step(s, &b, &bad, 1, &err), HEARTH_E_INVALID);
    bad = -1;
    assert_int_equal(hearth_prompt(s, b, &bad, 1, NULL, NULL, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_prompt(s, b, g.ids, 0, NULL, NULL, &err), HEARTH_E_INVALID);
    assert_null(hearth_logits(s, 0));
    assert_int_equal(hearth_seq_fork(s, a, 11, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_seq_truncate(s, a, -1, &err), HEARTH_E_INVALID);
    hearth_session_close(&s);

    struct hearth_session_params p = hearth_session_params_default();
    p.max_seqs = 0;
    assert_int_equal(hearth_session_open(&s, m, &p, &err), HEARTH_E_INVALID);
    p = hearth_session_params_default();
    p.type_v = (enum hearth_kv_type)3;
    assert_int_equal(hearth_session_open(&s, m, &p, &err), HEARTH_E_INVALID);
    p = hearth_session_params_default();
    p.sparsity = (enum hearth_sparsity)4;
    assert_int_equal(hearth_session_open(&s, m, &p, &err), HEARTH_E_INVALID);
    p = hearth_session_params_default();
    p.max_seqs = 4096;
    p.n_ctx = 1 << 26;
    assert_true(hearth_session_open(&s, m, &p, &err) < 0);
    assert_null(s);
    hearth_model_close(&m);
    golden_free(&g);
}

// A token whose values in the cache are infinite changes no token before it, though they are computed
// together.
static void test_nothing_from_the_future(void **state)
{
    (void)state;
    struct golden g;
    assert_true(golden_read(&g, "mistral-gqa.BF16"));
    struct hearth_model *m = open_model(g.path, NULL);
    enum { N = 7, BAD = 5 };
    const hearth_token ids[N] = {1, 40, 41, 42, 43, 100, 44};
    // Only token 100 has anything in dimension 0, which the first layer's values have times 1.7e38.
    const uint16_t zero = 0, one = 0x3f80, huge = 0x7f00; // of BF16
    for (int i = 0; i < N; i++)
        memcpy((uint8_t *)(uintptr_t)m->weights.token_embd.data +
                   (size_t)ids[i] * m->weights.token_embd.stride,
               i == BAD ? &one : &zero, sizeof one);
    const struct hearth_weight *v = &m->weights.layers[0].attn_v;
    assert_int_equal(v->type, HEARTH_TYPE_BF16);
    for (size_t r = 0; r < v->n; r++)
        memcpy((uint8_t *)(uintptr_t)v->data + r * v->stride, &huge, sizeof huge);
    for (int type = 0; type < 3; type++) {
        struct hearth_session *s =
            open_session(m, (struct hearth_session_params){.type_k = (enum hearth_kv_type)type,
                                                           .type_v = (enum hearth_kv_type)type});
        float *rows[2];
        for (int i = 0; i < 2; i++) {
            rows[i] = malloc(N * (size_t)g.n_vocab * sizeof(float));
            struct sink sink = {rows[i], g.n_vocab, 0};
            int seq = hearth_seq_new(s, NULL);
            CHECK(hearth_prompt(s, seq, ids, i ? N : BAD, keep_row, &sink, &check_error));
            hearth_seq_free(s, seq);
        }
        assert_true(type == HEARTH_KV_F32 || isnan(rows[1][BAD * g.n_vocab]));
        assert_true(isfinite(rows[0][0]));
        assert_memory_equal(rows[0], rows[1], BAD * (size_t)g.n_vocab * sizeof(float));
        free(rows[0]);
        free(rows[1]);
        hearth_session_close(&s);
    }
    hearth_model_close(&m);
    golden_free(&g);
}

static bool stop_at_two(void *arg, int index, const float *logits)
{
    (void)logits;
    *(int *)arg = index;
    return index < 2;
}

static void test_interrupt(void **state)
{
    (void)state;
    struct golden g;
    assert_true(golden_read(&g, "drelu.Q8_0"));
    struct hearth_model *m = open_model(g.path, NULL);
    struct hearth_session *s = open_session(m, (struct hearth_session_params){0});
    int last = -1, seq = hearth_seq_new(s, NULL);
    assert_int_equal(hearth_prompt(s, seq, g.ids, 8, stop_at_two, &last, NULL), HEARTH_E_INTERRUPTED);
    assert_int_equal(last, 2);
    hearth_session_close(&s);
    hearth_model_close(&m);
    golden_free(&g);
}

// A public model of the llama family, end to end: its greedy text is known.
static void test_stories(void **state)
{
    (void)state;
    char want[1024] = {0}, got[4096];
    FILE *f = fopen(data_path("stories260K.greedy200.txt"), "rb");
    assert_non_null(f);
    size_t want_len = fread(want, 1, sizeof want - 1, f), got_len = 0;
    fclose(f);
    struct hearth_model *m = open_model(data_path("stories260K.gguf"), NULL);
    struct hearth_session *s = open_session(m, (struct hearth_session_params){0});
    struct hearth_stream *stream = NULL;
    CHECK(hearth_stream_open(&stream, m, false, false, &check_error));
    int seq = hearth_seq_new(s, NULL);
    hearth_token token = hearth_token_bos(m);
    const char *text;
    for (int i = 0; i < 200; i++) {
        CHECK(i ? hearth_step(s, &seq, &token, 1, &check_error)
                : hearth_prompt(s, seq, &token, 1, NULL, NULL, &check_error));
        token = greedy_of(hearth_logits(s, 0), hearth_model_info(m)->n_vocab);
        if (hearth_token_is_eog(m, token))
            break;
        size_t n = hearth_stream_push(stream, token, &text);
        memcpy(got + got_len, text, n);
        got_len += n;
    }
    size_t n = hearth_stream_flush(stream, &text);
    memcpy(got + got_len, text, n);
    got_len += n;
    while (want_len && want[want_len - 1] == '\n')
        want_len--;
    assert_int_equal(got_len, want_len);
    assert_memory_equal(got, want, want_len);
    hearth_stream_close(&stream);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

int main(int argc, char **argv)
{
    if (argc > 1) // a pattern such as "test_threads*"
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_kv_types),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_threads_and_ubatch),
        cmocka_unit_test(test_batch_mates),
        cmocka_unit_test(test_cpu_levels),
        cmocka_unit_test(test_long_forks),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_nothing_from_the_future),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_stories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
