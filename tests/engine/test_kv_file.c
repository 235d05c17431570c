// SPDX-License-Identifier: MIT
// Sequences in files: they go on bit for bit in any session on the model, however its cache is sized; files
// of other models or settings, damaged and hostile ones are refused with a message and change nothing; full
// disks, no memory.
#include "failing_alloc.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "convert/pack.h"
#include "engine/law.h"
#include "engine/session.h"
#include "golden_models.h"
#include "kv_file_support.h"
#include "made_models.h"
#include "model/fingerprint.h"

static struct hearth_error err;
static char sequence[512]; // where sequences are saved

// A call that may return a number.
#define GOOD(call)                                                                                           \
    do {                                                                                                     \
        err = (struct hearth_error){0};                                                                      \
        if ((call) < 0)                                                                                      \
            fail_msg("%s: %s", #call, err.message);                                                          \
    } while (0)

// ---- models, sessions, files

static struct hearth_model *open_model(const char *path)
{
    struct hearth_model *m = NULL;
    OK(hearth_model_open(&m, path, NULL, &err));
    return m;
}

static struct hearth_model *make_model(const struct made *made)
{
    const char *path = in_folder("model.gguf");
    made_write(path, made);
    return open_model(path);
}

static struct hearth_session *open_session(const struct hearth_model *m, struct hearth_session_params p)
{
    struct hearth_session *s = NULL;
    p.n_threads = p.n_threads ? p.n_threads : 1;
    p.max_seqs = p.max_seqs ? p.max_seqs : 2;
    p.n_ctx = p.n_ctx ? p.n_ctx : 256;
    p.size = sizeof p;
    p.predict_threshold = p.predict_threshold != 0.0f ? p.predict_threshold : NAN;
    OK(hearth_session_open(&s, m, &p, &err));
    return s;
}

static hearth_token token_at(const struct hearth_session *s, int i)
{
    return (i * 37 + 11) % s->model->hp.n_vocab;
}

// A sequence of n tokens of a fixed text, every third stretch of seven as steps when there are to be some.
static int make_sequence(struct hearth_session *s, int n, bool steps)
{
    int seq = hearth_seq_new(s, &err);
    GOOD(seq);
    for (int i = 0; i < n; i++) {
        const hearth_token token = token_at(s, i);
        if (steps && i / 7 % 3 == 2)
            OK(hearth_step(s, &seq, &token, 1, &err));
        else
            OK(hearth_prompt(s, seq, &token, 1, NULL, NULL, &err));
    }
    return seq;
}

static size_t token_bytes(const struct hearth_session *s)
{
    return hearth_kv_row_bytes(&s->kv);
}

struct bytes {
    uint8_t *p;
    size_t n;
};

static struct bytes read_bytes(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    struct bytes b = {.n = (size_t)ftell(f)};
    rewind(f);
    b.p = malloc(b.n + 1);
    assert_int_equal(fread(b.p, 1, b.n, f), b.n);
    fclose(f);
    return b;
}

static void write_bytes(const char *path, const uint8_t *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

// Loading fails so, with a message that has `words` and names the file, and leaves the session alone.
static void refuse(struct hearth_session *s, const char *path, int code, const char *words)
{
    struct hearth_kv_stats before, after;
    bool used[64] = {0};
    for (int i = 0; i < s->kv.max_seqs; i++)
        used[i] = s->kv.seqs[i].used;
    hearth_session_kv_stats(s, &before, sizeof before);
    err = (struct hearth_error){0};
    const int rc = hearth_seq_load(s, path, &err);
    if (rc != code || err.code != code || !strstr(err.message, words))
        fail_msg("%d in place of %d (%s): %s", rc, code, words, err.message);
    hearth_session_kv_stats(s, &after, sizeof after);
    assert_int_equal(after.pages_used, before.pages_used);
    assert_int_equal(after.pages_shared, before.pages_shared);
    for (int i = 0; i < s->kv.max_seqs; i++)
        assert_int_equal(s->kv.seqs[i].used, used[i]);
    assert_null(hearth_kv_check(&s->kv));
}

// ---- there and back

// A prompt of several tokens and a step, on each of two sequences of two sessions: the same bits.
static void go_on(struct hearth_session *a, int seq_a, struct hearth_session *b, int seq_b)
{
    const size_t n_bytes = (size_t)a->model->hp.n_vocab * sizeof(float);
    const hearth_token tokens[] = {5, 9, 1};
    OK(hearth_step(a, &seq_a, tokens, 1, &err));
    OK(hearth_step(b, &seq_b, tokens, 1, &err));
    assert_memory_equal(hearth_logits(a, 0), hearth_logits(b, 0), n_bytes);
    OK(hearth_prompt(a, seq_a, tokens, 3, NULL, NULL, &err));
    OK(hearth_prompt(b, seq_b, tokens, 3, NULL, NULL, &err));
    assert_memory_equal(hearth_logits(a, 0), hearth_logits(b, 0), n_bytes);
}

static void check_round_trip(const struct hearth_model *m, enum hearth_kv_type type, int n)
{
    const char *path = sequence;
    struct hearth_session *a =
        open_session(m, (struct hearth_session_params){.type_k = type, .type_v = type, .n_threads = 2});
    struct hearth_session *b = open_session(
        m,
        (struct hearth_session_params){
            .type_k = type, .type_v = type, .n_ctx = 200, .kv_tokens = 300, .max_seqs = 3, .n_ubatch = 16});
    const int first = make_sequence(a, n, true);
    OK(hearth_seq_save(a, first, path, &err));
    GOOD(make_sequence(b, 3, false)); // so that neither sequence nor pages have the same numbers
    const int second = hearth_seq_load(b, path, &err);
    GOOD(second);
    assert_int_equal(second, 1);
    assert_null(hearth_kv_check(&b->kv));

    hearth_token tokens[2][256];
    enum hearth_phase phases[2][256];
    assert_int_equal(hearth_seq_tokens(a, first, tokens[0], phases[0], 256), n);
    assert_int_equal(hearth_seq_tokens(b, second, tokens[1], phases[1], 256), n);
    assert_memory_equal(tokens[0], tokens[1], (size_t)n * sizeof tokens[0][0]);
    assert_memory_equal(phases[0], phases[1], (size_t)n * sizeof phases[0][0]);
    for (int i = 0; i < n; i++) {
        assert_int_equal(tokens[0][i], token_at(a, i));
        assert_int_equal(phases[0][i], i / 7 % 3 == 2);
    }

    // What is saved again is the same file, also once the sequence was longer and its page another's, too.
    struct bytes before = read_bytes(path);
    assert_int_equal(before.n,
                     KV_FILE_HEADER + (size_t)n * (4 + token_bytes(a)) + ((size_t)n + 63) / 64 * 12 + 4);
    const int fork = hearth_seq_fork(b, second, n, &err);
    GOOD(fork);
    go_on(a, first, b, second);
    OK(hearth_seq_truncate(b, second, n, &err));
    const int again[] = {second, fork};
    for (int i = 0; i < 2; i++) {
        OK(hearth_seq_save(b, again[i], path, &err));
        struct bytes after = read_bytes(path);
        assert_int_equal(before.n, after.n);
        assert_memory_equal(before.p, after.p, after.n);
        free(after.p);
    }
    free(before.p);
    hearth_session_close(&a);
    hearth_session_close(&b);
}

static void test_round_trip(void **unused)
{
    (void)unused;
    static const int lengths[] = {0, 1, 63, 64, 65, 150};
    static const struct made mades[] = {
        {.arch = "llama"},
        {.arch = "llama", .experts = true},
        {.arch = "llama", .predictors = true, .by_neuron = true},
        {.arch = "falcon"},
        {.arch = "deepseek2", .experts = true, .two_step_q = true},
        {.arch = "deepseek32", .experts = true, .two_step_q = true},
        {.arch = "glm-dsa", .experts = true, .two_step_q = true, .shares_choice = true},
        {.arch = "minimax-m3", .experts = true},
        {.arch = "opt", .optional = true},
        {.arch = "gemma4"},
        {.arch = "gemma4", .gives = true, .borrows = true},
    };
    for (size_t i = 0; i < sizeof mades / sizeof *mades; i++) {
        struct hearth_model *m = make_model(&mades[i]);
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
            check_round_trip(m, k % 2 ? HEARTH_KV_F16 : HEARTH_KV_F32, lengths[k]);
        hearth_model_close(&m);
    }
    struct hearth_model *m = open_model(GOLDEN_MODELS "mistral-gqa.BF16.gguf");
    check_round_trip(m, HEARTH_KV_Q8_0, 65);
    check_round_trip(m, HEARTH_KV_F16, 100);
    hearth_model_close(&m);
}

// ---- which model

static uint64_t fingerprint_of(const char *path)
{
    struct hearth_model *m = open_model(path);
    uint64_t id = 0;
    OK(hearth_model_fingerprint(m, &id, &err));
    hearth_model_close(&m);
    return id;
}

// The file with one byte of a tensor's data changed.
static void change_byte(const char *from, const char *to, const char *tensor, double where)
{
    struct hearth_gguf *g = NULL;
    OK(hearth_gguf_open(&g, from, &err));
    const struct hearth_gguf_tensor *t = hearth_gguf_tensor(g, tensor);
    struct bytes b = read_bytes(from);
    b.p[t->offset + (uint64_t)((double)t->bytes * where)] ^= 1;
    hearth_gguf_close(&g);
    write_bytes(to, b.p, b.n);
    free(b.p);
}

static void test_fingerprint(void **unused)
{
    (void)unused;
    const char *path = in_folder("model.gguf"), *other = in_folder("other.gguf");
    const struct made made = {.arch = "llama", .predictors = true, .by_neuron = true};
    made_write(path, &made);
    const uint64_t id = fingerprint_of(path);
    struct bytes b = read_bytes(path);
    write_bytes(other, b.p, b.n);
    free(b.p);
    assert_true(fingerprint_of(other) == id);
    change_byte(path, other, "blk.1.attn_q.weight", 0.5);
    assert_true(fingerprint_of(other) != id);
    change_byte(path, other, "token_embd.weight", 0.5);
    assert_true(fingerprint_of(other) != id);
    change_byte(path, other, "token_embd.weight", 0); // outside the sample
    assert_true(fingerprint_of(other) == id);
    struct made changed = made;
    changed.set[0] = (struct made_kv){"rope.freq_base", 'f', 20000, NULL};
    made_write(other, &changed);
    assert_true(fingerprint_of(other) != id);

    // Of a pack every byte counts.
    const char *pack = in_folder("a.hearth.gguf"), *other_pack = in_folder("b.hearth.gguf");
    change_byte(path, other, "token_embd.weight", 0);
    OK(hearth_pack_write(path, pack, &(struct hearth_pack_params){0}, NULL, &err));
    OK(hearth_pack_write(other, other_pack, &(struct hearth_pack_params){0}, NULL, &err));
    assert_true(fingerprint_of(pack) != fingerprint_of(other_pack));
    assert_true(fingerprint_of(pack) != id);
    empty_folder();
}

static void test_other_model(void **unused)
{
    (void)unused;
    const char *path = sequence, *model = in_folder("model.gguf"), *other = in_folder("other.gguf");
    struct hearth_model *m = make_model(&(struct made){.arch = "llama"});
    struct hearth_session *s = open_session(m, (struct hearth_session_params){0});
    OK(hearth_seq_save(s, make_sequence(s, 20, true), path, &err));
    hearth_session_close(&s);
    hearth_model_close(&m);

    change_byte(model, other, "blk.1.attn_q.weight", 0.4);
    m = open_model(other);
    s = open_session(m, (struct hearth_session_params){0});
    refuse(s, path, HEARTH_E_INVALID, "saved with another model (llama");
    hearth_session_close(&s);
    hearth_model_close(&m);
    empty_folder();
}

// ---- other settings

static void test_other_settings(void **unused)
{
    (void)unused;
    const char *path = sequence;
    char prompt[520];
    snprintf(prompt, sizeof prompt, "%s.prompt", sequence);
    struct hearth_model *m = make_model(&(struct made){.arch = "bamboo", .predictors = true});
    struct hearth_session *s =
        open_session(m, (struct hearth_session_params){.sparsity = HEARTH_SPARSITY_PREDICT, .max_seqs = 3});
    OK(hearth_seq_save(s, make_sequence(s, 40, true), path, &err));
    OK(hearth_seq_save(s, make_sequence(s, 40, false), prompt, &err));
    refuse(s, in_folder("nothing"), HEARTH_E_IO, "nothing");
    refuse(s, folder, HEARTH_E_INVALID, folder);
    assert_int_equal(hearth_seq_save(s, 7, path, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_seq_save(s, 0, in_folder("no/such/folder"), &err), HEARTH_E_IO);
    hearth_session_close(&s);

    s = open_session(m, (struct hearth_session_params){.type_v = HEARTH_KV_F32});
    refuse(s, path, HEARTH_E_INVALID, "keys in F16 and values in F16, this one has F16 and F32");
    hearth_session_close(&s);

    // Steps that left neurons out do not mix with others; prompts are dense everywhere.
    const struct hearth_session_params others[] = {
        {.sparsity = HEARTH_SPARSITY_EXACT},
        {.sparsity = HEARTH_SPARSITY_OFF},
        {.sparsity = HEARTH_SPARSITY_PREDICT, .predict_threshold = 0.25f},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        s = open_session(m, others[i]);
        refuse(s, path, HEARTH_E_INVALID, "another sparsity");
        GOOD(hearth_seq_load(s, prompt, &err));
        hearth_session_close(&s);
    }
    // Exact ones are dense in effect.
    s = open_session(m, others[0]);
    OK(hearth_seq_save(s, make_sequence(s, 40, true), path, &err));
    struct hearth_session *dense = open_session(m, others[1]);
    const int seq = hearth_seq_load(dense, path, &err);
    GOOD(seq);
    go_on(s, 0, dense, seq);
    hearth_session_close(&dense);
    hearth_session_close(&s);
    hearth_model_close(&m);

    // A threshold outside the ReLU family.
    m = make_model(&(struct made){.arch = "llama"});
    s = open_session(m, (struct hearth_session_params){.sparsity_threshold = 0.1f});
    OK(hearth_seq_save(s, make_sequence(s, 40, true), path, &err));
    GOOD(hearth_seq_load(s, path, &err));
    hearth_session_close(&s);
    s = open_session(m, (struct hearth_session_params){.sparsity_threshold = 0.2f});
    refuse(s, path, HEARTH_E_INVALID, "another sparsity");
    hearth_session_close(&s);
    s = open_session(m, (struct hearth_session_params){0});
    refuse(s, path, HEARTH_E_INVALID, "another sparsity");
    hearth_session_close(&s);
    hearth_model_close(&m);
    empty_folder();
}

static void test_no_room(void **unused)
{
    (void)unused;
    const char *path = sequence;
    struct hearth_model *m = make_model(&(struct made){.arch = "llama"});
    struct hearth_session *s = open_session(m, (struct hearth_session_params){0});
    OK(hearth_seq_save(s, make_sequence(s, 130, true), path, &err));
    hearth_session_close(&s);

    s = open_session(m, (struct hearth_session_params){.n_ctx = 129});
    refuse(s, path, HEARTH_E_BUDGET, "use a larger n_ctx");
    assert_string_equal(err.param, "n_ctx");
    hearth_session_close(&s);
    s = open_session(m, (struct hearth_session_params){.kv_tokens = 4 * HEARTH_KV_TILE, .max_seqs = 3});
    const int old = make_sequence(s, 65, false);
    refuse(s, path, HEARTH_E_KV_FULL, "use a larger kv_tokens");
    assert_string_equal(err.param, "kv_tokens");
    hearth_seq_free(s, old);
    assert_int_equal(hearth_seq_load(s, path, &err), old);
    GOOD(hearth_seq_new(s, &err));
    GOOD(hearth_seq_new(s, &err));
    refuse(s, path, HEARTH_E_BUDGET, "all 3 sequences");
    hearth_session_close(&s);
    hearth_model_close(&m);
    empty_folder();
}

// ---- bad files

// A session with a saved sequence of 70 tokens, two pages.
struct saved {
    struct hearth_model *model;
    struct hearth_session *session;
    const char *path;
    struct bytes bytes;
};

static void save_one(struct saved *f, int n)
{
    f->path = sequence;
    f->model = make_model(&(struct made){.arch = "llama"});
    f->session = open_session(f->model, (struct hearth_session_params){.max_seqs = 3});
    const int seq = make_sequence(f->session, n, true);
    OK(hearth_seq_save(f->session, seq, f->path, &err));
    f->bytes = read_bytes(f->path);
}

static void close_saved(struct saved *f)
{
    free(f->bytes.p);
    hearth_session_close(&f->session);
    hearth_model_close(&f->model);
    empty_folder();
}

static void test_damaged(void **unused)
{
    (void)unused;
    struct saved f;
    save_one(&f, 66);
    struct bytes b = f.bytes;
    for (size_t n = 0; n < b.n; n += n < 600 || n + 200 > b.n ? 1 : 37) {
        write_bytes(f.path, b.p, n);
        refuse(f.session, f.path, HEARTH_E_FORMAT, f.path);
    }
    write_bytes(f.path, b.p, b.n + 1);
    refuse(f.session, f.path, HEARTH_E_FORMAT, "something follows its end");
    for (size_t i = 0; i < b.n; i += i < 600 || i + 200 > b.n ? 1 : 29) {
        b.p[i] ^= (uint8_t)(1 << i % 8);
        write_bytes(f.path, b.p, b.n);
        // 3 is known, too: of models with recurrent layers.
        const bool version = i >= KV_FILE_VERSION && i < KV_FILE_VERSION + 4 && b.p[KV_FILE_VERSION] != 3;
        refuse(f.session, f.path, version ? HEARTH_E_UNSUPPORTED : HEARTH_E_FORMAT, f.path);
        b.p[i] ^= (uint8_t)(1 << i % 8);
    }
    write_bytes(f.path, b.p, b.n);
    GOOD(hearth_seq_load(f.session, f.path, &err));
    close_saved(&f);
}

// One number of the file is another one, and all checksums are right.
static void refuse_number(struct saved *f, size_t at, uint32_t value, int code, const char *words)
{
    uint8_t *copy = malloc(f->bytes.n);
    memcpy(copy, f->bytes.p, f->bytes.n);
    for (size_t i = 0; i < 4; i++)
        copy[at + i] = (uint8_t)(value >> (8 * i));
    kv_file_repair(copy, f->bytes.n, token_bytes(f->session));
    write_bytes(f->path, copy, f->bytes.n);
    free(copy);
    refuse(f->session, f->path, code, words);
}

static void test_hostile(void **unused)
{
    (void)unused;
    struct saved f;
    save_one(&f, 66);
    static const uint32_t odd[] = {0, 1, 65, 67, 255, 256, 257, 0x7fffffff, 0x80000000, 0xffffffff};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        const bool long_one = odd[i] > 256;
        refuse_number(&f, KV_FILE_N_TOKENS, odd[i], long_one ? HEARTH_E_BUDGET : HEARTH_E_FORMAT,
                      long_one ? "use a larger n_ctx" : "damaged");
        if (odd[i] != HEARTH_KV_TILE)
            refuse_number(&f, KV_FILE_PAGE_TOKENS, odd[i], HEARTH_E_FORMAT, "shape");
        refuse_number(&f, KV_FILE_TYPE_K, odd[i] + 3, HEARTH_E_INVALID, "this one has F16 and F16");
        refuse_number(&f, KV_FILE_N_LAYER, odd[i] + 5, HEARTH_E_FORMAT, "shape");
        refuse_number(&f, KV_FILE_N_LAYER + 4, odd[i] + 5, HEARTH_E_FORMAT, "shape");
        refuse_number(&f, KV_FILE_N_LAYER + 8, odd[i] + 12, HEARTH_E_FORMAT, "shape");
        refuse_number(&f, KV_FILE_MODEL, odd[i], HEARTH_E_INVALID, "another model");
        refuse_number(&f, KV_FILE_LAW, odd[i] == HEARTH_NUMERIC_LAW ? HEARTH_NUMERIC_LAW + 1 : odd[i],
                      HEARTH_E_UNSUPPORTED, "whose arithmetic is another");
        if (odd[i] > 1)
            refuse_number(&f, KV_FILE_STEPS, odd[i], HEARTH_E_INVALID, "another sparsity");
    }
    refuse_number(&f, KV_FILE_VERSION, 1, HEARTH_E_UNSUPPORTED,
                  "version 1, but this build knows versions 2 and 3");
    refuse_number(&f, KV_FILE_STEPS, 0, HEARTH_E_FORMAT, "phases");        // but there are some
    refuse_number(&f, KV_FILE_HEADER + 264, 4, HEARTH_E_FORMAT, "phases"); // of token 66
    refuse_number(&f, KV_FILE_HEADER + 8, MADE_VOCAB, HEARTH_E_FORMAT, "vocabulary");
    refuse_number(&f, KV_FILE_HEADER + 272, UINT32_MAX, HEARTH_E_FORMAT, "vocabulary");

    // Nothing is known of numbers in the pages, but they are harmless: the next logits may be what they like.
    uint8_t *p = f.bytes.p;
    memset(p + KV_FILE_NAME, 1, 70);
    memset(p + KV_FILE_HEADER + 300, 0x7e, f.bytes.n - KV_FILE_HEADER - 300);
    kv_file_repair(p, f.bytes.n, token_bytes(f.session));
    write_bytes(f.path, p, f.bytes.n);
    int seq = hearth_seq_load(f.session, f.path, &err);
    GOOD(seq);
    const hearth_token token = 3;
    OK(hearth_step(f.session, &seq, &token, 1, &err));
    // A name without an end, with control characters, in a message.
    memset(p + KV_FILE_NAME, 7, 72);
    refuse_number(&f, KV_FILE_MODEL, 1, HEARTH_E_INVALID, "another model (????");
    close_saved(&f);
}

// ---- no space, no memory

static void test_full_disk(void **unused)
{
    (void)unused;
    struct saved f;
    save_one(&f, 200);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t limit = 0; limit < f.bytes.n; limit += f.bytes.n / 7) {
        small = (struct rlimit){limit, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const int rc = hearth_seq_save(f.session, 0, f.path, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(rc, HEARTH_E_IO);
        assert_non_null(strstr(err.message, f.path));
        // The old file is as it was.
        struct bytes now = read_bytes(f.path);
        assert_int_equal(now.n, f.bytes.n);
        assert_memory_equal(now.p, f.bytes.p, now.n);
        free(now.p);
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(empty_folder(), 2);
    close_saved(&f);
}

static struct saved hungry;

static int save_hungry(void)
{
    hungry.session->model_id = 0;
    return hearth_seq_save(hungry.session, 0, hungry.path, &alloc_error);
}

static int load_hungry(void)
{
    hungry.session->model_id = 0;
    const int seq = hearth_seq_load(hungry.session, hungry.path, &alloc_error);
    assert_null(seq < 0 && hungry.session->kv.seqs[1].used ? "a sequence is left over" : NULL);
    if (seq >= 0)
        hearth_seq_free(hungry.session, seq);
    return seq < 0 ? seq : HEARTH_OK;
}

static void test_no_memory(void **unused)
{
    (void)unused;
    save_one(&hungry, 20);
    assert_true(exhaust_memory(save_hungry) >= 4);
    assert_true(exhaust_memory(load_hungry) >= 4);
    close_saved(&hungry);
}

static int set_up(void **unused)
{
    const int rc = make_folder(unused);
    snprintf(sequence, sizeof sequence, "%s", in_folder("sequence"));
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_other_model), cmocka_unit_test(test_other_settings),
        cmocka_unit_test(test_no_room),     cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_hostile),     cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
