// SPDX-License-Identifier: MIT
// Planted neurons: gates with a known probability of being positive, ups that follow them, and predictors
// that know both. docs/synth.md explains what is planted and why it holds.
//
// gate_j = A_j . (B x) + threshold_j. B is a random basis of r directions that the space's neurons share, the
// A_j are random, and the threshold is a multiple of the stream's constant. A predictor of rank 2 r + m
// computes the same: its first layer is B, -B and m times the constant, its second A, -A and the threshold,
// because max(0, u) - max(0, -u) = u. A and B are drawn in Q4_0, so only the gates are rounded.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "synth/insides.h"

enum { ROWS = 64, BLOCK = 32, BLOCK_BYTES = 18 };

// Scratch memory of one worker.
struct scratch {
    float *a;    // [ROWS x r]
    float *rows; // [ROWS x E]
    float *row;  // [E]
    void *matmul;
};

struct hearth_synth_maker {
    struct hearth_synth *s;
    float *basis;    // [E x r] B without the constant's share, transposed
    float *row;      // [E]
    float *share;    // [r] share of the constant in each row of B
    uint32_t *order; // [F]
    struct scratch *workers;

    // The current space.
    const struct hearth_synth_space *out;
    uint64_t stream;
    size_t n_basis, n_constants; // r, m: 2 r + m is the predictor's rank
    float detected;              // value of one of the m rows for the constant alone
    float spread; // standard deviation of a unit row's product with the stream without the constant
    const struct hearth_synth_view *view; // of a stream that drifts, else NULL
    struct hearth_synth_writing writing;
};

static size_t matrix_row(const struct hearth_synth_maker *m)
{
    return (size_t)m->s->p->n_embd / BLOCK * BLOCK_BYTES;
}

// ---- neurons

// Copies the numbers with the other sign.
static void negate(const uint8_t *from, uint8_t *to, size_t n_blocks)
{
    memcpy(to, from, n_blocks * BLOCK_BYTES);
    for (size_t i = 0; i < n_blocks; i++)
        to[i * BLOCK_BYTES + 1] ^= 0x80;
}

// A block of 32 times `value`, exact except for the scale's half precision.
static void constant_block(uint8_t *dst, float value)
{
    const uint16_t d = hearth_f32_to_f16(-value / 8);
    memset(dst, 0, BLOCK_BYTES);
    memcpy(dst, &d, sizeof d);
}

static float norm_of(const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)(v[i] * v[i]);
    return (float)sqrt(sum);
}

// The standard deviation of a row's product with a stream that drifts, without the constant.
static float spread_of(const struct hearth_synth_maker *m, const float *row)
{
    double sum = 0;
    for (size_t i = 0; i < m->s->p->n_embd; i++)
        sum += (double)(row[i] * row[i] * m->view->variance[i]);
    return (float)sqrt(sum);
}

// v += scale * w
static void add_scaled(float *v, const float *w, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] += scale * w[i];
}

// The multiple of the constant that raises a row's product with the stream by `value`.
static float constant_share(const struct hearth_synth_maker *m, float value)
{
    return value / (HEARTH_SYNTH_CONSTANT * (float)m->s->p->n_embd);
}

// Raises a row's product with the constant by `value`.
static void add_constant(const struct hearth_synth_maker *m, float *row, float value)
{
    if (m->view)
        add_scaled(row, m->view->detect, value, m->s->p->n_embd);
    else
        add_scaled(row, m->s->constant, constant_share(m, value), m->s->p->n_embd);
}

// As make_up, where the stream drifts. Ups see the code alone: if they, too, followed what the layer before
// has written, a layer that writes more than another would make the next one write still more.
static void make_drifting_up(const struct hearth_synth_maker *m, struct hearth_synth_rng *rng,
                             const float *gate, float *row, uint8_t *dst)
{
    const struct hearth_synth_planting *p = m->s->p->planting;
    const struct hearth_synth_view *v = m->view;
    const size_t width = m->s->p->n_embd;
    double share = 0, all = 0, code = 0;
    for (size_t i = 0; i < width; i++) {
        const double variance = (double)(gate[i] * gate[i] * v->variance[i]);
        all += variance;
        code += v->code[i] > 0 ? variance : 0;
    }
    // The gate's code alone has the whole correlation with up, as far as it goes.
    const double wanted = (double)p->up_tie * sqrt(all / code), tie = wanted < 0.9 ? wanted : 0.9;
    for (size_t i = 0; i < width; i += BLOCK)
        hearth_synth_bell(rng, row + i, BLOCK, (float)sqrt(1 - tie * tie) * v->code[i]);
    for (size_t i = 0; i < width; i++)
        share += (double)(row[i] * v->expected[i]);
    for (size_t i = 0; i < width; i++)
        if (v->code[i] > 0)
            row[i] += (float)(tie / sqrt(code)) * gate[i] + (p->up_mean - (float)share) * v->code_detect[i];
    hearth_type_info(HEARTH_TYPE_Q4_0)->encode(row, dst, width);
}

