// SPDX-License-Identifier: MIT
// Recipes of `hearth quantize`: the formats that each tensor gets. What is expected here is what llama.cpp's
// quantiser chose for models of these shapes (tools/oracle/check_recipes.py compares many more).
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convert/quantize.h"
#include "quant/quant.h"

enum { ROWS = 3, MAX_TENSORS = 1600 };

static char source[300], target[300];

struct shape {
    const char *arch;
    uint32_t layers, width, ffn, heads, kv_heads, experts;
    bool own_head, split_experts, backwards;
};

// ---- a model of zeros

struct tensor {
    char name[96];
    uint64_t ne[4];
    uint32_t n_dims;
};

static struct tensor tensors[MAX_TENSORS];
static size_t n_tensors;

static void add(uint32_t layer, const char *name, uint64_t width, uint64_t rows, uint64_t experts)
{
    assert_true(n_tensors < MAX_TENSORS);
    struct tensor *t = &tensors[n_tensors++];
    if (layer == UINT32_MAX)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%u.%s", layer, name);
    memcpy(t->ne, (uint64_t[]){width, rows, experts, 1}, sizeof t->ne);
    t->n_dims = experts > 1 ? 3 : rows > 1 ? 2 : 1;
}

static void add_ffn(const struct shape *s, uint32_t layer)
{
    static const char *const parts[] = {"gate", "up", "down"};
    char name[64];
    if (s->experts)
        add(layer, "ffn_gate_inp.weight", s->width, s->experts, 1);
    for (size_t p = 0; p < 3; p++)
        for (uint32_t e = 0; e < (s->split_experts ? s->experts : 1); e++) {
            if (s->split_experts)
                snprintf(name, sizeof name, "ffn_%s.%u.weight", parts[p], e);
            else
                snprintf(name, sizeof name, "ffn_%s%s.weight", parts[p], s->experts ? "_exps" : "");
            uint64_t joined = s->experts && !s->split_experts ? s->experts : 1;
            add(layer, name, p == 2 ? s->ffn : s->width, ROWS, joined);
        }
}

static void add_layer(const struct shape *s, uint32_t layer)
{
    static const char *const apart[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight", NULL};
    static const char *const fused[] = {"attn_qkv.weight", NULL};
    add(layer, "attn_norm.weight", s->width, 1, 1);
    for (const char *const *name = strcmp(s->arch, "falcon") ? apart : fused; *name; name++)
        add(layer, *name, s->width, ROWS, 1);
    add(layer, "attn_q_norm.weight", s->width, 2,
        1); // a norm of each head: two dimensions, and yet no matrix
    add(layer, "attn_output.weight", s->width, ROWS, 1);
    add_ffn(s, layer);
}

static void put_metadata(struct hearth_gguf_writer *w, const struct shape *s)
{
    const struct {
        const char *name;
        uint32_t value;
    } keys[] = {{"block_count", s->layers},
                {"attention.head_count", s->heads},
                {"attention.head_count_kv", s->kv_heads},
                {"expert_count", s->experts}};
    CHECK(hearth_gguf_put_str(w, "general.architecture", s->arch, strlen(s->arch), &check_error));
    CHECK(hearth_gguf_put_u32(w, "general.file_type", 0, &check_error));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%s", s->arch, keys[i].name);
        uint32_t list[64];
        for (uint32_t layer = 0; layer < 64; layer++)
            list[layer] = s->kv_heads + (layer > 0);
        if (i == 2 && (!strcmp(s->arch, "lfm2") || !strcmp(s->arch, "gemma4"))) // one more behind the first
            CHECK(hearth_gguf_put_array(w, key, HEARTH_GGUF_U32, list, s->layers, &check_error));
        else if (keys[i].value)
            CHECK(hearth_gguf_put_u32(w, key, keys[i].value, &check_error));
    }
}

