// SPDX-License-Identifier: MIT
// The files of training: one for each finished layer, and the model with all of them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/os.h"
#include "convert/trainer.h"
#include "gguf/checksums.h"
#include "gguf/gguf.h"
#include "model/fingerprint.h"

#define PATH_BYTES 4096
#define COPY_BYTES ((size_t)4 << 20)
#define MIB        (1024.0 * 1024)
#define VERSION    4 // of layers' files

// ---- what the result depends on

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t mix_float(uint64_t h, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return mix(h, bits);
}

int hearth_trainer_hash(struct hearth_trainer *t, const hearth_token *tokens, size_t n_tokens)
{
    const struct hearth_train_params *p = &t->params;
    uint64_t h = VERSION, model = 0;
    const int rc = hearth_model_fingerprint(t->model, &model, t->err);
    h = mix(h, model);
    h = mix(h, hearth_crc32c(0, tokens, n_tokens * sizeof *tokens));
    h = mix(h, n_tokens);
    h = mix(h, (uint64_t)t->walk.n_ctx);
    h = mix(h, (uint64_t)p->steps);
    h = mix(h, p->seed);
    h = mix(h, (uint64_t)p->form);
    h = mix(h, p->early);
    h = mix_float(h, p->recall);
    h = mix_float(h, p->share);
    h = mix_float(h, p->sparsity_threshold);
    t->settings = mix_float(h, p->sparsity_share);
    return rc;
}

// ---- finished layers

static bool folder_of(const struct hearth_trainer *t, char *path)
{
    const int n = snprintf(path, PATH_BYTES, "%s.layers", t->out);
    return n > 0 && n < PATH_BYTES;
}

static bool path_of(const struct hearth_trainer *t, int layer, char *path)
{
    const int n = snprintf(path, PATH_BYTES, "%s.layers/layer-%05d.gguf", t->out, layer);
    return n > 0 && n < PATH_BYTES;
}

// The names of a layer's tensors: matrix 1 or 2.
static void name_of(const struct hearth_trainer *t, int layer, int matrix, char *name, size_t size)
{
    snprintf(name, size, "blk.%d.fc%d%s.weight", layer, matrix, t->model->hp.n_expert ? "_exps" : "");
}

static int open_layer(const struct hearth_trainer *t, int layer, struct hearth_gguf **g,
                      struct hearth_error *err)
{
    char path[PATH_BYTES];
    *g = NULL;
    if (!path_of(t, layer, path))
        return hearth_fail(err, HEARTH_E_INVALID, "%s: the name is too long", t->out);
    return hearth_gguf_open(g, path, err);
}

// Whether the file has the bytes that were written: anything may have happened to it since then.
static bool is_whole(const struct hearth_trainer *t, const struct hearth_gguf *g)
{
    struct hearth_checksums *checksums = NULL;
    struct hearth_error err;
    const bool is = !hearth_checksums_open(&checksums, g, &err) && checksums &&
                    !hearth_checksums_verify(checksums, t->params.n_threads, NULL, NULL, &err);
    hearth_checksums_close(&checksums);
    return is;
}

static bool fits(const struct hearth_trainer *t, const struct hearth_gguf_tensor *tensor,
                 struct hearth_predictor_shape shape, int matrix)
{
    return tensor->type == hearth_predictor_type(shape, matrix) &&
           tensor->ne[0] == hearth_predictor_k(shape, matrix, t->n_embd) &&
           tensor->ne[1] == hearth_predictor_n(shape, matrix, t->n_ff) && tensor->ne[2] == t->n_expert &&
           tensor->ne[3] == 1;
}

static struct hearth_predictor_shape shape_of(const struct hearth_train_layer *l)
{
    return (struct hearth_predictor_shape){l->rank, l->wide};
}

// Whether training could have made a predictor of this shape.
static bool is_possible(const struct hearth_trainer *t, struct hearth_predictor_shape shape)
{
    bool is = false;
    for (int i = 0; i < t->n_shapes; i++)
        is |= t->shapes[i].rank == shape.rank && t->shapes[i].wide == shape.wide;
    return is;
}

static bool has_file(const struct hearth_trainer *t, int layer)
{
    char path[PATH_BYTES];
    return path_of(t, layer, path) && hearth_file_exists(path);
}

