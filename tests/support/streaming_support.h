// SPDX-License-Identifier: MIT
// Test support: models that are not all in memory against the same ones that are, at all budgets, with any
// backend and number of threads, several sequences at once, and with storage that fails.
#ifndef HEARTH_TESTS_STREAMING_SUPPORT_H
#define HEARTH_TESTS_STREAMING_SUPPORT_H

#include "synth/synth.h"
#include "engine/session.h"
#include "weights/tests.h"
#include "pack_support.h"

enum { N_PROMPT = 37, N_STEPS = 6, N_SEQS = 3, N_CTX = 128, UBATCH = 16 };

static struct hearth_error err;

// ---- what is evaluated

// How a session is opened.
struct way {
    uint64_t ram; // 0: all in memory
    const char *io;
    int n_threads;
    int n_seqs; // 0: N_SEQS
    enum hearth_sparsity sparsity;
    float threshold;      // of predictors; 0: the file's
    float magnitude;      // of activated gates that are left out; 0: none
    const char *throttle; // of the storage; NULL: as it is
    struct hearth_weights_tests tests;
    enum hearth_overlap overlap;
    const struct hearth_adapter *adapters; // [n_adapters]
    size_t n_adapters;
    const char *device; // NULL: none
    bool no_layers;     // devices do not know its attention
    int device_layers;
    int hot_percent; // 100: hot experts, and no whole layers with experts
    uint64_t vram;
    const uint64_t *vrams; // [n_vrams] of several devices,
    const float *shares;   // [n_shares] and their shares of the layers
    int n_vrams, n_shares;
    enum hearth_device_prompts device_prompts;
    enum hearth_kv_type type_k, type_v;
    const unsigned char *cpu_experts; // [n_cpu_experts] layers whose experts no device has
    int n_cpu_experts;
};

struct opened {
    struct hearth_model *model;
    struct hearth_session *session;
    int n_vocab;
};

static inline void open_model_of(struct opened *o, const char *path, const struct way *way)
{
    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 1;
    params.ram = way->ram;
    params.io = way->io;
    params.overlap = way->overlap;
    params.throttle = way->throttle;
    params.adapters = way->adapters;
    params.n_adapters = way->n_adapters;
    *o = (struct opened){0};
    OK(hearth_model_open(&o->model, path, &params, &err));
    o->model->load.tests = &way->tests;
    if (way->no_layers)
        o->model->hp.normed_scale = -1.0f; // which changes nothing where it is not above 0
    o->n_vocab = hearth_model_info(o->model)->n_vocab;
}

// By pread; with a budget, `tests` says how its weights are read.
static inline struct hearth_model *open_model_for(const char *path, uint64_t ram, int max_sessions,
                                                  const struct hearth_weights_tests *tests)
{
    struct hearth_model_params params = hearth_model_params_default();
    struct hearth_model *m = NULL;
    params.n_threads = 1;
    params.ram = ram;
    params.io = "pread";
    params.max_sessions = max_sessions;
    OK(hearth_model_open(&m, path, &params, &err));
    if (ram)
        m->load.tests = tests;
    return m;
}

// What a line of a file of this process in /proc says, in bytes; 0: there is none.
static inline uint64_t proc_bytes(const char *file, const char *key)
{
    char path[40], line[200];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/self/%s", file);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)))
            kib = strtoull(line + strlen(key), NULL, 10);
    if (f)
        fclose(f);
    return kib * 1024;
}

// Of models with experts devices have attention and hot experts, never whole layers.
static bool parts_alone;

static inline struct hearth_session_params session_params_of(const struct way *way)
{
    struct hearth_session_params session = hearth_session_params_default();
    session.n_ctx = N_CTX;
    session.max_seqs = way->n_seqs ? way->n_seqs : N_SEQS;
    session.n_ubatch = UBATCH;
    session.n_threads = way->n_threads;
    session.sparsity = way->sparsity;
    session.sparsity_threshold = way->magnitude;
    session.device = way->device;
    session.device_inexact =
        way->device != NULL; // unchecked, which is faster: what differs is seen all the same
    session.device_layers = way->device_layers;
    session.device_hot_percent = parts_alone ? 100 : way->hot_percent;
    session.vram = way->vram;
    session.vrams = way->vrams;
    session.n_vrams = way->n_vrams;
    session.device_shares = way->shares;
    session.n_device_shares = way->n_shares;
    session.device_prompts = way->device_prompts;
    session.type_k = way->type_k;
    session.type_v = way->type_v;
    session.cpu_experts = way->cpu_experts;
    session.n_cpu_experts = way->n_cpu_experts;
    if (way->threshold != 0.0f)
        session.predict_threshold = way->threshold;
    return session;
}

