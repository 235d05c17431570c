// SPDX-License-Identifier: MIT
// Files of a model's log-probabilities over a text.
#include "cli/logits_base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

static const char magic[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};

#define STEPS    65535 // from the smallest value to the largest
#define DEPTH    16.0  // between them, at most
#define ROUNDING 1e-3  // of a row's numbers, generously
#define MOST_CTX 67108864
#define HEAD     4 // elements of a row before its values: two floats

// ---- rows

size_t hearth_base_row_size(int n_vocab)
{
    return HEAD + 2 * (((size_t)n_vocab + 1) / 2);
}

void hearth_base_row_encode(uint16_t *row, const float *logits, int n_vocab)
{
    float most = logits[0], least = logits[0];
    for (int i = 1; i < n_vocab; i++) {
        most = logits[i] > most ? logits[i] : most;
        least = logits[i] < least ? logits[i] : least;
    }
    least = fmaxf(least, most - (float)DEPTH);
    double sum = 0;
    for (int i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - most);
    const float head[2] = {(most - least) / STEPS, (float)((double)least - most - log(sum))};
    memset(row, 0, hearth_base_row_size(n_vocab) * sizeof *row);
    memcpy(row, head, sizeof head);
    for (int i = 0; i < n_vocab && head[0] > 0; i++)
        if (logits[i] > least)
            row[HEAD + i] = (uint16_t)fminf(STEPS, roundf((logits[i] - least) / head[0]));
}

double hearth_base_row_log_prob(const uint16_t *row, hearth_token token)
{
    float head[2];
    memcpy(head, row, sizeof head);
    return (double)head[0] * row[HEAD + token] + head[1];
}

hearth_token hearth_base_row_best(const uint16_t *row, int n_vocab)
{
    hearth_token best = 0;
    for (hearth_token i = 1; i < n_vocab; i++)
        best = row[HEAD + i] > row[HEAD + best] ? i : best;
    return best;
}

// ---- reading

int hearth_base_rows(int n_ctx)
{
    return n_ctx - 1 - n_ctx / 2;
}

static int too_short(const struct hearth_base_file *b, struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_FORMAT, "%s ends too early: write it again with --kl-divergence-base",
                       hearth_file_path(b->file));
}

static int read_next(struct hearth_base_file *b, void *out, size_t n, struct hearth_error *err)
{
    if (hearth_file_size(b->file) - b->at < n)
        return too_short(b, err);
    const int rc = hearth_file_read(b->file, out, n, b->at, err);
    b->at += n;
    return rc;
}

static int read_counts(struct hearth_base_file *b, struct hearth_error *err)
{
    const char *path = hearth_file_path(b->file);
    char start[sizeof magic];
    int32_t n[3];
    const bool whole = hearth_file_size(b->file) >= sizeof start;
    int rc = whole ? read_next(b, start, sizeof start, err) : HEARTH_OK;
    if (rc)
        return rc;
    if (!whole || memcmp(start, magic, sizeof magic) != 0)
        return hearth_fail(
            err, HEARTH_E_FORMAT,
            "%s is no file of log-probabilities: hearth perplexity MODEL -f TEXT --kl-divergence-base %s writes one",
            path, path);
    rc = read_next(b, n, sizeof n, err);
    if (rc)
        return rc;
    b->n_ctx = n[0];
    b->n_vocab = n[1];
    b->n_chunks = n[2];
    if (b->n_ctx < 4 || b->n_ctx > MOST_CTX || b->n_vocab < 1 || b->n_chunks < 1)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s is damaged: %d chunks of %d tokens, %d tokens of vocabulary", path,
                           b->n_chunks, b->n_ctx, b->n_vocab);
    return HEARTH_OK;
}

