// SPDX-License-Identifier: MIT
// Architectures: made models of each run and give the same bytes however they are run; missing, extra and
// misshapen tensors and impossible hyper-parameters are refused with a message that says what is wrong;
// experts are chosen as the router says.
#include "check.h"

#include "base/cpu.h"
#include "engine/session.h"
#include "made_checks.h"

enum { N_TOKENS = 90 };

static hearth_token token_at(int i)
{
    return i ? (i * 37 + 11) % MADE_VOCAB : 1;
}

struct run {
    struct hearth_session_params params;
    enum hearth_phase phase;
    void (*on_experts)(void *arg, int layer, struct hearth_row row, const int *ids, const float *weights,
                       int n);
    void *arg;
};

static bool keep_row(void *arg, int index, const float *logits)
{
    memcpy((float *)arg + (size_t)index * MADE_VOCAB, logits, MADE_VOCAB * sizeof *logits);
    return true;
}

// Logits of N_TOKENS tokens, malloc'ed.
static float *run(const struct hearth_model *m, struct run r)
{
    float *out = malloc(N_TOKENS * MADE_VOCAB * sizeof *out);
    struct hearth_session *s = NULL;
    hearth_token tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = token_at(i);
    r.params.size = sizeof r.params; // what is zero takes the default
    r.params.max_seqs = 1;
    if (!r.params.n_threads)
        r.params.n_threads = 2;
    CHECK(hearth_session_open(&s, m, &r.params, &check_error));
    hearth_session_probes(s)->on_experts = r.on_experts;
    hearth_session_probes(s)->on_experts_arg = r.arg;
    int seq = hearth_seq_new(s, NULL);
    if (r.phase == HEARTH_PHASE_PROMPT)
        CHECK(hearth_prompt(s, seq, tokens, N_TOKENS, keep_row, out, &check_error));
    else
        for (int i = 0; i < N_TOKENS; i++) {
            CHECK(hearth_step(s, &seq, &tokens[i], 1, &check_error));
            keep_row(out, i, hearth_logits(s, 0));
        }
    hearth_session_close(&s);
    return out;
}

static void assert_logits(const float *got, const float *want)
{
    assert_memory_equal(got, want, N_TOKENS * MADE_VOCAB * sizeof *want);
}

// ---- running

static void test_invariance(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        const bool some = SANITIZED; // one run for each model, and C for every fourth, in turns
        float *want[2];
        struct hearth_model *m = open_made(&models[i], some && i % 4 ? NULL : "c");
        for (int phase = 0; phase < 2; phase++) {
            want[phase] = run(m, (struct run){{.n_threads = 1}, (enum hearth_phase)phase, NULL, NULL});
            for (int k = 0; k < N_TOKENS * MADE_VOCAB; k++)
                assert_true(isfinite(want[phase][k]));
        }
        hearth_model_close(&m);
        m = open_made(&models[i], NULL);
        const struct run runs[] = {{{.n_threads = 3}, HEARTH_PHASE_PROMPT, NULL, NULL},
                                   {{.n_ubatch = 1}, HEARTH_PHASE_PROMPT, NULL, NULL},
                                   {{.n_ubatch = 7}, HEARTH_PHASE_PROMPT, NULL, NULL},
                                   {{.n_threads = 3}, HEARTH_PHASE_STEP, NULL, NULL}};
        for (size_t k = some ? i / 4 % 4 : 0; k < sizeof runs / sizeof runs[0]; k += some ? 4 : 1) {
            float *got = run(m, runs[k]);
            assert_logits(got, want[runs[k].phase]);
            free(got);
        }
        hearth_model_close(&m);
        free(want[0]);
        free(want[1]);
    }
}

// Sequences of other tokens in the same step change nothing.
static void test_batch_mates(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        struct hearth_model *m = open_made(&models[i], NULL);
        float *want = run(m, (struct run){{.n_threads = 1}, HEARTH_PHASE_STEP, NULL, NULL});
        struct hearth_session *s = NULL;
        struct hearth_session_params p = hearth_session_params_default();
        p.max_seqs = 5;
        p.n_threads = 2;
        CHECK(hearth_session_open(&s, m, &p, &check_error));
        int seqs[5];
        for (int k = 0; k < 5; k++)
            seqs[k] = hearth_seq_new(s, NULL);
        for (int t = 0; t < N_TOKENS; t++) {
            hearth_token tokens[5];
            for (int k = 0; k < 5; k++)
                tokens[k] = k == 3 ? token_at(t) : (t * 13 + k * 7) % MADE_VOCAB;
            CHECK(hearth_step(s, seqs, tokens, 5, &check_error));
            assert_memory_equal(hearth_logits(s, 3), want + t * MADE_VOCAB, MADE_VOCAB * sizeof *want);
        }
        free(want);
        hearth_session_close(&s);
        hearth_model_close(&m);
    }
}

