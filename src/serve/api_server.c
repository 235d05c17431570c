// SPDX-License-Identifier: MIT
// What is told of the server itself.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "serve/api.h"

void hearth_api_health(struct hearth_exchange *x)
{
    hearth_exchange_json(x, 200, json_pack("{s:s}", "status", "ok"));
}

// With the fields of Anthropic's beside those of OpenAI.
static json_t *describe_model(const struct hearth_exchange *x)
{
    const struct hearth_model_info *info = hearth_model_info(x->server->served.model);
    json_t *meta =
        json_pack("{s:i, s:i, s:i, s:i, s:I, s:I}", "n_vocab", info->n_vocab, "n_ctx_train",
                  info->n_ctx_train, "n_ctx", hearth_scheduler_room(x->server->scheduler), "n_embd",
                  info->n_embd, "n_params", (json_int_t)info->n_params, "size", (json_int_t)info->n_bytes);
    const char *name = x->server->params->name;
    char time[32];
    struct tm parts = {0};
    (void)hearth_calendar((int64_t)x->server->started, false, &parts);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return json_pack("{s:s, s:s, s:I, s:s, s:o, s:s, s:s, s:s}", "id", name, "object", "model", "created",
                     (json_int_t)x->server->started, "owned_by", "hearth", "meta", meta, "type", "model",
                     "display_name", name, "created_at", time);
}

void hearth_api_models(struct hearth_exchange *x)
{
    const char *name = x->server->params->name;
    hearth_exchange_json(x, 200,
                         json_pack("{s:s, s:[o], s:b, s:s, s:s}", "object", "list", "data", describe_model(x),
                                   "has_more", 0, "first_id", name, "last_id", name));
}

void hearth_api_model(struct hearth_exchange *x)
{
    if (!strcmp(x->rest, x->server->params->name))
        hearth_exchange_json(x, 200, describe_model(x));
    else
        hearth_exchange_error(x, 404, "model", "there is no model %s here, only %s", x->rest,
                              x->server->params->name);
}

// ---- props

static json_t *token_text(const struct hearth_model *model, hearth_token token)
{
    char bytes[512];
    const size_t n = token < 0 ? 0 : hearth_token_bytes(model, token, true, bytes, sizeof bytes);
    return hearth_exchange_string_of(bytes, n < sizeof bytes ? n : sizeof bytes);
}

static json_t *string_of(const char *text)
{
    return hearth_exchange_string_of(text, text ? strlen(text) : 0);
}

// What requests get that say nothing.
static json_t *usual_sampling(const struct hearth_exchange *x)
{
    const struct hearth_sampler_params *p = &x->server->sampling;
    return json_pack("{s:i, s:I, s:f, s:i, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:s}", "n_predict",
                     x->server->served.n_predict, "seed", p->seed == UINT32_MAX ? -1 : (json_int_t)p->seed,
                     "temperature", (double)p->temp, "top_k", p->top_k, "top_p", (double)p->top_p, "min_p",
                     (double)p->min_p, "typical_p", (double)p->typ_p, "top_n_sigma", (double)p->top_n_sigma,
                     "repeat_last_n", p->repeat_last_n, "repeat_penalty", (double)p->repeat_penalty,
                     "presence_penalty", (double)p->presence_penalty, "frequency_penalty",
                     (double)p->frequency_penalty, "samplers",
                     p->samplers ? p->samplers : hearth_sampler_names());
}

void hearth_api_props(struct hearth_exchange *x)
{
    const struct hearth_model *model = x->server->served.model;
    const char *template = hearth_model_chat_template(model);
    char version[64];
    snprintf(version, sizeof version, "hearth %s", hearth_version());
    json_t *all = json_pack(
        "{s:{s:i, s:o}, s:i, s:s, s:o, s:o, s:o, s:o, s:s, s:{s:b, s:b}}", "default_generation_settings",
        "n_ctx", hearth_scheduler_room(x->server->scheduler), "params", usual_sampling(x), "total_slots",
        x->server->params->n_slots, "model_alias", x->server->params->name, "model_path",
        string_of(hearth_model_info(model)->path), "chat_template", string_of(template), "bos_token",
        token_text(model, hearth_token_bos(model)), "eos_token", token_text(model, hearth_token_eos(model)),
        "build_info", version, "modalities", "vision", 0, "audio", 0);
    hearth_exchange_json(x, 200, all);
}

// ---- slots and metrics

void hearth_api_slots(struct hearth_exchange *x)
{
    struct hearth_scheduler_info info;
    struct hearth_slot_info *slots = calloc((size_t)x->server->params->n_slots, sizeof *slots);
    json_t *all = json_array();
    if (slots)
        hearth_scheduler_look(x->server->scheduler, &info, slots);
    for (int i = 0; slots && i < info.n_slots; i++) {
        const struct hearth_slot_info *slot = &slots[i];
        json_array_append_new(all, json_pack("{s:i, s:i, s:b, s:b, s:I, s:i, s:i, s:i}", "id", i, "n_ctx",
                                             hearth_scheduler_room(x->server->scheduler), "is_processing",
                                             slot->state != HEARTH_SLOT_IDLE, "is_generating",
                                             slot->state == HEARTH_SLOT_GENERATING, "id_task",
                                             (json_int_t)slot->order, "n_prompt_tokens", slot->n_prompt,
                                             "n_past", slot->n_done, "n_decoded", slot->n_generated));
    }
    free(slots);
    hearth_exchange_json(x, 200, all);
}

