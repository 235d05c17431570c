// SPDX-License-Identifier: MIT
// Opening: the budget is planned among the sources, spent, and what it buys is read.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/claims.h"
#include "base/log.h"
#include "base/os.h"
#include "model/ffn.h"
#include "model/load.h"
#include "weights/sources.h"
#include "weights/tests.h"

// What a program takes beside models and sessions: before the first session opens (libraries' data, the
// heap's edges), and from then on (statistics, the threads that read).
#define PROGRAM ((uint64_t)3 << 19)
#define LATER   ((uint64_t)1 << 20)
// What a thread takes: what it touches of its stack.
#define THREAD ((uint64_t)64 << 10)
// Bytes that sampling takes for each token of the vocabulary: of a sequence, and once.
#define SAMPLER ((uint64_t)16)
#define ROWS    ((uint64_t)8)
// And for each token of a context: its text and number, and what finding it takes.
#define TEXT ((uint64_t)32)
#define MIB  ((uint64_t)1 << 20)

// Who gives feed-forward parts: the first that can. In memory, stages have them.
static const struct hearth_source_ops *const ffn_sources[] = {&hearth_neurons_source, &hearth_experts_source,
                                                              &hearth_memory_source};

static const struct hearth_source_ops *ffn_source(const struct hearth_model *m, enum hearth_sparsity sparsity)
{
    size_t i = 0;
    while (ffn_sources[i]->can && !ffn_sources[i]->can(m, sparsity))
        i++;
    return ffn_sources[i];
}

bool hearth_sources_may_give_neurons(const struct hearth_model *m, enum hearth_sparsity sparsity)
{
    return m->load.ram && ffn_source(m, sparsity)->gives_neurons;
}

// ---- sizes

// What a session takes beside its regions: tables on the heap, its threads, what samples its sequences.
static uint64_t beside_bytes(const struct hearth_model *m, const struct hearth_sources_user *u)
{
    return u->table_bytes + (uint64_t)u->n_threads * THREAD +
           (uint64_t)m->hp.n_vocab * (uint64_t)u->max_seqs * SAMPLER;
}

// What the process takes besides the sessions' regions. It follows from the file and the sessions' parameters
// alone, and so does the smallest budget; a program that holds more by now has that counted, too.
static uint64_t process_bytes(const struct hearth_model *m, const struct hearth_sources_user *u)
{
    if (m->load.tests && m->load.tests->weights_only)
        return 0;
    const uint64_t sessions = (uint64_t)m->load.max_sessions, vocab = (uint64_t)m->hp.n_vocab;
    const uint64_t own = PROGRAM + hearth_model_memory(m) +
                         sessions * (u->table_bytes + (uint64_t)u->n_threads * THREAD) +
                         (uint64_t)hearth_load_threads(m) * THREAD;
    const uint64_t image = hearth_region_bytes(m->image.size); // of which others know
    const uint64_t now = u->held_bytes > image ? u->held_bytes - image : 0;
    const uint64_t held = now > own ? hearth_round_up(now, MIB) : own;
    const uint64_t tokens = u->n_ctx < u->kv_tokens ? (uint64_t)u->n_ctx : (uint64_t)u->kv_tokens;
    return held + LATER + tokens * TEXT + vocab * (ROWS + sessions * (uint64_t)u->max_seqs * SAMPLER);
}

// What sessions take of which all weights are in memory.
static uint64_t bytes_of_all(const struct hearth_model *m, const struct hearth_sources_user *u)
{
    return (uint64_t)m->load.max_sessions * hearth_sources_session_bytes(u) + process_bytes(m, u) +
           hearth_region_bytes(m->image_bytes) + hearth_image_load_bytes(m);
}

// ---- planning

static double mib(uint64_t bytes)
{
    return (double)bytes / (double)MIB;
}

// "6.94 MiB", "3.21 GiB": not less than `bytes`.
static void format_size(char *out, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    double v = (double)bytes / 1024;
    int unit = 0;
    for (; v >= 1024 && unit < 2; unit++)
        v /= 1024;
    snprintf(out, size, "%.2f %s", ceil(v * 100) / 100, units[unit]);
}

