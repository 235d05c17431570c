// SPDX-License-Identifier: MIT
// A sequence in a file: its tokens, their phases and their part of the KV cache, so that evaluation goes on
// with the same bits. The format is in docs/kv-file.md. The reader believes nothing that it has not checked.
// The writer may run beside the session: it looks at nothing that other sequences' calls change.
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/numbers.h"
#include "base/os.h"
#include "engine/law.h"
#include "engine/session.h"
#include "model/fingerprint.h"

#define MAGIC          "HEARTHKV"
#define VERSION        2 // of models without recurrent layers
#define VERSION_STATES 3 // of others
#define MOST_STATES    2
#define HEADER_BYTES   128 // with its checksum
#define NAME_BYTES     68
#define SUM_BYTES      4

struct header {
    uint32_t version, page_tokens;
    uint64_t model;
    uint32_t type_k, type_v;
    uint32_t n_layer, n_head_kv, head_dim;
    uint32_t n_tokens;
    uint32_t steps; // how they were computed, as of steps_id(); 0: there are none
    uint32_t law;   // HEARTH_NUMERIC_LAW
    char name[NAME_BYTES + 1];
};

// ---- what must be the same

// How this session computes steps, as far as results depend on it: 1 where all neurons count, else a number
// of the rule that leaves some out. Prompts are dense always.
static uint32_t steps_id(const struct hearth_session *s)
{
    const struct hearth_sparse_mode *mode = &s->mode;
    uint32_t crc = 0;
    if (mode->sparsity == HEARTH_SPARSITY_PREDICT)
        crc = hearth_crc32c(1, &mode->predict_threshold, sizeof mode->predict_threshold);
    else if (mode->thresholds)
        crc = hearth_crc32c(2, mode->thresholds, (size_t)s->model->hp.n_layer * sizeof *mode->thresholds);
    else if (mode->sparsity == HEARTH_SPARSITY_EXACT && mode->sparsity_threshold > 0.0f)
        crc = hearth_crc32c(2, &mode->sparsity_threshold, sizeof mode->sparsity_threshold);
    else
        return 1;
    return crc | UINT32_C(1) << 31;
}

static bool has_steps(const struct hearth_kv *kv, int seq)
{
    for (int i = 0; i < kv->seqs[seq].length; i++)
        if (hearth_kv_phase(kv, seq, i) == HEARTH_PHASE_STEP)
            return true;
    return false;
}

uint32_t hearth_session_law(const struct hearth_session *s)
{
    return HEARTH_NUMERIC_LAW | (s->inexact ? HEARTH_LAW_INEXACT : 0);
}

int hearth_session_model_id(struct hearth_session *s, uint64_t *id, struct hearth_error *err)
{
    *id = s->model_id;
    if (*id)
        return HEARTH_OK;
    const int rc = hearth_model_fingerprint(s->model, id, err);
    if (!rc)
        s->model_id = *id;
    return rc;
}

// The header of a file that this session would write for n_tokens tokens.
static int make_header(struct hearth_session *s, int n_tokens, bool steps, struct header *h,
                       struct hearth_error *err)
{
    uint64_t model_id;
    const int rc = hearth_session_model_id(s, &model_id, err);
    if (rc)
        return rc;
    *h = (struct header){.version = s->kv.states.n_slots ? VERSION_STATES : VERSION,
                         .page_tokens = HEARTH_KV_TILE,
                         .model = model_id,
                         .type_k = s->kv.type_k,
                         .type_v = s->kv.type_v,
                         .n_layer = (uint32_t)s->kv.n_layer,
                         .n_head_kv = (uint32_t)s->kv.heads[0].n,
                         .head_dim = (uint32_t)s->kv.heads[0].dim,
                         .n_tokens = (uint32_t)n_tokens,
                         .steps = steps ? steps_id(s) : 0,
                         .law = hearth_session_law(s)};
    const char *type = s->model->info.type;
    memcpy(h->name, type, strnlen(type, NAME_BYTES));
    return HEARTH_OK;
}

