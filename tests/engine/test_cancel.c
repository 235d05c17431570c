// SPDX-License-Identifier: MIT
// Cancelling: an evaluation ends before its next layer, whoever asks and whenever; nothing has changed then,
// and what is evaluated afterwards has the same bits.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/os.h"
#include "streaming_support.h"

// Of the ReLU family, so that steps go by neuron.
#if SANITIZED
#define MODEL "/tests/golden/models/relu.Q8_0.gguf"
#else
#define MODEL "/models/hearth-novels-drelu-Q8_0.gguf"
#endif

// ---- at every layer, by the evaluating thread itself

struct watch {
    struct hearth_session *session;
    int cancel_at, seen; // layers from the evaluation's first on, of all micro-batches
    int layer;
};

static void on_layer(void *arg, enum hearth_phase phase, int layer, struct hearth_row row,
                     const float *normed, const float *stream)
{
    (void)phase;
    (void)row;
    (void)normed;
    (void)stream;
    struct watch *w = arg;
    if (layer == w->layer) // one call a row
        return;
    w->layer = layer;
    if (++w->seen == w->cancel_at)
        hearth_cancel(w->session);
}

static void watch(struct watch *w, int cancel_at)
{
    w->cancel_at = cancel_at;
    w->seen = 0;
    w->layer = -1;
}

enum { LONG = 40, MICRO = 16 };

static struct hearth_session *open_small(const struct hearth_model *m)
{
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = 4 * LONG;
    p.max_seqs = 3;
    p.n_ubatch = MICRO;
    p.n_threads = 2;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    return s;
}

static struct hearth_model *open_usual(void)
{
    struct hearth_model *m = NULL;
    CHECK(hearth_model_open(&m, HEARTH_SOURCE_DIR MODEL, NULL, &check_error));
    return m;
}

static void fill_tokens(hearth_token *tokens, int n)
{
    for (int i = 0; i < n; i++)
        tokens[i] = 3 + 7 * i % 280;
}

// What a session without any cancelling says of prompt and step.
static float *want_of(const struct hearth_model *m, const hearth_token *tokens)
{
    const size_t row = (size_t)hearth_model_info(m)->n_vocab;
    float *want = malloc(2 * row * sizeof *want);
    struct hearth_session *s = open_small(m);
    const int seq = hearth_seq_new(s, NULL);
    assert_non_null(want);
    CHECK(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &check_error));
    memcpy(want, hearth_logits(s, 0), row * sizeof *want);
    CHECK(hearth_step(s, &seq, tokens, 1, &check_error));
    memcpy(want + row, hearth_logits(s, 0), row * sizeof *want);
    hearth_session_close(&s);
    return want;
}

static void test_every_layer(void **state)
{
    (void)state;
    hearth_token tokens[LONG];
    fill_tokens(tokens, LONG);
    struct hearth_model *m = open_usual();
    const size_t bytes = (size_t)hearth_model_info(m)->n_vocab * sizeof(float);
    const int n_layer = hearth_model_info(m)->n_layer, n_micro = (LONG + MICRO - 1) / MICRO;
    float *want = want_of(m, tokens);
    struct hearth_session *s = open_small(m);
    struct watch w = {.session = s};
    hearth_session_probes(s)->on_ffn = on_layer;
    hearth_session_probes(s)->on_ffn_arg = &w;
    for (int at = 1; at <= n_micro * n_layer; at++) {
        const int seq = hearth_seq_new(s, NULL);
        watch(&w, at);
        REFUSED(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &check_error), HEARTH_E_INTERRUPTED,
                "stopped");
        assert_int_equal(w.seen, at); // no layer more
        assert_int_equal(hearth_seq_length(s, seq), 0);
        assert_null(hearth_logits(s, 0));
        watch(&w, 0);
        CHECK(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &check_error));
        assert_memory_equal(hearth_logits(s, 0), want, bytes);

        watch(&w, 1 + at % n_layer);
        REFUSED(hearth_step(s, &seq, tokens, 1, &check_error), HEARTH_E_INTERRUPTED, "stopped");
        assert_int_equal(w.seen, 1 + at % n_layer);
        assert_int_equal(hearth_seq_length(s, seq), LONG);
        watch(&w, 0);
        CHECK(hearth_step(s, &seq, tokens, 1, &check_error));
        assert_memory_equal(hearth_logits(s, 0), (const char *)want + bytes, bytes);
        hearth_seq_free(s, seq);
    }
    hearth_session_close(&s);
    free(want);
    hearth_model_close(&m);
}

