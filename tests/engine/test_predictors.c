// SPDX-License-Identifier: MIT
// Steps by neuron where golden files do not go: experts whose predictors look at the stream, and clusters
// that end within eight neurons. Made models, through hearth.h alone.
#include "check.h"

#include "golden_models.h"
#include "made_models.h"

enum { N_PROMPT = 5, N_SEQS = 3, N_STEPS = 4, N_ROWS = N_SEQS * N_STEPS };

struct logits {
    float v[N_ROWS * MADE_VOCAB]; // [sequence][step]
};

static hearth_token token_at(int seq, int i)
{
    return (hearth_token)((seq * 101 + i * 37 + 5) % MADE_VOCAB);
}

static struct hearth_session *open_session(const struct hearth_model *m, enum hearth_sparsity sparsity,
                                           float threshold)
{
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    p.max_seqs = N_SEQS;
    p.n_threads = 2;
    p.sparsity = sparsity;
    p.predict_threshold = threshold;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    return s;
}

// Prompts, and then steps of `together` sequences at a time.
static void evaluate(const struct hearth_model *m, enum hearth_sparsity sparsity, float threshold,
                     int together, struct logits *out)
{
    struct hearth_session *s = open_session(m, sparsity, threshold);
    for (int seq = 0; seq < N_SEQS; seq++) {
        hearth_token tokens[N_PROMPT];
        for (int i = 0; i < N_PROMPT; i++)
            tokens[i] = token_at(seq, i);
        assert_int_equal(hearth_seq_new(s, NULL), seq);
        CHECK(hearth_prompt(s, seq, tokens, N_PROMPT, NULL, NULL, &check_error));
    }
    for (int i = 0; i < N_STEPS; i++)
        for (int seq = 0; seq < N_SEQS; seq += together) {
            int seqs[N_SEQS];
            hearth_token tokens[N_SEQS];
            for (int k = 0; k < together; k++) {
                seqs[k] = seq + k;
                tokens[k] = token_at(seq + k, N_PROMPT + i);
            }
            CHECK(hearth_step(s, seqs, tokens, together, &check_error));
            for (int k = 0; k < together; k++)
                memcpy(out->v + ((seq + k) * N_STEPS + i) * MADE_VOCAB, hearth_logits(s, k),
                       MADE_VOCAB * sizeof(float));
        }
    hearth_session_close(&s);
}

static struct hearth_model *open_made(const struct made *made)
{
    struct hearth_model *m = NULL;
    const char *path = in_folder("made.gguf");
    made_write(path, made);
    CHECK(hearth_model_open(&m, path, NULL, &check_error));
    return m;
}

// ---- what predictors look at

// Experts whose predictors look at `input`.
static void evaluate_input_in(enum hearth_sparsity sparsity, const char *input, bool plain_norms,
                              int together, struct logits *out)
{
    const struct made made = {
        .arch = "llama",
        .experts = true,
        .by_neuron = true,
        .predictors = true,
        .plain_norms = plain_norms,
        .set = {{"hearth.pack.predictor_input", 's', 0, input}, {"feed_forward.activation", 's', 0, "relu"}}};
    struct hearth_model *m = open_made(&made);
    evaluate(m, sparsity, sparsity == HEARTH_SPARSITY_PREDICT ? 0.0f : NAN, together, out);
    hearth_model_close(&m);
}

static void evaluate_input(const char *input, bool plain_norms, int together, struct logits *out)
{
    evaluate_input_in(HEARTH_SPARSITY_PREDICT, input, plain_norms, together, out);
}

static double apart(const struct logits *a, const struct logits *b)
{
    return relative_l2(a->v, b->v, N_ROWS * MADE_VOCAB);
}

// A norm whose weights are 1 gives the stream but for a factor, which changes no sign, and the threshold is
// 0: then it does not matter which of the two a predictor looks at. With other weights it does.
static void test_experts_look_at_the_stream(void **state)
{
    (void)state;
    static struct logits normed, stream, alone;
    evaluate_input("normed", true, N_SEQS, &normed);
    evaluate_input("stream", true, N_SEQS, &stream);
    printf("weights of 1: %.2e apart\n", apart(&stream, &normed));
    assert_true(apart(&stream, &normed) < 1e-5);

    evaluate_input("normed", false, N_SEQS, &normed);
    evaluate_input("stream", false, N_SEQS, &stream);
    printf("other weights: %.2e apart\n", apart(&stream, &normed));
    assert_true(apart(&stream, &normed) > 1e-3);

    evaluate_input("stream", false, 1, &alone);
    assert_memory_equal(alone.v, stream.v, sizeof stream.v);
}

