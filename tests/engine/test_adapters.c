// SPDX-License-Identifier: MIT
// Adapters: a model with adapters gives the logits of one whose matrices have them merged in, and the same bits
// whatever the budget, the threads and the micro-batch; what does not fit is refused.
#include "golden_models.h"
#include "made_models.h"
#include "device_support.h"
#include "engine/offload.h"
#include "accel/insides.h"

#include <math.h>

// ---- adapters: numbers that follow from the tensor's name and the place

static float number_at(const char *tensor, char half, uint64_t matrix, uint64_t row, uint64_t column)
{
    uint32_t h = 2166136261u;
    for (const char *c = tensor; *c; c++)
        h = (h ^ (uint8_t)*c) * 16777619u;
    const uint32_t parts[] = {(uint32_t)half, (uint32_t)matrix, (uint32_t)row, (uint32_t)column};
    for (int i = 0; i < 4; i++)
        h = ((h ^ parts[i]) * 16777619u) ^ (h >> 13);
    h *= 0x9e3779b1u;
    return (float)(h >> 8) / 8388608.0f - 1.0f;
}

struct lora {
    const char *name; // what its numbers follow from
    uint32_t rank;
    float alpha, scale;
    uint32_t type_a, type_b; // F32, F16
};

static const struct lora first = {"one", 3, 6.0f, 0.25f, 0, 0}, second = {"two", 5, 0.0f, 0.3f, 0, 0};

static double factor_of(const struct lora *l)
{
    return l->alpha != 0.0f ? (double)(l->scale * l->alpha / (float)l->rank) : (double)l->scale;
}

// Of the embedding table, A and B have the other's part.
static bool is_embedding(const char *tensor)
{
    return !strcmp(tensor, "token_embd.weight");
}

static float half_at(const struct lora *l, const char *tensor, char half, uint64_t matrix, uint64_t row,
                     uint64_t column)
{
    char name[160];
    snprintf(name, sizeof name, "%s %s", l->name, tensor);
    return (half == 'a' ? 0.3f : 0.4f) * number_at(name, half, matrix, row, column);
}

// Whether the embedding table is changed, too: merged into the table of a tied model, that would change its head.
static bool with_table;
// Whether experts stay as they are.
static bool without_experts;

static bool is_changed(const char *tensor, uint64_t rows)
{
    static const char *const others[] = {"norm",       "conv1d",       "shortconv.conv",  "attn_k_b.",
                                         "attn_v_b.",  "attn_kv_b.",   "position_embd",   "rope_freqs",
                                         ".bias",      "ssm_a",        "sinks",           "fc1",
                                         "fc2",        "_ape",         "tid2eid",         "_base",
                                         "ffn_down_t", "rope_factors", "per_layer_token", "scale",
                                         "altup_proj", "altup_unembd", "_coef",           "ssm_d"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(tensor, others[i]) && !strstr(tensor, "ssm_alpha"))
            return false;
    if (without_experts && strstr(tensor, "_exps"))
        return false;
    return rows > 1 && (with_table || !is_embedding(tensor));
}

// W + B A, of both.
static float merged(const char *tensor, uint64_t matrix, uint64_t row, uint64_t column)
{
    const struct lora *const both[] = {&first, &second};
    double sum = 0;
    if (!is_changed(tensor, 2))
        return 0;
    for (int i = 0; i < 2; i++)
        for (uint32_t r = 0; r < both[i]->rank; r++)
            sum += factor_of(both[i]) * (is_embedding(tensor)
                                             ? (double)half_at(both[i], tensor, 'a', matrix, row, r) *
                                                   (double)half_at(both[i], tensor, 'b', matrix, column, r)
                                             : (double)half_at(both[i], tensor, 'a', matrix, r, column) *
                                                   (double)half_at(both[i], tensor, 'b', matrix, row, r));
    return (float)sum;
}

