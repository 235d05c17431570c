// SPDX-License-Identifier: MIT
// What is kept of former prompts: sequences in the KV cache, with their tokens. All their positions were
// evaluated as parts of prompts, so a prompt that begins alike has the same bits whether it starts from one
// of them or not.
#ifndef HEARTH_SERVE_PREFIXES_H
#define HEARTH_SERVE_PREFIXES_H

#include "hearth.h"

struct hearth_prefixes;

// At most `cap` sequences of the session are kept. NULL: no memory.
struct hearth_prefixes *hearth_prefixes_open(struct hearth_session *session, int cap);
void hearth_prefixes_close(struct hearth_prefixes **p);

// Tokens that a[0..na) and b[0..nb) have in common at their beginnings.
int hearth_common_prefix(const hearth_token *a, int na, const hearth_token *b, int nb);

// How many of the tokens are kept at most, and by which entry (-1: none).
int hearth_prefixes_find(const struct hearth_prefixes *p, const hearth_token *tokens, int n, int *entry);
// A sequence with the first n tokens of an entry, which stays unless it has no more than these. A negative
// code when there is no sequence left.
int hearth_prefixes_take(struct hearth_prefixes *p, int entry, int n, struct hearth_error *err);
// A further sequence with the first n tokens of an entry; the entry stays. A negative code when there is none
// left.
int hearth_prefixes_fork(struct hearth_prefixes *p, int entry, int n, struct hearth_error *err);
// Keeps the first n tokens of a sequence, which belongs to the prefixes from now on; where there is no room
// for it, the one that was not used for longest goes. The first n_offered blocks were offered already.
void hearth_prefixes_keep(struct hearth_prefixes *p, int seq, const hearth_token *tokens, int n,
                          int n_offered);
// Lets go of the entry that was not used for longest. False: there is none.
bool hearth_prefixes_drop(struct hearth_prefixes *p);
// Lets go of entries that are the beginning of these tokens. Returns how many of the tokens were in one.
int hearth_prefixes_erase(struct hearth_prefixes *p, const hearth_token *tokens, int n);
// The first n blocks of an entry.
struct hearth_prefix_offer {
    int seq, n;
    const hearth_token *tokens;
};
// Those of the entry used last that has blocks that were not offered yet; now they were. False: there is
// none.
bool hearth_prefixes_offer(struct hearth_prefixes *p, struct hearth_prefix_offer *offer);
// Entries that there are now.
int hearth_prefixes_count(const struct hearth_prefixes *p);

#endif
