// SPDX-License-Identifier: MIT
#include "engine/kv_block.h"

#include <string.h>

#include "base/crc32c.h"
#include "base/numbers.h"
#include "base/os.h"
#include "engine/law.h"
#include "engine/session.h"

#define MAGIC        "HEARTHKB"
#define VERSION      1
#define HEADER_BYTES 128 // with its checksum
#define SUM_BYTES    4

_Static_assert(HEARTH_BLOCK_TOKENS == HEARTH_KV_TILE, "a block is a page");

struct header {
    uint32_t version, tokens;
    uint64_t bytes; // of keys and values
    struct hearth_block_key key;
    uint32_t crc; // of keys and values
    uint32_t cost_us;
};

// ---- keys

int hearth_block_root(struct hearth_session *session, struct hearth_block_key *key, struct hearth_error *err)
{
    const struct hearth_kv *kv = &session->kv;
    const char *version = hearth_version();
    uint64_t model;
    uint8_t numbers[10 * 8], *to = numbers;
    const int rc = hearth_session_model_id(session, &model, err);
    if (rc)
        return rc;
    const uint64_t facts[] = {VERSION,
                              hearth_session_law(session),
                              HEARTH_KV_TILE,
                              model,
                              hearth_file_stamp(session->model->info.path), // weights that have no sample
                              kv->type_k,
                              kv->type_v,
                              (uint64_t)kv->n_layer,
                              (uint64_t)kv->heads[0].n,
                              (uint64_t)kv->heads[0].dim};
    _Static_assert(sizeof facts == sizeof numbers, "eight bytes each");
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        hearth_put_number(&to, facts[i], 8);
    struct hearth_sha256 hash;
    hearth_sha256_begin(&hash);
    hearth_sha256_add(&hash, MAGIC, 8);
    hearth_sha256_add(&hash, numbers, sizeof numbers);
    hearth_sha256_add(&hash, version, strlen(version));
    hearth_sha256_end(&hash, key->bytes);
    return HEARTH_OK;
}

void hearth_block_next(struct hearth_block_key *key, const hearth_token tokens[HEARTH_BLOCK_TOKENS])
{
    uint8_t bytes[4 * HEARTH_BLOCK_TOKENS], *to = bytes;
    struct hearth_sha256 hash;
    for (int i = 0; i < HEARTH_BLOCK_TOKENS; i++)
        hearth_put_number(&to, (uint32_t)tokens[i], 4);
    hearth_sha256_begin(&hash);
    hearth_sha256_add(&hash, key->bytes, sizeof key->bytes);
    hearth_sha256_add(&hash, bytes, sizeof bytes);
    hearth_sha256_end(&hash, key->bytes);
}

// ---- saving

bool hearth_block_helps(const struct hearth_session *session)
{
    return !session->kv.states.n_slots;
}

uint64_t hearth_block_file_bytes(const struct hearth_session *session)
{
    return HEADER_BYTES + session->kv.page_bytes;
}

static void write_header(uint8_t bytes[HEADER_BYTES], const struct header *h)
{
    uint8_t *to = bytes;
    memset(bytes, 0, HEADER_BYTES);
    memcpy(to, MAGIC, 8);
    to += 8;
    hearth_put_number(&to, h->version, 4);
    hearth_put_number(&to, h->tokens, 4);
    hearth_put_number(&to, h->bytes, 8);
    memcpy(to, h->key.bytes, sizeof h->key.bytes);
    to += sizeof h->key.bytes;
    hearth_put_number(&to, h->crc, 4);
    hearth_put_number(&to, h->cost_us, 4);
    to = bytes + HEADER_BYTES - SUM_BYTES;
    hearth_put_number(&to, hearth_crc32c(0, bytes, HEADER_BYTES - SUM_BYTES), SUM_BYTES);
}

