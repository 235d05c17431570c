// SPDX-License-Identifier: MIT
// Sessions: opening (all memory is sized and taken here), and sequences. Evaluations: evaluate.c.
#include "engine/session.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/os.h"
#include "base/params.h"
#include "base/threads.h"
#include "engine/offload.h"
#include "engine/rope.h"
#include "engine/tail.h"
#include "engine/tracing.h"
#include "model/adapters.h"
#include "model/arch.h"
#include "model/ffn.h"
#include "sparse/trace.h"

#define DEFAULT_CTX    4096
#define DEFAULT_UBATCH 512
// Rows whose logits one evaluation gives, at least.
#define LOGIT_ROWS 32

// ---- sequences

int hearth_seq_new(struct hearth_session *session, struct hearth_error *err)
{
    const int seq = hearth_kv_seq_new(&session->kv, err);
    hearth_tail_forget(session, seq);
    return seq;
}

int hearth_seq_fork(struct hearth_session *session, int seq, int n_tokens, struct hearth_error *err)
{
    int rc = hearth_kv_check_seq(&session->kv, seq, err);
    if (rc)
        return rc;
    if (n_tokens < 0 || n_tokens > session->kv.seqs[seq].length)
        return hearth_fail(err, HEARTH_E_INVALID, "cannot fork at token %d of a sequence of %d", n_tokens,
                           session->kv.seqs[seq].length);
    const int forked = hearth_kv_seq_fork(&session->kv, seq, n_tokens, err);
    hearth_tail_forget(session, forked);
    return forked;
}

void hearth_seq_free(struct hearth_session *session, int seq)
{
    if (hearth_kv_has(&session->kv, seq))
        hearth_kv_seq_free(&session->kv, seq);
}

int hearth_seq_length(const struct hearth_session *session, int seq)
{
    return hearth_kv_has(&session->kv, seq) ? session->kv.seqs[seq].length : 0;
}

int hearth_seq_truncate(struct hearth_session *session, int seq, int n_tokens, struct hearth_error *err)
{
    int rc = hearth_kv_check_seq(&session->kv, seq, err);
    if (rc)
        return rc;
    if (n_tokens < 0 || n_tokens > session->kv.seqs[seq].length)
        return hearth_fail(err, HEARTH_E_INVALID, "cannot cut a sequence of %d at token %d",
                           session->kv.seqs[seq].length, n_tokens);
    hearth_kv_seq_truncate(&session->kv, seq, n_tokens);
    hearth_tail_cut(session, seq, n_tokens);
    return HEARTH_OK;
}

int hearth_seq_tokens(const struct hearth_session *session, int seq, hearth_token *tokens,
                      enum hearth_phase *phases, int cap)
{
    const int length = hearth_seq_length(session, seq), n = length < cap ? length : cap;
    for (int i = 0; i < n && tokens; i++)
        tokens[i] = hearth_kv_token(&session->kv, seq, i);
    for (int i = 0; i < n && phases; i++)
        phases[i] = hearth_kv_phase(&session->kv, seq, i);
    return length;
}

void hearth_session_trim(struct hearth_session *session)
{
    hearth_kv_trim(&session->kv);
}

// The KV cache grows: the caches of weights make room.
static int make_room(void *arg, uint64_t bytes, struct hearth_error *err)
{
    struct hearth_session *s = arg;
    if (!s->sources || !s->sources->turn)
        return HEARTH_OK;
    if (!hearth_sources_take_turn(s->sources, &s->fault))
        return hearth_fault_take(&s->fault, err);
    hearth_sources_use(s->sources, &s->user, bytes, s->user.prompting);
    hearth_sources_drop_turn(s->sources);
    return HEARTH_OK;
}

// ---- opening

static const struct hearth_session_params default_params = {
    .size = sizeof default_params, .max_seqs = 1, .predict_threshold = NAN};

