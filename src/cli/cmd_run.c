// SPDX-License-Identifier: MIT
// hearth run: continues a prompt, with one sequence or several evaluated together.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/constraint.h"
#include "cli/drafts.h"
#include "cli/extent.h"
#include "cli/fit.h"
#include "cli/forecast.h"
#include "cli/machine.h"
#include "cli/sampling.h"
#include "cli/run_stats.h"

// One continuation.
struct line {
    struct hearth_sampler *sampler;
    struct hearth_stream *stream;
    struct hearth_buffer text;    // the text, kept until the end if there are several; else only its
                                  // last byte counts
    struct hearth_drafted tokens; // the prompt's, and those that were generated
    int n;                        // these
    double log_prob;              // sum over the tokens
    enum hearth_stop stop;
};

struct run {
    struct hearth_options *o;
    struct hearth_cli_drafter drafter;
    struct hearth_model *model;
    struct hearth_session *session;
    struct hearth_buffer gbnf;      // the text of the grammar, if there is one
    struct hearth_grammar *grammar; // NULL: there is none
    hearth_token *prompt;
    size_t n_prompt;
    bool has_prompt; // the user gave a prompt, which the generated tokens continue
    int n_vocab, n_lines;
    int n_guesses; // tokens that are guessed ahead for each, at most
    struct line *lines;
    float *prompt_logits; // [n_vocab] after the prompt's last token, if they were written out too
    bool in_prompt;
    struct hearth_pace pace;
    FILE *logits_out;
    struct hearth_run_stats stats;
    struct hearth_prospect prospect; // what stats.forecast points to, if there is one
};

static const float *end_of_prompt(const struct run *r)
{
    return r->prompt_logits ? r->prompt_logits : hearth_logits(r->session, 0);
}

// ---- the loop: sample, print, step

static int write_logits(struct run *r, const float *logits)
{
    if (!r->logits_out)
        return HEARTH_EXIT_OK;
    if (fwrite(logits, sizeof *logits, (size_t)r->n_vocab, r->logits_out) != (size_t)r->n_vocab)
        return hearth_cli_error("cannot write %s: %s", r->o->logits_out, strerror(errno));
    return HEARTH_EXIT_OK;
}

static int put_text(struct run *r, struct line *line, const char *text, size_t n)
{
    if (!n)
        return HEARTH_EXIT_OK;
    if (r->n_lines > 1)
        return hearth_buffer_add(&line->text, text, n) ? HEARTH_EXIT_OK
                                                       : hearth_cli_error("no memory for the generated text");
    // The reason of a failure stays set until the program closes standard output, and is reported then.
    return hearth_terminal_text(text, n) && fflush(stdout) == 0 ? HEARTH_EXIT_OK : HEARTH_EXIT_FAILURE;
}

static hearth_token choose(struct run *r, struct line *line, const float *logits)
{
    hearth_token token = hearth_sample(line->sampler, logits);
    if (token < 0)
        return token;
    hearth_sampler_accept(line->sampler, token);
    if (r->n_lines > 1)
        line->log_prob += hearth_cli_log_prob(logits, r->n_vocab, token);
    return token;
}

// Whether several texts may fill the KV cache, which ends all of them: where each is by then depends on drafts. They share
// the prompt's pages, and each has a copy of the last of them.
static bool may_fill_cache(const struct run *r)
{
    const int64_t lines = r->n_lines, all = lines * hearth_cli_room(hearth_session_n_ctx(r->session));
    const int64_t shared = hearth_cli_room((int64_t)r->n_prompt) +
                           lines * (hearth_cli_room(r->o->n_predict) + hearth_cli_room(1));
    const int64_t most = r->o->n_predict >= 0 && shared < all ? shared : all;
    return lines > 1 && hearth_session_kv_tokens(r->session) < most;
}

// Tokens to guess ahead for each text. Rows of logits of several are written step by step.
static int count_guesses(const struct run *r, const struct hearth_session_params *params)
{
    if (!params->max_steps || may_fill_cache(r) || (r->o->logits_out && r->n_lines > 1))
        return 0;
    return hearth_cli_drafts(r->o);
}