// Bytes of what a state has of n-grams.
static size_t gram_bytes(const struct hearth_kv *kv)
{
    return (size_t)hearth_grams_kept(&kv->hp->grams) * (size_t)hearth_stream_width(kv->hp) * sizeof(float);
}

// Bytes of a state: of each recurrent layer the inputs of the convolution, then the heads; then what is of n-grams, and of
// each layer what blends positions.
static size_t state_bytes(const struct hearth_kv *kv)
{
    const struct hearth_recurrence *r = &kv->hp->recurrence;
    const size_t conv = (size_t)(r->n_taps - 1) * (size_t)r->n_channels;
    size_t blend = 0;
    for (int i = 0; i < kv->hp->n_layer; i++)
        blend += (size_t)hearth_blend_state(kv->hp, i) * sizeof(float);
    return (size_t)r->n_layers * (conv + (size_t)r->n_values * (size_t)r->state) * sizeof(float) +
           gram_bytes(kv) + blend;
}

// Bytes of a file with n tokens, but for states.
static uint64_t file_bytes(const struct hearth_kv *kv, uint64_t n)
{
    const uint64_t pages = (n + HEARTH_KV_TILE - 1) / HEARTH_KV_TILE;
    const int last = (int)(n % HEARTH_KV_TILE);
    return HEADER_BYTES + n * (4 + hearth_kv_row_bytes(kv)) + pages * (8 + SUM_BYTES) + SUM_BYTES +
           n / HEARTH_KV_TILE * hearth_kv_blocks_bytes(kv, HEARTH_KV_TILE) + hearth_kv_blocks_bytes(kv, last);
}

// Tokens of the i-th page of a sequence of n.
static int tokens_in(int n, int page)
{
    const int left = n - page * HEARTH_KV_TILE;
    return left < HEARTH_KV_TILE ? left : HEARTH_KV_TILE;
}

// ---- saving

// A file being written and the checksum of all that is in it, but for checksums.
struct writer {
    struct hearth_outfile *file;
    uint32_t crc;
};

static int put(struct writer *w, const void *bytes, size_t n, struct hearth_error *err)
{
    w->crc = hearth_crc32c(w->crc, bytes, n);
    return hearth_outfile_write(w->file, bytes, n, err);
}

static int put_sum(struct writer *w, struct hearth_error *err)
{
    uint8_t bytes[SUM_BYTES], *to = bytes;
    hearth_put_number(&to, w->crc, SUM_BYTES);
    return hearth_outfile_write(w->file, bytes, sizeof bytes, err);
}

static int write_header(struct writer *w, const struct header *h, struct hearth_error *err)
{
    uint8_t bytes[HEADER_BYTES - SUM_BYTES], *to = bytes;
    memcpy(to, MAGIC, 8);
    to += 8;
    hearth_put_number(&to, h->version, 4);
    hearth_put_number(&to, h->page_tokens, 4);
    hearth_put_number(&to, h->model, 8);
    const uint32_t numbers[] = {h->type_k,   h->type_v,   h->n_layer, h->n_head_kv,
                                h->head_dim, h->n_tokens, h->steps,   h->law};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hearth_put_number(&to, numbers[i], 4);
    memcpy(to, h->name, NAME_BYTES);
    int rc = put(w, bytes, sizeof bytes, err);
    return rc ? rc : put_sum(w, err);
}

