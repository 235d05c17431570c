// SPDX-License-Identifier: MIT
// The cost model. Its constants were measured on one machine, and say where.
#include "plan/forecast.h"

#include <math.h>

#include "model/ffn.h"
#include "plan/activity.h"
#include "store/store.h"

// Shares of the memory's speed that products reach (docs/speed.md), where the probe does not say it: of whole
// matrices, and of picked rows.
#define WHOLE_RATE 0.91
#define ROWS_RATE  0.62
// Experts' matrices, of the rate of whole ones: they are small, and each is somewhere else.
#define PARTS_RATE 0.87
// What a step takes beside its products: masks, sums, attention's arithmetic, waiting for the other threads.
#define BESIDE  1.04
#define LAYER_S 15e-6 // of each layer: its task lists begin and end
// Cache and lists, of a neuron that predictors are asked about and that streams.
#define LISTS_S 6.5e-9
// Of a neuron that was read together with others, to its place.
#define COPY_S 0.5e-6
// What is guessed in vain, of the reads of a step that looks ahead, and what nobody guesses, of experts.
#define IN_VAIN           0.1
#define EXPERTS_IN_VAIN   0.08 // more
#define EXPERTS_UNGUESSED 0.11
// Of computing and reading the shorter one is hidden, but for this share: of neurons and layers read ahead,
// of experts' neurons, of experts that are not read ahead, of neurons that are not.
#define SHOWS_AHEAD          0.2
#define SHOWS_EXPERT_NEURONS 0.4
#define SHOWS_EXPERTS        0.8
#define SHOWS_ALL            1.0
// Parts of an expert: reads.
#define EXPERT_READS 3

// ---- what is computed

static double bytes_of(const struct hearth_weight *w)
{
    return hearth_has(w) ? (double)hearth_type_bytes(w->type, w->k) * (double)w->n : 0;
}

static void add_to(double *out, const struct hearth_weight *w, double times)
{
    if (hearth_has(w))
        out[w->type] += times * bytes_of(w);
}

static void add_ffn(struct hearth_workload *out, const struct hearth_model *m, const struct hearth_layer *l,
                    enum hearth_sparsity sparsity, double density)
{
    const struct hearth_ffn f = hearth_ffn_of(&m->hp, l);
    const double used = hearth_ffn_used(&m->hp);
    const bool predicted = sparsity == HEARTH_SPARSITY_PREDICT && hearth_has(f.fc2);
    double *whole = m->hp.n_expert ? out->parts : out->whole, *rows = out->rows;
    const bool gated = sparsity != HEARTH_SPARSITY_OFF && hearth_has(f.gate);
    if (predicted) {
        add_to(whole, f.fc1, used);
        add_to(whole, f.fc2, used);
        out->predictors += used * (bytes_of(f.fc1) + bytes_of(f.fc2));
        out->neurons += used * (double)f.fc2->n;
        add_to(rows, f.gate, used * density);
    } else {
        add_to(whole, f.gate, used);
    }
    if (predicted || gated)
        add_to(rows, f.up, used * density);
    else
        add_to(whole, f.up, used);
    if (hearth_has(f.down_t))
        add_to(rows, f.down_t, used * density);
    else
        add_to(whole, f.down, used);
}

// In models with experts: what all tokens go through beside them, or in layers without.
static void add_common(struct hearth_workload *out, const struct hearth_model *m, int layer)
{
    const struct hearth_layer *l = &m->weights.layers[layer];
    const bool dense = m->hp.n_expert && !hearth_has_experts(&m->hp, layer);
    add_to(out->whole, dense ? &l->ffn_gate : &l->ffn_gate_shared, 1);
    add_to(out->whole, dense ? &l->ffn_up : &l->ffn_up_shared, 1);
    add_to(out->whole, dense ? &l->ffn_down : &l->ffn_down_shared, 1);
}

