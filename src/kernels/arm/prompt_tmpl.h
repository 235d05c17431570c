// SPDX-License-Identifier: MIT
// PROMPT products of block formats on 64-bit ARM; included by prompt_LEVEL.c after what prompt_arm.h lists.
//
// Up to PANEL_ROWS rows are unpacked to a panel, DEPTH elements deep, which stays in the L2 cache while all
// tokens go past it. Between panels an output's accumulator waits in `out`. Each output has one accumulator
// and one fma per unit, in ascending order (kernels.h).

// Where things are in the scratch memory.
struct room {
    int8_t *rows;               // [STRIP][DEPTH]
    float *row_scale, *row_min; // [STRIP][DEPTH_UNITS]
    int8_t *panel;
    float *scale, *min, *d, *sum;
    int8_t *tokens;
};

static size_t scratch_bytes(size_t k)
{
    (void)k;
    return STRIP * (size_t)DEPTH + 2 * STRIP * DEPTH_UNITS * sizeof(float) + PANEL_ROWS * (size_t)DEPTH * 2 +
           2 * (PANEL_ROWS / STRIP * SCALES + FACTORS) * DEPTH_UNITS * sizeof(float) +
           TOKENS * (size_t)DEPTH * TOKEN_BYTES + 64;
}

INLINE struct room room_in(void *scratch)
{
    struct room m;
    m.rows = scratch;
    m.panel = m.rows + STRIP * DEPTH;
    m.tokens = m.panel + PANEL_ROWS * DEPTH * 2;
    m.row_scale = (float *)(void *)(m.tokens + TOKENS * DEPTH * TOKEN_BYTES);
    m.row_min = m.row_scale + STRIP * DEPTH_UNITS;
    m.scale = m.row_min + STRIP * DEPTH_UNITS;
    m.min = m.scale + PANEL_ROWS / STRIP * SCALES * DEPTH_UNITS;
    m.d = m.min + PANEL_ROWS / STRIP * SCALES * DEPTH_UNITS;
    m.sum = m.d + FACTORS * DEPTH_UNITS;
    return m;
}

// ---- weights

// Unpacks `depth` elements of a row; what is behind them in the last group is zeros in some form.
INLINE void unpack_row(int8_t *q, float *scale, float *min, const uint8_t *src, size_t depth, size_t bytes,
                       size_t group_bytes, unpack_fn unpack, const struct shape *s)
{
    const size_t registers = s->unit / 16u * QUARTER;
    const int8x16_t offset = vdupq_n_s8((int8_t)s->offset);
    for (size_t at = 0, byte = 0; at < depth; at += s->unit * (size_t)LANES, byte += group_bytes) {
        const uint8_t *group = src + byte;
        uint8_t padded[GROUP_BYTES];
        if (bytes - byte < group_bytes) {
            memset(padded, 0, sizeof padded);
            group = memcpy(padded, group, bytes - byte);
        }
        ALL for (size_t quarter = 0; quarter < 4; quarter++)
        {
            struct weights w;
            unpack(&w, group, quarter);
            for (size_t i = 0; i < registers; i++, q += 16)
                vst1q_s8(q, s->offset ? vsubq_s8(w.q[i], offset) : w.q[i]);
            vst1q_f32(scale, w.scale);
            scale += QUARTER;
            if (s->has_min) {
                vst1q_f32(min, w.min);
                min += QUARTER;
            }
        }
    }
}

// Of [STRIP][DEPTH_UNITS] numbers those of each unit side by side.
INLINE void pack_numbers(float *to, const float *from, size_t units)
{
    for (size_t u = 0; u < units; u += 4) {
        vec z[STRIP / 4][4];
        for (size_t r = 0; r < STRIP; r++)
            z[r / 4][r % 4] = v_load(from + r * DEPTH_UNITS + u);
        for (size_t i = 0; i < STRIP / 4; i++)
            v_transpose(z[i]);
        for (size_t i = 0; i < 4; i++) {
            vec unit[STRIP / 4];
            for (size_t j = 0; j < STRIP / 4; j++)
                unit[j] = z[j][i];
            pack_scales(to + (u + i) * SCALES, unit);
        }
    }
}

// `rows` rows, those that are missing in the last strip repeat the last one.
INLINE void fill_panel(const struct room *m, const uint8_t *w, size_t w_stride, size_t rows, size_t depth,
                       size_t bytes, size_t group_bytes, unpack_fn unpack, const struct shape *s)
{
    for (size_t first = 0; first < rows; first += STRIP) {
        for (size_t i = 0; i < STRIP; i++) {
            const size_t row = first + i < rows ? first + i : rows - 1;
            unpack_row(m->rows + i * DEPTH, m->row_scale + i * DEPTH_UNITS, m->row_min + i * DEPTH_UNITS,
                       w + row * w_stride, depth, bytes, group_bytes, unpack, s);
        }
        pack_strip(m->panel + first * DEPTH * strip_bytes(s), m->rows, depth, s);
        pack_numbers(m->scale + first / STRIP * SCALES * DEPTH_UNITS, m->row_scale, depth / s->unit);
        if (s->has_min)
            pack_numbers(m->min + first / STRIP * SCALES * DEPTH_UNITS, m->row_min, depth / s->unit);
    }
}

