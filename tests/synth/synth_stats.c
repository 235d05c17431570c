// SPDX-License-Identifier: MIT
// Prints which neurons and experts a model uses, layer by layer:
// synth_stats MODEL [SEQUENCES [STEPS [TEMP [EVERY]]]]; EVERY = 8 looks at each eighth layer only.
#include "synth_stats.h"

int main(int argc, char **argv)
{
    struct hearth_error err = {0};
    struct hearth_model *m = NULL;
    struct hearth_session *s = NULL;
    const struct hearth_model_params mp = hearth_model_params_default();
    struct hearth_session_params sp = hearth_session_params_default();
    const int n_seqs = argc > 2 ? atoi(argv[2]) : STATS_SEQS, n_steps = argc > 3 ? atoi(argv[3]) : 100;
    if (argc < 2 || n_seqs < 1 || n_seqs > STATS_SEQS || n_steps < 2) {
        fprintf(stderr, "usage: synth_stats MODEL [SEQUENCES 1..%d [STEPS [TEMP [EVERY]]]]\n", STATS_SEQS);
        return 2;
    }
    sp.max_seqs = n_seqs;
    sp.n_ctx = n_steps + 1;
    int rc = hearth_model_open(&m, argv[1], &mp, &err);
    if (!rc)
        rc = hearth_session_open(&s, m, &sp, &err);
    struct stats st;
    if (!rc) {
        stats_open(&st, s);
        st.every = argc > 5 && atoi(argv[5]) > 0 ? atoi(argv[5]) : 1;
        rc = stats_generate(&st, n_seqs, n_steps, argc > 4 ? (float)atof(argv[4]) : 0.8f, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("%d different tokens in the second half of %d\n", rc, n_steps);
    printf(
        "layer  gate active predct missed  idle  top20  top50  jacc  union unionP  first  hits  xtop found  vain\n");
    for (int i = 0; i < m->hp.n_layer; i += st.every) {
        const struct stats_layer l = stats_of(&st, i);
        printf("%5d %.3f %.4f %.4f %.4f %.4f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f\n", i, l.gate,
               l.active, l.predicted, l.missed, l.idle, l.top20, l.top50, l.jaccard, l.in_union,
               l.union_predicted, l.first_repeats, l.expert_hits, l.expert_top, l.found, l.in_vain);
    }
    stats_close(&st);
    hearth_session_close(&s);
    hearth_model_close(&m);
    return 0;
}
