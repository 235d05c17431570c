// SPDX-License-Identifier: MIT
// Experts: which ones a token uses, and what is done with their outputs.
//
// Tokens are grouped by expert, so that an expert's matrices are read once for all of its tokens. That
// changes no result: every element of an expert's output has its own canonical reduction
// (src/kernels/kernels.h), and a token's outputs are added in ascending order of expert.
#include "engine/moe.h"

#include <math.h>
#include <string.h>

#include "engine/gates.h"
#include "model/ffn.h"

// Weights are divided by their sum, which is not to be 0.
#define LEAST_TOTAL 1e-20f
// Scores count beside one where they are no more than this share of it, or of their own size, below it.
#define NEAR_SHARE 0.02f

struct job {
    struct hearth_moe_work *work;
    struct hearth_rows rows;
    int layer;
    const float *h, *x; // [T x E] of the class
    float *out;         // [T x E] of the batch
};

// Keeps the U best of X scores in `ids`, best first; of equal ones the lower number.
static void choose_best(const float *scores, int n_expert, int *ids, int n_used)
{
    for (int e = 0, n = 0; e < n_expert; e++) {
        if (n == n_used && !(scores[e] > scores[ids[n - 1]]))
            continue;
        int at = n < n_used ? n++ : n - 1;
        for (; at > 0 && scores[e] > scores[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = e;
    }
}

// What a group of experts is worth: its best score where scores become a softmax, else the sum of its best
// two.
static float worth_of_group(const struct hearth_hparams *hp, const float *scores)
{
    const int size = hp->n_expert / hp->n_group;
    float best = -INFINITY, second = -INFINITY;
    for (int e = 0; e < size; e++) {
        if (scores[e] > best) {
            second = best;
            best = scores[e];
        } else if (scores[e] > second)
            second = scores[e];
    }
    return hp->expert_gating == HEARTH_GATING_SOFTMAX || size == 1 ? best : best + second;
}

// Leaves out the experts of all groups but the best; of equal ones the lower.
static void leave_groups_out(const struct hearth_hparams *hp, float *scores)
{
    float worth[HEARTH_MAX_GROUPS] = {0};
    int best[HEARTH_MAX_GROUPS] = {0};
    const int size = hp->n_expert / hp->n_group;
    for (int g = 0; g < hp->n_group; g++)
        worth[g] = worth_of_group(hp, scores + (size_t)(g * size));
    choose_best(worth, hp->n_group, best, hp->n_group_used);
    for (int g = 0; g < hp->n_group; g++) {
        bool used = false;
        for (int i = 0; i < hp->n_group_used; i++)
            used |= best[i] == g;
        for (int e = 0; e < size && !used; e++)
            scores[g * size + e] = -INFINITY;
    }
}

static void sort(int *ids, int n)
{
    for (int i = 1; i < n; i++) {
        int id = ids[i], at = i;
        for (; at > 0 && ids[at - 1] > id; at--)
            ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

// From a row of the router's products to scores; returns what decides. Sigmoids are scores themselves.
static const float *rate(const struct hearth_moe_work *w, int layer, int row)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    float *scores = hearth_row_of(w->scores, row, hp->n_expert);
    for (int e = 0; hp->router_scale != 1.0f && e < hp->n_expert; e++)
        scores[e] *= hp->router_scale;
    if (l->ffn_router_b.data)
        w->c->kernels->add(scores, hearth_vector_of(&l->ffn_router_b), (size_t)hp->n_expert);
    for (int e = 0; hp->expert_gating == HEARTH_GATING_SIGMOID && e < hp->n_expert; e++)
        scores[e] = 1.0f / (1.0f + hearth_exp(-scores[e]));
    for (int e = 0; hp->expert_gating == HEARTH_GATING_ROOT && e < hp->n_expert; e++)
        scores[e] = sqrtf(hearth_softplus(scores[e]));
    if (!l->ffn_choice_b.data && !hp->n_group)
        return scores;
    float *choices = hearth_row_of(w->choices, row, hp->n_expert);
    memcpy(choices, scores, (size_t)hp->n_expert * sizeof *choices);
    if (hp->softmax_choice) {
        float total;
        w->c->kernels->softmax_tile(choices, (size_t)hp->n_expert, 1.0f, &total);
        for (int e = 0; e < hp->n_expert; e++)
            choices[e] /= total;
    }
    if (l->ffn_choice_b.data)
        w->c->kernels->add(choices, hearth_vector_of(&l->ffn_choice_b), (size_t)hp->n_expert);
    if (hp->n_group)
        leave_groups_out(hp, choices);
    return choices;
}

// The experts that a table has for a row's token.
static void look_up(const struct hearth_moe_work *w, int layer, int row, int *ids)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_weight *table = &w->c->weights->layers[layer].ffn_by_token;
    const uint8_t *from = (const uint8_t *)table->data + (size_t)w->c->tokens[row] * table->stride;
    HEARTH_ABOUT_TO_READ(from, 1, table->stride, table->stride);
    for (int i = 0; i < hp->n_expert_used; i++) {
        int32_t id;
        memcpy(&id, from + (size_t)i * sizeof id, sizeof id);
        const bool is_there = id >= 0 && id < hp->n_expert;
        ids[i] = is_there ? id : 0;
        if (is_there)
            continue;
        struct hearth_error err = {0};
        hearth_fail(
            &err, HEARTH_E_FORMAT,
            "%s: blk.%d.ffn_gate_tid2eid.weight names expert %d of %d for token %d: the file is damaged "
            "or was converted wrongly",
            w->c->path, layer, (int)id, hp->n_expert, w->c->tokens[row]);
        hearth_fault_raise(w->c->fault, &err);
    }
}

static bool is_among(int expert, const int *ids, int n)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == expert)
            return true;
    return false;
}

