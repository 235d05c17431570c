// SPDX-License-Identifier: MIT
// The store: every byte of every read is right or the read fails with a reason, on both backends, direct and
// buffered, on storage that gives short, interrupted and failing reads, and at the end of the file; emulated
// storage keeps its limits.
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/os.h"
#include "store/reader.h"

// Not a multiple of any alignment.
#define FILE_BYTES ((3u << 20) + 1234)
#define SLOT_BYTES (64u << 10)
#define N_SLOTS    64

static char path[64];
static uint8_t *content; // [FILE_BYTES]
static struct hearth_region memory;
static uint64_t state = 1;

static uint32_t random_below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static int set_up(void **unused)
{
    (void)unused;
    snprintf(path, sizeof path, "store.%d.bin", (int)getpid());
    content = malloc(FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i++)
        content[i] = (uint8_t)random_below(256);
    const bool ok = !hearth_outfile_save(path, content, FILE_BYTES, NULL); // which brings it to disk
    return !ok || hearth_region_open(&memory, (size_t)N_SLOTS * SLOT_BYTES + (2u << 20), "slots", NULL);
}

static int tear_down(void **unused)
{
    (void)unused;
    unlink(path);
    hearth_region_close(&memory);
    free(content);
    return 0;
}

static const enum hearth_io backends[] = {HEARTH_IO_PREAD, HEARTH_IO_URING, HEARTH_IO_AUTO};

static struct hearth_store *open_store(const struct hearth_store_params *p)
{
    struct hearth_store *s = NULL;
    struct hearth_error err = {0};
    const int rc = hearth_store_open(&s, path, p, &err);
    if (rc && p->io == HEARTH_IO_URING) {
        assert_int_equal(rc, HEARTH_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, "pread"));
        return NULL;
    }
    if (rc)
        fail_msg("%s", err.message);
    assert_int_equal(hearth_store_size(s), FILE_BYTES);
    return s;
}

// Random reads, as many in flight as fit; returns how many failed.
static int read_at_random(struct hearth_store *s, int n)
{
    const uint32_t align = hearth_store_align(s);
    struct hearth_read reads[N_SLOTS];
    bool busy[N_SLOTS] = {false};
    int started = 0, ended = 0, failed = 0;
    while (ended < n) {
        int batch = 0;
        struct hearth_read list[8];
        for (int i = 0; i < N_SLOTS && batch < 8 && started + batch < n; i++) {
            if (busy[i])
                continue;
            const uint32_t length = (1 + random_below(SLOT_BYTES / 4096)) * 4096;
            const uint64_t last = (FILE_BYTES - 1) / 4096;
            uint64_t offset = random_below((uint32_t)last + 1) * 4096ull;
            if (align == 1)
                offset += random_below(4000);
            const uint64_t there = offset < FILE_BYTES ? FILE_BYTES - offset : 0;
            reads[i] = (struct hearth_read){.offset = offset,
                                            .dst = (uint8_t *)memory.base + (size_t)i * SLOT_BYTES,
                                            .length = length,
                                            .need = there < length ? (uint32_t)there : length,
                                            .tag = (uint64_t)i};
            memset(reads[i].dst, 0xa5, length);
            busy[i] = true;
            list[batch++] = reads[i];
        }
        const int taken = hearth_store_submit(s, list, batch);
        for (int i = taken; i < batch; i++)
            busy[list[i].tag] = false;
        started += taken;
        struct hearth_read_done done[5];
        const int m = hearth_store_reap(s, done, 5, started - ended < 3 ? 0 : 1);
        for (int i = 0; i < m; i++) {
            const struct hearth_read *r = &reads[done[i].tag];
            assert_true(busy[done[i].tag]);
            busy[done[i].tag] = false;
            if (done[i].code) {
                assert_int_equal(done[i].code, HEARTH_E_IO);
                struct hearth_error err = {0};
                char place[96];
                snprintf(place, sizeof place, "%s: %u bytes at %llu cannot", path, (unsigned)r->length,
                         (unsigned long long)r->offset);
                assert_int_equal(hearth_store_fail(s, &done[i], &err), HEARTH_E_IO);
                assert_non_null(strstr(err.message, place)); // its own, not another read's
                failed++;
            } else {
                assert_memory_equal(r->dst, content + r->offset, r->need);
            }
        }
        ended += m;
    }
    assert_int_equal(hearth_store_in_flight(s), 0);
    return failed;
}

