// SPDX-License-Identifier: MIT
// The number format of each tensor of a model. The rules of the mixed recipes are those of llama.cpp's
// quantiser at v0.5.0, without an importance matrix. tools/oracle/check_recipes.py compares them with it.
#include "convert/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "convert/predictor.h"
#include "quant/quant.h"

// general.file_type, by which the rules of mixtures are told apart.
enum {
    FILE_F32 = 0,
    FILE_F16 = 1,
    FILE_Q4_0 = 2,
    FILE_Q4_1 = 3,
    FILE_Q8_0 = 7,
    FILE_Q5_0 = 8,
    FILE_Q5_1 = 9,
    FILE_Q2_K = 10,
    FILE_Q3_K_S = 11,
    FILE_Q3_K_M = 12,
    FILE_Q3_K_L = 13,
    FILE_Q4_K_S = 14,
    FILE_Q4_K_M = 15,
    FILE_Q5_K_S = 16,
    FILE_Q5_K_M = 17,
    FILE_Q6_K = 18,
    FILE_IQ4_NL = 25,
    FILE_BF16 = 32,
    FILE_TQ1_0 = 36,
    FILE_TQ2_0 = 37,
    FILE_Q1_0 = 40,
    FILE_Q2_0 = 41,
};

static const struct hearth_recipe recipes[] = {
    {"F32", HEARTH_TYPE_F32, FILE_F32, false},       {"F16", HEARTH_TYPE_F16, FILE_F16, false},
    {"BF16", HEARTH_TYPE_BF16, FILE_BF16, false},    {"Q8_0", HEARTH_TYPE_Q8_0, FILE_Q8_0, true},
    {"Q4_0", HEARTH_TYPE_Q4_0, FILE_Q4_0, true},     {"Q4_1", HEARTH_TYPE_Q4_1, FILE_Q4_1, true},
    {"Q5_0", HEARTH_TYPE_Q5_0, FILE_Q5_0, true},     {"Q5_1", HEARTH_TYPE_Q5_1, FILE_Q5_1, true},
    {"Q2_K", HEARTH_TYPE_Q2_K, FILE_Q2_K, true},     {"Q3_K_S", HEARTH_TYPE_Q3_K, FILE_Q3_K_S, true},
    {"Q3_K_M", HEARTH_TYPE_Q3_K, FILE_Q3_K_M, true}, {"Q3_K_L", HEARTH_TYPE_Q3_K, FILE_Q3_K_L, true},
    {"Q4_K_S", HEARTH_TYPE_Q4_K, FILE_Q4_K_S, true}, {"Q4_K_M", HEARTH_TYPE_Q4_K, FILE_Q4_K_M, true},
    {"Q5_K_S", HEARTH_TYPE_Q5_K, FILE_Q5_K_S, true}, {"Q5_K_M", HEARTH_TYPE_Q5_K, FILE_Q5_K_M, true},
    {"Q6_K", HEARTH_TYPE_Q6_K, FILE_Q6_K, true},     {"IQ4_NL", HEARTH_TYPE_IQ4_NL, FILE_IQ4_NL, true},
    {"Q2_0", HEARTH_TYPE_Q2_0, FILE_Q2_0, true},     {"TQ2_0", HEARTH_TYPE_TQ2_0, FILE_TQ2_0, true},
    {"TQ1_0", HEARTH_TYPE_TQ1_0, FILE_TQ1_0, true},  {"Q1_0", HEARTH_TYPE_Q1_0, FILE_Q1_0, true},
};
enum { N_RECIPES = sizeof recipes / sizeof recipes[0] };

const struct hearth_recipe *hearth_recipe_at(size_t i)
{
    return i < N_RECIPES ? &recipes[i] : NULL;
}

