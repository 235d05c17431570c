// SPDX-License-Identifier: MIT
// The neuron cache: which cold bundles of a model larger than memory are in memory, and where.
//
// A space (layer, expert) keeps a prefix of its neurons resident in matrices elsewhere; of the others
// ("cold"), each may sit in a slot of one big region. A step asks for the neurons it needs in a space
// (request), reads what is missing into the slots it was given, says so (done), computes, and lets go
// (release). Only then does the space fall back to its quota, and the policy chooses among old and new
// bundles alike. Until then, bundles being read live in a reserve beyond the quotas, so no read ever waits
// for an eviction.
//
// One thread calls; other threads only read the bundles whose pointers they were handed, which stay valid
// while pinned (from request to release). Nothing is allocated after open. The same calls give the same
// choices.
#ifndef HEARTH_SPARSE_CACHE_H
#define HEARTH_SPARSE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct hearth_cache;
struct hearth_cache_policy;

// What to keep when a space is over its quota. The table is in cache_policy.c; index 0 is the default.
//   twospeed decayed as below, plus the same with a half life of 2 visits, weighted: what is used
//            often, and what was used just now
//   decayed  highest activation count, each use counting half after `half_life` visits of the space;
//            remembers neurons that are not in memory too
//   lru      most recently used
//   lfru     highest number of uses since it came in, divided by the visits since the last one
//   s3fifo   S3-FIFO (Yang et al., SOSP 2023): a small queue for newcomers, a main queue, a ghost queue
const struct hearth_cache_policy *hearth_cache_policy_at(int i);              // NULL past the end
const struct hearth_cache_policy *hearth_cache_policy_find(const char *name); // NULL: unknown
const char *hearth_cache_policy_name(const struct hearth_cache_policy *p);

#define HEARTH_CACHE_HALF_LIFE 32         // visits
#define HEARTH_CACHE_CHUNK     (2u << 20) // bytes
#define HEARTH_CACHE_MAX_PINS  63

struct hearth_cache_space_params {
    uint32_t n_neurons;    // F; ids are 0..F-1, at most 2^30
    uint32_t bundle_bytes; // stride of bundles in the file
    uint64_t file_offset;  // of bundle 0
    uint32_t resident;     // neurons [0, resident) are elsewhere and never enter the cache
    uint32_t quota;        // cold bundles to keep between steps
};

struct hearth_cache_params {
    const struct hearth_cache_policy *policy; // NULL: the default
    uint32_t half_life; // of policies decayed and twospeed, in visits of a space; 0: HEARTH_CACHE_HALF_LIFE
    uint32_t n_spaces;
    const struct hearth_cache_space_params *spaces; // [n_spaces]; copied
    // Of reads into slots: a power of two up to 65536; offset, length and address are multiples of it,
    // and slots have the slack that this takes. 1: bundles are copied in from elsewhere.
    uint32_t align;
    uint32_t reserve; // bundles that may be in memory beyond the quotas while a step uses them, for each size
    uint32_t chunk_bytes; // the region is divided among sizes in chunks: a power of two of at least 65536
                          // that holds a slot; 0: HEARTH_CACHE_CHUNK
    uint64_t bytes;       // of the region; 0: what quotas and reserve take (hearth_cache_measure)
    uint64_t max_bytes;   // that hearth_cache_set_bytes() may raise it to (address space only); 0: bytes
    bool no_memory;       // decide only, hold no bytes: for simulation. Pointers are then NULL
};

// What a cache with these parameters takes: the region for its slots (whole chunks) and its tables.
// Parameters are checked as by open.
struct hearth_cache_sizes {
    uint64_t region_bytes; // for quotas and reserve
    uint64_t table_bytes;
};
int hearth_cache_measure(const struct hearth_cache_params *params, struct hearth_cache_sizes *out,
                         struct hearth_error *err);
// Bytes of a slot for bundles of this stride and first offset when reads are aligned so.
uint32_t hearth_cache_slot_bytes(uint32_t bundle_bytes, uint64_t file_offset, uint32_t align);

// HEARTH_E_INVALID, HEARTH_E_BUDGET (bytes do not hold the quotas and the reserve), HEARTH_E_MEMORY.
int hearth_cache_open(struct hearth_cache **out, const struct hearth_cache_params *params,
                      struct hearth_error *err);
void hearth_cache_close(struct hearth_cache **c);

// ---- a step ----

// A read that a request asks for: `length` bytes at `offset` of the file to dst. It may reach over the bundle
// on both sides, and at the end of a file over its end: of the bytes read, the first `need` must be there.
struct hearth_cache_read {
    uint64_t offset;
    uint32_t length, need;
    uint32_t space, neuron;
    void *dst;
};

enum hearth_cache_state { HEARTH_CACHE_ABSENT, HEARTH_CACHE_LOADING, HEARTH_CACHE_PRESENT };

// Begins a step: visits are counted once a step for each space.
void hearth_cache_step(struct hearth_cache *c);

// Asks for ids[n] (ascending or not, no repetition) of one space: pins each, and lists the reads for those
// that are absent, which are LOADING from here on. Ids of the resident prefix are passed over. Returns how
// many ids were dealt with, from the front: fewer than n when slots or reads[max_reads] ran out; then finish
// and release these before asking for the rest.
uint32_t hearth_cache_request(struct hearth_cache *c, uint32_t space, const uint32_t *ids, uint32_t n,
                              struct hearth_cache_read *reads, uint32_t max_reads, uint32_t *n_reads);
