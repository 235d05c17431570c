// SPDX-License-Identifier: MIT
// An answer: the messages become a prompt, of which only what is new is evaluated, then tokens are generated.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "cli/chat.h"
#include "cli/sampling.h"

#define DIM    "\033[2m"
#define NORMAL "\033[22m"

struct prompt {
    hearth_token *tokens;
    size_t n;
    bool thinks; // it ends with the beginning of thoughts
};

// ---- printing, thoughts dimmed

struct printer {
    const struct chat *c;
    bool inside; // thoughts
    char held[16];
    size_t n_held; // bytes that may begin a tag
};

static bool put(const char *text, size_t n)
{
    return !n || hearth_terminal_text(text, n);
}

static bool dim(bool on)
{
    if (on)
        hearth_terminal_dimmed(true);
    const bool ok = on ? put(DIM, strlen(DIM)) : put(NORMAL, strlen(NORMAL));
    if (!on && fflush(stdout) == 0)
        hearth_terminal_dimmed(false);
    return ok;
}

// How many bytes of text[0..n) the tag and it have in common at their beginnings.
static bool begins(const char *tag, const char *text, size_t n)
{
    return n <= strlen(tag) && !memcmp(tag, text, n);
}

static bool put_byte(struct printer *p, char c)
{
    const char *tag = p->inside ? "</think>" : "<think>";
    p->held[p->n_held++] = c;
    if (begins(tag, p->held, p->n_held) && p->n_held < strlen(tag))
        return true;
    const bool whole = begins(tag, p->held, p->n_held);
    bool ok = true;
    if (whole && !p->inside)
        ok = dim(true);
    if (whole || p->held[p->n_held - 1] != '<' || p->n_held == 1) {
        ok = put(p->held, p->n_held) && ok;
        p->n_held = 0;
    } else { // another tag may begin here
        ok = put(p->held, p->n_held - 1) && ok;
        p->held[0] = '<';
        p->n_held = 1;
    }
    if (whole && p->inside)
        ok = dim(false) && ok;
    p->inside ^= whole;
    return ok;
}

static bool print(struct printer *p, const char *text, size_t n)
{
    bool ok = true;
    if (!p->c->dims)
        return put(text, n) && fflush(stdout) == 0;
    for (size_t i = 0; i < n && ok; i++)
        ok = put_byte(p, text[i]);
    return ok && fflush(stdout) == 0;
}

static void end_print(struct printer *p)
{
    put(p->held, p->n_held);
    if (p->c->dims && p->inside)
        dim(false);
    hearth_terminal_end_text();
    if (!p->c->answer.n && !p->c->terminal && !p->c->o.single_turn)
        put("\n", 1); // so that each message has an answer
    fflush(stdout);
}

// ---- the prompt

static bool ends_with(const char *text, size_t n, const char *end)
{
    return n >= strlen(end) && !memcmp(text + n - strlen(end), end, strlen(end));
}

static int tokenize(const struct chat *c, const struct hearth_chat_text *text, struct prompt *p)
{
    struct hearth_error err = {0};
    const int64_t n = hearth_chat_tokenize(c->model, text, NULL, 0, &err);
    if (n < 0)
        return hearth_cli_fail(&err);
    p->tokens = hearth_calloc((size_t)n + 1, sizeof *p->tokens);
    if (!p->tokens)
        return hearth_cli_error("no memory for a prompt of %lld tokens", (long long)n);
    p->n = (size_t)n;
    return hearth_chat_tokenize(c->model, text, p->tokens, p->n, &err) < 0 ? hearth_cli_fail(&err)
                                                                           : HEARTH_EXIT_OK;
}

