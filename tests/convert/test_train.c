// SPDX-License-Identifier: MIT
// Training predictors: a network's products and gradients are right and the same for any number of threads;
// predictors find what active neurons give; the same call gives the same file, with any number of threads, and
// when it was stopped in between.
#include "check.h"

#include "base/os.h"
#include "convert/pack.h"
#include "convert/predictor.h"
#include "convert/train.h"
#include "engine/context.h"
#include "gguf/checksums.h"
#include "made_models.h"
#include "model/ffn.h"
#include "net_support.h"
#include "pack_support.h"

// ---- networks

enum { E = 24, R = 12, F = 20, B = 8, K = E + R, BLOCK = 9, S = K / BLOCK };

static const struct hearth_net_shape narrow = {.r = R}, wide = {.r = R, .block = BLOCK};

struct small {
    struct hearth_net net;
    struct hearth_kernels kernels;
    void *memory;
};

static void open_small(struct small *s, struct hearth_net_shape shape, int n_threads)
{
    *s = (struct small){.net = {.e = E, .f = F, .b = B, .narrow = narrow, .wide = wide}};
    hearth_kernels_init(&s->kernels, 0);
    s->net.kernels = &s->kernels;
    s->memory = open_net_memory(&s->net, n_threads);
    hearth_net_weigh(&s->net, (double)hearth_code_mass(128));
    hearth_net_reset(&s->net, shape, 7);
    for (int i = 0; i < B * E; i++)
        s->net.x[i] = (float)((i * i * 7 + i * 3) % 19) / 8.0f - 1.0f;
    for (int i = 0; i < B * F; i++)
        s->net.codes[i] = (uint8_t)((i * 5 + i / F) % 3 ? 0 : 120 + i % 16);
}

static void close_small(struct small *s)
{
    close_net_memory(&s->net, s->memory);
}

// The loss in float64, with the second matrix w2.
static double loss_of(const struct hearth_net *n, const float *w2)
{
    double sum = 0;
    const size_t before = n->shape.block ? E : 0, k = before + R;
    for (size_t b = 0; b < B; b++) {
        double h[K];
        for (size_t i = 0; i < before; i++)
            h[i] = (double)n->x[b * E + i];
        for (size_t r = 0; r < R; r++) {
            double *to = &h[before + r];
            *to = 0;
            for (size_t e = 0; e < E; e++)
                *to += (double)n->w1[r * E + e] * (double)n->x[b * E + e];
            *to = *to > 0 ? *to : 0;
        }
        for (size_t f = 0; f < F; f++) {
            double z = -(double)HEARTH_NET_BIAS;
            for (size_t i = 0; i < k; i++)
                z += (double)w2[f * k + i] * h[i];
            const uint8_t code = n->codes[b * F + f];
            sum += (double)n->weights[code] * log1p(exp(-z)) + log1p(exp(z));
        }
    }
    return sum;
}

// The loss of the best outputs that there are: a neuron that is worth it by w and not by 1 has z = log w.
static double least_loss(const struct hearth_net *n)
{
    double sum = 0;
    for (size_t i = 0; i < B * F; i++) {
        const double w = (double)n->weights[n->codes[i]];
        sum += w > 0 ? w * log1p(1 / w) + log1p(w) : 0;
    }
    return sum;
}

static double slope(struct hearth_net *n, const float *w2, float *w)
{
    const float kept = *w, d = 1e-3f;
    *w = kept + d;
    const double above = loss_of(n, w2);
    *w = kept - d;
    const double below = loss_of(n, w2);
    *w = kept;
    return (above - below) / (2 * (double)d);
}

static void assert_about(float is, double wanted)
{
    assert_true(fabs((double)is - wanted) < 1e-2 * (1 + fabs(wanted)));
}

