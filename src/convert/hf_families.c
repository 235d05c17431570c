// SPDX-License-Identifier: MIT
// The families: which one a class or a type of config.json means. Each has a table of its own, and says what is special.
#include <stdio.h>
#include <string.h>

#include "convert/hf_rows.h"

static const struct hearth_hf_family *const kinds[] = {hearth_hf_families_plain, hearth_hf_families_gemma,
                                                       hearth_hf_families_experts,
                                                       hearth_hf_families_recurrent};
enum { N_KINDS = sizeof kinds / sizeof kinds[0], N_CLASSES = 6 };

const struct hearth_hf_family *hearth_hf_family_find(const char *name)
{
    for (size_t k = 0; k < N_KINDS; k++)
        for (const struct hearth_hf_family *f = kinds[k]; f->arch; f++)
            for (size_t j = 0; j < N_CLASSES && f->classes[j]; j++)
                if (!strcmp(f->classes[j], name))
                    return f;
    return NULL;
}

const char *hearth_hf_class_at(size_t at, const char **arch)
{
    for (size_t k = 0; k < N_KINDS; k++)
        for (const struct hearth_hf_family *f = kinds[k]; f->arch; f++)
            for (size_t j = 0; j < N_CLASSES && f->classes[j]; j++)
                if (strstr(f->classes[j], "For") && !at--) {
                    *arch = f->arch;
                    return f->classes[j];
                }
    return NULL;
}

void hearth_hf_family_names(char *out, size_t size)
{
    const char *arch, *class;
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; at < size && (class = hearth_hf_class_at(i, &arch)); i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", class);
}
