// SPDX-License-Identifier: MIT
// The planted stream of a synthetic model: token codes that wander, a head that follows them,
// routers that read them, and the size of everything that layers add.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "synth/insides.h"

// Correlation of the slow halves of consecutive tokens' codes.
#define SLOW_MEMORY 0.9f
// Mean square that all layers together add to the stream.
#define ADDED 0.12f
// Logits of the token that follows, from the slow and the fast half of the code; standard
// deviation of a router's scores.
#define SLOW_LOGIT    8.0f
#define FAST_LOGIT    1.2f
#define ROUTER_STDDEV 1.5f
// Where the stream drifts: correlation of the turning parts of consecutive tokens' codes, and logits from the
// slow, the fast and the turning part.
#define TURN -0.6f
static const float drift_logits[HEARTH_SYNTH_KINDS] = {5.0f, 2.5f, 1.7f, 0.0f};

// ---- codes

struct chain {
    const struct hearth_synth *s;
    struct hearth_synth_rng rng;
    float *code, *previous; // [E] the codes of the current and the previous token
};

// Removes the constant's share from the part of v that is of a kind, and scales it to mean square 1.
static void clean_part(const struct hearth_synth *s, float *v, enum hearth_synth_kind kind)
{
    const size_t width = s->p->n_embd, n = hearth_synth_count(s, kind);
    const bool drift = s->params->drift;
    double share = 0, square = 0;
    for (size_t i = 0; i < width; i++)
        if (hearth_synth_kind_of(drift, i) == kind)
            share += (double)(v[i] * s->constant[i]);
    share /= (double)n;
    for (size_t i = 0; i < width; i++)
        if (hearth_synth_kind_of(drift, i) == kind) {
            v[i] -= (float)share * s->constant[i];
            square += (double)(v[i] * v[i]);
        }
    const float scale = (float)(1 / sqrt(square / (double)n));
    for (size_t i = 0; i < width; i++)
        if (hearth_synth_kind_of(drift, i) == kind)
            v[i] *= scale;
}

// The next token's code: its slow part moves a little, its fast part is new.
static void advance(struct chain *c)
{
    static const float memory[HEARTH_SYNTH_KINDS] = {SLOW_MEMORY, 0.0f, TURN, 0.0f};
    const size_t width = c->s->p->n_embd;
    const bool drift = c->s->params->drift;
    float news[32];
    memcpy(c->previous, c->code, width * sizeof *c->code);
    for (size_t i = 0; i < width; i += 32) {
        const enum hearth_synth_kind kind = hearth_synth_kind_of(drift, i);
        const float kept = memory[kind];
        hearth_synth_bell(&c->rng, news, 32, kept != 0.0f ? sqrtf(1 - kept * kept) : 1.0f);
        for (size_t j = 0; j < 32; j++)
            c->code[i + j] = (kept != 0.0f ? kept * c->code[i + j] : 0.0f) + news[j];
        if (kind == HEARTH_SYNTH_WRITTEN)
            memset(c->code + i, 0, 32 * sizeof *c->code);
    }
    clean_part(c->s, c->code, HEARTH_SYNTH_SLOW);
    clean_part(c->s, c->code, HEARTH_SYNTH_FAST);
    if (drift)
        clean_part(c->s, c->code, HEARTH_SYNTH_TURNING);
}

// Starts before the first token, whose slow half grows out of the numbers drawn here.
static int chain_open(struct chain *c, const struct hearth_synth *s)
{
    c->s = s;
    c->rng = hearth_synth_rng(s->params->seed, HEARTH_SYNTH_STREAM_CODE, 0);
    c->code = hearth_calloc(s->p->n_embd, sizeof *c->code);
    c->previous = hearth_calloc(s->p->n_embd, sizeof *c->previous);
    if (!c->code || !c->previous)
        return hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
    hearth_synth_bell(&c->rng, c->code, s->p->n_embd, 1.0f);
    return HEARTH_OK;
}

