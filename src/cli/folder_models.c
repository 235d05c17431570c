// SPDX-License-Identifier: MIT
// What a folder has that a model may be: see folder_models.h.
#include "cli/folder_models.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "base/os_folder.h"
#include "cli/common.h"

#define NAMED 3
#define NAME  256

struct found {
    char names[NAMED][NAME]; // the first ones in the order of letters
    int n;                   // all that there are
};

static bool is_model(const char *name)
{
    const size_t n = strlen(name);
    const char *part = strstr(name, "-of-");
    return n > 5 && n < NAME && !strcmp(name + n - 5, ".gguf") &&
           (!part || part - name < 6 || !strncmp(part - 6, "-00001", 6)); // any part opens all of a model
}

static void look(void *arg, const struct hearth_folder_file *file)
{
    struct found *f = arg;
    if (!is_model(file->name))
        return;
    int at = f->n < NAMED ? f->n : NAMED;
    while (at > 0 && strcmp(file->name, f->names[at - 1]) < 0) {
        if (at < NAMED)
            memcpy(f->names[at], f->names[at - 1], NAME);
        at--;
    }
    if (at < NAMED)
        snprintf(f->names[at], NAME, "%s", file->name);
    f->n++;
}

int hearth_cli_refuse_folder(const char *folder)
{
    struct found f = {.n = 0};
    char list[NAMED * (NAME + 2)] = "", more[40] = "";
    struct hearth_error err = {0};
    struct hearth_path at;
    char config[4096];
    (void)hearth_folder_walk(folder, look, &f, &err);
    if (!f.n && hearth_folder_find(folder, ".gguf", f.names[0], NAME)) // a link
        f.n = 1;
    for (int i = 0; i < f.n && i < NAMED; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", f.names[i]);
    if (f.n > NAMED)
        snprintf(more, sizeof more, " and %d more", f.n - NAMED);
    if (f.n)
        return hearth_cli_error("%s is a folder: give a GGUF file in it: %s%s", folder, list, more);
    snprintf(config, sizeof config, "%s/config.json", folder);
    if (hearth_path_look(config, &at))
        return hearth_cli_error(
            "%s is a folder as on Hugging Face: make a GGUF file of it: hearth convert %s OUT.gguf", folder,
            folder);
    return hearth_cli_error(
        "%s is a folder, in which there is no GGUF file (of a Hugging Face folder, hearth convert "
        "%s OUT.gguf makes one)",
        folder, folder);
}
