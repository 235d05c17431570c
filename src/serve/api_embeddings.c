// SPDX-License-Identifier: MIT
// Embeddings, as OpenAI and as llama.cpp's server have them. Answers are written while they are sent: as JSON
// values, some thousand texts would take a hundred times the memory of their numbers, and as text ten times.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/adapters.h"
#include "serve/api.h"
#include "serve/fields.h"
#include "serve/prompts.h"

#define MOST_NORM 1000
// Of one answer's numbers.
#define MOST_BYTES (256u << 20)

// ---- answers

static void put_numbers(struct hearth_out *out, const float *x, int n)
{
    char number[32];
    for (int i = 0; i < n; i++) {
        snprintf(number, sizeof number, isfinite(x[i]) ? "%c%.9g" : "%cnull", i ? ',' : '[', (double)x[i]);
        hearth_out_text(out, number);
    }
    hearth_out_text(out, "]");
}

// The bytes of the numbers, little-endian, in base 64.
static void put_base64(struct hearth_out *out, const float *x, int n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, bytes = 0;
    hearth_out_text(out, "\"");
    for (int i = 0; i < 4 * n; i++) {
        uint32_t word;
        memcpy(&word, &x[i / 4], sizeof word);
        bits = bits << 8 | (word >> 8 * (i % 4) & 0xff);
        if (++bytes < 3 && i + 1 < 4 * n)
            continue;
        char group[4] = {'=', '=', '=', '='};
        for (uint32_t k = 0; k <= bytes; k++)
            group[k] = digits[bits << 8 * (3 - bytes) >> (18 - 6 * k) & 63];
        hearth_out_add(out, group, sizeof group);
        bits = bytes = 0;
    }
    hearth_out_text(out, "\"");
}

// OpenAI's: of each text one embedding, that the request may have made shorter.
static bool write_embedding(struct hearth_exchange *x)
{
    struct hearth_out *out = &x->out;
    const int i = x->n_items++;
    float *row = x->task->jobs[i].pooler.out;
    hearth_out_text(out, i ? "," : "{\"object\":\"list\",\"data\":[");
    hearth_embedding_normalize(row, x->dimensions, x->norm);
    hearth_out_printf(out, "{\"object\":\"embedding\",\"index\":%d,\"embedding\":", i);
    (x->base64 ? put_base64 : put_numbers)(out, row, x->dimensions);
    hearth_out_text(out, x->base64 ? ",\"encoding_format\":\"base64\"}" : "}");
    if (i + 1 < x->task->n_jobs)
        return true;
    const int tokens = hearth_exchange_stats(x).n_prompt;
    hearth_out_text(out, "],\"model\":");
    hearth_out_json(out, json_string(x->server->params->name));
    hearth_out_printf(out, ",\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d}}", tokens, tokens);
    return false;
}

// llama.cpp's: of each text a list of embeddings, which has one, or without pooling one a token.
static bool write_row(struct hearth_exchange *x)
{
    struct hearth_out *out = &x->out;
    const int i = x->n_items, k = x->n_rows++;
    const struct hearth_pooler *p = &x->task->jobs[i].pooler;
    const int rows = p->pooling == HEARTH_POOLING_NONE ? p->n : 1;
    float *row = p->out + (size_t)k * (size_t)p->n_embd;
    if (!k)
        hearth_out_printf(out, "%s{\"index\":%d,\"embedding\":[", i ? "," : "[", i);
    hearth_embedding_normalize(row, p->n_embd, x->norm);
    hearth_out_text(out, k ? "," : "");
    put_numbers(out, row, p->n_embd);
    if (x->n_rows < rows)
        return true;
    x->n_items++;
    x->n_rows = 0;
    const bool last = x->n_items == x->task->n_jobs;
    hearth_out_text(out, last ? "]}]" : "]}");
    return !last;
}

static const struct hearth_format list = {.more = write_embedding}, lists = {.more = write_row};

// ---- requests

