// SPDX-License-Identifier: MIT
// Hit rates that follow from shares of activity are those of the engine's own cache on a text that is as the
// model of them says; more memory and faster storage never make a forecast slower.
#include "check.h"

#include <math.h>

#include "golden_models.h"
#include "plan/forecast.h"
#include "plan/simulate.h"
#include "sparse/trace.h"
#include "store/store.h"

#define F     1000
#define STEPS 500

// ---- activity

static double uniform(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*random >> 33) + 0.5) / 2147483648.0;
}

static double gauss(uint64_t *random)
{
    const double a = uniform(random), b = uniform(random);
    return sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
}

static double normal(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static void make_shares(float *share)
{
    for (int j = 0; j < F; j++)
        share[j] = (float)(0.02 + 0.5 * pow(1 - (double)j / F, 3));
}

static double inverse(double p)
{
    double low = -6, high = 6;
    for (int i = 0; i < 50; i++)
        *(normal((low + high) / 2) < p ? &low : &high) = (low + high) / 2;
    return low;
}

// Neurons with these shares, whose chances drift slowly: what they did lately tells `reuse` of their
// thresholds.
static void write_trace(const char *path, const float *share, double reuse)
{
    static double known[F], threshold[F];
    static uint32_t ids[F];
    uint64_t random = 7;
    const struct hearth_trace_space space = {
        .expert = HEARTH_TRACE_SHARED, .n_neurons = F, .bundle_bytes = 512};
    const struct hearth_trace_info info = {.name = "made", .n_spaces = 1, .spaces = &space};
    struct hearth_trace_writer *w;
    CHECK(hearth_trace_writer_open(&w, path, &info, &check_error));
    for (int j = 0; j < F; j++) {
        known[j] = gauss(&random);
        threshold[j] = inverse((double)share[j]);
    }
    for (int step = 0; step < STEPS; step++) {
        uint32_t n = 0;
        for (uint32_t j = 0; j < F; j++) {
            known[j] = 0.997 * known[j] + sqrt(1 - 0.997 * 0.997) * gauss(&random);
            const double chance = normal((threshold[j] + reuse * known[j]) / sqrt(1 - reuse * reuse));
            if (uniform(&random) < chance)
                ids[n++] = j;
        }
        CHECK(hearth_trace_step(w, 1, &check_error));
        CHECK(hearth_trace_set(w, 0, ids, n, &check_error));
    }
    CHECK(hearth_trace_writer_commit(&w, &check_error));
}

static const struct hearth_sim_row *row_of(const struct hearth_sim *s, const char *name)
{
    for (int i = 0; i < s->n_rows; i++)
        if (strcmp(s->rows[i].name, name) == 0)
            return &s->rows[i];
    fail_msg("there is no row %s", name);
    return NULL;
}

// Misses, as the model says them and as the cache makes them, at several sizes.
static void check_misses(double reuse, const char *row, double apart)
{
    static float share[F];
    make_shares(share);
    write_trace(in_folder("trace"), share, reuse);
    struct hearth_trace *t;
    CHECK(hearth_trace_open(&t, in_folder("trace"), &check_error));
    struct hearth_sim_params params = {.shares = {0.1, 0.25, 0.5, 0.75}, .n_shares = 4, .warmup = 0.5};
    struct hearth_sim s;
    CHECK(hearth_simulate(t, &params, &s, &check_error));
    struct hearth_activity a;
    hearth_activity_make(&a, share, F, &(struct hearth_activity_kind){.reuse = reuse}, 1);
    assert_true(fabs(a.used / F - s.density) < 0.05 * s.density);
    for (int i = 0; i < 4; i++) {
        const double missed = 1 - row_of(&s, row)->hit[i],
                     said = hearth_activity_missed(&a, (uint32_t)(params.shares[i] * F), F) / a.used;
        if (fabs(said - missed) > apart * missed + 0.01)
            fail_msg("%.0f %%: %.3f missed, %.3f forecast", 100 * params.shares[i], missed, said);
    }
    hearth_trace_close(&t);
}

static void test_no_reuse(void **state)
{
    (void)state;
    check_misses(0, "fixed", 0.2);
}

static void test_reuse(void **state)
{
    (void)state;
    check_misses(0.5, "twospeed", 0.25);
}

static void test_activity(void **state)
{
    (void)state;
    struct hearth_activity a, b;
    hearth_activity_make(&a, NULL, F, &HEARTH_ACTIVITY_NEURONS, 1);
    hearth_activity_make(&b, NULL, F, &HEARTH_ACTIVITY_NEURONS, 8);
    assert_true(fabs(a.used - 0.15 * F) < 0.02 * F);
    assert_true(b.used > 2 * a.used && b.used < F);
    double last = a.used * 1.001;
    for (uint32_t kept = 0; kept <= F; kept += 10) {
        const double missed = hearth_activity_missed(&a, kept, F);
        assert_true(missed >= 0 && missed <= last);
        last = missed;
    }
    assert_true(hearth_activity_missed(&a, F, F) == 0);
    assert_true(fabs(hearth_activity_leading(&a, F, F) - a.used) < 1e-3 * F);
}

// More repeats tell of more reuse; what independent tokens repeat tells of none.
static void test_repeats(void **state)
{
    (void)state;
    static float share[F];
    make_shares(share);
    const float *shares[2] = {share, share};
    double squares = 0, sum = 0, last = 0;
    for (int j = 0; j < F; j++) {
        squares += (double)share[j] * (double)share[j];
        sum += (double)share[j];
    }
    assert_true(hearth_activity_reuse(shares, 2, F, squares / sum) < 0.05);
    for (double repeats = 0.4; repeats < 0.9; repeats += 0.1) {
        const double reuse = hearth_activity_reuse(shares, 2, F, repeats);
        assert_true(reuse >= last && reuse <= 0.95);
        last = reuse;
    }
    assert_true(last > 0.5);
}

// ---- forecasts

#define LAYERS 4

static const uint64_t dense[LAYERS] = {1000000, 1000000, 1000000, 1000000};
static const struct hearth_budget_space spaces[LAYERS] = {
    {.n_neurons = F, .bundle_bytes = 7168, .row_bytes = 6912, .visit = 1},
    {.n_neurons = F, .bundle_bytes = 7168, .row_bytes = 6912, .visit = 1},
    {.n_neurons = F, .bundle_bytes = 7168, .row_bytes = 6912, .visit = 1},
    {.n_neurons = F, .bundle_bytes = 7168, .row_bytes = 6912, .visit = 1}};

static struct hearth_probe machine(void)
{
    return (struct hearth_probe){.cores = 2,
                                 .memory_gb_s = 40,
                                 .core_gb_s = 25,
                                 .any = {.gb_s = 40, .gmac_s = 100, .prompt_gmac_s = 80},
                                 .request_us = 14,
                                 .byte_ns = 0.28,
                                 .sequential_gb_s = 2.5,
                                 .request_cpu_us = 4,
                                 .depth = 64,
                                 .align = 512};
}

// With reads that go over `gap` bytes, and `lent` bytes for layers that stream; 0: none does.
static struct hearth_forecast forecast_with(const struct hearth_probe *probe, uint32_t kept, int threads,
                                            bool look_ahead, uint32_t gap, uint64_t lent)
{
    static struct hearth_activity activity[LAYERS];
    static uint32_t resident[LAYERS], quota[LAYERS];
    struct hearth_workload work = {
        .parts_united = 1, .rows_united = 1, .n_layer = LAYERS, .predictors = 400000, .neurons = LAYERS * F};
    work.whole[HEARTH_TYPE_Q4_0] = 4e6;
    work.rows[HEARTH_TYPE_Q4_0] = 0.15 * LAYERS * F * 6912;
    for (int i = 0; i < LAYERS; i++) {
        hearth_activity_make(&activity[i], NULL, F, &HEARTH_ACTIVITY_NEURONS, 1);
        resident[i] = kept / 10;
        quota[i] = kept - kept / 10;
    }
    const struct hearth_budget_params budget = {
        .n_layers = LAYERS, .dense = dense, .n_spaces = LAYERS, .spaces = spaces};
    const struct hearth_budget_plan plan = {
        .dense_layers = lent ? 1 : LAYERS, .head_in_memory = true, .layer_buffers = 0};
    const struct hearth_forecast_params p = {.probe = probe,
                                             .workload = &work,
                                             .budget = &budget,
                                             .plan = &plan,
                                             .resident = resident,
                                             .quota = quota,
                                             .activity = activity,
                                             .threads = threads,
                                             .tokens = 1,
                                             .lent = lent,
                                             .gap = gap,
                                             .look_ahead = look_ahead};
    struct hearth_forecast f;
    hearth_forecast(&p, &f);
    return f;
}

static struct hearth_forecast forecast(const struct hearth_probe *probe, uint32_t kept, int threads)
{
    return forecast_with(probe, kept, threads, true, 1, 0);
}

static void test_memory(void **state)
{
    (void)state;
    const struct hearth_probe p = machine();
    struct hearth_forecast last = forecast(&p, 100, 2);
    for (uint32_t kept = 200; kept <= F; kept += 100) {
        const struct hearth_forecast f = forecast(&p, kept, 2);
        assert_true(f.read_bytes <= last.read_bytes && f.reads <= last.reads);
        assert_true(f.tokens_per_second >= last.tokens_per_second);
        assert_true(f.hit_rate >= 0 && f.hit_rate <= 1);
        last = f;
    }
    assert_true(last.reads == 0 && last.storage_s == 0);
}

static void test_machine(void **state)
{
    (void)state;
    const struct hearth_probe p = machine();
    const struct hearth_forecast f = forecast(&p, 400, 2);
    struct hearth_probe q = p;
    q.request_us = 28;
    assert_true(forecast(&q, 400, 2).tokens_per_second < f.tokens_per_second);
    q = p;
    q.memory_gb_s = 20;
    assert_true(forecast(&q, 400, 2).tokens_per_second < f.tokens_per_second);
    assert_true(forecast(&p, 400, 1).tokens_per_second < f.tokens_per_second);
    q = p;
    q.any.memory_gb_s = 0.5 * p.memory_gb_s;
    assert_true(forecast(&q, 400, 2).compute_s > f.compute_s);
    assert_true(forecast(&q, 400, 1).compute_s > forecast(&p, 400, 1).compute_s);
    q = p;
    q.any.rows_gb_s = 0.2 * p.memory_gb_s;
    assert_true(forecast(&q, 400, 2).compute_s > f.compute_s);
    // What is read does not depend on the machine.
    assert_true(forecast(&q, 400, 1).read_bytes == f.read_bytes);
    // An independent sum: requests and bytes at the storage's speed are the limit here.
    assert_true(fabs(f.storage_s / (f.reads * 14e-6 + f.read_bytes * 0.28e-9) - 1) < 0.01);
}

// Reads and bundles of a file in which each of n bundles is wanted with chance `share`, put together as
// weights/neuron_reads.c does it.
static void merge(uint32_t n, double share, uint32_t gap, double *reads, double *bundles)
{
    uint64_t random = 3;
    uint32_t first = 0, last = 0, count = 0;
    *reads = *bundles = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (uniform(&random) >= share)
            continue;
        if (count && count < HEARTH_READ_GROUP && i - last - 1 <= gap && i + 1 - first <= HEARTH_READ_GROUP) {
            *bundles += i - last;
            count++;
        } else {
            *reads += 1;
            *bundles += 1;
            first = i;
            count = 1;
        }
        last = i;
    }
}

