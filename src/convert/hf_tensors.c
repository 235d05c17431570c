// SPDX-License-Identifier: MIT
// Finds the tensors of a model in its checkpoint.
#include "convert/hf_tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "convert/hf_f8.h"
#include "convert/hf_fp4.h"
#include "model/nextn.h"

struct finding {
    struct hearth_hf_tensors *out;
    const struct hearth_hf_model *m;
    const struct hearth_checkpoint *c;
    const struct hearth_arch *arch;
    const char *base;      // the family's, or "" where the checkpoint leaves it out
    bool predictors_given; // from a folder beside the checkpoint
    bool *used;            // [tensors of the checkpoint]
    struct hearth_error *err;
};

// A name in the checkpoint.
#define MAX_NAME 256
struct name {
    char text[MAX_NAME];
};

// How the name of a tensor with blocks in MXFP4 ends.
#define BLOCKS "_blocks"
// And of one with several numbers in an integer.
#define PACKED "_packed"

static int no_memory(const struct finding *f)
{
    return hearth_fail(f->err, HEARTH_E_MEMORY, "%s: no memory for the list of tensors", f->m->folder);
}

// ---- names

// The name of a table's entry for a layer (-1: none) and an expert.
static struct name name_of(const struct finding *f, const char *from, int layer, uint32_t expert)
{
    struct name n;
    const bool head = !strncmp(from, "lm_head", 7) || !strcmp(from, "output.weight"),
               whole = head || !strncmp(from, "mtp.", 4);
    const bool apart = f->m->family->extra_apart && layer >= (int)f->m->n_layer;
    const char *outer = head && !strcmp(f->base, "language_model.model.") ? "language_model." : "";
    const char *base = whole || apart ? outer : f->base, *mark = strchr(from, '#');
    const char *layers = f->m->family->layers ? f->m->family->layers : "layers.";
    int at = layer < 0 || whole
                 ? snprintf(n.text, sizeof n.text, "%s", base)
                 : snprintf(n.text, sizeof n.text, "%s%s%d.", base, apart ? "mtp.layers." : layers,
                            apart ? layer - (int)f->m->n_layer : layer);
    if (mark)
        snprintf(n.text + at, sizeof n.text - (size_t)at, "%.*s%u%s", (int)(mark - from), from, expert,
                 mark + 1);
    else
        snprintf(n.text + at, sizeof n.text - (size_t)at, "%s", from);
    return n;
}

static const struct hearth_source_tensor *find(const struct finding *f, const struct hearth_hf_map *map,
                                               int layer, uint32_t expert)
{
    struct name n = name_of(f, map->from, layer, expert);
    if (map->need == HEARTH_HF_PREDICTOR && f->predictors_given)
        snprintf(n.text, sizeof n.text, "predictor.%d.%s", layer,
                 strstr(map->from, "fc1") ? "fc1.weight" : "fc2.weight");
    const struct hearth_source_tensor *s = hearth_checkpoint_find(f->c, n.text);
    if (!s && (f->m->f8.packed || f->m->f8.inverse) && strlen(n.text) + sizeof PACKED <= sizeof n.text) {
        strcat(n.text, PACKED);
        s = hearth_checkpoint_find(f->c, n.text);
    }
    return s;
}

// ---- shapes

// Queries, keys and values of the gated delta rule.
static uint64_t delta_rows(const struct hearth_hf_model *m)
{
    return (2 * (uint64_t)m->rec_keys + m->rec_heads) * m->rec_dim;
}

// Values of recurrent layers, what their convolution mixes, and what is projected.
static uint64_t rec_values(const struct hearth_hf_model *m)
{
    const bool heads =
        m->family->has_delta || m->family->has_scan || m->family->has_kda || m->family->has_fixed;
    return heads ? (uint64_t)m->rec_heads * m->rec_dim : m->n_embd;
}

static uint64_t rec_channels(const struct hearth_hf_model *m)
{
    if (m->family->has_scan)
        return rec_values(m) + 2 * (uint64_t)m->rec_keys * m->rec_state;
    return m->family->has_delta ? delta_rows(m) : m->n_embd;
}

static uint64_t rec_inputs(const struct hearth_hf_model *m)
{
    if (m->family->has_scan)
        return rec_values(m) + rec_channels(m) + m->rec_heads;
    return m->family->has_delta ? delta_rows(m) : 3 * rec_values(m);
}

