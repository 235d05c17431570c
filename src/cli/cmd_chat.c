// SPDX-License-Identifier: MIT
// hearth chat: opens model, template and session, then reads messages and answers them.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "cli/chat.h"
#include "cli/chat_template.h"
#include "cli/commands.h"
#include "cli/constraint.h"
#include "cli/extent.h"
#include "cli/fit.h"
#include "cli/forecast.h"
#include "cli/machine.h"
#include "cli/sampling.h"

// ---- the template

static int list_templates(void)
{
    const char *name;
    for (size_t i = 0; (name = hearth_chat_builtin_name(i)); i++)
        printf("%s\n", name);
    return HEARTH_EXIT_OK;
}

// ---- opening

static int open_session(struct chat *c)
{
    struct hearth_error err = {0};
    const int n_ctx = hearth_cli_context(&c->o, hearth_model_info(c->model));
    struct hearth_session_params params = hearth_cli_session_params(&c->o, n_ctx, 1);
    hearth_cli_fit_ubatch(&params, c->model, &c->o);
    struct hearth_fit fit;
    int status = hearth_cli_fit_or_pack(&params, &c->model, &c->o, &fit);
    if (status)
        return status;
    hearth_cli_fit_drafter(&c->drafter, c->model, &c->o, &params, 1, &fit);
    c->has_forecast = fit.kind == HEARTH_FIT_STREAMS &&
                      hearth_cli_forecast(&c->forecast, &c->o, c->model, &params, fit.ram, 0);
    params.progress = hearth_chat_progress;
    status = hearth_cli_open_session(&c->session, c->model, &params);
    if (status)
        return status;
    hearth_cli_note_unused(&c->o, c->session);
    hearth_pace_begin(&c->pace, hearth_draft_each(c->model, c->session));
    hearth_cli_use_drafter(&c->drafter, c->session, 1, hearth_session_max_steps(c->session) > 1);
    c->pace.drafter = c->drafter.drafter;
    c->tokens.seq = hearth_seq_new(c->session, &err);
    if (c->tokens.seq < 0)
        return hearth_cli_fail(&err);
    c->prompt = hearth_calloc((size_t)hearth_session_n_ctx(c->session), sizeof *c->prompt);
    return c->prompt ? HEARTH_EXIT_OK : hearth_cli_error("no memory for the prompt");
}

static int open_chat(struct chat *c)
{
    const uint64_t start = hearth_now_ns();
    int status = hearth_cli_open_drafter(&c->drafter, &c->o, 1);
    if (!status)
        status = hearth_cli_open_model(&c->model, &c->o, false);
    if (!status)
        status = hearth_cli_attach_drafter(&c->drafter, c->model, 1);
    if (!status)
        status = hearth_cli_open_template(&c->template, &c->o, "chat", c->model);
    struct hearth_error err = {0};
    if (!status && c->gbnf.data && hearth_grammar_open(&c->grammar, c->model, c->gbnf.data, c->gbnf.n, &err))
        status = hearth_cli_fail(&err);
    if (!status)
        status = open_session(c);
    c->stats.load_ns = hearth_now_ns() - start;
    c->stats.measure_ns = hearth_cli_machine_ns();
    if (!status && !c->o.no_perf)
        hearth_run_stats_loading(c->stats.load_ns, c->stats.measure_ns);
    return status;
}

// What --stats asks for, when there was a session.
static void report_stats(struct chat *c)
{
    struct hearth_run_stats *s = &c->stats;
    if (c->o.stats != HEARTH_STATS_JSON || !c->session)
        return;
    hearth_run_stats_take(s, c->model, c->session);
    s->n_threads = hearth_cli_threads(&c->o);
    s->n_sequences = 1;
    s->pace = &c->pace;
    s->generated = c->all.answer;
    s->forecast = c->has_forecast ? &c->forecast : NULL;
    s->best = -1;
    hearth_run_stats_json(s);
}

static void close_chat(struct chat *c)
{
    hearth_cli_cancel_on_interrupt(NULL);
    hearth_chat_edit_close(&c->editor);
    if (c->has_forecast && c->session)
        hearth_cli_forecast_judge(&c->forecast, &c->o, c->model, c->session);
    report_stats(c);
    hearth_session_close(&c->session);
    hearth_chat_template_close(&c->template);
    hearth_grammar_close(&c->grammar);
    hearth_model_close(&c->model);
    hearth_cli_close_drafter(&c->drafter);
    json_decref(c->messages);
    json_decref(c->variables);
    hearth_run_stats_free(&c->stats);
    free(c->prompt);
    hearth_drafted_free(&c->tokens);
    free(c->file);
    free(c->gbnf.data);
    free(c->answer.data);
}

// ---- talking

static void drop_last_newline(struct hearth_buffer *text)
{
    if (text->n && text->data[text->n - 1] == '\n')
        text->n--;
}

// Answers a message of the user. If that fails, the chat is as it was before.
static int answer(struct chat *c, const char *text, size_t n)
{
    json_t *before = json_copy(c->messages);
    if (!before || !hearth_chat_add(c, "user", text, n))
        return hearth_chat_settle(c, before, hearth_cli_error("no memory for the message"));
    return hearth_chat_settle(c, before, hearth_chat_answer(c));
}

