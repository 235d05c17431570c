// SPDX-License-Identifier: MIT
// Random sessions for a long time: make check-soak.
//   check_soak MINUTES SEED MODEL...
// In each round a model gets a random budget between the smallest one and all of its weights, and random
// contexts, micro-batches, threads and backends. Then random operations (chunks of prompts beside steps, forks,
// cuts, saved and loaded sequences, cancelled evaluations) run in that session and in one that has all weights in
// memory: each row of logits must be the same, bit by bit. When all is closed the process may hold no more
// memory than it did after the first rounds. A line now and then; status 1 where something differs or grows.
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "hearth.h"

enum { SEQS = 4, ROWS = 160, OPERATIONS = 60, FIRST_ROUNDS = 3, LEAST_CONTEXT = 64 };
// Heaps have holes, and threads' arenas come and go; a leak of a page a round shows in half an hour.
#define SLACK (UINT64_C(4) << 20)

static struct hearth_error err;
static uint64_t state;

static uint64_t draw(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % n;
}

static bool one_in(uint64_t n)
{
    return draw(n) == 0;
}

// ---- two sessions that must agree

struct one {
    struct hearth_model *model;
    struct hearth_session *session;
};

struct pair {
    struct one streams, whole; // whole.model stays open from round to round
    int n_vocab;
    int n_rows; // of an evaluation, at most
    bool live[SEQS];
    const char *file; // for a sequence
    uint64_t evaluations, cancelled;
    char what[400]; // this round's choices
};

static bool fail(const struct pair *p, const char *what)
{
    fprintf(stderr, "check_soak: %s: %s: %s\n", what, p->what, err.message);
    return false;
}

static void close_one(struct one *o)
{
    hearth_session_close(&o->session);
    hearth_model_close(&o->model);
}

static bool open_streams(struct pair *p, const char *path, struct hearth_session_params *session)
{
    static const char *const io[] = {"auto", "uring", "pread"};
    struct hearth_model_params params = hearth_model_params_default();
    struct hearth_fit fit;
    params.n_threads = 1;
    params.ram = HEARTH_RAM_FIT;
    if (hearth_model_open(&p->streams.model, path, &params, &err) ||
        hearth_model_fit(p->streams.model, session, 1, &fit, sizeof fit, &err))
        return fail(p, "a model that fits");
    hearth_model_close(&p->streams.model);
    params.ram = fit.least_bytes + draw(fit.whole_bytes - fit.least_bytes + 1) + (UINT64_C(1) << 20);
    params.io = io[draw(3)];
    params.overlap = (enum hearth_overlap)draw(3);
    params.read_gap = one_in(2) ? 0 : 1 + draw(100000);
    snprintf(p->what, sizeof p->what,
             "%s, ram %" PRIu64 " of %" PRIu64 " to %" PRIu64 ", io %s, overlap %d, gap %" PRIu64
             ", context %d, micro-batches of %d, %d threads",
             path, params.ram, fit.least_bytes, fit.whole_bytes, params.io, (int)params.overlap,
             params.read_gap, session->n_ctx, session->n_ubatch, session->n_threads);
    if (hearth_model_open(&p->streams.model, path, &params, &err) ||
        hearth_session_open(&p->streams.session, p->streams.model, session, &err))
        return fail(p, "a session with a budget");
    return true;
}

static bool open_pair(struct pair *p, const char *path)
{
    struct hearth_session_params session = hearth_session_params_default();
    const int most = hearth_model_info(p->whole.model)->n_ctx_train;
    session.n_ctx = LEAST_CONTEXT + (int)draw(most > 1024 ? 960 : (uint64_t)(most - LEAST_CONTEXT + 1));
    session.n_ubatch = 1 + (int)draw(128);
    session.n_threads = 1 + (int)draw(2);
    session.max_seqs = SEQS;
    session.max_steps = SEQS;
    if (one_in(2))
        session.kv_tokens = session.n_ctx + (int)draw((uint64_t)session.n_ctx);
    memset(p->live, 0, sizeof p->live);
    if (!open_streams(p, path, &session))
        return false;
    if (hearth_session_open(&p->whole.session, p->whole.model, &session, &err))
        return fail(p, "a session in memory");
    p->n_rows = hearth_session_max_rows(p->streams.session);
    p->n_vocab = hearth_model_info(p->whole.model)->n_vocab;
    return true;
}