// Less is no reason for anything.
#define NAMED (MIB / 20)

// What weighs most of what a session's parameters can change; nothing where all of that is nearly nothing.
static void name_remedy(const struct hearth_sources_user *u, char *out, size_t size)
{
    const uint64_t bytes[] = {u->ctx_bytes, u->ubatch_bytes, u->seqs_bytes};
    const int values[] = {u->n_ctx, u->n_ubatch, u->max_seqs};
    static const struct {
        const char *before, *after;
    } words[] = {{"context of ", " tokens"}, {"micro-batch of ", " tokens"}, {"", " sequences"}};
    char each[40] = "";
    int most = 0;
    const int64_t all = (int64_t)u->max_seqs * u->n_ctx;
    for (int i = 1; i < 3; i++)
        most = bytes[i] > bytes[most] ? i : most;
    *out = '\0';
    if (bytes[most] < NAMED)
        return;
    if (most == 0 && u->kv_tokens < all) { // fewer than all sequences would take: it was said how many
        snprintf(out, size, "; %.1f MiB of it are due to the KV cache of %" PRId64 " tokens",
                 mib(bytes[most]), u->kv_tokens);
        return;
    }
    if (most == 0 && u->max_seqs > 1)
        snprintf(each, sizeof each, " and the %d sequences in it", u->max_seqs);
    snprintf(out, size, "; %.1f MiB of it are due to the %s%d%s%s", mib(bytes[most]), words[most].before,
             values[most], words[most].after, each);
}

// ", KV cache 1.5"; returns the length.
static int name_part(char *out, size_t size, const char *name, uint64_t bytes)
{
    return bytes < NAMED ? 0 : snprintf(out, size, ", %s %.1f", name, mib(bytes));
}

// The smaller one of what streaming and what all weights take.
static uint64_t least_of(const struct hearth_model *m, const struct hearth_sources_user *u,
                         const struct hearth_budget_floor *f)
{
    const uint64_t all = bytes_of_all(m, u);
    return f->bytes < all ? f->bytes : all;
}

// Names the smallest budget, and what makes it smaller.
static int refuse(const struct hearth_sources *s, const struct hearth_sources_user *u,
                  struct hearth_error *err)
{
    const struct hearth_model *m = s->model;
    const struct hearth_budget_floor *f = &s->plan.floor;
    const uint64_t least = least_of(m, u, f);
    char parts[200] = "for all of its weights", remedy[160], needed[32], asked[32];
    format_size(needed, sizeof needed, least);
    format_size(asked, sizeof asked, m->load.ram_most < m->load.ram_asked ? m->load.ram_most : m->load.ram);
    name_remedy(u, remedy, sizeof remedy);
    if (least == f->bytes) {
        int n = snprintf(parts, sizeof parts, "%.1f MiB in any case", mib(f->always));
        n += name_part(parts + n, sizeof parts - (size_t)n, "KV cache", f->kv);
        n += name_part(parts + n, sizeof parts - (size_t)n, "two layers", f->layer_buffers);
        name_part(parts + n, sizeof parts - (size_t)n,
                  s->ffn.ops == &hearth_experts_source ? "experts of a token" : "neurons of a token",
                  f->working_set);
    }
    if (m->load.ram_most < m->load.ram_asked)
        return hearth_fail(err, HEARTH_E_BUDGET,
                           "%s: there is too little memory: it needs at least %s, and %s can be had: %s%s",
                           m->info.path, needed, asked, parts, remedy);
    return hearth_fail_param(err, HEARTH_E_BUDGET, "ram",
                             "ram must be at least %s (%llu bytes) for %s, not %s: %s%s", needed,
                             (unsigned long long)least, m->info.path, asked, parts, remedy);
}

