// SPDX-License-Identifier: MIT
// Tests of models on devices.
#ifndef HEARTH_TESTS_DEVICE_SUPPORT_H
#define HEARTH_TESTS_DEVICE_SUPPORT_H

#include "convert/pack.h"
#include "streaming_support.h"

// The first one; of the back end that the environment asks for, if it does.
static inline void need_device(void)
{
    const char *backend = getenv("HEARTH_TEST_BACKEND");
    struct hearth_device d;
    if (!hearth_device_at(0, &d, sizeof d) || (backend && strcmp(d.backend, backend) != 0))
        skip();
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

// The least memory from now on, in which small pieces stream.
static inline void let_stream(const char *path, struct way *way)
{
    uint64_t most;
    find_budgets_of(path, *way, &way->ram, &most);
    way->tests = (struct hearth_weights_tests){SMALL, .always = true};
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

#endif
