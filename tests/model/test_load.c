// SPDX-License-Identifier: MIT
// Loading: what becomes of a tensor's bytes on their way into memory.
#include "check.h"

#include "arch_models.h"
#include "model/load.h"

static char path[300];

// Vectors in another format are all there as f32, whatever their shape in the file.
static void test_vectors(void **state)
{
    (void)state;
    size_t n_vectors = 0;
    for (size_t i = 0; i < N_MODELS; i++) {
        struct made made = models[i];
        made.type = i % 2 ? HEARTH_TYPE_F16 : HEARTH_TYPE_BF16;
        struct hearth_model *m = NULL;
        made_write(path, &made);
        CHECK(hearth_model_open(&m, path, NULL, &check_error));
        for (size_t k = 0; k < m->n_items; k++) {
            const struct hearth_item *item = &m->items[k];
            const struct hearth_gguf_tensor *t = item->tensor;
            const size_t n = (size_t)(t->ne[0] * t->ne[1] * t->ne[2]);
            if (!item->to_f32)
                continue;
            uint8_t *raw = malloc((size_t)t->bytes);
            float *want = malloc(n * sizeof *want);
            CHECK(hearth_gguf_read(m->gguf, t, raw, 0, (size_t)t->bytes, &check_error));
            hearth_type_info(t->type)->decode(raw, want, n);
            assert_memory_equal((const uint8_t *)m->image.base + item->offset, want, n * sizeof *want);
            n_vectors++;
            free(raw);
            free(want);
        }
        hearth_model_close(&m);
    }
    assert_in_range(n_vectors, N_MODELS, SIZE_MAX);
}

static int name_file(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(path, sizeof path, "%s", in_folder("model.gguf"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};
    return cmocka_run_group_tests(tests, name_file, remove_folder);
}
