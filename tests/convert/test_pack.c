// SPDX-License-Identifier: MIT
// Packs and profiles: a pack in the model's own order gives the model's logits byte for byte, one by
// temperature the same up to the order of additions; every byte is where the format says; profiles count what
// is active.
#include "check.h"

#include <fcntl.h>
#include <math.h>
#include <time.h>

#include "convert/pack.h"
#include "convert/profile.h"
#include "convert/quantize.h"
#include "convert/recipe.h"
#include "engine/session.h"
#include "made_models.h"
#include "pack_compare.h"
#include "pack_support.h"

struct sample {
    const char *label;
    struct made made;
    int type; // enum hearth_type that it is converted to; -1: stays in F32
};

#define RELU                                                                                                 \
    {                                                                                                        \
        "feed_forward.activation", 's', 0, "relu"                                                            \
    }
#define DRELU                                                                                                \
    {                                                                                                        \
        "feed_forward.activation", 's', 0, "drelu"                                                           \
    }

#define JUMP_RELU                                                                                            \
    {                                                                                                        \
        "feed_forward.activation", 's', 0, "jump_relu"                                                       \
    }

// Whose down is by neuron: packing keeps every bit.
static const struct sample by_neuron[] = {
    {"llama", {.arch = "llama", .by_neuron = true, .set = {DRELU}}, -1},
    {"llama, predictors",
     {.arch = "llama", .by_neuron = true, .predictors = true, .optional = true, .set = {RELU}},
     -1},
    {"llama Q8_0", {.arch = "llama", .by_neuron = true, .predictors = true, .set = {RELU}}, HEARTH_TYPE_Q8_0},
    {"bamboo Q4_0", {.arch = "bamboo", .by_neuron = true}, HEARTH_TYPE_Q4_0},
    {"falcon F16", {.arch = "falcon", .by_neuron = true, .set = {RELU}}, HEARTH_TYPE_F16},
    {"opt", {.arch = "opt", .by_neuron = true, .predictors = true}, -1},
    {"silu", {.arch = "llama", .by_neuron = true}, -1},
    {"jump, predictors",
     {.arch = "llama",
      .optional = true,
      .jump = true,
      .by_neuron = true,
      .predictors = true,
      .set = {JUMP_RELU}},
     -1},
    {"jump Q8_0", {.arch = "qwen3", .jump = true, .by_neuron = true, .set = {JUMP_RELU}}, HEARTH_TYPE_Q8_0},
    {"experts", {.arch = "llama", .experts = true, .by_neuron = true, .predictors = true, .set = {RELU}}, -1},
    {"gate and up in one matrix", {.arch = "phi3", .by_neuron = true, .set = {RELU}}, -1},
    {"layers of two kinds",
     {.arch = "gemma4", .optional = true, .gives = true, .by_neuron = true, .set = {RELU}},
     -1},
    {"layers of two widths",
     {.arch = "gemma4", .gives = true, .borrows = true, .two_widths = true, .by_neuron = true, .set = {RELU}},
     -1},
    {"experts beside a dense part",
     {.arch = "gemma4", .experts = true, .shared = true, .optional = true, .by_neuron = true, .set = {RELU}},
     HEARTH_TYPE_Q8_0},
    {"experts with gate and up in one tensor",
     {.arch = "gemma4", .experts = true, .shared = true, .fused = true, .by_neuron = true, .set = {RELU}},
     -1},
    {"experts Q8_0",
     {.arch = "qwen3moe", .experts = true, .by_neuron = true, .set = {RELU}},
     HEARTH_TYPE_Q8_0},
};
// Whose down is the usual way round: plain numbers are turned and keep their bits, blocks are made again.
static const struct sample in_columns[] = {
    {"llama", {.arch = "llama", .set = {DRELU}}, -1},
    {"llama BF16", {.arch = "llama", .optional = true, .set = {RELU}}, HEARTH_TYPE_BF16},
    {"opt F16", {.arch = "opt"}, HEARTH_TYPE_F16},
    {"phi3 F16", {.arch = "phi3", .set = {RELU}}, HEARTH_TYPE_F16},
    {"gemma4, layers of two widths",
     {.arch = "gemma4", .gives = true, .borrows = true, .two_widths = true, .set = {RELU}},
     HEARTH_TYPE_F16},
    {"gemma4 experts", {.arch = "gemma4", .experts = true, .shared = true, .fused = true, .set = {RELU}}, -1},
    {"split experts", {.arch = "llama", .experts = true, .split_experts = true, .set = {RELU}}, -1},
};
#define N_BY_NEURON  (sizeof by_neuron / sizeof *by_neuron)
#define N_IN_COLUMNS (sizeof in_columns / sizeof *in_columns)

static char source[512], packed[512], other[512], profiled[512];

static void make_source(const struct sample *s)
{
    struct hearth_error err;
    if (s->type < 0) {
        made_write(source, &s->made);
        return;
    }
    const struct hearth_quantize_params params = {
        .recipe = hearth_recipe_by_name(hearth_type_info((uint32_t)s->type)->name),
        .pure = true,
        .n_threads = 1};
    made_write(other, &s->made);
    MADE_OK(hearth_quantize(other, source, &params, NULL, &err));
    unlink(other);
}