// A vector has one row in made models; the shared expert's router is one.
static float merged_matrices(const char *tensor, uint64_t matrix, uint64_t row, uint64_t column)
{
    return strstr(tensor, "ffn_gate_inp_shexp") ? 0.0f : merged(tensor, matrix, row, column);
}

static void write_half(struct hearth_gguf_writer *w, const struct lora *l, const char *tensor, char half,
                       uint64_t n_matrices, uint64_t rows, uint64_t columns)
{
    const uint32_t type = half == 'a' ? l->type_a : l->type_b;
    float *row = malloc(columns * sizeof *row);
    uint8_t bytes[8192];
    for (uint64_t m = 0; m < n_matrices; m++)
        for (uint64_t r = 0; r < rows; r++) {
            for (uint64_t c = 0; c < columns; c++)
                row[c] = half_at(l, tensor, half, m, r, c);
            hearth_type_info(type)->encode(row, bytes, columns);
            OK(hearth_gguf_write(w, bytes, hearth_type_bytes(type, columns), &err));
        }
    free(row);
}

struct shape {
    uint64_t matrices, rows[2], columns[2]; // of A and B
};

static struct shape shape_of(const struct lora *l, const struct hearth_gguf_tensor *t)
{
    const bool embedding = is_embedding(t->name.s);
    const uint64_t k = t->ne[0], n = t->ne[1];
    return (struct shape){
        t->ne[2], {embedding ? n : l->rank, embedding ? k : n}, {embedding ? l->rank : k, l->rank}};
}

// What a test has otherwise.
struct lie {
    const char *type, *adapter, *arch; // general.type, adapter.type, general.architecture
    const char *rename, *to;           // a tensor of the adapter; or with `to` NULL one that is left out
    const char *wider;                 // a tensor with a column more
    bool alora;
    const char *only; // a part of the names of what is changed
};

static void put_key(struct hearth_gguf_writer *w, const char *key, const char *text)
{
    if (*text)
        OK(hearth_gguf_put_str(w, key, text, strlen(text), &err));
}

// Writes an adapter for all matrices of the model.
static void write_adapter(const char *path, const char *model, const struct lora *l, const struct lie *lie)
{
    struct hearth_gguf *g = NULL;
    struct hearth_gguf_writer *w = NULL;
    struct hearth_str arch = {"", 0};
    char text[64];
    unlink(path);
    OK(hearth_gguf_open(&g, model, &err));
    OK(hearth_gguf_str(g, "general.architecture", true, &arch, &err));
    snprintf(text, sizeof text, "%.*s", (int)arch.n, arch.s);
    OK(hearth_gguf_writer_open(&w, path, &err));
    put_key(w, "general.type", lie->type ? lie->type : "adapter");
    put_key(w, "general.architecture", lie->arch ? lie->arch : text);
    put_key(w, "adapter.type", lie->adapter ? lie->adapter : "lora");
    if (l->alpha != 0.0f)
        OK(hearth_gguf_put_f32(w, "adapter.lora.alpha", l->alpha, &err));
    const uint32_t ids[] = {1, 2};
    if (lie->alora)
        OK(hearth_gguf_put_array(w, "adapter.alora.invocation_tokens", HEARTH_GGUF_U32, ids, 2, &err));
    for (int data = 0; data < 2; data++)
        for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++) {
            const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
            const bool wanted =
                lie->only ? strstr(t->name.s, lie->only) != NULL : is_changed(t->name.s, t->ne[1]);
            for (int half = 0; half < 2 && wanted; half++) {
                const struct shape s = shape_of(l, t);
                char name[160];
                snprintf(name, sizeof name, "%s.lora_%c", t->name.s, 'a' + half);
                const bool renamed = lie->rename && !strcmp(lie->rename, name);
                if (renamed && !lie->to)
                    continue;
                const uint64_t columns = s.columns[half] + (lie->wider && !strcmp(lie->wider, name)),
                               ne[] = {columns, s.rows[half], s.matrices};
                if (data)
                    write_half(w, l, t->name.s, (char)('a' + half), s.matrices, s.rows[half], columns);
                else
                    OK(hearth_gguf_put_tensor(w, renamed ? lie->to : name, half ? l->type_b : l->type_a,
                                              s.matrices > 1 ? 3 : 2, ne, &err));
            }
        }
    OK(hearth_gguf_finish(&w, &err));
    hearth_gguf_close(&g);
}

