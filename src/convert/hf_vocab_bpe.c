// SPDX-License-Identifier: MIT
// A vocabulary from tokenizer.json, or from vocab.json and merges.txt. BPE comes in two kinds: over bytes
// written as letters ("gpt2" in GGUF), and over characters with bytes as a last resort, as SentencePiece has
// it ("llama").
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "convert/hf_vocab.h"

#define SPACE_MARK "\xE2\x96\x81" // U+2581, which stands for a space
#define MAX_BYTES  ((uint64_t)256 << 20)

static int unsupported(const struct hearth_hf_vocab *v, const char *key, const char *what,
                       struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"%s\": %s", v->tokenizer.path, key, what);
}

static int no_memory(const struct hearth_hf_vocab *v, struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary", v->m->folder);
}

// ---- tokens and merges

static int take_tokens(struct hearth_hf_vocab *v, const struct hearth_json_file *file, const json_t *vocab,
                       struct hearth_error *err)
{
    const char *text;
    json_t *id;
    json_object_foreach((json_t *)vocab, text, id)
    {
        const json_int_t i = json_integer_value(id);
        if (!json_is_integer(id) || i < 0 || i >= (json_int_t)v->n)
            return hearth_fail(
                err, HEARTH_E_FORMAT,
                "%s: the id of token \"%.80s\" is not below %u, the \"vocab_size\" of config.json",
                file->path, text, v->n);
        if (v->types[i] != HEARTH_TOKEN_UNUSED)
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: two tokens have the id %lld", file->path,
                               (long long)i);
        v->tokens[i] = (struct hearth_str){text, strlen(text)};
        v->types[i] = HEARTH_TOKEN_NORMAL;
    }
    return HEARTH_OK;
}

// Merges are "left right"; a space within a part is written as byte-level vocabularies write it.
static bool encode_spaces(struct hearth_hf_vocab *v, struct hearth_str *part)
{
    size_t spaces = 0, to = 0;
    for (size_t i = 0; i < part->n; i++)
        spaces += part->s[i] == ' ';
    char *text = spaces ? hearth_hf_vocab_take(v, part->n + spaces) : NULL;
    if (!text)
        return !spaces;
    for (size_t i = 0; i < part->n; i++) {
        if (part->s[i] == ' ')
            text[to++] = '\xC4';
        text[to++] = part->s[i] == ' ' ? '\xA0' : part->s[i];
    }
    text[to] = '\0';
    *part = (struct hearth_str){text, to};
    return true;
}

static int take_merge(struct hearth_hf_vocab *v, const json_t *merge, struct hearth_str *out,
                      struct hearth_error *err)
{
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_is_string(merge)) {
        *out = hearth_json_bytes(merge);
        return HEARTH_OK;
    }
    if (json_array_size(merge) != 2 || !json_is_string(left) || !json_is_string(right))
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"merges\": pairs of texts were expected",
                           v->tokenizer.path);
    struct hearth_str a = hearth_json_bytes(left), b = hearth_json_bytes(right);
    if (!encode_spaces(v, &a) || !encode_spaces(v, &b))
        return no_memory(v, err);
    const struct hearth_str first = hearth_hf_vocab_join(v, a, (struct hearth_str){" ", 1});
    *out = first.s ? hearth_hf_vocab_join(v, first, b) : first;
    return out->s ? HEARTH_OK : no_memory(v, err);
}

static int take_merges(struct hearth_hf_vocab *v, const json_t *merges, struct hearth_error *err)
{
    const size_t n = json_array_size(merges);
    if (!json_is_array(merges) || n > INT32_MAX)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"merges\" is missing", v->tokenizer.path);
    v->merges = hearth_calloc(n + 1, sizeof *v->merges);
    if (!v->merges)
        return no_memory(v, err);
    int rc = HEARTH_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = take_merge(v, json_array_get(merges, i), &v->merges[i], err);
    v->n_merges = (uint32_t)n;
    return rc;
}

static int take_added(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    const json_t *added = json_object_get(v->tokenizer.root, "added_tokens");
    int rc = HEARTH_OK;
    for (size_t i = 0; i < json_array_size(added) && !rc; i++) {
        const json_t *entry = json_array_get(added, i), *content = json_object_get(entry, "content");
        const json_t *id = json_object_get(entry, "id");
        if (!json_is_integer(id) || !json_is_string(content))
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"added_tokens\" has an entry without id or text",
                               v->tokenizer.path);
        rc = hearth_hf_vocab_add(v, &v->tokenizer, json_integer_value(id), hearth_json_bytes(content),
                                 json_is_true(json_object_get(entry, "special")), HEARTH_HF_ADDED_SCORE, err);
    }
    return rc;
}

// ---- settings

static bool is_set(const json_t *value)
{
    return value && !json_is_null(value) && !hearth_json_is(value, "");
}

// Steps that bring characters into one form (NFC) are left out by all programs that read GGUFs.
static bool is_plain_normalizer(const json_t *n)
{
    const json_t *list = json_object_get(n, "normalizers");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!is_plain_normalizer(json_array_get(list, i)))
            return false;
    return !is_set(n) || json_is_array(list) || hearth_json_is(json_object_get(n, "type"), "NFC");
}

