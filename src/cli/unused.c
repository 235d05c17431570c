// SPDX-License-Identifier: MIT
// See unused.h. What only the model tells is said where it is open: hearth_cli_note_unused().
#include "cli/unused.h"

#include <stdio.h>
#include <string.h>

#include "cli/common.h"
#include "cli/spelling.h"

#define AT(field) offsetof(struct hearth_options, field)
#define FIELDS    24 // of a reason, at most
#define END       SIZE_MAX
#define RUN       HEARTH_CMD_RUN
#define CHAT      HEARTH_CMD_CHAT
#define SERVE     HEARTH_CMD_SERVE
#define PLAN      HEARTH_CMD_PLAN
#define SCORE     HEARTH_CMD_PERPLEXITY
#define ANY       HEARTH_CMD_ALL

// ---- when

static bool has_mirostat(const struct hearth_options *o)
{
    return o->mirostat != 0;
}

static bool has_no_mirostat(const struct hearth_options *o)
{
    return !o->mirostat;
}

static bool takes_likeliest(const struct hearth_options *o)
{
    const bool may_drop_it = o->typ_p < 1 || o->xtc_probability > 0;
    return o->temp <= 0 && !o->mirostat && !may_drop_it;
}

static bool has_no_xtc(const struct hearth_options *o)
{
    return o->xtc_probability <= 0;
}

static bool has_no_dry(const struct hearth_options *o)
{
    return o->dry_multiplier <= 0;
}

static bool has_fixed_temperature(const struct hearth_options *o)
{
    return o->dynatemp_range <= 0;
}

static bool has_no_penalties(const struct hearth_options *o)
{
    return !(o->repeat_penalty < 1) && !(o->repeat_penalty > 1) && !(o->presence_penalty < 0) &&
           !(o->presence_penalty > 0) && !(o->frequency_penalty < 0) && !(o->frequency_penalty > 0);
}

static bool never_packs(const struct hearth_options *o)
{
    return o->pack == HEARTH_PACK_NEVER;
}

static bool has_one_turn(const struct hearth_options *o)
{
    return o->single_turn;
}

static bool keeps_no_prefixes(const struct hearth_options *o)
{
    return !o->prefix_cache;
}

static bool scores_the_text_of_a_base(const struct hearth_options *o)
{
    return o->kl_divergence;
}

static bool scores_prompts(const struct hearth_options *o)
{
    return o->phase == HEARTH_OPTION_PHASE_PROMPT;
}

static bool simulates(const struct hearth_options *o)
{
    return o->simulate != NULL;
}

static bool simulates_nothing(const struct hearth_options *o)
{
    return !o->simulate;
}

static bool is_for_another_machine(const struct hearth_options *o)
{
    return o->machine != NULL;
}

// As hearth_cli_choose_device() has it.
static bool wants_no_device(const struct hearth_options *o)
{
    return !o->device && !o->gpu_layers && !o->vram.n && !o->tensor_split.n;
}

static bool has_device_none(const struct hearth_options *o)
{
    return o->device && !strcmp(o->device, "none");
}

static bool has_no_layers(const struct hearth_options *o)
{
    return !has_device_none(o) && o->gpu_layers && !strcmp(o->gpu_layers, "0");
}

// ---- what

