// SPDX-License-Identifier: MIT
// Files of a model's log-probabilities over a text, which another model's are compared with: llama-perplexity's
// (--kl-divergence-base). docs/formats.md has the format.
#ifndef HEARTH_CLI_LOGITS_BASE_H
#define HEARTH_CLI_LOGITS_BASE_H

#include <stdint.h>

#include "base/error.h"
#include "hearth.h"

// ---- one row: the log-probabilities of all tokens at a position, 16 bits each

// Elements of a row, all before the first value included.
size_t hearth_base_row_size(int n_vocab);
// What `logits` [n_vocab] say, as a row [hearth_base_row_size()]. Those more than 16 below the largest one are
// taken to be 16 below it. Not-a-numbers count as such.
void hearth_base_row_encode(uint16_t *row, const float *logits, int n_vocab);
// The log-probability of a token.
double hearth_base_row_log_prob(const uint16_t *row, hearth_token token);
// The likeliest token; of equal ones the lowest.
hearth_token hearth_base_row_best(const uint16_t *row, int n_vocab);

// ---- a file that is read

struct hearth_file;
struct hearth_base_file {
    struct hearth_file *file;
    uint64_t at; // the next byte to read
    int n_ctx, n_vocab, n_chunks;
    hearth_token *tokens; // [n_chunks][n_ctx] of the text, as it was cut
};

// Positions of a chunk that have a row: the second half's, without the last one.
int hearth_base_rows(int n_ctx);
// Opens the file and reads its beginning, up to the first row. All counts are in range, and the file is long enough
// for what they announce. Errors name the path, and what to do; *b is then empty.
int hearth_base_file_open(struct hearth_base_file *b, const char *path, struct hearth_error *err);
void hearth_base_file_close(struct hearth_base_file *b);
// Reads the next row: chunk by chunk, ascending positions. The value 65535 stands for a log-probability from
// -log(n_vocab) to 0, and 0 for one at most 16 below that (within 0.1 %). Errors: HEARTH_E_IO, HEARTH_E_FORMAT.
int hearth_base_file_row(struct hearth_base_file *b, uint16_t *row, struct hearth_error *err);

// ---- a file that is written

struct hearth_outfile;

// Whether such a file may be written to `path`: nothing is there, or one of its kind, or nothing that could be lost.
// Errors: HEARTH_E_INVALID, which names the path, and what to do.
int hearth_base_file_check_out(const char *path, struct hearth_error *err);
// Everything up to the first row.
int hearth_base_file_begin(struct hearth_outfile *file, int n_ctx, int n_vocab, int n_chunks,
                           const hearth_token *tokens, struct hearth_error *err);

#endif
