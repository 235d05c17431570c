// SPDX-License-Identifier: MIT
// A model as its Hugging Face folder describes it: which family it is of, its hyper-parameters, where its
// weights are. Files: hf_config.c reads config.json, hf_families_*.c have a table for each family, hf_readers*.c read
// what is special about it, hf_tensors.c finds the tensors, hf_put.c writes hyper-parameters, hf_tokenizer.c the
// vocabulary.
#ifndef HEARTH_CONVERT_HF_MODEL_H
#define HEARTH_CONVERT_HF_MODEL_H

#include <stdbool.h>

#include "convert/checkpoint.h"
#include "convert/json_file.h"
#include "gguf/gguf.h"

struct hearth_hf_model;

// How rows of a tensor are ordered in a GGUF, compared with the checkpoint.
enum hearth_hf_order {
    HEARTH_HF_SAME,
    HEARTH_HF_ROTARY_Q, // of each head, rows i and i + half a head become neighbours; for each query head
    HEARTH_HF_ROTARY_K, // the same for each key head
    HEARTH_HF_QKV,      // groups of queries, a key and a value become all queries, all keys, all values
    // Of such groups the queries, the keys and the values alone, queries and keys as for llama.
    HEARTH_HF_GROUPED_Q,
    HEARTH_HF_GROUPED_K,
    HEARTH_HF_GROUPED_V,
    HEARTH_HF_COLUMNS, // columns become rows: down by neuron
    HEARTH_HF_FIRST_HALF,
    HEARTH_HF_SECOND_HALF, // rows of a matrix that joins two
    // Of two matrices or vectors whose rows alternate, the first and the second; the same of columns, which become
    // rows.
    HEARTH_HF_EVEN_ROWS,
    HEARTH_HF_ODD_ROWS,
    HEARTH_HF_EVEN_COLUMNS,
    HEARTH_HF_ODD_COLUMNS,
    HEARTH_HF_FIRST_COLUMNS, // the first half of a matrix's columns, and the second, which become rows
    HEARTH_HF_SECOND_COLUMNS,
    // Of the matrix that makes keys and values of a latent vector, head by head: the rows of keys, which become
    // columns, and those of values.
    HEARTH_HF_KEYS_OF_BOTH,
    HEARTH_HF_VALUES_OF_BOTH,
    HEARTH_HF_ONE_MORE, // numbers of a vector, plus 1
    HEARTH_HF_SPREAD,   // numbers of a vector, which is a matrix in a GGUF
    HEARTH_HF_PADDED,   // rows of tokens: those that the checkpoint lacks are 0
    // Of the gated delta rule: heads of values that share a head of keys lie apart in a GGUF. Rows of such heads;
    // such rows behind those of queries and keys; a row, or number, for each head; the same, minus the exponential
    // of it; columns.
    HEARTH_HF_VALUE_HEADS,
    HEARTH_HF_BEHIND_KEYS,
    HEARTH_HF_EACH_HEAD,
    HEARTH_HF_DECAY,
    HEARTH_HF_VALUE_COLUMNS,
    // Of the same rule where each head of keys has its query, its key, its values and their gates side by side: rows
    // of all queries, all keys and all values; those of gates.
    HEARTH_HF_JOINT_QKV,
    HEARTH_HF_JOINT_GATES
};

enum hearth_hf_need {
    HEARTH_HF_REQUIRED,
    HEARTH_HF_OPTIONAL,
    HEARTH_HF_HEAD,        // required unless the head is the embedding
    HEARTH_HF_ATTENDS,     // required in layers with attention,
    HEARTH_HF_RECURS,      // and in those without; the others have none
    HEARTH_HF_FEEDS,       // required in layers that are a feed-forward part alone, in models without experts
    HEARTH_HF_LEADING,     // required in the first layers, which have no experts
    HEARTH_HF_EXPERTS,     // required in all others, where the model has experts; they have none
    HEARTH_HF_CHOOSES,     // required in layers that choose the positions to attend to
    HEARTH_HF_SMALL,       // and where these do not read the stream itself
    HEARTH_HF_SHARED,      // required in these, where there is one that all tokens use
    HEARTH_HF_WHOLE_Q,     // required where queries are made in one step,
    HEARTH_HF_TWO_STEP_Q,  // or in two
    HEARTH_HF_OWN_KEYS,    // required in layers that do not attend to keys of earlier ones,
    HEARTH_HF_OWN_VALUES,  // and in those of them whose values are not keys
    HEARTH_HF_TOKEN_GIVES, // required where tokens give each layer something beside the stream
    HEARTH_HF_EITHER,      // a tensor each, or the joint form in the next row of the table
    HEARTH_HF_PREDICTOR,   // of all layers, or of none
};

