// SPDX-License-Identifier: MIT
// Makes a GGUF of a Hugging Face folder, a block of rows at a time.
#include "convert/convert.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "convert/hf_f8.h"
#include "convert/hf_fp4.h"
#include "convert/hf_tensors.h"
#include "convert/hf_tokenizer.h"

// Bytes of the rows in work at a time, decoded; of a matrix that is turned, as it lies in its file.
#define BLOCK_BYTES ((size_t)32 << 20)
#define STRIP_BYTES ((size_t)128 << 20)
// general.file_type of models whose experts are in MXFP4, whatever the rest is in.
#define FILE_MXFP4_MOE 38
// And of models with matrices in NVFP4.
#define FILE_NVFP4 39

struct converter {
    const struct hearth_convert_params *params;
    struct hearth_hf_model model;
    struct hearth_checkpoint *checkpoint;
    struct hearth_hf_tensors tensors;
    struct hearth_gguf_tensor *as_f32;    // [tensors.n] as they would be in F32, for the recipe
    struct hearth_recipe_choice *choices; // [tensors.n]
    double threshold;                     // of the predictors; NaN: not given
    struct hearth_gguf_writer *out;
    struct hearth_pool *pool;
    struct hearth_hf_f8_reader f8;
    struct hearth_quantize_result result;
    uint64_t done; // bytes read
    struct hearth_error *err;
};

// ---- converting

// Numbers in FP8 are read as F32.
static const struct hearth_type_info *type_read(const struct hearth_hf_piece *p)
{
    return hearth_type_info(p->factors ? HEARTH_TYPE_F32 : p->from->type);
}

// Bytes of a number in the checkpoint.
static size_t bytes_of_number(const struct hearth_hf_piece *p)
{
    return p->factors ? 1 : hearth_type_info(p->from->type)->block_bytes;
}

// Rows in work. Workers take single ones.
struct block {
    const struct hearth_type_info *from, *to;
    size_t k;             // elements of a row
    size_t element_bytes; // of the source
    const uint8_t *src;   // rows; where they are turned, columns of a strip
    size_t strip_cols;    // columns of the strip that a turned row steps over; 0: not turned
    size_t step;          // of such columns each so many-th is one
    uint8_t *dst;
    size_t to_stride;
    float *rows;                              // [workers][k]
    uint8_t *gather;                          // [workers][k * element_bytes] of turned rows
    const struct hearth_hf_model *multiplies; // NULL: rows stay as they are
    const char *to_name;                      // of the tensor, and its row that is the first in work
    uint64_t row;
    atomic_bool unsound; // a row has numbers that the new format cannot hold
};

static void convert_row(void *arg, int task, int worker)
{
    struct block *b = arg;
    float *row = b->rows + (size_t)worker * b->k;
    const size_t bytes = b->element_bytes;
    const uint8_t *src = b->src + (size_t)task * b->k * bytes;
    if (b->strip_cols) {
        uint8_t *gathered = b->gather + (size_t)worker * b->k * bytes;
        for (size_t i = 0; i < b->k; i++)
            memcpy(gathered + i * bytes, b->src + (i * b->strip_cols + (size_t)task * b->step) * bytes,
                   bytes);
        src = gathered;
    }
    b->from->decode(src, row, b->k);
    float by[2];
    int n_by = 0;
    if (b->multiplies)
        hearth_hf_multipliers(b->multiplies, b->to_name, b->row + (uint64_t)task, by, &n_by);
    for (int j = 0; j < n_by; j++)
        for (size_t i = 0; i < b->k; i++)
            row[i] *= by[j];
    if (!hearth_encode_checked(b->to, row, b->dst + (size_t)task * b->to_stride, b->k) &&
        (b->from != b->to || n_by))
        b->unsound = true;
}

static int report_progress(struct converter *c, uint64_t n)
{
    c->done += n;
    const struct hearth_convert_params *p = c->params;
    const float share = c->result.bytes_in ? (float)((double)c->done / (double)c->result.bytes_in) : 1.0f;
    if (p->progress && !p->progress(p->progress_arg, share < 1.0f ? share : 1.0f))
        return hearth_fail(c->err, HEARTH_E_INTERRUPTED, "stopped on request");
    return HEARTH_OK;
}