// ---- against merged models

static double relative(const float *got, const float *want, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        error += pow((double)got[i] - (double)want[i], 2);
        size += pow((double)want[i], 2);
    }
    return sqrt(error / size);
}

static float *logits_of(const char *path, const struct hearth_adapter *adapters, size_t n)
{
    struct opened o = open_way(path, &(struct way){.n_threads = 2, .adapters = adapters, .n_adapters = n});
    float *logits = evaluate(&o, NULL);
    close_opened(&o);
    return logits;
}

static char base_path[256], merged_path[256], one_path[256], two_path[256];

static void name_files(void)
{
    snprintf(base_path, sizeof base_path, "%s", in_folder("base.gguf"));
    snprintf(merged_path, sizeof merged_path, "%s", in_folder("merged.gguf"));
    snprintf(one_path, sizeof one_path, "%s", in_folder("one.gguf"));
    snprintf(two_path, sizeof two_path, "%s", in_folder("two.gguf"));
}

static const struct made kinds[] = {
    {.arch = "llama", .optional = true},
    {.arch = "llama", .experts = true, .optional = true},
    {.arch = "llama"},
    {.arch = "llama", .set = {{"feed_forward.activation", 's', 0, "relu"}}},
    {.arch = "llama", .experts = true, .set = {{"feed_forward.activation", 's', 0, "drelu"}}},
    {.arch = "qwen3"},
    {.arch = "gemma3", .set = {{"attention.sliding_window", 'u', 20, NULL}}},
    {.arch = "gemma4", .optional = true, .gives = true, .borrows = true, .two_widths = true},
    {.arch = "gemma4", .experts = true, .shared = true, .fused = true},
    {.arch = "falcon"},
    {.arch = "opt"},
    {.arch = "phi3"},
    {.arch = "gpt-oss", .experts = true, .set = {{"attention.sliding_window", 'u', 20, NULL}}},
    {.arch = "granitemoe",
     .experts = true,
     .shared = true,
     .set = {{"expert_shared_feed_forward_length", 'u', MADE_F_SHARED, NULL},
             {"embedding_scale", 'f', 3, NULL},
             {"residual_scale", 'f', 0.5, NULL},
             {"logit_scale", 'f', 4, NULL}}},
    {.arch = "glm4moe",
     .experts = true,
     .leading = true,
     .shared = true,
     .set = {{"leading_dense_block_count", 'u', 1, NULL},
             {"expert_shared_feed_forward_length", 'u', MADE_F_SHARED, NULL}}},
    {.arch = "smallthinker", .experts = true},
    {.arch = "qwen35"},
    {.arch = "qwen35moe",
     .experts = true,
     .shared = true,
     .set = {{"expert_shared_feed_forward_length", 'u', MADE_F_SHARED, NULL}}},
    {.arch = "lfm2"},
    {.arch = "deci"},
    {.arch = "granitehybrid"},
    {.arch = "kimi-linear", .experts = true},
    {.arch = "bailingmoe3", .experts = true},
    {.arch = "falcon-h1"},
    {.arch = "nemotron_h"},
    {.arch = "qwen4exp", .experts = true, .grams = true},
    {.arch = "gemma3n", .borrows = true},
    {.arch = "deepseek4", .experts = true, .by_token = true},
    {.arch = "nemotron_h_moe",
     .experts = true,
     .shared = true,
     .small = true,
     .set = {{"expert_shared_feed_forward_length", 'u', MADE_F_SHARED, NULL}}},
    {.arch = "deepseek2", .two_step_q = true},
    {.arch = "deepseek32", .experts = true, .two_step_q = true},
    {.arch = "hy_v4", .experts = true, .two_step_q = true, .shares_choice = true},
    {.arch = "minimax-m3", .experts = true},
    {.arch = "minimax-01", .experts = true},
};

