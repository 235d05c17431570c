// SPDX-License-Identifier: MIT
// Networks of predictors: see net.h.
#include "convert/net.h"

#include <math.h>
#include <string.h>

#define BETA1 0.9f
#define BETA2 0.999f
#define EPS   1e-8f
// Elements, rows of weights and rows of inputs that one task takes.
#define CHUNK     16384
#define ROWS      64
#define TOKENS    256
#define TILE      32
#define CODE_OF_1 128
// Of the rate: how fast sizes of signs change, and what gives the signs, in first sizes. What gives those of inner units
// begins this weak.
#define SIZE_RATE 12.0f
#define SIGN_RATE 2.8f
#define WEAK      0.4f
// No activation counts more: rare ones that are large would take each step for themselves.
#define MOST_WEIGHT 100.0

// ---- products: out[t][i] = row i of w . row t of x

struct product {
    const struct hearth_net *n;
    float *out;
    size_t stride; // of outputs
    const float *w, *x;
    size_t k, n_rows, n_tokens, chunks; // chunks of rows
};

static void product_task(void *arg, int task, int worker)
{
    const struct product *j = arg;
    const size_t row = (size_t)task % j->chunks * ROWS, token = (size_t)task / j->chunks * TOKENS;
    const size_t rows = j->n_rows - row < ROWS ? j->n_rows - row : ROWS;
    const size_t tokens = j->n_tokens - token < TOKENS ? j->n_tokens - token : TOKENS;
    j->n->kernels->prompt[HEARTH_TYPE_F32](j->out + token * j->stride + row, j->stride, j->w + row * j->k,
                                           j->k * sizeof(float), j->k, rows, j->x + token * j->k,
                                           j->k * sizeof(float), tokens, j->n->scratch[worker]);
}

// The outputs of each token are `stride` apart.
static void product_apart(const struct hearth_net *n, float *out, size_t stride, const float *w,
                          size_t n_rows, const float *x, size_t n_tokens, size_t k)
{
    struct product j = {n, out, stride, w, x, k, n_rows, n_tokens, (n_rows + ROWS - 1) / ROWS};
    hearth_pool_run(n->pool, product_task, &j, (int)(j.chunks * ((n_tokens + TOKENS - 1) / TOKENS)));
}

static void product(const struct hearth_net *n, float *out, const float *w, size_t n_rows, const float *x,
                    size_t n_tokens, size_t k)
{
    product_apart(n, out, n_rows, w, n_rows, x, n_tokens, k);
}

struct turn {
    float *out;      // [columns x rows]
    const float *in; // [rows x columns]
    size_t rows, columns;
};

static void turn_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct turn *j = arg;
    const size_t first = (size_t)task * TILE, end = first + TILE < j->columns ? first + TILE : j->columns;
    for (size_t row = 0; row < j->rows; row += TILE) {
        const size_t last = row + TILE < j->rows ? row + TILE : j->rows;
        for (size_t c = first; c < end; c++)
            for (size_t r = row; r < last; r++)
                j->out[c * j->rows + r] = j->in[r * j->columns + c];
    }
}

static void turn(const struct hearth_net *n, float *out, const float *in, size_t rows, size_t columns)
{
    struct turn j = {out, in, rows, columns};
    hearth_pool_run(n->pool, turn_task, &j, (int)((columns + TILE - 1) / TILE));
}

// ---- element by element

static void relu(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

struct signs {
    struct hearth_net *n;
    float *to;
};

static void sign_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct signs *j = arg;
    const struct hearth_net *n = j->n;
    const size_t block = n->shape.block, at = (size_t)task * n->k;
    const float *size = n->size + (size_t)task * (n->k / block);
    for (size_t i = 0; i < n->k; i++)
        j->to[at + i] = n->w2[at + i] < 0.0f ? -size[i / block] : size[i / block];
}

void hearth_net_sign(struct hearth_net *n, float *w2)
{
    struct signs j = {n, w2};
    hearth_pool_run(n->pool, sign_task, &j, (int)n->f);
}

