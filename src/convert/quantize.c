// SPDX-License-Identifier: MIT
// Rewrites a model in other number formats, a block of rows at a time.
#include "convert/quantize.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/threads.h"
#include "gguf/checksums.h"
#include "model/pack.h"

// Decoded bytes of the rows in work at a time.
#define BLOCK_BYTES ((size_t)32 << 20)
#define COPY_BYTES  ((size_t)4 << 20)

// The treatment of one tensor.
struct step {
    const struct hearth_gguf_tensor *tensor;
    uint32_t type;   // type in the new file
    uint64_t n_rows; // rows of ne[0] elements
};

struct quantizer {
    const struct hearth_quantize_params *params;
    struct hearth_gguf *in;
    struct hearth_gguf_writer *out;
    struct hearth_pool *pool;
    struct step *steps;
    struct hearth_quantize_result result;
    uint64_t done; // bytes read
    struct hearth_error *err;
};

// ---- converting

// A block of rows. Workers take single rows of it.
struct block {
    const struct hearth_type_info *from, *to;
    size_t k; // elements of a row
    const uint8_t *src;
    uint8_t *dst;
    float *rows; // [workers][k]
    size_t from_stride, to_stride;
    atomic_bool unsound; // a row has numbers that the new format cannot hold
};

static void convert_row(void *arg, int task, int worker)
{
    struct block *b = arg;
    float *row = b->rows + (size_t)worker * b->k;
    b->from->decode(b->src + (size_t)task * b->from_stride, row, b->k);
    if (!hearth_encode_checked(b->to, row, b->dst + (size_t)task * b->to_stride, b->k))
        b->unsound = true;
}

static int report_progress(struct quantizer *q, uint64_t n)
{
    q->done += n;
    const struct hearth_quantize_params *p = q->params;
    float share = q->result.bytes_in ? (float)((double)q->done / (double)q->result.bytes_in) : 1.0f;
    if (p->progress && !p->progress(p->progress_arg, share))
        return hearth_fail(q->err, HEARTH_E_INTERRUPTED, "stopped on request");
    return HEARTH_OK;
}

static int refuse_unsound(struct quantizer *q, const struct step *s)
{
    const char *from = hearth_type_info(s->tensor->type)->name, *to = hearth_type_info(s->type)->name;
    return hearth_fail(
        q->err, HEARTH_E_FORMAT,
        "%s: tensor %s has weights that are infinite, not a number, or too large for %s: keep it as "
        "it is (--tensor-type %s=%s), or start from a sound file",
        hearth_gguf_path(q->in), s->tensor->name.s, to, s->tensor->name.s, from);
}

static int convert_blocks(struct quantizer *q, const struct step *s, struct block *b, size_t rows_at_once)
{
    int rc = HEARTH_OK;
    for (uint64_t row = 0; row < s->n_rows && !rc; row += rows_at_once) {
        size_t n = s->n_rows - row < rows_at_once ? (size_t)(s->n_rows - row) : rows_at_once;
        rc = hearth_gguf_read(q->in, s->tensor, (void *)b->src, row * b->from_stride, n * b->from_stride,
                              q->err);
        if (!rc) {
            hearth_pool_run(q->pool, convert_row, b, (int)n);
            rc = b->unsound ? refuse_unsound(q, s)
                            : hearth_gguf_write(q->out, b->dst, n * b->to_stride, q->err);
        }
        if (!rc)
            rc = report_progress(q, n * b->from_stride);
    }
    return rc;
}

