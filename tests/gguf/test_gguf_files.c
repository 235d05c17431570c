// SPDX-License-Identifier: MIT
// The container, writing: what is written is read back; split models; damage to good files; files of others.
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_support.h"

// ---- writer

static struct hearth_gguf_writer *start(const char *path)
{
    struct hearth_gguf_writer *w;
    if (hearth_gguf_writer_open(&w, path, &err))
        fail_msg("%s", err.message);
    return w;
}

static uint8_t data_byte(size_t tensor, size_t i)
{
    return (uint8_t)(i * 31 + tensor * 7 + (i >> 8));
}

static const struct {
    const char *name;
    uint32_t type, n_dims;
    uint64_t ne[4];
} shapes[] = {
    {"token_embd.weight", HEARTH_TYPE_Q4_K, 2, {256, 7, 0, 0}},
    {"one", HEARTH_TYPE_F32, 1, {1, 0, 0, 0}},
    {"norm.weight", HEARTH_TYPE_F32, 1, {33, 0, 0, 0}},
    {"half", HEARTH_TYPE_F16, 3, {5, 3, 2, 0}},
    {"four", HEARTH_TYPE_Q8_0, 4, {32, 2, 3, 2}},
    {"tiny.bytes", HEARTH_TYPE_I8, 1, {3, 0, 0, 0}},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static size_t shape_bytes(size_t i)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < shapes[i].n_dims; d++)
        n *= shapes[i].ne[d];
    return hearth_type_bytes(shapes[i].type, n);
}

static void put_all_kinds(struct hearth_gguf_writer *w)
{
    static const char text[] = "a\0b\xff";
    static const struct hearth_str words[] = {{"<s>", 3}, {"", 0}, {"a\0b", 3}};
    static const float floats[] = {1.5f, -2.0f};
    OK(hearth_gguf_put_str(w, "general.architecture", "llama", 5, &err));
    OK(hearth_gguf_put_str(w, "any bytes", text, 4, &err));
    OK(hearth_gguf_put_str(w, "empty", "", 0, &err));
    OK(hearth_gguf_put_u32(w, "u32", 4000000000u, &err));
    OK(hearth_gguf_put_u64(w, "u64", UINT64_C(1) << 63, &err));
    OK(hearth_gguf_put_f32(w, "f32", 0.1f, &err));
    OK(hearth_gguf_put_bool(w, "true", true, &err));
    OK(hearth_gguf_put_bool(w, "false", false, &err));
    OK(hearth_gguf_put_array(w, "floats", HEARTH_GGUF_F32, floats, 2, &err));
    OK(hearth_gguf_put_array(w, "none", HEARTH_GGUF_I32, NULL, 0, &err));
    OK(hearth_gguf_put_strings(w, "words", words, 3, &err));
    OK(hearth_gguf_put_strings(w, "no words", NULL, 0, &err));
}

static void write_model(const char *path, uint32_t alignment, size_t piece)
{
    struct hearth_gguf_writer *w = start(path);
    if (alignment)
        OK(hearth_gguf_put_u32(w, "general.alignment", alignment, &err));
    put_all_kinds(w);
    for (size_t i = 0; i < N_SHAPES; i++)
        OK(hearth_gguf_put_tensor(w, shapes[i].name, shapes[i].type, shapes[i].n_dims, shapes[i].ne, &err));
    // All tensors' bytes as one stream, cut anywhere.
    size_t total = 0;
    static uint8_t stream[1 << 14];
    for (size_t i = 0; i < N_SHAPES; i++)
        for (size_t j = 0; j < shape_bytes(i); j++)
            stream[total++] = data_byte(i, j);
    for (size_t at = 0; at < total; at += piece)
        OK(hearth_gguf_write(w, stream + at, total - at < piece ? total - at : piece, &err));
    OK(hearth_gguf_finish(&w, &err));
    assert_null(w);
}

