// SPDX-License-Identifier: MIT
// The options of the program. One table drives parsing, --help, man pages and shell completion.
#ifndef HEARTH_CLI_OPTIONS_H
#define HEARTH_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

// Exit statuses of the program.
enum {
    HEARTH_EXIT_OK = 0,
    HEARTH_EXIT_FAILURE = 1,      // something went wrong: a bad file, no memory, a full disk
    HEARTH_EXIT_USAGE = 2,        // the command line makes no sense
    HEARTH_EXIT_INTERRUPTED = 130 // stopped by Ctrl-C, after ending cleanly
};

// Sub-commands as bits, because an option can belong to several.
enum {
    HEARTH_CMD_RUN = 1u << 0,
    HEARTH_CMD_BENCH = 1u << 1,
    HEARTH_CMD_PERPLEXITY = 1u << 2,
    HEARTH_CMD_TOKENIZE = 1u << 3,
    HEARTH_CMD_DETOKENIZE = 1u << 4,
    HEARTH_CMD_INSPECT = 1u << 5,
    HEARTH_CMD_QUANTIZE = 1u << 6,
    HEARTH_CMD_SYNTH = 1u << 7,
    HEARTH_CMD_PROFILE = 1u << 8,
    HEARTH_CMD_PACK = 1u << 9,
    HEARTH_CMD_PLAN = 1u << 10,
    HEARTH_CMD_CHAT = 1u << 11,
    HEARTH_CMD_CONVERT = 1u << 12,
    HEARTH_CMD_TRAIN = 1u << 13,
    HEARTH_CMD_SERVE = 1u << 14,
    HEARTH_CMD_EMBED = 1u << 15,
    HEARTH_CMD_DEVICES = 1u << 16,
    HEARTH_CMD_SPARSIFY = 1u << 17,
    HEARTH_CMD_ALL = (1u << 18) - 1
};

enum hearth_option_kind {
    HEARTH_OPTION_FLAG,        // bool
    HEARTH_OPTION_INT,         // int64_t
    HEARTH_OPTION_TOKENS,      // int64_t, also 128k (times 1024) or 1m
    HEARTH_OPTION_FLOAT,       // double
    HEARTH_OPTION_MAGNITUDE,   // struct hearth_magnitude: a number, or a share such as 40%
    HEARTH_OPTION_SIZE,        // uint64_t bytes: 4096, 900M, 4G, 4GB, 4GiB (powers of 1024)
    HEARTH_OPTION_SIZE_LIST,   // struct hearth_size_list of these, "2G,4G"
    HEARTH_OPTION_SHARE_LIST,  // struct hearth_share_list, "3,1", also "3/1"
    HEARTH_OPTION_BUDGET,      // struct hearth_ram: the same, 80% of the machine's memory, all, min, or auto
    HEARTH_OPTION_STRING,      // const char *, borrowed from argv or the environment
    HEARTH_OPTION_ENUM,        // int, the index in `choices`
    HEARTH_OPTION_INT_LIST,    // struct hearth_int_list, "1,4,8"
    HEARTH_OPTION_TOKENS_LIST, // the same, also "8k,128k"
    HEARTH_OPTION_ENUM_LIST,   // struct hearth_int_list of indices in `choices`, "f16,q8_0"
    HEARTH_OPTION_STRING_LIST, // struct hearth_string_list: may be given several times
    HEARTH_OPTION_HELP,        // prints the sub-command's help and ends
    HEARTH_OPTION_VERSION      // prints the version and ends
};

struct hearth_magnitude {
    double least, share; // one of them 0; share 0..1
};

#define HEARTH_INT_LIST_MAX 16
struct hearth_int_list {
    int n;
    int64_t values[HEARTH_INT_LIST_MAX];
};

// One for each device.
struct hearth_size_list {
    int n;
    uint64_t values[HEARTH_DEVICES_MOST];
};

struct hearth_share_list {
    int n;
    float values[HEARTH_DEVICES_MOST];
};

