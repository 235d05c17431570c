// SPDX-License-Identifier: MIT
// A vocabulary: text to tokens and back. There are two families: SentencePiece-style BPE with byte fallback, by
// scores ("llama" in GGUF) or by a list of merges ("gemma4"), and byte-level BPE with merges and a pre-tokenizer
// ("gpt2").
#ifndef HEARTH_TEXT_VOCAB_H
#define HEARTH_TEXT_VOCAB_H

#include "gguf/gguf.h"

struct hearth_vocab;

// Token types as stored in GGUF (tokenizer.ggml.token_type).
enum hearth_token_type {
    HEARTH_TOKEN_NORMAL = 1,
    HEARTH_TOKEN_UNKNOWN = 2,
    HEARTH_TOKEN_CONTROL = 3,
    HEARTH_TOKEN_USER = 4,
    HEARTH_TOKEN_UNUSED = 5,
    HEARTH_TOKEN_BYTE = 6
};

// The parts of a vocabulary. hearth_vocab_open() fills one from a GGUF. hearth_vocab_create()
// copies all arrays. Absent ids are -1.
struct hearth_vocab_spec {
    const char *model; // "llama", "gemma4" or "gpt2"
    // Pre-tokenizer of "gpt2": "gpt-2", "llama-bpe", "qwen2", ...; NULL or "" means "default".
    const char *pre;
    uint32_t n_tokens;
    const struct hearth_str *tokens;
    const float *scores;  // [n_tokens] or NULL
    const int32_t *types; // [n_tokens] or NULL: all normal
    uint32_t n_merges;
    const struct hearth_str *merges; // "left right", best first
    int32_t bos, eos, eot, unk, pad;
    bool add_bos, add_eos, add_space_prefix;
};

// Makes a vocabulary; checks every id, length and merge. Messages start with `name` (a path).
// HEARTH_E_FORMAT, HEARTH_E_UNSUPPORTED, HEARTH_E_MEMORY. The vocabulary never changes, so any
// number of threads may use it.
int hearth_vocab_create(struct hearth_vocab **out, const struct hearth_vocab_spec *spec, const char *name,
                        struct hearth_error *err);
// Makes a vocabulary from the metadata of a GGUF. Absent keys have llama.cpp's defaults, which
// depend on model and pre.
int hearth_vocab_open(struct hearth_vocab **out, const struct hearth_gguf *g, struct hearth_error *err);
void hearth_vocab_close(struct hearth_vocab **v);
uint64_t hearth_vocab_memory(const struct hearth_vocab *v); // bytes that it takes, given by the file alone

uint32_t hearth_vocab_size(const struct hearth_vocab *v);
const char *hearth_vocab_model(const struct hearth_vocab *v);
const char *hearth_vocab_pre(const struct hearth_vocab *v);
hearth_token hearth_vocab_bos(const struct hearth_vocab *v);
hearth_token hearth_vocab_eos(const struct hearth_vocab *v);
hearth_token hearth_vocab_eot(const struct hearth_vocab *v);            // named by the file, or known by name
bool hearth_vocab_is_eog(const struct hearth_vocab *v, hearth_token t); // EOS, EOT and similar tokens, known
                                                                        // by name
bool hearth_vocab_is_suppressed(const struct hearth_vocab *v, hearth_token t);
struct hearth_str hearth_vocab_text(const struct hearth_vocab *v, hearth_token t); // as stored in the file;
                                                                                   // valid while the
                                                                                   // vocabulary is open
enum hearth_token_type hearth_vocab_type(const struct hearth_vocab *v, hearth_token t);

// Same as hearth_tokenize() in hearth.h.
int64_t hearth_vocab_tokenize(const struct hearth_vocab *v, const char *text, size_t len, int flags,
                              hearth_token *out, size_t cap, struct hearth_error *err);
// The same, but no byte whose mark is not 0 becomes part of a control token, or of a user-defined token that
// looks like a tag. `marks` NULL: none has one.
int64_t hearth_vocab_tokenize_marked(const struct hearth_vocab *v, const char *text, size_t len,
                                     const uint8_t *marks, int flags, hearth_token *out, size_t cap,
                                     struct hearth_error *err);
// Same as hearth_token_bytes() in hearth.h.
size_t hearth_vocab_bytes(const struct hearth_vocab *v, hearth_token t, bool special, char *out, size_t cap);

#endif