static void check_model(const struct hearth_gguf *g, uint32_t alignment)
{
    assert_int_equal(hearth_gguf_version(g), 3);
    struct hearth_str s;
    OK(hearth_gguf_str(g, "any bytes", true, &s, &err));
    assert_true(s.n == 4 && memcmp(s.s, "a\0b\xff", 4) == 0);
    OK(hearth_gguf_str(g, "empty", true, &s, &err));
    assert_true(s.n == 0 && s.s);
    uint32_t u = 0;
    OK(hearth_gguf_u32(g, "u32", true, &u, &err));
    assert_true(u == 4000000000u);
    uint64_t v = 0;
    OK(hearth_gguf_u64(g, "u64", true, &v, &err));
    assert_true(v == UINT64_C(1) << 63);
    float f = 0;
    OK(hearth_gguf_f32(g, "f32", true, &f, &err));
    assert_true(f == 0.1f);
    bool yes = false, no = true;
    OK(hearth_gguf_bool(g, "true", true, &yes, &err));
    OK(hearth_gguf_bool(g, "false", true, &no, &err));
    assert_true(yes && !no);
    const struct hearth_gguf_kv *kv = hearth_gguf_find(g, "floats");
    assert_true(kv->count == 2 && hearth_gguf_kv_f64(kv, 0) == 1.5 && hearth_gguf_kv_f64(kv, 1) == -2.0);
    kv = hearth_gguf_find(g, "none");
    assert_true(kv->type == HEARTH_GGUF_ARRAY && kv->element == HEARTH_GGUF_I32 && kv->count == 0);
    kv = hearth_gguf_find(g, "words");
    assert_true(kv->count == 3 && kv->strings[0].n == 3 && kv->strings[1].n == 0 && !kv->data);
    assert_true(memcmp(kv->strings[2].s, "a\0b", 4) == 0 && kv->strings[2].n == 3);
    assert_int_equal(hearth_gguf_find(g, "no words")->count, 0);
    assert_int_equal(hearth_gguf_n_tensors(g), N_SHAPES);
    for (size_t i = 0; i < N_SHAPES; i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor(g, shapes[i].name);
        assert_true(t && t->type == shapes[i].type && t->n_dims == shapes[i].n_dims &&
                    t->bytes == shape_bytes(i));
        assert_int_equal(t->offset % alignment, 0);
        uint8_t *data = malloc(t->bytes);
        OK(hearth_gguf_read(g, t, data, 0, t->bytes, &err));
        for (size_t j = 0; j < t->bytes; j++)
            assert_int_equal(data[j], data_byte(i, j));
        free(data);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    static const uint32_t alignments[] = {0, 8, 32, 64, 4096};
    static const size_t pieces[] = {1, 7, 1000, 1 << 14};
    empty_folder();
    for (size_t i = 0; i < 5; i++) {
        const char *path = in_folder("round.gguf");
        write_model(path, alignments[i], pieces[i % 4]);
        struct hearth_gguf *g;
        OK(hearth_gguf_open(&g, path, &err));
        check_model(g, alignments[i] ? alignments[i] : 32);
        hearth_gguf_close(&g);
    }
    assert_int_equal(empty_folder(), 1);
}

static size_t load(const char *path, uint8_t *dst, size_t cap)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(dst, 1, cap, f);
    assert_true(n < cap);
    fclose(f);
    return n;
}

// Copying key by key gives the same bytes.
static void test_copy_is_identical(void **state)
{
    (void)state;
    write_model(in_folder("a.gguf"), 64, 999);
    struct hearth_gguf *g;
    OK(hearth_gguf_open(&g, in_folder("a.gguf"), &err));
    struct hearth_gguf_writer *w = start(in_folder("b.gguf"));
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g); i++)
        OK(hearth_gguf_put_kv(w, hearth_gguf_kv_at(g, i), &err));
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        OK(hearth_gguf_put_tensor(w, t->name.s, t->type, t->n_dims, t->ne, &err));
    }
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        uint8_t *data = malloc(t->bytes);
        OK(hearth_gguf_read(g, t, data, 0, t->bytes, &err));
        OK(hearth_gguf_write(w, data, t->bytes, &err));
        free(data);
    }
    OK(hearth_gguf_finish(&w, &err));
    hearth_gguf_close(&g);
    static uint8_t a[1 << 16], b[1 << 16];
    size_t n = load(in_folder("a.gguf"), a, sizeof a);
    assert_int_equal(load(in_folder("b.gguf"), b, sizeof b), n);
    assert_memory_equal(a, b, n);
    empty_folder();
}