void hearth_session_params_init(struct hearth_session_params *params, size_t size)
{
    hearth_params_init(params, size, &default_params, sizeof default_params);
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void limit_rows(struct hearth_batch_limits *l, int max_seqs, int max_steps, int n_ubatch)
{
    l->max_seqs = max_seqs;
    l->max_steps = max_steps > max_seqs ? max_steps : max_seqs;
    l->max_rows = n_ubatch + l->max_steps;
    const int answers = l->max_steps + max_seqs; // each step's, and prompts that end beside them
    l->logit_rows = answers > LOGIT_ROWS ? answers : LOGIT_ROWS;
}

static void lay_out_embedding(struct hearth_session *s, struct hearth_arena *a)
{
    const int n_workers = s->model->load.ram ? hearth_pool_size(s->pool) : 0;
    s->work.embedding_row = hearth_arena_take(a, (size_t)n_workers, sizeof *s->work.embedding_row);
    for (int i = 0; i < n_workers; i++) {
        uint8_t *row = hearth_arena_take(
            a, 1, max_size(s->model->weights.token_embd.stride, s->model->weights.token_layers.stride));
        if (s->work.embedding_row)
            s->work.embedding_row[i] = row;
    }
}

// What tokens give each layer.
static void lay_out_token_layers(struct hearth_session *s, struct hearth_arena *a)
{
    const size_t each = (size_t)s->model->hp.n_embd_layer, all = each * (size_t)s->model->hp.n_layer;
    const size_t t = each ? (size_t)s->limits.max_rows : 0, steps = (size_t)s->limits.max_steps;
    const int n_workers = each ? hearth_pool_size(s->pool) : 0;
    s->work.token_layers = hearth_arena_take_rows(a, t, steps, all * sizeof(float));
    s->work.token_gate = hearth_arena_take_rows(a, t, steps, each * sizeof(float));
    s->work.token_row = hearth_arena_take(a, (size_t)n_workers, sizeof *s->work.token_row);
    for (int i = 0; i < n_workers; i++) {
        float *row = hearth_arena_take(a, all, sizeof *row);
        if (s->work.token_row)
            s->work.token_row[i] = row;
    }
}

static void lay_out_matmul(struct hearth_session *s, struct hearth_arena *a)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const size_t used = (size_t)hearth_ffn_used(hp);
    const size_t e = (size_t)hp->n_embd, f = (size_t)hearth_ffn_neurons(hp),
                 dim = (size_t)hearth_head_dim_most(hp);
    const size_t q = max_size(hp->latent.rank ? hearth_latent_widest(hp) : (size_t)hearth_q_most(hp),
                              (size_t)hp->recurrence.n_values),
                 inner = hearth_sparse_mode_inner(&s->mode, s->model);
    const size_t most =
        max_size(max_size(max_size(e, f), max_size(q, dim)), max_size(inner, hearth_ffn_shared(hp)));
    const size_t groups = (size_t)hp->out_groups,
                 low = max_size(groups * (size_t)hp->out_rank, (size_t)hp->latent.q_rank);
    const size_t streams = max_size((size_t)hearth_stream_width(hp) * (hp->nextn ? 2 : 1),
                                    (size_t)hp->streams.rank),
                 grams = (size_t)hp->grams.n * (size_t)hp->grams.dim;
    const size_t widest = max_size(max_size(max_size(most, (size_t)hp->n_embd_layer), (size_t)hp->n_embd_exp),
                                   max_size(max_size(streams, grams), low));
    // Only what goes into experts has a row per slot, and what becomes narrow one for each group of heads.
    const size_t row = max_size(max_size(hearth_acts_bytes(widest),
                                         used * hearth_acts_bytes(max_size((size_t)hearth_ffn_width(hp), f))),
                                groups ? groups * hearth_acts_bytes(q / groups) : 0);
    const size_t ranks = hearth_adapters_most_ranks(s->model->adapters);
    // Products of one call: at most eight with each row, or one for each group, or gate and up of each expert that it uses.
    const struct hearth_matmul_sizes sizes = {.rows = (size_t)s->limits.max_rows,
                                              .often = (size_t)s->limits.max_steps,
                                              .row_bytes = row,
                                              .longest = max_size(widest, ranks),
                                              .low = max_size(max_size(8, groups), 2 * used) * ranks,
                                              .most_ranks = ranks};
    hearth_matmul_lay_out(&s->work.matmul, &sizes, a);
}

// Whether heads are normed without weights.
static int plain_weights(const struct hearth_hparams *hp)
{
    const int heads = hp->value_norm || hp->unit_heads || hp->one_vector ? hearth_head_dim_most(hp) : 0,
              embd = hp->unit_norms || hp->embd_unit ? hp->n_embd : 0;
    return heads > embd ? heads : embd;
}