static void write_model(const struct shape *s)
{
    struct hearth_gguf_writer *w = NULL;
    n_tensors = 0;
    add(UINT32_MAX, "token_embd.weight", s->width, ROWS, 1);
    add(UINT32_MAX, "position_embd.weight", s->width, ROWS, 1);
    for (uint32_t i = 0; i < s->layers; i++)
        add_layer(s, s->backwards ? s->layers - 1 - i : i);
    if (s->own_head)
        add(UINT32_MAX, "output.weight", s->width, ROWS, 1);
    CHECK(hearth_gguf_writer_open(&w, source, &check_error));
    put_metadata(w, s);
    for (size_t i = 0; i < n_tensors; i++)
        CHECK(hearth_gguf_put_tensor(w, tensors[i].name, HEARTH_TYPE_F16, tensors[i].n_dims, tensors[i].ne,
                                     &check_error));
    for (size_t i = 0; i < n_tensors; i++) {
        const uint64_t *ne = tensors[i].ne;
        size_t bytes = (size_t)(ne[0] * ne[1] * ne[2] * 2);
        void *zeros = calloc(1, bytes);
        CHECK(hearth_gguf_write(w, zeros, bytes, &check_error));
        free(zeros);
    }
    CHECK(hearth_gguf_finish(&w, &check_error));
}

// ---- what became of it

static char letter(uint32_t type)
{
    static const struct {
        uint32_t type;
        char letter;
    } table[] = {{HEARTH_TYPE_F16, 'h'},  {HEARTH_TYPE_Q4_K, '4'},   {HEARTH_TYPE_Q5_K, '5'},
                 {HEARTH_TYPE_Q6_K, '6'}, {HEARTH_TYPE_Q8_0, '8'},   {HEARTH_TYPE_Q5_0, 'a'},
                 {HEARTH_TYPE_Q5_1, 'b'}, {HEARTH_TYPE_Q4_0, '0'},   {HEARTH_TYPE_Q3_K, '3'},
                 {HEARTH_TYPE_Q2_K, '2'}, {HEARTH_TYPE_IQ4_NL, 'n'}, {HEARTH_TYPE_TQ2_0, 't'},
                 {HEARTH_TYPE_Q1_0, '1'}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == type)
            return table[i].letter;
    return '?';
}

// "pure NAME" for a pure one.
static struct hearth_quantize_result quantize(const char *recipe)
{
    struct hearth_quantize_result result;
    const bool pure = !strncmp(recipe, "pure ", 5);
    struct hearth_quantize_params p = {
        .recipe = hearth_recipe_by_name(pure ? recipe + 5 : recipe), .pure = pure, .n_threads = 1};
    assert_non_null(p.recipe);
    CHECK(hearth_quantize(source, target, &p, &result, &check_error));
    return result;
}

// A letter a layer for "blk.*.<name>", or one letter for a tensor of no layer.
static const char *letters(const struct hearth_gguf *g, const char *name, uint32_t layers)
{
    static char out[128];
    uint32_t n = 0;
    for (; n < (layers ? layers : 1); n++) {
        char full[96];
        if (layers)
            snprintf(full, sizeof full, "blk.%u.%s", n, name);
        else
            snprintf(full, sizeof full, "%s", name);
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor(g, full);
        out[n] = t ? letter(t->type) : '-';
    }
    out[n] = 0;
    return out;
}

struct expected {
    const char *embedding, *head;
    struct {
        const char *name, *letters; // NULL letters: the base format in every layer
    } layer[6];
};

struct one {
    const char *recipe;
    uint32_t file_type;
    struct shape shape;
    struct expected want;
};