static int check_model(const struct hearth_hf_vocab *v, const json_t *model, struct hearth_error *err)
{
    const char *type = "one without a name";
    int rc = hearth_json_str(&v->tokenizer, model, "type", false, &type, err);
    if (!rc && strcmp(type, "BPE") != 0 && !json_is_array(json_object_get(model, "merges")))
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: a tokenizer of type %.40s is not supported: BPE is",
                         v->tokenizer.path, type);
    if (!rc && (is_set(json_object_get(model, "continuing_subword_prefix")) ||
                is_set(json_object_get(model, "end_of_word_suffix"))))
        rc = unsupported(v, "model", "BPE with prefixes or suffixes of words is not supported", err);
    if (!rc && !json_is_object(json_object_get(model, "vocab")))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: \"vocab\" is missing", v->tokenizer.path);
    return rc;
}

// ---- BPE with bytes as a last resort

// Whether texts are cut behind spaces, of which none are left when marks have replaced them.
static bool is_idle_split(const json_t *pre)
{
    const json_t *pattern = json_object_get(pre, "pattern");
    return hearth_json_is(json_object_get(pre, "type"), "Split") &&
           hearth_json_is(json_object_get(pattern, "String"), " ") &&
           hearth_json_is(json_object_get(pre, "behavior"), "MergedWithPrevious");
}

// Whether a space is put before a text: -1, the file does not say; -2, it cuts texts in a way that is not
// known.
static int space_prefix(const json_t *root)
{
    const json_t *pre = json_object_get(root, "pre_tokenizer"),
                 *normalizer = json_object_get(root, "normalizer");
    const json_t *list = json_object_get(normalizer, "normalizers"), *prepend = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *step = json_array_get(list, i), *type = json_object_get(step, "type");
        if (hearth_json_is(type, "Prepend"))
            prepend = json_object_get(step, "prepend");
        else if (!hearth_json_is(type, "Replace"))
            return -2;
    }
    if (!json_is_array(list) && is_set(normalizer) &&
        !hearth_json_is(json_object_get(normalizer, "type"), "Replace"))
        return -2;
    if (!is_set(pre) || (is_idle_split(pre) && is_set(normalizer)))
        return prepend ? hearth_json_is(prepend, SPACE_MARK) : json_is_array(list) ? 0 : -1;
    if (!hearth_json_is(json_object_get(pre, "type"), "Metaspace"))
        return -2;
    const json_t *scheme = json_object_get(pre, "prepend_scheme");
    return json_is_string(scheme) ? !hearth_json_is(scheme, "never")
                                  : !json_is_false(json_object_get(pre, "add_prefix_space"));
}

// GGUF has no merges here: pieces are merged in the order of their scores. A token is as good as the first
// merge that makes it, which gives the same order. (llama.cpp's converter gives all tokens one score, and
// other ids.)
static int score_by_merges(struct hearth_hf_vocab *v, const json_t *vocab, struct hearth_error *err)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->types[i] == HEARTH_TOKEN_NORMAL)
            v->scores[i] = -(float)v->n_merges - 1;
    for (uint32_t i = v->n_merges; i-- > 0;) {
        const struct hearth_str m = v->merges[i];
        const char *space = memchr(m.s, ' ', m.n);
        if (!space)
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"merges\": pairs of texts were expected",
                               v->tokenizer.path);
        const size_t left = (size_t)(space - m.s);
        char whole[1024];
        if (m.n > sizeof whole)
            continue;
        memcpy(whole, m.s, left);
        memcpy(whole + left, space + 1, m.n - left - 1);
        const json_t *id = json_object_getn(vocab, whole, m.n - 1);
        if (id)
            v->scores[json_integer_value(id)] = -(float)i;
    }
    return HEARTH_OK;
}

static bool is(struct hearth_str a, struct hearth_str b)
{
    return a.n == b.n && !memcmp(a.s, b.s, a.n);
}

static bool is_byte_name(struct hearth_str s)
{
    return s.n == 6 && !memcmp(s.s, "<0x", 3) && s.s[5] == '>' && strchr("0123456789ABCDEFabcdef", s.s[3]) &&
           strchr("0123456789ABCDEFabcdef", s.s[4]);
}

