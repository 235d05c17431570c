// SPDX-License-Identifier: MIT
// Tokens that end a generation. Files name one (EOS) or a few. Models also stop with others, known only by
// name. The names and exceptions are those that llama.cpp recognises.
#include <string.h>

#include "text/vocab_impl.h"

#define FIM_DEEPSEEK(part)                                                                                   \
    ("<\xEF\xBD\x9C"                                                                                         \
     "fim\xE2\x96\x81" part "\xEF\xBD\x9C>")

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

// The other tokens of such sets are control tokens too, whatever the file says.
static const char *const fim_prefix_names[] = {"<|fim_prefix|>",      "<fim-prefix>", "<fim_prefix>",
                                               FIM_DEEPSEEK("begin"), "<PRE>",        "\xE2\x96\x81<PRE>",
                                               "<|code_prefix|>",     "<|prefix|>"};
static const char *const fim_suffix_names[] = {"<|fim_suffix|>",     "<fim-suffix>", "<fim_suffix>",
                                               FIM_DEEPSEEK("hole"), "<SUF>",        "\xE2\x96\x81<SUF>",
                                               "<|code_suffix|>",    "<|suffix|>"};
static const char *const fim_middle_names[] = {"<|fim_middle|>",    "<fim-middle>", "<fim_middle>",
                                               FIM_DEEPSEEK("end"), "<MID>",        "\xE2\x96\x81<MID>",
                                               "<|code_middle|>",   "<|middle|>"};

// Markers of the harmony format that must appear in the output, whatever their type in the file.
static const char *const shown_names[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static hearth_token find_first(const struct hearth_vocab *v, const char *const *names, size_t n)
{
    hearth_token t = -1;
    for (size_t i = 0; i < n && t < 0; i++)
        t = find_text(v, names[i]);
    return t;
}

static void make_control(struct hearth_vocab *v, hearth_token t)
{
    if (t >= 0)
        v->type[t] = HEARTH_TOKEN_CONTROL;
}

// In some formats, a token that ends a turn elsewhere only separates messages.
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

// Names of tokens that end a turn of a chat, rather than a text.
static const char *const turn_names[] = {"<|eot_id|>",         "<|im_end|>", "<|end|>",
                                         "<end_of_turn>",      "<EOT>",      "[EOT]",
                                         "<end_of_utterance>", "<turn|>"};

hearth_token hearth_vocab_find_eot(const struct hearth_vocab *v)
{
    for (size_t i = 0; i < COUNT(turn_names); i++) {
        const hearth_token t = find_text(v, turn_names[i]);
        if (t >= 0 && v->flags[t] & HEARTH_TOKEN_EOG)
            return t;
    }
    return -1;
}

void hearth_vocab_mark_names(struct hearth_vocab *v)
{
    make_control(v, find_first(v, fim_prefix_names, COUNT(fim_prefix_names)));
    make_control(v, find_first(v, fim_suffix_names, COUNT(fim_suffix_names)));
    make_control(v, find_first(v, fim_middle_names, COUNT(fim_middle_names)));
    mark(v, find_first(v, fim_pad_names, COUNT(fim_pad_names)));
    mark(v, find_first(v, fim_repo_names, COUNT(fim_repo_names)));
    mark(v, find_first(v, fim_sep_names, COUNT(fim_sep_names)));
    for (size_t i = 0; i < COUNT(end_names); i++)
        mark(v, find_text(v, end_names[i]));
    for (size_t i = 0; i < COUNT(shown_names); i++) {
        hearth_token t = find_text(v, shown_names[i]);
        if (t >= 0)
            v->type[t] = HEARTH_TOKEN_USER;
    }
    unmark_separators(v);
}
