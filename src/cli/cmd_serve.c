// SPDX-License-Identifier: MIT
// hearth serve: opens model, template and session, and hands them to the server.
#include "cli/commands.h"
#include "cli/common.h"

#ifndef HEARTH_HAVE_SERVER

int hearth_cmd_serve(const struct hearth_options *o)
{
    (void)o;
    return hearth_cli_error("this build has no server: it was made without libmicrohttpd");
}

#else

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "cli/adapters.h"
#include "cli/chat_template.h"
#include "cli/drafts.h"
#include "cli/extent.h"
#include "cli/fit.h"
#include "cli/sampling.h"
#include "serve/serve.h"

#define MOST_KEYS      1000
// States of recurrent layers, besides those of the texts at work: of prompts that are kept. One can be large.
#define SPARE_STATES   4
// Tokens of the KV cache, at most: whole pages that an int counts.
#define MOST_KV_TOKENS (INT32_MAX - 63)

struct serve {
    struct hearth_options *o;
    struct hearth_cli_drafter drafter;
    struct hearth_buffer keys; // their texts, a zero after each
    const char *key_list[MOST_KEYS];
    int n_keys;
    char name[256];
    struct hearth_model *model;
    struct hearth_session *session;
    int n_guesses; // tokens that are guessed ahead for each text, at most
    struct hearth_chat_template *template;
    struct hearth_sampling sampling;
    struct hearth_cli_adapters adapters;
    json_t *variables;
    char *variables_text;
    struct hearth_server *server;
};

// ---- what the options say

// Cuts texts that are separated by any of `separators` into keys.
static int add_keys(struct serve *s, const char *text, size_t n, const char *separators)
{
    const size_t start = s->keys.n;
    if (!hearth_buffer_add(&s->keys, text, n) || !hearth_buffer_add(&s->keys, "", 1))
        return hearth_cli_error("no memory for the keys");
    for (size_t i = start; i < s->keys.n; i++)
        if (strchr(separators, s->keys.data[i]))
            s->keys.data[i] = 0;
    return HEARTH_EXIT_OK;
}

static int read_keys(struct serve *s)
{
    struct hearth_buffer file = {0};
    int status = HEARTH_EXIT_OK;
    if (s->o->api_key)
        status = add_keys(s, s->o->api_key, strlen(s->o->api_key), ",");
    if (!status && s->o->api_key_file) {
        status = hearth_cli_read(s->o->api_key_file, &file);
        if (!status)
            status = add_keys(s, file.data ? file.data : "", file.n, "\r\n");
    }
    free(file.data);
    for (size_t i = 0; i < s->keys.n && !status; i += strlen(s->keys.data + i) + 1) {
        if (!s->keys.data[i])
            continue;
        if (s->n_keys == MOST_KEYS)
            return hearth_cli_error("there are more than %d keys", MOST_KEYS);
        s->key_list[s->n_keys++] = s->keys.data + i;
    }
    if (!status && !s->n_keys && (s->o->api_key || s->o->api_key_file))
        status = hearth_cli_error("%s has no key", s->o->api_key_file ? s->o->api_key_file : "--api-key");
    return status;
}

// The model's name: that of the file, without folder and ending.
static void make_name(struct serve *s)
{
    snprintf(s->name, sizeof s->name, "%s", s->o->alias ? s->o->alias : hearth_path_name(s->o->model));
    char *end = strrchr(s->name, '.');
    if (!s->o->alias && end && !strcmp(end, ".gguf"))
        *end = 0;
}

static int http_threads(const struct hearth_options *o)
{
    const int n = (int)(o->threads_http > 0 ? o->threads_http : o->n_parallel);
    return o->threads_http > 0 ? n : n < 2 ? 2 : n > 8 ? 8 : n;
}

// ---- opening

static int listen_for_requests(struct serve *s)
{
    const struct hearth_options *o = s->o;
    struct hearth_error err = {0};
    const struct hearth_server_params params = {
        .host = o->host,
        .port = (int)o->port,
        .name = s->name,
        .api_keys = s->key_list,
        .n_api_keys = s->n_keys,
        .origins = o->origins,
        .n_threads = http_threads(o),
        .n_slots = (int)o->n_parallel,
        .max_waiting = (int)o->queue,
        .timeout = (int)o->timeout,
        .ping_interval = (int)o->ping_interval,
        .max_body = (size_t)o->max_body,
        .prefix_folder = o->prefix_cache,
        .prefix_bytes = o->prefix_cache_size,
        .slot_folder = o->slot_save_path,
    };
    return hearth_server_open(&s->server, &params, &err) ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
}

