// SPDX-License-Identifier: MIT
// hearth perplexity: scores a text chunk by chunk, and compares with another model's scores, as llama-perplexity does.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/divergence_output.h"
#include "cli/fit.h"
#include "cli/json.h"
#include "cli/logits_base.h"
#include "model/model.h"

struct scoring {
    const struct hearth_options *o;
    struct hearth_model *model;
    struct hearth_session *session;
    hearth_token *tokens; // of the text
    size_t n_tokens;
    int n_vocab, n_ctx, n_chunks;
    hearth_token *chunk; // [n_ctx] the chunk being scored
    hearth_token bos;    // -1: chunks do not start with BOS
    double sum, squares; // of the scored tokens' negative log-probabilities
    uint64_t count;
    int n_done, n_call; // tokens of the text evaluated, and those of the call that goes on

    uint16_t *row;              // of the base; NULL: no base is read or written
    struct hearth_outfile *out; // the base that is written, or NULL
    struct hearth_base_file base;
    struct hearth_divergence divergence; // from the base that is read
    int base_rc;                         // of reading or writing it
    struct hearth_error base_err;
};

static bool on_progress(void *arg, float share)
{
    const struct scoring *s = arg;
    hearth_progress_set(s->n_done + (double)share * s->n_call);
    return !hearth_cli_interrupted();
}

static int use_base(struct scoring *s, const float *logits, hearth_token next)
{
    int rc = HEARTH_OK;
    if (s->out) {
        hearth_base_row_encode(s->row, logits, s->n_vocab);
        rc = hearth_outfile_write(s->out, s->row, hearth_base_row_size(s->n_vocab) * sizeof *s->row,
                                  &s->base_err);
    } else if (s->row) {
        rc = hearth_base_file_row(&s->base, s->row, &s->base_err);
        if (!rc)
            hearth_divergence_add(&s->divergence, logits, s->n_vocab, s->row, next);
    }
    return rc;
}

// Logits of position `pos` of the chunk predict the next token. False: the base failed.
static bool score(struct scoring *s, int pos, const float *logits)
{
    const hearth_token next = s->chunk[pos + 1];
    double nll = -hearth_cli_log_prob(logits, s->n_vocab, next);
    s->sum += nll;
    s->squares += nll * nll;
    s->count++;
    s->base_rc = use_base(s, logits, next);
    return !s->base_rc;
}

static bool on_row(void *arg, int index, const float *logits)
{
    struct scoring *s = arg;
    int pos = s->n_ctx / 2 + index;
    return pos + 1 >= s->n_ctx || score(s, pos, logits);
}

// The first half only provides context; its logits are not computed.
static int prompt_chunk(struct scoring *s, int seq, struct hearth_error *err)
{
    const int half = s->n_ctx / 2;
    s->n_call = half;
    int rc = hearth_prompt(s->session, seq, s->chunk, half, NULL, NULL, err);
    s->n_done += half;
    s->n_call = s->n_ctx - half;
    if (!rc)
        rc = hearth_prompt(s->session, seq, s->chunk + half, s->n_ctx - half, on_row, s, err);
    return rc;
}

static int step_chunk(struct scoring *s, int seq, struct hearth_error *err)
{
    s->n_call = 1;
    for (int i = 0; i + 1 < s->n_ctx; i++, s->n_done++) {
        int rc = hearth_step(s->session, &seq, &s->chunk[i], 1, err);
        if (rc)
            return rc;
        if (i >= s->n_ctx / 2 && !score(s, i, hearth_logits(s->session, 0)))
            return s->base_rc;
    }
    return HEARTH_OK;
}

static int score_chunk(struct scoring *s, int index)
{
    struct hearth_error err = {0};
    memcpy(s->chunk, s->tokens + (size_t)index * (size_t)s->n_ctx, (size_t)s->n_ctx * sizeof *s->chunk);
    if (s->bos >= 0)
        s->chunk[0] = s->bos;
    int seq = hearth_seq_new(s->session, &err);
    if (seq < 0)
        return hearth_cli_fail(&err);
    int rc = s->o->phase == HEARTH_OPTION_PHASE_STEP ? step_chunk(s, seq, &err) : prompt_chunk(s, seq, &err);
    hearth_seq_free(s->session, seq);
    if (s->base_rc)
        return hearth_cli_fail(&s->base_err);
    return rc ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
}

// Standard error of the perplexity, from the standard error of the mean negative log-probability.
static double uncertainty(const struct scoring *s)
{
    double n = (double)s->count, mean = s->sum / n;
    double variance = s->squares / n - mean * mean;
    return n > 1 && variance > 0 ? exp(mean) * sqrt(variance / (n - 1)) : 0;
}

