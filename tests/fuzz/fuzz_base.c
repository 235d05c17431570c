// SPDX-License-Identifier: MIT
// Fuzz target: any bytes as a file of log-probabilities. Reading must end in an error with a message, or in counts, tokens
// and rows that make sense.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/logits_base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

static void read_rows(struct hearth_base_file *b)
{
    struct hearth_error err = {0};
    uint16_t *row = malloc(hearth_base_row_size(b->n_vocab) * sizeof *row);
    CHECK(row);
    for (int64_t i = 0; i < (int64_t)b->n_chunks * hearth_base_rows(b->n_ctx); i++) {
        if (hearth_base_file_row(b, row, &err)) {
            CHECK(err.message[0]);
            break;
        }
        const hearth_token best = hearth_base_row_best(row, b->n_vocab);
        CHECK(best >= 0 && best < b->n_vocab);
        const double p = hearth_base_row_log_prob(row, best);
        CHECK(p < 0.01 && p > -17 - log(b->n_vocab));
    }
    free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hearth_error err = {0};
    struct hearth_base_file b;
    char path[256];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/hearth-fuzz-base-%d", tmp ? tmp : "/tmp", (int)getpid());
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    const int rc = hearth_base_file_open(&b, path, &err);
    CHECK(!rc || (rc == HEARTH_E_FORMAT && err.message[0]));
    if (!rc) {
        CHECK((uint64_t)b.n_ctx * (uint64_t)b.n_chunks <= size);
        for (int64_t i = 0; i < (int64_t)b.n_ctx * b.n_chunks; i++)
            CHECK(b.tokens[i] >= 0 && b.tokens[i] < b.n_vocab);
        read_rows(&b);
    }
    hearth_base_file_close(&b);
    remove(path);
    return 0;
}
