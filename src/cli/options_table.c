// SPDX-License-Identifier: MIT
// The tables of all options and all sub-commands.
#include "cli/options.h"

#include <stdint.h>

#include "base/cpu.h"
#include "cli/commands.h"
#include "hearth.h"

#define AT(field) offsetof(struct hearth_options, field)
#define NO_RANGE  0, 0
#define NO_FIELD  0
#define IO_KINDS  "auto|uring|pread"

// Groups of sub-commands that share options.
#define RUN        HEARTH_CMD_RUN
#define BENCH      HEARTH_CMD_BENCH
#define PERPLEXITY HEARTH_CMD_PERPLEXITY
#define TOKENIZE   HEARTH_CMD_TOKENIZE
#define DETOKENIZE HEARTH_CMD_DETOKENIZE
#define INSPECT    HEARTH_CMD_INSPECT
#define QUANTIZE   HEARTH_CMD_QUANTIZE
#define SYNTH      HEARTH_CMD_SYNTH
#define PROFILE    HEARTH_CMD_PROFILE
#define PACK       HEARTH_CMD_PACK
#define PLAN       HEARTH_CMD_PLAN
#define CHAT       HEARTH_CMD_CHAT
#define CONVERT    HEARTH_CMD_CONVERT
#define TRAIN      HEARTH_CMD_TRAIN
#define SPARSIFY   HEARTH_CMD_SPARSIFY
#define SERVE      HEARTH_CMD_SERVE
#define TALK       (RUN | CHAT)
#define GENERATE   (TALK | SERVE)
#define ENGINE     (GENERATE | BENCH | PERPLEXITY)
#define EMBED      HEARTH_CMD_EMBED
#define EVALUATE   (ENGINE | EMBED)
#define DEVICES    HEARTH_CMD_DEVICES

#define INT_LIMIT 2147483647.0

