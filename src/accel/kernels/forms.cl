// SPDX-License-Identifier: MIT
// One kernel of each for each form of units.
#define DOWN_VALUES out, p, p_stride, q, scales, minima, n_columns, n_neurons, has_min, base, cluster, n_clusters, n_tokens

#define FORM(name, bits, unit, is_half)                              \
    KERNEL_OF(STEP_GROUP) step_##name(PRODUCT_ARGS)                  \
    {                                                                \
        STEP_MEMORY(bits, unit)                                      \
        step_body(chunk, lane, PRODUCT_VALUES, bits, unit, is_half); \
    }                                                                \
    KERNEL_OF(ONE_GROUP) one_##name(PRODUCT_ARGS)                    \
    {                                                                \
        ONE_MEMORY(unit)                                             \
        one_body(whole, lane, PRODUCT_VALUES, bits, unit, is_half);  \
    }                                                                \
    KERNEL prompt_##name(PRODUCT_ARGS)                               \
    {                                                                \
        prompt_body(PRODUCT_VALUES, bits, unit, is_half);            \
    }                                                                \
    KERNEL clusters_##name(DOWN_ARGS)                                \
    {                                                                \
        LIST_MEMORY                                                  \
        clusters_body(list, DOWN_VALUES, bits, unit, is_half);       \
    }                                                                \
    KERNEL columns_##name(DOWN_ARGS)                                 \
    {                                                                \
        __local float by[COLUMN_TOKENS * GROUP];                     \
        columns_body(by, DOWN_VALUES, bits, unit, is_half);          \
    }
FORM(4_32h, 4, 32, 1)
FORM(8_32h, 8, 32, 1)
FORM(4_32, 4, 32, 0)
FORM(8_32, 8, 32, 0)
FORM(4_16, 4, 16, 0)
FORM(8_16, 8, 16, 0)