static void pack_to(const char *out, const char *profile, size_t memory)
{
    struct hearth_error err = {0};
    const struct hearth_pack_params params = {.profile = profile, .memory = memory, .n_threads = 2};
    if (hearth_pack_write(source, out, &params, NULL, &err))
        fail_msg("%s", err.message);
}

// ---- identity

static void test_identity(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_BY_NEURON; i++) {
        make_source(&by_neuron[i]);
        pack_to(packed, NULL, 0);
        struct hearth_model *a = open_model(source, false), *b = open_model(packed, true);
        assert_null(a->pack);
        assert_non_null(b->pack);
        assert_null(b->pack->down_from);
        assert_int_equal(a->info.n_params, b->info.n_params);
        assert_string_equal(a->info.type, b->info.type);
        compare_models(by_neuron[i].label, a, b, 0);
        hearth_model_close(&a);
        hearth_model_close(&b);
    }
}

// Gates apart: the same logits; models without gates or with experts are refused.
static void test_gates_apart(void **state)
{
    (void)state;
    struct hearth_error err;
    const struct hearth_pack_params params = {.gates_apart = true, .n_threads = 2};
    for (size_t i = 0; i < N_BY_NEURON; i++) {
        const bool gated = strcmp(by_neuron[i].made.arch, "falcon") && strcmp(by_neuron[i].made.arch, "opt"),
                   joint = !strcmp(by_neuron[i].made.arch, "phi3");
        make_source(&by_neuron[i]);
        unlink(packed);
        if (!gated || joint || by_neuron[i].made.experts) {
            assert_int_equal(hearth_pack_write(source, packed, &params, NULL, &err), HEARTH_E_UNSUPPORTED);
            assert_non_null(strstr(err.message, joint ? "one matrix" : gated ? "experts" : "no gates"));
            assert_int_not_equal(access(packed, F_OK), 0);
            continue;
        }
        MADE_OK(hearth_pack_write(source, packed, &params, NULL, &err));
        struct hearth_model *a = open_model(source, false), *b = open_model(packed, true);
        assert_true(b->pack->gates_apart && !b->pack->gated);
        assert_int_equal(a->info.n_params, b->info.n_params);
        compare_models(by_neuron[i].label, a, b, 0);
        hearth_model_close(&a);
        hearth_model_close(&b);
    }
}

// Layers that guess tokens ahead are taken along, without bundles.
static void test_extra_layers(void **state)
{
    (void)state;
    struct made made = {
        .arch = "qwen35",
        .by_neuron = true,
        .extra = "blk.2.nextn.enorm.weight",
        .set = {RELU, {"block_count", 'u', MADE_LAYERS + 1, NULL}, {"nextn_predict_layers", 'u', 1, NULL}}};
    struct hearth_error err;
    made_write(source, &made);
    pack_to(packed, NULL, 0);
    struct hearth_model *a = open_model(source, false), *b = open_model(packed, true);
    assert_int_equal(b->pack->n_layer, MADE_LAYERS);
    assert_non_null(hearth_gguf_tensor(b->gguf, made.extra));
    compare_models("a layer that guesses ahead", a, b, 0);
    hearth_model_close(&a);
    hearth_model_close(&b);

    // As many as there are layers.
    static const char key[] = "qwen35.nextn_predict_layers";
    struct file_bytes f = read_whole(packed);
    uint8_t *at = f.p;
    while (memcmp(at, key, sizeof key - 1) != 0)
        at++;
    at[sizeof key - 1 + 4] = MADE_LAYERS + 1; // behind the value's type
    write_whole(packed, f.p, f.n);
    free(f.p);
    struct hearth_gguf *g = NULL;
    struct hearth_pack *pack = NULL;
    MADE_OK(hearth_gguf_open(&g, packed, &err));
    assert_int_equal(hearth_pack_open(&pack, g, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "guess tokens ahead"));
    assert_null(pack);
    hearth_gguf_close(&g);
}

// What bundles cannot hold is refused by name.
static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        struct made made;
        const char *says;
    } cases[] = {{{.arch = "glm4moe",
                   .experts = true,
                   .leading = true,
                   .set = {{"leading_dense_block_count", 'u', 1, NULL}}},
                  "first layers have no experts"},
                 {{.arch = "deepseek2", .experts = true}, "packs of architecture deepseek2"},
                 {{.arch = "gpt-oss", .experts = true, .set = {{"attention.sliding_window", 'u', 70, NULL}}},
                  "experts have biases"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hearth_error err = {0};
        made_write(source, &cases[i].made);
        assert_int_equal(hearth_pack_write(source, packed, &(struct hearth_pack_params){0}, NULL, &err),
                         HEARTH_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, cases[i].says));
    }
}

