// SPDX-License-Identifier: MIT
// hearth embed: the embeddings of texts, as llama-embedding prints them. Short texts are evaluated together, in groups;
// that makes it faster, above all where weights are read from the file, and changes no bit.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/embed_output.h"
#include "cli/fit.h"
#include "engine/pooling.h"
#include "model/model.h"

// Texts that are evaluated together at most.
#define MOST_TEXTS 32
// Positions that a text takes whole pages of.
#define PAGE 64

// A text, and what comes of it: rows of `width` floats, one or, without pooling, one a token.
struct item {
    const char *text;
    size_t n_text, n_tokens;
    hearth_token *tokens;
    float *out;
    int seq, n_done; // while its group is evaluated
    struct hearth_pooler pooler;
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
    float *out;                    // [n_rows x n_embd], the items' one after the other
    double *sums;                  // [texts of a group x n_embd], of the poolers
    size_t n_done, n_call;         // tokens evaluated, and those of the call that goes on
    struct hearth_batch_row *rows; // of an evaluation
    int *row_items;                // whose each of them is
    int n_rows_now, max_rows;
    int64_t kv_tokens; // positions that there are room for
};

static bool on_progress(void *arg, float share)
{
    const struct embedding *e = arg;
    hearth_progress_set((double)e->n_done + (double)share * (double)e->n_call);
    return !hearth_cli_interrupted();
}

// ---- computing

// How many texts from item `first` on are evaluated together: with all of their tokens in one micro-batch, or one.
// `positions`: what they take of the KV cache.
static int group_at(const struct embedding *e, int first, int64_t *positions)
{
    size_t n_tokens = 0;
    int n = 0;
    *positions = 0;
    for (; first + n < e->n_items && n < MOST_TEXTS; n++) {
        const size_t more = e->items[first + n].n_tokens;
        const int64_t more_positions = ((int64_t)more + PAGE - 1) / PAGE * PAGE;
        if (n && (n_tokens + more > (size_t)e->o->n_ubatch || *positions + more_positions > e->kv_tokens))
            break;
        n_tokens += more;
        *positions += more_positions;
    }
    return n;
}

static int begin_group(struct embedding *e, struct item *items, int n)
{
    struct hearth_error err = {0};
    const int width = hearth_model_info(e->model)->n_embd;
    for (int i = 0; i < n; i++) {
        items[i].pooler = (struct hearth_pooler){.pooling = e->pooling,
                                                 .n_embd = width,
                                                 .n = (int)items[i].n_tokens,
                                                 .sum = e->sums + (size_t)i * (size_t)width,
                                                 .out = items[i].out};
        items[i].n_done = 0;
        items[i].seq = hearth_seq_new(e->session, &err);
        if (items[i].seq < 0)
            return hearth_cli_fail(&err);
    }
    return HEARTH_EXIT_OK;
}

// The next tokens of the texts, as many as an evaluation takes.
static void fill_rows(struct embedding *e, struct item *items, int n)
{
    e->n_rows_now = 0;
    for (int i = 0; i < n; i++)
        for (int at = items[i].n_done; at < (int)items[i].n_tokens && e->n_rows_now < e->max_rows; at++) {
            e->row_items[e->n_rows_now] = i;
            e->rows[e->n_rows_now++] =
                (struct hearth_batch_row){.seq = items[i].seq,
                                          .pos = at,
                                          .token = items[i].tokens[at],
                                          .phase = HEARTH_PHASE_PROMPT,
                                          .wants_embedding = hearth_pooler_wants(&items[i].pooler, at)};
        }
}

static int evaluate_rows(struct embedding *e, struct item *items)
{
    struct hearth_error err = {0};
    e->n_call = (size_t)e->n_rows_now;
    if (hearth_evaluate(e->session, e->rows, e->n_rows_now, sizeof *e->rows, &err))
        return hearth_cli_fail(&err);
    for (int i = 0; i < e->n_rows_now; i++) {
        struct item *item = &items[e->row_items[i]];
        if (e->rows[i].wants_embedding)
            hearth_pooler_add(&item->pooler, e->rows[i].pos, hearth_embedding(e->session, i));
        item->n_done++;
    }
    e->n_done += e->n_call;
    return HEARTH_EXIT_OK;
}

static int embed_group(struct embedding *e, struct item *items, int n)
{
    int status = begin_group(e, items, n);
    for (fill_rows(e, items, n); !status && e->n_rows_now; fill_rows(e, items, n))
        status = evaluate_rows(e, items);
    for (int i = 0; i < n && !status; i++) {
        hearth_pooler_end(&items[i].pooler, (int)e->o->embd_normalize);
        hearth_seq_free(e->session, items[i].seq);
    }
    return status;
}