static void test_gradients(void **state)
{
    (void)state;
    struct small s;
    open_small(&s, narrow, 2);
    double w1[R * E], w2[F * R];
    for (int i = 0; i < R * E; i++)
        w1[i] = slope(&s.net, s.net.w2, &s.net.w1[i]);
    for (int i = 0; i < F * R; i++)
        w2[i] = slope(&s.net, s.net.w2, &s.net.w2[i]);
    hearth_net_train(&s.net, s.net.w1, s.net.w2, B, 0);
    for (int i = 0; i < R * E; i++)
        assert_about(s.net.g1[i], w1[i]);
    for (int i = 0; i < F * R; i++)
        assert_about(s.net.g2[i], w2[i]);
    const double least = least_loss(&s.net), before = loss_of(&s.net, s.net.w2) - least;
    for (int i = 0; i < 300; i++)
        hearth_net_train(&s.net, s.net.w1, s.net.w2, B, 1e-2f);
    assert_true(loss_of(&s.net, s.net.w2) - least < 0.2 * before);
    close_small(&s);
}

// Gradients of signs are those of what they multiply, times their size; those of sizes are sums over a block.
static void test_gradients_of_signs(void **state)
{
    (void)state;
    struct small s;
    float signs[F * K];
    double w1[R * E], w2[F * K];
    open_small(&s, wide, 2);
    for (int i = 0; i < F * S; i++)
        s.net.size[i] *= 1 + (float)(i % 5) / 8;
    hearth_net_sign(&s.net, signs);
    for (int i = 0; i < F * K; i++) {
        assert_true(fabsf(signs[i]) == s.net.size[i / BLOCK]); // NOLINT
        assert_true((signs[i] < 0) == (s.net.w2[i] < 0));
    }
    for (int i = 0; i < R * E; i++)
        w1[i] = slope(&s.net, signs, &s.net.w1[i]);
    for (int i = 0; i < F * K; i++)
        w2[i] = slope(&s.net, signs, &signs[i]);
    hearth_net_train(&s.net, s.net.w1, signs, B, 0);
    for (int i = 0; i < R * E; i++)
        assert_about(s.net.g1[i], w1[i]);
    for (int i = 0; i < F * K; i++)
        assert_about(s.net.g2[i], w2[i] * (double)s.net.size[i / BLOCK]);
    for (int i = 0; i < F * S; i++) {
        double sum = 0;
        for (int j = i * BLOCK; j < (i + 1) * BLOCK; j++)
            sum += signs[j] < 0 ? -w2[j] : w2[j];
        assert_about(s.net.gs[i], sum);
    }
    const double least = least_loss(&s.net), before = loss_of(&s.net, signs) - least;
    for (int i = 0; i < 300; i++) {
        hearth_net_train(&s.net, s.net.w1, signs, B, 1e-2f);
        hearth_net_sign(&s.net, signs);
    }
    assert_true(loss_of(&s.net, signs) - least < 0.2 * before);
    close_small(&s);
}

// Whatever the size of what signs begin as, outputs have the same.
static void test_level(void **state)
{
    (void)state;
    struct small one, other;
    open_small(&one, wide, 1);
    open_small(&other, wide, 1);
    for (int i = 0; i < F * K; i++)
        other.net.w2[i] *= i % K < E ? 64 : 1;
    hearth_net_level(&one.net);
    hearth_net_level(&other.net);
    assert_memory_equal(one.net.w2, other.net.w2, F * K * sizeof(float));
    assert_memory_equal(one.net.size, other.net.size, F * S * sizeof(float));
    double sum = 0;
    for (int j = 0; j < F; j++)
        for (int i = 0; i < E; i++)
            sum += fabs((double)one.net.w2[j * K + i]);
    assert_true(fabs(sum / (F * E) - 2 / sqrt(E)) < 1e-6);
    memset(one.net.w2, 0, F * K * sizeof(float));
    hearth_net_level(&one.net);
    assert_true(one.net.size[0] == 0); // NOLINT
    close_small(&one);
    close_small(&other);
}

static void train_small(struct small *s, size_t n_rows)
{
    struct hearth_net *n = &s->net;
    if (n->shape.block)
        hearth_net_sign(n, n->g2);
    hearth_net_train(n, n->w1, n->shape.block ? n->g2 : n->w2, n_rows, 1e-2f);
}

