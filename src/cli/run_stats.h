// SPDX-License-Identifier: MIT
// The statistics that hearth run prints at its end, as text or as --stats json; of hearth chat the latter.
#ifndef HEARTH_CLI_RUN_STATS_H
#define HEARTH_CLI_RUN_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "draft/draft.h"
#include "engine/outlook.h"
#include "hearth.h"

// Why a continuation ended.
enum hearth_stop {
    HEARTH_STOP_NONE,
    HEARTH_STOP_EOS,         // the model ended its text
    HEARTH_STOP_LENGTH,      // -n
    HEARTH_STOP_CONTEXT,     // the context is full
    HEARTH_STOP_INTERRUPTED, // Ctrl-C
    HEARTH_STOP_CACHE,       // the KV cache is full
    HEARTH_STOP_GRAMMAR      // the grammar allows nothing
};

struct hearth_run_step {
    uint64_t
        ns; // from one token of a sequence to its next, in the mean of the step: evaluation, choice and printing
    uint64_t tokens, bytes; // generated, and read for them, until its end
};

struct hearth_run_stats {
    const struct hearth_model_info *model;
    struct hearth_stats session;
    struct hearth_kv_stats kv;
    struct hearth_streaming_stats streaming;
    struct hearth_device_stats devices[HEARTH_DEVICES_MOST];
    int n_devices;
    const struct hearth_prospect *forecast; // NULL: there is none
    uint64_t load_ns, measure_ns;           // until the session was there; of it, measuring the machine
    uint64_t generated;                     // tokens chosen, over all sequences
    uint64_t step_tokens;                   // rows of steps that something came of
    struct hearth_run_step *steps;
    size_t n_steps, cap;
    uint64_t n_prompt;              // tokens of the prompt, evaluated or not
    const struct hearth_pace *pace; // of guesses
    int n_threads, n_sequences;
    uint32_t seed; // of the first sequence
    bool random;   // the text depends on it
    bool verbose;
    enum hearth_stop stop;
    int best; // index of the best sequence; -1 with only one
    double best_log_prob;
};

// How long it took until the session was there, where that is worth a line: off a terminal, which shows it while it
// goes on.
void hearth_run_stats_loading(uint64_t load_ns, uint64_t measure_ns);
// Adds a step of a session, which took so long: of so many texts, with so many rows in all that these made use of. False:
// no memory.
bool hearth_run_stats_add(struct hearth_run_stats *s, struct hearth_session *session, int texts, int rows,
                          uint64_t ns);
// Takes over what the session has counted so far. The model stays the caller's and is needed until the end.
void hearth_run_stats_take(struct hearth_run_stats *s, const struct hearth_model *model,
                           struct hearth_session *session);
void hearth_run_stats_free(struct hearth_run_stats *s);
// Prints lines of text on standard error.
void hearth_run_stats_print(const struct hearth_run_stats *s);

// Whether a session has generated so few tokens that what each has read, more than was forecast, filled the
// cache. forecast may be NULL: no.
bool hearth_run_stats_fills(const struct hearth_streaming_stats *t, uint64_t tokens,
                            const struct hearth_prospect *forecast);
#define HEARTH_FILLS ", as the first ones fill the cache"
// Prints one line of JSON on standard error; sorts the steps. docs/cli.md documents the keys.
void hearth_run_stats_json(struct hearth_run_stats *s);

#endif