// A window as wide as the text is none; a narrow one changes just the tokens it cuts off.
static void test_window(void **state)
{
    (void)state;
    struct made made = {.arch = "llama"};
    struct hearth_model *m = open_made(&made, NULL);
    float *all = run(m, (struct run){{0}, HEARTH_PHASE_PROMPT, NULL, NULL});
    hearth_model_close(&m);
    const int windows[] = {0, N_TOKENS, N_TOKENS - 1, 66, 64, 1};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        made.set[0] = (struct made_kv){"attention.sliding_window", 'u', windows[i], NULL};
        m = open_made(&made, NULL);
        float *got = run(m, (struct run){{0}, HEARTH_PHASE_PROMPT, NULL, NULL});
        const int same = windows[i] ? windows[i] : N_TOKENS;
        assert_memory_equal(got, all, (size_t)same * MADE_VOCAB * sizeof *got);
        if (same < N_TOKENS)
            assert_memory_not_equal(got + same * MADE_VOCAB, all + same * MADE_VOCAB,
                                    MADE_VOCAB * sizeof *got);
        free(got);
        hearth_model_close(&m);
    }
    free(all);
}

// ---- experts

static void test_split_experts(void **state)
{
    (void)state;
    struct made made = {.arch = "llama", .experts = true};
    struct hearth_model *m = open_made(&made, NULL);
    float *want = run(m, (struct run){{0}, HEARTH_PHASE_PROMPT, NULL, NULL});
    hearth_model_close(&m);
    made.split_experts = true;
    m = open_made(&made, NULL);
    float *got = run(m, (struct run){{0}, HEARTH_PHASE_PROMPT, NULL, NULL});
    assert_logits(got, want);
    hearth_model_close(&m);
    free(want);
    free(got);

    struct hearth_error err = {0};
    made.without = "blk.1.ffn_up.4.weight";
    made_write(path, &made);
    assert_int_equal(hearth_model_open(&m, path, NULL, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, made.without));
    made.without = NULL;
    made.reshape = "blk.1.ffn_down.5.weight";
    made_write(path, &made);
    assert_int_equal(hearth_model_open(&m, path, NULL, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, made.reshape));
}

struct choices {
    int calls;
    bool tied;
};

static void check_choice(void *arg, int layer, struct hearth_row row, const int *ids, const float *weights,
                         int n)
{
    struct choices *c = arg;
    c->calls++;
    assert_in_range(layer, 0, MADE_LAYERS - 1);
    assert_in_range(row.pos, 0, N_TOKENS - 1);
    assert_int_equal(n, MADE_USED);
    float sum = 0;
    for (int i = 0; i < n; i++) {
        assert_in_range(ids[i], 0, MADE_EXPERTS - 1);
        assert_true(i == 0 || ids[i] > ids[i - 1]);
        assert_true(!c->tied || (ids[i] == i && fabsf(weights[i] - 1.0f / (int)MADE_USED) < 1e-6f));
        sum += weights[i];
    }
    assert_true(fabsf(sum - 1.0f) < 1e-6f);
}

static void test_choices(void **state)
{
    (void)state;
    const struct made made[] = {{.arch = "llama", .experts = true},
                                {.arch = "qwen3moe", .experts = true, .zero_router = true}};
    for (int i = 0; i < 2; i++) {
        struct hearth_model *m = open_made(&made[i], NULL);
        for (int phase = 0; phase < 2; phase++) {
            struct choices c = {0, made[i].zero_router};
            float *out = run(m, (struct run){{.n_ubatch = 32}, (enum hearth_phase)phase, check_choice, &c});
            assert_int_equal(c.calls, N_TOKENS * MADE_LAYERS);
            free(out);
        }
        hearth_model_close(&m);
    }
}

// ---- refusals

static void test_unknown(void **state)
{
    (void)state;
    refused(&(struct made){.arch = "mamba"}, HEARTH_E_UNSUPPORTED, "\"mamba\"");
    char names[HEARTH_ARCH_NAMES];
    hearth_arch_names(names, sizeof names);
    assert_non_null(strstr(names, "bamboo, "));
    assert_string_equal(names + strlen(names) - 5, ", ...");
    refused(&(struct made){.arch = "mamba"}, HEARTH_E_UNSUPPORTED, names);
    hearth_arch_names(names, strlen(hearth_arch_at(0)->name) + 6);
    assert_int_equal(strlen(names), strlen(hearth_arch_at(0)->name) + 5);
    assert_string_equal(names + strlen(names) - 5, ", ...");
    hearth_arch_names(names, 4);
    assert_string_equal(names, "");
    refused(&(struct made){.arch = "llama", .type = HEARTH_TYPE_I16}, HEARTH_E_UNSUPPORTED,
            "token_embd.weight has type I16, which is not supported; supported: F32, F16, Q4_0, ");
    refused(&(struct made){.arch = "llama", .by_neuron = true, .type = HEARTH_TYPE_Q8_1},
            HEARTH_E_UNSUPPORTED,
            "Q2_0. Take another file of the model, such as Q4_K_M, or the smaller Q2_K");
    refused(&(struct made){.arch = "llama", .extra = "blk.1.attn_sinks.weight"}, HEARTH_E_UNSUPPORTED,
            "blk.1.attn_sinks.weight");
}

