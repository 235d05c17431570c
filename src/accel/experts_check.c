// SPDX-License-Identifier: MIT
// Experts of a device beside what engine/moe.c says.
#include "accel/check_case.h"

// ---- which experts

static void choose_best(const float *x, size_t n, int32_t *best, size_t n_best)
{
    for (size_t e = 0, have = 0; e < n; e++) {
        if (have == n_best && !(x[e] > x[best[n_best - 1]]))
            continue;
        size_t at = have < n_best ? have++ : n_best - 1;
        for (; at > 0 && x[e] > x[best[at - 1]]; at--)
            best[at] = best[at - 1];
        best[at] = (int32_t)e;
    }
}

static void leave_groups_out(const struct hearth_check_router *r, float *x)
{
    float worth[HEARTH_ACCEL_MOST_GROUPS];
    int32_t best[HEARTH_ACCEL_MOST_GROUPS];
    const size_t size = r->n / r->n_groups;
    for (size_t g = 0; g < r->n_groups; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (size_t i = 0; i < size; i++) {
            const float score = x[g * size + i];
            second = score > first ? first : score > second ? score : second;
            first = score > first ? score : first;
        }
        worth[g] = r->gating == HEARTH_ACCEL_OF_SOFTMAX || size == 1 ? first : first + second;
    }
    choose_best(worth, r->n_groups, best, r->n_groups_used);
    for (size_t e = 0; e < r->n; e++) {
        bool used = false;
        for (size_t i = 0; i < r->n_groups_used; i++)
            used |= (size_t)best[i] == e / size;
        x[e] = used ? x[e] : -INFINITY;
    }
}

static void weigh_near(float *x, size_t n, const int32_t *best, size_t n_used)
{
    float weights[HEARTH_ACCEL_MOST_USED];
    for (size_t i = 0; i < n_used; i++) {
        const float top = x[best[i]];
        float total = 0.0f;
        for (size_t e = 0; e < n; e++) {
            bool before = false;
            for (size_t k = 0; k < i; k++)
                before |= (size_t)best[k] == e;
            if (!before && !((top - x[e]) / fmaxf(fabsf(x[e]), top) > 0.02f))
                total += hearth_exp(x[e] - top);
        }
        weights[i] = 1.0f / total;
    }
    for (size_t i = 0; i < n_used; i++)
        x[best[i]] = weights[i];
}