// In a layer; -1: outside of them.
static uint64_t size_of(const struct hearth_hf_model *m, enum hearth_dim dim, int layer)
{
    const uint32_t at = layer < 0 ? 0 : (uint32_t)layer;
    const uint64_t head = hearth_hf_head_dim(m, at);
    const uint64_t q = m->n_head * head, kv = hearth_hf_heads_kv(m, at) * head;
    switch (dim) {
    case HEARTH_DIM_NONE:
        return 1;
    case HEARTH_DIM_EMBD:
        return m->n_embd;
    case HEARTH_DIM_EMBD_TWICE:
        return 2 * (uint64_t)m->n_embd;
    case HEARTH_DIM_FF:
        return hearth_hf_neurons(m, at);
    case HEARTH_DIM_FF_EXP:
        return m->n_ff_exp;
    case HEARTH_DIM_FF_TWICE:
        return 2 * (uint64_t)hearth_hf_neurons(m, at);
    case HEARTH_DIM_FF_EXP_TWICE:
        return 2 * (uint64_t)m->n_ff_exp;
    case HEARTH_DIM_HEADS:
        return m->n_head;
    case HEARTH_DIM_HEADS_KV:
        return hearth_hf_heads_kv(m, at);
    case HEARTH_DIM_HEAD2:
        return head / 2;
    case HEARTH_DIM_HEADS_OR_Q:
    case HEARTH_DIM_Q:
    case HEARTH_DIM_O:
        return q;
    case HEARTH_DIM_V:
    case HEARTH_DIM_KV:
        return kv;
    case HEARTH_DIM_QKV:
        return q + 2 * kv;
    case HEARTH_DIM_HEAD:
        return head;
    case HEARTH_DIM_VOCAB:
        return m->n_vocab;
    case HEARTH_DIM_ROT2:
        return m->head_dim / 2;
    case HEARTH_DIM_ONE:
        return 1;
    case HEARTH_DIM_EMBD_LAYER:
        return m->n_embd_layer;
    case HEARTH_DIM_EMBD_LAYERS:
        return (uint64_t)m->n_embd_layer * m->n_layer;
    case HEARTH_DIM_EXPERTS:
        return m->n_expert;
    case HEARTH_DIM_POS:
        return (uint64_t)m->n_ctx + 2;
    case HEARTH_DIM_FF_SHARED:
        return m->n_ff_shared;
    case HEARTH_DIM_Q_TWICE:
        return 2 * q;
    case HEARTH_DIM_REC_IN:
        return rec_inputs(m);
    case HEARTH_DIM_REC_CHANNELS:
        return rec_channels(m);
    case HEARTH_DIM_REC_TAPS:
        return m->n_taps;
    case HEARTH_DIM_REC_VALUES:
        return rec_values(m);
    case HEARTH_DIM_REC_HEADS:
        return m->rec_heads;
    case HEARTH_DIM_REC_HEADS_TWICE:
        return 2 * (uint64_t)m->rec_heads;
    case HEARTH_DIM_REC_HEAD:
        return m->rec_dim;
    case HEARTH_DIM_Q_RANK:
        return m->q_rank;
    case HEARTH_DIM_LATENT:
        return m->rank;
    case HEARTH_DIM_LATENT_KEY:
        return (uint64_t)m->rank + m->n_rot;
    case HEARTH_DIM_STILL:
        return m->still_dim;
    case HEARTH_DIM_HEADS_QUERY:
        return (uint64_t)m->n_head * (m->still_dim + m->n_rot);
    case HEARTH_DIM_HEADS_BOTH:
        return (uint64_t)m->n_head * (m->still_dim + m->value_dim);
    case HEARTH_DIM_HEADS_VALUE:
        return (uint64_t)m->n_head * m->value_dim;
    case HEARTH_DIM_VALUE:
        return m->value_dim;
    case HEARTH_DIM_STREAM_COUNT:
        return m->n_streams;
    case HEARTH_DIM_STREAM_SQUARE:
        return (uint64_t)m->n_streams * m->n_streams;
    case HEARTH_DIM_MIX_RANK:
        return m->mix_rank;
    case HEARTH_DIM_REC_GROUPS:
        return m->rec_keys;
    case HEARTH_DIM_REC_GROUP:
        return m->rec_keys ? rec_values(m) / m->rec_keys : 0;
    case HEARTH_DIM_EMBD_EXP:
        return m->n_embd_exp ? m->n_embd_exp : m->n_embd;
    case HEARTH_DIM_CHOOSER:
        return m->choose_dim;
    case HEARTH_DIM_CHOOSER_Q:
        return (uint64_t)m->choose_heads * m->choose_dim;
    case HEARTH_DIM_CHOOSER_HEADS:
        return m->choose_heads;
    case HEARTH_DIM_STREAMS: // no family has these
    case HEARTH_DIM_GRAM:
    case HEARTH_DIM_GRAMS:
    case HEARTH_DIM_GRAM_ROWS:
    case HEARTH_DIM_GRAM_TAPS:
    case HEARTH_DIM_MIX:
    case HEARTH_DIM_MIX_KINDS:
    case HEARTH_DIM_OUT_GROUP:
    case HEARTH_DIM_OUT_LOW:
    case HEARTH_DIM_BLEND:
    case HEARTH_DIM_BLOCK:
    case HEARTH_DIM_CHOOSER_TWICE:
    case HEARTH_DIM_EXPERTS_USED:
    case HEARTH_DIM_RANK:
        break;
    }
    return 0; // any
}

static bool is_of_recurrence(enum hearth_need need)
{
    return need == HEARTH_RECURS || need == HEARTH_RECURS_F32 || need == HEARTH_RECURS_MAYBE ||
           need == HEARTH_RECURS_TAPS;
}

// Where layers of two kinds have tensors of one name, that of the layer's kind.
static const struct hearth_binding *binding_of(const struct hearth_arch *arch, const char *to, bool of_layer,
                                               bool recurrent)
{
    const struct hearth_binding *found = NULL;
    for (const struct hearth_binding *b = of_layer ? arch->layer : arch->globals; b->name; b++)
        if (!strcmp(b->name, to) && (!found || (recurrent && is_of_recurrence(b->need))))
            found = b;
    return found;
}

