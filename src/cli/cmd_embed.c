// SPDX-License-Identifier: MIT
// hearth embed: the embeddings of texts, as llama-embedding prints them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/embed_output.h"
#include "cli/fit.h"

// A text, and what comes of it: rows of `width` floats, one or, without pooling, one a token.
struct item {
    const char *text;
    size_t n_text, n_tokens;
    hearth_token *tokens;
    float *out;
};

struct embedding {
    const struct hearth_options *o;
    struct hearth_model *model;
    struct hearth_session *session;
    struct hearth_buffer text; // all of it
    struct item *items;
    int n_items;
    enum hearth_pooling pooling;
    size_t n_tokens, longest; // of all items, of one
    size_t n_rows;
    float *out;            // [n_rows x n_embd], the items' one after the other
    size_t n_done, n_call; // tokens evaluated, and those of the call that goes on
};

static bool on_progress(void *arg, float share)
{
    const struct embedding *e = arg;
    hearth_progress_set((double)e->n_done + (double)share * (double)e->n_call);
    return !hearth_cli_interrupted();
}

// ---- computing

static int embed_item(struct embedding *e, struct item *item)
{
    struct hearth_error err = {0};
    const int seq = hearth_seq_new(e->session, &err);
    if (seq < 0)
        return hearth_cli_fail(&err);
    e->n_call = item->n_tokens;
    const int rc = hearth_embed(e->session, seq, item->tokens, (int)item->n_tokens, e->pooling,
                                (int)e->o->embd_normalize, item->out, &err);
    hearth_seq_free(e->session, seq);
    e->n_done += item->n_tokens;
    return rc ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
}

static int embed_all(struct embedding *e)
{
    int status = HEARTH_EXIT_OK;
    hearth_progress_begin(HEARTH_PROGRESS_TOKENS, (double)e->n_tokens, "embedding");
    for (int i = 0; i < e->n_items && !status; i++)
        status = embed_item(e, &e->items[i]);
    hearth_progress_end();
    return status;
}

// ---- the texts

static int read_text(const struct hearth_options *o, struct hearth_buffer *text)
{
    if (o->prompt && o->file)
        return hearth_cli_usage(hearth_command_find("embed"), "-p and -f exclude each other");
    int status = HEARTH_EXIT_OK;
    if (o->prompt) {
        if (!hearth_buffer_add(text, o->prompt, strlen(o->prompt)))
            status = hearth_cli_error("no memory for the text");
    } else if (o->file || hearth_cli_stdin_is_piped()) {
        if (!o->file)
            hearth_cli_await_stdin("the text is read from standard input; -p TEXT gives one at once");
        status = hearth_cli_read(o->file ? o->file : "-", text);
        if (!status && text->n && text->data[text->n - 1] == '\n')
            text->n--;
    } else {
        status =
            hearth_cli_usage(hearth_command_find("embed"), "-p or -f is missing: what is to be embedded?");
    }
    if (!status && hearth_cli_unescapes(o))
        text->n = hearth_cli_unescape(text->data, text->n);
    return status;
}

static int add_item(struct embedding *e, const char *text, size_t n)
{
    struct item *grown = hearth_reallocarray(e->items, (size_t)e->n_items + 1, sizeof *grown);
    if (!grown)
        return hearth_cli_error("no memory for %d texts", e->n_items + 1);
    e->items = grown;
    grown[e->n_items++] = (struct item){.text = text, .n_text = n};
    return HEARTH_EXIT_OK;
}

// Cuts the text at every separator.
static int cut_text(struct embedding *e)
{
    char *separator = hearth_strndup(e->o->embd_separator, strlen(e->o->embd_separator));
    if (!separator)
        return hearth_cli_error("no memory for the texts");
    const size_t n = hearth_cli_unescape(separator, strlen(separator));
    const char *at = e->text.data ? e->text.data : "", *end = at + e->text.n;
    int status = HEARTH_EXIT_OK;
    while (!status) {
        const char *next = n ? memmem(at, (size_t)(end - at), separator, n) : NULL;
        status = add_item(e, at, (size_t)((next ? next : end) - at));
        if (!next)
            break;
        at = next + n;
    }
    free(separator);
    return status;
}

