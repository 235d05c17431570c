// SPDX-License-Identifier: MIT
// Experts that pass through a device in prompts: the logits of the CPU alone, byte by byte, of all kinds of routers,
// resident and streamed, beside hot experts; several in a stage and one; a device that fails at any place; reads that
// fail, prompts that are cancelled. Skipped where there is no device (PoCL is one).
#include "check.h"

#include "device_support.h"
#include "engine/offload.h"

// Tokens of prompts in evaluate().
enum { N_PROMPTED = N_PROMPT + 5 + 21 };

static struct hearth_through_experts *passing_of(const struct opened *o)
{
    assert_non_null(o->session->offload->passing);
    return o->session->offload->passing;
}

static uint64_t moe_layers(const struct hearth_model *m)
{
    uint64_t n = 0;
    for (int i = 0; i < m->hp.n_layer; i++)
        n += hearth_has_experts(&m->hp, i);
    return n;
}

// The least memory of a device with which experts pass through it in such a session.
static uint64_t least_vram(const struct hearth_model *m, struct hearth_session_params p)
{
    struct hearth_placement got = {0};
    for (p.vram = 1 << 12; p.vram < (uint64_t)1 << 28; p.vram += p.vram / 16) {
        OK(hearth_session_foresee(&got, m, &p, &err));
        if (got.through)
            return p.vram;
    }
    fail_msg("no experts pass, whatever memory there is");
    return 0;
}

// How much room there is: as little as will do; for several experts in a stage, with all of a micro-batch's rows; for hot
// experts besides.
enum room { LEAST, SEVERAL, HOT };

static bool is_enough(const struct opened *o, enum room room)
{
    const struct hearth_through_experts *t = o->session->offload->passing;
    return t && t->places > 1 && t->stages[0].rows.cap >= UBATCH &&
           (room < HOT || o->session->offload->experts != NULL);
}

// Such a device for open_way().
static void let_pass(const char *path, struct way *way, enum room room)
{
    struct opened o;
    way->device = "0";
    way->device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS;
    open_model_of(&o, path, way);
    way->vram = least_vram(o.model, session_params_of(way));
    hearth_model_close(&o.model);
    for (bool enough = room == LEAST; !enough;) {
        way->vram += way->vram / 6;
        o = open_way(path, way);
        enough = is_enough(&o, room);
        const bool all = device_stats_of(&o).experts == moe_layers(o.model) * (uint64_t)o.model->hp.n_expert;
        close_opened(&o);
        if (all)
            fail_msg("%s: all experts have room before some do", path);
    }
}

// Hot experts have no rows of steps from now on.
static void leave_steps(const struct opened *o)
{
    struct hearth_hot_experts *hot = o->session->offload->experts;
    for (int i = 0; hot && i < 2; i++)
        hearth_share_fix(&hot->shares[i], HEARTH_SHARE_BY_TIME);
    for (int i = 0; hot && i < HEARTH_SHARE_CLASSES; i++)
        hot->shares[1].classes[i] =
            (struct hearth_share_class){.known = true, .left = 1000, .patience = 1000};
}

// All experts' rows of prompts are the device's: those that pass, and those of hot ones where there are some.
static void check_open(struct opened *o, const float *want, const char *what, bool with_hot)
{
    const struct hearth_hot_experts *hot = with_hot ? o->session->offload->experts : NULL;
    const struct hearth_through_experts *t = passing_of(o);
    const uint64_t all = moe_layers(o->model) * N_PROMPTED * (uint64_t)o->model->hp.n_expert_used;
    leave_steps(o);
    if (!hot)
        o->session->work.ffn.experts = NULL;
    check_logits(o, want, what);
    assert_int_equal(device_stats_of(o).works, 1);
    assert_true(t->rows > 0 && device_stats_of(o).through <= N_PROMPTED);
    // Else hot ones have rows of steps, or experts of many rows do not pass.
    const bool counts = (!hot || hot->resident) && t->stages[0].rows.cap >= UBATCH;
    if (counts)
        assert_int_equal(device_stats_of(o).through, N_PROMPTED);
    if (t->rows > all || (counts && t->rows + (hot ? hot->slots : 0) != all))
        fail_msg("%s: %llu rows have passed, of %llu", what, (unsigned long long)t->rows,
                 (unsigned long long)all);
    assert_true(!hot || t->rows < all);
}