// Of a layer that guesses tokens ahead. Its embedding and its head have the shape of the model's.
static const struct hearth_binding *extra_binding_of(const struct hearth_arch *arch, const char *to)
{
    static const char *const copies[] = {"nextn.embed_tokens.weight", "nextn.shared_head_head.weight"};
    for (const struct hearth_binding *b = hearth_nextn_globals; b->name; b++)
        if (!strcmp(b->name, to))
            return b;
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        if (!strcmp(copies[i], to))
            return binding_of(arch, "token_embd.weight", false, false);
    return NULL;
}

static int wrong_shape(const struct finding *f, const struct hearth_source_tensor *s, uint64_t rows,
                       uint64_t cols)
{
    char has[128] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < s->n_dims && at < sizeof has; i++)
        at += (size_t)snprintf(has + at, sizeof has - at, "%s%" PRIu64, i ? ", " : "", s->dims[i]);
    return hearth_fail(f->err, HEARTH_E_FORMAT,
                       "%s: tensor %.200s has shape [%s], where [%" PRIu64 ", %" PRIu64
                       "] fits config.json: files of different models",
                       hearth_file_path(s->file), s->name, has, rows, cols);
}

static int check_type(const struct finding *f, const struct hearth_source_tensor *s)
{
    if (s->type != HEARTH_TYPE_END)
        return HEARTH_OK;
    return hearth_fail(f->err, HEARTH_E_UNSUPPORTED,
                       "%s: tensor %.200s is in format %s, which cannot be converted: F32, F16 and BF16 can",
                       hearth_file_path(s->file), s->name, s->type_name);
}

// ---- building the list

static struct hearth_hf_tensor *add_tensor(struct finding *f, const char *to, int layer)
{
    struct hearth_hf_tensors *out = f->out;
    if (out->n == out->cap) {
        const size_t cap = out->cap ? 2 * out->cap : 128;
        struct hearth_hf_tensor *items = hearth_reallocarray(out->items, cap, sizeof *items);
        if (!items)
            return NULL;
        out->items = items;
        out->cap = cap;
    }
    struct hearth_hf_tensor *t = &out->items[out->n++];
    *t = (struct hearth_hf_tensor){.first_piece = out->n_pieces, .ne = {1, 1, 1, 1}};
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s", to);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, to);
    return t;
}

static int add_piece(struct finding *f, struct hearth_hf_piece p)
{
    struct hearth_hf_tensors *out = f->out;
    if (out->n_pieces == out->cap_pieces) {
        const size_t cap = out->cap_pieces ? 2 * out->cap_pieces : 256;
        struct hearth_hf_piece *pieces = hearth_reallocarray(out->pieces, cap, sizeof *pieces);
        if (!pieces)
            return no_memory(f);
        out->pieces = pieces;
        out->cap_pieces = cap;
    }
    out->pieces[out->n_pieces++] = p;
    out->items[out->n - 1].n_pieces++;
    return HEARTH_OK;
}

// The shape that a tensor should have: rows 0 where any number will do, for ranks of predictors.
struct shape {
    uint64_t rows, cols, each; // `each` matrices in a tensor of the checkpoint
};