// *need is filled, whatever is returned, and points into the sources.
static int find_need(struct hearth_sources *s, const struct hearth_sources_user *u,
                     struct hearth_source_need *need, struct hearth_error *err)
{
    const struct hearth_model *m = s->model;
    const uint64_t sessions = (uint64_t)m->load.max_sessions;
    *need = (struct hearth_source_need){.params = {.kv = sessions * hearth_region_bytes(u->kv_bytes),
                                                   .workspace = sessions * u->workspace_bytes,
                                                   .lendable = sessions * hearth_sources_lendable_bytes(u),
                                                   .norms = process_bytes(m, u),
                                                   .n_elsewhere = (uint32_t)u->layers_elsewhere,
                                                   .head_elsewhere = u->head_elsewhere,
                                                   .batch = (uint32_t)u->max_steps}};
    int rc = HEARTH_OK;
    for (int i = 0; i < s->n && !rc; i++)
        if (s->all[i].ops->need)
            rc = s->all[i].ops->need(s->all[i].state, need, err);
    return rc;
}

static int make_plan(struct hearth_sources *s, const struct hearth_sources_user *u, uint64_t ram,
                     struct hearth_source_need *need, struct hearth_error *err)
{
    const int rc = find_need(s, u, need, err);
    return rc ? rc : hearth_budget_plan(&need->params, ram, &s->plan, need->resident, need->quota, err);
}

// The budget, or a little more where that alone makes it possible at all.
static int plan_within(struct hearth_sources *s, const struct hearth_sources_user *u, uint64_t ram,
                       uint64_t most, struct hearth_source_need *need, struct hearth_error *err)
{
    s->ram = ram;
    int rc = make_plan(s, u, s->ram, need, err);
    if (rc == HEARTH_E_BUDGET && s->plan.floor.bytes > s->ram && s->plan.floor.bytes <= most) {
        s->ram = s->plan.floor.bytes;
        rc = hearth_budget_plan(&need->params, s->ram, &s->plan, need->resident, need->quota, err);
    }
    return rc;
}

// What the neuron cache may grow to while memory is lent to it.
static int plan_lending(const struct hearth_sources *s, const struct hearth_source_need *need,
                        struct hearth_error *err)
{
    return s->plan.region_bytes ? hearth_budget_lend(&need->params, &s->plan, need->resident, need->quota,
                                                     need->quota_most, err)
                                : HEARTH_OK;
}

static void log_plan(const struct hearth_sources *s)
{
    const struct hearth_budget_plan *p = &s->plan;
    hearth_log(
        HEARTH_LOG_DEBUG,
        "plan: %llu of %llu bytes; dense %llu in memory (%u layers%s), layer buffers %llu; resident "
        "neurons %llu (%llu bytes), cached %llu (%llu bytes, reserve %u); experts of a layer %u, of %u "
        "layers one more, %u common (%llu bytes)",
        (unsigned long long)p->bytes, (unsigned long long)s->ram, (unsigned long long)p->dense_bytes,
        p->dense_layers, p->head_in_memory ? ", head" : "", (unsigned long long)p->layer_buffers,
        (unsigned long long)p->resident_neurons, (unsigned long long)p->resident_bytes,
        (unsigned long long)p->cold_neurons, (unsigned long long)p->region_bytes, p->reserve,
        p->layer_experts, p->more_experts, p->common_experts, (unsigned long long)p->expert_bytes);
}

// ---- opening

static struct hearth_store_params store_params(const struct hearth_model *m)
{
    const struct hearth_load_options *load = &m->load;
    return (struct hearth_store_params){.io = load->io,
                                        .throttle = load->throttled ? &load->throttle : NULL,
                                        .gap = load->read_gap,
                                        .faults = load->tests ? load->tests->faults : NULL};
}

static int open_reader(struct hearth_reader **out, const struct hearth_model *m,
                       const struct hearth_store_params *params, struct hearth_error *err)
{
    const uint32_t n = hearth_gguf_n_shards(m->gguf);
    const char **paths = hearth_calloc(n, sizeof *paths);
    if (!paths)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for reading");
    for (uint32_t i = 0; i < n; i++)
        paths[i] = hearth_file_path(hearth_gguf_file(m->gguf, i));
    const int rc = hearth_reader_open(out, paths, n, params, err);
    free(paths);
    return rc;
}