static void check_file(const char *path, struct way way, enum room room)
{
    struct way alone = way;
    alone.ram = 0;
    float *want = evaluate_alone(path, &alone);
    let_pass(path, &way, room);
    struct opened o = open_way(path, &way);
    passing_of(&o)->pieces.bytes = 16384; // so that weights take several
    check_open(&o, want, path, room == HOT);
    close_opened(&o);
    free(want);
}

static void test_golden(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/qwen3moe.NVFP4",      "models/gpt-oss.MXFP4",
                                        "models/gpt-oss.Q8_0",        "models/deepseek-v2-joint.Q4_0",
                                        "models/deepseek-v3.Q8_0",    "models/gemma4-moe.Q4_0",
                                        "models/mixtral.F16",         "models/qwen35moe.Q8_0",
                                        "models/smallthinker.Q4_0",   "models/granitemoe.Q8_0",
                                        "models/nemotron-h-moe.Q8_0", "models/qwen4exp.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i += SANITIZED ? 3 : 1) {
        check_file(golden(names[i]),
                   (struct way){.n_threads = 1 + (int)i % 2, .sparsity = HEARTH_SPARSITY_OFF}, LEAST);
    }
}

// Resident and streamed, without hot experts and with some.
static void test_presets(void **state)
{
    (void)state;
    need_device();
    static const char *const presets[] = {"tiny-qwen3-moe", "tiny-gpt-oss", "tiny-glm-flash"};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const char *path = keep(make(presets[i]));
        struct way way = {.n_threads = 1 + (int)i % 2};
        check_file(path, way, SEVERAL);
        check_file(path, way, HOT);
        let_stream(path, &way);
        check_file(path, way, SEVERAL);
        check_file(path, way, HOT);
    }
}

// One expert in a stage, and so few rows that experts of more tokens are the CPU's.
static void test_little_room(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    struct way way = {.n_threads = 2};
    float *want = evaluate_alone(path, &way);
    let_pass(path, &way, SEVERAL);
    struct opened o = open_way(path, &way);
    passing_of(&o)->places = 1;
    check_open(&o, want, "one place", false);
    const uint64_t all = passing_of(&o)->rows;
    close_opened(&o);
    o = open_way(path, &way);
    passing_of(&o)->stages[0].rows.cap = passing_of(&o)->stages[1].rows.cap = 2;
    check_logits(&o, want, "few rows");
    assert_true(passing_of(&o)->rows > 0);
    assert_true(passing_of(&o)->rows < all);
    close_opened(&o);
    free(want);
}

// A device that fails at its n-th call, wherever the batch is: the CPU goes on, and no logit is another.
static void test_failing(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    struct way way = {.n_threads = 2};
    float *want = evaluate_alone(path, &way);
    for (int i = 0; i < 4; i++) { // resident and streamed, without hot experts and with some
        if (i == 2)
            let_stream(path, &way);
        let_pass(path, &way, i % 2 ? HOT : SEVERAL);
        for (long n = 1; n < 600; n = SANITIZED ? n * 9 : n < 24 ? n + 1 : n + n / 4) {
            struct opened o = open_way(path, &way);
            passing_of(&o)->places = 2;
            hearth_accel_fail_at(o.session->offload->a, n);
            check_logits(&o, want, "a device that fails");
            assert_int_equal(device_stats_of(&o).works, 0);
            close_opened(&o);
        }
        way.device = NULL;
    }
    free(want);
}

