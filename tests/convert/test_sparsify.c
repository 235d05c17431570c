// SPDX-License-Identifier: MIT
// Making a model sparse: what a layer is fitted to is what it says, judged from outside; the file has the tensors and the
// numbers that the layer gave, the same ones for any number of threads; whatever cannot be made sparse is refused.
#include "check.h"

#include "convert/sparsify.h"
#include "convert/sparsify_layer.h"
#include "gguf/checksums.h"
#include "made_models.h"
#include "pack_support.h"

// ---- one layer

enum { E = 32, F = 48, S = 400 };

struct fitted {
    struct hearth_sparsify_layer l;
    struct hearth_kernels kernels;
    struct hearth_weight gate, up, down;
    float gates[F * E], ups[F * E], downs[E * F];
    void *memory;
};

static float noise(uint32_t *state)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        *state = *state * 1664525u + 1013904223u;
        sum += (float)(*state >> 8) / (float)(1u << 24) - 0.5f;
    }
    return sum * 1.7f;
}

// ups: by what they are multiplied, and down divided.
static bool open_scaled(struct fitted *f, enum hearth_activation activation, int n_threads, size_t n_samples,
                        double density, float ups)
{
    struct hearth_error err;
    uint32_t random = 5;
    *f = (struct fitted){.l = {.e = E, .f = F, .s = S, .activation = activation}};
    hearth_kernels_init(&f->kernels, 0);
    f->l.kernels = &f->kernels;
    assert_int_equal(hearth_pool_open(&f->l.pool, n_threads, &err), HEARTH_OK);
    struct hearth_arena measure = {0};
    hearth_sparsify_layer_lay_out(&f->l, &measure);
    f->memory = hearth_aligned_alloc(64, hearth_round_up(measure.used, 64));
    assert_non_null(f->memory);
    struct hearth_arena assign = {.base = f->memory, .size = measure.used};
    hearth_sparsify_layer_lay_out(&f->l, &assign);
    // The input has a direction that hardly changes, against which gates are, as in trained models.
    for (int i = 0; i < F * E; i++)
        f->gates[i] = noise(&random) * 0.25f - (i % E == 0 ? 0.2f + (float)(i / E % 5) * 0.2f : 0);
    for (int i = 0; i < F * E; i++)
        f->ups[i] = noise(&random) * 0.3f * ups;
    for (int i = 0; i < E * F; i++)
        f->downs[i] = noise(&random) * 0.3f / ups;
    for (size_t i = 0; i < S * E; i++)
        f->l.x[i] = i % E ? noise(&random) : 1.0f;
    const size_t f32 = sizeof(float);
    f->gate =
        (struct hearth_weight){.data = f->gates, .type = HEARTH_TYPE_F32, .k = E, .n = F, .stride = E * f32};
    f->up =
        (struct hearth_weight){.data = f->ups, .type = HEARTH_TYPE_F32, .k = E, .n = F, .stride = E * f32};
    f->down =
        (struct hearth_weight){.data = f->downs, .type = HEARTH_TYPE_F32, .k = F, .n = E, .stride = F * f32};
    return hearth_sparsify_layer_fit(&f->l, &f->gate, &f->up, &f->down, n_samples, density);
}

static void open_fitted(struct fitted *f, enum hearth_activation activation, int n_threads, size_t n_samples,
                        double density)
{
    assert_true(open_scaled(f, activation, n_threads, n_samples, density, 1));
}