// Makes the row of down, where the stream drifts. Neurons next to each other by activity write the same with
// opposite signs, so that what they write has no mean but the constant's multiple.
static void make_down(const struct hearth_synth_maker *m, uint32_t rank, uint8_t *dst)
{
    const struct hearth_synth_writing *w = &m->writing;
    struct hearth_synth_rng rng = hearth_synth_rng(
        m->s->params->seed, HEARTH_SYNTH_STREAM_DOWN + (m->stream - HEARTH_SYNTH_STREAM_SPACE), rank / 2);
    const float sign = rank % 2 ? -1.0f : 1.0f;
    // Two random numbers to an element: else rounding makes more of the constant.
    float row[BLOCK], fine[BLOCK];
    memset(dst, 0, matrix_row(m));
    for (size_t b = 0; b < w->n_blocks; b++) {
        const size_t at = w->first + 2 * b * BLOCK;
        const float stddev = rank < w->n_neurons ? sign * w->stddev : 0.0f;
        hearth_synth_bell(&rng, row, BLOCK, 0.8f * stddev);
        hearth_synth_bell(&rng, fine, BLOCK, 0.6f * stddev);
        add_scaled(row, fine, 1.0f, BLOCK);
        add_scaled(row, m->s->constant + at, w->constant, BLOCK);
        hearth_type_info(HEARTH_TYPE_Q4_0)->encode(row, dst + at / BLOCK * BLOCK_BYTES, BLOCK);
    }
}

// Makes the row of up, correlated with the gate's. `gate` is the gate's row without threshold.
static void make_up(const struct hearth_synth_maker *m, struct hearth_synth_rng *rng, const float *gate,
                    float gate_norm, float *row, uint8_t *dst)
{
    const struct hearth_synth_planting *p = m->s->p->planting;
    const size_t width = m->s->p->n_embd;
    double share = 0;
    hearth_synth_bell(rng, row, width, sqrtf((1 - p->up_tie * p->up_tie) / (float)width));
    for (size_t i = 0; i < width; i++)
        share += (double)(row[i] * m->s->constant[i]);
    const float mean = constant_share(m, p->up_mean * m->spread) - (float)(share / (double)width);
    add_scaled(row, gate, p->up_tie / gate_norm, width);
    add_scaled(row, m->s->constant, mean, width);
    hearth_type_info(HEARTH_TYPE_Q4_0)->encode(row, dst, width);
}

// Draws A_j into the predictor's second layer, and as floats into `a`.
static void draw_neuron(const struct hearth_synth_maker *m, struct hearth_synth_rng *rng, size_t neuron,
                        float *a)
{
    const size_t blocks = m->n_basis / BLOCK, row_blocks = 2 * blocks + m->n_constants / BLOCK;
    uint8_t *fc2 = m->out->fc2 + neuron * row_blocks * BLOCK_BYTES;
    hearth_synth_q4_0(rng, fc2, blocks, 1 / sqrtf((float)m->n_basis));
    negate(fc2, fc2 + blocks * BLOCK_BYTES, blocks);
    hearth_type_info(HEARTH_TYPE_Q4_0)->decode(fc2, a, m->n_basis);
}

