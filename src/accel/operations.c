// SPDX-License-Identifier: MIT
// Operations as kernels: arguments and numbers of groups.
#include "accel/operations.h"

#include "accel/run.h"
#include "accel/weight.h"

// Rows of a STEP product that a group has, tokens that it takes together (kernels/products.cl, one.cl, matrix.cl).
#define STEP_ROWS     16
#define ONE_ROWS      16
#define PLAIN_ROWS    4
#define STEP_TOKENS   HEARTH_ACCEL_STEP_TILE
#define PROMPT_TOKENS 8
#define COLUMN_TOKENS 8
#define MATRIX_ROWS   128
#define MATRIX_TOKENS HEARTH_ACCEL_PROMPT_TILE
// Bytes of which any place in the copies of keys and values is a multiple (kernels/attention.cl).
#define STORED_UNIT 2
// Queries that attention of prompts has together, of heads of at most ROWS_DIM elements (kernels/attention.cl).
#define QUERIES  16
#define ROWS_DIM 128

// ---- rows of a batch

static void norm(struct hearth_accel *a, const struct hearth_accel_memory *out,
                 const struct hearth_accel_memory *acts, const struct hearth_accel_memory *x,
                 const struct hearth_accel_weight *w, const struct hearth_accel_weight *b, bool is_layer,
                 float eps, size_t n_rows)
{
    const bool has_bias = b && b->n;
    RUN(a, HEARTH_ACCEL_norm, n_rows, 1, 1, M(out), M(x), M(&w->q), I(w->n), M(has_bias ? &b->q : &none),
        I(w->k), F(eps), I(is_layer), I(has_bias), M(acts ? acts : &none), I(hearth_acts_padded(w->k)),
        I(hearth_acts_bytes(w->k)), I(acts != NULL));
}

void hearth_accel_norm(struct hearth_accel *a, const struct hearth_accel_memory *out,
                       const struct hearth_accel_memory *x, const struct hearth_accel_weight *w,
                       const struct hearth_accel_weight *b, bool is_layer, float eps, size_t n_rows)
{
    norm(a, out, NULL, x, w, b, is_layer, eps, n_rows);
}

void hearth_accel_norm_quantize(struct hearth_accel *a, const struct hearth_accel_memory *out,
                                const struct hearth_accel_memory *acts, const struct hearth_accel_memory *x,
                                const struct hearth_accel_weight *w, const struct hearth_accel_weight *b,
                                bool is_layer, float eps, size_t n_rows)
{
    norm(a, out, acts, x, w, b, is_layer, eps, n_rows);
}

void hearth_accel_add(struct hearth_accel *a, const struct hearth_accel_memory *x,
                      const struct hearth_accel_memory *y, size_t n, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_add, groups(n, GROUP), n_rows, 1, M(x), M(y), I(n), I(n), M(&none), I(0));
}

void hearth_accel_add_scaled(struct hearth_accel *a, const struct hearth_accel_memory *x,
                             const struct hearth_accel_memory *y, float by, size_t n, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_add_scaled, groups(n, GROUP), n_rows, 1, M(x), M(y), I(n), F(by));
}

void hearth_accel_scale(struct hearth_accel *a, const struct hearth_accel_memory *x, float by, size_t n,
                        size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_scale, groups(n, GROUP), n_rows, 1, M(x), I(n), F(by), M(&none), I(0), I(0));
}

void hearth_accel_scale_by(struct hearth_accel *a, const struct hearth_accel_memory *x,
                           const struct hearth_accel_weight *by, size_t n, size_t n_rows)
{
    if (by->n)
        RUN(a, HEARTH_ACCEL_scale, groups(n, GROUP), n_rows, 1, M(x), I(n), F(1.0f), M(&by->q), I(1), I(0));
}

void hearth_accel_scale_rows(struct hearth_accel *a, const struct hearth_accel_memory *x,
                             const struct hearth_accel_memory *by, size_t n, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_scale, groups(n, GROUP), n_rows, 1, M(x), I(n), F(1.0f), M(by), I(1), I(1));
}

void hearth_accel_limit(struct hearth_accel *a, const struct hearth_accel_memory *x, float most, size_t n,
                        size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_limit, groups(n, GROUP), n_rows, 1, M(x), I(n), F(most));
}

