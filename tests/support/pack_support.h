// SPDX-License-Identifier: MIT
// Test support: files compared and opened.
#ifndef HEARTH_TESTS_PACK_SUPPORT_H
#define HEARTH_TESTS_PACK_SUPPORT_H

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/model.h"

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