// Of a layer's predictors, at most.
static double most_of_layer(const struct hearth_trainer *t)
{
    return (double)t->n_expert *
           (double)hearth_predictor_most_bytes(t->shapes, t->n_shapes, t->n_embd, t->n_ff);
}

// Bytes of a store that memory has no room for (hearth_row_store_open()).
static double bytes_in_file(const struct hearth_trainer *t, size_t rows, size_t row_bytes)
{
    const double bytes = (double)rows * (double)row_bytes;
    return bytes > (double)t->walk.state_bytes ? bytes : 0;
}

int hearth_trainer_check_disk(const struct hearth_trainer *t)
{
    const double layer = most_of_layer(t), room = (double)hearth_disk_free(t->out);
    const size_t rows = t->n_tokens + t->walk.n_windows; // with BOS
    const double model = (double)hearth_gguf_file_bytes(t->model->gguf) + layer * (double)t->n_layer;
    double beside = 0;
    for (int i = 0; i < (int)t->n_layer; i++)
        beside += has_file(t, i) ? 0 : layer;
    beside += bytes_in_file(t, rows, t->n_embd * sizeof(float));
    beside += (1 + t->params.early) * bytes_in_file(t, t->n_tokens, t->n_embd * sizeof(float));
    beside += bytes_in_file(t, t->n_tokens * t->n_used, t->n_ff);
    if (model + beside <= room)
        return HEARTH_OK;
    return hearth_fail(
        t->err, HEARTH_E_IO,
        "%s: No space left on the disk: the model with predictors takes up to %.1f MiB, what is "
        "kept beside it %.1f, and there is room for %.1f",
        t->out, model / MIB, beside / MIB, room / MIB);
}

static bool read_layer(const struct hearth_trainer *t, const struct hearth_gguf *g,
                       struct hearth_train_layer *l)
{
    uint64_t settings = 0;
    char name[64];
    name_of(t, l->layer, 1, name, sizeof name);
    const struct hearth_gguf_tensor *fc1 = hearth_gguf_tensor(g, name);
    name_of(t, l->layer, 2, name, sizeof name);
    const struct hearth_gguf_tensor *fc2 = hearth_gguf_tensor(g, name);
    if (!fc1 || !fc2 || hearth_gguf_u64(g, "hearth.train.settings", true, &settings, NULL) ||
        settings != t->settings || hearth_gguf_f32(g, "hearth.train.recall", true, &l->recall, NULL) ||
        hearth_gguf_f32(g, "hearth.train.active", true, &l->active, NULL) ||
        hearth_gguf_f32(g, "hearth.train.chosen", true, &l->chosen, NULL) ||
        hearth_gguf_f32(g, "hearth.train.bytes", true, &l->bytes, NULL) ||
        hearth_gguf_u32(g, "hearth.train.untrained", true, &l->untrained, NULL))
        return false;
    const struct hearth_predictor_shape shape = {(size_t)fc1->ne[1], fc2->ne[0] != fc1->ne[1]};
    l->rank = (uint32_t)shape.rank;
    l->wide = shape.wide;
    return is_possible(t, shape) && fits(t, fc1, shape, 1) && fits(t, fc2, shape, 2) && is_whole(t, g);
}

bool hearth_trainer_has_layer(const struct hearth_trainer *t, int layer, struct hearth_train_layer *out)
{
    struct hearth_gguf *g;
    struct hearth_train_layer l = {.layer = layer};
    struct hearth_error err;
    const bool has = !open_layer(t, layer, &g, &err) && read_layer(t, g, &l);
    hearth_gguf_close(&g);
    if (has)
        *out = l;
    return has;
}

static int declare(const struct hearth_trainer *t, struct hearth_gguf_writer *w,
                   const struct hearth_train_layer *l)
{
    int rc = HEARTH_OK;
    for (int matrix = 1; matrix <= 2 && !rc; matrix++) {
        char name[64];
        const struct hearth_predictor_shape shape = shape_of(l);
        const uint64_t ne[3] = {hearth_predictor_k(shape, matrix, t->n_embd),
                                hearth_predictor_n(shape, matrix, t->n_ff), t->n_expert};
        name_of(t, l->layer, matrix, name, sizeof name);
        rc = hearth_gguf_put_tensor(w, name, hearth_predictor_type(shape, matrix),
                                    t->model->hp.n_expert ? 3 : 2, ne, t->err);
    }
    return rc;
}