static void chain_close(struct chain *c)
{
    free(c->code);
    free(c->previous);
}

// ---- embedding and head

enum { ROWS = 64 };

// Rows of floats and their quantised form.
struct rows {
    const struct hearth_synth *s;
    float *f32; // [ROWS x E]
    size_t row_bytes;
};

static void encode_row(void *arg, int task, int worker)
{
    (void)worker;
    const struct rows *r = arg;
    const size_t width = r->s->p->n_embd;
    hearth_type_info(HEARTH_TYPE_Q4_0)
        ->encode(r->f32 + (size_t)task * width, r->s->buffer + (size_t)task * r->row_bytes, width);
}

// Makes the row of token `id`, whose code is the chain's current one.
typedef void (*row_fn)(const struct chain *c, uint32_t id, float *row);

static void embedding_row(const struct chain *c, uint32_t id, float *row)
{
    (void)id;
    for (size_t i = 0; i < c->s->p->n_embd; i++)
        row[i] = hearth_synth_kind_of(c->s->params->drift, i) == HEARTH_SYNTH_WRITTEN
                     ? 0.0f
                     : HEARTH_SYNTH_CONSTANT * c->s->constant[i] + HEARTH_SYNTH_CODE * c->code[i];
}

// As head_row, where the stream drifts.
static void drift_head_row(const struct chain *c, uint32_t id, float *row)
{
    const struct hearth_synth *s = c->s;
    const float *before = id == HEARTH_SYNTH_FIRST_WORD ? s->last_code : c->previous;
    float logits[HEARTH_SYNTH_KINDS];
    for (int kind = 0; kind < HEARTH_SYNTH_KINDS; kind++)
        logits[kind] = drift_logits[kind] * s->view.size / HEARTH_SYNTH_CODE /
                       (float)hearth_synth_count(s, (enum hearth_synth_kind)kind);
    const float never = -2 * SLOW_LOGIT * s->view.size / HEARTH_SYNTH_CONSTANT / (float)s->p->n_embd;
    for (size_t i = 0; i < s->p->n_embd; i++) {
        const enum hearth_synth_kind kind = hearth_synth_kind_of(true, i);
        row[i] = id >= HEARTH_SYNTH_FIRST_WORD  ? before[i] * logits[kind]
                 : kind == HEARTH_SYNTH_WRITTEN ? 0.0f
                                                : 2 * never * s->constant[i]; // half of the elements
    }
}

// Words look for the code of the previous token, the first word for that of the last. Special
// tokens and bytes are never chosen.
static void head_row(const struct chain *c, uint32_t id, float *row)
{
    const size_t width = c->s->p->n_embd;
    const float norm = sqrtf(1 + hearth_synth_added(c->s, c->s->p->n_layer)) / (float)width;
    const float slow = 2 * SLOW_LOGIT * norm / HEARTH_SYNTH_CODE;
    const float fast = 2 * FAST_LOGIT * norm / HEARTH_SYNTH_CODE;
    const float never = -2 * SLOW_LOGIT * norm / HEARTH_SYNTH_CONSTANT;
    const float *before = id == HEARTH_SYNTH_FIRST_WORD ? c->s->last_code : c->previous;
    for (size_t i = 0; i < width; i++)
        row[i] = id < HEARTH_SYNTH_FIRST_WORD ? never * c->s->constant[i]
                                              : before[i] * (hearth_synth_is_slow(i) ? slow : fast);
}

// Writes one row per token. `last`, if not NULL, becomes the last token's code.
static int write_rows(struct hearth_synth *s, row_fn fill, float *last)
{
    const size_t width = s->p->n_embd;
    struct rows r = {s, NULL, hearth_type_bytes(HEARTH_TYPE_Q4_0, width)};
    struct chain c = {0};
    int rc = chain_open(&c, s);
    r.f32 = hearth_calloc(width, ROWS * sizeof *r.f32);
    if (!rc && !r.f32)
        rc = hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
    for (uint32_t id = 0; id < s->p->n_vocab && !rc;) {
        int n = 0;
        for (; n < ROWS && id < s->p->n_vocab; n++, id++) {
            advance(&c);
            fill(&c, id, r.f32 + (size_t)n * width);
        }
        hearth_pool_run(s->pool, encode_row, &r, n);
        rc = hearth_synth_write(s, s->buffer, (size_t)n * r.row_bytes);
    }
    if (!rc && last)
        memcpy(last, c.code, width * sizeof *last);
    free(r.f32);
    chain_close(&c);
    return rc;
}

