// SPDX-License-Identifier: MIT
// Prompts on disk: a folder of blocks (engine/kv_block.h), one a file, named by their keys. Servers may share
// it. Blocks are read by the thread that owns the session, and written by a thread of their own, straight from
// the KV cache. Whatever goes wrong with the folder is said once, and only makes prompts take longer.
#ifndef HEARTH_SERVE_PREFIX_FILES_H
#define HEARTH_SERVE_PREFIX_FILES_H

#include "engine/kv_block.h"

struct hearth_prefix_files;

struct hearth_prefix_files_params {
    const char *folder; // made if it is missing
    uint64_t most;      // bytes of all blocks in it
    struct hearth_session *session;
    void (*wake)(void *arg); // called by the writing thread when it is idle again
    void *arg;
};

// Errors: HEARTH_E_IO, HEARTH_E_INVALID (others may write to the folder), HEARTH_E_MEMORY.
int hearth_prefix_files_open(struct hearth_prefix_files **out,
                             const struct hearth_prefix_files_params *params, struct hearth_error *err);
// Ends the writing after the block that is being written.
void hearth_prefix_files_close(struct hearth_prefix_files **files);

// ---- for the thread that owns the session

// The key before the first block.
struct hearth_block_key hearth_prefix_files_root(const struct hearth_prefix_files *files);
bool hearth_prefix_files_has(const struct hearth_prefix_files *files, const struct hearth_block_key *key);
// Appends the block to the sequence. Damaged files are removed. HEARTH_E_KV_FULL: there is no room; other
// codes: it is not there.
int hearth_prefix_files_load(struct hearth_prefix_files *files, int seq, const struct hearth_block_key *key,
                             const hearth_token tokens[HEARTH_BLOCK_TOKENS], uint32_t *cost_us);

// Whether the writer has nothing to do. Sequences that it had are free again.
bool hearth_prefix_files_idle(struct hearth_prefix_files *files);
// Has an idle writer write the first n blocks of a sequence, which is its own from now on; those that are
// there already count as used. tokens: of the blocks, copied.
void hearth_prefix_files_write(struct hearth_prefix_files *files, int seq, const hearth_token *tokens, int n,
                               uint32_t cost_us);
// Has the writer end after the block that it is at, and waits for it.
void hearth_prefix_files_interrupt(struct hearth_prefix_files *files);
// Waits until the writer is idle, for so long at most.
void hearth_prefix_files_await(struct hearth_prefix_files *files, uint64_t ns);

// Blocks written so far. Threads: any.
uint64_t hearth_prefix_files_written(const struct hearth_prefix_files *files);

#endif