void hearth_accel_split(struct hearth_accel *a, const struct hearth_accel_memory *queries,
                        const struct hearth_accel_memory *both, size_t n, size_t dim, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_split, groups(n, GROUP), n_rows, 1, M(queries), M(both), I(n), I(dim));
}

void hearth_accel_gate_beside(struct hearth_accel *a, const struct hearth_accel_memory *x,
                              const struct hearth_accel_memory *both, size_t n, size_t dim, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_gate, groups(n, GROUP), n_rows, 1, M(x), M(both), I(n), I(dim), I(1));
}

void hearth_accel_gate(struct hearth_accel *a, const struct hearth_accel_memory *x,
                       const struct hearth_accel_memory *gates, size_t n, size_t each, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_gate, groups(n, GROUP), n_rows, 1, M(x), M(gates), I(n), I(each), I(0));
}

void hearth_accel_add_bias(struct hearth_accel *a, const struct hearth_accel_memory *x,
                           const struct hearth_accel_weight *bias, size_t n_rows)
{
    if (bias->n)
        RUN(a, HEARTH_ACCEL_add, groups(bias->k, GROUP), n_rows, 1, M(x), M(&bias->q), I(bias->k), I(0),
            M(&none), I(0));
}

void hearth_accel_add_bias_of(struct hearth_accel *a, const struct hearth_accel_memory *x,
                              const struct hearth_accel_weight *bias, const struct hearth_accel_memory *which,
                              size_t n_rows)
{
    if (bias->n)
        RUN(a, HEARTH_ACCEL_add, groups(bias->k, GROUP), n_rows, 1, M(x), M(&bias->q), I(bias->k), I(bias->k),
            M(which), I(1));
}

void hearth_accel_rope(struct hearth_accel *a, const struct hearth_accel_memory *x,
                       const struct hearth_accel_memory *cos_sin, size_t n_heads, size_t dim, size_t n_rot,
                       bool neox, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_rope, groups(n_rot / 2, GROUP), n_heads, n_rows, M(x), M(cos_sin), I(n_heads), I(dim),
        I(n_rot), I(neox));
}

void hearth_accel_quantize(struct hearth_accel *a, const struct hearth_accel_memory *acts,
                           const struct hearth_accel_memory *x, size_t k, size_t n_rows)
{
    const size_t padded = hearth_acts_padded(k);
    RUN(a, HEARTH_ACCEL_quantize, n_rows, groups(padded / FEW, GROUP), 1, M(acts), M(x), I(k), I(padded),
        I(hearth_acts_bytes(k)));
}

// ---- products

enum family { STEP, PROMPT, CLUSTERS, COLUMNS, MATRIX, ONE };

// The kernel of a family for the form of a weight's units: they stand side by side in the list.
static enum hearth_accel_kernel kernel_of(const struct hearth_accel_form *f, enum family family)
{
    const int first = f->bits == 4 ? (f->unit == 16    ? HEARTH_ACCEL_step_4_16
                                      : f->scales_half ? HEARTH_ACCEL_step_4_32h
                                                       : HEARTH_ACCEL_step_4_32)
                                   : (f->unit == 16    ? HEARTH_ACCEL_step_8_16
                                      : f->scales_half ? HEARTH_ACCEL_step_8_32h
                                                       : HEARTH_ACCEL_step_8_32);
    return (enum hearth_accel_kernel)(first + (int)family);
}

// Outputs of weights of one form; n_out: rows of a matrix, 0: as many as the weight has. tiles NULL: each weight is one
// matrix, and n_tiles the number of tokens.
struct product {
    bool is_prompt;
    struct hearth_accel_output outputs[HEARTH_ACCEL_TOGETHER];
    int n_outputs;
    size_t n_out;
    struct hearth_accel_input x;
    const struct hearth_accel_memory *tiles;
    size_t n_tiles;
    const struct hearth_accel_memory *mask;
    bool adds;    // to what is in out
    bool singles; // no tile has more than one token
};

