// SPDX-License-Identifier: MIT
// Layers on a device: the logits of the CPU alone, byte by byte, whatever is on the device, in all modes, resident and
// streamed, in batches; sequences that are cut, forked, saved and continued; a device that is small, or fails at any
// place. Skipped where there is no device (PoCL is one).
#include "check.h"

#include "accel/insides.h"
#include "engine/offload.h"
#include "engine/offload_parts.h"
#include "made_models.h"

#include "device_support.h"

// Layers that the device of an open session has; -1: it has failed.
static int layers_of(const struct opened *o, bool *head)
{
    const struct hearth_device_stats stats = device_stats_of(o);
    assert_non_null(stats.name);
    *head = stats.head != 0;
    return stats.works ? stats.layers : -1;
}

static void check_device(const char *path, struct way way, const float *want, int layers, bool head)
{
    char what[700];
    bool has_head;
    way.device = "0";
    struct opened o = open_way(path, &way);
    assert_int_equal(layers_of(&o, &has_head), layers);
    assert_int_equal(has_head, head);
    snprintf(what, sizeof what, "%s with %d layers on a device, sparsity %d, %llu bytes", path, layers,
             (int)way.sparsity, (unsigned long long)way.ram);
    check_logits(&o, want, what);
    assert_int_equal(layers_of(&o, &has_head), layers);
    close_opened(&o);
}

// All, and one layer, without the head.
static void check_file(const char *path, struct way way)
{
    float *want = evaluate_alone(path, &way);
    struct opened o = open_way(path, &way);
    const int n_layer = o.model->hp.n_layer;
    close_opened(&o);
    check_device(path, way, want, n_layer, true);
    way.device_layers = 1;
    check_device(path, way, want, 1, false);
    free(want);
}

static const enum hearth_sparsity modes[] = {HEARTH_SPARSITY_OFF, HEARTH_SPARSITY_EXACT,
                                             HEARTH_SPARSITY_PREDICT};

static void test_golden(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {
        "models/drelu.Q4_0",          "models/falcon-7b.F16",       "models/falcon-40b.Q8_0",
        "models/gemma3.Q4_0",         "models/qwen3.Q8_0",          "models/phi3.Q8_0",
        "models/glm4.Q8_0",           "models/hunyuan.Q8_0",        "models/smollm3.Q8_0",
        "models/jump.Q4_0",           "models/jump.Q8_0",           "models/cohere2.Q8_0",
        "models/olmo3.Q8_0",          "models/exaone4-hybrid.Q8_0", "models/nemotron.Q8_0",
        "models/phi2.Q8_0",           "models/gptneox.Q8_0",        "models/granite-swa.Q8_0",
        "models/stablelm.Q8_0",       "models/gemma4.Q4_0",         "models/mistral3.Q8_0",
        "models/gemma2.Q8_0",         "models/stablelm-12b.Q8_0",   "models/olmo.Q8_0",
        "models/command-r-plus.Q8_0", "models/deci.Q8_0",           "models/qwen3.NVFP4",
        "models/bitnet.Q8_0",         "models/bloom.Q8_0",          "models/mpt.Q8_0",
        "models/apertus.Q8_0",        "models/minicpm3.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        check_file(path, (struct way){.n_threads = 1, .sparsity = HEARTH_SPARSITY_AUTO});
    }
}

static void test_caches(void **state)
{
    (void)state;
    need_device();
    const char *path = golden("models/drelu.Q8_0");
    check_file(path, (struct way){.n_threads = 1, .type_k = HEARTH_KV_F32});
    check_file(path, (struct way){.n_threads = 1, .type_v = HEARTH_KV_F32});
    path = golden("models/gemma3.Q8_0");
    check_file(path, (struct way){.n_threads = 1, .type_k = HEARTH_KV_Q8_0, .type_v = HEARTH_KV_Q8_0});
    path = golden("models/gemma4.Q8_0");
    check_file(path, (struct way){.n_threads = 1, .type_k = HEARTH_KV_Q8_0});
    check_file(path, (struct way){.n_threads = 1, .type_v = HEARTH_KV_Q8_0});
}

// Predictors, activations that decide, down by neuron.
static void test_sparse(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"pwri/llama.Q4_0", "pwri/bamboo.F16", "pwri/falcon.Q4_0",
                                        "pwri/opt.Q4_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int mode = 0; mode < 3; mode++) {
            const char *path = golden(names[i]);
            check_file(path, (struct way){.n_threads = 1, .sparsity = modes[mode]});
        }
}