// Lays out all buffers; run once to measure (arena without memory) and once to assign.
static void lay_out(struct hearth_session *s, struct hearth_arena *a)
{
    const struct hearth_hparams *hp = &s->model->hp;
    struct hearth_work *w = &s->work;
    const size_t t = (size_t)s->limits.max_rows, f32 = sizeof(float), e = (size_t)hp->n_embd;
    hearth_batch_lay_out(&s->batch, &s->limits, a);
    if (hearth_has_states(hp))
        hearth_batch_lay_out(&s->again, &s->limits, a);
    const size_t steps = (size_t)s->limits.max_steps;
    w->x = hearth_arena_take_rows(a, t, steps, (size_t)hearth_stream_width(hp) * f32);
    w->h = hearth_arena_take_rows(a, t, steps, e * f32);
    w->branch = hearth_arena_take_rows(a, hp->parallel || hp->recurrence.beside ? t : 0, steps, e * f32);
    w->cos_sin = hearth_arena_take_rows(a, t, steps, (size_t)hp->n_rot * f32);
    w->inv_freq = hearth_arena_take(a, (size_t)hp->n_rot, f32);
    const bool two = hp->rope_theta_window > 0;
    w->cos_sin_window = hearth_arena_take_rows(a, two ? t : 0, steps, (size_t)hp->n_rot_window * f32);
    w->inv_freq_window = hearth_arena_take(a, two ? (size_t)hp->n_rot_window : 0, f32);
    w->ones = hearth_arena_take(a, (size_t)plain_weights(hp), f32);
    lay_out_token_layers(s, a);
    const size_t answers = hp->nextn ? 0 : (size_t)s->limits.logit_rows; // the model's head has those
    w->logits = hearth_arena_take_rows(a, answers, steps, (size_t)hp->n_vocab * f32);
    w->nextn_pair = hearth_arena_take_rows(a, hp->nextn ? t : 0, steps, 2 * e * f32);
    w->pooled = hearth_arena_take(a, e, sizeof *w->pooled);
    lay_out_embedding(s, a);
    lay_out_matmul(s, a);
    w->q_gate = hearth_arena_take_rows(a, hp->attn_gated ? t : 0, steps,
                                       2 * (size_t)hp->n_head * (size_t)hp->head_dim * f32);
    w->gate = hearth_arena_take_rows(a, hp->gates_apart ? t : 0, steps, (size_t)hearth_q_most(hp) * f32);
    hearth_attention_lay_out(&w->attention, s->limits.max_rows, s->limits.max_steps, a);
    hearth_latent_lay_out(&w->latent, s->limits.max_rows, s->limits.max_steps, a);
    hearth_recurrent_lay_out(&w->recurrent, s->limits.max_rows, s->limits.max_steps, s->limits.max_seqs, a);
    hearth_predict_lay_out(&w->predict, s->limits.max_rows, s->limits.max_steps, a);
    hearth_streams_lay_out(&w->streams, s->limits.max_rows, s->limits.max_steps, a);
    w->one_vector.ones = w->ones;
    hearth_one_vector_lay_out(&w->one_vector, s->limits.max_rows, s->limits.max_steps, a);
    w->choose.inv_freq = w->blend.inv_freq = w->inv_freq;
    hearth_blend_lay_out(&w->blend, s->limits.max_rows, s->limits.max_steps, s->limits.max_seqs, a);
    hearth_choose_lay_out(&w->choose, s->limits.max_rows, s->limits.max_steps, a);
    hearth_grams_lay_out(&w->grams, s->limits.max_rows, s->limits.max_steps, s->limits.max_seqs, a);
    const struct hearth_ffn_sizes sizes = {.max_rows = s->limits.max_rows,
                                           .max_steps = s->limits.max_steps,
                                           .neurons_stream =
                                               hearth_sources_may_give_neurons(s->model, s->mode.sparsity),
                                           .streams = s->model->load.ram != 0};
    hearth_ffn_lay_out(&w->ffn, &sizes, a);
}

// Who knows of whom.
static void connect(struct hearth_session *s)
{
    const struct hearth_context *c = &s->context;
    struct hearth_work *w = &s->work;
    s->context = (struct hearth_context){.hp = &s->model->hp,
                                         .kernels = &s->model->kernels,
                                         .path = s->model->info.path,
                                         .xielu = s->model->xielu,
                                         .pool = s->pool,
                                         .fault = &s->fault,
                                         .deferred = &s->deferred,
                                         .probes = &s->probes};
    w->matmul.c = w->attention.c = w->latent.c = w->recurrent.c = w->ffn.c = w->ffn.moe.c = w->ffn.sparse.c =
        w->streams.c = w->predict.c = w->choose.c = w->grams.c = w->blend.c = w->one_vector.c = c;
    w->attention.matmul = w->latent.matmul = w->recurrent.matmul = w->ffn.matmul = w->ffn.moe.matmul =
        w->ffn.sparse.matmul = w->streams.matmul = w->predict.matmul = w->choose.matmul = w->grams.matmul =
            w->blend.matmul = w->one_vector.matmul = &w->matmul;
    w->attention.kv = w->choose.kv = w->grams.kv = w->blend.kv = &s->kv;
    w->attention.choose = &w->choose;
    w->attention.blend = &w->blend;
    w->grams.sources = &s->sources;
    w->recurrent.states = &s->kv.states;
    w->ffn.sparse.mode = &s->mode;
    w->ffn.sparse.model = s->model;
}

// Whether rows that only prompts use have memory of their own, which is lent when there is no prompt.
static bool lends(const struct hearth_session *s)
{
    return s->model->load.ram != 0;
}

// Bytes of all buffers.
struct sizes {
    size_t plain, rows; // of the two regions
    size_t prompt;      // of the rows: what only prompts use
};

static struct sizes measure(struct hearth_session *s, struct hearth_batch_limits limits)
{
    const struct hearth_batch_limits own = s->limits;
    struct hearth_arena_rows rows = {0};
    struct hearth_arena a = {.rows = lends(s) ? &rows : NULL};
    s->limits = limits;
    lay_out(s, &a);
    s->limits = own;
    return (struct sizes){a.used, rows.arena.used, rows.rare_bytes};
}

static uint64_t memory_of(const struct sizes *sizes)
{
    return hearth_region_bytes(sizes->plain) + hearth_region_bytes(sizes->rows);
}

// How many bytes fewer the buffers take with these limits.
static uint64_t saved_by(struct hearth_session *s, const struct hearth_batch_limits *limits)
{
    const struct sizes now = measure(s, s->limits), then = measure(s, *limits);
    return memory_of(&now) - memory_of(&then);
}