static inline int open_session_of(struct opened *o, const struct way *way)
{
    const struct hearth_session_params session = session_params_of(way);
    return hearth_session_open(&o->session, o->model, &session, &err);
}

static inline int try_open(struct opened *o, const char *path, const struct way *way)
{
    open_model_of(o, path, way);
    return open_session_of(o, way);
}

static inline void close_opened(struct opened *o)
{
    hearth_session_close(&o->session);
    hearth_model_close(&o->model);
}

static inline struct opened open_way(const char *path, const struct way *way)
{
    struct opened o;
    if (try_open(&o, path, way))
        fail_msg("%s with %llu bytes: %s", path, (unsigned long long)way->ram, err.message);
    return o;
}

static inline hearth_token token_at(int n_vocab, int seq, int i)
{
    return (hearth_token)((uint32_t)(seq * 7919 + i * 104729 + 13) % (uint32_t)n_vocab);
}

struct rows {
    float *at;
    int n_vocab;
};

static inline bool take_row(void *arg, int index, const float *logits)
{
    (void)index;
    struct rows *r = arg;
    memcpy(r->at, logits, (size_t)r->n_vocab * sizeof *logits);
    r->at += r->n_vocab;
    return true;
}

// Rows of logits that evaluate() gives.
enum { N_ROWS = N_PROMPT + 2 + N_STEPS * (1 + N_SEQS) + 1 };

// Called before each evaluation, and again when it failed: returns whether to try once more. Or NULL.
typedef bool (*retry_fn)(int rc);

static inline void prompt(struct opened *o, int seq, int n, struct rows *r, bool all, retry_fn retry)
{
    hearth_token tokens[N_PROMPT];
    for (int i = 0; i < n; i++)
        tokens[i] = token_at(o->n_vocab, seq, i);
    const struct rows begin = *r;
    int rc = HEARTH_OK;
    if (retry)
        retry(HEARTH_OK);
    do {
        *r = begin;
        rc = hearth_prompt(o->session, seq, tokens, n, all ? take_row : NULL, r, &err);
    } while (rc && retry && retry(rc));
    if (rc)
        fail_msg("prompt: %s", err.message);
    assert_int_equal(hearth_seq_length(o->session, seq), n);
    if (!all)
        take_row(r, 0, hearth_logits(o->session, 0));
}

static inline void step(struct opened *o, const int *seqs, int n, int i, struct rows *r, retry_fn retry)
{
    hearth_token tokens[N_SEQS];
    for (int k = 0; k < n; k++)
        tokens[k] = token_at(o->n_vocab, seqs[k], 1000 + i);
    int rc = HEARTH_OK;
    if (retry)
        retry(HEARTH_OK);
    do
        rc = hearth_step(o->session, seqs, tokens, n, &err);
    while (rc && retry && retry(rc));
    if (rc)
        fail_msg("step: %s", err.message);
    for (int k = 0; k < n; k++)
        take_row(r, k, hearth_logits(o->session, k));
}

// A prompt of three micro-batches, steps of one sequence, two more prompts, steps of three sequences, and a
// last one alone.
static inline float *evaluate(struct opened *o, retry_fn retry)
{
    static const int seqs[] = {0, 1, 2}, one[] = {1};
    float *logits = calloc((size_t)N_ROWS * (size_t)o->n_vocab, sizeof *logits);
    struct rows r = {logits, o->n_vocab};
    assert_non_null(logits);
    for (int i = 0; i < N_SEQS; i++)
        assert_int_equal(hearth_seq_new(o->session, &err), i);
    prompt(o, 0, N_PROMPT, &r, true, retry);
    for (int i = 0; i < N_STEPS; i++)
        step(o, seqs, 1, i, &r, retry);
    prompt(o, 1, 5, &r, false, retry);
    prompt(o, 2, 21, &r, false, retry);
    for (int i = 0; i < N_STEPS; i++)
        step(o, seqs, N_SEQS, N_STEPS + i, &r, retry);
    step(o, one, 1, 2 * N_STEPS, &r, retry);
    assert_int_equal(r.at - logits, (ptrdiff_t)N_ROWS * o->n_vocab);
    return logits;
}

static inline void assert_same(const float *got, const float *want, int n_vocab, const char *what)
{
    for (int i = 0; i < N_ROWS; i++) {
        const size_t at = (size_t)i * (size_t)n_vocab;
        if (memcmp(got + at, want + at, (size_t)n_vocab * sizeof *got))
            fail_msg("%s: row %d of the logits is another", what, i);
    }
}

static inline float *evaluate_in_memory(const char *path, enum hearth_sparsity sparsity)
{
    struct opened o = open_way(path, &(struct way){.n_threads = 2, .sparsity = sparsity});
    assert_null(o.session->sources->reader);
    float *logits = evaluate(&o, NULL);
    close_opened(&o);
    return logits;
}

