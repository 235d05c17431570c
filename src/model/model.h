// SPDX-License-Identifier: MIT
// A model: hyper-parameters, weights bound by role, vocabulary. Architectures are small tables (arch_*.c)
// that say which tensors exist and how the layer is wired; nothing else in Hearth knows tensor names.
#ifndef HEARTH_MODEL_MODEL_H
#define HEARTH_MODEL_MODEL_H

#include "base/memory.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "text/vocab.h"

// A matrix of n rows of k elements (row r makes output r), or a vector (n == 1, always f32).
struct hearth_weight {
    const void *data; // NULL: the model has no such tensor
    uint32_t type;    // enum hearth_type
    size_t k;         // elements of a row: the input dimension
    size_t n;         // rows: the output dimension
    size_t stride;    // bytes from row to row
};

// Letters in shapes: E embedding, F feed-forward, Q heads * head_dim, KV kv heads * head_dim, V vocabulary.
struct hearth_layer {
    struct hearth_weight attn_norm;                  // [E]
    struct hearth_weight attn_q, attn_k, attn_v;     // [Q x E] [KV x E] [KV x E]
    struct hearth_weight attn_out;                   // [E x Q]
    struct hearth_weight ffn_norm;                   // [E]
    struct hearth_weight ffn_gate, ffn_up, ffn_down; // [F x E] [F x E] [E x F]
};

struct hearth_hparams {
    int n_vocab, n_ctx_train, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    int n_rot;        // leading dimensions of a head that rotate
    bool rope_neox;   // pairs (i, i + n_rot/2) instead of (2i, 2i+1)
    float rope_theta; // base of the rotation frequencies
    float rope_scale; // linear scaling: positions are multiplied by this (1 / factor)
    float norm_eps;
    enum hearth_activation activation;
};

struct hearth_arch;

struct hearth_model {
    struct hearth_model_info info;
    const struct hearth_arch *arch;
    struct hearth_hparams hp;
    struct hearth_kernels kernels;
    struct hearth_vocab *vocab;
    struct hearth_gguf *gguf;
    bool vocab_only;

    struct hearth_weight token_embd;  // [V x E]
    struct hearth_weight output_norm; // [E]
    struct hearth_weight output;      // [V x E]; the same bytes as token_embd when the head is tied
    struct hearth_weight rope_freqs;  // [n_rot/2] divisors of the frequencies, or none
    struct hearth_layer *layers;      // [n_layer]

    struct hearth_region weights; // all resident bytes
    char *path, *type_text, *arch_text, *name_text;
};

#endif
