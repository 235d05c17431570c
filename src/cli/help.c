// SPDX-License-Identifier: MIT
// The first screen of --help. What it leaves out: hearth COMMAND --help all.
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/generate.h"
#include "cli/spelling.h"

#define COLUMN 24 // where descriptions start

struct line {
    const char *spelling; // of an option of the table, which knows its other spellings and its value
    const char *text;     // fits the rest of 80 columns
};

struct page {
    unsigned command; // HEARTH_CMD_*
    const char *about;
    struct line lines[14]; // ends with spelling == NULL
};

static const struct page pages[] = {
    {HEARTH_CMD_RUN,
     "Continues a prompt.",
     {{"-p", "the prompt"},
      {"-f", "take the prompt from FILE; -: from standard input"},
      {"-n", "tokens to generate (default: until the text ends)"},
      {"-c", "tokens of context (default: the model's, at most 4096)"},
      {"--temp", "0: always the likeliest token; higher: bolder (0.8)"},
      {"-s", "the same seed makes the same text (default: random)"},
      {"-np", "N texts at once, of which the best is named"},
      {"--ram", "memory to use: 4G, 80%, min; the model may be larger"},
      {"--pack", "auto: make a pack where faster (ask), in --pack-dir DIR"},
      {"--sparsity-threshold", "leave out small neurons: 40% of them (lossy)"},
      {"-t", "threads (default: one per core)"},
      {"-q", "no statistics, only warnings and errors"}}},
    {HEARTH_CMD_CHAT,
     "Talks with a model. /help there lists what can be typed: /save, /load and more.",
     {{"-sys", "what the model is told about how to answer"},
      {"-p", "the first message"},
      {"-st", "one message, one answer"},
      {"--save", "write the chat to FILE after each answer"},
      {"--load", "go on with the chat that --save or /save wrote"},
      {"-n", "tokens of an answer (default: until it ends)"},
      {"-j", "answers are JSON that this schema describes"},
      {"-c", "tokens of context (default: the model's, at most 4096)"},
      {"--temp", "0: always the likeliest token; higher: bolder (0.8)"},
      {"--chat-template", "in place of the model's own: a name, or a file"},
      {"-rea", "on, off: whether the model thinks before it answers"},
      {"--ram", "memory to use: 4G, 80%, min; the model may be larger"},
      {"-q", "no statistics, only warnings and errors"}}},
    {HEARTH_CMD_SERVE,
     "Answers requests of other programs over HTTP: /v1/chat/completions (OpenAI),\n"
     "/v1/messages (Anthropic), /metrics and more; / is a page to chat.",
     {{"--host", "address to listen on (127.0.0.1: this machine alone)"},
      {"--port", "port to listen on (8080)"},
      {"-np", "texts that are generated at once (4)"},
      {"-c", "tokens of context of each (default: at most 4096)"},
      {"--api-key", "the key that requests must have"},
      {"-a", "the model's name in answers"},
      {"--temp", "of requests that say nothing (0.8)"},
      {"--ram", "memory to use: 4G, 80%, min; the model may be larger"},
      {"-t", "threads (default: one per core)"},
      {"-q", "only warnings and errors"}}},
    {HEARTH_CMD_BENCH,
     "Measures how fast a model reads prompts and generates.",
     {{"-p", "lengths of prompts (512)"},
      {"-n", "numbers of tokens to generate (128)"},
      {"-npl", "texts to generate at once (1,4,8)"},
      {"-d", "tokens of context before each test (0)"},
      {"-r", "times that each test is run (3)"},
      {"--ram", "memory to use: 4G, 80%, min; the model may be larger"},
      {"-t", "threads (default: one per core)"},
      {"--roof", "memory to read for comparison; 0: none (512M)"},
      {"-o", "md, json, jsonl, csv or sql (md)"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_PERPLEXITY,
     "Tells how well a model predicts a text: lower is better.",
     {{"-f", "the text; -: from standard input"},
      {"-c", "tokens of a chunk (512)"},
      {"--chunks", "only the first N chunks (default: all)"},
      {"--phase", "prompt, or step: as when generating (prompt)"},
      {"--sparsity-threshold", "in steps, leave out small neurons (lossy)"},
      {"--ram", "memory to use: 4G, 80%, min; the model may be larger"},
      {"-t", "threads (default: one per core)"},
      {"--json", "print JSON"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_EMBED,
     "Turns texts, one a line, into lists of numbers that are near each other where\nthe texts are alike.",
     {{"-p", "the texts"},
      {"-f", "take the texts from FILE; -: from standard input"},
      {"--pooling", "mean, cls, last, none (default: the model's own)"},
      {"--embd-normalize", "2: Euclidean length 1; -1: as it is (2)"},
      {"--embd-separator", "what is between texts (a newline)"},
      {"--embd-output-format", "text, array, json, json+, raw (text)"},
      {"--ram", "memory to use: 4G, 80%, min; the model may be larger"},
      {"-t", "threads (default: one per core)"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_TOKENIZE,
     "Prints the token ids of a text: TEXT, or what is on standard input.",
     {{"-f", "take the text from FILE; -: from standard input"},
      {"--ids", "print a list such as [1, 2, 3]"},
      {"--pieces", "a line for each token: its id and its text"},
      {"--json", "print JSON"},
      {"--no-bos", "do not add what the vocabulary puts around a text"},
      {"--no-parse-special", "<|im_end|> and such stay plain text"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_DETOKENIZE,
     "Prints the text of the token ids on standard input.",
     {{"--special", "print control tokens such as <|im_end|>, too"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_INSPECT,
     "Shows metadata, number formats and tensors of a GGUF file.",
     {{"--json", "print JSON, with all texts in full"},
      {"--verify", "check the file's checksums first (packs have them)"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_QUANTIZE,
     "Writes the model IN to the new file OUT, its matrices in the format TYPE,\n"
     "such as Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0.",
     {{"--pure", "all matrices in TYPE's format; no mixture"},
      {"--tensor-type", "another format for some, such as attn_v=Q8_0"},
      {"-t", "threads (default: one per core)"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_CONVERT,
     "Makes the new file OUT of a folder as models are published on Hugging Face, its\n"
     "matrices in the format TYPE, such as F16 (the default), Q8_0, Q4_K_M.",
     {{"--predictors", "a folder of PowerInfer's model_0.pt, ..."},
      {"--activation", "silu, relu, drelu or gelu, if config.json is wrong"},
      {"--pure", "all matrices in TYPE's format; no mixture"},
      {"-t", "threads (default: one per core)"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_SYNTH,
     "Writes a model of a known shape with made-up weights, to measure with. Its text\n"
     "means nothing. PRESET: mistral-7b-dense, turbosparse-mistral-7b, qwen3-30b-a3b\n"
     "and more (hearth synth list). OUT: PRESET.gguf here, if it is not given.",
     {{"--drift", "neighbours share less, as in trained models"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_PROFILE,
     "Counts how often each neuron of a model is active in a text: for hearth pack.",
     {{"-f", "the text; -: from standard input"},
      {"-o", "the profile to write"},
      {"-c", "tokens of a stretch of the text (512)"},
      {"--ram", "memory to use, such as 4G: the rest is read once"},
      {"-t", "threads (default: one per core)"},
      {"--sparsity-threshold", "leave out small ones, such as 40% (lossy)"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_DEVICES,
     "Lists the GPUs and other devices that --device can name.",
     {{"--json", "print JSON"}, {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_SPARSIFY,
     "Makes a dense model one that uses few of its neurons for a token.",
     {{"-f", "the text to learn from; -: from standard input"},
      {"-o", "the sparse model to write"},
      {"--density", "of the neurons, how many a token is to use (30 %)"},
      {"--ram", "memory to use, such as 4G: the rest is read once"},
      {"-t", "threads (default: one per core)"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_TRAIN,
     "Trains predictors, which name the neurons that a token needs: for hearth pack.",
     {{"-f", "the text to learn from; -: from standard input"},
      {"-o", "the model with predictors to write"},
      {"--recall", "of what neurons give, how much to find (98 %)"},
      {"--ram", "memory to use, such as 4G: the rest is read once"},
      {"-t", "threads (default: one per core)"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_PACK,
     "Rewrites MODEL so that single neurons can be read: for hearth run --ram.",
     {{"--profile", "of hearth profile: the most active neurons come first"},
      {"--gates-apart", "for ReLU models without predictors, or thresholds"},
      {"-t", "threads (default: one per core)"},
      {"-q", "only warnings and errors on standard error"}}},
    {HEARTH_CMD_PLAN,
     "Forecasts how fast MODEL generates with how much memory, and plans for it.",
     {{"--ram", "memory to plan for: 4G, 80%, min (default: what is free)"},
      {"--min-speed", "find the memory for at least X tokens a second"},
      {"--explain", "also print speed against memory"},
      {"--machine", "plan for another machine (list: known ones)"},
      {"--measure", "measure this machine again: it was busy, or changed"},
      {"-c", "tokens of context (default: the model's, at most 4096)"},
      {"-p", "forecast hearth run with this prompt (and -n N)"},
      {"--json", "print JSON"},
      {"--svg", "also write a chart"},
      {"--simulate", "no MODEL: replay a trace of hearth run --trace"},
      {"-q", "only warnings and errors on standard error"}}},
};

static const struct hearth_option *find(const struct hearth_command *cmd, const char *spelling)
{
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
        if ((opt->commands & cmd->bit) && opt->help && hearth_spelling_in(opt->names, spelling))
            return opt;
    return NULL;
}

static void print_line(const struct hearth_command *cmd, const struct line *l)
{
    const struct hearth_option *opt = find(cmd, l->spelling);
    char head[80];
    if (!opt)
        return;
    snprintf(head, sizeof head, "  %s%s%s", opt->names, opt->value ? " " : "", opt->value ? opt->value : "");
    // Where all spellings leave no room, the one of the page does.
    if (strlen(head) >= COLUMN)
        snprintf(head, sizeof head, "  %s%s%s", l->spelling, opt->value ? " " : "",
                 opt->value ? opt->value : "");
    printf("%-*s%s%s\n", COLUMN - 1, head, strlen(head) < COLUMN ? " " : "  ", l->text);
}

static int count_options(const struct hearth_command *cmd)
{
    int n = 0;
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
        n += (opt->commands & cmd->bit) && opt->help;
    return n;
}

static void print_page(const struct hearth_command *cmd, const struct page *page)
{
    int n = 0;
    hearth_generate_usage(cmd);
    printf("%s\n\n", page->about);
    for (; page->lines[n].spelling; n++)
        print_line(cmd, &page->lines[n]);
    hearth_generate_examples(cmd);
    printf("\nhearth %s --help all: all %d options, and more about them.\n", cmd->name, count_options(cmd));
}

void hearth_help(const struct hearth_command *cmd, const char *how)
{
    const bool all = how && !strcmp(how, "all");
    for (size_t i = 0; cmd && !all && i < sizeof pages / sizeof *pages; i++)
        if (pages[i].command == cmd->bit) {
            print_page(cmd, &pages[i]);
            return;
        }
    hearth_generate_help(cmd);
}
