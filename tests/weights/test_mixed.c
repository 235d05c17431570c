// SPDX-License-Identifier: MIT
// Batches with rows of a prompt and of steps: where weights stream, a layer is read once for both classes and
// the next one is read ahead, so that steps beside a prompt cost next to no reads. The logits are those of
// separate evaluations, bit by bit.
#include "check.h"

#include "convert/pack.h"
#include "streaming_support.h"

enum { CHUNK = 32, ROUNDS = 3, N_DECODING = 2, START = 5, MOST_VOCAB = 2048 };

// Logits of each round: the chunk's last row, then the steps'.
static float separate[ROUNDS * (1 + N_DECODING) * MOST_VOCAB],
    together[ROUNDS * (1 + N_DECODING) * MOST_VOCAB];

// What the rounds have read: chunks alone, steps alone, and both in one evaluation.
struct read_bytes {
    uint64_t prompts, steps, mixed;
};

static int open_session(struct opened *o, const struct way *way)
{
    struct hearth_session_params params = hearth_session_params_default();
    params.n_ctx = ROUNDS * CHUNK;
    params.max_seqs = 1 + N_DECODING;
    params.n_ubatch = CHUNK;
    params.n_threads = way->n_threads;
    params.sparsity = way->sparsity;
    return hearth_session_open(&o->session, o->model, &params, &err);
}

// The rows of a round: a chunk of sequence 0, and a step of each other.
static void list_rows(const struct opened *o, int round, struct hearth_batch_row *rows)
{
    for (int i = 0; i < CHUNK; i++)
        rows[i] = (struct hearth_batch_row){.pos = round * CHUNK + i,
                                            .token = token_at(o->n_vocab, 0, round * CHUNK + i),
                                            .phase = HEARTH_PHASE_PROMPT,
                                            .wants_logits = i == CHUNK - 1};
    for (int k = 0; k < N_DECODING; k++)
        rows[CHUNK + k] = (struct hearth_batch_row){.seq = 1 + k,
                                                    .pos = START + round,
                                                    .token = token_at(o->n_vocab, 1 + k, START + round),
                                                    .phase = HEARTH_PHASE_STEP,
                                                    .wants_logits = true};
}

static struct hearth_streaming_stats stats_of(const struct opened *o)
{
    struct hearth_streaming_stats stats;
    hearth_session_streaming_stats(o->session, &stats, sizeof stats);
    return stats;
}

// Evaluates some rows of a round, again where storage is to fail first, and keeps the last `answers` rows'
// logits.
static void evaluate_rows(struct opened *o, const struct hearth_batch_row *rows, int n, int answers,
                          float **out)
{
    int rc = hearth_evaluate(o->session, rows, n, sizeof *rows, &err);
    if (rc && atomic_load(&spoiled)) {
        spoil_then_mend(rc);
        rc = hearth_evaluate(o->session, rows, n, sizeof *rows, &err);
    }
    OK(rc);
    for (int i = n - answers; i < n; i++, *out += o->n_vocab)
        memcpy(*out, hearth_logits(o->session, i), (size_t)o->n_vocab * sizeof **out);
}

static void start(struct opened *o)
{
    for (int seq = 0; seq < 1 + N_DECODING; seq++) {
        hearth_token tokens[START];
        for (int i = 0; i < START; i++)
            tokens[i] = token_at(o->n_vocab, seq, i);
        assert_int_equal(hearth_seq_new(o->session, &err), seq);
        if (seq)
            OK(hearth_prompt(o->session, seq, tokens, START, NULL, NULL, &err));
    }
}

static void run(struct opened *o, bool mixed, float *logits, struct read_bytes *bytes)
{
    start(o);
    const struct hearth_streaming_stats before = stats_of(o);
    for (int round = 0; round < ROUNDS; round++) {
        struct hearth_batch_row rows[CHUNK + N_DECODING];
        list_rows(o, round, rows);
        if (mixed) {
            evaluate_rows(o, rows, CHUNK + N_DECODING, 1 + N_DECODING, &logits);
        } else {
            evaluate_rows(o, rows, CHUNK, 1, &logits);
            evaluate_rows(o, rows + CHUNK, N_DECODING, N_DECODING, &logits);
        }
    }
    const struct hearth_streaming_stats after = stats_of(o);
    *(mixed ? &bytes->mixed : &bytes->prompts) = after.prompt_read_bytes - before.prompt_read_bytes;
    if (!mixed)
        bytes->steps = after.step_read_bytes - before.step_read_bytes;
}

static struct opened open_with(const char *path, const struct way *way)
{
    struct opened o;
    open_model_of(&o, path, way);
    assert_in_range(o.n_vocab, 1, MOST_VOCAB);
    if (open_session(&o, way))
        fail_msg("%s with %llu bytes: %s", path, (unsigned long long)way->ram, err.message);
    return o;
}

static void assert_same_rounds(const char *path, int n_vocab)
{
    if (memcmp(separate, together, (size_t)(ROUNDS * (1 + N_DECODING) * n_vocab) * sizeof *separate))
        fail_msg("%s: a mixed batch has other logits", path);
}