// By this process. A sanitizer or an emulator in it holds more at one time than at another, and smallest budgets
// are not to depend on that.
static uint64_t held_bytes(void)
{
#ifdef HEARTH_HOLDS_NOTHING
    return 0;
#else
    return hearth_memory_private();
#endif
}

// What the session takes, and what would make that less, for the planning of a budget.
static void describe_memory(struct hearth_session *s, const struct hearth_session_params *p)
{
    const uint64_t kv = s->kv.region.size, states = hearth_region_bytes(s->kv.states.region.size);
    const struct sizes sizes = measure(s, s->limits);
    const int seqs = s->limits.max_seqs, steps = p->max_steps > 1 ? p->max_steps : 1;
    struct hearth_batch_limits few = s->limits, one = s->limits;
    few.max_rows = 1 + few.max_steps;
    limit_rows(&one, 1, steps, s->n_ubatch);
    hearth_memory_trim();
    s->user = (struct hearth_sources_user){.sparsity = s->mode.sparsity,
                                           .kv_bytes = kv,
                                           .workspace_bytes = memory_of(&sizes) + states,
                                           .prompt_bytes = sizes.prompt,
                                           .table_bytes = hearth_kv_table_bytes(&s->kv),
                                           .held_bytes = held_bytes(),
                                           .max_steps = s->limits.max_steps,
                                           .n_threads = hearth_pool_size(s->pool),
                                           .max_seqs = seqs,
                                           .n_ctx = s->n_ctx,
                                           .n_ubatch = s->n_ubatch,
                                           .kv_tokens = hearth_session_kv_tokens(s)};
    s->user.ctx_bytes = kv - kv / (uint64_t)s->kv.n_pages;
    s->user.ubatch_bytes = saved_by(s, &few);
    s->user.seqs_bytes = saved_by(s, &one) + (p->kv_tokens ? 0 : kv - kv / (uint64_t)seqs) +
                         (p->max_states ? 0 : (uint64_t)(seqs - 1) * s->kv.states.slot_bytes);
}

static int check_buffers(struct hearth_session *s, struct hearth_error *err)
{
    if (measure(s, s->limits).plain != SIZE_MAX)
        return HEARTH_OK;
    return hearth_fail_param(
        err, HEARTH_E_MEMORY, "n_ubatch",
        "the session's buffers are too large: use fewer sequences or a smaller n_ubatch");
}

static int take_memory(struct hearth_session *s, struct hearth_error *err)
{
    const struct sizes sizes = measure(s, s->limits);
    int rc = hearth_region_open(&s->memory, sizes.plain, "the session's buffers", err);
    if (!rc && lends(s))
        rc = hearth_region_open(&s->rows_memory, sizes.rows, "the session's buffers", err);
    if (rc)
        return rc;
    struct hearth_arena assign = {.base = s->memory.base, .size = s->memory.size};
    if (lends(s)) {
        hearth_os_advise_small(s->rows_memory.base, s->rows_memory.size); // a huge one would come back whole
        s->rows.arena = (struct hearth_arena){.base = s->rows_memory.base, .size = s->rows_memory.size};
        assign.rows = &s->rows;
    }
    lay_out(s, &assign);
    s->context.rows = s->batch.rows;
    s->context.tokens = s->batch.tokens;
    hearth_batch_init(&s->batch, &s->limits);
    if (s->kv.states.n_slots)
        hearth_batch_init(&s->again, &s->limits);
    hearth_recurrent_init(&s->work.recurrent);
    hearth_streams_init(&s->work.streams);
    return HEARTH_OK;
}

static uint64_t weight_bytes(const struct hearth_weight *w)
{
    return (uint64_t)w->n * w->stride;
}

// Whether a weight is read by neuron, which is counted as it happens (ffn_sparse.c).
static bool is_by_neuron(const struct hearth_layer *l, const struct hearth_weight *w)
{
    const struct hearth_weight *const weights[] = {
        &l->ffn_gate,      &l->ffn_up,      &l->ffn_down_t,      &l->pred_fc1,      &l->pred_fc2,
        &l->ffn_gate_exps, &l->ffn_up_exps, &l->ffn_down_t_exps, &l->pred_fc1_exps, &l->pred_fc2_exps};
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        if (w == weights[i])
            return true;
    return false;
}

// What one token of one sequence reads of a layer: with experts, of those it uses.
static uint64_t layer_bytes(const struct hearth_session *s, int layer)
{
    const struct hearth_model *m = s->model;
    const struct hearth_layer *l = &s->context.weights->layers[layer];
    const bool sparse = hearth_sparse_mode_layer(&s->mode, &m->hp, l);
    uint64_t bytes = 0;
    for (const struct hearth_binding *b = m->arch->layer; b->name; b++) {
        const struct hearth_weight *w =
            (const struct hearth_weight *)(const void *)((const char *)l + b->field);
        if (sparse && is_by_neuron(l, w))
            continue;
        if (w->apart) // rows of another
            continue;
        const uint64_t used = (uint64_t)m->hp.n_expert_used;
        const uint64_t times = hearth_need_is_each(b->need) ? used : 1;
        bytes += b->need == HEARTH_EACH_VECTOR ? used * w->stride
                 : b->need == HEARTH_BY_TOKEN  ? w->stride
                                               : weight_bytes(w) * times;
        for (const struct hearth_change *c = w->change; c; c = c->next)
            bytes += (weight_bytes(&c->a) + weight_bytes(&c->b)) * times;
    }
    return bytes;
}