static int open_session(struct serve *s)
{
    const struct hearth_options *o = s->o;
    const int n_ctx = hearth_cli_context(o, hearth_model_info(s->model));
    const int sequences =
        hearth_server_sequences((int)o->n_parallel, o->prefix_cache != NULL, o->slot_save_path != NULL);
    struct hearth_session_params params = hearth_cli_session_params(o, n_ctx, sequences);
    params.max_states = (int)o->n_parallel + SPARE_STATES;
    const int64_t room = hearth_cli_room(n_ctx) * o->n_parallel;
    if (!params.kv_tokens)
        params.kv_tokens = room > MOST_KV_TOKENS ? MOST_KV_TOKENS : (int)room;
    hearth_cli_fit_ubatch(&params, s->model, o);
    struct hearth_fit fit;
    int status = hearth_cli_fit_or_pack(&params, &s->model, o, &fit);
    s->n_guesses = params.max_steps ? hearth_cli_drafts(o) : 0; // there may be no room for them
    if (!status)
        hearth_cli_fit_drafter(&s->drafter, s->model, o, &params, (int)o->n_parallel, &fit);
    if (!status)
        status = hearth_cli_open_session(&s->session, s->model, &params);
    if (!status)
        hearth_cli_use_drafter(&s->drafter, s->session, (int)o->n_parallel, s->n_guesses > 0);
    return status;
}

static int open_all(struct serve *s)
{
    int status = hearth_cli_open_drafter(&s->drafter, s->o, (int)s->o->n_parallel);
    if (!status)
        status = hearth_cli_open_model(&s->model, s->o, false);
    if (!status)
        status = hearth_cli_attach_drafter(&s->drafter, s->model, (int)s->o->n_parallel);
    if (!status)
        status = hearth_cli_open_template(&s->template, s->o, "serve", s->model);
    if (!status)
        status = open_session(s);
    if (!status)
        status = hearth_cli_sampling(&s->sampling, s->o, s->model, hearth_session_n_ctx(s->session));
    return status;
}

static int start(struct serve *s)
{
    struct hearth_error err = {0};
    const struct hearth_served served = {.model = s->model,
                                         .session = s->session,
                                         .chat = s->template,
                                         .template_variables = s->variables_text,
                                         .sampling = &s->sampling.params,
                                         .n_predict = (int)s->o->n_predict,
                                         .n_guesses = s->n_guesses,
                                         .drafter = s->drafter.drafter,
                                         .pooling = hearth_cli_pooling(s->o, s->model),
                                         .adapters = s->adapters.list,
                                         .n_adapters = s->adapters.n};
    if (hearth_server_start(s->server, &served, &err))
        return hearth_cli_fail(&err);
    hearth_cli_note_unused(s->o, s->session);
    hearth_cli_info("%s is served at %s", s->name, hearth_server_address(s->server));
    return HEARTH_EXIT_OK;
}

// ---- ending

static _Atomic(struct hearth_server *) running;

static void stop_server(void)
{
    hearth_server_stop(atomic_load(&running));
}

static int run(struct serve *s)
{
    const bool late = hearth_cli_interrupted();
    hearth_cli_cancel_on_interrupt(NULL);
    atomic_store(&running, s->server);
    hearth_console_catch_for_server(stop_server);
    if (late || hearth_cli_interrupted())
        hearth_server_stop(s->server);
    hearth_server_run(s->server);
    hearth_cli_info("the server has ended");
    return HEARTH_EXIT_OK;
}

static void close_all(struct serve *s)
{
    atomic_store(&running, NULL);
    hearth_server_close(&s->server);
    hearth_cli_cancel_on_interrupt(NULL);
    hearth_session_close(&s->session);
    hearth_chat_template_close(&s->template);
    hearth_cli_sampling_free(&s->sampling);
    hearth_model_close(&s->model);
    hearth_cli_close_drafter(&s->drafter);
    hearth_cli_adapters_close(&s->adapters);
    json_decref(s->variables);
    free(s->variables_text);
    free(s->keys.data);
}

int hearth_cmd_serve(const struct hearth_options *o)
{
    struct hearth_options own = *o;
    struct serve s = {.o = &own};
    if (o->chat_template && o->chat_template_file)
        return hearth_cli_usage(hearth_command_find("serve"),
                                "--chat-template and --chat-template-file exclude each other");
    struct hearth_error err = {0};
    if (o->slot_save_path && hearth_folder_make(o->slot_save_path, &err))
        return hearth_cli_fail(&err);
    make_name(&s);
    int status = hearth_cli_check_sampling(o);
    if (!status)
        status = hearth_cli_adapters_read(&s.adapters, o);
    if (!status)
        status = hearth_cli_template_variables(&s.variables, o);
    if (!status && !(s.variables_text = json_dumps(s.variables, 0)))
        status = hearth_cli_error("no memory for the template's variables");
    if (!status)
        status = read_keys(&s);
    hearth_cli_catch_interrupt();
    if (!status)
        status = listen_for_requests(&s);
    if (!status)
        status = open_all(&s);
    if (!status)
        status = start(&s);
    if (!status)
        status = run(&s);
    close_all(&s);
    return status;
}

#endif
