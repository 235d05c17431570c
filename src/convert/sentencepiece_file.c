// SPDX-License-Identifier: MIT
// Reads tokenizer.model. Sources: sentencepiece_model.proto of the SentencePiece project, the encoding of
// protocol buffers (protobuf.dev).
#include "convert/sentencepiece_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MAX_PIECES 16000000

// A message, or what is left of one.
struct message {
    const uint8_t *at, *end;
};

// A field: a number, or bytes.
struct field {
    uint32_t number, wire;
    uint64_t value;
    struct message bytes;
};

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static bool take_varint(struct message *m, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const uint8_t byte = *m->at++;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool take_fixed(struct message *m, size_t n, uint64_t *out)
{
    if ((size_t)(m->end - m->at) < n)
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out |= (uint64_t)m->at[i] << (8 * i);
    m->at += n;
    return true;
}

// The next field; false: the message is damaged.
static bool take_field(struct message *m, struct field *f)
{
    uint64_t tag, n;
    if (!take_varint(m, &tag) || tag >> 32)
        return false;
    *f = (struct field){.number = (uint32_t)tag >> 3, .wire = (uint32_t)tag & 7};
    switch (f->wire) {
    case VARINT:
        return take_varint(m, &f->value);
    case FIXED64:
        return take_fixed(m, 8, &f->value);
    case FIXED32:
        return take_fixed(m, 4, &f->value);
    case BYTES:
        if (!take_varint(m, &n) || n > (uint64_t)(m->end - m->at))
            return false;
        f->bytes = (struct message){m->at, m->at + n};
        m->at += n;
        return true;
    default: // groups, which nobody writes any more
        return false;
    }
}

// ---- the model

struct reading {
    struct hearth_sentencepiece *out;
    const char *path;
    uint32_t cap;
    uint64_t model_type; // 1: unigram, 2: BPE, 3: words, 4: characters
    struct hearth_error *err;
};

static int damaged(const struct reading *r)
{
    return hearth_fail(r->err, HEARTH_E_FORMAT,
                       "%s: this is no SentencePiece vocabulary, or it is damaged or not complete", r->path);
}

static bool reserve(struct reading *r)
{
    struct hearth_sentencepiece *s = r->out;
    if (s->n < r->cap)
        return true;
    const uint32_t cap = r->cap ? 2 * r->cap : 4096;
    struct hearth_str *pieces = hearth_reallocarray(s->pieces, cap, sizeof *pieces);
    if (pieces)
        s->pieces = pieces;
    float *scores = hearth_reallocarray(s->scores, cap, sizeof *scores);
    if (scores)
        s->scores = scores;
    int32_t *types = hearth_reallocarray(s->types, cap, sizeof *types);
    if (types)
        s->types = types;
    if (!pieces || !scores || !types)
        return false;
    r->cap = cap;
    return true;
}

static int read_piece(struct reading *r, struct message m)
{
    struct hearth_sentencepiece *s = r->out;
    struct hearth_str piece = {"", 0};
    float score = 0;
    uint64_t type = 1;
    struct field f;
    while (m.at < m.end) {
        if (!take_field(&m, &f))
            return damaged(r);
        if (f.number == 1 && f.wire == BYTES)
            piece = (struct hearth_str){(const char *)f.bytes.at, (size_t)(f.bytes.end - f.bytes.at)};
        const uint32_t bits = (uint32_t)f.value;
        if (f.number == 2 && f.wire == FIXED32)
            memcpy(&score, &bits, sizeof score);
        if (f.number == 3 && f.wire == VARINT)
            type = f.value;
    }
    if (piece.n == 0 || type < 1 || type > 6 || s->n >= MAX_PIECES || !(score == score))
        return damaged(r);
    if (!reserve(r))
        return hearth_fail(r->err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary", r->path);
    s->pieces[s->n] = piece;
    s->scores[s->n] = score;
    s->types[s->n++] = (int32_t)type;
    return HEARTH_OK;
}

static int read_trainer(struct reading *r, struct message m)
{
    struct field f;
    while (m.at < m.end) {
        if (!take_field(&m, &f))
            return damaged(r);
        if (f.number == 3 && f.wire == VARINT)
            r->model_type = f.value;
    }
    return HEARTH_OK;
}

static int read_normalizer(struct reading *r, struct message m)
{
    struct field f;
    while (m.at < m.end) {
        if (!take_field(&m, &f))
            return damaged(r);
        if (f.number == 2 && f.wire == BYTES)
            r->out->changes_text = f.bytes.end > f.bytes.at;
        if (f.number == 3 && f.wire == VARINT)
            r->out->add_dummy_prefix = f.value != 0;
    }
    return HEARTH_OK;
}

static int read_model(struct reading *r, struct message m)
{
    struct field f;
    int rc = HEARTH_OK;
    while (m.at < m.end && !rc) {
        if (!take_field(&m, &f))
            return damaged(r);
        if (f.wire != BYTES)
            continue;
        if (f.number == 1)
            rc = read_piece(r, f.bytes);
        else if (f.number == 2)
            rc = read_trainer(r, f.bytes);
        else if (f.number == 3)
            rc = read_normalizer(r, f.bytes);
    }
    return rc;
}

int hearth_sentencepiece_parse(struct hearth_sentencepiece *out, const char *path, char *data, size_t n,
                               struct hearth_error *err)
{
    *out = (struct hearth_sentencepiece){.blob = data, .add_dummy_prefix = true};
    struct reading r = {.out = out, .path = path, .model_type = 1, .err = err};
    int rc = read_model(&r, (struct message){(uint8_t *)data, (uint8_t *)data + n});
    if (!rc && out->n == 0)
        rc = damaged(&r);
    if (!rc && r.model_type != 2)
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: a SentencePiece vocabulary of type %s is not supported: BPE is", path,
                         r.model_type == 1 ? "unigram" : "words or characters");
    return rc;
}

void hearth_sentencepiece_close(struct hearth_sentencepiece *s)
{
    free(s->blob);
    free(s->pieces);
    free(s->scores);
    free(s->types);
    *s = (struct hearth_sentencepiece){0};
}
