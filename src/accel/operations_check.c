// SPDX-License-Identifier: MIT
// Operations of a device beside the C reference. A device is checked with a few cases when it is opened: drivers may
// fuse, flush or round against the standard.
#include "accel/check_case.h"
#include "base/memory.h"

#define TILE  64
#define RANGE 16

void hearth_check_begin(struct hearth_check *c, struct hearth_accel *a, uint32_t seed)
{
    *c = (struct hearth_check){.a = a, .seed = seed};
    hearth_kernels_init(&c->c, 0);
}

int hearth_check_end(struct hearth_check *c, struct hearth_error *err)
{
    begin_case(c);
    const int rc = hearth_accel_take(c->a, err);
    if (rc)
        return rc;
    if (c->no_memory)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to check a device");
    if (c->differs[0])
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s gives other numbers than the CPU (%s): --device-inexact uses it all the same",
                           hearth_accel_describe(c->a)->name, c->differs);
    return HEARTH_OK;
}

// ---- products

// Activations of a product: as numbers, and as acts blocks.
struct inputs {
    float *plain;
    uint8_t *acts;
    struct hearth_accel_input on_device;
};

static bool make_inputs(struct hearth_check *c, struct inputs *x, size_t k, size_t n)
{
    const size_t bytes = hearth_acts_bytes(k);
    x->plain = numbers(c, k * n);
    x->acts = take(c, bytes * n + 64);
    if (!x->plain || !x->acts)
        return false;
    for (size_t t = 0; t < n; t++)
        c->c.quantize_acts(x->acts + t * bytes, x->plain + t * k, k);
    x->on_device.plain = place(c, x->plain, k * n * sizeof(float));
    x->on_device.acts = place(c, x->acts, bytes * n);
    return true;
}

void hearth_check_product(struct hearth_check *c, uint32_t type, size_t k, size_t n, size_t n_tokens,
                          bool is_prompt)
{
    struct hearth_accel_weight w = {0};
    struct inputs x;
    begin_case(c);
    uint8_t *rows = random_rows(c, type, k, n);
    float *right = take(c, n * n_tokens * sizeof *right);
    if (!rows || !right || !make_inputs(c, &x, k, n_tokens))
        return;
    const bool block = hearth_type_info(type)->unit_elems != 0;
    const size_t row = hearth_type_bytes(type, k);
    void *scratch = take(c, hearth_kernels_scratch(&c->c, k));
    (is_prompt ? c->c.prompt : c->c.step)[type](right, n, rows, row, k, n, block ? (void *)x.acts : x.plain,
                                                block ? hearth_acts_bytes(k) : k * sizeof(float), n_tokens,
                                                scratch);
    struct hearth_error err;
    if (hearth_accel_weight_open(c->a, &w, type, k, n, rows, row, &err))
        c->no_memory = true;
    const struct hearth_accel_memory *out = place(c, NULL, n * n_tokens * sizeof(float));
    hearth_accel_product(c->a, is_prompt, out, &w, x.on_device, n_tokens, NULL);
    compare(c, label(c, is_prompt ? "a prompt's product" : "a step's product", type), out, right,
            n * n_tokens);
    hearth_accel_product_add(c->a, is_prompt, out, &w, x.on_device, n_tokens);
    for (size_t i = 0; i < n * n_tokens; i++)
        right[i] += right[i];
    compare(c, label(c, is_prompt ? "a prompt's sum" : "a step's sum", type), out, right, n * n_tokens);
    hearth_accel_weight_close(c->a, &w);
}

void hearth_check_changes(struct hearth_check *c, uint32_t type, size_t k, const size_t ranks[2], size_t n,
                          size_t n_tokens, bool is_prompt)
{
    const hearth_matmul_fn product = (is_prompt ? c->c.prompt : c->c.step)[type];
    struct hearth_accel_change changes[2] = {{.next = &changes[1], .by = 0.75f}, {.by = -1.5f}};
    struct inputs x;
    struct hearth_error err;
    begin_case(c);
    const size_t most = ranks[0] > ranks[1] ? ranks[0] : ranks[1];
    float *right = numbers(c, n * n_tokens), *low = take(c, most * n_tokens * sizeof *low),
          *high = take(c, n * n_tokens * sizeof *high);
    void *scratch = take(c, hearth_kernels_scratch(&c->c, k > most ? k : most));
    if (!right || !low || !high || !scratch || !make_inputs(c, &x, k, n_tokens))
        return;
    const struct hearth_accel_weight w = {.k = k, .n = n, .change = changes};
    const struct hearth_accel_memory *out = place(c, right, n * n_tokens * sizeof *right);
    for (int i = 0; i < 2 && !c->no_memory; i++) {
        const size_t r = ranks[i], row_a = hearth_type_bytes(type, k), row_b = hearth_type_bytes(type, r);
        uint8_t *a = random_rows(c, type, k, r), *b = random_rows(c, type, r, n);
        if (!a || !b || hearth_accel_weight_open(c->a, &changes[i].a, type, k, r, a, row_a, &err) ||
            hearth_accel_weight_open(c->a, &changes[i].b, type, r, n, b, row_b, &err)) {
            c->no_memory = true;
            break;
        }
        product(low, r, a, row_a, k, r, x.plain, k * sizeof *x.plain, n_tokens, scratch);
        product(high, n, b, row_b, r, n, low, r * sizeof *low, n_tokens, scratch);
        c->c.scale_add(right, 1.0f, high, changes[i].by, n * n_tokens);
    }
    if (!c->no_memory) {
        hearth_accel_add_changes(c->a, is_prompt, out, &w, x.on_device.plain, n_tokens,
                                 place(c, NULL, most * n_tokens * sizeof *low),
                                 place(c, NULL, n * n_tokens * sizeof *high));
        compare(c, is_prompt ? "adapters of a prompt" : "adapters of a step", out, right, n * n_tokens);
    }
    for (int i = 0; i < 2; i++) {
        hearth_accel_weight_close(c->a, &changes[i].a);
        hearth_accel_weight_close(c->a, &changes[i].b);
    }
}

