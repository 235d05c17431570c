// SPDX-License-Identifier: MIT
// What one evaluation takes through the layers: rows of the caller's, checked and put into the order in which
// they are computed.
#ifndef HEARTH_ENGINE_BATCH_H
#define HEARTH_ENGINE_BATCH_H

#include "base/memory.h"
#include "engine/context.h"
#include "engine/kv.h"

// T = max_rows, S = max_seqs.
struct hearth_batch {
    int n; // rows; 0: none
    // The numeric classes that there are, prompt before step. Within a class the rows of a sequence lie side
    // by side, sequences in the order in which they first appear.
    struct hearth_rows classes[2];
    int n_classes;
    int *tokens;             // [T]
    struct hearth_row *rows; // [T]

    struct hearth_batch_row *from; // [T] the caller's
    int *order;                    // [T] where each of the caller's rows is
    // Each sequence's rows by position, as it may have some of both classes: sorted[firsts[i] + k] is the k-th row of
    // sequence seqs[i].
    int *sorted, *firsts; // [T] [S + 1]
    int *seqs, *counts;   // [S] the sequences, and rows of each
    int n_seqs;
    struct hearth_state_change *changes; // [S] what becomes of their states
    bool keeps; // inputs of recurrent layers are to be kept of its steps: some sequence has several
    bool again; // the rows were evaluated before, and are for the sake of their sequence's state
    int kept; // the step of that evaluation whose inputs of recurrent layers are the first row's; -1: they are not kept
    int *index; // [S] a sequence's place in seqs; -1: it has no row
    int *next;  // [2 S] where a class's next row of a sequence goes, while they are put in order

    // What is wanted: row k of the final norm's output is of row wanted[k]. It is that of the caller's row
    // for which states_at is k; of those with logits, which come first, row k of the head's output is of the
    // caller's row for which logits_at is k.
    int *wanted; // [T]
    int n_wanted;
    struct hearth_rows answers[2]; // those with logits, by class
    int n_answer_classes;
    int *logits_at, *states_at; // [T] -1: none
    int n_answered;             // rows of the last evaluation, which logits_at is of; 0: it has failed
};

struct hearth_batch_limits {
    int max_rows, max_seqs, max_steps, logit_rows;
    int n_vocab;
};

void hearth_batch_lay_out(struct hearth_batch *b, const struct hearth_batch_limits *limits,
                          struct hearth_arena *a);
void hearth_batch_init(struct hearth_batch *b, const struct hearth_batch_limits *limits);

// HEARTH_E_INVALID when it is not in the vocabulary.
int hearth_batch_check_token(const struct hearth_batch_limits *limits, hearth_token token,
                             struct hearth_error *err);

// Whether seqs[n], at most max_seqs, are different sequences that there are: linear in n. HEARTH_E_INVALID.
int hearth_batch_check_seqs(struct hearth_batch *b, const struct hearth_kv *kv, const int *seqs, int n,
                            struct hearth_error *err);

// Copies the caller's rows[n], which have row_size bytes each in the program's header, to `from`.
// HEARTH_E_INVALID: too few or too many, or no such size.
int hearth_batch_read(struct hearth_batch *b, const struct hearth_batch_limits *limits,
                      const struct hearth_batch_row *rows, int n, size_t row_size, struct hearth_error *err);

// Takes the first n (1..T) rows of `from`, which stay until the batch is committed or dropped, and reserves
// their positions. HEARTH_E_INVALID, HEARTH_E_BUDGET, HEARTH_E_KV_FULL: then there is no batch, and nothing
// has changed.
int hearth_batch_take(struct hearth_batch *b, struct hearth_kv *kv, const struct hearth_batch_limits *limits,
                      int n, struct hearth_error *err);

// Takes positions [pos, pos + n) of a sequence, n at most T, of which at most max_steps are steps: they are
// there already, and pos is the top of its states. Nothing is wanted of them. kept: recurrent layers' inputs are
// kept, from that step on; -1: they are not. Errors of hearth_states_reserve().
int hearth_batch_take_again(struct hearth_batch *b, struct hearth_kv *kv, int seq, int pos, int n, int kept,
                            struct hearth_error *err);

// The rows are stored: the sequences grow.
void hearth_batch_commit(struct hearth_batch *b, struct hearth_kv *kv);
// The evaluation has failed: sequences are as they were.
void hearth_batch_drop(struct hearth_batch *b, struct hearth_kv *kv);

// Has the logits of the caller's row `from`, which wants them, read as row 0's.
static inline void hearth_batch_answer_first(struct hearth_batch *b, int from)
{
    const int at = b->logits_at[from];
    b->logits_at[from] = -1;
    b->logits_at[0] = at;
}

// Rows of one class.
static inline int hearth_batch_count(const struct hearth_batch *b, enum hearth_phase phase)
{
    for (int i = 0; i < b->n_classes; i++)
        if (b->classes[i].phase == phase)
            return b->classes[i].n;
    return 0;
}

#endif
