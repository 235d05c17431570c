// SPDX-License-Identifier: MIT
// Readers of what is special about families, for their tables in hf_families_*.c.
#ifndef HEARTH_CONVERT_HF_READERS_H
#define HEARTH_CONVERT_HF_READERS_H

#include "convert/hf_model.h"

// Each reads from config.json, whose general part is in *m, what its family alone has. HEARTH_E_UNSUPPORTED: a
// setting that Hearth does not run, by name. HEARTH_E_FORMAT: one that cannot be.
int hearth_hf_read_bailing2(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_cohere2(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_deepseek_v2(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_deepseek_v3(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_deepseek_v32(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_dots1(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_ernie(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_ernie_moe(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_falcon(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_falcon_h1(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_gemma(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_gemma2(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_gemma3(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_gemma3n(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_gemma4(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_gemma4_unified(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_glm4moe(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_glm_dsa(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_gptoss(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_granite(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_granitehybrid(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_granitemoe(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_hunyuan(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_hunyuan_moe(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_internlm2(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_kimi_linear(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_lfm2(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_lfm2moe(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_llama4(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_minimax_01(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_minimax_m2(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_mixtral(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_nemotron_h(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_olmoe(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_opt(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_phi3(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_qwen2moe(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_qwen3(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_qwen35(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_qwen35moe(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_qwen3moe(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_qwen3next(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_qwen3vl(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_qwen3vlmoe(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_smollm3(struct hearth_hf_model *m, struct hearth_error *err);
int hearth_hf_read_starcoder2(struct hearth_hf_model *m, struct hearth_error *err);

// Of latent attention: the ranks, and of heads what stays, what rotates, and values.
int hearth_hf_read_latent(struct hearth_hf_model *m, struct hearth_error *err);

#endif
