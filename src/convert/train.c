// SPDX-License-Identifier: MIT
// Trains predictors: see train.h. Of each layer, all windows of the text pass it; what its feed-forward part
// takes in and what its neurons give are kept, in scratch files where there is a budget; then a predictor is
// fitted to each space (predictor.c), and the layer's are written to a file of their own.
#include "convert/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "convert/magnitudes.h"
#include "convert/trainer.h"
#include "model/arch.h"
#include "model/ffn.h"
#include "model/load.h"

#define DEFAULT_CTX    512
#define DEFAULT_STEPS  1000
#define DEFAULT_RECALL 0.98f
#define DEFAULT_SHARE  0.1f
#define BATCH          256
#define HELD_EVERY     10
// Samples of an expert: with fewer, what was found says nothing about what will be.
#define LEAST_TRAIN 64
#define LEAST_HELD  8
// Of memory that samples may take where there is no budget.
#define STATE_BYTES (UINT64_C(4) << 30)

// ---- what passes a layer

// The token that a row stands for; false: it does not count.
static bool token_of(const struct hearth_trainer *t, struct hearth_row row, uint64_t *token)
{
    struct hearth_walk_place place;
    const bool counts = hearth_walk_row(&t->walk, row, &place);
    *token = counts ? t->firsts[place.window] + (uint64_t)place.token : 0;
    return counts;
}

static void note(struct hearth_trainer *t, int rc, const struct hearth_error *err)
{
    if (rc && !t->rc) {
        t->rc = rc;
        t->callback_err = *err;
    }
}

// Inputs of a layer.
static struct hearth_row_store *inputs_of(struct hearth_trainer *t, int layer)
{
    return &t->inputs[t->params.early ? layer % 2 : 0];
}

static void on_ffn(void *arg, enum hearth_phase phase, int layer, struct hearth_row row, const float *normed,
                   const float *stream)
{
    (void)phase;
    (void)layer;
    struct hearth_trainer *t = arg;
    struct hearth_error err;
    uint64_t token;
    if (!t->sizing && token_of(t, row, &token))
        note(t, hearth_row_store_write(inputs_of(t, t->layer), token, 1, t->stream ? stream : normed, &err),
             &err);
}

static void on_neurons(void *arg, int layer, int expert, struct hearth_row row, const float *act)
{
    (void)layer;
    struct hearth_trainer *t = arg;
    struct hearth_error err;
    uint64_t token;
    if (t->sizing || !token_of(t, row, &token))
        return;
    const uint64_t at = token * t->n_used + t->n_spaces[token]++;
    t->experts[at] = expert;
    for (size_t j = 0; j < t->n_ff; j++)
        t->codes[j] = hearth_code(fabsf(act[j]));
    note(t, hearth_row_store_write(&t->targets, at, 1, t->codes, &err), &err);
}

// Comes after on_neurons, space by space in the same order: neurons below the threshold are not active.
static void on_gates(void *arg, int layer, int expert, struct hearth_row row, const float *gates)
{
    (void)layer;
    (void)expert;
    struct hearth_trainer *t = arg;
    struct hearth_error err;
    uint64_t token;
    if (!token_of(t, row, &token))
        return;
    if (t->sizing) {
        hearth_magnitudes_count(t->sizes, gates, t->n_ff);
        return;
    }
    const uint64_t at = token * t->n_used + t->n_gates[token]++;
    note(t, hearth_row_store_read(&t->targets, at, 1, t->codes, &err), &err);
    for (size_t j = 0; j < t->n_ff; j++)
        t->codes[j] = fabsf(gates[j]) < t->least ? 0 : t->codes[j];
    note(t, hearth_row_store_write(&t->targets, at, 1, t->codes, &err), &err);
}

static int pass_all(struct hearth_trainer *t, bool keep)
{
    t->rc = HEARTH_OK;
    memset(t->n_spaces, 0, t->n_tokens);
    memset(t->n_gates, 0, t->n_tokens);
    for (size_t i = 0; i < t->n_tokens * t->n_used; i++)
        t->experts[i] = -1;
    int rc = hearth_walk_pass(&t->walk, t->layer, 0, t->walk.n_windows, keep, t->err);
    if (!rc && t->rc) {
        *t->err = t->callback_err;
        rc = t->rc;
    }
    return rc;
}