static int read_characters(struct hearth_hf_vocab *v, const json_t *model, struct hearth_error *err)
{
    const int prefix = space_prefix(v->tokenizer.root);
    if (prefix == -2)
        return unsupported(v, "normalizer",
                           "this way to prepare texts for BPE over characters is not supported", err);
    v->by_merges = !strcmp(v->m->family->arch, "gemma4");
    v->model = v->by_merges ? "gemma4" : "llama";
    v->pre = v->by_merges ? NULL : "default";
    v->add_space_prefix = v->by_merges ? 0 : prefix;
    if (v->by_merges && prefix == 1)
        return unsupported(v, "normalizer", "a space before texts is not supported in this family", err);
    int rc = hearth_hf_vocab_reserve(v, true, err);
    if (!rc)
        rc = take_tokens(v, &v->tokenizer, json_object_get(model, "vocab"), err);
    if (!rc)
        rc = take_merges(v, json_object_get(model, "merges"), err);
    if (!rc && !v->by_merges)
        rc = score_by_merges(v, json_object_get(model, "vocab"), err);
    for (uint32_t i = 0; i < v->n && v->by_merges && !rc; i++)
        if (v->types[i] != HEARTH_TOKEN_UNUSED)
            v->scores[i] = HEARTH_HF_ADDED_SCORE; // which nothing reads
    if (!rc)
        rc = take_added(v, err);
    const json_t *unknown = json_object_get(model, "unk_token");
    for (uint32_t i = 0; i < v->n && !rc; i++) {
        if (is_byte_name(v->tokens[i]))
            v->types[i] = HEARTH_TOKEN_BYTE;
        else if (json_is_string(unknown) && is(v->tokens[i], hearth_json_bytes(unknown)))
            v->types[i] = HEARTH_TOKEN_UNKNOWN;
    }
    if (v->by_merges)
        return rc;
    free(v->merges);
    v->merges = NULL;
    v->n_merges = 0;
    return rc;
}

// ---- byte-level BPE

static int read_bytes(struct hearth_hf_vocab *v, const json_t *model, struct hearth_error *err)
{
    if (!is_plain_normalizer(json_object_get(v->tokenizer.root, "normalizer")))
        return unsupported(v, "normalizer", "texts that are changed before they are cut are not supported",
                           err);
    v->model = "gpt2";
    int rc = hearth_hf_pretok_name(&v->pre, &v->tokenizer,
                                   json_is_true(json_object_get(model, "ignore_merges")), err);
    if (!rc)
        rc = hearth_hf_vocab_reserve(v, false, err);
    if (!rc)
        rc = take_tokens(v, &v->tokenizer, json_object_get(model, "vocab"), err);
    if (!rc)
        rc = take_merges(v, json_object_get(model, "merges"), err);
    return rc ? rc : take_added(v, err);
}

int hearth_hf_vocab_from_json(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    const json_t *model = json_object_get(v->tokenizer.root, "model");
    const int rc = check_model(v, model, err);
    if (rc)
        return rc;
    return json_is_true(json_object_get(model, "byte_fallback")) ? read_characters(v, model, err)
                                                                 : read_bytes(v, model, err);
}

// ---- vocab.json and merges.txt

static int count_lines(const char *text, size_t n)
{
    int lines = 1;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

// Lines of two parts with a space between; the first line may be a comment.
static int parse_merges(struct hearth_hf_vocab *v, const char *path, const char *text, size_t n,
                        struct hearth_error *err)
{
    v->merges = hearth_calloc((size_t)count_lines(text, n), sizeof *v->merges);
    if (!v->merges)
        return no_memory(v, err);
    for (size_t at = 0; at < n;) {
        const char *line = text + at, *end = memchr(line, '\n', n - at);
        size_t length = end ? (size_t)(end - line) : n - at;
        at += length + 1;
        if (length && line[length - 1] == '\r')
            length--;
        if (!length || (line == text && *line == '#'))
            continue;
        const char *space = memchr(line, ' ', length);
        if (!space || space == line || space == line + length - 1 ||
            memchr(space + 1, ' ', length - (size_t)(space - line) - 1))
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: line %u has no two parts", path, v->n_merges + 2);
        v->merges[v->n_merges++] = (struct hearth_str){line, length};
    }
    return HEARTH_OK;
}

static int read_merges(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/merges.txt", v->m->folder);
    struct hearth_file *f;
    int rc = hearth_file_open(&f, path, err);
    if (rc)
        return rc;
    const uint64_t n = hearth_file_size(f);
    const struct hearth_str none = {"", 0};
    char *text = n <= MAX_BYTES ? malloc((size_t)n + 1) : NULL;
    if (!text)
        rc = hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the file", path);
    if (!rc)
        rc = hearth_file_read(f, text, (size_t)n, 0, err);
    const struct hearth_str kept =
        rc ? none : hearth_hf_vocab_join(v, (struct hearth_str){text, (size_t)n}, none);
    if (!rc && !kept.s)
        rc = no_memory(v, err);
    if (!rc)
        rc = parse_merges(v, path, kept.s, kept.n, err);
    free(text);
    hearth_file_close(&f);
    return rc;
}

int hearth_hf_vocab_from_lists(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    const char *arch = v->m->family->arch;
    v->pre = !strcmp(arch, "opt") ? "gpt-2" : !strncmp(arch, "qwen", 4) ? "qwen2" : NULL;
    if (!v->pre)
        return hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: vocab.json and merges.txt do not say how texts are cut into words; tokenizer.json does",
            v->m->folder);
    v->model = "gpt2";
    v->from_lists = true;
    int rc = hearth_json_file_open(&v->tokenizer, v->m->folder, "vocab.json", true, err);
    if (!rc)
        rc = hearth_hf_vocab_reserve(v, false, err);
    if (!rc)
        rc = take_tokens(v, &v->tokenizer, v->tokenizer.root, err);
    if (!rc)
        rc = hearth_hf_vocab_add_sides(v, err);
    return rc ? rc : read_merges(v, err);
}
