// SPDX-License-Identifier: MIT
// Spending a memory budget.
#include "plan/budget.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define LIMIT         (UINT64_C(1) << 56) // upper limit of any size: sums of a few cannot overflow
#define LIMIT_EXPERTS (1u << 20)
#define PARTS         4096 // granularity in which neurons of equal worth are shared out

// The planner's numbers for each space.
struct space_work {
    uint32_t least; // neurons of one token: the smallest quota
    uint32_t hot;   // leading neurons that are resident if they are kept
    uint32_t above; // neurons worth more than the border
    uint32_t equal; // neurons worth exactly the border
    uint32_t keep;
    bool falling; // no neuron is active more often than the one before it
};

struct budget {
    const struct hearth_budget_params *p;
    struct space_work *work;                        // [n_spaces]
    struct hearth_cache_space_params *cache_spaces; // [n_spaces]
    uint32_t reserve;
    uint64_t all_bytes; // bytes of all neurons in matrices
    // The parts of the last cost().
    uint64_t resident_bytes;
    struct hearth_cache_sizes cache;
};

// ---- sizes

static uint64_t matrix_bytes(const struct hearth_budget_space *s, uint32_t n)
{
    return ((uint64_t)n * s->row_bytes + 191) / 64 * 64; // three matrices, each aligned to a cache line
}

// Worth per byte of keeping neuron j in memory.
static float worth_of(const struct hearth_budget_space *s, uint32_t j)
{
    return s->visit * (s->share ? s->share[j] : HEARTH_BUDGET_DENSITY) / (float)s->bundle_bytes;
}

// Expected number of neurons that a step of n tokens computes in a space that it visits.
static double expected(const struct hearth_budget_space *s, uint32_t n)
{
    if (!s->share)
        return s->n_neurons * (1 - pow(1 - (double)HEARTH_BUDGET_DENSITY, n));
    double sum = 0;
    for (uint32_t j = 0; j < s->n_neurons; j++) {
        const float share = s->share[j] > 0 ? s->share[j] < 1 ? s->share[j] : 1 : 0;
        sum += n == 1 ? (double)share : 1 - pow(1 - (double)share, n);
    }
    return sum;
}

// Bytes of the kept neurons: min(keep, hot) resident, the others in the cache.
static int cost(struct budget *b, uint64_t *bytes, struct hearth_error *err)
{
    const struct hearth_budget_params *p = b->p;
    b->resident_bytes = 0;
    b->cache = (struct hearth_cache_sizes){0};
    for (uint32_t i = 0; i < p->n_spaces; i++) {
        const struct hearth_budget_space *s = &p->spaces[i];
        uint32_t resident = b->work[i].keep < b->work[i].hot ? b->work[i].keep : b->work[i].hot;
        b->resident_bytes += resident ? matrix_bytes(s, resident) : 0;
        b->cache_spaces[i] = (struct hearth_cache_space_params){.n_neurons = s->n_neurons,
                                                                .bundle_bytes = s->bundle_bytes,
                                                                .file_offset = s->file_offset,
                                                                .resident = resident,
                                                                .quota = b->work[i].keep - resident};
    }
    int rc = HEARTH_OK;
    if (p->n_spaces)
        rc = hearth_cache_measure(&(struct hearth_cache_params){.policy = p->policy,
                                                                .n_spaces = p->n_spaces,
                                                                .spaces = b->cache_spaces,
                                                                .align = p->align,
                                                                .reserve = b->reserve,
                                                                .slab_bytes = p->slab_bytes,
                                                                .growth = p->lendable},
                                  &b->cache, err);
    *bytes = b->resident_bytes + b->cache.region_bytes + b->cache.table_bytes;
    return rc;
}

static int check(const struct hearth_budget_params *p, struct hearth_error *err)
{
    bool ok = p->batch >= 1 && p->lendable < LIMIT && p->kv < LIMIT && p->workspace < LIMIT &&
              p->io < LIMIT && p->norms < LIMIT && p->embedding < LIMIT && p->head < LIMIT &&
              p->n_layers < 1u << 20;
    uint64_t dense = 0;
    for (uint32_t i = 0; ok && i < p->n_layers; i++) {
        ok = p->dense[i] < LIMIT && dense < LIMIT;
        dense += p->dense[i];
    }
    ok = ok && p->n_elsewhere <= p->n_layers;
    ok = ok && (!p->n_experts || (p->common_experts && p->n_experts < LIMIT_EXPERTS));
    for (uint32_t i = 0; ok && p->n_experts && i < p->n_layers; i++)
        ok = p->expert_bytes[i] < (LIMIT / p->n_layers) / p->n_experts;
    uint64_t neurons = 0;
    for (uint32_t i = 0; ok && i < p->n_spaces; i++) {
        const struct hearth_budget_space *s = &p->spaces[i];
        uint64_t bytes =
            (uint64_t)s->n_neurons * (s->bundle_bytes > s->row_bytes ? s->bundle_bytes : s->row_bytes);
        ok = s->n_neurons && s->bundle_bytes && s->row_bytes && s->visit >= 0 && s->visit <= 1 &&
             neurons < LIMIT;
        neurons += bytes;
    }
    if (!ok || neurons >= LIMIT || dense >= LIMIT)
        return hearth_fail(err, HEARTH_E_INVALID, "sizes of the model make no sense to plan its memory with");
    return HEARTH_OK;
}