static int tokenize(struct embedding *e)
{
    int status = HEARTH_EXIT_OK;
    for (int i = 0; i < e->n_items && !status; i++) {
        struct item *item = &e->items[i];
        status = hearth_cli_tokenize(e->model, item->text, item->n_text,
                                     HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL, &item->tokens,
                                     &item->n_tokens);
        if (!status && !item->n_tokens)
            status = hearth_cli_error("text %d is empty and has no tokens", i + 1);
        if (!status && e->o->n_ctx > 0 && item->n_tokens > (size_t)e->o->n_ctx)
            status = hearth_cli_error("text %d has %zu tokens but the context only %lld: use a larger -c",
                                      i + 1, item->n_tokens, (long long)e->o->n_ctx);
        e->n_tokens += item->n_tokens;
        if (item->n_tokens > e->longest)
            e->longest = item->n_tokens;
    }
    return status;
}

// ---- setting up

// Before the session opens, whose memory budget counts what is held by then: so all of it is touched.
static int take_memory(struct embedding *e)
{
    const size_t width = (size_t)hearth_model_info(e->model)->n_embd;
    const bool pools = e->pooling != HEARTH_POOLING_NONE;
    e->n_rows = pools ? (size_t)e->n_items : e->n_tokens;
    e->out = hearth_calloc(e->n_rows * width, sizeof *e->out);
    if (!e->out)
        return hearth_cli_error("no memory for %zu embeddings of %zu numbers", e->n_rows, width);
    memset(e->out, 0xff, e->n_rows * width * sizeof *e->out);
    float *at = e->out;
    for (int i = 0; i < e->n_items; i++) {
        e->items[i].out = at;
        at += (pools ? 1 : e->items[i].n_tokens) * width;
    }
    return HEARTH_EXIT_OK;
}

static int set_up(struct embedding *e)
{
    int status = read_text(e->o, &e->text);
    hearth_cli_catch_interrupt();
    if (!status && e->o->file)
        hearth_cli_warn_binary(e->o->file, &e->text);
    if (!status)
        status = cut_text(e);
    if (!status)
        status = hearth_cli_open_model(&e->model, e->o, false);
    if (!status)
        status = tokenize(e);
    if (status)
        return status;
    e->pooling = hearth_cli_pooling(e->o, e->model);
    status = take_memory(e);
    if (status)
        return status;
    struct hearth_session_params params = hearth_cli_session_params(e->o, (int)e->longest, 1);
    status = hearth_cli_fit_or_pack(&params, &e->model, e->o, NULL);
    if (status)
        return status;
    params.progress = on_progress;
    params.progress_arg = e;
    status = hearth_cli_open_session(&e->session, e->model, &params);
    if (!status)
        hearth_cli_note_unused(e->o, e->session);
    return status;
}

static int print(const struct embedding *e)
{
    struct hearth_embed_output out = {.format = e->o->embd_output,
                                      .normalize = (int)e->o->embd_normalize,
                                      .rows = e->out,
                                      .n_rows = e->n_rows,
                                      .width = (size_t)hearth_model_info(e->model)->n_embd,
                                      .pools = e->pooling != HEARTH_POOLING_NONE};
    struct hearth_embed_name *names = hearth_calloc((size_t)e->n_items, sizeof *names);
    if (!names)
        return hearth_cli_error("no memory for %d texts", e->n_items);
    for (int i = 0; i < e->n_items; i++)
        names[i] = (struct hearth_embed_name){e->items[i].text, e->items[i].n_text};
    out.names = names;
    const bool ok = hearth_embed_print(&out, stdout);
    free(names);
    return ok ? HEARTH_EXIT_OK : HEARTH_EXIT_FAILURE; // the reason is reported when standard output closes
}

int hearth_cmd_embed(const struct hearth_options *o)
{
    struct embedding e = {.o = o};
    int status = set_up(&e);
    if (!status)
        status = embed_all(&e);
    if (!status)
        status = print(&e);
    for (int i = 0; i < e.n_items; i++)
        free(e.items[i].tokens);
    free(e.items);
    free(e.out);
    free(e.text.data);
    hearth_cli_cancel_on_interrupt(NULL);
    hearth_session_close(&e.session);
    hearth_model_close(&e.model);
    return status;
}