static void test_random(void **unused)
{
    (void)unused;
    for (size_t b = 0; b < 3; b++)
        for (int buffered = 0; buffered < 2; buffered++)
            for (unsigned depth = 1; depth <= 64; depth *= 4) {
                struct hearth_store *s = open_store(
                    &(struct hearth_store_params){.io = backends[b], .depth = depth, .buffered = buffered});
                if (!s)
                    continue;
                assert_int_equal(hearth_store_depth(s), depth);
                if (buffered)
                    assert_false(hearth_store_is_direct(s));
                if (depth == 16)
                    hearth_store_register(s, memory.base, memory.size);
                assert_int_equal(read_at_random(s, 300), 0);
                const struct hearth_store_stats stats = hearth_store_stats(s);
                assert_true(stats.reads >= 300 && stats.bytes > 300 * 4096);
                hearth_store_close(&s);
                assert_null(s);
            }
}

static void test_faults(void **unused)
{
    (void)unused;
    for (size_t b = 0; b < 2; b++)
        for (uint32_t seed = 1; seed <= 6; seed++) {
            // Short and interrupted reads cost time alone; rare errors are survived: with 20 of 1000 a read had four
            // of them, which are too many, once in fifty runs.
            const struct hearth_store_faults rough = {
                .seed = seed, .shorts = 400, .retries = 300, .errors = 5};
            struct hearth_store *s =
                open_store(&(struct hearth_store_params){.io = backends[b], .depth = 16, .faults = &rough});
            if (!s)
                continue;
            assert_int_equal(read_at_random(s, 200), 0);
            assert_true(hearth_store_stats(s).retries > 50);
            hearth_store_close(&s);
            // A broken device fails reads, one by one.
            const struct hearth_store_faults broken = {.seed = seed, .errors = 700};
            s = open_store(&(struct hearth_store_params){.io = backends[b], .depth = 16, .faults = &broken});
            const int failed = read_at_random(s, 200);
            assert_true(failed > 10 && failed < 200);
            hearth_store_close(&s);
        }
}

// Reads from the file's beginning in pieces of 1 MiB, of which the file must have the first `need` bytes.
static int read_all(struct hearth_store *s, uint8_t *dst, size_t length, size_t need,
                    struct hearth_error *err)
{
    const size_t piece = (size_t)1 << 20;
    size_t at = 0;
    int rc = HEARTH_OK;
    while ((at < length && !rc) || hearth_store_in_flight(s)) {
        struct hearth_read_done done;
        const size_t n = length - at < piece ? length - at : piece;
        const size_t must = need <= at ? 0 : need - at < n ? need - at : n;
        const struct hearth_read read = {
            .offset = at, .dst = dst + at, .length = (uint32_t)n, .need = (uint32_t)must};
        if (at < length && !rc && hearth_store_submit(s, &read, 1))
            at += n;
        else if (hearth_store_reap(s, &done, 1, 1) && done.code && !rc)
            rc = hearth_store_fail(s, &done, err);
    }
    return rc;
}

static void test_long_reads(void **unused)
{
    (void)unused;
    for (size_t b = 0; b < 2; b++) {
        struct hearth_store *s = open_store(&(struct hearth_store_params){.io = backends[b], .depth = 4});
        if (!s)
            continue;
        struct hearth_region big = {0};
        struct hearth_error err = {0};
        const size_t length = (FILE_BYTES + 65535) / 65536 * 65536;
        assert_int_equal(hearth_region_open(&big, length, "a file", &err), 0);
        assert_int_equal(read_all(s, big.base, length, FILE_BYTES, &err), 0);
        assert_memory_equal(big.base, content, FILE_BYTES);
        // What is not there is not made up.
        assert_int_equal(read_all(s, big.base, length, FILE_BYTES + 1, &err), HEARTH_E_IO);
        assert_non_null(strstr(err.message, "ends"));
        assert_non_null(strstr(err.message, path));
        hearth_store_close(&s);
        hearth_region_close(&big);
    }
}