// ---- progress

struct told {
    int n, stop_at; // calls; the one that cancels, 0: none
    float first, last;
};

static bool on_progress(void *arg, float share)
{
    struct told *t = arg;
    assert_true(share > t->last && share <= 1);
    t->last = share;
    t->first = t->n ? t->first : share;
    return ++t->n != t->stop_at;
}

// A call is told of after each of its layers, with a share that rises to 1, and may be stopped there.
static void test_progress(void **state)
{
    (void)state;
    hearth_token tokens[LONG];
    fill_tokens(tokens, LONG);
    struct hearth_model *m = open_usual();
    const int n_layer = hearth_model_info(m)->n_layer, n_micro = (LONG + MICRO - 1) / MICRO;
    struct told told = {0};
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = 4 * LONG;
    p.n_ubatch = MICRO;
    p.n_threads = 2;
    p.progress = on_progress;
    p.progress_arg = &told;
    struct hearth_session *s = NULL;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    int seq = hearth_seq_new(s, NULL);
    CHECK(hearth_step(s, &seq, tokens, 1, &check_error)); // the session's first call
    assert_int_equal(told.n, n_layer);
    assert_float_equal(told.first, 1.0f / (float)n_layer, 1e-6f);
    assert_true(told.last == 1);
    hearth_seq_free(s, seq);
    seq = hearth_seq_new(s, NULL);
    told = (struct told){.stop_at = n_layer + 1};
    REFUSED(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &check_error), HEARTH_E_INTERRUPTED, "stopped");
    told = (struct told){0};
    CHECK(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &check_error));
    assert_int_equal(told.n, n_micro * n_layer);
    assert_true(told.last == 1);
    told = (struct told){0};
    CHECK(hearth_step(s, &seq, tokens, 1, &check_error));
    assert_int_equal(told.n, n_layer);
    assert_float_equal(told.first, 1.0f / (float)n_layer, 1e-6f);
    assert_true(told.last == 1);
    for (int at = 1; at <= n_layer; at++) {
        told = (struct told){.stop_at = at};
        REFUSED(hearth_step(s, &seq, tokens, 1, &check_error), HEARTH_E_INTERRUPTED, "stopped");
        assert_int_equal(told.n, at);
        assert_int_equal(hearth_seq_length(s, seq), LONG + 1);
    }
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// ---- within a layer

static hearth_matmul_fn real_product;
static _Atomic int n_products;

static void count_product(float *out, size_t out_stride, const void *w, size_t stride, size_t k, size_t n,
                          const void *x, size_t x_stride, size_t n_tokens, void *scratch)
{
    n_products++;
    real_product(out, out_stride, w, stride, k, n, x, x_stride, n_tokens, scratch);
}

struct half_way {
    struct hearth_session *session;
    int cancel_at, layer, n_then; // the layer to cancel in; -1: none
};

static void on_half_way(void *arg, enum hearth_phase phase, int layer, struct hearth_row row,
                        const float *normed, const float *stream)
{
    (void)phase;
    (void)row;
    (void)normed;
    (void)stream;
    struct half_way *h = arg;
    if (layer != h->cancel_at)
        return;
    hearth_cancel(h->session);
    h->n_then = n_products;
}