// Models whose layers keep what devices do not know leave them the head.
static void test_head_alone(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/gemma3n.Q8_0",      "models/gemma4-e.Q8_0",
                                        "models/laguna.Q8_0",       "models/qwen4exp.Q8_0",
                                        "models/deepseek-v4.Q8_0",  "models/minimax-m3.Q8_0",
                                        "models/minimax-text.Q8_0", "models/falcon-h.Q8_0",
                                        "models/hy-v4.Q8_0",        "models/muse-glimmer.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        const struct way way = {.n_threads = 1};
        float *want = evaluate_alone(path, &way);
        check_device(path, way, want, 0, true);
        free(want);
    }
}

// Models of which some layers are recurrent: a device has those behind the last one of these.
static void test_behind_recurrent(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/qwen35.Q8_0", "models/lfm2.Q8_0", "models/nemotron-h.Q8_0",
                                        "models/granite-hybrid.Q8_0"};
    int most = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        const struct way way = {.n_threads = 1};
        struct opened o = open_way(path, &way);
        const struct hearth_hparams *hp = &o.model->hp;
        int n = 0;
        while (!hearth_is_recurrent(hp, hp->n_layer - 1 - n))
            n++;
        close_opened(&o);
        float *want = evaluate_alone(path, &way);
        check_device(path, way, want, n, true);
        free(want);
        most = n > most ? n : most;
    }
    assert_true(most > 0);
}

// Weights that stream: those of the device are read once, and no more.
static void test_streams(void **state)
{
    (void)state;
    need_device();
    for (size_t i = 0; i < 4; i++) {
        const char *path = keep(i == 0   ? make_with("tiny-dense", false)
                                : i == 1 ? make_with("tiny-turbosparse", true)
                                         : make_pack(i == 3));
        uint64_t least, most;
        const enum hearth_sparsity sparsity = i ? HEARTH_SPARSITY_PREDICT : HEARTH_SPARSITY_OFF;
        find_budgets(path, sparsity, 1, &least, &most);
        struct way way = {.ram = least,
                          .io = "pread",
                          .n_threads = 1,
                          .sparsity = sparsity,
                          .tests = {SMALL, .always = true}};
        float *want = evaluate_in_memory(path, sparsity);
        struct opened o = open_way(path, &way);
        const int n_layer = o.model->hp.n_layer;
        close_opened(&o);
        way.device_layers = i % 2 ? n_layer : 1;
        check_device(path, way, want, way.device_layers, false);
        way.device_layers = 0;
        check_device(path, way, want, n_layer, true);
        free(want);
    }
}

// A budget of the device's memory for none, some, all.
static void test_small(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_with("tiny-dense", false));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    int before = 0;
    bool head;
    way.device = "0";
    for (uint64_t vram = 1; vram < (uint64_t)1 << 30; vram *= 4) {
        way.vram = vram;
        struct opened o = open_way(path, &way);
        struct hearth_device_stats stats;
        hearth_session_device_stats(o.session, &stats, sizeof stats);
        const int layers = layers_of(&o, &head);
        assert_true(layers >= before && stats.bytes <= vram);
        if (!layers && !head && !stats.neurons)
            assert_int_equal(stats.bytes, 0);
        if (layers > before) {
            check_logits(&o, want, "a small device");
        }
        before = layers;
        close_opened(&o);
    }
    assert_true(before > 1 && head);
    free(want);
}

// Unless somebody says how much: with memory of its own, and with the system's.
static void test_default_memory(void **state)
{
    (void)state;
    const struct hearth_accel_info own = {.memory = 1000}, shared = {.memory = 1000, .shares_memory = true};
    assert_int_equal(hearth_offload_vram(&own, 800, 100), 720);
    assert_int_equal(hearth_offload_vram(&shared, 800, 100), 50);
    assert_int_equal(hearth_offload_vram(&shared, 800, 4000), 720);
    assert_int_equal(hearth_offload_vram(&shared, 800, UINT64_MAX), 720); // nobody knows
    assert_int_equal(hearth_offload_vram(&shared, 800, 0), 0);
}

