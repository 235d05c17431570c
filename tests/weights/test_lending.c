// SPDX-License-Identifier: MIT
// What the plan sets aside for contexts and prompts belongs to the caches until it is used: they grow and
// shrink, the process stays within its budget all the time, and no bit of any logit changes.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>

#include "convert/pack.h"
#include "streaming_support.h"

enum { CTX = 640, BATCH = 100, LONG = 250, SOME = 10 };

// ---- memory of this process

static atomic_bool stop;
static _Atomic uint64_t peak;

static void *watch(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        const uint64_t now = proc_bytes("smaps_rollup", "Anonymous:");
        if (now > atomic_load(&peak))
            atomic_store(&peak, now);
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    return NULL;
}

// ---- a session

static struct hearth_session_params session_params(enum hearth_sparsity sparsity)
{
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = CTX;
    p.max_seqs = 2;
    p.n_ubatch = BATCH;
    p.n_threads = 2;
    p.sparsity = sparsity;
    return p;
}

static const struct hearth_weights_tests streams = {
    .piece_bytes = 100000, .slab_bytes = 65536, .always = true, .weights_only = SANITIZED};

static struct opened open_with(const char *path, uint64_t ram, enum hearth_sparsity sparsity)
{
    struct opened o = {.model = open_model_for(path, ram, 0, &streams)};
    const struct hearth_session_params session = session_params(sparsity);
    o.n_vocab = hearth_model_info(o.model)->n_vocab;
    OK(hearth_session_open(&o.session, o.model, &session, &err));
    return o;
}

// What weights have now besides the plan.
static uint64_t lent_bytes(const struct opened *o)
{
    struct hearth_streaming_stats stats;
    hearth_session_streaming_stats(o->session, &stats, sizeof stats);
    return stats.lent_bytes;
}

// A number for each evaluation: of all bits of its logits.
struct marks {
    uint64_t at[4096];
    int n;
};

static void mark(struct marks *m, const struct opened *o)
{
    const unsigned char *bytes = (const unsigned char *)hearth_logits(o->session, 0);
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < (size_t)o->n_vocab * sizeof(float); i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    m->at[m->n++] = hash;
}

static void prompt_of(struct opened *o, int seq, int n, struct marks *m)
{
    hearth_token tokens[LONG];
    for (int i = 0; i < n; i++)
        tokens[i] = token_at(o->n_vocab, seq, i);
    OK(hearth_prompt(o->session, seq, tokens, n, NULL, NULL, &err));
    mark(m, o);
}

static void steps_of(struct opened *o, int seq, int n, struct marks *m)
{
    for (int i = 0; i < n; i++) {
        const hearth_token token = token_at(o->n_vocab, seq, 5000 + i);
        OK(hearth_step(o->session, &seq, &token, 1, &err));
        mark(m, o);
    }
}

// A long prompt between steps, twice, with a context that grows and goes. What weights have goes to
// sizes[8].
static void play(struct opened *o, struct marks *m, uint64_t *sizes)
{
    int seq = hearth_seq_new(o->session, &err);
    assert_int_equal(seq, 0);
    prompt_of(o, seq, 3, m);
    sizes[0] = lent_bytes(o);
    steps_of(o, seq, SOME, m);
    sizes[1] = lent_bytes(o);
    steps_of(o, seq, 7 * SOME, m);
    sizes[2] = lent_bytes(o);
    prompt_of(o, seq, LONG, m);
    sizes[3] = lent_bytes(o);
    steps_of(o, seq, SOME, m);
    sizes[4] = lent_bytes(o);
    hearth_seq_free(o->session, seq);
    seq = hearth_seq_new(o->session, &err);
    steps_of(o, seq, SOME, m);
    sizes[5] = lent_bytes(o);
}

static uint64_t floor_of(const char *path, enum hearth_sparsity sparsity)
{
    struct opened o = open_with(path, 1u << 30, sparsity);
    const uint64_t least = o.session->sources->plan.floor.bytes;
    close_opened(&o);
    return least;
}

