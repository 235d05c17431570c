// SPDX-License-Identifier: MIT
// Test support: the golden models of tests/golden/models (see its README) and what the reference says about
// them.
#ifndef HEARTH_TESTS_GOLDEN_MODELS_H
#define HEARTH_TESTS_GOLDEN_MODELS_H

#include <dirent.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"

#define GOLDEN_MODELS HEARTH_SOURCE_DIR "/tests/golden/models/"

struct golden {
    char name[64]; // "drelu.Q4_0"
    char path[512];
    uint32_t n_tokens, n_vocab;
    int32_t *ids;
    float *original; // [n_tokens][n_vocab] logits of the float32 model
    float *decoded;  // same with weights as decoded from the file; `original` when nothing is lost
};

static inline void golden_free(struct golden *g)
{
    if (g->decoded != g->original)
        free(g->decoded);
    free(g->original);
    free(g->ids);
}

// The ids and logits of a file.
static inline bool golden_read_logits(struct golden *g, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    char magic[4];
    uint32_t version;
    bool ok = fread(magic, 1, 4, f) == 4 && !memcmp(magic, "HGLD", 4) && fread(&version, 4, 1, f) == 1 &&
              version == 1 && fread(&g->n_tokens, 4, 1, f) == 1 && fread(&g->n_vocab, 4, 1, f) == 1 &&
              g->n_tokens < 10000 && g->n_vocab < 1000000;
    size_t n = ok ? (size_t)g->n_tokens * g->n_vocab : 0;
    g->ids = malloc((n + 1) * sizeof *g->ids);
    g->original = malloc((n + 1) * sizeof(float));
    g->decoded = malloc((n + 1) * sizeof(float));
    ok = ok && g->ids && g->original && g->decoded && fread(g->ids, 4, g->n_tokens, f) == g->n_tokens &&
         fread(g->original, 4, n, f) == n;
    if (ok && fread(g->decoded, 4, n, f) != n) {
        free(g->decoded);
        g->decoded = g->original;
    }
    fclose(f);
    return ok;
}

static inline bool golden_read(struct golden *g, const char *name)
{
    char path[512];
    memset(g, 0, sizeof *g);
    snprintf(g->name, sizeof g->name, "%s", name);
    snprintf(g->path, sizeof g->path, GOLDEN_MODELS "%s.gguf", name);
    snprintf(path, sizeof path, GOLDEN_MODELS "%s.logits", name);
    return golden_read_logits(g, path);
}

// Calls fn for every golden model, in directory order; returns how many there were.
static inline int golden_each(void (*fn)(const struct golden *g))
{
    DIR *dir = opendir(GOLDEN_MODELS);
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t len = strlen(e->d_name);
        if (len < 8 || len > 60 || strcmp(e->d_name + len - 7, ".logits"))
            continue;
        char name[64];
        memcpy(name, e->d_name, len - 7);
        name[len - 7] = '\0';
        struct golden g;
        if (!golden_read(&g, name)) {
            printf("%s: cannot be read\n", name);
            exit(1);
        }
        fn(&g);
        golden_free(&g);
        n++;
    }
    if (dir)
        closedir(dir);
    return n;
}

static inline double relative_l2(const float *a, const float *b, size_t n)
{
    double diff = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        diff += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(diff / norm);
}

#endif