static void fill_stats(struct hearth_session *s)
{
    const struct hearth_model *m = s->model;
    const struct hearth_weights *w = &m->weights; // the shared ones may be moving
    uint64_t bytes = weight_bytes(&w->output) + weight_bytes(&w->output_norm) + w->token_embd.stride +
                     w->position_embd.stride + w->token_layers.stride + weight_bytes(&w->token_layers_in) +
                     weight_bytes(&w->output_mix_down) + weight_bytes(&w->output_mix_up) +
                     weight_bytes(&w->output_mix) + weight_bytes(&w->streams_in) +
                     weight_bytes(&w->streams_out) + w->gram_table.stride * (uint64_t)m->hp.grams.n;
    for (int i = 0; i < m->hp.n_layer; i++)
        bytes += layer_bytes(s, i);
    s->stats.weight_bytes_per_step = bytes;
    s->stats.kv_bytes = s->kv.region.size;
    s->stats.memory_bytes = m->image.size + hearth_sources_memory(s->sources) + s->kv.region.size +
                            s->kv.states.region.size + s->memory.size + s->rows_memory.size;
}

static uint32_t kv_type(enum hearth_kv_type type)
{
    switch (type) {
    case HEARTH_KV_F32:
        return HEARTH_TYPE_F32;
    case HEARTH_KV_Q8_0:
        return HEARTH_TYPE_Q8_0;
    case HEARTH_KV_F16:
        break;
    }
    return HEARTH_TYPE_F16;
}

static int check_params(const struct hearth_model *m, const struct hearth_session_params *p,
                        struct hearth_error *err)
{
    if (m->vocab_only)
        return hearth_fail(err, HEARTH_E_INVALID, "%s was opened for its vocabulary only", m->info.path);
    if (p->n_ctx < 0 || p->n_ctx > 1 << 26)
        return hearth_fail_param(err, HEARTH_E_INVALID, "n_ctx",
                                 "a context of %d tokens (n_ctx) is out of range", p->n_ctx);
    if (p->max_seqs < 1 || p->max_seqs > 4096)
        return hearth_fail_param(err, HEARTH_E_INVALID, "max_seqs",
                                 "%d sequences (max_seqs) are out of range (1 to 4096)", p->max_seqs);
    if (p->max_steps < 0 || p->max_steps > HEARTH_TRACE_MAX_TOKENS) // any evaluation may be traced
        return hearth_fail_param(err, HEARTH_E_INVALID, "max_steps",
                                 "%d rows of steps (max_steps) are out of range (0 to %d)", p->max_steps,
                                 HEARTH_TRACE_MAX_TOKENS);
    if (p->max_states < 0 || p->max_states == 1 || p->max_states > 65536)
        return hearth_fail_param(
            err, HEARTH_E_INVALID, "max_states",
            "%d states of recurrent layers (max_states) are out of range (2 to 65536, or 0)", p->max_states);
    if (p->kv_tokens < 0)
        return hearth_fail_param(err, HEARTH_E_INVALID, "kv_tokens",
                                 "a KV cache of %d tokens (kv_tokens) is out of range", p->kv_tokens);
    if ((unsigned)p->type_k > HEARTH_KV_Q8_0 || (unsigned)p->type_v > HEARTH_KV_Q8_0)
        return hearth_fail_param(err, HEARTH_E_INVALID,
                                 (unsigned)p->type_k > HEARTH_KV_Q8_0 ? "type_k" : "type_v",
                                 "KV cache types %d and %d (type_k, type_v): there is no such type",
                                 (int)p->type_k, (int)p->type_v);
    if ((unsigned)p->sparsity > HEARTH_SPARSITY_PREDICT)
        return hearth_fail_param(err, HEARTH_E_INVALID, "sparsity", "there is no sparsity %d",
                                 (int)p->sparsity);
    if (p->n_ubatch < 0 || p->n_ubatch > 1 << 16)
        return hearth_fail_param(err, HEARTH_E_INVALID, "n_ubatch",
                                 "a micro-batch of %d tokens (n_ubatch) is out of range (0 to 65536)",
                                 p->n_ubatch);
    if (p->device_layers < 0)
        return hearth_fail_param(err, HEARTH_E_INVALID, "device_layers",
                                 "%d layers of a device (device_layers) make no sense", p->device_layers);
    if (p->device_hot_percent < -1 || p->device_hot_percent > 100)
        return hearth_fail_param(err, HEARTH_E_INVALID, "device_hot_percent",
                                 "device_hot_percent must be -1 to 100, not %d", p->device_hot_percent);
    if (p->n_cpu_experts < 0 || (p->n_cpu_experts && !p->cpu_experts))
        return hearth_fail_param(err, HEARTH_E_INVALID, "n_cpu_experts",
                                 "there is no list of %d layers (cpu_experts, n_cpu_experts)",
                                 p->n_cpu_experts);
    if ((unsigned)p->device_prompts > HEARTH_DEVICE_PROMPTS_NEVER)
        return hearth_fail_param(err, HEARTH_E_INVALID, "device_prompts", "there is no device_prompts %d",
                                 (int)p->device_prompts);
    if (m->hp.n_pos && p->n_ctx > m->hp.n_pos)
        return hearth_fail_param(err, HEARTH_E_INVALID, "n_ctx",
                                 "%s knows %d positions: use n_ctx %d or less", m->info.path, m->hp.n_pos,
                                 m->hp.n_pos);
    return HEARTH_OK;
}