// Hot neurons of layers that are the CPU's otherwise: resident, streamed, named a layer ahead, and a device that fails.
// It does in one mode and with layers of its own, which is where most has begun by then.
static void check_hot(const char *path, struct way way, bool streams)
{
    const bool predicts = way.sparsity == HEARTH_SPARSITY_PREDICT;
    for (int layers = 0; layers < 2; layers++) {
        way.device = NULL;
        way.ram = 0;
        way.no_layers = !layers;
        float *want = evaluate_alone(path, &way);
        if (streams)
            let_stream(path, &way);
        way.device = "0";
        way.device_layers = 1;
        way.vram = 64 << 20;
        for (long fail_at = 0; fail_at < (layers && predicts ? 100 : 1);
             fail_at = fail_at * (SANITIZED ? 20 : 8) + 9) {
            struct opened o = open_way(path, &way);
            assert_true(device_stats_of(&o).neurons > 0 && device_stats_of(&o).layers == layers);
            const struct hearth_hot *hot = o.session->offload->hot;
            const bool early = way.ram && o.model->hp.predictor_input == HEARTH_PREDICTOR_PREVIOUS;
            assert_int_equal(hearth_hot_asks(hot, hot->first), predicts && !early);
            hearth_accel_fail_at(o.session->offload->a, fail_at);
            check_logits(&o, want, "hot neurons on a device");
            assert_int_equal(device_stats_of(&o).works, fail_at == 0);
            close_opened(&o);
        }
        free(want);
    }
}

static void test_hot(void **state)
{
    (void)state;
    need_device();
    for (int mode = 0; mode < 3; mode++) {
        const char *path = keep(make_with("tiny-turbosparse", mode == 2));
        check_hot(path, (struct way){.n_threads = 2, .sparsity = modes[mode]}, false);
    }
    check_hot(keep(make_with("tiny-opt", false)),
              (struct way){.n_threads = 2, .sparsity = HEARTH_SPARSITY_PREDICT}, false);
    for (int early = 0; early < 2; early++) {
        check_hot(keep(make_pack(early)),
                  (struct way){.n_threads = 1 + early, .sparsity = HEARTH_SPARSITY_PREDICT}, true);
    }
}

// All layers pass through it in prompts, more than it has memory for.
static void open_through(struct opened *opened)
{
    struct hearth_offload *o = opened->session->offload;
    const struct hearth_through_setup setup = {.roles = hearth_offload_roles,
                                               .n_roles = HEARTH_OFFLOAD_ROLES,
                                               .max_pages = o->max_pages,
                                               .cache_bytes = hearth_offload_cache_bytes(o->s, 0),
                                               .n_layers = o->s->model->hp.n_layer,
                                               .always = true};
    assert_null(o->through);
    OK(hearth_through_open(&o->through, o->a, o->s, &setup, &err));
    assert_non_null(o->through);
}

// Attention of all layers, and hot neurons of all, where the layers do not fit. Prompts pass through it, or the CPU
// computes their feed-forward parts. A device that fails.
static void check_divided(const char *path, struct way way)
{
    float *want = evaluate_alone(path, &way);
    way.device = "0";
    struct opened o = open_way(path, &way);
    const int n_layer = o.model->hp.n_layer;
    const uint64_t all = device_stats_of(&o).bytes;
    int n = 0;
    assert_int_equal(device_stats_of(&o).layers, n_layer);
    close_opened(&o);
    for (int part = 15; part >= 4 && !n; part--) {
        way.vram = all / 16 * (uint64_t)part;
        for (long fail_at = 0; fail_at < 800; fail_at = fail_at * (SANITIZED ? 4 : 2) + 25)
            for (int through = 0; through < 2; through++) {
                o = open_way(path, &way);
                const struct hearth_device_stats stats = device_stats_of(&o);
                assert_true(stats.bytes <= way.vram);
                if (!stats.attention) {
                    close_opened(&o);
                    fail_at = 800;
                    break;
                }
                assert_true(stats.attention == n_layer && !stats.layers && stats.neurons > 0);
                n += !fail_at && !through;
                if (through)
                    open_through(&o);
                hearth_accel_fail_at(o.session->offload->a, fail_at);
                check_logits(&o, want, "layers that are divided");
                assert_int_equal(device_stats_of(&o).works, fail_at == 0);
                assert_true(!through || fail_at || o.session->offload->through->tokens > 0);
                assert_true(fail_at || o.session->offload->tokens > 0);
                close_opened(&o);
            }
    }
    assert_true(n > 0);
    free(want);
}

static void test_divided(void **state)
{
    (void)state;
    need_device();
    for (int mode = 1; mode < 3; mode++)
        check_divided(keep(make_with("tiny-turbosparse", mode == 1)),
                      (struct way){.n_threads = mode, .sparsity = modes[mode]});
}

