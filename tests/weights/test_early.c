// SPDX-License-Identifier: MIT
// Predictors that look at the layer before: the neurons computed are those that they name there, wherever the
// weights are; and where neurons stream, they are read a layer ahead, hardly any in vain. Predictors that see what they
// look at besides.
#include "check.h"

#include "convert/pack.h"
#include "made_models.h"
#include "model/ffn.h"
#include "streaming_support.h"
#include "weights/guessing.h"

// ---- what they look at

// The last input of each layer's feed-forward part, and what is worked out from it.
struct watch {
    const struct hearth_model *model;
    float inputs[MADE_LAYERS][MADE_E], inner[1024], scores[1024];
    uint8_t marks[MADE_EXPERTS * 1024];
    bool wide;
    int n_named, n_compared;
};

static void on_ffn(void *arg, enum hearth_phase phase, int layer, struct hearth_row row, const float *normed,
                   const float *stream)
{
    (void)phase, (void)row, (void)stream;
    struct watch *w = arg;
    memcpy(w->inputs[layer], normed, sizeof w->inputs[layer]);
}

// out = w . x, by its definition; all numbers are f32.
static void product(const struct hearth_weight *w, const float *x, float *out)
{
    assert_int_equal(w->type, HEARTH_TYPE_F32);
    for (size_t i = 0; i < w->n; i++) {
        const float *row = (const float *)(const void *)((const uint8_t *)w->data + i * w->stride);
        double sum = 0;
        for (size_t k = 0; k < w->k; k++)
            sum += (double)row[k] * (double)x[k];
        out[i] = (float)sum;
    }
}

static void on_marks(void *arg, int layer, int expert, uint8_t *marks)
{
    struct watch *w = arg;
    const struct hearth_ffn f = hearth_ffn_of(&w->model->hp, &w->model->weights.layers[layer]);
    const struct hearth_weight fc1 = hearth_expert(f.fc1, expert), fc2 = hearth_expert(f.fc2, expert);
    const float *seen = w->inputs[layer ? layer - 1 : 0];
    float *first = w->inner + (fc2.k - fc1.n);
    assert_int_equal(fc2.k, w->wide ? MADE_E + fc1.n : fc1.n);
    if (w->wide)
        memcpy(w->inner, seen, MADE_E * sizeof *seen);
    product(&fc1, seen, first);
    for (size_t i = 0; i < fc1.n; i++)
        first[i] = first[i] > 0 ? first[i] : 0;
    product(&fc2, w->inner, w->scores);
    for (size_t j = 0; j < fc2.n; j++) {
        w->n_named += marks[j];
        w->n_compared += fabsf(w->scores[j]) > 1e-4f; // else rounding decides
        if (fabsf(w->scores[j]) > 1e-4f)
            assert_int_equal(marks[j], w->scores[j] >= 0);
    }
    memset(marks, 0, fc2.n);
}

static void check_marks(bool experts, bool wide)
{
    const struct made made = {.arch = "llama",
                              .experts = experts,
                              .by_neuron = true,
                              .predictors = true,
                              .wide = wide,
                              .set = {{"hearth.pack.predictor_input", 's', 0, "previous"},
                                      {"feed_forward.activation", 's', 0, "relu"}}};
    static struct watch w;
    w = (struct watch){.wide = wide};
    made_write(in_folder("made.gguf"), &made);
    struct opened o =
        open_way(in_folder("made.gguf"), &(struct way){.n_threads = 2, .sparsity = HEARTH_SPARSITY_PREDICT});
    w.model = o.model;
    assert_true((size_t)hearth_ffn_neurons(&o.model->hp) <= sizeof w.scores / sizeof *w.scores);
    struct hearth_probes *probes = hearth_session_probes(o.session);
    probes->on_ffn = on_ffn;
    probes->on_marks = on_marks;
    probes->on_ffn_arg = probes->on_marks_arg = &w;
    probes->marks = w.marks;
    const int seq = hearth_seq_new(o.session, &err);
    assert_int_equal(seq, 0);
    for (int i = 0; i < N_STEPS; i++) {
        const hearth_token token = token_at(o.n_vocab, 0, i);
        OK(hearth_step(o.session, &seq, &token, 1, &err));
    }
    assert_in_range(w.n_named, w.n_compared / 10, w.n_compared * 9 / 10);
    close_opened(&o);
}