static void warn_of_context(const struct hearth_session *s)
{
    const double mib = (double)s->kv.region.size / (1 << 20);
    if (s->n_ctx > s->model->hp.n_ctx_train && !s->model->hp.nextn) // drafts are worse then, texts are not
        hearth_log(HEARTH_LOG_WARNING,
                   "the model was trained for %d tokens of context; beyond that its text degrades (KV cache: "
                   "%.*f %s)",
                   s->model->hp.n_ctx_train, mib < 100 ? 1 : 0, mib < 10240 ? mib : mib / 1024,
                   mib < 10240 ? "MiB" : "GiB");
}

static void warn_of_whole_parts(const struct hearth_session *s)
{
    const struct hearth_model *m = s->model;
    for (int i = 0; i < m->hp.n_layer && s->mode.sparsity != HEARTH_SPARSITY_OFF; i++) {
        const struct hearth_ffn f = hearth_ffn_of(&m->hp, &m->weights.layers[i]);
        const bool changed = hearth_ffn_is_changed(&f);
        if (!changed && !hearth_ffn_is_scaled(&f))
            continue;
        hearth_log(HEARTH_LOG_WARNING, "feed-forward parts %s are computed whole, not neuron by neuron",
                   changed ? "that adapters change" : "whose matrices have scales beside them (NVFP4)");
        return;
    }
}

static void size_session(struct hearth_session *s, const struct hearth_session_params *p)
{
    const int trained = s->model->hp.n_ctx_train;
    s->inexact = p->device && p->device_inexact;
    s->n_ctx = p->n_ctx ? p->n_ctx : trained < DEFAULT_CTX ? trained : DEFAULT_CTX;
    s->n_ubatch = p->n_ubatch ? p->n_ubatch : DEFAULT_UBATCH;
    if (s->n_ubatch > s->n_ctx)
        s->n_ubatch = s->n_ctx;
    limit_rows(&s->limits, p->max_seqs, p->max_steps, s->n_ubatch);
    s->limits.n_vocab = s->model->hp.n_vocab;
}

static int open_sources(struct hearth_session *s, struct hearth_error *err)
{
    const int rc = hearth_sources_open(&s->sources, s->model, &s->user, err);
    if (rc)
        return rc;
    s->kv.on_growth = make_room;
    s->kv.on_growth_arg = s;
    s->context.weights = &s->sources->weights;
    s->work.ffn.sources = s->work.ffn.sparse.sources = s->sources;
    return HEARTH_OK;
}

_Static_assert(HEARTH_DEVICES_MOST == HEARTH_ACCEL_MOST, "as many as one text can mean");

// More than there are, with the head, is all that there is room for.
static int wanted_layers(const struct hearth_session *s, const struct hearth_session_params *p)
{
    return p->device_layers && p->device_layers <= s->model->hp.n_layer ? p->device_layers
                                                                        : HEARTH_OFFLOAD_ALL;
}

static struct hearth_offload_params offload_params(const struct hearth_session *s,
                                                   const struct hearth_session_params *p)
{
    return (struct hearth_offload_params){.device = {.device = p->device, .inexact = p->device_inexact != 0},
                                          .vram = p->vram,
                                          .vrams = p->vrams,
                                          .shares = p->device_shares,
                                          .n_vrams = p->n_vrams,
                                          .n_shares = p->n_device_shares,
                                          .layers = wanted_layers(s, p),
                                          .hot_percent = p->device_hot_percent,
                                          .cpu_experts = {p->cpu_experts, p->n_cpu_experts},
                                          .prompts = p->device_prompts};
}

// No memory is set aside for what the device will have. Sessions that share weights may have no device.
static void note_placement(struct hearth_session *s, const struct hearth_placement *placement)
{
    if (s->model->load.max_sessions != 1)
        return;
    s->user.layers_elsewhere = placement->layers;
    s->user.head_elsewhere = placement->head;
}

static void foresee(struct hearth_session *s, const struct hearth_session_params *p)
{
    const struct hearth_offload_params params = offload_params(s, p);
    if (hearth_offload_guess(&s->placement, s, &params))
        note_placement(s, &s->placement);
}

// Before the weights are brought into memory.
static int find_device(struct hearth_session *s, const struct hearth_session_params *p,
                       struct hearth_error *err)
{
    const struct hearth_offload_params params = offload_params(s, p);
    struct hearth_placement placement;
    const int rc = hearth_offload_find(&s->offload, s, &params, err);
    if (!rc && hearth_offload_foresee(s->offload, &params, &placement))
        note_placement(s, &placement);
    return rc;
}

