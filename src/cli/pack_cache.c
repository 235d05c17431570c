// SPDX-License-Identifier: MIT
// The cache of packs: see pack_cache.h.
#include "cli/pack_cache.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/adapters.h"
#include "cli/ask.h"
#include "cli/forecast.h"
#include "convert/pack.h"

#define MIB ((uint64_t)1 << 20)
// Above this, how many times is not known so exactly.
#define MOST_GAIN 100.0
// Of a model's name, what the names of its packs have.
#define NAME_MOST 80

// Where the pack of a model is, or would be.
struct place {
    const char *model; // the file
    char folder[1024];
    char path[1200];     // of the pack
    char sketch[1200];   // of a hollow pack, which no other run has
    char declined[1200]; // a file that is there once somebody did not want the pack
    struct hearth_pack_source source;
};

// ---- where

static bool find_folder(const struct hearth_options *o, char *out, size_t size)
{
    if (!o->pack_dir)
        return hearth_user_cache_folder(out, size);
    const int n = snprintf(out, size, "%s", o->pack_dir);
    return n > 0 && (size_t)n < size;
}

// The model's name, for people who look into the folder, in letters that a file may have.
static void name_of(const struct hearth_model *m, char *out, size_t size)
{
    const char *name = m->info.name && *m->info.name ? m->info.name : "model";
    size_t n = 0;
    for (; name[n] && n + 1 < size; n++)
        out[n] = isalnum((unsigned char)name[n]) || (n && strchr("-_.", name[n])) ? name[n] : '-';
    out[n] = '\0';
}

static int find_place(struct place *p, const struct hearth_model *m, const struct hearth_options *o)
{
    struct hearth_error err = {0};
    *p = (struct place){.model = o->model};
    if (!find_folder(o, p->folder, sizeof p->folder) || hearth_pack_source_of(m, &p->source, &err))
        return -1;
    char name[NAME_MOST + 1];
    name_of(m, name, sizeof name);
    snprintf(p->path, sizeof p->path, "%s/%s-%016" PRIx64 ".%d.hearth.gguf", p->folder, name,
             p->source.fingerprint, HEARTH_PACK_VERSION);
    snprintf(p->sketch, sizeof p->sketch, "%s/%016" PRIx64 ".sketch", p->folder, hearth_random_u64());
    snprintf(p->declined, sizeof p->declined, "%s/%016" PRIx64 ".declined", p->folder, p->source.fingerprint);
    return 0;
}

// ---- what is there

static void throw_away(const struct place *p, const char *why)
{
    if (!hearth_path_remove(p->path))
        hearth_cli_warn("%s: %s, and it cannot be removed", p->path, why);
    else
        hearth_cli_info("%s: %s; it is removed", p->path, why);
}

// What others may have written is not this user's model.
static bool is_trusted(const char *path)
{
    struct hearth_path at;
    return hearth_path_look(path, &at) && at.own;
}

// Only what is damaged is removed. A file that cannot be read now, or that another version made, may be a
// good one.
static bool has_pack(const struct place *p)
{
    struct hearth_gguf *g = NULL;
    struct hearth_error err = {0};
    struct hearth_path at;
    if (!hearth_path_look(p->path, &at))
        return false;
    if (!is_trusted(p->path)) {
        hearth_cli_warn("%s is not used: others may write to it", p->path);
        return false;
    }
    const int rc = hearth_gguf_open(&g, p->path, &err);
    const bool of_model = !rc && hearth_pack_is_of(g, &p->source);
    hearth_gguf_close(&g);
    if (rc == HEARTH_E_FORMAT)
        throw_away(p, "the pack is damaged");
    return of_model;
}

// ---- what it is worth

// What a pack is for: it reads less for a token, or runs where the model does not. No: not worth it.
static bool is_better(const struct hearth_fit *pack, const struct hearth_fit *without, double least_gain)
{
    if (pack->kind == HEARTH_FIT_NOT || without->kind == HEARTH_FIT_NOT)
        return pack->kind != HEARTH_FIT_NOT;
    return (double)without->token_bytes >= least_gain * (double)pack->token_bytes;
}

static int fit_of(const char *path, const struct hearth_session_params *params,
                  const struct hearth_options *o, struct hearth_model **pack, struct hearth_fit *fit,
                  struct hearth_error *err)
{
    const int rc = hearth_cli_open_model_at(pack, path, o, false, err);
    return rc ? rc : hearth_model_fit(*pack, params, 0, fit, sizeof *fit, err);
}

