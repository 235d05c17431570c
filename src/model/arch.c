// SPDX-License-Identifier: MIT
// The list of architectures.
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

static const struct hearth_arch *const archs[] = {
    &hearth_arch_afmoe,       &hearth_arch_apertus,        &hearth_arch_arcee,
    &hearth_arch_baichuan,    &hearth_arch_bailingmoe,     &hearth_arch_bailingmoe2,
    &hearth_arch_bailingmoe3, &hearth_arch_bamboo,         &hearth_arch_bitnet,
    &hearth_arch_bloom,       &hearth_arch_chatglm,        &hearth_arch_cohere2,
    &hearth_arch_cohere2moe,  &hearth_arch_command_r,      &hearth_arch_dbrx,
    &hearth_arch_deci,        &hearth_arch_deepseek,       &hearth_arch_deepseek2,
    &hearth_arch_deepseek32,  &hearth_arch_deepseek4,      &hearth_arch_dots1,
    &hearth_arch_ernie,       &hearth_arch_ernie_moe,      &hearth_arch_exaone,
    &hearth_arch_exaone_moe,  &hearth_arch_exaone4,        &hearth_arch_falcon,
    &hearth_arch_falcon_h1,   &hearth_arch_gemma,          &hearth_arch_gemma2,
    &hearth_arch_gemma3,      &hearth_arch_gemma3n,        &hearth_arch_gemma4,
    &hearth_arch_glm_dsa,     &hearth_arch_glm4,           &hearth_arch_glm4moe,
    &hearth_arch_gptoss,      &hearth_arch_gpt2,           &hearth_arch_gptneox,
    &hearth_arch_granite,     &hearth_arch_granite_swa,    &hearth_arch_granitehybrid,
    &hearth_arch_granitemoe,  &hearth_arch_hunyuan_dense,  &hearth_arch_hunyuan_moe,
    &hearth_arch_hunyuan_vl,  &hearth_arch_hy_v3,          &hearth_arch_hy_v4,
    &hearth_arch_internlm2,   &hearth_arch_jais2,          &hearth_arch_kimi_linear,
    &hearth_arch_laguna,      &hearth_arch_lfm2,           &hearth_arch_lfm2moe,
    &hearth_arch_llama,       &hearth_arch_llama4,         &hearth_arch_maincoder,
    &hearth_arch_mellum,      &hearth_arch_mimo2,          &hearth_arch_minicpm,
    &hearth_arch_minicpm3,    &hearth_arch_minimax_01,     &hearth_arch_minimax_m2,
    &hearth_arch_minimax_m3,  &hearth_arch_mistral3,       &hearth_arch_mistral4,
    &hearth_arch_mpt,         &hearth_arch_muse_glimmer,   &hearth_arch_nemotron,
    &hearth_arch_nemotron_h,  &hearth_arch_nemotron_h_moe, &hearth_arch_olmo,
    &hearth_arch_olmo2,       &hearth_arch_olmoe,          &hearth_arch_opt,
    &hearth_arch_orion,       &hearth_arch_pangu_embedded, &hearth_arch_phi2,
    &hearth_arch_phi3,        &hearth_arch_phimoe,         &hearth_arch_qwen,
    &hearth_arch_qwen2,       &hearth_arch_qwen2moe,       &hearth_arch_qwen2vl,
    &hearth_arch_qwen3,       &hearth_arch_qwen35,         &hearth_arch_qwen35moe,
    &hearth_arch_qwen3moe,    &hearth_arch_qwen3next,      &hearth_arch_qwen3vl,
    &hearth_arch_qwen3vlmoe,  &hearth_arch_qwen4exp,       &hearth_arch_refact,
    &hearth_arch_seed_oss,    &hearth_arch_smallthinker,   &hearth_arch_smollm3,
    &hearth_arch_stablelm,    &hearth_arch_starcoder,      &hearth_arch_starcoder2,
    &hearth_arch_step35,      &hearth_arch_xverse,
};

const struct hearth_arch *hearth_arch_find(struct hearth_str name)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (strlen(archs[i]->name) == name.n && !memcmp(archs[i]->name, name.s, name.n))
            return archs[i];
    return NULL;
}

bool hearth_arch_has_need(const struct hearth_arch *arch, enum hearth_need need)
{
    for (const struct hearth_binding *b = arch->layer; b->name; b++)
        if (b->need == need)
            return true;
    return false;
}

bool hearth_arch_has_field(const struct hearth_arch *arch, size_t field)
{
    for (const struct hearth_binding *b = arch->layer; b->name; b++)
        if (b->field == field)
            return true;
    return false;
}

bool hearth_arch_packs(const struct hearth_arch *arch)
{
    return !hearth_arch_has_need(arch, HEARTH_EACH_VECTOR) &&
           (hearth_arch_has_field(arch, offsetof(struct hearth_layer, ffn_down_t)) ||
            hearth_arch_has_field(arch, offsetof(struct hearth_layer, ffn_down_t_exps)));
}

const struct hearth_arch *hearth_arch_at(size_t i)
{
    return i < sizeof archs / sizeof archs[0] ? archs[i] : NULL;
}

void hearth_arch_names(char *out, size_t size)
{
    static const char more[] = ", ...";
    const size_t n = sizeof archs / sizeof archs[0];
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const size_t behind = i + 1 < n ? sizeof more - 1 : 0; // what must still fit
        if (at + (i ? 2u : 0u) + strlen(archs[i]->name) + behind >= size) {
            snprintf(out + at, size - at, "%s", i ? more : "");
            return;
        }
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "", archs[i]->name);
    }
}
