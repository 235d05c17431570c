// SPDX-License-Identifier: MIT
// Fuzz target: any bytes as a pack, or as a profile. Opening them must end in an error with a message, or in
// a model that can be run and a profile whose counts make sense.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "convert/profile.h"
#include "gguf/checksums.h"
#include "model/model.h"
#include "model/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

// The input as a file in memory. One for the whole run.
static const char *as_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        CHECK(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    CHECK(ftruncate(fd, 0) == 0);
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(fd, data + done, size - done, (off_t)done);
        CHECK(n > 0);
        done += (size_t)n;
    }
    return path;
}

static void check_failed(int rc, const struct hearth_error *err)
{
    CHECK(rc < 0 && err->code == rc && strlen(err->message) > 10);
}

// The order of every space is one, and every bundle can be read.
static void use_pack(const struct hearth_pack *p)
{
    struct hearth_error err = {0};
    int32_t *order = malloc(p->n_ff * sizeof *order);
    uint8_t *seen = malloc(p->n_ff);
    CHECK(order && seen && p->n_layer >= 1 && p->n_expert >= 1 && p->n_ff >= 1);
    for (uint32_t i = 0; i < p->n_layer; i++) {
        const struct hearth_bundle *b = &p->layers[i];
        uint8_t last;
        CHECK(b->n >= 1 && b->n <= p->n_ff);
        CHECK(b->at[HEARTH_PART_DOWN] + b->bytes[HEARTH_PART_DOWN] <= b->stride);
        CHECK(b->tensor->bytes == (uint64_t)b->stride * b->n * p->n_expert);
        CHECK(hearth_gguf_read(p->g, b->tensor, &last, b->tensor->bytes - 1, 1, &err) == 0);
        for (uint32_t e = 0; e < p->n_expert; e++) {
            int rc = hearth_pack_order(p, i, e, order, &err);
            if (rc) {
                check_failed(rc, &err);
                continue;
            }
            memset(seen, 0, p->n_ff);
            for (uint32_t j = 0; j < b->n; j++) {
                CHECK(order[j] >= 0 && (uint32_t)order[j] < b->n && !seen[order[j]]);
                seen[order[j]] = 1;
            }
        }
    }
    free(order);
    free(seen);
}

static void try_pack(const char *path)
{
    struct hearth_error err = {0};
    struct hearth_gguf *g;
    struct hearth_pack *p;
    struct hearth_checksums *c;
    if (hearth_gguf_open(&g, path, &err))
        return;
    int rc = hearth_pack_open(&p, g, &err);
    CHECK(!rc == !!p);
    if (rc)
        check_failed(rc, &err);
    else
        use_pack(p);
    rc = hearth_checksums_open(&c, g, &err);
    if (!rc && c)
        rc = hearth_checksums_verify(c, 1, NULL, NULL, &err);
    if (rc)
        check_failed(rc, &err);
    hearth_checksums_close(&c);
    hearth_pack_close(&p);
    hearth_gguf_close(&g);
}

static void try_profile(const char *path)
{
    struct hearth_error err = {0};
    struct hearth_profile *p;
    int rc = hearth_profile_open(&p, path, &err);
    if (rc) {
        check_failed(rc, &err);
        return;
    }
    const size_t spaces = (size_t)p->n_batches * p->n_expert;
    int32_t *counts = malloc(spaces * p->n_ff * sizeof *counts), *visits = malloc(spaces * sizeof *visits);
    CHECK(counts && visits);
    for (uint32_t i = 0; i < p->n_layer; i++) {
        rc = hearth_profile_read(p, i, counts, visits, &err);
        if (rc)
            check_failed(rc, &err);
        for (size_t j = 0; !rc && j < spaces * p->n_ff; j++)
            CHECK(counts[j] >= 0 && counts[j] <= visits[j / p->n_ff]);
    }
    free(counts);
    free(visits);
    hearth_profile_close(&p);
}

static void try_model(const char *path)
{
    struct hearth_error err = {0};
    struct hearth_model *m;
    struct hearth_session *s = NULL;
    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 1;
    int rc = hearth_model_open(&m, path, &params, &err);
    if (rc) {
        check_failed(rc, &err);
        return;
    }
    struct hearth_session_params sp = hearth_session_params_default();
    sp.n_ctx = 4;
    sp.n_ubatch = 4;
    sp.n_threads = 1;
    rc = hearth_session_open(&s, m, &sp, &err);
    const int seq = rc ? -1 : hearth_seq_new(s, &err);
    const hearth_token token = 0;
    if (!rc)
        rc = hearth_step(s, &seq, &token, 1, &err);
    if (rc)
        check_failed(rc, &err);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = as_file(data, size);
    try_pack(path);
    try_profile(path);
    try_model(path);
    return 0;
}
