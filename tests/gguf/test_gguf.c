// SPDX-License-Identifier: MIT
// The container, reading: whatever is in a file that is no good GGUF ends in a clear error; typed look-ups.
#include "check.h"

#include <math.h>
#include <string.h>

#include "gguf_support.h"

// ---- files built by hand

static void put(const void *src, size_t n)
{
    assert_true(n <= sizeof file.b - file.n);
    memcpy(file.b + file.n, src, n);
    file.n += n;
}

static void put_u32(uint32_t v)
{
    uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    put(b, 4);
}

static void put_u64(uint64_t v)
{
    put_u32((uint32_t)v);
    put_u32((uint32_t)(v >> 32));
}

static void put_str(const char *s)
{
    put_u64(strlen(s));
    put(s, strlen(s));
}

static void begin(const char *magic, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    file.n = 0;
    put(magic, 4);
    put_u32(version);
    put_u64(n_tensors);
    put_u64(n_kv);
}

static void put_kv_u32(const char *key, uint32_t v)
{
    put_str(key);
    put_u32(HEARTH_GGUF_U32);
    put_u32(v);
}

static void put_tensor(const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset)
{
    put_str(name);
    put_u32(n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        put_u64(ne[i]);
    put_u32(type);
    put_u64(offset);
}

static void put_data(size_t alignment, size_t n)
{
    while (file.n % alignment)
        put("", 1);
    for (size_t i = 0; i < n; i++)
        put("\x11", 1);
}
static void expect_error(int code, const char *words)
{
    int rc;
    struct hearth_gguf *g = open_bytes(&rc);
    if (rc != code || !strstr(err.message, words))
        fail_msg("expected %d \"%s\", got %d \"%s\"", code, words, rc, rc ? err.message : "");
    hearth_gguf_close(&g);
}

static struct hearth_gguf *expect_ok(void)
{
    int rc;
    struct hearth_gguf *g = open_bytes(&rc);
    if (rc)
        fail_msg("%s", err.message);
    return g;
}

static void test_good_headers(void **state)
{
    (void)state;
    static const struct {
        const char *magic;
        uint32_t version, alignment;
    } cases[] = {{"GGUF", 3, 32}, {"GGUF", 2, 32},   {"PWRI", 3, 32},
                 {"GGUF", 3, 64}, {"GGUF", 3, 4096}, {"GGUF", 3, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t ne[4] = {64, 3, 2, 1};
        begin(cases[i].magic, cases[i].version, 3, 1);
        put_kv_u32("general.alignment", cases[i].alignment);
        put_tensor("a", 4, ne, HEARTH_TYPE_Q4_0, 0);
        put_tensor("b", 1, ne, HEARTH_TYPE_F32, 4096);
        put_tensor("scalar", 0, ne, HEARTH_TYPE_F16, 8192);
        put_data(cases[i].alignment, 8192 + 2);
        struct hearth_gguf *g = expect_ok();
        assert_int_equal(hearth_gguf_is_pwri(g), cases[i].magic[0] == 'P');
        assert_int_equal(hearth_gguf_version(g), cases[i].version);
        assert_int_equal(hearth_gguf_n_shards(g), 1);
        assert_int_equal(hearth_gguf_n_kv(g), 1);
        assert_int_equal(hearth_gguf_n_tensors(g), 3);
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor(g, "a");
        assert_ptr_equal(t, hearth_gguf_tensor_at(g, 0));
        assert_int_equal(t->bytes, 64 * 6 / 32 * 18);
        assert_int_equal(t->offset % cases[i].alignment, 0);
        assert_int_equal(t->offset + 8194, hearth_file_size(hearth_gguf_file(g, 0)));
        assert_string_equal(t->name.s, "a");
        t = hearth_gguf_tensor(g, "scalar");
        assert_true(t->n_dims == 1 && t->ne[0] == 1 && t->ne[3] == 1 && t->bytes == 2);
        uint8_t data[300];
        assert_int_equal(hearth_gguf_read(g, hearth_gguf_tensor(g, "b"), data, 6, 250, &err), 0);
        assert_true(data[0] == 0x11 && data[249] == 0x11);
        assert_int_equal(hearth_gguf_read(g, hearth_gguf_tensor(g, "b"), data, 6, 251, &err),
                         HEARTH_E_INVALID);
        assert_int_equal(hearth_gguf_read(g, hearth_gguf_tensor(g, "b"), data, UINT64_MAX, 2, &err),
                         HEARTH_E_INVALID);
        assert_null(hearth_gguf_tensor(g, "c"));
        assert_null(hearth_gguf_tensor(g, ""));
        assert_null(hearth_gguf_tensor_at(g, 3));
        assert_null(hearth_gguf_kv_at(g, 1));
        assert_null(hearth_gguf_file(g, 1));
        hearth_gguf_close(&g);
        assert_null(g);
        hearth_gguf_close(&g);
    }
}

// A file of these bytes alone is refused with these words.
static void expect_start(const char *bytes, size_t n, const char *words)
{
    file.n = 0;
    put(bytes, n);
    expect_error(HEARTH_E_FORMAT, words);
}

static void test_not_a_gguf(void **state)
{
    (void)state;
    file.n = 0;
    expect_error(HEARTH_E_FORMAT, "truncated");
    put("GGU", 3);
    expect_error(HEARTH_E_FORMAT, "truncated");
    put("F\3\0\0\0", 5);
    expect_error(HEARTH_E_FORMAT, "truncated");
    expect_start("version https://git-lfs.github.com/spec/v1\n", 43, "git lfs pull");
    expect_start("<!DOCTYPE html>", 15, "web page");
    expect_start("PK\3\4 and so on", 13, "ZIP");
    expect_start("\x18\0\0\0\0\0\0\0{\"__metadata__\":{}}     ", 32, "safetensors");
    expect_start("ggjt and so on", 14, "GGJT");
    expect_start("tjgg and so on", 14, "GGJT");
    expect_start("\0\0\0\0\0\0\0\0\0", 9, "zeros");
    expect_start("{\"a\": 1}", 8, "not a GGUF");
    static const struct {
        uint32_t version;
        const char *words;
    } versions[] = {
        {0, "version 0"}, {1, "version 1"}, {4, "newer"}, {0x03000000, "big-endian"}, {UINT32_MAX, "newer"}};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        begin("GGUF", versions[i].version, 0, 0);
        expect_error(HEARTH_E_UNSUPPORTED, versions[i].words);
    }
    struct hearth_gguf *g;
    assert_int_equal(hearth_gguf_open(&g, in_folder("absent"), &err), HEARTH_E_IO);
    assert_int_equal(hearth_gguf_open(&g, folder, &err), HEARTH_E_INVALID);
    assert_null(g);
}

static void test_hostile_metadata(void **state)
{
    (void)state;
    static const uint64_t counts[] = {3, 1000, UINT32_MAX, UINT64_MAX / 8 + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        begin("GGUF", 3, 0, counts[i]);
        expect_error(HEARTH_E_FORMAT, "announced");
        begin("GGUF", 3, counts[i], 0);
        expect_error(HEARTH_E_FORMAT, "announced");
        // As the length of a key, of a string, of arrays of numbers and strings.
        begin("GGUF", 3, 0, 1);
        put_u64(counts[i]);
        put("abcdefgh", i ? 8 : 2);
        expect_error(HEARTH_E_FORMAT, "truncated");
        begin("GGUF", 3, 0, 1);
        put_str("name");
        put_u32(HEARTH_GGUF_STRING);
        put_u64(counts[i]);
        put("xy", 2);
        expect_error(HEARTH_E_FORMAT, "key name");
        for (uint32_t element = 0; element <= HEARTH_GGUF_F64; element++) {
            begin("GGUF", 3, 0, 1);
            put_str("list");
            put_u32(HEARTH_GGUF_ARRAY);
            put_u32(element);
            put_u64(counts[i]);
            put("x", 1);
            if (element == HEARTH_GGUF_ARRAY)
                expect_error(HEARTH_E_UNSUPPORTED, "array of arrays");
            else
                expect_error(HEARTH_E_FORMAT, "key list");
        }
    }
    begin("GGUF", 3, 0, 1);
    put_str("");
    put("\0\0\0\0\0\0", 6);
    expect_error(HEARTH_E_FORMAT, "empty");
    begin("GGUF", 3, 0, 1);
    put_u64(3);
    put("a\0b", 3);
    put("\0\0\0\0\0", 5);
    expect_error(HEARTH_E_FORMAT, "zero bytes");
    begin("GGUF", 3, 0, 1);
    put_str("odd \x1b[31m\xff name");
    put_u32(13);
    put_u32(13);
    expect_error(HEARTH_E_FORMAT, "odd ?[31m? name");
    begin("GGUF", 3, 0, 1);
    put_str("list");
    put_u32(HEARTH_GGUF_ARRAY);
    put_u32(77);
    put_u64(1);
    put_u64(1);
    expect_error(HEARTH_E_FORMAT, "unknown type");
    begin("GGUF", 3, 0, 2);
    put_kv_u32("twice", 1);
    put_kv_u32("twice", 1);
    expect_error(HEARTH_E_FORMAT, "key twice");
    // A key too long for the format, in a file long enough for it.
    begin("GGUF", 3, 0, 1);
    put_u64(65000);
    for (int i = 0; i < 65000; i++)
        put("k", 1);
    put_u32(HEARTH_GGUF_U8);
    put("x", 1);
    struct hearth_gguf *g = expect_ok();
    hearth_gguf_close(&g);
}

static void test_hostile_alignment(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, 3, 33, 48, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        begin("GGUF", 3, 0, 1);
        put_kv_u32("general.alignment", bad[i]);
        expect_error(HEARTH_E_FORMAT, "general.alignment");
    }
    begin("GGUF", 3, 0, 1);
    put_str("general.alignment");
    put_u32(HEARTH_GGUF_STRING);
    put_str("32");
    expect_error(HEARTH_E_FORMAT, "general.alignment is of type string");
    uint64_t ne[1] = {1};
    begin("GGUF", 3, 1, 1);
    put_kv_u32("general.alignment", 1u << 31);
    put_tensor("t", 1, ne, HEARTH_TYPE_F32, 0);
    put_data(32, 64);
    expect_error(HEARTH_E_FORMAT, "truncated");
}