static void test_look_at_the_layer_before(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++)
        check_marks(kind % 2, kind / 2);
}

// Packs of models whose predictors see what they look at: the same logits wherever the neurons are.
static void check_wide_pack(bool experts, const char *input)
{
    const struct made made = {
        .arch = "llama",
        .experts = experts,
        .by_neuron = true,
        .predictors = true,
        .wide = true,
        .ff = 1000,
        .set = {{"hearth.pack.predictor_input", 's', 0, input}, {"feed_forward.activation", 's', 0, "relu"}}};
    const char *pack = in_folder("wide.gguf");
    made_write(in_folder("made.gguf"), &made);
    remove(pack);
    OK(hearth_pack_write(in_folder("made.gguf"), pack, &(struct hearth_pack_params){0}, NULL, &err));
    float *want = evaluate_in_memory(pack, HEARTH_SPARSITY_PREDICT);
    uint64_t least, most;
    find_budgets(pack, HEARTH_SPARSITY_PREDICT, 2, &least, &most);
    for (int i = 0; i < 3; i++)
        check_way(pack,
                  &(struct way){.ram = least + (most - least) * (uint64_t)i / 4,
                                .n_threads = 1 + i % 2,
                                .sparsity = HEARTH_SPARSITY_PREDICT,
                                .tests = {SMALL, .always = true, .early = i > 0}},
                  want);
    free(want);
}

static void test_wide_packs(void **state)
{
    (void)state;
    static const char *const inputs[] = {"normed", "previous", "stream"};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        check_wide_pack(false, inputs[i]);
        check_wide_pack(true, inputs[i]);
    }
}

// ---- what is read

struct figures {
    uint64_t bytes, misses;
};

// Steps of a pack of which 3/8 are in memory, without merged reads.
static struct figures read_with(const char *path, enum hearth_overlap overlap)
{
    static struct way way;
    uint64_t least, most;
    way = (struct way){.io = "pread",
                       .n_threads = 2,
                       .sparsity = HEARTH_SPARSITY_PREDICT,
                       .tests = {SMALL, .always = true, .early = true},
                       .overlap = overlap};
    find_budgets(path, HEARTH_SPARSITY_PREDICT, 2, &least, &most);
    way.ram = least + (most - least) * 3 / 8;
    struct opened o;
    struct hearth_streaming_stats stats;
    open_model_of(&o, path, &way);
    o.model->load.read_gap = 1;
    OK(open_session_of(&o, &way));
    free(evaluate(&o, NULL));
    hearth_session_streaming_stats(o.session, &stats, sizeof stats);
    close_opened(&o);
    return (struct figures){stats.step_read_bytes, stats.neuron_misses};
}

static void make_pack(bool early)
{
    remove(in_folder("pack.gguf"));
    OK(hearth_pack_write(make_with("tiny-turbosparse", early), in_folder("pack.gguf"),
                         &(struct hearth_pack_params){0}, NULL, &err));
}

enum { TRIES = 5 };

static bool are_few(const struct figures *ahead, const struct figures *later)
{
    return ahead->misses < later->misses / 3;
}

static bool is_vain(const struct figures *ahead, const struct figures *later)
{
    return ahead->bytes > later->bytes + later->bytes / 40;
}