// Predictors that see what they look at besides: of the device's own layers, and of the CPU's.
static void test_wide(void **state)
{
    (void)state;
    need_device();
    for (int previous = 0; previous < 2; previous++) {
        const struct made made = {
            .arch = "llama",
            .by_neuron = true,
            .predictors = true,
            .wide = true,
            .ff = 1000,
            .set = {{"hearth.pack.predictor_input", 's', 0, previous ? "previous" : "normed"},
                    {"feed_forward.activation", 's', 0, "relu"}}};
        const char *path = keep(in_folder("made.gguf"));
        made_write(path, &made);
        check_file(path, (struct way){.n_threads = 2, .sparsity = HEARTH_SPARSITY_PREDICT});
        const char *pack = in_folder("wide.gguf");
        remove(pack);
        OK(hearth_pack_write(path, pack, &(struct hearth_pack_params){0}, NULL, &err));
        check_hot(keep(pack), (struct way){.n_threads = 1, .sparsity = HEARTH_SPARSITY_PREDICT}, previous);
    }
}

// The predictors that it has are the CPU's again.
static void leave_predictors(struct hearth_hot *h)
{
    for (int i = h->first; i < h->end; i++)
        h->layers[i].fc1.n = 0;
}

// Whatever share of its clusters it takes, with predictors and without.
static void test_shares(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_with("tiny-opt", false));
    struct way way = {.n_threads = 2, .sparsity = HEARTH_SPARSITY_PREDICT};
    float *want = evaluate_alone(path, &way);
    way.device = "0";
    way.device_layers = 1;
    way.vram = 64 << 20;
    way.type_k = HEARTH_KV_F16;
    struct opened o = open_way(path, &way);
    struct hearth_share *share = &o.session->offload->hot->share;
    for (int part = 0; part <= HEARTH_SHARE_ALL; part += SANITIZED ? 8 : 3) {
        if (part > HEARTH_SHARE_ALL / 2)
            leave_predictors(o.session->offload->hot);
        for (int i = 0; i < HEARTH_SHARE_CLASSES; i++)
            share->classes[i] = (struct hearth_share_class){
                .known = true, .best = part, .tried = part, .left = 1000, .patience = 1000};
        check_logits(&o, want, "a share of the hot neurons");
        assert_true(share->classes[0].best_ns > 0 && share->classes[2].best_ns > 0); // one row, and three
        const size_t clusters = o.session->offload->hot->layers[0].clusters;
        assert_true((share->classes[0].wait > 0) == (hearth_share_part(part, clusters) > 0));
        free_sequences(&o);
    }
    free(want);
    close_opened(&o);
}

// Steps that come again: a device that can do so begins their layers as lists that it has recorded. One that fails among
// them leaves the rest to the CPU.
static void test_lists(void **state)
{
    (void)state;
    need_device();
    for (int sparse = 0; sparse < 2; sparse++) {
        const char *path = keep(make_with(sparse ? "tiny-turbosparse" : "tiny-dense", false));
        struct way way = {.n_threads = 1, .sparsity = sparse ? HEARTH_SPARSITY_PREDICT : HEARTH_SPARSITY_OFF};
        float *want = evaluate_alone(path, &way);
        way.device = "0";
        struct opened o = open_way(path, &way);
        struct hearth_accel *a = o.session->offload->a;
        uint64_t replays = hearth_accel_stats(a).replays;
        const bool can = replays > 0; // it was checked when it was opened
        for (int time = 0; time < 3; time++) {
            hearth_accel_fail_at(a, time == 2 ? 200 : 0);
            check_logits(&o, want, "steps as lists");
            assert_int_equal(device_stats_of(&o).works, time < 2);
            assert_true(!can || time == 2 || hearth_accel_stats(a).replays > replays + 2);
            replays = hearth_accel_stats(a).replays;
            free_sequences(&o);
        }
        assert_int_equal(can, !strcmp(hearth_accel_describe(a)->backend, "CUDA"));
        free(want);
        close_opened(&o);
    }
}

// Batches that are larger than what the device takes at a time.
static void test_parts(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_with("tiny-dense", false));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    way.device = "0";
    struct opened o = open_way(path, &way);
    o.session->offload->rows[0].cap = 3;
    check_logits(&o, want, "in parts");
    free(want);
    close_opened(&o);
}

static void test_mixed_parts(void **state)
{
    (void)state;
    need_device();
    check_mixed_parts(keep(make_with("tiny-dense", false)));
}