int hearth_trainer_put_layer(struct hearth_trainer *t, const struct hearth_train_layer *l)
{
    char path[PATH_BYTES], folder[PATH_BYTES];
    struct hearth_gguf_writer *w = NULL;
    if (!folder_of(t, folder) || !path_of(t, l->layer, path))
        return hearth_fail(t->err, HEARTH_E_INVALID, "%s: the name is too long", t->out);
    const size_t fc1 = hearth_predictor_matrix_bytes(shape_of(l), 1, t->n_embd, t->n_ff) * t->n_expert;
    const size_t fc2 = hearth_predictor_matrix_bytes(shape_of(l), 2, t->n_embd, t->n_ff) * t->n_expert;
    int rc = hearth_folder_make(folder, t->err);
    if (!rc)
        rc = hearth_gguf_writer_open(&w, path, t->err);
    if (!rc)
        rc = hearth_gguf_put_u64(w, "hearth.train.settings", t->settings, t->err);
    if (!rc)
        rc = hearth_gguf_put_f32(w, "hearth.train.recall", l->recall, t->err);
    if (!rc)
        rc = hearth_gguf_put_f32(w, "hearth.train.active", l->active, t->err);
    if (!rc)
        rc = hearth_gguf_put_f32(w, "hearth.train.chosen", l->chosen, t->err);
    if (!rc)
        rc = hearth_gguf_put_f32(w, "hearth.train.bytes", l->bytes, t->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "hearth.train.untrained", l->untrained, t->err);
    if (!rc)
        rc = declare(t, w, l);
    if (!rc)
        rc = hearth_gguf_put_checksums(w, t->err);
    if (!rc)
        rc = hearth_gguf_write(w, t->fc1, fc1, t->err);
    if (!rc)
        rc = hearth_gguf_write(w, t->fc2, fc2, t->err);
    if (!rc)
        rc = hearth_gguf_finish(&w, t->err);
    hearth_gguf_writer_close(&w);
    return rc;
}

// ---- the model

// Of the predictors that the model had, and their checksums.
static bool is_left_out(const struct hearth_gguf_tensor *tensor)
{
    return hearth_predictor_is_name(tensor->name.s) || !strcmp(tensor->name.s, HEARTH_CHECKSUMS_NAME);
}

static bool is_ours(const struct hearth_str *key)
{
    static const char *const keys[] = {"hearth.sparse_threshold", "powerinfer.sparse_threshold",
                                       "hearth.pack.predictor_input"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (hearth_str_is(*key, keys[i]))
            return true;
    return hearth_gguf_is_layout_key(*key) || hearth_str_begins(*key, "hearth.predictors.");
}

// Facts about all layers, one number a layer.
struct facts {
    struct hearth_train_layer *layers;
    float *recall, *active, *chosen;
};

static int put_metadata(const struct hearth_trainer *t, struct hearth_gguf_writer *w, const struct facts *f)
{
    const struct hearth_gguf *g = t->model->gguf;
    const char *input = t->params.early ? "previous" : "normed";
    int rc = HEARTH_OK;
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g) && !rc; i++)
        if (!is_ours(&hearth_gguf_kv_at(g, i)->key))
            rc = hearth_gguf_put_kv(w, hearth_gguf_kv_at(g, i), t->err);
    if (!rc && !t->stream)
        rc = hearth_gguf_put_str(w, "hearth.pack.predictor_input", input, strlen(input), t->err);
    if (!rc)
        rc = hearth_gguf_put_f32(w, t->stream ? "powerinfer.sparse_threshold" : "hearth.sparse_threshold", 1,
                                 t->err);
    if (!rc)
        rc = hearth_gguf_put_array(w, "hearth.predictors.recall", HEARTH_GGUF_F32, f->recall, t->n_layer,
                                   t->err);
    if (!rc)
        rc = hearth_gguf_put_array(w, "hearth.predictors.active", HEARTH_GGUF_F32, f->active, t->n_layer,
                                   t->err);
    return rc ? rc
              : hearth_gguf_put_array(w, "hearth.predictors.chosen", HEARTH_GGUF_F32, f->chosen, t->n_layer,
                                      t->err);
}