void hearth_workload_make(struct hearth_workload *out, const struct hearth_model *m,
                          enum hearth_sparsity sparsity, const double *density)
{
    *out = (struct hearth_workload){.parts_united = 1,
                                    .rows_united = 1,
                                    .early = m->hp.predictor_input == HEARTH_PREDICTOR_PREVIOUS,
                                    .n_layer = m->hp.n_layer};
    for (int i = 0; i < m->hp.n_layer; i++) {
        const struct hearth_layer *l = &m->weights.layers[i];
        const struct hearth_weight *const whole[] = {&l->attn_q,
                                                     &l->attn_k,
                                                     &l->attn_v,
                                                     &l->attn_q_a,
                                                     &l->attn_q_up,
                                                     &l->attn_kv_a,
                                                     &l->attn_kv_up,
                                                     &l->attn_k_up,
                                                     &l->attn_v_up,
                                                     &l->attn_out,
                                                     &l->attn_gate,
                                                     &l->rec_in,
                                                     &l->rec_gate,
                                                     &l->rec_alpha,
                                                     &l->rec_beta,
                                                     &l->rec_out,
                                                     &l->ffn_router,
                                                     &l->ffn_linear,
                                                     &l->ffn_exps_in,
                                                     &l->ffn_exps_out,
                                                     &l->rec_q,
                                                     &l->rec_k,
                                                     &l->rec_v,
                                                     &l->rec_fade_a,
                                                     &l->rec_fade_b,
                                                     &l->rec_gate_a,
                                                     &l->rec_gate_b,
                                                     &l->attn_mix_down,
                                                     &l->attn_mix_up,
                                                     &l->attn_inject,
                                                     &l->ffn_mix_down,
                                                     &l->ffn_mix_up,
                                                     &l->ffn_inject,
                                                     &l->choose_q,
                                                     &l->choose_k,
                                                     &l->gram_key,
                                                     &l->gram_value,
                                                     &l->choose_weigh,
                                                     &l->attn_mix,
                                                     &l->past_in,
                                                     &l->past_out,
                                                     &l->predict_router,
                                                     &l->ffn_mix,
                                                     &l->attn_out_a,
                                                     &l->blend_value,
                                                     &l->blend_gate,
                                                     &l->blend_choose_value,
                                                     &l->blend_choose_gate};
        for (size_t w = 0; w < sizeof whole / sizeof *whole; w++)
            add_to(out->whole, whole[w], 1);
        add_ffn(out, m, l, sparsity, density[i]);
        add_common(out, m, i);
    }
    add_to(out->whole, &m->weights.output, 1);
    add_to(out->whole, &m->weights.output_mix_down, 1);
    add_to(out->whole, &m->weights.output_mix_up, 1);
    add_to(out->whole, &m->weights.output_mix, 1);
    add_to(out->whole, &m->weights.streams_in, 1);
    add_to(out->whole, &m->weights.streams_out, 1);
}

// ---- how long computing takes

// The speed at which so many threads read memory.
static double memory_rate(const struct hearth_probe *p, int threads)
{
    const double alone = p->core_gb_s * threads;
    return 1e9 * (threads >= p->cores || alone > p->memory_gb_s ? p->memory_gb_s : alone);
}

// How weights are used: as whole matrices, as those of single experts, or as rows picked out of them.
enum use { USE_WHOLE, USE_PARTS, USE_ROWS };

// The speed at which weights come from memory for one token's products.
static double product_rate(const struct hearth_forecast_params *f, uint32_t type, enum use use)
{
    const struct hearth_probe *p = f->probe;
    const struct hearth_probe_kernel *k = hearth_probe_kernel_of(p, type);
    const double measured = use == USE_ROWS ? k->rows_gb_s : k->memory_gb_s,
                 usual = use == USE_ROWS ? ROWS_RATE : WHOLE_RATE,
                 share = measured > 0 ? measured / p->memory_gb_s : usual; // measured by all cores together
    return memory_rate(p, f->threads) * share * (use == USE_PARTS ? PARTS_RATE : 1);
}