static bool fits(const struct hearth_source_tensor *s, struct shape want, bool vector)
{
    if (vector && want.each == 1 && s->n_dims == 4) { // [1, 1, n, 1]
        uint32_t longer = 0;
        for (uint32_t i = 0; i < 4; i++)
            longer += s->dims[i] != 1;
        return s->n_elements == want.rows && longer <= 1;
    }
    uint64_t dims[3];
    uint32_t n = 0;
    if (want.each > 1 || (s->n_dims == 3 && s->dims[1] != 1))
        dims[n++] = want.each;
    dims[n++] = want.rows;
    if (want.each == 1 && s->n_dims == 3 && n == 1) // a convolution's channels are one by one
        dims[n++] = 1;
    if (!vector)
        dims[n++] = want.cols;
    if (vector && s->n_dims == 2 && s->dims[0] == 1) // a row
        return s->dims[1] == want.rows;
    if (s->n_dims != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (dims[i] ? s->dims[i] != dims[i] : s->dims[i] == 0)
            return false;
    return true;
}

// Where the matrices of a tensor lie in the checkpoint's.
struct layout {
    struct shape stored;
    uint64_t rows, cols;  // of each matrix
    uint64_t first, next; // elements: where the first one begins, and from one to the next
    uint32_t step;        // as in struct hearth_hf_piece,
    uint64_t stride;      // and this
    enum hearth_hf_order order;
};

static struct layout layout_of(const struct hearth_hf_model *m, enum hearth_hf_order order, struct shape want)
{
    struct layout l = {want, want.rows, want.cols, 0, want.rows * want.cols, 1, want.cols, order};
    switch (order) {
    case HEARTH_HF_SECOND_HALF:
        l.first = want.rows * want.cols;
        /* fallthrough */
    case HEARTH_HF_FIRST_HALF:
        l.order = HEARTH_HF_SAME;
        l.stored.rows *= 2;
        l.next *= 2;
        break;
    case HEARTH_HF_EVEN_ROWS:
    case HEARTH_HF_ODD_ROWS:
        l.first = order == HEARTH_HF_ODD_ROWS ? want.cols : 0;
        l.order = HEARTH_HF_SAME;
        l.stored.rows *= 2;
        l.next *= 2;
        l.step = 2;
        l.stride *= 2;
        break;
    case HEARTH_HF_PADDED:
        l.order = HEARTH_HF_SAME;
        break;
    case HEARTH_HF_COLUMNS:
        l.stored = (struct shape){want.cols, want.rows, want.each};
        l.rows = want.cols;
        l.cols = l.stride = want.rows;
        break;
    case HEARTH_HF_FIRST_COLUMNS:
    case HEARTH_HF_SECOND_COLUMNS:
        l.stored = (struct shape){want.cols, 2 * want.rows, want.each};
        l.rows = want.cols;
        l.cols = want.rows;
        l.stride = 2 * want.rows;
        l.first = order == HEARTH_HF_SECOND_COLUMNS ? want.rows : 0;
        l.next *= 2;
        l.order = HEARTH_HF_COLUMNS;
        break;
    case HEARTH_HF_EVEN_COLUMNS:
    case HEARTH_HF_ODD_COLUMNS:
        l.stored = (struct shape){want.cols, 2 * want.rows, want.each};
        l.rows = want.cols;
        l.cols = want.rows;
        l.stride = 2 * want.rows;
        l.first = order == HEARTH_HF_ODD_COLUMNS;
        l.next *= 2;
        l.step = 2;
        l.order = HEARTH_HF_COLUMNS;
        break;
    case HEARTH_HF_GROUPED_Q:
    case HEARTH_HF_GROUPED_K:
    case HEARTH_HF_GROUPED_V:
        l.stored.rows = ((uint64_t)m->n_head + 2 * (uint64_t)m->n_head_kv) * m->head_dim;
        break;
    case HEARTH_HF_JOINT_QKV:
    case HEARTH_HF_JOINT_GATES:
        l.stored.rows = 2 * ((uint64_t)m->rec_keys + m->rec_heads) * m->rec_dim;
        break;
    case HEARTH_HF_KEYS_OF_BOTH:
    case HEARTH_HF_VALUES_OF_BOTH: {
        const bool keys = order == HEARTH_HF_KEYS_OF_BOTH;
        l.stored = (struct shape){want.each * (m->still_dim + m->value_dim), m->rank, 1};
        l.rows = keys ? m->still_dim : m->value_dim;
        l.cols = m->rank;
        l.first = keys ? 0 : (uint64_t)m->still_dim * m->rank;
        l.next = (uint64_t)(m->still_dim + m->value_dim) * m->rank;
        l.order = keys ? HEARTH_HF_COLUMNS : HEARTH_HF_SAME;
        break;
    }
    default:
        break;
    }
    return l;
}

// The scales of blocks of numbers in MXFP4: [matrices][rows][blocks of 32] beside [matrices][rows][blocks][16 bytes].
static int find_scales(const struct finding *f, const struct hearth_source_tensor *s, struct shape stored,
                       const struct hearth_source_tensor **scales)
{
    char name[MAX_NAME];
    const size_t n = strlen(s->name) - strlen(BLOCKS);
    snprintf(name, sizeof name, "%.*s_scales", (int)n, s->name);
    *scales = hearth_checkpoint_find(f->c, name);
    if (!*scales)
        return hearth_fail(f->err, HEARTH_E_FORMAT, "%s: tensor %s is missing", f->m->folder, name);
    const uint64_t dims[] = {stored.each, stored.rows, stored.cols / 32, 16};
    const struct hearth_source_tensor *both[] = {s, *scales};
    for (uint32_t i = 0; i < 2; i++) {
        bool ok = both[i]->n_dims == 4 - i && !strcmp(both[i]->type_name, "U8") &&
                  both[i]->bytes == both[i]->n_elements && stored.cols % 32 == 0;
        for (uint32_t k = 0; k < 4 - i && ok; k++)
            ok = both[i]->dims[k] == dims[k];
        if (!ok)
            return hearth_fail(f->err, HEARTH_E_FORMAT,
                               "%s: tensor %.200s has not the bytes of %" PRIu64 " matrices [%" PRIu64
                               ", %" PRIu64 "] in MXFP4, which fit config.json",
                               hearth_file_path(both[i]->file), both[i]->name, stored.each, stored.rows,
                               stored.cols);
    }
    f->used[hearth_checkpoint_index(f->c, *scales)] = true;
    return HEARTH_OK;
}

static int find_factors(const struct finding *f, const struct hearth_source_tensor *s,
                        const struct hearth_source_tensor **factors)
{
    const int rc = hearth_hf_f8_find(f->m, f->c, s, factors, f->err);
    if (!rc)
        f->used[hearth_checkpoint_index(f->c, *factors)] = true;
    return rc;
}

// A matrix in NVFP4 stays in it, so that its columns stay columns.
static int find_fp4(const struct finding *f, const struct hearth_source_tensor *s, enum hearth_hf_order order,
                    const struct hearth_source_tensor **scales)
{
    if (order == HEARTH_HF_COLUMNS || (order == HEARTH_HF_VALUE_COLUMNS && f->m->rec_dim % 64))
        return hearth_fail(
            f->err, HEARTH_E_UNSUPPORTED,
            "%s: tensor %.200s is in NVFP4, and its columns would change their places, which blocks "
            "cannot: take the original checkpoint",
            hearth_file_path(s->file), s->name);
    const int rc = hearth_hf_fp4_find(f->m, f->c, s, scales, f->err);
    if (!rc)
        f->used[hearth_checkpoint_index(f->c, *scales)] = true;
    return rc;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}

static int add_pieces(struct finding *f, const struct hearth_hf_map *map,
                      const struct hearth_source_tensor *s, struct shape want, bool vector)
{
    const struct layout any = layout_of(f->m, map->order, want);
    const struct hearth_source_tensor *scales = NULL, *factors = NULL;
    const bool blocks = ends_with(map->from, BLOCKS), fp4 = !blocks && !vector && hearth_hf_is_fp4(f->m, s);
    const bool packed = !vector && hearth_hf_is_packed(f->m, s);
    struct hearth_source_tensor whole = *s; // with its numbers as they are unpacked
    if ((fp4 || packed) && s->n_dims && s->dims[s->n_dims - 1] <= UINT64_MAX / 8)
        whole.dims[s->n_dims - 1] *= fp4 ? 2 : 8;
    int rc = HEARTH_OK;
    if (blocks)
        rc = find_scales(f, s, any.stored, &scales);
    else if (!fits(&whole, any.stored, vector))
        rc = wrong_shape(f, &whole, any.stored.rows, any.stored.cols);
    else if (fp4)
        rc = find_fp4(f, s, any.order, &scales);
    else if (packed || (hearth_hf_is_f8(s) && !vector))
        rc = find_factors(f, s, &factors);
    else
        rc = check_type(f, s);
    if (rc)
        return rc;
    want.rows = want.rows ? want.rows : s->dims[0]; // ranks of predictors
    want.cols = want.cols ? want.cols : s->dims[1];
    const struct layout l = layout_of(f->m, map->order, want);
    for (uint64_t i = 0; i < want.each && !rc; i++)
        rc = add_piece(f, (struct hearth_hf_piece){.from = s,
                                                   .scales = scales,
                                                   .factors = factors,
                                                   .fp4 = fp4,
                                                   .first = l.first + i * l.next,
                                                   .rows = l.rows,
                                                   .cols = l.cols,
                                                   .step = l.step,
                                                   .stride = l.stride});
    f->out->items[f->out->n - 1].order = l.order;
    f->used[hearth_checkpoint_index(f->c, s)] = true;
    return rc;
}

// Sets the tensor's shape from its pieces. Predictors of experts share a tensor, so their ranks must be
// equal.
static int set_shape(struct finding *f, struct hearth_hf_tensor *t, bool vector, bool each)
{
    const struct hearth_hf_piece *p = &f->out->pieces[t->first_piece];
    for (size_t i = 1; i < t->n_pieces; i++)
        if (p[i].rows != p[0].rows || p[i].cols != p[0].cols)
            return hearth_fail(
                f->err, HEARTH_E_UNSUPPORTED,
                "%s: tensor %.200s: predictors of different ranks in one layer are not supported",
                hearth_file_path(p[i].from->file), p[i].from->name);
    const bool turned = t->order == HEARTH_HF_COLUMNS;
    t->is_vectors = vector;
    const bool row = vector && !each && p[0].from->n_dims == 2 && p[0].from->dims[0] == 1;
    t->n_dims = (vector && !row ? 1u : 2u) + each;
    t->ne[0] = vector || turned ? p[0].rows : p[0].cols;
    t->ne[1] = vector ? 1 : turned ? p[0].cols : p[0].rows + t->n_zero;
    if (each)
        t->ne[t->n_dims - 1] = t->n_pieces;
    return HEARTH_OK;
}

static bool is_down(const char *to)
{
    return !strcmp(to, "ffn_down.weight") || !strcmp(to, "ffn_down_exps.weight");
}

// Scales of whole matrices in NVFP4, one or one for each expert, unless all are 1. What says them is then used.
static int add_fp4_scales(struct finding *f, size_t at)
{
    const struct hearth_hf_tensor *of = &f->out->items[at];
    const size_t n = of->n_pieces, first = of->first_piece, dot = strlen(of->name) - strlen(".weight");
    bool all = n > 0, any = false, trivial = true;
    for (size_t i = 0; i < n; i++) {
        all = all && f->out->pieces[first + i].fp4;
        any = any || f->out->pieces[first + i].fp4;
    }
    if (!any)
        return HEARTH_OK;
    if (!all)
        return hearth_fail(
            f->err, HEARTH_E_UNSUPPORTED,
            "%s: of the experts of %s some are in NVFP4 and others are not: take the original checkpoint",
            f->m->folder, of->name);
    float **owned = hearth_reallocarray(f->out->owned, f->out->n_owned + 1, sizeof *owned);
    float *scales = owned ? hearth_calloc(n, sizeof *scales) : NULL;
    f->out->owned = owned ? owned : f->out->owned;
    if (!scales)
        return no_memory(f);
    owned[f->out->n_owned++] = scales;
    int rc = HEARTH_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct hearth_source_tensor *one = NULL;
        rc = hearth_hf_fp4_scale(f->m, f->c, f->out->pieces[first + i].from, &one, &scales[i], f->err);
        if (one)
            f->used[hearth_checkpoint_index(f->c, one)] = true;
        trivial = trivial && fabs((double)scales[i] - 1) < (n > 1 ? 1.1e-5 : 1e-6);
    }
    if (rc || trivial)
        return rc;
    char name[64];
    snprintf(name, sizeof name, "%.*s.scale", (int)dot, of->name);
    struct hearth_hf_tensor *t = add_tensor(f, name, -1);
    if (!t)
        return no_memory(f);
    t->n_dims = 1;
    t->ne[0] = n;
    t->values = scales;
    return HEARTH_OK;
}

