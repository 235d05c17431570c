// SPDX-License-Identifier: MIT
// Pre-tokenizers by name: the expressions of each model family's published tokenizer, under the names that
// GGUF converters write to tokenizer.ggml.pre. Only pretok.c includes this file.
//
// \s is spelled out as the Unicode property White_Space, because PCRE2's \s also matches U+180E, which the
// tokenizers' own engines do not.
#ifndef HEARTH_TEXT_PRETOK_TABLE_H
#define HEARTH_TEXT_PRETOK_TABLE_H

#include <stdbool.h>

#define S            "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define SPACES       "[" S "]+"
#define SPACES_END   SPACES "(?![^" S "])" // white space up to, but not including, the last before a word
#define LINE_ENDS    "[" S "]*[\\r\\n]+"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

// One optional character that starts a word, then letters: the form since cl100k.
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"

// clang-format off
#define GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" S "\\p{L}\\p{N}]+|" SPACES_END "|" SPACES

#define CL100K(digits) \
    CONTRACTIONS "|" WORD "|" digits "| ?[^" S "\\p{L}\\p{N}]+[\\r\\n]*|" LINE_ENDS "|" SPACES_END "|" SPACES

// Words by case, as in o200k: capitals then small letters, or capitals alone.
#define START "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define O200K(end, digits) \
    START "[" UPPER "]*[" LOWER "]+" end "|" START "[" UPPER "]+[" LOWER "]*" end "|" digits \
    "| ?[^" S "\\p{L}\\p{N}]+[\\r\\n/]*|" LINE_ENDS "|" SPACES_END "|" SPACES

// Characters of the Han script. PCRE2 10.40 made \p{Han} mean more: all characters used with that script.
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
#define HAN "\\p{sc:Han}"
#else
#define HAN "\\p{Han}"
#endif
#define NOT_HAN(set) "(?:(?!" HAN ")[" set "])"
#define KIMI \
    HAN "+" \
    "|" START NOT_HAN(UPPER) "*" NOT_HAN(LOWER) "+" CONTRACTIONS "?" \
    "|" START NOT_HAN(UPPER) "+" NOT_HAN(LOWER) "*" CONTRACTIONS "?" \
    "|\\p{N}{1,3}| ?[^" S "\\p{L}\\p{N}]+[\\r\\n]*|" LINE_ENDS "|" SPACES_END "|" SPACES

#define DEEPSEEK3_WORD \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK3 DEEPSEEK3_WORD "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINE_ENDS "|" SPACES_END "|" SPACES

#define CJK          "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define HAN_AND_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"

// The cased letters that DeepSeek LLM's tokenizer lists one by one.
#define CASED_LETTERS \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}" \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}" \
    "\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}" \
    "\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}" \
    "\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}" \
    "\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}" \
    "\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}" \
    "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}" \
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}" \
    "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}" \
    "\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}" \
    "\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}" \
    "\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}" \
    "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}" \
    "\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}" \
    "\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}" \
    "\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

#define SENTENCE_PIECES " ?[^(" S "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"

// White space in powers of two.
#define RUN_OF(n) "[" S "]{" n "}(?![^" S "])|"
#define JAIS2_SPACES \
    RUN_OF("512") RUN_OF("256") RUN_OF("128") RUN_OF("64") RUN_OF("32") RUN_OF("16") RUN_OF("8") RUN_OF("4") \
    RUN_OF("1,2") "[" S "]"

#define YOUTU_SCRIPTS \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+" \
    "|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}" \
    "\\x{FE30}-\\x{FE4F}]+" \
    "|[\\x{3105}-\\x{312F}]+|" HAN_AND_KANA

#define AFMOE_SCRIPTS \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}\\x{FF65}-\\x{FF9F}" \
    "\\x{2F00}-\\x{2FDF}\\x{E00}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}" \
    "\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+"

#define MAX_STAGES 6

// One expression. With `threes`, what it matches is cut again into groups of three characters counted from
// its end.
struct stage_source {
    const char *regex;
    bool threes;
};

struct recipe {
    struct stage_source stages[MAX_STAGES];
};

#define RECIPE static const struct recipe

RECIPE r_default = {{{"[\\p{P}$+<=>^~|]+", 0}, {GPT2, 0}, {"\\p{N}+", 0}, {"[0-9]{3}", 0}}};
RECIPE r_gpt2 = {{{GPT2, 0}}};
RECIPE r_llama3 = {{{CL100K("\\p{N}{1,3}"), 0}}};
RECIPE r_qwen2 = {{{CL100K("\\p{N}"), 0}}};
RECIPE r_qwen35 = {{{CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" S "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"
                     LINE_ENDS "|" SPACES_END "|" SPACES, 0}}};