// Files of BitNet do not say their activation: whether heads share keys does.
static void test_activation(void **state)
{
    (void)state;
    static const struct {
        struct made made;
        enum hearth_activation want;
    } cases[] = {
        {{.arch = "bitnet"}, HEARTH_ACT_RELU_SQUARED},
        {{.arch = "bitnet", .set = {{"attention.head_count_kv", 'u', MADE_HEADS, NULL}}}, HEARTH_ACT_SILU},
        {{.arch = "bitnet", .set = {{"feed_forward.activation", 's', 0, "relu"}}}, HEARTH_ACT_RELU},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hearth_gguf *g = NULL;
        enum hearth_activation got;
        made_write(path, &cases[i].made);
        CHECK(hearth_gguf_open(&g, path, &check_error));
        CHECK(hearth_activation_read(&got, hearth_arch_find((struct hearth_str){"bitnet", 6}), g,
                                     &check_error));
        assert_int_equal(got, cases[i].want);
        hearth_gguf_close(&g);
    }
}

// Whether scores have a bias: files of most such models do not say it.
static void test_alibi(void **state)
{
    (void)state;
    static struct hearth_hparams hp;
    static const struct {
        struct made made;
        float alibi;
        enum hearth_positions positions;
    } cases[] = {
        {{.arch = "baichuan"}, 0.0f, HEARTH_POS_ROPE},
        {{.arch = "baichuan", .set = {{"block_count", 'u', 40, NULL}}}, 8.0f, HEARTH_POS_NONE},
        {{.arch = "bloom"}, 8.0f, HEARTH_POS_NONE},
        {{.arch = "refact"}, 8.0f, HEARTH_POS_NONE},
        {{.arch = "mpt"}, 0.0f, HEARTH_POS_NONE},
        {{.arch = "mpt", .optional = true}, 0.0f, HEARTH_POS_LEARNED},
        {{.arch = "mpt", .set = {{"attention.max_alibi_bias", 'f', 6, NULL}}}, 6.0f, HEARTH_POS_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hearth_gguf *g = NULL;
        const struct made *made = &cases[i].made;
        made_write(path, made);
        CHECK(hearth_gguf_open(&g, path, &check_error));
        hp = (struct hearth_hparams){0};
        CHECK(hearth_hparams_read(&hp, hearth_arch_find((struct hearth_str){made->arch, strlen(made->arch)}),
                                  g, &check_error));
        assert_true(hp.alibi == cases[i].alibi);
        assert_int_equal(hp.positions, cases[i].positions);
        hearth_gguf_close(&g);
    }
}

static void test_tensors(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        struct made made = models[i];
        static struct made_tensor tensors[256];
        struct made_list list = {&made, tensors, 0};
        made_list_tensors(&list, hearth_arch_find((struct hearth_str){made.arch, strlen(made.arch)}));
        for (size_t t = 0; t < list.n; t++) {
            // The sizes of vocabulary and position table follow from the tensors.
            const char *name = tensors[t].name;
            made.without = NULL;
            made.reshape = name;
            if (!strcmp(name, "token_embd.weight") || !strcmp(name, "position_embd.weight"))
                continue;
            if (made.grams && !strcmp(name, "per_layer_token_embd.weight")) // may have more rows
                continue;
            refused(&made, HEARTH_E_FORMAT, name);
            if (made.optional)
                continue;
            made.reshape = NULL;
            made.without = name;
            refused(&made, HEARTH_E_FORMAT, strstr(name, "ffn_down_t") ? "ffn_down" : name);
        }
    }
    // Files need not say that of eight layers one attends: of four none does then.
    refused(&(struct made){.arch = "minimax-01",
                           .experts = true,
                           .without = "full_attention_interval",
                           .set = {{"block_count", 'u', 4, NULL}}},
            HEARTH_E_UNSUPPORTED, "no layer has attention");
    refused(&(struct made){.arch = "minimax-01", .experts = true, .without = "residual_scale"},
            HEARTH_E_FORMAT, "residual_scale");
    refused(
        &(struct made){.arch = "minimax-01", .experts = true, .set = {{"residual_scale", 'f', NAN, NULL}}},
        HEARTH_E_FORMAT, "residual_scale");
    refused(&(struct made){.arch = "minimax-01",
                           .experts = true,
                           .set = {{"attention.key_length", 'u', 24, NULL},
                                   {"attention.value_length", 'u', 24, NULL}}},
            HEARTH_E_UNSUPPORTED, "multiples of 16");
    refused(&(struct made){.arch = "minimax-01",
                           .experts = true,
                           .set = {{"attention.recurrent_layers", 'u', 1, NULL}}},
            HEARTH_E_FORMAT, "say it of each layer");
    refused(&(struct made){.arch = "opt", .without = "position_embd.weight"}, HEARTH_E_FORMAT,
            "position_embd");
}

// What some files say for each layer, or leave out.
static void test_spellings(void **state)
{
    (void)state;
    struct hearth_error err = {0};
    struct hearth_model *m;
    struct made made = {.arch = "llama",
                        .set = {{"attention.head_count", 'a', MADE_HEADS, NULL},
                                {"attention.head_count_kv", 'a', MADE_KV_HEADS, NULL},
                                {"feed_forward_length", 'a', MADE_F, NULL},
                                {"rope.scaling.factor", 'f', 4, NULL}}};
    made_write(path, &made);
    MADE_OK(hearth_model_open(&m, path, NULL, &err));
    assert_int_equal(m->hp.n_head_kv, MADE_KV_HEADS);
    assert_int_equal(m->hp.n_ff, MADE_F);
    assert_true(m->hp.rope_scale == 0.25f); // a factor without a type is a linear one
    hearth_model_close(&m);
}