// What is guessed is partly read in vain, and most of what is wanted is there or on its way when its layer
// asks. What early predictors name is all needed, and all of it is on its way, but for the first of four
// layers, for which there are guesses. About an eighth is missed in either way, more on a busy machine, which
// reads some of it too late, and some twice: then it is tried again.
static void test_little_is_read_in_vain(void **state)
{
    (void)state;
    make_pack(false);
    if (reads_large_blocks(in_folder("pack.gguf")))
        skip();
    struct figures later = read_with(in_folder("pack.gguf"), HEARTH_OVERLAP_COMPUTE),
                   ahead = read_with(in_folder("pack.gguf"), HEARTH_OVERLAP_ALL);
    for (int i = 1; i < TRIES && (!are_few(&ahead, &later) || !is_vain(&ahead, &later)); i++) {
        later = read_with(in_folder("pack.gguf"), HEARTH_OVERLAP_COMPUTE); // which may have read some twice
        ahead = read_with(in_folder("pack.gguf"), HEARTH_OVERLAP_ALL);
    }
    printf("guessed: %llu bytes and %llu misses become %llu and %llu\n", (unsigned long long)later.bytes,
           (unsigned long long)later.misses, (unsigned long long)ahead.bytes,
           (unsigned long long)ahead.misses);
    assert_true(is_vain(&ahead, &later));
    assert_true(are_few(&ahead, &later));

    make_pack(true);
    later = read_with(in_folder("pack.gguf"), HEARTH_OVERLAP_COMPUTE);
    ahead = read_with(in_folder("pack.gguf"), HEARTH_OVERLAP_ALL);
    for (int i = 1; i < TRIES && (!are_few(&ahead, &later) || is_vain(&ahead, &later)); i++)
        ahead = read_with(in_folder("pack.gguf"), HEARTH_OVERLAP_ALL);
    printf("early: %llu bytes and %llu misses become %llu and %llu\n", (unsigned long long)later.bytes,
           (unsigned long long)later.misses, (unsigned long long)ahead.bytes,
           (unsigned long long)ahead.misses);
    assert_true(!is_vain(&ahead, &later));
    assert_true(are_few(&ahead, &later));
}

// ---- guesses that fail

static struct hearth_streaming_stats stats_of_steps(const char *path)
{
    enum { STEPS = N_CTX - 1 };
    struct way way = {.ram = 1u << 30,
                      .io = "pread",
                      .n_threads = 2,
                      .sparsity = HEARTH_SPARSITY_PREDICT,
                      .threshold = 1.2f,
                      .throttle = "10000,0",
                      .tests = {SMALL, .always = true}};
    uint64_t least, most;
    find_budgets_of(path, way, &least, &most);
    way.ram = least + (most - least) / 2;
    struct opened o;
    struct hearth_streaming_stats stats;
    open_model_of(&o, path, &way);
    o.model->load.read_gap = 1;
    OK(open_session_of(&o, &way));
    const int seq = hearth_seq_new(o.session, &err);
    for (int i = 0; i < STEPS; i++) {
        const hearth_token token = token_at(o.n_vocab, 0, i);
        OK(hearth_step(o.session, &seq, &token, 1, &err));
    }
    hearth_session_streaming_stats(o.session, &stats, sizeof stats);
    close_opened(&o);
    return stats;
}

// In a model of random numbers each layer changes the stream: most guesses fail. Where every read takes a tenth of a
// millisecond, steps soon guess early no more.
static void test_bad_guesses_end(void **state)
{
    (void)state;
    const struct made made = {.arch = "llama",
                              .by_neuron = true,
                              .predictors = true,
                              .ff = 4480,
                              .set = {{"feed_forward.activation", 's', 0, "relu"}}};
    made_write(in_folder("made.gguf"), &made);
    remove(in_folder("pack.gguf"));
    OK(hearth_pack_write(in_folder("made.gguf"), in_folder("pack.gguf"), &(struct hearth_pack_params){0},
                         NULL, &err));
    const struct hearth_streaming_stats s = stats_of_steps(in_folder("pack.gguf"));
    printf("steps that guessed early, late, not: %llu, %llu, %llu\n",
           (unsigned long long)s.steps_guessed_early, (unsigned long long)s.steps_guessed_late,
           (unsigned long long)s.steps_not_guessed);
    assert_true(s.steps_guessed_early <= HEARTH_GUESSING_ROUNDS);
    assert_true(s.steps_guessed_early > 0 && s.steps_not_guessed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look_at_the_layer_before),
        cmocka_unit_test(test_wide_packs),
        cmocka_unit_test(test_little_is_read_in_vain),
        cmocka_unit_test(test_bad_guesses_end),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