int hearth_synth_write_embedding(struct hearth_synth *s)
{
    return write_rows(s, embedding_row, s->last_code);
}

int hearth_synth_write_head(struct hearth_synth *s)
{
    if (s->params->drift)
        hearth_synth_look(s, s->p->n_layer);
    return write_rows(s, s->params->drift ? drift_head_row : head_row, NULL);
}

// ---- routers

// The row of an expert: `popular` is its quantile of a normal distribution.
static void router_row(const struct hearth_synth *s, uint32_t layer, struct hearth_synth_rng *rng,
                       double popular, float *row)
{
    const struct hearth_synth_planting *p = s->p->planting;
    const size_t width = s->p->n_embd;
    const float spread = sqrtf(HEARTH_SYNTH_CODE * HEARTH_SYNTH_CODE + hearth_synth_added(s, layer));
    const float slow = ROUTER_STDDEV * sqrtf(2 * p->router_slow / (float)width);
    const float fast = ROUTER_STDDEV * sqrtf(2 * (1 - p->router_slow) / (float)width);
    double share = 0;
    for (size_t i = 0; i < width; i += 32)
        hearth_synth_bell(rng, row + i, 32, hearth_synth_is_slow(i) ? slow : fast);
    for (size_t i = 0; i < width; i++)
        share += (double)(row[i] * s->constant[i]);
    const double mean = popular * (double)(p->popularity * ROUTER_STDDEV * spread);
    const float add = (float)((mean / (double)HEARTH_SYNTH_CONSTANT - share) / (double)width);
    for (size_t i = 0; i < width; i++)
        row[i] += add * s->constant[i];
}

// The same where the stream drifts: of s->view. Routers see the code's slow and fast parts alone, so that
// experts change neither from layer to layer nor from token to token more than without drift.
static void drift_router_row(const struct hearth_synth *s, struct hearth_synth_rng *rng, double popular,
                             float *row)
{
    const struct hearth_synth_planting *p = s->p->planting;
    const size_t width = s->p->n_embd;
    const float stddev = ROUTER_STDDEV * s->view.size, unit = stddev / HEARTH_SYNTH_CODE;
    const float n_slow = (float)hearth_synth_count(s, HEARTH_SYNTH_SLOW);
    const float n_fast = (float)hearth_synth_count(s, HEARTH_SYNTH_FAST);
    const float stddevs[HEARTH_SYNTH_KINDS] = {unit * sqrtf(p->router_slow / n_slow),
                                               unit * sqrtf((1 - p->router_slow) / n_fast)};
    double share = 0;
    for (size_t i = 0; i < width; i += 32)
        hearth_synth_bell(rng, row + i, 32, stddevs[hearth_synth_kind_of(true, i)]);
    for (size_t i = 0; i < width; i++)
        share += (double)(row[i] * s->view.expected[i]);
    const float add = (float)(popular * (double)(p->popularity * stddev) - share);
    for (size_t i = 0; i < width; i++)
        row[i] += add * s->view.detect[i];
}