// A row of a family's table. In `from`, a layer's number stands after the prefix, and # for an expert's.
struct hearth_hf_map {
    const char *from; // "self_attn.q_proj.weight"
    const char *to;   // "attn_q.weight"
    enum hearth_hf_need need;
    enum hearth_hf_order order;
};

// What transformers takes where config.json is silent: a model that holds others, as those with images do, is saved
// as the differences from these. 0, NULL: what most families have, or the file must say it.
struct hearth_hf_defaults {
    uint32_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff, window, n_dense;
    double norm_eps, rope_theta, rope_theta_window;
    double rope_share; // of each head
    const char *activation;
    bool tied;
};

struct hearth_hf_family {
    const char *arch;       // general.architecture
    const char *classes[6]; // of config.json's "architectures", or of "model_type"
    const char *base;   // before all names but those that begin with lm_head; may be missing; NULL: "model."
    const char *layers; // NULL: "layers."
    const char *activation; // of models of these classes, whatever config.json says; NULL: what that says
    bool layer_norm;        // in place of RMSNorm
    uint32_t window_period; // of so many layers the last one has no window; 0: all are alike
    bool latent;            // latent attention
    bool grouped;           // experts as DeepSeek has them, without its attention
    bool mxfp4;             // experts may be in MXFP4 already
    bool rope_exact;        // YaRN's ramp is not rounded to whole pairs
    bool rope_by_kind;      // layers with a window have a rotation of their own,
    bool window_heads;      // and heads of another size, and config.json says it of each layer
    bool rope_partial;      // a part of each head may rotate
    bool has_delta;         // layers that are recurrent by the gated delta rule,
    bool heads_stay;        // whose heads of values are in the checkpoint's order in a GGUF, too
    bool has_fixed;   // layers that are recurrent with states that fade at fixed rates (lightning attention)
    bool zero_unsaid; // tokens behind the vocabulary's own whose embeddings are 0 are never to be chosen
    bool has_kda;     // layers that are recurrent by Kimi Delta Attention
    bool has_scan;    // layers that are recurrent by a scan (Mamba-2),
    bool beside;      // whose scan has attention beside it, in every layer
    bool one_part;    // layers are a mixer or a feed-forward part, not both
    bool multiplies;  // weights are multiplied by numbers of config.json
    bool sees;        // images, whose tensors may stand beside the text's
    bool llama_keys;  // the file says the number of tokens, and that whole heads rotate
    bool window_always; // the file says the window even where there is none
    bool says_vocab;    // the file says the number of tokens
    bool rope_alpha;    // a rotation of type "dynamic" has a factor for long texts (NTK alpha),
    bool rope_dynamic;  // or is about texts beyond the context alone
    bool window_asked;  // a window counts only where the file says that it is used
    bool
        shared_length; // the file says how large the expert is that all tokens use, and how many it is made of
    const char
        *guesses;      // how names of tensors begin that guess tokens ahead and are left out; NULL: as layers
    bool rope_long;    // tables of factors of the rotation, for short texts and for long ones
    bool window_list;  // the file says of each layer whether it has a window
    bool neuron_list;  // the file says of each layer how many neurons it has, which are as many
    bool shared_usual; // the file does not say how large the expert is that all tokens use
    const char *predictor_input; // "normed", "stream", "layer": where the family's predictors look
    const struct hearth_hf_map *globals, *layer; // each ends with a NULL name
    const struct hearth_hf_map
        *extra;       // what layers that guess tokens ahead have beside; NULL: they are left out
    bool extra_apart; // these are "mtp.layers.0." in place of numbers behind the others
    struct hearth_hf_defaults defaults;
    // What a model of these classes may be instead, as its reader finds.
    const struct hearth_hf_family *variants[2];
    // Reads what is special about the family. May be NULL.
    int (*read)(struct hearth_hf_model *m, struct hearth_error *err);
};