static bool is_falling(const struct hearth_budget_space *s)
{
    for (uint32_t j = 1; s->share && j < s->n_neurons; j++)
        if (!(s->share[j] <= s->share[j - 1]))
            return false;
    return s->share != NULL;
}

static uint32_t ceil_to(double x, uint32_t most)
{
    return x >= most ? most : (uint32_t)ceil(x);
}

static int open_budget(struct budget *b, const struct hearth_budget_params *p, struct hearth_error *err)
{
    *b = (struct budget){.p = p, .reserve = p->least_reserve};
    int rc = check(p, err);
    if (rc)
        return rc;
    b->work = hearth_calloc(p->n_spaces, sizeof *b->work);
    b->cache_spaces = hearth_calloc(p->n_spaces, sizeof *b->cache_spaces);
    if (!b->work || !b->cache_spaces)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to plan the memory budget");
    bool elsewhere = false;
    for (uint32_t i = 0; i < p->n_spaces; i++) {
        const struct hearth_budget_space *s = &p->spaces[i];
        struct space_work *w = &b->work[i];
        elsewhere |= s->elsewhere;
        w->falling = is_falling(s);
        const double one = expected(s, 1), all = p->batch == 1 ? one : expected(s, p->batch);
        w->least = s->elsewhere ? 0 : ceil_to(s->visit * one, s->n_neurons);
        while (s->share && w->hot < s->n_neurons && s->share[w->hot] * s->visit >= HEARTH_BUDGET_HOT)
            w->hot++;
        // Sets vary: make room for twice the expected number.
        uint32_t reserve = ceil_to(2 * all, s->n_neurons);
        b->reserve = reserve > b->reserve ? reserve : b->reserve;
        b->all_bytes += matrix_bytes(s, s->n_neurons);
    }
    if (elsewhere) // never are all in memory
        b->all_bytes = UINT64_MAX;
    return HEARTH_OK;
}

static void close_budget(struct budget *b)
{
    free(b->work);
    free(b->cache_spaces);
}

// ---- the floor

// Layers whose weights are needed in memory, as long as no device fails.
static uint32_t layers_here(const struct hearth_budget_params *p)
{
    return p->n_layers - p->n_elsewhere;
}

// Whether the head may stream, and is not a device's.
static bool head_streams(const struct hearth_budget_params *p)
{
    return p->head_by_part && !p->head_elsewhere;
}

// Whether something is to stream that is never in memory.
static bool has_elsewhere(const struct hearth_budget_params *p)
{
    return p->n_elsewhere || (p->head_elsewhere && p->head_by_part);
}

// Dense bytes that stream when memory is short: those of the layers and perhaps of the head.
// `largest`: the largest of them, or of those that a device has.
static uint64_t streamed_bytes(const struct hearth_budget_params *p, uint64_t *largest)
{
    uint64_t sum = 0;
    *largest = 0;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        sum += i < layers_here(p) ? p->dense[i] : 0;
        *largest = p->dense[i] > *largest ? p->dense[i] : *largest;
    }
    return sum + (head_streams(p) ? p->head : 0);
}

// Experts: one of each layer that is here, and room for those of one token, whoever has its layers.
static uint64_t experts_of_layers(const struct hearth_budget_params *p, uint64_t *common)
{
    uint64_t sum = 0, largest = 0;
    for (uint32_t i = 0; p->n_experts && i < p->n_layers; i++) {
        sum += i < layers_here(p) ? p->expert_bytes[i] : 0;
        largest = p->expert_bytes[i] > largest ? p->expert_bytes[i] : largest;
    }
    *common = p->common_experts * largest;
    return sum;
}

static uint64_t least_experts(const struct hearth_budget_params *p)
{
    uint64_t common;
    const uint64_t all = p->n_experts * experts_of_layers(p, &common);
    return common < all || p->n_elsewhere ? common : all;
}

