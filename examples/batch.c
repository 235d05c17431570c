// SPDX-License-Identifier: MIT
// batch MODEL PROMPT N SEED SEQUENCES: continuations of one prompt, N tokens each, with seeds SEED,
// SEED + 1, ... Each step takes all sequences through the weights together. Same output as
// `hearth run MODEL -p PROMPT -n N -s SEED -np SEQUENCES`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"

enum { MAX_PROMPT = 2048, MAX_SEQS = 32, MAX_TEXT = 1 << 16 };

struct line {
    int seq;
    struct hearth_sampler *sampler;
    struct hearth_stream *stream;
    char text[MAX_TEXT];
    size_t length;
};

static struct hearth_model *model;
static struct hearth_session *session;
static struct line lines[MAX_SEQS];

static void add(struct line *l, const char *text, size_t n)
{
    n = n < MAX_TEXT - l->length ? n : MAX_TEXT - l->length;
    memcpy(l->text + l->length, text, n);
    l->length += n;
}

static int generate(int n_lines, int n_predict, struct hearth_error *err)
{
    struct line *rows[MAX_SEQS]; // whose logits row i are
    int seqs[MAX_SEQS], n = n_lines, rc = HEARTH_OK;
    hearth_token tokens[MAX_SEQS];
    for (int i = 0; i < n; i++)
        rows[i] = &lines[i];
    for (int k = 0; k < n_predict && n && !rc; k++) {
        int going_on = 0;
        for (int i = 0; i < n; i++) {
            struct line *l = rows[i];
            const float *logits = hearth_logits(session, k ? i : 0); // at first all have the prompt's
            const hearth_token token = hearth_sample(l->sampler, logits);
            hearth_sampler_accept(l->sampler, token);
            if (hearth_token_is_eog(model, token))
                continue;
            const char *text;
            const size_t length = hearth_stream_push(l->stream, token, &text);
            add(l, text, length);
            tokens[going_on] = token;
            seqs[going_on] = l->seq;
            rows[going_on++] = l;
        }
        n = going_on;
        if (n && k + 1 < n_predict)
            rc = hearth_step(session, seqs, tokens, n, err);
    }
    return rc;
}

// All lines begin as the prompt, which is evaluated once and whose memory they share.
static int open_lines(int n_lines, const char *text, uint32_t seed, struct hearth_error *err)
{
    hearth_token prompt[MAX_PROMPT];
    const int flags = HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL;
    int64_t n = hearth_tokenize(model, text, strlen(text), flags, prompt, MAX_PROMPT, err);
    n = n > MAX_PROMPT ? MAX_PROMPT : n; // a longer prompt is cut
    lines[0].seq = hearth_seq_new(session, err);
    int rc = n < 0 ? (int)n : hearth_prompt(session, lines[0].seq, prompt, (int)n, NULL, NULL, err);
    for (int i = 0; i < n_lines && !rc; i++) {
        struct line *l = &lines[i];
        struct hearth_sampler_params sampling = hearth_sampler_params_default();
        sampling.seed = seed + (uint32_t)i;
        if (i && (l->seq = hearth_seq_fork(session, lines[0].seq, (int)n, err)) < 0)
            return l->seq;
        rc = hearth_sampler_open(&l->sampler, hearth_model_info(model)->n_vocab, &sampling, err);
        for (int k = 0; k < n && !rc; k++)
            hearth_sampler_accept(l->sampler, prompt[k]);
        if (!rc)
            rc = hearth_stream_open(&l->stream, model, false, true, err);
    }
    return rc;
}

static void print_and_close(struct line *l, int n_lines)
{
    const char *text;
    const size_t rest = hearth_stream_flush(l->stream, &text); // bytes that never became a character
    add(l, text, rest);
    const bool newline = l->length && l->text[l->length - 1] == '\n';
    printf("=== %d of %d, seed %u ===\n%.*s%s", (int)(l - lines) + 1, n_lines,
           hearth_sampler_seed(l->sampler), (int)l->length, l->text, newline ? "" : "\n");
    hearth_stream_close(&l->stream);
    hearth_sampler_close(&l->sampler);
}

int main(int argc, char **argv)
{
    const int n_lines = argc > 5 ? atoi(argv[5]) : 0;
    if (n_lines < 1 || n_lines > MAX_SEQS) {
        fprintf(stderr, "usage: batch MODEL PROMPT N SEED SEQUENCES (1 to %d)\n", MAX_SEQS);
        return 2;
    }
    struct hearth_session_params params = hearth_session_params_default();
    params.max_seqs = n_lines;
    struct hearth_error err = {0};
    const bool failed = hearth_model_open(&model, argv[1], NULL, &err) ||
                        hearth_session_open(&session, model, &params, &err) ||
                        open_lines(n_lines, argv[2], (uint32_t)strtoul(argv[4], NULL, 10), &err) ||
                        generate(n_lines, atoi(argv[3]), &err);
    for (int i = 0; i < n_lines && !failed; i++)
        print_and_close(&lines[i], n_lines);
    if (failed)
        fprintf(stderr, "batch: %s\n", err.message);
    hearth_session_close(&session);
    hearth_model_close(&model);
    return failed;
}
