// SPDX-License-Identifier: MIT
// Blocks of prompts in files: they give the logits of tokens that were evaluated, in any session on the
// model; keys differ with all that keys and values follow from; damaged and foreign files, full caches and
// full disks change nothing.
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/os.h"
#include "engine/kv_block.h"
#include "engine/session.h"
#include "kv_block_support.h"
#include "made_models.h"

enum { N = HEARTH_BLOCK_TOKENS, BLOCKS = 3 };

static struct hearth_error err;
static hearth_token tokens[BLOCKS * N];
static char block_path[BLOCKS][512];

static struct hearth_model *make_model(const struct made *made)
{
    struct hearth_model *m = NULL;
    const char *path = in_folder("model.gguf");
    made_write(path, made);
    OK(hearth_model_open(&m, path, NULL, &err));
    return m;
}

static struct hearth_session *open_session(const struct hearth_model *m, struct hearth_session_params p)
{
    struct hearth_session *s = NULL;
    p.n_threads = 1;
    p.max_seqs = 3;
    p.n_ctx = p.n_ctx ? p.n_ctx : (BLOCKS + 1) * N;
    p.size = sizeof p;
    p.predict_threshold = NAN;
    OK(hearth_session_open(&s, m, &p, &err));
    return s;
}

static void set_tokens(const struct hearth_model *m)
{
    for (int i = 0; i < BLOCKS * N; i++)
        tokens[i] = (i * 37 + 11) % m->hp.n_vocab;
    for (int i = 0; i < BLOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "block%d", i);
        snprintf(block_path[i], sizeof block_path[i], "%s", in_folder(name));
    }
}

static void save_all(struct hearth_session *s, int seq)
{
    struct hearth_block_key key;
    OK(hearth_block_root(s, &key, &err));
    for (int i = 0; i < BLOCKS; i++) {
        hearth_block_next(&key, tokens + i * N);
        hearth_cache_file_remove(block_path[i]);
        OK(hearth_block_save(s, seq, i, &key, 77, block_path[i], &err));
    }
}

static int load(struct hearth_session *s, int seq, int i)
{
    struct hearth_block_key key;
    uint32_t cost_us = 0;
    OK(hearth_block_root(s, &key, &err));
    for (int k = 0; k <= i; k++)
        hearth_block_next(&key, tokens + k * N);
    const int rc = hearth_block_load(s, seq, &key, tokens + i * N, block_path[i], &cost_us, &err);
    assert_true(rc || cost_us == 77);
    return rc;
}

// Logits after a few more tokens of a prompt, and a step.
static void next_logits(struct hearth_session *s, int seq, float *out)
{
    const hearth_token more[] = {3, 9, 4}, token = 7;
    OK(hearth_prompt(s, seq, more, 3, NULL, NULL, &err));
    OK(hearth_step(s, &seq, &token, 1, &err));
    memcpy(out, hearth_logits(s, 0), (size_t)s->model->hp.n_vocab * sizeof *out);
}

// ---- the same bits