static int encode(struct converter *c, const struct hearth_hf_piece *p, struct block *b, size_t n)
{
    hearth_pool_run(c->pool, convert_row, b, (int)n);
    if (b->unsound)
        return hearth_fail(
            c->err, HEARTH_E_FORMAT,
            "%s: tensor %.200s has weights that are infinite, not a number, or too large for %s: "
            "convert to %s, or start from a sound file",
            hearth_file_path(p->from->file), p->from->name, b->to->name, b->from->name);
    const int rc = hearth_gguf_write(c->out, b->dst, n * b->to_stride, c->err);
    return rc ? rc : report_progress(c, n * b->k * bytes_of_number(p));
}

static int read_elements(struct converter *c, const struct hearth_hf_piece *p, uint64_t at, uint64_t n,
                         void *dst, size_t element_bytes)
{
    if (p->factors)
        return hearth_hf_f8_read(&c->f8, &c->model, p, p->first + at, n, dst, c->err);
    return hearth_file_read(p->from->file, dst, (size_t)n * element_bytes,
                            p->from->offset + (p->first + at) * element_bytes, c->err);
}

static int reorder_columns(struct converter *c, enum hearth_hf_order order, uint8_t *rows, size_t n,
                           size_t cols, size_t element_bytes)
{
    uint8_t *row = hearth_calloc(cols, element_bytes);
    if (!row)
        return hearth_fail(c->err, HEARTH_E_MEMORY, "no memory for a row of %zu numbers", cols);
    for (size_t i = 0; i < n; i++, rows += cols * element_bytes) {
        memcpy(row, rows, cols * element_bytes);
        for (size_t k = 0; k < cols; k++)
            memcpy(rows + k * element_bytes,
                   row + (size_t)hearth_hf_source_column(&c->model, order, k) * element_bytes, element_bytes);
    }
    free(row);
    return HEARTH_OK;
}

// Blocks of 64 numbers, in the order that their columns have in a GGUF.
static int reorder_blocks(struct converter *c, uint8_t *rows, size_t n, size_t blocks, size_t bytes)
{
    uint8_t *row = hearth_calloc(blocks, bytes);
    if (!row)
        return hearth_fail(c->err, HEARTH_E_MEMORY, "no memory for a row of %zu blocks", blocks);
    for (size_t i = 0; i < n; i++, rows += blocks * bytes) {
        memcpy(row, rows, blocks * bytes);
        for (size_t k = 0; k < blocks; k++)
            memcpy(rows + k * bytes,
                   row + (size_t)hearth_hf_source_column(&c->model, HEARTH_HF_VALUE_COLUMNS, 64 * k) / 64 *
                             bytes,
                   bytes);
    }
    free(row);
    return HEARTH_OK;
}

// Reads rows [row, row + n) of what a piece becomes.
static int read_rows(struct converter *c, const struct hearth_hf_tensor *t, const struct hearth_hf_piece *p,
                     uint64_t row, size_t n, uint8_t *dst, size_t element_bytes)
{
    if (t->order == HEARTH_HF_SAME && p->step == 1)
        return read_elements(c, p, row * p->cols, n * p->cols, dst, element_bytes);
    int rc = HEARTH_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = read_elements(c, p, hearth_hf_source_row(&c->model, t->order, row + i) * p->stride, p->cols,
                           dst + i * (size_t)p->cols * element_bytes, element_bytes);
    if (!rc && t->order == HEARTH_HF_VALUE_COLUMNS)
        rc = reorder_columns(c, t->order, dst, n, (size_t)p->cols, element_bytes);
    return rc;
}

static int convert_rows(struct converter *c, const struct hearth_hf_tensor *t,
                        const struct hearth_hf_piece *p, struct block *b, uint8_t *src, size_t rows_at_once)
{
    int rc = HEARTH_OK;
    b->src = src;
    for (uint64_t row = 0; row < p->rows && !rc; row += rows_at_once) {
        const size_t n = p->rows - row < rows_at_once ? (size_t)(p->rows - row) : rows_at_once;
        rc = read_rows(c, t, p, row, n, src, b->element_bytes);
        b->row = row;
        if (!rc)
            rc = encode(c, p, b, n);
    }
    return rc;
}