static void close_fitted(struct fitted *f)
{
    hearth_pool_close(&f->l.pool);
    hearth_aligned_free(f->memory);
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static double activated(const struct fitted *f, double x)
{
    if (f->l.activation == HEARTH_ACT_SILU)
        return x / (1 + exp(-x));
    if (f->l.activation == HEARTH_ACT_GELU)
        return 0.5 * x * erfc(-x * 0.70710678118654752);
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

// Squared error of a neuron's line, over the samples for which it is on, and how many these are.
static double error_of(const struct fitted *f, size_t j, size_t n_samples, double slope, double p, size_t *on)
{
    double sum = 0;
    for (size_t i = 0; i < n_samples; i++) {
        const float *x = f->l.x + i * E;
        const double gate = dot(f->gates + j * E, x, E), up = dot(f->ups + j * E, x, E);
        const double above = gate + (double)f->l.bias[j];
        if (above <= 0)
            continue;
        ++*on;
        const double miss = slope * above + p - (activated(f, gate) - (double)f->l.c[j]);
        sum += up * up * miss * miss;
    }
    return sum;
}

static void check_layer(enum hearth_activation activation)
{
    enum { N = S - 7 };
    struct fitted f;
    size_t on = 0;
    open_fitted(&f, activation, 2, N, 0.25);
    for (size_t j = 0; j < F; j++) {
        // c is the mean of the activation over the samples for which the neuron is off.
        double sum = 0, weight = 0;
        for (size_t i = 0; i < N; i++) {
            const float *x = f.l.x + i * E;
            const double gate = dot(f.gates + j * E, x, E), up = dot(f.ups + j * E, x, E);
            if (gate + (double)f.l.bias[j] > 0)
                continue;
            sum += up * up * activated(&f, gate);
            weight += up * up;
        }
        assert_true(fabs(sum / weight - (double)f.l.c[j]) < 0.02);
        // No other line is better, but one outside the limits.
        const double slope = (double)f.l.slope[j], p = (double)f.l.p[j];
        size_t here = 0;
        const double best = error_of(&f, j, N, slope, p, &here);
        on += here;
        assert_true(p >= 0.0199 && slope > 0.19 && slope < 1.51);
        if (here < 40 || p < 0.021 || slope < 0.21 || slope > 1.49)
            continue;
        for (int way = 0; way < 4; way++) {
            size_t unused = 0;
            const double d = way % 2 ? 0.05 : -0.05;
            assert_true(error_of(&f, j, N, slope + (way < 2 ? d : 0), p + (way < 2 ? 0 : d), &unused) > best);
        }
    }
    const double density = (double)on / (double)(N * F);
    assert_true(density > 0.2 && density < 0.3);
    // The linear part is down diag(c) up.
    for (size_t e = 0; e < E; e++)
        for (size_t i = 0; i < E; i++) {
            double sum = 0;
            for (size_t j = 0; j < F; j++)
                sum += (double)f.downs[e * F + j] * (double)f.l.c[j] * (double)f.ups[j * E + i];
            assert_true(fabs(sum - (double)f.l.linear[e * E + i]) < 1e-5);
        }
    close_fitted(&f);
}

static void test_layer(void **state)
{
    (void)state;
    check_layer(HEARTH_ACT_SILU);
    check_layer(HEARTH_ACT_GELU);
    check_layer(HEARTH_ACT_GELU_TANH);
}

// The same model with other sizes of up and down is the same sparse model.
static void test_scale(void **state)
{
    (void)state;
    static struct fitted one, other;
    open_fitted(&one, HEARTH_ACT_SILU, 2, S, 0.25);
    assert_true(open_scaled(&other, HEARTH_ACT_SILU, 2, S, 0.25, 1.0f / 4096));
    for (size_t j = 0; j < F; j++) {
        assert_true(fabsf(one.l.bias[j] - other.l.bias[j]) < 1e-4f);
        assert_true(fabsf(one.l.slope[j] - other.l.slope[j]) < 1e-3f);
        assert_true(fabsf(one.l.p[j] - other.l.p[j]) < 1e-3f);
    }
    for (size_t i = 0; i < E * E; i++)
        assert_true(fabsf(one.l.linear[i] - other.l.linear[i]) < 1e-4f);
    close_fitted(&one);
    close_fitted(&other);
}

// Weights that are no numbers make no model.
static void test_not_finite(void **state)
{
    (void)state;
    struct fitted f;
    float *const places[] = {f.gates, f.ups, f.downs};
    for (size_t i = 0; i < 3; i++)
        for (int bad = 0; bad < 2; bad++) {
            open_fitted(&f, HEARTH_ACT_SILU, 1, S, 0.25);
            places[i][5] = bad ? INFINITY : NAN;
            assert_false(hearth_sparsify_layer_fit(&f.l, &f.gate, &f.up, &f.down, S, 0.25));
            close_fitted(&f);
        }
}

// Of what the neurons give, little is lost: less than without the linear part, and less with more of them.
static double loss_of(const struct fitted *f, bool linear)
{
    double lost = 0, all = 0;
    for (size_t i = 0; i < S; i++) {
        const float *x = f->l.x + i * E;
        double whole[F], sparse[F];
        for (size_t j = 0; j < F; j++) {
            const double gate = dot(f->gates + j * E, x, E), up = dot(f->ups + j * E, x, E);
            const double above = gate + (double)f->l.bias[j];
            whole[j] = activated(f, gate) * up;
            sparse[j] = above > 0 ? ((double)f->l.slope[j] * above + (double)f->l.p[j]) * up : 0;
            sparse[j] += linear ? 0 : above > 0 ? (double)f->l.c[j] * up : 0;
        }
        for (size_t e = 0; e < E; e++) {
            double out = 0, want = 0;
            for (size_t j = 0; j < F; j++) {
                out += (double)f->downs[e * F + j] * sparse[j];
                want += (double)f->downs[e * F + j] * whole[j];
            }
            out += linear ? dot(f->l.linear + e * E, x, E) : 0;
            lost += (out - want) * (out - want);
            all += want * want;
        }
    }
    return lost / all;
}

static void test_loss(void **state)
{
    (void)state;
    struct fitted few, many;
    open_fitted(&few, HEARTH_ACT_SILU, 1, S, 0.15);
    open_fitted(&many, HEARTH_ACT_SILU, 1, S, 0.4);
    assert_true(loss_of(&few, true) < 0.8 * loss_of(&few, false));
    assert_true(loss_of(&many, true) < 0.5 * loss_of(&few, true));
    close_fitted(&few);
    close_fitted(&many);
}

static void test_threads(void **state)
{
    (void)state;
    struct fitted one, three;
    open_fitted(&one, HEARTH_ACT_SILU, 1, S, 0.2);
    open_fitted(&three, HEARTH_ACT_SILU, 3, S, 0.2);
    assert_memory_equal(one.l.bias, three.l.bias, F * sizeof(float));
    assert_memory_equal(one.l.slope, three.l.slope, F * sizeof(float));
    assert_memory_equal(one.l.p, three.l.p, F * sizeof(float));
    assert_memory_equal(one.l.linear, three.l.linear, E * E * sizeof(float));
    close_fitted(&one);
    close_fitted(&three);
}

// ---- models

enum { TEXT = 900 };

static char source[512], out[512], other[512];

static int sparsify(const char *path, int n_threads, double density, size_t n_tokens,
                    struct hearth_error *err)
{
    hearth_token tokens[TEXT];
    struct hearth_model *m = open_model(source, false);
    const struct hearth_sparsify_params params = {.density = density,
                                                  .n_ctx = 40,
                                                  .n_samples = 700,
                                                  .n_threads = n_threads,
                                                  .n_ubatch = n_threads * 40};
    for (int i = 0; i < TEXT; i++)
        tokens[i] = (i * i * 7 + i * 13 + i / 50 * 31) % MADE_VOCAB;
    const int rc = hearth_sparsify(m, tokens, n_tokens, &params, path, err);
    hearth_model_close(&m);
    return rc;
}

static void check_file(const char *arch, uint32_t ff)
{
    struct hearth_error err = {0};
    made_write(source, &(struct made){.arch = arch, .ff = ff});
    MADE_OK(sparsify(out, 1, 0.3, TEXT, &err));
    MADE_OK(sparsify(other, 3, 0.3, TEXT, &err));
    assert_same_files(out, other);
    struct hearth_model *sparse = open_model(out, true), *dense = open_model(source, false);
    assert_non_null(hearth_gguf_tensor(sparse->gguf, HEARTH_CHECKSUMS_NAME));
    assert_int_equal(sparse->hp.activation, HEARTH_ACT_JUMP_RELU);
    assert_true(sparse->hp.has_linear && !dense->hp.has_linear);
    // What is not made anew is copied: the same bytes.
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(dense->gguf); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(dense->gguf, i);
        const struct hearth_gguf_tensor *now = hearth_gguf_tensor(sparse->gguf, t->name.s);
        assert_non_null(now);
        assert_int_equal(now->type, t->type);
        assert_int_equal(now->bytes, t->bytes);
        uint8_t *a = malloc(t->bytes), *b = malloc(t->bytes);
        assert_true(a && b);
        MADE_OK(hearth_gguf_read(dense->gguf, t, a, 0, t->bytes, &err));
        MADE_OK(hearth_gguf_read(sparse->gguf, now, b, 0, t->bytes, &err));
        const bool scaled = strstr(t->name.s, "ffn_gate.") || strstr(t->name.s, "ffn_up.");
        assert_int_equal(!memcmp(a, b, t->bytes), !scaled);
        free(a);
        free(b);
    }
    hearth_model_close(&sparse);
    hearth_model_close(&dense);
    remove(other);
}

static void test_files(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "gemma3", "granite", "hunyuan-dense", "lfm2",   "mistral3",
                                        "qwen2", "qwen3",  "qwen35",  "seed_oss",      "smollm3"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        check_file(archs[i], i ? 0 : 96);
}

static void refuses(const struct made *made, double density, size_t n_tokens, int rc, const char *why)
{
    struct hearth_error err = {0};
    made_write(source, made);
    assert_int_equal(sparsify(other, 1, density, n_tokens, &err), rc);
    assert_non_null(strstr(err.message, why));
    assert_int_equal(access(other, F_OK), -1);
}

static void test_refusals(void **state)
{
    (void)state;
    refuses(&(struct made){.arch = "llama", .set = {{"feed_forward.activation", 's', 0, "relu"}}}, 0.3, TEXT,
            HEARTH_E_INVALID, "sparse already");
    refuses(&(struct made){.arch = "llama", .experts = true}, 0.3, TEXT, HEARTH_E_UNSUPPORTED, "experts");
    refuses(&(struct made){.arch = "phi3"}, 0.3, TEXT, HEARTH_E_UNSUPPORTED, "architecture phi3");
    refuses(&(struct made){.arch = "llama", .by_neuron = true}, 0.3, TEXT, HEARTH_E_UNSUPPORTED,
            "down by neuron");
    refuses(&(struct made){.arch = "llama"}, 1, TEXT, HEARTH_E_INVALID, "density");
    refuses(&(struct made){.arch = "llama"}, 0, TEXT, HEARTH_E_INVALID, "density");
    refuses(&(struct made){.arch = "llama"}, 0.3, HEARTH_SPARSIFY_LEAST_TOKENS - 1, HEARTH_E_INVALID,
            "tokens");
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layer),      cmocka_unit_test(test_scale),
                                       cmocka_unit_test(test_not_finite), cmocka_unit_test(test_loss),
                                       cmocka_unit_test(test_threads),    cmocka_unit_test(test_files),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, begin, remove_folder);
}