// Adds the tensor of a table's entry, whose (first) tensor in the checkpoint is s.
static int add(struct finding *f, const struct hearth_hf_map *map, int layer,
               const struct hearth_source_tensor *s)
{
    const bool recurrent = layer >= 0 && hearth_hf_is_recurrent(f->m, (uint32_t)layer);
    const struct hearth_binding *b = binding_of(f->arch, map->to, layer >= 0, recurrent);
    if (!b && layer >= (int)f->m->n_layer)
        b = extra_binding_of(f->arch, map->to);
    if (!b)
        return hearth_fail(f->err, HEARTH_E_UNSUPPORTED, "%s: architecture %s has no tensor %s (%.200s)",
                           hearth_file_path(s->file), f->arch->name, map->to, s->name);
    const bool of_experts = hearth_need_is_each(b->need) || b->need == HEARTH_EACH_VECTOR;
    const bool each = of_experts || b->need == HEARTH_EACH_HEAD || b->need == HEARTH_EACH_STREAM;
    const uint32_t count = of_experts                      ? f->m->n_expert
                           : b->need == HEARTH_EACH_STREAM ? f->m->n_streams - 1
                                                           : f->m->n_head;
    const bool one = b->n == HEARTH_DIM_NONE || b->need == HEARTH_EACH_VECTOR;
    const bool spread = !one && (map->order == HEARTH_HF_SPREAD || map->order == HEARTH_HF_DECAY);
    const bool vector = one || spread;
    const bool separate = strchr(map->from, '#') != NULL, turned = f->out->has_predictors && is_down(map->to);
    struct shape want = {size_of(f->m, b->n, layer), size_of(f->m, b->k, layer), 1};
    uint64_t n_zero = 0;
    const uint64_t columns = want.cols;
    const struct hearth_source_tensor *const first = s;
    if (vector)
        want = (struct shape){spread ? want.rows * want.cols : want.cols, 1, 1};
    if (each && !separate)
        want.each = count;
    if (map->order == HEARTH_HF_PADDED && s->n_dims && s->dims[0] && s->dims[0] < want.rows) {
        n_zero = want.rows - s->dims[0];
        want.rows = s->dims[0];
    }
    const char *to = !turned ? map->to : each ? "ffn_down_t_exps.weight" : "ffn_down_t.weight";
    struct hearth_hf_tensor *t = add_tensor(f, to, layer);
    if (!t)
        return no_memory(f);
    int rc = add_pieces(f, map, s, want, vector);
    t->n_zero = n_zero;
    for (uint32_t e = 1; e < count && separate && !rc; e++) {
        s = find(f, map, layer, e);
        rc = s ? add_pieces(f, map, s, want, vector)
               : hearth_fail(f->err, HEARTH_E_FORMAT, "%s: tensor %s is missing", f->m->folder,
                             name_of(f, map->from, layer, e).text);
    }
    if (turned)
        t->order = HEARTH_HF_COLUMNS;
    const size_t at = f->out->n - 1;
    rc = rc ? rc : set_shape(f, t, vector, each);
    if (!rc && spread) {
        t->n_dims = first->n_dims > 2 ? first->n_dims : 2;
        t->ne[0] = columns;
        t->ne[1] = want.rows / columns;
    }
    if (!rc && b->need == HEARTH_RECURS_TAPS) { // in files each channel stands alone
        t->n_dims = 4;
        t->ne[2] = t->ne[1];
        t->ne[1] = 1;
    }
    return rc ? rc : add_fp4_scales(f, at);
}