RECIPE r_falcon = {{{"[\\p{P}$+<=>^~|`]+", 0}, {GPT2, 0}, {"[0-9]{3}", 0}}};
RECIPE r_starcoder = {{{"\\p{N}", 0}, {GPT2, 0}}};
RECIPE r_deepseek_llm = {{{"[\\r\\n]", 0},
                          {"[" S "]?[" CASED_LETTERS "]+", 0},
                          {"[" S "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+", 0},
                          {"(?<![" S "])" SPACES "$", 0}, // a run is looked at from its beginning alone
                          {CJK, 0},
                          {"\\p{N}+", 0}}};
RECIPE r_deepseek_coder = {{{"[\\r\\n]", 0}, {"[" S "]?\\p{L}+", 0}, {"[" S "]?\\p{P}+", 0}, {CJK, 0}, {"\\p{N}", 0}}};
RECIPE r_deepseek3 = {{{"\\p{N}{1,3}", 0}, {HAN_AND_KANA, 0}, {DEEPSEEK3, 0}}};
RECIPE r_spark = {{{"\\p{N}{1,3}", 0},
                   {HAN_AND_KANA, 0},
                   {DEEPSEEK3_WORD "| ?[\\p{P}\\p{S}]+|[\\r\\n]|" SPACES_END "|" SPACES, 0},
                   {"\\p{N}", 0}}};
RECIPE r_youtu = {{{YOUTU_SCRIPTS, 0}, {O200K(CONTRACTIONS "?", "\\p{N}"), 0}}};
RECIPE r_bloom = {{{SENTENCE_PIECES, 0}}};
RECIPE r_viking = {{{SENTENCE_PIECES, 0}, {"\\p{N}", 0}}};
RECIPE r_tekken = {{{O200K("", "\\p{N}"), 0}}};
RECIPE r_gpt4o = {{{O200K(CONTRACTIONS "?", "\\p{N}{1,3}"), 0}}};
RECIPE r_tiny_aya = {{{"(?<!\\d)\\d++\\b", 1}, {O200K(CONTRACTIONS "?", "\\p{N}{1,3}"), 0}}};
RECIPE r_chameleon = {{{"<sentinel:[0-9]+>", 0},
                       {"IMGIMG[A-I]{1,4}Z", 0},
                       {"[\\t\\n]|    |  ", 0},
                       {"\\p{N}", 0},
                       {"[\\p{P}!-/:-@\\[-`{-~]", 0},
                       {GPT2, 0}}};
RECIPE r_jais2 = {{{CONTRACTIONS "|" WORD "|\\p{N}{1,3}| ?[^" S "\\p{L}\\p{N}]+[\\r\\n]*|" LINE_ENDS "|" JAIS2_SPACES, 0}}};
RECIPE r_superbpe = {{{"\\p{N}+", 0}, {"\\d+", 1}}};
RECIPE r_bailing = {{{"'(?i:[sdmt]|ll|ve|re)|" START "+\\p{L}+|\\p{N}| ?[^" S "\\p{L}\\p{N}]++[\\r\\n]*|[" S "]*[\\r\\n]|"
                      SPACES_END "|" SPACES, 0}}};
RECIPE r_seed_coder = {{{CONTRACTIONS "|" WORD "|\\p{N}| ?[^" S "\\p{L}\\p{N}\\r\\n]+|" LINE_ENDS "|" SPACES_END "|" SPACES, 0}}};
RECIPE r_ufakzeka = {{{WORD "|\\p{N}| ?[^" S "\\p{L}\\p{N}]+[\\r\\n]*|" LINE_ENDS "|" SPACES_END "|" SPACES, 0}}};
RECIPE r_laguna = {{{"[^\\n]+|\\n+", 0}, {CL100K("\\p{N}"), 0}}};
RECIPE r_exaone_moe = {{{CONTRACTIONS "|" START "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^" S "\\p{L}\\p{N}]+[\\r\\n/]?|["
                         S "]*[\\r\\n]|" SPACES_END "|" SPACES, 0}}};
RECIPE r_afmoe = {{{"\\p{N}+", 1}, {AFMOE_SCRIPTS, 0}, {DEEPSEEK3, 0}}};
RECIPE r_minicpm5 = {{{"\\p{N}{1,3}", 0}, {CL100K("\\p{N}+"), 0}}};
RECIPE r_kimi = {{{KIMI, 0}}};
// clang-format on

// Defaults that go with a name.
enum { IGNORE_MERGES = 1, ADD_BOS = 2, NO_BOS = 4 };