// Finishes neuron j, whose gate without threshold is `gate`.
static void finish_neuron(const struct hearth_synth_maker *m, struct hearth_synth_rng *rng, size_t j,
                          const float *a, float *gate, struct scratch *w)
{
    const size_t width = m->s->p->n_embd, blocks = m->n_basis / BLOCK, constants = m->n_constants / BLOCK;
    const struct hearth_synth_space *out = m->out;
    const float norm = m->view ? spread_of(m, gate) : norm_of(gate, width);
    const float threshold = m->s->threshold[m->order[j]] * norm * (m->view ? 1.0f : m->spread);
    if (out->up && m->view)
        make_drifting_up(m, rng, gate, w->row, out->up + j * matrix_row(m));
    else if (out->up)
        make_up(m, rng, gate, norm, w->row, out->up + j * matrix_row(m));
    if (out->down)
        make_down(m, m->order[j], out->down + j * matrix_row(m));
    if (out->bias)
        out->bias[j] = m->view ? threshold / m->view->size : threshold;
    else
        add_constant(m, gate, threshold);
    hearth_type_info(HEARTH_TYPE_Q4_0)->encode(gate, out->gate + j * matrix_row(m), width);

    float basis_constant = 0;
    for (size_t k = 0; k < m->n_basis; k++)
        basis_constant += a[k] * m->share[k];
    const float there = m->view ? basis_constant : basis_constant * HEARTH_SYNTH_CONSTANT;
    const float value = (threshold - there) / ((float)m->n_constants * m->detected);
    uint8_t *fc2 = out->fc2 + (j * (2 * blocks + constants) + 2 * blocks) * BLOCK_BYTES;
    for (size_t i = 0; i < constants; i++)
        constant_block(fc2 + i * BLOCK_BYTES, value);
}

static void make_rows(void *arg, int task, int worker)
{
    struct hearth_synth_maker *m = arg;
    const struct hearth_synth *s = m->s;
    struct scratch *w = &m->workers[worker];
    struct hearth_synth_rng rng = hearth_synth_rng(s->params->seed, m->stream, 1 + (uint64_t)task);
    const size_t width = s->p->n_embd, first = (size_t)task * ROWS, r = m->n_basis;
    const size_t left = s->p->n_ff - first, n = left < ROWS ? left : ROWS;
    for (size_t i = 0; i < n; i++)
        draw_neuron(m, &rng, first + i, w->a + i * r);
    s->kernels.prompt[HEARTH_TYPE_F32](w->rows, width, m->basis, r * sizeof(float), r, width, w->a,
                                       r * sizeof(float), n, w->matmul);
    for (size_t i = 0; i < n; i++)
        finish_neuron(m, &rng, first + i, w->a + i * r, w->rows + i * width, w);
}

// ---- the space

// Draws one row of B: in Q4_0 into the predictor's first layer, and as floats without the constant's share
// into column k of the basis. Blocks of the slow half have the preset's weight.
static void draw_basis_row(struct hearth_synth_maker *m, struct hearth_synth_rng *rng, size_t k)
{
    const struct hearth_synth *s = m->s;
    const size_t width = s->p->n_embd, bytes = matrix_row(m);
    const float share = s->p->planting->gate_slow;
    const float slow = sqrtf(2 * share / (float)width), fast = sqrtf(2 * (1 - share) / (float)width);
    uint8_t *plus = m->out->fc1 + k * bytes;
    double constant = 0;
    for (size_t i = 0; i < width; i += BLOCK)
        hearth_synth_q4_0(rng, plus + i / BLOCK * BLOCK_BYTES, 1,
                          m->view                   ? m->view->weight[i]
                          : hearth_synth_is_slow(i) ? slow
                                                    : fast);
    negate(plus, plus + m->n_basis * bytes, width / BLOCK);
    hearth_type_info(HEARTH_TYPE_Q4_0)->decode(plus, m->row, width);
    for (size_t i = 0; i < width; i++)
        constant += (double)(m->row[i] * (m->view ? m->view->expected[i] : s->constant[i]));
    m->share[k] = (float)constant;
    for (size_t i = 0; i < width; i++)
        m->basis[i * m->n_basis + k] = m->row[i] - (m->view ? m->share[k] * m->view->detect[i]
                                                            : m->share[k] / (float)width * s->constant[i]);
}

