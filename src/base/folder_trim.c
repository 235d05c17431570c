// SPDX-License-Identifier: MIT
// Folders of files that may go at any time: which of them go.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/os_folder.h"
#include "base/temp_name.h"

// Files that one look at a folder chooses for removal at most, and bytes of their names.
#define MOST_OLD  256
#define NAME_MOST 768

struct old_file {
    uint64_t used, bytes;
    char name[NAME_MOST];
};

struct look {
    const char *folder, *suffix;
    uint64_t bytes;       // of all files
    int n;                // of those that were not used for longest
    struct old_file *old; // [MOST_OLD], the oldest first
};

static void note(struct look *l, const struct hearth_folder_file *file)
{
    l->bytes += file->bytes;
    if (strlen(file->name) >= NAME_MOST || (l->n == MOST_OLD && file->used >= l->old[MOST_OLD - 1].used))
        return;
    int at = l->n < MOST_OLD ? l->n++ : MOST_OLD - 1;
    for (; at > 0 && file->used < l->old[at - 1].used; at--)
        l->old[at] = l->old[at - 1];
    l->old[at] = (struct old_file){.used = file->used, .bytes = file->bytes};
    strcpy(l->old[at].name, file->name);
}

static void look_at(void *arg, const struct hearth_folder_file *file)
{
    struct look *l = arg;
    const size_t of = hearth_temp_name_length(file->name);
    if (of && hearth_name_ends_with(file->name, of, l->suffix))
        hearth_folder_remove_stale(l->folder, file->name);
    else if (hearth_name_ends_with(file->name, strlen(file->name), l->suffix))
        note(l, file);
}

// Removes the oldest that were found. False: it is no use to look again.
static bool remove_old(struct look *l, uint64_t most)
{
    bool removed = false;
    for (int i = 0; i < l->n && l->bytes > most; i++) {
        if (!hearth_folder_remove(l->folder, l->old[i].name))
            continue;
        removed = true;
        l->bytes -= l->old[i].bytes;
    }
    return removed && l->bytes > most;
}

int hearth_folder_trim(const char *path, const char *suffix, uint64_t most, uint64_t *bytes,
                       struct hearth_error *err)
{
    struct look l = {.folder = path, .suffix = suffix};
    int rc;
    *bytes = 0;
    l.old = hearth_calloc(MOST_OLD, sizeof *l.old);
    if (!l.old)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to look through the folder", path);
    do {
        l.bytes = 0;
        l.n = 0;
        rc = hearth_folder_walk(path, look_at, &l, err);
    } while (!rc && remove_old(&l, most));
    *bytes = l.bytes;
    free(l.old);
    return rc;
}
