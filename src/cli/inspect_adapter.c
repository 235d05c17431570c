// SPDX-License-Identifier: MIT
// Adapters: their kind, ranks, and how many matrices they change.
#include "cli/inspect_adapter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/json.h"

struct facts {
    struct hearth_str kind;
    float alpha; // 0: the file does not say
    uint64_t matrices, others, least_rank, most_rank;
};

bool hearth_inspect_is_adapter(const struct hearth_gguf *g)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(g, "general.type");
    return kv && kv->type == HEARTH_GGUF_STRING && kv->strings[0].n == strlen("adapter") &&
           !memcmp(kv->strings[0].s, "adapter", kv->strings[0].n);
}

static bool ends_with(const struct hearth_gguf_tensor *t, const char *suffix)
{
    const size_t n = strlen(suffix);
    return t->name.n > n && !memcmp(t->name.s + t->name.n - n, suffix, n);
}

static struct facts facts_of(const struct hearth_gguf *g)
{
    struct facts f = {.kind = {"", 0}};
    struct hearth_error ignored = {0};
    hearth_gguf_str(g, "adapter.type", false, &f.kind, &ignored);
    hearth_gguf_f32(g, "adapter.lora.alpha", false, &f.alpha, &ignored);
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        if (ends_with(t, ".lora_b")) { // its rows have a number for each rank
            f.least_rank = !f.matrices || t->ne[0] < f.least_rank ? t->ne[0] : f.least_rank;
            f.most_rank = t->ne[0] > f.most_rank ? t->ne[0] : f.most_rank;
            f.matrices++;
        } else if (!ends_with(t, ".lora_a")) {
            f.others++;
        }
    }
    return f;
}

void hearth_inspect_adapter_print(const struct hearth_gguf *g)
{
    const struct facts f = facts_of(g);
    printf("adapter       %.*s, of %" PRIu64 " matri%s", (int)(f.kind.n < 40 ? f.kind.n : 40), f.kind.s,
           f.matrices, f.matrices == 1 ? "x" : "ces");
    if (f.matrices && f.least_rank == f.most_rank)
        printf(", rank %" PRIu64, f.most_rank);
    else if (f.matrices)
        printf(", ranks %" PRIu64 " to %" PRIu64, f.least_rank, f.most_rank);
    if (f.alpha != 0.0f)
        printf(", alpha %g", (double)f.alpha);
    if (f.others)
        printf("; %" PRIu64 " further tensor%s", f.others, f.others == 1 ? "" : "s");
    putchar('\n');
}

json_t *hearth_inspect_adapter_json(const struct hearth_gguf *g)
{
    const struct facts f = facts_of(g);
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I}", "type", hearth_json_string(f.kind.s, f.kind.n),
                     "alpha", f.alpha != 0.0f ? hearth_json_real((double)f.alpha) : json_null(), "matrices",
                     (json_int_t)f.matrices, "least_rank", (json_int_t)f.least_rank, "most_rank",
                     (json_int_t)f.most_rank, "others", (json_int_t)f.others);
}
