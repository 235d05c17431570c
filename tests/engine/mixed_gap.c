// SPDX-License-Identifier: MIT
// How long sequences that decode wait while a long prompt enters in chunks beside them:
//   mixed_gap MODEL [CHUNK [TOKENS [THREADS]]]
// Times each chunk alone and then beside four decoding sequences, and compares all greedy texts with those of
// separate runs. Prints one line of JSON; status 1 where a text differs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hearth.h"

enum { N_DECODING = 4, START = 32, MAX_CHUNKS = 256 };

static struct hearth_error err;

static void check(int rc)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "mixed_gap: %s\n", err.message);
    exit(1);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

struct setting {
    const struct hearth_model *model;
    int n_vocab, chunk, n_prompt, n_chunks, n_threads;
};

static struct hearth_session *open_session(const struct setting *t)
{
    struct hearth_session_params p = hearth_session_params_default();
    struct hearth_session *s = NULL;
    p.n_ctx = t->n_prompt + 64;
    if (p.n_ctx < START + 1 + t->n_chunks)
        p.n_ctx = START + 1 + t->n_chunks;
    p.max_seqs = N_DECODING + 1;
    p.n_ubatch = t->chunk;
    p.n_threads = t->n_threads;
    check(hearth_session_open(&s, t->model, &p, &err));
    return s;
}

static hearth_token token_of(const struct setting *t, int seq, int i)
{
    return (hearth_token)((uint32_t)(seq * 7919 + i * 104729 + 13) % (uint32_t)t->n_vocab);
}

static hearth_token best_of(const float *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

// The sequences that decode have START tokens and know their next one.
static void start(struct hearth_session *s, const struct setting *t, hearth_token *next)
{
    for (int k = 0; k < N_DECODING; k++) {
        hearth_token tokens[START];
        for (int i = 0; i < START; i++)
            tokens[i] = token_of(t, k, i);
        check(hearth_seq_new(s, &err));
        check(hearth_prompt(s, k, tokens, START, NULL, NULL, &err));
        next[k] = best_of(hearth_logits(s, 0), t->n_vocab);
    }
    check(hearth_seq_new(s, &err));
}

// One chunk of the prompt, beside steps of n_decoding sequences. Returns milliseconds.
static double evaluate_chunk(struct hearth_session *s, const struct setting *t, int chunk, int n_decoding,
                             hearth_token *next)
{
    const int first = chunk * t->chunk, left = t->n_prompt - first, n = left < t->chunk ? left : t->chunk;
    struct hearth_batch_row *rows = calloc((size_t)(n + N_DECODING), sizeof *rows);
    if (!rows)
        exit(1);
    for (int i = 0; i < n; i++)
        rows[i] = (struct hearth_batch_row){.seq = N_DECODING,
                                            .pos = first + i,
                                            .token = token_of(t, N_DECODING, first + i),
                                            .phase = HEARTH_PHASE_PROMPT,
                                            .wants_logits = first + i + 1 == t->n_prompt};
    for (int k = 0; k < n_decoding; k++)
        rows[n + k] = (struct hearth_batch_row){.seq = k,
                                                .pos = START + chunk,
                                                .token = next[k],
                                                .phase = HEARTH_PHASE_STEP,
                                                .wants_logits = true};
    const double begin = now_ms();
    check(hearth_evaluate(s, rows, n + n_decoding, sizeof *rows, &err));
    const double ms = now_ms() - begin;
    for (int k = 0; k < n_decoding; k++)
        next[k] = best_of(hearth_logits(s, n + k), t->n_vocab);
    if (first + n == t->n_prompt)
        next[N_DECODING] = best_of(hearth_logits(s, n - 1), t->n_vocab);
    free(rows);
    return ms;
}

// Each chunk's time alone, and each chunk's time beside four steps; `texts` gets all tokens of either way.
static void run(const struct setting *t, bool mixed, double *ms, hearth_token *texts)
{
    hearth_token next[N_DECODING + 1];
    struct hearth_session *s = open_session(t);
    start(s, t, next);
    for (int i = 0; i < t->n_chunks; i++) {
        ms[i] = evaluate_chunk(s, t, i, mixed ? N_DECODING : 0, next);
        for (int k = 0; k < N_DECODING; k++) {
            if (!mixed) {
                check(hearth_step(s, &k, &next[k], 1, &err));
                next[k] = best_of(hearth_logits(s, 0), t->n_vocab);
            }
            texts[i * N_DECODING + k] = next[k];
        }
    }
    texts[t->n_chunks * N_DECODING] = next[N_DECODING];
    hearth_session_close(&s);
}

static int number_of(int argc, char **argv, int i, int otherwise)
{
    return argc > i && atoi(argv[i]) > 0 ? atoi(argv[i]) : otherwise;
}

int main(int argc, char **argv)
{
    static double alone[MAX_CHUNKS], beside[MAX_CHUNKS];
    static hearth_token apart[MAX_CHUNKS * N_DECODING + 1], together[MAX_CHUNKS * N_DECODING + 1];
    struct hearth_model *m = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: mixed_gap MODEL [CHUNK [TOKENS [THREADS]]]\n");
        return 2;
    }
    check(hearth_model_open(&m, argv[1], NULL, &err));
    struct setting t = {.model = m,
                        .n_vocab = hearth_model_info(m)->n_vocab,
                        .chunk = number_of(argc, argv, 2, 512),
                        .n_prompt = number_of(argc, argv, 3, 2000),
                        .n_threads = number_of(argc, argv, 4, 0)};
    t.n_chunks = (t.n_prompt + t.chunk - 1) / t.chunk;
    if (t.n_chunks > MAX_CHUNKS) {
        fprintf(stderr, "mixed_gap: more than %d chunks: use a larger CHUNK\n", MAX_CHUNKS);
        return 2;
    }
    run(&t, false, alone, apart);
    run(&t, true, beside, together);
    const bool same = !memcmp(apart, together, sizeof apart);
    double longest = 0, worst = 0, micro_batch = 0;
    for (int i = 0; i < t.n_chunks; i++) {
        longest = beside[i] > longest ? beside[i] : longest;
        worst = beside[i] / alone[i] > worst ? beside[i] / alone[i] : worst;
        micro_batch = alone[i] > micro_batch ? alone[i] : micro_batch;
    }
    printf("{\"chunk\": %d, \"tokens\": %d, \"micro_batch_ms\": %.2f, \"longest_gap_ms\": %.2f, "
           "\"gap_of_micro_batch\": %.3f, \"worst_of_own_chunk\": %.3f, \"texts_same\": %s}\n",
           t.chunk, t.n_prompt, micro_batch, longest, longest / micro_batch, worst, same ? "true" : "false");
    hearth_model_close(&m);
    return !same;
}
