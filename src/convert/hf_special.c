// SPDX-License-Identifier: MIT
// Special tokens: which they are, whether they are added to a text, and the chat template. The rules are
// those of llama.cpp's converter.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/os.h"
#include "convert/hf_vocab.h"

static const struct {
    const char *name, *key;
} specials[HEARTH_HF_SPECIALS] = {
    {"bos", "tokenizer.ggml.bos_token_id"},     {"eos", "tokenizer.ggml.eos_token_id"},
    {"unk", "tokenizer.ggml.unknown_token_id"}, {"sep", "tokenizer.ggml.seperator_token_id"},
    {"pad", "tokenizer.ggml.padding_token_id"}, {"mask", "tokenizer.ggml.mask_token_id"},
};

// ---- ids

// The text of a special token in tokenizer_config.json: a text, or an object with one.
static const json_t *text_of(const struct hearth_hf_vocab *v, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, "%s_token", name);
    const json_t *entry = json_object_get(v->config.root, key);
    if (json_is_object(entry))
        entry = json_object_get(entry, "content");
    return json_is_string(entry) ? entry : NULL;
}

// The id in config.json; of several, the first.
static int32_t id_of(const struct hearth_hf_vocab *v, const json_t *root, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, "%s_token_id", name);
    const json_t *id = json_object_get(root, key);
    if (json_is_array(id))
        id = json_array_get(id, 0);
    const json_int_t i = json_integer_value(id);
    return json_is_integer(id) && i >= 0 && i < (json_int_t)v->n ? (int32_t)i : -1;
}

static void find_ids(struct hearth_hf_vocab *v)
{
    for (int i = 0; i < HEARTH_HF_SPECIALS; i++) {
        const json_t *text = text_of(v, specials[i].name);
        v->ids[i] = text ? hearth_hf_vocab_find(v, hearth_json_bytes(text)) : -1;
        if (v->ids[i] < 0)
            v->ids[i] = id_of(v, v->m->config.root, specials[i].name);
        if (v->ids[i] < 0 && i < HEARTH_HF_UNK)
            v->ids[i] = id_of(v, v->generation.root, specials[i].name);
    }
}

// ---- what is added to a text

// The special token at one end of a template for one text; NULL: none.
static const json_t *end_of_template(const json_t *processor, bool last)
{
    const json_t *single = json_object_get(processor, "single");
    const size_t n = json_array_size(single);
    if (n < 2)
        return NULL;
    const json_t *id =
        json_object_get(json_object_get(json_array_get(single, last ? n - 1 : 0), "SpecialToken"), "id");
    return json_is_string(id) ? id : NULL;
}

static bool is_token(const struct hearth_hf_vocab *v, int which, const json_t *text)
{
    return v->ids[which] >= 0 && hearth_hf_vocab_find(v, hearth_json_bytes(text)) == v->ids[which];
}

static void read_template(struct hearth_hf_vocab *v, const json_t *processor)
{
    if (!hearth_json_is(json_object_get(processor, "type"), "TemplateProcessing"))
        return;
    const json_t *first = end_of_template(processor, false), *last = end_of_template(processor, true);
    if (first && v->ids[HEARTH_HF_BOS] < 0)
        v->ids[HEARTH_HF_BOS] = hearth_hf_vocab_find(v, hearth_json_bytes(first));
    if (first)
        v->add_bos = is_token(v, HEARTH_HF_BOS, first);
    if (last)
        v->add_eos = is_token(v, HEARTH_HF_EOS, last);
}

static int read_added(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    const json_t *processor = json_object_get(v->tokenizer.root, "post_processor");
    const json_t *list = json_object_get(processor, "processors");
    if (!json_is_array(list))
        read_template(v, processor);
    for (size_t i = 0; i < json_array_size(list); i++)
        read_template(v, json_array_get(list, i));
    const struct {
        const char *key;
        int *out;
    } flags[] = {{"add_bos_token", &v->add_bos},
                 {"add_eos_token", &v->add_eos},
                 {"add_prefix_space", &v->add_space_prefix}};
    int rc = HEARTH_OK;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && !rc; i++) {
        bool is = false;
        rc = hearth_json_bool(&v->config, v->config.root, flags[i].key, &is, err);
        if (json_is_boolean(json_object_get(v->config.root, flags[i].key)))
            *flags[i].out = is;
    }
    if (!strcmp(v->model, "gpt2")) // it is for SentencePiece alone
        v->add_space_prefix = -1;
    if (v->by_merges) {
        v->add_bos = 1; // whatever files say: such models want one
        v->add_space_prefix = 0;
    }
    // OPT's tokenizer is GPT-2's with a token before the text, which only its class says.
    if (!strcmp(v->m->family->arch, "opt") && v->add_bos < 0)
        v->add_bos = 1;
    return rc;
}