// The predictor's rows that see the constant.
static void make_detectors(struct hearth_synth_maker *m)
{
    const struct hearth_synth *s = m->s;
    const size_t width = s->p->n_embd, bytes = matrix_row(m);
    uint8_t *rows = m->out->fc1 + 2 * m->n_basis * bytes;
    for (size_t i = 0; i < width; i++)
        m->row[i] = m->view ? m->view->detect[i] : constant_share(m, s->constant[i]);
    for (size_t i = 0; i < m->n_constants; i++)
        hearth_type_info(HEARTH_TYPE_Q4_0)->encode(m->row, rows + i * bytes, width);
    hearth_type_info(HEARTH_TYPE_Q4_0)->decode(rows, m->row, width);
    double sum = 0;
    for (size_t i = 0; i < width; i++)
        sum += (double)(m->row[i] * (m->view ? m->view->expected[i] : s->constant[i]));
    m->detected = m->view ? (float)sum : HEARTH_SYNTH_CONSTANT * (float)sum;
}

static void split_rank(struct hearth_synth_maker *m, uint32_t rank)
{
    m->n_basis = (rank / BLOCK - 1) / 2 * BLOCK;
    m->n_constants = rank - 2 * m->n_basis;
}

void hearth_synth_make_space(struct hearth_synth_maker *m, uint32_t layer, uint32_t expert, bool sorted,
                             const struct hearth_synth_space *out)
{
    struct hearth_synth *s = m->s;
    const uint32_t n = s->p->n_ff, experts = s->p->n_expert ? s->p->n_expert : 1;
    m->out = out;
    m->stream = HEARTH_SYNTH_STREAM_SPACE + (uint64_t)layer * experts + expert;
    m->spread = sqrtf(HEARTH_SYNTH_CODE * HEARTH_SYNTH_CODE + hearth_synth_added(s, layer));
    if (s->params->drift) {
        m->writing = hearth_synth_writing_of(s, layer);
        m->view = &s->view;
    }
    split_rank(m, hearth_synth_rank(s->p, layer));
    struct hearth_synth_rng rng = hearth_synth_rng(s->params->seed, m->stream, 0);
    if (sorted)
        for (uint32_t i = 0; i < n; i++)
            m->order[i] = i;
    else
        hearth_synth_shuffle(&rng, m->order, n);
    for (size_t k = 0; k < m->n_basis; k++)
        draw_basis_row(m, &rng, k);
    make_detectors(m);
    hearth_pool_run(s->pool, make_rows, m, (int)((n + ROWS - 1) / ROWS));
}

int hearth_synth_maker_open(struct hearth_synth_maker **out, struct hearth_synth *s)
{
    const size_t width = s->p->n_embd, n_workers = (size_t)hearth_pool_size(s->pool);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < s->p->n_layer; i++)
        rank = hearth_synth_rank(s->p, i) > rank ? hearth_synth_rank(s->p, i) : rank;
    struct hearth_synth_maker *m = *out = hearth_calloc(1, sizeof *m);
    if (!m)
        return hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
    m->s = s;
    split_rank(m, rank);
    m->basis = hearth_calloc(width * m->n_basis, sizeof *m->basis);
    m->row = hearth_calloc(width, sizeof *m->row);
    m->share = hearth_calloc(m->n_basis, sizeof *m->share);
    m->order = hearth_calloc(s->p->n_ff, sizeof *m->order);
    m->workers = hearth_calloc(n_workers, sizeof *m->workers);
    bool ok = m->basis && m->row && m->share && m->order && m->workers;
    for (size_t i = 0; ok && i < n_workers; i++) {
        struct scratch *w = &m->workers[i];
        w->a = hearth_calloc(ROWS * m->n_basis, sizeof *w->a);
        w->rows = hearth_calloc(ROWS * width, sizeof *w->rows);
        w->row = hearth_calloc(width, sizeof *w->row);
        w->matmul =
            hearth_aligned_alloc(64, hearth_round_up(hearth_kernels_scratch(&s->kernels, m->n_basis), 64));
        ok = w->a && w->rows && w->row && w->matmul;
    }
    return ok ? HEARTH_OK : hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
}

void hearth_synth_maker_close(struct hearth_synth_maker **m)
{
    if (!*m)
        return;
    const size_t n_workers = (*m)->workers ? (size_t)hearth_pool_size((*m)->s->pool) : 0;
    for (size_t i = 0; i < n_workers; i++) {
        free((*m)->workers[i].a);
        free((*m)->workers[i].rows);
        free((*m)->workers[i].row);
        hearth_aligned_free((*m)->workers[i].matmul);
    }
    free((*m)->workers);
    free((*m)->basis);
    free((*m)->row);
    free((*m)->share);
    free((*m)->order);
    free(*m);
    *m = NULL;
}
