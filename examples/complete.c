// SPDX-License-Identifier: MIT
// complete MODEL PROMPT [N [SEED]]: prints N tokens (64) that continue the prompt. Same as
// `hearth run MODEL -p PROMPT -n N -s SEED`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"

// What one completion needs; all zeros before it is open.
struct completion {
    struct hearth_model *model;
    struct hearth_session *session;
    struct hearth_sampler *sampler;
    struct hearth_stream *stream;
    hearth_token *prompt;
    int n_prompt;
};

static int open_all(struct completion *c, const char *path, uint32_t seed, struct hearth_error *err)
{
    struct hearth_sampler_params sampling = hearth_sampler_params_default();
    sampling.seed = seed;
    int rc = hearth_model_open(&c->model, path, NULL, err); // NULL: all defaults
    if (!rc)
        rc = hearth_session_open(&c->session, c->model, NULL, err);
    if (!rc)
        rc = hearth_sampler_open(&c->sampler, hearth_model_info(c->model)->n_vocab, &sampling, err);
    if (!rc)
        rc = hearth_stream_open(&c->stream, c->model, false, true, err);
    return rc;
}

static void close_all(struct completion *c)
{
    free(c->prompt);
    hearth_stream_close(&c->stream);
    hearth_sampler_close(&c->sampler);
    hearth_session_close(&c->session);
    hearth_model_close(&c->model);
}

// A token is rarely shorter than a byte, so that a second try is rare.
static int tokenize(struct completion *c, const char *text, struct hearth_error *err)
{
    const int flags = HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL;
    size_t cap = strlen(text) + 16;
    for (;;) {
        hearth_token *grown = realloc(c->prompt, cap * sizeof *grown);
        if (!grown) {
            snprintf(err->message, sizeof err->message, "no memory for the prompt");
            return err->code = HEARTH_E_MEMORY;
        }
        c->prompt = grown;
        const int64_t n = hearth_tokenize(c->model, text, strlen(text), flags, c->prompt, cap, err);
        if (n < 0)
            return (int)n;
        c->n_prompt = (int)n;
        if ((size_t)n <= cap)
            return HEARTH_OK;
        cap = (size_t)n;
    }
}

static int generate(struct completion *c, int n_predict, struct hearth_error *err)
{
    const int seq = hearth_seq_new(c->session, err);
    if (seq < 0)
        return seq;
    int rc = hearth_prompt(c->session, seq, c->prompt, c->n_prompt, NULL, NULL, err);
    for (int i = 0; i < c->n_prompt; i++)
        hearth_sampler_accept(c->sampler, c->prompt[i]); // penalties look back on the prompt too
    const char *text;
    for (int i = 0; i < n_predict && !rc; i++) {
        const hearth_token token = hearth_sample(c->sampler, hearth_logits(c->session, 0));
        hearth_sampler_accept(c->sampler, token);
        if (hearth_token_is_eog(c->model, token))
            break;
        const size_t n = hearth_stream_push(c->stream, token, &text);
        fwrite(text, 1, n, stdout);
        if (i + 1 < n_predict)
            rc = hearth_step(c->session, &seq, &token, 1, err);
    }
    const size_t n = hearth_stream_flush(c->stream, &text);
    fwrite(text, 1, n, stdout);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: complete MODEL PROMPT [N [SEED]]\n");
        return 2;
    }
    const int n_predict = argc > 3 ? atoi(argv[3]) : 64;
    const uint32_t seed = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : UINT32_MAX; // a random one
    struct completion c = {0};
    struct hearth_error err = {0};
    int rc = open_all(&c, argv[1], seed, &err);
    if (!rc)
        rc = tokenize(&c, argv[2], &err);
    if (!rc)
        rc = generate(&c, n_predict, &err);
    if (rc)
        fprintf(stderr, "complete: %s (%s)\n", err.message, hearth_error_name(rc));
    close_all(&c);
    return rc ? 1 : 0;
}