static void test_merged(void **state)
{
    (void)state;
    const struct hearth_probe p = machine();
    for (uint32_t kept = 100; kept <= 900; kept += 200)
        for (uint32_t gap = 0; gap <= 6; gap += 3) {
            const struct hearth_forecast f = forecast_with(&p, kept, 2, false, gap * 7168 + 1, 0);
            const double missed = f.asked * (1 - f.hit_rate) / LAYERS, share = missed / (F - kept / 10);
            const uint32_t n = 1000000;
            double reads, bundles;
            merge(n, share, gap, &reads, &bundles);
            const double scale = LAYERS * missed / (share * n);
            if (fabs(f.reads / (reads * scale) - 1) > 0.1 ||
                fabs(f.read_bytes / 7168 / (bundles * scale) - 1) > 0.1)
                fail_msg("%u kept, gap %u: %.1f reads forecast, %.1f; %.1f bundles, %.1f", kept, gap, f.reads,
                         reads * scale, f.read_bytes / 7168, bundles * scale);
        }
}

// Layers that memory is lent to are not read.
static void test_lent(void **state)
{
    (void)state;
    const struct hearth_probe p = machine();
    const double all = forecast_with(&p, 400, 2, true, 1, 1).read_bytes;
    assert_true(fabs(all - forecast_with(&p, 400, 2, true, 1, 2500000).read_bytes - 2e6) < 1);
    assert_true(fabs(all - forecast(&p, 400, 2).read_bytes - 3e6) < 1);
}