// Page by page: which tokens were steps, then the tokens.
static int write_tokens(struct writer *w, const struct hearth_kv *kv, const struct hearth_kv_seq *seq,
                        struct hearth_error *err)
{
    int rc = HEARTH_OK;
    for (int i = 0; i * HEARTH_KV_TILE < seq->length && !rc; i++) {
        const struct hearth_kv_page *p = &kv->pages[seq->pages[i]];
        const int n = tokens_in(seq->length, i);
        const uint64_t stored = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
        uint8_t bytes[8 + 4 * HEARTH_KV_TILE], *to = bytes;
        hearth_put_number(&to, p->steps & stored, 8);
        for (int k = 0; k < n; k++)
            hearth_put_number(&to, (uint32_t)p->tokens[k], 4);
        rc = put(w, bytes, (size_t)(to - bytes), err);
    }
    return rc ? rc : put_sum(w, err);
}

// A function of writer or reader for some bytes.
typedef int (*part_fn)(void *of, void *bytes, size_t n, struct hearth_error *err);

static int put_part(void *of, void *bytes, size_t n, struct hearth_error *err)
{
    return put(of, bytes, n, err);
}

// Hands the blocks that lie in a page with n positions to fn: their vectors, then keys to choose them by.
static int pass_blocks(const struct hearth_kv *kv, uint8_t *page, int layer, int n, part_fn fn, void *of,
                       struct hearth_error *err)
{
    const size_t blocks = (size_t)hearth_kv_blocks_in(kv, layer, n);
    int rc = HEARTH_OK;
    if (blocks)
        rc = fn(of, hearth_kv_block(kv, page, layer, 0), blocks * hearth_kv_heads_of(kv, layer)->row_k, err);
    if (!rc && blocks && kv->layers[layer].chosen)
        rc = fn(of, hearth_kv_block_key(kv, page, layer, 0),
                blocks * (size_t)kv->hp->chooser.dim * sizeof(float), err);
    return rc;
}

// The first n positions of a page: of each layer and head the keys, then the values; behind them what chooses
// positions.
static int write_page(struct writer *w, const struct hearth_kv *kv, int page, int n, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    uint8_t *bytes = hearth_kv_pin(kv, page);
    for (int layer = 0; layer < kv->hp->n_layer; layer++) {
        const struct hearth_kv_heads *heads = hearth_kv_heads_of(kv, layer);
        for (int head = 0; hearth_kv_has_own(kv->hp, layer) && head < heads->n && !rc; head++) {
            rc = put(w, hearth_kv_key(kv, bytes, layer, head, 0), (size_t)n * heads->row_k, err);
            if (!rc)
                rc = put(w, hearth_kv_value(kv, bytes, layer, head, 0), (size_t)n * heads->row_v, err);
        }
        if (hearth_kv_row_choice(kv, layer) && !rc)
            rc = put(w, hearth_kv_choice(kv, bytes, layer, 0), (size_t)n * kv->row_choice, err);
        if (!rc)
            rc = pass_blocks(kv, bytes, layer, n, put_part, w, err);
    }
    hearth_kv_unpin(kv, page);
    return rc ? rc : put_sum(w, err);
}

// Hands the parts of a state to fn.
static int pass_state(const struct hearth_kv *kv, int slot, part_fn fn, void *of, struct hearth_error *err)
{
    const struct hearth_recurrence *r = &kv->hp->recurrence;
    const size_t conv = (size_t)(r->n_taps - 1) * (size_t)r->n_channels * sizeof(float),
                 heads = (size_t)r->n_values * (size_t)r->state * sizeof(float);
    int rc = HEARTH_OK;
    for (int i = 0; i < r->n_layers && !rc; i++) {
        rc = fn(of, hearth_state_conv(&kv->states, slot, i), conv, err);
        if (!rc)
            rc = fn(of, hearth_state_heads(&kv->states, slot, i), heads, err);
    }
    if (!rc && gram_bytes(kv))
        rc = fn(of, hearth_state_grams(&kv->states, slot), gram_bytes(kv), err);
    for (int i = 0; i < kv->hp->n_layer && !rc; i++)
        if (hearth_blend_state(kv->hp, i))
            rc = fn(of, hearth_state_blend(&kv->states, slot, i),
                    (size_t)hearth_blend_state(kv->hp, i) * sizeof(float), err);
    return rc;
}