static void check_lending(const char *path, enum hearth_sparsity sparsity)
{
    static struct marks want, got;
    uint64_t sizes[8];
    want.n = 0;
    struct opened memory = open_with(path, 0, sparsity);
    play(&memory, &want, sizes);
    close_opened(&memory);
    const uint64_t least = floor_of(path, sparsity);
    for (uint64_t more = 0; more <= 600000; more += 600000) {
        pthread_t thread;
        struct opened o = open_with(path, least + more, sparsity);
        atomic_store(&peak, 0);
        atomic_store(&stop, false);
        assert_int_equal(pthread_create(&thread, NULL, watch, NULL), 0);
        got.n = 0;
        const uint64_t planned = lent_bytes(&o);
        play(&o, &got, sizes);
        atomic_store(&stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(got.n, want.n);
        for (int i = 0; i < got.n; i++)
            if (got.at[i] != want.at[i])
                fail_msg("%s, %llu bytes: evaluation %d has other logits", path,
                         (unsigned long long)(least + more), i);
        // A long prompt needs memory. Its context keeps some of it until it goes. (What holds all neurons
        // does not grow any more.)
        assert_true(sizes[0] >= planned && sizes[1] > sizes[0] && sizes[2] <= sizes[1]);
        assert_true(sizes[3] >= planned && sizes[3] < sizes[2]);
        assert_true(sizes[4] > sizes[3] && sizes[4] <= sizes[1]);
        assert_true(sizes[5] >= sizes[4] && sizes[5] == sizes[1]);
        if (!SANITIZED)
            assert_true(atomic_load(&peak) <= least + more);
        close_opened(&o);
    }
}

static void test_neurons(void **state)
{
    (void)state;
    char pack[512];
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    remove(pack);
    OK(hearth_pack_write(make("tiny-turbosparse"), pack, &(struct hearth_pack_params){0}, NULL, &err));
    if (reads_large_blocks(pack))
        skip();
    check_lending(pack, HEARTH_SPARSITY_PREDICT);
}

static void test_expert_neurons(void **state)
{
    (void)state;
    check_lending(make("tiny-turbosparse-pack"), HEARTH_SPARSITY_PREDICT);
}

static void test_experts(void **state)
{
    (void)state;
    check_lending(make("tiny-qwen3-moe"), HEARTH_SPARSITY_OFF);
}

// What every step reads of layers.
static uint64_t read_bytes(const struct opened *o)
{
    struct hearth_streaming_stats stats;
    hearth_session_streaming_stats(o->session, &stats, sizeof stats);
    return stats.dense_read_bytes;
}

// Layers that stream stay while they can.
static void test_layers(void **state)
{
    (void)state;
    static struct marks want, got;
    const char *path = make("tiny-dense");
    for (int in_memory = 1; in_memory >= 0; in_memory--) {
        struct marks *m = in_memory ? &want : &got;
        const uint64_t ram = in_memory ? 0 : floor_of(path, HEARTH_SPARSITY_OFF);
        struct opened o = open_with(path, ram, HEARTH_SPARSITY_OFF);
        pthread_t watcher;
        uint64_t read[4];
        atomic_store(&peak, 0);
        atomic_store(&stop, false);
        assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
        m->n = 0;
        const int seq = hearth_seq_new(o.session, &err);
        read[0] = read_bytes(&o);
        steps_of(&o, seq, SOME, m);
        read[1] = read_bytes(&o);
        prompt_of(&o, seq, LONG, m);
        read[2] = read_bytes(&o);
        steps_of(&o, seq, SOME, m);
        read[3] = read_bytes(&o);
        atomic_store(&stop, true);
        assert_int_equal(pthread_join(watcher, NULL), 0);
        assert_true(in_memory || (read[1] < read[0] && read[2] > read[1] && read[3] < read[2]));
        assert_true(in_memory || SANITIZED || atomic_load(&peak) <= ram);
        close_opened(&o);
    }
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.at, want.at, (size_t)want.n * sizeof *want.at);
}

// A long prompt between steps.
static void play_short(struct opened *o, struct marks *m, int seq)
{
    m->n = 0;
    steps_of(o, seq, SOME, m);
    prompt_of(o, seq, LONG, m);
    steps_of(o, seq, SOME, m);
}

static struct opened open_wide(const char *path, uint64_t ram)
{
    struct opened o = {.model = open_model_for(path, ram, 0, &streams)};
    struct hearth_session_params session = session_params(HEARTH_SPARSITY_OFF);
    session.n_ctx = 16384;
    session.max_seqs = 1;
    o.n_vocab = hearth_model_info(o.model)->n_vocab;
    OK(hearth_session_open(&o.session, o.model, &session, &err));
    return o;
}

// Where there is memory for it, the head stays, too: a step then reads a row of the embedding and nothing
// else. When a context takes all of that memory, the head streams again.
static void test_head(void **state)
{
    (void)state;
    static struct marks want, got;
    const char *path = make("tiny-dense");
    struct opened o = open_wide(path, 0);
    play_short(&o, &want, hearth_seq_new(o.session, &err));
    close_opened(&o);
    o = open_wide(path, 1u << 30);
    const uint64_t least = o.session->sources->plan.floor.bytes;
    close_opened(&o);

    o = open_wide(path, least);
    const uint64_t row = o.session->sources->weights.token_embd.stride, before = read_bytes(&o);
    assert_false(o.session->sources->plan.head_in_memory);
    assert_true(before > 1000 * row);
    const int seq = hearth_seq_new(o.session, &err);
    play_short(&o, &got, seq);
    assert_int_equal(read_bytes(&o), row);
    hearth_seq_free(o.session, seq);
    hearth_sources_use(o.session->sources, &o.session->user, hearth_region_bytes(o.session->user.kv_bytes),
                       true);
    assert_int_equal(read_bytes(&o), before);
    close_opened(&o);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.at, want.at, (size_t)want.n * sizeof *want.at);
}