static void run_plain(struct hearth_accel *a, const struct product *p, int i)
{
    const struct hearth_accel_output *o = &p->outputs[i];
    const size_t n_out = p->n_out ? p->n_out : o->w->n, most = p->is_prompt ? PROMPT_TOKENS : 1;
    const struct hearth_accel_memory *mask = p->mask ? p->mask : &none, *list = p->tiles ? p->tiles : &none;
    RUN(a, p->is_prompt ? HEARTH_ACCEL_prompt_plain : HEARTH_ACCEL_step_plain,
        groups(n_out, p->is_prompt ? GROUP : PLAIN_ROWS), p->tiles ? p->n_tiles : groups(p->n_tiles, most), 1,
        M(o->out), M(&o->w->q), I(hearth_accel_form_of(o->w->type).plain), M(p->x.plain), I(o->w->k),
        I(n_out), I(p->n_tiles), M(mask), I(p->mask != NULL), M(list), I(p->tiles != NULL), I(p->adds));
}

static enum family family_of(const struct hearth_accel_info *device, const struct product *p)
{
    if (p->is_prompt)
        return device->has_matrix_units ? MATRIX : PROMPT;
    return device->has_one && (p->tiles ? p->singles : p->n_tiles == 1) ? ONE : STEP;
}

static void run_product(struct hearth_accel *a, const struct product *p)
{
    const struct hearth_accel_weight *w = p->outputs[0].w;
    const struct hearth_accel_form f = hearth_accel_form_of(w->type);
    if (!f.bits) {
        for (int i = 0; i < p->n_outputs; i++)
            run_plain(a, p, i);
        return;
    }
    // Rows and tokens of a group.
    static const size_t each_of[] = {
        [STEP] = STEP_ROWS, [ONE] = ONE_ROWS, [PROMPT] = GROUP, [MATRIX] = MATRIX_ROWS};
    static const size_t most_of[] = {
        [STEP] = STEP_TOKENS, [ONE] = 1, [PROMPT] = PROMPT_TOKENS, [MATRIX] = MATRIX_TOKENS};
    const enum family family = family_of(hearth_accel_describe(a), p);
    const size_t each = each_of[family], most = most_of[family];
    const struct hearth_accel_memory *mask = p->mask ? p->mask : &none, *list = p->tiles ? p->tiles : &none;
    static const struct hearth_accel_weight no_weight;
    struct hearth_accel_output o[HEARTH_ACCEL_TOGETHER];
    size_t n_out[HEARTH_ACCEL_TOGETHER] = {0}, rows = 0;
    for (int i = 0; i < HEARTH_ACCEL_TOGETHER; i++) {
        o[i] = i < p->n_outputs ? p->outputs[i] : (struct hearth_accel_output){&none, &no_weight};
        n_out[i] = i < p->n_outputs && p->n_out ? p->n_out : o[i].w->n;
        rows += groups(n_out[i], each);
    }
#define MATRIX_OF(i) M(o[i].out), M(&o[i].w->q), M(&o[i].w->scales), M(&o[i].w->minima), I(n_out[i])
    RUN(a, kernel_of(&f, family), rows, p->tiles ? p->n_tiles : groups(p->n_tiles, most), 1, MATRIX_OF(0),
        MATRIX_OF(1), MATRIX_OF(2), M(p->x.acts), I(hearth_acts_padded(w->k)), I(hearth_acts_bytes(w->k)),
        I(w->k / f.unit), I(p->n_tiles), I(f.has_min), I(f.base), I(hearth_prompt_planes(w->type)), M(mask),
        I(p->mask != NULL), M(list), I(p->tiles != NULL), I(p->adds));
#undef MATRIX_OF
}

// Whether the same kernel with the same numbers computes both.
static bool are_alike(const struct hearth_accel_weight *a, const struct hearth_accel_weight *b)
{
    const struct hearth_accel_form x = hearth_accel_form_of(a->type), y = hearth_accel_form_of(b->type);
    return x.bits && x.bits == y.bits && x.unit == y.unit && x.scales_half == y.scales_half &&
           x.has_min == y.has_min && x.base == y.base && a->k == b->k &&
           hearth_prompt_planes(a->type) == hearth_prompt_planes(b->type);
}

static void scale_product(struct hearth_accel *a, const struct hearth_accel_memory *out,
                          const struct hearth_accel_weight *w, size_t n_tokens)
{
    if (w->scale)
        hearth_accel_scale(a, out, *w->scale, w->n, n_tokens);
}

