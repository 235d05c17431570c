// SPDX-License-Identifier: MIT
// What tells the models of a table apart: see bench_names.h.
#include "cli/bench_names.h"

#include <math.h>
#include <string.h>

#include "base/os.h"
#include "gguf/gguf.h"
#include "model/pack.h"

// Of their weights: a label has two or three digits of it.
#define SAME 0.05

struct file {
    struct hearth_gguf *g; // NULL: it cannot be read
    const char *type;      // NULL: unknown
    struct hearth_str arch;
    double n_params;
};

static void look(struct file *f, const char *path)
{
    struct hearth_error err = {0};
    *f = (struct file){0};
    if (hearth_gguf_open(&f->g, path, &err) ||
        hearth_gguf_str(f->g, "general.architecture", false, &f->arch, &err)) {
        hearth_gguf_close(&f->g);
        return;
    }
    f->type = hearth_gguf_file_type(f->g);
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(f->g); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(f->g, i);
        f->n_params += (double)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
    }
}

// A pack's tensors do not tell how many weights the model has.
static bool are_alike(const struct file *a, const struct file *b)
{
    return a->g && b->g && (!a->type || !b->type || !strcmp(a->type, b->type)) && a->arch.n == b->arch.n &&
           !memcmp(a->arch.s, b->arch.s, a->arch.n) &&
           (hearth_gguf_is_pack(a->g) || hearth_gguf_is_pack(b->g) ||
            fabs(a->n_params - b->n_params) <= SAME * a->n_params);
}

// Whether the table's label would be the same for two files.
static bool has_twins(const struct hearth_string_list *models, const struct file *files)
{
    for (int i = 0; i < models->n; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(models->values[i], models->values[k]) != 0 && are_alike(&files[i], &files[k]))
                return true;
    return false;
}

static bool names_differ(const struct hearth_string_list *models)
{
    for (int i = 0; i < models->n; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(models->values[i], models->values[k]) != 0 &&
                !strcmp(hearth_path_name(models->values[i]), hearth_path_name(models->values[k])))
                return false;
    return true;
}

enum hearth_bench_names hearth_bench_names_choose(const struct hearth_string_list *models)
{
    struct file files[HEARTH_STRING_LIST_MAX];
    if (models->n < 2)
        return HEARTH_BENCH_BY_TYPE;
    for (int i = 0; i < models->n; i++)
        look(&files[i], models->values[i]);
    const bool twins = has_twins(models, files);
    for (int i = 0; i < models->n; i++)
        hearth_gguf_close(&files[i].g);
    return !twins ? HEARTH_BENCH_BY_TYPE : names_differ(models) ? HEARTH_BENCH_BY_FILE : HEARTH_BENCH_BY_PATH;
}
