// SPDX-License-Identifier: MIT
// Fitting predictors to samples of which it is known what there is to find: gradients at rounded weights, what a
// step says that it found, and how many neurons a predictor names for what it finds, counted from its bytes.
#include "check.h"

#include <math.h>

#include "base/cpu.h"
#include "convert/predictor.h"
#include "net_support.h"

enum { E = 64, R = 32, F = 256, B = 32, TRAIN = 4000, HELD = 1000, HIDDEN = 40, WIDE_R = 64, K = E + WIDE_R };

static const struct hearth_predictor_shape narrow = {R, false}, wide = {WIDE_R, true};

static struct hearth_kernels kernels;

static uint64_t next_bits(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

// About normal: a sum of twelve.
static float next_float(uint64_t *state)
{
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (float)(next_bits(state) & 0xffff) / 65536.0f;
    return sum;
}

struct fitted {
    struct hearth_net net;
    void *memory;
};

static void open_net(struct fitted *s, int n_threads, uint64_t seed)
{
    *s = (struct fitted){.net = {.e = E, .f = F, .b = B, .kernels = &kernels}};
    hearth_predictor_size_net(&s->net, (const struct hearth_predictor_shape[]){narrow, wide}, 2);
    s->memory = open_net_memory(&s->net, n_threads);
    hearth_net_reset(&s->net, s->net.narrow, seed);
    hearth_net_weigh(&s->net, (double)hearth_code_mass(120));
    uint64_t state = 5;
    for (int i = 0; i < B * E; i++)
        s->net.x[i] = next_float(&state);
    for (int i = 0; i < B * F; i++)
        s->net.codes[i] = (uint8_t)(next_bits(&state) % 4 ? 0 : 100 + next_bits(&state) % 40);
}

static void close_net(struct fitted *s)
{
    close_net_memory(&s->net, s->memory);
}

// Gradients are those at the weights that are given, which may lie where gradients will be.
static void test_other_weights(void **state)
{
    (void)state;
    struct fitted own, other;
    open_net(&own, 2, 1);
    open_net(&other, 1, 2);
    memcpy(own.net.g1, other.net.w1, R * E * sizeof(float));
    memcpy(own.net.g2, other.net.w2, F * R * sizeof(float));
    hearth_net_train(&other.net, other.net.w1, other.net.w2, B, 0);
    const float kept = own.net.w1[3];
    hearth_net_train(&own.net, own.net.g1, own.net.g2, B, 0);
    assert_memory_equal(own.net.g1, other.net.g1, R * E * sizeof(float));
    assert_memory_equal(own.net.g2, other.net.g2, F * R * sizeof(float));
    assert_true(own.net.w1[3] == kept);
    hearth_net_train(&own.net, other.net.w1, other.net.w2, B, 1e-3f);
    assert_true(own.net.w1[3] != kept && fabsf(own.net.w1[3] - kept) < 1e-2f);
    close_net(&own);
    close_net(&other);
}

// What is found is what lies above the bias, for any number of threads.
static void test_found(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        struct fitted s;
        uint64_t mass = 0, found = 0;
        open_net(&s, n_threads, 9);
        hearth_net_forward(&s.net, s.net.w1, s.net.w2, B);
        for (size_t i = 0; i < B * F; i++) {
            mass += hearth_code_mass(s.net.codes[i]);
            found += s.net.p[i] >= HEARTH_NET_BIAS ? hearth_code_mass(s.net.codes[i]) : 0;
        }
        hearth_net_train(&s.net, s.net.w1, s.net.w2, B, 0);
        assert_true(s.net.mass == mass && s.net.found == found && found > 0 && found < mass);
        close_net(&s);
    }
}

// ---- fitting

struct planted {
    struct hearth_row_store inputs, targets;
    float gate[F][E];
    struct hearth_sample samples[TRAIN + HELD];
    float x[TRAIN + HELD][E];
    uint8_t codes[TRAIN + HELD][F];
};