static bool may_be_missing(const struct finding *f, const struct hearth_hf_map *map)
{
    return map->need == HEARTH_HF_OPTIONAL || map->need == HEARTH_HF_EITHER ||
           (map->need == HEARTH_HF_HEAD && f->m->tied) ||
           (map->need == HEARTH_HF_PREDICTOR && !f->out->has_predictors);
}

// Whether the layer has what an entry names.
static bool applies(const struct finding *f, const struct hearth_hf_map *map, int layer)
{
    const uint32_t at = layer < 0 ? 0 : (uint32_t)layer;
    switch (map->need) {
    case HEARTH_HF_ATTENDS:
        return !hearth_hf_is_recurrent(f->m, at) && !hearth_hf_feeds(f->m, at);
    case HEARTH_HF_RECURS:
        return hearth_hf_is_recurrent(f->m, at);
    case HEARTH_HF_FEEDS:
        return hearth_hf_feeds(f->m, at) && !f->m->n_expert;
    case HEARTH_HF_LEADING:
        return hearth_hf_is_dense(f->m, at);
    case HEARTH_HF_EXPERTS:
        return f->m->n_expert && !hearth_hf_is_dense(f->m, at);
    case HEARTH_HF_CHOOSES:
        return !(f->m->shares_choice[at / 32] >> (at % 32) & 1);
    case HEARTH_HF_SMALL:
        return f->m->n_embd_exp && !hearth_hf_is_dense(f->m, at);
    case HEARTH_HF_SHARED:
        return f->m->n_ff_shared && !hearth_hf_is_dense(f->m, at);
    case HEARTH_HF_WHOLE_Q:
        return !f->m->q_rank;
    case HEARTH_HF_TWO_STEP_Q:
        return f->m->q_rank;
    case HEARTH_HF_OWN_KEYS:
        return !hearth_hf_borrows(f->m, at);
    case HEARTH_HF_OWN_VALUES:
        return !hearth_hf_borrows(f->m, at) && (hearth_hf_is_windowed(f->m, at) || !f->m->keys_are_values);
    case HEARTH_HF_TOKEN_GIVES:
        return f->m->n_embd_layer;
    default:
        return true;
    }
}

