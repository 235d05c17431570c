// SPDX-License-Identifier: MIT
// Which tokens end a generation. Files name one (EOS) or a few; models stop with others too, known only by
// name. The names and exceptions are those that llama.cpp recognises.
#include <string.h>

#include "text/vocab_impl.h"

static hearth_token find_text(const struct hearth_vocab *v, const char *text)
{
    size_t n = strlen(text);
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if (v->text[i].n == n && memcmp(v->text[i].s, text, n) == 0)
            return (hearth_token)i;
    }
    return -1;
}

static void mark(struct hearth_vocab *v, hearth_token t)
{
    if (t < 0)
        return;
    v->flags[t] |= HEARTH_TOKEN_EOG;
    v->type[t] = HEARTH_TOKEN_CONTROL;
}

static const char *const end_names[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>", // harmony
    "<|call|>",   // harmony
    "<|flush|>",  // Solar
    "<|calls|>",  // Solar
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]", // Kimi
    "[EOS]", // Kimi
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",                                              // Gemma
    "<|tool_response>",                                     // Gemma
    ("<\xEF\xBD\x9C"                                        // a full-width bar
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"), // DeepSeek
    "[e~[",                                                 // MiniMax
};

// Names of "pad", "repository" and "file separator" in fill-in-the-middle sets: one of each ends a
// generation.
static const char *const fim_pad_names[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
static const char *const fim_repo_names[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>",
                                             "<reponame>"};
static const char *const fim_sep_names[] = {"<|file_sep|>"};

// Markers of the harmony format that must show in the output, whatever type the file gives them.
static const char *const shown_names[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void mark_first(struct hearth_vocab *v, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hearth_token t = find_text(v, names[i]);
        if (t >= 0) {
            mark(v, t);
            return;
        }
    }
}

// In some formats a token that ends a turn elsewhere only separates messages.
static void unmark_separators(struct hearth_vocab *v)
{
    hearth_token end = find_text(v, "<|end|>");
    bool returns = find_text(v, "<|return|>") >= 0, flush = find_text(v, "<|flush|>") >= 0;
    bool call = find_text(v, "<|call|>") >= 0 || find_text(v, "<|calls|>") >= 0;
    if (end >= 0 && call && (returns || flush)) {
        v->flags[end] &= (uint8_t)~HEARTH_TOKEN_EOG;
        v->type[end] = HEARTH_TOKEN_USER;
    }
    hearth_token s = find_text(v, "</s>");
    if (s >= 0 && find_text(v, "<|tool_response>") >= 0) {
        v->flags[s] &= (uint8_t)~HEARTH_TOKEN_EOG;
        v->type[s] = HEARTH_TOKEN_NORMAL;
    }
}

void hearth_vocab_mark_names(struct hearth_vocab *v)
{
    mark_first(v, fim_pad_names, COUNT(fim_pad_names));
    mark_first(v, fim_repo_names, COUNT(fim_repo_names));
    mark_first(v, fim_sep_names, COUNT(fim_sep_names));
    for (size_t i = 0; i < COUNT(end_names); i++)
        mark(v, find_text(v, end_names[i]));
    for (size_t i = 0; i < COUNT(shown_names); i++) {
        hearth_token t = find_text(v, shown_names[i]);
        if (t >= 0)
            v->type[t] = HEARTH_TOKEN_USER;
    }
    unmark_separators(v);
}