void hearth_check_products(struct hearth_check *c, const uint32_t *types, size_t k, const size_t *n,
                           size_t n_tokens, bool is_prompt)
{
    struct hearth_accel_weight w[CHECK_PRODUCTS] = {0};
    struct hearth_accel_output outputs[CHECK_PRODUCTS];
    float *right[CHECK_PRODUCTS];
    struct inputs x;
    struct hearth_error err;
    begin_case(c);
    if (!make_inputs(c, &x, k, n_tokens))
        return;
    void *scratch = take(c, hearth_kernels_scratch(&c->c, k));
    for (int i = 0; i < CHECK_PRODUCTS && !c->no_memory; i++) {
        const size_t row = hearth_type_bytes(types[i], k), n_i = n[i];
        uint8_t *rows = random_rows(c, types[i], k, n_i);
        right[i] = take(c, n_i * n_tokens * sizeof **right);
        if (!rows || !right[i] || !scratch)
            break;
        const bool block = hearth_type_info(types[i])->unit_elems != 0;
        (is_prompt ? c->c.prompt : c->c.step)[types[i]](
            right[i], n_i, rows, row, k, n_i, block ? (void *)x.acts : x.plain,
            block ? hearth_acts_bytes(k) : k * sizeof(float), n_tokens, scratch);
        if (hearth_accel_weight_open(c->a, &w[i], types[i], k, n_i, rows, row, &err))
            c->no_memory = true;
        outputs[i] = (struct hearth_accel_output){place(c, NULL, n_i * n_tokens * sizeof(float)), &w[i]};
    }
    if (!c->no_memory) {
        hearth_accel_products(c->a, is_prompt, outputs, CHECK_PRODUCTS, x.on_device, n_tokens);
        for (int i = 0; i < CHECK_PRODUCTS; i++)
            compare(c, label(c, "one of several products", types[i]), outputs[i].out, right[i],
                    n[i] * n_tokens);
    }
    for (int i = 0; i < CHECK_PRODUCTS; i++)
        hearth_accel_weight_close(c->a, &w[i]);
}

// Tiles of n_tokens tokens, of which a third in a row goes through each of MATRICES. Returns how many.
#define MATRICES 3
static size_t make_tiles(struct hearth_accel_tile *tiles, int32_t *which, size_t n_tokens, bool is_prompt)
{
    const int32_t most = is_prompt ? HEARTH_ACCEL_PROMPT_TILE : HEARTH_ACCEL_STEP_TILE;
    size_t n = 0;
    for (size_t t = 0; t < n_tokens; t++) {
        // The matrices in another order than the tokens.
        which[t] = (int32_t)(MATRICES - 1 - t * MATRICES / n_tokens);
        if (n && tiles[n - 1].matrix == which[t] && tiles[n - 1].n < most)
            tiles[n - 1].n++;
        else
            tiles[n++] = (struct hearth_accel_tile){(int32_t)t, 1, which[t]};
    }
    return n;
}

void hearth_check_products_of(struct hearth_check *c, uint32_t type, size_t k, size_t n, size_t n_tokens,
                              bool is_prompt)
{
    struct hearth_accel_weight w = {0};
    struct inputs x;
    begin_case(c);
    uint8_t *rows = random_rows(c, type, k, MATRICES * n);
    float *right = take(c, n * n_tokens * sizeof *right), *bias = numbers(c, MATRICES * n);
    struct hearth_accel_tile *tiles = take(c, n_tokens * sizeof *tiles);
    int32_t *which = take(c, n_tokens * sizeof *which);
    void *scratch = take(c, hearth_kernels_scratch(&c->c, k));
    if (!rows || !right || !bias || !tiles || !which || !scratch || !make_inputs(c, &x, k, n_tokens))
        return;
    const bool block = hearth_type_info(type)->unit_elems != 0;
    const size_t row = hearth_type_bytes(type, k), n_tiles = make_tiles(tiles, which, n_tokens, is_prompt);
    const size_t stride = block ? hearth_acts_bytes(k) : k * sizeof(float);
    for (size_t t = 0; t < n_tokens; t++) {
        const size_t m = (size_t)which[t];
        (is_prompt ? c->c.prompt : c->c.step)[type](
            right + t * n, n, rows + m * n * row, row, k, n,
            (block ? (const uint8_t *)x.acts : (const uint8_t *)x.plain) + t * stride, stride, 1, scratch);
        c->c.add(right + t * n, bias + m * n, n);
    }
    struct hearth_error err;
    if (hearth_accel_weight_open(c->a, &w, type, k, MATRICES * n, rows, row, &err))
        c->no_memory = true;
    const struct hearth_accel_memory *out = place(c, NULL, n * n_tokens * sizeof(float));
    const struct hearth_accel_weight biases = {
        .q = *place(c, bias, MATRICES * n * sizeof *bias), .type = HEARTH_TYPE_F32, .k = n, .n = MATRICES};
    hearth_accel_products_of(c->a, is_prompt, out, &w, n, x.on_device,
                             place(c, tiles, n_tiles * sizeof *tiles), n_tiles);
    hearth_accel_add_bias_of(c->a, out, &biases, place(c, which, n_tokens * sizeof *which), n_tokens);
    compare(c, label(c, is_prompt ? "a prompt's experts" : "a step's experts", type), out, right,
            n * n_tokens);
    hearth_accel_weight_close(c->a, &w);
}

