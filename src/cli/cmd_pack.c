// SPDX-License-Identifier: MIT
// hearth pack: a model rewritten for reading it neuron by neuron.
#include <inttypes.h>

#include "convert/pack.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/next.h"

// Whether the pack's text is the model's: docs/formats.md, "Packs", Results.
static void say_logits(const struct hearth_pack_result *r, const struct hearth_options *o)
{
    if (r->n_requantised)
        hearth_cli_info("ffn_down was transposed and requantised to %s in %" PRIu32
                        " layers: logits differ a little from the model's",
                        hearth_type_info(r->down)->name, r->n_requantised);
    else if (r->n_transposed || r->ordered)
        hearth_cli_info(
            "no number was rounded, but sums have another order: logits differ from the model's by "
            "roundings");
    else if (!o->gates_apart)
        hearth_cli_info("logits are the model's, to the last bit");
}

int hearth_cmd_pack(const struct hearth_options *o)
{
    if (hearth_path_same(o->model, o->out) || (o->profile && hearth_path_same(o->profile, o->out)))
        return hearth_cli_error("%s is what the pack is made of: give another name for it", o->out);
    const int refused = hearth_cli_check_out(o->out);
    if (refused)
        return refused;
    const struct hearth_pack_params params = {.profile = o->profile,
                                              .down = o->down,
                                              .gates_apart = o->gates_apart,
                                              .n_threads = o->n_threads > 0 ? (int)o->n_threads : 0,
                                              .progress = hearth_cli_progress};
    struct hearth_pack_result result;
    struct hearth_error err = {0};
    hearth_cli_catch_interrupt();
    hearth_cli_progress_of_file(o->model, "packing");
    const int rc = hearth_pack_write(o->model, o->out, &params, &result, &err);
    hearth_progress_end();
    if (rc)
        return hearth_cli_fail(&err);
    char before[32], after[32];
    hearth_cli_format_bytes(before, sizeof before, result.bytes_in);
    hearth_cli_format_bytes(after, sizeof after, result.bytes_out);
    hearth_cli_info("%s -> %s: %" PRIu64 " neurons in %" PRIu64 " spaces, %s", before, after,
                    result.n_neurons, result.n_spaces,
                    result.indexed   ? "those of the GPU index first"
                    : result.ordered ? "by how often they are active"
                                     : "in the model's own order");
    if (result.indexed)
        hearth_cli_info(
            "an index does not say how often neurons are active: a profile of the model (hearth profile) "
            "orders them better");
    say_logits(&result, o);
    if (result.no_shares)
        hearth_cli_info("without a profile that knows how large activations are, this pack takes "
                        "--sparsity-threshold as a number only, not as a share such as 40%% (hearth profile "
                        "--sparsity-threshold makes one)");
    if (result.shares)
        hearth_next_of_shares(o);
    hearth_next_of_pack(o->out);
    return HEARTH_EXIT_OK;
}