// Neurons of dReLU, whose gates and ups see HIDDEN of the inputs' dimensions; the first input is nearly constant.
static struct planted *plant(void)
{
    static float up[F][E], basis[HIDDEN][E];
    struct planted *p = hearth_calloc(1, sizeof *p);
    struct hearth_error err;
    uint64_t state = 77;
    assert_non_null(p);
    for (int i = 0; i < HIDDEN * E; i++)
        basis[i / E][i % E] = next_float(&state) / 8;
    for (int j = 0; j < F; j++)
        for (int h = 0; h < HIDDEN; h++) {
            const float g = next_float(&state) / 6, u = next_float(&state) / 6;
            for (int i = 0; i < E; i++) {
                p->gate[j][i] += g * basis[h][i];
                up[j][i] += u * basis[h][i];
            }
        }
    assert_int_equal(hearth_row_store_open(&p->inputs, E * sizeof(float), TRAIN + HELD, UINT64_MAX, "", &err),
                     HEARTH_OK);
    assert_int_equal(hearth_row_store_open(&p->targets, F, TRAIN + HELD, UINT64_MAX, "", &err), HEARTH_OK);
    for (uint32_t t = 0; t < TRAIN + HELD; t++) {
        for (int i = 0; i < E; i++)
            p->x[t][i] = i ? next_float(&state) : 6 + 0.2f * next_float(&state);
        for (int j = 0; j < F; j++) {
            float g = -0.6f, u = -0.2f;
            for (int i = 1; i < E; i++) {
                g += p->gate[j][i] * p->x[t][i];
                u += up[j][i] * p->x[t][i];
            }
            p->codes[t][j] = hearth_code(g > 0 && u > 0 ? g * u : 0);
        }
        p->samples[t] = (struct hearth_sample){t, t};
        hearth_row_store_write(&p->inputs, t, 1, p->x[t], &err);
        hearth_row_store_write(&p->targets, t, 1, p->codes[t], &err);
    }
    return p;
}

struct counted {
    double found, mass, named, active;
};

// From the predictor's bytes, in float64.
static struct counted count(const struct planted *p, const struct hearth_predictor *out)
{
    static float fc1[WIDE_R * E], fc2[F * K];
    struct counted c = {0};
    const size_t rank = out->shape.rank, k = hearth_predictor_k(out->shape, 2, E), before = k - rank;
    hearth_type_info(HEARTH_TYPE_Q4_0)->decode(out->fc1, fc1, rank * E);
    hearth_type_info(before ? HEARTH_TYPE_Q1_0 : HEARTH_TYPE_Q4_0)->decode(out->fc2, fc2, F * k);
    for (int t = TRAIN; t < TRAIN + HELD; t++) {
        double inner[K] = {0};
        for (size_t i = 0; i < before; i++)
            inner[i] = (double)p->x[t][i];
        for (size_t r = 0; r < rank; r++) {
            double h = 0;
            for (size_t i = 0; i < E; i++)
                h += (double)fc1[r * E + i] * (double)p->x[t][i];
            inner[before + r] = h > 0 ? h : 0;
        }
        for (size_t j = 0; j < F; j++) {
            double z = 0;
            for (size_t i = 0; i < k; i++)
                z += (double)fc2[j * k + i] * inner[i];
            const double mass = (double)hearth_code_mass(p->codes[t][j]);
            c.mass += mass;
            c.active += mass > 0;
            c.named += z >= 1;
            c.found += z >= 1 ? mass : 0;
        }
    }
    return c;
}

static int gate_of(void *arg, size_t neuron, float *row, struct hearth_error *err)
{
    const struct planted *p = arg;
    (void)err;
    memcpy(row, p->gate[neuron], sizeof p->gate[neuron]);
    return HEARTH_OK;
}