static void test_writer_refuses(void **state)
{
    (void)state;
    const char *path = in_folder("refused.gguf");
    uint64_t ne[4] = {32, 2, 0, 1};
    char name[70];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct hearth_gguf_writer *w = start(path);
    assert_int_equal(hearth_gguf_put_u32(w, "", 1, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_u32(w, "general.alignment", 33, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_u32(w, "general.alignment", 4, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_array(w, "k", HEARTH_GGUF_STRING, "x", 1, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_array(w, "k", HEARTH_GGUF_ARRAY, "x", 1, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_array(w, "k", HEARTH_GGUF_U32, "x", UINT64_MAX / 2, &err),
                     HEARTH_E_MEMORY);
    assert_int_equal(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_F32, 3, ne, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_F32, 0, ne, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_F32, 5, ne, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_Q4_K, 1, ne, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_tensor(w, "t", 31, 1, ne, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_tensor(w, "", HEARTH_TYPE_F32, 1, ne, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_tensor(w, name, HEARTH_TYPE_F32, 1, ne, &err), HEARTH_E_INVALID);
    uint64_t huge[2] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    assert_int_equal(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_F32, 2, huge, &err), HEARTH_E_INVALID);
    // What was refused left no trace.
    OK(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_I8, 1, ne, &err));
    assert_int_equal(hearth_gguf_put_u32(w, "general.alignment", 64, &err), HEARTH_E_INVALID);
    OK(hearth_gguf_write(w, name, 31, &err));
    assert_int_equal(hearth_gguf_put_u32(w, "late", 1, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_put_tensor(w, "late", HEARTH_TYPE_I8, 1, ne, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_write(w, name, 2, &err), HEARTH_E_INVALID); // one is left
    OK(hearth_gguf_finish(&w, &err));
    struct hearth_gguf *g;
    OK(hearth_gguf_open(&g, path, &err));
    assert_true(hearth_gguf_n_kv(g) == 0 && hearth_gguf_n_tensors(g) == 1);
    hearth_gguf_close(&g);
    assert_int_equal(empty_folder(), 1);
}

static void test_writer_leaves_nothing_behind(void **state)
{
    (void)state;
    uint64_t ne[1] = {8};
    const char *path = in_folder("gone.gguf");
    struct hearth_gguf_writer *w = start(path);
    put_all_kinds(w);
    hearth_gguf_writer_close(&w);
    assert_int_equal(empty_folder(), 0);
    hearth_gguf_writer_close(&w);

    w = start(path); // a byte is missing
    OK(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_I8, 1, ne, &err));
    OK(hearth_gguf_write(w, "1234567", 7, &err));
    assert_int_equal(hearth_gguf_finish(&w, &err), HEARTH_E_INVALID);
    assert_null(w);
    assert_int_equal(empty_folder(), 0);

    w = start(path); // duplicates
    OK(hearth_gguf_put_u32(w, "k", 1, &err));
    OK(hearth_gguf_put_u32(w, "k", 2, &err));
    assert_int_equal(hearth_gguf_finish(&w, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "key k"));
    w = start(path);
    OK(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_I8, 1, ne, &err));
    OK(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_I8, 1, ne, &err));
    assert_int_equal(hearth_gguf_write(w, "12345678", 8, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_gguf_finish(&w, &err), HEARTH_E_INVALID);
    assert_int_equal(empty_folder(), 0);
    assert_int_equal(hearth_gguf_writer_open(&w, in_folder("no/folder"), &err), HEARTH_E_IO);
    assert_null(w);
}

// ---- split models

static void put_u16(struct hearth_gguf_writer *w, const char *key, uint16_t v)
{
    uint8_t raw[2] = {(uint8_t)v, (uint8_t)(v >> 8)};
    struct hearth_gguf_kv kv = {.key = {key, strlen(key)},
                                .type = HEARTH_GGUF_U16,
                                .element = HEARTH_GGUF_U16,
                                .count = 1,
                                .data = raw};
    OK(hearth_gguf_put_kv(w, &kv, &err));
}

static void write_shard(const char *file_name, uint16_t no, uint16_t count, int32_t all, const char *tensor)
{
    uint64_t ne[1] = {100};
    struct hearth_gguf_writer *w = start(in_folder(file_name));
    if (no == 0)
        OK(hearth_gguf_put_str(w, "general.architecture", "llama", 5, &err));
    put_u16(w, "split.no", no);
    put_u16(w, "split.count", count);
    OK(hearth_gguf_put_u32(w, "split.tensors.count", (uint32_t)all, &err));
    uint8_t data[100];
    memset(data, 'A' + no, sizeof data);
    if (tensor) {
        OK(hearth_gguf_put_tensor(w, tensor, HEARTH_TYPE_I8, 1, ne, &err));
        OK(hearth_gguf_write(w, data, sizeof data, &err));
    }
    OK(hearth_gguf_finish(&w, &err));
}

static void write_split(void)
{
    write_shard("m-00001-of-00003.gguf", 0, 3, 2, NULL);
    write_shard("m-00002-of-00003.gguf", 1, 3, 2, "z");
    write_shard("m-00003-of-00003.gguf", 2, 3, 2, "a");
}

static void expect_split_error(const char *name, const char *words)
{
    struct hearth_gguf *g;
    int rc = hearth_gguf_open(&g, in_folder(name), &err);
    assert_null(g);
    if (!rc || !strstr(err.message, words))
        fail_msg("expected \"%s\", got %d \"%s\"", words, rc, err.message);
}

static void test_split(void **state)
{
    (void)state;
    write_split();
    static const char *const given[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                        "m-00003-of-00003.gguf"};
    for (size_t i = 0; i < 3; i++) {
        struct hearth_gguf *g;
        OK(hearth_gguf_open(&g, in_folder(given[i]), &err));
        assert_int_equal(hearth_gguf_n_shards(g), 3);
        assert_int_equal(hearth_gguf_n_tensors(g), 2);
        assert_non_null(hearth_gguf_find(g, "general.architecture"));
        assert_non_null(strstr(hearth_file_path(hearth_gguf_file(g, 0)), "00001"));
        const struct hearth_gguf_tensor *a = hearth_gguf_tensor(g, "a"), *z = hearth_gguf_tensor(g, "z");
        assert_true(a->shard == 2 && z->shard == 1);
        uint8_t byte;
        OK(hearth_gguf_read(g, a, &byte, 99, 1, &err));
        assert_int_equal(byte, 'C');
        OK(hearth_gguf_read(g, z, &byte, 0, 1, &err));
        assert_int_equal(byte, 'B');
        hearth_gguf_close(&g);
    }
    // A single file may say that it is one of one.
    write_shard("single.gguf", 0, 1, 1, "t");
    struct hearth_gguf *g;
    OK(hearth_gguf_open(&g, in_folder("single.gguf"), &err));
    hearth_gguf_close(&g);
    assert_int_equal(empty_folder(), 4);
}

static void test_split_errors(void **state)
{
    (void)state;
    write_split();
    remove(in_folder("m-00003-of-00003.gguf"));
    expect_split_error("m-00001-of-00003.gguf", "m-00003-of-00003.gguf: cannot open");
    assert_non_null(strstr(err.message, "shard 3 of 3"));
    write_shard("m-00003-of-00003.gguf", 1, 3, 2, "a");
    expect_split_error("m-00001-of-00003.gguf", "mixed up");
    write_shard("m-00003-of-00003.gguf", 2, 3, 2, "z");
    expect_split_error("m-00001-of-00003.gguf", "tensor z is there twice");
    write_shard("m-00003-of-00003.gguf", 2, 3, 2, NULL);
    expect_split_error("m-00002-of-00003.gguf", "all shards together have 1");
    write_shard("m-00003-of-00003.gguf", 3, 3, 2, "a");
    expect_split_error("m-00003-of-00003.gguf", "shard 4 of 3");
    write_split();
    remove(in_folder("m-00001-of-00003.gguf"));
    expect_split_error("m-00002-of-00003.gguf", "m-00001-of-00003.gguf: cannot open");
    assert_int_equal(rename(in_folder("m-00002-of-00003.gguf"), in_folder("m.gguf")), 0);
    expect_split_error("m.gguf", "original name");
    empty_folder();
}

// ---- damage

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 32) * n >> 32);
}

// Everything that an open file promises is touched; the sanitisers watch.
static void use_everything(const struct hearth_gguf *g)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g); i++) {
        const struct hearth_gguf_kv *kv = hearth_gguf_kv_at(g, i);
        sum += (uint8_t)kv->key.s[kv->key.n];
        for (uint64_t j = 0; j < kv->count; j++) {
            if (kv->strings)
                sum += kv->strings[j].n > 0 ? (uint8_t)kv->strings[j].s[kv->strings[j].n - 1] : 0;
            else
                sum += (uint64_t)hearth_gguf_kv_i64(kv, j) + (hearth_gguf_kv_f64(kv, j) > 0);
        }
    }
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        assert_ptr_equal(hearth_gguf_tensor(g, t->name.s), t);
        assert_int_equal(strlen(t->name.s), t->name.n);
        assert_non_null(hearth_type_info(t->type));
        uint8_t ends[2];
        OK(hearth_gguf_read(g, t, &ends[0], 0, 1, &err));
        OK(hearth_gguf_read(g, t, &ends[1], t->bytes - 1, 1, &err));
        sum += ends[0] + ends[1];
    }
    static volatile uint64_t sink;
    sink = sum;
    (void)sink;
}

