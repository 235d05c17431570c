// SPDX-License-Identifier: MIT
// A text's way through a model, layer by layer: it is cut into windows, each of which is a text of its own,
// and all windows pass a layer before any passes the next one (engine/by_layer.h). In memory are one layer's
// weights, the keys and values of a few windows, and the stream of all tokens, or this is in a scratch file.
#ifndef HEARTH_CONVERT_WALK_H
#define HEARTH_CONVERT_WALK_H

#include "convert/row_store.h"
#include "engine/context.h"
#include "hearth.h"

// Tokens [first, first + n) of the text; where the vocabulary has BOS, it comes before them.
struct hearth_window {
    uint64_t first;
    int n;
};

struct hearth_walk {
    // The caller's.
    const struct hearth_model *model;
    const hearth_token *tokens;
    const struct hearth_window *windows; // [n_windows]
    size_t n_windows;
    int n_ctx;     // tokens of the longest window, BOS included
    int n_threads; // 0: one per physical core
    int n_ubatch;  // rows that pass a layer together; 0: 512 or n_ctx, whichever is more
    struct hearth_session_params params; // whatever else the session is to have
    const char *beside;                  // scratch files go to this file's folder
    uint64_t state_bytes;                // of memory that the stream of all tokens may take
    // After each group of windows that passed a layer: share of the layer that is done. False stops. NULL.
    bool (*progress)(void *arg, int layer, float share);
    void *progress_arg;

    struct hearth_session *s; // for its probes; hearth_walk_row() tells what their rows are
    size_t group;             // windows that pass together
    size_t first;             // window of sequence 0
    bool bos;
    struct hearth_row_store states; // of each row, what hearth_by_layer_width() speaks of
    uint64_t *at;                   // [n_windows] their first rows in it
    float *x;                       // of n_ubatch rows
    struct hearth_by_layer_row *rows;
};

// What a row of the session's stands for: a token of a window; false: BOS, or the first token of a window
// where there is no BOS, which has nothing before it.
struct hearth_walk_place {
    size_t window;
    int token; // of the window's tokens
};
bool hearth_walk_row(const struct hearth_walk *w, struct hearth_row row, struct hearth_walk_place *place);

// Takes the memory and opens the session, which begins. Errors of sessions and of files. Closing follows in
// any case.
int hearth_walk_open(struct hearth_walk *w, struct hearth_error *err);
void hearth_walk_close(struct hearth_walk *w);

// The layer's weights come, and go. Layers in ascending order.
int hearth_walk_enter(struct hearth_walk *w, int layer, struct hearth_error *err);
void hearth_walk_leave(struct hearth_walk *w, int layer);
// Takes windows [first, end) through the layer; with `keep` their stream becomes that behind it, else it stays
// that before it, and they can pass again.
int hearth_walk_pass(struct hearth_walk *w, int layer, size_t first, size_t end, bool keep,
                     struct hearth_error *err);

#endif