static void check_one(const struct one *c)
{
    struct hearth_gguf *g = NULL;
    uint32_t file_type = 0;
    write_model(&c->shape);
    struct hearth_quantize_result result = quantize(c->recipe);
    CHECK(hearth_gguf_open(&g, target, &check_error));
    CHECK(hearth_gguf_u32(g, "general.file_type", true, &file_type, &check_error));
    assert_int_equal(file_type, c->file_type);
    assert_string_equal(letters(g, "token_embd.weight", 0), c->want.embedding);
    assert_string_equal(letters(g, "output.weight", 0), c->want.head);
    assert_string_equal(letters(g, "position_embd.weight", 0), "h");
    for (size_t i = 0; c->want.layer[i].name; i++) {
        const char *got = letters(g, c->want.layer[i].name, c->shape.layers);
        if (strcmp(got, c->want.layer[i].letters))
            fail_msg("%s %s %s: %s, must be %s", c->shape.arch, c->recipe, c->want.layer[i].name, got,
                     c->want.layer[i].letters);
    }
    const char *norms = letters(g, "attn_q_norm.weight", c->shape.layers);
    assert_int_equal(strspn(norms, "h"), c->shape.layers);
    // The report adds up, and says the truth about one format.
    uint64_t n = result.n_kept, q6 = 0;
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++)
        n += result.n_matrices[type];
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++)
        q6 += hearth_gguf_tensor_at(g, i)->type == HEARTH_TYPE_Q6_K;
    assert_int_equal(n, n_tensors);
    assert_int_equal(result.n_matrices[HEARTH_TYPE_Q6_K], q6);
    hearth_gguf_close(&g);
}

#define HALF_32   "66664464464464464464464464466666"
#define HALF_32_5 "66665565565565565565565565566666"
#define ALL_32(c) c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c