// ---- experts

#define EXPERT_LAYERS 48
#define EXPERTS       128
#define EXPERT_BYTES  2700000

static struct hearth_forecast forecast_experts(uint32_t slots, double compute_bytes, bool look_ahead)
{
    static uint64_t bytes[EXPERT_LAYERS];
    const struct hearth_probe p = machine();
    struct hearth_workload work = {.parts_united = 1, .rows_united = 1, .n_layer = EXPERT_LAYERS};
    work.parts[HEARTH_TYPE_Q4_0] = compute_bytes;
    for (int i = 0; i < EXPERT_LAYERS; i++)
        bytes[i] = EXPERT_BYTES;
    const struct hearth_budget_params budget = {.n_layers = EXPERT_LAYERS,
                                                .dense = bytes,
                                                .expert_bytes = bytes,
                                                .n_experts = EXPERTS,
                                                .common_experts = 9};
    const struct hearth_budget_plan plan = {
        .dense_layers = EXPERT_LAYERS, .head_in_memory = true, .layer_experts = slots, .common_experts = 9};
    const struct hearth_forecast_params params = {.probe = &p,
                                                  .workload = &work,
                                                  .budget = &budget,
                                                  .plan = &plan,
                                                  .threads = 2,
                                                  .tokens = 1,
                                                  .look_ahead = look_ahead};
    struct hearth_forecast f;
    hearth_forecast(&params, &f);
    return f;
}