// Columns become rows, some columns of all rows at a time.
static int convert_columns(struct converter *c, const struct hearth_hf_piece *p, struct block *b,
                           uint8_t *src, size_t strip_cols, size_t rows_at_once)
{
    int rc = HEARTH_OK;
    for (uint64_t col = 0; col < p->cols && !rc; col += strip_cols) {
        const size_t n = p->cols - col < strip_cols ? (size_t)(p->cols - col) : strip_cols;
        b->strip_cols = n * b->step;
        for (uint64_t row = 0; row < p->rows && !rc; row++) // none behind the last column of these
            rc = read_elements(c, p, row * p->stride + col * b->step, (n - 1) * b->step + 1,
                               src + (size_t)row * b->strip_cols * b->element_bytes, b->element_bytes);
        for (size_t i = 0; i < n && !rc; i += rows_at_once) {
            b->src = src + i * b->step * b->element_bytes;
            rc = encode(c, p, b, n - i < rows_at_once ? n - i : rows_at_once);
        }
    }
    return rc;
}

// How many rows fit into so many bytes; at least one.
static size_t how_many(size_t bytes, uint64_t row_bytes, uint64_t rows)
{
    const uint64_t n = row_bytes < bytes ? bytes / row_bytes : 1;
    return (size_t)(n < rows ? n : rows);
}

// Rows of blocks in MXFP4 or NVFP4, as checkpoints have them and as a GGUF has them.
struct packing {
    const uint8_t *numbers, *scales; // [rows][blocks][16], [rows][blocks]; of NVFP4 32 and 4
    uint8_t *dst;                    // [rows][blocks][17]; 36
    size_t n_blocks;                 // of a row
    bool fp4;                        // blocks are NVFP4's
};

// A byte has two neighbours, the first one low. In a GGUF it has numbers i and i + 16.
static void pack_row(void *arg, int task, int worker)
{
    (void)worker;
    const struct packing *p = arg;
    if (p->fp4) {
        hearth_hf_fp4_pack(p->numbers + (size_t)task * p->n_blocks * 32,
                           p->scales + (size_t)task * p->n_blocks * 4,
                           p->dst + (size_t)task * p->n_blocks * 36, p->n_blocks);
        return;
    }
    const uint8_t *from = p->numbers + (size_t)task * p->n_blocks * 16;
    uint8_t *to = p->dst + (size_t)task * p->n_blocks * 17;
    for (size_t i = 0; i < p->n_blocks; i++, from += 16, to += 17) {
        to[0] = p->scales[(size_t)task * p->n_blocks + i];
        for (size_t k = 0; k < 16; k++) {
            const unsigned low = from[k / 2] >> (k % 2 * 4) & 15, high = from[8 + k / 2] >> (k % 2 * 4) & 15;
            to[1 + k] = (uint8_t)(low | high << 4);
        }
    }
}

static int pack_rows(struct converter *c, const struct hearth_hf_piece *p, struct packing *b,
                     uint8_t *numbers, uint8_t *scales, size_t rows_at_once)
{
    const size_t n = b->n_blocks;
    int rc = HEARTH_OK;
    for (uint64_t row = 0; row < p->rows && !rc; row += rows_at_once) {
        const size_t rows = p->rows - row < rows_at_once ? (size_t)(p->rows - row) : rows_at_once;
        for (size_t i = 0; i < rows && !rc; i++) {
            const uint64_t at = p->first / 32 + (row + i) * p->step * n; // block
            rc = hearth_file_read(p->from->file, numbers + i * n * 16, n * 16, p->from->offset + at * 16,
                                  c->err);
            if (!rc)
                rc = hearth_file_read(p->scales->file, scales + i * n, n, p->scales->offset + at, c->err);
        }
        if (!rc) {
            hearth_pool_run(c->pool, pack_row, b, (int)rows);
            rc = hearth_gguf_write(c->out, b->dst, rows * n * 17, c->err);
        }
        if (!rc)
            rc = report_progress(c, rows * n * 17);
    }
    return rc;
}