// Once they are there.
static int use_device(struct hearth_session *s, const struct hearth_session_params *p,
                      struct hearth_error *err)
{
    const struct hearth_offload_params params = offload_params(s, p);
    const int rc = hearth_offload_place(s->offload, &params, err);
    const struct hearth_offload *o = s->offload;
    if (!rc && ((o->attention ? 0 : o->end - o->first) < s->user.layers_elsewhere ||
                (s->user.head_elsewhere && !o->head)))
        hearth_log(HEARTH_LOG_WARNING, "the device has less memory than was foreseen: layers, or the head, "
                                       "that it was to have are read from the file for each token");
    s->work.ffn.sparse.hot = hearth_offload_hot(s->offload);
    s->work.ffn.experts = hearth_offload_experts(s->offload);
    s->work.ffn.through = o->passing;
    s->work.ffn.elsewhere = o->shared;
    return rc;
}

// sizes_only: the session is never used.
static int begin(struct hearth_session **out, const struct hearth_model *model,
                 const struct hearth_session_params *params, bool sizes_only, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_session_params p = default_params;
    int rc = hearth_params_read(&p, sizeof p, params, "hearth_session_params", err);
    if (!rc && !model)
        rc = hearth_fail(err, HEARTH_E_INVALID, "there is no model to open a session on");
    if (!rc)
        rc = check_params(model, &p, err);
    if (rc)
        return rc;
    struct hearth_session *s = hearth_calloc(1, sizeof *s);
    if (!s)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a session");
    s->model = model;
    s->progress = (struct hearth_session_progress){.fn = p.progress, .arg = p.progress_arg};
    size_session(s, &p);
    rc = hearth_sparse_mode_choose(&s->mode, model, &p, err);
    if (!rc)
        rc = hearth_pool_open(&s->pool, hearth_pool_threads(p.n_threads), err);
    if (!rc)
        rc = hearth_kv_open(&s->kv, &model->hp,
                            &(struct hearth_kv_params){.n_ctx = s->n_ctx,
                                                       .max_seqs = p.max_seqs,
                                                       .n_tokens = p.kv_tokens,
                                                       .n_states = p.max_states,
                                                       .type_k = kv_type(p.type_k),
                                                       .type_v = kv_type(p.type_v),
                                                       .keeps_steps = s->limits.max_steps > p.max_seqs,
                                                       .sizes_only = sizes_only},
                            err);
    if (!rc) {
        connect(s);
        rc = check_buffers(s, err);
    }
    if (!rc)
        describe_memory(s, &p);
    if (!rc && sizes_only && p.device)
        foresee(s, &p);
    if (!rc && !sizes_only)
        rc = take_memory(s, err);
    if (rc)
        hearth_session_close(&s);
    *out = s;
    return rc;
}

// A session whose sizes are looked at, and no more.
static int look(struct hearth_sources_user *user, struct hearth_placement *placement,
                const struct hearth_model *model, const struct hearth_session_params *params,
                struct hearth_error *err)
{
    struct hearth_session *s;
    const int rc = begin(&s, model, params, true, err);
    if (!rc && user)
        *user = s->user;
    if (!rc && placement)
        *placement = s->placement;
    hearth_session_close(&s);
    return rc;
}

int hearth_session_measure(struct hearth_sources_user *out, const struct hearth_model *model,
                           const struct hearth_session_params *params, struct hearth_error *err)
{
    return look(out, NULL, model, params, err);
}

int hearth_session_foresee(struct hearth_placement *out, const struct hearth_model *model,
                           const struct hearth_session_params *params, struct hearth_error *err)
{
    return look(NULL, out, model, params, err);
}

int hearth_session_open(struct hearth_session **out, const struct hearth_model *model,
                        const struct hearth_session_params *params, struct hearth_error *err)
{
    struct hearth_session_params p = default_params;
    int rc = begin(out, model, params, false, err);
    if (!rc)
        rc = hearth_params_read(&p, sizeof p, params, "hearth_session_params", err);
    if (rc)
        return rc;
    struct hearth_session *s = *out;
    warn_of_context(s);
    warn_of_whole_parts(s);
    if (p.device)
        rc = find_device(s, &p, err);
    if (!rc)
        rc = open_sources(s, err);
    if (rc) {
        hearth_session_close(out);
        return rc;
    }
    for (int i = 0; i < plain_weights(&model->hp); i++)
        s->work.ones[i] = 1.0f;
    hearth_rope_frequencies(&model->hp, s->context.weights->rope_freqs.data, s->work.inv_freq);
    if (model->hp.rope_theta_window > 0)
        hearth_rope_window_frequencies(&model->hp, s->work.inv_freq_window);
    fill_stats(s);
    if (p.device)
        rc = use_device(s, &p, err);
    if (rc)
        hearth_session_close(out);
    return rc;
}