// What follows the counts: less than 2^26 * 2^31 * 4 bytes of tokens, and rows of less than 2^33.
static bool long_enough(const struct hearth_base_file *b)
{
    const uint64_t left = hearth_file_size(b->file) - b->at;
    const uint64_t row = hearth_base_row_size(b->n_vocab) * sizeof(uint16_t);
    const uint64_t chunk =
        (uint64_t)b->n_ctx * sizeof(hearth_token) + (uint64_t)hearth_base_rows(b->n_ctx) * row;
    return left / chunk >= (uint64_t)b->n_chunks;
}

static int read_tokens(struct hearth_base_file *b, struct hearth_error *err)
{
    const size_t n = (size_t)b->n_ctx * (size_t)b->n_chunks;
    const char *path = hearth_file_path(b->file);
    b->tokens = malloc(n * sizeof *b->tokens);
    if (!b->tokens)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for %zu tokens", path, n);
    const int rc = read_next(b, b->tokens, n * sizeof *b->tokens, err);
    for (size_t i = 0; i < n && !rc; i++)
        if (b->tokens[i] < 0 || b->tokens[i] >= b->n_vocab)
            return hearth_fail(err, HEARTH_E_FORMAT, "%s is damaged: token %d of %d", path, (int)b->tokens[i],
                               b->n_vocab);
    return rc;
}

int hearth_base_file_open(struct hearth_base_file *b, const char *path, struct hearth_error *err)
{
    *b = (struct hearth_base_file){0};
    int rc = hearth_file_open(&b->file, path, err);
    if (!rc)
        rc = read_counts(b, err);
    if (!rc)
        rc = long_enough(b) ? read_tokens(b, err) : too_short(b, err);
    if (rc)
        hearth_base_file_close(b);
    return rc;
}

void hearth_base_file_close(struct hearth_base_file *b)
{
    hearth_file_close(&b->file);
    free(b->tokens);
    *b = (struct hearth_base_file){0};
}

// The likeliest of n tokens has at least their mean probability and at most 1.
static bool makes_sense(const float *head, int n_vocab)
{
    const double depth = (double)head[0] * STEPS, greatest = head[1] + depth;
    return isfinite(greatest) && depth >= 0 && depth <= DEPTH * (1 + ROUNDING) && greatest <= ROUNDING &&
           greatest >= -log(n_vocab) - ROUNDING;
}

int hearth_base_file_row(struct hearth_base_file *b, uint16_t *row, struct hearth_error *err)
{
    float head[2];
    const int rc = read_next(b, row, hearth_base_row_size(b->n_vocab) * sizeof *row, err);
    if (rc)
        return rc;
    memcpy(head, row, sizeof head);
    if (!makes_sense(head, b->n_vocab))
        return hearth_fail(err, HEARTH_E_FORMAT, "%s is damaged, or its model gave no numbers",
                           hearth_file_path(b->file));
    return HEARTH_OK;
}

// ---- writing

int hearth_base_file_check_out(const char *path, struct hearth_error *err)
{
    struct hearth_path at;
    char start[sizeof magic];
    if (!hearth_path_look(path, &at) || at.kind != HEARTH_PATH_FILE || !at.size)
        return HEARTH_OK;
    FILE *f = hearth_file_stream(path, "rb");
    const bool is_base =
        f && fread(start, 1, sizeof start, f) == sizeof start && !memcmp(start, magic, sizeof magic);
    if (f)
        fclose(f);
    return is_base
               ? HEARTH_OK
               : hearth_fail(err, HEARTH_E_INVALID,
                             "%s is there and no file of log-probabilities: it is not overwritten; remove "
                             "it first, or give another name",
                             path);
}

int hearth_base_file_begin(struct hearth_outfile *file, int n_ctx, int n_vocab, int n_chunks,
                           const hearth_token *tokens, struct hearth_error *err)
{
    const int32_t counts[3] = {n_ctx, n_vocab, n_chunks};
    int rc = hearth_outfile_write(file, magic, sizeof magic, err);
    if (!rc)
        rc = hearth_outfile_write(file, counts, sizeof counts, err);
    if (!rc)
        rc = hearth_outfile_write(file, tokens, (size_t)n_ctx * (size_t)n_chunks * sizeof *tokens, err);
    return rc;
}