// Those of n outputs, as few kernels as can be; p has the rest.
static void run_products(struct hearth_accel *a, struct product p, const struct hearth_accel_output *outputs,
                         int n)
{
    for (int i = 0; i < n;) {
        p.n_outputs = 0;
        do
            p.outputs[p.n_outputs++] = outputs[i++];
        while (i < n && p.n_outputs < HEARTH_ACCEL_TOGETHER && are_alike(p.outputs[0].w, outputs[i].w));
        run_product(a, &p);
    }
}

void hearth_accel_products(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_output *outputs,
                           int n, struct hearth_accel_input x, size_t n_tokens)
{
    run_products(a, (struct product){.is_prompt = is_prompt, .x = x, .n_tiles = n_tokens}, outputs, n);
    for (int i = 0; i < n; i++)
        scale_product(a, outputs[i].out, outputs[i].w, n_tokens);
}

void hearth_accel_product(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_memory *out,
                          const struct hearth_accel_weight *w, struct hearth_accel_input x, size_t n_tokens,
                          const struct hearth_accel_memory *mask)
{
    run_product(a, &(struct product){is_prompt, {{out, w}}, 1, 0, x, NULL, n_tokens, mask, false, false});
    scale_product(a, out, w, n_tokens);
}

void hearth_accel_product_add(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_memory *out,
                              const struct hearth_accel_weight *w, struct hearth_accel_input x,
                              size_t n_tokens)
{
    run_product(a, &(struct product){is_prompt, {{out, w}}, 1, 0, x, NULL, n_tokens, NULL, true, false});
}

void hearth_accel_add_changes(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_memory *out,
                              const struct hearth_accel_weight *w, const struct hearth_accel_memory *x,
                              size_t n_tokens, const struct hearth_accel_memory *low,
                              const struct hearth_accel_memory *high)
{
    for (const struct hearth_accel_change *c = w->change; c; c = c->next) {
        hearth_accel_product(a, is_prompt, low, &c->a, (struct hearth_accel_input){x, &none}, n_tokens, NULL);
        hearth_accel_product(a, is_prompt, high, &c->b, (struct hearth_accel_input){low, &none}, n_tokens,
                             NULL);
        hearth_accel_add_scaled(a, out, high, c->by, w->n, n_tokens);
    }
}

void hearth_accel_products_of(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_memory *out,
                              const struct hearth_accel_weight *w, size_t n_out, struct hearth_accel_input x,
                              const struct hearth_accel_memory *tiles, size_t n_tiles)
{
    run_product(a, &(struct product){is_prompt, {{out, w}}, 1, n_out, x, tiles, n_tiles, NULL, false, false});
}

void hearth_accel_products_of_all(struct hearth_accel *a, bool is_prompt,
                                  const struct hearth_accel_output *outputs, int n, size_t n_out,
                                  struct hearth_accel_input x, const struct hearth_accel_memory *tiles,
                                  size_t n_tiles, bool singles)
{
    const struct product p = {.is_prompt = is_prompt,
                              .n_out = n_out,
                              .x = x,
                              .tiles = tiles,
                              .n_tiles = n_tiles,
                              .singles = singles};
    run_products(a, p, outputs, n);
}

static void down(struct hearth_accel *a, enum family family, const struct hearth_accel_memory *out,
                 const struct hearth_accel_weight *w, const struct hearth_accel_memory *p, size_t cluster,
                 size_t n_tokens)
{
    const struct hearth_accel_form f = hearth_accel_form_of(w->type);
    const size_t clusters = groups(w->n, cluster);
    if (f.bits)
        RUN(a, kernel_of(&f, family), groups(w->k, GROUP), clusters,
            family == COLUMNS ? groups(n_tokens, COLUMN_TOKENS) : n_tokens, M(out), M(p), I(w->n), M(&w->q),
            M(&w->scales), M(&w->minima), I(w->k), I(w->n), I(f.has_min), I(f.base), I(cluster), I(clusters),
            I(n_tokens));
    else
        RUN(a, HEARTH_ACCEL_down_plain, groups(w->k, GROUP), clusters, n_tokens, M(out), M(p), I(w->n),
            M(&w->q), I(f.plain), I(w->k), I(w->n), I(cluster), I(clusters));
}

void hearth_accel_columns(struct hearth_accel *a, const struct hearth_accel_memory *out,
                          const struct hearth_accel_weight *w, const struct hearth_accel_memory *p,
                          size_t n_tokens)
{
    down(a, COLUMNS, out, w, p, w->n, n_tokens);
}