// Plays steps: each layer misses some experts, nine of ten of which are asked for when the layer before begins.
// One storage brings them in order. Returns the seconds of a step.
static double play(double missed, double compute_s, double read_s)
{
    const int layers = EXPERT_LAYERS * 400;
    uint64_t random = 5;
    double now = 0;
    double storage = 0; // when it is free
    double there = 0;   // when what was asked for ahead is there
    for (int l = 0; l < layers; l++) {
        int late = 0, ahead = 0;
        for (int e = 0; e < EXPERTS; e++)
            if (uniform(&random) < missed / EXPERTS)
                *(uniform(&random) < 0.11 ? &late : &ahead) += 1;
        now = now > there ? now : there;
        storage = storage > now ? storage : now;
        storage += late * read_s; // before those of the next layer
        const double late_there = storage;
        storage += ahead * read_s; // as many as this layer's: which are whose does not matter on the average
        there = storage;
        now = now + compute_s > late_there ? now + compute_s : late_there + 0.1 * compute_s;
    }
    return now / layers * EXPERT_LAYERS;
}

static void test_experts_read_ahead(void **state)
{
    (void)state;
    double last = 0;
    for (uint32_t slots = 1; slots < EXPERTS; slots += 14)
        for (double bytes = 0.5e9; bytes < 5e9; bytes *= 3) {
            const struct hearth_forecast f = forecast_experts(slots, bytes, true);
            const double missed = f.reads / 3 / EXPERT_LAYERS, step = 1 / f.tokens_per_second,
                         read = f.reads > 0 ? f.storage_s / (f.reads / 3) : 0,
                         played = play(missed, f.compute_s / EXPERT_LAYERS, read);
            if (fabs(step / played - 1) > 0.15)
                fail_msg("%u experts a layer, %.1f GB: %.1f ms forecast, %.1f played", slots, bytes / 1e9,
                         step * 1e3, played * 1e3);
            assert_true(f.hidden_s >= 0 && step >= fmax(f.compute_s, f.storage_s) * (1 - 1e-9));
            assert_true(forecast_experts(slots, bytes, false).tokens_per_second < f.tokens_per_second);
        }
    for (uint32_t slots = 1; slots <= EXPERTS; slots++) {
        const double speed = forecast_experts(slots, 1.5e9, true).tokens_per_second;
        assert_true(speed >= last);
        last = speed;
    }
}

// Some uses nothing foretells: a cache of any size misses its share of them.
static void test_stray_uses(void **state)
{
    (void)state;
    struct hearth_activity a;
    struct hearth_activity_kind kind = HEARTH_ACTIVITY_EXPERTS;
    kind.density = 8.0 / EXPERTS;
    hearth_activity_make(&a, NULL, EXPERTS, &kind, 1);
    // Measured: a model with 8 of 128 experts, 200 tokens, the share of experts asked for that was missing.
    static const double measured[][2] = {{0.175, 0.37}, {0.28, 0.20}, {0.39, 0.167},
                                         {0.5, 0.115},  {0.6, 0.082}, {0.8, 0.025}};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        const double missed =
            hearth_activity_missed(&a, (uint32_t)(measured[i][0] * EXPERTS), EXPERTS) / a.used;
        if (fabs(missed - measured[i][1]) > 0.2 * measured[i][1] + 0.01)
            fail_msg("%.0f %% kept: %.3f missed, %.3f measured", 100 * measured[i][0], missed,
                     measured[i][1]);
    }
    assert_true(hearth_activity_missed(&a, EXPERTS, EXPERTS) == 0);
}