static const struct reason {
    unsigned commands;
    bool (*holds)(const struct hearth_options *o);
    const char *text;
    size_t fields[FIELDS];
} reasons[] = {
    {RUN,
     has_mirostat,
     "--mirostat takes the place of all samplers",
     {AT(top_k),
      AT(top_p),
      AT(min_p),
      AT(typ_p),
      AT(top_n_sigma),
      AT(xtc_probability),
      AT(xtc_threshold),
      AT(dry_multiplier),
      AT(dry_base),
      AT(dry_allowed_length),
      AT(dry_penalty_last_n),
      AT(dry_breakers),
      AT(repeat_penalty),
      AT(repeat_last_n),
      AT(presence_penalty),
      AT(frequency_penalty),
      AT(dynatemp_range),
      AT(dynatemp_exponent),
      AT(samplers),
      AT(sampler_letters),
      END}},
    {RUN,
     takes_likeliest,
     "--temp 0 always takes the likeliest token",
     {AT(top_k), AT(top_p), AT(min_p), AT(top_n_sigma), AT(dynatemp_range), AT(dynatemp_exponent), END}},
    {RUN, has_no_mirostat, "--mirostat is 0", {AT(mirostat_tau), AT(mirostat_eta), END}},
    {RUN, has_no_xtc, "--xtc-probability is 0", {AT(xtc_threshold), END}},
    {RUN,
     has_no_dry,
     "--dry-multiplier is 0",
     {AT(dry_base), AT(dry_allowed_length), AT(dry_penalty_last_n), AT(dry_breakers), END}},
    {RUN, has_fixed_temperature, "--dynatemp-range is 0", {AT(dynatemp_exponent), END}},
    {RUN, has_no_penalties, "no penalty is given, such as --repeat-penalty 1.1", {AT(repeat_last_n), END}},
    {ANY, never_packs, "--pack never makes none", {AT(pack_dir), END}},
    {CHAT, has_one_turn, "--single-turn reads all of the message", {AT(multiline), END}},
    {CHAT, has_one_turn, "--single-turn has nothing to forget", {AT(context_shift), END}},
    {SERVE, keeps_no_prefixes, "--prefix-cache DIR is not given", {AT(prefix_cache_size), END}},
    {SCORE,
     scores_the_text_of_a_base,
     "--kl-divergence scores the text of its base, in the base's chunks",
     {AT(file), AT(n_ctx), END}},
    {SCORE,
     scores_prompts,
     "--phase prompt computes all neurons; --phase step scores as when generating",
     {AT(sparsity), AT(predict_threshold), AT(sparsity_threshold), END}},
    {PLAN,
     simulates,
     "--simulate replays a trace, and plans for no model",
     {AT(ram), AT(min_speed), AT(sim_ram), AT(machine), AT(measure), AT(n_ctx), AT(n_parallel), AT(n_ubatch),
      AT(n_threads), AT(type_k), AT(type_v), AT(cpu), AT(sparsity), AT(sparsity_threshold), AT(explain),
      AT(prompt), AT(file), AT(n_predict), END}},
    {PLAN,
     simulates_nothing,
     "--simulate TRACE is not given",
     {AT(cache_sizes), AT(warmup), AT(half_life), END}},
    {PLAN,
     is_for_another_machine,
     "--machine says what the other machine can do",
     {AT(measure), AT(cpu), END}},
    {ANY,
     wants_no_device,
     "no --device or --gpu-layers",
     {AT(device_hot), AT(op_offload), AT(no_op_offload), AT(device_inexact), AT(cpu_moe), AT(n_cpu_moe),
      AT(override_tensor), END}},
    {ANY,
     has_device_none,
     "--device none leaves everything to the CPU",
     {AT(vram), AT(tensor_split), AT(gpu_layers), AT(device_hot), AT(op_offload), AT(no_op_offload),
      AT(device_inexact), AT(cpu_moe), AT(n_cpu_moe), AT(override_tensor), END}},
    {ANY,
     has_no_layers,
     "--gpu-layers 0 leaves everything to the CPU",
     {AT(device), AT(vram), AT(tensor_split), AT(device_hot), AT(op_offload), AT(no_op_offload),
      AT(device_inexact), AT(cpu_moe), AT(n_cpu_moe), AT(override_tensor), END}},
};

static const struct hearth_option *option_at(const struct hearth_command *cmd, size_t offset)
{
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
        if ((opt->commands & cmd->bit) && opt->offset == offset && opt->help)
            return opt;
    return NULL;
}

void hearth_unused_note(const struct hearth_command *cmd, const struct hearth_options *o, const bool *given)
{
    bool told[sizeof(struct hearth_options)] = {0};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        const struct reason *r = &reasons[i];
        char names[400] = "";
        size_t used = 0;
        for (size_t k = 0; (r->commands & cmd->bit) && r->holds(o) && r->fields[k] != END; k++) {
            const size_t at = r->fields[k];
            const struct hearth_option *opt = given[at] && !told[at] ? option_at(cmd, at) : NULL;
            char name[HEARTH_SPELLING_MAX];
            if (!opt)
                continue;
            told[at] = true;
            hearth_spelling_long(opt->names, name);
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
        }
        if (used)
            hearth_cli_info("without effect here: %s (%s)", names, r->text);
    }
}