// Reads in flight when the store is closed must not go on into memory that is gone.
static void test_close_early(void **unused)
{
    (void)unused;
    for (size_t b = 0; b < 2; b++)
        for (int round = 0; round < 20; round++) {
            struct hearth_store *s =
                open_store(&(struct hearth_store_params){.io = backends[b], .depth = 32});
            if (!s)
                continue;
            struct hearth_region gone = {0};
            assert_int_equal(hearth_region_open(&gone, 4u << 20, "slots", NULL), 0);
            for (unsigned i = 0; i < 32; i++) {
                const struct hearth_read read = {.offset = i * SLOT_BYTES %
                                                           (FILE_BYTES / 2 / SLOT_BYTES * SLOT_BYTES),
                                                 .dst = (uint8_t *)gone.base + (size_t)i * SLOT_BYTES,
                                                 .length = SLOT_BYTES,
                                                 .need = SLOT_BYTES};
                assert_int_equal(hearth_store_submit(s, &read, 1), 1);
            }
            const struct hearth_read more = {.dst = gone.base, .length = 4096, .need = 4096};
            assert_int_equal(hearth_store_submit(s, &more, 1), 0);
            hearth_store_close(&s);
            hearth_region_close(&gone);
        }
}

static double seconds_of(struct hearth_store *s, int n, uint32_t length, bool in_order)
{
    const uint64_t start = hearth_now_ns(), places = FILE_BYTES / length;
    for (int at = 0; at < n;) {
        for (int i = 0; i < N_SLOTS && at < n; i++, at++) {
            const uint64_t place = in_order ? (uint64_t)at % places : (uint64_t)at * 7919 % places;
            const struct hearth_read read = {.offset = place * length,
                                             .dst = (uint8_t *)memory.base + (size_t)i * length,
                                             .length = length,
                                             .need = length};
            assert_int_equal(hearth_store_submit(s, &read, 1), 1);
        }
        struct hearth_read_done done[N_SLOTS];
        while (hearth_store_reap(s, done, N_SLOTS, 1))
            ;
    }
    return (double)(hearth_now_ns() - start) / 1e9;
}