static const struct one cases[] = {
    {"TQ2_0",
     37,
     {"llama", 8, 256, 96, 4, 2, 0, true, false, false},
     {"4",
      "6",
      {{"attn_v.weight", "tttttttt"}, {"ffn_down.weight", "00000000"}, {"ffn_up.weight", "tttttttt"}}}},
    {"Q1_0",
     40,
     {"llama", 8, 256, 512, 4, 2, 8, true, false, false},
     {"1",
      "6",
      {{"attn_k.weight", "88888888"},
       {"attn_v.weight", "88888888"},
       {"attn_output.weight", "11111111"},
       {"ffn_down_exps.weight", "11111111"}}}},
    {"IQ4_NL",
     25,
     {"llama", 16, 256, 512, 8, 2, 0, true, false, false},
     {"n",
      "6",
      {{"attn_v.weight", "5555555555555555"},
       {"ffn_down.weight", "55nnnnnnnnnnnnnn"},
       {"attn_q.weight", "nnnnnnnnnnnnnnnn"},
       {"attn_output.weight", "nnnnnnnnnnnnnnnn"}}}},
    {"IQ4_NL",
     25,
     {"llama", 16, 256, 512, 4, 2, 8, false, false, false},
     {"6",
      "-",
      {{"attn_k.weight", "8888888888888888"},
       {"attn_v.weight", "8888888888888888"},
       {"attn_output.weight", "5555555555555555"},
       {"ffn_down_exps.weight", "55nnnnnnnnnnnnnn"}}}},
    {"IQ4_NL",
     25,
     {"falcon", 8, 256, 512, 8, 1, 0, true, false, false},
     {"n", "8", {{"attn_qkv.weight", "55555555"}, {"ffn_down.weight", "5nnnnnnn"}}}},
    {"Q4_K_M",
     15,
     {"llama", 32, 256, 512, 4, 2, 0, true, false, false},
     {"4",
      "6",
      {
          {"attn_v.weight", HALF_32},
          {"ffn_down.weight", HALF_32},
          {"attn_q.weight", ALL_32("4")},
          {"attn_k.weight", ALL_32("4")},
          {"attn_output.weight", ALL_32("4")},
      }}},
    {"q5_k_m",
     17,
     {"llama", 22, 256, 512, 4, 2, 0, true, false, false},
     {"5",
      "6",
      {{"attn_v.weight", "6655655655655655655666"}, {"ffn_down.weight", "6655655655655655655666"}}}},
    {"Q4_K_M",
     15,
     {"llama", 32, 256, 512, 4, 2, 0, true, false, true},
     {"4", "6", {{"attn_v.weight", HALF_32}, {"ffn_down.weight", HALF_32}}}},
    {"Q4_K_M",
     15,
     {"llama", 80, 256, 512, 4, 2, 0, true, false, false},
     {"4",
      "6",
      {{"attn_v.weight", "66666666665565565565565565565565565565565565565565565565565565565565566666666666"},
       {"ffn_down.weight",
        "66666666664464464464464464464464464464464464464464464464464464464464466666666666"}}}},
    {"Q4_K_M",
     15,
     {"llama", 80, 256, 512, 4, 4, 0, true, false, false},
     {"4",
      "6",
      {{"attn_v.weight",
        "66666666664464464464464464464464464464464464464464464464464464464464466666666666"}}}},
    {"Q4_K_M",
     15,
     {"qwen2", 28, 256, 512, 4, 2, 0, false, false, false},
     {"6",
      "-",
      {{"attn_v.weight", "6664464464464464464464466666"},
       {"ffn_down.weight", "6664464464464464464464466666"}}}},
    {"Q4_K_M",
     15,
     {"llama", 32, 256, 512, 4, 2, 8, true, false, false},
     {"4",
      "6",
      {{"attn_k.weight", ALL_32("8")},
       {"attn_v.weight", ALL_32("8")},
       {"attn_output.weight", ALL_32("5")},
       {"ffn_down_exps.weight", HALF_32},
       {"ffn_gate_inp.weight", ALL_32("h")}}}},
    {"Q5_K_M",
     17,
     {"llama", 32, 256, 512, 4, 2, 8, true, false, false},
     {"5", "6", {{"attn_output.weight", ALL_32("5")}, {"ffn_down_exps.weight", HALF_32_5}}}},
    {"Q4_K_M",
     15,
     {"llama", 32, 256, 512, 4, 2, 8, true, true, false},
     {"4",
      "6",
      {{"ffn_down.0.weight", HALF_32}, {"ffn_down.7.weight", HALF_32}, {"ffn_up.7.weight", ALL_32("4")}}}},
    {"Q4_K_M",
     15,
     {"qwen3moe", 32, 256, 512, 4, 2, 4, true, false, false},
     {"4",
      "6",
      {{"attn_k.weight", ALL_32("4")}, {"attn_v.weight", HALF_32}, {"ffn_down_exps.weight", HALF_32}}}},
    {"Q4_K_M",
     15,
     {"falcon", 32, 256, 512, 4, 1, 0, true, false, false},
     {"4", "8", {{"attn_qkv.weight", HALF_32}, {"ffn_down.weight", "66554454454454454454454454455555"}}}},
    {"Q5_K_M",
     17,
     {"falcon", 32, 256, 512, 4, 1, 0, false, false, false},
     {"8", "-", {{"attn_qkv.weight", HALF_32_5}, {"ffn_down.weight", HALF_32_5}}}},
    {"Q4_K_M",
     15,
     {"llama", 32, 288, 512, 4, 2, 0, true, false, false},
     {"a", "8", {{"attn_v.weight", "8888aa8aa8aa8aa8aa8aa8aa8aa88888"}, {"ffn_down.weight", HALF_32}}}},
    {"Q5_K_M",
     17,
     {"llama", 16, 288, 512, 4, 2, 0, false, false, false},
     {"8",
      "-",
      {{"attn_v.weight", "88bb8bb8bb8bb888"},
       {"ffn_down.weight", "6655655655655666"},
       {"attn_q.weight", "bbbbbbbbbbbbbbbb"}}}},
    {"Q4_K_M",
     15,
     {"llama", 8, 200, 100, 4, 2, 0, true, false, false},
     {"h", "h", {{"attn_v.weight", "hhhhhhhh"}, {"ffn_down.weight", "hhhhhhhh"}}}},
    {"Q2_K",
     10,
     {"llama", 32, 256, 512, 8, 2, 0, true, false, false},
     {"2",
      "6",
      {{"attn_v.weight", ALL_32("4")},
       {"ffn_down.weight", ALL_32("3")},
       {"attn_output.weight", ALL_32("3")},
       {"attn_k.weight", ALL_32("2")}}}},
    {"Q2_K",
     10,
     {"llama", 8, 256, 512, 4, 2, 8, true, false, false},
     {"2", "6", {{"attn_v.weight", "88888888"}, {"attn_output.weight", "55555555"}}}},
    {"Q3_K_S",
     11,
     {"llama", 80, 256, 512, 4, 2, 0, true, false, false},
     {"3",
      "6",
      {{"attn_v.weight",
        "55555555555555555555555555555555555555555555555555555555555555555555555555555555"}}}},
    {"Q3_K",
     12,
     {"llama", 32, 256, 512, 4, 2, 0, true, false, false},
     {"3",
      "6",
      {{"attn_v.weight", "55444444444444444444444444444444"},
       {"ffn_down.weight", "55444444444444444444444444444444"},
       {"attn_output.weight", ALL_32("4")}}}},
    {"Q3_K_L",
     13,
     {"falcon", 8, 256, 512, 4, 1, 0, true, false, false},
     {"3",
      "8",
      {{"attn_qkv.weight", "55555555"},
       {"ffn_down.weight", "44444444"},
       {"attn_output.weight", "44444444"}}}},
    {"Q4_K_S",
     14,
     {"llama", 32, 256, 512, 4, 2, 0, true, false, false},
     {"4",
      "6",
      {{"attn_v.weight", "55554444444444444444444444444444"},
       {"ffn_down.weight", "55554444444444444444444444444444"}}}},
    {"Q5_K_S",
     16,
     {"llama", 8, 256, 96, 4, 2, 0, false, false, false},
     {"6", "-", {{"attn_v.weight", "55555555"}, {"ffn_down.weight", "bbbbbbbb"}}}},
    {"Q4_0",
     2,
     {"llama", 8, 256, 512, 4, 2, 0, true, false, false},
     {"0", "6", {{"attn_v.weight", "00000000"}}}},
    {"Q8_0",
     7,
     {"llama", 8, 256, 512, 4, 2, 0, true, false, false},
     {"8", "8", {{"attn_v.weight", "88888888"}}}},
    {"Q6_K",
     18,
     {"falcon", 8, 256, 512, 4, 1, 0, true, false, false},
     {"6", "8", {{"attn_qkv.weight", "66666666"}}}},
    // Aliases, and pure recipes: one format, head and embedding included.
    {"q4_k",
     15,
     {"llama", 32, 256, 512, 4, 2, 0, true, false, false},
     {"4", "6", {{"attn_v.weight", HALF_32}, {"ffn_down.weight", HALF_32}}}},
    {"pure Q4_K",
     15,
     {"llama", 8, 256, 512, 4, 2, 0, true, false, false},
     {"4", "4", {{"attn_v.weight", "44444444"}, {"ffn_down.weight", "44444444"}}}},
    // Layers that differ: the first one's heads count.
    {"Q2_K",
     10,
     {"lfm2", 8, 256, 512, 4, 0, 0, true, false, false},
     {"2", "6", {{"attn_v.weight", "33333333"}, {"ffn_down.weight", "33333333"}}}},
    {"Q2_K",
     10,
     {"gemma4", 8, 256, 512, 4, 1, 0, true, false, false},
     {"2", "6", {{"attn_v.weight", "44444444"}, {"ffn_down.weight", "33333333"}}}},
    {"IQ4_NL",
     25,
     {"gemma4", 8, 256, 512, 4, 2, 0, true, false, false},
     {"n", "6", {{"attn_v.weight", "nnnnnnnn"}, {"ffn_down.weight", "5nnnnnnn"}}}},
    {"pure Q5_K_S",
     16,
     {"llama", 8, 256, 96, 4, 2, 0, false, false, false},
     {"5", "-", {{"attn_v.weight", "55555555"}, {"ffn_down.weight", "bbbbbbbb"}}}},
    {"pure Q3_K_S",
     11,
     {"llama", 8, 256, 96, 4, 2, 0, true, false, false},
     {"3", "3", {{"attn_v.weight", "33333333"}, {"ffn_down.weight", "00000000"}}}},
};

