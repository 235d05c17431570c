// SPDX-License-Identifier: MIT
// The order of rows and columns: where in the checkpoint is what comes at a place in a GGUF.
#include "convert/hf_tensors.h"

// Of pairs (i, i + half) within a head, neighbours.
static uint64_t rotary_row(uint64_t i, uint64_t head_dim)
{
    const uint64_t head = i / head_dim, at = i % head_dim;
    return head * head_dim + at / 2 + (at % 2) * (head_dim / 2);
}

// All queries, all keys, all values, of groups that each have some queries, a key and a value.
static uint64_t fused_row(const struct hearth_hf_model *m, uint64_t i)
{
    const uint64_t group = m->n_head / m->n_head_kv, head = i / m->head_dim, at = i % m->head_dim;
    uint64_t from; // which head of the checkpoint's
    if (head < m->n_head)
        from = head / group * (group + 2) + head % group;
    else if (head < (uint64_t)m->n_head + m->n_head_kv)
        from = (head - m->n_head) * (group + 2) + group;
    else
        from = (head - m->n_head - m->n_head_kv) * (group + 2) + group + 1;
    return from * m->head_dim + at;
}

// Heads of values that share a head of keys are side by side in checkpoints. In a GGUF their first ones come first,
// then their second ones. A head has `dim` rows.
static uint64_t value_row(const struct hearth_hf_model *m, uint64_t i, uint64_t dim)
{
    if (m->family->heads_stay)
        return i;
    const uint64_t head = i / dim, group = m->rec_heads / m->rec_keys;
    return (head % m->rec_keys * group + head / m->rec_keys) * dim + i % dim;
}

// Row i of part `which` (queries, keys, values, gates) of all heads of keys, each of which has its four parts side by
// side.
static uint64_t joint_row(const struct hearth_hf_model *m, uint64_t i, unsigned which)
{
    const uint64_t key = m->rec_dim, values = (uint64_t)(m->rec_heads / m->rec_keys) * m->rec_dim;
    const uint64_t before[] = {0, key, 2 * key, 2 * key + values}, n = which < 2 ? key : values;
    return i / n * (2 * key + 2 * values) + before[which] + i % n;
}

static uint64_t joint_qkv_row(const struct hearth_hf_model *m, uint64_t i)
{
    const uint64_t keys = (uint64_t)m->rec_keys * m->rec_dim;
    const unsigned which = i < keys ? 0 : i < 2 * keys ? 1 : 2;
    return joint_row(m, i - which * keys, which);
}

uint64_t hearth_hf_source_column(const struct hearth_hf_model *m, enum hearth_hf_order order, uint64_t i)
{
    return order == HEARTH_HF_VALUE_COLUMNS ? value_row(m, i, m->rec_dim) : i;
}

uint64_t hearth_hf_source_row(const struct hearth_hf_model *m, enum hearth_hf_order order, uint64_t i)
{
    switch (order) {
    case HEARTH_HF_ROTARY_Q:
    case HEARTH_HF_ROTARY_K:
        return rotary_row(i, m->head_dim);
    case HEARTH_HF_QKV:
        return fused_row(m, i);
    case HEARTH_HF_GROUPED_Q:
        return fused_row(m, rotary_row(i, m->head_dim));
    case HEARTH_HF_GROUPED_K:
        return fused_row(m, (uint64_t)m->n_head * m->head_dim + rotary_row(i, m->head_dim));
    case HEARTH_HF_GROUPED_V:
        return fused_row(m, ((uint64_t)m->n_head + m->n_head_kv) * m->head_dim + i);
    case HEARTH_HF_VALUE_HEADS:
        return value_row(m, i, m->rec_dim);
    case HEARTH_HF_BEHIND_KEYS: {
        const uint64_t keys = 2 * (uint64_t)m->rec_keys * m->rec_dim;
        return i < keys ? i : keys + value_row(m, i - keys, m->rec_dim);
    }
    case HEARTH_HF_EACH_HEAD:
    case HEARTH_HF_DECAY:
        return value_row(m, i, 1);
    case HEARTH_HF_JOINT_QKV:
        return joint_qkv_row(m, i);
    case HEARTH_HF_JOINT_GATES:
        return joint_row(m, i, 3);
    case HEARTH_HF_SAME:
    case HEARTH_HF_COLUMNS:
    case HEARTH_HF_FIRST_HALF:
    case HEARTH_HF_SECOND_HALF:
    case HEARTH_HF_EVEN_ROWS:
    case HEARTH_HF_ODD_ROWS:
    case HEARTH_HF_EVEN_COLUMNS:
    case HEARTH_HF_ODD_COLUMNS:
    case HEARTH_HF_FIRST_COLUMNS:
    case HEARTH_HF_SECOND_COLUMNS:
    case HEARTH_HF_KEYS_OF_BOTH:
    case HEARTH_HF_VALUES_OF_BOTH:
    case HEARTH_HF_ONE_MORE:
    case HEARTH_HF_SPREAD:
    case HEARTH_HF_PADDED:
    case HEARTH_HF_VALUE_COLUMNS:
        break;
    }
    return i;
}
