// SPDX-License-Identifier: MIT
// Devices in plans: see plan_device.h.
#include "cli/plan_device.h"

#include <stdio.h>
#include <string.h>

#include "accel/accel.h"
#include "cli/common.h"
#include "cli/devices.h"
#include "cli/json.h"
#include "model/model.h"

int hearth_cli_place(struct hearth_placement *out, const struct hearth_model *model,
                     const struct hearth_session_params *params)
{
    struct hearth_error err = {0};
    *out = (struct hearth_placement){0};
    if (!params->device)
        return HEARTH_EXIT_OK;
    if (hearth_session_foresee(out, model, params, &err))
        return hearth_cli_fail(&err);
    if (!*out->device)
        hearth_cli_info("what several devices would have is not foreseen: this is a plan without them");
    return HEARTH_EXIT_OK;
}

int hearth_cli_check_placed(const struct hearth_options *o)
{
    int numbers[HEARTH_ACCEL_MOST];
    struct hearth_error err;
    const char *device = o->device;
    const int status = hearth_cli_check_device(o);
    if (status || !device || !strcmp(device, "none") || hearth_accel_choose(numbers, device, &err) > 0)
        return status;
    if (err.code != HEARTH_E_INVALID || !strcmp(device, "auto") || !strcmp(device, "all"))
        return hearth_cli_fail(&err);
    return hearth_cli_usage(
        hearth_command_find("plan"),
        "there is no device \"%s\" here: hearth devices lists them; the machine to plan for is "
        "--machine NAME (--machine list shows which there are) or --machine FILE",
        device);
}

void hearth_cli_print_placement(const struct hearth_placement *p, const struct hearth_model *model)
{
    const int n_layer = model->hp.n_layer;
    char bytes[32], vram[32];
    if (!*p->device)
        return;
    hearth_cli_format_bytes(bytes, sizeof bytes, p->bytes);
    hearth_cli_format_bytes(vram, sizeof vram, p->vram);
    printf("  on %s (%s of %s):\n    ", p->device, bytes, vram);
    if (p->layers || p->attention)
        printf("%sthe last %d of %d layers%s", p->attention ? "attention of " : "", p->layers + p->attention,
               n_layer, p->head ? " and the head" : "");
    else
        printf(p->head ? "the head" : "no layer");
    if (p->through)
        printf("; prompts may pass\n    through it%s", model->hp.n_expert ? " with the other experts"
                                                       : p->attention     ? ""
                                                                          : " with the others");
    if (p->neurons)
        printf("\n    %llu hot neurons of %s layers", (unsigned long long)p->neurons,
               p->attention ? "these" : "the other");
    if (p->hot && model->hp.n_expert && p->bytes < p->vram)
        printf("\n    hot experts, in the rest of its memory");
    printf("\n  its speed is not forecast: what it computes counts as if the CPU did\n");
}

json_t *hearth_cli_placement_json(const struct hearth_placement *p)
{
    if (!*p->device)
        return json_null();
    return json_pack("{s:o, s:I, s:I, s:i, s:i, s:b, s:b, s:I}", "name",
                     hearth_json_string(p->device, strlen(p->device)), "vram_bytes", (json_int_t)p->vram,
                     "bytes", (json_int_t)p->bytes, "layers", p->layers, "attention", p->attention, "head",
                     (int)p->head, "through", (int)p->through, "neurons", (json_int_t)p->neurons);
}