// From gradients of signs times sizes to those of sizes, and of what gives the signs.
static void divide_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct hearth_net *n = arg;
    const size_t block = n->shape.block, blocks = n->k / block;
    for (size_t b = 0; b < blocks; b++) {
        const size_t at = (size_t)task * n->k + b * block, of = (size_t)task * blocks + b;
        const float *restrict w = n->w2 + at;
        float *restrict g = n->g2 + at;
        float sum = 0;
        for (size_t i = 0; i < block; i++) {
            sum += w[i] < 0.0f ? -g[i] : g[i];
            g[i] *= n->size[of];
        }
        n->gs[of] = sum;
    }
}

// Gradients of weighted cross-entropy with regard to the outputs, in their place: each neuron counts once as not
// worth computing, and by its weight as worth it. The logistic function is what the kernel of SILU multiplies with.
static void loss_task(void *arg, int task, int worker)
{
    (void)worker;
    struct hearth_net *n = arg;
    uint64_t found = 0, mass = 0;
    const size_t first = (size_t)task * n->f;
    float *restrict p = n->p + first, *restrict silu = n->pt + first; // not in use yet
    const uint8_t *restrict codes = n->codes + first;
    for (size_t j = 0; j < n->f; j++)
        silu[j] = p[j] -= HEARTH_NET_BIAS;
    n->kernels->activate(silu, n->f, HEARTH_ACT_SILU);
    for (size_t j = 0; j < n->f; j++) {
        const float z = p[j], is = fabsf(z) > 1e-3f ? silu[j] / z : 0.5f + 0.25f * z;
        const uint64_t here = hearth_code_mass(codes[j]);
        mass += here;
        found += z >= 0.0f ? here : 0;
        p[j] = is + n->weights[codes[j]] * (is - 1.0f);
    }
    n->found += found;
    n->mass += mass;
}

void hearth_net_weigh(struct hearth_net *n, double price)
{
    for (int i = 0; i < 256; i++) {
        const double weight = (double)hearth_code_mass((uint8_t)i) / price;
        n->weights[i] = (float)(weight < MOST_WEIGHT ? weight : MOST_WEIGHT);
    }
}

struct adam {
    float *w, *m, *v;
    const float *g;
    size_t n;
    float rate, scale, fix1, fix2;
};

static void adam_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct adam *j = arg;
    const size_t first = (size_t)task * CHUNK, left = j->n - first, n = left < CHUNK ? left : CHUNK;
    float *restrict w = j->w + first, *restrict m = j->m + first, *restrict v = j->v + first;
    const float *restrict g = j->g + first;
    const float rate = j->rate, scale = j->scale, fix1 = j->fix1, fix2 = j->fix2;
    for (size_t i = 0; i < n; i++) {
        const float grad = g[i] * scale;
        m[i] = BETA1 * m[i] + (1.0f - BETA1) * grad;
        v[i] = BETA2 * v[i] + (1.0f - BETA2) * (grad * grad);
        w[i] -= rate * (m[i] * fix1) / (sqrtf(v[i] * fix2) + EPS);
    }
}

static void adam(const struct hearth_net *n, float *w, float *m, float *v, const float *g, size_t size,
                 float rate, size_t n_rows)
{
    double b1 = 1, b2 = 1; // by products: no library's pow()
    for (uint64_t i = 0; i < n->step && i < 20000; i++) {
        b1 *= (double)BETA1;
        b2 *= (double)BETA2;
    }
    struct adam j = {.w = w,
                     .m = m,
                     .v = v,
                     .g = g,
                     .n = size,
                     .rate = rate,
                     .scale = 1.0f / (float)n_rows,
                     .fix1 = (float)(1 / (1 - b1)),
                     .fix2 = (float)(1 / (1 - b2))};
    hearth_pool_run(n->pool, adam_task, &j, (int)((size + CHUNK - 1) / CHUNK));
}

// ---- steps