static void test_choices(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_one(&cases[i]);
}

static void test_names(void **state)
{
    (void)state;
    assert_null(hearth_recipe_by_name("Q4_K_X"));
    assert_null(hearth_recipe_by_name(""));
    size_t n = 0;
    for (const struct hearth_recipe *r; (r = hearth_recipe_at(n)); n++) {
        assert_ptr_equal(hearth_recipe_by_name(r->name), r);
        assert_non_null(hearth_type_info(r->type)->encode);
        for (size_t i = 0; i < n; i++)
            assert_int_not_equal(hearth_recipe_at(i)->file_type, r->file_type);
    }
    // Whatever can be written has a recipe.
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        const struct hearth_type_info *info = hearth_type_info(type);
        if (info && info->encode)
            assert_non_null(hearth_recipe_by_name(info->name));
    }
    assert_null(hearth_recipe_at(SIZE_MAX));
}

// A count that is no number is an error that names the key; layer numbers beyond reason change nothing.
static void test_hostile(void **state)
{
    (void)state;
    struct hearth_gguf_writer *w = NULL;
    struct hearth_error err = {0};
    struct hearth_quantize_params p = {.recipe = hearth_recipe_by_name("Q4_K_M"), .n_threads = 1};
    static const float zeros[256 * 2];
    for (int i = 0; i < 2; i++) {
        CHECK(hearth_gguf_writer_open(&w, source, &check_error));
        CHECK(hearth_gguf_put_str(w, "general.architecture", "llama", 5, &check_error));
        if (i)
            CHECK(hearth_gguf_put_str(w, "llama.block_count", "many", 4, &check_error));
        CHECK(hearth_gguf_put_tensor(w, "blk.99999999999999999999.ffn_down.weight", HEARTH_TYPE_F32, 2,
                                     (uint64_t[]){256, 2}, &check_error));
        CHECK(hearth_gguf_write(w, zeros, sizeof zeros, &check_error));
        CHECK(hearth_gguf_finish(&w, &check_error));
        unlink(target);
        int rc = hearth_quantize(source, target, &p, NULL, &err);
        assert_int_equal(rc, i ? HEARTH_E_FORMAT : HEARTH_OK);
        assert_int_equal(access(target, F_OK), i ? -1 : 0);
    }
    assert_non_null(strstr(err.message, "llama.block_count"));
}