// Bundles that are part of a stage stay bundles: the rows of a matrix are then as far apart as they.
static void use_bundles_as_matrices(const struct hearth_model *m, struct hearth_weights *weights)
{
    for (int i = 0; i < m->hp.n_layer; i++) {
        struct hearth_layer *l = &weights->layers[i];
        struct hearth_weight *const parts[] = {&l->ffn_up,          &l->ffn_down_t, &l->ffn_up_exps,
                                               &l->ffn_down_t_exps, &l->ffn_gate,   &l->ffn_gate_exps};
        const size_t n = sizeof parts / sizeof *parts - (m->pack->gates_apart ? 2 : 0);
        for (size_t k = 0; k < n; k++)
            if (hearth_has(parts[k]))
                parts[k]->stride = m->pack->layers[i].stride;
    }
}

// Opens one more source, which is s->all[n - 1] then, whatever becomes of it.
static int open_source(struct hearth_sources *s, const struct hearth_source_ops *ops,
                       const struct hearth_source_setup *setup, struct hearth_error *err)
{
    struct hearth_source *source = &s->all[s->n];
    source->ops = ops;
    const int rc = ops->open(&source->state, setup, err);
    s->n += source->state != NULL;
    return rc;
}

static int fill_all(struct hearth_sources *s, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    for (int i = 0; i < s->n && !rc; i++)
        if (s->all[i].ops->fill)
            rc = s->all[i].ops->fill(s->all[i].state, &s->plan, err);
    // What moves nothing leaves feed-forward parts where the weights point to.
    const struct hearth_source *ffn = &s->ffn;
    if (!rc && ffn->ops->moves && !ffn->ops->moves(ffn->state))
        s->ffn = s->all[s->n - 1];
    return rc;
}

// Stages, and whoever gives the feed-forward parts; memory comes last. Nothing is read yet.
static int begin_streams(struct hearth_sources *s, const struct hearth_sources_user *u,
                         const struct hearth_store_params *store, struct hearth_error *err)
{
    const struct hearth_model *m = s->model;
    const struct hearth_source_ops *ffn = ffn_source(m, u->sparsity);
    const bool whole = ffn == &hearth_memory_source;
    int rc = open_reader(&s->reader, m, store, err);
    if (!rc) {
        s->turn = hearth_lock_open();
        s->account = hearth_lock_open();
    }
    if (!rc && (!s->turn || !s->account))
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for a session");
    if (rc)
        return rc;
    if (m->pack && whole)
        use_bundles_as_matrices(m, &s->weights);
    const struct hearth_source_setup setup = {.model = m,
                                              .weights = &s->weights,
                                              .now = &s->now,
                                              .reader = s->reader,
                                              .store = store,
                                              .whole = whole};
    rc = open_source(s, &hearth_layers_source, &setup, err);
    if (!rc && !whole)
        rc = open_source(s, ffn, &setup, err);
    if (!rc)
        rc = open_source(s, &hearth_memory_source, &setup, err);
    if (rc)
        return rc;
    s->stages = s->all[0];
    s->ffn = s->all[1];
    return HEARTH_OK;
}

// What the process will hold is known now.
static void claim(const struct hearth_model *m, uint64_t bytes)
{
    hearth_claim_drop(m->shared->claim);
    m->shared->claim = bytes ? hearth_claim(bytes) : -1;
}

static int open_streams(struct hearth_sources *s, const struct hearth_sources_user *u,
                        const struct hearth_store_params *store, uint64_t ram, uint64_t most,
                        struct hearth_error *err)
{
    const struct hearth_load_options *load = &s->model->load;
    int rc = begin_streams(s, u, store, err);
    struct hearth_source_need need;
    if (!rc)
        rc = plan_within(s, u, ram, most, &need, err);
    if (rc)
        return rc == HEARTH_E_BUDGET ? refuse(s, u, err) : rc;
    if (load->ram_asked > s->ram && load->ram_asked < HEARTH_RAM_LEAST)
        hearth_log(HEARTH_LOG_WARNING,
                   "a memory budget of %.0f MiB is more than there is: it becomes %.0f MiB",
                   mib(load->ram_asked), mib(s->ram));
    log_plan(s);
    claim(s->model, s->plan.bytes);
    rc = plan_lending(s, &need, err);
    if (!rc)
        rc = fill_all(s, err);
    if (!rc) { // what was read so far is not a prompt's
        hearth_sources_count(s, HEARTH_PHASE_PROMPT);
        s->phases[HEARTH_PHASE_PROMPT] = (struct hearth_reads){0};
    }
    return rc;
}

