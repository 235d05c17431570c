// SPDX-License-Identifier: MIT
// Test support: opening files that are made byte by byte, in a folder that goes again.
#ifndef HEARTH_TESTS_GGUF_SUPPORT_H
#define HEARTH_TESTS_GGUF_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "gguf/gguf.h"

static struct hearth_error err;

// ---- files as bytes

struct bytes {
    uint8_t b[1 << 16];
    size_t n;
};

static struct bytes file; // the one being made

static void save(const char *path, const uint8_t *b, size_t n)
{
    remove(path); // some file systems bring a file that is overwritten to disk at once, which takes long
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

// Opens `file`, and looks at what an error says.
static struct hearth_gguf *open_bytes(int *rc)
{
    const char *path = in_folder("hand.gguf");
    save(path, file.b, file.n);
    struct hearth_gguf *g = (void *)&err;
    err = (struct hearth_error){0};
    *rc = hearth_gguf_open(&g, path, &err);
    if (*rc) {
        assert_null(g);
        assert_int_equal(err.code, *rc);
        assert_non_null(strstr(err.message, path)); // every error names the file
        for (const char *c = err.message; *c; c++)
            assert_true(*c >= ' ' && *c <= '~'); // and nothing from the file reaches a terminal raw
    }
    return g;
}

#endif