// A device that fails at its n-th call, for many n: the CPU goes on, and no logit is another.
static void test_failing(void **state)
{
    (void)state;
    need_device();
    for (size_t i = 0; i < 2; i++) {
        const char *path = keep(i ? make_pack(true) : make_with("tiny-dense", false));
        struct way way = {.n_threads = 1, .sparsity = i ? HEARTH_SPARSITY_PREDICT : HEARTH_SPARSITY_OFF};
        float *want = evaluate_alone(path, &way);
        if (i)
            let_stream(path, &way);
        way.device = "0";
        for (long n = 1; n < 1000; n = n * (SANITIZED ? 20 : 6) + 3) {
            bool head;
            struct opened o = open_way(path, &way);
            hearth_accel_fail_at(o.session->offload->a, n);
            check_logits(&o, want, "a device that fails");
            assert_int_equal(layers_of(&o, &head), -1);
            close_opened(&o);
        }
        free(want);
    }
}

// A device that fails while layers are brought there keeps those behind, each of them once.
static void test_failing_open(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_with("tiny-dense", false));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    int fewest = INT32_MAX, most = 0;
    for (long n = 1; most < 3; n += 37) {
        struct opened o = open_way(path, &way);
        struct hearth_offload_params params = {.device = {.device = "0", .inexact = true, .fail_at = n},
                                               .layers = HEARTH_OFFLOAD_ALL};
        OK(hearth_offload_open(&o.session->offload, o.session, &params, &err));
        const struct hearth_offload *of = o.session->offload;
        const int n_layer = o.model->hp.n_layer, layers = n_layer - of->first;
        const struct hearth_offload_layer none = {0};
        assert_false(of->head);
        assert_int_equal(hearth_accel_stats(of->a).bytes == 0, layers == 0);
        for (int i = layers; i < n_layer; i++)
            assert_memory_equal(&of->layers[i], &none, sizeof none);
        fewest = layers < fewest ? layers : fewest;
        if (layers > most) {
            check_logits(&o, want, "a device that fails at first");
        }
        most = layers > most ? layers : most;
        close_opened(&o);
    }
    assert_int_equal(fewest, 0);
    free(want);
    way.no_layers = true; // the head alone
    for (long n = 1; n <= 6; n++) {
        struct opened o = open_way(path, &way);
        struct hearth_offload_params params = {.device = {.device = "0", .inexact = true, .fail_at = n},
                                               .layers = HEARTH_OFFLOAD_ALL};
        OK(hearth_offload_open(&o.session->offload, o.session, &params, &err));
        assert_false(o.session->offload->head);
        assert_int_equal(hearth_accel_stats(o.session->offload->a).bytes, 0);
        close_opened(&o);
    }
}

// What a device computes is read ahead for a session without one.
static struct hearth_source_ops noting;
static void (*skip_stages)(void *state, const bool *layers, bool head);
static int n_stages, n_skipped; // layers in all, and those of the last call
static bool skip_head;

static void note_skip(void *state, const bool *layers, bool head)
{
    n_skipped = 0;
    for (int i = 0; layers && i < n_stages; i++)
        n_skipped += layers[i];
    skip_head = head;
    skip_stages(state, layers, head);
}

// With layers there, and with the head alone.
static void check_shared(const char *path, uint64_t ram, bool no_layers)
{
    const struct hearth_weights_tests tests = {SMALL, .always = true};
    struct hearth_model *m = open_model_for(path, ram, 2, &tests);
    n_stages = m->hp.n_layer;
    m->hp.normed_scale = no_layers ? -1.0f : 0.0f; // as in struct way
    struct way way = {.n_threads = 1, .n_seqs = 1, .device = "0"};
    struct opened with = {.model = m, .n_vocab = hearth_model_info(m)->n_vocab}, without = with;
    OK(open_session_of(&with, &way));
    way.device = NULL;
    OK(open_session_of(&without, &way));
    struct hearth_source *stages = &with.session->sources->stages;
    assert_ptr_equal(with.session->sources, without.session->sources);
    noting = *stages->ops;
    skip_stages = noting.skip;
    noting.skip = note_skip;
    stages->ops = &noting;
    const hearth_token tokens[3] = {1, 2, 3};
    for (int i = 0; i < 2; i++) {
        struct opened *o = i ? &without : &with;
        const int seq = hearth_seq_new(o->session, &err);
        OK(hearth_prompt(o->session, seq, tokens, 3, NULL, NULL, &err));
        assert_int_equal(n_skipped, i || no_layers ? 0 : n_stages);
        assert_int_equal(skip_head, !i);
    }
    // Where it fails, all is the CPU's again.
    hearth_accel_fail_at(with.session->offload->a, 1);
    OK(hearth_step(with.session, (const int[]){0}, tokens, 1, &err));
    assert_int_equal(n_skipped, 0);
    assert_false(skip_head);
    hearth_session_close(&with.session);
    hearth_session_close(&without.session);
    hearth_model_close(&m);
}