void hearth_check_down(struct hearth_check *c, uint32_t type, size_t neurons, size_t columns, size_t cluster,
                       size_t n_tokens)
{
    const size_t n_clusters = (neurons + cluster - 1) / cluster, row = hearth_type_bytes(type, columns);
    struct hearth_accel_weight w = {0};
    begin_case(c);
    uint8_t *rows = random_rows(c, type, columns, neurons);
    float *p = numbers(c, neurons * n_tokens), *part = take(c, columns * sizeof *part);
    float *step = take(c, columns * n_tokens * sizeof *step),
          *whole = take(c, columns * n_tokens * sizeof *whole);
    void *scratch = take(c, hearth_kernels_scratch(&c->c, columns));
    if (!rows || !p || !part || !step || !whole || !scratch)
        return;
    for (size_t i = 0; i < neurons * n_tokens; i += 3)
        p[i] = 0.0f;
    c->c.prompt_t[type](whole, columns, rows, row, 0, columns, neurons, p, neurons, n_tokens, scratch);
    for (size_t t = 0; t < n_tokens; t++)
        for (size_t at = 0; at < neurons; at += cluster) {
            memset(part, 0, columns * sizeof *part);
            c->c.axpy[type](part, rows + at * row, row, columns,
                            neurons - at < cluster ? neurons - at : cluster, p + t * neurons + at);
            c->c.add(step + t * columns, part, columns);
        }
    struct hearth_error err;
    if (hearth_accel_weight_open(c->a, &w, type, columns, neurons, rows, row, &err))
        c->no_memory = true;
    const struct hearth_accel_memory *weights = place(c, p, neurons * n_tokens * sizeof(float));
    const struct hearth_accel_memory *out = place(c, NULL, columns * n_tokens * sizeof(float));
    const struct hearth_accel_memory *parts = place(c, NULL, columns * n_tokens * n_clusters * sizeof(float));
    hearth_accel_columns(c->a, out, &w, weights, n_tokens);
    compare(c, label(c, "a prompt's sum by neuron", type), out, whole, columns * n_tokens);
    hearth_accel_clusters(c->a, out, parts, &w, weights, cluster, n_tokens);
    compare(c, label(c, "a step's sum by neuron", type), out, step, columns * n_tokens);
    hearth_accel_weight_close(c->a, &w);
}

// ---- rows

void hearth_check_rows(struct hearth_check *c, size_t n, size_t n_rows)
{
    begin_case(c);
    float *x = numbers(c, n * n_rows), *y = numbers(c, n * n_rows), *wx = numbers(c, n), *bx = numbers(c, n);
    float *right = take(c, n * n_rows * sizeof *right);
    uint8_t *acts = take(c, hearth_acts_bytes(n) * n_rows + 64);
    if (!x || !y || !wx || !bx || !right || !acts)
        return;
    x[0] = 1e-40f; // denormal
    y[n - 1] = -3e-39f;
    const struct hearth_accel_weight w = vector_of(c, wx, n), b = vector_of(c, bx, n);
    const struct hearth_accel_memory *from = place(c, x, n * n_rows * sizeof *x),
                                     *more = place(c, y, n * n_rows * sizeof *y);
    const struct hearth_accel_memory *out = place(c, NULL, n * n_rows * sizeof(float));
    for (int kind = 0; kind < 3; kind++) {
        for (size_t r = 0; r < n_rows; r++)
            if (kind)
                c->c.layer_norm(right + r * n, x + r * n, wx, kind == 2 ? bx : NULL, n, 1e-5f);
            else
                c->c.rms_norm(right + r * n, x + r * n, wx, n, 1e-5f);
        hearth_accel_norm(c->a, out, from, &w, kind == 2 ? &b : NULL, kind > 0, 1e-5f, n_rows);
        compare(c, kind ? "layer norm" : "RMS norm", out, right, n * n_rows);
    }
    const struct hearth_accel_memory *normed = place(c, NULL, hearth_acts_bytes(n) * n_rows);
    hearth_accel_norm_quantize(c->a, out, normed, from, &w, &b, true, 1e-5f, n_rows);
    compare(c, "layer norm that is quantised", out, right, n * n_rows);
    for (size_t r = 0; r < n_rows; r++)
        c->c.quantize_acts(acts + r * hearth_acts_bytes(n), right + r * n, n);
    compare_bytes(c, "a quantised norm", normed, acts, hearth_acts_bytes(n) * n_rows);
    for (size_t r = 0; r < n_rows; r++)
        c->c.quantize_acts(acts + r * hearth_acts_bytes(n), x + r * n, n);
    const struct hearth_accel_memory *blocks = place(c, NULL, hearth_acts_bytes(n) * n_rows);
    hearth_accel_quantize(c->a, blocks, from, n, n_rows);
    compare_bytes(c, "quantised activations", blocks, acts, hearth_acts_bytes(n) * n_rows);
    hearth_accel_add(c->a, from, more, n, n_rows);
    hearth_accel_add_bias(c->a, from, &b, n_rows);
    hearth_accel_add_scaled(c->a, from, more, 0.3f, n, n_rows);
    c->c.add(x, y, n * n_rows);
    for (size_t r = 0; r < n_rows; r++)
        c->c.add(x + r * n, bx, n);
    c->c.scale_add(x, 1.0f, y, 0.3f, n * n_rows);
    compare(c, "sums", from, x, n * n_rows);
}

