// SPDX-License-Identifier: MIT
// The names of ways to read, and of kinds of storage.
#include "base/storage.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"

int hearth_io_parse(enum hearth_io *out, const char *text, struct hearth_error *err)
{
    static const char *const names[] = {"auto", "uring", "pread"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i])) {
            *out = (enum hearth_io)i;
            return HEARTH_OK;
        }
    return hearth_fail_param(err, HEARTH_E_INVALID, "io",
                             "there is no io \"%.40s\": use auto, uring or pread", text);
}

int hearth_throttle_parse(struct hearth_throttle *out, const char *text, struct hearth_error *err)
{
    // Sequential bandwidth and random 4 KiB reads as measured on phones and a PC: PowerInfer-2, section 2.3.
    static const struct {
        const char *name;
        struct hearth_throttle throttle;
    } known[] = {{"ufs4", {100e3, 4000}}, {"ufs3", {50e3, 2000}}, {"nvme", {1200e3, 7500}}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(text, known[i].name)) {
            *out = known[i].throttle;
            return HEARTH_OK;
        }
    char *comma, *rest = NULL;
    const double iops = hearth_strtod(text, &comma);
    const double mbps = *comma == ',' ? hearth_strtod(comma + 1, &rest) : -1;
    if (comma == text || *comma != ',' || rest == comma + 1 || *rest || !(iops >= 0 && iops <= 1e9) ||
        !(mbps >= 0 && mbps <= 1e6))
        return hearth_fail_param(
            err, HEARTH_E_INVALID, "throttle",
            "\"%.80s\" is no kind of storage: ufs4, ufs3, nvme, or reads a second and MB a second "
            "such as 100000,4000 (0: no limit)",
            text);
    *out = (struct hearth_throttle){iops, mbps};
    return HEARTH_OK;
}