// Experts that are in MXFP4 already stay in it.
static int pack_piece(struct converter *c, const struct hearth_hf_tensor *t, const struct hearth_hf_piece *p)
{
    struct packing b = {.n_blocks = (size_t)p->cols / 32};
    const size_t at_once = how_many(BLOCK_BYTES, p->cols, p->rows);
    size_t n = 0, bytes = 0;
    const bool ok = hearth_mul_size(at_once, b.n_blocks, &n) && hearth_mul_size(n, 17, &bytes);
    uint8_t *numbers = ok ? malloc(bytes) : NULL, *scales = ok ? malloc(n) : NULL;
    b.dst = ok ? malloc(bytes) : NULL;
    b.numbers = numbers;
    b.scales = scales;
    const int rc = numbers && scales && b.dst
                       ? pack_rows(c, p, &b, numbers, scales, at_once)
                       : hearth_fail(c->err, HEARTH_E_MEMORY, "no memory to convert tensor %s", t->name);
    free(numbers);
    free(scales);
    free(b.dst);
    return rc;
}

// Reads rows of NVFP4, each from where it is in the checkpoint; blocks may change their places within a row.
static int read_fp4_rows(struct converter *c, const struct hearth_hf_tensor *t,
                         const struct hearth_hf_piece *p, uint64_t row, size_t n, uint8_t *numbers,
                         uint8_t *scales)
{
    const size_t blocks = (size_t)p->cols / 64, width = (size_t)p->cols / 2, few = (size_t)p->cols / 16;
    int rc = HEARTH_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        const uint64_t at = p->first + hearth_hf_source_row(&c->model, t->order, row + i) * p->stride;
        rc = hearth_file_read(p->from->file, numbers + i * width, width, p->from->offset + at / 2, c->err);
        if (!rc)
            rc =
                hearth_file_read(p->scales->file, scales + i * few, few, p->scales->offset + at / 16, c->err);
    }
    if (!rc && t->order == HEARTH_HF_VALUE_COLUMNS) {
        rc = reorder_blocks(c, numbers, n, blocks, 32);
        if (!rc)
            rc = reorder_blocks(c, scales, n, blocks, 4);
    }
    return rc;
}

// A matrix in NVFP4 stays in it.
static int pack_fp4(struct converter *c, const struct hearth_hf_tensor *t, const struct hearth_hf_piece *p)
{
    struct packing b = {.n_blocks = (size_t)p->cols / 64, .fp4 = true};
    const size_t at_once = how_many(BLOCK_BYTES, p->cols, p->rows);
    size_t n = 0, bytes = 0;
    const bool ok = hearth_mul_size(at_once, b.n_blocks, &n) && hearth_mul_size(n, 36, &bytes);
    uint8_t *numbers = ok ? malloc(bytes) : NULL, *scales = ok ? malloc(bytes) : NULL;
    b.dst = ok ? malloc(bytes) : NULL;
    b.numbers = numbers;
    b.scales = scales;
    int rc = numbers && scales && b.dst
                 ? HEARTH_OK
                 : hearth_fail(c->err, HEARTH_E_MEMORY, "no memory to convert tensor %s", t->name);
    for (uint64_t row = 0; row < p->rows && !rc; row += at_once) {
        const size_t rows = p->rows - row < at_once ? (size_t)(p->rows - row) : at_once;
        rc = read_fp4_rows(c, t, p, row, rows, numbers, scales);
        if (!rc) {
            hearth_pool_run(c->pool, pack_row, &b, (int)rows);
            rc = hearth_gguf_write(c->out, b.dst, rows * b.n_blocks * 36, c->err);
        }
        if (!rc)
            rc = report_progress(c, rows * b.n_blocks * 36);
    }
    free(numbers);
    free(scales);
    free(b.dst);
    return rc;
}