// Heads with weights of their own, rows with factors of their own, limits; gates beside queries and apart.
void hearth_check_heads(struct hearth_check *c, size_t n_heads, size_t dim, size_t n_rows)
{
    begin_case(c);
    const size_t n = n_heads * dim;
    float *x = numbers(c, n * n_rows), *wx = numbers(c, n), *by = numbers(c, n_rows);
    if (!x || !wx || !by)
        return;
    x[1] = NAN;
    const struct hearth_accel_memory *m = place(c, x, n * n_rows * sizeof *x),
                                     *rows = place(c, by, n_rows * sizeof *by);
    struct hearth_accel_weight w = vector_of(c, wx, n);
    w.k = dim;
    w.n = n_heads;
    hearth_accel_limit(c->a, m, 1.5f, n, n_rows);
    for (size_t i = 0; i < n * n_rows; i++)
        x[i] = fminf(fmaxf(x[i], -1.5f), 1.5f);
    compare(c, "limits", m, x, n * n_rows);
    hearth_accel_norm(c->a, m, m, &w, NULL, true, 1e-5f, n_heads * n_rows);
    for (size_t i = 0; i < n_heads * n_rows; i++)
        c->c.layer_norm(x + i * dim, x + i * dim, wx + i % n_heads * dim, NULL, dim, 1e-5f);
    compare(c, "norms of heads", m, x, n * n_rows);
    hearth_accel_scale_rows(c->a, m, rows, n, n_rows);
    hearth_accel_scale(c->a, m, 0.7f, n, n_rows);
    hearth_accel_scale_by(c->a, m, &w, n, n_rows);
    for (size_t i = 0; i < n * n_rows; i++) {
        x[i] *= by[i / n];
        x[i] *= 0.7f;
        x[i] *= wx[0];
    }
    compare(c, "factors", m, x, n * n_rows);
    float *both = numbers(c, 2 * n * n_rows), *gates = numbers(c, n_heads * n_rows),
          *open = take(c, 2 * n * n_rows * sizeof *open);
    if (!both || !gates || !open)
        return;
    const struct hearth_accel_memory *both_there = place(c, both, 2 * n * n_rows * sizeof *both),
                                     *gates_there = place(c, gates, n_heads * n_rows * sizeof *gates);
    hearth_accel_split(c->a, m, both_there, n, dim, n_rows);
    hearth_accel_gate_beside(c->a, m, both_there, n, dim, n_rows);
    hearth_accel_gate(c->a, m, gates_there, n, dim, n_rows);
    memcpy(open, both, 2 * n * n_rows * sizeof *open);
    c->c.activate(open, 2 * n * n_rows, HEARTH_ACT_SIGMOID);
    c->c.activate(gates, n_heads * n_rows, HEARTH_ACT_SIGMOID);
    for (size_t i = 0; i < n * n_rows; i++) {
        const size_t query = i / dim * 2 * dim + i % dim;
        x[i] = both[query] * open[query + dim] * gates[i / dim];
    }
    compare(c, "gates", m, x, n * n_rows);
}

void hearth_check_rope(struct hearth_check *c, size_t n_heads, size_t dim, size_t n_rot, bool neox,
                       size_t n_rows)
{
    begin_case(c);
    const size_t n = n_heads * dim;
    float *x = numbers(c, n * n_rows), *turns = numbers(c, n_rot * n_rows);
    if (!x || !turns)
        return;
    const struct hearth_accel_memory *on_device = place(c, x, n * n_rows * sizeof *x);
    hearth_accel_rope(c->a, on_device, place(c, turns, n_rot * n_rows * sizeof *turns), n_heads, dim, n_rot,
                      neox, n_rows);
    for (size_t r = 0; r < n_rows; r++)
        c->c.rope(x + r * n, turns + r * n_rot, n_heads, dim, n_rot, neox);
    compare(c, "rotation", on_device, x, n * n_rows);
}

// Activations with their quantised form, with gates and without.
static void check_quantized(struct hearth_check *c, enum hearth_activation act, size_t n, size_t n_rows)
{
    for (int gated = 0; gated < 2; gated++) {
        begin_case(c);
        float *gate = numbers(c, n * n_rows), *up = numbers(c, n * n_rows);
        uint8_t *acts = take(c, hearth_acts_bytes(n) * n_rows + 64);
        if (!gate || !up || !acts)
            return;
        const struct hearth_accel_memory *g = place(c, gate, n * n_rows * sizeof *gate),
                                         *u = place(c, up, n * n_rows * sizeof *up),
                                         *blocks = place(c, NULL, hearth_acts_bytes(n) * n_rows);
        hearth_accel_activate_quantize(c->a, g, gated ? u : NULL, blocks, act, n, n_rows);
        if (gated)
            c->c.glu(gate, gate, up, n * n_rows, act);
        else
            c->c.activate(gate, n * n_rows, act);
        for (size_t r = 0; r < n_rows; r++)
            c->c.quantize_acts(acts + r * hearth_acts_bytes(n), gate + r * n, n);
        compare(c, "activations that are quantised", g, gate, n * n_rows);
        compare_bytes(c, "quantised activations of neurons", blocks, acts, hearth_acts_bytes(n) * n_rows);
    }
}

static const float special[] = {-0.0f, 1e-41f, -90.0f, 90.0f, -13.3f, 13.3f, -87.31f, 88.71f, 7.5f, -7.5f};

static void check_xielu(struct hearth_check *c, size_t n, size_t n_rows)
{
    const struct hearth_accel_xielu by = {0.81f, 0.9f, 0.5f, -1e-6f};
    begin_case(c);
    float *x = numbers(c, n * n_rows);
    if (!x)
        return;
    for (size_t i = 0; i < n * n_rows && i < sizeof special / sizeof *special; i++)
        x[i] = special[i];
    const struct hearth_accel_memory *there = place(c, x, n * n_rows * sizeof *x);
    hearth_accel_xielu(c->a, there, &by, n, n_rows);
    for (size_t i = 0; i < n * n_rows; i++) {
        const float v = x[i], cut = v < by.eps ? v : by.eps;
        x[i] = v > 0 ? v * fmaf(by.a, v, by.b) : fmaf(hearth_exp(cut) - 1.0f - v, by.n, by.b * v);
    }
    compare(c, "xIELU", there, x, n * n_rows);
}