static void test_throttle(void **unused)
{
    (void)unused;
    struct hearth_throttle t;
    struct hearth_error err = {0};
    static const char *const bad[] = {"",     "ufs5",  "1",     "1,",     ",1", "-1,5",
                                      "1,-5", "nan,1", "1,2,3", "1e99,1", "1 2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(hearth_throttle_parse(&t, bad[i], &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_throttle_parse(&t, "ufs4", &err), 0);
    assert_int_equal(hearth_throttle_parse(&t, "0,0", &err), 0);

    // Never faster than the limit; how much slower depends on the machine the test runs on.
    assert_int_equal(hearth_throttle_parse(&t, "500,0", &err), 0);
    struct hearth_store *s = open_store(&(struct hearth_store_params){.io = HEARTH_IO_PREAD, .throttle = &t});
    const double least = 0.9 * 200 / 500.0;
    assert_true(seconds_of(s, 200, 4096, false) > least);
    // In order, reads a second are no limit; on a busy machine that is to be seen once.
    bool faster = false;
    for (int i = 0; i < 10 && !faster; i++)
        faster = seconds_of(s, 200, 4096, true) < least;
    assert_true(faster);
    hearth_store_close(&s);

    assert_int_equal(hearth_throttle_parse(&t, "0,50", &err), 0);
    s = open_store(&(struct hearth_store_params){.io = HEARTH_IO_PREAD, .throttle = &t});
    assert_true(seconds_of(s, 200, SLOT_BYTES, false) > 0.9 * 200 * SLOT_BYTES / 50e6);
    hearth_store_close(&s);
}

static int n_asked;

static bool after_some(void *arg)
{
    return ++n_asked > *(int *)arg;
}

enum { LONG = 1 << 20 };
static int patience = 2;

// A read that lasts a quarter of a second, which nobody waits for to the end, and then somebody does. False:
// the machine stood still, and the read was over first.
static bool stop_waiting(struct hearth_reader *r, struct hearth_reader_job *job)
{
    struct hearth_error err = {0};
    const struct hearth_reader_stop stop = {after_some, &patience};
    hearth_reader_start(r, job);
    n_asked = 0;
    const int rc = hearth_reader_wait_or_stop(r, job, stop, &err);
    const bool stopped = rc && !hearth_reader_is_over(r, job);
    if (rc) {
        assert_int_equal(rc, HEARTH_E_INTERRUPTED);
        assert_int_equal(n_asked, 3);
    }
    assert_int_equal(hearth_reader_wait(r, job, &err), 0);
    assert_memory_equal(memory.base, content, LONG);
    // What is over is not asked about.
    n_asked = 0;
    assert_int_equal(hearth_reader_wait_or_stop(r, job, stop, &err), 0);
    assert_int_equal(n_asked, 0);
    return stopped;
}

// Who waits for a slow read can stop waiting, and wait again; the reader closes at once, whatever is on its
// way: half a second of reads. On a busy machine that is to be seen once.
static void test_stop(void **unused)
{
    (void)unused;
    const char *const paths[] = {path};
    const struct hearth_extent extents[] = {
        {.dst = memory.base, .length = LONG, .need = LONG},
        {.offset = LONG, .dst = memory.base, .length = LONG, .need = LONG}};
    struct hearth_throttle slow = {.mbps = 4};
    struct hearth_error err = {0};
    for (size_t b = 0; b < 2; b++) {
        bool stopped = false, at_once = false;
        for (int i = 0; i < 10 && !(stopped && at_once); i++) {
            struct hearth_reader *r = NULL;
            if (hearth_reader_open(&r, paths, 1,
                                   &(struct hearth_store_params){.io = backends[b], .throttle = &slow},
                                   &err)) {
                stopped = at_once = backends[b] == HEARTH_IO_URING; // not every system has it
                continue;
            }
            struct hearth_reader_job job = {.extents = extents, .n = 1},
                                     next = {.extents = extents + 1, .n = 1};
            stopped |= stop_waiting(r, &job);
            hearth_reader_start(r, &job);
            hearth_reader_start(r, &next);
            const uint64_t start = hearth_now_ns();
            hearth_reader_close(&r);
            at_once |= SANITIZED || hearth_now_ns() - start < 300000000;
        }
        assert_true(stopped && at_once);
    }
}

// Of two reads that fail each is told as itself, whichever is waited for first.
static void test_own_errors(void **unused)
{
    (void)unused;
    enum { HALF = LONG / 2 }; // one read
    const char *const paths[] = {path};
    const struct hearth_extent extents[] = {
        {.dst = memory.base, .length = HALF, .need = HALF},
        {.offset = 2 * LONG, .dst = (uint8_t *)memory.base + LONG, .length = HALF, .need = HALF}};
    const struct hearth_store_faults broken = {.seed = 1, .errors = 1000};
    static const char *const says[] = {".bin: 524288 bytes at 0 cannot be read: ",
                                       ".bin: 524288 bytes at 2097152 cannot be read: "};
    for (size_t b = 0; b < 2; b++) {
        struct hearth_reader *r = NULL;
        struct hearth_error err = {0};
        if (hearth_reader_open(&r, paths, 1,
                               &(struct hearth_store_params){.io = backends[b], .faults = &broken}, &err))
            continue; // not every system has it
        for (int first = 0; first < 2; first++) {
            struct hearth_reader_job jobs[2] = {{.extents = extents, .n = 1},
                                                {.extents = extents + 1, .n = 1}};
            hearth_reader_start(r, &jobs[0]);
            hearth_reader_start(r, &jobs[1]);
            while (!hearth_reader_is_over(r, &jobs[0]) || !hearth_reader_is_over(r, &jobs[1]))
                hearth_sleep_ns(100000);
            for (int i = 0; i < 2; i++) {
                const int which = i ^ first;
                assert_int_equal(hearth_reader_wait(r, &jobs[which], &err), HEARTH_E_IO);
                if (!strstr(err.message, says[which]))
                    fail_msg("%s", err.message);
            }
        }
        hearth_reader_close(&r);
    }
}

static void test_refusals(void **unused)
{
    (void)unused;
    struct hearth_store *s = NULL;
    struct hearth_error err = {0};
    assert_int_equal(hearth_store_open(&s, "/no/such/file", NULL, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "/no/such/file"));
    assert_int_equal(hearth_store_open(&s, "/tmp", NULL, &err), HEARTH_E_IO);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),     cmocka_unit_test(test_faults),
                                       cmocka_unit_test(test_long_reads), cmocka_unit_test(test_close_early),
                                       cmocka_unit_test(test_throttle),   cmocka_unit_test(test_stop),
                                       cmocka_unit_test(test_own_errors), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