static int convert_piece(struct converter *c, const struct hearth_hf_tensor *t,
                         const struct hearth_hf_piece *p, uint32_t type)
{
    if (p->scales)
        return p->fp4 ? pack_fp4(c, t, p) : pack_piece(c, t, p);
    const bool turned = t->order == HEARTH_HF_COLUMNS;
    const uint64_t rows = turned ? p->cols : p->rows;
    struct block b = {.from = type_read(p), .to = hearth_type_info(type)};
    if (c->model.family->multiplies) {
        b.multiplies = &c->model;
        b.to_name = strncmp(t->name, "blk.", 4) ? t->name : strchr(t->name + 4, '.') + 1;
    }
    b.k = (size_t)(turned ? p->rows : p->cols);
    b.element_bytes = b.from->block_bytes;
    b.to_stride = hearth_type_bytes(type, b.k);
    const size_t at_once = how_many(BLOCK_BYTES, b.k * sizeof(float), rows);
    b.step = turned ? p->step : 1;
    const size_t strip = turned ? how_many(STRIP_BYTES, b.k * b.element_bytes * b.step, rows) : at_once;
    const size_t workers = (size_t)hearth_pool_size(c->pool);
    size_t src_bytes = 0, dst_bytes = 0, row_bytes = 0, gather_bytes = 0;
    const bool ok = hearth_mul_size(strip * b.step * b.element_bytes, b.k, &src_bytes) &&
                    hearth_mul_size(at_once, b.to_stride, &dst_bytes) &&
                    hearth_mul_size(workers * sizeof(float), b.k, &row_bytes) &&
                    hearth_mul_size(turned ? workers * b.element_bytes : 1, b.k, &gather_bytes);
    uint8_t *src = ok ? malloc(src_bytes) : NULL;
    b.dst = ok ? malloc(dst_bytes) : NULL;
    b.rows = ok ? malloc(row_bytes) : NULL;
    b.gather = ok ? malloc(gather_bytes) : NULL;
    int rc;
    if (!src || !b.dst || !b.rows || !b.gather)
        rc = hearth_fail(c->err, HEARTH_E_MEMORY, "no memory to convert tensor %s", t->name);
    else
        rc =
            turned ? convert_columns(c, p, &b, src, strip, at_once) : convert_rows(c, t, p, &b, src, at_once);
    free(src);
    free(b.dst);
    free(b.rows);
    free(b.gather);
    return rc;
}

// A vector is read at once: its elements may change places.
static int convert_vector(struct converter *c, const struct hearth_hf_tensor *t,
                          const struct hearth_hf_piece *p)
{
    const struct hearth_type_info *from = hearth_type_info(p->from->type);
    const size_t n = (size_t)p->rows, all = (n - 1) * p->step + 1;
    uint8_t *src = hearth_calloc(all, from->block_bytes);
    float *values = hearth_calloc(all + n, sizeof *values), *ordered = values + all;
    int rc = src && values ? read_elements(c, p, 0, all, src, from->block_bytes)
                           : hearth_fail(c->err, HEARTH_E_MEMORY, "no memory to convert tensor %s", t->name);
    if (!rc) {
        from->decode(src, values, all);
        for (size_t i = 0; i < n; i++)
            ordered[i] = values[hearth_hf_source_row(&c->model, t->order, i) * p->step];
        for (size_t i = 0; i < n; i++)
            ordered[i] = t->order == HEARTH_HF_ONE_MORE ? ordered[i] + 1.0f
                         : t->order == HEARTH_HF_DECAY  ? -expf(ordered[i])
                                                        : ordered[i];
        rc = hearth_gguf_write(c->out, ordered, n * sizeof *ordered, c->err);
    }
    free(src);
    free(values);
    return rc ? rc : report_progress(c, n * from->block_bytes);
}

// Rows of tokens that the checkpoint lacks.
static int write_zeros(struct converter *c, const struct hearth_hf_tensor *t, uint32_t type)
{
    const size_t k = (size_t)t->ne[0], bytes = hearth_type_bytes(type, k);
    float *row = hearth_calloc(k, sizeof *row);
    uint8_t *encoded = malloc(bytes);
    int rc = row && encoded ? HEARTH_OK
                            : hearth_fail(c->err, HEARTH_E_MEMORY, "no memory to convert tensor %s", t->name);
    if (!rc)
        hearth_encode_checked(hearth_type_info(type), row, encoded, k);
    for (uint64_t i = 0; i < t->n_zero && !rc; i++)
        rc = hearth_gguf_write(c->out, encoded, bytes, c->err);
    free(row);
    free(encoded);
    return rc;
}