// All weights in memory: the model's, or read now.
static int open_memory(struct hearth_sources *s, bool read, struct hearth_error *err)
{
    const struct hearth_source_setup setup = {.model = s->model, .weights = &s->weights, .now = &s->now};
    const int rc = open_source(s, &hearth_memory_source, &setup, err);
    if (rc)
        return rc;
    s->stages = s->ffn = s->all[0];
    return read ? s->all[0].ops->fill(s->all[0].state, NULL, err) : HEARTH_OK;
}

static void close_all(struct hearth_sources **sources)
{
    struct hearth_sources *s = *sources;
    if (!s)
        return;
    hearth_reader_close(&s->reader); // reads in flight end here: memory goes afterwards
    for (int i = 0; i < s->n; i++)
        s->all[i].ops->close(&s->all[i].state);
    hearth_lock_close(&s->turn);
    hearth_lock_close(&s->account);
    free(s->layers);
    free(s);
    *sources = NULL;
}

// Whether all weights fit, so that nothing is to be planned. For the last few MiB it goes to the limit.
static bool fits(const struct hearth_model *m, const struct hearth_sources_user *u, uint64_t ram,
                 uint64_t most)
{
    if (m->load.tests && m->load.tests->always)
        return false;
    const uint64_t all = bytes_of_all(m, u);
    return ram >= all || (most >= all && all - ram <= 64 * MIB);
}

// Weights of its own, for what is brought.
static int begin(struct hearth_sources **out, const struct hearth_model *m, bool own,
                 struct hearth_error *err)
{
    const size_t n_layer = (size_t)m->hp.n_layer;
    struct hearth_sources *s = *out = hearth_calloc(1, sizeof *s);
    if (!s)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a session");
    s->model = m;
    s->weights = m->weights;
    if (!own)
        return HEARTH_OK;
    s->layers = hearth_calloc(n_layer, sizeof *s->layers);
    if (!s->layers)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for %zu layers", n_layer);
    memcpy(s->layers, m->weights.layers, n_layer * sizeof *s->layers);
    s->weights.layers = s->layers;
    return HEARTH_OK;
}

// Where a budget is the smallest one that there is, it becomes that.
static int resolve(const struct hearth_model *m, const struct hearth_sources_user *u, uint64_t *ram,
                   uint64_t *most, struct hearth_error *err)
{
    if (*ram != HEARTH_RAM_LEAST)
        return HEARTH_OK;
    struct hearth_sources *s;
    struct hearth_source_need need;
    struct hearth_budget_floor floor;
    uint64_t whole;
    int rc = hearth_sources_prepare(&s, m, u, &need, &whole, err);
    if (!rc)
        rc = hearth_budget_floor(&need.params, &floor, err);
    if (!rc) {
        *ram = least_of(m, u, &floor);
        *most = *ram = *ram < *most ? *ram : *most;
    }
    hearth_sources_drop(&s);
    return rc;
}

static int open_all(struct hearth_sources **out, const struct hearth_model *m,
                    const struct hearth_sources_user *u, struct hearth_error *err)
{
    const struct hearth_load_options *load = &m->load;
    int rc = begin(out, m, load->ram != 0, err);
    struct hearth_sources *s = *out;
    if (rc)
        return rc;
    if (!load->ram)
        return open_memory(s, false, err);
    s->room = s->aside = (uint64_t)m->load.max_sessions * hearth_sources_session_bytes(u);
    s->beside = (uint64_t)m->load.max_sessions * beside_bytes(m, u);
    s->kept = hearth_sources_session_bytes(u) - hearth_sources_lendable_bytes(u);
    const struct hearth_store_params store = store_params(m);
    uint64_t ram = load->ram_asked == HEARTH_RAM_LEAST ? HEARTH_RAM_LEAST : load->ram, most = load->ram_most;
    rc = resolve(m, u, &ram, &most, err);
    if (rc)
        return rc;
    if (!fits(m, u, ram, most))
        return open_streams(s, u, &store, ram, most, err);
    claim(m, bytes_of_all(m, u));
    return open_memory(s, true, err);
}