static int put_u32(struct writer *w, uint32_t value, struct hearth_error *err)
{
    uint8_t bytes[4], *to = bytes;
    hearth_put_number(&to, value, 4);
    return put(w, bytes, sizeof bytes, err);
}

// The states that the sequence has at or near its end.
static int write_states(struct writer *w, struct hearth_kv *kv, int seq, struct hearth_error *err)
{
    struct hearth_state_mark marks[MOST_STATES];
    const int n = hearth_states_hold(&kv->states, seq, marks, MOST_STATES);
    int rc = put_u32(w, (uint32_t)n, err);
    for (int i = 0; i < n && !rc; i++) {
        rc = put_u32(w, (uint32_t)marks[i].pos, err);
        if (!rc)
            rc = pass_state(kv, marks[i].slot, put_part, w, err);
    }
    hearth_states_let_go(&kv->states, marks, n);
    return rc ? rc : put_sum(w, err);
}

int hearth_seq_save(struct hearth_session *session, int seq, const char *path, struct hearth_error *err)
{
    const struct hearth_kv *kv = &session->kv;
    int rc = hearth_kv_check_seq(kv, seq, err);
    if (!rc && !path)
        rc = hearth_fail(err, HEARTH_E_INVALID, "there is no path: name the file to write");
    if (rc)
        return rc;
    const struct hearth_kv_seq *from = &kv->seqs[seq];
    struct writer w = {0};
    struct header h;
    rc = make_header(session, from->length, has_steps(kv, seq), &h, err);
    if (!rc)
        rc = hearth_outfile_open(&w.file, path, err);
    if (!rc)
        rc = write_header(&w, &h, err);
    if (!rc)
        rc = write_tokens(&w, kv, from, err);
    for (int i = 0; i * HEARTH_KV_TILE < from->length && !rc; i++)
        rc = write_page(&w, kv, from->pages[i], tokens_in(from->length, i), err);
    if (!rc && kv->states.n_slots)
        rc = write_states(&w, &session->kv, seq, err);
    if (!rc)
        rc = hearth_outfile_commit(&w.file, err);
    hearth_outfile_close(&w.file);
    return rc;
}

// ---- loading

struct reader {
    struct hearth_file *file;
    uint64_t at;         // of the next byte that is not in the buffer
    size_t used, filled; // of the buffer
    uint32_t crc;        // as the writer's
    uint8_t buffer[(size_t)64 << 10];
};

static int fill(struct reader *r, struct hearth_error *err)
{
    const uint64_t left = hearth_file_size(r->file) - r->at;
    r->used = 0;
    r->filled = left < sizeof r->buffer ? (size_t)left : sizeof r->buffer;
    int rc = hearth_file_read(r->file, r->buffer, r->filled, r->at, err);
    r->at += r->filled;
    return rc;
}

// The next n bytes, which the file is known to have.
static int get_raw(struct reader *r, void *to, size_t n, struct hearth_error *err)
{
    uint8_t *out = to;
    int rc = HEARTH_OK;
    while (n && !rc) {
        if (r->used == r->filled)
            rc = fill(r, err);
        const size_t have = r->filled - r->used, part = n < have ? n : have;
        memcpy(out, r->buffer + r->used, part);
        r->used += part;
        out += part;
        n -= part;
    }
    return rc;
}

static int get(struct reader *r, void *to, size_t n, struct hearth_error *err)
{
    int rc = get_raw(r, to, n, err);
    if (!rc)
        r->crc = hearth_crc32c(r->crc, to, n);
    return rc;
}

static int fail_damaged(const struct reader *r, const char *what, struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_FORMAT, "%s: the saved sequence is damaged: %s",
                       hearth_file_path(r->file), what);
}