// A product of `bytes` of weights with each of some tokens, which take `united` times as many bytes together:
// memory or arithmetic is the limit.
static double product_s(const struct hearth_forecast_params *f, uint32_t type, enum use use, double bytes,
                        double united)
{
    if (bytes <= 0)
        return 0;
    const struct hearth_type_info *info = hearth_type_info(type);
    const struct hearth_probe_kernel *k = hearth_probe_kernel_of(f->probe, type);
    const double macs = bytes / info->block_bytes * info->block_elems * f->tokens;
    const double one = bytes / (k->gb_s * 1e9 * f->threads), many = macs / (k->gmac_s * 1e9 * f->threads);
    const double arithmetic = f->tokens > 1 && many > one ? many : one;
    const double memory = bytes * united / product_rate(f, type, use);
    return arithmetic > memory ? arithmetic : memory;
}

static double compute_s(const struct hearth_forecast_params *f)
{
    const struct hearth_workload *w = f->workload;
    double s = w->kv_bytes * f->tokens / (memory_rate(f->probe, f->threads) * ROWS_RATE);
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        s += product_s(f, type, USE_WHOLE, w->whole[type], 1);
        s += product_s(f, type, USE_PARTS, w->parts[type], w->parts_united);
        s += product_s(f, type, USE_ROWS, w->rows[type], w->rows_united);
    }
    return s * BESIDE + w->n_layer * LAYER_S;
}

// ---- what is read

struct reading {
    double bytes, reads; // of a step
    double storage_s;
    double asked, missed; // neurons or experts that are not resident
    double copied;        // neurons that were read together with others
    double kept;          // share of all neurons
    // Of a layer's experts that are read ahead: how many, on the average, and how long each takes.
    double experts, expert_s;
};

// A read of so many bytes by itself, rounded out to what the storage reads.
static double request_s(const struct hearth_probe *p, double bytes)
{
    const double align = p->align > 1 ? p->align : 1;
    return p->request_us * 1e-6 + (ceil(bytes / align) * align) * p->byte_ns * 1e-9;
}

// Returns what is lent and no dense weights use.
static uint64_t read_dense(const struct hearth_forecast_params *f, struct reading *r)
{
    const struct hearth_budget_params *b = f->budget;
    const uint64_t kept = hearth_budget_lend_dense(b, f->plan, f->lent);
    uint64_t bytes = f->plan->head_in_memory || b->head_elsewhere ? 0 : b->head ? b->head : b->embedding;
    for (uint32_t i = f->plan->dense_layers; i < b->n_layers - b->n_elsewhere; i++)
        bytes += b->dense[i];
    r->bytes += (double)(bytes - kept);
    r->storage_s += (double)(bytes - kept) / (f->probe->sequential_gb_s * 1e9);
    return f->lent - kept;
}

// Adds the reads of a space's missing neurons. Those that lie close to each other in the file are read
// together; they are taken to lie anywhere in it alike.
static void read_bundles(const struct hearth_forecast_params *f, double missed, double share, uint32_t bundle,
                         struct reading *r)
{
    const double most = HEARTH_READ_GROUP - 2, gap = floor(fmin((double)f->gap / bundle, most));
    const double far = pow(1 - share, gap + 1); // the next one is too far away
    double reads = missed * far, over = 0;
    if (reads < missed / HEARTH_READ_GROUP)
        reads = missed / HEARTH_READ_GROUP;
    for (double i = 1; i <= gap; i++)
        over += i * share * pow(1 - share, i);
    const double bytes = missed * (1 + over) * bundle;
    r->reads += reads;
    r->bytes += bytes;
    r->storage_s += reads > 0 ? reads * request_s(f->probe, bytes / reads) : 0;
    r->copied += missed - reads;
}

// Whether steps guess the neurons of the next layer, of models without experts. Those with early predictors
// know them.
static bool guesses(const struct hearth_forecast_params *f)
{
    return f->look_ahead && f->workload->neurons > 0 && !f->workload->early &&
           f->budget->spaces[0].visit >= 1;
}

