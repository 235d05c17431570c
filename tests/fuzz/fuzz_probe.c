// SPDX-License-Identifier: MIT
// Fuzz target: any bytes as a probe. Parsing must end in an error with a message, or in a probe that makes
// sense and that is the same after it was printed and parsed again.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/forecast.h"
#include "plan/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

static void check_kernel(const struct hearth_probe_kernel *k)
{
    CHECK(isfinite(k->gb_s) && k->gb_s > 0);
    CHECK(isfinite(k->gmac_s) && k->gmac_s > 0);
    CHECK(isfinite(k->prompt_gmac_s) && k->prompt_gmac_s > 0);
}

static void check_probe(const struct hearth_probe *p)
{
    CHECK(p->name[0] && strlen(p->name) < HEARTH_PROBE_NAME && strlen(p->device) < HEARTH_PROBE_NAME);
    CHECK(p->cores >= 1 && p->depth >= 1 && p->align >= 1);
    CHECK(isfinite(p->memory_gb_s) && p->memory_gb_s > 0 && isfinite(p->core_gb_s) && p->core_gb_s > 0);
    CHECK(isfinite(p->sequential_gb_s) && p->sequential_gb_s > 0);
    CHECK(p->request_us >= 0 && p->byte_ns >= 0 && p->request_cpu_us >= 0);
    for (uint32_t i = 0; i < HEARTH_TYPE_END; i++)
        check_kernel(hearth_probe_kernel_of(p, i));
    CHECK(hearth_forecast_gap(p) >= 1 && hearth_forecast_gap(p) <= 1 << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[HEARTH_PROBE_TEXT], again[HEARTH_PROBE_TEXT];
    struct hearth_error err = {0};
    struct hearth_probe p, q;
    const int rc = hearth_probe_parse(&p, (const char *)data, size, &err);
    CHECK(!rc || (rc == HEARTH_E_FORMAT && err.message[0]));
    if (rc)
        return 0;
    check_probe(&p);
    hearth_probe_print(&p, text);
    CHECK(!hearth_probe_parse(&q, text, strlen(text), &err));
    check_probe(&q);
    hearth_probe_print(&q, again);
    CHECK(strcmp(text, again) == 0);
    return 0;
}
