// SPDX-License-Identifier: MIT
// The sub-commands. Each takes its parsed options, prints any error, and returns an exit status
// (HEARTH_EXIT_*).
#ifndef HEARTH_CLI_COMMANDS_H
#define HEARTH_CLI_COMMANDS_H

#include "cli/options.h"

int hearth_cmd_run(const struct hearth_options *o);
int hearth_cmd_chat(const struct hearth_options *o);
int hearth_cmd_serve(const struct hearth_options *o);
int hearth_cmd_bench(const struct hearth_options *o);
int hearth_cmd_perplexity(const struct hearth_options *o);
int hearth_cmd_embed(const struct hearth_options *o);
int hearth_cmd_tokenize(const struct hearth_options *o);
int hearth_cmd_detokenize(const struct hearth_options *o);
int hearth_cmd_inspect(const struct hearth_options *o);
int hearth_cmd_quantize(const struct hearth_options *o);
int hearth_cmd_convert(const struct hearth_options *o);
int hearth_cmd_synth(const struct hearth_options *o);
int hearth_cmd_profile(const struct hearth_options *o);
int hearth_cmd_sparsify(const struct hearth_options *o);
int hearth_cmd_train(const struct hearth_options *o);
int hearth_cmd_pack(const struct hearth_options *o);
int hearth_cmd_plan(const struct hearth_options *o);
int hearth_cmd_devices(const struct hearth_options *o);

#endif