// Chooses the next token of one continuation from its row of logits, the one behind `at` guesses. Sets line->stop
// if it was the last, else *more: there is another row.
static int extend(struct run *r, struct line *line, const float *logits, int at, bool *more)
{
    *more = false;
    const hearth_token token = choose(r, line, logits);
    if (token < 0) {
        line->stop = hearth_sampler_may_end(line->sampler) ? HEARTH_STOP_EOS : HEARTH_STOP_GRAMMAR;
        return HEARTH_EXIT_OK;
    }
    line->n++;
    if (!hearth_drafted_take(&line->tokens, &r->pace, at, token, more))
        return hearth_cli_error("no memory for the generated tokens");
    if (!r->o->ignore_eos && hearth_token_is_eog(r->model, token)) {
        line->stop = HEARTH_STOP_EOS;
        return HEARTH_EXIT_OK;
    }
    const char *text;
    size_t n = hearth_stream_push(line->stream, token, &text);
    int status = put_text(r, line, text, n);
    if (line->n == r->o->n_predict)
        line->stop = HEARTH_STOP_LENGTH;
    else if (line->tokens.n > hearth_session_n_ctx(r->session))
        line->stop = HEARTH_STOP_CONTEXT;
    return status;
}

// Takes what the last step gives a continuation: a token, and more where guesses came true. Adds to *taken the rows of
// which something came.
static int take_step(struct run *r, struct line *line, int *taken)
{
    struct hearth_error err = {0};
    int status = HEARTH_EXIT_OK;
    bool more = true;
    int at = 0;
    for (; more && !status && line->stop == HEARTH_STOP_NONE; at++) {
        const float *logits = hearth_logits(r->session, line->tokens.row + at);
        status = write_logits(r, logits);
        if (!status)
            status = extend(r, line, logits, at, &more);
        ++*taken;
    }
    if (!status && hearth_drafted_end(r->session, &line->tokens, at, &err))
        status = hearth_cli_fail(&err);
    return status;
}

// Evaluates the last token of every continuation that goes on. They all stop when there is no room for all of them,
// and when the user wants it.
static int step(struct run *r, struct line **lines, int n)
{
    struct hearth_drafted *texts[256];
    struct hearth_error err = {0};
    for (int i = 0; i < n; i++) {
        texts[i] = &lines[i]->tokens;
        texts[i]->room = hearth_cli_step_room(texts[i], r->session, r->o, lines[i]->n, r->n_guesses);
    }
    const int rc = hearth_drafted_step(r->session, &r->pace, texts, n, &err);
    for (int i = 0; i < n && rc == HEARTH_E_KV_FULL; i++)
        lines[i]->stop = HEARTH_STOP_CACHE;
    for (int i = 0; i < n && rc == HEARTH_E_INTERRUPTED; i++)
        lines[i]->stop = HEARTH_STOP_INTERRUPTED;
    return rc && rc != HEARTH_E_KV_FULL ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
}

// Tokens that may be generated; 0 where nobody has said how many.
static double most_tokens(const struct run *r)
{
    return r->o->n_predict > 0 ? (double)r->o->n_predict * r->n_lines : 0;
}

// Tokens of all continuations.
static int count_tokens(const struct run *r)
{
    int n = 0;
    for (int i = 0; i < r->n_lines; i++)
        n += r->lines[i].n;
    return n;
}

// A step of all continuations that go on: lines[0..*n), which become those that still do.
static int grow(struct run *r, struct line **lines, int *n)
{
    const uint64_t start = hearth_now_ns();
    const int stepped = *n;
    int taken = 0, status = step(r, lines, stepped);
    if (status || lines[0]->stop != HEARTH_STOP_NONE) {
        *n = 0;
        return status;
    }
    *n = 0;
    for (int i = 0; i < stepped && !status; i++) {
        status = take_step(r, lines[i], &taken);
        if (lines[i]->stop == HEARTH_STOP_NONE)
            lines[(*n)++] = lines[i];
    }
    hearth_progress_set(count_tokens(r));
    if (!status && !hearth_run_stats_add(&r->stats, r->session, stepped, taken, hearth_now_ns() - start))
        status = hearth_cli_error("no memory for the statistics");
    return status;
}

