// SPDX-License-Identifier: MIT
// What a memory budget would give, asked before anything is loaded or any memory is taken.
#include "base/free_memory.h"
#include "base/os.h"
#include "base/params.h"
#include "engine/session.h"

static uint64_t budget_of(const struct hearth_model *m, uint64_t ram, const struct hearth_free_memory *f)
{
    if (ram == 0 && m->load.ram_asked == HEARTH_RAM_LEAST)
        return HEARTH_RAM_LEAST;
    if (ram == 0)
        return m->load.ram ? m->load.ram : UINT64_MAX;
    if (ram != HEARTH_RAM_FIT || f->bytes == UINT64_MAX)
        return ram;
    return hearth_memory_private() + hearth_free_memory_to_take(f, false);
}

int hearth_model_fit(const struct hearth_model *model, const struct hearth_session_params *params,
                     uint64_t ram, struct hearth_fit *out, size_t out_size, struct hearth_error *err)
{
    struct hearth_sources_user user;
    int rc = hearth_session_measure(&user, model, params, err);
    if (rc)
        return rc;
    const struct hearth_free_memory f = hearth_free_memory("", false);
    struct hearth_fit fit = {.ram = budget_of(model, ram, &f), .free_bytes = f.bytes, .free_what = f.what};
    rc =
        hearth_sources_fit(model, &user, ram || !model->load.ram ? fit.ram : model->load.ram_most, &fit, err);
    if (!rc)
        hearth_params_write(out, out_size, &fit, sizeof fit);
    return rc;
}
