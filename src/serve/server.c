// SPDX-License-Identifier: MIT
// The server: opening, starting, ending.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "schema/json_string.h"
#include "serve/constraint.h"
#include "serve/conversation.h"
#include "serve/http.h"

// How long running answers may go on after the server was told to end, and their last bytes.
#define PATIENCE_NS 5000000000u
#define LAST_NS     1000000000u

struct hearth_server {
    struct hearth_server_params params;
    json_t *name; // the model's, as UTF-8
    struct hearth_serving serving;
    struct hearth_http *http;
    atomic_int stops;
};

int hearth_server_sequences(int n_slots, bool on_disk, bool saves_slots)
{
    return hearth_scheduler_sequences(n_slots, on_disk, saves_slots);
}

int hearth_server_open(struct hearth_server **out, const struct hearth_server_params *params,
                       struct hearth_error *err)
{
    struct hearth_server *server = hearth_calloc(1, sizeof *server);
    *out = NULL;
    if (!server)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the server");
    json_object_seed(0); // once, before there are threads
    server->params = *params;
    server->name = hearth_json_string(params->name, strlen(params->name));
    if (server->name)
        server->params.name = json_string_value(server->name);
    server->serving.params = &server->params;
    pthread_mutex_init(&server->serving.cutting, NULL);
    server->serving.started = time(NULL);
    const int rc = hearth_http_open(&server->http, &server->serving, err);
    if (rc) {
        pthread_mutex_destroy(&server->serving.cutting);
        json_decref(server->name);
        free(server);
        return rc;
    }
    *out = server;
    return 0;
}

const char *hearth_server_address(const struct hearth_server *server)
{
    return hearth_http_address(server->http);
}

// Of the longest token.
static size_t most_bytes(const struct hearth_model *model)
{
    size_t most = 4; // of a character that has no token
    for (hearth_token t = 0; t < hearth_model_info(model)->n_vocab; t++) {
        const size_t n = hearth_token_bytes(model, t, true, NULL, 0);
        most = n > most ? n : most;
    }
    return most;
}

int hearth_server_start(struct hearth_server *server, const struct hearth_served *served,
                        struct hearth_error *err)
{
    struct hearth_serving *s = &server->serving;
    const struct hearth_scheduler_params params = {.model = served->model,
                                                   .session = served->session,
                                                   .n_slots = server->params.n_slots,
                                                   .max_waiting = server->params.max_waiting,
                                                   .n_guesses = served->n_guesses,
                                                   .drafter = served->drafter,
                                                   .prefix_folder = server->params.prefix_folder,
                                                   .prefix_bytes = server->params.prefix_bytes,
                                                   .saves_slots = server->params.slot_folder != NULL};
    s->served = *served;
    s->sampling = *served->sampling;
    s->knows_developer = hearth_conversation_knows_developer(served->chat);
    s->token_bytes = most_bytes(served->model);
    int rc = hearth_call_format_find(&s->calls, served->chat, err);
    if (rc)
        return rc;
    s->constraints = hearth_constraints_open(served->model);
    if (!s->constraints)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the server");
    rc = hearth_scheduler_open(&s->scheduler, &params, err);
    if (!rc)
        atomic_store(&s->ready, true);
    return rc;
}

// Waits until the last answers are sent.
static void await_answers(struct hearth_server *server)
{
    const uint64_t end = hearth_now_ns() + LAST_NS;
    while (hearth_http_busy(server->http) && hearth_now_ns() < end)
        hearth_http_watch(server->http, 10);
}

void hearth_server_run(struct hearth_server *server)
{
    while (!atomic_load(&server->stops))
        hearth_http_watch(server->http, 1000);
    atomic_store(&server->serving.ending, true);
    hearth_http_quiesce(server->http);
    uint64_t patience = PATIENCE_NS;
    const uint64_t step = 100000000u;
    hearth_scheduler_refuse(server->serving.scheduler);
    for (; patience >= step && atomic_load(&server->stops) < 2; patience -= step)
        if (hearth_scheduler_await(server->serving.scheduler, step))
            break;
    hearth_scheduler_end(server->serving.scheduler);
    await_answers(server);
}

void hearth_server_stop(struct hearth_server *server)
{
    if (!server)
        return;
    atomic_fetch_add(&server->stops, 1);
    hearth_http_wake(server->http);
}

void hearth_server_close(struct hearth_server **server)
{
    if (!*server)
        return;
    if ((*server)->serving.scheduler) // all that is suspended must go on before HTTP can end
        hearth_scheduler_end((*server)->serving.scheduler);
    hearth_http_close(&(*server)->http);
    hearth_scheduler_close(&(*server)->serving.scheduler);
    hearth_constraints_close(&(*server)->serving.constraints);
    pthread_mutex_destroy(&(*server)->serving.cutting);
    json_decref((*server)->name);
    free(*server);
    *server = NULL;
}
