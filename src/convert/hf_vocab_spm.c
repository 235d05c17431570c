// SPDX-License-Identifier: MIT
// A vocabulary from tokenizer.model, and what other files add to it.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "convert/hf_vocab.h"

// What llama.cpp's converter gives to tokens that SentencePiece does not know.
#define ADDED_SCORE (-1000.0f)

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
                                 (struct hearth_str){text, strlen(text)}, false, ADDED_SCORE, err);
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
                                 json_is_true(json_object_get(entry, "special")), ADDED_SCORE, err);
        if (rc)
            break;
    }
    return rc;
}

int hearth_hf_vocab_from_spm(struct hearth_hf_vocab *v, const char *path, struct hearth_error *err)
{
    const struct hearth_sentencepiece *s = &v->spm;
    v->model = "llama";
    v->pre = "default";
    int rc = hearth_hf_vocab_reserve(v, true, err);
    if (rc)
        return rc;
    if (s->changes_text)
        hearth_log(
            HEARTH_LOG_WARNING,
            "%s: its rules for changing a text first (such as NFKC) have no place in a GGUF: texts with unusual "
            "characters may get other ids",
            path);
    if (s->n > v->n)
        hearth_log(HEARTH_LOG_WARNING, "%s: %u tokens, but the model has only %u: the last ones are left out",
                   path, s->n, v->n);
    const uint32_t n = s->n < v->n ? s->n : v->n;
    memcpy(v->tokens, s->pieces, n * sizeof *v->tokens);
    memcpy(v->scores, s->scores, n * sizeof *v->scores);
    memcpy(v->types, s->types, n * sizeof *v->types);
    if (!s->add_dummy_prefix)
        v->add_space_prefix = 0;
    rc = add_listed(v, err);
    return rc ? rc : add_decoder(v, err);
}