static void read_neurons(const struct hearth_forecast_params *f, struct reading *r)
{
    const struct hearth_budget_params *b = f->budget;
    const double dense_bytes = r->bytes, dense_s = r->storage_s;
    double kept = 0, all = 0;
    r->kept = 1;
    if (f->plan->all_resident)
        return;
    for (uint32_t i = 0; i < b->n_spaces; i++) {
        const struct hearth_budget_space *s = &b->spaces[i];
        const struct hearth_activity *a = &f->activity[i];
        if (s->elsewhere)
            continue;
        const double visit = 1 - pow(1 - (double)s->visit, f->tokens);
        const double missed = visit * hearth_activity_missed(a, f->resident[i] + f->quota[i], s->n_neurons);
        r->asked += visit * (a->used - hearth_activity_leading(a, f->resident[i], s->n_neurons));
        r->missed += missed;
        if (missed > 0)
            read_bundles(f, missed, missed / visit / (s->n_neurons - f->resident[i]), s->bundle_bytes, r);
        kept += f->resident[i] + f->quota[i];
        all += s->n_neurons;
    }
    r->kept = all > 0 ? kept / all : 1;
    if (!guesses(f))
        return;
    r->reads /= 1 - IN_VAIN;
    r->bytes += (r->bytes - dense_bytes) * IN_VAIN / (1 - IN_VAIN);
    r->storage_s += (r->storage_s - dense_s) * IN_VAIN / (1 - IN_VAIN);
}

static void read_experts(const struct hearth_forecast_params *f, uint64_t lent, struct reading *r)
{
    const struct hearth_budget_params *b = f->budget;
    const double used = b->common_experts - 1.0, n = b->n_experts;
    struct hearth_activity a;
    struct hearth_activity_kind kind = HEARTH_ACTIVITY_EXPERTS;
    kind.density = used / n;
    hearth_activity_make(&a, NULL, b->n_experts, &kind, f->tokens);
    const double before = r->bytes;
    double each = 0; // an expert of every layer
    const uint32_t here = b->n_layers - b->n_elsewhere;
    for (uint32_t i = 0; i < here; i++)
        each += (double)b->expert_bytes[i];
    const uint32_t more = each > 0 ? (uint32_t)((double)lent / each) : 0; // to all layers alike
    for (uint32_t i = 0; i < here; i++) {
        if (!b->expert_bytes[i]) // the layer has none
            continue;
        const uint32_t slots = f->plan->layer_experts + (i < f->plan->more_experts) + more;
        const double missed = slots >= b->n_experts ? 0 : hearth_activity_missed(&a, slots, b->n_experts);
        r->asked += a.used;
        r->missed += missed;
        const double read = missed * (f->look_ahead ? 1 + EXPERTS_IN_VAIN : 1);
        r->bytes += read * (double)b->expert_bytes[i];
        r->reads += read * EXPERT_READS;
    }
    const double seconds = (r->bytes - before) / (f->probe->sequential_gb_s * 1e9);
    r->experts = r->reads / EXPERT_READS / b->n_layers;
    r->expert_s = r->reads > 0 ? seconds / (r->reads / EXPERT_READS) : 0;
    r->storage_s += seconds;
}

// Time of the threads that reading takes: requests, lists, and predictors that are asked once more about what
// is not in memory.
static double reading_s(const struct hearth_forecast_params *f, const struct reading *r)
{
    const struct hearth_workload *w = f->workload;
    double s = (r->reads * f->probe->request_cpu_us * 1e-6 + r->copied * COPY_S) / f->threads;
    if (f->budget->n_experts) // what comes from the storage takes its share of the memory's speed
        s += r->bytes / memory_rate(f->probe, f->threads);
    if (f->budget->n_spaces && w->neurons > 0 && !f->plan->all_resident) {
        s += w->neurons * LISTS_S;
        if (guesses(f))
            s += w->predictors * (1 - r->kept) / (memory_rate(f->probe, f->threads) * ROWS_RATE);
    }
    return s;
}