static int make_prompt(const struct chat *c, struct prompt *p)
{
    struct hearth_error err = {0};
    struct hearth_chat_text *text = NULL;
    struct hearth_chat_params params = hearth_chat_params_default();
    char *messages = json_dumps(c->messages, 0), *variables = json_dumps(c->variables, 0);
    params.messages = messages;
    params.variables = variables;
    int status = HEARTH_EXIT_OK;
    size_t n;
    if (!messages || !variables)
        status = hearth_cli_error("no memory for the messages");
    else if (hearth_chat_render(&text, c->template, &params, &err))
        status = hearth_cli_fail(&err);
    if (!status) {
        const char *s = hearth_chat_text_bytes(text, &n);
        p->thinks = ends_with(s, n, "<think>") || ends_with(s, n, "<think>\n");
        status = tokenize(c, text, p);
    }
    hearth_chat_text_close(&text);
    free(messages);
    free(variables);
    return status;
}

// Tokens that there is room for: in the context, and in the KV cache, which may be smaller where memory is.
static size_t room(const struct chat *c)
{
    const int64_t kv = hearth_session_kv_tokens(c->session);
    const int n_ctx = hearth_session_n_ctx(c->session);
    return kv < n_ctx ? (size_t)kv : (size_t)n_ctx;
}

// A prompt with room for an answer behind it. Messages are forgotten only if that was asked for.
static int make_fitting_prompt(struct chat *c, struct prompt *p)
{
    const size_t n_ctx = room(c);
    size_t forgotten = 0;
    for (;;) {
        free(p->tokens);
        *p = (struct prompt){0};
        const int status = make_prompt(c, p);
        if (status)
            return status;
        if (p->n < n_ctx)
            break;
        if (!c->o.context_shift)
            return hearth_cli_error(
                "the conversation has %zu tokens and the context %zu: /drop forgets the oldest "
                "messages, /clear all of them; --context-shift does it by itself, -c makes the "
                "context larger",
                p->n, n_ctx);
        if (!hearth_chat_forget_oldest(c))
            return hearth_cli_error("the message has %zu tokens and the context %zu: -c makes it larger",
                                    p->n, n_ctx);
        forgotten++;
    }
    if (forgotten == 1)
        hearth_cli_info("the context of %zu tokens is full: the oldest message and its answer are forgotten",
                        n_ctx);
    else if (forgotten)
        hearth_cli_info(
            "the context of %zu tokens is full: the oldest %zu messages and their answers are forgotten",
            n_ctx, forgotten);
    return HEARTH_EXIT_OK;
}

bool hearth_chat_progress(void *arg, float share)
{
    (void)arg;
    hearth_progress_share((double)share);
    return true; // Ctrl-C cancels the session itself
}

// Evaluates what the sequence does not hold yet as a part of a prompt, at least one token.
static int evaluate_prompt(struct chat *c, const struct prompt *p)
{
    struct hearth_error err = {0};
    size_t kept = 0;
    while (kept < c->n_prompt && kept + 1 < p->n && c->prompt[kept] == p->tokens[kept])
        kept++;
    if (hearth_seq_truncate(c->session, c->tokens.seq, (int)kept, &err))
        return hearth_cli_fail(&err);
    c->n_prompt = kept;
    const uint64_t start = hearth_now_ns();
    hearth_progress_begin(HEARTH_PROGRESS_TOKENS, (double)(p->n - kept), "prompt");
    const int rc =
        hearth_prompt(c->session, c->tokens.seq, p->tokens + kept, (int)(p->n - kept), NULL, NULL, &err);
    hearth_progress_end();
    if (rc == HEARTH_E_INTERRUPTED) {
        hearth_cli_info("stopped; the chat is as it was before");
        return HEARTH_EXIT_INTERRUPTED;
    }
    if (rc)
        return hearth_cli_fail(&err);
    memcpy(c->prompt, p->tokens, p->n * sizeof *p->tokens);
    c->n_prompt = p->n;
    c->last.prompt = p->n - kept;
    c->last.kept = kept;
    c->last.prompt_ns = hearth_now_ns() - start;
    return HEARTH_EXIT_OK;
}

// ---- generating

struct generation {
    struct chat *c;
    struct hearth_sampler *sampler;
    struct hearth_stream *stream;
    struct printer printer;
    enum hearth_stop stop;
};

