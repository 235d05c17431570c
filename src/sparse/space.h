// SPDX-License-Identifier: MIT
// Spaces: the neurons of one layer or expert, the place of their rows, and their cut into clusters.
#ifndef HEARTH_SPARSE_SPACE_H
#define HEARTH_SPARSE_SPACE_H

#include "model/model.h"

// The largest number of clusters in a space.
#define HEARTH_CLUSTERS 32

// Number of neurons in a cluster, the unit of summation (docs/sparse.md). Cluster c is [c * size,
// (c + 1) * size); the last one may be shorter. A partial sum costs as much as a few neurons, so a
// cluster has 448. Where these are two to seven, they become an even number of nearly equal ones: of so
// few, a shorter one leaves threads waiting.
static inline size_t hearth_cluster_size(size_t n_neurons)
{
    const size_t of_448 = (n_neurons + 447) / 448, even = of_448 + of_448 % 2;
    const size_t least = (n_neurons + HEARTH_CLUSTERS - 1) / HEARTH_CLUSTERS;
    const size_t size = of_448 > 1 && of_448 < 8 ? (n_neurons + even - 1) / even : least > 448 ? least : 448;
    return (size + 15) / 16 * 16;
}

static inline size_t hearth_cluster_count(size_t n_neurons)
{
    const size_t size = hearth_cluster_size(n_neurons);
    return (n_neurons + size - 1) / size;
}

// The most clusters that a space of the model has. A narrower one may have more than a wider one.
static inline size_t hearth_most_clusters(const struct hearth_hparams *hp)
{
    const size_t widest = hearth_cluster_count((size_t)(hp->n_expert ? hp->n_ff_exp : hp->n_ff));
    const size_t narrow = hearth_cluster_count((size_t)hp->n_ff_narrow);
    size_t most = narrow > widest ? narrow : widest;
    for (int i = 0; i < hp->n_layer && hp->uneven; i++) {
        const size_t own = hearth_cluster_count((size_t)hp->n_ff_by[i]);
        most = own > most ? own : most;
    }
    return most;
}

// The largest cluster of the model's spaces. A narrower one may have larger clusters than a wider one.
static inline size_t hearth_largest_cluster(const struct hearth_hparams *hp)
{
    const size_t widest = hearth_cluster_size((size_t)(hp->n_expert ? hp->n_ff_exp : hp->n_ff));
    const size_t narrow = hp->n_ff_narrow ? hearth_cluster_size((size_t)hp->n_ff_narrow) : 0;
    size_t largest = narrow > widest ? narrow : widest;
    for (int i = 0; i < hp->n_layer && hp->uneven; i++) {
        const size_t own = hearth_cluster_size((size_t)hp->n_ff_by[i]);
        largest = own > largest ? own : largest;
    }
    return largest;
}

// The rows of a space: of gate and up [E], and of down stored by neuron [E]. The first `resident`
// neurons are in matrices. In a model in memory these are all neurons. Otherwise the rest are
// bundles in the neuron cache.
struct hearth_space {
    struct hearth_weight gate, up; // gate.data is NULL if there is none
    struct hearth_weight down_t;   // data is NULL if down is stored the ordinary way; then it is not here
    size_t n, resident;            // number of neurons; of resident ones
};

// Row j of a matrix.
static inline const void *hearth_space_row(const struct hearth_weight *w, size_t j)
{
    return (const uint8_t *)w->data + j * w->stride;
}

// The space of a layer and expert (expert 0 in a model without experts).
struct hearth_space hearth_space_of(const struct hearth_hparams *hp, const struct hearth_layer *layer,
                                    int expert);

#endif
