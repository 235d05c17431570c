// SPDX-License-Identifier: MIT
// The weights of a model as its sessions see them: which sources there are, and who evaluates now. Those of a
// model with a budget are opened by its first session, shared by all, and closed by the last.
#ifndef HEARTH_WEIGHTS_SOURCES_H
#define HEARTH_WEIGHTS_SOURCES_H

#include "weights/source.h"

// Reads so far.
struct hearth_reads {
    uint64_t reads, bytes, wait_ns, retries;
};

struct hearth_sources {
    const struct hearth_model *model;
    struct hearth_weights weights; // pointed to memory, a stage's while it is acquired
    struct hearth_layer *layers;   // weights.layers, where they are not the model's
    struct hearth_evaluation now;
    struct hearth_lock *turn; // of the evaluation; NULL: all weights stay where they are
    struct hearth_reader *reader;
    struct hearth_source all[3];
    int n;
    struct hearth_source stages, ffn; // of all: who gives dense weights, who gives feed-forward parts
    uint64_t ram;                     // the budget; of which this is the plan:
    struct hearth_budget_plan plan;
    struct hearth_reads counted, phases[2]; // until the last evaluation, and in those of each phase

    int users; // sessions; guarded by the model's lock, as is
    // Bytes set aside for further sessions: for their regions, and for what they take beside these.
    uint64_t room, beside;

    // See lending.c.
    uint64_t aside;              // bytes that the plan set aside for sessions
    uint64_t kept;               // what one that has not evaluated yet keeps of them
    struct hearth_lock *account; // guards what follows; taken last
    uint64_t used;               // what the others use of them
    uint64_t to_stages;          // of what is lent, what stages have; guarded by the turn
    int n_active, n_prompting;   // how many these are, and how many of them are amid a prompt
};

// What a session has besides weights, and how it evaluates.
struct hearth_sources_user {
    enum hearth_sparsity sparsity; // never AUTO
    uint64_t kv_bytes, workspace_bytes;
    uint64_t prompt_bytes; // of the workspace: what only prompts use
    uint64_t table_bytes;  // on the heap
    uint64_t held_bytes;   // by the process, before all of these were written to
    int max_steps;         // rows of a step
    int n_threads, max_seqs, n_ctx, n_ubatch;
    int64_t kv_tokens; // that the KV cache has room for
    // Where it is the only session of its model: so many layers, the last ones, and the head are a device's.
    int layers_elsewhere;
    bool head_elsewhere;
    // How much less memory a context of one page, a micro-batch of one token, a single sequence would take.
    uint64_t ctx_bytes, ubatch_bytes, seqs_bytes;

    // The sources': what it uses now of what is set aside for it, and whether it is amid a prompt.
    uint64_t used;
    bool prompting;
};

// Joins the sources of the model, or opens them: then the weights are brought into memory as far as the
// model's budget goes. The session has all its other memory by now. HEARTH_E_BUDGET says what would do.
int hearth_sources_open(struct hearth_sources **out, const struct hearth_model *m,
                        const struct hearth_sources_user *user, struct hearth_error *err);
// What a budget of fit->ram bytes would give such a session, or of `most` where nothing less is possible at
// all; HEARTH_RAM_LEAST becomes the smallest one. All fields but `free_bytes` and `free_what` are set. Reads
// nothing.
int hearth_sources_fit(const struct hearth_model *m, const struct hearth_sources_user *user, uint64_t most,
                       struct hearth_fit *fit, struct hearth_error *err);
// The session's other memory is gone by now.
void hearth_sources_close(struct hearth_sources **s, struct hearth_sources_user *user);

// For plans of many budgets: sources that only plan. *need is what hearth_budget_plan() takes and points into
// them; *whole_bytes: the smallest budget that has room for all weights. Reads no weights. Drop gives them
// up; they have no users.
int hearth_sources_prepare(struct hearth_sources **out, const struct hearth_model *m,
                           const struct hearth_sources_user *user, struct hearth_source_need *need,
                           uint64_t *whole_bytes, struct hearth_error *err);
void hearth_sources_drop(struct hearth_sources **s);

// Whether single neurons may come, for a session that is not open yet.
bool hearth_sources_may_give_neurons(const struct hearth_model *m, enum hearth_sparsity sparsity);

// ---- an evaluation (evaluation.c)

// Waits for others' evaluations; false when this one is cancelled before. Then the sources are the caller's.
bool hearth_sources_take_turn(struct hearth_sources *s, struct hearth_fault *fault);
void hearth_sources_drop_turn(struct hearth_sources *s);

// Begins one; false when it is cancelled before.
bool hearth_sources_begin(struct hearth_sources *s, const struct hearth_evaluation *now);
// Ends it; what was read since the last one counts for this phase.
void hearth_sources_end(struct hearth_sources *s, enum hearth_phase phase);

// Before layer i, or part i - n_layer of the head; true: the evaluation has failed and is to be given up.
bool hearth_sources_acquire(struct hearth_sources *s, int stage);
void hearth_sources_release(struct hearth_sources *s, int stage); // after it
// These layers [n_layer] (NULL: none), and with `head` this, are computed without their weights, by devices: they are not
// read ahead from now on, until the evaluation ends. The caller may change the table until then.
void hearth_sources_skip(struct hearth_sources *s, const bool *layers, bool head);
// Whether the stage is always in memory.
bool hearth_sources_has_stage(const struct hearth_sources *s, int stage);

static inline bool hearth_sources_embed_by_row(const struct hearth_sources *s)
{
    return s->stages.ops->embeds && s->stages.ops->embeds(s->stages.state);
}

// ---- memory lent to the caches (lending.c)

// From now on the session uses so many bytes of its KV cache, and where `prompts` is set all of its
// workspace, else what steps need of it. What it gives back has gone back to the system by now; what it takes
// is there when this returns. The caller has the turn.
void hearth_sources_use(struct hearth_sources *s, struct hearth_sources_user *user, uint64_t kv_bytes,
                        bool prompts);
// The session is gone.
void hearth_sources_use_nothing(struct hearth_sources *s, struct hearth_sources_user *user);
// What the plan sets aside for one session, and what of it may be lent.
uint64_t hearth_sources_session_bytes(const struct hearth_sources_user *user);
uint64_t hearth_sources_lendable_bytes(const struct hearth_sources_user *user);

// ---- figures (stats.c)

void hearth_sources_count(struct hearth_sources *s, enum hearth_phase phase);
// Waits for an evaluation that is going on.
void hearth_sources_stats(const struct hearth_sources *s, struct hearth_streaming_stats *out);
uint64_t hearth_sources_memory(const struct hearth_sources *s); // of weights and what reading them takes

#endif
