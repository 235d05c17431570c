// SPDX-License-Identifier: MIT
// The neuron cache: decides which cold bundles of a model larger than memory are in memory, and where.
//
// A space (layer, expert) keeps a prefix of its neurons resident in matrices elsewhere. Each of the others
// ("cold") may be in a slot of one big region. A step requests the neurons that it needs in a space, reads
// absent ones into the slots it was given, reports the end of each read (done), computes, and releases the
// neurons. Only then does the space shrink to its quota, and the policy chooses among old and new bundles
// alike. Until then, new bundles are in a reserve beyond the quotas, so no read ever waits for an eviction.
//
// One thread makes all calls that change the cache. Other threads only read the bundles whose
// pointers they were given. These stay valid while pinned, from request to release. Nothing is
// allocated after open. The same calls make the same choices.
#ifndef HEARTH_SPARSE_CACHE_H
#define HEARTH_SPARSE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct hearth_cache;
struct hearth_cache_policy;

// A policy chooses what to keep when a space is over its quota. The table is in cache_policy.c;
// index 0 is the default.
//   twospeed decayed as below, plus, weighted, the same with a half life of 2 visits: frequent use
//            and recent use both count
//   decayed  highest activation count, where a use counts half after `half_life` visits of the space;
//            neurons that are not in memory have a count too
//   lru      most recent use
//   lfru     highest number of uses since the neuron came in, divided by the visits since its last use
//   s3fifo   S3-FIFO (Yang et al., SOSP 2023): a small queue for newcomers, a main queue, a ghost queue
const struct hearth_cache_policy *hearth_cache_policy_at(int i);              // NULL past the end
const struct hearth_cache_policy *hearth_cache_policy_find(const char *name); // NULL: unknown
const char *hearth_cache_policy_name(const struct hearth_cache_policy *p);

#define HEARTH_CACHE_HALF_LIFE 32         // visits
#define HEARTH_CACHE_SLAB      (2u << 20) // bytes
#define HEARTH_CACHE_MAX_PINS  63

struct hearth_cache_space_params {
    uint32_t n_neurons;    // F; ids are 0..F-1, at most 2^30
    uint32_t bundle_bytes; // stride of bundles in the file
    uint64_t file_offset;  // file offset of bundle 0
    uint32_t resident;     // neurons [0, resident) are in matrices elsewhere and never enter the cache
    uint32_t quota;        // number of cold bundles to keep between steps
};

struct hearth_cache_params {
    const struct hearth_cache_policy *policy; // NULL: the default
    uint32_t half_life; // of policies decayed and twospeed, in visits of a space; 0: HEARTH_CACHE_HALF_LIFE
    uint32_t n_spaces;
    const struct hearth_cache_space_params *spaces; // [n_spaces]; copied
    // Alignment of reads into slots: a power of two up to 65536. Offset, length and address are multiples of
    // it, and slots have room for the rounding. 1: bundles are copied in from elsewhere.
    uint32_t align;
    // Number of bundles that may be in memory beyond the quotas while a step uses them, for each size.
    uint32_t reserve;
    // The region is divided among sizes in slabs of this many bytes: a power of two of at least
    // 65536 that holds a slot; 0: HEARTH_CACHE_SLAB.
    uint32_t slab_bytes;
    uint64_t bytes;     // size of the region; 0: what quotas and reserve take (hearth_cache_measure)
    uint64_t max_bytes; // upper limit of hearth_cache_set_bytes() (address space only); 0: bytes
    uint64_t growth;    // raises that limit by so much, or to what all neurons take if that is less
    bool no_memory;     // for simulation: only decide, hold no bytes. Pointers are then NULL
};

// Memory of a cache with given parameters: the region for its slots (whole slabs) and its tables.
struct hearth_cache_sizes {
    uint64_t region_bytes; // for quotas and reserve
    uint64_t table_bytes;
};
// Computes the sizes. Checks the parameters as open does.
int hearth_cache_measure(const struct hearth_cache_params *params, struct hearth_cache_sizes *out,
                         struct hearth_error *err);
// Bytes of a slot for bundles of this stride and first offset, with reads of this alignment.
uint32_t hearth_cache_slot_bytes(uint32_t bundle_bytes, uint64_t file_offset, uint32_t align);

// Opens a cache; it is the caller's to close. HEARTH_E_INVALID, HEARTH_E_BUDGET (`bytes` does not
// hold the quotas and the reserve), HEARTH_E_MEMORY.
int hearth_cache_open(struct hearth_cache **out, const struct hearth_cache_params *params,
                      struct hearth_error *err);
void hearth_cache_close(struct hearth_cache **c);

// ---- a step

// A read that a request asks for: `length` bytes at `offset` of the file to dst. It may extend beyond the
// bundle on both sides, and beyond the end of the file. The first `need` bytes must be there.
struct hearth_cache_read {
    uint64_t offset;
    uint32_t length, need;
    uint32_t space, neuron;
    void *dst;
};

enum hearth_cache_state { HEARTH_CACHE_ABSENT, HEARTH_CACHE_LOADING, HEARTH_CACHE_PRESENT };

// Begins a step. A visit of a space counts once per step.
void hearth_cache_step(struct hearth_cache *c);