static void check_threads(struct hearth_net_shape shape)
{
    struct small one, three;
    open_small(&one, shape, 1);
    open_small(&three, shape, 3);
    for (int i = 0; i < 20; i++) {
        train_small(&one, B - (size_t)i % 3);
        train_small(&three, B - (size_t)i % 3);
    }
    assert_memory_equal(one.net.w1, three.net.w1, R * E * sizeof(float));
    assert_memory_equal(one.net.w2, three.net.w2, F * one.net.k * sizeof(float));
    assert_memory_equal(one.net.size, three.net.size, F * S * sizeof(float));
    close_small(&one);
    close_small(&three);
}

static void test_threads(void **state)
{
    (void)state;
    check_threads(narrow);
    check_threads(wide);
}

static void test_codes(void **state)
{
    (void)state;
    assert_int_equal(hearth_code(0), 0);
    assert_int_equal(hearth_code(1), 128);
    assert_int_equal(hearth_code(2), 136);
    assert_int_equal(hearth_code(1e-30f), 1);
    assert_int_equal(hearth_code(1e30f), 255);
    assert_int_equal(hearth_code_mass(0), 0);
    for (int i = 10; i < 240; i++) {
        const double x = ldexp(1 + (i % 8) / 8.0, i / 8 - 16);
        assert_int_equal(hearth_code((float)x), i);
        const double mass = (double)hearth_code_mass((uint8_t)i) / (double)hearth_code_mass(128) * 17 / 16;
        assert_true(mass / x > 0.99 && mass / x < 1.13);
    }
}

// ---- models

enum { TEXT = 1200 };

static char source[512], out[512], other[512];

// How predictors are trained.
static enum hearth_predictor_form form;
static bool early;

static void fill(hearth_token *tokens)
{
    for (int i = 0; i < TEXT; i++)
        tokens[i] = (i * i * 7 + i * 13 + i / 50 * 31) % MADE_VOCAB;
}

struct stop {
    int after; // layers; 0: never
    int layers, kept, untrained;
};

static bool on_progress(void *arg, float share)
{
    const struct stop *s = arg;
    assert_true(share >= 0 && share <= 1.0001f);
    return !s->after || s->layers < s->after;
}

static void on_layer(void *arg, const struct hearth_train_layer *l)
{
    struct stop *s = arg;
    s->layers++;
    s->kept += l->kept;
    s->untrained += (int)l->untrained;
    assert_true(l->recall >= 0.9f && l->chosen <= 1.0001f && l->active <= 1.0001f && l->active > 0 &&
                l->rank >= 32);
    assert_true(form == HEARTH_PREDICTOR_AUTO || l->wide == (form == HEARTH_PREDICTOR_WIDE));
}

static int train_to(const char *path, int n_threads, struct stop *stop, struct hearth_error *err)
{
    hearth_token tokens[TEXT];
    struct hearth_model *m = open_model(source, false);
    const struct hearth_train_params params = {.n_ctx = 24,
                                               .n_threads = n_threads,
                                               .n_ubatch = n_threads * 32,
                                               .recall = 0.95f,
                                               .steps = 60,
                                               .seed = 3,
                                               .form = form,
                                               .early = early,
                                               .sparsity_share =
                                                   m->hp.activation == HEARTH_ACT_SILU ? 0.5f : 0,
                                               .progress = on_progress,
                                               .progress_arg = stop,
                                               .on_layer = on_layer,
                                               .on_layer_arg = stop};
    fill(tokens);
    const int rc = hearth_train_predictors(m, tokens, TEXT, &params, path, err);
    hearth_model_close(&m);
    return rc;
}

// What the model's own steps find, with predictors, of what they give without.
struct found {
    const struct hearth_model *m;
    double mass[64], sum;
    size_t n;
};

static void add_mass(void *arg, int layer, int expert, struct hearth_row row, const float *act)
{
    (void)layer;
    (void)expert;
    (void)row;
    struct found *f = arg;
    for (int j = 0; j < hearth_ffn_neurons(&f->m->hp); j++)
        f->sum += (double)fabsf(act[j]);
}