static int compare_ids(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

// A row's, of products x, which change; decides [n]: room.
static void choose(struct hearth_check *c, const struct hearth_check_router *r, float *x, float *decides,
                   const float *const vectors[3], int32_t *ids, float *weights)
{
    float total = 1.0f;
    for (size_t e = 0; e < r->n; e++)
        x[e] *= r->by;
    if (r->bias)
        c->c.add(x, vectors[0], r->n);
    for (size_t e = 0; e < r->n && r->gating == HEARTH_ACCEL_OF_SIGMOID; e++)
        x[e] = 1.0f / (1.0f + hearth_exp(-x[e]));
    memcpy(decides, x, r->n * sizeof *x);
    if (r->softmax_choice) {
        c->c.softmax_tile(decides, r->n, 1.0f, &total);
        for (size_t e = 0; e < r->n; e++)
            decides[e] /= total;
    }
    if (r->choice)
        c->c.add(decides, vectors[1], r->n);
    if (r->n_groups)
        leave_groups_out(r, decides);
    choose_best(decides, r->n, ids, r->n_used);
    if (r->gating == HEARTH_ACCEL_OF_NEAR)
        weigh_near(x, r->n, ids, r->n_used);
    qsort(ids, r->n_used, sizeof *ids, compare_ids);
    total = 1.0f;
    if (r->gating == HEARTH_ACCEL_OF_SOFTMAX)
        c->c.softmax_tile(x, r->n, 1.0f, &total);
    if (r->normalises) {
        total = r->gating == HEARTH_ACCEL_OF_SOFTMAX ? 0.0f : 1e-20f;
        for (size_t i = 0; i < r->n_used; i++)
            total += x[ids[i]];
    }
    for (size_t i = 0; i < r->n_used; i++) {
        weights[i] = x[ids[i]] / total * r->scale;
        if (r->scales)
            weights[i] *= vectors[2][ids[i]];
    }
}

// Equal products, and some that are no numbers.
static void make_odd(float *products, const struct hearth_check_router *r)
{
    for (size_t i = 0; i < r->n * r->n_rows; i++) {
        const size_t row = i / r->n;
        products[i] = row % 2 ? floorf(products[i] * 2.0f) : products[i];
        if (row % 4 == 2 && i % 3 == 1)
            products[i] = NAN;
        if (row % 4 == 3 && i % 5 == 1)
            products[i] = i % 2 ? INFINITY : -INFINITY;
        if (row % 8 == 4)
            products[i] = NAN;
    }
}

void hearth_check_router(struct hearth_check *c, const struct hearth_check_router *x)
{
    begin_case(c);
    const size_t count = x->n_rows * x->n_used;
    float *products = numbers(c, x->n * x->n_rows), *decides = take(c, x->n * sizeof *decides);
    const float *const vectors[] = {numbers(c, x->n), numbers(c, x->n), numbers(c, x->n)};
    int32_t *ids = take(c, count * sizeof *ids);
    float *weights = take(c, count * sizeof *weights);
    if (c->no_memory)
        return;
    if (x->odd)
        make_odd(products, x);
    struct hearth_accel_weight w[3] = {{.n = 0}};
    const bool has[] = {x->bias, x->choice, x->scales};
    for (int i = 0; i < 3; i++)
        if (has[i])
            w[i] = (struct hearth_accel_weight){
                .q = *place(c, vectors[i], x->n * sizeof(float)), .k = x->n, .n = 1};
    const struct hearth_accel_memory *from = place(c, products, x->n * x->n_rows * sizeof *products),
                                     *ids_there = place(c, NULL, count * sizeof *ids),
                                     *weights_there = place(c, NULL, count * sizeof *weights);
    for (size_t r = 0; r < x->n_rows; r++)
        choose(c, x, products + r * x->n, decides, vectors, ids + r * x->n_used, weights + r * x->n_used);
    const struct hearth_accel_router router = {.n = x->n,
                                               .n_used = x->n_used,
                                               .gating = x->gating,
                                               .by = x->by,
                                               .bias = &w[0],
                                               .choice = &w[1],
                                               .scales = &w[2],
                                               .softmax_choice = x->softmax_choice,
                                               .n_groups = x->n_groups,
                                               .n_groups_used = x->n_groups_used,
                                               .normalises = x->normalises,
                                               .scale = x->scale};
    hearth_accel_choose_experts(c->a, &router, from, ids_there, weights_there, x->n_rows);
    compare_bytes(c, "which experts", ids_there, ids, count * sizeof *ids);
    compare(c, "weights of experts", weights_there, weights, count);
}

// ---- what comes of them

// Experts of each row, ascending: some are used by many rows, some by none.
static void make_ids(struct hearth_check *c, int32_t *ids, size_t n_experts, size_t n_used, size_t n_rows)
{
    for (size_t r = 0; r < n_rows; r++) {
        size_t first = (size_t)((random_number(c) + 1.0f) * 0.5f * (float)(n_experts - n_used));
        first = r % 2 ? 0 : first;
        for (size_t i = 0; i < n_used; i++)
            ids[r * n_used + i] = (int32_t)(first + i);
    }
}

// The rows' sums of their experts, each from its row of x.
struct reference {
    uint32_t type;
    size_t k, n, n_used;
    const uint8_t *rows;        // of all experts' matrices
    const float *scales, *bias; // of each; bias [n]
    const float *shared, *by;   // of each row; by: products of its router
    bool weighs, weighs_before; // outputs, inputs
    bool has_bias, has_scales;
    int shared_kind;
    float scale;
};

static void sum_row(struct hearth_check *c, const struct reference *f, bool is_prompt, const float *x,
                    const int32_t *ids, const float *weights, float *out, float *const work[3], void *scratch)
{
    const size_t row = hearth_type_bytes(f->type, f->k);
    const bool block = hearth_type_info(f->type)->unit_elems != 0;
    memset(out, 0, f->n * sizeof *out);
    for (size_t u = 0; u < f->n_used; u++) {
        const size_t e = (size_t)ids[u];
        const float one = 1.0f;
        for (size_t i = 0; i < f->k; i++)
            work[0][i] = f->weighs_before ? x[i] * weights[u] : x[i];
        if (block)
            c->c.quantize_acts(work[1], work[0], f->k);
        (is_prompt ? c->c.prompt : c->c.step)[f->type](
            work[2], f->n, f->rows + e * f->n * row, row, f->k, f->n, block ? work[1] : work[0],
            block ? hearth_acts_bytes(f->k) : f->k * sizeof(float), 1, scratch);
        for (size_t i = 0; i < f->n && f->has_scales; i++)
            work[2][i] *= f->scales[e];
        if (f->has_bias)
            c->c.add(work[2], f->bias + e * f->n, f->n);
        c->c.axpy[HEARTH_TYPE_F32](out, work[2], f->n * sizeof *out, f->n, 1, f->weighs ? &weights[u] : &one);
    }
    if (f->shared_kind == 1)
        c->c.add(out, f->shared, f->n);
    if (f->shared_kind == 2)
        c->c.scale_add(out, 1.0f, f->shared, 1.0f / (1.0f + hearth_exp(-*f->by)), f->n);
    for (size_t i = 0; i < f->n; i++)
        out[i] *= f->scale;
}

void hearth_check_experts(struct hearth_check *c, uint32_t type, size_t k, size_t n, size_t n_experts,
                          size_t n_used, size_t n_rows, bool is_prompt, int kind)
{
    struct hearth_error err;
    struct hearth_accel_weight w = {0};
    begin_case(c);
    const size_t n_slots = n_rows * n_used, f32 = sizeof(float), i32 = sizeof(int32_t);
    const size_t n_tiles = hearth_accel_most_tiles(is_prompt, n_experts, n_slots);
    float *x = numbers(c, k * n_rows), *weights = numbers(c, n_slots), *scales = numbers(c, n_experts),
          *bias = numbers(c, n * n_experts), *shared = numbers(c, n * n_rows), *by = numbers(c, n_rows);
    uint8_t *rows = random_rows(c, type, k, n * n_experts);
    int32_t *ids = take(c, n_slots * i32);
    float *right = take(c, n * n_rows * f32), *before = numbers(c, n * n_rows);
    float *const work[3] = {take(c, k * f32), take(c, hearth_acts_bytes(k) + 64), take(c, n * f32)};
    void *scratch = take(c, hearth_kernels_scratch(&c->c, k));
    if (c->no_memory)
        return;
    weights[n_slots / 2] = 0.0f;
    make_ids(c, ids, n_experts, n_used, n_rows);
    struct reference f = {.type = type,
                          .k = k,
                          .n = n,
                          .n_used = n_used,
                          .rows = rows,
                          .scales = scales,
                          .bias = bias,
                          .weighs = kind != 3,
                          .weighs_before = kind == 3,
                          .has_bias = kind == 1,
                          .has_scales = kind == 2,
                          .shared_kind = kind % 3,
                          .scale = kind == 1 ? 1.5f : 1.0f};
    const bool adds = kind == 0 || kind == 3;
    for (size_t r = 0; r < n_rows; r++) {
        f.shared = shared + r * n;
        f.by = by + r;
        sum_row(c, &f, is_prompt, x + r * k, ids + r * n_used, weights + r * n_used, right + r * n, work,
                scratch);
        for (size_t i = 0; i < n && adds; i++)
            right[r * n + i] = before[r * n + i] + right[r * n + i];
    }
    const struct hearth_accel_slots s = {.tiles = *place(c, NULL, n_tiles * sizeof(struct hearth_accel_tile)),
                                         .slots = *place(c, NULL, n_slots * i32),
                                         .from = *place(c, NULL, n_slots * i32),
                                         .which = *place(c, NULL, n_slots * i32),
                                         .counts = *place(c, NULL, n_experts * i32)};
    const struct hearth_accel_memory *ids_there = place(c, ids, n_slots * i32),
                                     *weights_there = place(c, weights, n_slots * f32),
                                     *acts = place(c, NULL, n_slots * hearth_acts_bytes(k)),
                                     *plain = place(c, NULL, n_slots * k * f32),
                                     *outputs = place(c, NULL, n_slots * n * f32),
                                     *second = place(c, NULL, n_slots * n * f32),
                                     *out = place(c, before, n * n_rows * f32);
    const struct hearth_accel_weight biases = {
        .q = *place(c, bias, n * n_experts * f32), .k = n, .n = f.has_bias ? n_experts : 0};
    if (hearth_accel_weight_open(c->a, &w, type, k, n * n_experts, rows, hearth_type_bytes(type, k), &err))
        c->no_memory = true;
    const struct hearth_accel_output both[] = {{second, &w}, {outputs, &w}};
    const struct hearth_accel_experts_sum sum = {
        .outputs = outputs,
        .ids = ids_there,
        .weights = f.weighs ? weights_there : NULL,
        .bias = &biases,
        .shared = f.shared_kind ? place(c, shared, n * n_rows * f32) : NULL,
        .shared_products = f.shared_kind == 2 ? place(c, by, n_rows * f32) : NULL,
        .scale = f.scale,
        .n = n,
        .n_used = n_used};
    hearth_accel_list_experts(c->a, is_prompt, &s, ids_there, n_experts, n_slots);
    hearth_accel_gather(c->a, &s, acts, plain, place(c, x, k * n_rows * f32),
                        f.weighs_before ? weights_there : NULL, n_used, k, n_slots);
    hearth_accel_products_of_all(c->a, is_prompt, both, 2, n, (struct hearth_accel_input){plain, acts},
                                 &s.tiles, n_tiles, n_rows == 1);
    if (f.has_scales)
        hearth_accel_scale_experts(c->a, &s, outputs, place(c, scales, n_experts * f32), n, n_slots);
    hearth_accel_sum_experts(c->a, &s, out, &sum, adds, n_rows);
    compare(c, is_prompt ? "a prompt's sum of experts" : "a step's sum of experts", out, right, n * n_rows);
    hearth_accel_weight_close(c->a, &w);
}

void hearth_check_some_experts(struct hearth_check *c)
{
    static const struct hearth_check_router routers[] = {
        {.n = 130, .n_used = 8, .n_rows = 3, .by = 1.0f, .scale = 1.0f, .normalises = true},
        {.n = 24, .n_used = 3, .n_rows = 5, .by = 0.5f, .scale = 1.0f, .bias = true, .odd = true},
        {.n = 32,
         .n_used = 4,
         .n_rows = 2,
         .by = 1.0f,
         .scale = 2.5f,
         .choice = true,
         .normalises = true,
         .gating = HEARTH_ACCEL_OF_SIGMOID,
         .n_groups = 4,
         .n_groups_used = 2},
        {.n = 20,
         .n_used = 2,
         .n_rows = 2,
         .by = 1.0f,
         .scale = 1.0f,
         .choice = true,
         .softmax_choice = true,
         .scales = true},
        {.n = 16, .n_used = 2, .n_rows = 2, .by = 1.0f, .scale = 1.0f, .gating = HEARTH_ACCEL_OF_NEAR},
    };
    for (size_t i = 0; i < sizeof routers / sizeof *routers; i++)
        hearth_check_router(c, &routers[i]);
    for (int kind = 0; kind < 4; kind++)
        hearth_check_experts(c, kind % 2 ? HEARTH_TYPE_Q4_0 : HEARTH_TYPE_Q8_0, 96, 40, 6, 2, 9, kind == 1,
                             kind);
    hearth_check_experts(c, HEARTH_TYPE_F16, 40, 20, 4, 3, 70, true, 1);
}
