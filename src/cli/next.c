// SPDX-License-Identifier: MIT
// See next.h.
#include "cli/next.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "cli/common.h"
#include "gguf/gguf.h"
#include "model/fingerprint.h"

#define PATH      4096
#define USUAL_CTX 512 // of -c in profile and train-predictors

// A path as shells take it, with quotes where it needs them.
static const char *quote(char out[PATH], const char *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-+=:,@%";
    size_t n = 0;
    if (*path && *path != '-' && !path[strspn(path, plain)]) {
        snprintf(out, PATH, "%s", path);
        return out;
    }
    out[n++] = '\'';
    for (; *path && n + 6 < PATH; path++)
        if (*path == '\'')
            n += (size_t)snprintf(out + n, PATH - n, "'\\''");
        else
            out[n++] = *path;
    out[n++] = '\'';
    out[n] = '\0';
    return out;
}

// The path with another ending: "a/model.gguf" as "a/model.profile".
static const char *beside(char out[PATH], const char *path, const char *ending)
{
    const size_t n = strlen(path);
    const bool gguf = n > 5 && !strcmp(path + n - 5, ".gguf");
    snprintf(out, PATH, "%.*s%s", (int)(gguf ? n - 5 : n), path, ending);
    return out;
}

// The same in the folder of another file.
static const char *beside_other(char out[PATH], const char *path, const char *ending, const char *other)
{
    const char *name = strrchr(path, '/'), *end = strrchr(other, '/');
    const size_t n = end ? (size_t)(end + 1 - other) : 0;
    if (n >= PATH)
        return beside(out, path, ending);
    char own[PATH];
    beside(own, name ? name + 1 : path, ending);
    memcpy(out, other, n);
    const size_t room = PATH - 1 - n, length = strlen(own) < room ? strlen(own) : room;
    memcpy(out + n, own, length);
    out[n + length] = '\0';
    return out;
}

#define OPTIONS 100

// " -c 64 --sparsity-threshold 40%", as they were given: what profiles and trained predictors have in common.
static const char *same_options(char out[OPTIONS], const struct hearth_options *o)
{
    const struct hearth_magnitude *m = &o->sparsity_threshold;
    int n = 0;
    *out = '\0';
    if (o->n_ctx != USUAL_CTX)
        n = snprintf(out, OPTIONS, " -c %" PRId64, o->n_ctx);
    if (m->share > 0)
        snprintf(out + n, OPTIONS - (size_t)n, " --sparsity-threshold %.10g%%", 100 * m->share);
    else if (m->least > 0)
        snprintf(out + n, OPTIONS - (size_t)n, " --sparsity-threshold %.10g", m->least);
    return out;
}

// Standard input is not there a second time.
static const char *text_of(char out[PATH], const struct hearth_options *o)
{
    return strcmp(o->file, "-") != 0 ? quote(out, o->file) : "TEXT";
}

void hearth_next_run(const char *model)
{
    char name[PATH];
    struct hearth_gguf *g;
    struct hearth_error err = {0};
    if (hearth_gguf_open(&g, model, &err))
        return;
    const bool chats = hearth_gguf_find(g, "tokenizer.chat_template") != NULL;
    hearth_gguf_close(&g);
    hearth_cli_next(chats ? "hearth chat %s" : "hearth run %s -p \"Once upon a time\"", quote(name, model));
}

void hearth_next_of_pack(const char *pack)
{
    char name[PATH];
    hearth_cli_next("hearth plan %s --explain", quote(name, pack));
}

void hearth_next_of_profile(const struct hearth_options *o, bool has_predictors, bool gates_say)
{
    char model[PATH], profile[PATH], text[PATH], path[PATH], out[PATH], options[OPTIONS];
    quote(model, o->model);
    if (has_predictors || gates_say)
        hearth_cli_next("hearth pack %s %s --profile %s%s", model,
                        quote(out, beside_other(path, o->model, ".hearth.gguf", o->out)),
                        quote(profile, o->out), has_predictors ? "" : " --gates-apart");
    else
        hearth_cli_next("hearth train-predictors %s -f %s -o %s%s", model, text_of(text, o),
                        quote(out, beside_other(path, o->model, "-predictors.gguf", o->out)),
                        same_options(options, o));
}