// Scores are ROUTER_STDDEV times a standard normal number of the stream, plus the expert's
// popularity, which is a quantile of a normal distribution.
int hearth_synth_write_router(struct hearth_synth *s, uint32_t layer)
{
    const uint32_t n = s->p->n_expert;
    const size_t width = s->p->n_embd;
    struct hearth_synth_rng rng =
        hearth_synth_rng(s->params->seed, HEARTH_SYNTH_STREAM_COMMON, 1 + (uint64_t)layer);
    float *row = hearth_calloc(width, sizeof *row);
    uint32_t *rank = hearth_calloc(n, sizeof *rank);
    int rc = row && rank ? HEARTH_OK : hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
    if (!rc)
        hearth_synth_shuffle(&rng, rank, n);
    if (!rc && s->params->drift)
        hearth_synth_look(s, layer);
    for (uint32_t x = 0; x < n && !rc; x++) {
        const double popular = hearth_synth_quantile((rank[x] + 0.5) / n);
        if (s->params->drift)
            drift_router_row(s, &rng, popular, row);
        else
            router_row(s, layer, &rng, popular, row);
        rc = hearth_synth_write(s, row, width * sizeof *row);
    }
    free(row);
    free(rank);
    return rc;
}

// ---- opening

// The standard deviation of the down matrices for which the feed-forward part's output has mean
// square gain^2.
static float down_stddev(const struct hearth_synth *s)
{
    const uint32_t n = s->p->n_ff, samples = n < 256 ? n : 256;
    double sum = 0;
    for (uint32_t i = 0; i < samples; i++) {
        const double t = (double)s->threshold[(size_t)i * n / samples];
        sum += hearth_synth_activation(s, t, 2);
    }
    const double spread = (double)(HEARTH_SYNTH_CODE * HEARTH_SYNTH_CODE);
    const double total = sum * n / samples * spread * (hearth_synth_is_drelu(s) ? spread : 1);
    return (float)((double)s->gain / sqrt(total));
}

static void set_thresholds(struct hearth_synth *s)
{
    const struct hearth_synth_level *l = s->p->planting->levels;
    const uint32_t n = s->p->n_ff;
    double start = 0;
    for (uint32_t i = 0, at = 0; i < n; i++) {
        const double where = (i + 0.5) / n;
        while (at < 2 && where > start + (double)l[at].share)
            start += (double)l[at++].share;
        const double down = (where - start) / (double)l[at].share;
        s->threshold[i] =
            (float)hearth_synth_quantile((double)l[at].high * pow((double)(l[at].low / l[at].high), down));
    }
}

int hearth_synth_open_stream(struct hearth_synth *s)
{
    const uint32_t width = s->p->n_embd, n_ff = s->p->n_ff;
    s->gain = sqrtf(ADDED / (2.0f * (float)s->p->n_layer));
    if (!s->p->planting)
        return HEARTH_OK;
    s->constant = hearth_calloc(width, sizeof *s->constant);
    s->last_code = hearth_calloc(width, sizeof *s->last_code);
    s->threshold = hearth_calloc(n_ff, sizeof *s->threshold);
    if (!s->constant || !s->last_code || !s->threshold)
        return hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
    // As many +1 as -1 in each half, so that LayerNorm, which subtracts means, leaves it alone.
    struct hearth_synth_rng rng = hearth_synth_rng(s->params->seed, HEARTH_SYNTH_STREAM_COMMON, 0);
    for (size_t i = 0; i < width; i += 2) {
        s->constant[i] = hearth_synth_next(&rng) >> 63 ? 1.0f : -1.0f;
        s->constant[i + 1] = -s->constant[i];
    }
    if (s->p->planting->levels[0].share > 0) {
        set_thresholds(s);
        s->down_stddev = down_stddev(s);
    }
    if (s->params->drift && hearth_synth_open_view(s))
        return HEARTH_E_MEMORY;
    const bool gated = s->p->arch != HEARTH_SYNTH_FALCON;
    if (s->p->pack)
        return hearth_bundle_lay_out(&s->bundle, width, gated ? HEARTH_TYPE_Q4_0 : HEARTH_TYPE_END,
                                     HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q4_0, s->err);
    return HEARTH_OK;
}

void hearth_synth_free_stream(struct hearth_synth *s)
{
    free(s->constant);
    free(s->last_code);
    free(s->threshold);
    hearth_synth_free_view(s);
}