static int try_bytes(void)
{
    int rc;
    struct hearth_gguf *g = open_bytes(&rc);
    assert_true(rc == 0 || rc == HEARTH_E_FORMAT || rc == HEARTH_E_UNSUPPORTED);
    if (!rc)
        use_everything(g);
    hearth_gguf_close(&g);
    return rc;
}

static void test_truncations_and_bit_flips(void **state)
{
    (void)state;
    static uint8_t whole[sizeof file.b];
    write_model(in_folder("whole.gguf"), 0, 4096);
    size_t size = load(in_folder("whole.gguf"), whole, sizeof whole);
    memcpy(file.b, whole, file.n = size);
    assert_int_equal(try_bytes(), 0);

    // Every truncation is noticed (up to the padding behind the last tensor).
    size_t last = 0;
    for (size_t cut = 0; cut + 32 < size; cut += 1 + (cut > 1500 ? random_below(40) : 0)) {
        memcpy(file.b, whole, file.n = cut);
        assert_int_equal(try_bytes(), HEARTH_E_FORMAT);
        last = cut;
    }
    assert_true(last > 1500);
    int survived = 0, refused = 0;
    for (int round = 0; round < 3000; round++) {
        memcpy(file.b, whole, file.n = size);
        // Mostly in the header, where it matters.
        for (uint32_t flips = 1 + random_below(3); flips > 0; flips--) {
            uint32_t at = random_below(8) ? random_below(1024) : random_below((uint32_t)size);
            file.b[at] ^= (uint8_t)(1u << random_below(8));
        }
        if (round % 3 == 0) { // an extreme number somewhere
            uint32_t at = random_below(1024);
            memset(file.b + at, random_below(2) ? 0xff : 0, 1 + random_below(8));
        }
        try_bytes() == 0 ? survived++ : refused++;
    }
    assert_true(survived > 20 && refused > 200);
    empty_folder();
}