static double mass_of(const struct hearth_model *m, enum hearth_sparsity sparsity)
{
    struct hearth_session_params sp = hearth_session_params_default();
    struct hearth_error err = {0};
    struct hearth_session *s;
    struct found f = {.m = m};
    sp.n_threads = 1;
    sp.n_ctx = 128;
    sp.sparsity = sparsity;
    MADE_OK(hearth_session_open(&s, m, &sp, &err));
    hearth_session_probes(s)->on_neurons = add_mass;
    hearth_session_probes(s)->on_neurons_arg = &f;
    const int seq = hearth_seq_new(s, &err);
    for (int i = 0; i < 100; i++) {
        const hearth_token token = (i * i * 7 + i * 13 + 17) % MADE_VOCAB;
        MADE_OK(hearth_step(s, &seq, &token, 1, &err));
    }
    hearth_session_close(&s);
    return f.sum;
}

// Flips a bit of the middle of the first layer that was finished: of its data.
static void damage(const char *model)
{
    char path[600];
    snprintf(path, sizeof path, "%s.layers/layer-00000.gguf", model);
    struct file_bytes f = read_whole(path);
    f.p[f.n / 2] ^= 1;
    write_whole(path, f.p, f.n);
    free(f.p);
}

// With `damages`, a finished layer is damaged before training goes on, and is trained again.
static void check_trained(const struct made *made, bool damages)
{
    struct hearth_error err = {0};
    struct stop never = {0};
    made_write(source, made);
    MADE_OK(train_to(out, 1, &never, &err));
    assert_int_equal(never.layers, MADE_LAYERS);
    assert_int_equal(never.kept, 0);
    struct hearth_model *m = open_model(out, true);
    assert_non_null(hearth_gguf_tensor(m->gguf, HEARTH_CHECKSUMS_NAME));
    assert_true(m->hp.has_predictors && m->hp.predict_threshold == 1.0f);
    assert_int_equal(m->hp.predictor_input, early ? HEARTH_PREDICTOR_PREVIOUS : HEARTH_PREDICTOR_NORMED);
    if (form != HEARTH_PREDICTOR_AUTO) {
        const struct hearth_ffn ffn = hearth_ffn_of(&m->hp, &m->weights.layers[0]);
        assert_int_equal(ffn.fc2->k, ffn.fc1->n + (form == HEARTH_PREDICTOR_WIDE ? ffn.fc1->k : 0));
    }
    const double all = mass_of(m, HEARTH_SPARSITY_OFF), found = mass_of(m, HEARTH_SPARSITY_PREDICT);
    assert_true(found > 0.8 * all && found < 1.2 * all);
    hearth_model_close(&m);
    // Other threads, and stopped after a layer.
    struct stop stop = {.after = 1};
    assert_int_equal(train_to(other, 3, &stop, &err), HEARTH_E_INTERRUPTED);
    assert_int_equal(access(other, F_OK), -1);
    stop = (struct stop){0};
    if (damages)
        damage(other);
    MADE_OK(train_to(other, 2, &stop, &err));
    assert_int_equal(stop.layers, MADE_LAYERS);
    assert_int_equal(stop.kept, !damages);
    assert_same_files(out, other);
    remove(other);
    char folder_of_layers[600];
    snprintf(folder_of_layers, sizeof folder_of_layers, "%s.layers", other);
    assert_int_equal(access(folder_of_layers, F_OK), -1);
    // Training again replaces predictors.
    char kept[512];
    snprintf(kept, sizeof kept, "%s", source);
    snprintf(source, sizeof source, "%s", out);
    stop = (struct stop){0};
    MADE_OK(train_to(other, 1, &stop, &err));
    m = open_model(other, false);
    assert_true(m->hp.has_predictors);
    hearth_model_close(&m);
    remove(other);
    snprintf(source, sizeof source, "%s", kept);
}

static void test_models(void **state)
{
    (void)state;
    check_trained(&(struct made){.arch = "llama", .set = {{"feed_forward.activation", 's', 0, "drelu"}}},
                  false);
    form = HEARTH_PREDICTOR_WIDE;
    early = true;
    check_trained(&(struct made){.arch = "llama",
                                 .experts = true,
                                 .by_neuron = true,
                                 .set = {{"feed_forward.activation", 's', 0, "relu"}}},
                  true);
    form = HEARTH_PREDICTOR_NARROW;
    check_trained(&(struct made){.arch = "llama", .experts = true, .split_experts = true}, false);
    early = false;
    form = HEARTH_PREDICTOR_AUTO;
    check_trained(&(struct made){.arch = "llama"}, true);
}