static int add_table(struct finding *f, const struct hearth_hf_map *map, int layer)
{
    int rc = HEARTH_OK;
    for (; map->from && !rc; map++) {
        if (!applies(f, map, layer))
            continue;
        const struct hearth_source_tensor *s = find(f, map, layer, 0);
        if (s && map->need == HEARTH_HF_HEAD && f->m->tied)
            f->used[hearth_checkpoint_index(f->c, s)] = true; // the embedding once more
        else if (s)
            rc = add(f, map, layer, s);
        else if (!may_be_missing(f, map))
            rc = hearth_fail(f->err, HEARTH_E_FORMAT, "%s: tensor %s is missing", f->m->folder,
                             name_of(f, map->from, layer, 0).text);
        if (s && map->need == HEARTH_HF_EITHER)
            map++;
    }
    return rc;
}

// ---- factors of the rotation

// llama3's: slow frequencies are divided by the factor, fast ones are kept, those between are interpolated.
// In f32, as the models' own code has it.
static void fill_llama3(const struct hearth_hf_model *m, float *factors, uint32_t n)
{
    const float factor = (float)m->rope_factor;
    const float low = (float)((double)m->n_ctx_orig / m->low_freq_factor);
    const float high = (float)((double)m->n_ctx_orig / m->high_freq_factor);
    for (uint32_t i = 0; i < n; i++) {
        const float frequency = 1.0f / powf((float)m->rope_theta, (float)(2 * i) / (float)m->head_dim);
        const float length = (float)(2 * 3.14159265358979323846) / frequency;
        const float band = (float)(m->high_freq_factor - m->low_freq_factor);
        const float share = band > 0 ? ((float)m->n_ctx_orig / length - (float)m->low_freq_factor) / band : 1;
        factors[i] = length < high ? 1.0f : length > low ? factor : 1.0f / ((1.0f - share) / factor + share);
    }
}

// Pairs that do not rotate have a frequency so low that no text is long enough to see it.
static void fill_proportional(const struct hearth_hf_model *m, float *factors, uint32_t n)
{
    const uint32_t rotating = (uint32_t)(m->rope_share * m->full_head_dim) / 2;
    for (uint32_t i = 0; i < n; i++)
        factors[i] = i < rotating ? 1.0f : 1e30f;
}

// Of short texts and of long ones, as config.json has them.
static int add_long_factors(struct finding *f)
{
    const struct hearth_hf_model *m = f->m;
    const uint32_t n = m->n_rot / 2;
    const json_t *lists[] = {m->short_factors, m->long_factors};
    static const char *const names[] = {"rope_factors_short.weight", "rope_factors_long.weight"};
    float *factors = f->out->rope_factors = hearth_calloc(2 * (size_t)n, sizeof *factors);
    if (!factors)
        return no_memory(f);
    for (size_t k = 0; k < 2; k++, factors += n) {
        struct hearth_hf_tensor *t = add_tensor(f, names[k], -1);
        if (!t)
            return no_memory(f);
        for (uint32_t i = 0; i < n; i++)
            factors[i] = (float)json_number_value(json_array_get(lists[k], i));
        t->n_dims = 1;
        t->ne[0] = n;
        t->values = factors;
    }
    return HEARTH_OK;
}

static int add_rope_factors(struct finding *f)
{
    const struct hearth_hf_model *m = f->m;
    const uint32_t n = (m->family->window_heads ? m->full_head_dim : m->head_dim) / 2;
    float *factors = f->out->rope_factors = hearth_calloc(n, sizeof *factors);
    struct hearth_hf_tensor *t = add_tensor(f, "rope_freqs.weight", -1);
    if (!factors || !t)
        return no_memory(f);
    if (m->family->window_heads)
        fill_proportional(m, factors, n);
    else
        fill_llama3(m, factors, n);
    t->n_dims = 1;
    t->ne[0] = n;
    t->values = factors;
    return HEARTH_OK;
}

// ---- all

// Where the text's tensors have a prefix of their own, those without it are an image's.
static bool is_of_images(const struct finding *f, const char *name)
{
    static const char text[] = "language_model.";
    if (f->m->family->sees && (!strncmp(name, "visual.", 7) || !strncmp(name, "model.visual.", 13)))
        return true;
    return f->m->outer && strstr(f->base, text) && !strstr(name, text) &&
           strcmp(name, "lm_head.weight") != 0 && strncmp(name, "mtp.", 4) != 0;
}