const struct hearth_option hearth_option_table[] = {
    // names, aliases, kind, value, default, choices, min, max, commands, group, help, field
    {"-m, --model", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE,
     HEARTH_CMD_ALL & ~(QUANTIZE | CONVERT | SYNTH | PACK | BENCH | DEVICES), "Input",
     "the GGUF file, in place of MODEL; for a split model, any of its shards", AT(model)},
    {"-m, --model", NULL, HEARTH_OPTION_STRING_LIST, "FILE", NULL, NULL, NO_RANGE, BENCH, "Input",
     "a GGUF file, in place of MODEL; may be given several times", AT(models)},

    {"--lora", NULL, HEARTH_OPTION_STRING_LIST, "FILE,...", NULL, NULL, NO_RANGE, EVALUATE | PLAN, "Input",
     "apply a LoRA adapter in a GGUF, or several, to the model; may be given several times", AT(lora)},
    {"--lora-scaled", NULL, HEARTH_OPTION_STRING_LIST, "FILE:SCALE,...", NULL, NULL, NO_RANGE,
     EVALUATE | PLAN, "Input", "the same, with what the adapter adds multiplied by SCALE", AT(lora_scaled)},
    {"--override-kv", NULL, HEARTH_OPTION_STRING_LIST, "KEY=TYPE:VALUE,...", NULL, NULL, NO_RANGE,
     EVALUATE | PLAN | TOKENIZE | DETOKENIZE, "Input",
     "take another value than the file's for a key of its metadata, or several; the types are int, float, bool and str; "
     "may be given several times",
     AT(override_kv)},

    {"-p, --prompt", NULL, HEARTH_OPTION_STRING, "TEXT", NULL, NULL, NO_RANGE, RUN, "Input",
     "the prompt, in place of PROMPT; with an empty one, generation starts from the BOS token alone",
     AT(prompt)},
    {"-f, --file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, RUN, "Input",
     "take the prompt from FILE, or from standard input when FILE is -; one newline at its end is dropped",
     AT(file)},
    {"-f, --file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, PERPLEXITY, "Input",
     "the text to score, or standard input when FILE is -", AT(file)},
    {"-f, --file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, PROFILE, "Input",
     "the text to run through the model, or standard input when FILE is -", AT(file)},
    {"-f, --file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, TRAIN, "Input",
     "the text to learn from, or standard input when FILE is -", AT(file)},
    {"-f, --file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, SPARSIFY, "Input",
     "the text to run through the model, or standard input when FILE is -", AT(file)},
    {"--density", NULL, HEARTH_OPTION_FLOAT, "PERCENT", "30", NULL, 0.1, 99.9, SPARSIFY, "Sparsity",
     "how many of the neurons of its feed-forward parts a token is to use", AT(density)},
    {"--samples", NULL, HEARTH_OPTION_INT, "N", "4096", NULL, 512, 1048576, SPARSIFY, "Sparsity",
     "tokens of the text that are looked at, at most; each takes 8 bytes of memory a neuron of a layer",
     AT(n_samples)},
    {"--recall", NULL, HEARTH_OPTION_FLOAT, "PERCENT", "98", NULL, 1, 100, TRAIN, "Training",
     "how much of what active neurons give predictors are to find, in text that they were not trained with",
     AT(recall)},
    {"--predictor-share", NULL, HEARTH_OPTION_FLOAT, "PERCENT", "10", NULL, 0.1, 100, TRAIN, "Training",
     "bytes that predictors may have, of those of the feed-forward parts", AT(predictor_share)},
    {"--predictor-form", NULL, HEARTH_OPTION_ENUM, "FORM", "auto", "auto|narrow|wide", NO_RANGE, TRAIN,
     "Training",
     "which predictors are tried: networks of a low rank, those that see the gates' signs besides, or both",
     AT(predictor_form)},
    {"--early-predictors", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, TRAIN, "Training",
     "predictors see what the layer before sees, so that neurons can be read a layer ahead",
     AT(early_predictors)},
    {"--steps", NULL, HEARTH_OPTION_INT, "N", "1000", NULL, 1, 1000000, TRAIN, "Training",
     "steps of training a predictor, of 256 tokens each", AT(train_steps)},
    {"-s, --seed", NULL, HEARTH_OPTION_INT, "S", "1", NULL, 0, 4294967295.0, TRAIN, "Training",
     "seed of the predictors' first weights and of the order of tokens", AT(seed)},
    {"-p, --prompt", NULL, HEARTH_OPTION_STRING, "TEXT", NULL, NULL, NO_RANGE, CHAT, "Input",
     "the first message of the user", AT(prompt)},
    {"-f, --file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, CHAT, "Input",
     "take the first message from FILE, or all of standard input when FILE is -; one newline at its end is dropped",
     AT(file)},
    {"-sys, --system-prompt", NULL, HEARTH_OPTION_STRING, "TEXT", NULL, NULL, NO_RANGE, CHAT, "Chat",
     "what the model is told about how to answer", AT(system)},
    {"-sysf, --system-prompt-file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, CHAT, "Chat",
     "the same from FILE", AT(system_file)},
    {"-st, --single-turn", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, CHAT, "Chat",
     "one message, one answer; without -p and -f the message is all of standard input", AT(single_turn)},
    {"-mli, --multiline-input", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, CHAT, "Chat",
     "a message goes on until an empty line", AT(multiline)},
    {"--load", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, CHAT, "Chat",
     "go on with the chat that --save, or /save, wrote to FILE; -sys takes the place of what its model was told",
     AT(load)},
    {"--save", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, CHAT, "Chat",
     "write the chat to FILE after each answer, as /save does", AT(save)},
    {"--chat-template", NULL, HEARTH_OPTION_STRING, "NAME|FILE", NULL, NULL, NO_RANGE, CHAT | SERVE, "Chat",
     "the template of messages, in place of the model's own: chatml, llama3, gemma, ... (hearth chat "
     "--chat-template list names all), a file, or the text of a template in Jinja",
     AT(chat_template)},
    {"--chat-template-file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, CHAT | SERVE, "Chat",
     "the template of messages from FILE", AT(chat_template_file)},
    {"--chat-template-kwargs", NULL, HEARTH_OPTION_STRING, "JSON", NULL, NULL, NO_RANGE, CHAT | SERVE, "Chat",
     "an object of further variables for the template", AT(chat_variables)},
    {"-rea, --reasoning", NULL, HEARTH_OPTION_ENUM, "WHEN", "auto", "auto|on|off", NO_RANGE, CHAT | SERVE,
     "Chat", "on and off set the template's variable enable_thinking, which Qwen3 and others know",
     AT(reasoning)},
    {"--context-shift", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, CHAT, "Chat",
     "when the context is full, forget the oldest messages but the system's; else the chat says so and waits",
     AT(context_shift)},
    {"-cnv, --conversation", "-i --interactive -if --interactive-first", HEARTH_OPTION_FLAG, NULL, NULL, NULL,
     NO_RANGE, CHAT, "Chat", NULL, AT(conversation)},

    {"-p, --prompt", NULL, HEARTH_OPTION_STRING, "TEXT", NULL, NULL, NO_RANGE, PLAN, "Input",
     "plan for hearth run with this prompt: its context, its micro-batch", AT(prompt)},
    {"-f, --file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, PLAN, "Input",
     "the same with the prompt from FILE, or from standard input when FILE is -", AT(file)},

    {"--profile", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, PACK, "Input",
     "a profile of the model, made by hearth profile: neurons are stored by how often they are active; or PowerInfer's "
     "GPU index of it (X.generated.gpuidx): those that it has come first",
     AT(profile)},
    {"--gates-apart", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, PACK, "Input",
     "store the gates as matrices of their own, so that steps read only those neurons whose gate is on: for models "
     "without predictors",
     AT(gates_apart)},
    {"--down", NULL, HEARTH_OPTION_STRING, "TYPE", NULL, NULL, NO_RANGE, PACK, "Output",
     "number format of the turned down matrices (default: Q8_0 where they have blocks): Q4_0 makes bundles of "
     "Q4_0 models a fifth smaller, and logits differ more",
     AT(down)},
    {"--predictors", NULL, HEARTH_OPTION_STRING, "DIR", NULL, NULL, NO_RANGE, CONVERT, "Input",
     "a folder with PowerInfer's predictors for the model, model_0.pt and so on: they become part of the file",
     AT(predictors)},
    {"--activation", NULL, HEARTH_OPTION_ENUM, "NAME", "auto", "auto|silu|relu|drelu|gelu", NO_RANGE, CONVERT,
     "Input",
     "the activation of the feed-forward parts, where config.json does not tell it; auto: what it tells",
     AT(activation)},
    {"-e, --escape", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, TALK | EMBED | PLAN, "Input",
     "turn \\n, \\r, \\t, \\', \\\", \\\\ and \\xHH into the characters they stand for, in a file's text, too",
     AT(escape)},
    {"--no-escape", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, RUN | TOKENIZE | EMBED | PLAN,
     "Input", "leave \\n and the like as they are in a text on the command line, too", AT(no_escape)},
    {"-p, --prompt", NULL, HEARTH_OPTION_STRING, "TEXT", NULL, NULL, NO_RANGE, TOKENIZE, "Input",
     "the text, in place of TEXT", AT(prompt)},
    {"-f, --file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, TOKENIZE, "Input",
     "take the text from FILE, every byte of it (default: standard input)", AT(file)},
    {"-e, --escape", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, TOKENIZE, "Input",
     "turn \\n, \\r, \\t, \\', \\\", \\\\ and \\xHH into the characters they stand for, in a file's text, too",
     AT(escape)},
    {"-p, --prompt", NULL, HEARTH_OPTION_STRING, "TEXT", NULL, NULL, NO_RANGE, EMBED, "Input",
     "the texts, in place of TEXT", AT(prompt)},
    {"-f, --file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, EMBED, "Input",
     "take the texts from FILE, or from standard input when FILE is -; one newline at its end is dropped",
     AT(file)},
    {"--embd-separator", NULL, HEARTH_OPTION_STRING, "TEXT", "\\n", NULL, NO_RANGE, EMBED, "Input",
     "what is between texts, with \\n and the like as in -e; with an empty one there is one text",
     AT(embd_separator)},
    {"--pooling", NULL, HEARTH_OPTION_ENUM, "HOW", "auto", "auto|none|mean|cls|last", NO_RANGE, EMBED | SERVE,
     "Embeddings",
     "what of a text's tokens is its embedding: their mean, the first token's (cls), the last one's, or all of them "
     "(none); auto: what the model was trained for, and mean where the file does not say",
     AT(pooling)},
    {"--embd-normalize", NULL, HEARTH_OPTION_INT, "N", "2", NULL, -1, 1000, EMBED, "Embeddings",
     "divide embeddings by their Euclidean length (2), the sum of magnitudes (1), a norm of higher order N, or so "
     "that the largest magnitude becomes 32760 (0); -1: not at all",
     AT(embd_normalize)},
    {"--embd-output-format", NULL, HEARTH_OPTION_ENUM, "FORMAT", "text", "text|array|json|json+|raw",
     NO_RANGE, EMBED, "Output",
     "text: for people, with how alike the texts are; array: JSON, an array of arrays; json: as OpenAI's API answers; "
     "json+: with cosines; raw: a line of numbers each",
     AT(embd_output)},
    {"--no-bos", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, TOKENIZE, "Input",
     "do not add the BOS or EOS token that the vocabulary asks for", AT(no_bos)},
    {"--ids", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, TOKENIZE, "Output",
     "print the ids as a list, [1, 2, 3]", AT(ids)},
    {"--pieces", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, TOKENIZE, "Output",
     "print a line for each token: its id and its text", AT(pieces)},
    {"--show-count", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, TOKENIZE, "Output",
     "print the number of tokens, too", AT(show_count)},
    {"--no-parse-special", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, TOKENIZE, "Input",
     "leave names of control tokens such as <|im_end|> plain text; without it they become those tokens, as in a prompt",
     AT(no_parse_special)},
    {"--parse-special", "--special", HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, TOKENIZE, "Input", NULL,
     AT(parse_special)},

    {"--host", NULL, HEARTH_OPTION_STRING, "HOST", "127.0.0.1", NULL, NO_RANGE, SERVE, "Server",
     "the address to listen on: 127.0.0.1 and localhost are for programs of this machine alone, 0.0.0.0 is for others, "
     "too; or the path of a socket that ends with .sock",
     AT(host)},
    {"--port", NULL, HEARTH_OPTION_INT, "N", "8080", NULL, 0, 65535, SERVE, "Server",
     "the port to listen on; 0: any that is free, which is then told", AT(port)},
    {"-np, --parallel", NULL, HEARTH_OPTION_INT, "N", "4", NULL, 1, 128, SERVE, "Server",
     "texts that are generated at once; further requests wait. No text depends on it", AT(n_parallel)},
    {"--queue", NULL, HEARTH_OPTION_INT, "N", "64", NULL, 0, 65536, SERVE, "Server",
     "texts that may wait until others have ended; requests beyond that are refused with status 503",
     AT(queue)},
    {"--api-key", NULL, HEARTH_OPTION_STRING, "KEY", NULL, NULL, NO_RANGE, SERVE, "Server",
     "the key that requests must have; several are separated by commas", AT(api_key)},
    {"--api-key-file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, SERVE, "Server",
     "the same from FILE, a key a line", AT(api_key_file)},
    {"--cors-origins", NULL, HEARTH_OPTION_STRING, "LIST", NULL, NULL, NO_RANGE, SERVE, "Server",
     "web pages that may use the server, such as https://chat.example.org, separated by commas; *: all (default: "
     "those of this machine)",
     AT(origins)},
    {"-a, --alias", NULL, HEARTH_OPTION_STRING, "NAME", NULL, NULL, NO_RANGE, SERVE, "Server",
     "the model's name in answers (default: that of the file)", AT(alias)},
    {"--threads-http", NULL, HEARTH_OPTION_INT, "N", "-1", NULL, -1, 64, SERVE, "Server",
     "threads that read requests and write answers; -1: as many as texts, 2 to 8", AT(threads_http)},
    {"-to, --timeout", NULL, HEARTH_OPTION_INT, "N", "600", NULL, 1, 86400, SERVE, "Server",
     "seconds that a client may take to send a request or to read an answer", AT(timeout)},
    {"--sse-ping-interval", NULL, HEARTH_OPTION_INT, "N", "15", NULL, 0, 86400, SERVE, "Server",
     "seconds after which a stream in which nothing comes gets a comment, so that nobody takes it for dead; 0: never",
     AT(ping_interval)},
    {"--max-body", NULL, HEARTH_OPTION_SIZE, "SIZE", "32M", NULL, 1024, 1.0e9, SERVE, "Server",
     "the largest request that is read", AT(max_body)},
    {"--prefix-cache", NULL, HEARTH_OPTION_STRING, "DIR", NULL, NULL, NO_RANGE, SERVE, "Server",
     "keep evaluated prompts in the folder DIR, too, so that they are there after the server began anew; servers may "
     "share it. No text depends on it",
     AT(prefix_cache)},
    {"--prefix-cache-size", NULL, HEARTH_OPTION_SIZE, "SIZE", "4G", NULL, 1, 9.0e18, SERVE, "Server",
     "what all prompts in DIR take at most; what was not used for longest goes", AT(prefix_cache_size)},
    {"--slot-save-path", NULL, HEARTH_OPTION_STRING, "DIR", NULL, NULL, NO_RANGE, SERVE, "Server",
     "the folder to which /slots/ID?action=save writes a slot's last prompt, and from which restore takes it",
     AT(slot_save_path)},

    {"-n, --predict", "--n-predict", HEARTH_OPTION_TOKENS, "N", "-1", NULL, -1, INT_LIMIT, GENERATE,
     "Generation", "tokens to generate; -1: until the model ends its text or the context is full",
     AT(n_predict)},
    {"--draft-max", "--draft, --draft-n", HEARTH_OPTION_INT, "N", "15", NULL, 0, 1048576, GENERATE,
     "Generation",
     "tokens that are guessed ahead at most, by what followed the last ones before; 0: none. Guesses are checked, "
     "several in a step, where that saves time. No text depends on it",
     AT(draft_max)},
    {"-md, --model-draft", "--spec-draft-model", HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, GENERATE,
     "Generation",
     "a small model with the same vocabulary, which guesses tokens ahead, too; else the model's own file may have a layer "
     "for that. No text depends on it",
     AT(model_draft)},
    {"-np, --parallel", NULL, HEARTH_OPTION_INT, "N", "1", NULL, 1, 256, RUN, "Generation",
     "generate N continuations of the prompt together, with seeds S, S+1, ...; they are printed one after "
     "the other and the one with the best mean log-probability is named",
     AT(n_parallel)},
    {"--ignore-eos", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, GENERATE, "Generation",
     "never choose a token that ends the text", AT(ignore_eos)},

    {"--temp", "--temperature", HEARTH_OPTION_FLOAT, "T", "0.8", NULL, 0, 100, GENERATE, "Sampling",
     "temperature; 0: always the most likely token", AT(temp)},
    {"--top-k", NULL, HEARTH_OPTION_INT, "K", "40", NULL, 0, INT_LIMIT, GENERATE, "Sampling",
     "keep the K most likely tokens; 0: all", AT(top_k)},
    {"--top-p", NULL, HEARTH_OPTION_FLOAT, "P", "0.95", NULL, 0, 1, GENERATE, "Sampling",
     "keep the most likely tokens that together reach probability P; 1: all", AT(top_p)},
    {"--min-p", NULL, HEARTH_OPTION_FLOAT, "P", "0.05", NULL, 0, 1, GENERATE, "Sampling",
     "drop tokens less likely than P times the most likely one; 0: none", AT(min_p)},
    {"--repeat-last-n", NULL, HEARTH_OPTION_INT, "N", "64", NULL, -1, 16777216, GENERATE, "Sampling",
     "tokens that the penalties look back on; 0: none, -1: all", AT(repeat_last_n)},
    {"--repeat-penalty", NULL, HEARTH_OPTION_FLOAT, "X", "1.0", NULL, 0.01, 100, GENERATE, "Sampling",
     "make tokens that occurred less likely by this factor; 1: off", AT(repeat_penalty)},
    {"--presence-penalty", NULL, HEARTH_OPTION_FLOAT, "X", "0", NULL, -100, 100, GENERATE, "Sampling",
     "subtract X from the logit of tokens that occurred", AT(presence_penalty)},
    {"--frequency-penalty", NULL, HEARTH_OPTION_FLOAT, "X", "0", NULL, -100, 100, GENERATE, "Sampling",
     "subtract X from the logit of a token for each time it occurred", AT(frequency_penalty)},
    {"--typical", "--typical-p", HEARTH_OPTION_FLOAT, "P", "1", NULL, 0, 1, GENERATE, "Sampling",
     "locally typical sampling: keep the tokens of most expected surprise that together reach P; 1: all",
     AT(typ_p)},
    {"--top-nsigma", "--top-n-sigma", HEARTH_OPTION_FLOAT, "N", "-1", NULL, -1, 1000, GENERATE, "Sampling",
     "keep logits within N standard deviations of the best; -1: all", AT(top_n_sigma)},
    {"--xtc-probability", NULL, HEARTH_OPTION_FLOAT, "P", "0", NULL, 0, 1, GENERATE, "Sampling",
     "with probability P, drop all but the least likely of the tokens above --xtc-threshold",
     AT(xtc_probability)},
    {"--xtc-threshold", NULL, HEARTH_OPTION_FLOAT, "P", "0.1", NULL, 0, 1, GENERATE, "Sampling",
     "probability that makes a token a top choice for --xtc-probability; above 0.5: off", AT(xtc_threshold)},
    {"--dynatemp-range", NULL, HEARTH_OPTION_FLOAT, "R", "0", NULL, 0, 100, GENERATE, "Sampling",
     "let the temperature follow the uncertainty within T - R to T + R; 0: fixed", AT(dynatemp_range)},
    {"--dynatemp-exp", NULL, HEARTH_OPTION_FLOAT, "X", "1", NULL, 0, 100, GENERATE, "Sampling",
     "exponent of --dynatemp-range", AT(dynatemp_exponent)},
    {"--dry-multiplier", NULL, HEARTH_OPTION_FLOAT, "X", "0", NULL, 0, 100, GENERATE, "Sampling",
     "DRY: penalise a token that would go on repeating a passage by X times the base to the power of its "
     "length; 0: off",
     AT(dry_multiplier)},
    {"--dry-base", NULL, HEARTH_OPTION_FLOAT, "X", "1.75", NULL, 0, 100, GENERATE, "Sampling",
     "DRY: base of the penalty", AT(dry_base)},
    {"--dry-allowed-length", NULL, HEARTH_OPTION_INT, "N", "2", NULL, 1, 1048576, GENERATE, "Sampling",
     "DRY: repeats shorter than N tokens are free", AT(dry_allowed_length)},
    {"--dry-penalty-last-n", NULL, HEARTH_OPTION_INT, "N", "64", NULL, -1, 16777216, GENERATE, "Sampling",
     "DRY: tokens to look back on; 0: none, -1: the context", AT(dry_penalty_last_n)},
    {"--dry-sequence-breaker", NULL, HEARTH_OPTION_STRING_LIST, "TEXT", NULL, NULL, NO_RANGE, GENERATE,
     "Sampling",
     "DRY: a text that repeats do not reach across, in place of newline, colon, quote and asterisk; may be "
     "given several times; none: no such text",
     AT(dry_breakers)},
    {"--mirostat", NULL, HEARTH_OPTION_INT, "N", "0", NULL, 0, 2, GENERATE, "Sampling",
     "1: Mirostat, 2: Mirostat 2.0, with the temperature, in place of all samplers; 0: off", AT(mirostat)},
    {"--mirostat-ent", NULL, HEARTH_OPTION_FLOAT, "X", "5", NULL, 0, 100, GENERATE, "Sampling",
     "Mirostat: target surprise in bits", AT(mirostat_tau)},
    {"--mirostat-lr", NULL, HEARTH_OPTION_FLOAT, "X", "0.1", NULL, 0, 10, GENERATE, "Sampling",
     "Mirostat: learning rate", AT(mirostat_eta)},
    {"-l, --logit-bias", NULL, HEARTH_OPTION_STRING_LIST, "TOKEN+BIAS", NULL, NULL, NO_RANGE, GENERATE,
     "Sampling", "add to a token's logit, such as 15043+1 or 2-inf; may be given several times",
     AT(logit_bias)},
    {"--samplers", NULL, HEARTH_OPTION_STRING, "A;B;...", NULL, NULL, NO_RANGE, GENERATE, "Sampling",
     "the samplers in the order in which they act; those left out are off (default: penalties, then dry, top_n_sigma, "
     "top_k, typ_p, top_p, min_p, xtc, temperature)",
     AT(samplers)},
    {"--sampler-seq", "--sampling-seq", HEARTH_OPTION_STRING, "LETTERS", NULL, NULL, NO_RANGE, GENERATE,
     "Sampling", "the same as --samplers in llama.cpp's letters (default: edskypmxt)", AT(sampler_letters)},
    {"-s, --seed", NULL, HEARTH_OPTION_INT, "S", "-1", NULL, -1, 4294967295.0, GENERATE, "Sampling",
     "seed of the random choice; -1 (or 4294967295, the same in 32 bits): a random one", AT(seed)},

    {"--grammar", NULL, HEARTH_OPTION_STRING, "TEXT", NULL, NULL, NO_RANGE, TALK, "Form of the text",
     "a grammar in GBNF (docs/grammar.md): the text is what it allows", AT(grammar)},
    {"--grammar-file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, TALK, "Form of the text",
     "the same from FILE", AT(grammar_file)},
    {"-j, --json-schema", NULL, HEARTH_OPTION_STRING, "SCHEMA", NULL, NULL, NO_RANGE, TALK,
     "Form of the text", "a JSON schema: the text is JSON that is valid under it; {} allows any JSON",
     AT(json_schema)},
    {"-jf, --json-schema-file", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, TALK,
     "Form of the text", "the same from FILE", AT(json_schema_file)},

    {"-p, --n-prompt", NULL, HEARTH_OPTION_TOKENS_LIST, "N,...", "512", NULL, 0, 1048576, BENCH, "Tests",
     "prompt lengths to measure; 0: none", AT(bench_prompt)},
    {"-n, --n-gen", NULL, HEARTH_OPTION_TOKENS_LIST, "N,...", "128", NULL, 0, 1048576, BENCH, "Tests",
     "generation lengths to measure; 0: none", AT(bench_gen)},
    {"-npl, --n-parallel", NULL, HEARTH_OPTION_INT_LIST, "N,...", "1,4,8", NULL, 1, 256, BENCH, "Tests",
     "how many sequences to generate at once, for each generation length", AT(bench_parallel)},
    {"-pg", NULL, HEARTH_OPTION_STRING_LIST, "N,M", NULL, NULL, NO_RANGE, BENCH, "Tests",
     "also measure a prompt of N tokens and M generated ones after it, together; may be given several times",
     AT(bench_pg)},
    {"-d, --n-depth", NULL, HEARTH_OPTION_TOKENS_LIST, "N,...", "0", NULL, 0, 1048576, BENCH, "Tests",
     "tokens of context that each test starts from", AT(bench_depth)},
    {"-r, --repetitions", NULL, HEARTH_OPTION_INT, "N", "3", NULL, 1, 1000, BENCH, "Tests",
     "times that each test is run", AT(repetitions)},
    {"--roof", NULL, HEARTH_OPTION_SIZE, "SIZE", "512M", NULL, 0, 1099511627776.0, BENCH, "Tests",
     "memory to stream when measuring how fast this machine can read it; 0: do not measure", AT(roof_bytes)},

    {"-c, --ctx-size", NULL, HEARTH_OPTION_TOKENS, "N", "512", NULL, 8, 67108864, PERPLEXITY, "Scoring",
     "tokens of a chunk", AT(n_ctx)},
    {"--chunks", NULL, HEARTH_OPTION_INT, "N", "-1", NULL, -1, INT_LIMIT, PERPLEXITY, "Scoring",
     "score only the first N chunks; -1: all", AT(chunks)},
    {"--phase", NULL, HEARTH_OPTION_ENUM, "PHASE", "prompt", "prompt|step", NO_RANGE, PERPLEXITY, "Scoring",
     "evaluate the text as a prompt, or token by token as when generating", AT(phase)},
    {"--save-all-logits, --kl-divergence-base", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE,
     PERPLEXITY, "Scoring",
     "write the probabilities of all tokens to FILE, or with --kl-divergence compare with those that it has",
     AT(kl_base)},
    {"--kl-divergence", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, PERPLEXITY, "Scoring",
     "how far the model's probabilities are from those of another one, which wrote the base; the text is the base's",
     AT(kl_divergence)},

    {"-n, --predict", "--n-predict", HEARTH_OPTION_TOKENS, "N", "-1", NULL, -1, INT_LIMIT, PLAN, "Resources",
     "plan for texts of N tokens behind the prompt: without -c, the context is what both take, as in hearth run, and "
     "512 tokens for a prompt that is not given; -1: of any length",
     AT(n_predict)},
    {"-np, --parallel", NULL, HEARTH_OPTION_INT, "N", "1", NULL, 1, 256, PLAN, "Resources",
     "plan for N sequences that are generated together", AT(n_parallel)},
    {"-c, --ctx-size", NULL, HEARTH_OPTION_TOKENS, "N", NULL, NULL, 0, 67108864, PLAN, "Resources",
     "tokens of context, such as 8192 or 8k; 0: as many as the model was trained for (default: the same, but at most 4096, and with -n "
     "not more than that takes)",
     AT(n_ctx)},
    {"-c, --ctx-size", NULL, HEARTH_OPTION_TOKENS, "N", NULL, NULL, 0, 67108864, RUN, "Resources",
     "tokens of context, such as 8192 or 8k; 0: as many as the model was trained for (default: the same, but at most 4096, and with -n "
     "not more than that takes)",
     AT(n_ctx)},
    {"-c, --ctx-size", NULL, HEARTH_OPTION_TOKENS, "N", NULL, NULL, 0, 67108864, CHAT, "Resources",
     "tokens of context, such as 8192 or 8k; 0: as many as the model was trained for (default: the same, but at most 4096)",
     AT(n_ctx)},
    {"--kv-size", NULL, HEARTH_OPTION_TOKENS, "N", "0", NULL, 0, INT_LIMIT, RUN, "Resources",
     "tokens that the KV cache has room for, all continuations of -np together, which share the prompt's; 0: "
     "-c for each of them",
     AT(kv_size)},
    {"--kv-size", NULL, HEARTH_OPTION_TOKENS, "N", "0", NULL, 0, INT_LIMIT, CHAT, "Resources",
     "tokens that the KV cache has room for; 0: -c", AT(kv_size)},
    {"--kv-size", NULL, HEARTH_OPTION_TOKENS, "N", "0", NULL, 0, INT_LIMIT, SERVE, "Resources",
     "tokens that the KV cache has room for, all texts together; 0: -c for each of -np", AT(kv_size)},
    {"-c, --ctx-size", NULL, HEARTH_OPTION_TOKENS, "N", NULL, NULL, 0, 67108864, SERVE, "Resources",
     "tokens of context of each text, prompt and answer; 0: as many as the model was trained for (default: the same, "
     "but at most 4096)",
     AT(n_ctx)},
    {"-c, --ctx-size", NULL, HEARTH_OPTION_TOKENS, "N", "0", NULL, 0, 67108864, EMBED, "Resources",
     "tokens that a text may have; 0: as many as the longest one has", AT(n_ctx)},
    {"-c, --ctx-size", NULL, HEARTH_OPTION_TOKENS, "N", "512", NULL, 2, 67108864, PROFILE | TRAIN | SPARSIFY,
     "Resources", "tokens of a stretch of text; every stretch starts afresh", AT(n_ctx)},
    {"-t, --threads", NULL, HEARTH_OPTION_INT, "N", "-1", NULL, -1, 256,
     GENERATE | PERPLEXITY | EMBED | QUANTIZE | CONVERT | PROFILE | TRAIN | SPARSIFY | PACK | PLAN,
     "Resources", "threads; -1 or 0: one per physical core. No result depends on it", AT(n_threads)},
    {"-t, --threads", NULL, HEARTH_OPTION_INT_LIST, "N,...", "-1", NULL, -1, 256, BENCH, "Resources",
     "threads; -1 or 0: one per physical core", AT(bench_threads)},
    {"--ram", NULL, HEARTH_OPTION_BUDGET, "SIZE", "auto", NULL, 1, 9.0e18,
     EVALUATE | PROFILE | TRAIN | SPARSIFY, "Resources",
     "use at most SIZE of memory (4G, 900M, 80% of this machine's); what does not fit is read from the file as it "
     "is needed; not counted are the program's own pages, about 9 MiB of code and libraries. The text does not depend "
     "on it. auto: what is free, less some for the system; min: the smallest size that will do; all: load the whole "
     "model, whether or not it fits",
     AT(ram)},
    {"--ram", NULL, HEARTH_OPTION_BUDGET, "SIZE", "auto", NULL, 1, 9.0e18, PLAN, "Resources",
     "plan for SIZE of memory (4G, 900M, 80% of this machine's); auto: what is free, less some for the system; min: "
     "the smallest size that will do; all: room for the whole model",
     AT(ram)},
    {"--min-speed", NULL, HEARTH_OPTION_FLOAT, "X", NULL, NULL, 1e-6, 1e9, PLAN, "Resources",
     "plan for the smallest memory with which at least X tokens are generated a second; --ram is then the most",
     AT(min_speed)},
    {"--sim-ram", NULL, HEARTH_OPTION_SIZE, "SIZE", NULL, NULL, 1, 9.0e18, PLAN, "Resources",
     "plan as if SIZE of memory were free here", AT(sim_ram)},
    {"--machine", NULL, HEARTH_OPTION_STRING, "NAME|FILE", NULL, NULL, NO_RANGE, PLAN, "Resources",
     "plan for another machine, in place of this one: one that Hearth knows by name (hearth plan --machine list "
     "shows them), or one that FILE describes (docs/formats.md, Probes)",
     AT(machine)},
    {"--measure", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, PLAN, "Resources",
     "measure this machine anew; what was measured before is otherwise kept for it and the storage of the model",
     AT(measure)},
    {"--device", "-dev", HEARTH_OPTION_STRING, "NAME,...", NULL, NULL, NO_RANGE, EVALUATE | PLAN, "Resources",
     "GPUs that compute the model's last layers (with experts that have no room, their attention), and the head, beside the CPU: their "
     "numbers in the list of hearth devices, or parts of their names; auto: the first GPU; all: all GPUs; none: the CPU alone. The text is the same",
     AT(device)},
    {"--vram", "--vram-budget", HEARTH_OPTION_SIZE_LIST, "SIZE,...", NULL, NULL, 1, 9.0e18, EVALUATE | PLAN,
     "Resources",
     "of a device's memory, use so much at most: one size for all, or one for each (default: nine tenths of what is "
     "free; of memory that is the system's, half of what is free besides --ram); without --device the first GPU, or "
     "all for several sizes, if there is one",
     AT(vram)},
    {"-ts, --tensor-split", NULL, HEARTH_OPTION_SHARE_LIST, "N,...", NULL, NULL, 0, 1e9, EVALUATE,
     "Resources",
     "divide the layers among the devices in these proportions, as far as there is room (default: the fastest device "
     "has as many as it has room for, then the next one); without --device all GPUs",
     AT(tensor_split)},
    {"-ngl, --gpu-layers", "--n-gpu-layers", HEARTH_OPTION_STRING, "N", NULL, NULL, NO_RANGE, EVALUATE | PLAN,
     "Resources",
     "put so many layers on the devices, at most, the last ones; the head is one more. all, or more than there are: as "
     "many as there is memory for, as without this option. Without --device the first GPU, if there is one",
     AT(gpu_layers)},
    {"--device-hot", NULL, HEARTH_OPTION_INT, "PERCENT", "-1", NULL, -1, 100, EVALUATE | PLAN, "Resources",
     "of hot neurons and experts that a device has and the CPU, too, have the device compute so many; 0: put none there; "
     "-1: as many as makes steps fastest, by the time that they took",
     AT(device_hot)},
    {"-cmoe, --cpu-moe", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, EVALUATE | PLAN, "Resources",
     "leave the experts of all layers to the CPU, and the device's memory to attention, with its part of the KV cache, "
     "and the head",
     AT(cpu_moe)},
    {"-ncmoe, --n-cpu-moe", NULL, HEARTH_OPTION_INT, "N", "0", NULL, 0, 1e6, EVALUATE | PLAN, "Resources",
     "leave the experts of the first N layers to the CPU; the other layers' are hot ones then",
     AT(n_cpu_moe)},
    {"-ot, --override-tensor", NULL, HEARTH_OPTION_STRING_LIST, "PATTERN=CPU,...", NULL, NULL, NO_RANGE,
     EVALUATE | PLAN, "Resources",
     "leave the experts to the CPU whose tensors' names have a part that the regular expression describes, such as "
     "\"blk\\.[0-9]\\.ffn_.*_exps=CPU\"; of a layer all three kinds must be named; the first pattern that fits a name counts, and other tensors go where "
     "their layer goes",
     AT(override_tensor)},
    {"--op-offload", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, (EVALUATE | PLAN) & ~BENCH,
     "Resources",
     "compute prompts on the device with all layers: the weights of those that the CPU keeps, or of their experts, pass "
     "through its memory, whatever that takes (default: where it is faster, by the time that prompts took)",
     AT(op_offload)},
    {"-nopo, --no-op-offload", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE,
     (EVALUATE | PLAN) & ~BENCH, "Resources",
     "leave the layers and experts that the CPU keeps to it in prompts, too, and the device's memory to other things",
     AT(no_op_offload)},
    {"--device-inexact", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, EVALUATE | PLAN, "Resources",
     "also use a device whose arithmetic is not the CPU's: the text may change", AT(device_inexact)},
    {"--io", NULL, HEARTH_OPTION_ENUM, "HOW", "auto", IO_KINDS, NO_RANGE, EVALUATE, "Resources",
     "with --ram, how the file is read; auto: what a short test finds faster", AT(io)},
    {"--throttle", NULL, HEARTH_OPTION_STRING, "PROFILE", NULL, NULL, NO_RANGE, EVALUATE, "Resources",
     "with --ram, read no faster than other storage would: ufs4, ufs3, nvme, or IOPS,MBPS", AT(throttle)},
    {"--overlap", NULL, HEARTH_OPTION_ENUM, "WHAT", "all", "all|compute|none", NO_RANGE, EVALUATE,
     "Resources",
     "for measuring: with --ram, what is done while single neurons or experts are read. all: compute, and "
     "read ahead; compute: compute; none: wait (experts are computed all the same). No result depends on it",
     AT(overlap)},
    {"--pack", NULL, HEARTH_OPTION_ENUM, "WHEN", "ask", "auto|ask|never", NO_RANGE, EVALUATE, "Resources",
     "use a pack of the model where the model would be read from the file and a pack would need fewer reads. Only packs "
     "that give the same logits are, so the text is the same (hearth pack also makes others, and says so). A pack that "
     "is not there yet is written to a cache folder, once. auto: without a question; ask: "
     "after one, and only on a terminal; never: use the model itself",
     AT(pack)},
    {"--pack", NULL, HEARTH_OPTION_ENUM, "WHEN", "ask", "auto|ask|never", NO_RANGE, PLAN, "Resources",
     "plan for the pack of the model that hearth run would use. ask: one that is in the cache folder; auto: also one "
     "that is not there yet, without writing it; never: plan for the model itself",
     AT(pack)},
    {"--pack-dir", NULL, HEARTH_OPTION_STRING, "DIR", NULL, NULL, NO_RANGE, EVALUATE | PLAN, "Resources",
     "the cache folder of --pack (default: $XDG_CACHE_HOME/hearth or ~/.cache/hearth)", AT(pack_dir)},
    {"-ub, --ubatch-size", NULL, HEARTH_OPTION_TOKENS, "N", "512", NULL, 1, 65536,
     GENERATE | PERPLEXITY | EMBED | PROFILE | TRAIN | SPARSIFY, "Resources",
     "prompt tokens evaluated at a time. No result depends on it", AT(n_ubatch)},
    {"-ub, --ubatch-size", NULL, HEARTH_OPTION_TOKENS, "N", "512", NULL, 1, 65536, PLAN, "Resources",
     "most prompt tokens that are to be evaluated at a time; the plan may choose fewer", AT(n_ubatch)},
    {"-ctk, --cache-type-k", NULL, HEARTH_OPTION_ENUM, "TYPE", "f16", "f16|f32|q8_0", NO_RANGE,
     GENERATE | PERPLEXITY | EMBED | PLAN, "Resources", "number format of the keys in the KV cache",
     AT(type_k)},
    {"-ctv, --cache-type-v", NULL, HEARTH_OPTION_ENUM, "TYPE", "f16", "f16|f32|q8_0", NO_RANGE,
     GENERATE | PERPLEXITY | EMBED | PLAN, "Resources", "number format of the values in the KV cache",
     AT(type_v)},
    {"-ub, --ubatch-size", NULL, HEARTH_OPTION_TOKENS_LIST, "N,...", "512", NULL, 1, 65536, BENCH,
     "Resources", "prompt tokens evaluated at a time", AT(bench_ubatch)},
    {"-ctk, --cache-type-k", NULL, HEARTH_OPTION_ENUM_LIST, "TYPE,...", "f16", "f16|f32|q8_0", NO_RANGE,
     BENCH, "Resources", "number format of the keys in the KV cache", AT(bench_type_k)},
    {"-ctv, --cache-type-v", NULL, HEARTH_OPTION_ENUM_LIST, "TYPE,...", "f16", "f16|f32|q8_0", NO_RANGE,
     BENCH, "Resources", "number format of the values in the KV cache", AT(bench_type_v)},
    {"--cpu", NULL, HEARTH_OPTION_ENUM, "LEVEL", "auto", hearth_cpu_words, NO_RANGE,
     EVALUATE | PROFILE | TRAIN | SPARSIFY | PLAN, "Resources",
     "use CPU instructions up to this level; auto: all that this CPU has", AT(cpu)},
    {"--sparsity", NULL, HEARTH_OPTION_ENUM, "MODE", "auto", "auto|off|exact|predict", NO_RANGE,
     ENGINE | PLAN, "Resources",
     "which neurons to compute for a generated token: all; those that their gates leave on (the same "
     "results in models of the ReLU family); those that the model's predictors name; auto: predict, else "
     "exact",
     AT(sparsity)},
    {"--predict-threshold", NULL, HEARTH_OPTION_FLOAT, "X", NULL, NULL, -1e30, 1e30, ENGINE, "Resources",
     "compute a neuron when its predictor gives at least X, in place of what the file says",
     AT(predict_threshold)},
    {"--sparsity-threshold", NULL, HEARTH_OPTION_MAGNITUDE, "X", "0", NULL, 0, 1e30,
     ENGINE | PROFILE | TRAIN | PLAN, "Resources",
     "for models outside the ReLU family: leave out neurons whose activated gate is below X in magnitude; "
     "with a share such as 40%, that share of the neurons, as measured when the pack's profile was made. This "
     "is lossy: it changes the results. 0: none",
     AT(sparsity_threshold)},

    {"--simulate", NULL, HEARTH_OPTION_STRING, "TRACE", NULL, NULL, NO_RANGE, PLAN, "Simulation",
     "replay the trace TRACE (of run --trace) through neuron caches of several sizes and policies",
     AT(simulate)},
    {"--cache-sizes", NULL, HEARTH_OPTION_INT_LIST, "N,...", NULL, NULL, 1, 100, PLAN, "Simulation",
     "sizes of the cache to simulate, in percent of all neurons (default: 5,10,20,...,90)", AT(cache_sizes)},
    {"--warmup", NULL, HEARTH_OPTION_FLOAT, "PERCENT", "25", NULL, 0, 99, PLAN, "Simulation",
     "steps at the start of the trace that fill the caches and are not counted", AT(warmup)},
    {"--half-life", NULL, HEARTH_OPTION_INT, "N", "0", NULL, 0, 1048576, PLAN, "Simulation",
     "visits of a space after which a use counts half (policies decayed and two speeds); 0: the engine's",
     AT(half_life)},
    {"--explain", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, PLAN, "Output",
     "also print speed against memory, and what a gigabyte more brings", AT(explain)},
    {"--svg", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, PLAN, "Output",
     "also write a chart to FILE: of speed against memory, or of hit rates", AT(svg)},
    {"--svg", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, PROFILE, "Output",
     "also write a chart of all layers to FILE", AT(svg)},

    {"--shape", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, SYNTH, "Output",
     "write the shape alone, for hearth plan: OUT has its full size, but its weights are holes that take no room on "
     "disk; "
     "models with predictors become packs",
     AT(shape)},
    {"--drift", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, SYNTH, "Output",
     "let the stream change from layer to layer, and neighbouring tokens share fewer neurons, as in trained models; "
     "for presets with predictors",
     AT(drift)},
    {"--early-predictors", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, SYNTH, "Output",
     "predictors see what the layer before sees, so that neurons can be read a layer ahead",
     AT(early_predictors)},
    {"--pure", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, QUANTIZE | CONVERT, "Output",
     "all matrices in TYPE's format, the embedding and the head included; no mixture", AT(pure)},
    {"--tensor-type", NULL, HEARTH_OPTION_STRING_LIST, "NAME=TYPE", NULL, NULL, NO_RANGE, QUANTIZE, "Output",
     "the format of the matrix NAME, such as output=Q8_0, or of those that have NAME in their names, such as attn_v=Q8_0; "
     "may be given several times, and the first that fits counts",
     AT(tensor_types)},
    {"--special", "-sp", HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, RUN | DETOKENIZE, "Output",
     "print control tokens such as <|im_end|> too", AT(special)},
    {"--logits-out", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, RUN, "Output",
     "write the logits of every evaluated token to FILE: little-endian float32, one row per token, the "
     "prompt's first",
     AT(logits_out)},
    {"--trace", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, RUN | BENCH, "Output",
     "write to FILE which neurons each generated token needed, for hearth plan --simulate", AT(trace)},
    {"--stats", NULL, HEARTH_OPTION_ENUM, "FORMAT", "none", "none|json", NO_RANGE, TALK, "Output",
     "json: end standard error with one line of JSON: tokens, speeds, latencies, memory", AT(stats)},
    {"-o, --output", NULL, HEARTH_OPTION_ENUM, "FORMAT", "md", "md|json|jsonl|csv|sql", NO_RANGE, BENCH,
     "Output", "a Markdown table, JSON, a line of JSON for each test, CSV, or SQL", AT(output)},
    {"--verify", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE,
     EVALUATE | PROFILE | TRAIN | SPARSIFY | INSPECT, "Input",
     "check the file's checksums first (packs have them)", AT(verify)},
    {"-o, --output", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, PROFILE, "Output",
     "the profile to write", AT(out)},
    {"-o, --output", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, TRAIN, "Output",
     "the model with predictors to write", AT(out)},
    {"-o, --output", NULL, HEARTH_OPTION_STRING, "FILE", NULL, NULL, NO_RANGE, SPARSIFY, "Output",
     "the sparse model to write", AT(out)},
    {"--json", NULL, HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE,
     INSPECT | PLAN | TOKENIZE | PERPLEXITY | DEVICES, "Output", "print JSON", AT(json)},
    {"-q, --quiet", "--log-disable", HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, HEARTH_CMD_ALL, "Output",
     "on standard error, only warnings and errors", AT(quiet)},
    {"--no-perf", "--no-show-timings", HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, TALK, "Output", NULL,
     AT(no_perf)},
    {"-v, --verbose", "--log-verbose", HEARTH_OPTION_FLAG, NULL, NULL, NULL, NO_RANGE, HEARTH_CMD_ALL,
     "Output", "on standard error, also details", AT(verbose)},
    {"--version", NULL, HEARTH_OPTION_VERSION, NULL, NULL, NULL, NO_RANGE, HEARTH_CMD_ALL, "Output", NULL,
     NO_FIELD},
    {"-h, --help", "--usage", HEARTH_OPTION_HELP, NULL, NULL, NULL, NO_RANGE, HEARTH_CMD_ALL, "Output",
     "show help and exit; --help all: with all options", NO_FIELD},
    {0},
};

