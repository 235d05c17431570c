// SPDX-License-Identifier: MIT
// The paths that the server knows.
#include "serve/routes.h"

#include <stdio.h>
#include <string.h>

#include "serve/api.h"

#define OPENAI    HEARTH_API_OPENAI
#define ANTHROPIC HEARTH_API_ANTHROPIC
#define LLAMA     HEARTH_API_LLAMA

static const struct hearth_route routes[] = {
    // method, path, answer, api, needs no key, needs the model, has a body, may be a list
    {"GET", "/", hearth_api_page, LLAMA, true, false, false, false},
    {"GET", "/index.html", hearth_api_page, LLAMA, true, false, false, false},
    {"GET", "/health", hearth_api_health, LLAMA, true, true, false, false},
    {"GET", "/v1/health", hearth_api_health, LLAMA, true, true, false, false},
    {"GET", "/v1/models", hearth_api_models, OPENAI, false, true, false, false},
    {"GET", "/v1/models/", hearth_api_model, OPENAI, false, true, false, false},
    {"GET", "/models", hearth_api_models, OPENAI, false, true, false, false},
    {"POST", "/v1/chat/completions", hearth_api_chat, OPENAI, false, true, true, false},
    {"POST", "/chat/completions", hearth_api_chat, OPENAI, false, true, true, false},
    {"POST", "/v1/completions", hearth_api_completions, OPENAI, false, true, true, false},
    {"POST", "/v1/responses", hearth_api_responses, OPENAI, false, true, true, false},
    {"POST", "/responses", hearth_api_responses, OPENAI, false, true, true, false},
    {"POST", "/v1/messages", hearth_api_messages, ANTHROPIC, false, true, true, false},
    {"POST", "/v1/messages/count_tokens", hearth_api_count_tokens, ANTHROPIC, false, true, true, false},
    {"POST", "/v1/embeddings", hearth_api_embeddings, OPENAI, false, true, true, false},
    {"POST", "/embeddings", hearth_api_embedding, LLAMA, false, true, true, false},
    {"POST", "/embedding", hearth_api_embedding, LLAMA, false, true, true, false},
    {"POST", "/completion", hearth_api_completion, LLAMA, false, true, true, false},
    {"POST", "/completions", hearth_api_completion, LLAMA, false, true, true, false},
    {"POST", "/tokenize", hearth_api_tokenize, LLAMA, false, true, true, false},
    {"POST", "/detokenize", hearth_api_detokenize, LLAMA, false, true, true, false},
    {"POST", "/apply-template", hearth_api_apply_template, LLAMA, false, true, true, false},
    {"GET", "/props", hearth_api_props, LLAMA, false, true, false, false},
    {"GET", "/slots", hearth_api_slots, LLAMA, false, true, false, false},
    {"POST", "/slots/", hearth_api_slot_action, LLAMA, false, true, true, false},
    {"GET", "/lora-adapters", hearth_api_adapters, LLAMA, false, true, false, false},
    {"POST", "/lora-adapters", hearth_api_set_adapters, LLAMA, false, true, true, true},
    {"GET", "/metrics", hearth_api_metrics, LLAMA, false, true, false, false},
};

// What is asked for with HEAD is what GET gives, without its body.
static bool is_method(const char *wanted, const char *method)
{
    return !strcmp(wanted, method) || (!strcmp(wanted, "GET") && !strcmp(method, "HEAD"));
}

// A path that ends with a slash has something behind it.
static bool is_path(const char *wanted, const char *path)
{
    const size_t n = strlen(wanted);
    return n > 1 && wanted[n - 1] == '/' ? !strncmp(wanted, path, n) && path[n] : !strcmp(wanted, path);
}

const struct hearth_route *hearth_route_find(const char *path, const char *method)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (is_path(routes[i].path, path) && is_method(routes[i].method, method))
            return &routes[i];
    return NULL;
}

const char *hearth_route_instead(const char *path)
{
    static const char *const table[][2] = {{"/api/tags", "/v1/models"},
                                           {"/api/ps", "/v1/models"},
                                           {"/api/show", "/props"},
                                           {"/api/version", "/props"},
                                           {"/api/chat", "/v1/chat/completions"},
                                           {"/api/generate", "/v1/completions"},
                                           {"/api/embed", "/v1/embeddings"},
                                           {"/api/embeddings", "/v1/embeddings"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(path, table[i][0]))
            return table[i][1];
    return NULL;
}

void hearth_route_methods(const char *path, char *list, size_t size)
{
    *list = 0;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const size_t n = strlen(list);
        if (is_path(routes[i].path, path))
            snprintf(list + n, size - n, "%s, ",
                     strcmp(routes[i].method, "GET") ? routes[i].method : "GET, HEAD");
    }
    const size_t n = strlen(list);
    if (n)
        snprintf(list + n, size - n, "OPTIONS");
}

// Paths that begin alike are of one API.
enum hearth_api hearth_route_api(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (is_path(routes[i].path, path))
            return routes[i].api;
    return strncmp(path, "/v1/", 4) ? LLAMA : strncmp(path, "/v1/messages", 12) ? OPENAI : ANTHROPIC;
}
