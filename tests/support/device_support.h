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

#endif