const char *hearth_options_io(const struct hearth_options *o)
{
    static const char *const kinds[] = {"auto", "uring", "pread"};
    return kinds[o->io];
}

uint64_t hearth_options_ram(const struct hearth_options *o)
{
    const uint64_t bytes = o->ram.bytes;
    return bytes == HEARTH_BUDGET_ALL   ? 0
           : bytes == HEARTH_BUDGET_MIN ? HEARTH_RAM_LEAST
           : bytes                      ? bytes
                                        : HEARTH_RAM_FIT;
}

const char *hearth_options_cpu(const struct hearth_options *o)
{
    return o->cpu ? hearth_cpu_level((size_t)o->cpu - 1) : NULL; // auto is the first word
}

#define MODEL_ONLY                                                                                           \
    {                                                                                                        \
        {                                                                                                    \
            "MODEL", AT(model)                                                                               \
        }                                                                                                    \
    }

const struct hearth_command hearth_command_table[] = {
    {"run",
     RUN,
     {{"MODEL", AT(model)}, {"[PROMPT]", AT(prompt)}},
     "generate text from a prompt",
     "Loads MODEL, evaluates the prompt and prints its continuation. A prompt that is not given is read from standard "
     "input, if that is a file or a pipe. Standard output carries only the "
     "generated "
     "text; the prompt is not repeated, and a newline ends the text where it has none.\n\n"
     "Names of control tokens in the prompt (such as <|im_start|>) become those tokens. Ctrl-C ends the "
     "generation cleanly; a second one kills the program.",
     "hearth run model.gguf \"Once upon a time\" -n 100\n"
     "hearth run model.gguf -f prompt.txt --temp 0 > answer.txt\n"
     "hearth run model.gguf -p \"A haiku about fire:\" -n 40 -np 8",
     hearth_cmd_run},
    {"chat", CHAT, MODEL_ONLY, "talk with a model",
     "Loads MODEL and answers messages, which are lines of standard input, typed or from a pipe. What a chat looks "
     "like to the model, its template says; --chat-template gives another one. Between lines of \"\"\" a message has "
     "several lines, and a \\ at the end of a line continues it.\n\n"
     "/help lists what else can be typed: /regen, /edit, /clear, /system, /set, /save, /load, /stats, /exit and more. "
     "Ctrl-C stops an answer; twice at the prompt, it leaves. What the model thinks before its answer is dimmed on a "
     "terminal. Standard output carries only answers and, on a terminal, the prompt.",
     "hearth chat model.gguf -sys \"Answer in one sentence.\" --save talk.json\n"
     "hearth chat model.gguf --load talk.json -st -p \"Why is the sky blue?\"",
     hearth_cmd_chat},
    {"serve", SERVE, MODEL_ONLY, "answer requests over HTTP",
     "Loads MODEL and answers requests of programs over HTTP, in the manner of OpenAI (/v1/chat/completions and others), "
     "of Anthropic (/v1/messages) and of llama.cpp's server. Several texts are generated at once, and what prompts have in "
     "common is computed once; no text depends on either.\n\n"
     "With a browser, the address shows a page. Ctrl-C or SIGTERM ends the server: answers that are being generated have "
     "five seconds left, or none after a second Ctrl-C.",
     "hearth serve model.gguf\n"
     "hearth serve model.gguf --port 8000 -np 8 -c 8192 --api-key-file keys.txt\n"
     "curl http://127.0.0.1:8080/v1/chat/completions \\\n"
     "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'",
     hearth_cmd_serve},
    {"bench",
     BENCH,
     {{"MODEL...", AT(models)}},
     "measure prompt and generation speed",
     "Prints the table of llama-bench: for prompts of N tokens (ppN) and N generated tokens (tgN) the mean "
     "speed in tokens per second and its standard deviation. For generation it adds the bytes of weights "
     "read per second beside what the machine's memory can deliver (the roof), because that is what bounds "
     "it. Options that take lists are tried in all combinations.",
     "hearth bench model.gguf\n"
     "hearth bench model.gguf -p 128,512 -n 64 -npl 1 -r 5 -o json",
     hearth_cmd_bench},
    {"perplexity", PERPLEXITY, MODEL_ONLY, "score a text",
     "Cuts the text into chunks as llama-perplexity does (each starts with BOS where the vocabulary asks "
     "for it), scores the second half of each, and prints the perplexity with its standard error. Running "
     "values go to standard error.",
     "hearth perplexity model.gguf -f wiki.test.raw\n"
     "hearth perplexity model.gguf -f wiki.test.raw --chunks 20 --phase step\n"
     "hearth perplexity F16.gguf -f wiki.test.raw --kl-divergence-base base.kld\n"
     "hearth perplexity Q4_0.gguf --kl-divergence-base base.kld --kl-divergence",
     hearth_cmd_perplexity},
    {"embed",
     EMBED,
     {{"MODEL", AT(model)}, {"[TEXT]", AT(prompt)}},
     "turn texts into embeddings",
     "Prints the embedding of each text: the hidden states of its tokens after the last norm, pooled and normalised. "
     "Texts are separated by newlines, or by --embd-separator. Those that are not given are read from standard input, if "
     "that is a file or a pipe.\n\n"
     "Numbers do not depend on the other texts, nor on memory, threads and micro-batches. No logits are computed. "
     "Embeddings are good for comparing texts where the model was trained for that.",
     "hearth embed model.gguf -p \"Castle\\nStronghold\\nDog\"\n"
     "hearth embed model.gguf -f lines.txt --embd-output-format json > lines.json",
     hearth_cmd_embed},
    {"tokenize",
     TOKENIZE,
     {{"MODEL", AT(model)}, {"[TEXT]", AT(prompt)}},
     "turn text into token ids",
     "Prints the token ids of a text on one line, separated by spaces. Without TEXT, -p and -f standard input is "
     "read to its end, every byte of it. Files that hold only a vocabulary will do.",
     "hearth tokenize model.gguf \"Hello world\" --pieces\n"
     "printf 'Hello world' | hearth tokenize model.gguf",
     hearth_cmd_tokenize},
    {"detokenize", DETOKENIZE, MODEL_ONLY, "turn token ids on standard input into text",
     "Reads token ids from standard input, separated by blanks or commas, and prints the text they stand "
     "for. Files that hold only a vocabulary will do.",
     "printf 'Hello' | hearth tokenize model.gguf | hearth detokenize model.gguf", hearth_cmd_detokenize},
    {"inspect", INSPECT, MODEL_ONLY, "show what is in a GGUF file",
     "Lists metadata, number formats and tensors of any GGUF file, whether or not its architecture is "
     "supported. Long arrays and texts are abbreviated; --json gives texts in full.",
     "hearth inspect model.gguf\n"
     "hearth inspect model.gguf --json | jq .n_params",
     hearth_cmd_inspect},
    {"quantize",
     QUANTIZE,
     {{"IN", AT(model)}, {"OUT", AT(out)}, {"TYPE", AT(type)}},
     "rewrite a model in other number formats",
     "Writes the model IN to the new file OUT with its matrices in the number format TYPE; vectors such as "
     "norms stay as they are. The types mean what they mean for llama-quantize: K types spend more bits where they "
     "matter most, those that end in _S less than _M and _L, the others at most on the head; --pure makes all "
     "matrices alike. OUT appears only when it is complete. Matrices whose rows do not fit a format's blocks get a finer one "
     "with smaller blocks, which is reported.\n\n"
     "A file that is already quantised loses quality again: start from F32, F16 or BF16 where you can.",
     "hearth quantize model-F16.gguf model-Q8_0.gguf Q8_0\n"
     "hearth quantize model-F16.gguf model-Q4_K_M.gguf Q4_K_M",
     hearth_cmd_quantize},
    {"convert",
     CONVERT,
     {{"HF_DIR", AT(model)}, {"OUT", AT(out)}, {"[TYPE]", AT(type)}},
     "make a GGUF of a Hugging Face folder",
     "Reads a model as it is published on Hugging Face, a folder with config.json, safetensors (or pytorch_model.bin) "
     "and the tokenizer's files, and writes the new file OUT, with its matrices in the number format TYPE as quantize "
     "has it (default: F16). Tensors, keys and vocabulary are those that llama.cpp's converter writes. OUT appears only "
     "when it is complete. The model is read in pieces, so it may be larger than memory.\n\n"
     "Llama, Mistral, Mixtral, Qwen 2, 3, 3.5 and 3.6, Gemma 3 and 4, DeepSeek V2 and V3, Kimi K2, GLM-4.7-Flash, gpt-oss, "
     "LFM2, Falcon and OPT can be converted, and the sparse models ReluLLaMA, ProSparse, Bamboo, TurboSparse and "
     "SparseQwen2. With predictors, in the folder itself or in that of --predictors, the file is "
     "one of PowerInfer's, of which only the neurons that a token needs are computed.",
     "hearth convert Qwen2.5-7B-Instruct qwen2.5-7b-Q4_K_M.gguf Q4_K_M\n"
     "hearth convert ReluLLaMA-7B relullama.gguf --predictors ReluLLaMA-Predictor",
     hearth_cmd_convert},
    {"synth",
     SYNTH,
     {{"PRESET", AT(preset)}, {"[OUT]", AT(out)}},
     "write a synthetic model of a known shape",
     "Writes to the new file OUT (default: PRESET.gguf in the current folder) a model with the exact shape of PRESET, for "
     "measuring speed and memory where "
     "the real weights cannot be had. The text it makes means nothing, but the neurons and experts that its "
     "tokens use are as many, and repeat as often, as in such models. OUT appears only when it is "
     "complete.\n\n"
     "Presets: mistral-7b-dense, turbosparse-mistral-7b, relullama-7b, opt-6.7b (4 GiB each), relullama-13b (7 GiB), "
     "turbosparse-mixtral-47b (a pack of 28 GiB), falcon-40b-relu (23 GiB), qwen3-30b-a3b (16 GiB), "
     "gpt-oss-20b (12 GiB), qwen3.6-35b-a3b (18 GiB), deepseek-v2-lite (8 GiB), glm-4.7-flash (16 GiB), "
     "gemma-4-e2b (2.4 GiB), gemma-4-e4b (3.9 GiB), gemma-4-31b (16 GiB), gemma-4-26b-a4b (14 GiB), and for "
     "tests small-turbosparse, tiny-dense, tiny-turbosparse, tiny-turbosparse-moe, tiny-turbosparse-pack, tiny-relullama, "
     "tiny-opt, tiny-falcon, tiny-qwen3-moe, tiny-gpt-oss, tiny-qwen3.6, tiny-glm-flash, tiny-gemma-4-e, "
     "tiny-gemma-4-moe.",
     "hearth synth list\n"
     "hearth synth small-turbosparse\n"
     "hearth synth mistral-7b-dense mistral-7b-dense-Q4_0.gguf",
     hearth_cmd_synth},
    {"profile", PROFILE, MODEL_ONLY, "count how often each neuron of a model is active",
     "Runs a text through MODEL, 32 places of it side by side, and writes to a new file how often each "
     "neuron of the "
     "feed-forward parts was active: for one text alone and for 2, 4, 8, 16 and 32 together. The text passes layer "
     "after layer, so a model larger than memory is read once. hearth pack "
     "stores neurons by "
     "it. Use text like that which the model will be used for; a few hundred thousand tokens are plenty for "
     "the order, and a "
     "few thousand better than nothing.\n\n"
     "Models of the ReLU family have neurons that are not active by themselves; for others "
     "--sparsity-threshold says which "
     "ones are left out. A profile holds for all number formats of a model.",
     "hearth profile model.gguf -f text.txt -o model.profile", hearth_cmd_profile},
    {"sparsify", SPARSIFY, MODEL_ONLY, "make a dense model sparse",
     "Writes MODEL, all of whose neurons are active for every token, to the new file -o as a model of the ReLU family, of "
     "whose neurons a token uses --density. It takes no training: what the neurons that are off would have given "
     "together is nearly a linear function, and becomes a matrix of each layer. This is lossy: measure it.\n\n"
     "A text passes the model layer by layer, some thousand tokens of it, to tell which neurons matter when. Use text "
     "like that which the model will be used for. A model larger than memory is read once. hearth quantize writes the "
     "result in other number formats; hearth profile, train-predictors and pack make a pack of it.\n\n"
     "For models with SiLU or GELU and a gate, and without experts.",
     "hearth sparsify model.gguf -f text.txt -o model-sparse.gguf --density 30\n"
     "hearth perplexity model-sparse.gguf -f heldout.txt",
     hearth_cmd_sparsify},
    {"train-predictors", TRAIN, MODEL_ONLY, "give a model predictors",
     "Trains predictors for MODEL, which name the neurons of its feed-forward parts that a token needs, and writes the "
     "model with them to the new file -o. With them, hearth pack makes a pack that is read neuron by neuron.\n\n"
     "A text passes the model layer by layer; what passes each layer is what its predictors learn from. Use text "
     "like that which the model will be used for, of some hundred thousand tokens. Every tenth window of it is held "
     "out: on these, predictors find --recall of what active neurons give, with the fewest bytes. A model larger than "
     "memory is read once. Finished layers are kept in OUT.layers until all are, so the same command goes on where it "
     "was stopped.\n\n"
     "Models of the ReLU family have neurons that are not active; for others --sparsity-threshold says which ones are "
     "left out.",
     "hearth train-predictors model.gguf -f text.txt -o model-predictors.gguf\n"
     "hearth pack model-predictors.gguf model.hearth.gguf --profile model.profile",
     hearth_cmd_train},
    {"pack",
     PACK,
     {{"MODEL", AT(model)}, {"OUT", AT(out)}},
     "rewrite a model for reading it neuron by neuron",
     "Writes MODEL to the new file OUT with the weights of each neuron of the feed-forward parts side by "
     "side, so that one read brings one neuron. With --profile the neurons that are active most often come "
     "first. Where the model has its down matrix the usual way round, it is turned, which for quantised "
     "models means Q8_0 for that matrix; everything else keeps its bits. Logits are the model's to the last bit where it has "
     "down by neuron (PowerInfer's files) and there is no profile; else they differ a little. OUT appears only when it is "
     "complete, carries checksums (--verify), and is a GGUF: hearth inspect shows it.\n\n"
     "Only a pack with predictors (PowerInfer's files have them, hearth train-predictors makes them) or with "
     "--gates-apart is then read neuron by neuron where memory is too small for it. Any other is for models that fit into "
     "memory.",
     "hearth profile model.gguf -f text.txt -o model.profile\n"
     "hearth pack model.gguf model.hearth.gguf --profile model.profile",
     hearth_cmd_pack},
    {"plan",
     PLAN,
     {{"[MODEL]", AT(model)}},
     "plan memory and forecast speed, or simulate neuron caches",
     "Forecasts how fast MODEL generates on this machine with a memory budget, and says how the memory would be spent. "
     "The machine is measured the first time, which takes a second: its memory, its kernels, the storage of the file. "
     "Where others were using it, it is measured again. Nothing of the model is loaded; from what the file says of its neurons the plan is searched in milliseconds.\n\n"
     "With --simulate, replays a trace of the neurons that each step needed, and prints how many of them caches of "
     "several "
     "sizes would have found in memory: with the engine's own policies, with one LRU over all spaces, with "
     "a fixed choice by profile, and with Belady's optimum, which knows the future. The first quarter of "
     "the trace only warms the caches up.",
     "hearth plan model.hearth.gguf --ram 4G --explain\n"
     "hearth plan model.hearth.gguf --min-speed 10\n"
     "hearth plan model.hearth.gguf --machine oneplus-12 --ram 8G --svg speed.svg\n"
     "hearth plan --simulate novel.htrace --cache-sizes 10,25,50 --svg cache.svg",
     hearth_cmd_plan},
    {"devices",
     DEVICES,
     {{NULL, 0}},
     "list GPUs and other devices",
     "Lists the devices that --device can name: what drivers of OpenCL and CUDA have, with their memory, and whether they give "
     "the CPU's bits, as far as their drivers say. When a device is used, that is checked.",
     "hearth devices\n"
     "hearth run model.gguf -p \"Once upon a time\" --device 0 --vram 6G\n"
     "hearth run model.gguf -p \"Once upon a time\" --device 0,1 --vram 6G,10G",
     hearth_cmd_devices},
    {0},
};