int hearth_hf_special_read(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    find_ids(v);
    for (int i = 0; v->from_lists && i < HEARTH_HF_SPECIALS; i++) // they have no types
        if (v->ids[i] >= 0 && i != HEARTH_HF_UNK && v->types[v->ids[i]] == HEARTH_TOKEN_NORMAL)
            v->types[v->ids[i]] = HEARTH_TOKEN_CONTROL;
    return read_added(v, err);
}

// ---- chat templates

struct put {
    struct hearth_gguf_writer *w;
    struct hearth_error *err;
};

static int put_template(const struct put *p, const char *key, const json_t *text)
{
    return hearth_gguf_put_str(p->w, key, json_string_value(text), json_string_length(text), p->err);
}

static bool is_there(const struct hearth_str *names, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(names[i].s, name))
            return true;
    return false;
}

// Templates by name: the default one, and others that are listed. Of those whose keys are the same the first one counts.
static int put_templates(const struct put *p, const json_t *list)
{
    enum { MAX_NAMES = 64 };
    struct hearth_str names[MAX_NAMES];
    char keys[MAX_NAMES][64];
    uint32_t n = 0;
    bool has_default = false;
    int rc = HEARTH_OK;
    for (size_t i = 0; i < json_array_size(list) && !rc; i++) {
        const json_t *entry = json_array_get(list, i), *text = json_object_get(entry, "template");
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!name || !*name || strlen(name) > 32 || !json_is_string(text))
            continue;
        if (!strcmp(name, "default")) {
            rc = has_default ? HEARTH_OK : put_template(p, "tokenizer.chat_template", text);
            has_default = true;
        } else if (n < MAX_NAMES) {
            const int prefix = snprintf(keys[n], sizeof keys[n], "tokenizer.chat_template.%s", name);
            for (char *c = keys[n] + prefix - strlen(name); *c; c++)
                if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", *c))
                    *c = '_';
            const char *plain = keys[n] + prefix - strlen(name);
            if (is_there(names, n, plain))
                continue;
            rc = put_template(p, keys[n], text);
            names[n++] = (struct hearth_str){plain, strlen(plain)};
        }
    }
    return rc || !n ? rc : hearth_gguf_put_strings(p->w, "tokenizer.chat_templates", names, n, p->err);
}

static int put_template_file(const struct hearth_hf_vocab *v, const struct put *p, struct hearth_file *f)
{
    const size_t n = (size_t)hearth_file_size(f);
    char *text = n <= (size_t)16 << 20 ? malloc(n + 1) : NULL;
    int rc = text ? hearth_file_read(f, text, n, 0, p->err)
                  : hearth_fail(p->err, HEARTH_E_FORMAT, "%s: chat_template.jinja is too long", v->m->folder);
    if (!rc)
        rc = hearth_gguf_put_str(p->w, "tokenizer.chat_template", text, n, p->err);
    free(text);
    return rc;
}

static int put_chat_template(const struct hearth_hf_vocab *v, const struct put *p)
{
    const json_t *template = json_object_get(v->config.root, "chat_template");
    char path[4200];
    struct hearth_file *f;
    if (json_is_string(template))
        return put_template(p, "tokenizer.chat_template", template);
    if (json_is_array(template))
        return put_templates(p, template);
    snprintf(path, sizeof path, "%s/chat_template.jinja", v->m->folder);
    if (hearth_file_exists(path)) {
        int rc = hearth_file_open(&f, path, p->err);
        if (!rc)
            rc = put_template_file(v, p, f);
        hearth_file_close(&f);
        return rc;
    }
    struct hearth_json_file file;
    int rc = hearth_json_file_open(&file, v->m->folder, "chat_template.json", false, p->err);
    template = json_object_get(file.root, "chat_template");
    if (!rc && json_is_string(template))
        rc = put_template(p, "tokenizer.chat_template", template);
    hearth_json_file_close(&file);
    return rc;
}

// ---- tokens around a gap in code

#define CODE_LLAMA_VOCAB 32016
#define CODE_LLAMA_EOT   32010

