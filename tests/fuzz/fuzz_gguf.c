// SPDX-License-Identifier: MIT
// Fuzz target: any bytes as a GGUF. Opening them must end in an error or in a file whose promises all hold.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gguf/gguf.h"

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

static uint64_t use_metadata(const struct hearth_gguf *g, struct hearth_error *err)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g); i++) {
        const struct hearth_gguf_kv *kv = hearth_gguf_kv_at(g, i);
        CHECK(kv->key.n > 0 && kv->key.s[kv->key.n] == '\0');
        CHECK(hearth_gguf_find(g, kv->key.s) == kv);
        CHECK(!kv->data != !kv->strings);
        for (uint64_t j = 0; j < kv->count; j++) {
            if (kv->strings)
                for (size_t k = 0; k < kv->strings[j].n; k++)
                    sum += (uint8_t)kv->strings[j].s[k];
            else
                sum += (uint64_t)hearth_gguf_kv_i64(kv, j) + (hearth_gguf_kv_f64(kv, j) > 0);
        }
        uint32_t u = 0;
        float f = 0;
        bool b = false;
        struct hearth_str s = {"", 0};
        sum += (uint64_t)(hearth_gguf_u32(g, kv->key.s, true, &u, err) +
                          hearth_gguf_f32(g, kv->key.s, true, &f, err) +
                          hearth_gguf_bool(g, kv->key.s, true, &b, err) +
                          hearth_gguf_str(g, kv->key.s, true, &s, err));
    }
    return sum;
}

static uint64_t use_tensors(const struct hearth_gguf *g, struct hearth_error *err)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        CHECK(t->n_dims >= 1 && t->n_dims <= 4 && t->shard < hearth_gguf_n_shards(g));
        CHECK(strlen(t->name.s) == t->name.n && hearth_gguf_tensor(g, t->name.s) == t);
        CHECK(hearth_type_info(t->type));
        CHECK(t->bytes == hearth_type_bytes(t->type, t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]));
        uint8_t ends[2];
        CHECK(hearth_gguf_read(g, t, &ends[0], 0, 1, err) == 0);
        CHECK(hearth_gguf_read(g, t, &ends[1], t->bytes - 1, 1, err) == 0);
        CHECK(hearth_gguf_read(g, t, &ends[1], t->bytes, 1, err) == HEARTH_E_INVALID);
        sum += ends[0] + ends[1];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile uint64_t sink;
    struct hearth_error err = {0};
    struct hearth_gguf *g;
    int rc = hearth_gguf_open(&g, as_file(data, size), &err);
    CHECK(rc <= 0 && !rc == !!g);
    if (rc) {
        CHECK(err.code == rc && strlen(err.message) > 10);
        return 0;
    }
    sink = use_metadata(g, &err) + use_tensors(g, &err);
    (void)sink;
    hearth_gguf_close(&g);
    return 0;
}