// ---- budgets

// Small enough that a model of few MiB goes through several pieces and chunks.
#define SMALL .weights_only = true, .piece_bytes = 100000, .slab_bytes = 65536

// The smallest budget of such a session, whatever `way` has for one, and the one that holds all.
static inline void find_budgets_of(const char *path, struct way way, uint64_t *least, uint64_t *most)
{
    way.ram = 1u << 30;
    way.io = "pread";
    way.tests = (struct hearth_weights_tests){SMALL, .always = true};
    struct opened o = open_way(path, &way);
    const struct hearth_budget_plan *plan = &o.session->sources->plan;
    *least = plan->floor.bytes;
    *most = plan->bytes;
    const struct hearth_sources_user *user = &o.session->user; // what a device has may have to stream
    assert_true(!plan->dense_streams &&
                (!plan->layer_buffers || user->layers_elsewhere || user->head_elsewhere));
    assert_true(plan->all_resident == !plan->region_bytes);
    assert_true(*least < *most);
    close_opened(&o);
}

static inline void find_budgets(const char *path, enum hearth_sparsity sparsity, int n_threads,
                                uint64_t *least, uint64_t *most)
{
    find_budgets_of(path, (struct way){.n_threads = n_threads, .sparsity = sparsity}, least, most);
}

static inline void check_way(const char *path, const struct way *way, const float *want)
{
    struct opened o = open_way(path, way);
    char what[700];
    snprintf(what, sizeof what, "%s, %llu bytes, %s, %d threads, sparsity %d", path,
             (unsigned long long)way->ram, way->io ? way->io : "auto", way->n_threads, (int)way->sparsity);
    assert_true(o.session->sources->plan.bytes <= way->ram);
    float *got = evaluate(&o, NULL);
    assert_same(got, want, o.n_vocab, what);
    free(got);
    close_opened(&o);
}

static inline bool have_uring(const char *path)
{
    struct hearth_store *store = NULL;
    const bool yes =
        !hearth_store_open(&store, path, &(struct hearth_store_params){.io = HEARTH_IO_URING}, &err);
    hearth_store_close(&store);
    return yes;
}

// Where storage is read in blocks of 4 KiB (Windows, some disks), a neuron of these small models takes as much
// memory as many do: a budget has all of them in memory, or reads whole layers.
static inline bool reads_large_blocks(const char *path)
{
    struct hearth_store *store = NULL;
    OK(hearth_store_open(&store, path, &(struct hearth_store_params){.io = HEARTH_IO_PREAD}, &err));
    const bool large = hearth_store_align(store) >= 4096;
    hearth_store_close(&store);
    return large;
}

// Too little is refused, and the budget named then will do: the floor, or what all weights take if that is
// less.
static inline void check_refusal(const char *path, enum hearth_sparsity sparsity, uint64_t least,
                                 const float *want)
{
    struct way way = {.ram = 1, .n_threads = 1, .sparsity = sparsity, .tests = {SMALL}};
    struct opened o;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(try_open(&o, path, &way), HEARTH_E_BUDGET);
        assert_null(o.session);
        close_opened(&o);
        const char *at = strstr(err.message, "at least "), *bytes = at ? strchr(at, '(') : NULL;
        assert_non_null(bytes);
        const uint64_t named = strtoull(bytes + 1, NULL, 10);
        assert_true(named <= least);
        assert_true(named == least || strstr(err.message, "all of its weights"));
        way.ram = named - 1;
    }
    way.ram++;
    check_way(path, &way, want);
}

// The floor with both backends, and three more of five budgets up to all, with one, two and three threads; which of them
// depends on the turn, so that each budget meets each number of threads, backend and overlap in a few models. With sanitizers,
// which take ten times as long, two threads alone, with two more budgets.
static inline void check_model(const char *path, enum hearth_sparsity sparsity)
{
    static int turn;
    uint64_t least, most;
    float *want = evaluate_in_memory(path, sparsity);
    const char *const io[] = {have_uring(path) ? "uring" : "pread", "pread"};
    struct way way = {.sparsity = sparsity, .tests = {SMALL, .always = true}};
    for (int n_threads = SANITIZED ? 2 : 3; n_threads >= (SANITIZED ? 2 : 1); n_threads--) {
        find_budgets(path, sparsity, n_threads, &least, &most);
        way.n_threads = n_threads;
        for (int i = 0; i <= 5; i++) {
            static const uint64_t eighths[] = {0, 1, 3, 5, 7, 8};
            way.ram = least + (most - least) * eighths[i] / 8;
            way.io = io[(i + n_threads + turn / 5) % 2];
            way.overlap = (enum hearth_overlap)((i + n_threads + turn / 5) % 3);
            const int first = (turn + 2 * n_threads) % 5 + 1;
            if (i == 0 ? n_threads > 1 : i == first || (SANITIZED && i == (first + 1) % 5 + 1))
                check_way(path, &way, want);
        }
    }
    turn++;
    // As users have it: all fits. In an emulator the process grows with every session, by gigabytes.
    way = (struct way){.ram = 1u << 30, .n_threads = 2, .sparsity = sparsity};
#ifdef HEARTH_EMULATED
    way.tests.weights_only = true;
#endif
    check_way(path, &way, want);

    if (SANITIZED)
        find_budgets(path, sparsity, 1, &least, &most);
    check_refusal(path, sparsity, least, want); // of one thread, as there
    free(want);
}