static void not_packed(const struct hearth_error *err)
{
    hearth_cli_warn("the model is not packed: %s", err->message);
}

// Writes a hollow pack and opens it. It is removed by close_sketch().
static int open_sketch(const struct place *p, const struct hearth_options *o, struct hearth_model **model,
                       struct hearth_pack_result *pack, struct hearth_error *err)
{
    struct hearth_options unverified = *o;
    unverified.verify = false;
    int rc = hearth_folder_make(p->folder, err);
    if (!rc)
        rc = hearth_pack_write(p->model, p->sketch, &(struct hearth_pack_params){.hollow = true}, pack, err);
    return rc ? rc : hearth_cli_open_model_at(model, p->sketch, &unverified, false, err);
}

static void close_sketch(const struct place *p, struct hearth_model **model)
{
    hearth_model_close(model);
    (void)hearth_path_remove(p->sketch);
}

// What a session does with the model or with a pack of it.
struct worth {
    struct hearth_fit fit;
    bool forecast; // there is one
    struct hearth_prospect prospect;
};

// A forecast counts what is found in memory, too. Only both together tell something.
static void look_ahead(struct worth *w, const struct place *p, const struct hearth_model *m,
                       const struct hearth_session_params *params, const struct hearth_options *o)
{
    w->forecast = w->fit.kind != HEARTH_FIT_NOT &&
                  hearth_cli_prospect(&w->prospect, o, m, p->model, params, w->fit.ram, 0);
}

// What a pack that is not there would be worth.
static int weigh(const struct place *p, const struct hearth_session_params *params,
                 const struct hearth_options *o, struct hearth_pack_result *pack, struct worth *worth)
{
    struct hearth_model *m = NULL;
    struct hearth_error err = {0};
    int rc = open_sketch(p, o, &m, pack, &err);
    if (!rc)
        rc = hearth_model_fit(m, params, 0, &worth->fit, sizeof worth->fit, &err);
    if (!rc)
        look_ahead(worth, p, m, params, o);
    close_sketch(p, &m);
    if (rc && (o->pack == HEARTH_PACK_AUTO || o->verbose))
        not_packed(&err);
    return rc;
}

#define DOES 160

static void describe_speeds(const struct hearth_forecast *pack, const struct hearth_forecast *without,
                            char *out)
{
    char now[32], then[32];
    hearth_cli_format_bytes(then, sizeof then, (uint64_t)pack->read_bytes);
    hearth_cli_format_bytes(now, sizeof now, (uint64_t)without->read_bytes);
    snprintf(out, DOES, "runs at about %.2f tok/s in place of %.2f and reads %s for a token in place of %s",
             pack->tokens_per_second, without->tokens_per_second, then, now);
}

// Said in speeds where this machine was measured.
static void describe(const struct worth *pack, const struct worth *without, char *out)
{
    const double gain =
        (double)without->fit.token_bytes / (double)(pack->fit.token_bytes ? pack->fit.token_bytes : 1);
    if (without->fit.kind == HEARTH_FIT_NOT && pack->forecast)
        snprintf(out, DOES, "runs in so little memory, at about %.2f tok/s",
                 pack->prospect.forecast.tokens_per_second);
    else if (without->fit.kind == HEARTH_FIT_NOT)
        snprintf(out, DOES, "runs in so little memory");
    else if (pack->forecast && without->forecast)
        describe_speeds(&pack->prospect.forecast, &without->prospect.forecast, out);
    else if (pack->fit.kind == HEARTH_FIT_WHOLE || gain > MOST_GAIN)
        snprintf(out, DOES, "reads hardly anything for a token");
    else
        snprintf(out, DOES, "reads about %.*f times less for a token", gain < 10, gain);
}

// ---- making one

static bool was_declined(const struct place *p)
{
    struct hearth_path at;
    return hearth_path_look(p->declined, &at);
}

static bool may_make(const struct place *p, const struct hearth_options *o)
{
    return o->pack == HEARTH_PACK_AUTO || (!o->quiet && hearth_can_ask() && !was_declined(p));
}