// Takes the text through the layer; `train`: what passes is kept.
static int walk_layer(struct hearth_trainer *t, bool train)
{
    struct hearth_probes *probes = hearth_session_probes(t->walk.s);
    *probes = (struct hearth_probes){0};
    probes->on_ffn_arg = t;
    if (train || t->params.early) // the next layer's predictors may see what this one's do not need
        probes->on_ffn = on_ffn;
    if (train) {
        probes->on_neurons = on_neurons;
        probes->on_gates = t->by_gates ? on_gates : NULL;
        probes->on_neurons_arg = probes->on_gates_arg = t;
    }
    int rc = hearth_walk_enter(&t->walk, t->layer, t->err);
    if (rc)
        return rc;
    t->least = t->params.sparsity_threshold;
    if (train && t->params.sparsity_share > 0) {
        float percentiles[HEARTH_MAGNITUDES];
        memset(t->sizes, 0, HEARTH_MAGNITUDE_BINS * sizeof *t->sizes);
        t->sizing = true;
        rc = pass_all(t, false);
        t->sizing = false;
        hearth_magnitudes_measure(t->sizes, percentiles);
        t->least = hearth_magnitude_at(percentiles, (double)t->params.sparsity_share);
    }
    if (!rc)
        rc = pass_all(t, true);
    hearth_walk_leave(&t->walk, t->layer);
    return rc;
}

// ---- one space

static bool is_held(size_t window)
{
    return window % HELD_EVERY == HELD_EVERY - 1;
}

// Samples of the space: those of windows that are held out last.
static struct hearth_samples list_samples(struct hearth_trainer *t, int expert)
{
    const int seen = t->params.early && t->layer ? t->layer - 1 : t->layer;
    struct hearth_samples s = {.inputs = inputs_of(t, seen), .targets = &t->targets, .train = t->samples};
    size_t n = 0;
    for (int held = 0; held < 2; held++) {
        for (size_t w = 0; w < t->walk.n_windows; w++)
            for (int i = 0; i < t->windows[w].n && is_held(w) == (held > 0); i++) {
                const uint64_t token = t->firsts[w] + (uint64_t)i;
                for (size_t used = 0; used < t->n_used; used++)
                    if (t->experts[token * t->n_used + used] == expert)
                        t->samples[n++] =
                            (struct hearth_sample){(uint32_t)token, (uint32_t)(token * t->n_used + used)};
            }
        *(held ? &s.n_held : &s.n_train) = n;
    }
    s.n_held -= s.n_train;
    s.held = t->samples + s.n_train;
    return s;
}

// The walk takes a small part of a layer's time, training the rest.
#define WALK_SHARE 0.1f

static bool report(struct hearth_trainer *t, float layer_share)
{
    const float share = ((float)t->layer + layer_share) / (float)t->n_layer;
    return !t->params.progress || t->params.progress(t->params.progress_arg, share);
}

static bool on_walk(void *arg, int layer, float share)
{
    (void)layer;
    return report(arg, share * WALK_SHARE);
}

static bool on_step(void *arg)
{
    struct hearth_trainer *t = arg;
    const float done = (float)++t->steps_done / (float)t->steps_all;
    return report(t, WALK_SHARE + (1 - WALK_SHARE) * (done < 1 ? done : 1));
}

// The expert whose gate is read.
struct gate {
    const struct hearth_trainer *t;
    const struct hearth_weight *w;
    int expert;
};

static int read_gate(void *arg, size_t neuron, float *row, struct hearth_error *err)
{
    const struct gate *g = arg;
    const struct hearth_trainer *t = g->t;
    const int rc = hearth_expert_rows_read(t->model, g->w, g->expert, neuron, 1, t->row, err);
    if (!rc)
        hearth_type_info(g->w->type)->decode(t->row, row, t->n_embd);
    return rc;
}

static int fit_space(struct hearth_trainer *t, int expert, const struct hearth_samples *s,
                     const struct hearth_predictor_shape *shapes, int n_shapes)
{
    const struct hearth_ffn ffn = hearth_ffn_of(&t->model->hp, &t->model->weights.layers[t->layer]);
    struct gate gate = {t, hearth_has(ffn.gate) ? ffn.gate : ffn.up, expert};
    struct hearth_predictor_params params = {.recall = t->params.recall,
                                             .steps = (uint64_t)t->params.steps,
                                             .seed = t->params.seed * 1000003 + (uint64_t)t->layer * 4099 +
                                                     (uint64_t)expert,
                                             .neuron_bytes = t->neuron_bytes,
                                             .n_shapes = n_shapes,
                                             .gate = read_gate,
                                             .gate_arg = &gate,
                                             .progress = on_step,
                                             .progress_arg = t};
    memcpy(params.shapes, shapes, (size_t)n_shapes * sizeof *shapes);
    return hearth_predictor_fit(&t->net, s, &params, &t->fit, t->err);
}

