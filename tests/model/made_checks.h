// SPDX-License-Identifier: MIT
// Made models that open, and such that are refused. Each is written over the one before.
#ifndef HEARTH_TESTS_MADE_CHECKS_H
#define HEARTH_TESTS_MADE_CHECKS_H

#include "arch_models.h"
#include "check.h"

static char path[300];

static inline struct hearth_model *open_made(const struct made *made, const char *cpu)
{
    struct hearth_model *m = NULL;
    struct hearth_model_params p = hearth_model_params_default();
    p.cpu = cpu;
    made_write(path, made);
    CHECK(hearth_model_open(&m, path, &p, &check_error));
    return m;
}

static inline void refused(const struct made *made, int code, const char *says)
{
    struct hearth_model *m = NULL;
    struct hearth_error err = {0};
    made_write(path, made);
    int rc = hearth_model_open(&m, path, NULL, &err);
    if (rc != code || !strstr(err.message, says))
        fail_msg("%s: %d \"%s\" where %d \"%s\" was to come", made->arch, rc, err.message, code, says);
    assert_null(m);
}

static int name_file(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(path, sizeof path, "%s", in_folder("model.gguf"));
    return 0;
}

#endif
