// SPDX-License-Identifier: MIT
// Texts that pass a model layer by layer have the bits that hearth_prompt() gives them, whatever the size of
// micro-batches, the number of threads and of windows that pass together, and whether weights and streams are
// in memory or come from files. Profiles are the same files then.
#include "convert/walk.h"

#include "convert/profile.h"
#include "streaming_support.h"

enum { WINDOWS = 5, LONGEST = 40 };

static const struct hearth_window windows[WINDOWS] = {{0, 39}, {39, 1}, {40, 17}, {57, 30}, {87, 3}};

// Sums over what passes, in no order.
struct seen {
    uint64_t rows, neurons;
    uint64_t ffn[64], act[64], gates[64]; // by layer
    const struct hearth_walk *walk;
    size_t window;
    size_t width, n_ff;
};

static uint64_t hash_of(const float *x, size_t n, uint64_t h)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * UINT64_C(0x100000001b3);
    }
    return h;
}

static uint64_t seed_of(const struct seen *s, struct hearth_row row, int expert)
{
    struct hearth_walk_place place = {s->window, 0};
    if (s->walk)
        hearth_walk_row(s->walk, row, &place);
    return (place.window * 1000 + (size_t)row.pos) * 1000 + (size_t)expert + UINT64_C(0xcbf29ce484222325);
}

static void on_ffn(void *arg, enum hearth_phase phase, int layer, struct hearth_row row, const float *normed,
                   const float *stream)
{
    struct seen *s = arg;
    assert_int_equal(phase, HEARTH_PHASE_PROMPT);
    s->rows++;
    s->ffn[layer] += hash_of(stream, s->width, hash_of(normed, s->width, seed_of(s, row, 0)));
}

static void on_neurons(void *arg, int layer, int expert, struct hearth_row row, const float *act)
{
    struct seen *s = arg;
    s->neurons++;
    s->act[layer] += hash_of(act, s->n_ff, seed_of(s, row, expert));
}

static void on_gates(void *arg, int layer, int expert, struct hearth_row row, const float *gates)
{
    struct seen *s = arg;
    s->gates[layer] += hash_of(gates, s->n_ff, seed_of(s, row, expert));
}

static void watch(struct hearth_session *session, const struct hearth_model *m, struct seen *s)
{
    struct hearth_probes *p = hearth_session_probes(session);
    s->width = (size_t)m->hp.n_embd;
    s->n_ff = (size_t)(m->hp.n_expert ? m->hp.n_ff_exp : m->hp.n_ff);
    p->on_ffn = on_ffn;
    p->on_neurons = on_neurons;
    p->on_gates = on_gates;
    p->on_ffn_arg = p->on_neurons_arg = p->on_gates_arg = s;
}

static void fill(hearth_token *tokens, int n, int n_vocab)
{
    for (int i = 0; i < n; i++)
        tokens[i] = token_at(n_vocab, 1, i);
}

static void run_prompts(const char *path, struct seen *s)
{
    const struct way way = {.n_threads = 1, .sparsity = HEARTH_SPARSITY_OFF};
    struct opened o = open_way(path, &way);
    hearth_token tokens[90];
    fill(tokens, 90, o.n_vocab);
    watch(o.session, o.model, s);
    const hearth_token bos = hearth_token_bos(o.model);
    for (s->window = 0; s->window < WINDOWS; s->window++) {
        hearth_token text[LONGEST] = {bos};
        const struct hearth_window *w = &windows[s->window];
        const int first = bos >= 0;
        memcpy(text + first, tokens + w->first, (size_t)w->n * sizeof *text);
        const int seq = hearth_seq_new(o.session, &err);
        OK(hearth_prompt(o.session, seq, text, w->n + first, NULL, NULL, &err));
        hearth_seq_free(o.session, seq);
    }
    close_opened(&o);
}

struct pass_way {
    uint64_t ram, state_bytes;
    int n_threads, n_ubatch;
    bool twice;
};

