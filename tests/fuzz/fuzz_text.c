// SPDX-License-Identifier: MIT
// Fuzz target: a vocabulary made of the first part of the input tokenizes the rest of it. Nothing may crash,
// and what is tokenized must come back: every text from a byte-level vocabulary, and from a SentencePiece one
// without special tokens.
//
// Input: options, pre-tokenizer, number of tokens, number of merges (a byte each); tokens (length, type,
// score, bytes); merges (two token numbers, or 255 and a string); the text.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/bytes.h"
#include "text/pretok.h"
#include "text/stream.h"
#include "text/unicode.h"
#include "text/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

enum { SPM = 1, NO_BYTES = 2, NO_SPACE = 4, SPECIAL = 8, NO_SCORES = 16, NO_TYPES = 32, ADD_IDS = 64 };

#define MAX_TOKENS 511

struct input {
    const uint8_t *data;
    size_t left;
};

struct made {
    struct hearth_str tokens[MAX_TOKENS], merges[256];
    int32_t types[MAX_TOKENS];
    float scores[MAX_TOKENS];
    char byte_names[256][8];
    char merge_texts[256][64];
    bool has_special;
};

static uint8_t take(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->data++;
}

static struct hearth_str take_string(struct input *in, size_t n)
{
    if (n > in->left)
        n = in->left;
    struct hearth_str s = {(const char *)in->data, n};
    in->data += n;
    in->left -= n;
    return s;
}

static void add_bytes(struct made *m, struct hearth_vocab_spec *spec, bool spm)
{
    for (int b = 0; b < 256; b++) {
        uint32_t i = spec->n_tokens++;
        size_t n = spm ? (size_t)snprintf(m->byte_names[b], 8, "<0x%02X>", (unsigned)b)
                       : hearth_utf8_encode(hearth_byte_to_char((uint8_t)b), m->byte_names[b]);
        m->tokens[i] = (struct hearth_str){m->byte_names[b], n};
        m->types[i] = spm ? HEARTH_TOKEN_BYTE : HEARTH_TOKEN_NORMAL;
        m->scores[i] = -1e6f;
    }
}

static void add_tokens(struct made *m, struct hearth_vocab_spec *spec, struct input *in, uint32_t n)
{
    for (uint32_t k = 0; k < n && spec->n_tokens < MAX_TOKENS; k++) {
        uint32_t i = spec->n_tokens++;
        size_t length = take(in) % 16;
        m->types[i] = take(in) % 7;
        m->scores[i] = -(float)take(in);
        m->tokens[i] = take_string(in, length);
        m->has_special |= m->types[i] >= HEARTH_TOKEN_UNKNOWN && m->types[i] <= HEARTH_TOKEN_USER;
    }
}

static void add_merges(struct made *m, struct hearth_vocab_spec *spec, struct input *in, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        uint8_t left = take(in), right = take(in);
        if (left == 255 || spec->n_tokens == 0) {
            m->merges[k] = take_string(in, right % 16);
            continue;
        }
        struct hearth_str l = m->tokens[left % spec->n_tokens];
        struct hearth_str r = m->tokens[(right + (left & 1) * 256u) % spec->n_tokens];
        int length =
            snprintf(m->merge_texts[k], sizeof m->merge_texts[k], "%.*s %.*s", (int)l.n, l.s, (int)r.n, r.s);
        m->merges[k] = (struct hearth_str){m->merge_texts[k], (size_t)length};
    }
    spec->n_merges = n;
}

// The bytes of all tokens through a stream: nothing is lost on the way.
static void check_stream(const struct hearth_vocab *v, const hearth_token *ids, int64_t n, const char *want,
                         size_t want_n)
{
    struct hearth_utf8_stream *s;
    const char *text;
    size_t at = 0, got;
    bool sound = hearth_utf8_span(want, want_n) == want_n; // then every part must be whole characters
    CHECK(hearth_utf8_stream_open(&s, v, true, true, NULL) == HEARTH_OK);
    for (int64_t i = 0; i < n; i++) {
        got = hearth_utf8_stream_push(s, ids[i], &text);
        CHECK(got <= want_n - at && memcmp(text, want + at, got) == 0);
        CHECK(!sound || hearth_utf8_span(text, got) == got);
        at += got;
    }
    got = hearth_utf8_stream_flush(s, &text);
    CHECK(got <= 3 && got == want_n - at && memcmp(text, want + at, got) == 0);
    hearth_utf8_stream_close(&s);
}

