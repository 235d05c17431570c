// SPDX-License-Identifier: MIT
// Models that are not all in memory give the logits of those that are, bit by bit: at all budgets, with any
// backend and number of threads, several sequences at once; and storage that fails leaves a session usable.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "build/pack.h"
#include "build/profile.h"
#include "streaming_support.h"

static void test_dense(void **state)
{
    (void)state;
    check_preset("tiny-dense", all_modes + 2, 1);
}

static void test_relu(void **state)
{
    (void)state;
    check_preset("tiny-relullama", all_modes, 3);
    check_preset("tiny-opt", all_modes, 3);
    check_preset("tiny-falcon", all_modes, 3);
}

static void test_drelu(void **state)
{
    (void)state;
    check_preset("tiny-turbosparse", all_modes, 3);
    check_preset("tiny-turbosparse-moe", all_modes, 2);
}

// Packs: without a profile, and with one.

static void make_profile(const char *model, const char *profile)
{
    struct hearth_model *m;
    OK(hearth_model_open(&m, model, NULL, &err));
    hearth_token tokens[1000];
    for (int i = 0; i < 1000; i++)
        tokens[i] = token_at(hearth_model_info(m)->n_vocab, 3, i);
    OK(hearth_profile(m, tokens, 1000, &(struct hearth_profile_params){.n_threads = 2}, profile, NULL, &err));
    hearth_model_close(&m);
}

static void check_packs(const char *preset, const enum hearth_sparsity *modes, int n)
{
    char model[512], pack[512], profile[512];
    snprintf(model, sizeof model, "%s", make(preset));
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    snprintf(profile, sizeof profile, "%s", in_folder("profile"));
    make_profile(model, profile);
    for (int with = 0; with < 2; with++) {
        remove(pack);
        OK(hearth_pack_write(model, pack, &(struct hearth_pack_params){.profile = with ? profile : NULL},
                             NULL, &err));
        for (int i = 0; i < n; i++)
            check_model(pack, modes[i]);
    }
    remove(profile);
}

static void test_packs(void **state)
{
    (void)state;
    check_packs("tiny-turbosparse", all_modes, 3);
}

static void test_relu_packs(void **state)
{
    (void)state;
    check_packs("tiny-relullama", all_modes, 1);
    check_packs("tiny-opt", all_modes, 1);
    check_packs("tiny-falcon", all_modes, 1);
}

static void test_expert_packs(void **state)
{
    (void)state;
    check_packs("tiny-turbosparse-moe", all_modes, 2);
    check_preset("tiny-turbosparse-pack", all_modes, 3);
}

// ---- storage that fails
// ----------------------------------------------------------------------------------------------

static void test_faults(void **state)
{
    (void)state;
    static char path[512];
    snprintf(path, sizeof path, "%s", make("tiny-dense"));
    check_faults(path, HEARTH_SPARSITY_OFF);
    snprintf(path, sizeof path, "%s", make("tiny-turbosparse-pack"));
    check_faults(path, HEARTH_SPARSITY_PREDICT);
    check_faults(path, HEARTH_SPARSITY_EXACT);
    char model[512];
    snprintf(model, sizeof model, "%s", make("tiny-turbosparse"));
    snprintf(path, sizeof path, "%s", in_folder("pack.gguf"));
    remove(path);
    OK(hearth_pack_write(model, path, &(struct hearth_pack_params){0}, NULL, &err));
    check_faults(path, HEARTH_SPARSITY_PREDICT);
}

// A pack that loses its end while it runs: an error, and nothing worse.
static void test_cut_short(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", make("tiny-turbosparse-pack"));
    uint64_t least, most;
    find_budgets(path, HEARTH_SPARSITY_PREDICT, 2, &least, &most);
    const struct way way = {
        .ram = least, .n_threads = 2, .sparsity = HEARTH_SPARSITY_PREDICT, .tests = {SMALL, .always = true}};
    struct opened o = open_way(path, &way);
    hearth_token tokens[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_int_equal(hearth_seq_new(o.session, &err), 0);
    OK(hearth_prompt(o.session, 0, tokens, 8, NULL, NULL, &err));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 2), 0);
    int rc = HEARTH_OK;
    for (int i = 0; i < 20 && !rc; i++)
        rc = hearth_prompt(o.session, 0, tokens, 4, NULL, NULL, &err);
    assert_int_equal(rc, HEARTH_E_IO);
    assert_non_null(strstr(err.message, "the file ends before"));
    assert_int_equal(hearth_step(o.session, (int[]){0}, tokens, 1, &err), HEARTH_E_IO);
    close_opened(&o);
    // And it does not open any more.
    struct hearth_model *m = NULL;
    assert_int_equal(try_model(path, false, &m, &err), HEARTH_E_FORMAT);
}

int main(int argc, char **argv)
{
    if (argc > 1) // a pattern such as "test_*packs"
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),  cmocka_unit_test(test_relu),       cmocka_unit_test(test_drelu),
        cmocka_unit_test(test_packs),  cmocka_unit_test(test_relu_packs), cmocka_unit_test(test_expert_packs),
        cmocka_unit_test(test_faults), cmocka_unit_test(test_cut_short),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