// SparseMixer (arXiv 2409.12136): each chosen expert, best first, has the weight of a softmax over those near it that were
// not chosen before. It takes the place of the score; of the others these stay. weights [U] is room.
static void weigh_near(float *scores, int n_expert, const int *ids, int n_used, float *weights)
{
    for (int i = 0; i < n_used; i++) {
        const float best = scores[ids[i]];
        float total = 0.0f;
        for (int e = 0; e < n_expert; e++) {
            const float size = fmaxf(fabsf(scores[e]), best);
            if (!is_among(e, ids, i) && !((best - scores[e]) / size > NEAR_SHARE))
                total += hearth_exp(scores[e] - best);
        }
        weights[i] = 1.0f / total;
    }
    for (int i = 0; i < n_used; i++)
        scores[ids[i]] = weights[i];
}

// Experts and weights of one token. A weight is exp(score - best) over the sum of all (the softmax), or of those near it, or
// the sigmoid of the score; or any of them over the sum of the chosen ones in ascending order of expert.
static void choose_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = j->work->c->hp;
    float *scores = hearth_row_of(j->work->scores, task, hp->n_expert);
    float *weights = hearth_row_of(j->work->weights, j->rows.first + task, hp->n_expert_used);
    int *ids = j->work->ids + (size_t)(j->rows.first + task) * (size_t)hp->n_expert_used;

    const float *choices = rate(j->work, j->layer, task);
    if (hearth_is_by_token(hp, j->layer))
        look_up(j->work, j->layer, j->rows.first + task, ids);
    else
        choose_best(choices, hp->n_expert, ids, hp->n_expert_used);
    if (hp->expert_gating == HEARTH_GATING_NEAR)
        weigh_near(scores, hp->n_expert, ids, hp->n_expert_used, weights);
    sort(ids, hp->n_expert_used);
    float total = 1.0f;
    if (hp->expert_gating == HEARTH_GATING_SOFTMAX)
        j->work->c->kernels->softmax_tile(scores, (size_t)hp->n_expert, 1.0f, &total);
    if (hp->expert_renorm) {
        // Sigmoids may all be 0.
        total = hp->expert_gating == HEARTH_GATING_SOFTMAX ? 0.0f : LEAST_TOTAL;
        for (int i = 0; i < hp->n_expert_used; i++)
            total += scores[ids[i]];
    }
    for (int i = 0; i < hp->n_expert_used; i++)
        weights[i] = scores[ids[i]] / total;
    for (int i = 0; hp->expert_scale != 1.0f && i < hp->n_expert_used; i++)
        weights[i] *= hp->expert_scale;
    const float *scales = hearth_vector_of(&j->work->c->weights->layers[j->layer].ffn_scale_exps);
    for (int i = 0; scales && i < hp->n_expert_used; i++)
        weights[i] *= scales[ids[i]];
}

static void report_experts(const struct hearth_moe_work *w, struct hearth_rows rows, int layer)
{
    const struct hearth_probes *probes = w->c->probes;
    const size_t used = (size_t)w->c->hp->n_expert_used;
    for (int i = 0; probes->on_experts && i < rows.n; i++)
        probes->on_experts(probes->on_experts_arg, layer, w->c->rows[rows.first + i],
                           hearth_moe_ids(w, rows) + (size_t)i * used,
                           w->weights + (size_t)(rows.first + i) * used, (int)used);
}