// ---- sessions that share weights

struct runner {
    struct opened o;
    struct marks marks;
    int rc;
};

// Prompts and steps in turn. No asserts: it runs in threads.
static void *run(void *arg)
{
    struct runner *r = arg;
    hearth_token tokens[LONG];
    for (int i = 0; i < LONG; i++)
        tokens[i] = token_at(r->o.n_vocab, 1, i);
    r->marks.n = 0;
    r->rc = HEARTH_OK;
    for (int round = 0; round < 2 && !r->rc; round++) {
        const int seq = hearth_seq_new(r->o.session, NULL);
        r->rc = hearth_prompt(r->o.session, seq, tokens, LONG / (2 - round), NULL, NULL, NULL);
        for (int i = 0; i < 2 * SOME && !r->rc; i++) {
            r->rc = hearth_step(r->o.session, &seq, &tokens[i], 1, NULL);
            if (!r->rc)
                mark(&r->marks, &r->o);
        }
        hearth_seq_free(r->o.session, seq);
    }
    return NULL;
}

static struct runner *open_runner(struct hearth_model *m, enum hearth_sparsity sparsity)
{
    struct runner *r = calloc(1, sizeof *r);
    assert_non_null(r);
    const struct hearth_session_params session = session_params(sparsity);
    r->o = (struct opened){.model = m, .n_vocab = hearth_model_info(m)->n_vocab};
    OK(hearth_session_open(&r->o.session, m, &session, &err));
    return r;
}

static void close_runner(struct runner *r)
{
    hearth_session_close(&r->o.session);
    free(r);
}

// Two sessions in threads of their own: what one takes, the caches that both use give up. The second one
// opens and closes while the first one's evaluations go on.
static void test_sessions(void **state)
{
    (void)state;
    const char *path = make("tiny-turbosparse-pack");
    static struct marks want;
    struct hearth_model *m = open_model_for(path, 0, 0, &streams);
    struct runner *first = open_runner(m, HEARTH_SPARSITY_PREDICT);
    run(first);
    want = first->marks;
    close_runner(first);
    hearth_model_close(&m);
    m = open_model_for(path, 1u << 30, 2, &streams);
    first = open_runner(m, HEARTH_SPARSITY_PREDICT);
    const uint64_t least = first->o.session->sources->plan.floor.bytes;
    close_runner(first);
    hearth_model_close(&m);

    pthread_t watcher, threads[2];
    const uint64_t ram = least + (2 << 20); // what the process holds besides varies
    m = open_model_for(path, ram, 2, &streams);
    first = open_runner(m, HEARTH_SPARSITY_PREDICT);
    atomic_store(&peak, 0);
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
    assert_int_equal(pthread_create(&threads[0], NULL, run, first), 0);
    struct runner *second = open_runner(m, HEARTH_SPARSITY_PREDICT);
    assert_int_equal(pthread_create(&threads[1], NULL, run, second), 0);
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    assert_int_equal(second->rc, 0);
    assert_int_equal(second->marks.n, want.n);
    assert_memory_equal(second->marks.at, want.at, (size_t)want.n * sizeof *want.at);
    close_runner(second);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_int_equal(first->rc, 0);
    assert_memory_equal(first->marks.at, want.at, (size_t)want.n * sizeof *want.at);
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(watcher, NULL), 0);
    if (!SANITIZED)
        assert_true(atomic_load(&peak) <= ram);
    close_runner(first);
    hearth_model_close(&m);
}

// A session that is cancelled while it waits for memory has not grown, and goes on later.
static void test_cancelled(void **state)
{
    (void)state;
    static struct marks m;
    const char *path = make("tiny-turbosparse-pack");
    struct opened o = open_with(path, floor_of(path, HEARTH_SPARSITY_PREDICT), HEARTH_SPARSITY_PREDICT);
    m.n = 0;
    const int seq = hearth_seq_new(o.session, &err);
    hearth_token token = 1;
    hearth_lock_take(o.session->sources->turn); // as another session's evaluation does
    hearth_cancel(o.session);
    assert_int_equal(hearth_step(o.session, &seq, &token, 1, &err), HEARTH_E_INTERRUPTED);
    hearth_lock_drop(o.session->sources->turn);
    assert_int_equal(hearth_seq_length(o.session, seq), 0);
    assert_int_equal(hearth_session_kv_free(o.session), hearth_session_kv_tokens(o.session));
    steps_of(&o, seq, 3, &m);
    close_opened(&o);
}

int main(void)
{
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); // the caches' small chunks would come as huge pages
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_neurons),  cmocka_unit_test(test_expert_neurons),
                                       cmocka_unit_test(test_experts),  cmocka_unit_test(test_layers),
                                       cmocka_unit_test(test_head),     cmocka_unit_test(test_sessions),
                                       cmocka_unit_test(test_cancelled)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