// The expert with most samples: nothing can be left to chance here.
static int fit_first(struct hearth_trainer *t, int expert)
{
    const struct hearth_samples s = list_samples(t, expert);
    if (s.n_train && s.n_held)
        return fit_space(t, expert, &s, t->shapes, t->n_shapes);
    return hearth_fail(t->err, HEARTH_E_INVALID,
                       "the text is too short: layer %d has %zu samples to train with and %zu held out",
                       t->layer, s.n_train, s.n_held);
}

// Where an expert has too few samples to learn from, its predictor names all neurons: nothing is lost, and
// tokens that use it are rare.
static int fit_other(struct hearth_trainer *t, int expert, struct hearth_predictor_shape shape,
                     struct hearth_train_layer *layer)
{
    const struct hearth_samples s = list_samples(t, expert);
    if (s.n_train >= LEAST_TRAIN && s.n_held >= LEAST_HELD)
        return fit_space(t, expert, &s, &shape, 1);
    layer->untrained++;
    t->steps_done += (uint64_t)t->params.steps;
    t->fit.shape = shape;
    return hearth_predictor_name_all(&t->fit, t->n_embd, t->n_ff, t->err);
}

// ---- one layer

// Of a feed-forward part, or of an expert.
static double bytes_of_part(const struct hearth_trainer *t)
{
    const struct hearth_weight *linear = &t->model->weights.layers[0].ffn_linear;
    return t->neuron_bytes * (double)t->n_ff + (double)(linear->n * linear->stride);
}

static size_t count_samples(const struct hearth_trainer *t, int expert)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_tokens * t->n_used; i++)
        n += t->experts[i] == expert;
    return n;
}

static void add_fit(struct hearth_trainer *t, int expert, struct hearth_train_layer *layer)
{
    const struct hearth_predictor *fit = &t->fit;
    const float n = (float)t->n_expert;
    const size_t fc1 = hearth_predictor_matrix_bytes(fit->shape, 1, t->n_embd, t->n_ff);
    const size_t fc2 = hearth_predictor_matrix_bytes(fit->shape, 2, t->n_embd, t->n_ff);
    memcpy(t->fc1 + (size_t)expert * fc1, fit->fc1, fc1);
    memcpy(t->fc2 + (size_t)expert * fc2, fit->fc2, fc2);
    layer->rank = (uint32_t)fit->shape.rank;
    layer->wide = fit->shape.wide;
    layer->recall += fit->recall / n;
    layer->active += fit->active / n;
    layer->chosen += fit->chosen / n;
    layer->bytes = (float)((double)(fc1 + fc2) / bytes_of_part(t));
}

// All experts of a layer have predictors of one shape, which the expert with most samples chooses.
static int fit_layer(struct hearth_trainer *t, struct hearth_train_layer *layer)
{
    int first = 0;
    for (int e = 1; e < (int)t->n_expert; e++)
        first = count_samples(t, e) > count_samples(t, first) ? e : first;
    t->steps_done = 0;
    t->steps_all =
        (uint64_t)t->params.steps * (t->n_expert + (t->n_shapes > 2 ? 2 : (size_t)t->n_shapes) - 1);
    int rc = fit_first(t, first);
    if (rc)
        return rc;
    const struct hearth_predictor_shape shape = t->fit.shape;
    add_fit(t, first, layer);
    for (int e = 0; e < (int)t->n_expert && !rc; e++) {
        if (e == first)
            continue;
        rc = fit_other(t, e, shape, layer);
        if (!rc)
            add_fit(t, e, layer);
    }
    layer->active *= (float)t->n_expert / (float)(t->n_expert - layer->untrained);
    return rc;
}

static double seconds_since(uint64_t start)
{
    return (double)(hearth_now_ns() - start) / 1e9;
}