static void test_gap(void **state)
{
    (void)state;
    struct hearth_probe p = machine();
    assert_in_range(hearth_forecast_gap(&p), 49999, 50000); // 14 us at 0.28 ns a byte
    p.request_us = 0;
    assert_int_equal(hearth_forecast_gap(&p), 1);
    p.request_us = 1;
    p.byte_ns = 0;
    assert_int_equal(hearth_forecast_gap(&p), 1 << 20);
}

// What a token needs of a file's matrices: all of those of the layers, of experts those used, and the head.
static double needed(const struct hearth_model *m)
{
    const double used = m->hp.n_expert ? (double)m->hp.n_expert_used / m->hp.n_expert : 1;
    const bool tied = !hearth_gguf_tensor(m->gguf, "output.weight");
    double bytes = 0;
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(m->gguf); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(m->gguf, i);
        if (strcmp(t->name.s, tied ? "token_embd.weight" : "output.weight") == 0)
            bytes += (double)t->bytes;
        if ((strncmp(t->name.s, "blk.", 4) == 0 || strncmp(t->name.s, "output_hc", 9) == 0) &&
            t->n_dims > 1 && t->ne[0] > 1 && !strstr(t->name.s, "conv1d") &&
            !strstr(t->name.s, "shortconv.conv") && !strstr(t->name.s, "ssm_norm") &&
            !strstr(t->name.s, "_ape") && !strstr(t->name.s, "tid2eid"))
            bytes += (double)t->bytes * (strstr(t->name.s, "_exps.") ? used : 1);
    }
    return bytes;
}

// No matrix of any architecture is left out.
static void test_workload(void **state)
{
    static const char *const names[] = {"llama-mha.Q8_0",
                                        "falcon-7b.Q8_0",
                                        "glm4moe.Q8_0",
                                        "deepseek-v2.Q8_0",
                                        "deepseek-v2-joint.Q8_0",
                                        "deepseek-v3.Q8_0",
                                        "qwen35.Q8_0",
                                        "qwen35moe.Q8_0",
                                        "lfm2.Q8_0",
                                        "lfm2moe.Q8_0",
                                        "nemotron-h.Q8_0",
                                        "nemotron-super.Q8_0",
                                        "granite-hybrid-moe.Q8_0",
                                        "kimi-delta.Q8_0",
                                        "ling3.Q8_0",
                                        "qwen4exp.Q8_0",
                                        "falcon-h.Q8_0",
                                        "deepseek32.Q8_0",
                                        "glm-dsa.Q8_0",
                                        "deepseek-v4.Q8_0",
                                        "minimax-m3.Q8_0",
                                        "minimax-text.Q8_0",
                                        "deci.Q8_0",
                                        "hy-v4.Q8_0"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const double density[8] = {0};
        struct hearth_model *m;
        struct hearth_workload w;
        struct hearth_error err = {0};
        char path[4096];
        double counted = 0;
        snprintf(path, sizeof path, GOLDEN_MODELS "%s.gguf", names[i]);
        assert_int_equal(hearth_model_open(&m, path, NULL, &err), HEARTH_OK);
        assert_in_range(m->hp.n_layer, 1, 8);
        hearth_workload_make(&w, m, HEARTH_SPARSITY_OFF, density);
        for (uint32_t type = 0; type < HEARTH_TYPE_END; type++)
            counted += w.whole[type] + w.parts[type] + w.rows[type];
        if (fabs(counted - needed(m)) > 0.5)
            fail_msg("%s: %.0f bytes are counted, a token needs %.0f", names[i], counted, needed(m));
        hearth_model_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workload),   cmocka_unit_test(test_no_reuse),
        cmocka_unit_test(test_reuse),      cmocka_unit_test(test_activity),
        cmocka_unit_test(test_repeats),    cmocka_unit_test(test_memory),
        cmocka_unit_test(test_machine),    cmocka_unit_test(test_merged),
        cmocka_unit_test(test_lent),       cmocka_unit_test(test_experts_read_ahead),
        cmocka_unit_test(test_stray_uses), cmocka_unit_test(test_gap)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