static int check_sum(struct reader *r, const char *what, struct hearth_error *err)
{
    uint8_t bytes[SUM_BYTES];
    const uint8_t *from = bytes;
    int rc = get_raw(r, bytes, sizeof bytes, err);
    if (!rc && hearth_take_number(&from, SUM_BYTES) != r->crc)
        rc = fail_damaged(r, what, err);
    return rc;
}

static int read_header(struct reader *r, struct header *h, struct hearth_error *err)
{
    const char *path = hearth_file_path(r->file);
    uint8_t bytes[HEADER_BYTES - SUM_BYTES];
    const uint8_t *from = bytes + 8;
    int rc = HEARTH_OK;
    *h = (struct header){0};
    if (hearth_file_size(r->file) >= HEADER_BYTES)
        rc = get(r, bytes, sizeof bytes, err);
    else
        memset(bytes, 0, sizeof bytes);
    if (rc)
        return rc;
    if (memcmp(bytes, MAGIC, 8) != 0)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: not a saved sequence of Hearth", path);
    h->version = (uint32_t)hearth_take_number(&from, 4);
    if (h->version != VERSION && h->version != VERSION_STATES)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: a saved sequence of version %u, but this build knows versions %u and %u only",
                           path, h->version, (unsigned)VERSION, (unsigned)VERSION_STATES);
    h->page_tokens = (uint32_t)hearth_take_number(&from, 4);
    h->model = hearth_take_number(&from, 8);
    uint32_t *const numbers[] = {&h->type_k,   &h->type_v,   &h->n_layer, &h->n_head_kv,
                                 &h->head_dim, &h->n_tokens, &h->steps,   &h->law};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = (uint32_t)hearth_take_number(&from, 4);
    memcpy(h->name, from, NAME_BYTES);
    return check_sum(r, "its header does not match its checksum", err);
}

static const char *type_name(uint32_t type)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    return info ? info->name : "(unknown)";
}

// Whether the file is as long as the header says; how many states there are, its length alone does.
static bool has_right_size(const struct reader *r, const struct hearth_kv *kv, uint32_t n_tokens)
{
    const uint64_t size = hearth_file_size(r->file), without = file_bytes(kv, n_tokens);
    if (!kv->states.n_slots)
        return size == without;
    const uint64_t state = 4 + state_bytes(kv), least = without + 4 + SUM_BYTES;
    return size >= least && (size - least) % state == 0 && (size - least) / state <= MOST_STATES;
}

// Whether the file's sequence can go on in this session, whose own header would be `own`.
static int check_header(const struct reader *r, const struct hearth_session *s, const struct header *h,
                        const struct header *own, struct hearth_error *err)
{
    const char *path = hearth_file_path(r->file);
    if (h->law != own->law && (h->law | HEARTH_LAW_INEXACT) == (own->law | HEARTH_LAW_INEXACT))
        return hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: saved %s a device that may have other numbers (device_inexact), which is not so "
            "here: evaluate the tokens again",
            path, h->law & HEARTH_LAW_INEXACT ? "with" : "without");
    if (h->law != own->law)
        return hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: saved by a version whose arithmetic is another (number %u, this one's is %u), so "
            "that it would not go on with the same results: evaluate the tokens again",
            path, h->law, own->law);
    if (h->model != own->model)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%s: saved with another model (%s, %016llx) than this one (%s, %016llx)", path,
                           h->name, (unsigned long long)h->model, own->name, (unsigned long long)own->model);
    if (h->type_k != own->type_k || h->type_v != own->type_v)
        return hearth_fail_param(
            err, HEARTH_E_INVALID, h->type_k != own->type_k ? "type_k" : "type_v",
            "%s: saved with a KV cache of keys in %s and values in %s, this one has %s and %s: "
            "open the session with the former, or evaluate the tokens again",
            path, type_name(h->type_k), type_name(h->type_v), type_name(own->type_k), type_name(own->type_v));
    if (h->steps && h->steps != own->steps)
        return hearth_fail_param(
            err, HEARTH_E_INVALID, "sparsity",
            "%s: saved by a session with another sparsity or threshold, so that this one would "
            "not go on with the same results: open the session as that one was",
            path);
    if (h->version != own->version || h->page_tokens != own->page_tokens || h->n_layer != own->n_layer ||
        h->n_head_kv != own->n_head_kv || h->head_dim != own->head_dim)
        return fail_damaged(r, "its pages are not of the model's shape", err);
    if (h->n_tokens > (uint32_t)s->n_ctx)
        return hearth_fail_param(err, HEARTH_E_BUDGET, "n_ctx",
                                 "%s: the sequence has %u tokens but the context only %d: use a larger n_ctx",
                                 path, h->n_tokens, s->n_ctx);
    if (!has_right_size(r, &s->kv, h->n_tokens))
        return fail_damaged(r, "the file is cut off, or something follows its end", err);
    return HEARTH_OK;
}