// A row of the stream as its router reads it.
static void norm_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_context *c = j->work->c;
    const int row = j->rows.first + task;
    c->kernels->rms_norm(hearth_row_of(j->work->normed, row, c->hp->n_embd),
                         j->x + (size_t)row * (size_t)c->hp->n_embd,
                         hearth_vector_of(&c->weights->layers[j->layer].ffn_router_norm),
                         (size_t)c->hp->n_embd, c->hp->norm_eps);
}

void hearth_moe_choose(struct hearth_moe_work *w, struct hearth_rows rows, int layer, const float *h,
                       const float *x)
{
    struct hearth_product router = {
        .w = w->c->weights->layers[layer].ffn_router, .out = w->scores, .n = rows.n};
    struct job j = {.work = w, .rows = rows, .layer = layer, .x = x};
    if (hearth_has(&w->c->weights->layers[layer].ffn_router_norm)) {
        hearth_parallel(w->c, norm_task, &j, rows.n);
        h = w->normed;
    }
    hearth_matmul(w->matmul, rows.phase, &router, 1, h + (size_t)rows.first * (size_t)w->c->hp->n_embd,
                  rows.n);
    hearth_parallel(w->c, choose_task, &j, rows.n);
    report_experts(w, rows, layer);
    const size_t n_slots = (size_t)(rows.n * w->c->hp->n_expert_used);
    const int *ids = hearth_moe_ids(w, rows);
    int *counts = hearth_moe_counts(w, rows);
    memset(counts, 0, (size_t)w->c->hp->n_expert * sizeof *counts);
    for (size_t i = 0; i < n_slots; i++)
        counts[ids[i]]++;
}

void hearth_moe_assign(struct hearth_moe_work *w, struct hearth_rows rows, const struct hearth_want *wants,
                       uint32_t n)
{
    const size_t n_slots = (size_t)(rows.n * w->c->hp->n_expert_used);
    const int *ids = hearth_moe_ids(w, rows), *counts = hearth_moe_counts(w, rows);
    int *slots = hearth_moe_slots(w, rows), *firsts = hearth_moe_firsts(w, rows), first = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int expert = (int)wants[i].space % w->c->hp->n_expert;
        w->next[expert] = firsts[expert] = first;
        first += counts[expert];
    }
    int *owners = hearth_moe_owners(w, rows);
    for (size_t i = 0; i < n_slots; i++) {
        slots[i] = w->next[ids[i]]++;
        owners[slots[i]] = ids[i];
    }
}

static void gather_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = j->work->c->hp;
    const int *slots = hearth_moe_slots(j->work, j->rows) + (size_t)task * (size_t)hp->n_expert_used;
    float *inputs = hearth_moe_rows(j->work, j->rows);
    const int n = hearth_ffn_width(hp);
    const size_t width = (size_t)n, from = (size_t)task * width;
    const float *weights = j->work->weights + (size_t)(j->rows.first + task) * (size_t)hp->n_expert_used;
    for (int i = 0; i < hp->n_expert_used; i++) {
        float *input = hearth_row_of(inputs, slots[i], n);
        memcpy(input, j->h + from, width * sizeof *input);
        for (size_t k = 0; hp->weigh_before && k < width; k++)
            input[k] *= weights[i];
        if (j->x)
            memcpy(hearth_row_of(j->work->seen, slots[i], n), j->x + from, width * sizeof *j->x);
    }
}

void hearth_moe_gather(struct hearth_moe_work *w, struct hearth_rows rows, const float *h, const float *x)
{
    struct job j = {.work = w, .rows = rows, .h = h, .x = x};
    hearth_parallel(w->c, gather_task, &j, rows.n);
}

// h = the weighted sum of the token's experts: fma(weight, output, h) from 0, ascending.
static void combine_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = j->work->c->hp;
    const int n = hearth_ffn_width(hp);
    const size_t used = (size_t)hp->n_expert_used, width = (size_t)n;
    const int *slots = hearth_moe_slots(j->work, j->rows) + (size_t)task * used;
    const float *weights = j->work->weights + (size_t)(j->rows.first + task) * used, one = 1.0f;
    float *outputs = hearth_moe_rows(j->work, j->rows);
    const int *ids = hearth_moe_ids(j->work, j->rows) + (size_t)task * used;
    const struct hearth_weight *biases = &j->work->c->weights->layers[j->layer].ffn_down_exps_b;
    float *h = hearth_row_of(j->out, j->rows.first + task, n);
    for (size_t i = 0; biases->data && i < used; i++)
        j->work->c->kernels->add(hearth_row_of(outputs, slots[i], n), hearth_bias_of(biases, ids[i]), width);
    memset(h, 0, width * sizeof *h);
    for (size_t i = 0; i < used; i++)
        j->work->c->kernels->axpy[HEARTH_TYPE_F32](h, hearth_row_of(outputs, slots[i], n), width * sizeof *h,
                                                   width, 1, hp->weigh_before ? &one : &weights[i]);
}

