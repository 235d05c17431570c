// SPDX-License-Identifier: MIT
// Tests of models on devices.
#ifndef HEARTH_TESTS_DEVICE_SUPPORT_H
#define HEARTH_TESTS_DEVICE_SUPPORT_H

#include "convert/pack.h"
#include "engine/offload.h"
#include "streaming_support.h"

// Devices that stay open while a program runs: sessions find their kernels built, and each would build them otherwise.
static struct hearth_accel *kept_devices[2];

static inline void keep_device(int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    if (!kept_devices[number])
        OK(hearth_accel_open(&kept_devices[number],
                             &(struct hearth_accel_params){.device = text, .inexact = true}, &err));
}

// The first one; of the back end that the environment asks for, if it does.
static inline void need_device(void)
{
    const char *backend = getenv("HEARTH_TEST_BACKEND");
    struct hearth_device d;
    if (!hearth_device_at(0, &d, sizeof d) || (backend && strcmp(d.backend, backend) != 0))
        skip();
    keep_device(0);
}

// After the last test.
static inline int leave_devices(void **state)
{
    for (int i = 0; i < 2; i++)
        hearth_accel_close(&kept_devices[i]);
    return remove_folder(state);
}

static inline struct hearth_device_stats device_stats_of(const struct opened *o)
{
    struct hearth_device_stats stats;
    hearth_session_device_stats(o->session, &stats, sizeof stats);
    return stats;
}

static inline struct hearth_device_stats device_stats_at(const struct opened *o, int index)
{
    struct hearth_device_stats stats;
    assert_true(hearth_session_device_stats_at(o->session, index, &stats, sizeof stats) > index);
    return stats;
}

// What comes of a way that does without one.
static inline float *evaluate_alone(const char *path, const struct way *way)
{
    struct opened o = open_way(path, way);
    float *logits = evaluate(&o, NULL);
    close_opened(&o);
    return logits;
}

// Of evaluate(): those that are wanted, byte by byte.
static inline void check_logits(struct opened *o, const float *want, const char *what)
{
    float *got = evaluate(o, NULL);
    assert_same(got, want, o->n_vocab, what);
    free(got);
}

// A path that stays until another one is kept: a folder's are used again.
static inline const char *keep(const char *path)
{
    static char kept[512];
    snprintf(kept, sizeof kept, "%s", path);
    return kept;
}

static inline const char *golden(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, HEARTH_SOURCE_DIR "/tests/golden/%s.gguf", name);
    assert_int_equal(access(path, R_OK), 0);
    return path;
}

// A pack of a model whose predictors look at the layer before, where `early`.
static inline const char *make_pack(bool early)
{
    const char *pack = in_folder("pack.gguf");
    remove(pack);
    OK(hearth_pack_write(make_with("tiny-turbosparse", early), pack, &(struct hearth_pack_params){0}, NULL,
                         &err));
    return pack;
}

static inline void free_sequences(const struct opened *o)
{
    for (int seq = 0; seq < N_SEQS; seq++)
        hearth_seq_free(o->session, seq);
}

// The least memory from now on, in which small pieces stream. Not by whatever reads faster: to find that out takes longer
// than what is tested.
static inline void let_stream(const char *path, struct way *way)
{
    uint64_t most;
    find_budgets_of(path, *way, &way->ram, &most);
    way->io = have_uring(path) ? "uring" : "pread";
    way->tests = (struct hearth_weights_tests){SMALL, .always = true};
}

// ---- batches and sequences of a path that is kept, without devices and with some

// A batch with steps beside prompts, in parts of three rows. Returns the rows that went through the device.
static inline uint64_t evaluate_mixed(const char *path, const struct way *way,
                                      const struct hearth_batch_row *rows, int n, float *logits)
{
    struct opened o = open_way(path, way);
    hearth_token tokens[20];
    for (int i = 0; i < 20; i++)
        tokens[i] = token_at(o.n_vocab, 0, i);
    for (int seq = 0; seq < 3; seq++)
        assert_int_equal(hearth_seq_new(o.session, &err), seq);
    OK(hearth_prompt(o.session, 0, tokens, 20, NULL, NULL, &err));
    if (o.session->offload)
        o.session->offload->rows[0].cap = 3;
    const uint64_t before = device_stats_of(&o).tokens;
    OK(hearth_evaluate(o.session, rows, n, sizeof *rows, &err));
    const uint64_t there = device_stats_of(&o).tokens - before;
    struct rows r = {logits, o.n_vocab};
    for (int i = 0; i < n; i++)
        if (rows[i].wants_logits)
            take_row(&r, i, hearth_logits(o.session, i));
    for (int seq = 0; seq < 3; seq++) { // all that was stored
        OK(hearth_step(o.session, (const int[]){seq}, tokens, 1, &err));
        take_row(&r, 0, hearth_logits(o.session, 0));
    }
    close_opened(&o);
    return there;
}