static int read_tokens(struct reader *r, struct hearth_session *s, int seq, int n, bool steps,
                       struct hearth_error *err)
{
    int rc = HEARTH_OK;
    uint64_t any = 0;
    for (int at = 0; at < n && !rc; at += HEARTH_KV_TILE) {
        const int count = tokens_in(n, at / HEARTH_KV_TILE);
        uint8_t bytes[8 + 4 * HEARTH_KV_TILE];
        const uint8_t *from = bytes;
        rc = get(r, bytes, 8 + 4 * (size_t)count, err);
        if (rc)
            break;
        const uint64_t bits = hearth_take_number(&from, 8);
        any |= bits;
        if (count < 64 && bits >> count)
            return fail_damaged(r, "its phases make no sense", err);
        for (int i = 0; i < count; i++) {
            const uint32_t value = (uint32_t)hearth_take_number(&from, 4);
            if (value >= (uint32_t)s->model->hp.n_vocab)
                return fail_damaged(r, "it has a token outside the vocabulary", err);
            const hearth_token token = (hearth_token)value;
            hearth_kv_seq_append(&s->kv, seq, &token, 1,
                                 bits >> i & 1 ? HEARTH_PHASE_STEP : HEARTH_PHASE_PROMPT);
        }
    }
    if (!rc)
        rc = check_sum(r, "its tokens do not match their checksum", err);
    if (!rc && steps != (any != 0))
        rc = fail_damaged(r, "its phases make no sense", err);
    return rc;
}

static int get_part(void *of, void *bytes, size_t n, struct hearth_error *err)
{
    return get(of, bytes, n, err);
}

static int read_page(struct reader *r, const struct hearth_kv *kv, int page, int n, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    uint8_t *bytes = hearth_kv_pin(kv, page);
    for (int layer = 0; layer < kv->hp->n_layer; layer++) {
        const struct hearth_kv_heads *heads = hearth_kv_heads_of(kv, layer);
        for (int head = 0; hearth_kv_has_own(kv->hp, layer) && head < heads->n && !rc; head++) {
            rc = get(r, hearth_kv_key(kv, bytes, layer, head, 0), (size_t)n * heads->row_k, err);
            if (!rc)
                rc = get(r, hearth_kv_value(kv, bytes, layer, head, 0), (size_t)n * heads->row_v, err);
        }
        if (hearth_kv_row_choice(kv, layer) && !rc)
            rc = get(r, hearth_kv_choice(kv, bytes, layer, 0), (size_t)n * kv->row_choice, err);
        if (!rc)
            rc = pass_blocks(kv, bytes, layer, n, get_part, r, err);
    }
    hearth_kv_unpin(kv, page);
    return rc ? rc : check_sum(r, "its keys and values do not match their checksum", err);
}

static int get_u32(struct reader *r, uint32_t *value, struct hearth_error *err)
{
    uint8_t bytes[4];
    const uint8_t *from = bytes;
    const int rc = get(r, bytes, sizeof bytes, err);
    *value = rc ? 0 : (uint32_t)hearth_take_number(&from, 4);
    return rc;
}

