// SPDX-License-Identifier: MIT
// States that a session keeps of the last positions of sequences: what the last norm gives. Guesses ahead begin with them
// (nextn.h).
#ifndef HEARTH_ENGINE_TAIL_H
#define HEARTH_ENGINE_TAIL_H

#include "engine/session.h"

// From now on keeps the states (what the last norm gives) of the last n_rows positions of the n_seqs sequences that were
// evaluated last. HEARTH_E_MEMORY; HEARTH_E_INVALID: of a model with several residual streams, or with a device.
int hearth_tail_open(struct hearth_session *s, int n_seqs, int n_rows, struct hearth_error *err);
void hearth_tail_close(struct hearth_session *s);
// Bytes that it takes.
uint64_t hearth_tail_bytes(int n_embd, int n_seqs, int n_rows);

// The batch's rows have gone through the layers.
void hearth_tail_add(struct hearth_session *s);
// The sequence's positions are another text's from now on.
void hearth_tail_forget(struct hearth_session *s, int seq);

// The sequence has n positions now.
void hearth_tail_cut(struct hearth_session *s, int seq, int n);

// [E] the state of a position of a sequence, which is valid until the next evaluation; NULL: it is not kept.
const float *hearth_tail_state(const struct hearth_session *s, int seq, int pos);

#endif