static inline void check_mixed_parts(const char *path)
{
    // Prompts of two sequences, of which one goes on with a step; a step of a third. Then a step that rows of a prompt
    // come after.
    static const char *const phases[] = {"pppppppp", "ppps", "s", "pspppp"};
    static const int seqs[] = {1, 2, 0, 2};
    for (int in_front = 0; in_front < 2; in_front++) {
        struct hearth_batch_row rows[16] = {{0}};
        int n = 0;
        for (int i = 0; i < 3; i++) {
            const int which = in_front && i == 1 ? 3 : i;
            for (const char *p = phases[which]; *p; p++, n++)
                rows[n] =
                    (struct hearth_batch_row){.seq = seqs[which],
                                              .pos = -1,
                                              .token = 5 + 3 * n,
                                              .phase = *p == 'p' ? HEARTH_PHASE_PROMPT : HEARTH_PHASE_STEP,
                                              .wants_logits = !p[1]};
        }
        struct way way = {.n_threads = 1};
        struct opened o = open_way(path, &way);
        const size_t count = 6 * (size_t)o.n_vocab;
        close_opened(&o);
        float *want = calloc(count, sizeof *want), *got = calloc(count, sizeof *got);
        evaluate_mixed(path, &way, rows, n, want);
        way.device = "0";
        assert_int_equal(evaluate_mixed(path, &way, rows, n, got), in_front ? 0 : n);
        assert_memory_equal(got, want, count * sizeof *got);
        free(want);
        free(got);
    }
}

// With one device, or two that divide the layers.
static inline void set_devices(struct way *way, int n)
{
    static const float halves[] = {1, 1};
    way->device = n == 0 ? NULL : n == 1 ? "0" : "0,0";
    way->shares = halves;
    way->n_shares = n == 2 ? 2 : 0;
}

// Sessions without a device, with one, with two, do the same to their sequences.
static inline void check_sequences(const char *path)
{
    char saved[512];
    snprintf(saved, sizeof saved, "%s", in_folder("saved"));
    struct way way = {.n_threads = 1};
    float *got[3];
    for (int with = 0; with < 3; with++) {
        set_devices(&way, with);
        struct opened o = open_way(path, &way);
        got[with] = calloc(40, (size_t)o.n_vocab * sizeof(float));
        struct rows r = {got[with], o.n_vocab};
        static const int first[] = {0}, second[] = {1}, both[] = {0, 1};
        assert_int_equal(hearth_seq_new(o.session, &err), 0);
        prompt(&o, 0, 30, &r, false, NULL);
        step(&o, first, 1, 1, &r, NULL);
        OK(hearth_seq_truncate(o.session, 0, 20, &err));
        step(&o, first, 1, 2, &r, NULL);
        assert_int_equal(hearth_seq_fork(o.session, 0, 10, &err), 1);
        step(&o, both, 2, 3, &r, NULL);
        step(&o, second, 1, 4, &r, NULL);
        remove(saved);
        OK(hearth_seq_save(o.session, 1, saved, &err));
        hearth_seq_free(o.session, 1);
        const int again = hearth_seq_load(o.session, saved, &err);
        assert_int_equal(again, 1);
        step(&o, both, 2, 5, &r, NULL);
        hearth_seq_free(o.session, 0);
        assert_int_equal(hearth_seq_new(o.session, &err), 0);
        prompt(&o, 0, 12, &r, false, NULL);
        step(&o, both, 2, 6, &r, NULL);
        close_opened(&o);
    }
    int n_vocab = 0;
    struct opened o = open_way(path, &way);
    n_vocab = o.n_vocab;
    close_opened(&o);
    for (int with = 1; with < 3; with++)
        assert_memory_equal(got[0], got[with], 11 * (size_t)n_vocab * sizeof(float));
    for (int with = 0; with < 3; with++)
        free(got[with]);
}

static inline void count_layer(void *arg, enum hearth_phase phase, int layer, struct hearth_row row,
                               const float *normed, const float *stream)
{
    (void)phase;
    (void)layer;
    (void)row;
    (void)normed;
    (void)stream;
    ++*(int *)arg;
}