// Where layers differ in width, the version says so, each has bundles of its own, and a version that does not is a
// damage; gates may be apart.
static void test_widths(void **state)
{
    (void)state;
    static const char key[] = "hearth.pack.version";
    const struct made made = {.arch = "gemma4",
                              .gives = true,
                              .borrows = true,
                              .two_widths = true,
                              .by_neuron = true,
                              .set = {RELU}};
    struct hearth_error err;
    made_write(source, &made);
    for (int apart = 0; apart < 2; apart++) {
        const struct hearth_pack_params params = {.gates_apart = apart, .n_threads = 2};
        struct hearth_pack_result result;
        unlink(packed);
        MADE_OK(hearth_pack_write(source, packed, &params, &result, &err));
        struct hearth_model *a = open_model(source, false), *b = open_model(packed, true);
        assert_true(b->pack->widths && b->pack->gates_apart == apart);
        assert_int_equal(b->pack->n_ff, 2 * MADE_F);
        assert_int_equal(b->pack->layers[0].n, MADE_F);
        assert_int_equal(b->pack->layers[1].n, 2 * MADE_F);
        assert_int_equal(result.n_neurons, MADE_F + (MADE_LAYERS - 1) * 2 * MADE_F);
        assert_int_equal(a->info.n_params, b->info.n_params);
        compare_models("two widths", a, b, 0);
        hearth_model_close(&a);
        hearth_model_close(&b);
        struct file_bytes f = read_whole(packed);
        uint8_t *at = f.p;
        while (memcmp(at, key, sizeof key - 1) != 0)
            at++;
        at += sizeof key - 1 + 4; // behind the value's type
        assert_int_equal(*at, apart ? HEARTH_PACK_VERSIONS : HEARTH_PACK_WIDTHS);
        *at = apart ? HEARTH_PACK_GATES : HEARTH_PACK_VERSION;
        write_whole(packed, f.p, f.n);
        assert_int_equal(try_model(packed, false, &b, &err), HEARTH_E_FORMAT);
        *at = HEARTH_PACK_VERSIONS + 1;
        write_whole(packed, f.p, f.n);
        assert_int_equal(try_model(packed, false, &b, &err), HEARTH_E_UNSUPPORTED);
        free(f.p);
    }
}

// Gates that are not where the version says are a damage.
static void test_wrong_version(void **state)
{
    (void)state;
    static const char key[] = "hearth.pack.version";
    struct hearth_error err;
    for (int apart = 0; apart < 2; apart++) {
        make_source(&by_neuron[0]);
        unlink(packed);
        MADE_OK(hearth_pack_write(source, packed, &(struct hearth_pack_params){.gates_apart = apart}, NULL,
                                  &err));
        struct file_bytes f = read_whole(packed);
        uint8_t *at = f.p;
        while (memcmp(at, key, sizeof key - 1) != 0)
            at++;
        at += sizeof key - 1 + 4; // behind the value's type
        assert_int_equal(*at, apart ? HEARTH_PACK_GATES : HEARTH_PACK_VERSION);
        *at = apart ? HEARTH_PACK_VERSION : HEARTH_PACK_GATES;
        write_whole(packed, f.p, f.n);
        struct hearth_model *m = NULL;
        assert_int_equal(try_model(packed, false, &m, &err), HEARTH_E_FORMAT);
        assert_null(m);
        free(f.p);
    }
}

// Buffers too small for more than a bundle, other numbers of threads: the same bytes.
static void test_bounded_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_BY_NEURON + N_IN_COLUMNS; i++) {
        make_source(i < N_BY_NEURON ? &by_neuron[i] : &in_columns[i - N_BY_NEURON]);
        pack_to(packed, NULL, 0);
        pack_to(other, NULL, 1);
        assert_same_files(packed, other);
        pack_to(other, NULL, 5000);
        assert_same_files(packed, other);
    }
}

static void pack_of(const struct hearth_pack_source *s, bool hollow)
{
    struct hearth_error err = {0};
    const struct hearth_pack_params params = {.n_threads = 1, .source = s, .hollow = hollow};
    MADE_OK(hearth_pack_write(source, packed, &params, NULL, &err));
}

static bool is_of(const struct hearth_pack_source *s)
{
    struct hearth_error err = {0};
    struct hearth_gguf *g;
    MADE_OK(hearth_gguf_open(&g, packed, &err));
    const bool yes = hearth_pack_is_of(g, s);
    hearth_gguf_close(&g);
    return yes;
}

// A pack that says of what it is: the weights are those of one that does not, and no other model has it.
static void test_source(void **state)
{
    (void)state;
    struct hearth_pack_source s, again;
    struct hearth_error err = {0};
    make_source(&by_neuron[1]);
    struct hearth_model *a = open_model(source, false);
    MADE_OK(hearth_pack_source_of(a, &s, &err));
    pack_of(NULL, false);
    assert_false(is_of(&s));
    pack_of(&s, false);
    assert_true(is_of(&s));
    struct hearth_model *b = open_model(packed, true);
    compare_models("with its source", a, b, 0);
    hearth_model_close(&a);
    hearth_model_close(&b);
    for (int i = 0; i < 2; i++) {
        struct hearth_pack_source changed = s;
        *(i == 0 ? &changed.fingerprint : &changed.bytes) += 1;
        assert_false(is_of(&changed));
    }
    make_source(&by_neuron[4]);
    a = open_model(source, false);
    MADE_OK(hearth_pack_source_of(a, &again, &err));
    hearth_model_close(&a);
    assert_true(again.fingerprint != s.fingerprint);
}