#define HEARTH_STRING_LIST_MAX 64
struct hearth_string_list {
    int n;
    const char *values[HEARTH_STRING_LIST_MAX]; // borrowed from argv or the environment
};

#define HEARTH_BUDGET_ALL UINT64_MAX       // no budget
#define HEARTH_BUDGET_MIN (UINT64_MAX - 1) // the smallest one that the model runs with

struct hearth_ram {
    uint64_t bytes; // 0: as much as is free; or one of the above
    double percent; // of this machine's memory, where it was given so; else 0
};

enum { HEARTH_STATS_NONE, HEARTH_STATS_JSON };
enum { HEARTH_OUTPUT_MD, HEARTH_OUTPUT_JSON, HEARTH_OUTPUT_JSONL, HEARTH_OUTPUT_CSV, HEARTH_OUTPUT_SQL };
enum { HEARTH_PACK_AUTO, HEARTH_PACK_ASK, HEARTH_PACK_NEVER };
enum { HEARTH_OPTION_PHASE_PROMPT, HEARTH_OPTION_PHASE_STEP };

// The values of all options of all sub-commands. Strings are borrowed from argv or the
// environment.
struct hearth_options {
    const char *model, *out, *type, *preset; // MODEL (or IN, HF_DIR), OUT, TYPE, PRESET
    const char *prompt, *file;
    const char *profile, *down, *predictors;
    int activation; // index in the choices of --activation; 0: what the model says
    bool escape, no_escape, no_bos, no_parse_special, parse_special, special, ignore_eos, json, verify, quiet,
        verbose, pure, ids, pieces, show_count;
    const char *model_draft;
    uint64_t aside; // bytes of --ram that are for something else than the model; no option
    int64_t n_predict, draft_max, n_parallel, chunks, repetitions, depth;
    struct hearth_int_list bench_prompt, bench_gen, bench_parallel;
    struct hearth_int_list bench_depth, bench_threads, bench_ubatch, bench_type_k, bench_type_v;
    double recall, predictor_share; // percent
    int predictor_form;             // enum hearth_predictor_form
    double density;                 // percent
    int64_t n_samples;
    int64_t train_steps;
    struct hearth_string_list models, bench_pg;
    uint64_t roof_bytes;
    int output, phase, stats;
    const char *logits_out, *trace;
    const char *kl_base;
    bool kl_divergence;
    int pooling;     // index in the choices of --pooling: auto, then enum hearth_pooling
    int embd_output; // HEARTH_EMBED_TEXT, ... (embed_output.h)
    int64_t embd_normalize;
    const char *embd_separator;

    const char *load, *save; // files of a chat
    const char *system, *system_file, *chat_template, *chat_template_file, *chat_variables;
    bool no_perf; // no statistics, but all else
    bool conversation, single_turn, multiline, context_shift;
    int reasoning; // index in the choices of --reasoning: auto, on, off

    const char *host, *api_key, *api_key_file, *origins, *alias;
    int64_t port, queue, threads_http, timeout, ping_interval;
    uint64_t max_body;
    const char *prefix_cache;
    uint64_t prefix_cache_size;
    const char *slot_save_path;

    const char *simulate, *svg, *machine;
    const char *device, *gpu_layers;
    struct hearth_size_list vram; // n 0: not given
    struct hearth_share_list tensor_split;
    int64_t device_hot; // percent; -1: by time
    bool cpu_moe;
    int64_t n_cpu_moe;
    struct hearth_string_list override_tensor; // PATTERN=WHERE, with commas between them
    bool device_inexact, op_offload, no_op_offload;
    bool explain, measure, shape, early_predictors, drift, gates_apart;
    double min_speed;                   // 0: not given
    uint64_t sim_ram;                   // 0: not given
    struct hearth_int_list cache_sizes; // percent
    double warmup;                      // percent
    int64_t half_life;