// Of signs, to begin with: inputs are about 1, so outputs are about 2.
static float first_size(const struct hearth_net *n)
{
    return 2.0f / sqrtf((float)n->e);
}

void hearth_net_forward(struct hearth_net *n, const float *w1, const float *w2, size_t n_rows)
{
    const size_t before = n->k - n->shape.r;
    product_apart(n, n->h + before, n->k, w1, n->shape.r, n->x, n_rows, n->e);
    for (size_t t = 0; t < n_rows; t++) {
        memcpy(n->h + t * n->k, n->x + t * n->e, before * sizeof *n->h);
        relu(n->h + t * n->k + before, n->shape.r);
    }
    product(n, n->p, w2, n->f, n->h, n_rows, n->k);
}

void hearth_net_train(struct hearth_net *n, const float *w1, const float *w2, size_t n_rows, float rate)
{
    const size_t r = n->shape.r, before = n->k - r;
    hearth_net_forward(n, w1, w2, n_rows);
    n->found = n->mass = 0;
    hearth_pool_run(n->pool, loss_task, n, (int)n_rows);
    turn(n, n->pt, n->p, n_rows, n->f);
    turn(n, n->ht, n->h, n_rows, n->k);
    turn(n, n->w2t, w2, n->f, n->k); // the last use of w1 and w2
    product(n, n->g2, n->ht, n->k, n->pt, n->f, n_rows);
    product(n, n->dh, n->w2t + before * n->f, r, n->p, n_rows, n->f);
    for (size_t t = 0; t < n_rows; t++)
        for (size_t i = 0; i < r; i++)
            n->dh[t * r + i] = n->h[t * n->k + before + i] > 0.0f ? n->dh[t * r + i] : 0.0f;
    turn(n, n->dht, n->dh, n_rows, r);
    turn(n, n->xt, n->x, n_rows, n->e);
    product(n, n->g1, n->xt, n->e, n->dht, r, n_rows);
    n->step++;
    adam(n, n->w1, n->m1, n->v1, n->g1, r * n->e, rate, n_rows);
    if (n->shape.block) {
        const float size = first_size(n);
        hearth_pool_run(n->pool, divide_task, n, (int)n->f);
        adam(n, n->size, n->ms, n->vs, n->gs, n->f * (n->k / n->shape.block), SIZE_RATE * size * rate,
             n_rows);
        rate *= SIGN_RATE * size;
    }
    adam(n, n->w2, n->m2, n->v2, n->g2, n->f * n->k, rate, n_rows);
}

// ---- opening

static size_t inner_of(const struct hearth_net *n, struct hearth_net_shape shape)
{
    return shape.r + (shape.block ? n->e : 0);
}

static size_t sizes_of(const struct hearth_net *n, struct hearth_net_shape shape)
{
    return shape.block ? n->f * (inner_of(n, shape) / shape.block) : 0;
}

static void fill_uniform(float *w, size_t n, float most, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        w[i] = most * ((float)((z ^ z >> 31) >> 40) / 8388608.0f - 1.0f);
    }
}

void hearth_net_reset(struct hearth_net *n, struct hearth_net_shape shape, uint64_t seed)
{
    n->shape = shape;
    n->k = inner_of(n, shape);
    const size_t s1 = shape.r * n->e, s2 = n->f * n->k, sizes = sizes_of(n, shape);
    fill_uniform(n->w1, s1, sqrtf(6.0f / (float)n->e), &seed);
    if (shape.block) {
        fill_uniform(n->w2, s2, WEAK * first_size(n), &seed);
        for (size_t i = 0; i < sizes; i++)
            n->size[i] = first_size(n);
    } else { // together the inner units begin with about the bias
        fill_uniform(n->w2, s2, sqrtf(3.0f / (float)shape.r), &seed);
        for (size_t i = 0; i < s2; i++)
            n->w2[i] = 0.2f * n->w2[i] + 2.0f / (float)shape.r;
    }
    memset(n->m1, 0, s1 * sizeof *n->m1);
    memset(n->v1, 0, s1 * sizeof *n->v1);
    memset(n->m2, 0, s2 * sizeof *n->m2);
    memset(n->v2, 0, s2 * sizeof *n->v2);
    memset(n->ms, 0, sizes * sizeof *n->ms);
    memset(n->vs, 0, sizes * sizeof *n->vs);
    n->step = 0;
}

