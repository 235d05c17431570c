// SPDX-License-Identifier: MIT
// What general.file_type says: the format of most of a file's matrices, or the mixture that they have.
#include <stddef.h>

#include "gguf/gguf.h"

// llama-bench's names, so that tables of both can be laid side by side.
const char *hearth_gguf_file_type(const struct hearth_gguf *g)
{
    static const char *const names[] = {[0] = "all F32",
                                        [1] = "F16",
                                        [2] = "Q4_0",
                                        [3] = "Q4_1",
                                        [7] = "Q8_0",
                                        [8] = "Q5_0",
                                        [9] = "Q5_1",
                                        [10] = "Q2_K - Medium",
                                        [11] = "Q3_K - Small",
                                        [12] = "Q3_K - Medium",
                                        [13] = "Q3_K - Large",
                                        [14] = "Q4_K - Small",
                                        [15] = "Q4_K - Medium",
                                        [16] = "Q5_K - Small",
                                        [17] = "Q5_K - Medium",
                                        [18] = "Q6_K",
                                        [21] = "Q2_K - Small",
                                        [25] = "IQ4_NL - 4.5 bpw",
                                        [30] = "IQ4_XS - 4.25 bpw",
                                        [32] = "BF16",
                                        [36] = "TQ1_0 - 1.69 bpw ternary",
                                        [37] = "TQ2_0 - 2.06 bpw ternary",
                                        [38] = "MXFP4 MoE",
                                        [39] = "NVFP4",
                                        [40] = "Q1_0",
                                        [41] = "Q2_0"};
    uint32_t type = 0;
    struct hearth_error err = {0};
    if (!hearth_gguf_find(g, "general.file_type") ||
        hearth_gguf_u32(g, "general.file_type", false, &type, &err) || type >= sizeof names / sizeof names[0])
        return NULL;
    return names[type];
}