void hearth_session_close(struct hearth_session **session)
{
    struct hearth_session *s = *session;
    if (!s)
        return;
    hearth_offload_close(&s->offload);
    hearth_tail_close(s);
    hearth_pool_close(&s->pool);
    hearth_tracing_close(&s->tracing);
    hearth_sparse_mode_close(&s->mode);
    hearth_kv_close(&s->kv);
    hearth_region_close(&s->memory);
    hearth_region_close(&s->rows_memory);
    hearth_sources_close(&s->sources, &s->user);
    free(s);
    *session = NULL;
}

int hearth_session_n_ctx(const struct hearth_session *session)
{
    return session->n_ctx;
}

int hearth_session_max_seqs(const struct hearth_session *session)
{
    return session->limits.max_seqs;
}

int hearth_session_max_rows(const struct hearth_session *session)
{
    return session->limits.max_rows;
}

int hearth_session_max_steps(const struct hearth_session *session)
{
    return session->limits.max_steps;
}

int hearth_session_max_logits(const struct hearth_session *session)
{
    return session->limits.logit_rows;
}

int64_t hearth_session_kv_tokens(const struct hearth_session *session)
{
    return (int64_t)session->kv.n_pages * HEARTH_KV_TILE;
}

int64_t hearth_session_kv_free(const struct hearth_session *session)
{
    return (int64_t)session->kv.n_free * HEARTH_KV_TILE;
}

void hearth_session_stats(const struct hearth_session *session, struct hearth_stats *out, size_t size)
{
    struct hearth_stats stats = session->stats;
    const struct hearth_sparse_worker *workers = session->work.ffn.sparse.workers;
    for (int i = 0; workers && i < hearth_pool_size(session->pool); i++) {
        stats.predictor_bytes += workers[i].predictor_bytes;
        stats.gate_bytes += workers[i].gate_bytes;
        stats.up_bytes += workers[i].up_bytes;
        stats.down_bytes += workers[i].down_bytes;
    }
    hearth_params_write(out, size, &stats, sizeof stats);
}

void hearth_session_kv_stats(const struct hearth_session *session, struct hearth_kv_stats *out, size_t size)
{
    const struct hearth_kv *kv = &session->kv;
    const struct hearth_kv_stats stats = {.page_tokens = HEARTH_KV_TILE,
                                          .pages = (uint64_t)kv->n_pages,
                                          .pages_used = (uint64_t)(kv->n_pages - kv->n_free),
                                          .pages_shared = (uint64_t)kv->n_shared};
    hearth_params_write(out, size, &stats, sizeof stats);
}

void hearth_session_streaming_stats(const struct hearth_session *session, struct hearth_streaming_stats *out,
                                    size_t size)
{
    struct hearth_streaming_stats stats;
    hearth_sources_stats(session->sources, &stats);
    hearth_params_write(out, size, &stats, sizeof stats);
}

void hearth_session_device_stats(const struct hearth_session *session, struct hearth_device_stats *out,
                                 size_t size)
{
    hearth_session_device_stats_at(session, 0, out, size);
}

int hearth_session_device_stats_at(const struct hearth_session *session, int index,
                                   struct hearth_device_stats *out, size_t size)
{
    struct hearth_device_stats stats = {0};
    const struct hearth_offload *o = NULL;
    int n = 0;
    for (const struct hearth_offload *at = session->offload; at; at = at->next)
        if (n++ == index)
            o = at;
    if (o) {
        const struct hearth_accel_stats a = hearth_accel_stats(o->a);
        stats = (struct hearth_device_stats){.name = hearth_accel_describe(o->a)->name,
                                             .backend = hearth_accel_describe(o->a)->backend,
                                             .works = o->works,
                                             .layers = o->attention ? 0 : o->end - o->first,
                                             .attention = hearth_offload_attention(o),
                                             .head = o->head,
                                             .neurons = o->hot ? o->hot->neurons : 0,
                                             .bytes = a.bytes,
                                             .tokens = o->tokens,
                                             .runs = a.runs,
                                             .bytes_up = a.bytes_up,
                                             .bytes_down = a.bytes_down,
                                             .experts = o->experts ? o->experts->n : 0,
                                             .expert_rows = o->experts ? o->experts->slots : 0,
                                             .first_layer = o->first,
                                             .through = o->through   ? o->through->tokens
                                                        : o->passing ? o->passing->tokens
                                                                     : 0};
    }
    hearth_params_write(out, size, &stats, sizeof stats);
    return n;
}

// ---- what others see of the evaluations

int hearth_session_trace(struct hearth_session *session, const char *path, struct hearth_error *err)
{
    struct hearth_session *s = session;
    if (s->tracing)
        return hearth_fail(err, HEARTH_E_INVALID, "the session is being traced already");
    if (!path)
        return hearth_fail(err, HEARTH_E_INVALID, "there is no path: name the file to write");
    return hearth_tracing_open(&s->tracing, s->model, &s->mode, &s->probes, path, err);
}

int hearth_session_trace_end(struct hearth_session *session, struct hearth_error *err)
{
    if (!session->tracing)
        return HEARTH_OK;
    int rc = hearth_tracing_commit(session->tracing, err);
    hearth_tracing_close(&session->tracing);
    return rc;
}

struct hearth_probes *hearth_session_probes(struct hearth_session *session)
{
    return &session->probes;
}
