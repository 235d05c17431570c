// SPDX-License-Identifier: MIT
// A vocabulary from tiktoken.model, as Kimi's models have it: a line for each token, its bytes in base64 and its rank. A
// GGUF wants merges: a token's is of the two parts that lower ranks make of it. Source: tokenization_kimi.py of these
// checkpoints.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "convert/hf_vocab.h"

#define MAX_FILE  ((uint64_t)256 << 20)
#define MAX_TOKEN 4096 // bytes
#define RESERVED  256  // special tokens behind the others, where files name no more
#define NONE      UINT32_MAX

struct ranks {
    struct hearth_hf_vocab *v;
    const char *path;
    char *bytes; // of all tokens, which stand in the file's own place
    struct hearth_str *tokens;
    uint32_t n;
    uint32_t *table; // of ranks by bytes; NONE: free
    size_t mask;
    struct hearth_error *err;
};

static int no_memory(const struct ranks *r)
{
    return hearth_fail(r->err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary", r->path);
}

// ---- ranks by bytes

static size_t place_of(const struct ranks *r, const char *s, size_t n)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)s[i]) * 1099511628211u;
    size_t at = (size_t)(hash ^ hash >> 29) & r->mask;
    while (r->table[at] != NONE &&
           !(r->tokens[r->table[at]].n == n && !memcmp(r->tokens[r->table[at]].s, s, n)))
        at = (at + 1) & r->mask;
    return at;
}

static int index_tokens(struct ranks *r)
{
    size_t size = 1024;
    while (size < 2 * (size_t)r->n)
        size *= 2;
    r->mask = size - 1;
    r->table = hearth_calloc(size, sizeof *r->table);
    if (!r->table)
        return no_memory(r);
    memset(r->table, 0xff, size * sizeof *r->table);
    for (uint32_t i = 0; i < r->n; i++) {
        if (!r->tokens[i].s)
            return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: rank %u is missing: the file is damaged",
                               r->path, i);
        const size_t at = place_of(r, r->tokens[i].s, r->tokens[i].n);
        if (r->table[at] != NONE)
            return hearth_fail(r->err, HEARTH_E_FORMAT,
                               "%s: ranks %u and %u are one token: the file is damaged", r->path,
                               r->table[at], i);
        r->table[at] = i;
    }
    return HEARTH_OK;
}

// ---- the file

static int digit_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

// Decodes base64 in its own place. The number of bytes; 0: it is none.
static size_t decode(char *text, size_t n)
{
    size_t to = 0;
    uint32_t bits = 0;
    while (n && text[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++) {
        const int digit = digit_of(text[i]);
        if (digit < 0)
            return 0;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4)
            text[to++] = (char)(bits >> (6 - 2 * (i % 4)) & 255);
    }
    return n % 4 == 1 ? 0 : to;
}

static int parse_line(struct ranks *r, char *line, size_t n, uint32_t number)
{
    char *space = memchr(line, ' ', n), *end;
    const size_t bytes = space ? decode(line, (size_t)(space - line)) : 0;
    const unsigned long rank = space ? strtoul(space + 1, &end, 10) : 0;
    if (!bytes || bytes > MAX_TOKEN || space[1] < '0' || space[1] > '9' || end != line + n || rank >= r->v->n)
        return hearth_fail(r->err, HEARTH_E_FORMAT,
                           "%s: line %u is no token in base64 and a rank below %u, the number of tokens that "
                           "config.json says",
                           r->path, number, r->v->n);
    if (r->tokens[rank].s)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: rank %lu is there twice: the file is damaged",
                           r->path, rank);
    r->tokens[rank] = (struct hearth_str){line, bytes};
    r->n = r->n > rank ? r->n : (uint32_t)rank + 1;
    return HEARTH_OK;
}

static int read_lines(struct ranks *r)
{
    struct hearth_file *f;
    int rc = hearth_file_open(&f, r->path, r->err);
    if (rc)
        return rc;
    const uint64_t n = hearth_file_size(f);
    r->bytes = n <= MAX_FILE ? malloc((size_t)n + 1) : NULL;
    r->tokens = hearth_calloc(r->v->n, sizeof *r->tokens);
    rc = r->bytes && r->tokens ? hearth_file_read(f, r->bytes, (size_t)n, 0, r->err) : no_memory(r);
    hearth_file_close(&f);
    uint32_t number = 0;
    for (size_t at = 0; at < n && !rc;) {
        char *line = r->bytes + at, *end = memchr(line, '\n', (size_t)n - at);
        const size_t length = end ? (size_t)(end - line) : (size_t)n - at;
        line[length] = '\0'; // where the line ended, or behind the file
        number++;
        at += length + 1;
        const size_t whole = length && line[length - 1] == '\r' ? length - 1 : length;
        line[whole] = '\0';
        if (whole)
            rc = parse_line(r, line, whole, number);
    }
    return rc ? rc : index_tokens(r);
}