// Writes an answer that has come to the file of --save.
static int keep(struct chat *c)
{
    if (!c->o.save || !c->unsaved)
        return HEARTH_EXIT_OK;
    c->unsaved = !hearth_chat_write(c, c->o.save);
    c->saved |= !c->unsaved;
    return c->unsaved ? HEARTH_EXIT_FAILURE : HEARTH_EXIT_OK;
}

// The first message, if it is given with the command. With -st it is all of standard input otherwise.
static int first_message(struct chat *c, bool *given)
{
    struct hearth_buffer text = {0};
    int status = HEARTH_EXIT_OK;
    *given = c->o.prompt || c->o.file || c->o.single_turn;
    if (!*given)
        return HEARTH_EXIT_OK;
    if (c->o.prompt) {
        if (!hearth_buffer_add(&text, c->o.prompt, strlen(c->o.prompt)))
            status = hearth_cli_error("no memory for the message");
    } else {
        status = hearth_cli_read(c->o.file ? c->o.file : "-", &text);
        drop_last_newline(&text);
    }
    if (!status && hearth_cli_unescapes(&c->o))
        text.n = hearth_cli_unescape(text.data, text.n);
    if (!status)
        status = answer(c, text.data ? text.data : "", text.n);
    free(text.data);
    return status ? status : keep(c);
}

static int take_input(struct chat *c, enum chat_input kind, struct hearth_buffer *text, bool *leaves)
{
    int status = HEARTH_EXIT_OK;
    if (kind == CHAT_COMMAND)
        status = hearth_chat_command(c, text->data, leaves);
    else if (text->n)
        status = answer(c, text->data, text->n);
    return status ? status : keep(c);
}

// Where somebody types, a failure is told and the chat goes on.
static int talk(struct chat *c)
{
    struct hearth_buffer text = {0};
    bool leaves = false, interrupted = false;
    int status = HEARTH_EXIT_OK;
    if (c->terminal) {
        hearth_cli_info("type a message, or /help");
        c->editor = hearth_chat_edit_open();
    }
    while (!leaves && (!status || c->terminal)) {
        const enum chat_input kind = hearth_chat_read(c, &text);
        if (kind == CHAT_END)
            break;
        if (kind == CHAT_INTERRUPTED && !c->terminal) {
            status = HEARTH_EXIT_INTERRUPTED;
            break;
        }
        if (kind == CHAT_INTERRUPTED) {
            leaves = interrupted;
            interrupted = true;
            if (!leaves)
                hearth_cli_info("Ctrl-C again leaves, as does /exit");
            continue;
        }
        interrupted = false;
        status = take_input(c, kind, &text, &leaves);
    }
    free(text.data);
    return c->terminal ? HEARTH_EXIT_OK : status;
}

static int start(struct chat *c)
{
    struct hearth_buffer text = {0};
    const char *file = c->o.save ? c->o.save : c->o.load;
    int status = c->o.load && !hearth_chat_load(c, c->o.load) ? HEARTH_EXIT_FAILURE : HEARTH_EXIT_OK;
    if (file)
        hearth_chat_name_file(c, file);
    if (!status)
        status = hearth_cli_template_variables(&c->variables, &c->o);
    // A grammar is about the whole answer, so there is no room for thoughts before it.
    if (!status && c->gbnf.data && !json_object_get(c->variables, "enable_thinking"))
        json_object_set_new(c->variables, "enable_thinking", json_false());
    if (!status && c->o.system_file) {
        status = hearth_cli_read(c->o.system_file, &text);
        drop_last_newline(&text);
    } else if (!status && c->o.system && !hearth_buffer_add(&text, c->o.system, strlen(c->o.system))) {
        status = hearth_cli_error("no memory for the message");
    }
    if (!status && text.n && !hearth_chat_set_system(c, text.data, text.n))
        status = hearth_cli_error("no memory for the message");
    free(text.data);
    return status;
}

int hearth_cmd_chat(const struct hearth_options *o)
{
    const struct hearth_command *cmd = hearth_command_find("chat");
    if (o->chat_template && !strcmp(o->chat_template, "list"))
        return list_templates();
    if (o->prompt && o->file)
        return hearth_cli_usage(cmd, "-p and -f exclude each other");
    if (o->system && o->system_file)
        return hearth_cli_usage(cmd, "-sys and -sysf exclude each other");
    if (o->chat_template && o->chat_template_file)
        return hearth_cli_usage(cmd, "--chat-template and --chat-template-file exclude each other");
    struct chat c = {.o = *o, .messages = json_array(), .tokens.seq = -1};
    bool given = false;
    c.terminal = hearth_console_is_terminal(0);
    c.dims = hearth_console_is_terminal(1);
    int status = c.messages ? hearth_cli_check_sampling(o) : hearth_cli_error("no memory for the messages");
    if (!status)
        status = hearth_cli_check_text_out(o, o->save);
    if (!status)
        status = hearth_cli_read_constraint(o, cmd, &c.gbnf);
    if (!status)
        status = start(&c);
    hearth_cli_catch_interrupt();
    if (!status)
        status = open_chat(&c);
    if (!status)
        status = first_message(&c, &given);
    if (!o->single_turn && (!status || (given && c.terminal && c.session)))
        status = talk(&c);
    if (c.saved)
        hearth_chat_say_written(&c, o->save);
    close_chat(&c);
    return status;
}