// Requests ids[n] (in any order, without repetition) of one space. Pins each, and lists reads for
// absent ones, which are LOADING from then on. Skips ids of the resident prefix. Returns the
// number of ids handled, from the front. It is less than n when slots or reads[max_reads] ran
// out: finish and release these before requesting the rest.
uint32_t hearth_cache_request(struct hearth_cache *c, uint32_t space, const uint32_t *ids, uint32_t n,
                              struct hearth_cache_read *reads, uint32_t max_reads, uint32_t *n_reads);
// Reports that a listed read has ended. After a failed read the neuron is absent and unpinned: do
// not release it.
void hearth_cache_done(struct hearth_cache *c, const struct hearth_cache_read *read, bool ok);
// Gives the predictor's scores of all neurons of a space in this visit: scores[F], higher means more likely
// active. The array stays the caller's and must stay valid as long as the space may be trimmed. When policy
// twospeed next trims the space, it favours neurons that were nearly named.
void hearth_cache_scores(struct hearth_cache *c, uint32_t space, const float *scores);
// Unpins ids that a request handled, and shrinks the space to its quota.
void hearth_cache_release(struct hearth_cache *c, uint32_t space, const uint32_t *ids, uint32_t n);

// Lists reads for absent ones of ids[n], as long as more than `keep_free` slots are free (a request may need
// those). Pins nothing, counts as no use. Returns the number of reads.
uint32_t hearth_cache_prefetch(struct hearth_cache *c, uint32_t space, const uint32_t *ids, uint32_t n,
                               uint32_t keep_free, struct hearth_cache_read *reads, uint32_t max_reads);

// Any thread may ask, as long as no neuron of the space is being requested, prefetched or released.
enum hearth_cache_state hearth_cache_state(const struct hearth_cache *c, uint32_t space, uint32_t neuron);
// The bundle of a neuron that is present or loading, else NULL. While it is loading, its bytes are undefined.
void *hearth_cache_bundle(const struct hearth_cache *c, uint32_t space, uint32_t neuron);

// ---- between steps: nothing of the space may be pinned

// Gives the policy a starting point: how often each neuron of a space is active, share[F] in 0..1
// (a profile).
void hearth_cache_seed(struct hearth_cache *c, uint32_t space, const float *share);

// A part of the file to read at the start: neurons [first, first + n) of a space.
struct hearth_cache_range {
    uint64_t offset, length;
    uint32_t space, first, n;
};
// The warm start. Gives each space's slots to its hottest cold neurons by shares[space][F]; if
// shares or a row is NULL, to the lowest ids, which are the hottest in a pack. Lists the reads in
// one pass forward through the file: resident prefixes (with_resident) and chosen neurons, in
// pieces of at most max_bytes, reading along gaps of up to max_gap bytes. The chosen neurons are
// LOADING: copy the bundles of a range in that state to hearth_cache_bundle(), then call
// hearth_cache_done(). The caller frees *ranges with free(). HEARTH_E_MEMORY.
int hearth_cache_warm_start(struct hearth_cache *c, const float *const *shares, bool with_resident,
                            uint64_t max_bytes, uint64_t max_gap, struct hearth_cache_range **ranges,
                            size_t *n_ranges, struct hearth_error *err);

// Changes the number of cold bundles that a space keeps between steps. A smaller quota takes effect when the
// space is next released or settled. HEARTH_E_BUDGET: the region does not hold all quotas and the reserve.
int hearth_cache_set_quota(struct hearth_cache *c, uint32_t space, uint32_t quota, struct hearth_error *err);
// Changes the size of the region (up to max_bytes). HEARTH_E_BUDGET as above: lower the quotas first. Only
// hearth_cache_settle() returns memory to the operating system.
int hearth_cache_set_bytes(struct hearth_cache *c, uint64_t bytes, struct hearth_error *err);
// Works off what the changes above left to do. Each call moves or drops about max_bundles bundles, so that no
// token waits long. Returns the bytes that the region still holds above its size; 0: all is done.
uint64_t hearth_cache_settle(struct hearth_cache *c, uint32_t max_bundles);

// ---- statistics

struct hearth_cache_stats {
    uint64_t resident;  // requests for neurons of a resident prefix
    uint64_t hits;      // requests for neurons that were present
    uint64_t late_hits; // requests for neurons that were already loading (prefetched)
    uint64_t misses;    // requests for absent neurons
    uint64_t evictions;
    uint64_t bytes_read; // by the reads that requests and prefetches listed
};
struct hearth_cache_stats hearth_cache_stats(const struct hearth_cache *c);
uint32_t hearth_cache_quota(const struct hearth_cache *c, uint32_t space);
// Neurons of the space that are present or loading: tests hold it against its quota.
uint32_t hearth_cache_n_cached(const struct hearth_cache *c, uint32_t space);
uint64_t hearth_cache_bytes(const struct hearth_cache *c); // size of the region
uint64_t hearth_cache_table_bytes(const struct hearth_cache *c);
uint64_t hearth_cache_max_bytes(const struct hearth_cache *c); // that it may have
// Bytes of the region that may be of no use because slabs have slots of one size: less than a slab for
// each.
uint64_t hearth_cache_waste(const struct hearth_cache *c);
// The memory of all slots, of sizes to come, too; NULL and 0 bytes without memory. What lies beyond
// hearth_cache_bytes() may go back to the system at any time.
void *hearth_cache_region(const struct hearth_cache *c, size_t *bytes);

#endif