static void run_walk(const char *path, const struct pass_way *pass, struct seen *s)
{
    const struct way way = {.ram = pass->ram, .n_threads = pass->n_threads, .tests = {SMALL, .always = true}};
    struct opened o;
    hearth_token tokens[90];
    open_model_of(&o, path, &way);
    fill(tokens, 90, o.n_vocab);
    struct hearth_walk w = {.model = o.model,
                            .tokens = tokens,
                            .windows = windows,
                            .n_windows = WINDOWS,
                            .n_ctx = LONGEST,
                            .n_threads = pass->n_threads,
                            .n_ubatch = pass->n_ubatch,
                            .params = hearth_session_params_default(),
                            .beside = path,
                            .state_bytes = pass->state_bytes};
    OK(hearth_walk_open(&w, &err));
    s->walk = &w;
    watch(w.s, o.model, s);
    const struct hearth_probes probes = *hearth_session_probes(w.s);
    for (int layer = 0; layer < o.model->hp.n_layer; layer++) {
        OK(hearth_walk_enter(&w, layer, &err));
        if (pass->twice) { // without leaving anything
            *hearth_session_probes(w.s) = (struct hearth_probes){0};
            OK(hearth_walk_pass(&w, layer, 1, WINDOWS, false, &err));
            *hearth_session_probes(w.s) = probes;
        }
        OK(hearth_walk_pass(&w, layer, 0, 3, true, &err));
        OK(hearth_walk_pass(&w, layer, 3, WINDOWS, true, &err));
        hearth_walk_leave(&w, layer);
    }
    hearth_walk_close(&w);
    hearth_model_close(&o.model);
}

static void walk_preset(const char *preset)
{
    char path[600];
    snprintf(path, sizeof path, "%s", in_folder(preset));
    OK(hearth_synth(preset, path, &(struct hearth_synth_params){.n_threads = 1}, &err));
    struct seen want = {0};
    run_prompts(path, &want);
    assert_true(want.rows > 90 && want.neurons >= want.rows);
    const struct pass_way ways[] = {{0, 1 << 20, 1, 0, false},
                                    {0, 0, 2, 7, true},
                                    {0, 1 << 20, 2, 130, false},
                                    {HEARTH_RAM_LEAST, 0, 2, 64, true},
                                    {HEARTH_RAM_LEAST, 0, 1, 16, false}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct seen got = {0};
        run_walk(path, &ways[i], &got);
        assert_int_equal(got.rows, want.rows);
        assert_int_equal(got.neurons, want.neurons);
        assert_memory_equal(got.ffn, want.ffn, sizeof want.ffn);
        assert_memory_equal(got.act, want.act, sizeof want.act);
        assert_memory_equal(got.gates, want.gates, sizeof want.gates);
    }
    remove(path);
}

static void test_bits(void **state)
{
    (void)state;
    walk_preset("tiny-dense");
    walk_preset("tiny-relullama");
    walk_preset("tiny-falcon");
    walk_preset("tiny-turbosparse-moe");
    walk_preset("tiny-qwen3.6");
    walk_preset("tiny-qwen3.8");
    walk_preset("tiny-glm-5");
    walk_preset("tiny-gemma-4-moe");
}

// A profile does not depend on memory, threads and micro-batches.
static void test_profiles(void **state)
{
    (void)state;
    char path[600], one[600], other[600];
    snprintf(path, sizeof path, "%s", in_folder("m.gguf"));
    snprintf(one, sizeof one, "%s", in_folder("one"));
    snprintf(other, sizeof other, "%s", in_folder("other"));
    OK(hearth_synth("tiny-turbosparse-moe", path, &(struct hearth_synth_params){.n_threads = 1}, &err));
    for (int i = 0; i < 2; i++) {
        struct opened o;
        const struct way way = {.n_threads = 1, .ram = i ? UINT64_C(256) << 20 : 0, .tests = {SMALL}};
        open_model_of(&o, path, &way);
        hearth_token tokens[640];
        fill(tokens, 640, o.n_vocab);
        const struct hearth_profile_params params = {.n_ctx = 9, .n_threads = 1 + i, .n_ubatch = i ? 64 : 0};
        OK(hearth_profile(o.model, tokens, 640, &params, i ? other : one, NULL, &err));
        hearth_model_close(&o.model);
    }
    assert_same_files(one, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits), cmocka_unit_test(test_profiles)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