// The smaller of two sizes: all neurons in matrices, or one token's neurons and the reserve in the cache.
static int least_neurons(struct budget *b, uint64_t *bytes, struct hearth_error *err)
{
    for (uint32_t i = 0; i < b->p->n_spaces; i++)
        b->work[i].keep = b->work[i].least;
    int rc = cost(b, bytes, err);
    if (!rc && b->all_bytes < *bytes)
        *bytes = b->all_bytes;
    return rc;
}

static int find_floor(struct budget *b, struct hearth_budget_floor *out, struct hearth_error *err)
{
    const struct hearth_budget_params *p = b->p;
    uint64_t largest, streamed = streamed_bytes(p, &largest);
    *out = (struct hearth_budget_floor){.kv = p->kv};
    // A tied embedding is also the head, which every step needs.
    bool by_row = p->embedding_by_row && p->head;
    out->always =
        p->workspace + p->io + p->norms + (by_row ? 0 : p->embedding) + (p->head_by_part ? 0 : p->head);
    out->layer_buffers = 2 * largest < streamed || has_elsewhere(p) ? 2 * largest : streamed;
    int rc = least_neurons(b, &out->working_set, err);
    out->working_set += least_experts(p);
    out->bytes = out->always + out->kv + out->layer_buffers + out->working_set;
    return rc;
}

int hearth_budget_floor(const struct hearth_budget_params *p, struct hearth_budget_floor *out,
                        struct hearth_error *err)
{
    struct budget b;
    int rc = open_budget(&b, p, err);
    if (!rc)
        rc = find_floor(&b, out, err);
    close_budget(&b);
    return rc;
}

// ---- dense weights

// Puts dense weights in memory and subtracts from *left what this takes beyond the floor.
static void spend_on_dense(const struct hearth_budget_params *p, struct hearth_budget_plan *out,
                           uint64_t *left)
{
    uint64_t largest, streamed = streamed_bytes(p, &largest), buffers = out->floor.layer_buffers;
    out->head_in_memory = !p->head_by_part;
    out->embedding_in_memory = !(p->embedding_by_row && p->head);
    out->dense_bytes = (out->embedding_in_memory ? p->embedding : 0) + (out->head_in_memory ? p->head : 0);
    if (!has_elsewhere(p) && streamed <= buffers + *left) { // without buffers, then
        *left -= streamed - buffers;
        out->dense_layers = p->n_layers;
        out->head_in_memory = true;
        out->dense_bytes += streamed;
        return;
    }
    out->layer_buffers = buffers;
    if (p->head_first && head_streams(p) && !has_elsewhere(p) && p->head <= *left) {
        *left -= p->head;
        out->dense_bytes += p->head;
        out->head_in_memory = true;
    }
    while (out->dense_layers < layers_here(p) && p->dense[out->dense_layers] <= *left) {
        *left -= p->dense[out->dense_layers];
        out->dense_bytes += p->dense[out->dense_layers++];
    }
    // One that is the embedding, too, is needed for its rows.
    const bool is_needed = head_streams(p) || (p->head_by_part && !p->embedding);
    if (has_elsewhere(p) && is_needed && out->dense_layers == layers_here(p) && p->head <= *left) {
        *left -= p->head;
        out->dense_bytes += p->head;
        out->head_in_memory = true;
    }
    out->dense_streams = out->dense_layers < layers_here(p) || (head_streams(p) && !out->head_in_memory);
}

// ---- neurons

