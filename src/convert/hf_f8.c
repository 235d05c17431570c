// SPDX-License-Identifier: MIT
// Numbers in F8_E4M3 and their factors. Sources: the format's paper (arXiv 2209.05433), config.json of DeepSeek V3
// (quant_method "fp8") and of checkpoints of compressed-tensors.
#include "convert/hf_f8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// Elements that a worker takes at a time.
#define CHUNK     1024
#define MAX_BLOCK 65536

// ---- config.json

static int unsupported(const struct hearth_hf_model *m, const char *what, struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"quantization_config\": %s", m->config.path, what);
}

// [rows, columns], or null: then factors are for rows or whole matrices.
static int read_block(struct hearth_hf_model *m, const json_t *block, struct hearth_error *err)
{
    if (!block || json_is_null(block))
        return HEARTH_OK;
    uint32_t sizes[2];
    for (size_t i = 0; i < 2; i++) {
        const json_t *size = json_array_get(block, i);
        const json_int_t n = json_integer_value(size);
        if (json_array_size(block) != 2 || n < 1 || n > MAX_BLOCK)
            return hearth_fail(
                err, HEARTH_E_FORMAT,
                "%s: \"quantization_config\": the size of a block must be two numbers from 1 to %d",
                m->config.path, MAX_BLOCK);
        sizes[i] = (uint32_t)n;
    }
    m->f8.block_rows = sizes[0];
    m->f8.block_cols = sizes[1];
    return HEARTH_OK;
}

static int read_fp8(struct hearth_hf_model *m, const json_t *config, struct hearth_error *err)
{
    const json_t *format = json_object_get(config, "fmt");
    if (json_is_string(format) && !hearth_json_is(format, "e4m3"))
        return unsupported(m, "FP8 other than e4m3 cannot be converted; take the original checkpoint", err);
    m->f8.factors = "_scale_inv";
    return read_block(m, json_object_get(config, "weight_block_size"), err);
}

static int read_compressed(struct hearth_hf_model *m, const json_t *config, struct hearth_error *err)
{
    json_t *groups = json_object_get(config, "config_groups");
    const char *name;
    json_t *group, *weights = NULL;
    json_object_foreach(groups, name, group) weights = json_object_get(group, "weights");
    const json_t *format = json_object_get(config, "format");
    const json_int_t bits = json_integer_value(json_object_get(weights, "num_bits"));
    const json_int_t size = json_integer_value(json_object_get(weights, "group_size"));
    const bool one = json_object_size(groups) == 1,
               is_float = hearth_json_is(json_object_get(weights, "type"), "float");
    m->f8.factors = "_scale";
    if (hearth_json_is(format, "nvfp4-pack-quantized") && is_float && bits == 4 && size == 16) {
        m->f8.fp4 = m->f8.inverse = true;
        return HEARTH_OK;
    }
    if (hearth_json_is(format, "pack-quantized") && one && !is_float && bits == 4 && size >= 1 &&
        size <= MAX_BLOCK && !json_is_false(json_object_get(weights, "symmetric"))) {
        m->f8.packed = true;
        m->f8.block_rows = 1;
        m->f8.block_cols = (uint32_t)size;
        return HEARTH_OK;
    }
    if (!hearth_json_is(format, "float-quantized") || !one || !is_float || bits != 8 ||
        json_is_integer(json_object_get(weights, "group_size")))
        return unsupported(
            m,
            "of compressed-tensors only \"float-quantized\" with one group of 8 bits, "
            "\"nvfp4-pack-quantized\" and symmetric \"pack-quantized\" with one group of 4 bits can be "
            "converted; take the original checkpoint",
            err);
    return read_block(m, json_object_get(weights, "block_structure"), err);
}

// ModelOpt: FP8 with factors of matrices or rows, NVFP4, or both. Tensors say which they are.
static int read_modelopt(struct hearth_hf_model *m, const json_t *config, struct hearth_error *err)
{
    static const char *const known[] = {"FP8", "NVFP4", "W4A16_NVFP4", "MIXED_PRECISION"};
    const json_t *algo = json_object_get(config, "quant_algo");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (hearth_json_is(algo, known[i])) {
            m->f8.factors = "_scale";
            m->f8.fp4 = i > 0;
            return HEARTH_OK;
        }
    return hearth_fail(
        err, HEARTH_E_UNSUPPORTED,
        "%s: \"quant_algo\" \"%.40s\" of ModelOpt cannot be converted, FP8, NVFP4 and both can; take the "
        "original checkpoint",
        m->folder, json_is_string(algo) ? json_string_value(algo) : "");
}

// Where config.json says nothing, a file of its own does.
static int read_own_file(struct hearth_hf_model *m, struct hearth_error *err)
{
    struct hearth_json_file file;
    int rc = hearth_json_file_open(&file, m->folder, "hf_quant_config.json", false, err);
    const json_t *config = json_object_get(file.root, "quantization");
    if (!rc && json_is_string(json_object_get(config, "quant_algo")))
        rc = read_modelopt(m, config, err);
    hearth_json_file_close(&file);
    return rc;
}

