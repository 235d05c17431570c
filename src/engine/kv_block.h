// SPDX-License-Identifier: MIT
// Blocks: whole pages of a sequence in files of their own, so that prompts that begin alike find them again,
// also after the program ended. The format is in docs/kv-file.md. A block's key stands for all that its keys
// and values follow from: the model, the numeric law, the formats, its tokens and all before them. So a file
// whose key is right has the bits that evaluating the tokens as a prompt would give.
#ifndef HEARTH_ENGINE_KV_BLOCK_H
#define HEARTH_ENGINE_KV_BLOCK_H

#include "base/sha256.h"
#include "hearth.h"

#define HEARTH_BLOCK_TOKENS 64 // HEARTH_KV_TILE

struct hearth_block_key {
    uint8_t bytes[HEARTH_SHA256_BYTES];
};

// The key before the first block of any sequence: of what is common to all that this session computes. Reads
// the model's file. HEARTH_E_IO, HEARTH_E_MEMORY.
int hearth_block_root(struct hearth_session *session, struct hearth_block_key *key, struct hearth_error *err);
// The key of the block with these tokens, of that of the block before.
void hearth_block_next(struct hearth_block_key *key, const hearth_token tokens[HEARTH_BLOCK_TOKENS]);

// Whether blocks save evaluations: not where layers are recurrent, whose states no block has.
bool hearth_block_helps(const struct hearth_session *session);
// Bytes of a block's file.
uint64_t hearth_block_file_bytes(const struct hearth_session *session);
// Writes block i of a sequence, which has it whole, and all of it as parts of prompts. `cost_us`: what
// computing it took about, in microseconds. May run beside the session, as hearth_seq_save() may.
// HEARTH_E_IO, HEARTH_E_MEMORY.
int hearth_block_save(const struct hearth_session *session, int seq, int i,
                      const struct hearth_block_key *key, uint32_t cost_us, const char *path,
                      struct hearth_error *err);
// Appends a block to a sequence whose length is a multiple of HEARTH_BLOCK_TOKENS. HEARTH_E_FORMAT: the file
// is damaged, or not of this key. Where it fails, the sequence is as it was. Errors besides: HEARTH_E_IO,
// HEARTH_E_MEMORY, and those of the KV cache: HEARTH_E_BUDGET, HEARTH_E_KV_FULL.
int hearth_block_load(struct hearth_session *session, int seq, const struct hearth_block_key *key,
                      const hearth_token tokens[HEARTH_BLOCK_TOKENS], const char *path, uint32_t *cost_us,
                      struct hearth_error *err);

#endif