void hearth_accel_clusters(struct hearth_accel *a, const struct hearth_accel_memory *out,
                           const struct hearth_accel_memory *parts, const struct hearth_accel_weight *w,
                           const struct hearth_accel_memory *p, size_t cluster, size_t n_tokens)
{
    down(a, CLUSTERS, parts, w, p, cluster, n_tokens);
    RUN(a, HEARTH_ACCEL_sum_clusters, groups(w->k, GROUP), n_tokens, 1, M(out), M(parts), I(w->k),
        I(groups(w->n, cluster)));
}

// ---- feed-forward parts

void hearth_accel_activate(struct hearth_accel *a, const struct hearth_accel_memory *gate,
                           const struct hearth_accel_memory *up, const struct hearth_accel_memory *mask,
                           enum hearth_activation act, size_t n, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_activate, groups(n, GROUP), n_rows, 1, M(gate), M(up ? up : &none), I(n), I(act),
        I(up != NULL), M(mask ? mask : &none), I(mask != NULL));
}

void hearth_accel_xielu(struct hearth_accel *a, const struct hearth_accel_memory *x,
                        const struct hearth_accel_xielu *by, size_t n, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_xielu, groups(n, GROUP), n_rows, 1, M(x), I(n), F(by->a), F(by->n), F(by->b),
        F(by->eps));
}

void hearth_accel_activate_quantize(struct hearth_accel *a, const struct hearth_accel_memory *gate,
                                    const struct hearth_accel_memory *up,
                                    const struct hearth_accel_memory *acts, enum hearth_activation act,
                                    size_t n, size_t n_rows)
{
    const size_t padded = hearth_acts_padded(n);
    RUN(a, HEARTH_ACCEL_activate_quantize, groups(padded / FEW, GROUP), n_rows, 1, M(gate),
        M(up ? up : &none), I(n), I(act), I(up != NULL), M(acts), I(padded), I(hearth_acts_bytes(n)));
}

void hearth_accel_mask_scores(struct hearth_accel *a, const struct hearth_accel_memory *mask,
                              const struct hearth_accel_memory *scores, float least, size_t always, size_t n,
                              size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_mask_scores, groups(n, GROUP), n_rows, 1, M(mask), M(scores ? scores : &none), I(n),
        F(least), I(always), I(scores != NULL));
}

void hearth_accel_mask_gates(struct hearth_accel *a, const struct hearth_accel_memory *mask,
                             const struct hearth_accel_memory *gate, enum hearth_activation act, float least,
                             size_t n, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_mask_gates, groups(n, GROUP), n_rows, 1, M(mask), M(gate), I(n), I(act),
        I(hearth_act_is_relu(act)), F(least));
}

// ---- attention

// What kernels/attention.cl calls formats.
enum { FORMAT_F32, FORMAT_F16, FORMAT_BLOCKS };

static int format_of(uint32_t type)
{
    return type == HEARTH_TYPE_F32 ? FORMAT_F32 : type == HEARTH_TYPE_F16 ? FORMAT_F16 : FORMAT_BLOCKS;
}

bool hearth_accel_knows_cache(uint32_t type, size_t dim)
{
    return dim <= HEARTH_ACCEL_MAX_DIM && (type == HEARTH_TYPE_F16 || type == HEARTH_TYPE_F32 ||
                                           (type == HEARTH_TYPE_Q8_0 && dim % 32 == 0));
}

void hearth_accel_store(struct hearth_accel *a, const struct hearth_accel_cache *c,
                        const struct hearth_accel_memory *copy, size_t copy_at,
                        const struct hearth_accel_memory *q, const struct hearth_accel_memory *k,
                        const struct hearth_accel_memory *v, struct hearth_accel_rotation rotation,
                        struct hearth_accel_places places, size_t n_rows)
{
    const bool rotates = rotation.cos_sin != NULL;
    RUN(a, HEARTH_ACCEL_store, c->n_heads_kv + (rotates ? c->n_heads : 0), n_rows, 1, M(&c->pages), M(copy),
        I(copy_at / STORED_UNIT), M(k), M(c->values_in_keys ? &none : v), M(places.rows), M(places.pages),
        I(c->n_heads_kv), I(c->dim), I(c->values_in_keys ? 0 : c->dim_v), I(format_of(c->type_k)),
        I(format_of(c->type_v)), M(q), I(c->n_heads), M(rotates ? rotation.cos_sin : &none),
        I(rotation.n_rot), I(rotation.neox), I(rotates));
}

