// SPDX-License-Identifier: MIT
// Samplers that drop candidates or scale their logits.
#include "sample/sampler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Of sort_whole(): three digits make the 32 bits of a logit.
#define DIGITS     3
#define DIGIT_BITS 11
#define RADIX      (1 << DIGIT_BITS)
// Logits that are compared with the worst of the best at once.
#define SCAN 16

// ---- order

// A total order, so that the sorting algorithm does not decide ties.
static bool before(const struct hearth_candidate *a, const struct hearth_candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static int compare(const void *a, const void *b)
{
    return before(a, b) ? -1 : 1;
}

// Restores the heap property (the root comes last in order) below `i`.
static void sift_down(struct hearth_candidate *heap, size_t n, size_t i)
{
    for (;;) {
        size_t worst = i, left = 2 * i + 1;
        for (size_t child = left; child < left + 2 && child < n; child++)
            if (before(&heap[worst], &heap[child]))
                worst = child;
        if (worst == i)
            return;
        struct hearth_candidate swap = heap[i];
        heap[i] = heap[worst];
        heap[worst] = swap;
        i = worst;
    }
}

// What sorts logits as whole numbers, the largest first; both zeros alike.
static uint32_t falling_key(float logit)
{
    const float x = logit + 0.0f;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? bits : ~bits & 0x7fffffffu;
}

static uint32_t digit_of(float logit, int digit)
{
    return falling_key(logit) >> digit * DIGIT_BITS & (RADIX - 1);
}

static bool ids_rise(const struct hearth_candidates *all)
{
    for (size_t i = 1; i < all->n; i++)
        if (all->c[i].id < all->c[i - 1].id)
            return false;
    return true;
}

// A radix sort, which keeps the order of equals: for candidates by rising id. A whole vocabulary takes it a
// tenth of qsort()'s time. `spare` has room for as many.
static void sort_whole(struct hearth_candidates *all, struct hearth_candidate *spare)
{
    struct hearth_candidate *from = all->c, *to = spare;
    uint32_t starts[DIGITS][RADIX] = {0};
    for (size_t i = 0; i < all->n; i++)
        for (int d = 0; d < DIGITS; d++)
            starts[d][digit_of(from[i].logit, d)]++;
    for (int d = 0; d < DIGITS; d++) {
        uint32_t sum = 0;
        for (int i = 0; i < RADIX; i++) {
            const uint32_t count = starts[d][i];
            starts[d][i] = sum;
            sum += count;
        }
        for (size_t i = 0; i < all->n; i++)
            to[starts[d][digit_of(from[i].logit, d)]++] = from[i];
        struct hearth_candidate *swap = from;
        from = to;
        to = swap;
    }
    if (from != all->c)
        memcpy(all->c, from, all->n * sizeof *from);
}

static void sort(struct hearth_candidates *all)
{
    struct hearth_candidate *spare = all->n > RADIX && ids_rise(all) ? malloc(all->n * sizeof *spare) : NULL;
    if (spare)
        sort_whole(all, spare);
    else
        qsort(all->c, all->n, sizeof *all->c, compare);
    free(spare);
}

static void make_heap(struct hearth_candidate *c, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(c, n, i);
}

// Whether one of them may be better than a logit of a smaller id. NaN may.
static bool any_above(const float *logits, float floor)
{
    unsigned any = 0;
    for (int i = 0; i < SCAN; i++)
        any |= !(logits[i] <= floor);
    return any;
}

void hearth_candidates_best(struct hearth_candidates *all, const float *logits, size_t k)
{
    const size_t n = all->n;
    struct hearth_candidate *c = all->c;
    assert(k > 0 && k < n);
    for (size_t i = 0; i < k; i++)
        c[i] = hearth_candidate_of((hearth_token)i, logits[i]);
    make_heap(c, k);
    for (size_t i = k, end; i < n; i = end) {
        const bool whole = n - i >= SCAN;
        end = whole ? i + SCAN : n;
        if (whole && !any_above(logits + i, c[0].logit))
            continue;
        for (; i < end; i++) {
            const struct hearth_candidate x = hearth_candidate_of((hearth_token)i, logits[i]);
            if (!before(&x, &c[0]))
                continue;
            c[0] = x;
            sift_down(c, k, 0);
        }
    }
    all->n = k;
}

void hearth_candidates_sort(struct hearth_candidates *all, size_t k)
{
    assert(k > 0 && all->n > 0);
    struct hearth_candidate *c = all->c;
    if (k < all->n && !all->sorted) {
        make_heap(c, k);
        for (size_t i = k; i < all->n; i++)
            if (before(&c[i], &c[0])) {
                const struct hearth_candidate swap = c[0];
                c[0] = c[i];
                c[i] = swap;
                sift_down(c, k, 0);
            }
    }
    if (k < all->n)
        all->n = k;
    if (!all->sorted)
        sort(all);
    all->sorted = true;
}

void hearth_candidates_softmax(struct hearth_candidates *all)
{
    hearth_candidates_sort(all, all->n);
    struct hearth_candidate *c = all->c;
    double sum = 0;
    for (size_t i = 0; i < all->n; i++) {
        // The first is compared with itself, so that infinite logits give 1 and not NaN.
        c[i].p = c[i].logit == c[0].logit ? 1.0f : (float)exp((double)c[i].logit - (double)c[0].logit);
        sum += (double)c[i].p;
    }
    for (size_t i = 0; i < all->n; i++)
        c[i].p = (float)((double)c[i].p / sum);
}

static double entropy_of(const struct hearth_candidates *all)
{
    double entropy = 0;
    for (size_t i = 0; i < all->n; i++)
        if (all->c[i].p > 0)
            entropy -= (double)all->c[i].p * log((double)all->c[i].p);
    return entropy;
}

// ---- truncation

void hearth_cut_top_n_sigma(struct hearth_candidates *all, float n)
{
    double sum = 0, squares = 0, max = -INFINITY;
    size_t count = 0;
    for (size_t i = 0; i < all->n; i++) {
        double logit = (double)all->c[i].logit;
        if (logit == -INFINITY)
            continue;
        count++;
        sum += logit;
        max = logit > max ? logit : max;
    }
    double mean = count ? sum / (double)count : 0;
    for (size_t i = 0; i < all->n; i++)
        if (all->c[i].logit != -INFINITY)
            squares += ((double)all->c[i].logit - mean) * ((double)all->c[i].logit - mean);
    double floor = max - (double)n * (count ? sqrt(squares / (double)count) : 0);
    size_t kept = 0;
    for (size_t i = 0; i < all->n; i++)
        if (!((double)all->c[i].logit < floor))
            all->c[kept++] = all->c[i];
    if (kept)
        all->n = kept;
}

void hearth_cut_top_p(struct hearth_candidates *all, float top_p)
{
    hearth_candidates_softmax(all);
    double sum = 0;
    for (size_t i = 0; i < all->n; i++) {
        sum += (double)all->c[i].p;
        if (sum >= (double)top_p) {
            all->n = i + 1;
            return;
        }
    }
}

void hearth_cut_min_p(struct hearth_candidates *all, float min_p)
{
    hearth_candidates_sort(all, all->n);
    float floor = all->c[0].logit + logf(min_p);
    size_t kept = 1;
    while (kept < all->n && all->c[kept].logit >= floor)
        kept++;
    all->n = kept;
}

static int compare_p(const void *a, const void *b)
{
    const struct hearth_candidate *x = a, *y = b;
    if (x->p != y->p)
        return x->p < y->p ? -1 : 1;
    return before(x, y) ? -1 : 1;
}

// Keeps the tokens whose surprise is nearest to the entropy, up to a total probability of typ_p.
// Meister et al. 2022, "Locally typical sampling".
void hearth_cut_typical(struct hearth_candidates *all, float typ_p)
{
    hearth_candidates_softmax(all);
    double entropy = entropy_of(all);
    // p becomes the distance to sort by. The probability can still be computed from the logits.
    double top = (double)all->c[0].logit, norm = 0;
    for (size_t i = 0; i < all->n; i++)
        norm += exp((double)all->c[i].logit - top);
    for (size_t i = 0; i < all->n; i++)
        all->c[i].p = (float)fabs(-log((double)all->c[i].p) - entropy);
    qsort(all->c, all->n, sizeof *all->c, compare_p);
    all->sorted = false;
    double sum = 0;
    for (size_t i = 0; i < all->n; i++) {
        sum += exp((double)all->c[i].logit - top) / norm;
        if (sum > (double)typ_p) {
            all->n = i + 1;
            return;
        }
    }
}

// "Exclude top choices": of the tokens at or above the threshold, only the least likely stays.
void hearth_cut_xtc(struct hearth_candidates *all, float threshold)
{
    if (threshold > 0.5f || all->n < 2)
        return;
    hearth_candidates_softmax(all);
    size_t above = 0;
    while (above < all->n && all->c[above].p >= threshold)
        above++;
    if (above < 2)
        return;
    all->n -= above - 1;
    for (size_t i = 0; i < all->n; i++)
        all->c[i] = all->c[i + above - 1];
}

void hearth_cut_surprise(struct hearth_candidates *all, float mu)
{
    size_t kept = 1;
    while (kept < all->n && -log2f(all->c[kept].p) <= mu)
        kept++;
    all->n = kept;
}

void hearth_cut_zipf(struct hearth_candidates *all, float mu, int n_vocab)
{
    // The exponent of p(rank) ~ 1 / rank^exponent, by least squares over neighbours among the best 100.
    double products = 0, squares = 0;
    for (size_t i = 0; i + 1 < all->n && i < 99 && all->c[i + 1].logit != -INFINITY; i++) {
        double step = log((double)(i + 2) / (double)(i + 1));
        products += step * ((double)all->c[i].logit - (double)all->c[i + 1].logit);
        squares += step * step;
    }
    double exponent = squares > 0 ? products / squares : 0, over = exponent - 1;
    if (squares > 0 && !(exponent > 0))
        return; // all logits are equal
    // over / (1 - n^-over), which is 1 / log(n) where over is 0
    double share = fabs(over) > 1e-9 ? over / -expm1(-over * log((double)n_vocab)) : 1 / log((double)n_vocab);
    double k = squares > 0 ? pow(share * exp2((double)mu), 1 / exponent) : 1;
    if (k < (double)all->n)
        hearth_candidates_sort(all, k >= 1 ? (size_t)k : 1);
}

// ---- temperature

void hearth_scale_temperature(struct hearth_candidates *all, float temp, float range, float exponent)
{
    if (range > 0 && all->n > 1) {
        // The flatter the distribution, the higher the temperature within temp +- range.
        hearth_candidates_softmax(all);
        double share = entropy_of(all) / log((double)all->n);
        float low = temp - range > 0 ? temp - range : 0;
        temp = low + (temp + range - low) * (float)pow(share > 0 ? share : 0, (double)exponent);
    }
    if (temp <= 0) {
        hearth_candidates_sort(all, 1);
        return;
    }
    for (size_t i = 0; i < all->n; i++)
        all->c[i].logit /= temp;
}
