// SPDX-License-Identifier: MIT
// Test support: a folder of the test's own, files compared and opened.
#ifndef HEARTH_TESTS_PACK_SUPPORT_H
#define HEARTH_TESTS_PACK_SUPPORT_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/model.h"

static char pack_folder[256];

static inline int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(pack_folder, sizeof pack_folder, "%s/hearth-pack-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(pack_folder) ? 0 : -1;
}

static inline const char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", pack_folder, name);
    return path;
}

// Files in the folder, hidden ones included.
static inline int count_files(void)
{
    int n = 0;
    DIR *d = opendir(pack_folder);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d)
        closedir(d);
    return n;
}

static inline int remove_folder(void **state)
{
    (void)state;
    DIR *d = opendir(pack_folder);
    for (struct dirent *e; d && (e = readdir(d));)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    return rmdir(pack_folder);
}

struct file_bytes {
    uint8_t *p;
    size_t n;
};

static inline struct file_bytes read_whole(const char *path)
{
    struct file_bytes b = {0};
    FILE *f = fopen(path, "rb");
    struct stat st;
    assert_true(f && fstat(fileno(f), &st) == 0);
    b.n = (size_t)st.st_size;
    b.p = malloc(b.n + 1);
    assert_true(b.p && fread(b.p, 1, b.n, f) == b.n);
    fclose(f);
    return b;
}

static inline void write_whole(const char *path, const uint8_t *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(p, 1, n, f) == n && fclose(f) == 0);
}

static inline void assert_same_files(const char *a, const char *b)
{
    struct file_bytes x = read_whole(a), y = read_whole(b);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.p, y.p, x.n);
    free(x.p);
    free(y.p);
}

static inline int try_model(const char *path, bool verify, struct hearth_model **m, struct hearth_error *err)
{
    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 2;
    params.verify = verify;
    *err = (struct hearth_error){0};
    return hearth_model_open(m, path, &params, err);
}

static inline struct hearth_model *open_model(const char *path, bool verify)
{
    struct hearth_model *m;
    struct hearth_error err;
    if (try_model(path, verify, &m, &err))
        fail_msg("%s", err.message);
    return m;
}

#endif