// A hollow pack is as long as a real one, takes no room, and says the same of what a budget would give.
static void test_hollow(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_BY_NEURON; i++) {
        struct stat real, hollow;
        struct hearth_fit fits[2];
        struct hearth_error err = {0};
        make_source(&by_neuron[i]);
        for (int k = 0; k < 2; k++) {
            pack_of(NULL, k);
            assert_int_equal(stat(packed, k ? &hollow : &real), 0);
            struct hearth_model_params params = hearth_model_params_default();
            params.ram = 8 << 20;
            struct hearth_model *m;
            MADE_OK(hearth_model_open(&m, packed, &params, &err));
            assert_non_null(m->pack);
            MADE_OK(hearth_model_fit(m, NULL, 0, &fits[k], sizeof fits[k], &err));
            hearth_model_close(&m);
        }
        assert_true(real.st_size >= hollow.st_size && real.st_size - hollow.st_size < 4096);
        assert_true(hollow.st_blocks <= real.st_blocks);
        assert_int_equal(fits[0].kind, fits[1].kind);
        assert_int_equal(fits[0].token_bytes, fits[1].token_bytes);
    }
}

// Element i of a row, as bytes of a plain type.
static void check_columns(const struct hearth_model *a, const struct hearth_model *b)
{
    for (int layer = 0; layer < MADE_LAYERS; layer++) {
        const struct hearth_layer *la = &a->weights.layers[layer], *lb = &b->weights.layers[layer];
        const bool exps = a->hp.n_expert != 0;
        const struct hearth_weight *down = exps ? &la->ffn_down_exps : &la->ffn_down;
        const struct hearth_weight *rows = exps ? &lb->ffn_down_t_exps : &lb->ffn_down_t;
        const size_t size = hearth_type_info(down->type)->block_bytes;
        assert_int_equal(down->type, rows->type);
        assert_true(down->k == rows->n && down->n == rows->k);
        for (int e = 0; e < (exps ? MADE_EXPERTS : 1); e++) {
            const struct hearth_weight d = hearth_expert(down, e), r = hearth_expert(rows, e);
            for (size_t i = 0; i < d.n; i++)
                for (size_t j = 0; j < d.k; j++)
                    assert_memory_equal((const uint8_t *)d.data + i * d.stride + j * size,
                                        (const uint8_t *)r.data + j * r.stride + i * size, size);
        }
    }
}

static void test_transposed(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_IN_COLUMNS; i++) {
        make_source(&in_columns[i]);
        pack_to(packed, NULL, 0);
        struct hearth_model *a = open_model(source, false), *b = open_model(packed, true);
        check_columns(a, b);
        for (int layer = 0; layer < MADE_LAYERS; layer++)
            assert_int_equal(b->pack->down_from[layer], b->pack->layers[layer].type[HEARTH_PART_DOWN]);
        // Only the order of additions differs, where the step product has 16 lanes.
        compare_models(in_columns[i].label, a, b, 1e-5);
        hearth_model_close(&a);
        hearth_model_close(&b);
    }
}

// A down in blocks becomes Q8_0, or what was asked for, of what it decodes to.
static void check_requantised(const char *down, uint32_t type)
{
    char path[600];
    snprintf(path, sizeof path, "%s/models/hearth-novels-drelu-Q8_0.gguf", HEARTH_SOURCE_DIR);
    struct hearth_error err = {0};
    struct hearth_pack_result result;
    const struct hearth_pack_params params = {.memory = 300000, .n_threads = 2, .down = down};
    MADE_OK(hearth_pack_write(path, packed, &params, &result, &err));
    assert_true(result.n_requantised == 6 && result.n_transposed == 6 && !result.ordered);
    assert_true(result.n_spaces == 6 && result.n_neurons == 6 * 768);
    assert_int_equal(result.down, type);
    struct hearth_model *a = open_model(path, false), *b = open_model(packed, true);
    const struct hearth_type_info *q8 = hearth_type_info(HEARTH_TYPE_Q8_0), *info = hearth_type_info(type);
    float row[768], column[256];
    uint8_t wanted[256 * sizeof(float)];
    for (size_t j = 0; j < 768; j += 55) {
        for (int layer = 0; layer < 6; layer += 5) {
            const struct hearth_weight *from = &a->weights.layers[layer].ffn_down,
                                       *rows = &b->weights.layers[layer].ffn_down_t;
            assert_int_equal(rows->type, type);
            for (size_t i = 0; i < 256; i++) {
                q8->decode((const uint8_t *)from->data + i * from->stride, row, 768);
                column[i] = row[j];
            }
            info->encode(column, wanted, 256);
            assert_memory_equal(wanted, (const uint8_t *)rows->data + j * rows->stride,
                                hearth_type_bytes(type, 256));
        }
    }
    hearth_model_close(&a);
    hearth_model_close(&b);
}

static void test_requantised(void **state)
{
    (void)state;
    check_requantised(NULL, HEARTH_TYPE_Q8_0);
    check_requantised("q4_0", HEARTH_TYPE_Q4_0);
    check_requantised("Q6_K", HEARTH_TYPE_Q6_K);
    check_requantised("F32", HEARTH_TYPE_F32);
    static const char *const others[] = {"Q9_0", "IQ1_S", ""};
    char path[600];
    snprintf(path, sizeof path, "%s/models/hearth-novels-drelu-Q8_0.gguf", HEARTH_SOURCE_DIR);
    for (size_t i = 0; i < 3; i++)
        REFUSED(hearth_pack_write(path, packed, &(struct hearth_pack_params){.down = others[i]}, NULL,
                                  &check_error),
                HEARTH_E_INVALID, "there is no number format");
}