static int do_layer(struct hearth_trainer *t)
{
    struct hearth_train_layer layer = {.layer = t->layer};
    const bool kept = hearth_trainer_has_layer(t, t->layer, &layer);
    const uint64_t start = hearth_now_ns();
    int rc = walk_layer(t, !kept);
    layer.walk_s = seconds_since(start);
    const uint64_t then = hearth_now_ns();
    if (!rc && !kept)
        rc = fit_layer(t, &layer);
    layer.train_s = seconds_since(then);
    if (!rc && !kept)
        rc = hearth_trainer_put_layer(t, &layer);
    layer.kept = kept;
    t->n_untrained += layer.untrained;
    if (!rc && t->params.on_layer)
        t->params.on_layer(t->params.on_layer_arg, &layer);
    return rc;
}

// ---- opening

// Whether a model with predictors can be opened and packed.
static int check_model(const struct hearth_trainer *t)
{
    const struct hearth_model *m = t->model;
    const size_t fc1 = m->hp.n_expert ? offsetof(struct hearth_layer, pred_fc1_exps)
                                      : offsetof(struct hearth_layer, pred_fc1);
    if (m->pack)
        return hearth_fail(
            t->err, HEARTH_E_INVALID,
            "%s: this is a pack; train predictors for the model that it was made of, and pack that",
            m->info.path);
    if (!hearth_arch_has_field(m->arch, fc1))
        return hearth_fail(t->err, HEARTH_E_UNSUPPORTED,
                           "%s: predictors of models of architecture %s are not supported", m->info.path,
                           m->arch->name);
    if (hearth_arch_has_need(m->arch, HEARTH_EACH_VECTOR))
        return hearth_fail(t->err, HEARTH_E_UNSUPPORTED,
                           "%s: predictors are for packs, and packs of models whose experts have biases are "
                           "not supported",
                           m->info.path);
    return HEARTH_OK;
}

static int check_request(const struct hearth_trainer *t)
{
    const struct hearth_model *m = t->model;
    const struct hearth_train_params *p = &t->params;
    const int rc = check_model(t);
    if (rc)
        return rc;
    if (hearth_ffn_used(&m->hp) > UINT8_MAX)
        return hearth_fail(t->err, HEARTH_E_UNSUPPORTED,
                           "%s: a token uses %d experts, %d at most are supported here", m->info.path,
                           hearth_ffn_used(&m->hp), UINT8_MAX);
    if (m->hp.n_pos == 1)
        return hearth_fail(t->err, HEARTH_E_UNSUPPORTED,
                           "%s: the model knows one position; training takes windows of two tokens or more",
                           m->info.path);
    if (t->by_gates && !(p->sparsity_threshold > 0) && !(p->sparsity_share > 0 && p->sparsity_share < 1))
        return hearth_fail_param(
            t->err, HEARTH_E_INVALID, "sparsity_share",
            "%s: with this model's activation every neuron is always active: a threshold has to say which "
            "ones are left out, for instance 40%%",
            m->info.path);
    if (!t->by_gates && p->sparsity_share > 0)
        return hearth_fail_param(t->err, HEARTH_E_INVALID, "sparsity_share",
                                 "%s: this model's activations say themselves which neurons are active",
                                 m->info.path);
    if (p->early && t->stream)
        return hearth_fail(
            t->err, HEARTH_E_UNSUPPORTED,
            "%s: predictors of PowerInfer's files look at the layer's own stream, never at the layer "
            "before",
            m->info.path);
    if (!(p->recall > 0 && p->recall <= 1) || !(p->share > 0 && p->share <= 1))
        return hearth_fail(t->err, HEARTH_E_INVALID, "recall and share of bytes are above 0 and at most 1");
    if (!hearth_predictor_can(t->n_embd))
        return hearth_fail(
            t->err, HEARTH_E_UNSUPPORTED,
            "%s: predictors of models whose width (%zu) is no multiple of 32 are not supported", m->info.path,
            t->n_embd);
    return HEARTH_OK;
}

static int context_of(const struct hearth_model *model, int n_ctx)
{
    const int most = model->hp.n_pos ? model->hp.n_pos : 1 << 26;
    n_ctx = n_ctx > 1 ? n_ctx : DEFAULT_CTX;
    return n_ctx < most ? n_ctx : most;
}

// Tokens of the text in a window.
static size_t room_of(const struct hearth_model *model, int n_ctx)
{
    return (size_t)context_of(model, n_ctx) - (hearth_token_bos(model) >= 0);
}