static void put_metric(struct hearth_out *out, const char *name, const char *type, const char *help,
                       double value)
{
    hearth_out_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, type, name, value);
}

// The names that llama.cpp's server has, too.
static void put_common(struct hearth_out *out, const struct hearth_scheduler_info *i)
{
    const double prompt_s = (double)i->prompt_ns / 1e9, generate_s = (double)i->generate_ns / 1e9;
    put_metric(out, "llamacpp:prompt_tokens_total", "counter", "Prompt tokens evaluated.",
               (double)i->prompt_tokens);
    put_metric(out, "llamacpp:prompt_seconds_total", "counter",
               "Seconds until the first token, of all texts.", prompt_s);
    put_metric(out, "llamacpp:tokens_predicted_total", "counter", "Tokens generated.",
               (double)i->generated_tokens);
    put_metric(out, "llamacpp:tokens_predicted_seconds_total", "counter",
               "Seconds from the first token to the last, of all texts.", generate_s);
    put_metric(out, "llamacpp:prompt_tokens_seconds", "gauge", "Prompt tokens a second, of one text.",
               prompt_s > 0 ? (double)i->prompt_tokens / prompt_s : 0);
    put_metric(out, "llamacpp:predicted_tokens_seconds", "gauge", "Tokens generated a second, of one text.",
               generate_s > 0 ? (double)i->generated_tokens / generate_s : 0);
    put_metric(out, "llamacpp:requests_processing", "gauge", "Texts that are being generated.", i->n_busy);
    put_metric(out, "llamacpp:requests_deferred", "gauge", "Texts that wait.", i->n_waiting);
    put_metric(out, "llamacpp:n_decode_total", "counter", "Evaluations.", (double)i->evaluations);
    put_metric(out, "llamacpp:n_busy_slots_per_decode", "gauge", "Texts in an evaluation, on average.",
               i->evaluations ? (double)i->busy_sum / (double)i->evaluations : 0);
}

static void put_own(struct hearth_out *out, const struct hearth_scheduler_info *i)
{
    const struct hearth_streaming_stats *s = &i->streaming;
    put_metric(out, "hearth:cached_tokens_total", "counter", "Prompt tokens that were there already.",
               (double)i->cached_tokens);
    put_metric(out, "hearth:restored_tokens_total", "counter", "Of these, tokens that came from disk.",
               (double)i->restored_tokens);
    put_metric(out, "hearth:written_blocks_total", "counter", "Blocks of prompts written to disk.",
               (double)i->written_blocks);
    put_metric(out, "hearth:prefixes", "gauge", "Former prompts that are kept.", i->n_prefixes);
    put_metric(out, "hearth:preempted_total", "counter", "Texts that made room for others and began again.",
               (double)i->preempted);
    put_metric(out, "hearth:kv_pages_used", "gauge", "Pages of the KV cache in use.",
               (double)i->kv.pages_used);
    put_metric(out, "hearth:kv_pages", "gauge", "Pages of the KV cache.", (double)i->kv.pages);
    put_metric(out, "hearth:read_bytes_total", "counter", "Bytes of weights read from the file.",
               (double)(s->prompt_read_bytes + s->step_read_bytes));
    put_metric(out, "hearth:read_wait_seconds_total", "counter", "Seconds spent waiting for these reads.",
               (double)(s->prompt_wait_ns + s->step_wait_ns) / 1e9);
    put_metric(out, "hearth:neuron_hits_total", "counter", "Neurons that were in memory.",
               (double)(s->neuron_resident_hits + s->neuron_hits));
    put_metric(out, "hearth:neuron_misses_total", "counter", "Neurons that were not.",
               (double)s->neuron_misses);
    put_metric(out, "hearth:expert_hits_total", "counter", "Experts that were in memory.",
               (double)s->expert_hits);
    put_metric(out, "hearth:expert_misses_total", "counter", "Experts that were not.",
               (double)s->expert_misses);
    put_metric(out, "hearth:memory_bytes", "gauge", "Bytes of memory that the process has for itself.",
               (double)hearth_memory_private());
    put_metric(out, "hearth:resident_bytes", "gauge", "Bytes of neurons that stay in memory.",
               (double)s->resident_bytes);
    put_metric(out, "hearth:cache_bytes", "gauge", "Bytes of the cache of neurons or experts.",
               (double)s->cache_bytes);
}

void hearth_api_metrics(struct hearth_exchange *x)
{
    struct hearth_scheduler_info info;
    hearth_scheduler_look(x->server->scheduler, &info, NULL);
    put_common(&x->out, &info);
    put_own(&x->out, &info);
    x->status = 200;
    x->type = "text/plain; version=0.0.4; charset=utf-8";
    x->finished = true;
}
