// SPDX-License-Identifier: MIT
// The outlook of a model: the best plan for a memory budget on a machine, and the speed that it would have
// there. All that a plan decides is searched: whatever it chooses, results are the same.
#ifndef HEARTH_ENGINE_OUTLOOK_H
#define HEARTH_ENGINE_OUTLOOK_H

#include "hearth.h"
#include "plan/forecast.h"

struct hearth_outlook;

struct hearth_outlook_params {
    struct hearth_session_params session; // n_ubatch is the largest that is tried
    const struct hearth_probe *probe;     // of the machine; outlives the outlook
    bool keep_ubatch;                     // n_ubatch is not searched
    bool keep_look_ahead, look_ahead;     // nor is looking ahead
    int n_prompt, n_predict;              // tokens of the exchange whose time decides; 0: as usual
};

// What a budget gives.
struct hearth_prospect {
    enum hearth_fit_kind kind; // HEARTH_FIT_NOT: nothing else is set
    uint64_t ram;
    // What was chosen.
    struct hearth_budget_plan plan; // of memory; HEARTH_FIT_WHOLE: zeros
    int n_ubatch, n_threads;
    bool look_ahead;
    uint32_t gap; // bytes of unwanted neurons that a read may go over
    // Of what is set aside for contexts and prompts: what weights have in the middle of a usual exchange.
    uint64_t lent_bytes, neurons; // in memory with it
    // What comes of it.
    uint64_t workspace_bytes;
    double kept; // share of all neurons, experts or streaming bytes that are in memory, with what is lent
    struct hearth_forecast forecast;
    double prompt_tokens_per_second;
};

// Reads no weights; costs milliseconds. Errors: those of hearth_session_open(), but for a budget that is too
// small. The model outlives the outlook.
int hearth_outlook_open(struct hearth_outlook **out, const struct hearth_model *model,
                        const struct hearth_outlook_params *params, struct hearth_error *err);
void hearth_outlook_close(struct hearth_outlook **outlook);

// The smallest budget, and the smallest one that all weights fit into.
uint64_t hearth_outlook_least(const struct hearth_outlook *o);
uint64_t hearth_outlook_whole(const struct hearth_outlook *o);

// The best plan for a budget: the fastest exchange; of equal ones the larger micro-batch, then fewer threads.
// The same call gives the same plan. HEARTH_E_MEMORY.
int hearth_outlook_at(struct hearth_outlook *o, uint64_t ram, struct hearth_prospect *out,
                      struct hearth_error *err);

// The smallest budget, to a MiB, of at least `speed` tokens a second; *out->kind is HEARTH_FIT_NOT when no
// budget is enough.
int hearth_outlook_least_for(struct hearth_outlook *o, double speed, struct hearth_prospect *out,
                             struct hearth_error *err);

#endif