// Steps that read experts ahead: each layer takes as long as what takes longer there, computing it or reading the
// experts of the next. One layer misses many, the next one none, as chance has it (Poisson). Those that nobody
// guessed are waited for while computing. Returns what is hidden of a step.
static double hidden_ahead(const struct hearth_forecast_params *f, const struct reading *r, double compute)
{
    const double layers = f->budget->n_layers, busy = compute / layers,
                 late = EXPERTS_UNGUESSED * r->expert_s,
                 dense = r->storage_s / layers - r->experts * r->expert_s;
    const uint32_t all = f->budget->n_experts; // of which no layer reads more
    double p = exp(-r->experts), left = 1, step = 0;
    for (uint32_t m = 0; m <= all; p *= r->experts / ++m) {
        const double share = m < all ? p : left;
        step += share * fmax(busy + m * late, dense + m * r->expert_s);
        left -= share;
    }
    return compute + r->storage_s - layers * step;
}

static double shows(const struct hearth_forecast_params *f)
{
    const struct hearth_budget_params *b = f->budget;
    if (b->n_spaces && !f->look_ahead)
        return SHOWS_ALL;
    if (b->n_experts)
        return SHOWS_EXPERTS;
    return b->n_spaces && b->spaces[0].visit < 1 ? SHOWS_EXPERT_NEURONS : SHOWS_AHEAD;
}

void hearth_forecast(const struct hearth_forecast_params *f, struct hearth_forecast *out)
{
    struct reading r = {0};
    *out = (struct hearth_forecast){.compute_s = compute_s(f), .hit_rate = -1};
    if (f->plan) {
        const uint64_t lent = read_dense(f, &r);
        if (f->budget->n_spaces)
            read_neurons(f, &r);
        if (f->budget->n_experts)
            read_experts(f, lent, &r);
        out->compute_s += reading_s(f, &r);
    }
    out->storage_s = r.storage_s;
    out->read_bytes = r.bytes / f->tokens;
    out->reads = r.reads / f->tokens;
    out->asked = r.asked;
    if (r.asked > 0)
        out->hit_rate = r.missed < r.asked ? 1 - r.missed / r.asked : 0;
    const double shorter = fmin(out->compute_s, out->storage_s);
    if (f->plan && f->budget->n_experts && f->look_ahead)
        out->hidden_s = hidden_ahead(f, &r, out->compute_s);
    else if (shorter > 0)
        out->hidden_s = (1 - shows(f)) * shorter;
    out->tokens_per_second = f->tokens / (out->compute_s + out->storage_s - out->hidden_s);
}

// ---- prompts

double hearth_forecast_prompt(const struct hearth_forecast_params *f, int n_ubatch)
{
    double compute = 0, bytes = 0;
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        const double weights = f->workload->whole[type] + f->workload->parts[type] + f->workload->rows[type];
        const struct hearth_type_info *info = hearth_type_info(type);
        if (weights > 0)
            compute += fmax(weights / info->block_bytes * info->block_elems * n_ubatch /
                                (hearth_probe_kernel_of(f->probe, type)->prompt_gmac_s * 1e9 * f->threads),
                            weights / memory_rate(f->probe, f->threads));
    }
    const struct hearth_budget_params *b = f->budget;
    for (uint32_t i = 0; f->plan && i < b->n_layers - b->n_elsewhere; i++)
        bytes += i < f->plan->dense_layers ? 0 : (double)b->dense[i];
    for (uint32_t i = 0; f->plan && i < b->n_spaces; i++)
        if (!b->spaces[i].elsewhere)
            bytes +=
                (double)(b->spaces[i].n_neurons - f->resident[i] - f->quota[i]) * b->spaces[i].bundle_bytes;
    for (uint32_t i = 0; f->plan && b->n_experts && i < b->n_layers - b->n_elsewhere; i++)
        bytes += (double)(b->n_experts - f->plan->layer_experts) * (double)b->expert_bytes[i];
    const double read = bytes / (f->probe->sequential_gb_s * 1e9);
    return n_ubatch / (fmax(compute, read) + SHOWS_AHEAD * fmin(compute, read));
}

uint32_t hearth_forecast_gap(const struct hearth_probe *probe)
{
    const double most = 1 << 20;
    if (probe->request_us <= 0)
        return 1;
    const double gap = probe->byte_ns > 0 ? 1e3 * probe->request_us / probe->byte_ns : most;
    return gap < 1 ? 1 : (uint32_t)fmin(gap, most);
}