void hearth_check_activations(struct hearth_check *c, size_t n, size_t n_rows)
{
    const size_t count = n * n_rows;
    check_xielu(c, n, n_rows);
    for (int act = 0; act < HEARTH_ACTS_END; act++) {
        begin_case(c);
        float *gate = numbers(c, count), *up = numbers(c, count), *alone = take(c, count * sizeof *alone);
        uint8_t *mask = take(c, count);
        if (!gate || !up || !alone || !mask)
            return;
        for (size_t i = 0; i < count; i++)
            gate[i] = i < sizeof special / sizeof *special ? special[i] : gate[i] * 4.0f;
        memcpy(alone, gate, count * sizeof *gate);
        const struct hearth_accel_memory *g = place(c, gate, count * sizeof *gate),
                                         *u = place(c, up, count * sizeof *up);
        const struct hearth_accel_memory *one = place(c, gate, count * sizeof *gate),
                                         *m = place(c, NULL, count);
        const bool relu = hearth_act_is_relu((enum hearth_activation)act);
        float *size = take(c, count * sizeof *size);
        if (!size)
            return;
        memcpy(size, gate, count * sizeof *gate);
        c->c.activate(size, count, (enum hearth_activation)act);
        for (size_t i = 0; i < count; i++)
            mask[i] =
                (i % n < 5 || up[i] >= 0.25f) && !(relu && gate[i] <= 0.0f) && !(fabsf(size[i]) < 0.05f);
        hearth_accel_mask_scores(c->a, m, u, 0.25f, 5, n, n_rows);
        hearth_accel_mask_gates(c->a, m, g, (enum hearth_activation)act, 0.05f, n, n_rows);
        compare_bytes(c, "masks", m, mask, count);
        hearth_accel_activate(c->a, g, u, m, (enum hearth_activation)act, n, n_rows);
        hearth_accel_activate(c->a, one, NULL, NULL, (enum hearth_activation)act, n, n_rows);
        c->c.glu(gate, gate, up, count, (enum hearth_activation)act);
        for (size_t i = 0; i < count; i++)
            gate[i] = mask[i] ? gate[i] : 0.0f;
        c->c.activate(alone, count, (enum hearth_activation)act);
        compare(c, "activations", g, gate, count);
        compare(c, "activations without gates", one, alone, count);
        check_quantized(c, (enum hearth_activation)act, n, n_rows);
    }
}

// ---- attention: the reference is that of engine/attention.c, for one row and head

struct head {
    const uint8_t *keys, *values; // of all positions
    const void *q;                // as the keys' format wants it
    size_t row_k, row_v;
    float slope;
};

struct sum {
    float *out, max, sum;
};

static void merge(struct hearth_check *c, struct sum *to, const struct sum *more, size_t dim)
{
    if (to->sum == 0.0f) {
        memcpy(to->out, more->out, dim * sizeof *to->out);
        to->max = more->max;
        to->sum = more->sum;
        return;
    }
    const float top = to->max > more->max ? to->max : more->max;
    const float x = hearth_exp(to->max - top), y = hearth_exp(more->max - top);
    c->c.scale_add(to->out, x, more->out, y, dim);
    to->sum = fmaf(more->sum, y, to->sum * x);
    to->max = top;
}

// work: rows of values, two of them, then scratch memory of products.
static void attend_row(struct hearth_check *c, const struct hearth_check_attention *x, const struct head *h,
                       int pos, bool is_prompt, const float *sink, float *out, float *const work[3])
{
    const bool sums_decoded = is_prompt && hearth_type_info(x->type_v)->unit_elems;
    const int window = (int)x->window, oldest = window && x->chunked      ? pos / window * window
                                                : window && pos >= window ? pos - window + 1
                                                                          : 0;
    struct sum all = {out, 0, 0}, range = {work[0], 0, 0};
    for (int tile = oldest / TILE; tile <= pos / TILE; tile++) {
        const int from = oldest > tile * TILE ? oldest : tile * TILE;
        const int end = pos + 1 < (tile + 1) * TILE ? pos + 1 : (tile + 1) * TILE;
        float scores[TILE];
        struct sum part = {work[1], 0, 0};
        c->c.step[x->type_k](scores, TILE, h->keys + (size_t)from * h->row_k, h->row_k, x->dim,
                             (size_t)(end - from), h->q, 0, 1, work[2]);
        const bool capped = x->cap > 0.0f;
        for (int i = 0; i < end - from && capped; i++)
            scores[i] *= 2.0f * (0.125f / x->cap);
        if (capped)
            c->c.activate(scores, (size_t)(end - from), HEARTH_ACT_SIGMOID);
        for (int i = 0; i < end - from && capped; i++)
            scores[i] = fmaf(2.0f * x->cap, scores[i], -x->cap);
        for (int i = 0; i < end - from && x->bent; i++)
            scores[i] = fmaf(h->slope, (float)(from + i - pos), 0.125f * scores[i]);
        part.max =
            c->c.softmax_tile(scores, (size_t)(end - from), capped || x->bent ? 1.0f : 0.125f, &part.sum);
        memset(part.out, 0, x->dim_v * sizeof *part.out);
        if (sums_decoded)
            c->c.prompt_t[x->type_v](part.out, x->dim_v, h->values + (size_t)from * h->row_v, h->row_v, 0,
                                     x->dim_v, (size_t)(end - from), scores, TILE, 1, work[2]);
        else
            c->c.axpy[x->type_v](part.out, h->values + (size_t)from * h->row_v, h->row_v, x->dim_v,
                                 (size_t)(end - from), scores);
        merge(c, &range, &part, x->dim_v);
        if (tile % RANGE == RANGE - 1 || tile == pos / TILE) {
            merge(c, &all, &range, x->dim_v);
            range.sum = 0;
        }
    }
    const float top = sink && *sink > all.max ? *sink : all.max;
    const float by =
        sink ? hearth_exp(all.max - top) / fmaf(all.sum, hearth_exp(all.max - top), hearth_exp(*sink - top))
             : 1.0f / all.sum;
    for (size_t i = 0; i < x->dim_v; i++)
        out[i] *= by;
}