static void expect_tensor_error(uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset, int code,
                                const char *words)
{
    begin("GGUF", 3, 1, 0);
    put_tensor("some.weight", n_dims, ne, type, offset);
    put_data(32, 1024);
    expect_error(code, words);
    assert_non_null(strstr(err.message, "tensor some.weight"));
}

static void test_hostile_tensors(void **state)
{
    (void)state;
    uint64_t ok[5] = {32, 1, 1, 1, 1};
    expect_tensor_error(5, ok, HEARTH_TYPE_F32, 0, HEARTH_E_FORMAT, "4 dimensions");
    begin("GGUF", 3, 1, 0);
    put_str("some.weight");
    put_u32(UINT32_MAX);
    put_data(32, 1024);
    expect_error(HEARTH_E_FORMAT, "4 dimensions");

    static const uint64_t bad[][4] = {
        {0, 1, 1, 1},
        {32, 0, 1, 1},
        {32, 1, 1, 0},
        {UINT64_MAX, UINT64_MAX, 1, 1},
        {UINT64_C(1) << 32, UINT64_C(1) << 32, 1, 1},
        {UINT64_C(1) << 62, 2, 1, 1},
        {UINT64_C(1) << 61, 1, 1, 2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_tensor_error(4, bad[i], HEARTH_TYPE_F32, 0, HEARTH_E_FORMAT, "impossible");
        expect_tensor_error(4, bad[i], HEARTH_TYPE_F64, 0, HEARTH_E_FORMAT, "impossible");
    }
    static const uint32_t no_types[] = {4, 5, 31, 33, 36, HEARTH_TYPE_END, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof no_types / sizeof *no_types; i++)
        expect_tensor_error(1, ok, no_types[i], 0, HEARTH_E_UNSUPPORTED,
                            no_types[i] < HEARTH_TYPE_END ? "download a newer file"
                                                          : "newer version of Hearth");
    uint64_t odd[2] = {48, 2}; // 96 elements are whole blocks, rows are not
    expect_tensor_error(2, odd, HEARTH_TYPE_Q4_0, 0, HEARTH_E_FORMAT, "multiple");
    expect_tensor_error(1, ok, HEARTH_TYPE_Q4_K, 0, HEARTH_E_FORMAT, "multiple");

    expect_tensor_error(1, ok, HEARTH_TYPE_F32, 8, HEARTH_E_FORMAT, "aligned");
    expect_tensor_error(1, ok, HEARTH_TYPE_F32, UINT64_MAX - 31, HEARTH_E_FORMAT, "truncated");
    expect_tensor_error(1, ok, HEARTH_TYPE_F32, UINT64_MAX - 255, HEARTH_E_FORMAT, "truncated");
    expect_tensor_error(1, ok, HEARTH_TYPE_F32, 1024 - 96, HEARTH_E_FORMAT, "download it again");
    uint64_t large[1] = {257};
    expect_tensor_error(1, large, HEARTH_TYPE_F32, 0, HEARTH_E_FORMAT, "needs 1028 bytes");

    begin("GGUF", 3, 2, 0);
    put_tensor("same", 1, ok, HEARTH_TYPE_F32, 0);
    put_tensor("same", 1, ok, HEARTH_TYPE_F32, 128);
    put_data(32, 1024);
    expect_error(HEARTH_E_FORMAT, "tensor same is there twice");
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    begin("GGUF", 3, 1, 0);
    put_tensor(name, 1, ok, HEARTH_TYPE_F32, 0);
    put_data(32, 1024);
    expect_error(HEARTH_E_FORMAT, "name is too long");
    begin("GGUF", 3, 1, 0);
    put_tensor("", 1, ok, HEARTH_TYPE_F32, 0);
    put_data(32, 1024);
    expect_error(HEARTH_E_FORMAT, "name is empty");
}

// Each tensor has bytes of its own, whatever their order; there may be gaps.
static void test_shared_bytes(void **state)
{
    (void)state;
    static const struct {
        uint64_t at[3];
        const char *words; // NULL: it opens
    } cases[] = {{{0, 128, 256}, NULL},
                 {{512, 0, 256}, NULL},
                 {{256, 128, 0}, NULL},
                 {{0, 96, 256}, "tensors first and second share bytes, from"},
                 {{0, 0, 256}, "tensors first and second share bytes, from"},
                 {{256, 160, 0}, "tensors second and first share bytes, from"},
                 {{224, 512, 128}, "tensors third? and first share bytes, from"}};
    const uint64_t ne[1] = {32};
    static const char *const names[] = {"first", "second", "third\n"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin("GGUF", 3, 3, 0);
        for (int k = 0; k < 3; k++)
            put_tensor(names[k], 1, ne, HEARTH_TYPE_F32, cases[i].at[k]);
        put_data(32, 1024);
        if (cases[i].words)
            expect_error(HEARTH_E_FORMAT, cases[i].words);
        else {
            struct hearth_gguf *g = expect_ok();
            hearth_gguf_close(&g);
        }
    }
}

// ---- typed look-ups

static void put_number(const char *key, enum hearth_gguf_type type, uint64_t bits, size_t size)
{
    put_str(key);
    put_u32((uint32_t)type);
    for (size_t i = 0; i < size; i++)
        put(&(uint8_t){(uint8_t)(bits >> (8 * i))}, 1);
}

static void test_typed_values(void **state)
{
    (void)state;
    begin("GGUF", 3, 0, 16);
    put_number("u8", HEARTH_GGUF_U8, 255, 1);
    put_number("i8", HEARTH_GGUF_I8, 0xff, 1);
    put_number("u16", HEARTH_GGUF_U16, 65535, 2);
    put_number("i16", HEARTH_GGUF_I16, 0x8000, 2);
    put_number("u32", HEARTH_GGUF_U32, UINT32_MAX, 4);
    put_number("i32", HEARTH_GGUF_I32, 0xfffffffe, 4);
    put_number("i32+", HEARTH_GGUF_I32, 7, 4);
    put_number("u64", HEARTH_GGUF_U64, UINT64_MAX, 8);
    put_number("u64+", HEARTH_GGUF_U64, 5000000000u, 8);
    put_number("i64", HEARTH_GGUF_I64, (uint64_t)INT64_MIN, 8);
    put_number("f32", HEARTH_GGUF_F32, 0x40490fdb, 4);
    put_number("f64", HEARTH_GGUF_F64, 0x4000000000000000, 8);
    put_number("nan", HEARTH_GGUF_F32, 0x7fc00000, 4);
    put_number("yes", HEARTH_GGUF_BOOL, 1, 1);
    put_str("text");
    put_u32(HEARTH_GGUF_STRING);
    put_str("caf\xc3\xa9");
    put_str("list");
    put_u32(HEARTH_GGUF_ARRAY);
    put_u32(HEARTH_GGUF_I16);
    put_u64(3);
    put("\1\0\xff\xff\0\x80", 6);
    struct hearth_gguf *g = expect_ok();

    uint32_t u = 99;
    assert_true(hearth_gguf_u32(g, "u8", true, &u, &err) == 0 && u == 255);
    assert_true(hearth_gguf_u32(g, "u16", true, &u, &err) == 0 && u == 65535);
    assert_true(hearth_gguf_u32(g, "u32", true, &u, &err) == 0 && u == UINT32_MAX);
    assert_true(hearth_gguf_u32(g, "i32+", true, &u, &err) == 0 && u == 7);
    static const char *const not_u32[] = {"i8",  "i16", "i32", "i64",  "u64", "u64+",
                                          "f32", "f64", "yes", "text", "list"};
    for (size_t i = 0; i < sizeof not_u32 / sizeof *not_u32; i++) {
        assert_int_equal(hearth_gguf_u32(g, not_u32[i], false, &u, &err), HEARTH_E_FORMAT);
        assert_non_null(strstr(err.message, not_u32[i]));
        assert_non_null(strstr(err.message, hearth_gguf_path(g)));
    }
    assert_int_equal(u, 7);
    assert_int_equal(hearth_gguf_u32(g, "absent", false, &u, &err), 0);
    assert_int_equal(u, 7);
    assert_int_equal(hearth_gguf_u32(g, "absent", true, &u, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "absent"));

    uint64_t v = 0;
    assert_true(hearth_gguf_u64(g, "u64", true, &v, &err) == 0 && v == UINT64_MAX);
    assert_true(hearth_gguf_u64(g, "u8", true, &v, &err) == 0 && v == 255);
    assert_int_equal(hearth_gguf_u64(g, "i64", true, &v, &err), HEARTH_E_FORMAT);

    float f = 0;
    assert_true(hearth_gguf_f32(g, "f32", true, &f, &err) == 0 && f == 0x1.921fb6p+1f);
    assert_true(hearth_gguf_f32(g, "f64", true, &f, &err) == 0 && f == 2.0f);
    assert_true(hearth_gguf_f32(g, "i16", true, &f, &err) == 0 && f == -32768.0f);
    assert_true(hearth_gguf_f32(g, "u64", true, &f, &err) == 0 && f == 0x1p64f);
    assert_int_equal(hearth_gguf_f32(g, "text", true, &f, &err), HEARTH_E_FORMAT);
    assert_int_equal(hearth_gguf_f32(g, "list", true, &f, &err), HEARTH_E_FORMAT);

    bool b = false;
    assert_true(hearth_gguf_bool(g, "yes", true, &b, &err) == 0 && b);
    assert_int_equal(hearth_gguf_bool(g, "u8", true, &b, &err), HEARTH_E_FORMAT);
    struct hearth_str s;
    assert_true(hearth_gguf_str(g, "text", true, &s, &err) == 0 && s.n == 5 &&
                memcmp(s.s, "caf\xc3\xa9", 6) == 0);
    assert_int_equal(hearth_gguf_str(g, "u8", true, &s, &err), HEARTH_E_FORMAT);
    assert_int_equal(hearth_gguf_str(g, "absent", true, &s, &err), HEARTH_E_FORMAT);

    const struct hearth_gguf_kv *list = hearth_gguf_find(g, "list");
    assert_true(list->type == HEARTH_GGUF_ARRAY && list->element == HEARTH_GGUF_I16 && list->count == 3);
    assert_true(hearth_gguf_kv_i64(list, 0) == 1 && hearth_gguf_kv_i64(list, 1) == -1);
    assert_true(hearth_gguf_kv_i64(list, 2) == -32768 && hearth_gguf_kv_f64(list, 2) == -32768.0);
    assert_true(hearth_gguf_kv_i64(hearth_gguf_find(g, "i64"), 0) == INT64_MIN);
    assert_true(hearth_gguf_kv_i64(hearth_gguf_find(g, "i8"), 0) == -1);
    assert_true(hearth_gguf_kv_i64(hearth_gguf_find(g, "u64"), 0) == INT64_MAX);
    assert_true(hearth_gguf_kv_u64(hearth_gguf_find(g, "u64"), 0) == UINT64_MAX);
    assert_true(hearth_gguf_kv_u64(hearth_gguf_find(g, "i64"), 0) == 0);
    assert_true(hearth_gguf_kv_u64(list, 0) == 1 && hearth_gguf_kv_u64(list, 1) == 0);
    assert_true(hearth_gguf_kv_f64(hearth_gguf_find(g, "u64"), 0) == 0x1p64);
    assert_true(hearth_gguf_kv_i64(hearth_gguf_find(g, "f32"), 0) == 3);
    assert_true(hearth_gguf_kv_i64(hearth_gguf_find(g, "nan"), 0) == 0);
    assert_true(isnan(hearth_gguf_kv_f64(hearth_gguf_find(g, "nan"), 0)));
    assert_true(hearth_gguf_kv_i64(hearth_gguf_find(g, "text"), 0) == 0);
    hearth_gguf_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_headers),     cmocka_unit_test(test_not_a_gguf),
        cmocka_unit_test(test_hostile_metadata), cmocka_unit_test(test_hostile_alignment),
        cmocka_unit_test(test_hostile_tensors),  cmocka_unit_test(test_shared_bytes),
        cmocka_unit_test(test_typed_values),
    };
    return cmocka_run_group_tests_name("gguf", tests, make_folder, remove_folder);
}