// ---- profiles

enum { TEXT = 32 * 21 + 5, LANE = 21, STRETCH = 9 };

static void fill_text(hearth_token *tokens)
{
    for (int i = 0; i < TEXT; i++)
        tokens[i] = (i * i * 7 + i * 13 + 5) % MADE_VOCAB;
}

static void profile_to(const char *out)
{
    hearth_token tokens[TEXT];
    struct hearth_error err = {0};
    struct hearth_model *m = open_model(source, false);
    struct hearth_profile_result result;
    const struct hearth_profile_params params = {.n_ctx = STRETCH, .n_threads = 2};
    fill_text(tokens);
    MADE_OK(hearth_profile(m, tokens, TEXT, &params, out, &result, &err));
    assert_int_equal(result.tokens, 32 * LANE);
    assert_true(result.active > 0.05 && result.active < 0.95 && result.active_32 >= result.active);
    hearth_model_close(&m);
}

// What the counts should be, each window a prompt of its own.
struct oracle {
    int lane;
    int first;       // step of the window's first token
    uint8_t *active; // [LAYERS][EXPERTS][F][steps][lanes]
    uint8_t *used;   // [LAYERS][EXPERTS][steps][lanes]
    int n_expert, n_ff;
};

static void on_neurons(void *arg, int layer, int expert, struct hearth_row row, const float *act)
{
    struct oracle *o = arg;
    assert_int_equal(row.seq, 0);
    if (row.pos == 0) // BOS
        return;
    const int step = o->first + row.pos - 1;
    const size_t space = (size_t)(layer * o->n_expert + expert);
    o->used[(space * LANE + (size_t)step) * 32 + (size_t)o->lane] = 1;
    for (int j = 0; j < o->n_ff; j++)
        o->active[((space * (size_t)o->n_ff + (size_t)j) * LANE + (size_t)step) * 32 + (size_t)o->lane] =
            act[j] != 0;
}

static void run_oracle(struct oracle *o)
{
    hearth_token tokens[TEXT], bos = 1;
    struct hearth_error err = {0};
    struct hearth_model *m = open_model(source, false);
    struct hearth_session *s;
    struct hearth_session_params params = hearth_session_params_default();
    params.sparsity = HEARTH_SPARSITY_OFF;
    params.n_threads = 1;
    params.n_ctx = STRETCH;
    fill_text(tokens);
    MADE_OK(hearth_session_open(&s, m, &params, &err));
    hearth_session_probes(s)->on_neurons = on_neurons;
    hearth_session_probes(s)->on_neurons_arg = o;
    for (o->lane = 0; o->lane < 32; o->lane++)
        for (o->first = 0; o->first < LANE; o->first += STRETCH - 1) {
            const int n = LANE - o->first < STRETCH - 1 ? LANE - o->first : STRETCH - 1;
            const int seq = hearth_seq_new(s, &err);
            hearth_token window[STRETCH] = {bos};
            memcpy(window + 1, tokens + o->lane * LANE + o->first, (size_t)n * sizeof *window);
            MADE_OK(hearth_prompt(s, seq, window, n + 1, NULL, NULL, &err));
            hearth_seq_free(s, seq);
        }
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// Groups of `size` lanes in which at least one of a step's 32 bytes is set.
static int count_groups(const uint8_t *bytes, int size)
{
    int count = 0;
    for (int step = 0; step < LANE; step++)
        for (int first = 0; first < 32; first += size)
            count += memchr(bytes + step * 32 + first, 1, (size_t)size) != NULL;
    return count;
}

// Of the neurons that a lane has active, those that it had active when it last used the space in the same
// stretch.
static double count_repeats(const struct oracle *o)
{
    double again = 0, compared = 0;
    for (size_t space = 0; space < (size_t)(MADE_LAYERS * o->n_expert); space++)
        for (size_t lane = 0; lane < 32; lane++) {
            int last = -1;
            for (int step = 0; step < LANE; step++) {
                last = step % (STRETCH - 1) ? last : -1;
                if (!o->used[(space * LANE + (size_t)step) * 32 + lane])
                    continue;
                const uint8_t *active = o->active + space * (size_t)o->n_ff * LANE * 32 + lane;
                for (size_t j = 0; j < (size_t)o->n_ff && last >= 0; j++) {
                    const uint8_t now = active[(j * LANE + (size_t)step) * 32];
                    compared += now;
                    again += now && active[(j * LANE + (size_t)last) * 32];
                }
                last = step;
            }
        }
    return again / compared;
}

static void check_profile(const struct oracle *o)
{
    struct hearth_profile *p;
    struct hearth_error err = {0};
    int32_t *counts = calloc((size_t)(6 * o->n_expert * o->n_ff), sizeof *counts);
    int32_t *visits = calloc((size_t)(6 * o->n_expert), sizeof *visits);
    MADE_OK(hearth_profile_open(&p, profiled, &err));
    assert_true(p->n_layer == MADE_LAYERS && p->n_ff == (uint32_t)o->n_ff && p->n_batches == 6);
    assert_true(fabs((double)p->repeats - count_repeats(o)) < 1e-6);
    for (int layer = 0; layer < MADE_LAYERS; layer++) {
        MADE_OK(hearth_profile_read(p, (uint32_t)layer, counts, visits, &err));
        for (int b = 0; b < 6; b++)
            for (int e = 0; e < o->n_expert; e++) {
                const size_t space = (size_t)(layer * o->n_expert + e);
                assert_int_equal(p->batches[b], 1 << b);
                assert_int_equal(visits[b * o->n_expert + e],
                                 count_groups(o->used + space * LANE * 32, 1 << b));
                for (int j = 0; j < o->n_ff; j++)
                    assert_int_equal(
                        counts[(b * o->n_expert + e) * o->n_ff + j],
                        count_groups(o->active + (space * (size_t)o->n_ff + (size_t)j) * LANE * 32, 1 << b));
            }
    }
    hearth_profile_close(&p);
    free(counts);
    free(visits);
}

static void test_profile(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        {"columns", {.arch = "llama", .set = {DRELU}}, -1},
        {"rows", {.arch = "bamboo", .by_neuron = true, .predictors = true}, -1},
        {"no gate", {.arch = "opt"}, -1},
        {"experts", {.arch = "llama", .experts = true, .by_neuron = true, .set = {RELU}}, -1},
        {"experts, columns", {.arch = "llama", .experts = true, .set = {RELU}}, -1},
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct oracle o = {.n_expert = samples[i].made.experts ? MADE_EXPERTS : 1,
                           .n_ff = samples[i].made.experts ? MADE_F_EXP : MADE_F};
        const size_t spaces = (size_t)(MADE_LAYERS * o.n_expert);
        o.active = calloc(spaces * (size_t)o.n_ff, LANE * 32);
        o.used = calloc(spaces, LANE * 32);
        make_source(&samples[i]);
        profile_to(profiled);
        run_oracle(&o);
        check_profile(&o);
        free(o.active);
        free(o.used);
    }
}