void hearth_accel_attend(struct hearth_accel *a, const struct hearth_accel_cache *c,
                         const struct hearth_accel_memory *out, const struct hearth_accel_memory *q,
                         struct hearth_accel_places places, const struct hearth_accel_weight *sinks,
                         const struct hearth_accel_attention *how, bool is_prompt, size_t n_ranges,
                         const struct hearth_accel_memory *shares, const struct hearth_accel_memory *acts,
                         size_t n_rows)
{
    const float scale = how->cap > 0.0f ? 2.0f * (how->scale / how->cap) : how->scale;
    const size_t per = c->n_heads / c->n_heads_kv, together = per < QUERIES ? per : QUERIES;
    const bool blocks = format_of(c->type_k) == FORMAT_BLOCKS;
    const bool rows_together = is_prompt && n_ranges == 1 && c->dim % 16 == 0 && c->dim <= ROWS_DIM &&
                               c->dim_v % 16 == 0 && c->dim_v <= ROWS_DIM && !c->values_in_keys;
    if (blocks)
        hearth_accel_quantize(a, acts, q, c->dim, n_rows * c->n_heads);
    if (rows_together && c->dim == c->dim_v && format_of(c->type_k) == FORMAT_F16 &&
        format_of(c->type_v) == FORMAT_F16) {
        RUN(a, HEARTH_ACCEL_attend_rows, c->n_heads_kv * groups(per, together),
            groups(n_rows, QUERIES / together), 1, M(out), M(q), M(&c->pages), M(places.rows),
            M(places.pages), M(sinks->n ? &sinks->q : &none), I(sinks->n != 0), I(c->n_heads),
            I(c->n_heads_kv), I(c->dim), I(how->window), I(how->chunked), F(scale), F(how->cap), I(n_rows),
            M(how->slopes ? how->slopes : &none), I(how->slopes != NULL));
        return;
    }
    if (rows_together) {
        RUN(a, HEARTH_ACCEL_attend_rows_any, c->n_heads_kv * groups(per, together),
            groups(n_rows, QUERIES / together), 1, M(out), M(q), M(&c->pages), M(places.rows),
            M(places.pages), M(sinks->n ? &sinks->q : &none), I(sinks->n != 0), I(c->n_heads),
            I(c->n_heads_kv), I(c->dim), I(how->window), I(how->chunked), F(scale), F(how->cap), I(n_rows),
            M(how->slopes ? how->slopes : &none), I(how->slopes != NULL), I(c->dim_v),
            I(format_of(c->type_k)), I(format_of(c->type_v)), M(blocks ? acts : &none),
            I(hearth_acts_padded(c->dim)), I(hearth_acts_bytes(c->dim)));
        return;
    }
    const bool plain = !blocks && format_of(c->type_v) != FORMAT_BLOCKS;
    RUN(a, plain ? HEARTH_ACCEL_attend : HEARTH_ACCEL_attend_blocks, c->n_heads, n_rows, n_ranges,
        M(n_ranges > 1 ? shares : out), M(q), M(&c->pages), M(places.rows), M(places.pages),
        M(sinks->n ? &sinks->q : &none), I(sinks->n != 0), I(c->n_heads), I(c->n_heads_kv), I(c->dim),
        I(c->dim_v), I(format_of(c->type_k)), I(format_of(c->type_v)), I(how->window), I(how->chunked),
        F(scale), F(how->cap), I(n_ranges), M(blocks ? acts : &none), I(hearth_acts_padded(c->dim)),
        I(hearth_acts_bytes(c->dim)), I(is_prompt), M(how->slopes ? how->slopes : &none),
        I(how->slopes != NULL), I(c->values_in_keys ? c->dim : c->dim_v));
    if (n_ranges > 1)
        RUN(a, HEARTH_ACCEL_combine, c->n_heads, n_rows, 1, M(out), M(shares),
            M(sinks->n ? &sinks->q : &none), I(sinks->n != 0), I(c->n_heads), I(c->dim_v), I(n_ranges));
}
