// SPDX-License-Identifier: MIT
// A vocabulary while it is put together from the files of a Hugging Face folder. Files: hf_tokenizer.c (which
// files there are, and writing), hf_vocab.c (the arrays), hf_vocab_bpe.c (tokenizer.json, vocab.json),
// hf_vocab_spm.c (tokenizer.model), hf_vocab_tiktoken.c (tiktoken.model), hf_pretok.c (names of pre-tokenizers), hf_special.c (special tokens,
// templates).
#ifndef HEARTH_CONVERT_HF_VOCAB_H
#define HEARTH_CONVERT_HF_VOCAB_H

#include "convert/hf_model.h"
#include "convert/sentencepiece_file.h"
#include "text/vocab.h"

// Special tokens, in the order of their names and keys in hf_special.c.
enum {
    HEARTH_HF_BOS,
    HEARTH_HF_EOS,
    HEARTH_HF_UNK,
    HEARTH_HF_SEP,
    HEARTH_HF_PAD,
    HEARTH_HF_MASK,
    HEARTH_HF_SPECIALS
};

// Of tokens that were added to a vocabulary that has scores, as llama.cpp's converter gives it.
#define HEARTH_HF_ADDED_SCORE (-1000.0f)

struct hearth_hf_vocab {
    const struct hearth_hf_model *m;
    struct hearth_json_file tokenizer, config, added,
        generation; // tokenizer.json, tokenizer_config.json, ...
    struct hearth_sentencepiece spm;
    const char *model; // "llama", "gemma4" or "gpt2"
    const char *pre;   // NULL: none
    bool by_merges;    // "gemma4": BPE over characters, with merges in the file
    bool from_lists;   // of vocab.json
    uint32_t n;        // as many as the embedding has rows
    struct hearth_str *tokens;
    float *scores; // NULL: none
    int32_t *types;
    struct hearth_str *merges;
    uint32_t n_merges;
    int32_t ids[HEARTH_HF_SPECIALS];        // -1: none
    int add_bos, add_eos, add_space_prefix; // -1: not known
    char **made;                            // texts that were made here
    size_t n_made, cap_made;
};

// Closes the files and frees what was made.
void hearth_hf_vocab_free(struct hearth_hf_vocab *v);
// Takes the arrays for all tokens, which are unused at first.
int hearth_hf_vocab_reserve(struct hearth_hf_vocab *v, bool scores, struct hearth_error *err);
// Memory for a text of n bytes and a zero that lives as long as the vocabulary; NULL: no memory.
char *hearth_hf_vocab_take(struct hearth_hf_vocab *v, size_t n);
// A text of a and b that lives as long as the vocabulary; NULL s: no memory.
struct hearth_str hearth_hf_vocab_join(struct hearth_hf_vocab *v, struct hearth_str a, struct hearth_str b);
// Sets a token that was added to the vocabulary; out of range, it is left out with a warning.
int hearth_hf_vocab_add(struct hearth_hf_vocab *v, const struct hearth_json_file *file, json_int_t id,
                        struct hearth_str text, bool special, float score, struct hearth_error *err);
// Adds those of added_tokens.json and of tokenizer_config.json.
int hearth_hf_vocab_add_sides(struct hearth_hf_vocab *v, struct hearth_error *err);
// The id of a text among the tokens; -1: none.
int32_t hearth_hf_vocab_find(const struct hearth_hf_vocab *v, struct hearth_str text);

// Fills the vocabulary from tokenizer.json (byte-level BPE, or BPE with bytes as a last resort).
int hearth_hf_vocab_from_json(struct hearth_hf_vocab *v, struct hearth_error *err);
// From vocab.json and merges.txt, whose words are cut as the family's models do.
int hearth_hf_vocab_from_lists(struct hearth_hf_vocab *v, struct hearth_error *err);
// From a file of tiktoken's, of Kimi's models alone. HEARTH_E_UNSUPPORTED: another's. HEARTH_E_FORMAT, HEARTH_E_IO,
// HEARTH_E_MEMORY.
int hearth_hf_vocab_from_tiktoken(struct hearth_hf_vocab *v, const char *path, struct hearth_error *err);
// From v->spm.
int hearth_hf_vocab_from_spm(struct hearth_hf_vocab *v, const char *path, struct hearth_error *err);

// The name under which GGUF files know a pre-tokenizer of tokenizer.json. HEARTH_E_UNSUPPORTED: none.
int hearth_hf_pretok_name(const char **out, const struct hearth_json_file *file, bool ignore_merges,
                          struct hearth_error *err);

// Finds special tokens and what is added to a text.
int hearth_hf_special_read(struct hearth_hf_vocab *v, struct hearth_error *err);
// Writes them and the chat template.
int hearth_hf_special_put(const struct hearth_hf_vocab *v, struct hearth_gguf_writer *w,
                          struct hearth_error *err);

#endif
