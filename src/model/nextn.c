// SPDX-License-Identifier: MIT
// See nextn.h.
#include "model/nextn.h"

#include <stdio.h>
#include <string.h>

#define OWN "nextn."

const struct hearth_binding hearth_nextn_globals[] = {
    HEARTH_GLOBAL(OWN "enorm.weight", nextn_embd_norm, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL(OWN "hnorm.weight", nextn_state_norm, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL(OWN "eh_proj.weight", nextn_in, EMBD_TWICE, EMBD, ALWAYS),
    HEARTH_GLOBAL(OWN "shared_head_norm.weight", nextn_norm, EMBD, NONE, OPTIONAL),
    HEARTH_GLOBAL("output_norm.weight", output_norm, EMBD, NONE, ALWAYS),
    {0},
};

bool hearth_nextn_owns(const struct hearth_binding *b)
{
    return !strncmp(b->name, OWN, strlen(OWN));
}

bool hearth_nextn_is_in(const struct hearth_model *m)
{
    const struct hearth_arch *arch = m->arch;
    const struct hearth_gguf *g = m->gguf;
    char key[96], name[96];
    struct hearth_error ignored = {0};
    uint32_t n_layer = 0, n_extra = 0;
    if (!arch->nextn || m->pack)
        return false;
    snprintf(key, sizeof key, "%s.block_count", arch->name);
    if (hearth_gguf_u32(g, key, true, &n_layer, &ignored))
        return false;
    snprintf(key, sizeof key, "%s.nextn_predict_layers", arch->name);
    if (hearth_gguf_u32(g, key, true, &n_extra, &ignored) || !n_extra || n_extra >= n_layer)
        return false;
    snprintf(name, sizeof name, "blk.%u." OWN "eh_proj.weight", n_layer - n_extra);
    return hearth_gguf_tensor(g, name) != NULL;
}

void hearth_nextn_become(struct hearth_model *m)
{
    struct hearth_hparams *hp = &m->hp;
    m->first_layer = hp->n_layer;
    hp->nextn = true;
    hp->n_layer = 1;
    hp->n_extra = 0;
    hp->recurrence = (struct hearth_recurrence){0}; // it attends
    if (hp->n_expert) { // and has experts, where the model's last layers have some
        hp->n_dense = 0;
        hp->expert_step = 1;
    }
}