// At part/8 of the way from the smallest budget to the one that holds all.
static struct way way_at(const char *path, enum hearth_sparsity sparsity, uint64_t part)
{
    struct way way = {.ram = 1u << 30,
                      .io = part % 4 || !have_uring(path) ? "pread" : "uring",
                      .n_threads = 1 + (int)part % 3,
                      .sparsity = sparsity,
                      .tests = {SMALL, .always = true}};
    struct opened o = open_with(path, &way);
    const struct hearth_budget_plan plan = o.session->sources->plan;
    close_opened(&o);
    way.ram = plan.floor.bytes + (plan.bytes - plan.floor.bytes) * part / 8;
    return way;
}

static struct read_bytes measure(const char *path, enum hearth_sparsity sparsity, uint64_t part)
{
    const struct way way = way_at(path, sparsity, part);
    struct read_bytes bytes = {0};
    for (int mixed = 0; mixed < 2; mixed++) {
        struct opened o = open_with(path, &way);
        run(&o, mixed, mixed ? together : separate, &bytes);
        if (mixed)
            assert_same_rounds(path, o.n_vocab);
        close_opened(&o);
    }
    print_message("%d/8: chunks %llu, steps %llu, mixed %llu bytes\n", (int)part,
                  (unsigned long long)bytes.prompts, (unsigned long long)bytes.steps,
                  (unsigned long long)bytes.mixed);
    return bytes;
}

// Well below what both read apart. The chunks alone would read less still: beside steps their buffers' memory
// is never lent to the cache. What is cached or read ahead depends a little on the time that reads take.
static void check_read(const char *path, enum hearth_sparsity sparsity, uint64_t part)
{
    const struct read_bytes bytes = measure(path, sparsity, part);
    if (bytes.mixed > bytes.prompts + bytes.prompts / 20 + bytes.steps * 2 / 3)
        fail_msg("%s, %d/8: %llu bytes for chunks, %llu for steps, %llu for both", path, (int)part,
                 (unsigned long long)bytes.prompts, (unsigned long long)bytes.steps,
                 (unsigned long long)bytes.mixed);
}

static void test_layers(void **state)
{
    (void)state;
    const char *path = make("tiny-dense");
    for (uint64_t part = 0; part <= 2; part += 2) {
        const struct read_bytes bytes = measure(path, HEARTH_SPARSITY_OFF, part);
        assert_true(bytes.mixed <= (bytes.prompts + bytes.steps) * 3 / 5); // a stage may count for either
    }
}

static void test_experts(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny-qwen3-moe", "tiny-turbosparse-moe"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = make(names[i]);
        for (uint64_t part = 2; part <= 6; part += 4)
            check_read(path, HEARTH_SPARSITY_OFF, part);
    }
}

static const char *make_pack(const char *preset)
{
    static char pack[512];
    char model[512];
    snprintf(model, sizeof model, "%s", make(preset));
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    remove(pack);
    OK(hearth_pack_write(model, pack, &(struct hearth_pack_params){0}, NULL, &err));
    return pack;
}

static void test_neurons(void **state)
{
    (void)state;
    const char *pack = make_pack("tiny-turbosparse");
    measure(pack, HEARTH_SPARSITY_PREDICT, 0); // predictors stream: nobody knows what steps will want
    for (uint64_t part = 4; part <= 6; part += 2)
        check_read(pack, HEARTH_SPARSITY_PREDICT, part);
    measure(make_pack("tiny-turbosparse-moe"), HEARTH_SPARSITY_PREDICT, 2);
}

// Storage that fails once in each evaluation changes nothing.
static void check_mixed_faults(const char *path, enum hearth_sparsity sparsity)
{
    const struct hearth_store_faults gone = {.seed = 3, .errors = 1000, .on = &spoiled};
    struct way way = way_at(path, sparsity, 2);
    struct read_bytes bytes;
    struct opened o = open_with(path, &way);
    run(&o, false, separate, &bytes);
    close_opened(&o);
    way.tests.faults = &gone;
    n_failed = 0;
    o = open_with(path, &way);
    start(&o);
    float *logits = together;
    for (int round = 0; round < ROUNDS; round++) {
        struct hearth_batch_row rows[CHUNK + N_DECODING];
        list_rows(&o, round, rows);
        atomic_store(&spoiled, true);
        evaluate_rows(&o, rows, CHUNK + N_DECODING, 1 + N_DECODING, &logits);
        atomic_store(&spoiled, false);
    }
    assert_true(n_failed > 0);
    assert_same_rounds(path, o.n_vocab);
    close_opened(&o);
}

static void test_faults(void **state)
{
    (void)state;
    check_mixed_faults(make("tiny-qwen3-moe"), HEARTH_SPARSITY_OFF);
    check_mixed_faults(make_pack("tiny-turbosparse"), HEARTH_SPARSITY_PREDICT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers), cmocka_unit_test(test_experts),
                                       cmocka_unit_test(test_neurons), cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
