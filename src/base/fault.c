// SPDX-License-Identifier: MIT
// Faults: see fault.h.
#include "base/fault.h"

void hearth_fault_raise(struct hearth_fault *f, const struct hearth_error *err)
{
    if (!atomic_exchange(&f->raised, true))
        f->error = *err;
}

bool hearth_fault_look(struct hearth_fault *f)
{
    if (!hearth_fault_is_raised(f) && hearth_fault_forget(f)) {
        struct hearth_error err = {0};
        hearth_fail(&err, HEARTH_E_INTERRUPTED, "stopped on request");
        hearth_fault_raise(f, &err);
    }
    return hearth_fault_is_raised(f);
}

void hearth_fault_stop(struct hearth_fault *f, const struct hearth_error *err)
{
    if (err->code != HEARTH_E_INTERRUPTED || !hearth_fault_look(f))
        hearth_fault_raise(f, err);
}

int hearth_fault_take(struct hearth_fault *f, struct hearth_error *err)
{
    if (!atomic_load(&f->raised))
        return HEARTH_OK;
    atomic_store(&f->raised, false);
    return hearth_fail(err, f->error.code, "%s", f->error.message);
}