static int generate(struct run *r)
{
    struct line *lines[256];
    int n = 0, status = HEARTH_EXIT_OK;
    bool more;
    // Text that is seen as it comes needs no other sign of life.
    if (r->n_lines > 1 || !hearth_terminal_shows_text())
        hearth_progress_begin(HEARTH_PROGRESS_TOKENS, most_tokens(r), "generating");
    for (int i = 0; i < r->n_lines && !status; i++) {
        status = extend(r, &r->lines[i], end_of_prompt(r), 0, &more);
        if (r->lines[i].stop == HEARTH_STOP_NONE)
            lines[n++] = &r->lines[i];
    }
    while (!status && n)
        status = grow(r, lines, &n);
    hearth_progress_end();
    return status;
}

// ---- the prompt

struct row_sink {
    struct run *run;
    int status;
};

static bool on_prompt_row(void *arg, int index, const float *logits)
{
    struct row_sink *sink = arg;
    (void)index;
    sink->status = write_logits(sink->run, logits);
    memcpy(sink->run->prompt_logits, logits, (size_t)sink->run->n_vocab * sizeof *logits);
    return sink->status == HEARTH_EXIT_OK;
}

static bool on_progress(void *arg, float share)
{
    const struct run *r = arg;
    if (r->in_prompt)
        hearth_progress_share((double)share);
    return !hearth_cli_interrupted();
}

static int evaluate_prompt(struct run *r)
{
    struct row_sink sink = {r, HEARTH_EXIT_OK};
    struct hearth_error err = {0};
    int seq = hearth_seq_new(r->session, &err);
    if (seq < 0)
        return hearth_cli_fail(&err);
    r->lines[0].tokens.seq = seq;
    if (r->n_prompt > (size_t)hearth_session_n_ctx(r->session))
        return hearth_cli_error("the prompt has %zu tokens but the context only %d: use a larger -c",
                                r->n_prompt, hearth_session_n_ctx(r->session));
    hearth_progress_begin(HEARTH_PROGRESS_TOKENS, (double)r->n_prompt, "prompt");
    r->in_prompt = true;
    const int rc = hearth_prompt(r->session, seq, r->prompt, (int)r->n_prompt,
                                 r->logits_out ? on_prompt_row : NULL, &sink, &err);
    r->in_prompt = false;
    hearth_progress_end();
    if (sink.status)
        return sink.status;
    return rc ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
}

static int fork_lines(struct run *r)
{
    struct hearth_error err = {0};
    for (int i = 1; i < r->n_lines; i++) {
        struct hearth_drafted *tokens = &r->lines[i].tokens;
        tokens->seq = hearth_seq_fork(r->session, r->lines[0].tokens.seq, (int)r->n_prompt, &err);
        if (tokens->seq < 0)
            return hearth_cli_fail(&err);
    }
    return HEARTH_EXIT_OK;
}

static int read_prompt(const struct hearth_options *o, struct hearth_buffer *text)
{
    struct hearth_options piped = *o;
    if (!o->prompt && !o->file && hearth_cli_stdin_is_piped()) {
        hearth_cli_await_stdin("the prompt is read from standard input; -p TEXT gives one at once");
        piped.file = "-";
    }
    return hearth_cli_read_prompt(&piped, text);
}

// Who gives no prompt to a model that chats may have wanted that.
static void note_no_prompt(const struct run *r)
{
    const struct hearth_options *o = r->o;
    if (o->prompt || o->file || hearth_cli_stdin_is_piped())
        return;
    hearth_cli_info("no prompt is given (-p TEXT): the text starts from nothing");
    if (hearth_model_chat_template(r->model))
        hearth_cli_info("to talk with this model: hearth chat %s", o->model);
}

// Who pipes a text and gives a prompt beside it may expect both to be used. With an empty prompt that is
// meant.
static void note_unread(const struct hearth_options *o)
{
    const bool given = (o->prompt && *o->prompt) || (o->file && strcmp(o->file, "-") != 0);
    if (given && hearth_console_has_input())
        hearth_cli_info("standard input is not read, as there is a prompt%s",
                        o->prompt ? "" : " (-f - reads it in place of a file)");
}

