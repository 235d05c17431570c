// SPDX-License-Identifier: MIT
// Support for the tests of src/text: files, vocabularies from lists of strings, tokenizing into fresh memory.
#ifndef HEARTH_TESTS_TEXT_SUPPORT_H
#define HEARTH_TESTS_TEXT_SUPPORT_H

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/vocab.h"

struct ids {
    hearth_token *v;
    int64_t n;
};

static inline struct hearth_str str(const char *s)
{
    return (struct hearth_str){s, strlen(s)};
}

// The whole file, zero-terminated; NULL when it cannot be read.
static inline char *read_file(const char *path, size_t *n)
{
    *n = 0;
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *data = NULL;
    size_t used = 0, cap = 0;
    for (;;) {
        if (cap - used < 65536) {
            cap = cap ? cap * 2 : 1 << 20;
            data = realloc(data, cap + 1);
            assert_non_null(data);
        }
        size_t got = fread(data + used, 1, cap - used, f);
        used += got;
        if (got == 0)
            break;
    }
    fclose(f);
    data[used] = '\0';
    *n = used;
    return data;
}

static inline const char *golden_path(const char *relative)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/text/%s", HEARTH_SOURCE_DIR, relative);
    return path;
}

// Tokenizes twice, the second time with exactly the room that the first asked for.
static inline struct ids tokenize(const struct hearth_vocab *v, const char *text, size_t n, int flags)
{
    struct hearth_error err = {0};
    struct ids ids = {NULL, hearth_vocab_tokenize(v, text, n, flags, NULL, 0, &err)};
    if (ids.n < 0)
        fail_msg("%s", err.message);
    ids.v = malloc((size_t)(ids.n ? ids.n : 1) * sizeof *ids.v);
    assert_non_null(ids.v);
    assert_int_equal(hearth_vocab_tokenize(v, text, n, flags, ids.v, (size_t)ids.n, &err), ids.n);
    return ids;
}

// The bytes of all tokens, one after the other. The caller frees.
static inline char *detokenize(const struct hearth_vocab *v, struct ids ids, bool special, size_t *n)
{
    size_t total = 0;
    for (int64_t i = 0; i < ids.n; i++)
        total += hearth_vocab_bytes(v, ids.v[i], special, NULL, 0);
    char *text = malloc(total + 1);
    assert_non_null(text);
    size_t used = 0;
    for (int64_t i = 0; i < ids.n; i++)
        used += hearth_vocab_bytes(v, ids.v[i], special, text + used, total - used);
    assert_int_equal(used, total);
    text[used] = '\0';
    *n = used;
    return text;
}

static inline void print_ids(const char *label, const hearth_token *v, int64_t n)
{
    fprintf(stderr, "%s", label);
    for (int64_t i = 0; i < n; i++)
        fprintf(stderr, " %d", v[i]);
    fprintf(stderr, "\n");
}

// False, with both lists on stderr, when they differ.
static inline bool same_ids(struct ids got, const hearth_token *want, int64_t n, const char *text)
{
    if (got.n == n && (n == 0 || memcmp(got.v, want, (size_t)n * sizeof *want) == 0))
        return true;
    fprintf(stderr, "text: \"%s\"\n", text);
    print_ids("got: ", got.v, got.n);
    print_ids("want:", want, n);
    return false;
}

#endif
