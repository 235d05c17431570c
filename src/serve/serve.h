// SPDX-License-Identifier: MIT
// The server: HTTP in front of a session, with the APIs of OpenAI, Anthropic and llama.cpp's server
// (docs/serve.md). Part of the program, not of the library.
#ifndef HEARTH_SERVE_SERVE_H
#define HEARTH_SERVE_SERVE_H

#include "hearth.h"

struct hearth_server;

struct hearth_server_params {
    const char *host;            // a name, an address, or the path of a socket, which ends with ".sock"
    int port;                    // 0: any that is free
    const char *name;            // of the model, in answers
    const char *const *api_keys; // requests must have one of these; none: they need none
    int n_api_keys;
    const char
        *origins;    // web pages that may use the server, separated by commas; "*": all; NULL: this machine's
    int n_threads;   // for HTTP; what is computed has the session's
    int n_slots;     // texts that are generated at once
    int max_waiting; // texts that may wait besides
    int timeout;     // seconds that a client may stay silent
    int ping_interval;         // seconds after which a silent stream gets a comment
    size_t max_body;           // bytes of a request
    const char *prefix_folder; // where prompts are kept on disk, too; NULL: nowhere
    uint64_t prefix_bytes;     // of it at most
    const char *slot_folder;   // where slots' prompts are saved when that is asked for; NULL: never
};

// Listens. Until hearth_server_start() requests are told that the model is loading. All that `params` points
// to must stay. Errors: HEARTH_E_INVALID (no such host), HEARTH_E_IO (the address is in use),
// HEARTH_E_MEMORY.
int hearth_server_open(struct hearth_server **out, const struct hearth_server_params *params,
                       struct hearth_error *err);
// Where it listens: "http://127.0.0.1:8080".
const char *hearth_server_address(const struct hearth_server *server);

// What is served.
struct hearth_served {
    struct hearth_model *model;
    struct hearth_session
        *session; // with hearth_server_sequences() sequences; the server's until it is closed
    const struct hearth_chat_template *chat;
    const char *template_variables;               // a JSON object, or NULL
    const struct hearth_sampler_params *sampling; // of requests that say nothing
    int n_predict;                                // the same
    int n_guesses;                                // tokens that are guessed ahead for each text, at most
    struct hearth_drafter *drafter;               // that guesses for n_slots texts, or NULL
    enum hearth_pooling pooling;                  // of embeddings
    const struct hearth_adapter *adapters;        // [n_adapters] that the model was opened with
    size_t n_adapters;
};
// on_disk: there is a prefix_folder; saves_slots: a slot_folder.
int hearth_server_sequences(int n_slots, bool on_disk, bool saves_slots);
// From now on requests are answered. Errors: HEARTH_E_MEMORY, HEARTH_E_IO.
int hearth_server_start(struct hearth_server *server, const struct hearth_served *served,
                        struct hearth_error *err);

// Returns after hearth_server_stop(): no new requests are taken then, and running answers have been ended.
// Those that do not end by themselves within some seconds are cut.
void hearth_server_run(struct hearth_server *server);
// Ends hearth_server_run(); a second call cuts running answers at once. Threads: any; signal handlers too.
// NULL is fine.
void hearth_server_stop(struct hearth_server *server);
// Closes it, but not the session.
void hearth_server_close(struct hearth_server **server);

#endif