static int make_prompt(struct run *r, const struct hearth_buffer *text)
{
    r->has_prompt = text->n > 0;
    if (r->has_prompt) {
        int status =
            hearth_cli_tokenize(r->model, text->data, text->n, HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL,
                                &r->prompt, &r->n_prompt);
        const hearth_token bos = hearth_token_bos(r->model);
        if (!status && r->n_prompt > 1 && bos >= 0 && r->prompt[0] == bos && r->prompt[1] == bos)
            hearth_cli_warn(
                "the prompt begins with the BOS token twice: it is added to every prompt, leave it out");
        if (status || r->n_prompt)
            return status;
    }
    hearth_token bos = hearth_token_bos(r->model);
    if (bos < 0)
        return hearth_cli_error("%s has no BOS token to start from: give a prompt with -p or -f",
                                r->o->model);
    free(r->prompt);
    r->prompt = malloc(sizeof *r->prompt);
    if (!r->prompt)
        return hearth_cli_error("no memory for the prompt");
    r->prompt[0] = bos;
    r->n_prompt = 1;
    return HEARTH_EXIT_OK;
}

// ---- setting up

static int open_lines(struct run *r)
{
    struct hearth_sampling sampling;
    int status = hearth_cli_sampling(&sampling, r->o, r->model, hearth_session_n_ctx(r->session));
    struct hearth_error err = {0};
    sampling.params.grammar = r->grammar;
    r->lines = hearth_calloc((size_t)r->n_lines, sizeof *r->lines);
    if (!r->lines)
        status = hearth_cli_error("no memory for %d continuations", r->n_lines);
    for (int i = 0; i < r->n_lines && !status; i++) {
        struct line *line = &r->lines[i];
        line->tokens.which = i;
        if (hearth_sampler_open(&line->sampler, r->n_vocab, &sampling.params, &err) ||
            hearth_stream_open(&line->stream, r->model, r->o->special, r->has_prompt, &err)) {
            status = hearth_cli_fail(&err);
            break;
        }
        line->tokens.sampler = line->sampler;
        for (size_t k = 0; k < r->n_prompt; k++)
            hearth_sampler_accept_prompt(line->sampler, r->prompt[k]);
        if (!hearth_drafted_add(&line->tokens, r->prompt, (int)r->n_prompt)) {
            status = hearth_cli_error("no memory for the tokens of a text");
            break;
        }
        // The seed of the next continuation. UINT32_MAX would mean a random one.
        sampling.params.seed = (uint32_t)(((uint64_t)hearth_sampler_seed(line->sampler) + 1) % UINT32_MAX);
    }
    hearth_cli_sampling_free(&sampling);
    return status;
}

static int open_logits_out(struct run *r)
{
    r->prompt_logits = hearth_calloc((size_t)r->n_vocab, sizeof *r->prompt_logits);
    if (!r->prompt_logits)
        return hearth_cli_error("no memory for %d logits", r->n_vocab);
    r->logits_out = hearth_file_stream(r->o->logits_out, "wb");
    if (!r->logits_out)
        return hearth_cli_error("cannot create %s: %s", r->o->logits_out, strerror(errno));
    return HEARTH_EXIT_OK;
}

static int open_all(struct run *r, const struct hearth_buffer *text)
{
    struct hearth_error err = {0};
    uint64_t start = hearth_now_ns();
    int status = hearth_cli_open_drafter(&r->drafter, r->o, (int)r->o->n_parallel);
    if (!status)
        status = hearth_cli_open_model(&r->model, r->o, false);
    if (status)
        return status;
    status = hearth_cli_attach_drafter(&r->drafter, r->model, (int)r->o->n_parallel);
    if (status)
        return status;
    note_no_prompt(r);
    const struct hearth_model_info *info = hearth_model_info(r->model);
    note_unread(r->o);
    r->n_vocab = info->n_vocab;
    r->n_lines = (int)r->o->n_parallel;
    status = make_prompt(r, text);
    if (status)
        return status;
    if (r->gbnf.data && hearth_grammar_open(&r->grammar, r->model, r->gbnf.data, r->gbnf.n, &err))
        return hearth_cli_fail(&err);
    struct hearth_session_params params = hearth_cli_params_of(r->o, info, r->n_prompt, r->n_lines);
    struct hearth_fit fit;
    status = hearth_cli_fit_or_pack(&params, &r->model, r->o, &fit);
    if (status)
        return status;
    if (r->n_lines == 1 || !r->o->logits_out)
        hearth_cli_fit_drafter(&r->drafter, r->model, r->o, &params, r->n_lines, &fit);
    if (fit.kind == HEARTH_FIT_STREAMS &&
        hearth_cli_forecast(&r->prospect, r->o, r->model, &params, fit.ram, r->n_prompt))
        r->stats.forecast = &r->prospect;
    params.progress = on_progress;
    params.progress_arg = r;
    status = hearth_cli_open_session(&r->session, r->model, &params);
    if (status)
        return status;
    if (r->o->trace && hearth_session_trace(r->session, r->o->trace, &err))
        return hearth_cli_fail(&err);
    hearth_cli_note_unused(r->o, r->session);
    hearth_pace_begin(&r->pace, hearth_draft_each(r->model, r->session));
    r->n_guesses = count_guesses(r, &params);
    hearth_cli_use_drafter(&r->drafter, r->session, r->n_lines, r->n_guesses > 0);
    r->pace.drafter = r->drafter.drafter;
    r->stats.load_ns = hearth_now_ns() - start;
    r->stats.measure_ns = hearth_cli_machine_ns();

    status = open_lines(r);
    if (!status && r->o->logits_out)
        status = open_logits_out(r);
    return status;
}