// Some evaluations that are watched, and so the CPU's, among others.
static inline void check_watched(const char *path)
{
    struct way way = {.n_threads = 1};
    static const int first[] = {0};
    float *got[3];
    int n_vocab = 0, seen = 0;
    for (int with = 0; with < 3; with++) {
        set_devices(&way, with);
        struct opened o = open_way(path, &way);
        n_vocab = o.n_vocab;
        got[with] = calloc(20, (size_t)n_vocab * sizeof(float));
        struct rows r = {got[with], n_vocab};
        assert_int_equal(hearth_seq_new(o.session, &err), 0);
        prompt(&o, 0, 30, &r, false, NULL);
        for (int i = 0; i < 9; i++) {
            o.session->probes.on_ffn = i % 3 == 1 ? count_layer : NULL;
            o.session->probes.on_ffn_arg = &seen;
            if (i == 4)
                OK(hearth_seq_truncate(o.session, 0, 25, &err));
            step(&o, first, 1, i, &r, NULL);
        }
        assert_int_equal(seen, 3 * o.model->hp.n_layer * (with + 1));
        close_opened(&o);
    }
    for (int with = 1; with < 3; with++)
        assert_memory_equal(got[0], got[with], 10 * (size_t)n_vocab * sizeof(float));
    for (int with = 0; with < 3; with++)
        free(got[with]);
}

// ---- cancelling

static const hearth_token cancel_tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
enum { N_CANCEL = sizeof cancel_tokens / sizeof *cancel_tokens };

// A session that its progress function stops once none are left.
struct stoppable {
    struct hearth_model *model;
    struct hearth_session *session;
    int left;
};

static inline bool stop_at_none(void *arg, float share)
{
    (void)share;
    return --((struct stoppable *)arg)->left > 0;
}

static inline void open_stoppable(struct stoppable *o, const char *path, struct hearth_session_params p)
{
    *o = (struct stoppable){.left = 1};
    OK(hearth_model_open(&o->model, path, NULL, &err));
    p.n_ctx = 64;
    p.device_inexact = 1;
    p.progress = stop_at_none;
    p.progress_arg = o;
    OK(hearth_session_open(&o->session, o->model, &p, &err));
}

static inline void close_stoppable(struct stoppable *o)
{
    hearth_session_close(&o->session);
    hearth_model_close(&o->model);
}

static inline int prompt_stoppable(struct stoppable *o, int seq)
{
    return hearth_prompt(o->session, seq, cancel_tokens, N_CANCEL, NULL, NULL, &err);
}

// Cancelled before it begins, and by its progress: nothing has changed, and the next evaluation is as ever. Returns the
// sequence that has the tokens then.
static inline int check_stops(struct stoppable *o)
{
    const int seq = hearth_seq_new(o->session, &err);
    hearth_cancel(o->session);
    for (int i = 0; i < 2; i++)
        assert_int_equal(prompt_stoppable(o, seq), HEARTH_E_INTERRUPTED);
    assert_int_equal(hearth_seq_length(o->session, seq), 0);
    o->left = 1000;
    OK(prompt_stoppable(o, seq));
    o->left = 1000;
    return seq;
}

// A device that fails at its n-th call from now on; it need not come so far. Closes the session.
static inline void check_failing_at(struct opened *o, long n, const float *want)
{
    hearth_accel_fail_at(o->session->offload->a, n);
    check_logits(o, want, "a device that fails");
    assert_true(!device_stats_of(o).works || n > 500);
    close_opened(o);
}

// Two devices that divide the layers, or their attention; the first or the second fails. n_tokens: of evaluate().
static inline void check_two(const char *path, const struct way *way, const float *want, uint64_t n_tokens)
{
    for (int i = 0; i < 3; i++) {
        struct opened o = open_way(path, way);
        const struct hearth_device_stats one = device_stats_at(&o, 0), two = device_stats_at(&o, 1);
        const int have[] = {one.layers + one.attention, two.layers + two.attention};
        assert_int_equal(have[0] + have[1], o.model->hp.n_layer);
        assert_true(have[0] > 0 && have[1] > 0 && two.first_layer == have[0]);
        if (i)
            hearth_accel_fail_at(i == 1 ? o.session->offload->a : o.session->offload->next->a, 40);
        check_logits(&o, want, "two devices");
        for (int k = 0; k < 2; k++) {
            assert_int_equal(device_stats_at(&o, k).works, i != k + 1);
            assert_int_equal(device_stats_at(&o, k).tokens == n_tokens, i != k + 1);
        }
        close_opened(&o);
    }
}

#endif