// The next state, to a slot. -1 in *slot: there is none for it, and the bytes only count in the checksum.
static int read_state(struct reader *r, struct hearth_kv *kv, int slot, struct hearth_error *err)
{
    uint8_t bytes[4096];
    int rc = HEARTH_OK;
    if (slot >= 0)
        return pass_state(kv, slot, get_part, r, err);
    for (size_t left = state_bytes(kv), n; left && !rc; left -= n) {
        n = left < sizeof bytes ? left : sizeof bytes;
        rc = get(r, bytes, n, err);
    }
    return rc;
}

static int read_states(struct reader *r, struct hearth_kv *kv, int seq, uint32_t n_tokens,
                       struct hearth_error *err)
{
    uint32_t n, pos;
    int slots[MOST_STATES] = {-1, -1}, at[MOST_STATES] = {0};
    int rc = get_u32(r, &n, err);
    if (!rc && hearth_file_size(r->file) !=
                   file_bytes(kv, n_tokens) + 4 + n * (4 + (uint64_t)state_bytes(kv)) + SUM_BYTES)
        rc = fail_damaged(r, "it has not as many states as it says", err);
    for (uint32_t i = 0; i < n && !rc; i++) {
        rc = get_u32(r, &pos, err);
        if (!rc && (pos > n_tokens || (int)pos <= (i ? at[i - 1] : 0)))
            rc = fail_damaged(r, "its states are out of place", err);
        at[i] = (int)pos;
        if (!rc)
            slots[i] = hearth_states_take(&kv->states, kv);
        if (!rc)
            rc = read_state(r, kv, slots[i], err);
    }
    if (!rc)
        rc = check_sum(r, "its states do not match their checksum", err);
    for (int i = 0; i < MOST_STATES; i++)
        if (slots[i] >= 0 && rc)
            hearth_states_give_back(&kv->states, slots[i]);
        else if (slots[i] >= 0)
            hearth_states_enter(&kv->states, seq, at[i], slots[i]);
    return rc;
}

// Tokens, keys and values to a new, empty sequence.
static int read_sequence(struct reader *r, struct hearth_session *s, int seq, const struct header *h,
                         struct hearth_error *err)
{
    const int n = (int)h->n_tokens;
    int rc = n ? hearth_kv_reserve(&s->kv, &seq, &n, 1, err) : HEARTH_OK;
    if (!rc)
        rc = read_tokens(r, s, seq, n, h->steps != 0, err);
    for (int i = 0; i * HEARTH_KV_TILE < n && !rc; i++)
        rc = read_page(r, &s->kv, s->kv.seqs[seq].pages[i], tokens_in(n, i), err);
    if (!rc && s->kv.states.n_slots)
        rc = read_states(r, &s->kv, seq, h->n_tokens, err);
    return rc;
}

int hearth_seq_load(struct hearth_session *session, const char *path, struct hearth_error *err)
{
    struct hearth_session *s = session;
    struct header h, own;
    if (!path)
        return hearth_fail(err, HEARTH_E_INVALID, "there is no path: name the file to read");
    struct reader *r = hearth_calloc(1, sizeof *r);
    int seq = -1;
    int rc = r ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to read the sequence", path);
    if (!rc)
        rc = hearth_file_open(&r->file, path, err);
    if (!rc)
        rc = read_header(r, &h, err);
    if (!rc)
        rc = make_header(s, 0, true, &own, err);
    if (!rc)
        rc = check_header(r, s, &h, &own, err);
    if (!rc) {
        seq = hearth_seq_new(s, err);
        rc = seq < 0 ? seq : read_sequence(r, s, seq, &h, err);
    }
    if (rc && seq >= 0)
        hearth_kv_seq_free(&s->kv, seq);
    if (r)
        hearth_file_close(&r->file);
    free(r);
    return rc ? rc : seq;
}