static int print_json(struct scoring *s, double ppl)
{
    const struct hearth_model_info *m = hearth_model_info(s->model);
    json_t *root = json_pack("{s:o, s:o, s:s, s:i, s:i, s:I, s:o, s:o, s:o}", "model_filename",
                             hearth_json_string(m->path, strlen(m->path)), "model_type",
                             hearth_json_string(m->type, strlen(m->type)), "phase",
                             s->o->phase == HEARTH_OPTION_PHASE_STEP ? "step" : "prompt", "n_ctx", s->n_ctx,
                             "chunks", s->n_chunks, "scored_tokens", (json_int_t)s->count, "mean_nll",
                             hearth_json_real(s->sum / (double)s->count), "ppl", hearth_json_real(ppl),
                             "ppl_stderr", hearth_json_real(uncertainty(s)));
    if (root && s->o->kl_divergence)
        json_object_set_new(root, "divergence", hearth_divergence_json(&s->divergence));
    return hearth_json_answer(root);
}

static int score_all(struct scoring *s)
{
    const bool list = !s->o->quiet && !hearth_terminal_columns(stderr);
    hearth_progress_begin(HEARTH_PROGRESS_TOKENS, (double)s->n_chunks * s->n_ctx, "perplexity");
    for (int i = 0; i < s->n_chunks; i++) {
        s->n_done = i * s->n_ctx;
        int status = score_chunk(s, i);
        if (status) {
            hearth_terminal_message();
            if (status == HEARTH_EXIT_INTERRUPTED && s->count && !s->o->json)
                printf("Estimate so far, after %d of %d chunks: PPL = %.4f +/- %.5f\n", i, s->n_chunks,
                       exp(s->sum / (double)s->count), uncertainty(s));
            return status;
        }
        const double so_far = exp(s->sum / (double)s->count);
        hearth_progress_name("perplexity %.4f so far,", so_far);
        if (list)
            hearth_terminal_value("[%d]%.4f,", i + 1, so_far);
    }
    hearth_progress_end();
    hearth_terminal_message();
    const double ppl = exp(s->sum / (double)s->count);
    if (s->out) {
        s->base_rc = hearth_outfile_commit(&s->out, &s->base_err);
        if (s->base_rc)
            return hearth_cli_fail(&s->base_err);
    }
    if (s->o->json)
        return print_json(s, ppl);
    if (s->o->kl_divergence) {
        hearth_divergence_print(&s->divergence);
        return HEARTH_EXIT_OK;
    }
    printf("Final estimate: PPL = %.4f +/- %.5f\n", ppl, uncertainty(s));
    return HEARTH_EXIT_OK;
}

// How many chunks of the tokens are scored, and what each of them begins with.
static int cut_tokens(struct scoring *s)
{
    // If a text starts with BOS, its vocabulary wants BOS before every chunk.
    hearth_token bos = hearth_token_bos(s->model);
    s->bos = bos >= 0 && s->n_tokens && s->tokens[0] == bos ? bos : -1;
    size_t n = s->n_tokens / (size_t)s->n_ctx;
    if (s->o->chunks >= 0 && (size_t)s->o->chunks < n)
        n = (size_t)s->o->chunks;
    s->n_chunks = n > INT32_MAX ? INT32_MAX : (int)n;
    if (!s->n_chunks)
        return hearth_cli_usage(hearth_command_find("perplexity"), "--chunks 0 leaves nothing to score");
    hearth_cli_info("%zu tokens, %d chunk%s of %d", s->n_tokens, s->n_chunks, s->n_chunks == 1 ? "" : "s",
                    s->n_ctx);
    return HEARTH_EXIT_OK;
}

static int cut_text(struct scoring *s, const struct hearth_buffer *text)
{
    s->n_ctx = (int)s->o->n_ctx;
    int status =
        hearth_cli_tokenize(s->model, text->data, text->n, HEARTH_TOKENIZE_BOS, &s->tokens, &s->n_tokens);
    if (status)
        return status;
    if (s->n_tokens < 2 * (size_t)s->n_ctx)
        return hearth_cli_error(
            "%s has %zu tokens; chunks of %d need at least %d: use a longer text or a smaller -c",
            strcmp(s->o->file, "-") ? s->o->file : "standard input", s->n_tokens, s->n_ctx, 2 * s->n_ctx);
    return cut_tokens(s);
}