static void test_shared_weights(void **state)
{
    (void)state;
    need_device();
    uint64_t least, most;
    const char *path = keep(make_with("tiny-dense", false));
    find_budgets(path, HEARTH_SPARSITY_OFF, 1, &least, &most);
    check_shared(path, 2 * most, false);
    check_shared(path, 2 * most, true);
}

static void test_sequences(void **state)
{
    (void)state;
    need_device();
    check_sequences(keep(make_with("tiny-dense", false)));
}

static void test_watched(void **state)
{
    (void)state;
    need_device();
    check_watched(keep(make_with("tiny-dense", false)));
}

static void test_refusals(void **state)
{
    (void)state;
    need_device();
    struct way way = {.n_threads = 1, .device = "no such device"};
    struct opened o;
    const char *path = golden("models/drelu.Q8_0");
    assert_int_equal(try_open(&o, path, &way), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "no such device"));
    close_opened(&o);
    way = (struct way){.n_threads = 1, .device = "auto", .device_layers = -1};
    assert_int_equal(try_open(&o, path, &way), HEARTH_E_INVALID);
    close_opened(&o);
}

// ---- cancelling

// Cancels while a device has begun a layer, or a later one: what begins it is its back end's.
static struct hearth_accel_backend cancelling;
static int (*flush_device)(void *state, struct hearth_error *err);
static struct hearth_session *to_cancel;
static int flushes_left;

static int flush_and_cancel(void *state, struct hearth_error *e)
{
    if (--flushes_left == 0)
        hearth_cancel(to_cancel);
    return flush_device(state, e);
}

static void check_cancelled_layers(struct hearth_session *s, int seq, const hearth_token *tokens, int n)
{
    struct hearth_accel *a = s->offload->a;
    const int length = hearth_seq_length(s, seq), n_layer = s->model->hp.n_layer;
    struct hearth_accel_stats before = hearth_accel_stats(a);
    OK(hearth_prompt(s, seq, tokens, n, NULL, NULL, &err));
    const uint64_t runs = hearth_accel_stats(a).runs - before.runs;
    OK(hearth_seq_truncate(s, seq, length, &err));
    float *want = malloc((size_t)s->model->hp.n_vocab * sizeof *want);
    memcpy(want, hearth_logits(s, 0), (size_t)s->model->hp.n_vocab * sizeof *want);
    cancelling = *a->backend;
    flush_device = cancelling.flush;
    cancelling.flush = flush_and_cancel;
    a->backend = &cancelling;
    to_cancel = s;
    for (int layer = 1; layer <= n_layer; layer += n_layer - 1) {
        flushes_left = layer;
        before = hearth_accel_stats(a);
        assert_int_equal(hearth_prompt(s, seq, tokens, n, NULL, NULL, &err), HEARTH_E_INTERRUPTED);
        assert_int_equal(hearth_seq_length(s, seq), length);
        if (layer == 1) // the others were not begun
            assert_true((hearth_accel_stats(a).runs - before.runs) * 2 < runs + 2);
    }
    OK(hearth_prompt(s, seq, tokens, n, NULL, NULL, &err));
    assert_memory_equal(hearth_logits(s, 0), want, (size_t)s->model->hp.n_vocab * sizeof *want);
    free(want);
}

static void test_cancel(void **state)
{
    (void)state;
    need_device();
    struct hearth_session_params p = hearth_session_params_default();
    struct stoppable o;
    p.device = "0";
    open_stoppable(&o, make_with("tiny-dense", false), p);
    check_cancelled_layers(o.session, check_stops(&o), cancel_tokens, N_CANCEL);
    close_stoppable(&o);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_caches),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_head_alone),
        cmocka_unit_test(test_behind_recurrent),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_mixed_parts),
        cmocka_unit_test(test_failing),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_hot),
        cmocka_unit_test(test_divided),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_watched),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_failing_open),
        cmocka_unit_test(test_shared_weights),
        cmocka_unit_test(test_default_memory),
        cmocka_unit_test(test_shares),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_devices);
}