// ---- operations

// Both must do the same; a full KV cache is full in both.
static bool agree(const struct pair *p, int a, int b, const char *what)
{
    return a == b && (a >= 0 || a == HEARTH_E_KV_FULL || a == HEARTH_E_BUDGET) ? true : fail(p, what);
}

static int random_seq(const struct pair *p)
{
    const int first = (int)draw(SEQS);
    for (int i = 0; i < SEQS; i++)
        if (p->live[(first + i) % SEQS])
            return (first + i) % SEQS;
    return -1;
}

static bool begin_seq(struct pair *p)
{
    const int a = hearth_seq_new(p->streams.session, &err), b = hearth_seq_new(p->whole.session, &err);
    if (a >= 0)
        p->live[a] = true;
    return agree(p, a, b, "a new sequence");
}

static bool fork_seq(struct pair *p, int seq)
{
    const int n = (int)draw((uint64_t)hearth_seq_length(p->whole.session, seq) + 1);
    const int a = hearth_seq_fork(p->streams.session, seq, n, &err),
              b = hearth_seq_fork(p->whole.session, seq, n, &err);
    if (a >= 0)
        p->live[a] = true;
    return agree(p, a, b, "a fork");
}

static bool cut_seq(struct pair *p, int seq)
{
    const int n = (int)draw((uint64_t)hearth_seq_length(p->whole.session, seq) + 1);
    return agree(p, hearth_seq_truncate(p->streams.session, seq, n, &err),
                 hearth_seq_truncate(p->whole.session, seq, n, &err), "a cut");
}

static bool end_seq(struct pair *p, int seq)
{
    hearth_seq_free(p->streams.session, seq);
    hearth_seq_free(p->whole.session, seq);
    p->live[seq] = false;
    if (one_in(2))
        hearth_session_trim(p->streams.session);
    return true;
}

// A sequence goes to a file and comes back.
static bool store_seq(struct pair *p, int seq)
{
    if (hearth_seq_save(p->streams.session, seq, p->file, &err))
        return fail(p, "a sequence that is saved");
    end_seq(p, seq);
    const int a = hearth_seq_load(p->streams.session, p->file, &err),
              b = hearth_seq_load(p->whole.session, p->file, &err);
    if (a >= 0)
        p->live[a] = true;
    return agree(p, a, b, "a sequence that is loaded");
}

// Fills rows with a prompt's chunk of one sequence, steps of others, or both. Returns how many.
static int choose_rows(struct pair *p, struct hearth_batch_row *rows)
{
    const int prompt = one_in(3) ? random_seq(p) : -1;
    const int most = p->n_rows - SEQS < ROWS - SEQS ? p->n_rows - SEQS : ROWS - SEQS;
    int n = 0;
    for (int seq = 0; seq < SEQS; seq++) {
        const int length = hearth_seq_length(p->whole.session, seq);
        const int room = hearth_session_n_ctx(p->whole.session) - length;
        if (!p->live[seq] || room < 1 || (seq != prompt && one_in(4)))
            continue;
        // A text has a beginning: the first tokens are a prompt's.
        const bool step = seq != prompt && length;
        int count = step ? 1 : 1 + (int)draw((uint64_t)most);
        count = count < room ? count : room;
        count = step || n + count <= most ? count : most - n;
        for (int i = 0; i < count; i++)
            rows[n++] = (struct hearth_batch_row){.seq = seq,
                                                  .pos = -1,
                                                  .token = (hearth_token)draw((uint64_t)p->n_vocab),
                                                  .phase = step ? HEARTH_PHASE_STEP : HEARTH_PHASE_PROMPT,
                                                  .wants_logits = i + 1 == count};
    }
    return n;
}

