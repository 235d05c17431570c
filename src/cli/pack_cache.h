// SPDX-License-Identifier: MIT
// The cache of packs: a model that streams, and of which a pack needs fewer reads, is packed once; its pack
// is found again as long as the model does not change.
#ifndef HEARTH_CLI_PACK_CACHE_H
#define HEARTH_CLI_PACK_CACHE_H

#include "cli/common.h"

// For a model that does not fit into memory, as `fit` says of a session with these parameters. A pack of it
// from the cache takes its place (*model is closed, and the pack is opened). One that is not there is written
// if --pack and the person at the terminal want it; else a line says what would be faster. Only packs that
// give the same logits to the last bit are used, so nothing depends on whether one is. Prints what it does,
// and any error; returns an exit status, which is not HEARTH_EXIT_OK only when there is no model to go on
// with, or Ctrl-C came.
int hearth_cli_use_pack(struct hearth_model **model, const struct hearth_session_params *params,
                        const struct hearth_options *o, const struct hearth_fit *fit);

// A pack that needs fewer reads, but not so many times fewer, is not worth its bytes on the disk.
#define HEARTH_PACK_LEAST_GAIN 1.5

// Said where a folder is named that a pack would go to.
#define HEARTH_PACK_ELSEWHERE "; --pack-dir DIR: elsewhere"

// A pack of a model, to be planned for.
struct hearth_cli_pack {
    struct hearth_model *model; // open; NULL: there is none
    bool there;                 // in the cache folder; else it is hollow, and gone once it is closed
    bool same_logits;           // as the model's; only such packs are made by --pack
    uint64_t bytes;             // of one that is not there
    char path[1200];
    char folder[1024]; // to which it would be written
};

// The one that hearth_cli_use_pack() would find, where it looks for one.
void hearth_cli_find_pack(struct hearth_cli_pack *out, const struct hearth_model *model,
                          const struct hearth_options *o);
// What it would make.
void hearth_cli_sketch_pack(struct hearth_cli_pack *out, const struct hearth_model *model,
                            const struct hearth_options *o);
void hearth_cli_pack_close(struct hearth_cli_pack *pack);

#endif