// A prompt that is cancelled before a layer's feed-forward part does not compute that any more, the last
// layer's neither.
static void test_within_layer(void **state)
{
    (void)state;
    hearth_token tokens[LONG];
    fill_tokens(tokens, LONG);
    struct hearth_model *m = open_usual();
    float *want = want_of(m, tokens);
    real_product = m->kernels.prompt[HEARTH_TYPE_Q8_0];
    m->kernels.prompt[HEARTH_TYPE_Q8_0] = count_product;
    struct hearth_session *s = open_small(m);
    struct half_way h = {.session = s};
    hearth_session_probes(s)->on_ffn = on_half_way;
    hearth_session_probes(s)->on_ffn_arg = &h;
    const int seq = hearth_seq_new(s, NULL);
    for (h.cancel_at = hearth_model_info(m)->n_layer - 1; h.cancel_at >= 0; h.cancel_at--) {
        REFUSED(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &check_error), HEARTH_E_INTERRUPTED,
                "stopped");
        assert_true(h.n_then > 0);
        assert_int_equal(n_products, h.n_then);
        n_products = 0;
    }
    CHECK(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &check_error));
    assert_memory_equal(hearth_logits(s, 0), want, (size_t)hearth_model_info(m)->n_vocab * sizeof *want);
    hearth_session_close(&s);
    free(want);
    hearth_model_close(&m);
}

// ---- requests

// One that comes when nothing runs ends the next evaluation, once; or is forgotten.
static void test_requests(void **state)
{
    (void)state;
    hearth_token tokens[LONG];
    fill_tokens(tokens, LONG);
    struct hearth_model *m = open_usual();
    struct hearth_session *s = open_small(m);
    struct watch w = {.session = s};
    hearth_session_probes(s)->on_ffn = on_layer;
    hearth_session_probes(s)->on_ffn_arg = &w;
    const int seq = hearth_seq_new(s, NULL);
    hearth_cancel(NULL);
    assert_false(hearth_cancel_clear(s));
    for (int i = 0; i < 3; i++)
        hearth_cancel(s);
    watch(&w, 0);
    REFUSED(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &check_error), HEARTH_E_INTERRUPTED, "stopped");
    assert_int_equal(w.seen, 0);
    CHECK(hearth_prompt(s, seq, tokens, LONG, NULL, NULL, &check_error));
    hearth_cancel(s);
    assert_true(hearth_cancel_clear(s));
    assert_false(hearth_cancel_clear(s));
    CHECK(hearth_step(s, &seq, tokens, 1, &check_error));
    // What fails for another reason leaves the request alone.
    hearth_cancel(s);
    REFUSED(hearth_step(s, &seq, tokens, 4, &check_error), HEARTH_E_INVALID, "sequences");
    assert_true(hearth_cancel_clear(s));
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// ---- by another thread

// Cancels when its time has come, until it is told to end.
struct canceller {
    pthread_t thread;
    struct hearth_session *session;
    _Atomic bool end;
    _Atomic uint64_t at; // when to cancel; 0: not
    _Atomic uint64_t done_at;
};

static void *cancel_when_told(void *arg)
{
    struct canceller *c = arg;
    while (!atomic_load(&c->end)) {
        const uint64_t at = atomic_load(&c->at);
        if (!at || hearth_now_ns() < at) {
            usleep(20);
            continue;
        }
        atomic_store(&c->at, 0);
        atomic_store(&c->done_at, hearth_now_ns());
        hearth_cancel(c->session);
    }
    return NULL;
}

static struct canceller canceller;

static void start_canceller(struct hearth_session *s)
{
    canceller = (struct canceller){.session = s};
    assert_int_equal(pthread_create(&canceller.thread, NULL, cancel_when_told, &canceller), 0);
}

static void stop_canceller(void)
{
    atomic_store(&canceller.end, true);
    pthread_join(canceller.thread, NULL);
}

enum { TRIES = SANITIZED ? 5 : 15, LONG_PROMPT = SANITIZED ? 256 : 1024, WAYS = SANITIZED ? 2 : 6 };

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t time_of(int (*run)(struct hearth_session *s), struct hearth_session *s)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        const uint64_t start = hearth_now_ns();
        assert_int_equal(run(s), 0);
        const uint64_t ns = hearth_now_ns() - start;
        best = ns < best ? ns : best;
    }
    return best;
}

