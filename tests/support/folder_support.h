// SPDX-License-Identifier: MIT
// Test support: a folder of the test's own, which goes again with all its files.
#ifndef HEARTH_TESTS_FOLDER_SUPPORT_H
#define HEARTH_TESTS_FOLDER_SUPPORT_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[256];

static int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/hearth-test-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

// One of four paths in turn.
static const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

// Removes the files in it and returns how many there were.
static int empty_folder(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            n++;
            remove(in_folder(e->d_name));
        }
    closedir(d);
    return n;
}

static int remove_folder(void **state)
{
    (void)state;
    empty_folder();
    return rmdir(folder);
}

#endif