// Fills the cache of a sequence whose pages lie in reverse order: keys [heads][positions], the same of values, and
// pages as a device has them. The last n_rows positions are left to store().
static void fill_cache(struct hearth_check *c, const struct hearth_check_attention *x, uint8_t *keys,
                       uint8_t *values, uint8_t *pages, const float *k, const float *v, size_t n_pages)
{
    const size_t row_k = hearth_type_bytes(x->type_k, x->dim),
                 row_v = x->in_keys ? 0 : hearth_type_bytes(x->type_v, x->dim_v);
    const size_t length = (size_t)x->pos + x->n_rows;
    for (size_t g = 0; g < x->n_heads_kv; g++)
        for (size_t pos = 0; pos < length; pos++) {
            const size_t own = pos - (size_t)x->pos, page = n_pages - 1 - pos / TILE;
            const bool is_row = pos >= (size_t)x->pos;
            uint8_t *key = keys + (g * length + pos) * row_k, *value = values + (g * length + pos) * row_v;
            uint8_t *tile = pages + (page * x->n_heads_kv + g) * TILE * (row_k + row_v);
            float any[2][HEARTH_ACCEL_MAX_DIM];
            for (size_t i = 0; i < HEARTH_ACCEL_MAX_DIM; i++) {
                any[0][i] = random_number(c);
                any[1][i] = random_number(c);
            }
            const size_t at = own * x->n_heads_kv + g;
            hearth_type_info(x->type_k)->encode(is_row ? k + at * x->dim : any[0], key, x->dim);
            if (!x->in_keys)
                hearth_type_info(x->type_v)->encode(is_row ? v + at * x->dim_v : any[1], value, x->dim_v);
            if (is_row)
                continue;
            memcpy(tile + pos % TILE * row_k, key, row_k);
            memcpy(tile + TILE * row_k + pos % TILE * row_v, value, row_v);
        }
}