// What files say of embeddings; what they do not say, or what is no pooling, is the mean.
static void test_pooling(void **state)
{
    (void)state;
    static const enum hearth_pooling poolings[] = {HEARTH_POOLING_MEAN, HEARTH_POOLING_MEAN,
                                                   HEARTH_POOLING_CLS, HEARTH_POOLING_LAST,
                                                   HEARTH_POOLING_MEAN};
    struct hearth_error err = {0};
    for (unsigned i = 0; i < sizeof poolings / sizeof *poolings; i++) {
        struct hearth_model *m;
        struct made made = {.arch = "llama",
                            .set = {{"pooling_type", 'u', i, NULL}, {"attention.causal", 'b', 1, NULL}}};
        made_write(path, &made);
        MADE_OK(hearth_model_open(&m, path, NULL, &err));
        assert_int_equal(hearth_model_info(m)->pooling, poolings[i]);
        hearth_model_close(&m);
    }
}

static void test_hyper_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        int code;
        const char *says;
        struct made_kv set[3];
    } bad[] = {
        {"llama", HEARTH_E_FORMAT, "head_count", {{"attention.head_count", 'u', 0, NULL}}},
        {"llama", HEARTH_E_FORMAT, "head_count", {{"attention.head_count", 'u', 4e9, NULL}}},
        {"llama", HEARTH_E_FORMAT, "less than", {{"attention.head_count", 'u', 64, NULL}}},
        {"llama", HEARTH_E_FORMAT, "cannot share", {{"attention.head_count_kv", 'u', 3, NULL}}},
        {"llama", HEARTH_E_UNSUPPORTED, "must be equal", {{"attention.value_length", 'u', 16, NULL}}},
        {"llama", HEARTH_E_FORMAT, "key_length", {{"attention.key_length", 'u', 1e6, NULL}}},
        {"llama", HEARTH_E_FORMAT, "block_count", {{"block_count", 'u', 1e6, NULL}}},
        {"llama", HEARTH_E_FORMAT, "missing", {{"block_count", 'u', 3, NULL}}},
        {"llama", HEARTH_E_FORMAT, "embedding_length", {{"embedding_length", 'u', 2147483647, NULL}}},
        {"llama", HEARTH_E_FORMAT, "feed_forward_length", {{"feed_forward_length", 'u', 0, NULL}}},
        {"llama", HEARTH_E_FORMAT, "context_length", {{"context_length", 's', 0, "many"}}},
        {"llama", HEARTH_E_FORMAT, "dimension_count", {{"rope.dimension_count", 'u', 7, NULL}}},
        {"llama", HEARTH_E_FORMAT, "dimension_count", {{"rope.dimension_count", 'u', 10, NULL}}},
        {"llama", HEARTH_E_FORMAT, "freq_base", {{"rope.freq_base", 'f', -1, NULL}}},
        {"llama", HEARTH_E_FORMAT, "freq_base", {{"rope.freq_base", 'f', NAN, NULL}}},
        {"llama", HEARTH_E_FORMAT, "epsilon", {{"attention.layer_norm_rms_epsilon", 'f', NAN, NULL}}},
        {"llama", HEARTH_E_FORMAT, "sliding_window", {{"attention.sliding_window", 'u', 4294967295., NULL}}},
        {"llama", HEARTH_E_UNSUPPORTED, "by layer", {{"attention.sliding_window_pattern", 'u', 6, NULL}}},
        {"gemma3", HEARTH_E_FORMAT, "pattern", {{"attention.sliding_window_pattern", 'u', 0, NULL}}},
        {"gemma3", HEARTH_E_UNSUPPORTED, "softcapping", {{"final_logit_softcapping", 'f', 30, NULL}}},
        {"gemma4",
         HEARTH_E_UNSUPPORTED,
         "attn_logit_softcapping",
         {{"attn_logit_softcapping", 'f', 30, NULL}}},
        {"gemma4", HEARTH_E_FORMAT, "cannot share", {{"attention.head_count_kv", 'd', 2, NULL}}},
        {"llama4", HEARTH_E_FORMAT, "temperature_length", {{"attention.temperature_length", 'u', 0, NULL}}},
        {"llama4", HEARTH_E_FORMAT, "temperature_scale", {{"attention.temperature_scale", 'f', NAN, NULL}}},
        {"mimo2", HEARTH_E_UNSUPPORTED, "values of 16", {{"attention.value_length", 'u', 16, NULL}}},
        {"mimo2", HEARTH_E_FORMAT, "value_scale", {{"attention.value_scale", 'f', 0, NULL}}},
        {"mimo2", HEARTH_E_FORMAT, "value_scale", {{"attention.value_scale", 'f', NAN, NULL}}},
        {"gemma4", HEARTH_E_FORMAT, "head_count", {{"attention.head_count", 'd', 0, NULL}}},
        {"gemma4", HEARTH_E_FORMAT, "head_count", {{"attention.head_count", 'u', 0, NULL}}},
        {"step35", HEARTH_E_FORMAT, "head_count", {{"attention.head_count", 's', 0, "4"}}},
        {"step35", HEARTH_E_FORMAT, "swiglu_clamp_exp", {{"swiglu_clamp_exp", 'f', NAN, NULL}}},
        {"step35", HEARTH_E_FORMAT, "swiglu_clamp_shexp", {{"swiglu_clamp_shexp", 'f', -1, NULL}}},
        {"step35", HEARTH_E_UNSUPPORTED, "more than one limit", {{"swiglu_clamp_exp", 'd', 1, NULL}}},
        {"step35", HEARTH_E_FORMAT, "dimension_count", {{"rope.dimension_count", 'u', 6, NULL}}},
        {"laguna",
         HEARTH_E_UNSUPPORTED,
         "others of its kind",
         {{"attention.head_count", 'd', 4, NULL}, {"attention.head_count_kv", 'u', 1, NULL}}},
        {"gemma4", HEARTH_E_FORMAT, "head_count_kv must be", {{"attention.head_count_kv", 's', 0, "2"}}},
        {"gemma4", HEARTH_E_UNSUPPORTED, "must be equal", {{"attention.value_length_swa", 'u', 8, NULL}}},
        {"gemma4", HEARTH_E_FORMAT, "dimension_count_swa", {{"rope.dimension_count_swa", 'u', 8, NULL}}},
        {"gemma4", HEARTH_E_FORMAT, "layer 1 has no keys", {{"attention.shared_kv_layers", 'u', 1, NULL}}},
        {"gemma4", HEARTH_E_FORMAT, "shared_kv_layers", {{"attention.shared_kv_layers", 'u', 2, NULL}}},
        {"gemma4",
         HEARTH_E_FORMAT,
         "per_layer_token_embd",
         {{"embedding_length_per_layer_input", 'u', 8, NULL}}},
        {"gemma4", HEARTH_E_FORMAT, "feed_forward_length", {{"feed_forward_length", 'd', 0, NULL}}},
        {"llama", HEARTH_E_UNSUPPORTED, "later tokens", {{"attention.causal", 'b', 0, NULL}}},
        {"llama", HEARTH_E_FORMAT, "pooling_type", {{"pooling_type", 's', 0, "mean"}}},
        {"llama",
         HEARTH_E_UNSUPPORTED,
         "longrope",
         {{"rope.scaling.type", 's', 0, "longrope"}, {"rope.scaling.factor", 'f', 4, NULL}}},
        {"llama", HEARTH_E_FORMAT, "factor", {{"rope.scaling.type", 's', 0, "yarn"}}},
        {"llama",
         HEARTH_E_FORMAT,
         "factor",
         {{"rope.scaling.type", 's', 0, "yarn"}, {"rope.scaling.factor", 'f', 0, NULL}}},
        {"llama", HEARTH_E_UNSUPPORTED, "tanh", {{"feed_forward.activation", 's', 0, "tanh"}}},
        {"llama", HEARTH_E_FORMAT, "used_count", {{"expert_count", 'u', 4, NULL}}},
        {"llama",
         HEARTH_E_FORMAT,
         "used_count",
         {{"expert_count", 'u', 4, NULL}, {"expert_used_count", 'u', 5, NULL}}},
        {"llama",
         HEARTH_E_FORMAT,
         "used_count",
         {{"expert_count", 'u', 4, NULL}, {"expert_used_count", 'u', 0, NULL}}},
        {"llama", HEARTH_E_FORMAT, "expert_count", {{"expert_count", 'u', 1e6, NULL}}},
        {"llama",
         HEARTH_E_FORMAT,
         "ffn_gate_inp",
         {{"expert_count", 'u', 4, NULL}, {"expert_used_count", 'u', 2, NULL}}},
        {"falcon",
         HEARTH_E_UNSUPPORTED,
         "expert_count",
         {{"expert_count", 'u', 4, NULL}, {"expert_used_count", 'u', 2, NULL}}},
        {"granite_swa", HEARTH_E_FORMAT, "rope_pattern", {{"attention.rope_pattern", 'u', 1, NULL}}},
        {"granite_swa", HEARTH_E_FORMAT, "rope_pattern", {{"attention.rope_pattern", 's', 0, "1"}}},
        {"bloom", HEARTH_E_FORMAT, "max_alibi_bias", {{"attention.max_alibi_bias", 'f', -1, NULL}}},
        {"mpt", HEARTH_E_FORMAT, "max_alibi_bias", {{"attention.max_alibi_bias", 'f', NAN, NULL}}},
        {"refact", HEARTH_E_FORMAT, "max_alibi_bias", {{"attention.max_alibi_bias", 'f', 1e6, NULL}}},
        {"llama", HEARTH_E_UNSUPPORTED, "ALiBi", {{"attention.max_alibi_bias", 'f', 8, NULL}}},
        {"deci", HEARTH_E_UNSUPPORTED, "no layer has attention", {{"attention.head_count_kv", 'u', 0, NULL}}},
        {"deci", HEARTH_E_UNSUPPORTED, "no layer has attention", {{"attention.head_count", 'u', 0, NULL}}},
        {"deci", HEARTH_E_FORMAT, "cannot share", {{"attention.head_count_kv", 'u', 3, NULL}}},
        {"deci", HEARTH_E_FORMAT, "cannot share", {{"attention.head_count_kv", 'u', 8, NULL}}},
        {"deci", HEARTH_E_UNSUPPORTED, "must be 0 or the same", {{"attention.head_count", 'd', 4, NULL}}},
        {"deci", HEARTH_E_FORMAT, "must be 0 to", {{"attention.head_count", 'a', 5000, NULL}}},
        {"deci", HEARTH_E_UNSUPPORTED, "feed-forward part", {{"feed_forward_length", 'a', 0, NULL}}},
        {"deci", HEARTH_E_FORMAT, "feed_forward_length", {{"feed_forward_length", 'a', 1e9, NULL}}},
        {"deci", HEARTH_E_FORMAT, "a number, or one", {{"feed_forward_length", 's', 0, "9"}}},
        {"deci",
         HEARTH_E_UNSUPPORTED,
         "attention's place",
         {{"attention.key_length", 'u', 16, NULL}, {"attention.value_length", 'u', 16, NULL}}},
        {"falcon", HEARTH_E_UNSUPPORTED, "ALiBi", {{"attention.max_alibi_bias", 'f', 8, NULL}}},
        {"qwen3moe", HEARTH_E_UNSUPPORTED, "expert_count", {{"expert_count", 'u', 0, NULL}}},
        {"granitehybrid", HEARTH_E_FORMAT, "ssm.state_size", {{"ssm.state_size", 'u', 0, NULL}}},
        {"granitehybrid", HEARTH_E_FORMAT, "ssm.state_size", {{"ssm.state_size", 'u', 4e9, NULL}}},
        {"granitehybrid", HEARTH_E_UNSUPPORTED, "multiples of 16", {{"ssm.state_size", 'u', 24, NULL}}},
        {"granitehybrid", HEARTH_E_FORMAT, "in 3 groups", {{"ssm.group_count", 'u', 3, NULL}}},
        {"granitehybrid", HEARTH_E_FORMAT, "have 2 heads", {{"ssm.inner_size", 'u', 33, NULL}}},
        {"granitehybrid", HEARTH_E_FORMAT, "inner_size", {{"ssm.inner_size", 'u', 2147483647, NULL}}},
        {"granitehybrid", HEARTH_E_FORMAT, "ssm_in.weight", {{"ssm.inner_size", 'u', 64, NULL}}},
        {"granitehybrid", HEARTH_E_FORMAT, "conv_kernel", {{"ssm.conv_kernel", 'u', 1, NULL}}},
        {"granitehybrid",
         HEARTH_E_UNSUPPORTED,
         "no layer has attention",
         {{"attention.head_count_kv", 'a', 0, NULL}}},
        {"kimi-linear", HEARTH_E_FORMAT, "kda.head_dim", {{"kda.head_dim", 'u', 0, NULL}}},
        {"kimi-linear", HEARTH_E_FORMAT, "kda.head_dim", {{"kda.head_dim", 'u', 4e9, NULL}}},
        {"kimi-linear", HEARTH_E_UNSUPPORTED, "multiples of 16", {{"kda.head_dim", 'u', 24, NULL}}},
        {"kimi-linear", HEARTH_E_FORMAT, "conv_kernel", {{"ssm.conv_kernel", 'u', 17, NULL}}},
        {"kimi-linear", HEARTH_E_FORMAT, "say it of each layer", {{"attention.head_count_kv", 'u', 1, NULL}}},
        {"kimi-linear", HEARTH_E_FORMAT, "makes no sense", {{"attention.kv_lora_rank", 'u', 31, NULL}}},
        {"kimi-linear", HEARTH_E_UNSUPPORTED, "safe_gate is true", {{"kda.safe_gate", 'b', 1, NULL}}},
        {"bailingmoe3", HEARTH_E_UNSUPPORTED, "safe_gate is false", {{"kda.safe_gate", 'b', 0, NULL}}},
        {"bailingmoe3", HEARTH_E_FORMAT, "lower_bound", {{"kda.gate_lower_bound", 'f', 0, NULL}}},
        {"bailingmoe3", HEARTH_E_FORMAT, "lower_bound", {{"kda.gate_lower_bound", 'f', -1e9, NULL}}},
        {"nemotron_h", HEARTH_E_FORMAT, "say it of each layer", {{"attention.head_count_kv", 'u', 2, NULL}}},
        {"nemotron_h",
         HEARTH_E_FORMAT,
         "say it of each layer",
         {{"attention.head_count_kv", 'a', MADE_KV_HEADS, NULL}}}, // of two
        {"nemotron_h", HEARTH_E_FORMAT, "one for each layer", {{"feed_forward_length", 'a', MADE_F, NULL}}},
        {"nemotron_h",
         HEARTH_E_UNSUPPORTED,
         "layer 1 has attention and a feed-forward part",
         {{"feed_forward_length", 'u', MADE_F, NULL}}},
        {"nemotron_h",
         HEARTH_E_UNSUPPORTED,
         "no layer has a feed-forward part",
         {{"feed_forward_length", 'u', 0, NULL}}},
        {"glm4", HEARTH_E_UNSUPPORTED, "several parts", {{"rope.dimension_sections", 'u', 8, NULL}}},
        {"gemma2", HEARTH_E_FORMAT, "attn_logit_softcapping", {{"attn_logit_softcapping", 'f', -1, NULL}}},
        {"gemma2", HEARTH_E_FORMAT, "attn_logit_softcapping", {{"attn_logit_softcapping", 'f', NAN, NULL}}},
        {"gemma2", HEARTH_E_UNSUPPORTED, "router_logit", {{"router_logit_softcapping", 'f', 5, NULL}}},
        {"command-r", HEARTH_E_FORMAT, "logit_scale", {{"logit_scale", 'f', 0, NULL}}},
        {"gptneox", HEARTH_E_FORMAT, "use_parallel_residual", {{"use_parallel_residual", 'u', 3, NULL}}},
        {"gptneox", HEARTH_E_FORMAT, "use_parallel_residual", {{0}}},
        {"apertus", HEARTH_E_FORMAT, "xielu.alpha_p", {{0}}},
        {"apertus", HEARTH_E_FORMAT, "xielu.alpha_p", {{"xielu.alpha_p", 'f', NAN, NULL}}},
        {"apertus",
         HEARTH_E_FORMAT,
         "xielu.alpha_n",
         {{"xielu.alpha_p", 'f', 1, NULL}, {"xielu.alpha_n", 's', 0, "1"}}},
        {"minicpm", HEARTH_E_FORMAT, "residual_scale", {{"residual_scale", 'f', NAN, NULL}}},
        {"mistral3", HEARTH_E_FORMAT, "temperature_scale", {{"attention.temperature_scale", 'f', -1, NULL}}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct made made = {.arch = bad[i].arch};
        memcpy(made.set, bad[i].set, sizeof bad[i].set);
        refused(&made, bad[i].code, bad[i].says);
    }
    refused(&(struct made){.arch = "llama", .set = {{"feed_forward_length", 'd', MADE_F, NULL}}},
            HEARTH_E_UNSUPPORTED,
            "llama.feed_forward_length differs by layer (48 in the first, 49 in layer 1)");
    struct made made = {.arch = "qwen3moe", .experts = true, .set = {{"expert_group_count", 'u', 2, NULL}}};
    refused(&made, HEARTH_E_UNSUPPORTED, "groups of experts are not supported for architecture qwen3moe");
    made.set[0] = (struct made_kv){"expert_gating_func", 'u', 5, NULL};
    refused(&made, HEARTH_E_UNSUPPORTED, "softmax");
    made.set[0] = (struct made_kv){"expert_feed_forward_length", 'u', 0, NULL};
    refused(&made, HEARTH_E_FORMAT, "expert_feed_forward_length");
    made.set[0] = (struct made_kv){"interleave_moe_layer_step", 'u', 2, NULL};
    refused(&made, HEARTH_E_UNSUPPORTED, "in one of 2 layers");
}