size_t hearth_train_windows(const struct hearth_model *model, int n_ctx, size_t n_tokens)
{
    const size_t room = room_of(model, n_ctx);
    return (n_tokens + room - 1) / room;
}

static int list_windows(struct hearth_trainer *t, size_t n_tokens)
{
    const int n_ctx = context_of(t->model, t->params.n_ctx);
    const size_t room = room_of(t->model, n_ctx), n = hearth_train_windows(t->model, n_ctx, n_tokens);
    if (n < HEARTH_TRAIN_LEAST_WINDOWS)
        return hearth_fail_param(
            t->err, HEARTH_E_INVALID, "n_ctx",
            "the text has %zu tokens, which fill %zu window%s of %d; training needs at least %d, and is good "
            "from some thousands on",
            n_tokens, n, n == 1 ? "" : "s", n_ctx, HEARTH_TRAIN_LEAST_WINDOWS);
    t->windows = hearth_calloc(n, sizeof *t->windows);
    t->firsts = hearth_calloc(n, sizeof *t->firsts);
    if (!t->windows || !t->firsts)
        return hearth_fail(t->err, HEARTH_E_MEMORY, "no memory for the windows of a text");
    for (size_t i = 0; i < n; i++) {
        const size_t at = i * room, left = n_tokens - at;
        t->windows[i] = (struct hearth_window){at, (int)(left < room ? left : room)};
        t->firsts[i] = at;
    }
    t->n_tokens = n_tokens;
    t->walk.windows = t->windows;
    t->walk.n_windows = n;
    t->walk.n_ctx = n_ctx;
    return HEARTH_OK;
}

static void list_shapes(struct hearth_trainer *t)
{
    const double most = (double)t->params.share * bytes_of_part(t);
    t->n_shapes = hearth_predictor_list(t->n_embd, t->n_ff, most, t->params.form != HEARTH_PREDICTOR_WIDE,
                                        t->params.form != HEARTH_PREDICTOR_NARROW, t->shapes);
    hearth_predictor_size_net(&t->net, t->shapes, t->n_shapes);
}

