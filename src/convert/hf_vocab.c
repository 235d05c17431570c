// SPDX-License-Identifier: MIT
// A vocabulary while it is put together: its arrays, and texts that are made for it.
#include "convert/hf_vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

char *hearth_hf_vocab_take(struct hearth_hf_vocab *v, size_t n)
{
    if (v->n_made == v->cap_made) {
        const size_t cap = v->cap_made ? 2 * v->cap_made : 256;
        char **made = hearth_reallocarray(v->made, cap, sizeof *made);
        if (!made)
            return NULL;
        v->made = made;
        v->cap_made = cap;
    }
    char *s = malloc(n + 1);
    if (s)
        v->made[v->n_made++] = s;
    return s;
}

struct hearth_str hearth_hf_vocab_join(struct hearth_hf_vocab *v, struct hearth_str a, struct hearth_str b)
{
    char *s = hearth_hf_vocab_take(v, a.n + b.n);
    if (!s)
        return (struct hearth_str){NULL, 0};
    memcpy(s, a.s, a.n);
    memcpy(s + a.n, b.s, b.n);
    s[a.n + b.n] = '\0';
    return (struct hearth_str){s, a.n + b.n};
}

int hearth_hf_vocab_reserve(struct hearth_hf_vocab *v, bool scores, struct hearth_error *err)
{
    v->n = v->m->n_vocab;
    v->tokens = hearth_calloc(v->n, sizeof *v->tokens);
    v->types = hearth_calloc(v->n, sizeof *v->types);
    v->scores = scores ? hearth_calloc(v->n, sizeof *v->scores) : NULL;
    if (!v->tokens || !v->types || (scores && !v->scores))
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary", v->m->folder);
    for (uint32_t i = 0; i < v->n; i++) {
        v->types[i] = HEARTH_TOKEN_UNUSED;
        if (scores)
            v->scores[i] = -10000.0f;
    }
    return HEARTH_OK;
}

static bool ends(struct hearth_str s, const char *text)
{
    const size_t n = strlen(text);
    return s.n >= n && !memcmp(s.s + s.n - n, text, n);
}

// Some files say of control tokens that they are not special.
static bool looks_special(struct hearth_str s)
{
    return hearth_str_is(s, "<pad>") || hearth_str_is(s, "<mask>") || hearth_str_is(s, "<2mass>") ||
           hearth_str_is(s, "[@BOS@]") || (hearth_str_begins(s, "<|") && ends(s, "|>")) ||
           (hearth_str_begins(s, "<\xEF\xBD\x9C") && ends(s, "\xEF\xBD\x9C>")) ||
           (hearth_str_begins(s, "<unused") && ends(s, ">"));
}

// In tokens that people define, the mark for a space is a space.
static struct hearth_str with_spaces(struct hearth_hf_vocab *v, struct hearth_str s)
{
    static const char mark[] = "\xE2\x96\x81";
    const struct hearth_str made = hearth_hf_vocab_join(v, s, (struct hearth_str){"", 0});
    if (!made.s)
        return made;
    char *text = v->made[v->n_made - 1];
    size_t to = 0;
    for (size_t i = 0; i < s.n;) {
        const bool found = s.n - i >= 3 && !memcmp(s.s + i, mark, 3);
        text[to++] = found ? ' ' : s.s[i];
        i += found ? 3 : 1;
    }
    text[to] = '\0';
    return (struct hearth_str){text, to};
}

// Tokens that mark thoughts and calls in Gemma 4's answers. llama.cpp's converter makes them tokens that texts may
// have, so that they are there when answers are read.
static bool is_mark(const struct hearth_hf_vocab *v, struct hearth_str s)
{
    static const char *const marks[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                        "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                        "<|\"|>"};
    for (size_t i = 0; v->by_merges && i < sizeof marks / sizeof *marks; i++)
        if (hearth_str_is(s, marks[i]))
            return true;
    return false;
}

int hearth_hf_vocab_add(struct hearth_hf_vocab *v, const struct hearth_json_file *file, json_int_t id,
                        struct hearth_str text, bool special, float score, struct hearth_error *err)
{
    if (id < 0 || id >= (json_int_t)v->n) {
        hearth_log(HEARTH_LOG_WARNING, "%s: token %lld (%.*s) is left out: the model has %u tokens",
                   file->path, (long long)id, (int)(text.n > 40 ? 40 : text.n), text.s, v->n);
        return HEARTH_OK;
    }
    special = (special || looks_special(text)) && !is_mark(v, text);
    v->tokens[id] = special ? text : with_spaces(v, text);
    if (!v->tokens[id].s)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary", file->path);
    v->types[id] = special ? HEARTH_TOKEN_CONTROL : HEARTH_TOKEN_USER;
    if (v->scores)
        v->scores[id] = score;
    return HEARTH_OK;
}

static int add_listed(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    const char *text;
    json_t *id;
    int rc = HEARTH_OK;
    json_object_foreach(v->added.root, text, id)
    {
        if (!json_is_integer(id))
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: the id of \"%.80s\" is no number", v->added.path,
                               text);
        rc = hearth_hf_vocab_add(v, &v->added, json_integer_value(id),
                                 (struct hearth_str){text, strlen(text)}, false, HEARTH_HF_ADDED_SCORE, err);
        if (rc)
            break;
    }
    return rc;
}

static int add_decoder(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    const json_t *decoder = json_object_get(v->config.root, "added_tokens_decoder");
    const char *key;
    json_t *entry;
    int rc = HEARTH_OK;
    json_object_foreach((json_t *)decoder, key, entry)
    {
        const json_t *content = json_object_get(entry, "content");
        char *end;
        const long long id = strtoll(key, &end, 10);
        if (!json_is_string(content) || *end || end == key)
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"added_tokens_decoder\": \"%.80s\" is no token",
                               v->config.path, key);
        rc = hearth_hf_vocab_add(v, &v->config, id, hearth_json_bytes(content),
                                 json_is_true(json_object_get(entry, "special")), HEARTH_HF_ADDED_SCORE, err);
        if (rc)
            break;
    }
    return rc;
}

int hearth_hf_vocab_add_sides(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    const int rc = add_listed(v, err);
    return rc ? rc : add_decoder(v, err);
}

int32_t hearth_hf_vocab_find(const struct hearth_hf_vocab *v, struct hearth_str text)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->tokens[i].n == text.n && v->types[i] != HEARTH_TOKEN_UNUSED && text.n &&
            !memcmp(v->tokens[i].s, text.s, text.n))
            return (int32_t)i;
    return -1;
}

void hearth_hf_vocab_free(struct hearth_hf_vocab *v)
{
    hearth_json_file_close(&v->tokenizer);
    hearth_json_file_close(&v->config);
    hearth_json_file_close(&v->added);
    hearth_json_file_close(&v->generation);
    hearth_sentencepiece_close(&v->spm);
    for (size_t i = 0; i < v->n_made; i++)
        free(v->made[i]);
    free(v->made);
    free(v->tokens);
    free(v->scores);
    free(v->types);
    free(v->merges);
}