static void hint(const struct place *p, const struct hearth_options *o, uint64_t bytes, const char *does,
                 bool same_logits)
{
    char size[32];
    if (o->quiet)
        return;
    hearth_cli_format_bytes(size, sizeof size, bytes);
    if (same_logits)
        hearth_cli_info(
            "this model has predictors: --pack auto makes a pack of it in %s (%s" HEARTH_PACK_ELSEWHERE
            "), once, that %s",
            p->folder, size, does);
    else
        hearth_cli_info(
            "this model has predictors: hearth pack makes a pack of it that %s and gives slightly "
            "other logits",
            does);
}

// Whether the disk has room for the pack; else a line says so.
static bool has_room(const struct place *p, uint64_t bytes, const char *does)
{
    char size[32], room[32];
    const uint64_t left = hearth_disk_free(p->path);
    if (bytes + bytes / 64 <= left)
        return true;
    hearth_cli_format_bytes(size, sizeof size, bytes);
    hearth_cli_format_bytes(room, sizeof room, left);
    hearth_cli_info(
        "a pack of this model %s, but takes %s, and %s has room for %s (--pack-dir DIR: elsewhere)", does,
        size, p->folder, room);
    return false;
}

static void remember_declined(const struct place *p)
{
    if (hearth_path_make_own(p->declined))
        hearth_cli_info("this is not asked again for this model; --pack auto packs it");
}

static enum hearth_answer is_wanted(const struct place *p, const struct hearth_options *o, uint64_t bytes,
                                    const char *does)
{
    char size[32];
    hearth_cli_format_bytes(size, sizeof size, bytes);
    if (o->pack == HEARTH_PACK_AUTO)
        return HEARTH_ANSWER_YES;
    const enum hearth_answer answer = hearth_ask(
        "a pack of this model %s. It has no profile, with which it would keep the neurons in memory that "
        "are active most (hearth profile, then hearth pack --profile); the model's file stays, and is "
        "still needed. Write it to %s, once (%s, in about the time of a copy" HEARTH_PACK_ELSEWHERE ")?",
        does, p->folder, size);
    if (answer == HEARTH_ANSWER_NO)
        remember_declined(p);
    return answer;
}

// *made: the pack is there; else a message has said why not, and the model will do.
static int make(const struct place *p, const struct hearth_options *o, uint64_t ram, uint64_t bytes,
                bool *made)
{
    char size[32];
    const uint64_t share = ram / 8;
    const struct hearth_pack_params params = {.memory = (size_t)(share > 256 * MIB ? 256 * MIB
                                                                 : share < MIB     ? MIB
                                                                                   : share),
                                              .n_threads = o->n_threads > 0 ? (int)o->n_threads : 0,
                                              .progress = hearth_cli_progress,
                                              .source = &p->source};
    struct hearth_error err = {0};
    hearth_cli_format_bytes(size, sizeof size, bytes);
    if (o->pack == HEARTH_PACK_AUTO) // who was asked knows
        hearth_cli_info("writing a pack of the model to %s, once (%s" HEARTH_PACK_ELSEWHERE ")", p->folder,
                        size);
    hearth_cli_progress_of_file(p->model, "packing, once");
    const int rc = hearth_pack_write(p->model, p->path, &params, NULL, &err);
    hearth_progress_end();
    hearth_memory_trim(); // what is held counts for the budget
    *made = !rc;
    if (rc == HEARTH_E_INTERRUPTED)
        return hearth_cli_fail(&err);
    if (rc)
        not_packed(&err);
    return HEARTH_EXIT_OK;
}

// Makes the pack, if it is to be.
static int offer(const struct place *p, const struct hearth_session_params *params,
                 const struct hearth_options *o, const struct worth *without, bool *made)
{
    struct hearth_pack_result pack;
    struct worth worth;
    char does[DOES];
    if (weigh(p, params, o, &pack, &worth) || !is_better(&worth.fit, &without->fit, HEARTH_PACK_LEAST_GAIN))
        return HEARTH_EXIT_OK;
    describe(&worth, without, does);
    if (pack.n_transposed || !may_make(p, o)) {
        hint(p, o, pack.bytes_out, does, !pack.n_transposed);
        return HEARTH_EXIT_OK;
    }
    if (!has_room(p, pack.bytes_out, does))
        return HEARTH_EXIT_OK;
    const enum hearth_answer answer = is_wanted(p, o, pack.bytes_out, does);
    if (answer == HEARTH_ANSWER_INTERRUPTED)
        return HEARTH_EXIT_INTERRUPTED;
    return answer == HEARTH_ANSWER_YES ? make(p, o, worth.fit.ram, pack.bytes_out, made) : HEARTH_EXIT_OK;
}