    double temp, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, repeat_last_n, seed;
    double typ_p, top_n_sigma, xtc_probability, xtc_threshold, dynatemp_range, dynatemp_exponent;
    double dry_multiplier, dry_base, mirostat_tau, mirostat_eta;
    int64_t dry_allowed_length, dry_penalty_last_n, mirostat;
    struct hearth_string_list dry_breakers, logit_bias;
    const char *samplers, *sampler_letters;
    const char *grammar, *grammar_file, *json_schema, *json_schema_file;

    int64_t n_ctx, kv_size, n_ubatch, n_threads; // n_ctx -1: not given
    int type_k, type_v;                          // enum hearth_kv_type
    int sparsity;                                // enum hearth_sparsity
    double predict_threshold;                    // NAN: not given
    struct hearth_magnitude sparsity_threshold;
    int cpu;                                     // index in the choices of --cpu; 0: the best
    struct hearth_string_list tensor_types;      // NAME=TYPE
    struct hearth_string_list override_kv;       // KEY=TYPE:VALUE, with commas between them
    struct hearth_string_list lora, lora_scaled; // names with commas between them, with :SCALE behind each
    struct hearth_ram ram;
    int io; // index in the choices of --io
    const char *throttle;
    int overlap; // enum hearth_overlap
    int pack;    // HEARTH_PACK_AUTO, ...
    const char *pack_dir;
};

struct hearth_option {
    const char *names;   // spellings shown in help, "-n, --predict"; the last long one names it elsewhere
    const char *aliases; // further spellings that are accepted, or NULL
    enum hearth_option_kind kind;
    const char *value;   // name of the value in help, "N"; NULL for flags
    const char *def;     // default as the user would write it, parsed before the arguments; NULL: none
    const char *choices; // ENUM, ENUM_LIST: "f16|f32|q8_0"
    double min, max;     // INT, FLOAT, SIZE, INT_LIST: allowed range, both ends included
    unsigned commands;   // HEARTH_CMD_* bits
    const char *group;   // heading in help
    const char *help;    // one sentence without a full stop; NULL: accepted but not shown
    size_t offset;       // of the field in struct hearth_options
};

// One table for all sub-commands. It ends with names == NULL.
extern const struct hearth_option hearth_option_table[];
// The value of --cpu for hearth_model_params.cpu (NULL: the best level).
const char *hearth_options_cpu(const struct hearth_options *o);
// The value of --ram for hearth_model_params.ram.
uint64_t hearth_options_ram(const struct hearth_options *o);
// The value of --io for hearth_model_params.io.
const char *hearth_options_io(const struct hearth_options *o);

struct hearth_positional {
    // "MODEL", "[MODEL]" when it may be left out, "MODEL..." for any number; NULL ends the list.
    const char *name;
    size_t offset; // in struct hearth_options, of a const char *, or of a struct hearth_string_list
};

struct hearth_command {
    const char *name;
    unsigned bit; // HEARTH_CMD_*
    struct hearth_positional positionals[4];
    const char *summary;                        // one line, no full stop
    const char *description;                    // paragraphs separated by blank lines
    const char *example;                        // lines of shell
    int (*run)(const struct hearth_options *o); // returns an exit status
};

extern const struct hearth_command hearth_command_table[]; // ends with name == NULL

// The sub-command of this name; NULL: unknown.
const struct hearth_command *hearth_command_find(const char *name);

// Fills *o from argv[0..argc), which has no program and sub-command names, and for what that does not set
// from the environment: HEARTH_CTX_SIZE is --ctx-size. Returns -1 if the command should run, else the exit
// status to end with; usage errors and --help have been printed then.
int hearth_options_parse(const struct hearth_command *cmd, int argc, char **argv, struct hearth_options *o);

// How a user of the command sets a field of hearth.h's parameter structs: "-c" for "n_ctx"; NULL: not at all.
const char *hearth_option_for(const struct hearth_command *cmd, const char *param);

#endif