static int convert(struct quantizer *q, const struct step *s)
{
    const struct hearth_gguf_tensor *t = s->tensor;
    struct block b = {
        .from = hearth_type_info(t->type), .to = hearth_type_info(s->type), .k = (size_t)t->ne[0]};
    b.from_stride = hearth_type_bytes(t->type, b.k);
    b.to_stride = hearth_type_bytes(s->type, b.k);
    size_t row_bytes, src_bytes, dst_bytes, scratch;
    const size_t workers = (size_t)hearth_pool_size(q->pool);
    if (!hearth_mul_size(b.k, sizeof(float), &row_bytes) || !hearth_mul_size(row_bytes, workers, &scratch))
        return hearth_fail(q->err, HEARTH_E_FORMAT, "%s: rows of tensor %s are too long",
                           hearth_gguf_path(q->in), t->name.s);
    size_t rows_at_once = BLOCK_BYTES / row_bytes;
    rows_at_once = rows_at_once < 1 ? 1 : rows_at_once;
    if (rows_at_once > s->n_rows)
        rows_at_once = (size_t)s->n_rows;
    void *src = NULL, *rows = NULL;
    if (hearth_mul_size(rows_at_once, b.from_stride, &src_bytes) &&
        hearth_mul_size(rows_at_once, b.to_stride, &dst_bytes)) {
        b.src = src = malloc(src_bytes);
        b.dst = malloc(dst_bytes);
        b.rows = rows = malloc(scratch);
    }
    int rc;
    if (!src || !b.dst || !rows)
        rc = hearth_fail(q->err, HEARTH_E_MEMORY, "no memory to convert tensor %s", t->name.s);
    else
        rc = convert_blocks(q, s, &b, rows_at_once);
    free(src);
    free(b.dst);
    free(rows);
    return rc;
}

static int copy(struct quantizer *q, const struct step *s)
{
    size_t size = s->tensor->bytes < COPY_BYTES ? (size_t)s->tensor->bytes : COPY_BYTES;
    void *buffer = malloc(size ? size : 1);
    if (!buffer)
        return hearth_fail(q->err, HEARTH_E_MEMORY, "no memory to copy tensor %s", s->tensor->name.s);
    int rc = HEARTH_OK;
    for (uint64_t at = 0; at < s->tensor->bytes && !rc; at += size) {
        size_t n = s->tensor->bytes - at < size ? (size_t)(s->tensor->bytes - at) : size;
        rc = hearth_gguf_read(q->in, s->tensor, buffer, at, n, q->err);
        if (!rc)
            rc = hearth_gguf_write(q->out, buffer, n, q->err);
        if (!rc)
            rc = report_progress(q, n);
    }
    free(buffer);
    return rc;
}

// ---- planning

void hearth_count_fallback(struct hearth_quantize_result *result, const char *name, uint64_t n,
                           const struct hearth_recipe_choice *choice)
{
    struct hearth_fallback *first = &result->fallback;
    if (result->n_fallback++)
        return;
    *first = (struct hearth_fallback){.type = choice->type, .wanted = choice->wanted, .n = n};
    snprintf(first->name, sizeof first->name, "%s", name);
}

static void plan_tensor(struct quantizer *q, uint64_t i, struct hearth_recipe_choice choice, bool *warned)
{
    const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(q->in, i);
    struct step *s = &q->steps[i];
    *s = (struct step){t, choice.type, t->ne[1] * t->ne[2] * t->ne[3]};
    uint64_t bytes = (uint64_t)hearth_type_bytes(choice.type, t->ne[0]) * s->n_rows;
    q->result.bytes_in += t->bytes;
    q->result.bytes_out += bytes;
    q->result.n_kept += choice.kept;
    if (choice.fallback)
        hearth_count_fallback(&q->result, t->name.s, t->ne[0], &choice);
    if (choice.kept)
        return;
    q->result.n_matrices[choice.type]++;
    q->result.n_changed += choice.type != t->type;
    q->result.n_again += choice.type != t->type && hearth_type_info(t->type)->unit_elems;
    if (!*warned && choice.type != t->type && hearth_type_info(t->type)->unit_elems) {
        hearth_log(HEARTH_LOG_WARNING,
                   "%s is already quantised (tensor %s is %s): converting it again loses quality",
                   hearth_gguf_path(q->in), t->name.s, hearth_type_info(t->type)->name);
        *warned = true;
    }
}

// A file that keeps such matrices would not be what its name and its general.file_type say.
static int check_readable(struct quantizer *q, const struct hearth_recipe_choice *choices, uint64_t n)
{
    uint64_t count = 0;
    const struct hearth_gguf_tensor *first = NULL;
    for (uint64_t i = n; i-- > 0;)
        if (choices[i].unreadable) {
            count++;
            first = hearth_gguf_tensor_at(q->in, i);
        }
    if (!count)
        return HEARTH_OK;
    return hearth_fail(q->err, HEARTH_E_UNSUPPORTED,
                       "%s: %" PRIu64
                       " matrices are in formats that cannot be decoded, tensor %s in %s: start from a "
                       "file in another format",
                       hearth_gguf_path(q->in), count, first->name.s, hearth_type_info(first->type)->name);
}