// The order of non-negative floats is the order of their bits.
static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// Of a space whose shares fall, the neurons worth more than the border, or at least that.
static uint32_t count_falling(const struct hearth_budget_space *s, float border, bool or_equal)
{
    uint32_t low = 0, high = s->n_neurons;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const float worth = worth_of(s, middle);
        if (worth > border || (or_equal && worth == border))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// For each space, counts the neurons worth more than `border` and those worth exactly that.
static void count_worth(struct budget *b, float border)
{
    for (uint32_t i = 0; i < b->p->n_spaces; i++) {
        const struct hearth_budget_space *s = &b->p->spaces[i];
        struct space_work *w = &b->work[i];
        w->above = w->equal = 0;
        if (w->falling) {
            w->above = count_falling(s, border, false);
            w->equal = count_falling(s, border, true) - w->above;
            continue;
        }
        uint32_t n = s->share ? s->n_neurons : 1, each = s->share ? 1 : s->n_neurons;
        for (uint32_t j = 0; j < n; j++) {
            float worth = worth_of(s, j);
            w->above += worth > border ? each : 0;
            w->equal += worth == border ? each : 0;
        }
    }
}

// Keeps the neurons worth more than the border and `part` of PARTS of those that equal it, but at
// least one token's neurons.
static int fits(struct budget *b, uint32_t part, uint64_t available, bool *yes, struct hearth_error *err)
{
    for (uint32_t i = 0; i < b->p->n_spaces; i++) {
        struct space_work *w = &b->work[i];
        uint32_t keep = w->above + (uint32_t)((uint64_t)w->equal * part / PARTS);
        w->keep = b->p->spaces[i].elsewhere ? 0 : keep > w->least ? keep : w->least;
    }
    uint64_t bytes;
    int rc = cost(b, &bytes, err);
    *yes = !rc && bytes <= available;
    return rc;
}

// Finds the lowest border above which everything fits, then as much as fits of what equals it.
static int spend_on_neurons(struct budget *b, uint64_t available, struct hearth_error *err)
{
    uint32_t low = 0, high = 0x7F800000; // bits of zero and of infinity; nothing is above the latter
    int rc = HEARTH_OK;
    bool yes;
    while (low < high && !rc) {
        uint32_t middle = low + (high - low) / 2;
        count_worth(b, float_of(middle));
        rc = fits(b, 0, available, &yes, err);
        if (yes)
            high = middle;
        else
            low = middle + 1;
    }
    count_worth(b, float_of(high));
    uint32_t least = 0, most = PARTS; // the largest part that fits is between
    while (least < most && !rc) {
        uint32_t middle = least + (most - least + 1) / 2;
        rc = fits(b, middle, available, &yes, err);
        if (yes)
            least = middle;
        else
            most = middle - 1;
    }
    return rc ? rc : fits(b, least, available, &yes, err);
}

static int plan_neurons(struct budget *b, uint64_t available, struct hearth_budget_plan *out,
                        uint32_t *resident, uint32_t *quota, struct hearth_error *err)
{
    const struct hearth_budget_params *p = b->p;
    out->all_resident = b->all_bytes <= available;
    if (out->all_resident) {
        for (uint32_t i = 0; i < p->n_spaces; i++) {
            resident[i] = p->spaces[i].n_neurons;
            quota[i] = 0;
            out->resident_neurons += resident[i];
        }
        out->resident_bytes = b->all_bytes;
        return HEARTH_OK;
    }
    int rc = spend_on_neurons(b, available, err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < p->n_spaces; i++) {
        resident[i] = b->cache_spaces[i].resident;
        quota[i] = b->cache_spaces[i].quota;
        out->resident_neurons += resident[i];
        out->cold_neurons += quota[i];
    }
    out->resident_bytes = b->resident_bytes;
    out->region_bytes = b->cache.region_bytes;
    out->table_bytes = b->cache.table_bytes;
    out->reserve = b->reserve;
    return HEARTH_OK;
}

// ---- experts

// As many experts of each layer as fit beside the common slots, then one more in the first layers. Where a device has
// layers, it may fail, and there are common slots in any case.
static void plan_experts(const struct hearth_budget_params *p, uint64_t available,
                         struct hearth_budget_plan *out)
{
    uint64_t common;
    const uint64_t each = experts_of_layers(p, &common);
    if (!p->n_experts)
        return;
    out->layer_experts = p->n_experts;
    out->expert_bytes = p->n_experts * each;
    if (out->expert_bytes <= available && !p->n_elsewhere)
        return;
    assert(common <= available); // the floor has them
    const uint64_t left = available - common;
    out->common_experts = p->common_experts;
    if (out->expert_bytes > left)
        out->layer_experts = (uint32_t)(left / each);
    out->expert_bytes = common + out->layer_experts * each;
    while (out->layer_experts < p->n_experts && out->more_experts < layers_here(p) &&
           p->expert_bytes[out->more_experts] <= available - out->expert_bytes)
        out->expert_bytes += p->expert_bytes[out->more_experts++];
}

// ---- the plan

static int spend(struct budget *b, uint64_t budget, struct hearth_budget_plan *out, uint32_t *resident,
                 uint32_t *quota, struct hearth_error *err)
{
    const struct hearth_budget_params *p = b->p;
    int rc = find_floor(b, &out->floor, err);
    if (rc)
        return rc;
    const struct hearth_budget_floor *f = &out->floor;
    if (budget < f->bytes)
        return hearth_fail_param(err, HEARTH_E_BUDGET, "ram",
                                 "ram of %llu is too small: at least %llu bytes are needed",
                                 (unsigned long long)budget, (unsigned long long)f->bytes);
    uint64_t left = budget - f->bytes;
    spend_on_dense(p, out, &left);
    uint64_t available = f->working_set + left;
    rc = plan_neurons(b, available, out, resident, quota, err);
    if (rc)
        return rc;
    plan_experts(p, available, out);
    uint64_t neurons = out->resident_bytes + out->region_bytes + out->table_bytes + out->expert_bytes;
    const bool experts_stream = out->common_experts && out->layer_experts < p->n_experts;
    if (!out->embedding_in_memory && out->all_resident && !out->dense_streams && !experts_stream &&
        p->embedding <= available - neurons) {
        out->embedding_in_memory = true;
        out->dense_bytes += p->embedding;
    }
    out->bytes = p->kv + p->workspace + p->io + p->norms + out->dense_bytes + out->layer_buffers + neurons;
    assert(neurons <= available && out->bytes <= budget);
    return HEARTH_OK;
}

int hearth_budget_plan(const struct hearth_budget_params *p, uint64_t budget, struct hearth_budget_plan *out,
                       uint32_t *resident, uint32_t *quota, struct hearth_error *err)
{
    *out = (struct hearth_budget_plan){0};
    struct budget b;
    int rc = open_budget(&b, p, err);
    if (!rc)
        rc = spend(&b, budget, out, resident, quota, err);
    close_budget(&b);
    return rc;
}

// ---- lending

uint64_t hearth_budget_lend_dense(const struct hearth_budget_params *p, const struct hearth_budget_plan *plan,
                                  uint64_t lent)
{
    uint64_t used = 0;
    for (uint32_t i = plan->dense_layers; i < layers_here(p); i++) {
        if (used + p->dense[i] > lent)
            return used;
        used += p->dense[i];
    }
    if (has_elsewhere(p)) // parts of the head come behind those that are never lent anything
        return used;
    const uint64_t head = plan->head_in_memory || !p->head_by_part ? 0 : p->head;
    if (used + head <= lent)
        return used + head;
    return used + (p->head_part ? (lent - used) / p->head_part * p->head_part : 0);
}

int hearth_budget_lend(const struct hearth_budget_params *p, const struct hearth_budget_plan *plan,
                       const uint32_t *resident, const uint32_t *quota, uint32_t *most,
                       struct hearth_error *err)
{
    struct budget b;
    int rc = open_budget(&b, p, err);
    for (uint32_t i = 0; i < p->n_spaces && !rc; i++)
        b.work[i].hot = resident[i]; // prefixes stay as they are
    if (!rc)
        rc = spend_on_neurons(&b, plan->resident_bytes + plan->region_bytes + plan->table_bytes + p->lendable,
                              err);
    for (uint32_t i = 0; i < p->n_spaces && !rc; i++)
        most[i] = b.cache_spaces[i].quota > quota[i] ? b.cache_spaces[i].quota : quota[i];
    close_budget(&b);
    return rc;
}

// ---- what is left to read

static double experts_of_token(const struct hearth_budget_params *p, const struct hearth_budget_plan *plan)
{
    double bytes = 0;
    for (uint32_t i = 0; p->n_experts && i < layers_here(p); i++) {
        const double slots = plan->layer_experts + (i < plan->more_experts);
        bytes += (p->common_experts - 1) * (double)p->expert_bytes[i] * (1 - slots / p->n_experts);
    }
    return bytes;
}

// Of those behind the first `kept`, which are the ones most often active.
static double neurons_of_token(const struct hearth_budget_space *s, uint32_t kept)
{
    double n = s->share ? 0 : (double)HEARTH_BUDGET_DENSITY * (s->n_neurons - kept);
    for (uint32_t j = kept; s->share && j < s->n_neurons; j++)
        n += (double)s->share[j];
    return (double)s->visit * n * s->bundle_bytes;
}

uint64_t hearth_budget_token_bytes(const struct hearth_budget_params *p,
                                   const struct hearth_budget_plan *plan, const uint32_t *resident,
                                   const uint32_t *quota)
{
    uint64_t bytes = plan->head_in_memory || p->head_elsewhere ? 0 : p->head;
    for (uint32_t i = plan->dense_layers; i < layers_here(p); i++)
        bytes += p->dense[i];
    double sparse = experts_of_token(p, plan);
    for (uint32_t i = 0; i < p->n_spaces; i++)
        sparse += p->spaces[i].elsewhere ? 0 : neurons_of_token(&p->spaces[i], resident[i] + quota[i]);
    return bytes + (uint64_t)sparse;
}