enum hearth_hf_rope {
    HEARTH_HF_ROPE_PLAIN,
    HEARTH_HF_ROPE_LINEAR,
    HEARTH_HF_ROPE_YARN,
    HEARTH_HF_ROPE_LLAMA3,
    HEARTH_HF_ROPE_LONG,
    HEARTH_HF_ROPE_ALPHA,       // a base with the factor for long texts in it
    HEARTH_HF_ROPE_PROPORTIONAL // of each head a share rotates, at the frequencies of a whole one
};

struct hearth_hf_model {
    const char *folder;
    struct hearth_json_file config;
    json_t *outer; // of models with images, config.json itself: `config` is then its text_config; or NULL
    const struct hearth_hf_family *family;
    uint32_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    uint32_t n_expert, n_expert_used, n_ff_exp; // 0: no experts
    uint32_t n_shared;              // of how many the one is made that all tokens use; 0: not given
    uint32_t n_dense, n_ff_shared;  // first layers without experts; of the one that all tokens use
    uint32_t expert_step;           // only each so many-th layer has experts; 0, 1: all
    double expert_scale;            // 0: not given
    uint32_t n_group, n_group_used; // of experts; 0: not given
    uint32_t gating;                // as GGUF numbers the functions of routers; 0: the architecture's own
    uint32_t n_extra;               // layers behind the others, which guess tokens ahead; see family->extra
    // Of latent attention: C, ranks of the queries' first step (0: there is one step), N and O as in struct
    // hearth_layer; n_rot is R.
    uint32_t rank, q_rank, still_dim, value_dim;
    uint32_t recurrent[4096 / 32];  // a bit for each layer that does not attend
    uint32_t n_taps, full_interval; // of recurrent layers; 0: there are none
    // Of the gated delta rule, or of a scan: heads of keys, or groups of heads that share some; heads of values, and
    // their width; of a scan, the state's.
    uint32_t rec_keys, rec_heads, rec_dim, rec_state;
    uint32_t feeds[4096 / 32]; // a bit for each layer that is a feed-forward part alone
    uint32_t n_embd_exp;       // what experts read in place of the stream; 0: that
    bool is_still;             // nothing rotates, and the file says so
    struct {
        double embedding, head, attn_in, attn_out, key, gate, down, scan_in, scan_out, scan[5];
    } multiply;
    uint32_t window; // 0: none
    // Where layers with a window have heads of another size: a bit for each of these layers; what the others have.
    uint32_t windowed[4096 / 32];
    uint32_t full_head_dim, full_head_kv;
    bool keys_are_values;  // in layers without a window
    uint32_t n_borrowing;  // of so many last layers keys and values are those of earlier ones
    bool wide_borrowers;   // which have twice the neurons then
    uint32_t n_embd_layer; // of what a token gives each layer; 0: nothing
    double logit_cap;      // 0: none
    double score_cap;      // same
    struct {
        double embedding, scores, residual, logits; // 0: not given
    } scale;
    uint32_t n_streams, active_stream; // residual streams, and which one layers compute; 0: the usual one
    uint32_t mix_rank;                 // of what goes past attention then
    // Gates of layers with this bit let through the neurons above this share of them alone.
    uint32_t cuts[4096 / 32];
    double cut_share;
    // Of what chooses positions: heads, their width, how many it chooses; 0: nothing. A bit for each layer that attends
    // to what an earlier one chose, and whether the file lists these.
    uint32_t choose_heads, choose_dim, choose_top;
    uint32_t shares_choice[4096 / 32];
    bool choice_listed;
    bool has_deepstack; // the file says how many layers images reach beside the first
    uint32_t n_deepstack;
    struct {
        const char *factors;             // how their tensors' names end; NULL: no matrices are in F8_E4M3
        uint32_t block_rows, block_cols; // that share a factor; 0: rows or matrices do
        bool packed;  // numbers of 4 bits less 8, eight in an I32, in X_packed beside these factors
        bool fp4;     // matrices may be in NVFP4: U8 beside scales in F8_E4M3,
        bool inverse; // in X_packed, with the scale of the whole matrix as what to divide by
    } f8;
    bool own_head_dim; // head_dim is not n_embd / n_head by definition
    bool tied;         // the head is the embedding
    double norm_eps;
    const char *activation; // "silu", "relu", "drelu", "gelu"
    bool renorm;            // weights of the chosen experts add up to 1

