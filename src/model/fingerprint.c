// SPDX-License-Identifier: MIT
// A model's fingerprint has two checksums: one of the file's header, one of the tensor table and the samples
// of weights. The second one also covers the further shards of a split model, which have tables of their own.
#include "model/fingerprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "gguf/checksums.h"
#include "model/adapters.h"
#include "quant/quant.h"

#define SAMPLE      ((size_t)4096)
#define MAX_SAMPLED 1024
#define MAX_NORM    (1u << 24) // bytes

static uint32_t add_number(uint32_t crc, uint64_t v)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(v >> (8 * i));
    return hearth_crc32c(crc, bytes, sizeof bytes);
}

static uint32_t add_description(uint32_t crc, const struct hearth_gguf_tensor *t)
{
    crc = add_number(crc, t->name.n);
    crc = hearth_crc32c(crc, t->name.s, t->name.n);
    crc = add_number(crc, t->type);
    for (int i = 0; i < 4; i++)
        crc = add_number(crc, t->ne[i]);
    return crc;
}

// Adds bytes [from, from + n) of a tensor. `buffer` has SAMPLE bytes.
static int add_bytes(const struct hearth_gguf *g, const struct hearth_gguf_tensor *t, uint64_t from,
                     uint64_t n, uint8_t *buffer, uint32_t *crc, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    for (uint64_t done = 0; done < n && !rc;) {
        const size_t part = n - done < SAMPLE ? (size_t)(n - done) : SAMPLE;
        rc = hearth_gguf_read(g, t, buffer, from + done, part, err);
        if (!rc)
            *crc = hearth_crc32c(*crc, buffer, part);
        done += part;
    }
    return rc;
}

static int add_tensors(const struct hearth_gguf *g, uint8_t *buffer, uint32_t *crc, struct hearth_error *err)
{
    const struct hearth_gguf_tensor *sums = hearth_gguf_tensor(g, HEARTH_CHECKSUMS_NAME);
    const uint64_t n = hearth_gguf_n_tensors(g), stride = (n + MAX_SAMPLED - 1) / MAX_SAMPLED;
    int rc = HEARTH_OK;
    for (uint64_t i = 0; i < n && !rc; i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        *crc = add_description(*crc, t);
        if (!sums && i % stride == 0) {
            const uint64_t size = t->bytes < SAMPLE ? t->bytes : SAMPLE;
            rc = add_bytes(g, t, (t->bytes - size) / 2, size, buffer, crc, err);
        }
    }
    return rc || !sums ? rc : add_bytes(g, sums, 0, sums->bytes, buffer, crc, err);
}

int hearth_model_fingerprint(const struct hearth_model *m, uint64_t *out, struct hearth_error *err)
{
    uint32_t header = 0, tensors = 0;
    int rc = hearth_gguf_header_crc(m->gguf, &header, err);
    if (rc)
        return rc;
    uint8_t *buffer = malloc(SAMPLE);
    if (!buffer)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for a checksum", m->info.path);
    rc = add_tensors(m->gguf, buffer, &tensors, err);
    free(buffer);
    if (hearth_gguf_overrides_crc(m->gguf))
        tensors = add_number(tensors, hearth_gguf_overrides_crc(m->gguf));
    if (hearth_adapters_most_ranks(m->adapters))
        tensors = add_number(tensors, hearth_adapters_crc(m->adapters));
    *out = (uint64_t)header << 32 | tensors;
    return rc;
}

static bool is_norm(const struct hearth_gguf_tensor *t)
{
    return strstr(t->name.s, "norm") && t->ne[1] * t->ne[2] * t->ne[3] == 1 && t->bytes < MAX_NORM &&
           hearth_type_info(t->type)->decode && !hearth_type_info(t->type)->unit_elems;
}

// The checksum of a tensor's name and numbers, as f32 whatever they are stored as.
static int norm_crc(const struct hearth_gguf *g, const struct hearth_gguf_tensor *t, uint32_t *out,
                    struct hearth_error *err)
{
    const size_t n = (size_t)t->ne[0];
    float *values = hearth_calloc(n, sizeof *values);
    uint8_t *bytes = hearth_calloc(1, (size_t)t->bytes);
    int rc = values && bytes ? hearth_gguf_read(g, t, bytes, 0, (size_t)t->bytes, err)
                             : hearth_fail(err, HEARTH_E_MEMORY, "no memory for tensor %s", t->name.s);
    if (!rc) {
        hearth_type_info(t->type)->decode(bytes, values, n);
        *out = hearth_crc32c(hearth_crc32c(0, t->name.s, t->name.n), values, n * sizeof *values);
    }
    free(values);
    free(bytes);
    return rc;
}

int hearth_norms_fingerprint(const struct hearth_gguf *g, uint32_t *out, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    *out = 0;
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g) && !rc; i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        uint32_t crc = 0;
        if (is_norm(t))
            rc = norm_crc(g, t, &crc, err);
        *out ^= crc; // files may have them in any order
    }
    return rc;
}