void hearth_next_measure(const struct hearth_options *o)
{
    const struct hearth_magnitude *m = &o->sparsity_threshold;
    char model[PATH], trained[PATH];
    hearth_cli_info(
        "this is lossy%s: predictors leave out some of what each layer's neurons give. To measure what "
        "that costs, with a text that they have not seen, compare: hearth perplexity %s -f HELDOUT "
        "--phase step, and hearth perplexity %s -f HELDOUT --phase step",
        m->least > 0 || m->share > 0 ? " twice, as the threshold leaves out neurons, too" : "",
        quote(model, o->model), quote(trained, o->out));
}

void hearth_next_of_sparsify(const struct hearth_options *o)
{
    char model[PATH], sparse[PATH];
    hearth_cli_info(
        "this is lossy: what neurons give that are off now is linear. To measure what that costs, with another "
        "text, compare: hearth perplexity %s -f HELDOUT, and hearth perplexity %s -f HELDOUT",
        quote(model, o->model), quote(sparse, o->out));
    hearth_next_run(o->out);
}

void hearth_next_of_shares(const struct hearth_options *o)
{
    char pack[PATH];
    quote(pack, o->out);
    hearth_cli_info("neurons are left out with a threshold only, such as hearth run %s --sparsity-threshold "
                    "40%%, which is lossy. To measure what that costs, with a text that the profile has not "
                    "seen, compare: hearth perplexity %s -f HELDOUT --phase step, without the threshold and "
                    "with it",
                    pack, pack);
}

// Whether it is a profile of the model, in whichever number format.
static bool is_profile_of(const char *path, const char *model)
{
    struct hearth_gguf *profile = NULL, *g = NULL;
    struct hearth_error err = {0};
    uint32_t norms = 0, wanted = 0;
    const bool is = hearth_path_readable(path) && !hearth_gguf_open(&profile, path, &err) &&
                    !hearth_gguf_u32(profile, "hearth.profile.source.norms_crc32c", true, &wanted, &err) &&
                    !hearth_gguf_open(&g, model, &err) && !hearth_norms_fingerprint(g, &norms, &err) &&
                    norms == wanted;
    hearth_gguf_close(&profile);
    hearth_gguf_close(&g);
    return is;
}

// A profile of o->model: in the folder of o->out or beside the model by the usual name, or the first of the
// folder by any.
static bool find_profile(char out[PATH], const struct hearth_options *o)
{
    char folder[PATH], name[256];
    if (is_profile_of(beside_other(out, o->model, ".profile", o->out), o->model) ||
        is_profile_of(beside(out, o->model, ".profile"), o->model))
        return true;
    const char *end = strrchr(o->out, '/');
    const int n = end ? (int)(end + 1 - o->out) : 0;
    snprintf(folder, sizeof folder, "%.*s", n ? n : 1, n ? o->out : ".");
    if (!hearth_folder_find(folder, ".profile", name, sizeof name))
        return false;
    snprintf(out, PATH, "%.*s%s", n, o->out, name);
    return is_profile_of(out, o->model);
}

void hearth_next_of_training(const struct hearth_options *o)
{
    char trained[PATH], profile[PATH], text[PATH], path[PATH], out[PATH], pack[PATH], options[OPTIONS];
    quote(trained, o->out);
    if (find_profile(path, o))
        hearth_cli_next("hearth pack %s %s --profile %s", trained,
                        quote(out, beside_other(pack, o->model, ".hearth.gguf", o->out)),
                        quote(profile, path));
    else
        hearth_cli_next("hearth profile %s -f %s -o %s%s", trained, text_of(text, o),
                        quote(profile, beside_other(path, o->model, ".profile", o->out)),
                        same_options(options, o));
}