static int close_logits_out(struct run *r, int status)
{
    if (r->logits_out && fclose(r->logits_out) && !status)
        return hearth_cli_error("cannot write %s: %s", r->o->logits_out, strerror(errno));
    return status;
}

static void close_all(struct run *r)
{
    for (int i = 0; r->lines && i < r->n_lines; i++) {
        hearth_sampler_close(&r->lines[i].sampler);
        hearth_stream_close(&r->lines[i].stream);
        hearth_drafted_free(&r->lines[i].tokens);
        free(r->lines[i].text.data);
    }
    free(r->lines);
    hearth_grammar_close(&r->grammar);
    free(r->gbnf.data);
    free(r->prompt);
    free(r->prompt_logits);
    hearth_run_stats_free(&r->stats);
    hearth_cli_cancel_on_interrupt(NULL);
    hearth_session_close(&r->session);
    hearth_model_close(&r->model);
    hearth_cli_close_drafter(&r->drafter);
}

// ---- the end

static int best_line(const struct run *r)
{
    int best = 0;
    for (int i = 1; i < r->n_lines; i++)
        if (r->lines[i].log_prob / r->lines[i].n > r->lines[best].log_prob / r->lines[best].n)
            best = i;
    return best;
}

static int print_lines(struct run *r)
{
    int status = HEARTH_EXIT_OK;
    for (int i = 0; i < r->n_lines && !status; i++) {
        const struct line *line = &r->lines[i];
        printf("=== %d of %d, seed %u ===\n", i + 1, r->n_lines, hearth_sampler_seed(line->sampler));
        const char *end = line->text.n && line->text.data[line->text.n - 1] == '\n' ? "" : "\n";
        if (!hearth_terminal_text(line->text.data ? line->text.data : "", line->text.n) ||
            !hearth_terminal_text(end, strlen(end)))
            status = HEARTH_EXIT_FAILURE;
    }
    return status;
}

// Prints the bytes that streams still hold back, the listing with separators, and the newline at the end.
static int finish_text(struct run *r)
{
    int status = HEARTH_EXIT_OK;
    for (int i = 0; i < r->n_lines && !status; i++) {
        const char *text;
        size_t n = hearth_stream_flush(r->lines[i].stream, &text);
        status = put_text(r, &r->lines[i], text, n);
    }
    if (!status && r->n_lines > 1)
        status = print_lines(r);
    else if (!status)
        hearth_terminal_end_text();
    return status;
}

static int count_stopped(const struct run *r, enum hearth_stop stop)
{
    int n = 0;
    for (int i = 0; i < r->n_lines; i++)
        n += r->lines[i].stop == stop;
    return n;
}

// Says why there is less text than was asked for.
static void report_end(const struct run *r)
{
    const int n = count_stopped(r, HEARTH_STOP_CONTEXT), n_ctx = hearth_session_n_ctx(r->session);
    if (n && r->n_lines > 1)
        hearth_cli_info("the context of %d tokens is full and cut off %d of %d texts; -c makes it larger",
                        n_ctx, n, r->n_lines);
    else if (n)
        hearth_cli_info("the context of %d tokens is full; -c makes it larger", n_ctx);
    if (r->n_lines == 1 && r->lines[0].stop == HEARTH_STOP_EOS && r->lines[0].n == 1)
        hearth_cli_info(
            "the model ended its text at once%s; --ignore-eos makes it go on",
            hearth_model_chat_template(r->model) ? " (it expects a chat: hearth chat talks with it)" : "");
    if (count_stopped(r, HEARTH_STOP_GRAMMAR))
        hearth_cli_info("the grammar allows none of the model's tokens here, and no end");
    if (r->grammar && r->lines[0].stop != HEARTH_STOP_EOS && !hearth_sampler_may_end(r->lines[0].sampler))
        hearth_cli_warn("the text was cut off before the grammar let it end; -n makes it longer");
    if (count_stopped(r, HEARTH_STOP_CACHE))
        hearth_cli_info("the KV cache is full; --kv-size makes it larger");
}

