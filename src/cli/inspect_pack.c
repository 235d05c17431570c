// SPDX-License-Identifier: MIT
// The facts of a pack: bundles, the origin of down, the order, the number of neurons that a token needs.
#include "cli/inspect_pack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/common.h"
#include "gguf/checksums.h"

static const char *name_of(uint32_t type)
{
    return hearth_type_info(type)->name;
}

// "Q4_0 | Q4_0 | Q8_0", "Q4_0 | Q6_K" without a gate.
static void describe_bundle(const struct hearth_bundle *b, char *out, size_t size)
{
    size_t used = 0;
    for (int part = 0; part < HEARTH_PARTS; part++)
        if (b->bytes[part])
            used +=
                (size_t)snprintf(out + used, size - used, "%s%s", used ? " | " : "", name_of(b->type[part]));
}

static bool same_layout(const struct hearth_bundle *a, const struct hearth_bundle *b)
{
    return a->stride == b->stride && memcmp(a->type, b->type, sizeof a->type) == 0;
}

static bool ordered(const struct hearth_pack *p)
{
    return hearth_pack_tensor(p, 0, "ffn_order") != NULL;
}

// "same": the rows have the bits of the model's rows. "turned": those of its columns.
// "requantised": quantised, or quantised again.
static const char *down_of(const struct hearth_pack *p)
{
    if (!p->down_from)
        return "same";
    for (uint32_t i = 0; i < p->n_layer; i++)
        if (hearth_type_info(p->down_from[i])->unit_elems ||
            p->down_from[i] != p->layers[i].type[HEARTH_PART_DOWN])
            return "requantised";
    return "turned";
}

static uint64_t profile_tokens(const struct hearth_pack *p)
{
    uint64_t n = 0;
    (void)hearth_gguf_u64(p->g, "hearth.pack.profile_tokens", false, &n, NULL);
    return n;
}

static struct hearth_str source_of(const struct hearth_pack *p)
{
    struct hearth_str name = {"", 0};
    (void)hearth_gguf_str(p->g, "hearth.pack.source.name", false, &name, NULL);
    return name;
}

// Number of neurons that are computed without asking a predictor, over all spaces.
static uint64_t sum_always(const struct hearth_pack *p)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(p->g, "hearth.pack.always");
    uint64_t sum = 0;
    for (uint64_t i = 0; kv && kv->type == HEARTH_GGUF_ARRAY && kv->data && i < kv->count; i++) {
        const int64_t n = hearth_gguf_kv_i64(kv, i);
        sum += n > 0 && n <= (int64_t)p->n_ff ? (uint64_t)n : 0;
    }
    return sum;
}

// For each batch size, the mean share of a visited space's neurons that a group of tokens
// activates. False: cannot be read.
static bool mean_shares(const struct hearth_pack *p, double *shares)
{
    double active[HEARTH_PACK_BATCHES] = {0}, all[HEARTH_PACK_BATCHES] = {0};
    int32_t *counts = hearth_calloc(p->n_ff, sizeof *counts);
    bool ok = counts && p->n_batches > 0;
    for (uint32_t layer = 0; ok && layer < p->n_layer; layer++) {
        const struct hearth_gguf_tensor *c = hearth_pack_tensor(p, layer, "ffn_counts");
        const struct hearth_gguf_tensor *v = hearth_pack_tensor(p, layer, "ffn_visits");
        for (uint64_t space = 0; ok && space < (uint64_t)p->n_batches * p->n_expert; space++) {
            const uint64_t batch = space / p->n_expert;
            const uint32_t n = p->layers[layer].n;
            const size_t bytes = n * sizeof *counts;
            int32_t visits = 0;
            ok = !hearth_gguf_read(p->g, v, &visits, space * sizeof visits, sizeof visits, NULL) &&
                 !hearth_gguf_read(p->g, c, counts, space * bytes, bytes, NULL);
            for (uint32_t i = 0; ok && i < n; i++)
                active[batch] += counts[i];
            all[batch] += (double)visits * n;
        }
    }
    free(counts);
    for (uint32_t i = 0; i < p->n_batches; i++)
        shares[i] = all[i] > 0 ? active[i] / all[i] : 0;
    return ok;
}

// What the predictors look at; "" where there are none.
static struct hearth_str predictor_input(const struct hearth_pack *p)
{
    struct hearth_str input = {"", 0};
    (void)hearth_gguf_str(p->g, "hearth.pack.predictor_input", false, &input, NULL);
    return input;
}

bool hearth_inspect_predictors(const struct hearth_gguf *g)
{
    return hearth_gguf_tensor(g, "blk.0.fc1.weight") || hearth_gguf_tensor(g, "blk.0.fc1_exps.weight");
}

static void print_predictors(const struct hearth_pack *p)
{
    static const struct {
        const char *input, *means;
    } texts[] = {{"normed", "look at their layer's feed-forward input"},
                 {"stream", "look at the stream before their layer's feed-forward part"},
                 {"layer", "look at their layer's input"},
                 {"previous", "look at the feed-forward input of the layer before: asked early"}};
    const struct hearth_str input = predictor_input(p);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (input.n == strlen(texts[i].input) && !memcmp(input.s, texts[i].input, input.n))
            printf("predictors    %s\n", texts[i].means);
}