// The text and its chunks are the base's.
static int take_base(struct scoring *s)
{
    struct hearth_error err = {0};
    if (hearth_base_file_open(&s->base, s->o->kl_base, &err))
        return hearth_cli_fail(&err);
    if (s->base.n_vocab != s->n_vocab)
        return hearth_cli_error(
            "%s is of a vocabulary of %d tokens, %s has %d: only models of one vocabulary can be "
            "compared",
            s->o->kl_base, s->base.n_vocab, s->o->model, s->n_vocab);
    hearth_cli_info("the text is that of %s", s->o->kl_base);
    s->n_ctx = s->base.n_ctx;
    s->n_tokens = (size_t)s->base.n_ctx * (size_t)s->base.n_chunks;
    s->tokens = s->base.tokens;
    s->base.tokens = NULL;
    const int status = cut_tokens(s);
    if (status)
        return status;
    const size_t most = (size_t)s->n_chunks * (size_t)hearth_base_rows(s->n_ctx);
    return hearth_divergence_open(&s->divergence, most) ? HEARTH_EXIT_OK
                                                        : hearth_cli_error("no memory for %zu tokens", most);
}

// What is scored, and files of other kinds, are not replaced by a base.
static int check_base(const struct hearth_options *o)
{
    struct hearth_error err = {0};
    if (!o->kl_base || o->kl_divergence)
        return HEARTH_EXIT_OK;
    if (hearth_path_same(o->model, o->kl_base) || hearth_path_same(o->file, o->kl_base))
        return hearth_cli_error("%s is what the log-probabilities are made of: give another name for them",
                                o->kl_base);
    return hearth_base_file_check_out(o->kl_base, &err) ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
}

static int begin_base(struct scoring *s)
{
    struct hearth_error err = {0};
    int rc = hearth_outfile_open(&s->out, s->o->kl_base, &err);
    if (!rc)
        rc = hearth_base_file_begin(s->out, s->n_ctx, s->n_vocab, s->n_chunks, s->tokens, &err);
    return rc ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
}

// Who measures what predictors cost would else measure nothing.
static void say_phase(const struct hearth_options *o, const struct hearth_model *m)
{
    if (o->phase == HEARTH_OPTION_PHASE_PROMPT && m->hp.has_predictors)
        hearth_cli_info("scored as a prompt, for which all neurons are computed; --phase step leaves out "
                        "those that predictors do not name, as when generating");
}

// What is scored, and what it is compared with, before the session opens: its memory budget counts what is held by then.
static int choose_chunks(struct scoring *s, struct hearth_buffer *text)
{
    int status = s->o->kl_divergence ? take_base(s) : cut_text(s, text);
    free(text->data);
    *text = (struct hearth_buffer){0};
    if (!status && s->o->kl_base && !s->o->kl_divergence)
        status = begin_base(s);
    if (status)
        return status;
    s->chunk = calloc((size_t)s->n_ctx, sizeof *s->chunk);
    s->row = s->o->kl_base ? calloc(hearth_base_row_size(s->n_vocab), sizeof *s->row) : NULL;
    return s->chunk && (s->row || !s->o->kl_base)
               ? HEARTH_EXIT_OK
               : hearth_cli_error("no memory for chunks of %d tokens", s->n_ctx);
}

static int set_up(struct scoring *s, struct hearth_buffer *text)
{
    if (s->o->kl_divergence)
        hearth_cli_catch_interrupt();
    int status = s->o->kl_divergence ? hearth_cli_open_model(&s->model, s->o, false)
                                     : hearth_cli_open_with_text(&s->model, text, s->o);
    if (status)
        return status;
    s->n_vocab = hearth_model_info(s->model)->n_vocab;
    status = choose_chunks(s, text);
    if (status)
        return status;
    struct hearth_session_params params = hearth_cli_session_params(s->o, s->n_ctx, 1);
    status = hearth_cli_fit_or_pack(&params, &s->model, s->o, NULL);
    if (status)
        return status;
    params.progress = on_progress;
    params.progress_arg = s;
    status = hearth_cli_open_session(&s->session, s->model, &params);
    if (!status) {
        hearth_cli_note_unused(s->o, s->session);
        say_phase(s->o, s->model);
    }
    return status;
}

int hearth_cmd_perplexity(const struct hearth_options *o)
{
    if (o->kl_divergence && !o->kl_base)
        return hearth_cli_usage(
            hearth_command_find("perplexity"),
            "--kl-divergence compares with --kl-divergence-base FILE, which is missing: the same "
            "command with another model and -f TEXT, without --kl-divergence, writes it");
    if (!o->file && !o->kl_divergence)
        return hearth_cli_usage(hearth_command_find("perplexity"),
                                "-f is missing: which text should be scored?");
    int status = check_base(o);
    if (status)
        return status;
    struct scoring s = {.o = o};
    struct hearth_buffer text = {0};
    status = set_up(&s, &text);
    free(text.data);
    if (!status)
        status = score_all(&s);
    hearth_outfile_close(&s.out);
    hearth_base_file_close(&s.base);
    hearth_divergence_close(&s.divergence);
    free(s.row);
    free(s.tokens);
    free(s.chunk);
    hearth_cli_cancel_on_interrupt(NULL);
    hearth_session_close(&s.session);
    hearth_model_close(&s.model);
    return status;
}