void hearth_check_attend(struct hearth_check *c, const struct hearth_check_attention *given)
{
    begin_case(c);
    struct hearth_check_attention own = *given;
    const struct hearth_check_attention *x = &own;
    own.dim_v = own.dim_v ? own.dim_v : own.dim;
    const size_t row_k = hearth_type_bytes(x->type_k, x->dim),
                 row_v = x->in_keys ? 0 : hearth_type_bytes(x->type_v, x->dim_v);
    const size_t length = (size_t)x->pos + x->n_rows, n_pages = (length + TILE - 1) / TILE;
    const size_t n_ranges = x->split ? (n_pages + RANGE - 1) / RANGE : 1;
    const size_t width = x->n_heads * x->dim, kv_width = x->n_heads_kv * x->dim,
                 width_v = x->n_heads * x->dim_v, v_width = x->n_heads_kv * x->dim_v,
                 page = TILE * (row_k + row_v);
    uint8_t *keys = take(c, x->n_heads_kv * length * row_k),
            *values = take(c, x->n_heads_kv * length * row_v);
    uint8_t *pages = take(c, n_pages * x->n_heads_kv * page);
    float *k = numbers(c, x->n_rows * kv_width), *v = numbers(c, x->n_rows * v_width);
    float *q = numbers(c, x->n_rows * width), *right = take(c, x->n_rows * width_v * sizeof *right);
    float *prompt = take(c, x->n_rows * width_v * sizeof *prompt);
    float *const work[3] = {take(c, x->dim_v * sizeof(float)), take(c, x->dim_v * sizeof(float)),
                            take(c, hearth_kernels_scratch(&c->c, x->dim > x->dim_v ? x->dim : x->dim_v))};
    const bool blocks = hearth_type_info(x->type_k)->unit_elems != 0;
    const size_t acts_bytes = blocks ? hearth_acts_bytes(x->dim) : 0;
    uint8_t *acts = take(c, acts_bytes + 64);
    float *sinks = numbers(c, x->n_heads), *slopes = numbers(c, x->n_heads),
          *turns = numbers(c, x->n_rows * x->n_rot + 1);
    int32_t *places = take(c, x->n_rows * 2 * sizeof *places),
            *numbers_of = take(c, n_pages * sizeof *numbers_of);
    if (c->no_memory)
        return;
    const struct hearth_accel_memory *k_there = place(c, k, x->n_rows * kv_width * sizeof *k),
                                     *q_there = place(c, q, x->n_rows * width * sizeof *q),
                                     *turns_there = place(c, turns, x->n_rows * x->n_rot * sizeof *turns);
    for (size_t r = 0; r < x->n_rows && x->n_rot; r++) {
        c->c.rope(q + r * width, turns + r * x->n_rot, x->n_heads, x->dim, x->n_rot, x->neox);
        c->c.rope(k + r * kv_width, turns + r * x->n_rot, x->n_heads_kv, x->dim, x->n_rot, x->neox);
    }
    fill_cache(c, x, keys, values, pages, k, v, n_pages);
    for (size_t i = 0; i < n_pages; i++)
        numbers_of[i] = (int32_t)(n_pages - 1 - i);
    for (size_t r = 0; r < x->n_rows; r++) {
        places[2 * r] = x->pos + (int)r;
        for (size_t i = 0; i < x->n_heads; i++) {
            const size_t g = i / (x->n_heads / x->n_heads_kv);
            const float *query = q + r * width + i * x->dim, *sink = x->sinks ? &sinks[i] : NULL;
            const uint8_t *head_keys = keys + g * length * row_k;
            const struct head h = {.keys = head_keys,
                                   .values = x->in_keys ? head_keys : values + g * length * row_v,
                                   .q = blocks ? (const void *)acts : query,
                                   .row_k = row_k,
                                   .row_v = x->in_keys ? row_k : row_v,
                                   .slope = slopes[i]};
            if (blocks)
                c->c.quantize_acts(acts, query, x->dim);
            attend_row(c, x, &h, x->pos + (int)r, false, sink, right + r * width_v + i * x->dim_v, work);
            attend_row(c, x, &h, x->pos + (int)r, true, sink, prompt + r * width_v + i * x->dim_v, work);
        }
    }
    const struct hearth_accel_cache cache = {.pages = *place(c, pages, n_pages * x->n_heads_kv * page),
                                             .type_k = x->type_k,
                                             .type_v = x->type_v,
                                             .n_heads = x->n_heads,
                                             .n_heads_kv = x->n_heads_kv,
                                             .dim = x->dim,
                                             .dim_v = x->dim_v,
                                             .values_in_keys = x->in_keys};
    const struct hearth_accel_memory *slopes_there = place(c, slopes, x->n_heads * sizeof *slopes);
    const struct hearth_accel_attention how = {x->window, x->chunked, 0.125f, x->cap,
                                               x->bent ? slopes_there : NULL};
    const struct hearth_accel_places at = {place(c, places, x->n_rows * 2 * sizeof *places),
                                           place(c, numbers_of, n_pages * sizeof *numbers_of)};
    struct hearth_accel_weight sink =
        x->sinks ? vector_of(c, sinks, x->n_heads) : (struct hearth_accel_weight){0};
    const struct hearth_accel_memory *out = place(c, NULL, x->n_rows * width_v * sizeof(float));
    const struct hearth_accel_memory *copy = place(c, NULL, x->n_rows * x->n_heads_kv * (row_k + row_v));
    const struct hearth_accel_memory *shares =
        place(c, NULL, n_ranges > 1 ? x->n_rows * n_ranges * x->n_heads * (x->dim_v + 2) * sizeof(float) : 0);
    const struct hearth_accel_rotation rotation = {x->n_rot ? turns_there : NULL, x->n_rot, x->neox};
    hearth_accel_store(c->a, &cache, copy, 0, q_there, k_there, place(c, v, x->n_rows * v_width * sizeof *v),
                       rotation, at, x->n_rows);
    const struct hearth_accel_memory *acts_there = place(c, NULL, x->n_rows * x->n_heads * acts_bytes);
    hearth_accel_attend(c->a, &cache, out, q_there, at, &sink, &how, true, n_ranges, shares, acts_there,
                        x->n_rows);
    compare(c, "a prompt's attention", out, prompt, x->n_rows * width_v);
    hearth_accel_attend(c->a, &cache, out, q_there, at, &sink, &how, false, n_ranges, shares, acts_there,
                        x->n_rows);
    compare(c, "attention", out, right, x->n_rows * width_v);
    uint8_t *stored = take(c, x->n_rows * x->n_heads_kv * (row_k + row_v));
    for (size_t r = 0; stored && r < x->n_rows; r++)
        for (size_t g = 0; g < x->n_heads_kv; g++) {
            const size_t pos = (size_t)x->pos + r;
            uint8_t *to = stored + (r * x->n_heads_kv + g) * (row_k + row_v);
            memcpy(to, keys + (g * length + pos) * row_k, row_k);
            memcpy(to + row_k, values + (g * length + pos) * row_v, row_v);
        }
    if (stored)
        compare_bytes(c, "keys and values", copy, stored, x->n_rows * x->n_heads_kv * (row_k + row_v));
}

// ---- when a device is opened