static int convert_tensor(struct converter *c, size_t i)
{
    const struct hearth_hf_tensor *t = &c->tensors.items[i];
    if (t->values)
        return hearth_gguf_write(c->out, t->values, (size_t)t->ne[0] * sizeof *t->values, c->err);
    int rc = HEARTH_OK;
    for (size_t j = 0; j < t->n_pieces && !rc; j++) {
        const struct hearth_hf_piece *p = &c->tensors.pieces[t->first_piece + j];
        rc = t->is_vectors ? convert_vector(c, t, p) : convert_piece(c, t, p, c->choices[i].type);
    }
    return rc || !t->n_zero ? rc : write_zeros(c, t, c->choices[i].type);
}

// ---- planning

static uint64_t n_rows(const struct hearth_hf_tensor *t)
{
    return t->ne[1] * t->ne[2] * t->ne[3];
}

static void count(struct converter *c, size_t i)
{
    const struct hearth_hf_tensor *t = &c->tensors.items[i];
    const struct hearth_recipe_choice *choice = &c->choices[i];
    for (size_t j = 0; j < t->n_pieces; j++) {
        const struct hearth_hf_piece *p = &c->tensors.pieces[t->first_piece + j];
        c->result.bytes_in += p->fp4      ? p->rows * p->cols / 64 * 36
                              : p->scales ? p->rows * p->cols / 32 * 17
                                          : p->rows * p->cols * bytes_of_number(p);
    }
    c->result.bytes_out += (uint64_t)hearth_type_bytes(choice->type, t->ne[0]) * n_rows(t);
    c->result.n_kept += choice->kept;
    if (choice->fallback)
        hearth_count_fallback(&c->result, t->name, t->ne[0], choice);
    if (!choice->kept)
        c->result.n_matrices[choice->type]++;
}

// A matrix that recipes leave as it is, and llama.cpp's converter makes no F32 of.
static bool stays_half(const char *name)
{
    static const char *const parts[] = {
        "per_layer_model_proj.weight", "altup_proj.weight", "altup_unembd_proj.weight",
        "altup_router.weight",         "laurel_l.weight",   "laurel_r.weight"};
    const char *part = !strncmp(name, "blk.", 4) ? strchr(name + 4, '.') + 1 : name;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(part, parts[i]))
            return true;
    return false;
}

// What is in MXFP4 stays in it. A matrix that stays in 16 bits is as it is in the checkpoint unless the file
// is to have another format of plain numbers.
static void choose_for_delicate(struct converter *c, size_t i)
{
    const struct hearth_hf_tensor *t = &c->tensors.items[i];
    if (t->n_pieces && c->tensors.pieces[t->first_piece].scales)
        c->choices[i] = (struct hearth_recipe_choice){
            .type = c->tensors.pieces[t->first_piece].fp4 ? HEARTH_TYPE_NVFP4 : HEARTH_TYPE_MXFP4};
    const char *wanted = c->params->recipe->name;
    if (strstr(t->name, ".indexer.proj.weight") && (!strcmp(wanted, "F16") || !strcmp(wanted, "BF16")))
        c->choices[i].type = HEARTH_TYPE_F32; // as in llama.cpp's files of these formats
    if (!c->choices[i].kept || !stays_half(t->name))
        return;
    const struct hearth_hf_piece *p = &c->tensors.pieces[t->first_piece];
    const uint32_t own = p->factors ? HEARTH_TYPE_F32 : p->from->type;
    c->choices[i].type = !strcmp(wanted, "F32")    ? HEARTH_TYPE_F32
                         : !strcmp(wanted, "F16")  ? HEARTH_TYPE_F16
                         : !strcmp(wanted, "BF16") ? HEARTH_TYPE_BF16
                                                   : own;
}