// The gate's rows are where the expert's are, whether it has a tensor of its own: predictors are the same.
static void test_split_experts(void **state)
{
    (void)state;
    struct hearth_error err = {0};
    struct stop stop = {0};
    struct made made = {.arch = "llama", .experts = true};
    struct hearth_model *m[2];
    form = HEARTH_PREDICTOR_WIDE;
    for (int split = 0; split < 2; split++) {
        made.split_experts = split;
        made_write(source, &made);
        MADE_OK(train_to(split ? other : out, 1 + split, &stop, &err));
        m[split] = open_model(split ? other : out, false);
    }
    form = HEARTH_PREDICTOR_AUTO;
    for (int layer = 0; layer < MADE_LAYERS; layer++) {
        const struct hearth_weight *a = &m[0]->weights.layers[layer].pred_fc2_exps,
                                   *b = &m[1]->weights.layers[layer].pred_fc2_exps;
        assert_memory_equal(a->data, b->data, a->n * a->stride * MADE_EXPERTS);
    }
    hearth_model_close(&m[0]);
    hearth_model_close(&m[1]);
    remove(other);
}

// Two experts of each layer are never used: of two opposite rows of the router one is above nothing.
static float pairs_of_experts(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    if (!strstr(tensor, "ffn_gate_inp"))
        return usual;
    const float x = (float)(column * (row / 2 + 3) % 5) - 2;
    return row >= 4 ? 0 : row % 2 ? x : -x;
}

static char logged[512];

static void on_log(void *arg, enum hearth_log_level level, const char *message)
{
    (void)arg;
    (void)level;
    snprintf(logged, sizeof logged, "%s", message);
}

static void test_unused_experts(void **state)
{
    (void)state;
    struct hearth_error err = {0};
    struct stop stop = {0};
    made_write(source, &(struct made){.arch = "llama",
                                      .experts = true,
                                      .by_neuron = true,
                                      .value = pairs_of_experts,
                                      .set = {{"feed_forward.activation", 's', 0, "relu"}}});
    hearth_log_set(on_log, NULL);
    MADE_OK(train_to(out, 1, &stop, &err));
    hearth_log_set(NULL, NULL);
    assert_int_equal(stop.untrained, 2 * MADE_LAYERS);
    assert_non_null(strstr(logged, "4 of 12 experts"));
    struct hearth_model *m = open_model(out, false);
    hearth_model_close(&m);
    const struct hearth_pack_params pack = {.n_threads = 1};
    MADE_OK(hearth_pack_write(out, other, &pack, NULL, &err));
    remove(other);
}

// Every neuron is above the threshold, whatever the input's size.
static void check_names_all(struct hearth_predictor_shape shape)
{
    enum { WIDTH = 96, RANK = 32, WIDEST = WIDTH + RANK, NEURONS = 5 };
    static uint8_t fc1[WIDTH * RANK * 2], fc2[NEURONS * WIDEST * 2];
    static float w1[RANK * WIDTH], w2[NEURONS * WIDEST];
    struct hearth_error err = {0};
    struct hearth_predictor p = {.shape = shape, .fc1 = fc1, .fc2 = fc2};
    const size_t k = hearth_predictor_k(shape, 2, WIDTH), before = k - RANK;
    MADE_OK(hearth_predictor_name_all(&p, WIDTH, NEURONS, &err));
    hearth_type_info(hearth_predictor_type(shape, 1))->decode(fc1, w1, RANK * WIDTH);
    hearth_type_info(hearth_predictor_type(shape, 2))->decode(fc2, w2, NEURONS * k);
    for (int try = 0; try < 200; try++) {
        float inner[WIDEST] = {0}, x[WIDTH];
        for (int i = 0; i < WIDTH; i++)
            x[i] = ldexpf((float)((i * i * 7 + try * 31 + i * try) % 19 - 9), try % 24 - 12);
        memcpy(inner, x, before * sizeof *x);
        for (size_t r = 0; r < RANK; r++) {
            float h = 0;
            for (size_t i = 0; i < WIDTH; i++)
                h += w1[r * WIDTH + i] * x[i];
            inner[before + r] = h > 0 ? h : 0;
        }
        for (size_t j = 0; j < NEURONS; j++) {
            float z = 0;
            for (size_t i = 0; i < k; i++)
                z += w2[j * k + i] * inner[i];
            assert_true(z >= 1);
        }
    }
}