// From requests all over an evaluation of `n_layer` layers to its return, against the time of a layer. A request
// comes anywhere in one, so that it should take half of that. False: not in time, or never in the middle.
static bool is_soon(int (*run)(struct hearth_session *s), struct hearth_session *s, const char *what,
                    int n_layer)
{
    const uint64_t whole_ns = time_of(run, s), layer_ns = whole_ns / (uint64_t)n_layer;
    uint64_t ns[TRIES];
    size_t n = 0;
    for (int i = 0; i < TRIES; i++) {
        hearth_cancel_clear(s);
        atomic_store(&canceller.at, hearth_now_ns() + whole_ns * (uint64_t)(i + 1) / (TRIES + 5));
        const int rc = run(s);
        const uint64_t now = hearth_now_ns();
        if (rc == HEARTH_E_INTERRUPTED) // else it was faster this time
            ns[n++] = now - atomic_load(&canceller.done_at);
    }
    atomic_store(&canceller.at, 0);
    hearth_cancel_clear(s);
    if (!n)
        return false;
    qsort(ns, n, sizeof *ns, by_size);
    printf("%s: %zu requests answered after %.2f ms (median), %.2f ms (all); a layer takes %.2f ms\n", what,
           n, (double)ns[n / 2] / 1e6, (double)ns[n - 1] / 1e6, (double)layer_ns / 1e6);
    return SANITIZED || ns[n / 2] < 2 * layer_ns;
}

static void check_latency(int (*run)(struct hearth_session *s), struct hearth_session *s, const char *what,
                          int n_layer)
{
    bool soon = false;
    start_canceller(s);
    for (int i = 0; i < 10 && !soon; i++) // the machine may be busy, and less so when the time was taken
        soon = is_soon(run, s, what, n_layer);
    stop_canceller();
    assert_true(soon);
}

static hearth_token long_tokens[LONG_PROMPT];

static int run_long_prompt(struct hearth_session *s)
{
    const int seq = hearth_seq_new(s, NULL);
    const int rc = hearth_prompt(s, seq, long_tokens, LONG_PROMPT, NULL, NULL, NULL);
    assert_int_equal(hearth_seq_length(s, seq), rc ? 0 : LONG_PROMPT);
    hearth_seq_free(s, seq);
    return rc;
}

