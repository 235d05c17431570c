// SPDX-License-Identifier: MIT
// Neurons that are near each other in the file are read together where the storage's cost of a request says
// so: fewer reads, the same bits; and where such a read fails, its neurons are read one by one.
#include "check.h"

#include "convert/pack.h"
#include "streaming_support.h"

static const char *make_pack(void)
{
    static char pack[512];
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    remove(pack);
    OK(hearth_pack_write(make("tiny-turbosparse"), pack, &(struct hearth_pack_params){0}, NULL, &err));
    return pack;
}

static struct opened open_with_gap(const char *path, uint32_t gap, const struct hearth_store_faults *faults)
{
    static struct way way;
    uint64_t most;
    way = (struct way){.io = "pread",
                       .n_threads = 2,
                       .sparsity = HEARTH_SPARSITY_PREDICT,
                       .tests = {SMALL, .always = true, .faults = faults}};
    find_budgets(path, HEARTH_SPARSITY_PREDICT, 2, &way.ram, &most);
    struct opened o;
    open_model_of(&o, path, &way);
    o.model->load.read_gap = gap;
    OK(open_session_of(&o, &way));
    return o;
}

struct figures {
    uint64_t reads, bytes, misses;
};

static struct figures check_gap(const char *path, uint32_t gap, const float *want)
{
    struct opened o = open_with_gap(path, gap, NULL);
    struct hearth_streaming_stats stats;
    float *got = evaluate(&o, NULL);
    assert_same(got, want, o.n_vocab, path);
    free(got);
    hearth_session_streaming_stats(o.session, &stats, sizeof stats);
    close_opened(&o);
    return (struct figures){stats.step_reads, stats.step_read_bytes, stats.neuron_misses};
}

// The dearer a request, the fewer there are.
static void test_gaps(void **state)
{
    (void)state;
    const char *path = make_pack();
    if (reads_large_blocks(path))
        skip();
    float *want = evaluate_in_memory(path, HEARTH_SPARSITY_PREDICT);
    const struct figures none = check_gap(path, 1, want), some = check_gap(path, 4096, want),
                         many = check_gap(path, 1 << 20, want);
    assert_true(none.misses > 100 && none.reads > 0);
    assert_true(some.reads < none.reads && many.reads <= some.reads);
    assert_true(2 * many.reads < none.reads);
    assert_true(some.bytes > none.bytes && many.bytes >= some.bytes);
    free(want);
}

static int tries;

// The storage works again at the second attempt.
static bool mend(int rc)
{
    tries += rc != 0;
    atomic_store(&spoiled, !rc);
    return true;
}

// Reads of many bundles that fail are followed by reads of each; in the end all is as if nothing had
// happened.
static void test_failures(void **state)
{
    (void)state;
    // An attempt in two fails: four in a row end a read badly, in one of sixteen.
    static const struct hearth_store_faults faults = {.seed = 4, .errors = 500, .on = &spoiled};
    const char *path = make_pack();
    float *want = evaluate_in_memory(path, HEARTH_SPARSITY_PREDICT);
    atomic_store(&spoiled, false);
    struct opened o = open_with_gap(path, 1 << 20, &faults);
    tries = 0;
    float *got = evaluate(&o, mend);
    assert_same(got, want, o.n_vocab, path);
    assert_true(tries > 0);
    free(got);
    close_opened(&o);
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gaps), cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