int hearth_block_save(const struct hearth_session *session, int seq, int i,
                      const struct hearth_block_key *key, uint32_t cost_us, const char *path,
                      struct hearth_error *err)
{
    const struct hearth_kv *kv = &session->kv;
    assert(hearth_kv_has(kv, seq) && (i + 1) * HEARTH_KV_TILE <= kv->seqs[seq].length);
    const int page = kv->seqs[seq].pages[i];
    assert(!kv->pages[page].steps);
    uint8_t header[HEADER_BYTES];
    // A whole page has no gaps: of each layer and head the keys, then the values.
    const uint8_t *bytes = hearth_kv_pin(kv, page);
    write_header(header, &(struct header){.version = VERSION,
                                          .tokens = HEARTH_KV_TILE,
                                          .bytes = kv->page_bytes,
                                          .key = *key,
                                          .crc = hearth_crc32c(0, bytes, kv->page_bytes),
                                          .cost_us = cost_us});
    const struct hearth_file_piece parts[] = {{header, sizeof header}, {bytes, kv->page_bytes}};
    const int rc = hearth_cache_file_put(path, parts, 2, err);
    hearth_kv_unpin(kv, page);
    return rc;
}

// ---- loading

static int fail_damaged(const char *path, struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_FORMAT, "%s: the block is damaged, or not one of Hearth's", path);
}

static int read_header(struct hearth_file *file, const struct hearth_kv *kv,
                       const struct hearth_block_key *key, struct header *h, struct hearth_error *err)
{
    const char *path = hearth_file_path(file);
    uint8_t bytes[HEADER_BYTES];
    if (hearth_file_size(file) != HEADER_BYTES + kv->page_bytes)
        return fail_damaged(path, err);
    const int rc = hearth_file_read(file, bytes, sizeof bytes, 0, err);
    if (rc)
        return rc;
    const uint8_t *sum = bytes + HEADER_BYTES - SUM_BYTES, *from = bytes + 8;
    if (memcmp(bytes, MAGIC, 8) != 0 ||
        hearth_take_number(&sum, SUM_BYTES) != hearth_crc32c(0, bytes, HEADER_BYTES - SUM_BYTES))
        return fail_damaged(path, err);
    h->version = (uint32_t)hearth_take_number(&from, 4);
    h->tokens = (uint32_t)hearth_take_number(&from, 4);
    h->bytes = hearth_take_number(&from, 8);
    memcpy(h->key.bytes, from, sizeof h->key.bytes);
    from += sizeof h->key.bytes;
    h->crc = (uint32_t)hearth_take_number(&from, 4);
    h->cost_us = (uint32_t)hearth_take_number(&from, 4);
    if (h->version != VERSION || h->tokens != HEARTH_KV_TILE || h->bytes != kv->page_bytes ||
        memcmp(h->key.bytes, key->bytes, sizeof key->bytes) != 0)
        return fail_damaged(path, err);
    return HEARTH_OK;
}

// Keys and values, to the page after the sequence's last one.
static int read_page(struct hearth_file *file, struct hearth_kv *kv, int seq, const struct header *h,
                     struct hearth_error *err)
{
    const int n = HEARTH_KV_TILE;
    int rc = hearth_kv_reserve(kv, &seq, &n, 1, err);
    if (rc)
        return rc;
    const int page = kv->seqs[seq].pages[kv->seqs[seq].length / HEARTH_KV_TILE];
    uint8_t *bytes = hearth_kv_pin(kv, page);
    rc = hearth_file_read(file, bytes, kv->page_bytes, HEADER_BYTES, err);
    if (!rc && hearth_crc32c(0, bytes, kv->page_bytes) != h->crc)
        rc = fail_damaged(hearth_file_path(file), err);
    hearth_kv_unpin(kv, page);
    return rc;
}

int hearth_block_load(struct hearth_session *session, int seq, const struct hearth_block_key *key,
                      const hearth_token tokens[HEARTH_BLOCK_TOKENS], const char *path, uint32_t *cost_us,
                      struct hearth_error *err)
{
    struct hearth_kv *kv = &session->kv;
    struct hearth_file *file = NULL;
    struct header h;
    assert(hearth_kv_has(kv, seq) && kv->seqs[seq].length % HEARTH_KV_TILE == 0);
    int rc = hearth_file_open(&file, path, err);
    if (!rc)
        rc = read_header(file, kv, key, &h, err);
    if (!rc)
        rc = read_page(file, kv, seq, &h, err);
    if (!rc) {
        hearth_kv_seq_append(kv, seq, tokens, HEARTH_KV_TILE, HEARTH_PHASE_PROMPT);
        *cost_us = h.cost_us;
    } else {
        hearth_kv_seq_truncate(kv, seq, kv->seqs[seq].length);
    }
    hearth_file_close(&file);
    return rc;
}