// Fits one shape. What the predictor says of itself is what a count from its bytes gives, but for rounding.
static struct counted fit(struct planted *p, struct hearth_predictor_shape shape)
{
    struct fitted s;
    struct hearth_error err;
    open_net(&s, 2, 1);
    const struct hearth_samples samples = {&p->inputs,         &p->targets, p->samples,
                                           p->samples + TRAIN, TRAIN,       HELD};
    const struct hearth_predictor_params params = {.recall = 0.98f,
                                                   .steps = 1500,
                                                   .seed = 3,
                                                   .neuron_bytes = 3 * E,
                                                   .shapes = {shape},
                                                   .n_shapes = 1,
                                                   .gate = gate_of,
                                                   .gate_arg = p};
    static uint8_t fc1[WIDE_R * E], fc2[F * K];
    struct hearth_predictor out = {.fc1 = fc1, .fc2 = fc2};
    assert_int_equal(hearth_predictor_fit(&s.net, &samples, &params, &out, &err), HEARTH_OK);
    assert_true(out.shape.rank == shape.rank && out.shape.wide == shape.wide);
    const struct counted c = count(p, &out);
    const double all = (double)HELD * F;
    printf("names %.4f of which %.4f are active, and finds %.4f\n", c.named / all, c.active / all,
           c.found / c.mass);
    assert_true(fabs(c.found / c.mass - (double)out.recall) < 2e-3 && c.found / c.mass > 0.978);
    assert_true(fabs(c.named / all - (double)out.chosen) < 2e-3);
    assert_true(fabs(c.active / all - (double)out.active) < 1e-6);
    close_net(&s);
    return c;
}

static void test_names_few(void **state)
{
    (void)state;
    struct planted *p = plant();
    const struct counted few = fit(p, narrow), signs = fit(p, wide);
    assert_true(few.named <
                2 * few.active); // networks that were not trained as rounded named 2.25 times as many
    assert_true(signs.named < 2.4 * few.active); // a narrow network is made for what was planted
    hearth_row_store_close(&p->inputs);
    hearth_row_store_close(&p->targets);
    free(p);
}

// ---- shapes

static void check_list(size_t e, size_t f, double most, bool narrow_ones, bool wide_ones,
                       const struct hearth_predictor_shape *wanted, int n_wanted)
{
    struct hearth_predictor_shape shapes[HEARTH_PREDICTOR_SHAPES];
    const int n = hearth_predictor_list(e, f, most, narrow_ones, wide_ones, shapes);
    assert_int_equal(n, n_wanted);
    for (int i = 0; i < n; i++) {
        assert_int_equal(shapes[i].rank, wanted[i].rank);
        assert_int_equal(shapes[i].wide, wanted[i].wide);
        const size_t k = hearth_predictor_k(shapes[i], 2, e);
        assert_int_equal(k % hearth_type_info(hearth_predictor_type(shapes[i], 2))->block_elems, 0);
    }
}

#define LIST(e, f, most, narrow, wide, ...)                                                                  \
    check_list(e, f, most, narrow, wide, (const struct hearth_predictor_shape[]){__VA_ARGS__},               \
               sizeof((const struct hearth_predictor_shape[]){__VA_ARGS__}) /                                \
                   sizeof(struct hearth_predictor_shape))

static void test_shapes(void **state)
{
    (void)state;
    // 1536 neurons of 3 rows of 324 bytes; signs take 90 bytes a neuron, and 64 units as many as 14.
    LIST(576, 1536, 0.1 * 1536 * 972, true, true, {32, false}, {64, false}, {96, false});
    LIST(576, 1536, 0.11 * 1536 * 972, true, true, {32, false}, {64, false}, {128, false}, {64, true});
    LIST(576, 1536, 0.11 * 1536 * 972, false, true, {64, true});
    LIST(576, 1536, 0.2 * 1536 * 972, false, true, {64, true}, {320, true});
    LIST(4096, 14336, 0.1 * 14336 * 6912, true, true, {96, false}, {192, false}, {384, false}, {768, false},
         {928, false}, {128, true}, {256, true});
    LIST(512, 1000, 1, true, true, {32, false}); // what is too much is allowed where there is nothing less
    LIST(512, 1000, 1, false, true, {128, true});
}

static int begin(void **state)
{
    (void)state;
    unsigned flags;
    assert_true(hearth_cpu_limit(NULL, &flags)); // no bit depends on it
    hearth_kernels_init(&kernels, flags);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_other_weights), cmocka_unit_test(test_found),
                                       cmocka_unit_test(test_names_few), cmocka_unit_test(test_shapes)};
    return cmocka_run_group_tests(tests, begin, NULL);
}
