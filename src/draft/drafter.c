// SPDX-License-Identifier: MIT
// Guesses of a small model with the same vocabulary: it goes ahead of the text by itself for as long as that gains time.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "draft/drafter.h"
#include "model/model.h"

// So many tokens of a text at most are taken as steps, more as a prompt, of which so many at a time: the large model waits.
#define FEW  HEARTH_DRAFTER_STEPS
#define MANY 256
// A guess that is less likely is not worth its time, whatever that is.
#define LEAST_REACHED 0.05
// Rounds of guessing that are looked at together.
#define ROUNDS 16

// ---- guessing

// The likeliest token and its probability.
static hearth_token likeliest(const struct hearth_drafter *d, const float *logits, double *p)
{
    int best = 0;
    for (int i = 1; i < d->n_vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    float sum = 0;
    for (int i = 0; i < d->n_vocab; i++)
        sum += expf(logits[i] - logits[best]);
    *p = 1 / (double)sum;
    return best;
}

// Lets go of all its sequences: of texts that have ended, for example.
static void free_sequences(struct hearth_drafter *d)
{
    for (int i = 0; i < d->n_texts; i++) {
        hearth_seq_free(d->session, d->seqs[i]);
        d->seqs[i] = -1;
    }
}

// Something failed, or not (HEARTH_OK).
static void note(struct hearth_drafter *d, int rc)
{
    if (rc == HEARTH_E_KV_FULL)
        free_sequences(d);
    d->failed |= rc && rc != HEARTH_E_KV_FULL && rc != HEARTH_E_INTERRUPTED && rc != HEARTH_E_BUDGET &&
                 rc != HEARTH_E_INVALID;
}

// Appends tokens to one of its sequences. NULL: that cannot be; the texts go on without where it never will.
static const float *append(struct hearth_drafter *d, int seq, const hearth_token *tokens, int n)
{
    struct hearth_batch_row rows[FEW];
    struct hearth_error err = {0};
    int rc;
    if (n > FEW) {
        rc = hearth_prompt(d->session, seq, tokens, n, NULL, NULL, &err);
    } else {
        for (int i = 0; i < n; i++)
            rows[i] = (struct hearth_batch_row){.seq = seq,
                                                .pos = -1,
                                                .token = tokens[i],
                                                .phase = HEARTH_PHASE_STEP,
                                                .wants_logits = i + 1 == n};
        rc = hearth_evaluate(d->session, rows, n, sizeof *rows, &err);
    }
    note(d, rc);
    return rc ? NULL : hearth_logits(d->session, n > FEW ? 0 : n - 1);
}

// Brings its sequence of a text to the text's end: what it guessed and did not come is cut off. NULL: it is not there yet.
static const float *catch_up(struct hearth_drafter *d, int *seq, const hearth_token *text, int n)
{
    struct hearth_error err = {0};
    if (*seq < 0)
        *seq = hearth_seq_new(d->session, &err);
    const int has = hearth_seq_tokens(d->session, *seq, d->tokens, NULL, hearth_session_n_ctx(d->session));
    int kept = 0;
    while (kept < has && kept + 1 < n && d->tokens[kept] == text[kept])
        kept++;
    if (hearth_seq_truncate(d->session, *seq, kept, &err))
        return NULL;
    const int some = n - kept < MANY ? n - kept : MANY;
    const float *logits = append(d, *seq, text + kept, some);
    return kept + some == n ? logits : NULL;
}

// What follows a text. NULL: that is not known, or not yet.
static const float *logits_behind(struct hearth_drafter *d, const struct hearth_draft_text *text)
{
    struct hearth_error err = {0};
    const float *logits = NULL;
    if (!d->main)
        return catch_up(d, &d->seqs[text->which], text->tokens, text->n);
    const int rc = hearth_nextn_catch_up(d, text, &logits, &err);
    note(d, rc);
    return rc ? NULL : logits;
}

// The same behind a guess.
static const float *logits_behind_guess(struct hearth_drafter *d, int seq, hearth_token guess)
{
    struct hearth_error err = {0};
    const float *logits = NULL;
    if (!d->main)
        return append(d, seq, &guess, 1);
    const int rc = hearth_nextn_append(d, seq, guess, &logits, &err);
    note(d, rc);
    return rc ? NULL : logits;
}

// Whether another guess, which comes true together with those before it so often, gives more tokens a second than the
// step has without it.
static bool is_worth_it(const struct hearth_drafter *d, const struct hearth_pace *pace, double reached,
                        double tokens, int rows, uint64_t spent)
{
    const double now = hearth_pace_cost(pace, rows) + (double)spent;
    const double more = d->token_ns + hearth_pace_cost(pace, rows + 1) - hearth_pace_cost(pace, rows);
    return reached > LEAST_REACHED && (more <= 0 || reached / more > tokens / now);
}

// The token that the text's sampler would choose by these logits, with the same luck: so models that agree choose alike at
// any temperature. -1: none.
static hearth_token choose(const struct hearth_drafter *d, struct hearth_sampler *sampler,
                           const float *logits, double *p)
{
    const hearth_token best = likeliest(d, logits, p);
    const hearth_token token = sampler ? hearth_sample(sampler, logits) : best;
    if (token < 0 || token >= d->n_main)
        return -1;
    if (sampler)
        hearth_sampler_accept(sampler, token);
    *p *= exp((double)logits[token] - (double)logits[best]);
    return token;
}

void hearth_drafter_guess(struct hearth_drafter *d, struct hearth_draft *draft,
                          const struct hearth_pace *pace, const struct hearth_draft_text *text, int rows)
{
    const uint64_t start = hearth_now_ns();
    struct hearth_sampler *sampler = NULL;
    struct hearth_error err = {0};
    double reached = 1, tokens = rows, p;
    // The last guess is not evaluated.
    const int left = d->main ? INT_MAX : hearth_session_n_ctx(d->session) - text->n;
    int most = text->most < HEARTH_DRAFT_MOST ? text->most : HEARTH_DRAFT_MOST;
    most = most < left ? most : left;
    draft->n = draft->used = 0;
    if (most < 1)
        return;
    const float *logits = logits_behind(d, text);
    uint64_t last = hearth_now_ns();
    if (logits && text->sampler && d->n_vocab == d->n_main &&
        hearth_sampler_clone(&sampler, text->sampler, &err))
        return;
    while (logits && draft->n < most) {
        const hearth_token token = choose(d, sampler, logits, &p);
        if (token < 0)
            break;
        const int kind = hearth_draft_kind_of_probability(p);
        draft->tokens[draft->n] = token;
        draft->kind[draft->n++] = kind;
        reached *= hearth_pace_chance(pace, kind);
        tokens += reached;
        // The next one comes true about as often as this one.
        if (draft->n == most || !is_worth_it(d, pace, reached * hearth_pace_chance(pace, kind), tokens,
                                             rows + draft->n, last - start))
            break;
        logits = logits_behind_guess(d, d->seqs[text->which], token);
        const uint64_t now = hearth_now_ns();
        d->token_ns = d->token_ns > 0 ? 0.9 * d->token_ns + 0.1 * (double)(now - last) : (double)(now - last);
        last = now;
    }
    hearth_sampler_close(&sampler);
    d->spent_ns += hearth_now_ns() - start;
}

// ---- whether it pays

void hearth_drafter_took(struct hearth_drafter *d, int tokens, uint64_t ns)
{
    if (!d->spent_ns)
        return;
    d->gained += tokens;
    d->ns += (double)(ns + d->spent_ns);
    d->spent_ns = 0;
    if (++d->rounds == 2 * ROUNDS) {
        d->gained /= 2;
        d->ns /= 2;
        d->rounds = ROUNDS;
    }
}

bool hearth_drafter_pays(struct hearth_drafter *d, const struct hearth_pace *pace, int rows)
{
    const double alone = hearth_pace_cost(pace, rows);
    if (d->failed || alone <= 0)
        return false;
    if (d->rounds < ROUNDS)
        return true;
    if (d->gained / d->ns > HEARTH_DRAFT_LEAST_GAIN * rows / alone) {
        hearth_retry_begin(&d->retry);
        return true;
    }
    if (!hearth_retry_is_due(&d->retry))
        return false;
    d->rounds = 0;
    d->gained = d->ns = 0;
    return true;
}

// ---- opening

// Whether tokens mean the same in both: a vocabulary may be padded at its end.
static int check_vocabulary(const struct hearth_model *model, const struct hearth_model *main,
                            struct hearth_error *err)
{
    const struct hearth_model_info *a = hearth_model_info(model), *b = hearth_model_info(main);
    const int n = a->n_vocab < b->n_vocab ? a->n_vocab : b->n_vocab;
    const int differ = a->n_vocab > b->n_vocab ? a->n_vocab - b->n_vocab : b->n_vocab - a->n_vocab;
    int other = differ > 256 ? n : -1;
    for (int i = 0; i < n && other < 0; i++) {
        char x[256], y[256];
        const size_t nx = hearth_token_bytes(model, i, true, x, sizeof x),
                     ny = hearth_token_bytes(main, i, true, y, sizeof y);
        if (nx != ny || memcmp(x, y, nx < sizeof x ? nx : sizeof x) != 0)
            other = i;
    }
    if (other >= 0)
        return hearth_fail(
            err, HEARTH_E_INVALID,
            "%s cannot draft for %s: their vocabularies differ from token %d on; give a small model of the "
            "same family",
            a->path, b->path, other);
    if (hearth_has_states(&model->hp))
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%s cannot draft: it has recurrent layers, whose states cannot be cut", a->path);
    return HEARTH_OK;
}

static int open_drafter(struct hearth_drafter **out, const struct hearth_model *model,
                        struct hearth_session *session, const struct hearth_model *main, int n_texts,
                        struct hearth_error *err)
{
    struct hearth_drafter *d = hearth_calloc(1, sizeof *d);
    if (d) {
        d->session = session;
        d->n_texts = n_texts;
        d->n_vocab = hearth_model_info(model)->n_vocab;
        d->n_main = hearth_model_info(main)->n_vocab;
        d->seqs = hearth_calloc((size_t)n_texts, sizeof *d->seqs);
        d->tokens = hearth_calloc((size_t)hearth_session_n_ctx(session), sizeof *d->tokens);
        hearth_retry_begin(&d->retry);
    }
    if (!d || !d->seqs || !d->tokens) {
        hearth_drafter_close(&d);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for drafts of %d texts", n_texts);
    }
    for (int i = 0; i < n_texts; i++)
        d->seqs[i] = -1;
    *out = d;
    return HEARTH_OK;
}

int hearth_drafter_open(struct hearth_drafter **out, const struct hearth_model *model,
                        struct hearth_session *session, const struct hearth_model *main, int n_texts,
                        struct hearth_error *err)
{
    *out = NULL;
    const int rc = check_vocabulary(model, main, err);
    return rc ? rc : open_drafter(out, model, session, main, n_texts, err);
}

int hearth_drafter_open_nextn(struct hearth_drafter **out, const struct hearth_model *layer,
                              struct hearth_session *session, struct hearth_session *main, int n_texts,
                              struct hearth_error *err)
{
    *out = NULL;
    int rc = open_drafter(out, layer, session, layer, n_texts, err);
    if (!rc)
        rc = hearth_nextn_begin(*out, main, hearth_model_info(layer)->n_embd, n_texts, err);
    if (rc)
        hearth_drafter_close(out);
    return rc;
}

void hearth_drafter_close(struct hearth_drafter **drafter)
{
    struct hearth_drafter *d = *drafter;
    if (!d)
        return;
    hearth_nextn_end(d);
    free(d->seqs);
    free(d->tokens);
    free(d);
    *drafter = NULL;
}