static void check_merged(const struct made *kind)
{
    struct made with = *kind;
    const struct lie no = {0};
    struct hearth_gguf *g = NULL;
    with.add = merged_matrices;
    made_write(base_path, kind);
    OK(hearth_gguf_open(&g, base_path, &err));
    with_table = hearth_gguf_tensor(g, "output.weight") != NULL;
    hearth_gguf_close(&g);
    made_write(merged_path, &with);
    write_adapter(one_path, base_path, &first, &no);
    write_adapter(two_path, base_path, &second, &no);
    const struct hearth_adapter both[] = {{one_path, first.scale}, {two_path, second.scale}};
    float *plain = logits_of(base_path, NULL, 0), *want = logits_of(merged_path, NULL, 0),
          *got = logits_of(base_path, both, 2);
    const size_t n = (size_t)N_ROWS * MADE_VOCAB;
    const double apart = relative(got, want, n), changed = relative(plain, want, n);
    printf("%-14s relative L2 %.2e of the merged model, which is %.2f off the plain one\n", kind->arch, apart,
           changed);
    assert_true(changed > 0.2);
    assert_true(apart < 1e-4); // keys and values are rounded to 11 bits
    free(plain);
    free(want);
    free(got);
}

static void test_merged(void **state)
{
    (void)state;
    name_files();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        check_merged(&kinds[i]);
}

// Formats of the adapter: F16 keeps its numbers, Q8_0 becomes F32.
static void test_formats(void **state)
{
    (void)state;
    name_files();
    const struct made kind = {.arch = "qwen3"};
    const struct lie no = {0};
    made_write(base_path, &kind);
    struct lora plain = {"one", 32, 32.0f, 0.1f, HEARTH_TYPE_F32, HEARTH_TYPE_F32}, other = plain;
    const uint32_t types[] = {HEARTH_TYPE_F16, HEARTH_TYPE_BF16, HEARTH_TYPE_Q8_0};
    const double most[] = {1e-3, 1e-2, 3e-2};
    write_adapter(one_path, base_path, &plain, &(struct lie){.only = "attn_output"});
    const struct hearth_adapter one = {one_path, plain.scale}, two = {two_path, plain.scale};
    float *want = logits_of(base_path, &one, 1);
    for (int i = 0; i < 3; i++) {
        other.type_a = other.type_b = types[i];
        write_adapter(two_path, base_path, &other, &(struct lie){.only = "attn_q.weight"});
        write_adapter(two_path, base_path, &other, i == 2 ? &(struct lie){.only = "attn_output"} : &no);
        struct hearth_model *m = NULL;
        struct hearth_model_params p = hearth_model_params_default();
        p.adapters = &two;
        p.n_adapters = 1;
        OK(hearth_model_open(&m, base_path, &p, &err));
        const struct hearth_layer *l = &m->weights.layers[0];
        assert_true(hearth_layer_is_changed(l));
        const struct hearth_change *c = l->attn_out.change;
        assert_non_null(c);
        assert_int_equal(c->a.type, i == 2 ? HEARTH_TYPE_F32 : types[i]);
        hearth_model_close(&m);
    }
    for (int i = 0; i < 3; i++) {
        other.type_a = other.type_b = types[i];
        write_adapter(one_path, base_path, &plain, &(struct lie){.only = "attn_output"});
        write_adapter(two_path, base_path, &other, &(struct lie){.only = "attn_output"});
        float *exact = logits_of(base_path, &one, 1), *got = logits_of(base_path, &two, 1);
        const double apart = relative(got, exact, (size_t)N_ROWS * MADE_VOCAB);
        assert_true(apart > 0 && apart < most[i]);
        free(exact);
        free(got);
    }
    free(want);
}

