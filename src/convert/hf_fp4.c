// SPDX-License-Identifier: MIT
// NVFP4 as ModelOpt and compressed-tensors write it. Source: checkpoints of both; docs/formats.md has the format of a GGUF.
#include "convert/hf_fp4.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// The name of what stands beside a matrix: that of the matrix, without the mark that it is packed, and an end.
static const struct hearth_source_tensor *beside(const struct hearth_checkpoint *c,
                                                 const struct hearth_source_tensor *t, const char *end,
                                                 char *name, size_t size)
{
    const size_t n = strlen(t->name), mark = strlen("_packed");
    const bool packed = n > mark && !strcmp(t->name + n - mark, "_packed");
    snprintf(name, size, "%.*s%s", (int)(packed ? n - mark : n), t->name, end);
    return hearth_checkpoint_find(c, name);
}

bool hearth_hf_is_fp4(const struct hearth_hf_model *m, const struct hearth_source_tensor *t)
{
    return m->f8.fp4 && !strcmp(t->type_name, "U8");
}

int hearth_hf_fp4_find(const struct hearth_hf_model *m, const struct hearth_checkpoint *c,
                       const struct hearth_source_tensor *t, const struct hearth_source_tensor **scales,
                       struct hearth_error *err)
{
    char name[1200];
    *scales = beside(c, t, "_scale", name, sizeof name);
    const struct hearth_source_tensor *s = *scales;
    if (!s)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: tensor %.200s is missing", m->folder, name);
    const bool ok = t->n_dims == 2 && t->dims[1] % 32 == 0 && t->bytes == t->n_elements && s->n_dims == 2 &&
                    s->dims[0] == t->dims[0] && s->dims[1] == t->dims[1] / 8 &&
                    !strcmp(s->type_name, "F8_E4M3") && s->bytes == s->n_elements;
    if (ok)
        return HEARTH_OK;
    return hearth_fail(
        err, HEARTH_E_FORMAT,
        "%s: tensor %.200s is no matrix in NVFP4 with a multiple of 64 columns and scales in F8_E4M3 of 16 "
        "numbers each beside it (%.200s): take the original checkpoint",
        hearth_file_path(t->file), t->name, name);
}

int hearth_hf_fp4_scale(const struct hearth_hf_model *m, const struct hearth_checkpoint *c,
                        const struct hearth_source_tensor *t, const struct hearth_source_tensor **from,
                        float *scale, struct hearth_error *err)
{
    char name[1200];
    const struct hearth_source_tensor *s =
        beside(c, t, m->f8.inverse ? "_global_scale" : "_scale_2", name, sizeof name);
    *scale = 1;
    if (!s)
        return HEARTH_OK;
    *from = s;
    if (s->type != HEARTH_TYPE_F32 || s->n_elements != 1)
        return hearth_fail(
            err, HEARTH_E_FORMAT,
            "%s: tensor %.200s is not one number in F32, the scale of a whole matrix: the file is damaged",
            hearth_file_path(s->file), s->name);
    const int rc = hearth_file_read(s->file, scale, sizeof *scale, s->offset, err);
    if (rc)
        return rc;
    if (m->f8.inverse)
        *scale = 1.0f / *scale;
    return isfinite(*scale)
               ? HEARTH_OK
               : hearth_fail(err, HEARTH_E_FORMAT,
                             "%s: tensor %.200s makes a scale that is no number: the file is damaged",
                             hearth_file_path(s->file), s->name);
}

// A byte has two neighbours, the first one low. In a GGUF it has numbers i and i + 8 of 16, behind the scales of four such.
void hearth_hf_fp4_pack(const uint8_t *numbers, const uint8_t *scales, uint8_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++, numbers += 32, scales += 4, to += 36) {
        for (size_t k = 0; k < 4; k++)
            to[k] = scales[k] & 127; // scales have no sign
        for (size_t k = 0; k < 32; k++) {
            const uint8_t *sixteen = numbers + k / 8 * 8;
            const unsigned at = k % 8, low = sixteen[at / 2] >> (at % 2 * 4) & 15;
            const unsigned high = sixteen[4 + at / 2] >> (at % 2 * 4) & 15;
            to[4 + k] = (uint8_t)(low | high << 4);
        }
    }
}
