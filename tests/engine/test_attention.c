// SPDX-License-Identifier: MIT
// Attention against its definition in double precision, over contexts of several ranges: random keys, values
// and queries in the three cache formats, with and without a window, prompts and steps, any number of
// threads; the same bits at every CPU level.
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "engine/session.h"
#include "made_models.h"

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#else
#define THREAD_SANITIZER 0
#endif

#define N_CTX 2500

static uint32_t state = 1;

static float random_value(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static struct hearth_model *make_model(int window, const float *sinks)
{
    const char *path = in_folder("model.gguf");
    struct made made = {.arch = "llama"};
    made.set[0] = (struct made_kv){"context_length", 'u', N_CTX, NULL};
    if (window)
        made.set[1] = (struct made_kv){"attention.sliding_window", 'u', (double)window, NULL};
    made_write(path, &made);
    struct hearth_model *m = NULL;
    struct hearth_error err = {0};
    if (hearth_model_open(&m, path, NULL, &err))
        fail_msg("%s", err.message);
    unlink(path);
    // Attention alone is run, so heads may be such that each cache format takes them.
    m->hp.n_head = m->hp.n_head_window = 6;
    m->hp.n_head_kv = m->hp.n_head_kv_window = 2;
    m->hp.head_dim = m->hp.value_dim = m->hp.head_dim_window = m->hp.value_dim_window = 64;
    m->hp.attn_scale = 0.125f;
    if (sinks)
        m->weights.layers[0].attn_sinks.data = sinks;
    return m;
}

// Fills a sequence's cache for positions [0, N_CTX) of layer 0 with random numbers.
static void fill_cache(struct hearth_session *s, int seq)
{
    struct hearth_kv *kv = &s->kv;
    const int n_ctx = N_CTX;
    assert_int_equal(hearth_kv_reserve(kv, &seq, &n_ctx, 1, NULL), 0);
    const size_t dim = (size_t)kv->heads[0].dim;
    float *row = malloc(dim * sizeof *row);
    for (int pos = 0; pos < N_CTX; pos++)
        for (int g = 0; g < kv->heads[0].n; g++) {
            const int page = kv->seqs[seq].pages[pos / HEARTH_KV_TILE], slot = pos % HEARTH_KV_TILE;
            uint8_t *bytes = hearth_kv_pin(kv, page);
            for (size_t i = 0; i < dim; i++)
                row[i] = 2 * random_value();
            hearth_type_info(kv->type_k)->encode(row, hearth_kv_key(kv, bytes, 0, g, slot), dim);
            for (size_t i = 0; i < dim; i++)
                row[i] = random_value();
            hearth_type_info(kv->type_v)->encode(row, hearth_kv_value(kv, bytes, 0, g, slot), dim);
            hearth_kv_unpin(kv, page);
        }
    free(row);
}

// One token's output in one head, as the definition has it.
static void reference(const struct hearth_session *s, int row, int head, double *out)
{
    const struct hearth_kv *kv = &s->kv;
    const struct hearth_row at = s->batch.rows[row];
    const int n_head = s->model->hp.n_head, window = s->model->hp.window, dim = kv->heads[0].dim;
    const int g = head / (n_head / kv->heads[0].n);
    const float *q = s->work.attention.q + ((size_t)row * (size_t)n_head + (size_t)head) * (size_t)dim;
    const int from = window && at.pos >= window ? at.pos - window + 1 : 0;
    static double p[N_CTX];
    float x[256];
    const float *sinks = s->context.weights->layers[0].attn_sinks.data;
    double max = sinks ? (double)sinks[head] : -INFINITY, sum = 0;
    for (int pos = from; pos <= at.pos; pos++) {
        const int page = kv->seqs[at.seq].pages[pos / HEARTH_KV_TILE];
        hearth_type_info(kv->type_k)
            ->decode(hearth_kv_key(kv, hearth_kv_pin(kv, page), 0, g, pos % HEARTH_KV_TILE), x, (size_t)dim);
        hearth_kv_unpin(kv, page);
        p[pos] = 0;
        for (int i = 0; i < dim; i++)
            p[pos] += (double)x[i] * (double)q[i];
        p[pos] /= sqrt((double)dim);
        max = p[pos] > max ? p[pos] : max;
    }
    memset(out, 0, (size_t)dim * sizeof *out);
    sum = sinks ? exp((double)sinks[head] - max) : 0;
    for (int pos = from; pos <= at.pos; pos++) {
        const int page = kv->seqs[at.seq].pages[pos / HEARTH_KV_TILE];
        hearth_type_info(kv->type_v)
            ->decode(hearth_kv_value(kv, hearth_kv_pin(kv, page), 0, g, pos % HEARTH_KV_TILE), x,
                     (size_t)dim);
        hearth_kv_unpin(kv, page);
        const double weight = exp(p[pos] - max);
        sum += weight;
        for (int i = 0; i < dim; i++)
            out[i] += weight * (double)x[i];
    }
    for (int i = 0; i < dim; i++)
        out[i] /= sum;
}

static void check_rows(const struct hearth_session *s, int n, const char *what)
{
    const int n_head = s->model->hp.n_head, dim = s->kv.heads[0].dim;
    // Queries meet keys in blocks as 15-bit integers.
    const double allowed = s->kv.type_k == HEARTH_TYPE_Q8_0 ? 2e-4 : 1e-5;
    double want[256], worst = 0;
    for (int row = 0; row < n; row++)
        for (int head = 0; head < n_head; head++) {
            reference(s, row, head, want);
            const float *got =
                s->work.attention.out + ((size_t)row * (size_t)n_head + (size_t)head) * (size_t)dim;
            for (int i = 0; i < dim; i++)
                if (fabs((double)got[i] - want[i]) > worst) // gcc 12 for ARM does not survive fmax() here
                    worst = fabs((double)got[i] - want[i]);
        }
    if (!(worst <= allowed))
        fail_msg("%s: off by %.3g", what, worst);
}

static float *run(struct hearth_session *s, enum hearth_phase phase, int n)
{
    const size_t width = (size_t)s->model->hp.n_head * (size_t)s->kv.heads[0].dim;
    memset(s->work.attention.out, 0xff, (size_t)n * width * sizeof(float));
    hearth_attention(&s->work.attention, (struct hearth_rows){0, n, phase}, 0);
    float *copy = malloc((size_t)n * width * sizeof *copy);
    return memcpy(copy, s->work.attention.out, (size_t)n * width * sizeof *copy);
}

static void check_session(struct hearth_model *m, enum hearth_kv_type type, int threads, float **first)
{
    static const int positions[] = {0, 63, 64, 1023, 1024, 1500, 2047, 2048, 2499};
    enum { STEPS = sizeof positions / sizeof positions[0], PROMPT = 70 };
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = N_CTX;
    p.max_seqs = STEPS;
    p.n_ubatch = PROMPT;
    p.n_threads = threads;
    p.type_k = p.type_v = type;
    struct hearth_error err = {0};
    if (hearth_session_open(&s, m, &p, &err))
        fail_msg("%s", err.message);
    state = 7;
    const size_t width = (size_t)m->hp.n_head * (size_t)m->hp.head_dim;
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(hearth_seq_new(s, &err), i);
    fill_cache(s, 0);
    fill_cache(s, 1);
    for (size_t i = 0; i < PROMPT * width; i++)
        s->work.attention.q[i] = 3 * random_value();

    // A step of sequences of very different lengths.
    for (int i = 0; i < STEPS; i++)
        s->batch.rows[i] = (struct hearth_row){i % 2, positions[i]};
    float *steps = run(s, HEARTH_PHASE_STEP, STEPS);
    check_rows(s, STEPS, "step");
    // Each alone gives the same bits.
    for (int i = 0; i < STEPS; i++) {
        if (i)
            memmove(s->work.attention.q, s->work.attention.q + width, (PROMPT - 1) * width * sizeof(float));
        s->batch.rows[0] = (struct hearth_row){i % 2, positions[i]};
        float *alone = run(s, HEARTH_PHASE_STEP, 1);
        assert_memory_equal(alone, steps + (size_t)i * width, width * sizeof(float));
        free(alone);
    }

    // A prompt's rows across the border of a range.
    state = 9;
    for (size_t i = 0; i < PROMPT * width; i++)
        s->work.attention.q[i] = 3 * random_value();
    for (int i = 0; i < PROMPT; i++)
        s->batch.rows[i] = (struct hearth_row){0, 2048 - PROMPT / 2 + i};
    float *prompt = run(s, HEARTH_PHASE_PROMPT, PROMPT);
    check_rows(s, PROMPT, "prompt");

    float *all = malloc((STEPS + PROMPT) * width * sizeof *all);
    memcpy(all, steps, STEPS * width * sizeof *all);
    memcpy(all + STEPS * width, prompt, PROMPT * width * sizeof *all);
    if (*first) {
        assert_memory_equal(all, *first, (STEPS + PROMPT) * width * sizeof *all);
        free(all);
    } else {
        *first = all;
    }
    free(steps);
    free(prompt);
    hearth_session_close(&s);
}

static void test_attention(void **unused)
{
    (void)unused;
    static const int windows[] = {0, 100, 1500};
    static const enum hearth_kv_type types[] = {HEARTH_KV_F32, HEARTH_KV_F16, HEARTH_KV_Q8_0};
    // Below, among and above the scores: what is left of the values is all, some and next to nothing.
    static const float sinks[] = {-100, -1, 0, 5, 20, 100};
    for (size_t w = 0; w < (SANITIZED ? 2 : 3); w++) {
        struct hearth_model *m = make_model(windows[w], w == 1 ? sinks : NULL);
        for (size_t t = 0; t < 3; t++) {
            float *first = NULL;
            for (int threads = 1; threads <= 3; threads += SANITIZED ? 2 : 1)
                check_session(m, types[t], threads, &first);
            // Levels differ in nothing that threads share, and plain C takes minutes in a sanitizer.
            for (size_t l = SANITIZED; !THREAD_SANITIZER && l < 3 && hearth_cpu_level(l); l++) {
                unsigned flags;
                if (!hearth_cpu_limit(hearth_cpu_level(l), &flags))
                    continue;
                hearth_kernels_init(&m->kernels, flags);
                check_session(m, types[t], 2, &first);
            }
            free(first);
        }
        hearth_model_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