// ---- against the reference

#define ADAPTERS HEARTH_SOURCE_DIR "/tests/golden/adapters/"

static void check_golden(const char *name, const struct hearth_adapter *adapters, size_t n_adapters)
{
    struct golden g = {0};
    char path[512];
    snprintf(path, sizeof path, ADAPTERS "%s.logits", name);
    assert_true(golden_read_logits(&g, path));
    snprintf(path, sizeof path, GOLDEN_MODELS "%s.Q8_0.gguf", name);
    struct hearth_model *m = NULL;
    struct hearth_session *s = NULL;
    struct hearth_model_params model = hearth_model_params_default();
    struct hearth_session_params session = hearth_session_params_default();
    model.adapters = adapters;
    model.n_adapters = n_adapters;
    session.type_k = session.type_v = HEARTH_KV_F32;
    session.n_threads = 2;
    OK(hearth_model_open(&m, path, &model, &err));
    OK(hearth_session_open(&s, m, &session, &err));
    const size_t n = (size_t)g.n_tokens * g.n_vocab;
    float *out = malloc(n * sizeof *out);
    for (int phase = 0; phase < 2; phase++) {
        const int seq = hearth_seq_new(s, &err);
        struct rows rows = {out, (int)g.n_vocab};
        if (phase == HEARTH_PHASE_PROMPT)
            OK(hearth_prompt(s, seq, g.ids, (int)g.n_tokens, take_row, &rows, &err));
        for (uint32_t i = 0; i < g.n_tokens && phase == HEARTH_PHASE_STEP; i++) {
            OK(hearth_step(s, &seq, &g.ids[i], 1, &err));
            take_row(&rows, 0, hearth_logits(s, 0));
        }
        hearth_seq_free(s, seq);
        const double apart = relative(out, g.original, n);
        printf("%-14s %-6s relative L2 %.2e of the reference\n", name, phase ? "step" : "prompt", apart);
        assert_true(apart < 1e-3);
    }
    free(out);
    hearth_session_close(&s);
    hearth_model_close(&m);
    golden_free(&g);
}

static void test_golden(void **state)
{
    (void)state;
    const struct hearth_adapter both[] = {{ADAPTERS "qwen3-all.gguf", 0.75f},
                                          {ADAPTERS "qwen3-some.gguf", 0.5f}},
                                experts = {ADAPTERS "qwen3moe.gguf", 0.5f};
    check_golden("qwen3", both, 2);
    check_golden("qwen3moe", &experts, 1);
}

// ---- the same bits

static void test_budgets(void **state)
{
    (void)state;
    name_files();
    const struct made models[] = {kinds[0], kinds[1]};
    const struct lie no = {0};
    for (int i = 0; i < 2; i++) {
        made_write(base_path, &models[i]);
        write_adapter(one_path, base_path, &first, &no);
        write_adapter(two_path, base_path, &second, &no);
        const struct hearth_adapter both[] = {{one_path, first.scale}, {two_path, second.scale}};
        float *want = logits_of(base_path, both, 2);
        struct way way = {.adapters = both, .n_adapters = 2, .tests = {SMALL, .always = true}};
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            uint64_t least, most;
            way.n_threads = n_threads;
            find_budgets_of(base_path, way, &least, &most);
            for (int eighth = 0; eighth <= 8; eighth += 4) {
                way.ram = least + (most - least) * (uint64_t)eighth / 8;
                way.io = eighth % 8 ? NULL : "pread";
                check_way(base_path, &way, want);
            }
            way.ram = 0;
            way.io = NULL;
        }
        free(want);
    }
}

// A scale of 0 is none, and leaves a model the bits that it has without; so do adapters' order and budget.
static void test_nothing(void **state)
{
    (void)state;
    name_files();
    const struct lie no = {0};
    made_write(base_path, &kinds[0]);
    write_adapter(one_path, base_path, &first, &no);
    const struct hearth_adapter off = {one_path, 0.0f};
    float *want = logits_of(base_path, NULL, 0), *got = logits_of(base_path, &off, 1);
    assert_same(got, want, MADE_VOCAB, "scale 0");
    free(want);
    free(got);
}