// ---- sessions

// A session joins sources that are open.
static int join(struct hearth_sources *s, const struct hearth_sources_user *u, struct hearth_error *err)
{
    const uint64_t bytes = hearth_sources_session_bytes(u), beside = beside_bytes(s->model, u);
    // One that asks for whole feed-forward parts would get them in chunks, for which it has no room.
    if (s->ffn.ops->gives_neurons && !ffn_source(s->model, u->sparsity)->gives_neurons)
        return hearth_fail_param(
            err, HEARTH_E_INVALID, "sparsity",
            "%s: its weights are shared by sessions that read single neurons: open this one with "
            "the same sparsity, or open it first",
            s->model->info.path);
    if (bytes > s->room || beside > s->beside)
        return hearth_fail_param(
            err, HEARTH_E_BUDGET, "max_sessions",
            "%s: of its budget %.1f MiB are left for sessions, and this one takes %.1f: set "
            "max_sessions, which is %d, to the number of sessions that are open at once, and "
            "open the largest one first",
            s->model->info.path, mib(s->room + s->beside), mib(bytes + beside), s->model->load.max_sessions);
    s->room -= bytes;
    s->beside -= beside;
    s->users++;
    return HEARTH_OK;
}

// Nobody uses what sessions share.
static void close_shared(struct hearth_shared *shared)
{
    claim(shared->sources->model, 0);
    close_all(&shared->sources);
}

int hearth_sources_open(struct hearth_sources **out, const struct hearth_model *m,
                        const struct hearth_sources_user *user, struct hearth_error *err)
{
    struct hearth_shared *shared = m->shared;
    *out = NULL;
    if (!shared) {
        const int rc = open_all(out, m, user, err);
        if (rc)
            close_all(out);
        return rc;
    }
    hearth_lock_take(shared->lock);
    int rc = shared->sources ? HEARTH_OK : open_all(&shared->sources, m, user, err);
    if (!rc)
        rc = join(shared->sources, user, err);
    if (rc && shared->sources && !shared->sources->users)
        close_shared(shared);
    *out = rc ? NULL : shared->sources;
    hearth_lock_drop(shared->lock);
    return rc;
}

void hearth_sources_close(struct hearth_sources **sources, struct hearth_sources_user *user)
{
    struct hearth_sources *s = *sources;
    *sources = NULL;
    if (!s)
        return;
    struct hearth_shared *shared = s->model->shared;
    if (!shared) {
        close_all(&s);
        return;
    }
    hearth_lock_take(shared->lock);
    s->room += hearth_sources_session_bytes(user);
    s->beside += beside_bytes(s->model, user);
    hearth_sources_use_nothing(s, user);
    if (--s->users == 0)
        close_shared(shared);
    hearth_lock_drop(shared->lock);
}

// ---- what a budget gives

static uint64_t bytes_of(const struct hearth_weight *w)
{
    return (uint64_t)w->n * w->stride;
}

// Of all feed-forward parts, as far as a pack has them in bundles.
static uint64_t neuron_bytes(const struct hearth_model *m)
{
    uint64_t bytes = 0;
    for (int i = 0; i < m->hp.n_layer; i++) {
        const struct hearth_ffn f = hearth_ffn_of(&m->hp, &m->weights.layers[i]);
        const uint64_t gate = m->pack && m->pack->gates_apart ? 0 : bytes_of(f.gate);
        bytes += (gate + bytes_of(f.up) + bytes_of(hearth_has(f.down_t) ? f.down_t : f.down)) *
                 (uint64_t)hearth_ffn_experts(&m->hp);
    }
    return bytes;
}