void hearth_net_level(struct hearth_net *n)
{
    const size_t blocks = n->k / n->shape.block;
    double all = 0;
    for (size_t j = 0; j < n->f; j++)
        for (size_t i = 0; i < n->e; i++)
            all += fabs((double)n->w2[j * n->k + i]);
    const double mean = all / (double)(n->f * n->e);
    const float scale = mean > 0 && isfinite(mean) ? first_size(n) / (float)mean : 1;
    for (size_t j = 0; j < n->f; j++) {
        double sum = 0;
        for (size_t i = 0; i < n->e; i++) {
            n->w2[j * n->k + i] *= scale;
            sum += fabs((double)n->w2[j * n->k + i]);
        }
        for (size_t b = 0; b < blocks; b++)
            n->size[j * blocks + b] = (float)(sum / (double)n->e);
    }
}

void hearth_net_lay_out(struct hearth_net *n, struct hearth_arena *a)
{
    const size_t e = n->e, f = n->f, b = n->b, f32 = sizeof(float), sizes = sizes_of(n, n->wide);
    const size_t r = n->narrow.r > n->wide.r ? n->narrow.r : n->wide.r;
    const size_t wide = n->wide.r ? inner_of(n, n->wide) : 0, inner = wide > r ? wide : r;
    const size_t longest = e > f ? e : f, k = longest > b ? longest : b;
    const size_t workers = (size_t)hearth_pool_size(n->pool);
    float **const first[] = {&n->w1, &n->m1, &n->v1, &n->g1},
                  **const second[] = {&n->w2, &n->m2, &n->v2, &n->g2},
                  **const third[] = {&n->size, &n->ms, &n->vs, &n->gs};
    for (int i = 0; i < 4; i++) {
        *first[i] = hearth_arena_take(a, r * e, f32);
        *second[i] = hearth_arena_take(a, f * inner, f32);
        *third[i] = hearth_arena_take(a, sizes, f32);
    }
    n->x = hearth_arena_take(a, b * e, f32);
    n->xt = hearth_arena_take(a, b * e, f32);
    n->h = hearth_arena_take(a, b * inner, f32);
    n->ht = hearth_arena_take(a, b * inner, f32);
    n->dh = hearth_arena_take(a, b * r, f32);
    n->dht = hearth_arena_take(a, b * r, f32);
    n->p = hearth_arena_take(a, b * f, f32);
    n->pt = hearth_arena_take(a, b * f, f32);
    n->w2t = hearth_arena_take(a, inner * f, f32);
    n->codes = hearth_arena_take(a, b, f);
    n->scratch = hearth_arena_take(a, workers, sizeof *n->scratch);
    for (size_t i = 0; i < workers; i++) {
        void *scratch = hearth_arena_take(a, hearth_kernels_scratch(n->kernels, k > inner ? k : inner), 1);
        if (n->scratch)
            n->scratch[i] = scratch;
    }
}

// ---- magnitudes

// 1 + (code - 128) % 8 / 8 times 2 to the power of (code - 128) / 8: a float's exponent and first bits.
uint8_t hearth_code(float magnitude)
{
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    const int code = (int)((bits & INT32_MAX) >> 20) - (127 << 3) + CODE_OF_1;
    return !(magnitude > 0.0f) ? 0 : code < 1 ? 1 : code > 255 ? 255 : (uint8_t)code;
}

// In units of 2 to the power of -16 eighths below the smallest: the middle of what the code stands for.
uint64_t hearth_code_mass(uint8_t code)
{
    if (!code)
        return 0;
    const unsigned power = code >> 3, part = code & 7;
    return (UINT64_C(17) + 2 * part) << power;
}