// With memory that grows: none pass, some do, in the end all experts are there. Never more than there is.
static void test_room(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-qwen3-moe"));
    struct way way = {.n_threads = 1, .device = "0"};
    int none = 0, some = 0, all = 0;
    for (way.vram = 1 << 14; way.vram < (uint64_t)1 << 28; way.vram += way.vram / (SANITIZED ? 1 : 3)) {
        struct opened o = open_way(path, &way);
        const struct hearth_device_stats stats = device_stats_of(&o);
        const bool passes = o.session->offload->passing != NULL;
        assert_true(stats.bytes <= way.vram);
        none += !passes && !some;
        some += passes;
        all += !passes && stats.experts == moe_layers(o.model) * (uint64_t)o.model->hp.n_expert;
        assert_true(!passes || !all);
        close_opened(&o);
    }
    assert_true(none && some && all);
    let_pass(path, &way, LEAST);
    way.device_prompts = HEARTH_DEVICE_PROMPTS_NEVER;
    struct opened o = open_way(path, &way);
    assert_null(o.session->offload->passing);
    close_opened(&o);
    way.device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS;
    way.device = "0,0";
    o = open_way(path, &way);
    assert_null(o.session->offload->passing);
    close_opened(&o);
}

// Rows of each expert, layer by layer.
struct counted {
    uint64_t rows[16][256];
};

static void count_experts(void *arg, int layer, struct hearth_row row, const int *ids, const float *weights,
                          int n)
{
    (void)row;
    (void)weights;
    for (int i = 0; i < n; i++)
        ((struct counted *)arg)->rows[layer][ids[i]]++;
}

// Rows of experts that so many rows use, of the layers behind the first one.
static uint64_t count_passing(const struct hearth_through_experts *t, const struct counted *c)
{
    uint64_t rows = 0;
    for (int layer = t->first + 1; layer < t->end; layer++)
        for (int e = 0; e < t->s->model->hp.n_expert; e++)
            rows +=
                c->rows[layer][e] >= 32 && c->rows[layer][e] <= t->stages[0].rows.cap ? c->rows[layer][e] : 0;
    return rows;
}

// By the time that it takes: a prompt that is long enough tries it, but for the first layer, which tells the CPU's time.
// Where the CPU is known to be faster, nothing passes; nor do experts of few rows, nor batches with steps.
static void test_auto(void **state)
{
    (void)state;
    need_device();
    enum { LONG = 100 };
    const char *path = keep(make("tiny-qwen3-moe"));
    struct hearth_model *m = NULL;
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    hearth_token tokens[LONG];
    OK(hearth_model_open(&m, path, NULL, &err));
    for (int i = 0; i < LONG; i++)
        tokens[i] = token_at(hearth_model_info(m)->n_vocab, 0, i);
    p.n_ctx = 2 * LONG;
    p.max_seqs = 2;
    p.n_ubatch = LONG;
    p.n_threads = 1;
    p.device = "0";
    p.device_inexact = 1;
    p.vram = least_vram(m, p);
    OK(hearth_session_open(&s, m, &p, &err));
    struct hearth_through_experts *t = s->offload->passing;
    assert_non_null(t);
    struct counted counted = {{{0}}};
    assert_true(m->hp.n_layer <= 16 && m->hp.n_expert <= 256);
    s->work.ffn.experts = NULL; // no hot ones
    const int seq = hearth_seq_new(s, &err), other = hearth_seq_new(s, &err);
    OK(hearth_prompt(s, seq, tokens, 31, NULL, NULL, &err));
    assert_int_equal(t->rows, 0);
    OK(hearth_seq_truncate(s, seq, 0, &err));
    s->probes.on_experts = count_experts; // so it is the CPU's
    s->probes.on_experts_arg = &counted;
    OK(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &err));
    assert_int_equal(t->rows, 0);
    s->probes.on_experts = NULL;
    OK(hearth_seq_truncate(s, seq, 0, &err));
    OK(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &err));
    const struct hearth_through_class *c = &t->choice.classes[2];
    assert_true(c->cpu_ns > 0 && c->device_ns > 0);
    const uint64_t rows = t->rows, most = (moe_layers(m) - 1) * LONG * (uint64_t)m->hp.n_expert_used;
    assert_int_equal(rows, count_passing(t, &counted));
    assert_true(rows > 0 && rows < most && t->tokens == LONG);
    t->choice.classes[2] =
        (struct hearth_through_class){.cpu_ns = 1, .device_ns = 1e15, .patience = 100, .left = 100};
    OK(hearth_seq_truncate(s, seq, 0, &err));
    OK(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &err));
    assert_true(t->rows == rows && c->cpu_ns > 1);
    t->always = true;
    OK(hearth_step(s, (const int[]){seq}, tokens, 1, &err));
    struct hearth_batch_row mixed[8] = {{.seq = seq, .pos = -1, .token = 1, .phase = HEARTH_PHASE_STEP}};
    for (int i = 1; i < 8; i++)
        mixed[i] =
            (struct hearth_batch_row){.seq = other, .pos = -1, .token = i, .phase = HEARTH_PHASE_PROMPT};
    OK(hearth_evaluate(s, mixed, 8, sizeof *mixed, &err));
    assert_int_equal(t->rows, rows);
    OK(hearth_prompt(s, other, tokens, 3, NULL, NULL, &err));
    assert_true(t->rows > rows);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// ---- evaluations that end before their time