// ---- letters

// Bytes as byte-level vocabularies write them: those that can be seen are themselves, the others come behind Latin-1.
static size_t put_letter(char *to, unsigned char byte)
{
    unsigned code = byte, behind = 0;
    for (unsigned b = 0; b < byte; b++)
        behind += b < 33 || (b > 126 && b < 161) || b == 173;
    if (byte < 33 || (byte > 126 && byte < 161) || byte == 173)
        code = 256 + behind;
    if (code < 128) {
        to[0] = (char)code;
        return 1;
    }
    to[0] = (char)(0xC0 | code >> 6);
    to[1] = (char)(0x80 | (code & 63));
    return 2;
}

static size_t put_letters(char *to, const char *bytes, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        at += put_letter(to + at, (unsigned char)bytes[i]);
    return at;
}

// ---- merges

// Where the first of two parts ends that lower ranks make of a token; 0: they make another number of parts.
static size_t split_of(const struct ranks *r, uint32_t rank)
{
    const struct hearth_str t = r->tokens[rank];
    uint16_t ends[MAX_TOKEN]; // of the parts
    size_t n = t.n;
    for (size_t i = 0; i < n; i++)
        ends[i] = (uint16_t)(i + 1);
    while (n > 2) {
        uint32_t best = NONE;
        size_t where = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const size_t from = i ? ends[i - 1] : 0;
            const uint32_t both = r->table[place_of(r, t.s + from, ends[i + 1] - from)];
            if (both < best) {
                best = both;
                where = i;
            }
        }
        if (best >= rank)
            return 0;
        memmove(ends + where, ends + where + 1, (n - where - 1) * sizeof *ends);
        n--;
    }
    return n == 2 ? ends[0] : 0;
}

static int add_tokens(struct ranks *r)
{
    struct hearth_hf_vocab *v = r->v;
    v->merges = hearth_calloc(r->n, sizeof *v->merges);
    if (!v->merges)
        return no_memory(r);
    for (uint32_t i = 0; i < r->n; i++) {
        const struct hearth_str t = r->tokens[i];
        char *letters = hearth_hf_vocab_take(v, 2 * t.n);
        if (!letters)
            return no_memory(r);
        v->tokens[i] = (struct hearth_str){letters, put_letters(letters, t.s, t.n)};
        letters[v->tokens[i].n] = '\0';
        v->types[i] = HEARTH_TOKEN_NORMAL;
        const size_t split = t.n > 1 ? split_of(r, i) : 0;
        if (!split)
            continue;
        char *merge = hearth_hf_vocab_take(v, 2 * t.n + 1);
        if (!merge)
            return no_memory(r);
        size_t at = put_letters(merge, t.s, split);
        merge[at++] = ' ';
        at += put_letters(merge + at, t.s + split, t.n - split);
        merge[at] = '\0';
        v->merges[v->n_merges++] = (struct hearth_str){merge, at};
    }
    return HEARTH_OK;
}

// Behind the others: those that tokenizer_config.json names, and what stands for more.
static int add_special(struct ranks *r)
{
    struct hearth_hf_vocab *v = r->v;
    char name[48];
    for (uint32_t i = r->n; i < v->n && i - r->n < RESERVED; i++) {
        const int n = snprintf(name, sizeof name, "<|reserved_token_%u|>", i);
        v->tokens[i] =
            hearth_hf_vocab_join(v, (struct hearth_str){name, (size_t)n}, (struct hearth_str){"", 0});
        if (!v->tokens[i].s)
            return no_memory(r);
        v->types[i] = HEARTH_TOKEN_CONTROL;
    }
    const int rc = hearth_hf_vocab_add_sides(v, r->err);
    for (uint32_t i = r->n; i < v->n && i - r->n < RESERVED; i++)
        v->types[i] = HEARTH_TOKEN_CONTROL; // whatever the file says
    return rc;
}

int hearth_hf_vocab_from_tiktoken(struct hearth_hf_vocab *v, const char *path, struct hearth_error *err)
{
    if (!hearth_json_is(json_object_get(v->config.root, "tokenizer_class"), "TikTokenTokenizer"))
        return hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: only Kimi's vocabularies of this form are known (\"tokenizer_class\" "
            "\"TikTokenTokenizer\" in tokenizer_config.json): how others cut texts into words is said "
            "by no file; put the model's tokenizer.json beside it",
            path);
    struct ranks r = {.v = v, .path = path, .err = err};
    v->model = "gpt2";
    v->pre = "kimi-k2";
    int rc = hearth_hf_vocab_reserve(v, false, err);
    if (!rc)
        rc = read_lines(&r);
    if (!rc)
        rc = add_tokens(&r);
    if (!rc)
        rc = add_special(&r);
    free(r.bytes);
    free(r.tokens);
    free(r.table);
    return rc;
}