// The table and the head of tied models have the same numbers; changes are of the table alone.
static float tied_value(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    const bool table = is_embedding(tensor) || !strcmp(tensor, "output.weight");
    return table ? number_at("table", 't', 0, row, column) : usual;
}

static void test_tied(void **state)
{
    (void)state;
    name_files();
    const struct made tied = {.arch = "llama", .without = "output.weight", .value = tied_value},
                      untied = {.arch = "llama", .value = tied_value};
    made_write(base_path, &tied);
    made_write(merged_path, &untied);
    write_adapter(one_path, base_path, &first, &(struct lie){.only = "token_embd"});
    const struct hearth_adapter one = {one_path, first.scale};
    float *got = logits_of(base_path, &one, 1), *want = logits_of(merged_path, &one, 1);
    assert_same(got, want, MADE_VOCAB, "tied");
    free(got);
    free(want);
}

// ---- sequences in files know the adapters

static void test_files(void **state)
{
    (void)state;
    name_files();
    const struct lie no = {0};
    made_write(base_path, &kinds[0]);
    write_adapter(one_path, base_path, &first, &no);
    char file[256];
    snprintf(file, sizeof file, "%s", in_folder("seq.kv"));
    const struct hearth_adapter scales[] = {{one_path, 0.25f}, {one_path, 0.5f}};
    const hearth_token tokens[] = {5, 6, 7};
    for (int i = 0; i < 4; i++) { // saved with the first; loaded with it, with another scale, without
        const struct hearth_adapter *a = i == 3 ? NULL : &scales[i == 2];
        struct opened o =
            open_way(base_path, &(struct way){.n_threads = 1, .adapters = a, .n_adapters = a != NULL});
        if (!i) {
            assert_int_equal(hearth_seq_new(o.session, &err), 0);
            OK(hearth_prompt(o.session, 0, tokens, 3, NULL, NULL, &err));
            OK(hearth_seq_save(o.session, 0, file, &err));
        } else if (i == 1)
            assert_int_equal(hearth_seq_load(o.session, file, &err), 0);
        else
            REFUSED(hearth_seq_load(o.session, file, &check_error), HEARTH_E_INVALID,
                    "saved with another model");
        close_opened(&o);
    }
}

// ---- refusals

static void refuse(const struct lie *lie, int code, const char *words)
{
    struct hearth_model *m = NULL;
    struct hearth_model_params p = hearth_model_params_default();
    write_adapter(one_path, base_path, &first, lie);
    const struct hearth_adapter one = {one_path, 1.0f};
    p.adapters = &one;
    p.n_adapters = 1;
    REFUSED(hearth_model_open(&m, base_path, &p, &check_error), code, words);
    assert_null(m);
}