// Predictors that were trained for their format keep it; others get that of the recipe.
static void test_predictors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t type;
        bool kept;
    } predictors[] = {
        {"blk.0.fc1.weight", HEARTH_TYPE_Q4_0, true},      {"blk.0.fc2.weight", HEARTH_TYPE_Q1_0, true},
        {"blk.1.fc1_exps.weight", HEARTH_TYPE_Q4_0, true}, {"blk.1.fc2_exps.weight", HEARTH_TYPE_Q1_0, true},
        {"blk.2.fc1.weight", HEARTH_TYPE_F16, false},      {"blk.2.fc2.weight", HEARTH_TYPE_F32, false},
        {"blk.2.ffn_up.weight", HEARTH_TYPE_Q4_0, false}};
    enum { N = sizeof predictors / sizeof *predictors };
    struct hearth_gguf_tensor list[N];
    struct hearth_recipe_choice choices[N];
    for (size_t i = 0; i < N; i++)
        list[i] = (struct hearth_gguf_tensor){.name = {predictors[i].name, strlen(predictors[i].name)},
                                              .type = predictors[i].type,
                                              .n_dims = 2,
                                              .ne = {256, 2, 1, 1}};
    const struct hearth_recipe_model model = {.tensors = list, .n_tensors = N};
    CHECK(hearth_recipe_choose_for(hearth_recipe_by_name("Q8_0"), true, &model, choices, &check_error));
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(choices[i].kept, predictors[i].kept);
        assert_int_equal(choices[i].type, predictors[i].kept ? predictors[i].type : HEARTH_TYPE_Q8_0);
        assert_false(choices[i].unreadable);
    }
}