static int choose_types(struct converter *c)
{
    const size_t n = c->tensors.n;
    c->as_f32 = hearth_calloc(n, sizeof *c->as_f32);
    c->choices = hearth_calloc(n, sizeof *c->choices);
    if (!c->as_f32 || !c->choices)
        return hearth_fail(c->err, HEARTH_E_MEMORY, "no memory for the tensor list");
    for (size_t i = 0; i < n; i++) {
        const struct hearth_hf_tensor *t = &c->tensors.items[i];
        c->as_f32[i] = (struct hearth_gguf_tensor){
            .name = {t->name, strlen(t->name)}, .type = HEARTH_TYPE_F32, .n_dims = t->n_dims};
        memcpy(c->as_f32[i].ne, t->ne, sizeof t->ne);
    }
    const struct hearth_hf_model *m = &c->model;
    const struct hearth_recipe_model model = {.arch = {m->family->arch, strlen(m->family->arch)},
                                              .n_layers = hearth_hf_n_blocks(m),
                                              .n_experts = m->n_expert,
                                              .n_heads = m->n_head,
                                              .n_kv_heads = hearth_hf_listed_kv(m, 0),
                                              .tensors = c->as_f32,
                                              .n_tensors = n};
    const int rc = hearth_recipe_choose_for(c->params->recipe, c->params->pure, &model, c->choices, c->err);
    for (size_t i = 0; i < n && !rc; i++) {
        choose_for_delicate(c, i);
        count(c, i);
    }
    return rc;
}

// ---- the header

// The folder's own name.
static struct hearth_str name_of(const char *folder)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    size_t start = n;
    while (start > 0 && folder[start - 1] != '/')
        start--;
    const struct hearth_str name = {folder + start, n - start};
    const bool dots = name.n == 0 || (name.s[0] == '.' && (name.n == 1 || (name.n == 2 && name.s[1] == '.')));
    return dots ? (struct hearth_str){"model", 5} : name;
}

static int put_text(struct converter *c, const char *key, const char *text)
{
    return hearth_gguf_put_str(c->out, key, text, strlen(text), c->err);
}

static int put_general(struct converter *c)
{
    const struct hearth_str name = name_of(c->model.folder);
    int rc = put_text(c, "general.architecture", c->model.family->arch);
    if (!rc)
        rc = put_text(c, "general.type", "model");
    if (!rc)
        rc = hearth_gguf_put_str(c->out, "general.name", name.s, name.n, c->err);
    if (!rc)
        rc = hearth_gguf_put_u32(c->out, "general.file_type",
                                 c->result.n_matrices[HEARTH_TYPE_NVFP4] ? FILE_NVFP4
                                 : c->result.n_matrices[HEARTH_TYPE_MXFP4]
                                     ? FILE_MXFP4_MOE
                                     : (uint32_t)c->params->recipe->file_type,
                                 c->err);
    return rc ? rc : hearth_gguf_put_u32(c->out, "general.quantization_version", 2, c->err);
}

// PowerInfer has predictors in these, one a layer.
static bool is_powerinfers(const struct converter *c)
{
    static const char *const archs[] = {"llama", "bamboo", "falcon", "opt"};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (c->model.n_expert == 0 && !strcmp(archs[i], c->model.family->arch))
            return true;
    return false;
}

static int put_predictors(struct converter *c)
{
    const bool powerinfers = is_powerinfers(c);
    int rc = HEARTH_OK;
    if (powerinfers)
        hearth_gguf_writer_set_pwri(c->out);
    else
        rc = put_text(c, "hearth.pack.predictor_input", c->model.family->predictor_input);
    if (rc || isnan(c->threshold))
        return rc;
    return hearth_gguf_put_f32(c->out,
                               powerinfers ? "powerinfer.sparse_threshold" : "hearth.sparse_threshold",
                               (float)c->threshold, c->err);
}

// Tokens behind the vocabulary's own whose embeddings are 0 were never trained: they are never to be chosen.
static int put_untrained(struct converter *c)
{
    const struct hearth_hf_tensor *t = c->tensors.items;
    uint32_t first = 0, n = 0;
    int rc = hearth_hf_tokenizer_own(&c->model, &first, c->err);
    const size_t width = (size_t)t->ne[0], bytes = width * type_read(c->tensors.pieces)->block_bytes;
    const uint32_t rows = (uint32_t)t->ne[1];
    uint8_t *row = malloc(bytes + 1);
    int32_t *ids = hearth_calloc(rows, sizeof *ids);
    if (!rc && (!row || !ids))
        rc = hearth_fail(c->err, HEARTH_E_MEMORY, "no memory for the list of tokens");
    for (uint32_t i = first; i < rows && first && !rc; i++) {
        rc = read_elements(c, c->tensors.pieces, (uint64_t)i * width, width, row, bytes / width);
        size_t k = 0;
        while (!rc && k < bytes && !row[k])
            k++;
        if (!rc && k == bytes)
            ids[n++] = (int32_t)i;
    }
    if (!rc && n)
        rc = hearth_gguf_put_array(c->out, "tokenizer.ggml.suppress_tokens", HEARTH_GGUF_I32, ids, n, c->err);
    free(row);
    free(ids);
    return rc;
}