static int put_tensors(const struct hearth_trainer *t, struct hearth_gguf_writer *w, const struct facts *f)
{
    const struct hearth_gguf *g = t->model->gguf;
    int rc = HEARTH_OK;
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g) && !rc; i++) {
        const struct hearth_gguf_tensor *tensor = hearth_gguf_tensor_at(g, i);
        if (!is_left_out(tensor))
            rc = hearth_gguf_put_tensor(w, tensor->name.s, tensor->type, tensor->n_dims, tensor->ne, t->err);
    }
    for (size_t i = 0; i < t->n_layer && !rc; i++)
        rc = declare(t, w, &f->layers[i]);
    return rc ? rc : hearth_gguf_put_checksums(w, t->err);
}

static int copy_layer(const struct hearth_trainer *t, struct hearth_gguf_writer *w, int layer, void *buffer)
{
    struct hearth_gguf *g;
    int rc = open_layer(t, layer, &g, t->err);
    for (int matrix = 1; matrix <= 2 && !rc; matrix++) {
        char name[64];
        name_of(t, layer, matrix, name, sizeof name);
        rc = hearth_gguf_copy(w, g, hearth_gguf_tensor(g, name), buffer, COPY_BYTES, t->err);
    }
    hearth_gguf_close(&g);
    return rc;
}

static int copy_all(const struct hearth_trainer *t, struct hearth_gguf_writer *w)
{
    const struct hearth_gguf *g = t->model->gguf;
    void *buffer = hearth_calloc(1, COPY_BYTES);
    int rc = buffer ? HEARTH_OK : hearth_fail(t->err, HEARTH_E_MEMORY, "no memory to copy a model");
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g) && !rc; i++)
        if (!is_left_out(hearth_gguf_tensor_at(g, i)))
            rc = hearth_gguf_copy(w, g, hearth_gguf_tensor_at(g, i), buffer, COPY_BYTES, t->err);
    for (int i = 0; i < (int)t->n_layer && !rc; i++)
        rc = copy_layer(t, w, i, buffer);
    free(buffer);
    return rc;
}

static int take_facts(const struct hearth_trainer *t, struct facts *f)
{
    f->layers = hearth_calloc(t->n_layer, sizeof *f->layers);
    f->recall = hearth_calloc(t->n_layer, sizeof *f->recall);
    f->active = hearth_calloc(t->n_layer, sizeof *f->active);
    f->chosen = hearth_calloc(t->n_layer, sizeof *f->chosen);
    if (!f->layers || !f->recall || !f->active || !f->chosen)
        return hearth_fail(t->err, HEARTH_E_MEMORY, "no memory to write a model");
    for (size_t i = 0; i < t->n_layer; i++) {
        if (!hearth_trainer_has_layer(t, (int)i, &f->layers[i]))
            return hearth_fail(t->err, HEARTH_E_IO, "%s.layers: layer %zu is gone or damaged", t->out, i);
        f->recall[i] = f->layers[i].recall;
        f->active[i] = f->layers[i].active;
        f->chosen[i] = f->layers[i].chosen;
    }
    return HEARTH_OK;
}

static void remove_layers(const struct hearth_trainer *t)
{
    char path[PATH_BYTES];
    for (int i = 0; i < (int)t->n_layer; i++)
        if (path_of(t, i, path))
            (void)hearth_path_remove(path);
    if (folder_of(t, path))
        (void)hearth_path_remove(path);
}

int hearth_trainer_write(struct hearth_trainer *t)
{
    struct facts f = {0};
    struct hearth_gguf_writer *w = NULL;
    int rc = take_facts(t, &f);
    if (!rc)
        rc = hearth_gguf_writer_open(&w, t->out, t->err);
    if (!rc && t->stream)
        hearth_gguf_writer_set_pwri(w);
    if (!rc)
        rc = put_metadata(t, w, &f);
    if (!rc)
        rc = put_tensors(t, w, &f);
    if (!rc)
        rc = copy_all(t, w);
    if (!rc)
        rc = hearth_gguf_finish(&w, t->err);
    hearth_gguf_writer_close(&w);
    if (!rc)
        remove_layers(t);
    free(f.layers);
    free(f.recall);
    free(f.active);
    free(f.chosen);
    return rc;
}
