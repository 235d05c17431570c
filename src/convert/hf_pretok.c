// SPDX-License-Identifier: MIT
// Names of pre-tokenizers. GGUF files have a name where tokenizer.json has a list of steps: the list is
// brought into one form, and compared with those of the published tokenizers.
#include <stdio.h>
#include <string.h>

#include "convert/hf_vocab.h"

#define GPT2         "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define END          "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CL100K(digits)                                                                                       \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" END
#define START "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K(end, digits)                                                                                   \
    START UPPER "*" LOWER "+" end "|" START UPPER "+" LOWER "*" end "|" digits                               \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" END
#define SEED(lines)                                                                                          \
    CONTRACTIONS "|[^" lines "\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}" lines "]+|\\s*[" lines    \
                 "]+|\\s+(?!\\S)|\\s+"
#define MARKED_WORD(lines)                                                                                   \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^" lines "\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"   \
    "| ?[\\p{P}\\p{S}]+[" lines "]*|\\s*[" lines "]+|\\s+(?!\\S)|\\s+"
#define HAN_AND_KANA "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+"
#define CJK          "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+"

// Steps in order, each on a line: "=" and an expression whose matches stand alone, or another step's name.
static const struct {
    const char *steps;
    const char *name,
        *name_ignoring; // the latter where words that are tokens are taken whole; NULL: not known
} known[] = {
    {"=" GPT2 "\n", "gpt-2", NULL},
    {"=" CL100K("\\p{N}{1,3}") "\n", "dbrx", "llama-bpe"},
    {"=" CL100K("\\p{N}") "\n", "qwen2", NULL},
    {"=" SEED("\\r\\n") "\n", "seed-coder", NULL},
    {"=" SEED("\r\n") "\n", "seed-coder", NULL},
    {"=" CONTRACTIONS "|" START "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" END "\n",
     "qwen35", NULL},
    {"=\\p{N}\n=" GPT2 "\n", "smollm", NULL},
    {"punctuation\n=" GPT2 "\n=\\p{N}+\n=[0-9][0-9][0-9]\n", "falcon", NULL},
    {"=[\r\n]\n=\\s?\\p{L}+\n=\\s?\\p{P}+\n=" CJK "\n=\\p{N}\n", "deepseek-coder", NULL},
    {"=[\\r\\n]\n=\\s?\\p{L}+\n=\\s?\\p{P}+\n=" CJK "\n=\\p{N}\n", "deepseek-coder", NULL},
    {"=\\p{N}{1,3}\n=" HAN_AND_KANA "\n=" MARKED_WORD("\r\n") "\n", "deepseek-v3", NULL},
    {"=\\p{N}{1,3}\n=" HAN_AND_KANA "\n=" MARKED_WORD("\\r\\n") "\n", "deepseek-v3", NULL},
    {"=" O200K("", "\\p{N}") "\n", NULL, "tekken"},
    {"=" O200K(CONTRACTIONS "?", "\\p{N}{1,3}") "\n", "gpt-4o", NULL},
    {"='(?i:[sdmt]|ll|ve|re)|" START "+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]"
     "|\\s+(?!\\S)|\\s+\n",
     "bailingmoe", NULL},
};

struct steps {
    char text[8192];
    size_t n;
    bool byte_level; // the last step, which turns bytes into letters
};

static void add(struct steps *s, const char *kind, const char *what)
{
    const int n = snprintf(s->text + s->n, sizeof s->text - s->n, "%s%s\n", kind, what);
    s->n = n < 0 || (size_t)n >= sizeof s->text - s->n ? sizeof s->text : s->n + (size_t)n;
}

static void add_step(struct steps *s, const json_t *step)
{
    const json_t *type = json_object_get(step, "type");
    if (s->n >= sizeof s->text)
        return;
    if (hearth_json_is(type, "ByteLevel")) {
        const json_t *regex = json_object_get(step, "use_regex");
        if (json_is_true(json_object_get(step, "add_prefix_space")))
            add(s, "a space before the text", "");
        if (!regex || json_is_true(regex))
            add(s, "=", GPT2);
        s->byte_level = true;
    } else if (hearth_json_is(type, "Digits")) {
        add(s, "=", json_is_true(json_object_get(step, "individual_digits")) ? "\\p{N}" : "\\p{N}+");
    } else if (hearth_json_is(type, "Punctuation") &&
               hearth_json_is(json_object_get(step, "behavior"), "Contiguous")) {
        add(s, "punctuation", "");
    } else if (hearth_json_is(type, "Split") &&
               hearth_json_is(json_object_get(step, "behavior"), "Isolated") &&
               !json_is_true(json_object_get(step, "invert"))) {
        const char *regex = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
        add(s, regex ? "=" : "a plain text", regex ? regex : "");
    } else {
        const char *name = json_string_value(type);
        add(s, "step ", name ? name : "without a name");
    }
}

static void add_steps(struct steps *s, const json_t *step, int depth)
{
    const json_t *list = json_object_get(step, "pretokenizers");
    if (!json_is_array(list) || depth > 4) {
        add_step(s, step);
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        add_steps(s, json_array_get(list, i), depth + 1);
}

int hearth_hf_pretok_name(const char **out, const struct hearth_json_file *file, bool ignore_merges,
                          struct hearth_error *err)
{
    struct steps s = {.n = 0};
    add_steps(&s, json_object_get(file->root, "pre_tokenizer"), 0);
    for (size_t i = 0; s.byte_level && i < sizeof known / sizeof known[0]; i++) {
        *out = ignore_merges ? known[i].name_ignoring : known[i].name;
        if (s.n < sizeof s.text && !strcmp(s.text, known[i].steps) && *out)
            return HEARTH_OK;
    }
    for (char *c = s.text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s: this way to cut a text into words is not known to Hearth%s: %.160s", file->path,
                       ignore_merges ? " together with \"ignore_merges\"" : "", s.text);
}
