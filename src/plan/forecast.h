// SPDX-License-Identifier: MIT
// The cost model: how fast a model generates on a machine with a plan of its memory. Pure arithmetic over the
// sizes of the model, the plan, the activity of its neurons and a probe of the machine. docs/streaming.md,
// "The forecast".
#ifndef HEARTH_PLAN_FORECAST_H
#define HEARTH_PLAN_FORECAST_H

#include "model/model.h"
#include "plan/activity.h"
#include "plan/budget.h"
#include "plan/probe.h"

// What a step computes when all weights are in memory, in bytes of weights by number format.
struct hearth_workload {
    double whole[HEARTH_TYPE_END]; // matrices
    double parts[HEARTH_TYPE_END]; // matrices of the experts that one token uses, and their predictors
    double rows[HEARTH_TYPE_END];  // picked rows: of one token
    // How many times as many experts, and neurons, all tokens of a step use together as one of them.
    double parts_united, rows_united;
    double predictors; // of `whole`
    double neurons;    // that predictors are asked about
    bool early;        // predictors name the neurons of the next layer
    double kv_bytes;   // keys and values of a token's context
    int n_layer;
};

// Adds up what a token needs of a model that goes by neuron as `sparsity` says (never AUTO). density
// [n_layer]: share of a visited space's neurons that it computes.
void hearth_workload_make(struct hearth_workload *out, const struct hearth_model *m,
                          enum hearth_sparsity sparsity, const double *density);

struct hearth_forecast_params {
    const struct hearth_probe *probe;
    const struct hearth_workload *workload;
    const struct hearth_budget_params *budget;
    const struct hearth_budget_plan *plan; // NULL: all weights are in memory
    const uint32_t *resident, *quota;      // of its spaces; quota with what is lent
    uint64_t lent; // bytes that what streams has besides the plan: dense weights, experts
    uint32_t gap;  // bytes that a read may go over, see hearth_forecast_gap()
    const struct hearth_activity *activity; // [n_spaces]
    int threads, tokens;                    // tokens: of a step
    bool look_ahead;
};

struct hearth_forecast {
    double tokens_per_second;    // of all sequences together
    double compute_s, storage_s; // of a step, each alone
    double hidden_s;             // of the shorter of the two: what goes on during the longer
    double read_bytes, reads;    // of a token
    double hit_rate;             // of neurons or experts asked for that are not resident; -1: none are
    double asked;                // of a step: neurons or experts that are not resident
};

void hearth_forecast(const struct hearth_forecast_params *p, struct hearth_forecast *out);

// A prompt's tokens a second, evaluated n_ubatch at a time: each micro-batch reads all that is not in memory.
double hearth_forecast_prompt(const struct hearth_forecast_params *p, int n_ubatch);

// Bytes that are not wanted and that a read may go over on its way to the next bundle: what a request costs
// in bytes, as hearth_store_gap() says it.
uint32_t hearth_forecast_gap(const struct hearth_probe *probe);

#endif