const struct hearth_recipe *hearth_recipe_by_name(const char *name)
{
    static const char *const aliases[][2] = {{"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (!strcasecmp(aliases[i][0], name))
            name = aliases[i][1];
    for (size_t i = 0; i < N_RECIPES; i++)
        if (!strcasecmp(recipes[i].name, name))
            return &recipes[i];
    return NULL;
}

// ---- tensors by name

// Only a malicious file has zero bytes in a name; the rest of such a name is ignored.
static bool contains(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}

// Matrices that are small, are looked up row by row, or choose between experts.
static bool is_delicate(const char *name)
{
    static const char *const parts[] = {
        "_norm.weight",
        "ffn_gate_inp.weight",
        "ffn_gate_tid2eid.weight",
        "altup",
        "laurel",
        "per_layer_model_proj",
        "ssm_conv1d",
        "shortconv.conv.weight",
        "indexer.k_proj.weight",
        "indexer.q_proj.weight",
        "time_mix_first.weight",
        "time_mix_w0.weight",
        "time_mix_w1.weight",
        "time_mix_w2.weight",
        "time_mix_v0.weight",
        "time_mix_v1.weight",
        "time_mix_v2.weight",
        "time_mix_a0.weight",
        "time_mix_a1.weight",
        "time_mix_a2.weight",
        "time_mix_g1.weight",
        "time_mix_g2.weight",
        "time_mix_decay_w1.weight",
        "time_mix_decay_w2.weight",
        "time_mix_lerp_fused.weight",
        "attn_rel_b.weight",
        ".position_embd",
        ".rel_pos",
        ".patch_embd",
        ".patch_merger",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (contains(name, parts[i]))
            return true;
    return !strcmp(name, "position_embd.weight") || !strcmp(name, "token_types.weight");
}

static bool is_matrix(const struct hearth_gguf_tensor *t)
{
    return t->ne[1] * t->ne[2] * t->ne[3] > 1 && ends_with(t->name.s, "weight") && !is_delicate(t->name.s);
}

// The role of a tensor in its layer, as far as mixed recipes distinguish it.
enum part { PART_OTHER, PART_OUTPUT, PART_EMBEDDING, PART_VALUE, PART_KEY, PART_ATTN_OUTPUT, PART_DOWN };

static enum part part_of(const char *name)
{
    static const struct {
        const char *text;
        enum part part;
    } table[] = {
        {"attn_qkv.weight", PART_VALUE},
        {"attn_kv_b.weight", PART_VALUE},
        {"attn_v.weight", PART_VALUE},
        {"attn_k.weight", PART_KEY},
        {"attn_output.weight", PART_ATTN_OUTPUT},
        {"ffn_down", PART_DOWN},
    };
    if (!strcmp(name, "output.weight"))
        return PART_OUTPUT;
    if (!strcmp(name, "token_embd.weight") || !strcmp(name, "per_layer_token_embd.weight"))
        return PART_EMBEDDING;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (contains(name, table[i].text))
            return table[i].part;
    return PART_OTHER;
}

// N of "blk.N."; -1: the tensor belongs to no layer.
static int64_t layer_of(const char *name)
{
    if (strncmp(name, "blk.", 4) || name[4] < '0' || name[4] > '9')
        return -1;
    int64_t layer = 0;
    const char *s = name + 4;
    for (; *s >= '0' && *s <= '9' && layer < 100000000; s++)
        layer = layer * 10 + (*s - '0');
    return *s == '.' ? layer : -1;
}

// ---- choosing

struct mixture {
    uint32_t base;
    int file_type;
    bool falcon;
    bool shared_values; // the 80-layer shape: eight heads share each value, so attn_v is small and matters
    bool tied;          // no output.weight: the embedding is the head
    int64_t n_layers, n_experts;
    int64_t sharing;               // query heads that share a value
    int64_t n_values, values_seen; // attn_v and similar tensors
    int64_t downs_seen;
};

// Whether i is in the first or last eighth of n, or is every third between.
static bool deserves_more(int64_t i, int64_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static uint32_t choose_value_of_layer(const struct mixture *m, int64_t i)
{
    switch (m->file_type) {
    case FILE_Q2_K:
        return m->sharing >= 4 ? HEARTH_TYPE_Q4_K : HEARTH_TYPE_Q3_K;
    case FILE_Q3_K_M:
        return i < 2 ? HEARTH_TYPE_Q5_K : HEARTH_TYPE_Q4_K;
    case FILE_Q3_K_L:
        return HEARTH_TYPE_Q5_K;
    case FILE_Q4_K_S:
        return i < 4 ? HEARTH_TYPE_Q5_K : m->base;
    case FILE_Q4_K_M:
    case FILE_Q5_K_M:
        return deserves_more(i, m->n_values) ? HEARTH_TYPE_Q6_K : m->base;
    case FILE_IQ4_NL:
        return m->sharing >= 4 ? HEARTH_TYPE_Q5_K : m->base;
    default:
        return m->base;
    }
}

static uint32_t choose_value(struct mixture *m)
{
    uint32_t type = choose_value_of_layer(m, m->values_seen++);
    if (m->shared_values && (type == HEARTH_TYPE_Q3_K || type == HEARTH_TYPE_Q4_K))
        type = HEARTH_TYPE_Q5_K;
    return m->n_experts == 8 ? HEARTH_TYPE_Q8_0 : type;
}

static uint32_t choose_down(struct mixture *m, int64_t layer)
{
    // Experts may have one tensor each, so counting tensors does not give the layer.
    const int64_t i = m->n_experts > 1 ? layer : m->downs_seen, n = m->n_layers;
    m->downs_seen++;
    const bool more = deserves_more(i, n);
    switch (m->file_type) {
    case FILE_Q2_K:
        return HEARTH_TYPE_Q3_K;
    case FILE_Q3_K_M:
        return i < n / 16 ? HEARTH_TYPE_Q5_K : !m->falcon || more ? HEARTH_TYPE_Q4_K : m->base;
    case FILE_Q3_K_L:
        return m->falcon ? HEARTH_TYPE_Q4_K : HEARTH_TYPE_Q5_K;
    case FILE_Q4_K_S:
        return !m->falcon && i < n / 8 ? HEARTH_TYPE_Q5_K : m->base;
    case FILE_IQ4_NL:
        return i < n / 8 ? HEARTH_TYPE_Q5_K : m->base;
    case FILE_Q4_K_M:
        if (m->falcon)
            return i < n / 16 ? HEARTH_TYPE_Q6_K : more ? HEARTH_TYPE_Q5_K : m->base;
        return more ? HEARTH_TYPE_Q6_K : m->base;
    case FILE_Q5_K_M:
        return more ? HEARTH_TYPE_Q6_K : m->base;
    default:
        return m->base;
    }
}

static uint32_t choose_attn_output(const struct mixture *m)
{
    if (m->falcon)
        return m->file_type == FILE_Q3_K_L ? HEARTH_TYPE_Q4_K : m->base;
    const bool eight = m->n_experts == 8;
    switch (m->file_type) {
    case FILE_Q2_K:
        return eight ? HEARTH_TYPE_Q5_K : HEARTH_TYPE_Q3_K;
    case FILE_Q3_K_M:
        return eight ? HEARTH_TYPE_Q5_K : HEARTH_TYPE_Q4_K;
    case FILE_Q3_K_L:
        return eight ? m->base : HEARTH_TYPE_Q5_K;
    case FILE_Q3_K_S:
    case FILE_Q4_K_S:
    case FILE_Q4_K_M:
    case FILE_IQ4_NL:
        return eight ? HEARTH_TYPE_Q5_K : m->base;
    default:
        return m->base;
    }
}

static uint32_t choose_head(const struct mixture *m, const struct hearth_gguf_tensor *t)
{
    bool fits = t->ne[0] % hearth_type_info(m->base)->block_elems == 0;
    return m->falcon || !fits || m->base == HEARTH_TYPE_Q8_0 ? HEARTH_TYPE_Q8_0 : HEARTH_TYPE_Q6_K;
}

static uint32_t choose_embedding(const struct mixture *m)
{
    const bool few =
        m->base == HEARTH_TYPE_TQ1_0 || m->base == HEARTH_TYPE_TQ2_0 || m->base == HEARTH_TYPE_Q2_0;
    return few ? HEARTH_TYPE_Q4_K : m->base;
}

static uint32_t choose_mixed(struct mixture *m, const struct hearth_gguf_tensor *t)
{
    switch (part_of(t->name.s)) {
    case PART_OUTPUT:
        return choose_head(m, t);
    case PART_EMBEDDING:
        return m->tied ? choose_head(m, t) : choose_embedding(m);
    case PART_VALUE:
        return choose_value(m);
    case PART_KEY:
        return m->n_experts == 8 ? HEARTH_TYPE_Q8_0 : m->base;
    case PART_DOWN:
        return choose_down(m, layer_of(t->name.s));
    case PART_ATTN_OUTPUT:
        return choose_attn_output(m);
    case PART_OTHER:
        break;
    }
    return m->base;
}

// The type itself if rows of n elements fit its blocks, else a similar one with smaller blocks.
static uint32_t fit(uint32_t type, uint64_t n)
{
    static const uint32_t smaller[][2] = {
        {HEARTH_TYPE_Q2_K, HEARTH_TYPE_Q4_0},  {HEARTH_TYPE_Q3_K, HEARTH_TYPE_Q4_0},
        {HEARTH_TYPE_Q4_K, HEARTH_TYPE_Q5_0},  {HEARTH_TYPE_Q5_K, HEARTH_TYPE_Q5_1},
        {HEARTH_TYPE_Q6_K, HEARTH_TYPE_Q8_0},  {HEARTH_TYPE_TQ1_0, HEARTH_TYPE_Q4_0},
        {HEARTH_TYPE_TQ2_0, HEARTH_TYPE_Q4_0}, {HEARTH_TYPE_Q1_0, HEARTH_TYPE_Q4_0},
        {HEARTH_TYPE_Q2_0, HEARTH_TYPE_Q4_0}};
    if (n % hearth_type_info(type)->block_elems == 0)
        return type;
    for (size_t i = 0; i < sizeof smaller / sizeof smaller[0]; i++)
        if (smaller[i][0] == type && n % hearth_type_info(smaller[i][1])->block_elems == 0)
            return smaller[i][1];
    return HEARTH_TYPE_F16;
}

// ---- the model

// Reads "<architecture>.<name>", or its default if the model lacks it.
static int read_count(const struct hearth_gguf *g, struct hearth_str arch, const char *name, int64_t *out,
                      struct hearth_error *err)
{
    char key[128];
    uint32_t value = (uint32_t)*out;
    snprintf(key, sizeof key, "%.*s.%s", (int)(arch.n > 64 ? 64 : arch.n), arch.s, name);
    int rc = hearth_gguf_u32_of_layers(g, key, false, &value, err);
    *out = (int64_t)value;
    return rc;
}

// Heads of the first layer, which the rules go by where layers differ.
static int read_heads(const struct hearth_gguf *g, struct hearth_str arch, const char *name, int64_t *out,
                      struct hearth_error *err)
{
    char key[128];
    snprintf(key, sizeof key, "%.*s.%s", (int)(arch.n > 64 ? 64 : arch.n), arch.s, name);
    const struct hearth_gguf_kv *kv = hearth_gguf_find(g, key);
    if (!kv || kv->type != HEARTH_GGUF_ARRAY || kv->strings || !kv->data || !kv->count)
        return read_count(g, arch, name, out, err);
    const int64_t heads = hearth_gguf_kv_i64(kv, 0);
    if (heads < 0 || heads > UINT32_MAX)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: %s says %lld of the first layer", hearth_gguf_path(g),
                           key, (long long)heads);
    *out = heads;
    return HEARTH_OK;
}

// Reads what the rules of mixtures ask for; other recipes need the tensors alone.
static int read_model(struct hearth_recipe_model *m, uint32_t base, const struct hearth_gguf *g,
                      struct hearth_error *err)
{
    int rc = hearth_gguf_str(g, "general.architecture", false, &m->arch, err);
    for (uint64_t i = 0; i < m->n_tensors; i++) {
        const int64_t layer = layer_of(m->tensors[i].name.s);
        m->n_layers = layer >= m->n_layers ? layer + 1 : m->n_layers;
    }
    if (!rc)
        rc = read_count(g, m->arch, "block_count", &m->n_layers, err);
    if (!rc)
        rc = read_count(g, m->arch, "expert_count", &m->n_experts, err);
    if (rc || (m->n_layers != 80 && base != HEARTH_TYPE_Q2_K && base != HEARTH_TYPE_IQ4_NL))
        return rc;
    rc = read_heads(g, m->arch, "attention.head_count", &m->n_heads, err);
    m->n_kv_heads = m->n_heads;
    return rc ? rc : read_heads(g, m->arch, "attention.head_count_kv", &m->n_kv_heads, err);
}

// Tensors are counted layer by layer, then by name, whatever their order in the file.
struct place {
    int64_t layer;
    const char *name;
    uint64_t i;
};

static int by_layer(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return strcmp(x->name, y->name);
}

// Predictors in blocks were trained for their format: signs in more bits would only be larger.
static bool is_trained_predictor(const struct hearth_gguf_tensor *t)
{
    return hearth_type_info(t->type)->unit_elems && hearth_predictor_is_name(t->name.s);
}

static struct hearth_recipe_choice choose(bool mixed, struct mixture *m, const struct hearth_gguf_tensor *t)
{
    const bool decodes = hearth_type_info(t->type)->decode;
    if (!is_matrix(t) || !decodes || is_trained_predictor(t))
        return (struct hearth_recipe_choice){
            .type = t->type, .kept = true, .unreadable = is_matrix(t) && !decodes};
    uint32_t wanted = mixed ? choose_mixed(m, t) : m->base;
    uint32_t type = fit(wanted, t->ne[0]);
    return (struct hearth_recipe_choice){.type = type, .wanted = wanted, .fallback = type != wanted};
}

static struct mixture start(const struct hearth_recipe *recipe, const struct hearth_recipe_model *model)
{
    struct mixture m = {.base = recipe->type,
                        .file_type = recipe->file_type,
                        .falcon = hearth_str_is(model->arch, "falcon"),
                        .tied = true,
                        .n_layers = model->n_layers,
                        .n_experts = model->n_experts,
                        .sharing = model->n_kv_heads ? model->n_heads / model->n_kv_heads : 0};
    for (uint64_t i = 0; i < model->n_tensors; i++) {
        m.tied = m.tied && strcmp(model->tensors[i].name.s, "output.weight") != 0;
        m.n_values += part_of(model->tensors[i].name.s) == PART_VALUE;
    }
    m.shared_values =
        m.n_layers == 80 && (hearth_str_is(model->arch, "qwen2") ||
                             (hearth_str_is(model->arch, "llama") && model->n_kv_heads != model->n_heads));
    return m;
}

int hearth_recipe_choose_for(const struct hearth_recipe *recipe, bool pure,
                             const struct hearth_recipe_model *m, struct hearth_recipe_choice *choices,
                             struct hearth_error *err)
{
    const bool mixed = recipe->mixed && !pure;
    struct mixture mixture = start(recipe, m);
    struct place *places = hearth_calloc((size_t)m->n_tensors, sizeof *places);
    if (!places)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the tensor list");
    for (uint64_t i = 0; i < m->n_tensors; i++) {
        const char *name = m->tensors[i].name.s;
        places[i] = (struct place){layer_of(name), name, i};
    }
    qsort(places, (size_t)m->n_tensors, sizeof *places, by_layer);
    for (uint64_t i = 0; i < m->n_tensors; i++)
        choices[places[i].i] = choose(mixed, &mixture, &m->tensors[places[i].i]);
    free(places);
    return HEARTH_OK;
}

int hearth_recipe_choose(const struct hearth_recipe *recipe, bool pure, const struct hearth_gguf *g,
                         struct hearth_recipe_choice *choices, struct hearth_error *err)
{
    struct hearth_recipe_model m = {.n_tensors = hearth_gguf_n_tensors(g)};
    m.tensors = m.n_tensors ? hearth_gguf_tensor_at(g, 0) : NULL;
    const int rc = recipe->mixed && !pure ? read_model(&m, recipe->type, g, err) : HEARTH_OK;
    return rc ? rc : hearth_recipe_choose_for(recipe, pure, &m, choices, err);
}

// ---- wishes

// Whether the text is the whole name, with or without ".weight" behind it.
static bool names(const struct hearth_recipe_wish *w, const char *name)
{
    return !strncmp(name, w->part, w->n) && (!name[w->n] || !strcmp(name + w->n, ".weight"));
}

// Whether it is in the name; an empty one is not.
static bool is_in(const struct hearth_recipe_wish *w, const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; w->n && i + w->n <= n; i++)
        if (!memcmp(name + i, w->part, w->n))
            return true;
    return false;
}

// Changes the choices that a wish is about. Returns how many.
static uint64_t grant(const struct hearth_recipe_wish *w, const struct hearth_gguf *g,
                      struct hearth_recipe_choice *choices)
{
    const uint64_t n = hearth_gguf_n_tensors(g);
    uint64_t granted = 0;
    bool whole = false; // a matrix has this very name: the others are not meant
    for (uint64_t i = 0; i < n; i++)
        whole = whole || names(w, hearth_gguf_tensor_at(g, i)->name.s);
    for (uint64_t i = 0; i < n; i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        if (choices[i].kept || !(whole ? names(w, t->name.s) : is_in(w, t->name.s)))
            continue;
        const uint32_t type = fit(w->type, t->ne[0]);
        choices[i] = (struct hearth_recipe_choice){type, .wanted = w->type, .fallback = type != w->type};
        granted++;
    }
    return granted;
}

int hearth_recipe_grant(const struct hearth_recipe_wish *wishes, size_t n_wishes, const struct hearth_gguf *g,
                        struct hearth_recipe_choice *choices, struct hearth_error *err)
{
    for (size_t i = n_wishes; i-- > 0;) // so that the first has the last word
        if (!grant(&wishes[i], g, choices))
            return hearth_fail(
                err, HEARTH_E_INVALID, "%s: no matrix that is converted has \"%.*s\" in its name",
                hearth_gguf_path(g), (int)(wishes[i].n > 64 ? 64 : wishes[i].n), wishes[i].part);
    return HEARTH_OK;
}