static void test_long_prompt(void **state)
{
    (void)state;
    struct hearth_model *m = open_usual();
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = LONG_PROMPT;
    p.n_ubatch = LONG_PROMPT / 2;
    p.n_threads = 1; // on a busy machine threads wait for each other
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    for (int i = 0; i < LONG_PROMPT; i++)
        long_tokens[i] = 3 + i % 280;
    check_latency(run_long_prompt, s, "a prompt of 2 micro-batches", 2 * hearth_model_info(m)->n_layer);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// ---- weights that stream

static int stream_step(struct hearth_session *s)
{
    static const int seq = 0;
    if (hearth_seq_length(s, seq) == N_CTX) { // it is full
        hearth_seq_free(s, seq);
        assert_int_equal(hearth_seq_new(s, NULL), seq);
    }
    const int length = hearth_seq_length(s, seq), rc = hearth_step(s, &seq, long_tokens, 1, NULL);
    assert_int_equal(hearth_seq_length(s, seq), length + !rc);
    return rc;
}

// Slow storage, so that a step is nothing but waiting for layers.
static void test_slow_storage(void **state)
{
    (void)state;
    static char path[512];
    snprintf(path, sizeof path, "%s", make("tiny-dense"));
    uint64_t least, most;
    find_budgets(path, HEARTH_SPARSITY_OFF, 1, &least, &most);
    const struct way way = {.ram = least,
                            .io = "pread",
                            .n_threads = 1,
                            .throttle = "2000,20",
                            .sparsity = HEARTH_SPARSITY_OFF,
                            .tests = {SMALL, .always = true}};
    struct opened o = open_way(path, &way);
    struct hearth_streaming_stats stats;
    assert_int_equal(hearth_seq_new(o.session, NULL), 0);
    assert_int_equal(stream_step(o.session), 0);
    hearth_session_streaming_stats(o.session, &stats, sizeof stats);
    assert_true(stats.dense_read_bytes > 0);
    check_latency(stream_step, o.session, "a step of a model that streams",
                  hearth_model_info(o.model)->n_layer);
    close_opened(&o);
}

// Storage on which a single layer takes a second: neither the evaluation nor the session's end waits for it.
static void test_layer_on_its_way(void **state)
{
    (void)state;
    static char path[512];
    snprintf(path, sizeof path, "%s", make("tiny-dense"));
    uint64_t least, most, best = UINT64_MAX, end = UINT64_MAX;
    find_budgets(path, HEARTH_SPARSITY_OFF, 1, &least, &most);
    const struct way way = {.ram = least,
                            .io = "pread",
                            .n_threads = 1,
                            .throttle = "0,0.4",
                            .sparsity = HEARTH_SPARSITY_OFF,
                            .tests = {SMALL, .always = true}};
    for (int i = 0; i < 10 && (best > 250000000 || end > 500000000); i++) { // the machine may be busy
        struct opened o = open_way(path, &way);
        assert_int_equal(hearth_seq_new(o.session, NULL), 0);
        start_canceller(o.session);
        for (int k = 0; k < 3; k++) {
            atomic_store(&canceller.at, hearth_now_ns() + 100000000);
            assert_int_equal(stream_step(o.session), HEARTH_E_INTERRUPTED);
            const uint64_t ns = hearth_now_ns() - atomic_load(&canceller.done_at);
            best = ns < best ? ns : best;
            assert_false(hearth_cancel_clear(o.session)); // it has been answered
        }
        stop_canceller();
        const uint64_t start = hearth_now_ns();
        close_opened(&o);
        const uint64_t ns = hearth_now_ns() - start;
        end = ns < end ? ns : end;
    }
    printf("a layer on its way: answered after %.2f ms, closed in %.2f ms\n", (double)best / 1e6,
           (double)end / 1e6);
    assert_true(SANITIZED || best < 250000000);
    assert_true(SANITIZED || end < 500000000);
}

static _Atomic bool holding, let_go;

static void hold(void *arg, enum hearth_phase phase, int layer, struct hearth_row row, const float *normed,
                 const float *stream)
{
    (void)arg;
    (void)phase;
    (void)layer;
    (void)row;
    (void)normed;
    (void)stream;
    atomic_store(&holding, true);
    while (!atomic_load(&let_go))
        usleep(100);
}

static void *step_and_hold(void *arg)
{
    static int rc;
    rc = stream_step(arg);
    return &rc;
}

// A session that waits until another one has evaluated with the weights that they share.
static void test_waiting(void **state)
{
    (void)state;
    static char path[512];
    snprintf(path, sizeof path, "%s", make("tiny-dense"));
    const struct way way = {.ram = 1u << 30,
                            .io = "pread",
                            .n_threads = 1,
                            .sparsity = HEARTH_SPARSITY_OFF,
                            .tests = {SMALL, .always = true}};
    struct opened o;
    open_model_of(&o, path, &way);
    o.model->load.max_sessions = 2;
    OK(open_session_of(&o, &way));
    struct hearth_session *first = o.session;
    OK(open_session_of(&o, &way));
    hearth_session_probes(first)->on_ffn = hold;
    assert_int_equal(hearth_seq_new(first, NULL), 0);
    assert_int_equal(hearth_seq_new(o.session, NULL), 0);
    pthread_t thread;
    void *rc;
    assert_int_equal(pthread_create(&thread, NULL, step_and_hold, first), 0);
    while (!atomic_load(&holding))
        usleep(100);
    start_canceller(o.session);
    atomic_store(&canceller.at, hearth_now_ns() + 5000000);
    assert_int_equal(stream_step(o.session), HEARTH_E_INTERRUPTED);
    stop_canceller();
    assert_false(atomic_load(&let_go)); // it did not wait for the first one's end
    atomic_store(&let_go, true);
    pthread_join(thread, &rc);
    assert_int_equal(*(int *)rc, 0);
    assert_int_equal(stream_step(o.session), 0);
    hearth_session_close(&first);
    close_opened(&o);
}

static uint32_t dice = 1;
static uint64_t longest_ns;
static int n_cancelled;

// Before each evaluation a cancel is put somewhere into the time that evaluations take; one that was
// cancelled is done again.
static bool cancel_now_and_then(int rc)
{
    if (rc) {
        assert_int_equal(rc, HEARTH_E_INTERRUPTED);
        n_cancelled++;
        return true;
    }
    dice = dice * 1664525u + 1013904223u;
    atomic_store(&canceller.at, hearth_now_ns() + (uint64_t)(dice >> 8) % longest_ns);
    return true;
}

// Everything that streams, with all threads: the same bits, whenever it was cancelled.
static void check_streams(const char *preset, enum hearth_sparsity sparsity)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", make(preset));
    float *want = evaluate_in_memory(path, sparsity);
    const char *const io[] = {have_uring(path) ? "uring" : "pread", "pread"};
    n_cancelled = 0;
    for (int i = 0; i < 6; i += 6 / WAYS) {
        struct way way = {.io = io[i / (6 / WAYS) % 2],
                          .n_threads = 1 + i % 3,
                          .sparsity = sparsity,
                          .tests = {SMALL, .always = true}};
        uint64_t least, most;
        find_budgets(path, sparsity, way.n_threads, &least, &most);
        way.ram = least + (most - least) * (uint64_t)(i / 2) / 3;
        struct opened o = open_way(path, &way);
        longest_ns = 2000000; // an evaluation takes about as long
        start_canceller(o.session);
        float *got = evaluate(&o, cancel_now_and_then);
        assert_same(got, want, o.n_vocab, path);
        stop_canceller();
        free(got);
        close_opened(&o);
    }
    free(want);
    printf("%s: %d of %d evaluations were cancelled\n", preset, n_cancelled, WAYS * (2 * N_STEPS + 4));
    assert_true(n_cancelled > WAYS);
}

