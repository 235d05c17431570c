// SPDX-License-Identifier: MIT
// A job's tokens become pieces of text.
#include "serve/job.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "sample/sampler.h"

// ---- probabilities

static double log_sum(const float *logits, int n)
{
    double max = (double)logits[0], sum = 0;
    for (int i = 1; i < n; i++)
        max = fmax(max, (double)logits[i]);
    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum);
}

// The k best, best first; of equal ones, the lower id.
static int best(const float *logits, int n, int k, struct hearth_prob *out)
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        if (found == k && logits[i] <= out[k - 1].log_prob)
            continue;
        int at = found < k ? found++ : k - 1;
        for (; at > 0 && out[at - 1].log_prob < logits[i]; at--)
            out[at] = out[at - 1];
        out[at] = (struct hearth_prob){i, logits[i]};
    }
    return found;
}

static void tell_probs(struct hearth_piece *piece, const struct hearth_job *job, const float *logits,
                       int n_vocab, struct hearth_prob *probs)
{
    if (job->n_probs < 0)
        return;
    const double all = log_sum(logits, n_vocab);
    const int k = job->n_probs < HEARTH_PROBS_MAX ? job->n_probs : HEARTH_PROBS_MAX;
    piece->log_prob = (float)((double)logits[piece->token] - all);
    piece->probs = probs;
    piece->n_probs = k ? best(logits, n_vocab, k, probs) : 0;
    for (int i = 0; i < piece->n_probs; i++)
        probs[i].log_prob = (float)((double)probs[i].log_prob - all);
}

// ---- texts to stop at

// The first of the texts in held[from..); its place in *at, or n.
static const char *find_stop(const struct hearth_task *task, const struct hearth_out *held, size_t *at)
{
    const char *found = NULL;
    *at = held->n;
    for (int i = 0; i < task->n_stops; i++) {
        const char *stop = task->stops[i];
        const char *place = held->n ? hearth_find_bytes(held->data, held->n, stop, strlen(stop)) : NULL;
        if (place && (size_t)(place - held->data) < *at) {
            *at = (size_t)(place - held->data);
            found = stop;
        }
    }
    return found;
}

// Bytes at the end of what is held that may begin a text to stop at.
static size_t undecided(const struct hearth_task *task, const struct hearth_out *held)
{
    size_t most = 0;
    for (int i = 0; i < task->n_stops; i++) {
        const size_t n = strlen(task->stops[i]) - 1;
        for (size_t k = n < held->n ? n : held->n; k > most; k--)
            if (!memcmp(held->data + held->n - k, task->stops[i], k)) {
                most = k;
                break;
            }
    }
    return most;
}

// ---- tokens

static bool append(struct hearth_job *job, hearth_token token)
{
    if (job->n_tokens == job->cap) {
        const int cap = job->cap < 64 ? 128 : job->cap * 2;
        hearth_token *grown = hearth_reallocarray(job->tokens, (size_t)cap, sizeof *grown);
        if (!grown)
            return false;
        job->tokens = grown;
        job->cap = cap;
    }
    job->tokens[job->n_tokens++] = token;
    return true;
}

// Hands over what is certain of the text; the rest stays held.
static enum hearth_end put_token(struct hearth_job *job, struct hearth_piece *piece)
{
    const char *text;
    size_t at;
    const size_t n = hearth_stream_push(job->stream, piece->token, &text);
    hearth_out_add(&job->held, text, n);
    const char *stop = job->stop = find_stop(job->task, &job->held, &at);
    piece->n_text = stop ? at : job->held.n - undecided(job->task, &job->held);
    piece->text = job->held.data;
    hearth_task_put(job->task, piece);
    hearth_out_drop(&job->held, stop ? job->held.n : piece->n_text);
    return job->held.failed ? HEARTH_END_FAILED : stop ? HEARTH_END_STOP : HEARTH_END_NONE;
}

enum hearth_end hearth_job_choose(struct hearth_job *job, const struct hearth_model *model,
                                  const float *logits, int room)
{
    struct hearth_prob probs[HEARTH_PROBS_MAX];
    struct hearth_piece piece = {.job = job->index, .has_token = true};
    piece.token = hearth_sample(job->sampler, logits);
    if (hearth_sampler_is_lost(job->sampler)) // other texts would decide how it goes on
        return HEARTH_END_FAILED;
    if (piece.token < 0) // the grammar allows nothing more
        return HEARTH_END_EOS;
    hearth_sampler_accept(job->sampler, piece.token);
    job->stats.n_generated++;
    piece.stats = job->stats;
    if (!job->ignore_eos && hearth_token_is_eog(model, piece.token))
        return HEARTH_END_EOS;
    tell_probs(&piece, job, logits, hearth_model_info(model)->n_vocab, probs);
    if (!append(job, piece.token))
        return HEARTH_END_FAILED;
    const enum hearth_end end = put_token(job, &piece);
    if (end)
        return end;
    const bool full = job->n_predict >= 0 && job->stats.n_generated >= job->n_predict;
    return full || job->n_tokens >= room ? HEARTH_END_LENGTH : HEARTH_END_NONE;
}

void hearth_job_end(struct hearth_job *job, enum hearth_end end, const char *message)
{
    struct hearth_task *task = job->task;
    struct hearth_piece piece = {.job = job->index, .end = end, .stats = job->stats, .message = message};
    const char *text;
    piece.stop = job->stop;
    if (end == HEARTH_END_EOS || end == HEARTH_END_LENGTH) {
        const size_t n = hearth_stream_flush(job->stream, &text);
        hearth_out_add(&job->held, text, n);
        piece.text = job->held.data;
        piece.n_text = job->held.n;
    }
    if (end == HEARTH_END_FAILED && !message)
        piece.message = hearth_sampler_is_lost(job->sampler)
                            ? "the grammar leaves too much open at once to be followed"
                            : "out of memory";
    hearth_task_put(task, &piece);
}
