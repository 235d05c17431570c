// SPDX-License-Identifier: MIT
// From logits to a token. Order and meaning of the samplers are llama.cpp's: penalties, top-k, top-p, min-p,
// temperature, draw. Everything is allocated on opening.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"

struct candidate {
    hearth_token id;
    float logit;
    float p;
};

struct hearth_sampler {
    struct hearth_sampler_params params;
    int n_vocab;
    uint64_t rng;
    float *logits;                // [n_vocab] after penalties
    struct candidate *candidates; // [n_vocab]
    uint32_t *counts;             // [n_vocab] occurrences within the last repeat_last_n
    hearth_token *ring;           // [repeat_last_n], none when all tokens count
    int ring_at, ring_used;
};

// PCG32 (XSH RR): small, and good enough by far for drawing tokens.
static uint32_t next_u32(uint64_t *state)
{
    uint64_t old = *state;
    *state = old * 6364136223846793005u + 1442695040888963407u;
    uint32_t x = (uint32_t)(((old >> 18) ^ old) >> 27);
    uint32_t r = (uint32_t)(old >> 59);
    return (x >> r) | (x << ((32 - r) & 31));
}

static double next_unit(uint64_t *state)
{
    uint64_t high = next_u32(state), low = next_u32(state);
    return (double)((high << 21) ^ (low >> 11)) / 9007199254740992.0;
}

// Larger logit first, then smaller id: a total order, so that ties do not depend on the sort.
static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static int compare(const void *a, const void *b)
{
    return before(a, b) ? -1 : 1;
}

// Restores the heap property (root = last in order) below `i`.
static void sift_down(struct candidate *heap, size_t n, size_t i)
{
    for (;;) {
        size_t worst = i, left = 2 * i + 1;
        for (size_t child = left; child < left + 2 && child < n; child++)
            if (before(&heap[worst], &heap[child]))
                worst = child;
        if (worst == i)
            return;
        struct candidate swap = heap[i];
        heap[i] = heap[worst];
        heap[worst] = swap;
        i = worst;
    }
}

// The k best candidates in order, at the front of s->candidates.
static size_t take_best(struct hearth_sampler *s, const float *logits, size_t k)
{
    const size_t n = (size_t)s->n_vocab;
    struct candidate *c = s->candidates;
    for (size_t i = 0; i < k; i++)
        c[i] = (struct candidate){(hearth_token)i, logits[i], 0};
    if (k < n) {
        for (size_t i = k / 2; i-- > 0;)
            sift_down(c, k, i);
        for (size_t i = k; i < n; i++) {
            struct candidate next = {(hearth_token)i, logits[i], 0};
            if (before(&next, &c[0])) {
                c[0] = next;
                sift_down(c, k, 0);
            }
        }
    }
    qsort(c, k, sizeof *c, compare);
    return k;
}

static void softmax(struct candidate *c, size_t n, float temp)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        c[i].p = (float)exp(((double)c[i].logit - (double)c[0].logit) / (double)temp);
        sum += (double)c[i].p;
    }
    for (size_t i = 0; i < n; i++)
        c[i].p = (float)((double)c[i].p / sum);
}

static size_t cut_top_p(struct candidate *c, size_t n, float top_p)
{
    softmax(c, n, 1.0f);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)c[i].p;
        if (sum >= (double)top_p)
            return i + 1;
    }
    return n;
}

static size_t cut_min_p(const struct candidate *c, size_t n, float min_p)
{
    float floor = c[0].logit + logf(min_p);
    size_t kept = 1;
    while (kept < n && c[kept].logit >= floor)
        kept++;
    return kept;
}

static void penalize(const struct hearth_sampler *s, float *logits)
{
    const struct hearth_sampler_params *p = &s->params;
    for (int i = 0; i < s->n_vocab; i++) {
        if (!s->counts[i])
            continue;
        float l = logits[i];
        l = l <= 0 ? l * p->repeat_penalty : l / p->repeat_penalty;
        logits[i] = l - (float)s->counts[i] * p->frequency_penalty - p->presence_penalty;
    }
}

static bool has_penalties(const struct hearth_sampler_params *p)
{
    return p->repeat_last_n != 0 &&
           (p->repeat_penalty != 1.0f || p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f);
}

static hearth_token greedy(const float *logits, int n)
{
    hearth_token best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best] || (isnan(logits[best]) && !isnan(logits[i])))
            best = i;
    return best;
}

