// SPDX-License-Identifier: MIT
// What is told of the server itself.
#include "serve/api.h"

void hearth_api_health(struct hearth_exchange *x)
{
    hearth_exchange_json(x, 200, json_pack("{s:s}", "status", "ok"));
}

void hearth_api_models(struct hearth_exchange *x)
{
    const struct hearth_model_info *info = hearth_model_info(x->server->served.model);
    json_t *meta =
        json_pack("{s:i, s:i, s:i, s:i, s:I, s:I}", "n_vocab", info->n_vocab, "n_ctx_train",
                  info->n_ctx_train, "n_ctx", hearth_scheduler_room(x->server->scheduler), "n_embd",
                  info->n_embd, "n_params", (json_int_t)info->n_params, "size", (json_int_t)info->n_bytes);
    json_t *model = json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", x->server->params->name, "object", "model",
                              "created", (json_int_t)x->server->started, "owned_by", "hearth", "meta", meta);
    hearth_exchange_json(x, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model));
}