static int put_tensors(struct converter *c)
{
    int rc = HEARTH_OK;
    for (size_t i = 0; i < c->tensors.n && !rc; i++) {
        const struct hearth_hf_tensor *t = &c->tensors.items[i];
        rc = hearth_gguf_put_tensor(c->out, t->name, c->choices[i].type, t->n_dims, t->ne, c->err);
    }
    return rc;
}

static int write_header(struct converter *c)
{
    int rc = put_general(c);
    if (!rc)
        rc = hearth_hf_model_put(&c->model, c->tensors.has_predictors, c->out, c->err);
    if (!rc && c->tensors.has_predictors)
        rc = put_predictors(c);
    if (!rc)
        rc = hearth_hf_tokenizer_put(&c->model, c->out, c->err);
    if (!rc && c->model.family->zero_unsaid)
        rc = put_untrained(c);
    return rc ? rc : put_tensors(c);
}

// ---- all

static int open_predictors(struct converter *c)
{
    const char *folder = c->params->predictors;
    struct hearth_json_file config;
    int rc = hearth_json_file_open(&config, folder, "config.json", false, c->err);
    if (!rc && config.root)
        rc = hearth_json_f64(&config, config.root, "sparse_threshold", false, &c->threshold, c->err);
    hearth_json_file_close(&config);
    if (!rc && c->model.n_expert)
        rc = hearth_fail(c->err, HEARTH_E_UNSUPPORTED,
                         "%s: predictors of models with experts come with their weights", folder);
    return rc ? rc : hearth_checkpoint_add_predictors(c->checkpoint, folder, c->model.n_layer, c->err);
}

static int open_model(struct converter *c, const char *folder)
{
    int rc = hearth_hf_model_open(&c->model, folder, c->params->activation, c->err);
    if (!rc)
        rc = hearth_checkpoint_open(&c->checkpoint, folder, c->err);
    if (!rc && c->params->predictors)
        rc = open_predictors(c);
    if (!rc && c->model.n_extra && !hearth_hf_has_extra(&c->model, c->checkpoint))
        c->model.n_extra = 0;
    if (!rc)
        rc = hearth_hf_tensors_find(&c->tensors, &c->model, c->checkpoint, c->err);
    return rc ? rc : choose_types(c);
}

static int write_file(struct converter *c, const char *out)
{
    const int n_threads = hearth_pool_threads(c->params->n_threads);
    int rc = hearth_pool_open(&c->pool, n_threads, c->err);
    c->f8.pool = c->pool;
    if (!rc)
        rc = hearth_gguf_writer_open(&c->out, out, c->err);
    if (!rc)
        rc = write_header(c);
    for (size_t i = 0; i < c->tensors.n && !rc; i++)
        rc = convert_tensor(c, i);
    return rc ? rc : hearth_gguf_finish(&c->out, c->err);
}

int hearth_convert(const char *folder, const char *out, const struct hearth_convert_params *params,
                   struct hearth_quantize_result *result, struct hearth_error *err)
{
    struct converter c = {.params = params, .threshold = NAN, .err = err};
    int rc = open_model(&c, folder);
    if (!rc)
        rc = write_file(&c, out);
    if (!rc && result)
        *result = c.result;
    hearth_gguf_writer_close(&c.out);
    hearth_pool_close(&c.pool);
    hearth_hf_f8_reader_free(&c.f8);
    hearth_hf_tensors_free(&c.tensors);
    hearth_checkpoint_close(&c.checkpoint);
    hearth_hf_model_close(&c.model);
    free(c.as_f32);
    free(c.choices);
    return rc;
}