static double bytes_of_neuron(const struct hearth_trainer *t)
{
    double most = 0;
    for (size_t i = 0; i < t->n_layer; i++) {
        const struct hearth_ffn f = hearth_ffn_of(&t->model->hp, &t->model->weights.layers[i]);
        double bytes = hearth_has(f.gate) ? (double)f.gate->stride : 0;
        bytes += (double)f.up->stride;
        bytes += hearth_has(f.down_t) ? (double)f.down_t->stride
                                      : (double)f.down->stride * (double)t->n_embd / (double)t->n_ff;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int open_net(struct hearth_trainer *t)
{
    struct hearth_net *n = &t->net;
    struct hearth_arena measure = {0};
    int rc = hearth_pool_open(&t->pool, hearth_pool_threads(t->params.n_threads), t->err);
    if (rc)
        return rc;
    n->e = t->n_embd;
    n->f = t->n_ff;
    n->b = BATCH;
    n->kernels = &t->model->kernels;
    n->pool = t->pool;
    hearth_net_lay_out(n, &measure);
    rc = hearth_region_open(&t->memory, measure.used, "training a predictor", t->err);
    if (rc)
        return rc;
    memset(t->memory.base, 0, t->memory.size); // so that a budget knows of it
    struct hearth_arena assign = {.base = t->memory.base, .size = t->memory.size};
    hearth_net_lay_out(n, &assign);
    return HEARTH_OK;
}

static int take_memory(struct hearth_trainer *t)
{
    const size_t slots = t->n_tokens * t->n_used;
    const size_t most = hearth_predictor_most_bytes(t->shapes, t->n_shapes, t->n_embd, t->n_ff);
    bool enough = true;
    t->experts = hearth_take(slots, sizeof *t->experts, &enough);
    t->samples = hearth_take(slots, sizeof *t->samples, &enough);
    t->n_spaces = hearth_take(t->n_tokens, 1, &enough);
    t->n_gates = hearth_take(t->n_tokens, 1, &enough);
    t->codes = hearth_take(t->n_ff, 1, &enough);
    t->fit.fc1 = hearth_take(most, 1, &enough);
    t->fit.fc2 = hearth_take(most, 1, &enough);
    t->fc1 = hearth_take(most, t->n_expert, &enough);
    t->fc2 = hearth_take(most, t->n_expert, &enough);
    t->row = hearth_take(t->n_embd, sizeof(float), &enough);
    t->sizes = hearth_take(HEARTH_MAGNITUDE_BINS, sizeof *t->sizes, &enough);
    if (!enough)
        return hearth_fail(t->err, HEARTH_E_MEMORY, "no memory to train predictors");
    int rc = slots > UINT32_MAX
                 ? hearth_fail(t->err, HEARTH_E_INVALID, "a text of %zu tokens is too long", t->n_tokens)
                 : HEARTH_OK;
    for (int i = 0; i <= t->params.early && !rc; i++)
        rc = hearth_row_store_open(&t->inputs[i], t->n_embd * sizeof(float), t->n_tokens, t->walk.state_bytes,
                                   t->out, t->err);
    return rc ? rc : hearth_row_store_open(&t->targets, t->n_ff, slots, t->walk.state_bytes, t->out, t->err);
}

static void close_trainer(struct hearth_trainer *t)
{
    void *memory[] = {t->windows, t->firsts,  t->experts, t->samples, t->n_spaces, t->n_gates, t->codes,
                      t->fit.fc1, t->fit.fc2, t->fc1,     t->fc2,     t->row,      t->sizes};
    hearth_walk_close(&t->walk);
    hearth_row_store_close(&t->inputs[0]);
    hearth_row_store_close(&t->inputs[1]);
    hearth_row_store_close(&t->targets);
    hearth_pool_close(&t->pool);
    hearth_region_close(&t->memory);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
}

static struct hearth_train_params settle_params(const struct hearth_train_params *params)
{
    struct hearth_train_params p = *params;
    p.recall = p.recall > 0 ? p.recall : DEFAULT_RECALL;
    p.share = p.share > 0 ? p.share : DEFAULT_SHARE;
    p.steps = p.steps > 0 ? p.steps : DEFAULT_STEPS;
    return p;
}

static int open_walk(struct hearth_trainer *t)
{
    t->walk.params = hearth_session_params_default();
    t->walk.params.sparsity = HEARTH_SPARSITY_OFF;
    return hearth_walk_open(&t->walk, t->err);
}

int hearth_train_predictors(const struct hearth_model *model, const hearth_token *tokens, size_t n_tokens,
                            const struct hearth_train_params *params, const char *out,
                            struct hearth_error *err)
{
    const struct hearth_hparams *hp = &model->hp;
    struct hearth_trainer t = {.model = model,
                               .params = settle_params(params),
                               .out = out,
                               .err = err,
                               .n_layer = (size_t)hp->n_layer,
                               .n_expert = (size_t)hearth_ffn_experts(hp),
                               .n_ff = (size_t)hearth_ffn_neurons(hp),
                               .n_embd = (size_t)hp->n_embd,
                               .n_used = (size_t)hearth_ffn_used(hp),
                               .by_gates = !hearth_is_relu(hp),
                               .stream = hearth_gguf_is_pwri(model->gguf)};
    t.walk = (struct hearth_walk){.model = model,
                                  .tokens = tokens,
                                  .n_threads = params->n_threads,
                                  .n_ubatch = params->n_ubatch,
                                  .beside = out,
                                  .state_bytes = model->load.ram ? 0 : STATE_BYTES,
                                  .progress = on_walk,
                                  .progress_arg = &t};
    t.neuron_bytes = bytes_of_neuron(&t);
    int rc = check_request(&t);
    if (!rc)
        rc = list_windows(&t, n_tokens);
    if (!rc) {
        list_shapes(&t);
        rc = hearth_trainer_check_disk(&t);
    }
    if (!rc)
        rc = hearth_trainer_hash(&t, tokens, n_tokens);
    if (!rc)
        rc = open_net(&t);
    if (!rc)
        rc = take_memory(&t);
    if (!rc)
        rc = open_walk(&t);
    for (; t.layer < hp->n_layer && !rc; t.layer++)
        rc = do_layer(&t);
    if (!rc)
        rc = hearth_trainer_write(&t);
    if (!rc && t.n_untrained)
        hearth_log(
            HEARTH_LOG_WARNING,
            "%zu of %zu experts had too few samples to learn from: their predictors name all neurons; a "
            "longer text trains them, too",
            t.n_untrained, t.n_layer * t.n_expert);
    close_trainer(&t);
    return rc;
}