// Queries, keys and values are in one matrix or in three; a layer has one norm or two.
static void test_alternatives(void **state)
{
    (void)state;
    struct made made = {.arch = "phi2", .fused = true};
    struct hearth_model *m = open_made(&made, NULL);
    const struct hearth_layer *l = &m->weights.layers[0];
    assert_int_equal(l->attn_v_b.k, l->attn_v.n);
    assert_ptr_equal(l->attn_v_b.data, (const float *)l->attn_qkv_b.data + MADE_E + l->attn_k.n);
    hearth_model_close(&m);
    made.without = "blk.1.attn_qkv.bias";
    refused(&made, HEARTH_E_FORMAT, "blk.1.attn_q.bias is missing");
    made.without = NULL;
    made.extra = "blk.1.attn_q.weight";
    refused(&made, HEARTH_E_UNSUPPORTED, made.extra);
    made.fused = false;
    made.extra = "blk.0.attn_qkv.bias";
    refused(&made, HEARTH_E_UNSUPPORTED, made.extra);

    made = (struct made){.arch = "stablelm", .one_norm = true};
    m = open_made(&made, NULL);
    assert_true(m->hp.parallel);
    hearth_model_close(&m);
    made.extra = "blk.1.ffn_norm.weight";
    refused(&made, HEARTH_E_UNSUPPORTED, made.extra);
    made = (struct made){.arch = "stablelm", .without = "blk.1.ffn_norm.weight"};
    refused(&made, HEARTH_E_FORMAT, made.without);
}