// ---- real files

static void test_real_files(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t n_kv, n_tensors, n_tokens;
    } files[] = {{"stories260K.gguf", 19, 48, 512},
                 {"tokenizers/ggml-vocab-llama-spm.gguf", 22, 0, 32000},
                 {"tokenizers/ggml-vocab-falcon.gguf", 18, 0, 65024}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct hearth_gguf *g;
        OK(hearth_gguf_open(&g, data_path(files[i].name), &err));
        assert_int_equal(hearth_gguf_n_kv(g), files[i].n_kv);
        assert_int_equal(hearth_gguf_n_tensors(g), files[i].n_tensors);
        assert_int_equal(hearth_gguf_find(g, "tokenizer.ggml.tokens")->count, files[i].n_tokens);
        use_everything(g);
        hearth_gguf_close(&g);
    }
}

// Files that another program wrote.
static void test_golden_models(void **state)
{
    (void)state;
    static const char *const names[] = {"k-mixed.Q4_K_M", "llama3-rope.F16", "linear-rope.BF16", "tied.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/tests/golden/models/%s.gguf", HEARTH_SOURCE_DIR, names[i]);
        struct hearth_gguf *g;
        OK(hearth_gguf_open(&g, path, &err));
        assert_int_equal(hearth_gguf_find(g, "tokenizer.ggml.tokens")->count, 288);
        assert_non_null(hearth_gguf_tensor(g, "blk.0.attn_norm.weight"));
        use_everything(g);
        hearth_gguf_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_copy_is_identical),
        cmocka_unit_test(test_writer_refuses),
        cmocka_unit_test(test_writer_leaves_nothing_behind),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_errors),
        cmocka_unit_test(test_truncations_and_bit_flips),
        cmocka_unit_test(test_real_files),
        cmocka_unit_test(test_golden_models),
    };
    return cmocka_run_group_tests_name("gguf files", tests, make_folder, remove_folder);
}