static const struct {
    const char *name;
    const struct recipe *recipe;
    int traits;
} names[] = {
    {"default", &r_default, 0},
    {"llama3", &r_llama3, IGNORE_MERGES | ADD_BOS},
    {"llama-v3", &r_llama3, IGNORE_MERGES | ADD_BOS},
    {"llama-bpe", &r_llama3, IGNORE_MERGES | ADD_BOS},
    {"falcon3", &r_llama3, IGNORE_MERGES | ADD_BOS},
    {"falcon-h1", &r_llama3, IGNORE_MERGES | ADD_BOS},
    {"pixtral", &r_llama3, IGNORE_MERGES | ADD_BOS},
    {"midm-2.0", &r_llama3, IGNORE_MERGES | ADD_BOS},
    {"lfm2", &r_llama3, IGNORE_MERGES | ADD_BOS},
    {"jina-v5-nano", &r_llama3, IGNORE_MERGES | ADD_BOS},
    {"dbrx", &r_llama3, 0},
    {"smaug-bpe", &r_llama3, 0},
    {"glm4", &r_llama3, NO_BOS},
    {"chatglm-bpe", &r_llama3, NO_BOS},
    {"qwen2", &r_qwen2, 0},
    {"deepseek-r1-qwen", &r_qwen2, 0},
    {"kormo", &r_qwen2, 0},
    {"f2llmv2", &r_qwen2, 0},
    {"megrez", &r_qwen2, 0},
    {"stablelm2", &r_qwen2, 0},
    {"hunyuan", &r_qwen2, 0},
    {"solar-open", &r_qwen2, 0},
    {"grok-2", &r_qwen2, 0},
    {"qwen35", &r_qwen35, 0},
    {"gpt-2", &r_gpt2, 0},
    {"gpt-neox", &r_gpt2, 0},
    {"phi-2", &r_gpt2, 0},
    {"mpt", &r_gpt2, 0},
    {"olmo", &r_gpt2, 0},
    {"jais", &r_gpt2, 0},
    {"trillion", &r_gpt2, 0},
    {"granite-docling", &r_gpt2, 0},
    {"exaone4", &r_gpt2, 0},
    {"jina-es", &r_gpt2, 0},
    {"jina-de", &r_gpt2, 0},
    {"jina-v1-en", &r_gpt2, 0},
    {"jina-v2-es", &r_gpt2, 0},
    {"jina-v2-de", &r_gpt2, 0},
    {"jina-v2-code", &r_gpt2, 0},
    {"roberta-bpe", &r_gpt2, 0},
    {"gigachat", &r_gpt2, 0},
    {"a.x-4.0", &r_gpt2, 0},
    {"mellum", &r_gpt2, 0},
    {"modern-bert", &r_gpt2, 0},
    {"falcon", &r_falcon, 0},
    {"starcoder", &r_starcoder, 0},
    {"refact", &r_starcoder, 0},
    {"command-r", &r_starcoder, 0},
    {"smollm", &r_starcoder, 0},
    {"codeshell", &r_starcoder, 0},
    {"exaone", &r_starcoder, 0},
    {"minerva-7b", &r_starcoder, 0},
    {"mellum2", &r_starcoder, 0},
    {"deepseek-llm", &r_deepseek_llm, 0},
    {"deepseek-coder", &r_deepseek_coder, 0},
    {"deepseek-v3", &r_deepseek3, 0},
    {"hunyuan-dense", &r_deepseek3, 0},
    {"joyai-llm", &r_deepseek3, 0},
    {"hy_v4", &r_deepseek3, 0},
    {"spark2_5", &r_spark, 0},
    {"youtu", &r_youtu, IGNORE_MERGES},
    {"poro-chat", &r_bloom, 0},
    {"bloom", &r_bloom, 0},
    {"gpt3-finnish", &r_bloom, 0},
    {"viking", &r_viking, 0},
    {"tekken", &r_tekken, IGNORE_MERGES | ADD_BOS},
    {"gpt-4o", &r_gpt4o, 0},
    {"llama4", &r_gpt4o, 0},
    {"kanana2", &r_gpt4o, 0},
    {"talkie", &r_gpt4o, 0},
    {"minimax-m2", &r_gpt4o, 0},
    {"granite-embed-multi-97m", &r_gpt4o, IGNORE_MERGES},
    {"tiny_aya", &r_tiny_aya, 0},
    {"cohere2moe", &r_tiny_aya, 0},
    {"chameleon", &r_chameleon, ADD_BOS},
    {"jais-2", &r_jais2, 0},
    {"superbpe", &r_superbpe, 0},
    {"bailingmoe", &r_bailing, 0},
    {"bailingmoe2", &r_bailing, 0},
    {"llada-moe", &r_bailing, 0},
    {"seed-coder", &r_seed_coder, 0},
    {"ufakzeka", &r_ufakzeka, 0},
    {"laguna", &r_laguna, 0},
    {"exaone-moe", &r_exaone_moe, 0},
    {"afmoe", &r_afmoe, 0},
    {"minicpm5", &r_minicpm5, IGNORE_MERGES},
    {"kimi-k2", &r_kimi, 0},
};

#endif