// Code Llama's tokens around a gap to fill have names and ids, but no file says so. As llama.cpp's converter, which knows
// these models by the size of their vocabulary.
static bool is_code_llama(const struct hearth_hf_vocab *v)
{
    return v->n == CODE_LLAMA_VOCAB && !strcmp(v->m->family->arch, "llama");
}

static int32_t code_llama_id(const struct hearth_hf_vocab *v, const char *name, int32_t usual)
{
    const json_t *text = text_of(v, name);
    int32_t id = text ? hearth_hf_vocab_find(v, hearth_json_bytes(text)) : -1;
    if (id < 0)
        id = id_of(v, v->m->config.root, name);
    return id < 0 ? usual : id;
}

static int put_code_llama(const struct hearth_hf_vocab *v, const struct put *p)
{
    static const struct {
        const char *name;
        int32_t id;
    } tokens[] = {{"prefix", 32007}, {"suffix", 32008}, {"middle", 32009}, {"eot", CODE_LLAMA_EOT}};
    int rc = HEARTH_OK;
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0] && is_code_llama(v) && !rc; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", tokens[i].name);
        rc = hearth_gguf_put_u32(p->w, key, (uint32_t)code_llama_id(v, tokens[i].name, tokens[i].id), p->err);
    }
    return rc;
}

// ---- other ends of a generation

// generation_config.json may name several tokens that end a text. Readers know most by their names; for two
// more, GGUF has keys.
static int put_more_ends(const struct hearth_hf_vocab *v, const struct put *p)
{
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    const struct hearth_vocab_spec spec = {.model = v->model,
                                           .pre = v->pre,
                                           .n_tokens = v->n,
                                           .tokens = v->tokens,
                                           .scores = v->scores,
                                           .types = v->types,
                                           .n_merges = v->n_merges,
                                           .merges = v->merges,
                                           .bos = v->ids[HEARTH_HF_BOS],
                                           .eos = v->ids[HEARTH_HF_EOS],
                                           .eot = is_code_llama(v) ? code_llama_id(v, "eot", CODE_LLAMA_EOT)
                                                                   : -1,
                                           .unk = v->ids[HEARTH_HF_UNK],
                                           .pad = -1};
    struct hearth_vocab *vocab;
    // This is the vocabulary that the file will have: what is wrong with it shows now.
    int rc = hearth_vocab_create(&vocab, &spec, v->m->folder, p->err);
    const json_t *ids = json_object_get(v->generation.root, "eos_token_id");
    size_t n = is_code_llama(v); // which has the first key already
    for (size_t i = 0; i < (json_is_array(ids) ? json_array_size(ids) : 1) && !rc; i++) {
        const json_t *id = json_is_array(ids) ? json_array_get(ids, i) : ids;
        const json_int_t t = json_integer_value(id);
        if (!json_is_integer(id) || t < 0 || t >= (json_int_t)v->n ||
            hearth_vocab_is_eog(vocab, (hearth_token)t))
            continue;
        if (n < sizeof keys / sizeof keys[0])
            rc = hearth_gguf_put_u32(p->w, keys[n++], (uint32_t)t, p->err);
        else
            hearth_log(HEARTH_LOG_WARNING, "%s: token %lld ends a text, too, which a GGUF cannot say",
                       v->generation.path, (long long)t);
    }
    hearth_vocab_close(&vocab);
    return rc;
}

// ---- writing

int hearth_hf_special_put(const struct hearth_hf_vocab *v, struct hearth_gguf_writer *w,
                          struct hearth_error *err)
{
    const struct put p = {w, err};
    const struct {
        const char *key;
        int value;
    } flags[] = {{"tokenizer.ggml.add_bos_token", v->add_bos},
                 {"tokenizer.ggml.add_eos_token", v->add_eos},
                 {"tokenizer.ggml.add_space_prefix", v->add_space_prefix}};
    int rc = HEARTH_OK;
    for (int i = 0; i < HEARTH_HF_SPECIALS && !rc; i++)
        if (v->ids[i] >= 0)
            rc = hearth_gguf_put_u32(w, specials[i].key, (uint32_t)v->ids[i], err);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && !rc; i++)
        if (flags[i].value >= 0)
            rc = hearth_gguf_put_bool(w, flags[i].key, flags[i].value, err);
    if (!rc)
        rc = put_chat_template(v, &p);
    if (!rc)
        rc = put_code_llama(v, &p);
    return rc ? rc : put_more_ends(v, &p);
}