// A listed read has ended. A failed one leaves the neuron absent and unpinned: do not release it.
void hearth_cache_done(struct hearth_cache *c, const struct hearth_cache_read *read, bool ok);
// What a predictor said of all neurons of a space in this visit: scores[F], the higher the likelier active;
// they stay the caller's. Policy twospeed favours neurons that were nearly named when it next trims the
// space.
void hearth_cache_scores(struct hearth_cache *c, uint32_t space, const float *scores);
// Unpins ids that a request dealt with and brings the space back to its quota.
void hearth_cache_release(struct hearth_cache *c, uint32_t space, const uint32_t *ids, uint32_t n);

// Lists reads for those of ids[n] that are absent, as far as free slots go beyond the `keep_free` that a
// request may need; pins nothing and counts as no use.
uint32_t hearth_cache_prefetch(struct hearth_cache *c, uint32_t space, const uint32_t *ids, uint32_t n,
                               uint32_t keep_free, struct hearth_cache_read *reads, uint32_t max_reads);

// Any thread, while no neuron of the space is asked for, read ahead or let go.
enum hearth_cache_state hearth_cache_state(const struct hearth_cache *c, uint32_t space, uint32_t neuron);
// The bundle of a neuron that is present or loading, else NULL. In a loading one, nothing is there yet.
void *hearth_cache_bundle(const struct hearth_cache *c, uint32_t space, uint32_t neuron);

// ---- between steps: nothing of the space may be pinned ----

// How often each neuron of a space is active, share[F] in 0..1 (a profile): what the policy starts from.
void hearth_cache_seed(struct hearth_cache *c, uint32_t space, const float *share);

// A part of the file to read when starting: neurons [first, first + n) of a space.
struct hearth_cache_range {
    uint64_t offset, length;
    uint32_t space, first, n;
};
// The warm start: gives each space's slots to its hottest cold neurons by shares[space][F] (NULL, or a NULL
// row: lowest ids, which are the hottest in a pack) and lists what to read, in one pass forward through the
// file: resident prefixes (with_resident) and chosen neurons, pieces of at most max_bytes, reading over gaps
// of up to max_gap bytes. Chosen neurons are LOADING: of each range, copy the bundles in that state to
// hearth_cache_bundle() and tell done. *ranges is freed with free().
int hearth_cache_warm_start(struct hearth_cache *c, const float *const *shares, bool with_resident,
                            uint64_t max_bytes, uint64_t max_gap, struct hearth_cache_range **ranges,
                            size_t *n_ranges, struct hearth_error *err);

// Changes what a space keeps between steps. A smaller quota takes effect when the space is next released or
// settled. HEARTH_E_BUDGET when the region does not hold all quotas and the reserve.
int hearth_cache_set_quota(struct hearth_cache *c, uint32_t space, uint32_t quota, struct hearth_error *err);
// Changes the resident prefix. When it grows, what the cache holds of it is dropped: copy it out before. When
// it shrinks, those neurons are absent: hearth_cache_place() them to keep them.
int hearth_cache_set_resident(struct hearth_cache *c, uint32_t space, uint32_t resident,
                              struct hearth_error *err);
// A slot for a cold neuron whose bundle the caller has: copy it there. NULL without memory, when none is
// free, or when the neuron is there already. The neuron is PRESENT from here on.
void *hearth_cache_place(struct hearth_cache *c, uint32_t space, uint32_t neuron);
// Changes the size of the region (not above max_bytes). HEARTH_E_BUDGET as above: lower quotas first. Memory
// is given back to the operating system by hearth_cache_settle(), and only then.
int hearth_cache_set_bytes(struct hearth_cache *c, uint64_t bytes, struct hearth_error *err);
// Works off what the changes above left to do, in steps of about max_bundles bundles moved or dropped, so
// that no token waits long. Returns the bytes the region still holds above its size: 0 when all is done.
uint64_t hearth_cache_settle(struct hearth_cache *c, uint32_t max_bundles);

// ---- figures ----

struct hearth_cache_stats {
    uint64_t resident;  // neurons asked for that were in a resident prefix
    uint64_t hits;      // present
    uint64_t late_hits; // loading already (prefetched)
    uint64_t misses;
    uint64_t evictions;
    uint64_t bytes_read; // of the reads listed by requests and prefetches
};
struct hearth_cache_stats hearth_cache_stats(const struct hearth_cache *c);
struct hearth_cache_stats hearth_cache_space_stats(const struct hearth_cache *c, uint32_t space);
uint32_t hearth_cache_quota(const struct hearth_cache *c, uint32_t space);
uint32_t hearth_cache_resident(const struct hearth_cache *c, uint32_t space);
uint32_t hearth_cache_n_cached(const struct hearth_cache *c, uint32_t space); // present or loading
uint64_t hearth_cache_bytes(const struct hearth_cache *c);                    // of the region
uint64_t hearth_cache_table_bytes(const struct hearth_cache *c);
// Where all slots lie, for registering it with the store; NULL and 0 without memory.
void *hearth_cache_region(const struct hearth_cache *c, size_t *bytes);

#endif