// ---- using it

// Opens the pack, if it is of use in this session.
static int open_pack(const struct place *p, struct hearth_model **model,
                     const struct hearth_session_params *params, const struct hearth_options *o,
                     const struct hearth_fit *without)
{
    struct hearth_error err = {0};
    struct hearth_fit fit;
    const int rc = fit_of(p->path, params, o, model, &fit, &err);
    if (!rc && is_better(&fit, without, 1)) {
        hearth_cli_info("using a pack of the model, %s (--pack never: the model itself)", p->path);
        return HEARTH_EXIT_OK;
    }
    hearth_model_close(model);
    if (rc == HEARTH_E_INTERRUPTED)
        return hearth_cli_fail(&err);
    if (rc == HEARTH_E_FORMAT)
        throw_away(p, "the pack is damaged");
    return HEARTH_EXIT_OK;
}

// What a pack reads is reckoned with predictors that name few neurons.
static bool may_have_pack(const struct hearth_model *m, const struct hearth_options *o)
{
    return o->pack != HEARTH_PACK_NEVER && !hearth_cli_has_adapters(o) && !o->override_kv.n && !m->pack &&
           m->hp.has_predictors && !m->n_scales && hearth_pack_share_named(m->gguf) <= HEARTH_NEARLY_ALL;
}

int hearth_cli_use_pack(struct hearth_model **model, const struct hearth_session_params *params,
                        const struct hearth_options *o, const struct hearth_fit *fit)
{
    struct place p;
    struct worth without = {.fit = *fit};
    int status = HEARTH_EXIT_OK;
    // Others read whole layers or experts from a pack, too.
    const bool by_neuron = fit->kind == HEARTH_FIT_NOT || fit->packed_token_bytes;
    if (!may_have_pack(*model, o) || !by_neuron || find_place(&p, *model, o))
        return status;
    bool there = has_pack(&p);
    if (!there && !may_make(&p, o) && o->quiet)
        return status;
    if (!there)
        look_ahead(&without, &p, *model, params, o);
    hearth_model_close(model); // what it claims is for the pack
    if (!there)
        status = offer(&p, params, o, &without, &there);
    if (!status && there)
        status = open_pack(&p, model, params, o, fit);
    return status || *model ? status : hearth_cli_open_model(model, o, false);
}

// ---- planning for it

void hearth_cli_find_pack(struct hearth_cli_pack *out, const struct hearth_model *model,
                          const struct hearth_options *o)
{
    struct place p;
    struct hearth_error err = {0};
    *out = (struct hearth_cli_pack){0};
    if (!may_have_pack(model, o) || find_place(&p, model, o) || !has_pack(&p) ||
        hearth_cli_open_model_at(&out->model, p.path, o, false, &err))
        return;
    out->there = out->same_logits = true;
    snprintf(out->path, sizeof out->path, "%s", p.path);
}

void hearth_cli_sketch_pack(struct hearth_cli_pack *out, const struct hearth_model *model,
                            const struct hearth_options *o)
{
    struct place p;
    struct hearth_pack_result pack;
    struct hearth_error err = {0};
    *out = (struct hearth_cli_pack){0};
    if (!may_have_pack(model, o) || find_place(&p, model, o))
        return;
    if (open_sketch(&p, o, &out->model, &pack, &err)) {
        if (o->pack == HEARTH_PACK_AUTO || o->verbose)
            not_packed(&err);
        close_sketch(&p, &out->model);
        return;
    }
    out->same_logits = !pack.n_transposed;
    out->bytes = pack.bytes_out;
    snprintf(out->folder, sizeof out->folder, "%s", p.folder);
    snprintf(out->path, sizeof out->path, "%s", p.sketch); // plans open it again
}

void hearth_cli_pack_close(struct hearth_cli_pack *pack)
{
    hearth_model_close(&pack->model);
    if (!pack->there && *pack->path)
        (void)hearth_path_remove(pack->path);
    *pack = (struct hearth_cli_pack){0};
}
