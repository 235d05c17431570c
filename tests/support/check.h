// SPDX-License-Identifier: MIT
// Test support: what nearly every test wants, written once. cmocka with the headers that it asks for, calls
// that must succeed or be refused, a folder of the test's own, data from outside.
#ifndef HEARTH_TESTS_CHECK_H
#define HEARTH_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hearth.h"

// A build in which everything takes ten times as long, and in which time means nothing: random tests make do
// with fewer rounds there. Programs that run in an emulator are such a build, too.
#if defined(__has_feature)
#define CHECK_HAS_FEATURE(x) __has_feature(x)
#else
#define CHECK_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || CHECK_HAS_FEATURE(address_sanitizer) || \
    CHECK_HAS_FEATURE(thread_sanitizer) || defined(HEARTH_EMULATED)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

// ---- calls

// A call that must not fail; it gets &check_error, which belongs to this line alone.
#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        struct hearth_error check_error = {0};                                                               \
        if ((call) < 0)                                                                                      \
            fail_msg("%s: %s", #call, check_error.message);                                                  \
    } while (0)

// A call that must return 0; it gets &err, which the test has and may look at later.
#define OK(call)                                                                                             \
    do {                                                                                                     \
        err = (struct hearth_error){0};                                                                      \
        if (call)                                                                                            \
            fail_msg("%s: %s", #call, err.message);                                                          \
    } while (0)

// A call that must fail with this code and these words in its message; it gets &check_error.
#define REFUSED(call, refusal, words)                                                                        \
    do {                                                                                                     \
        struct hearth_error check_error = {0};                                                               \
        const int check_rc = (call);                                                                         \
        if (check_rc != (refusal) || check_error.code != (refusal) || !strstr(check_error.message, words))   \
            fail_msg("%s: %d \"%s\" where %d \"%s\" was to come", #call, check_rc, check_error.message,      \
                     refusal, words);                                                                        \
    } while (0)

// ---- a folder of the test's own, which goes again with all its files

static char folder[256];

// For cmocka_run_group_tests, with remove_folder.
static inline int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    tmp = tmp ? tmp : getenv("TEMP"); // Windows
    snprintf(folder, sizeof folder, "%s/hearth-test-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

// One of four paths in turn.
static inline const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

// Files in it, hidden ones included; with `removing` they are gone afterwards.
static inline int walk_folder(bool removing)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
            n++;
            char path[600];
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            if (removing)
                (void)unlink(path);
        }
    if (d)
        closedir(d);
    return n;
}

static inline int count_files(void)
{
    return walk_folder(false);
}

// Returns how many files there were.
static inline int empty_folder(void)
{
    return walk_folder(true);
}

static inline int remove_folder(void **state)
{
    (void)state;
    empty_folder();
    return rmdir(folder);
}

// ---- how much

// Whether tests do all of what they do for each golden model; else some do a part for each, in turns, so that all of
// it is done for some. Sanitizers and emulators are slow enough without it.
static inline bool is_thorough(void)
{
    const char *thorough = getenv("HEARTH_THOROUGH");
    return thorough && *thorough && strcmp(thorough, "0") != 0;
}

// ---- data from outside

// The folder $HEARTH_TEST_DATA, or NULL: unset and empty mean the same, that there is none.
static inline const char *outside_data(void)
{
    const char *root = getenv("HEARTH_TEST_DATA");
    return root && *root ? root : NULL;
}

// A path below it, one of four in turn, or skips the test.
static inline const char *data_path(const char *relative)
{
    static char paths[4][4096];
    static int next;
    const char *root = outside_data();
    if (!root)
        skip();
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", root, relative);
    return path;
}

#endif