static int embed_all(struct embedding *e)
{
    int status = HEARTH_EXIT_OK;
    int64_t positions;
    hearth_progress_begin(HEARTH_PROGRESS_TOKENS, (double)e->n_tokens, "embedding");
    for (int at = 0, n = 0; at < e->n_items && !status; at += n) {
        n = group_at(e, at, &positions);
        status = embed_group(e, &e->items[at], n);
    }
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
        const char *next = n ? hearth_find_bytes(at, (size_t)(end - at), separator, n) : NULL;
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
            status = hearth_cli_error("text %d is empty and has no tokens: leave it out", i + 1);
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

// A file that names no pooling is of a model that predicts tokens.
static void note_untrained(const struct embedding *e)
{
    if (!e->model->hp.pooling)
        hearth_cli_info("this model was not trained for embeddings: how alike they are means little "
                        "(the file names no pooling)");
}

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
    e->max_rows = e->n_tokens < (size_t)e->o->n_ubatch ? (int)e->n_tokens : (int)e->o->n_ubatch;
    e->rows = hearth_calloc((size_t)e->max_rows, sizeof *e->rows);
    e->row_items = hearth_calloc((size_t)e->max_rows, sizeof *e->row_items);
    e->sums = hearth_calloc(MOST_TEXTS * width, sizeof *e->sums);
    if (!e->rows || !e->row_items || !e->sums)
        return hearth_cli_error("no memory for %d rows", e->max_rows);
    memset(e->rows, 0xff, (size_t)e->max_rows * sizeof *e->rows);
    memset(e->row_items, 0xff, (size_t)e->max_rows * sizeof *e->row_items);
    memset(e->sums, 0xff, MOST_TEXTS * width * sizeof *e->sums);
    float *at = e->out;
    for (int i = 0; i < e->n_items; i++) {
        e->items[i].out = at;
        at += (pools ? 1 : e->items[i].n_tokens) * width;
    }
    return HEARTH_EXIT_OK;
}

// As much as the largest group takes. A micro-batch is never longer than a context, so that is no less, even
// where all texts are short.
static struct hearth_session_params session_params(const struct embedding *e)
{
    const int trained = hearth_model_info(e->model)->n_ctx_train;
    int64_t most = 0, positions;
    int n_seqs = 1, n_rows = 1;
    for (int at = 0, n = 0; at < e->n_items; at += n) {
        size_t rows = 0;
        n = group_at(e, at, &positions);
        for (int i = at; i < at + n; i++)
            rows += e->items[i].n_tokens;
        n_seqs = n > n_seqs ? n : n_seqs;
        most = positions > most ? positions : most;
        n_rows = rows > (size_t)n_rows ? (int)rows : n_rows;
    }
    const int batch = n_rows < trained ? n_rows : trained;
    struct hearth_session_params params =
        hearth_cli_session_params(e->o, (int)e->longest > batch ? (int)e->longest : batch, n_seqs);
    params.kv_tokens = (int)most;
    return params;
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
    note_untrained(e);
    status = take_memory(e);
    if (status)
        return status;
    struct hearth_session_params params = session_params(e);
    status = hearth_cli_fit_or_pack(&params, &e->model, e->o, NULL);
    if (status)
        return status;
    params.progress = on_progress;
    params.progress_arg = e;
    status = hearth_cli_open_session(&e->session, e->model, &params);
    if (status)
        return status;
    // Where memory is short, the session has less than it was to have.
    if (e->max_rows > hearth_session_max_rows(e->session))
        e->max_rows = hearth_session_max_rows(e->session);
    e->kv_tokens = hearth_session_kv_tokens(e->session);
    hearth_cli_note_unused(e->o, e->session);
    return HEARTH_EXIT_OK;
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
    struct embedding e = {.o = o, .kv_tokens = INT64_MAX};
    int status = set_up(&e);
    if (!status)
        status = embed_all(&e);
    if (!status)
        status = print(&e);
    for (int i = 0; i < e.n_items; i++)
        free(e.items[i].tokens);
    free(e.items);
    free(e.out);
    free(e.sums);
    free(e.rows);
    free(e.row_items);
    free(e.text.data);
    hearth_cli_cancel_on_interrupt(NULL);
    hearth_session_close(&e.session);
    hearth_model_close(&e.model);
    return status;
}
