// SPDX-License-Identifier: MIT
// Embeddings, as OpenAI and as llama.cpp's server have them. Answers are written piece by piece: as JSON values,
// some thousand texts would take a hundred times the memory of their numbers.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/adapters.h"
#include "serve/api.h"
#include "serve/fields.h"
#include "serve/prompts.h"

#define MOST_NORM 1000

// ---- answers

static void put_string(struct hearth_out *out, const char *text)
{
    json_t *value = json_string(text);
    if (!value || json_dump_callback(value, hearth_out_take, out, JSON_ENCODE_ANY))
        out->failed = true;
    json_decref(value);
}

static void put_numbers(struct hearth_out *out, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        if (isfinite(x[i]))
            hearth_out_printf(out, "%c%.9g", i ? ',' : '[', (double)x[i]);
        else
            hearth_out_printf(out, "%cnull", i ? ',' : '[');
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
static void write_list(struct hearth_exchange *x)
{
    struct hearth_out *out = &x->out;
    const int tokens = hearth_exchange_stats(x).n_prompt;
    hearth_out_text(out, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < x->task->n_jobs; i++) {
        float *row = x->task->jobs[i].pooler.out;
        hearth_embedding_normalize(row, x->dimensions, x->norm);
        hearth_out_printf(out, "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":", i ? "," : "", i);
        (x->base64 ? put_base64 : put_numbers)(out, row, x->dimensions);
        hearth_out_text(out, x->base64 ? ",\"encoding_format\":\"base64\"}" : "}");
    }
    hearth_out_text(out, "],\"model\":");
    put_string(out, x->server->params->name);
    hearth_out_printf(out, ",\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d}}", tokens, tokens);
}

// llama.cpp's: of each text a list of embeddings, which has one, or without pooling one a token.
static void write_lists(struct hearth_exchange *x)
{
    struct hearth_out *out = &x->out;
    for (int i = 0; i < x->task->n_jobs; i++) {
        const struct hearth_pooler *p = &x->task->jobs[i].pooler;
        const int rows = p->pooling == HEARTH_POOLING_NONE ? p->n : 1;
        hearth_out_printf(out, "%s{\"index\":%d,\"embedding\":[", i ? "," : "[", i);
        for (int k = 0; k < rows; k++) {
            float *row = p->out + (size_t)k * (size_t)p->n_embd;
            hearth_embedding_normalize(row, p->n_embd, x->norm);
            hearth_out_text(out, k ? "," : "");
            put_numbers(out, row, p->n_embd);
        }
        hearth_out_text(out, "]}");
    }
    hearth_out_text(out, "]");
}

static const struct hearth_format list = {.write = write_list}, lists = {.write = write_lists};

// ---- requests

static bool fill_job(struct hearth_exchange *x, struct hearth_job *job, struct hearth_prompt *prompt)
{
    const struct hearth_served *served = &x->server->served;
    const int room = hearth_scheduler_room(x->server->scheduler);
    const size_t width = (size_t)hearth_model_info(served->model)->n_embd;
    const size_t rows = served->pooling == HEARTH_POOLING_NONE ? (size_t)prompt->n : 1;
    if (prompt->n < 1 || prompt->n > room) {
        hearth_exchange_error(x, 400, "input",
                              prompt->n < 1 ? "input: text %d is empty"
                                            : "input: text %d has %d tokens and the context %d",
                              job->index, prompt->n, room);
        return false;
    }
    job->tokens = prompt->tokens;
    job->n_tokens = job->n_prompt = job->cap = prompt->n;
    job->n_predict = 0;
    prompt->tokens = NULL;
    job->pooler = (struct hearth_pooler){.pooling = served->pooling,
                                         .n_embd = (int)width,
                                         .n = job->n_prompt,
                                         .sum = hearth_calloc(width, sizeof *job->pooler.sum),
                                         .out = hearth_calloc(rows * width, sizeof *job->pooler.out)};
    if (job->pooler.sum && job->pooler.out)
        return true;
    hearth_exchange_error(x, 500, NULL, "out of memory");
    return false;
}

static void embed(struct hearth_exchange *x, const struct hearth_prompt_list *texts,
                  const struct hearth_format *format)
{
    struct hearth_task *task = hearth_task_open(texts->n);
    bool ok = task != NULL;
    if (!ok)
        hearth_exchange_error(x, 500, NULL, "out of memory");
    ok = ok && hearth_request_adapters(x);
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