static void test_refusals(void **state)
{
    (void)state;
    name_files();
    made_write(base_path, &kinds[0]);
    refuse(&(struct lie){.type = "model"}, HEARTH_E_FORMAT, "general.type is \"model\"");
    refuse(&(struct lie){.type = ""}, HEARTH_E_FORMAT, "no LoRA adapter");
    refuse(&(struct lie){.adapter = "ia3"}, HEARTH_E_FORMAT, "adapter.type is \"ia3\"");
    refuse(&(struct lie){.arch = "qwen3"}, HEARTH_E_INVALID, "architecture \"qwen3\"");
    refuse(&(struct lie){.alora = true}, HEARTH_E_UNSUPPORTED, "behind certain tokens");
    refuse(&(struct lie){.rename = "blk.1.attn_q.weight.lora_a"}, HEARTH_E_FORMAT,
           "blk.1.attn_q.weight.lora_b has no blk.1.attn_q.weight.lora_a");
    refuse(&(struct lie){.rename = "blk.1.attn_q.weight.lora_b"}, HEARTH_E_FORMAT, "lora_b beside it");
    refuse(&(struct lie){.rename = "blk.1.attn_q.weight.lora_a", .to = "blk.1.attn_q.weight"},
           HEARTH_E_UNSUPPORTED, "neither lora_a nor lora_b");
    refuse(&(struct lie){.wider = "blk.0.ffn_up.weight.lora_a"}, HEARTH_E_INVALID,
           "changes blk.0.ffn_up.weight as 33 x 48 x 1, and in");
    refuse(&(struct lie){.wider = "blk.0.ffn_up.weight.lora_b"}, HEARTH_E_FORMAT, "has rank 3");
    refuse(&(struct lie){.only = "attn_norm"}, HEARTH_E_UNSUPPORTED, "it is no matrix");
    refuse(&(struct lie){.only = "nothing"}, HEARTH_E_FORMAT, "empty");

    // A layer more than the model has.
    made_write(merged_path, &(struct made){.arch = "llama", .extra = "blk.7.attn_q.weight"});
    write_adapter(one_path, merged_path, &first, &(struct lie){.only = "blk.7"});
    struct hearth_model *m = NULL;
    struct hearth_model_params p = hearth_model_params_default();
    struct hearth_adapter one = {one_path, 1.0f};
    p.adapters = &one;
    p.n_adapters = 1;
    REFUSED(hearth_model_open(&m, base_path, &p, &check_error), HEARTH_E_INVALID,
            "blk.7.attn_q.weight, which there is none of in");

    // Scales, and files that are none.
    write_adapter(one_path, base_path, &first, &(struct lie){0});
    const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        one.scale = wrong[i];
        REFUSED(hearth_model_open(&m, base_path, &p, &check_error), HEARTH_E_INVALID, "finite number");
    }
    one.scale = 3e38f; // times an alpha of 6
    REFUSED(hearth_model_open(&m, base_path, &p, &check_error), HEARTH_E_INVALID, "is no number");
    one = (struct hearth_adapter){in_folder("none.gguf"), 1.0f};
    REFUSED(hearth_model_open(&m, base_path, &p, &check_error), HEARTH_E_IO, "none.gguf");
    one.path = base_path;
    REFUSED(hearth_model_open(&m, base_path, &p, &check_error), HEARTH_E_FORMAT, "no LoRA adapter");

    // Feed-forward parts that are computed neuron by neuron.
    made_write(base_path, &(struct made){.arch = "bamboo", .by_neuron = true, .predictors = true});
    refuse(&(struct lie){.only = "ffn_up"}, HEARTH_E_UNSUPPORTED, "neuron by neuron");
    refuse(&(struct lie){.only = "ffn_down_t"}, HEARTH_E_UNSUPPORTED, "neuron by neuron");
    // Experts that are separate matrices.
    made_write(base_path, &(struct made){.arch = "llama", .experts = true, .split_experts = true});
    refuse(&(struct lie){.only = "ffn_up.0."}, HEARTH_E_UNSUPPORTED, "experts are matrices of their own");
    refuse(&(struct lie){.only = "ffn_down.5."}, HEARTH_E_UNSUPPORTED, "experts are matrices of their own");
    made_write(base_path, &(struct made){.arch = "deepseek2"});
    refuse(&(struct lie){.only = "attn_k_b"}, HEARTH_E_UNSUPPORTED, "head by head");
}

// ---- on devices: the same bits, with some of the layers there and all, and several adapters; one that fails