static int plan(struct quantizer *q)
{
    uint64_t n = hearth_gguf_n_tensors(q->in);
    if (n == 0)
        return hearth_fail(q->err, HEARTH_E_INVALID, "%s holds no tensors: there is nothing to convert",
                           hearth_gguf_path(q->in));
    q->steps = hearth_calloc((size_t)n, sizeof *q->steps);
    if (!q->steps)
        return hearth_fail(q->err, HEARTH_E_MEMORY, "no memory for the tensor list");
    struct hearth_recipe_choice *choices = hearth_calloc((size_t)n, sizeof *choices);
    if (!choices)
        return hearth_fail(q->err, HEARTH_E_MEMORY, "no memory for the tensor list");
    int rc = hearth_recipe_choose(q->params->recipe, q->params->pure, q->in, choices, q->err);
    bool warned = false;
    if (!rc)
        rc = check_readable(q, choices, n);
    if (!rc)
        rc = hearth_recipe_grant(q->params->wishes, q->params->n_wishes, q->in, choices, q->err);
    for (uint64_t i = 0; i < n && !rc; i++)
        plan_tensor(q, i, choices[i], &warned);
    free(choices);
    return rc;
}

// Keys that describe the old file, not the model.
static bool is_left_out(struct hearth_str key)
{
    return hearth_str_is(key, "general.file_type") || hearth_str_is(key, "general.quantization_version") ||
           hearth_gguf_is_layout_key(key);
}

// Checksums of the old bytes.
static bool is_checksums(const struct step *s)
{
    return strcmp(s->tensor->name.s, HEARTH_CHECKSUMS_NAME) == 0;
}

static int write_header(struct quantizer *q)
{
    int rc = HEARTH_OK;
    for (uint64_t i = 0; i < hearth_gguf_n_kv(q->in) && !rc; i++) {
        const struct hearth_gguf_kv *kv = hearth_gguf_kv_at(q->in, i);
        if (!is_left_out(kv->key))
            rc = hearth_gguf_put_kv(q->out, kv, q->err);
    }
    if (!rc)
        rc = hearth_gguf_put_u32(q->out, "general.file_type", (uint32_t)q->params->recipe->file_type, q->err);
    if (!rc)
        rc = hearth_gguf_put_u32(q->out, "general.quantization_version", 2, q->err);
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(q->in) && !rc; i++) {
        const struct step *s = &q->steps[i];
        if (is_checksums(s))
            continue;
        rc = hearth_gguf_put_tensor(q->out, s->tensor->name.s, s->type, s->tensor->n_dims, s->tensor->ne,
                                    q->err);
    }
    return rc;
}

static int check_source(struct quantizer *q)
{
    if (hearth_gguf_is_pwri(q->in))
        return hearth_fail(q->err, HEARTH_E_UNSUPPORTED, "%s: PowerInfer's sparse models cannot be converted",
                           hearth_gguf_path(q->in));
    return HEARTH_OK;
}

int hearth_quantize(const char *in, const char *out, const struct hearth_quantize_params *params,
                    struct hearth_quantize_result *result, struct hearth_error *err)
{
    struct quantizer q = {.params = params, .err = err};
    int rc = hearth_gguf_open(&q.in, in, err);
    if (!rc && hearth_gguf_is_pack(q.in))
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: this is a pack; quantize the model that it was made of", in);
    if (!rc)
        rc = check_source(&q);
    if (!rc)
        rc = plan(&q);
    if (!rc)
        rc = hearth_pool_open(&q.pool, hearth_pool_threads(params->n_threads), err);
    if (!rc)
        rc = hearth_gguf_writer_open(&q.out, out, err);
    if (!rc)
        rc = write_header(&q);
    for (uint64_t i = 0; !rc && i < hearth_gguf_n_tensors(q.in); i++)
        rc = is_checksums(&q.steps[i])                    ? HEARTH_OK
             : q.steps[i].type == q.steps[i].tensor->type ? copy(&q, &q.steps[i])
                                                          : convert(&q, &q.steps[i]);
    if (!rc)
        rc = hearth_gguf_finish(&q.out, err);
    if (!rc && result)
        *result = q.result;
    hearth_gguf_writer_close(&q.out);
    hearth_pool_close(&q.pool);
    hearth_gguf_close(&q.in);
    free(q.steps);
    return rc;
}