    bool has_rope;
    enum hearth_hf_rope rope;
    double rope_theta, rope_factor;
    double rope_theta_window;                             // 0: the same
    uint32_t n_rot;                                       // 0: whole heads
    double rope_share;                                    // of PROPORTIONAL
    uint32_t sections[4];                                 // of images' rotation
    uint32_t window_period;                               // 0: not given
    const json_t *short_factors, *long_factors;           // of config.json; NULL: none
    double low_freq_factor, high_freq_factor;             // llama3
    double beta_fast, beta_slow, attn_factor, ext_factor; // YaRN; 0: not given
    double yarn_log;                                      // same: of scores, as GGUF has it
    uint32_t n_ctx_orig;
};

static inline bool hearth_hf_is_recurrent(const struct hearth_hf_model *m, uint32_t layer)
{
    return m->recurrent[layer / 32] >> (layer % 32) & 1;
}

static inline bool hearth_hf_is_windowed(const struct hearth_hf_model *m, uint32_t layer)
{
    return m->windowed[layer / 32] >> (layer % 32) & 1;
}

// Whether a layer is a feed-forward part alone.
static inline bool hearth_hf_feeds(const struct hearth_hf_model *m, uint32_t layer)
{
    return m->feeds[layer / 32] >> (layer % 32) & 1;
}

// Whether a layer of a model with experts has none.
static inline bool hearth_hf_is_dense(const struct hearth_hf_model *m, uint32_t layer)
{
    return (m->family->one_part && !hearth_hf_feeds(m, layer)) || layer < m->n_dense ||
           (m->expert_step > 1 && (layer + 1) % m->expert_step != 0);
}

// What the row of a tensor ("attn_q.weight") is multiplied by: *n numbers, one after the other.
void hearth_hf_multipliers(const struct hearth_hf_model *m, const char *to, uint64_t row, float out[2],
                           int *n);

// Layers of the file, those that guess tokens ahead included.
static inline uint32_t hearth_hf_n_blocks(const struct hearth_hf_model *m)
{
    return m->n_layer + (m->family->extra ? m->n_extra : 0);
}

// Whether a layer attends to keys and values of an earlier one.
static inline bool hearth_hf_borrows(const struct hearth_hf_model *m, uint32_t layer)
{
    return layer + m->n_borrowing >= m->n_layer;
}

static inline uint32_t hearth_hf_neurons(const struct hearth_hf_model *m, uint32_t layer)
{
    return m->wide_borrowers && hearth_hf_borrows(m, layer) ? 2 * m->n_ff : m->n_ff;
}

static inline uint32_t hearth_hf_head_dim(const struct hearth_hf_model *m, uint32_t layer)
{
    return m->family->window_heads && !hearth_hf_is_windowed(m, layer) ? m->full_head_dim : m->head_dim;
}

static inline uint32_t hearth_hf_heads_kv(const struct hearth_hf_model *m, uint32_t layer)
{
    return m->family->window_heads && !hearth_hf_is_windowed(m, layer) ? m->full_head_kv : m->n_head_kv;
}

// What the file says of the layer: where it lists layers, those that do not attend have none.
static inline uint32_t hearth_hf_listed_kv(const struct hearth_hf_model *m, uint32_t layer)
{
    const bool none = hearth_hf_feeds(m, layer) || hearth_hf_is_recurrent(m, layer);
    return !m->family->has_delta && none ? 0 : hearth_hf_heads_kv(m, layer);
}

// Reads config.json. `activation` replaces what it says (NULL: nothing). HEARTH_E_UNSUPPORTED: a family or a
// setting that Hearth does not run, by name. HEARTH_E_FORMAT, HEARTH_E_IO, HEARTH_E_MEMORY. Close it in any
// case.
int hearth_hf_model_open(struct hearth_hf_model *m, const char *folder, const char *activation,
                         struct hearth_error *err);
void hearth_hf_model_close(struct hearth_hf_model *m);
// Writes the hyper-parameters; the activation, too, if the file would not mean it otherwise, or has
// predictors.
int hearth_hf_model_put(const struct hearth_hf_model *m, bool has_predictors, struct hearth_gguf_writer *w,
                        struct hearth_error *err);

// The family of a class or a model_type; NULL: none.
const struct hearth_hf_family *hearth_hf_family_find(const char *name);
// The i-th class that models are published with, and its architecture; NULL where there is none.
const char *hearth_hf_class_at(size_t i, const char **arch);
// All classes, "BambooForCausalLM, ...", cut to `size` bytes: for messages.
void hearth_hf_family_names(char *out, size_t size);

#endif
