// SPDX-License-Identifier: MIT
// stream MODEL PROMPT [RAM_MIB [N]]: shows text as it comes, until the model ends it, the context is full,
// there are N tokens or somebody presses Ctrl-C. With RAM_MIB, unless it is 0, the program keeps to so much
// memory, and weights beyond it are read from the file as they are needed. Same text as `hearth run MODEL -p
// PROMPT --temp 0 -n N`.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"

enum { MAX_PROMPT = 2048 };

static const char *const levels[] = {"warning", "info", "debug"};

// The library prints nothing itself: what it has to say comes here.
static void on_log(void *arg, enum hearth_log_level level, const char *message)
{
    if (level == HEARTH_LOG_WARNING)
        fprintf(arg, "stream: %s: %s\n", levels[level], message);
}

// hearth_cancel() may be called from signal handlers. Set before the handler is.
static struct hearth_session *session;

static void on_interrupt(int signal_number)
{
    signal(signal_number, SIG_DFL); // a second Ctrl-C ends the program
    hearth_cancel(session);
}

// Called while weights load; returning false would stop that.
static bool on_progress(void *arg, float share)
{
    fprintf(arg, "\rloading %3.0f %%%s", 100 * (double)share, share < 1 ? "" : "\r              \r");
    return true;
}

static void put(const char *text, size_t n)
{
    fwrite(text, 1, n, stdout);
    fflush(stdout);
}

static int generate(const struct hearth_model *model, struct hearth_stream *stream,
                    struct hearth_sampler *sampler, const char *prompt, int n_predict,
                    struct hearth_error *err)
{
    hearth_token tokens[MAX_PROMPT];
    const char *text;
    const int flags = HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL;
    const int64_t n = hearth_tokenize(model, prompt, strlen(prompt), flags, tokens, MAX_PROMPT, err);
    const int seq = hearth_seq_new(session, err), n_ctx = hearth_session_n_ctx(session);
    if (n < 0 || seq < 0)
        return n < 0 ? (int)n : seq;
    if (n > MAX_PROMPT) {
        snprintf(err->message, sizeof err->message, "a prompt of more than %d tokens", MAX_PROMPT);
        return HEARTH_E_INVALID;
    }
    int rc = hearth_prompt(session, seq, tokens, (int)n, NULL, NULL, err);
    for (int i = 1; !rc; i++) {
        const hearth_token token = hearth_sample(sampler, hearth_logits(session, 0));
        if (hearth_token_is_eog(model, token))
            break;
        const size_t length = hearth_stream_push(stream, token, &text); // whole characters only
        put(text, length);
        if (i == n_predict || hearth_seq_length(session, seq) == n_ctx)
            break;
        rc = hearth_step(session, &seq, &token, 1, err);
    }
    put(text, hearth_stream_flush(stream, &text));
    return rc;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: stream MODEL PROMPT [RAM_MIB [N]]\n");
        return 2;
    }
    hearth_log_set(on_log, stderr);
    struct hearth_model_params mp = hearth_model_params_default(); // never zeros: they know their size
    mp.ram = argc > 3 ? strtoull(argv[3], NULL, 10) << 20 : 0;
    mp.progress = on_progress;
    mp.progress_arg = stderr;
    struct hearth_sampler_params sampling = hearth_sampler_params_default();
    sampling.temp = 0;

    struct hearth_model *model = NULL;
    struct hearth_sampler *sampler = NULL;
    struct hearth_stream *stream = NULL;
    struct hearth_error err = {0};
    int rc = hearth_model_open(&model, argv[1], &mp, &err);
    if (!rc)
        rc = hearth_session_open(&session, model, NULL, &err);
    if (!rc)
        rc = hearth_sampler_open(&sampler, hearth_model_info(model)->n_vocab, &sampling, &err);
    if (!rc)
        rc = hearth_stream_open(&stream, model, false, true, &err);
    if (!rc) {
        signal(SIGINT, on_interrupt);
        rc = generate(model, stream, sampler, argv[2], argc > 4 ? atoi(argv[4]) : -1, &err);
        signal(SIGINT, SIG_DFL); // before the session goes
        printf("\n");
    }
    if (rc && rc != HEARTH_E_INTERRUPTED) // Ctrl-C is no error
        fprintf(stderr, "stream: %s\n", err.message);
    hearth_stream_close(&stream);
    hearth_sampler_close(&sampler);
    hearth_session_close(&session);
    hearth_model_close(&model);
    return rc == HEARTH_E_INTERRUPTED ? 130 : rc ? 1 : 0;
}
