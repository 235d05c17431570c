// SPDX-License-Identifier: MIT
// How figures of divergence are printed.
#include "cli/divergence_output.h"

#include <stdio.h>

#include "cli/json.h"

// In percent, from the largest value down.
static const double kld_shares[] = {100, 99.9, 99, 95, 90, 50, 10, 5, 1, 0.1, 0};
static const double dp_shares[] = {100, 99.9, 99, 95, 90, 75, 50, 25, 10, 5, 1, 0.1, 0};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void name_share(char out[16], double percent)
{
    if (percent == 100)
        snprintf(out, 16, "Maximum");
    else if (percent == 50)
        snprintf(out, 16, "Median ");
    else if (percent == 0)
        snprintf(out, 16, "Minimum");
    else
        snprintf(out, 16, "%4.1f%%  ", percent);
}

static void put(const char *name, struct hearth_estimate e)
{
    printf("%-30s: %10.6f ± %10.6f\n", name, e.value, e.error);
}

static void put_percent(const char *name, struct hearth_estimate e)
{
    printf("%-10s: %6.3f ± %5.3f %%\n", name, 100 * e.value, 100 * e.error);
}

static void print_perplexities(const struct hearth_divergence_result *r)
{
    printf("====== Perplexity statistics ======\n");
    put("Mean PPL(Q)", r->ppl);
    put("Mean PPL(base)", r->ppl_base);
    printf("%-30s: %6.2f%%\n", "Cor(ln(PPL(Q)), ln(PPL(base)))", 100 * r->correlation);
    put("Mean ln(PPL(Q)/PPL(base))", r->log_ratio);
    put("Mean PPL(Q)/PPL(base)", r->ratio);
    put("Mean PPL(Q)-PPL(base)", r->difference);
}

void hearth_divergence_print(struct hearth_divergence *d)
{
    const struct hearth_divergence_result r = hearth_divergence_result(d);
    char name[16];
    print_perplexities(&r);
    printf("\n====== KL divergence statistics ======\n");
    printf("Mean    KLD: %10.6f ± %10.6f\n", r.kld.value, r.kld.error);
    for (size_t i = 0; i < COUNT(kld_shares); i++) {
        name_share(name, kld_shares[i]);
        printf("%s KLD: %10.6f\n", name, hearth_percentile(d->klds, d->n, kld_shares[i] / 100));
    }
    printf("\n====== Token probability statistics ======\n");
    put_percent("Mean    Δp", r.dp);
    for (size_t i = 0; i < COUNT(dp_shares); i++) {
        name_share(name, dp_shares[i]);
        printf("%s Δp: %6.3f%%\n", name, 100 * hearth_percentile(d->dps, d->n, dp_shares[i] / 100));
    }
    put_percent("RMS Δp    ", r.dp_rms);
    put_percent("Same top p", r.same_best);
}

static json_t *pair(struct hearth_estimate e)
{
    return json_pack("[o, o]", hearth_json_real(e.value), hearth_json_real(e.error));
}

static json_t *percentiles(const float *ascending, size_t n, const double *shares, size_t n_shares)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_shares && list; i++)
        json_array_append_new(list,
                              json_pack("{s:f, s:o}", "percent", shares[i], "value",
                                        hearth_json_real(hearth_percentile(ascending, n, shares[i] / 100))));
    return list;
}

json_t *hearth_divergence_json(struct hearth_divergence *d)
{
    const struct hearth_divergence_result r = hearth_divergence_result(d);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ppl", pair(r.ppl),
                     "ppl_base", pair(r.ppl_base), "correlation", hearth_json_real(r.correlation),
                     "ln_ppl_ratio", pair(r.log_ratio), "ppl_ratio", pair(r.ratio), "ppl_difference",
                     pair(r.difference), "kld", pair(r.kld), "kld_percentiles",
                     percentiles(d->klds, d->n, kld_shares, COUNT(kld_shares)), "delta_p", pair(r.dp),
                     "delta_p_percentiles", percentiles(d->dps, d->n, dp_shares, COUNT(dp_shares)),
                     "delta_p_rms", pair(r.dp_rms), "same_top_p", pair(r.same_best));
}