// Whether `got` is the text, with the space that was put before it, and marks (U+2581) as spaces.
static void check_spm_text(const char *got, size_t got_n, const char *text, size_t n, bool prefix)
{
    size_t at = 0;
    if (prefix && n)
        CHECK(at < got_n && got[at++] == ' ');
    for (size_t i = 0; i < n; at++) {
        bool mark = n - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0;
        CHECK(at < got_n && got[at] == (mark ? ' ' : text[i]));
        i += mark ? 3 : 1;
    }
    CHECK(at == got_n);
}

static void use(const struct hearth_vocab *v, const struct made *m, uint8_t options, const char *text,
                size_t n)
{
    int flags = options & SPECIAL ? HEARTH_TOKENIZE_SPECIAL : 0;
    int64_t count = hearth_vocab_tokenize(v, text, n, flags, NULL, 0, NULL);
    CHECK(count >= 0);
    hearth_token *ids = malloc(((size_t)count + 1) * sizeof *ids);
    CHECK(ids);
    CHECK(hearth_vocab_tokenize(v, text, n, flags, ids, (size_t)count, NULL) == count);
    size_t bytes = 0, at = 0;
    for (int64_t i = 0; i < count; i++) {
        CHECK(ids[i] >= 0 && (uint32_t)ids[i] < hearth_vocab_size(v));
        bytes += hearth_vocab_bytes(v, ids[i], true, NULL, 0);
    }
    char *got = malloc(bytes + 1);
    CHECK(got);
    for (int64_t i = 0; i < count; i++)
        at += hearth_vocab_bytes(v, ids[i], true, got + at, bytes - at);
    CHECK(at == bytes);
    check_stream(v, ids, count, got, bytes);
    if (!(options & NO_BYTES) && !(options & SPM))
        CHECK(bytes == n && memcmp(got, text, n) == 0);
    if (!(options & (NO_BYTES | NO_TYPES)) && (options & SPM) && !m->has_special)
        check_spm_text(got, bytes, text, n, !(options & NO_SPACE));
    free(got);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct made m;
    memset(&m, 0, sizeof m);
    struct input in = {data, size};
    uint8_t options = take(&in), pre = take(&in), n_tokens = take(&in), n_merges = take(&in);
    size_t n_pre = 0;
    while (hearth_pretok_name(n_pre))
        n_pre++;
    struct hearth_vocab_spec spec = {.model = options & SPM ? "llama" : "gpt2",
                                     .pre = hearth_pretok_name(pre % (n_pre + 1)), // or NULL
                                     .tokens = m.tokens,
                                     .scores = options & NO_SCORES ? NULL : m.scores,
                                     .types = options & NO_TYPES ? NULL : m.types,
                                     .merges = m.merges,
                                     .bos = -1,
                                     .eos = -1,
                                     .eot = -1,
                                     .unk = -1,
                                     .pad = -1,
                                     .add_space_prefix = !(options & NO_SPACE)};
    if (!(options & NO_BYTES))
        add_bytes(&m, &spec, options & SPM);
    add_tokens(&m, &spec, &in, n_tokens);
    add_merges(&m, &spec, &in, n_merges);
    if (options & ADD_IDS) {
        spec.bos = take(&in);
        spec.unk = take(&in) - 1;
        spec.add_bos = spec.add_eos = true;
    }
    struct hearth_error err = {0};
    struct hearth_vocab *v;
    if (hearth_vocab_create(&v, &spec, "fuzz", &err) != HEARTH_OK) {
        CHECK(!v && err.code < 0 && err.message[0]);
        return 0;
    }
    use(v, &m, options, (const char *)in.data, in.left);
    hearth_vocab_close(&v);
    return 0;
}