// ---- activations

INLINE void take_tokens(struct tokens *to, const struct room *m, const uint8_t *x, size_t x_stride, size_t n,
                        size_t k, size_t at, size_t depth, const struct shape *s)
{
    struct hearth_acts acts[TOKENS];
    for (size_t t = 0; t < TOKENS; t++) {
        acts[t] = hearth_acts_view(x + (t < n ? t : n - 1) * x_stride, k);
        to->hi[t] = acts[t].hi + at;
        to->lo[t] = acts[t].lo + at;
        if (s->planes == 1) // the sums of the high plane, times -128
            acts[t].sum = acts[t].bias;
    }
    const float by = s->planes == 1 ? 128.0f : 1.0f, sum_by = s->planes == 1 ? -1.0f / 128.0f : 1.0f;
    for (size_t u = 0; u < depth / s->unit; u += 4) {
        vec d[TOKENS], sum[TOKENS];
        for (size_t t = 0; t < TOKENS; t++) {
            const struct factors f = factors_at(&acts[t], at / s->unit + u, s);
            d[t] = vmulq_n_f32(f.d, by);
            sum[t] = vmulq_n_f32(vcvtq_f32_s32(f.sum), sum_by);
        }
        v_transpose(d);
        v_transpose(sum);
        for (size_t i = 0; i < 4; i++) {
            pack_factors(m->d + (u + i) * FACTORS, d[i]);
            if (s->has_min)
                pack_factors(m->sum + (u + i) * FACTORS, sum[i]);
        }
    }
    if (TOKEN_BYTES)
        pack_tokens(m->tokens, to, depth, s);
    to->packed = m->tokens;
    to->d = m->d;
    to->sum = m->sum;
}

// ---- products

// count <= TOKENS tokens against the panel's rows.
INLINE void panel_tokens(float *out, size_t out_stride, const struct room *m, size_t rows, bool first,
                         const struct tokens *x, size_t count, size_t units, const struct shape *s)
{
    for (size_t r = 0; r < rows; r += STRIP) {
        const size_t n = rows - r < STRIP ? rows - r : STRIP;
        const struct strip p = {m->panel + r * DEPTH * strip_bytes(s),
                                m->scale + r / STRIP * SCALES * DEPTH_UNITS,
                                m->min + r / STRIP * SCALES * DEPTH_UNITS};
        float acc[TOKENS][STRIP] = {{0}};
        for (size_t t = 0; !first && t < count; t++)
            memcpy(acc[t], out + t * out_stride + r, n * sizeof(float));
        if (count > TOKENS / 2)
            strip_tokens(acc, &p, x, units, TOKENS, s);
        else
            strip_tokens(acc, &p, x, units, TOKENS / 2, s);
        for (size_t t = 0; t < count; t++)
            memcpy(out + t * out_stride + r, acc[t], n * sizeof(float));
    }
}

INLINE void prompt(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t k, size_t n_rows,
                   const uint8_t *x, size_t x_stride, size_t n_tokens, void *scratch, uint32_t type,
                   unpack_fn unpack, const struct shape *s)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t group_bytes = (size_t)s->unit * LANES / info->block_elems * info->block_bytes;
    const struct room m = room_in(scratch);
    for (size_t r = 0; r < n_rows; r += PANEL_ROWS)
        for (size_t at = 0; at < k; at += DEPTH) {
            const size_t rows = n_rows - r < PANEL_ROWS ? n_rows - r : PANEL_ROWS;
            const size_t depth = k - at < DEPTH ? k - at : DEPTH;
            fill_panel(&m, w + r * w_stride + at / info->block_elems * info->block_bytes, w_stride, rows,
                       depth, depth / info->block_elems * info->block_bytes, group_bytes, unpack, s);
            for (size_t t = 0; t < n_tokens; t += TOKENS) {
                const size_t count = n_tokens - t < TOKENS ? n_tokens - t : TOKENS;
                struct tokens tokens;
                take_tokens(&tokens, &m, x + t * x_stride, x_stride, count, k, at, depth, s);
                panel_tokens(out + t * out_stride + r, out_stride, &m, rows, at == 0, &tokens, count,
                             depth / s->unit, s);
            }
        }
}

// ---- formats

#define PROMPT(type, unpack, shape)                                                                          \
    static void prompt_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        prompt(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, scratch, HEARTH_TYPE_##type,  \
               unpack, &shape);                                                                              \
    }
HEARTH_UNITS_NEON(PROMPT)

static void init_prompt(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape) t->prompt[HEARTH_TYPE_##type] = prompt_##type;
    HEARTH_UNITS_NEON(ENTER)
#undef ENTER
    hearth_kernels_raise_scratch(t, scratch_bytes);
}