static void check_bits(const struct made *made, enum hearth_kv_type type_k, enum hearth_kv_type type_v)
{
    float want[MADE_VOCAB], got[MADE_VOCAB];
    struct hearth_model *m = make_model(made);
    const struct hearth_session_params p = {.type_k = type_k, .type_v = type_v};
    struct hearth_session *one = open_session(m, p);
    set_tokens(m);
    int seq = hearth_seq_new(one, &err);
    OK(hearth_prompt(one, seq, tokens, BLOCKS * N, NULL, NULL, &err));
    save_all(one, seq);
    next_logits(one, seq, want);
    hearth_session_close(&one);

    struct hearth_session *two = open_session(m, p);
    seq = hearth_seq_new(two, &err);
    for (int i = 0; i < BLOCKS; i++)
        OK(load(two, seq, i));
    assert_int_equal(hearth_seq_length(two, seq), BLOCKS * N);
    hearth_token there[BLOCKS * N];
    enum hearth_phase phases[BLOCKS * N];
    assert_int_equal(hearth_seq_tokens(two, seq, there, phases, BLOCKS * N), BLOCKS * N);
    assert_memory_equal(there, tokens, sizeof tokens);
    for (int i = 0; i < BLOCKS * N; i++)
        assert_int_equal(phases[i], HEARTH_PHASE_PROMPT);
    next_logits(two, seq, got);
    assert_memory_equal(got, want, (size_t)m->hp.n_vocab * sizeof *got);

    // The first block from a file, the second evaluated, the third from a file.
    seq = hearth_seq_new(two, &err);
    OK(load(two, seq, 0));
    OK(hearth_prompt(two, seq, tokens + N, N, NULL, NULL, &err));
    OK(load(two, seq, 2));
    next_logits(two, seq, got);
    assert_memory_equal(got, want, (size_t)m->hp.n_vocab * sizeof *got);
    assert_null(hearth_kv_check(&two->kv));
    hearth_session_close(&two);
    hearth_model_close(&m);
}

static void test_bits(void **state)
{
    (void)state;
    check_bits(&(struct made){.arch = "llama"}, HEARTH_KV_F16, HEARTH_KV_F16);
    check_bits(&(struct made){.arch = "llama"}, HEARTH_KV_F32, HEARTH_KV_F16);
    check_bits(&(struct made){.arch = "gemma3"}, HEARTH_KV_F16, HEARTH_KV_F32);
    check_bits(&(struct made){.arch = "gemma4"}, HEARTH_KV_F16, HEARTH_KV_F32);
    check_bits(&(struct made){.arch = "gemma4", .gives = true, .borrows = true}, HEARTH_KV_F16,
               HEARTH_KV_F16);
    check_bits(&(struct made){.arch = "deepseek2"}, HEARTH_KV_F16, HEARTH_KV_F16);
    check_bits(&(struct made){.arch = "deepseek32", .two_step_q = true}, HEARTH_KV_F16, HEARTH_KV_F16);
    check_bits(&(struct made){.arch = "qwen3"}, HEARTH_KV_F16, HEARTH_KV_F16);
}

// ---- keys

static void key_of(const struct hearth_model *m, enum hearth_kv_type type_k, struct hearth_block_key *key)
{
    struct hearth_session *s = open_session(m, (struct hearth_session_params){.type_k = type_k});
    OK(hearth_block_root(s, key, &err));
    hearth_session_close(&s);
}

static void test_keys(void **state)
{
    (void)state;
    struct hearth_block_key keys[6];
    struct hearth_model *m = make_model(&(struct made){.arch = "llama"});
    set_tokens(m);
    key_of(m, HEARTH_KV_F16, &keys[0]);
    key_of(m, HEARTH_KV_F32, &keys[1]);
    keys[2] = keys[3] = keys[0];
    hearth_block_next(&keys[2], tokens);
    tokens[N - 1] ^= 1;
    hearth_block_next(&keys[3], tokens);
    hearth_model_close(&m);
    m = make_model(&(struct made){.arch = "qwen2"});
    key_of(m, HEARTH_KV_F16, &keys[4]);
    hearth_model_close(&m);
    // The same file, written again: what was changed in it may be where nobody looks.
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder("model.gguf"));
    const struct timespec times[] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    OK(hearth_model_open(&m, path, NULL, &err));
    key_of(m, HEARTH_KV_F16, &keys[5]);
    hearth_model_close(&m);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(keys[i].bytes, keys[k].bytes, sizeof keys[i].bytes);
}

// ---- files that do not serve