int hearth_operations_check(struct hearth_accel *a, struct hearth_error *err)
{
    static const uint32_t types[] = {HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q8_0, HEARTH_TYPE_Q4_K, HEARTH_TYPE_Q5_K,
                                     HEARTH_TYPE_Q2_K, HEARTH_TYPE_Q6_K, HEARTH_TYPE_F16};
    static const struct hearth_check_attention attention[] = {
        {.type_k = HEARTH_TYPE_F16,
         .type_v = HEARTH_TYPE_F16,
         .n_heads = 4,
         .n_heads_kv = 2,
         .dim = 128,
         .n_rows = 3,
         .pos = 40,
         .n_rot = 128,
         .neox = true},
        {.type_k = HEARTH_TYPE_F32,
         .type_v = HEARTH_TYPE_F16,
         .n_heads = 2,
         .n_heads_kv = 1,
         .dim = 80,
         .window = 70,
         .n_rows = 2,
         .pos = 190,
         .sinks = true,
         .n_rot = 40},
        {.type_k = HEARTH_TYPE_F16,
         .type_v = HEARTH_TYPE_F16,
         .n_heads = 2,
         .n_heads_kv = 2,
         .dim = 32,
         .n_rows = 1,
         .pos = 2100,
         .sinks = true,
         .split = true},
        {.type_k = HEARTH_TYPE_F16,
         .type_v = HEARTH_TYPE_F16,
         .n_heads = 4,
         .n_heads_kv = 2,
         .dim = 64,
         .window = 70,
         .n_rows = 3,
         .pos = 138,
         .n_rot = 64,
         .neox = true,
         .chunked = true,
         .cap = 30.0f},
        {.type_k = HEARTH_TYPE_F16,
         .type_v = HEARTH_TYPE_F16,
         .n_heads = 4,
         .n_heads_kv = 2,
         .dim = 96,
         .n_rows = 2,
         .pos = 130,
         .dim_v = 64},
        {.type_k = HEARTH_TYPE_Q8_0,
         .type_v = HEARTH_TYPE_Q8_0,
         .n_heads = 4,
         .n_heads_kv = 2,
         .dim = 64,
         .n_rows = 2,
         .pos = 130,
         .n_rot = 64,
         .neox = true},
        {.type_k = HEARTH_TYPE_Q8_0,
         .type_v = HEARTH_TYPE_Q8_0,
         .n_heads = 2,
         .n_heads_kv = 1,
         .dim = 160,
         .n_rows = 2,
         .pos = 70},
        {.type_k = HEARTH_TYPE_F16,
         .type_v = HEARTH_TYPE_Q8_0,
         .n_heads = 3,
         .n_heads_kv = 1,
         .dim = 96,
         .window = 70,
         .n_rows = 7,
         .pos = 130,
         .sinks = true,
         .cap = 30.0f},
        {.type_k = HEARTH_TYPE_F16,
         .type_v = HEARTH_TYPE_F16,
         .n_heads = 4,
         .n_heads_kv = 2,
         .dim = 64,
         .n_rows = 3,
         .pos = 138,
         .bent = true},
        {.type_k = HEARTH_TYPE_F16,
         .type_v = HEARTH_TYPE_F16,
         .n_heads = 3,
         .n_heads_kv = 1,
         .dim = 80,
         .n_rows = 2,
         .pos = 100,
         .dim_v = 64,
         .in_keys = true},
    };
    struct hearth_check *c = hearth_calloc(1, sizeof *c);
    if (!c)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to check a device");
    hearth_check_begin(c, a, 1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int is_prompt = 0; is_prompt < 2; is_prompt++)
            hearth_check_product(c, types[i], 768, 5, is_prompt ? 9 : 2, is_prompt);
    hearth_check_product(c, HEARTH_TYPE_Q4_0, 416, 150, 70, true);
    hearth_check_product(c, HEARTH_TYPE_Q5_0, 416, 130, 66, true);
    hearth_check_product(c, HEARTH_TYPE_Q6_K, 256, 130, 40, true);
    hearth_check_products_of(c, HEARTH_TYPE_Q4_K, 256, 130, 70, true);
    hearth_check_products(
        c, (const uint32_t[]){HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q8_0}, 256,
        (const size_t[]){9, 3, 8, 2}, 2, false);
    hearth_check_products_of(c, HEARTH_TYPE_Q4_K, 256, 6, 7, false);
    hearth_check_products_of(c, HEARTH_TYPE_F16, 40, 70, 9, true);
    hearth_check_down(c, HEARTH_TYPE_Q4_K, 70, 256, 32, 2);
    for (int is_prompt = 0; is_prompt < 2; is_prompt++)
        hearth_check_changes(c, HEARTH_TYPE_F32, 96, (const size_t[]){3, 16}, 70, 3, is_prompt);
    hearth_check_rows(c, 200, 2);
    hearth_check_heads(c, 2, 80, 2);
    hearth_check_rope(c, 2, 32, 16, true, 2);
    hearth_check_activations(c, 80, 1);
    for (size_t i = 0; i < sizeof attention / sizeof *attention; i++)
        hearth_check_attend(c, &attention[i]);
    hearth_check_some_experts(c);
    for (int i = 0; i < 2; i++)
        hearth_check_latent(c, &(struct hearth_check_latent){.type = i ? HEARTH_TYPE_Q4_0 : HEARTH_TYPE_Q8_0,
                                                             .n_heads = 3,
                                                             .rank = 64,
                                                             .still = 32,
                                                             .n_rot = 16,
                                                             .value = 24,
                                                             .n_rows = 5,
                                                             .joint = i,
                                                             .neox = i,
                                                             .is_prompt = i});
    const int rc = hearth_check_end(c, err);
    free(c);
    return rc;
}

bool hearth_operations_check_one(struct hearth_accel *a)
{
    static const uint32_t types[] = {HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q8_0, HEARTH_TYPE_Q4_K,
                                     HEARTH_TYPE_Q5_K, HEARTH_TYPE_Q2_K, HEARTH_TYPE_Q6_K};
    struct hearth_error err;
    struct hearth_check *c = hearth_calloc(1, sizeof *c);
    if (!c)
        return false;
    hearth_check_begin(c, a, 2);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        hearth_check_product(c, types[i], 768, 19, 1, false);
    hearth_check_product(c, HEARTH_TYPE_Q4_0, 8608, 5, 1, false);
    hearth_check_product(c, HEARTH_TYPE_Q6_K, 8448, 5, 1, false);
    hearth_check_experts(c, HEARTH_TYPE_Q4_K, 256, 19, 6, 3, 1, false, 0);
    const int rc = hearth_check_end(c, &err);
    free(c);
    return !rc;
}

bool hearth_operations_check_lists(struct hearth_accel *a)
{
    enum { N = 70, TIMES = 6 }; // more than it takes to be recorded
    float there[N] = {0}, got[N] = {0};
    for (int i = 0; i < N; i++)
        there[i] = (float)(i + 1);
    struct hearth_accel_memory x = hearth_accel_alloc(a, sizeof there),
                               y = hearth_accel_alloc(a, sizeof there);
    hearth_accel_write(a, &x, 0, there, sizeof there);
    for (int time = 0; time < TIMES; time++) { // x doubles, in two steps that must follow one another
        hearth_accel_begin_list(a);
        hearth_accel_copy(a, &y, 0, &x, 0, sizeof there);
        hearth_accel_add(a, &x, &y, N, 1);
        hearth_accel_end_list(a);
    }
    hearth_accel_read(a, &x, 0, got, sizeof got);
    bool right = !hearth_accel_take(a, NULL);
    for (int i = 0; i < N; i++)
        right = right && got[i] == (float)(1 << TIMES) * there[i];
    hearth_accel_free(a, &y);
    hearth_accel_free(a, &x);
    return right;
}