static void test_profile_refuses(void **state)
{
    (void)state;
    hearth_token tokens[TEXT];
    struct hearth_error err = {0};
    struct hearth_profile_params params = {.n_threads = 1};
    const struct sample silu = {"silu", {.arch = "llama"}, -1};
    fill_text(tokens);
    make_source(&silu);
    struct hearth_model *m = open_model(source, false);
    assert_int_equal(hearth_profile(m, tokens, TEXT, &params, other, NULL, &err), HEARTH_E_INVALID);
    assert_string_equal(err.param, "sparsity_share");
    assert_null(strstr(err.message, err.param)); // the program names its own option
    // With a threshold it can be done; a short text cannot.
    params.sparsity_threshold = 0.1f;
    struct hearth_profile_result result;
    MADE_OK(hearth_profile(m, tokens, TEXT, &params, other, &result, &err));
    assert_true(result.active > 0.05 && result.active < 0.95);
    assert_int_equal(hearth_profile(m, tokens, 63, &params, other, NULL, &err), HEARTH_E_INVALID);
    m->hp.n_pos = 1; // with BOS no token has room
    assert_int_equal(hearth_profile(m, tokens, TEXT, &params, profiled, NULL, &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "one position"));
    hearth_model_close(&m);
    // Of a pack; and of another model.
    pack_to(packed, NULL, 0);
    m = open_model(packed, false);
    assert_int_equal(hearth_profile(m, tokens, TEXT, &params, profiled, NULL, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "pack"));
    hearth_model_close(&m);
    const struct sample experts = {"experts", {.arch = "llama", .experts = true}, -1};
    make_source(&experts);
    const struct hearth_pack_params pack = {.profile = other, .n_threads = 1};
    assert_int_equal(hearth_pack_write(source, packed, &pack, NULL, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "make one of this model"));
    const struct hearth_pack_params no_profile = {.profile = source, .n_threads = 1};
    assert_int_equal(hearth_pack_write(source, packed, &no_profile, NULL, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "not a profile"));
}

// ---- thresholds by share

struct share_count {
    size_t f;
    uint64_t active, all;
};

static void count_active(void *arg, int layer, int expert, struct hearth_row row, const float *act)
{
    (void)layer;
    (void)expert;
    (void)row;
    struct share_count *c = arg;
    for (size_t j = 0; j < c->f; j++)
        c->active += act[j] != 0.0f;
    c->all += c->f;
}

// Runs the text as the profile did, so that the share comes out as asked for.
static double active_share(const struct hearth_model *m, const hearth_token *tokens, float share)
{
    struct hearth_session_params sp = hearth_session_params_default();
    struct hearth_session *s = NULL;
    struct hearth_error err = {0};
    struct share_count c = {.f = (size_t)(m->hp.n_expert ? m->hp.n_ff_exp : m->hp.n_ff)};
    sp.n_threads = 2;
    sp.n_ctx = TEXT;
    sp.sparsity_share = share;
    MADE_OK(hearth_session_open(&s, m, &sp, &err));
    hearth_session_probes(s)->on_neurons = count_active;
    hearth_session_probes(s)->on_neurons_arg = &c;
    int seq = hearth_seq_new(s, NULL);
    for (int i = 0; i < TEXT; i++)
        MADE_OK(hearth_step(s, &seq, &tokens[i], 1, &err));
    hearth_session_close(&s);
    return (double)c.active / (double)c.all;
}