// What a token would read of a pack: dense weights come first, neurons get the rest.
static uint64_t packed_token_bytes(const struct hearth_model *m, const struct hearth_sources_user *u,
                                   const struct hearth_fit *fit)
{
    if (m->pack || !m->hp.has_predictors || u->sparsity != HEARTH_SPARSITY_PREDICT)
        return 0;
    const double used = (double)hearth_ffn_used(&m->hp) / hearth_ffn_experts(&m->hp);
    const double neurons = (double)neuron_bytes(m), dense = (double)m->image_bytes - neurons;
    const double room = (double)fit->resident_bytes, kept = room > dense ? room - dense : 0;
    const double bytes = (room < dense ? dense - room : 0) +
                         used * (double)HEARTH_BUDGET_DENSITY * (kept < neurons ? neurons - kept : 0);
    return bytes < (double)fit->token_bytes ? (uint64_t)bytes + 1 : 0;
}

static int fit_streams(struct hearth_sources *s, const struct hearth_sources_user *u, uint64_t most,
                       struct hearth_fit *fit, struct hearth_error *err)
{
    const struct hearth_store_params store = {.io = HEARTH_IO_PREAD}; // nothing is read: no need to measure
    const struct hearth_budget_plan *p = &s->plan;
    struct hearth_source_need need;
    int rc = begin_streams(s, u, &store, err);
    if (!rc)
        rc = plan_within(s, u, fit->ram, most, &need, err);
    fit->ram = s->ram ? s->ram : fit->ram;
    if (rc && rc != HEARTH_E_BUDGET)
        return rc;
    fit->least_bytes = least_of(s->model, u, &p->floor);
    fit->kind = rc ? HEARTH_FIT_NOT : HEARTH_FIT_STREAMS;
    if (rc)
        return HEARTH_OK;
    fit->resident_bytes = p->dense_bytes + p->resident_bytes + p->region_bytes + p->expert_bytes;
    fit->token_bytes = hearth_budget_token_bytes(&need.params, p, need.resident, need.quota);
    fit->packed_token_bytes = packed_token_bytes(s->model, u, fit);
    return HEARTH_OK;
}

int hearth_sources_fit(const struct hearth_model *m, const struct hearth_sources_user *u, uint64_t most,
                       struct hearth_fit *fit, struct hearth_error *err)
{
    const uint64_t sessions = (uint64_t)m->load.max_sessions;
    int rc = resolve(m, u, &fit->ram, &most, err);
    if (rc)
        return rc;
    const uint64_t ram = fit->ram;
    fit->kv_bytes = sessions * hearth_region_bytes(u->kv_bytes);
    fit->workspace_bytes = sessions * u->workspace_bytes;
    fit->weight_bytes = fit->resident_bytes = m->image_bytes;
    fit->whole_bytes = bytes_of_all(m, u);
    struct hearth_sources *s;
    rc = begin(&s, m, true, err);
    if (!rc)
        rc = fit_streams(s, u, most, fit, err);
    close_all(&s);
    if (rc || !fits(m, u, ram, most))
        return rc;
    fit->ram = ram;
    fit->kind = HEARTH_FIT_WHOLE;
    fit->resident_bytes = m->image_bytes;
    fit->token_bytes = fit->packed_token_bytes = 0;
    return HEARTH_OK;
}

int hearth_sources_prepare(struct hearth_sources **out, const struct hearth_model *m,
                           const struct hearth_sources_user *user, struct hearth_source_need *need,
                           uint64_t *whole_bytes, struct hearth_error *err)
{
    const struct hearth_store_params store = {.io = HEARTH_IO_PREAD}; // nothing is read: no need to measure
    int rc = begin(out, m, true, err);
    if (!rc)
        rc = begin_streams(*out, user, &store, err);
    if (!rc)
        rc = find_need(*out, user, need, err);
    *whole_bytes = bytes_of_all(m, user);
    if (rc)
        close_all(out);
    return rc;
}

void hearth_sources_drop(struct hearth_sources **s)
{
    close_all(s);
}