static void test_cancel(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    struct hearth_session_params p = hearth_session_params_default();
    struct hearth_model *m = NULL;
    struct stoppable o;
    p.n_ctx = 64;
    p.device = "0";
    p.device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS;
    OK(hearth_model_open(&m, path, NULL, &err));
    p.vram = least_vram(m, p);
    hearth_model_close(&m);
    open_stoppable(&o, path, p);
    assert_non_null(o.session->offload->passing);
    check_stops(&o);
    assert_int_equal(o.session->offload->passing->tokens, N_CANCEL);
    close_stoppable(&o);
}

// Wants that are not handed out any more, as a read has failed: the evaluation fails as it does on the CPU, and the next
// one is as ever.
static int wants_left;
static struct hearth_want *(*next_want)(void *state, int worker, uint32_t *n, bool *wait);
static struct hearth_fault *fault;

static struct hearth_want *fail_later(void *state, int worker, uint32_t *n, bool *wait)
{
    if (--wants_left == 0) {
        struct hearth_error e;
        hearth_fail(&e, HEARTH_E_IO, "a read fails, as a test wants it to");
        hearth_fault_stop(fault, &e);
    }
    return next_want(state, worker, n, wait);
}

static void test_read_errors(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    let_stream(path, &way);
    let_pass(path, &way, LEAST);
    struct opened o = open_way(path, &way);
    struct hearth_source *ffn = &o.session->sources->ffn;
    struct hearth_source_ops failing = *ffn->ops;
    assert_non_null(failing.next);
    next_want = failing.next;
    failing.next = fail_later;
    ffn->ops = &failing;
    fault = &o.session->fault;
    const hearth_token tokens[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const int seq = hearth_seq_new(o.session, &err);
    for (int i = 1; i < 6; i += 2) {
        wants_left = i;
        assert_int_equal(hearth_prompt(o.session, seq, tokens, 9, NULL, NULL, &err), HEARTH_E_IO);
        assert_int_equal(hearth_seq_length(o.session, seq), 0);
        assert_int_equal(device_stats_of(&o).works, 1);
    }
    hearth_seq_free(o.session, seq);
    passing_of(&o)->rows = passing_of(&o)->tokens = 0;
    check_open(&o, want, "after reads that failed", false);
    close_opened(&o);
    free(want);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    parts_alone = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),      cmocka_unit_test(test_presets),
        cmocka_unit_test(test_little_room), cmocka_unit_test(test_failing),
        cmocka_unit_test(test_room),        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_cancel),      cmocka_unit_test(test_read_errors),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_devices);
}