// Of a layer that attends to keys and values of an earlier one: what would make its own.
static bool is_spare(const struct finding *f, const char *name)
{
    static const char *const spare[] = {"k_proj.weight", "v_proj.weight", "k_norm.weight", "v_norm.weight"};
    for (uint32_t i = f->m->n_layer - f->m->n_borrowing; i < f->m->n_layer; i++)
        for (size_t k = 0; k < sizeof spare / sizeof *spare; k++) {
            char part[64];
            snprintf(part, sizeof part, "self_attn.%s", spare[k]);
            if (!strcmp(name, name_of(f, part, (int)i, 0).text))
                return true;
        }
    return false;
}

// Of a layer that guesses tokens ahead.
static bool is_extra(const struct finding *f, const char *name)
{
    if (f->m->family->extra) // which are kept
        return false;
    const char *start = f->m->family->guesses;
    if (start && f->m->n_extra && !strncmp(name, start, strlen(start)))
        return true;
    for (uint32_t i = f->m->n_layer; i < f->m->n_layer + f->m->n_extra; i++) {
        const struct name layer = name_of(f, "", (int)i, 0);
        if (!strncmp(name, layer.text, strlen(layer.text)))
            return true;
    }
    return false;
}

// Tables that the code can compute, from old checkpoints; and predictors, where others are given.
static bool is_needless(const struct finding *f, const char *name)
{
    return is_spare(f, name) || is_extra(f, name) || hearth_hf_f8_is_needless(f->m, name) ||
           ends_with(name, ".rotary_emb.inv_freq") || ends_with(name, ".attention.masked_bias") ||
           ends_with(name, ".self_attention.maybe_rotary.inv_freq") || is_of_images(f, name) ||
           (f->predictors_given && strstr(name, ".predictor.fc"));
}

static int check_all_used(const struct finding *f)
{
    for (size_t i = 0; i < hearth_checkpoint_n_tensors(f->c); i++) {
        const struct hearth_source_tensor *s = hearth_checkpoint_at(f->c, i);
        if (!f->used[i] && !is_needless(f, s->name))
            return hearth_fail(f->err, HEARTH_E_UNSUPPORTED,
                               "%s: tensor %.200s has no place in a model of class %s with these settings",
                               hearth_file_path(s->file), s->name, f->m->family->classes[0]);
    }
    return HEARTH_OK;
}

// Checkpoints of the bare model leave out the outermost name.
static const char *find_base(const struct finding *f)
{
    const char *embedding = f->m->family->globals[0].from;
    const char *base = f->m->family->base ? f->m->family->base : "model.";
    const char *bases[] = {base, strchr(base, '.') + 1, "", "model.language_model.", "language_model.model."};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        struct name n;
        snprintf(n.text, sizeof n.text, "%s%s", bases[i], embedding);
        if (hearth_checkpoint_find(f->c, n.text))
            return bases[i];
    }
    return bases[0];
}

static bool find_predictors(const struct finding *f)
{
    for (const struct hearth_hf_map *map = f->m->family->layer; map->from; map++)
        if (map->need == HEARTH_HF_PREDICTOR && find(f, map, 0, 0))
            return true;
    return false;
}

static int find_all(struct finding *f)
{
    const struct hearth_hf_family *family = f->m->family;
    int rc = add_table(f, family->globals, -1);
    if (!rc && (f->m->rope == HEARTH_HF_ROPE_LLAMA3 || family->window_heads))
        rc = add_rope_factors(f);
    if (!rc && f->m->rope == HEARTH_HF_ROPE_LONG)
        rc = add_long_factors(f);
    for (uint32_t i = 0; i < f->m->n_layer && !rc; i++)
        rc = add_table(f, family->layer, (int)i);
    for (uint32_t i = f->m->n_layer; i < hearth_hf_n_blocks(f->m) && !rc; i++) {
        rc = add_table(f, family->layer, (int)i);
        if (!rc)
            rc = add_table(f, family->extra, (int)i);
    }
    return rc ? rc : check_all_used(f);
}

bool hearth_hf_has_extra(const struct hearth_hf_model *m, const struct hearth_checkpoint *c)
{
    struct finding f = {.m = m, .c = c};
    f.base = find_base(&f);
    return hearth_checkpoint_find(
        c,
        name_of(&f, m->family->extra ? m->family->extra[0].from : "eh_proj.weight", (int)m->n_layer, 0).text);
}

int hearth_hf_tensors_find(struct hearth_hf_tensors *out, const struct hearth_hf_model *m,
                           const struct hearth_checkpoint *c, struct hearth_error *err)
{
    *out = (struct hearth_hf_tensors){0};
    const struct hearth_str arch = {m->family->arch, strlen(m->family->arch)};
    struct finding f = {.out = out, .m = m, .c = c, .arch = hearth_arch_find(arch), .err = err};
    f.base = find_base(&f);
    f.predictors_given = hearth_checkpoint_find(c, "predictor.0.fc1.weight") != NULL;
    out->has_predictors = find_predictors(&f);
    f.used = hearth_calloc(hearth_checkpoint_n_tensors(c) + 1, sizeof *f.used);
    const int rc = f.used ? find_all(&f) : no_memory(&f);
    free(f.used);
    return rc;
}

void hearth_hf_tensors_free(struct hearth_hf_tensors *t)
{
    free(t->items);
    free(t->pieces);
    free(t->rope_factors);
    for (size_t i = 0; i < t->n_owned; i++)
        free(t->owned[i]);
    free(t->owned);
    *t = (struct hearth_hf_tensors){0};
}