static int take_text(struct generation *g, const char *text, size_t n)
{
    if (!hearth_buffer_add(&g->c->answer, text, n))
        return hearth_cli_error("no memory for the answer");
    return print(&g->printer, text, n) ? HEARTH_EXIT_OK : HEARTH_EXIT_FAILURE;
}

// Chooses a token by a row of logits, the one behind `at` guesses, and prints its text. *more: there is another row.
static int take_token(struct generation *g, const float *logits, int at, bool *more)
{
    struct chat *c = g->c;
    const char *text;
    *more = false;
    const hearth_token token = hearth_sample(g->sampler, logits);
    if (token < 0) {
        g->stop = hearth_sampler_may_end(g->sampler) ? HEARTH_STOP_EOS : HEARTH_STOP_GRAMMAR;
        return HEARTH_EXIT_OK;
    }
    hearth_sampler_accept(g->sampler, token);
    if (!hearth_drafted_take(&c->tokens, &c->pace, at, token, more))
        return hearth_cli_error("no memory for the answer's tokens");
    c->last.answer++;
    if (!c->o.ignore_eos && hearth_token_is_eog(c->model, token)) {
        g->stop = HEARTH_STOP_EOS;
        return HEARTH_EXIT_OK;
    }
    const size_t n = hearth_stream_push(g->stream, token, &text);
    const int status = take_text(g, text, n);
    if (c->last.answer == (uint64_t)c->o.n_predict)
        g->stop = HEARTH_STOP_LENGTH;
    else if (c->tokens.n > hearth_session_n_ctx(c->session))
        g->stop = HEARTH_STOP_CONTEXT;
    return status;
}

// Evaluates the last token, and guesses behind it.
static int step(struct generation *g)
{
    struct chat *c = g->c;
    struct hearth_drafted *tokens = &c->tokens;
    struct hearth_error err = {0};
    tokens->room =
        hearth_cli_step_room(tokens, c->session, &c->o, (int64_t)c->last.answer, hearth_cli_drafts(&c->o));
    const int rc = hearth_drafted_step(c->session, &c->pace, &tokens, 1, &err);
    if (rc == HEARTH_E_INTERRUPTED)
        g->stop = HEARTH_STOP_INTERRUPTED;
    else if (rc == HEARTH_E_KV_FULL)
        g->stop = HEARTH_STOP_CACHE;
    else if (rc)
        return hearth_cli_fail(&err);
    return HEARTH_EXIT_OK;
}

// A step, and what it gives: a token, and more where guesses came true.
static int extend(struct generation *g)
{
    struct chat *c = g->c;
    struct hearth_error err = {0};
    const uint64_t start = hearth_now_ns();
    int at = 0, status = step(g);
    for (bool more = true; more && !status && g->stop == HEARTH_STOP_NONE; at++)
        status = take_token(g, hearth_logits(c->session, c->tokens.row + at), at, &more);
    if (status || !at)
        return status;
    if (hearth_drafted_end(c->session, &c->tokens, at, &err))
        return hearth_cli_fail(&err);
    return hearth_run_stats_add(&c->stats, c->session, 1, at, hearth_now_ns() - start)
               ? HEARTH_EXIT_OK
               : hearth_cli_error("no memory for the statistics");
}