static void write_file(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void test_damaged(void **state)
{
    (void)state;
    struct hearth_model *m = make_model(&(struct made){.arch = "llama"});
    struct hearth_session *s = open_session(m, (struct hearth_session_params){0});
    set_tokens(m);
    int seq = hearth_seq_new(s, &err);
    OK(hearth_prompt(s, seq, tokens, BLOCKS * N, NULL, NULL, &err));
    save_all(s, seq);
    hearth_seq_free(s, seq);
    seq = hearth_seq_new(s, &err);
    const size_t n = (size_t)hearth_block_file_bytes(s);
    uint8_t *good = malloc(n + 1), *bad = malloc(n + 1);
    FILE *f = fopen(block_path[0], "rb");
    assert_true(good && bad && f && fread(good, 1, n + 1, f) == n);
    fclose(f);
    good[n] = 0;
    for (size_t i = 0; i < n; i += i < KV_BLOCK_HEADER ? 1 : 61) {
        memcpy(bad, good, n);
        bad[i] ^= 0x10;
        write_file(block_path[0], bad, n);
        assert_int_equal(load(s, seq, 0), HEARTH_E_FORMAT);
    }
    const size_t sizes[] = {0, 1, KV_BLOCK_HEADER - 1, KV_BLOCK_HEADER, n / 2, n - 1, n + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        write_file(block_path[0], good, sizes[i]);
        assert_int_equal(load(s, seq, 0), HEARTH_E_FORMAT);
        assert_non_null(strstr(err.message, block_path[0]));
    }
    write_file(block_path[0], good, n);
    memcpy(bad, good, n);
    bad[KV_BLOCK_KEY] ^= 1; // another block's, whole in itself
    kv_block_repair(bad, n);
    write_file(block_path[0], bad, n);
    assert_int_equal(load(s, seq, 0), HEARTH_E_FORMAT);
    hearth_cache_file_remove(block_path[0]);
    assert_int_equal(load(s, seq, 0), HEARTH_E_IO);
    assert_int_equal(hearth_seq_length(s, seq), 0);
    assert_int_equal(s->kv.n_free, s->kv.n_pages);
    write_file(block_path[0], good, n);
    OK(load(s, seq, 0));
    free(good);
    free(bad);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

static void test_no_room(void **state)
{
    (void)state;
    struct hearth_model *m = make_model(&(struct made){.arch = "llama"});
    struct hearth_session *s = open_session(m, (struct hearth_session_params){.kv_tokens = BLOCKS * N});
    set_tokens(m);
    const int seq = hearth_seq_new(s, &err), other = hearth_seq_new(s, &err);
    OK(hearth_prompt(s, seq, tokens, BLOCKS * N, NULL, NULL, &err));
    save_all(s, seq);
    assert_int_equal(load(s, other, 0), HEARTH_E_KV_FULL);
    assert_int_equal(hearth_seq_length(s, other), 0);
    assert_null(hearth_kv_check(&s->kv));
    hearth_seq_free(s, seq);
    OK(load(s, other, 0));
    hearth_session_close(&s);

    s = open_session(m, (struct hearth_session_params){.n_ctx = N});
    const int full = hearth_seq_new(s, &err);
    OK(load(s, full, 0));
    assert_int_equal(load(s, full, 1), HEARTH_E_BUDGET);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

static void test_full_disk(void **state)
{
    (void)state;
    struct hearth_model *m = make_model(&(struct made){.arch = "llama"});
    struct hearth_session *s = open_session(m, (struct hearth_session_params){0});
    struct hearth_block_key key = {{0}};
    struct rlimit was, little = {1000, 1000};
    set_tokens(m);
    const int seq = hearth_seq_new(s, &err);
    OK(hearth_prompt(s, seq, tokens, N, NULL, NULL, &err));
    hearth_cache_file_remove(block_path[0]);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    little.rlim_max = was.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    const int rc = hearth_block_save(s, seq, 0, &key, 0, block_path[0], &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(rc, HEARTH_E_IO);
    assert_false(hearth_file_exists(block_path[0]));
    hearth_session_close(&s);
    hearth_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),    cmocka_unit_test(test_keys),      cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_no_room), cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