// Where values may be keys, and where not; keys of layers that attend to others' are not used.
static void test_gemma4(void **state)
{
    (void)state;
    refused(&(struct made){.arch = "gemma4", .without = "blk.1.attn_v.weight"}, HEARTH_E_FORMAT,
            "blk.1.attn_v.weight is missing");
    refused(&(struct made){.arch = "gemma4", .without = "rope_freqs.weight"}, HEARTH_E_FORMAT,
            "rope_freqs.weight is missing");
    refused(&(struct made){.arch = "gemma4", .extra = "blk.1.attn_kv.weight"}, HEARTH_E_UNSUPPORTED,
            "not known");
    struct made made = {.arch = "gemma4", .borrows = true, .extra = "blk.1.attn_k_norm.weight"};
    struct hearth_model *m = open_made(&made, NULL);
    assert_int_equal(m->hp.n_borrowing, 1);
    assert_int_equal(hearth_keys_of(&m->hp, 1), 0);
    assert_false(hearth_has(&m->weights.layers[1].attn_k_norm));
    hearth_model_close(&m);
    made.borrows = false;
    made.optional = true;
    made.extra = NULL;
    m = open_made(&made, NULL);
    assert_true(hearth_has(&m->weights.layers[0].attn_v));
    assert_int_not_equal(m->hp.head_dim, m->hp.head_dim_window);
    hearth_model_close(&m);
    made.two_widths = true;
    m = open_made(&made, NULL);
    struct hearth_session *s = NULL;
    struct hearth_session_params params = hearth_session_params_default();
    params.sparsity_threshold = 0.1f; // goldens say what comes of it
    CHECK(hearth_session_open(&s, m, &params, &check_error));
    assert_int_equal(m->hp.n_ff_narrow, 48);
    assert_int_equal(m->hp.n_ff, 96);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// Layers that guess tokens ahead are known of one architecture; of others nothing is dropped.
static void test_extra_layers(void **state)
{
    (void)state;
    struct made made = {.arch = "llama", .set = {{"nextn_predict_layers", 'u', 1, NULL}}};
    struct hearth_model *m = open_made(&made, NULL);
    assert_int_equal(m->hp.n_layer, MADE_LAYERS);
    hearth_model_close(&m);
    // One that would have attention and experts, where others are one part.
    const struct made parts = {
        .arch = "nemotron_h_moe",
        .experts = true,
        .extra = "blk.3.nextn.enorm.weight",
        .set = {{"block_count", 'u', MADE_PARTS + 1, NULL}, {"nextn_predict_layers", 'u', 1, NULL}}};
    m = open_made(&parts, NULL);
    assert_int_equal(m->hp.n_layer, MADE_PARTS);
    for (int i = 0; i < MADE_PARTS; i++) {
        assert_int_equal(hearth_is_recurrent(&m->hp, i), i == 0);
        assert_int_equal(hearth_attends(&m->hp, i), i == 1);
        assert_int_equal(hearth_has_experts(&m->hp, i), i == 2);
    }
    hearth_model_close(&m);
}

// Extreme but legal numbers: the text may be nonsense, memory and arithmetic stay sound.
static void test_extremes(void **state)
{
    (void)state;
    static const struct made_kv extremes[][3] = {
        {{"rope.freq_base", 'f', 1, NULL}},
        {{"rope.freq_base", 'f', 1e30, NULL}},
        {{"rope.scaling.type", 's', 0, "yarn"},
         {"rope.scaling.factor", 'f', 1e6, NULL},
         {"rope.freq_base", 'f', 1, NULL}},
        {{"rope.scaling.type", 's', 0, "yarn"},
         {"rope.scaling.factor", 'f', 1e-6, NULL},
         {"rope.scaling.yarn_beta_fast", 'f', 1e-6, NULL}},
        {{"attention.layer_norm_rms_epsilon", 'f', 0, NULL}},
        {{"attention.sliding_window", 'u', 2147483647, NULL}},
    };
    for (size_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++) {
        struct made made = {.arch = "llama"};
        memcpy(made.set, extremes[i], sizeof extremes[i]);
        struct hearth_model *m = open_made(&made, NULL);
        free(run(m, (struct run){{0}, HEARTH_PHASE_PROMPT, NULL, NULL}));
        hearth_model_close(&m);
    }
}

static void test_learned_positions(void **state)
{
    (void)state;
    // More context claimed than there are positions: the table decides.
    struct made made = {.arch = "opt", .set = {{"context_length", 'u', 100000, NULL}}};
    struct hearth_model *m = open_made(&made, NULL);
    assert_int_equal(hearth_model_info(m)->n_ctx_train, MADE_CTX);
    struct hearth_session *s = NULL;
    struct hearth_error err = {0};
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = MADE_CTX + 1;
    assert_int_equal(hearth_session_open(&s, m, &p, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "256"));
    p.n_ctx = 0;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    assert_int_equal(hearth_session_n_ctx(s), MADE_CTX);
    int seq = hearth_seq_new(s, NULL);
    hearth_token tokens[MADE_CTX];
    for (int i = 0; i < MADE_CTX; i++)
        tokens[i] = token_at(i);
    CHECK(hearth_prompt(s, seq, tokens, MADE_CTX, NULL, NULL, &check_error));
    assert_int_equal(hearth_step(s, &seq, tokens, 1, &err), HEARTH_E_BUDGET);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

int main(int argc, char **argv)
{
    if (argc > 1) // a pattern such as "test_batch*"
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_invariance),
        cmocka_unit_test(test_batch_mates),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_split_experts),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_alibi),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_hyper_parameters),
        cmocka_unit_test(test_gemma4),
        cmocka_unit_test(test_extra_layers),
        cmocka_unit_test(test_alternatives),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_learned_positions),
    };
    return cmocka_run_group_tests(tests, name_file, remove_folder);
}
