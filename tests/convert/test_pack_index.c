// SPDX-License-Identifier: MIT
// Packs in the order of PowerInfer's GPU index: its neurons come first, and the logits are the model's but for the order of
// additions. Indexes of other models are refused.
#include "check.h"

#include "convert/pack.h"
#include "gguf/gguf.h"
#include "made_models.h"
#include "pack_compare.h"
#include "pack_support.h"

static char source[512], packed[512], other[512];

// PowerInfer's index: every third neuron, from another one on in each layer. n: neurons of a layer that it says.
static void write_index(const char *path, uint32_t layers, uint64_t n)
{
    struct hearth_error err = {0};
    struct hearth_gguf_writer *w;
    int32_t *is_there = calloc(n, sizeof *is_there);
    char name[32];
    MADE_OK(hearth_gguf_writer_open(&w, path, &err));
    hearth_gguf_writer_set_pwri(w);
    MADE_OK(hearth_gguf_put_str(w, "general.architecture", "generic.gpu_index", 17, &err));
    MADE_OK(hearth_gguf_put_u32(w, "generic.gpu_index.block_count", layers, &err));
    MADE_OK(hearth_gguf_put_u64(w, "split.vram_capacity", 1 << 20, &err));
    for (uint32_t layer = 0; layer < layers; layer++) {
        snprintf(name, sizeof name, "blk.%u.gpu_idx", layer);
        MADE_OK(hearth_gguf_put_tensor(w, name, HEARTH_TYPE_I32, 1, &n, &err));
    }
    for (uint32_t layer = 0; layer < layers; layer++) {
        for (uint64_t i = 0; i < n; i++)
            is_there[i] = (i + layer) % 3 == 0;
        MADE_OK(hearth_gguf_write(w, is_there, n * sizeof *is_there, &err));
    }
    MADE_OK(hearth_gguf_finish(&w, &err));
    free(is_there);
}

static void test_index(void **state)
{
    (void)state;
    struct hearth_error err = {0};
    const struct made rows = {.arch = "bamboo", .by_neuron = true, .predictors = true};
    struct hearth_pack_result result;
    const struct hearth_pack_params params = {.profile = other, .n_threads = 2};
    made_write(source, &rows);
    write_index(other, MADE_LAYERS, MADE_F);
    MADE_OK(hearth_pack_write(source, packed, &params, &result, &err));
    assert_true(result.ordered && result.indexed);
    struct hearth_gguf *g;
    MADE_OK(hearth_gguf_open(&g, packed, &err));
    for (uint32_t layer = 0; layer < MADE_LAYERS; layer++) {
        char name[32];
        int32_t order[MADE_F];
        snprintf(name, sizeof name, "blk.%u.ffn_order", layer);
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor(g, name);
        assert_true(t && t->bytes == sizeof order);
        MADE_OK(hearth_gguf_read(g, t, order, 0, sizeof order, &err));
        int at = 0;
        for (int first = 1; first >= 0; first--)
            for (int i = 0; i < MADE_F; i++)
                if (((i + (int)layer) % 3 == 0) == first)
                    assert_int_equal(order[at++], i);
    }
    hearth_gguf_close(&g);
    struct hearth_model *m = open_model(packed, false), *plain = open_model(source, false);
    compare_models("index", m, plain, 1e-3); // the same neurons, added up in another order
    hearth_model_close(&plain);
    hearth_model_close(&m);
    // Of other models.
    write_index(other, MADE_LAYERS + 1, MADE_F);
    assert_int_equal(hearth_pack_write(source, packed, &params, NULL, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "layers"));
    write_index(other, MADE_LAYERS, MADE_F + 1);
    assert_int_equal(hearth_pack_write(source, packed, &params, NULL, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "neurons"));
    const struct made experts = {
        .arch = "llama", .experts = true, .set = {{"feed_forward.activation", 's', 0, "relu"}}};
    made_write(source, &experts);
    write_index(other, MADE_LAYERS, MADE_F_EXP);
    assert_int_equal(hearth_pack_write(source, packed, &params, NULL, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "without experts"));
}

static int set_up(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(source, sizeof source, "%s", in_folder("source.gguf"));
    snprintf(packed, sizeof packed, "%s", in_folder("packed.hearth.gguf"));
    snprintf(other, sizeof other, "%s", in_folder("index"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_index)};
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