// The model's own end before the tokens of -n. A grammar's end is no surprise.
static void report_own_end(const struct run *r)
{
    int n = 0;
    for (int i = 0; i < r->n_lines; i++)
        n += r->lines[i].stop == HEARTH_STOP_EOS && r->lines[i].n < r->o->n_predict;
    if (!n || r->grammar)
        return;
    if (r->n_lines > 1)
        hearth_cli_info("the model ended %d of %d texts before the %lld tokens of -n", n, r->n_lines,
                        (long long)r->o->n_predict);
    else if (r->lines[0].n > 1) // at once: said above
        hearth_cli_info("the model ended its text before the %lld tokens of -n; --ignore-eos goes on",
                        (long long)r->o->n_predict);
}

static void report(struct run *r)
{
    struct hearth_run_stats *s = &r->stats;
    hearth_run_stats_take(s, r->model, r->session);
    s->n_threads = hearth_cli_threads(r->o);
    s->n_sequences = r->n_lines;
    s->pace = &r->pace;
    s->seed = hearth_sampler_seed(r->lines[0].sampler);
    s->random = r->o->temp > 0;
    s->n_prompt = r->n_prompt;
    s->verbose = r->o->verbose;
    s->stop = r->lines[0].stop;
    for (int i = 0; i < r->n_lines; i++)
        s->generated += (uint64_t)r->lines[i].n;
    s->best = -1;
    if (r->n_lines > 1 && r->lines[0].n) {
        s->best = best_line(r);
        s->best_log_prob = r->lines[s->best].log_prob / r->lines[s->best].n;
        hearth_cli_info("best: %d of %d, mean log-probability %.4f", s->best + 1, r->n_lines,
                        s->best_log_prob);
    }
    report_end(r);
    if (r->o->stats == HEARTH_STATS_JSON)
        hearth_run_stats_json(s);
    else if (!r->o->no_perf)
        hearth_run_stats_print(s);
    if (r->o->stats != HEARTH_STATS_JSON)
        report_own_end(r);
    if (s->forecast)
        hearth_cli_forecast_judge(s->forecast, r->o, r->model, r->session);
}

int hearth_cmd_run(const struct hearth_options *o)
{
    const struct hearth_command *cmd = hearth_command_find("run");
    if (o->prompt && o->file)
        return hearth_cli_usage(cmd, "-p and -f exclude each other");
    if (o->logits_out && !strcmp(o->logits_out, "-"))
        return hearth_cli_usage(cmd, "--logits-out -: standard output carries the text; give a file");
    int status = hearth_cli_check_sampling(o);
    if (!status)
        status = hearth_cli_check_text_out(o, o->logits_out);
    if (!status)
        status = hearth_cli_check_text_out(o, o->trace);
    if (status)
        return status;
    struct hearth_options own = *o;
    struct run r = {.o = &own};
    struct hearth_buffer text = {0};
    status = hearth_cli_read_constraint(o, cmd, &r.gbnf);
    if (!status)
        status = read_prompt(o, &text);
    hearth_cli_catch_interrupt();
    if (!status)
        status = open_all(&r, &text);
    free(text.data);
    if (!status) {
        status = evaluate_prompt(&r);
        if (!status)
            status = fork_lines(&r);
        if (!status && o->n_predict != 0)
            status = generate(&r);
        if (status == HEARTH_EXIT_OK || status == HEARTH_EXIT_INTERRUPTED) {
            int text_status = finish_text(&r);
            status = status ? status : text_status;
        }
        status = close_logits_out(&r, status);
        r.logits_out = NULL;
        status = hearth_cli_end_trace(r.session, status);
        if (status == HEARTH_EXIT_OK || status == HEARTH_EXIT_INTERRUPTED)
            report(&r);
    }
    close_all(&r);
    return status;
}