static void test_shares(void **state)
{
    (void)state;
    const struct sample samples[] = {{"silu", {.arch = "llama"}, -1},
                                     {"experts", {.arch = "llama", .experts = true}, -1}};
    hearth_token tokens[TEXT];
    struct hearth_error err = {0};
    fill_text(tokens);
    for (size_t i = 0; i < 2; i++) {
        make_source(&samples[i]);
        struct hearth_model *m = open_model(source, false);
        struct hearth_profile_params params = {.n_threads = 2, .sparsity_share = 0.4f};
        struct hearth_profile_result result;
        MADE_OK(hearth_profile(m, tokens, TEXT, &params, profiled, &result, &err));
        // Percentiles are exact to the width of a bin, and the share to that of a neuron.
        assert_true(fabs(result.active - 0.6) < 0.03);
        params.sparsity_share = 1.0f;
        assert_int_equal(hearth_profile(m, tokens, TEXT, &params, other, NULL, &err), HEARTH_E_INVALID);

        // The model itself has no magnitudes, its pack does.
        struct hearth_session_params sp = hearth_session_params_default();
        struct hearth_session *s = NULL;
        sp.sparsity_share = 0.4f;
        assert_null(m->magnitudes);
        assert_int_equal(hearth_session_open(&s, m, &sp, &err), HEARTH_E_INVALID);
        hearth_model_close(&m);
        const struct hearth_pack_params pack = {.profile = profiled, .n_threads = 1};
        MADE_OK(hearth_pack_write(source, packed, &pack, NULL, &err));
        m = open_model(packed, false);
        assert_non_null(m->magnitudes);
        for (int k = 1; k < m->hp.n_layer * HEARTH_MAGNITUDES; k++)
            assert_true(k % HEARTH_MAGNITUDES == 0 || m->magnitudes[k] >= m->magnitudes[k - 1]);
        const double none = active_share(m, tokens, 0.0f), some = active_share(m, tokens, 0.4f),
                     most = active_share(m, tokens, 0.9f);
        assert_true(none > 0.99);
        assert_true(fabs(some - 0.6) < 0.1);
        assert_true(fabs(most - 0.1) < 0.1);
        sp.sparsity_share = 1.0f;
        assert_int_equal(hearth_session_open(&s, m, &sp, &err), HEARTH_E_INVALID);
        hearth_model_close(&m);
    }
    // Nothing to share out where the activation decides.
    const struct sample relu = {"relu", {.arch = "bamboo"}, -1};
    make_source(&relu);
    struct hearth_model *m = open_model(source, false);
    struct hearth_profile_params params = {.n_threads = 1, .sparsity_share = 0.4f};
    assert_int_equal(hearth_profile(m, tokens, TEXT, &params, other, NULL, &err), HEARTH_E_INVALID);
    hearth_model_close(&m);
}

// ---- temperature

static void check_rows(const struct hearth_model *a, const struct hearth_model *b, int layer, int e,
                       const int32_t *order)
{
    const bool exps = a->hp.n_expert != 0;
    const struct hearth_layer *la = &a->weights.layers[layer], *lb = &b->weights.layers[layer];
    const struct hearth_weight *from[] = {
        exps ? &la->ffn_gate_exps : &la->ffn_gate, exps ? &la->ffn_up_exps : &la->ffn_up,
        exps ? &la->ffn_down_t_exps : &la->ffn_down_t, exps ? &la->pred_fc2_exps : &la->pred_fc2};
    const struct hearth_weight *to[] = {
        exps ? &lb->ffn_gate_exps : &lb->ffn_gate, exps ? &lb->ffn_up_exps : &lb->ffn_up,
        exps ? &lb->ffn_down_t_exps : &lb->ffn_down_t, exps ? &lb->pred_fc2_exps : &lb->pred_fc2};
    for (int k = 0; k < 4; k++) {
        assert_true(!from[k]->data == !to[k]->data);
        if (!from[k]->data)
            continue;
        const struct hearth_weight x = hearth_expert(from[k], e), y = hearth_expert(to[k], e);
        assert_true(x.n == y.n && x.k == y.k && x.type == y.type && x.stride == y.stride);
        for (size_t i = 0; i < x.n; i++)
            assert_memory_equal((const uint8_t *)x.data + (size_t)order[i] * x.stride,
                                (const uint8_t *)y.data + i * y.stride, x.stride);
    }
    if (la->ffn_up_b.data && !exps)
        for (size_t i = 0; i < MADE_F; i++)
            assert_true(((const float *)la->ffn_up_b.data)[order[i]] ==
                        ((const float *)lb->ffn_up_b.data)[i]);
}

