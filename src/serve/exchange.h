// SPDX-License-Identifier: MIT
// An exchange: a request and its answer. The APIs (api_*.c) see this of HTTP, and nothing else.
#ifndef HEARTH_SERVE_EXCHANGE_H
#define HEARTH_SERVE_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "serve/parts.h"
#include "serve/scheduler.h"
#include "serve/serve.h"

struct hearth_exchange;

// Whose form errors have.
enum hearth_api { HEARTH_API_OPENAI, HEARTH_API_ANTHROPIC, HEARTH_API_LLAMA };

struct hearth_route {
    const char *method, *path;
    void (*answer)(struct hearth_exchange *x);
    enum hearth_api api;
    bool open;        // needs no key
    bool needs_model; // cannot be answered while it loads
    bool has_body;    // takes JSON: an object
    bool takes_list;  // or an array
};

// What the APIs need of the server.
struct hearth_serving {
    const struct hearth_server_params *params;
    struct hearth_served served;
    struct hearth_sampler_params sampling;
    struct hearth_scheduler *scheduler;
    struct hearth_constraints *constraints;
    struct hearth_call_format calls; // how the model writes calls of tools
    bool knows_developer;            // the template has this role
    size_t token_bytes;              // of the longest token
    pthread_mutex_t cutting;         // of long texts, into tokens
    time_t started;
    atomic_bool ready; // all of the above is there
    atomic_bool ending;
};

// Lists that tell a text's probabilities: one, or several in completions of OpenAI.
#define HEARTH_PROBS_LISTS 4

// A text of the answer.
struct hearth_choice {
    struct hearth_exchange *exchange;
    int index;
    struct hearth_out text;                      // as the model wrote it
    struct hearth_parts parts;                   // of a chat
    json_t *tokens;                              // an array, if they are wanted
    struct hearth_out probs[HEARTH_PROBS_LISTS]; // of a whole answer: JSON values, separated by commas
    size_t n_characters;                         // of the text, whose probabilities were told
    enum hearth_end end;
    const char *stop;
    char *message;
    struct hearth_job_stats stats;
};

// How an API writes an answer that is generated. begin() comes before all, finish() after all, both in
// streams alone. In chats token() gets a piece first, part() what comes of it to the parts of the answer, and
// then piece() the piece again; else piece() comes alone.
struct hearth_format {
    void (*begin)(struct hearth_exchange *x);
    void (*token)(struct hearth_choice *choice, const struct hearth_piece *piece);
    void (*part)(struct hearth_choice *choice, const struct hearth_part *part, bool starts, const char *text,
                 size_t n);
    void (*piece)(struct hearth_choice *choice, const struct hearth_piece *piece);
    void (*finish)(struct hearth_exchange *x);
    // Ends a stream that failed. NULL: an event with an error, and `finish` in OpenAI's APIs.
    void (*fail)(struct hearth_exchange *x, const char *message);
    json_t *(*whole)(struct hearth_exchange *x); // not streamed
    bool (*more)(struct hearth_exchange *x);     // in its place, for long answers: see below
    bool exact; // of `whole`: numbers are the model's own, so they keep all of their digits
};

struct hearth_exchange {
    struct hearth_serving *server;
    const struct hearth_route *route;
    enum hearth_api api;  // of the path, also where there is no such route
    const char *action;   // of the query, or NULL
    const char *rest;     // of the path, behind the route's that ends with a slash
    struct hearth_out in; // the body
    json_t *body;         // the same; an object. NULL once it was read, unless the answer recalls it

    int status; // of the answer
    const char *type;
    const char *policy; // of a page: what it may load; else NULL
    struct hearth_out out;
    // A long answer is written while it is sent: adds its next part to `out`. False: that was the last. NULL: all is in
    // `out`.
    bool (*more)(struct hearth_exchange *x);
    int n_items, n_rows;  // that are written, of the answer and of its item
    hearth_token *tokens; // [n_tokens] that are written so
    int n_tokens;
    bool with_pieces; // each with its text
    bool recalls;     // the answer repeats fields of `body`
    char allow[64];   // the methods of the path, where another was tried or it was asked for them

    // An answer that is generated.
    struct hearth_task *task;
    const struct hearth_format *format;
    struct hearth_choice *choices;
    int n_choices, n_per_prompt;
    char id[32];
    time_t created;
    bool streams, begun, finished;
    bool abandoned;  // nobody wants the answer: it has no end
    bool with_usage; // a stream tells it at its end
    bool chat;
    bool continues;  // a last message of the model's is the beginning of the answer
    bool continued;  // there was one
    bool whole_form; // a grammar says all that is generated: no thoughts come before it
    bool counts;     // only the prompt's tokens are wanted, however many
    json_t *tools;   // that the model may call, as OpenAI's chat completions have them, or NULL
    const char **tool_names;
    size_t n_tool_names;
    bool must_call;               // one of the tools
    const char *only_tool;        // that may be called; NULL: any
    bool one_call;                // not several in one answer
    struct hearth_out prompt_end; // the last of the prompt's text
    bool with_tokens;
    bool echo; // the answer repeats its prompts
    struct hearth_out *echoes;
    int n_echoes;
    int norm,
        dimensions; // of embeddings: hearth_embedding_normalize(), and how many of their numbers are wanted
    bool base64;    // these as bytes
    json_t *probs;  // of the piece whose parts are told
    int sequence;   // events of the stream so far, for formats that number them
};

// ---- answers

// A JSON value, which is released.
void hearth_exchange_json(struct hearth_exchange *x, int status, json_t *value);
// A long JSON answer, which is written while it is sent: see `more` above.
void hearth_exchange_write(struct hearth_exchange *x, bool (*more)(struct hearth_exchange *x));
// An error in the form of the path's API. `param`: the field of the request that it is about, or NULL.
void hearth_exchange_error(struct hearth_exchange *x, int status, const char *param, const char *fmt, ...)
    HEARTH_PRINTF(4, 5);
// A text that no context holds, where agents make theirs shorter: each API's clients know it by other signs. `what` it is,
// which has n tokens, or more of them where they were not counted; `most` fit.
void hearth_exchange_too_long(struct hearth_exchange *x, const char *param, const char *what, size_t n,
                              bool counted, int most);
// The error as a JSON value.
json_t *hearth_exchange_error_json(const struct hearth_exchange *x, int status, const char *param,
                                   const char *message);
// A string of any bytes; those that are no UTF-8 become U+FFFD.
json_t *hearth_exchange_string(const struct hearth_out *text);
json_t *hearth_exchange_string_of(const char *text, size_t n);

// ---- answers that are generated

#define HEARTH_QUEUE_IS_FULL "all slots are busy and the queue is full; try again later"

// Has the task done, in `format`; *x owns the task, whatever comes of it.
void hearth_exchange_generate(struct hearth_exchange *x, struct hearth_task *task,
                              const struct hearth_format *format, bool streams);
// Takes what has come: a stream's text is then in `out`, and at the end a whole answer, or the error;
// `finished` says so.
void hearth_exchange_take(struct hearth_exchange *x);
// Tokens of all texts together.
struct hearth_job_stats hearth_exchange_stats(const struct hearth_exchange *x);
void hearth_exchange_free(struct hearth_exchange *x);

#endif