int hearth_hf_f8_config(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *config = json_object_get(m->config.root, "quantization_config");
    if (!json_is_object(config) && m->outer)
        config = json_object_get(m->outer, "quantization_config");
    if (!json_is_object(config))
        return read_own_file(m, err);
    const json_t *method = json_object_get(config, "quant_method");
    if (m->family->mxfp4) {
        if (hearth_json_is(method, "mxfp4"))
            return HEARTH_OK;
    } else if (hearth_json_is(method, "fp8")) {
        return read_fp8(m, config, err);
    } else if (hearth_json_is(method, "modelopt")) {
        return json_is_string(json_object_get(config, "quant_algo")) ? read_modelopt(m, config, err)
                                                                     : read_own_file(m, err);
    } else if (hearth_json_is(method, "compressed-tensors")) {
        return read_compressed(m, config, err);
    }
    return unsupported(
        m,
        "checkpoints that are quantised already cannot be converted, but for those of quant_method "
        "fp8, modelopt or compressed-tensors; take the original one",
        err);
}

// ---- finding factors

bool hearth_hf_is_f8(const struct hearth_source_tensor *t)
{
    return !strcmp(t->type_name, "F8_E4M3");
}

bool hearth_hf_is_packed(const struct hearth_hf_model *m, const struct hearth_source_tensor *t)
{
    return m->f8.packed && !strcmp(t->type_name, "I32");
}

// How many elements along a dimension share a factor: `block`, all of them, or none. 0: the shape does not fit.
static uint64_t shared_along(uint64_t n, uint64_t factors, uint64_t block)
{
    if (block)
        return factors == (n - 1) / block + 1 ? block : 0;
    return factors == n ? 1 : factors == 1 ? n : 0;
}

// Where factors lie: of the reader all but what is in memory.
static bool lay_out(struct hearth_hf_f8_reader *r, const struct hearth_hf_model *m,
                    const struct hearth_source_tensor *t, const struct hearth_source_tensor *factors)
{
    // Missing dimensions are behind the others, and 1.
    uint64_t dims[3] = {1, 1, 1};
    const uint32_t n = t->n_dims;
    if (n < 2 || n > 3 || factors->n_dims > n || (m->f8.block_rows && factors->n_dims != n))
        return false;
    for (uint32_t i = 0; i < factors->n_dims; i++)
        dims[3 - n + i] = factors->dims[i];
    const uint64_t matrices = n == 3 ? t->dims[0] : 1;
    r->n_rows = t->dims[n - 2];
    r->packed = hearth_hf_is_packed(m, t);
    r->n_cols = t->dims[n - 1];
    if (r->packed && r->n_cols <= UINT64_MAX / 8)
        r->n_cols *= 8;
    if (!matrices || !r->n_rows || !r->n_cols)
        return false;
    r->factor_rows = dims[1];
    r->factor_cols = dims[2];
    r->one_for_all = dims[0] == 1;
    r->row_block = shared_along(r->n_rows, dims[1], m->f8.block_rows);
    r->col_block = shared_along(r->n_cols, dims[2], m->f8.block_cols);
    return r->row_block && r->col_block && (dims[0] == 1 || dims[0] == matrices);
}

int hearth_hf_f8_find(const struct hearth_hf_model *m, const struct hearth_checkpoint *c,
                      const struct hearth_source_tensor *t, const struct hearth_source_tensor **factors,
                      struct hearth_error *err)
{
    char name[1200];
    struct hearth_hf_f8_reader r;
    const char *path = hearth_file_path(t->file);
    if (!m->f8.factors)
        return hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: tensor %.200s is in FP8, and config.json has no \"quantization_config\" that says "
            "what its factors are: take the original checkpoint",
            path, t->name);
    const size_t mark = hearth_hf_is_packed(m, t) ? strlen("_packed") : 0, length = strlen(t->name);
    snprintf(name, sizeof name, "%.*s%s", (int)(length - (length > mark ? mark : 0)), t->name, m->f8.factors);
    *factors = hearth_checkpoint_find(c, name);
    if (!*factors)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: tensor %.200s is missing", m->folder, name);
    if ((*factors)->type == HEARTH_TYPE_END)
        return hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: tensor %.200s is in format %s, which factors of FP8 cannot have: F32, F16 and BF16 can",
            path, name, (*factors)->type_name);
    if (t->bytes != t->n_elements * (hearth_hf_is_packed(m, t) ? 4 : 1) || !lay_out(&r, m, t, *factors))
        return hearth_fail(
            err, HEARTH_E_FORMAT,
            "%s: tensor %.200s has not the shape of the factors of %.200s as config.json says it: "
            "files of different models",
            path, name, t->name);
    return HEARTH_OK;
}