// Where nobody types, an answer that is stopped ends everything.
static bool ends_when_stopped(const struct chat *c)
{
    return !c->terminal || c->o.single_turn;
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void report_stop(const struct chat *c, const struct generation *g)
{
    const enum hearth_stop stop = g->stop;
    if (stop == HEARTH_STOP_INTERRUPTED)
        hearth_cli_info(ends_when_stopped(c) ? "stopped" : "stopped; /regen answers anew");
    else if (stop == HEARTH_STOP_CONTEXT)
        hearth_cli_warn(
            "the context of %d tokens is full and cuts the answer off; -c makes it larger, and %s N ends "
            "answers after N tokens",
            hearth_session_n_ctx(c->session), ends_when_stopped(c) ? "-n" : "/set predict");
    else if (stop == HEARTH_STOP_CACHE)
        hearth_cli_warn("the KV cache is full and cuts the answer off; --kv-size makes it larger");
    else if (stop == HEARTH_STOP_LENGTH)
        hearth_cli_info("the answer has the %lld token%s that %s allows", (long long)c->o.n_predict,
                        plural(c->o.n_predict), c->limited ? "/set predict" : "-n");
    else if (stop == HEARTH_STOP_GRAMMAR)
        hearth_cli_info("the grammar allows none of the model's tokens here, and no end");
    if (c->grammar && stop != HEARTH_STOP_EOS && !hearth_sampler_may_end(g->sampler))
        hearth_cli_warn("the answer was cut off before the grammar let it end");
}

static int open_generation(struct generation *g, const struct prompt *p)
{
    struct chat *c = g->c;
    struct hearth_sampling sampling;
    struct hearth_error err = {0};
    int status = hearth_cli_sampling(&sampling, &c->o, c->model, hearth_session_n_ctx(c->session));
    if (status)
        return status;
    sampling.params.grammar = c->grammar;
    if (c->o.seed >= 0 && c->o.seed < UINT32_MAX) // each answer has its own, so that /regen gives another
        sampling.params.seed = (uint32_t)(((uint64_t)c->o.seed + c->answers) % UINT32_MAX);
    if (hearth_sampler_open(&g->sampler, hearth_model_info(c->model)->n_vocab, &sampling.params, &err) ||
        hearth_stream_open(&g->stream, c->model, false, true, &err))
        status = hearth_cli_fail(&err);
    if (!status && !c->has_seed) {
        c->stats.seed = hearth_sampler_seed(g->sampler);
        c->has_seed = true;
    }
    hearth_cli_sampling_free(&sampling);
    for (size_t i = 0; !status && i < p->n; i++)
        hearth_sampler_accept_prompt(g->sampler, p->tokens[i]);
    c->tokens.n = 0;
    c->tokens.sampler = g->sampler;
    c->tokens.draft = (struct hearth_draft){0};
    if (!status && !hearth_drafted_add(&c->tokens, p->tokens, (int)p->n))
        status = hearth_cli_error("no memory for the answer's tokens");
    return status;
}

static int generate(struct chat *c, const struct prompt *p)
{
    static const char opening[] = "<think>\n";
    struct generation g = {.c = c, .printer = {.c = c, .inside = p->thinks}};
    const char *text;
    int status = open_generation(&g, p);
    const uint64_t start = hearth_now_ns();
    c->answer.n = 0;
    if (!status && p->thinks && !hearth_buffer_add(&c->answer, opening, strlen(opening)))
        status = hearth_cli_error("no memory for the answer");
    if (!status && c->dims && p->thinks)
        dim(true);
    bool more;
    if (!status && c->o.n_predict)
        status = take_token(&g, hearth_logits(c->session, 0), 0, &more);
    while (!status && g.stop == HEARTH_STOP_NONE && c->o.n_predict)
        status = extend(&g);
    if (!status) {
        const size_t n = hearth_stream_flush(g.stream, &text);
        status = take_text(&g, text, n);
    }
    end_print(&g.printer);
    c->last.answer_ns = hearth_now_ns() - start;
    c->answers++;
    hearth_stream_close(&g.stream);
    c->stopped = g.stop == HEARTH_STOP_INTERRUPTED;
    c->stats.stop = g.stop;
    if (!status)
        report_stop(c, &g);
    hearth_sampler_close(&g.sampler);
    return status;
}

// ---- the whole

static double per_second(uint64_t n, uint64_t ns)
{
    return ns ? (double)n * 1e9 / (double)ns : 0;
}

// Where weights stream: what was read for the last answer, or for all, as hearth run tells it.
static void report_reading(const struct chat *c, bool all)
{
    struct hearth_streaming_stats t;
    struct hearth_stats s;
    char bytes[32], of[32], forecast[100] = "";
    hearth_session_stats(c->session, &s, sizeof s);
    hearth_session_streaming_stats(c->session, &t, sizeof t);
    const uint64_t tokens = c->stats.step_tokens - (all ? 0 : c->read_before.tokens),
                   read = t.step_read_bytes - (all ? 0 : c->read_before.bytes),
                   waited = t.step_wait_ns - (all ? 0 : c->read_before.wait_ns),
                   ns = s.step_ns - (all ? 0 : c->read_before.ns);
    if (!t.io || !tokens || !ns)
        return;
    hearth_cli_format_bytes(bytes, sizeof bytes, read / tokens);
    hearth_cli_format_bytes(of, sizeof of, (uint64_t)c->forecast.forecast.read_bytes);
    if (c->has_forecast)
        snprintf(forecast, sizeof forecast, "; forecast: %.2f tok/s, %s for a token",
                 c->forecast.forecast.tokens_per_second, of);
    const bool fills =
        hearth_run_stats_fills(&t, c->stats.step_tokens, c->has_forecast ? &c->forecast : NULL);
    hearth_cli_info("read by %s: %s for a token%s; waited for storage %.0f %% of the time%s", t.io, bytes,
                    fills ? HEARTH_FILLS : "", 100.0 * (double)waited / (double)ns, forecast);
}

static void begin_reading(struct chat *c)
{
    struct hearth_streaming_stats t;
    struct hearth_stats s;
    hearth_session_stats(c->session, &s, sizeof s);
    hearth_session_streaming_stats(c->session, &t, sizeof t);
    c->read_before.tokens = c->stats.step_tokens;
    c->read_before.bytes = t.step_read_bytes;
    c->read_before.wait_ns = t.step_wait_ns;
    c->read_before.ns = s.step_ns;
}

void hearth_chat_report(const struct chat *c, bool all)
{
    const uint64_t prompt = all ? c->all.prompt : c->last.prompt, kept = all ? c->all.kept : c->last.kept;
    const uint64_t answer = all ? c->all.answer : c->last.answer;
    char memory[80];
    hearth_cli_format_memory(memory, sizeof memory);
    hearth_cli_info(
        "prompt %llu token%s, %.1f tok/s, %llu kept; answer %llu token%s, %.1f tok/s; context %d of %d; %s",
        (unsigned long long)prompt, plural((int64_t)prompt),
        per_second(prompt, all ? c->all.prompt_ns : c->last.prompt_ns), (unsigned long long)kept,
        (unsigned long long)answer, plural((int64_t)answer),
        per_second(answer, all ? c->all.answer_ns : c->last.answer_ns),
        hearth_seq_length(c->session, c->tokens.seq), (int)room(c), memory);
    report_reading(c, all);
}

static void add_up(struct chat *c)
{
    c->all.prompt += c->last.prompt;
    c->all.kept += c->last.kept;
    c->all.answer += c->last.answer;
    c->all.prompt_ns += c->last.prompt_ns;
    c->all.answer_ns += c->last.answer_ns;
}

int hearth_chat_answer(struct chat *c)
{
    struct prompt p = {0};
    memset(&c->last, 0, sizeof c->last);
    begin_reading(c);
    hearth_cli_take_interrupt();
    hearth_cancel_clear(c->session);
    hearth_cli_cancel_on_interrupt(c->session);
    int status = make_fitting_prompt(c, &p);
    if (!status)
        status = evaluate_prompt(c, &p);
    if (!status)
        status = generate(c, &p);
    hearth_cli_cancel_on_interrupt(NULL);
    hearth_cli_take_interrupt();
    free(p.tokens);
    if (status)
        return status;
    if (!hearth_chat_add(c, "assistant", c->answer.data ? c->answer.data : "", c->answer.n))
        return hearth_cli_error("no memory for the answer");
    c->unsaved = true;
    add_up(c);
    if (!c->o.no_perf)
        hearth_chat_report(c, false);
    return c->stopped && ends_when_stopped(c) ? HEARTH_EXIT_INTERRUPTED : HEARTH_EXIT_OK;
}
