// SPDX-License-Identifier: MIT
// See extent.h.
#include "cli/extent.h"

#include <string.h>

// Positions of a context when nobody says how many; the model may have fewer.
#define USUAL_CTX 4096
// Tokens of a prompt that is not known.
#define USUAL_PROMPT 512
// Tokens of a page of the KV cache.
#define PAGE 64

static void drop_last_newline(struct hearth_buffer *text)
{
    if (text->n && text->data[text->n - 1] == '\n')
        text->n--;
}

int hearth_cli_read_prompt(const struct hearth_options *o, struct hearth_buffer *out)
{
    int status = HEARTH_EXIT_OK;
    if (o->prompt) {
        if (!hearth_buffer_add(out, o->prompt, strlen(o->prompt)))
            status = hearth_cli_error("no memory for the prompt");
    } else if (o->file) {
        status = hearth_cli_read(o->file, out);
        drop_last_newline(out);
    }
    if (!status && hearth_cli_unescapes(o))
        out->n = hearth_cli_unescape(out->data, out->n);
    return status;
}

int hearth_cli_context(const struct hearth_options *o, const struct hearth_model_info *info)
{
    const int trained = info->n_ctx_train, usual = trained < USUAL_CTX ? trained : USUAL_CTX;
    return o->n_ctx < 0 ? usual : o->n_ctx ? (int)o->n_ctx : trained;
}

int64_t hearth_cli_room(int64_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

// Continuations of known length share the prompt's pages; each has a copy of the last of them.
static void share_prompt(struct hearth_session_params *params, int64_t n_prompt, int64_t n_predict)
{
    const int64_t needed = hearth_cli_room(n_prompt) + params->max_seqs * (hearth_cli_room(n_predict) + PAGE);
    if (!params->kv_tokens && needed < (int64_t)params->n_ctx * params->max_seqs)
        params->kv_tokens = (int)needed;
}

struct hearth_session_params hearth_cli_params_of(const struct hearth_options *o,
                                                  const struct hearth_model_info *info, size_t n_prompt,
                                                  int n_lines)
{
    const int64_t prompt = n_prompt ? (int64_t)n_prompt : USUAL_PROMPT,
                  needed = hearth_cli_room(prompt + o->n_predict);
    int n_ctx = hearth_cli_context(o, info);
    if (o->n_ctx < 0 && o->n_predict >= 0 && needed < n_ctx)
        n_ctx = (int)needed;
    struct hearth_session_params params = hearth_cli_session_params(o, n_ctx, n_lines);
    if (o->n_predict >= 0)
        share_prompt(&params, prompt, o->n_predict);
    if (n_prompt && n_prompt < (size_t)params.n_ubatch) // nothing longer is evaluated at a time
        params.n_ubatch = (int)n_prompt;
    return params;
}
