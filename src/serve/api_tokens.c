// SPDX-License-Identifier: MIT
// llama.cpp's endpoints about texts and tokens.
#include <stdlib.h>

#include "serve/api.h"
#include "serve/request.h"

static json_t *piece_of(const struct hearth_model *model, hearth_token token)
{
    char bytes[512];
    const size_t n = hearth_token_bytes(model, token, true, bytes, sizeof bytes);
    return json_pack("{s:i, s:o}", "id", token, "piece",
                     hearth_exchange_string_of(bytes, n < sizeof bytes ? n : sizeof bytes));
}

void hearth_api_tokenize(struct hearth_exchange *x)
{
    const json_t *content = hearth_request_field(x, "content");
    bool bos = false, special = true, pieces = false;
    struct hearth_prompt prompt = {0};
    if (!hearth_request_bool(x, "add_special", &bos) || !hearth_request_bool(x, "parse_special", &special) ||
        !hearth_request_bool(x, "with_pieces", &pieces))
        return;
    if (!json_is_string(content)) {
        hearth_exchange_error(x, 400, "content", "content: a text is wanted");
        return;
    }
    if (!hearth_prompt_tokenize(x, json_string_value(content), json_string_length(content),
                                (bos ? HEARTH_TOKENIZE_BOS : 0) | (special ? HEARTH_TOKENIZE_SPECIAL : 0),
                                &prompt))
        return;
    json_t *tokens = json_array();
    for (int i = 0; i < prompt.n; i++)
        json_array_append_new(tokens, pieces ? piece_of(x->server->served.model, prompt.tokens[i])
                                             : json_integer(prompt.tokens[i]));
    hearth_prompt_free(&prompt);
    hearth_exchange_json(x, 200, json_pack("{s:o}", "tokens", tokens));
}

void hearth_api_detokenize(struct hearth_exchange *x)
{
    struct hearth_prompt_list list = {0};
    struct hearth_out text = {0};
    const json_t *tokens = hearth_request_field(x, "tokens");
    if (json_is_array(tokens) && !json_array_size(tokens))
        hearth_exchange_json(x, 200, json_pack("{s:s}", "content", ""));
    else if (!hearth_prompt_read(x, "tokens", &list))
        ;
    else if (!hearth_prompt_text(x->server->served.model, list.items[0].tokens, list.items[0].n, &text))
        hearth_exchange_error(x, 500, NULL, "out of memory");
    else
        hearth_exchange_json(x, 200, json_pack("{s:o}", "content", hearth_exchange_string(&text)));
    hearth_prompt_list_free(&list);
    hearth_out_free(&text);
}

void hearth_api_apply_template(struct hearth_exchange *x)
{
    x->continues = true;
    struct hearth_chat_text *text =
        hearth_prompt_render(x, hearth_request_field(x, "messages"), hearth_request_field(x, "tools"));
    size_t n;
    if (!text)
        return;
    const char *bytes = hearth_chat_text_bytes(text, &n);
    hearth_exchange_json(x, 200, json_pack("{s:o}", "prompt", hearth_exchange_string_of(bytes, n)));
    hearth_chat_text_close(&text);
}