// A matrix that cannot be decoded would make the new file another than its name says.
static void test_unreadable(void **state)
{
    (void)state;
    struct hearth_gguf_writer *w = NULL;
    struct hearth_error err = {0};
    struct hearth_quantize_params p = {.recipe = hearth_recipe_by_name("Q8_0"), .n_threads = 1};
    static const char zeros[2 * 36];
    CHECK(hearth_gguf_writer_open(&w, source, &check_error));
    CHECK(hearth_gguf_put_str(w, "general.architecture", "llama", 5, &check_error));
    CHECK(hearth_gguf_put_tensor(w, "output.weight", HEARTH_TYPE_Q8_1, 2, (uint64_t[]){32, 2}, &check_error));
    CHECK(hearth_gguf_write(w, zeros, sizeof zeros, &check_error));
    CHECK(hearth_gguf_finish(&w, &check_error));
    unlink(target);
    assert_int_equal(hearth_quantize(source, target, &p, NULL, &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message,
                           "1 matrices are in formats that cannot be decoded, tensor output.weight in Q8_1"));
    assert_int_equal(access(target, F_OK), -1);
}

// A weight that would become nonsense without a word, named with what can be done.
static void test_unsound(void **state)
{
    (void)state;
    static const float values[] = {INFINITY, NAN, 1e9f};
    static const struct {
        const char *type;
        bool refuses[3];
    } kinds[] = {{"F16", {1, 1, 1}},  {"BF16", {1, 1, 0}}, {"Q4_0", {1, 1, 1}},
                 {"Q8_0", {1, 1, 1}}, {"Q3_K", {1, 1, 1}}, {"Q6_K", {1, 1, 1}}};
    struct hearth_error err = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (size_t j = 0; j < 3; j++) {
            float weights[256 * 2] = {0};
            struct hearth_gguf_writer *w = NULL;
            const struct hearth_quantize_params p = {
                .recipe = hearth_recipe_by_name(kinds[i].type), .pure = true, .n_threads = 1};
            weights[300] = values[j];
            CHECK(hearth_gguf_writer_open(&w, source, &check_error));
            CHECK(hearth_gguf_put_str(w, "general.architecture", "llama", 5, &check_error));
            CHECK(hearth_gguf_put_tensor(w, "output.weight", HEARTH_TYPE_F32, 2, (uint64_t[]){256, 2},
                                         &check_error));
            CHECK(hearth_gguf_write(w, weights, sizeof weights, &check_error));
            CHECK(hearth_gguf_finish(&w, &check_error));
            unlink(target);
            const int rc = hearth_quantize(source, target, &p, NULL, &err);
            if (rc != (kinds[i].refuses[j] ? HEARTH_E_FORMAT : HEARTH_OK))
                fail_msg("%s of a weight of %g: %d", kinds[i].type, (double)values[j], rc);
            assert_int_equal(access(target, F_OK), rc ? -1 : 0);
            if (rc)
                assert_non_null(strstr(err.message, "(--tensor-type output.weight=F32)"));
        }
}

static int name_files(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(source, sizeof source, "%s", in_folder("in.gguf"));
    snprintf(target, sizeof target, "%s", in_folder("out.gguf"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),    cmocka_unit_test(test_names),      cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_predictors), cmocka_unit_test(test_unreadable), cmocka_unit_test(test_unsound),
    };
    return cmocka_run_group_tests(tests, name_files, remove_folder);
}