// Where predictors are not in use, what they look at has no place and is left alone.
static void test_nobody_looks(void **state)
{
    (void)state;
    static const char *const inputs[] = {"stream", "previous"};
    static struct logits off, exact;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        evaluate_input_in(HEARTH_SPARSITY_OFF, inputs[i], false, N_SEQS, &off);
        evaluate_input_in(HEARTH_SPARSITY_EXACT, inputs[i], false, N_SEQS, &exact);
        assert_memory_equal(exact.v, off.v, sizeof off.v);
    }
}

// ---- wide predictors

// Rows of gates, and of what a wide predictor's second matrix has for its input, are the same; or nothing.
static float gate_as_predictor(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    const bool gate = strstr(tensor, "ffn_gate") && !strstr(tensor, "inp"),
               fc2 = strstr(tensor, "fc2") != NULL;
    if (fc2 && column >= MADE_E)
        return 0;
    return gate || fc2 ? (float)((row * 37 + column * column * 11 + row * column * 5) % 23) / 40 - 0.275f
                       : usual;
}

static float no_input(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    (void)row;
    return strstr(tensor, "fc2") && column < MADE_E ? 0 : usual;
}

// Of a narrow one, what a wide one has behind its input.
static float as_behind_input(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    (void)usual;
    return strstr(tensor, "fc2") ? (float)((row * 31 + column * 17 + row * column) % 29) / 29 - 0.45f : usual;
}

static float behind_input(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    if (strstr(tensor, "fc2") && column >= MADE_E)
        return as_behind_input(tensor, row, column - MADE_E, usual);
    return no_input(tensor, row, column, usual);
}

typedef float value_fn(const char *tensor, uint64_t row, uint64_t column, float usual);

static void evaluate_values(value_fn *value, bool experts, bool wide, enum hearth_sparsity sparsity,
                            struct logits *out)
{
    const struct made made = {.arch = "llama",
                              .experts = experts,
                              .by_neuron = true,
                              .predictors = true,
                              .wide = wide,
                              .value = value,
                              .set = {{"feed_forward.activation", 's', 0, "relu"}}};
    struct hearth_model *m = open_made(&made);
    evaluate(m, sparsity, sparsity == HEARTH_SPARSITY_PREDICT ? 0.0f : NAN, N_SEQS, out);
    hearth_model_close(&m);
}

// A wide predictor that is its gate names what the gate leaves on; one without its input is a narrow one.
static void test_wide(void **state)
{
    (void)state;
    static struct logits off, named, other;
    for (int experts = 0; experts < 2; experts++) {
        evaluate_values(gate_as_predictor, experts, true, HEARTH_SPARSITY_OFF, &off);
        evaluate_values(gate_as_predictor, experts, true, HEARTH_SPARSITY_PREDICT, &named);
        assert_memory_equal(named.v, off.v, sizeof off.v);
        evaluate_values(as_behind_input, experts, false, HEARTH_SPARSITY_PREDICT, &named);
        evaluate_values(behind_input, experts, true, HEARTH_SPARSITY_PREDICT, &other);
        assert_memory_equal(named.v, other.v, sizeof named.v);
        evaluate_values(behind_input, experts, true, HEARTH_SPARSITY_OFF, &off);
        assert_true(apart(&off, &named) > 1e-3); // they do leave something out
    }
}

// ---- clusters

// Numbers of neurons on both sides of eight, and of a second cluster: the neurons that are not zero, and all
// neurons as a predictor may name them, give the bytes of all neurons.
static void test_odd_clusters(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 7, 8, 43, 449, 453};
    static struct logits off, other;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct made made = {.arch = "llama",
                                  .by_neuron = true,
                                  .predictors = true,
                                  .ff = sizes[i],
                                  .set = {{"feed_forward.activation", 's', 0, "relu"}}};
        struct hearth_model *m = open_made(&made);
        evaluate(m, HEARTH_SPARSITY_OFF, NAN, N_SEQS, &off);
        for (int together = 1; together <= N_SEQS; together += 2) {
            evaluate(m, HEARTH_SPARSITY_EXACT, NAN, together, &other);
            assert_memory_equal(other.v, off.v, sizeof off.v);
            evaluate(m, HEARTH_SPARSITY_PREDICT, -1e30f, together, &other);
            assert_memory_equal(other.v, off.v, sizeof off.v);
        }
        hearth_model_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_experts_look_at_the_stream),
        cmocka_unit_test(test_nobody_looks),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_odd_clusters),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
