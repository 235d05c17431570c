// SPDX-License-Identifier: MIT
// hello MODEL PROMPT: prints 20 tokens that continue the prompt, always the most likely one.
#include <hearth.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 1000 }; // tokens of a prompt

static int say(const struct hearth_model *model, struct hearth_session *session, struct hearth_stream *stream,
               const char *prompt, struct hearth_error *err)
{
    hearth_token tokens[MOST];
    const int64_t n = hearth_tokenize(model, prompt, strlen(prompt), HEARTH_TOKENIZE_BOS, tokens, MOST, err);
    const int seq = hearth_seq_new(session, err), n_vocab = hearth_model_info(model)->n_vocab;
    if (n < 0 || seq < 0)
        return -1;
    int rc = hearth_prompt(session, seq, tokens, n < MOST ? (int)n : MOST, NULL, NULL, err);
    for (int i = 0; i < 20 && !rc; i++) {
        const float *logits = hearth_logits(session, 0);
        hearth_token best = 0;
        for (hearth_token token = 1; token < n_vocab; token++)
            best = logits[token] > logits[best] ? token : best;
        if (hearth_token_is_eog(model, best))
            break;
        const char *text;
        const size_t length = hearth_stream_push(stream, best, &text);
        fwrite(text, 1, length, stdout);
        rc = hearth_step(session, &seq, &best, 1, err);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct hearth_model *model = NULL;
    struct hearth_session *session = NULL;
    struct hearth_stream *stream = NULL;
    struct hearth_error err = {0};
    if (argc != 3)
        return 2;
    int rc = hearth_model_open(&model, argv[1], NULL, &err); // NULL: all defaults
    if (!rc)
        rc = hearth_session_open(&session, model, NULL, &err);
    if (!rc)
        rc = hearth_stream_open(&stream, model, false, true, &err);
    if (!rc)
        rc = say(model, session, stream, argv[2], &err);
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    hearth_stream_close(&stream);
    hearth_session_close(&session);
    hearth_model_close(&model);
    return rc ? 1 : 0;
}
