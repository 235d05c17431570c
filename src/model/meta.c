// SPDX-License-Identifier: MIT
// The public functions about what a model's file says of itself, key by key.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "model/model.h"

// Writes text as snprintf() does: as much as fits, with a zero after it.
static int64_t write_text(const char *text, size_t n, char *out, size_t cap)
{
    if (cap > 0) {
        const size_t kept = n < cap - 1 ? n : cap - 1;
        memcpy(out, text, kept);
        out[kept] = '\0';
    }
    return (int64_t)n;
}

static int64_t write_number(const struct hearth_gguf_kv *kv, uint64_t i, char *out, size_t cap)
{
    char text[40];
    switch (kv->element) {
    case HEARTH_GGUF_BOOL:
        snprintf(text, sizeof text, "%s", hearth_gguf_kv_i64(kv, i) ? "true" : "false");
        break;
    case HEARTH_GGUF_F32:
        hearth_print_number(text, sizeof text, 'g', 9, hearth_gguf_kv_f64(kv, i));
        break;
    case HEARTH_GGUF_F64:
        hearth_print_number(text, sizeof text, 'g', 17, hearth_gguf_kv_f64(kv, i));
        break;
    case HEARTH_GGUF_U64:
        snprintf(text, sizeof text, "%" PRIu64, hearth_gguf_kv_u64(kv, i));
        break;
    default:
        snprintf(text, sizeof text, "%" PRId64, hearth_gguf_kv_i64(kv, i));
    }
    return write_text(text, strlen(text), out, cap);
}

int64_t hearth_model_meta_count(const struct hearth_model *model)
{
    return (int64_t)hearth_gguf_n_kv(model->gguf);
}

int64_t hearth_model_meta_key(const struct hearth_model *model, int64_t i, char *out, size_t cap)
{
    if (i < 0 || i >= hearth_model_meta_count(model))
        return -1;
    const struct hearth_str key = hearth_gguf_kv_at(model->gguf, (uint64_t)i)->key;
    return write_text(key.s, key.n, out, cap);
}

int64_t hearth_model_meta_length(const struct hearth_model *model, const char *key)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(model->gguf, key);
    return kv ? (int64_t)kv->count : -1;
}

int64_t hearth_model_meta_text(const struct hearth_model *model, const char *key, int64_t i, char *out,
                               size_t cap)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(model->gguf, key);
    if (!kv || i < 0 || (uint64_t)i >= kv->count)
        return -1;
    if (kv->strings)
        return write_text(kv->strings[i].s, kv->strings[i].n, out, cap);
    return write_number(kv, (uint64_t)i, out, cap);
}

const char *hearth_model_chat_template(const struct hearth_model *model)
{
    return model->chat_template;
}