hearth_token hearth_sample(struct hearth_sampler *sampler, const float *logits)
{
    struct hearth_sampler *s = sampler;
    const struct hearth_sampler_params *p = &s->params;
    // NaN has no place in an order; it can come only from a damaged model, and must not break the heap.
    for (int i = 0; i < s->n_vocab; i++)
        s->logits[i] = isnan(logits[i]) ? -FLT_MAX : logits[i];
    if (has_penalties(p))
        penalize(s, s->logits);
    if (p->temp <= 0)
        return greedy(s->logits, s->n_vocab);

    struct candidate *c = s->candidates;
    size_t k = p->top_k > 0 && p->top_k < s->n_vocab ? (size_t)p->top_k : (size_t)s->n_vocab;
    size_t n = take_best(s, s->logits, k);
    if (p->top_p < 1.0f)
        n = cut_top_p(c, n, p->top_p);
    if (p->min_p > 0.0f)
        n = cut_min_p(c, n, p->min_p);
    softmax(c, n, p->temp);

    double u = next_unit(&s->rng);
    for (size_t i = 0; i < n; i++) {
        u -= (double)c[i].p;
        if (u < 0)
            return c[i].id;
    }
    return c[n - 1].id;
}

void hearth_sampler_accept(struct hearth_sampler *sampler, hearth_token token)
{
    struct hearth_sampler *s = sampler;
    if (token < 0 || token >= s->n_vocab || s->params.repeat_last_n == 0)
        return;
    if (s->ring) {
        if (s->ring_used == s->params.repeat_last_n)
            s->counts[s->ring[s->ring_at]]--;
        else
            s->ring_used++;
        s->ring[s->ring_at] = token;
        s->ring_at = (s->ring_at + 1) % s->params.repeat_last_n;
    }
    s->counts[token]++;
}

uint32_t hearth_sampler_seed(const struct hearth_sampler *sampler)
{
    return sampler->params.seed;
}

struct hearth_sampler_params hearth_sampler_params_default(void)
{
    return (struct hearth_sampler_params){.seed = UINT32_MAX,
                                          .temp = 0.8f,
                                          .top_k = 40,
                                          .top_p = 0.95f,
                                          .min_p = 0.05f,
                                          .repeat_last_n = 64,
                                          .repeat_penalty = 1.0f};
}

static int check_params(const struct hearth_sampler_params *p, struct hearth_error *err)
{
    if (!isfinite(p->temp) || !isfinite(p->top_p) || !isfinite(p->min_p) || !isfinite(p->presence_penalty) ||
        !isfinite(p->frequency_penalty))
        return hearth_fail(err, HEARTH_E_INVALID, "sampling parameters must be finite numbers");
    if (!(p->repeat_penalty > 0) || !isfinite(p->repeat_penalty))
        return hearth_fail(err, HEARTH_E_INVALID, "repeat-penalty must be above 0 (1 is off)");
    if (p->repeat_last_n < -1 || p->repeat_last_n > 1 << 24)
        return hearth_fail(err, HEARTH_E_INVALID, "repeat-last-n must be -1 (all) or 0 to %d", 1 << 24);
    return HEARTH_OK;
}

int hearth_sampler_open(struct hearth_sampler **out, int n_vocab, const struct hearth_sampler_params *params,
                        struct hearth_error *err)
{
    *out = NULL;
    struct hearth_sampler_params p = params ? *params : hearth_sampler_params_default();
    int rc = check_params(&p, err);
    if (!rc && n_vocab < 1)
        rc = hearth_fail(err, HEARTH_E_INVALID, "a sampler needs a vocabulary");
    if (rc)
        return rc;
    if (p.seed == UINT32_MAX)
        p.seed = (uint32_t)(hearth_random_u64() % UINT32_MAX);
    struct hearth_sampler *s = hearth_calloc(1, sizeof *s);
    if (!s)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a sampler");
    s->params = p;
    s->n_vocab = n_vocab;
    s->rng = (uint64_t)p.seed * 0x9E3779B97F4A7C15u + 1;
    next_u32(&s->rng); // neighbouring seeds part after the first turn
    s->logits = hearth_calloc((size_t)n_vocab, sizeof *s->logits);
    s->candidates = hearth_calloc((size_t)n_vocab, sizeof *s->candidates);
    s->counts = hearth_calloc((size_t)n_vocab, sizeof *s->counts);
    if (p.repeat_last_n > 0)
        s->ring = hearth_calloc((size_t)p.repeat_last_n, sizeof *s->ring);
    if (!s->logits || !s->candidates || !s->counts || (p.repeat_last_n > 0 && !s->ring)) {
        hearth_sampler_close(&s);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a sampler");
    }
    *out = s;
    return HEARTH_OK;
}

void hearth_sampler_close(struct hearth_sampler **sampler)
{
    struct hearth_sampler *s = *sampler;
    if (!s)
        return;
    free(s->logits);
    free(s->candidates);
    free(s->counts);
    free(s->ring);
    free(s);
    *sampler = NULL;
}