static bool evaluate(struct pair *p)
{
    struct hearth_batch_row rows[ROWS];
    const int n = choose_rows(p, rows);
    if (!n)
        return true;
    if (one_in(20)) { // is to end before it has begun
        hearth_cancel(p->streams.session);
        if (hearth_evaluate(p->streams.session, rows, n, sizeof *rows, &err) == HEARTH_E_INTERRUPTED)
            p->cancelled++;
        else if (!hearth_cancel_clear(p->streams.session))
            return fail(p, "an evaluation that is cancelled");
    }
    const int a = hearth_evaluate(p->streams.session, rows, n, sizeof *rows, &err),
              b = hearth_evaluate(p->whole.session, rows, n, sizeof *rows, &err);
    if (!agree(p, a, b, "an evaluation"))
        return false;
    p->evaluations++;
    for (int i = 0; !a && i < n; i++)
        if (rows[i].wants_logits &&
            memcmp(hearth_logits(p->streams.session, i), hearth_logits(p->whole.session, i),
                   (size_t)p->n_vocab * sizeof(float)) != 0)
            return fail(p, "logits differ");
    return true;
}

static bool operate(struct pair *p)
{
    const int seq = random_seq(p);
    if (seq < 0)
        return begin_seq(p);
    switch (draw(16)) {
    case 0:
        return begin_seq(p);
    case 1:
        return fork_seq(p, seq);
    case 2:
        return cut_seq(p, seq);
    case 3:
        return end_seq(p, seq);
    case 4:
        return hearth_seq_length(p->whole.session, seq) ? store_seq(p, seq) : true;
    default:
        return evaluate(p);
    }
}

static bool play(struct pair *p, const char *path)
{
    bool ok = open_pair(p, path);
    for (int i = 0; i < OPERATIONS && ok; i++)
        ok = operate(p);
    close_one(&p->streams);
    hearth_session_close(&p->whole.session);
    return ok;
}

// ---- rounds

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: check_soak MINUTES SEED MODEL...\n");
        return 2;
    }
    const double minutes = atof(argv[1]);
    const uint64_t end = hearth_now_ns() + (uint64_t)(minutes * 60e9);
    const int n_models = argc - 3;
    struct pair *pairs = calloc((size_t)n_models, sizeof *pairs);
    char file[] = "/tmp/hearth-soak-XXXXXX";
    const int fd = mkstemp(file);
    bool ok = pairs && fd >= 0;
    uint64_t first = 0, most = 0, evaluations = 0, cancelled = 0, round = 0;
    if (fd >= 0)
        close(fd);
    state = strtoull(argv[2], NULL, 10) * 2654435761u + 1;
    for (int i = 0; i < n_models && ok; i++) {
        pairs[i].file = file;
        ok = !hearth_model_open(&pairs[i].whole.model, argv[3 + i], NULL, &err) ||
             fail(&pairs[i], argv[3 + i]);
    }
    for (; ok && hearth_now_ns() < end; round++) {
        const int i = (int)(round % (uint64_t)n_models);
        ok = play(&pairs[i], argv[3 + i]);
        hearth_memory_trim();
        const uint64_t now = hearth_memory_private();
        if (round < (uint64_t)(FIRST_ROUNDS * n_models))
            first = now > first ? now : first;
        most = now > most ? now : most;
        if (ok && now > first + SLACK) {
            fprintf(stderr,
                    "check_soak: %" PRIu64 " bytes after round %" PRIu64 ", %" PRIu64
                    " after the first ones: %s\n",
                    now, round, first, pairs[i].what);
            ok = false;
        }
        if (round % 100 == 0)
            printf("round %" PRIu64 ": %.1f MiB; %s\n", round, (double)now / (1 << 20), pairs[i].what);
        fflush(stdout);
    }
    for (int i = 0; pairs && i < n_models; i++) {
        evaluations += pairs[i].evaluations;
        cancelled += pairs[i].cancelled;
        hearth_model_close(&pairs[i].whole.model);
    }
    remove(file);
    free(pairs);
    printf("check-soak: %" PRIu64 " rounds, %" PRIu64 " evaluations, %" PRIu64
           " cancelled; memory after a round %.1f MiB, %.1f at most: %s\n",
           round, evaluations, cancelled, (double)first / (1 << 20), (double)most / (1 << 20),
           ok ? "passed" : "FAILED");
    return ok ? 0 : 1;
}