void hearth_moe_combine(struct hearth_moe_work *w, struct hearth_rows rows, int layer, float *h)
{
    struct job j = {.work = w, .rows = rows, .layer = layer, .out = h};
    hearth_parallel(w->c, combine_task, &j, rows.n);
}

// ---- the layer behind this one

// Rows of a step for which the next layer's experts are guessed; more would want most of them.
#define GUESS_ROWS 8

// A prompt wants nearly all; of a step, that layer's router is asked. What it works in is filled by
// gathering, later.
int hearth_moe_guess(struct hearth_moe_work *w, struct hearth_rows rows, int behind, const float *x)
{
    const struct hearth_hparams *hp = w->c->hp;
    int n = 0;
    if (rows.phase == HEARTH_PHASE_PROMPT) {
        for (; n < hp->n_expert && rows.n * hp->n_expert_used >= 2 * hp->n_expert; n++)
            w->guess[n] = n;
        return n;
    }
    if (rows.n > GUESS_ROWS || (hp->layer_norm && !hearth_is_by_token(hp, behind)))
        return 0;
    for (int i = 0; hearth_is_by_token(hp, behind) && i < rows.n; i++, n += hp->n_expert_used)
        look_up(w, behind, rows.first + i, w->guess + n);
    if (n) // which are known
        return n;
    const struct hearth_layer *next = &w->c->weights->layers[behind];
    const bool own = hearth_has(&next->ffn_router_norm);
    // Those of another class may hold its outputs.
    float *normed = hp->n_embd_exp ? w->normed : hearth_moe_rows(w, rows);
    for (int i = 0; i < rows.n && hp->early_router; i++)
        memcpy(hearth_row_of(normed, i, hp->n_embd), x + (size_t)(rows.first + i) * (size_t)hp->n_embd,
               (size_t)hp->n_embd * sizeof *x);
    for (int i = 0; i < rows.n && !hp->early_router; i++)
        w->c->kernels->rms_norm(hearth_row_of(normed, i, hp->n_embd),
                                x + (size_t)(rows.first + i) * (size_t)hp->n_embd,
                                hearth_vector_of(own ? &next->ffn_router_norm : &next->ffn_norm),
                                (size_t)hp->n_embd, hp->norm_eps);
    struct hearth_product router = {.w = next->ffn_router, .out = w->scores, .n = rows.n};
    hearth_matmul(w->matmul, rows.phase, &router, 1, normed, rows.n);
    for (int i = 0; i < rows.n; i++, n += hp->n_expert_used)
        choose_best(rate(w, behind, i), hp->n_expert, w->guess + n, hp->n_expert_used);
    return n;
}

// ---- opening

// Whether something else than scores decides which experts are chosen.
static bool has_choices(const struct hearth_hparams *hp)
{
    return hp->expert_gating != HEARTH_GATING_SOFTMAX || hp->n_group || hp->softmax_choice;
}

void hearth_moe_lay_out(struct hearth_moe_work *w, int max_rows, int max_steps, bool seen,
                        struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const size_t t = (size_t)max_rows, used = (size_t)hp->n_expert_used, n = (size_t)hp->n_expert;
    const size_t steps = (size_t)max_steps * used;
    const size_t guesses = GUESS_ROWS * used > n ? GUESS_ROWS * used : n, f32 = sizeof(float);
    w->scores = hearth_arena_take(a, t, n * f32);
    w->choices = hearth_arena_take(a, has_choices(hp) ? t : 0, n * f32);
    w->normed = hearth_arena_take_rows(a, hp->router_scale != 1.0f || hp->n_embd_exp ? t : 0,
                                       (size_t)max_steps, (size_t)hp->n_embd * f32);
    w->ids = hearth_arena_take(a, t * used, sizeof *w->ids);
    w->weights = hearth_arena_take(a, t * used, f32);
    w->slots = hearth_arena_take(a, t * used, sizeof *w->slots);
    w->owners = hearth_arena_take(a, t * used, sizeof *w->owners);
    w->counts = hearth_arena_take(a, 2 * n, sizeof *w->counts);
    w->firsts = hearth_arena_take(a, 2 * n, sizeof *w->firsts);
    w->next = hearth_arena_take(a, n, sizeof *w->next);
    w->guess = hearth_arena_take(a, guesses, sizeof *w->guess);
    w->rows = hearth_arena_take_rows(a, t * used, steps, (size_t)hearth_ffn_width(hp) * f32);
    w->seen = seen ? hearth_arena_take(a, steps, (size_t)hp->n_embd * f32) : NULL;
}