// Orders fall with the counts, which the pack carries in that order.
static void check_temperature(const struct hearth_model *a, const struct hearth_model *b)
{
    const struct hearth_pack *p = b->pack;
    const size_t most = p->n_ff, x = p->n_expert;
    struct hearth_profile *profile;
    struct hearth_error err = {0};
    int32_t *order = calloc(most, 4), *counts = calloc(6 * x * most, 4), *visits = calloc(6 * x, 4);
    int32_t *stored = calloc(6 * x * most, 4);
    MADE_OK(hearth_profile_open(&profile, profiled, &err));
    assert_int_equal(p->n_batches, 6);
    assert_true(p->repeats > 0 && p->repeats == profile->repeats);
    for (uint32_t layer = 0; layer < p->n_layer; layer++) {
        const struct hearth_gguf_tensor *t = hearth_pack_tensor(p, layer, "ffn_counts");
        const size_t f = p->layers[layer].n;
        assert_int_equal(f, hearth_profile_neurons(profile, layer));
        MADE_OK(hearth_profile_read(profile, layer, counts, visits, &err));
        MADE_OK(hearth_gguf_read(p->g, t, stored, 0, t->bytes, &err));
        for (size_t e = 0; e < x; e++) {
            const uint32_t always = b->always[layer * x + e];
            MADE_OK(hearth_pack_order(p, layer, (uint32_t)e, order, &err));
            for (size_t i = 0; i < f; i++) {
                const int32_t count = counts[e * f + (size_t)order[i]];
                assert_true(i == 0 || count < counts[e * f + (size_t)order[i - 1]] ||
                            (count == counts[e * f + (size_t)order[i - 1]] && order[i] > order[i - 1]));
                assert_true((i < always) == (visits[e] > 0 && 2 * count >= visits[e]));
                for (size_t batch = 0; batch < 6; batch++)
                    assert_int_equal(stored[(batch * x + e) * f + i],
                                     counts[(batch * x + e) * f + (size_t)order[i]]);
            }
            check_rows(a, b, (int)layer, (int)e, order);
        }
    }
    hearth_profile_close(&profile);
    free(order);
    free(counts);
    free(visits);
    free(stored);
}

static void test_temperature(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_BY_NEURON; i++) {
        if (!strcmp(by_neuron[i].label, "silu"))
            continue;
        make_source(&by_neuron[i]);
        profile_to(profiled);
        pack_to(packed, profiled, 0);
        pack_to(other, profiled, 3000);
        assert_same_files(packed, other);
        struct hearth_model *a = open_model(source, false), *b = open_model(packed, true);
        check_temperature(a, b);
        // Block formats round their activations, by a step that a last bit can decide: of 32 numbers per
        // vector, as here, one step is felt. (4-bit prompts have 8-bit activations.)
        const int type = by_neuron[i].type;
        compare_models(by_neuron[i].label, a, b,
                       type == HEARTH_TYPE_Q4_0   ? 1e-2
                       : type == HEARTH_TYPE_Q8_0 ? 3e-4
                                                  : 1e-5);
        hearth_model_close(&a);
        hearth_model_close(&b);
    }
    // Without a way round that keeps bits, against the same pack in the model's own order.
    for (size_t i = 0; i < N_IN_COLUMNS; i++) {
        make_source(&in_columns[i]);
        profile_to(profiled);
        pack_to(packed, profiled, 0);
        pack_to(other, NULL, 0);
        struct hearth_model *a = open_model(other, true), *b = open_model(packed, true);
        check_temperature(a, b);
        compare_models(in_columns[i].label, a, b, 1e-5);
        hearth_model_close(&a);
        hearth_model_close(&b);
    }
}

// ---- PowerInfer's files

// The same bytes with another beginning mean other activations and predictor inputs: a pack says them in
// keys.
static void test_powerinfer(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        {"llama", {.arch = "llama", .by_neuron = true, .predictors = true}, -1},
        {"bamboo", {.arch = "bamboo", .by_neuron = true, .predictors = true}, -1},
        {"falcon", {.arch = "falcon", .by_neuron = true, .predictors = true}, -1},
        {"opt", {.arch = "opt", .by_neuron = true, .predictors = true}, -1},
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        make_source(&samples[i]);
        FILE *f = fopen(source, "r+b");
        assert_true(f && fwrite("PWRI", 1, 4, f) == 4 && fclose(f) == 0);
        pack_to(packed, NULL, 0);
        struct hearth_model *a = open_model(source, false), *b = open_model(packed, true);
        assert_int_equal(a->hp.activation, b->hp.activation);
        assert_int_equal(a->hp.predictor_input, b->hp.predictor_input);
        assert_true(a->hp.predict_threshold == b->hp.predict_threshold);
        assert_false(hearth_gguf_is_pwri(b->gguf));
        compare_models(samples[i].label, a, b, 0);
        hearth_model_close(&a);
        hearth_model_close(&b);
    }
}

static int set_up(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(source, sizeof source, "%s", in_folder("source.gguf"));
    snprintf(packed, sizeof packed, "%s", in_folder("packed.hearth.gguf"));
    snprintf(other, sizeof other, "%s", in_folder("other.gguf"));
    snprintf(profiled, sizeof profiled, "%s", in_folder("profile"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),      cmocka_unit_test(test_gates_apart),
        cmocka_unit_test(test_widths),        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_wrong_version), cmocka_unit_test(test_bounded_memory),
        cmocka_unit_test(test_transposed),    cmocka_unit_test(test_requantised),
        cmocka_unit_test(test_profile),       cmocka_unit_test(test_profile_refuses),
        cmocka_unit_test(test_shares),        cmocka_unit_test(test_temperature),
        cmocka_unit_test(test_powerinfer),    cmocka_unit_test(test_source),
        cmocka_unit_test(test_hollow),        cmocka_unit_test(test_extra_layers),
    };
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