bool hearth_hf_f8_is_needless(const struct hearth_hf_model *m, const char *name)
{
    static const char *const ends[] = {".activation_scale", "_activation_scale",   ".input_scale", ".k_scale",
                                       ".v_scale",          ".input_global_scale", ".weight_shape"};
    const size_t n = strlen(name);
    for (size_t i = 0; m->f8.factors && i < sizeof ends / sizeof *ends; i++)
        if (n > strlen(ends[i]) && !strcmp(name + n - strlen(ends[i]), ends[i]))
            return true;
    return false;
}

// ---- reading

// The exponent 0 means 2^-6 without the leading 1; there are no infinities, and all ones are not a number.
static float number_of(uint8_t bits)
{
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    const float size = (bits & 127) == 127 ? NAN
                       : exponent          ? ldexpf((float)(8 + mantissa), exponent - 10)
                                           : ldexpf((float)mantissa, -9);
    return bits & 128 ? -size : size;
}

static int load_factors(struct hearth_hf_f8_reader *r, const struct hearth_hf_model *m,
                        const struct hearth_hf_piece *p, struct hearth_error *err)
{
    const struct hearth_source_tensor *s = p->factors;
    const struct hearth_type_info *type = hearth_type_info(s->type);
    const size_t n = (size_t)s->n_elements;
    r->from = NULL;
    free(r->factors);
    r->factors = hearth_calloc(n, sizeof *r->factors);
    uint8_t *bytes = hearth_calloc(n, type->block_bytes);
    int rc =
        r->factors && bytes && lay_out(r, m, p->from, s)
            ? hearth_file_read(s->file, bytes, n * type->block_bytes, s->offset, err)
            : hearth_fail(err, HEARTH_E_MEMORY, "no memory for the factors of tensor %.200s", p->from->name);
    if (!rc) {
        type->decode(bytes, r->factors, n);
        r->from = p->from;
    }
    free(bytes);
    return rc;
}

struct decoding {
    const struct hearth_hf_f8_reader *r;
    const uint8_t *src;
    uint64_t first, n;
    uint64_t skip; // numbers of src that come before, where several are in a byte
    float *dst;
    float numbers[256];
};

// Eight in four bytes, the first one lowest, each less by 8.
static int packed_number(const uint8_t *src, uint64_t i)
{
    return (src[i / 2] >> (i % 2 * 4) & 15) - 8;
}

static void decode_chunk(void *arg, int task, int worker)
{
    (void)worker;
    const struct decoding *d = arg;
    const struct hearth_hf_f8_reader *r = d->r;
    uint64_t i = (uint64_t)task * CHUNK;
    const uint64_t end = d->n - i < CHUNK ? d->n : i + CHUNK;
    while (i < end) { // as many as have one factor
        const uint64_t at = d->first + i, col = at % r->n_cols, row = at / r->n_cols % r->n_rows;
        const uint64_t matrix = r->one_for_all ? 0 : at / r->n_cols / r->n_rows;
        const float factor =
            r->factors[(matrix * r->factor_rows + row / r->row_block) * r->factor_cols + col / r->col_block];
        const uint64_t in_block = r->col_block - col % r->col_block, in_row = r->n_cols - col;
        uint64_t n = in_block < in_row ? in_block : in_row;
        n = n < end - i ? n : end - i;
        for (uint64_t k = 0; k < n; k++)
            d->dst[i + k] =
                (r->packed ? (float)packed_number(d->src, d->skip + i + k) : d->numbers[d->src[i + k]]) *
                factor;
        i += n;
    }
}

int hearth_hf_f8_read(struct hearth_hf_f8_reader *r, const struct hearth_hf_model *m,
                      const struct hearth_hf_piece *p, uint64_t first, uint64_t n, float *dst,
                      struct hearth_error *err)
{
    int rc = r->from == p->from ? HEARTH_OK : load_factors(r, m, p, err);
    const uint64_t skip = r->packed ? first % 2 : 0, bytes = r->packed ? (n + skip + 1) / 2 : n;
    if (!rc && bytes > r->cap) {
        free(r->bytes);
        r->bytes = malloc((size_t)bytes);
        r->cap = r->bytes ? (size_t)bytes : 0;
        if (!r->bytes)
            rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory to read tensor %.200s", p->from->name);
    }
    if (!rc)
        rc = hearth_file_read(p->from->file, r->bytes, (size_t)bytes,
                              p->from->offset + (r->packed ? first / 2 : first), err);
    if (rc)
        return rc;
    struct decoding d = {.r = r, .src = r->bytes, .first = first, .n = n, .skip = skip, .dst = dst};
    for (int i = 0; i < 256; i++)
        d.numbers[i] = number_of((uint8_t)i);
    const uint64_t chunks = (n + CHUNK - 1) / CHUNK;
    if (chunks == 1)
        decode_chunk(&d, 0, 0);
    else
        hearth_pool_run(r->pool, decode_chunk, &d, (int)chunks);
    return HEARTH_OK;
}

void hearth_hf_f8_reader_free(struct hearth_hf_f8_reader *r)
{
    free(r->factors);
    free(r->bytes);
    *r = (struct hearth_hf_f8_reader){0};
}