// ---- models

static inline const char *make_with(const char *preset, bool early_predictors)
{
    const char *path = in_folder("model.gguf");
    const struct hearth_synth_params params = {
        .seed = 5, .n_threads = 2, .early_predictors = early_predictors};
    remove(path);
    OK(hearth_synth(preset, path, &params, &err));
    return path;
}

static inline const char *make(const char *preset)
{
    return make_with(preset, false);
}

// In an emulator every second mode, and packs with a profile alone: all take ten minutes there.
#ifdef HEARTH_EMULATED
enum { NEXT_MODE = 2, FIRST_PACK = 1 };
#else
enum { NEXT_MODE = 1, FIRST_PACK = 0 };
#endif

static inline void check_preset(const char *preset, const enum hearth_sparsity *modes, int n)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", make(preset));
    for (int i = 0; i < n; i += NEXT_MODE)
        check_model(path, modes[i]);
}

static const enum hearth_sparsity all_modes[] = {HEARTH_SPARSITY_PREDICT, HEARTH_SPARSITY_EXACT,
                                                 HEARTH_SPARSITY_OFF};

// ---- storage that fails

static atomic_bool spoiled;
static int n_failed;

// Storage fails until an evaluation has, and works in its second attempt.
static inline bool spoil_then_mend(int rc)
{
    if (!rc) {
        atomic_store(&spoiled, true);
        return true;
    }
    assert_int_equal(rc, HEARTH_E_IO);
    assert_non_null(strstr(err.message, folder));
    assert_true(atomic_load(&spoiled));
    atomic_store(&spoiled, false);
    n_failed++;
    return true;
}

static inline void check_faults(const char *path, enum hearth_sparsity sparsity)
{
    // Hiccups that nobody sees; errors now and then; a device that is gone.
    static const struct hearth_store_faults kinds[] = {
        {.seed = 1, .shorts = 300, .retries = 300, .errors = 3},
        {.seed = 2, .shorts = 100, .retries = 100, .errors = 800},
        {.seed = 3, .errors = 1000},
    };
    uint64_t least, most;
    float *want = evaluate_in_memory(path, sparsity);
    const char *const io[] = {have_uring(path) ? "uring" : "pread", "pread"};
    for (int i = 0; i < 6; i++) {
        struct hearth_store_faults faults = kinds[i / 2];
        faults.on = &spoiled;
        struct way way = {.io = io[i % 2],
                          .n_threads = 1 + i % 3,
                          .sparsity = sparsity,
                          .tests = {SMALL, .always = true, .faults = &faults}};
        find_budgets(path, sparsity, way.n_threads, &least, &most);
        way.ram = least + (most - least) * (uint64_t)(i % 2) / 3;
        atomic_store(&spoiled, false);
        struct opened o = open_way(path, &way);
        n_failed = 0;
        float *got = evaluate(&o, spoil_then_mend);
        assert_same(got, want, o.n_vocab, path);
        if (i / 2 == 0)
            assert_int_equal(n_failed, 0);
        // With the smallest budget every evaluation reads.
        struct hearth_streaming_stats stats;
        hearth_session_streaming_stats(o.session, &stats, sizeof stats);
        if (i % 2 == 0) {
            assert_true(stats.read_retries > 0);
            assert_true(n_failed > 0 || i / 2 == 0);
        }
        free(got);
        close_opened(&o);
    }
    // Storage that fails from the start: a session does not open, and says why.
    const struct hearth_store_faults gone = {.errors = 1000};
    struct way way = {
        .ram = most, .n_threads = 2, .sparsity = sparsity, .tests = {SMALL, .always = true, .faults = &gone}};
    struct opened o;
    assert_int_equal(try_open(&o, path, &way), HEARTH_E_IO);
    assert_non_null(strstr(err.message, folder));
    assert_null(o.session);
    close_opened(&o);
    free(want);
}

#endif