static bool fill_job(struct hearth_exchange *x, struct hearth_job *job, struct hearth_prompt *prompt)
{
    const struct hearth_served *served = &x->server->served;
    const int room = hearth_scheduler_room(x->server->scheduler);
    const size_t width = (size_t)hearth_model_info(served->model)->n_embd;
    const size_t rows = served->pooling == HEARTH_POOLING_NONE ? (size_t)prompt->n : 1;
    if (prompt->n < 1 || prompt->n > room) {
        char what[32];
        snprintf(what, sizeof what, "text %d", job->index);
        if (prompt->n < 1)
            hearth_exchange_error(x, 400, "input", "input: %s is empty", what);
        else
            hearth_exchange_too_long(x, "input", what, (size_t)prompt->n, true, room);
        return false;
    }
    job->tokens = prompt->tokens;
    job->n_tokens = job->n_prompt = job->cap = prompt->n;
    job->n_predict = 0;
    prompt->tokens = NULL;
    job->pooler = (struct hearth_pooler){.pooling = served->pooling,
                                         .n_embd = (int)width,
                                         .n = job->n_prompt,
                                         .out = hearth_calloc(rows * width, sizeof *job->pooler.out)};
    if (job->pooler.out)
        return true;
    hearth_exchange_error(x, 500, NULL, "out of memory");
    return false;
}

// Without pooling each token has an embedding of its own.
static bool are_few(struct hearth_exchange *x, const struct hearth_prompt_list *texts)
{
    const struct hearth_served *served = &x->server->served;
    const size_t most = MOST_BYTES / sizeof(float) / (size_t)hearth_model_info(served->model)->n_embd;
    size_t rows = 0;
    for (int i = 0; i < texts->n; i++)
        rows += served->pooling == HEARTH_POOLING_NONE ? (size_t)texts->items[i].n : 1;
    if (rows > most)
        hearth_exchange_error(x, 400, "input", "input: %zu embeddings at once are too many, at most %zu",
                              rows, most);
    return rows <= most;
}

static void embed(struct hearth_exchange *x, const struct hearth_prompt_list *texts,
                  const struct hearth_format *format)
{
    struct hearth_task *task = hearth_task_open(texts->n);
    bool ok = task != NULL;
    if (!ok)
        hearth_exchange_error(x, 500, NULL, "out of memory");
    ok = ok && are_few(x, texts) && hearth_request_adapters(x);
    for (int i = 0; i < texts->n && ok; i++)
        ok = fill_job(x, &task->jobs[i], &texts->items[i]);
    if (!ok) {
        hearth_task_drop(task);
        return;
    }
    task->one_by_one = true;
    hearth_exchange_generate(x, task, format, false);
}

static bool take_fields(struct hearth_exchange *x, bool cuts)
{
    const int width = hearth_model_info(x->server->served.model)->n_embd;
    const json_t *encoding = hearth_request_field(x, "encoding_format");
    const char *name = encoding ? json_string_value(encoding) : "float";
    int64_t norm = 2, dimensions = width;
    if (!name || (strcmp(name, "float") != 0 && strcmp(name, "base64") != 0)) {
        hearth_exchange_error(x, 400, "encoding_format", "encoding_format: float or base64 is wanted");
        return false;
    }
    if (!hearth_request_int(x, "embd_normalize", -1, MOST_NORM, &norm) ||
        (cuts && !hearth_request_int(x, "dimensions", 1, width, &dimensions)))
        return false;
    x->base64 = !strcmp(name, "base64");
    x->norm = (int)norm;
    x->dimensions = (int)dimensions;
    return true;
}

void hearth_api_embeddings(struct hearth_exchange *x)
{
    struct hearth_prompt_list texts = {0};
    if (x->server->served.pooling == HEARTH_POOLING_NONE)
        hearth_exchange_error(x, 400, NULL,
                              "this server does not pool (--pooling none); /embeddings gives each token's");
    else if (take_fields(x, true) && hearth_prompt_read(x, "input", &texts))
        embed(x, &texts, &list);
    hearth_prompt_list_free(&texts);
}

void hearth_api_embedding(struct hearth_exchange *x)
{
    struct hearth_prompt_list texts = {0};
    const char *name = hearth_request_field(x, "input") ? "input" : "content";
    if (take_fields(x, false) && hearth_prompt_read(x, name, &texts))
        embed(x, &texts, &lists);
    hearth_prompt_list_free(&texts);
}