static void test_streams_dense(void **state)
{
    (void)state;
    check_streams("tiny-dense", HEARTH_SPARSITY_OFF);
}

static void test_streams_neurons(void **state)
{
    (void)state;
    check_streams("tiny-turbosparse-pack", HEARTH_SPARSITY_PREDICT);
}

static void test_streams_experts(void **state)
{
    (void)state;
    check_streams("tiny-qwen3-moe", HEARTH_SPARSITY_OFF);
    check_streams("tiny-turbosparse-moe", HEARTH_SPARSITY_PREDICT);
}

// ---- traces

// A cancelled step is not in the trace.
static void test_trace(void **state)
{
    (void)state;
    hearth_token tokens[LONG];
    fill_tokens(tokens, LONG);
    struct hearth_model *m = open_usual();
    char *bytes[2] = {NULL, NULL};
    size_t sizes[2];
    for (int cancelling = 0; cancelling < 2; cancelling++) {
        const char *path = in_folder("steps.trace");
        struct hearth_session *s = open_small(m);
        struct watch w = {.session = s};
        hearth_session_probes(s)->on_ffn = on_layer;
        hearth_session_probes(s)->on_ffn_arg = &w;
        const int seq = hearth_seq_new(s, NULL);
        CHECK(hearth_session_trace(s, path, &check_error));
        for (int i = 0; i < LONG; i++) {
            watch(&w, cancelling ? 1 + i % hearth_model_info(m)->n_layer : 0);
            const int rc = hearth_step(s, &seq, tokens + i, 1, NULL);
            assert_int_equal(rc, cancelling ? HEARTH_E_INTERRUPTED : 0);
            watch(&w, 0);
            if (rc)
                CHECK(hearth_step(s, &seq, tokens + i, 1, &check_error));
        }
        CHECK(hearth_session_trace_end(s, &check_error));
        hearth_session_close(&s);
        struct hearth_file *f = NULL;
        CHECK(hearth_file_open(&f, path, &check_error));
        sizes[cancelling] = (size_t)hearth_file_size(f);
        bytes[cancelling] = malloc(sizes[cancelling]);
        CHECK(hearth_file_read(f, bytes[cancelling], sizes[cancelling], 0, &check_error));
        hearth_file_close(&f);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
    hearth_model_close(&m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layer),     cmocka_unit_test(test_requests),
        cmocka_unit_test(test_long_prompt),     cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_slow_storage),    cmocka_unit_test(test_streams_dense),
        cmocka_unit_test(test_streams_neurons), cmocka_unit_test(test_streams_experts),
        cmocka_unit_test(test_trace),           cmocka_unit_test(test_progress),
        cmocka_unit_test(test_within_layer),    cmocka_unit_test(test_layer_on_its_way),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