static void check_devices(const struct made *kind, bool fails)
{
    const struct lie no = {0};
    made_write(base_path, kind);
    write_adapter(one_path, base_path, &first, &no);
    write_adapter(two_path, base_path, &second, &no);
    const struct hearth_adapter both[] = {{one_path, first.scale}, {two_path, second.scale}};
    struct way way = {.adapters = both, .n_adapters = 2, .n_threads = 2};
    float *want = evaluate_alone(base_path, &way);
    way.device = "0";
    struct opened o = open_way(base_path, &way);
    const uint64_t all = device_stats_of(&o).bytes;
    const bool experts = o.model->hp.n_expert != 0;
    const int n_layer = o.model->hp.n_layer, n = device_stats_of(&o).layers + device_stats_of(&o).attention;
    printf("%-14s %d of %d layers%s\n", kind->arch, n, n_layer,
           experts && device_stats_of(&o).layers ? ", whole ones" : "");
    assert_true(without_experts || !device_stats_of(&o).experts); // which the adapters change
    check_logits(&o, want, "adapters on a device");
    assert_true(device_stats_of(&o).works && (n == 0 || device_stats_of(&o).tokens));
    close_opened(&o);
    for (uint64_t eighths = 2; eighths < 8; eighths += SANITIZED ? 4 : 2) {
        way.vram = all / 8 * eighths;
        o = open_way(base_path, &way);
        assert_true(device_stats_of(&o).bytes <= way.vram);
        check_logits(&o, want, "adapters on a device with less memory");
        close_opened(&o);
    }
    way.vram = 0;
    for (long at = 1; at < 2000 && fails; at = SANITIZED ? at * 9 : at < 12 ? at + 1 : at * 3) {
        o = open_way(base_path, &way);
        hearth_accel_fail_at(o.session->offload->a, at);
        check_logits(&o, want, "adapters on a device that fails");
        close_opened(&o);
    }
    way.device = "0,0";
    o = open_way(base_path, &way);
    check_logits(&o, want, "adapters on two devices");
    close_opened(&o);
    if (!experts || fails) {
        way.device = NULL;
        let_stream(base_path, &way);
        way.device = "0";
        o = open_way(base_path, &way);
        check_logits(&o, want, "adapters on a device, and weights that stream");
        close_opened(&o);
    }
    free(want);
}

static void test_devices(void **state)
{
    (void)state;
    need_device();
    name_files();
    with_table = false; // the head may be there
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i += SANITIZED ? 4 : 1)
        check_devices(&kinds[i], i < 2 || i == 13);
    without_experts = true; // so that devices may have them, and layers whole
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i += SANITIZED ? 3 : 1)
        if (kinds[i].experts)
            check_devices(&kinds[i], i == 13);
    without_experts = false;
}

// While it is opened, with every allocation of adapters there: layers whose A or B have no room are the CPU's.
static void test_devices_open(void **state)
{
    (void)state;
    need_device();
    name_files();
    const struct lie no = {0};
    made_write(base_path, &kinds[0]);
    write_adapter(one_path, base_path, &first, &no);
    const struct hearth_adapter one[] = {{one_path, first.scale}};
    struct way way = {.adapters = one, .n_adapters = 1, .n_threads = 1};
    float *want = evaluate_alone(base_path, &way);
    int most = 0;
    for (long at = 1; at < 3000; at = at * 3 / 2 + 1) {
        struct opened o = open_way(base_path, &way);
        struct hearth_offload_params params = {.device = {.device = "0", .inexact = true, .fail_at = at},
                                               .layers = HEARTH_OFFLOAD_ALL};
        OK(hearth_offload_open(&o.session->offload, o.session, &params, &err));
        const int n = device_stats_of(&o).layers;
        most = n > most ? n : most;
        check_logits(&o, want, "a device that fails at first");
        close_opened(&o);
    }
    assert_true(most > 0);
    free(want);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merged),       cmocka_unit_test(test_golden),   cmocka_unit_test(test_formats),
        cmocka_unit_test(test_budgets),      cmocka_unit_test(test_nothing),  cmocka_unit_test(test_tied),
        cmocka_unit_test(test_files),        cmocka_unit_test(test_refusals), cmocka_unit_test(test_devices),
        cmocka_unit_test(test_devices_open),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_devices);
}