static void print_order(const struct hearth_pack *p)
{
    uint64_t neurons = 0;
    for (uint32_t i = 0; i < p->n_layer; i++)
        neurons += (uint64_t)p->n_expert * p->layers[i].n;
    double shares[HEARTH_PACK_BATCHES];
    if (!ordered(p) && !p->n_batches) {
        puts("order         the model's own: no profile");
        return;
    }
    printf("order         %s, from a profile of %" PRIu64 " tokens\n",
           ordered(p) ? "by how often neurons are active" : "the model's own; shares of activity",
           profile_tokens(p));
    printf("always        %.1f %% of the neurons are computed without asking a predictor\n",
           100 * (double)sum_always(p) / (double)neurons);
    if (!mean_shares(p, shares))
        return;
    printf("active       ");
    for (uint32_t i = 0; i < p->n_batches; i++)
        printf("%s %.3g", i ? "," : "", 100 * shares[i]);
    printf(" %% for");
    for (uint32_t i = 0; i < p->n_batches; i++)
        printf("%s %" PRIu32, i ? "," : "", p->batches[i]);
    puts(p->n_batches == 1 && p->batches[0] == 1 ? " token" : " tokens");
}

void hearth_inspect_pack_print(const struct hearth_pack *p)
{
    char parts[80];
    uint32_t layouts = 1;
    for (uint32_t i = 1; i < p->n_layer; i++)
        layouts += !same_layout(&p->layers[i], &p->layers[i - 1]);
    describe_bundle(&p->layers[0], parts, sizeof parts);
    printf("pack          %" PRIu32 " spaces of %s%" PRIu32 " neurons, %zu bytes each (%s)%s\n",
           p->n_layer * p->n_expert, p->widths ? "up to " : "", p->n_ff, p->layers[0].stride, parts,
           layouts > 1 ? ", other layers differ" : "");
    const char *down = down_of(p);
    if (!strcmp(down, "same"))
        puts("down          the model's own bits");
    else if (!strcmp(down, "turned"))
        puts("down          was stored the other way round; the same numbers");
    else
        printf("down          was stored the other way round; quantised again, %s from %s\n",
               name_of(p->layers[0].type[HEARTH_PART_DOWN]), name_of(p->down_from[0]));
    if (p->gates_apart)
        puts("gates         apart from the bundles: they say which neurons to read");
    print_predictors(p);
    print_order(p);
    puts(hearth_gguf_tensor(p->g, HEARTH_CHECKSUMS_NAME) ? "checksums     CRC-32C, per MiB"
                                                         : "checksums     none");
}

static int version_of(const struct hearth_pack *p)
{
    return (p->gates_apart ? HEARTH_PACK_GATES : HEARTH_PACK_VERSION) +
           (p->widths ? HEARTH_PACK_WIDTHS - HEARTH_PACK_VERSION : 0);
}

json_t *hearth_inspect_pack_json(const struct hearth_pack *p)
{
    const struct hearth_str source = source_of(p), input = predictor_input(p);
    double shares[HEARTH_PACK_BATCHES];
    json_t *active = json_array(), *layers = json_array();
    if (mean_shares(p, shares))
        for (uint32_t i = 0; i < p->n_batches; i++)
            json_array_append_new(
                active, json_pack("{s:I, s:f}", "tokens", (json_int_t)p->batches[i], "share", shares[i]));
    for (uint32_t i = 0; i < p->n_layer; i++) {
        const struct hearth_bundle *b = &p->layers[i];
        json_array_append_new(
            layers, json_pack("{s:I, s:I, s:s?, s:s, s:s, s:s?}", "neurons", (json_int_t)b->n, "stride",
                              (json_int_t)b->stride, "gate",
                              b->bytes[HEARTH_PART_GATE] ? name_of(b->type[HEARTH_PART_GATE]) : NULL, "up",
                              name_of(b->type[HEARTH_PART_UP]), "down", name_of(b->type[HEARTH_PART_DOWN]),
                              "down_from", p->down_from ? name_of(p->down_from[i]) : NULL));
    }
    return json_pack("{s:i, s:I, s:I, s:I, s:s, s:o, s:b, s:I, s:I, s:o, s:b, s:o, s:o}", "version",
                     version_of(p), "spaces", (json_int_t)p->n_layer * p->n_expert, "experts",
                     (json_int_t)p->n_expert, "neurons", (json_int_t)p->n_ff, "down", down_of(p),
                     "predictor_input", input.n ? hearth_json_string(input.s, input.n) : json_null(),
                     "ordered", ordered(p), "profile_tokens", (json_int_t)profile_tokens(p), "always",
                     (json_int_t)sum_always(p), "active", active, "checksums",
                     hearth_gguf_tensor(p->g, HEARTH_CHECKSUMS_NAME) != NULL, "layers", layers, "source",
                     hearth_json_string(source.s, source.n));
}