static void test_names_all(void **state)
{
    (void)state;
    check_names_all((struct hearth_predictor_shape){32, false});
    check_names_all((struct hearth_predictor_shape){32, true});
}

static void test_refuses(void **state)
{
    (void)state;
    hearth_token tokens[TEXT];
    struct hearth_error err = {0};
    struct hearth_train_params params = {.n_threads = 1, .n_ctx = 24};
    fill(tokens);
    made_write(source, &(struct made){.arch = "llama"});
    struct hearth_model *m = open_model(source, false);
    assert_int_equal(hearth_train_predictors(m, tokens, TEXT, &params, out, &err), HEARTH_E_INVALID);
    assert_string_equal(err.param, "sparsity_share");
    assert_null(strstr(err.message, err.param)); // the program names its own option
    params.sparsity_share = 0.4f;
    assert_int_equal(hearth_train_predictors(m, tokens, 10, &params, out, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "fill 1 window of 24;"));
    assert_int_equal(hearth_train_predictors(m, tokens, 100, &params, out, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "windows"));
    m->hp.n_pos = 1; // with BOS no token has room
    assert_int_equal(hearth_train_predictors(m, tokens, TEXT, &params, out, &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "one position"));
    m->hp.n_pos = 0;
    params.recall = 1.5f;
    assert_int_equal(hearth_train_predictors(m, tokens, TEXT, &params, out, &err), HEARTH_E_INVALID);
    params.recall = 0;
    params.share = INFINITY;
    assert_int_equal(hearth_train_predictors(m, tokens, TEXT, &params, out, &err), HEARTH_E_INVALID);
    params.share = 0;
    hearth_model_close(&m);
    const struct hearth_pack_params pack = {.n_threads = 1};
    MADE_OK(hearth_pack_write(source, other, &pack, NULL, &err));
    m = open_model(other, false);
    assert_int_equal(hearth_train_predictors(m, tokens, TEXT, &params, out, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "pack"));
    hearth_model_close(&m);
}

// What could not be opened or packed afterwards is refused by name, whatever the text.
static void test_architectures(void **state)
{
    (void)state;
    static const struct {
        struct made made;
        const char *says;
    } cases[] = {{{.arch = "phi3"}, "architecture phi3"},
                 {{.arch = "glm4moe", .experts = true}, "architecture glm4moe"},
                 {{.arch = "deepseek2"}, "architecture deepseek2"},
                 {{.arch = "gpt-oss", .experts = true, .set = {{"attention.sliding_window", 'u', 70, NULL}}},
                  "experts have biases"}};
    const hearth_token token = 5;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct hearth_train_params params = {.n_threads = 1, .sparsity_share = 0.4f};
        struct hearth_error err = {0};
        made_write(source, &cases[i].made);
        struct hearth_model *m = open_model(source, false);
        assert_int_equal(hearth_train_predictors(m, &token, 1, &params, out, &err), HEARTH_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, cases[i].says));
        hearth_model_close(&m);
    }
}

static int begin(void **state)
{
    const int rc = make_folder(state);
    snprintf(source, sizeof source, "%s", in_folder("source.gguf"));
    snprintf(out, sizeof out, "%s", in_folder("out.gguf"));
    snprintf(other, sizeof other, "%s", in_folder("other.gguf"));
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),      cmocka_unit_test(test_gradients_of_signs),
        cmocka_unit_test(test_level),          cmocka_unit_test(test_threads),
        cmocka_unit_test(test_codes),          cmocka_unit_test(test_models),
        cmocka_unit_test(test_split_experts),  cmocka_unit_test(test_names_all),
        cmocka_unit_test(test_unused_experts), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_architectures)};
    return cmocka_run_group_tests(tests, begin, remove_folder);
}
