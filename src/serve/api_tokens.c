// SPDX-License-Identifier: MIT
// llama.cpp's endpoints about texts and tokens.
#include <stdlib.h>

#include "serve/api.h"
#include "serve/request.h"

// Tokens of an answer that are written at once.
#define A_PART 256

// A text, or the bytes of a part of a character.
static json_t *piece_of(const char *bytes, size_t n)
{
    json_t *piece = json_stringn(bytes, n), *list = piece ? NULL : json_array();
    for (size_t i = 0; i < n && list; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    return piece ? piece : list;
}

static void put_token(struct hearth_exchange *x, hearth_token token)
{
    char bytes[512];
    struct hearth_out *out = &x->out;
    if (!x->with_pieces) {
        hearth_out_printf(out, "%d", token);
        return;
    }
    const size_t n = hearth_token_bytes(x->server->served.model, token, true, bytes, sizeof bytes);
    hearth_out_printf(out, "{\"id\":%d,\"piece\":", token);
    hearth_out_json(out, piece_of(bytes, n < sizeof bytes ? n : sizeof bytes));
    hearth_out_text(out, "}");
}

// As JSON values, tokens would take a hundred times the memory of the text that they come from.
static bool write_tokens(struct hearth_exchange *x)
{
    hearth_out_text(&x->out, x->n_items ? "" : "{\"tokens\":[");
    for (int i = 0; i < A_PART && x->n_items < x->n_tokens; i++) {
        hearth_out_text(&x->out, x->n_items ? "," : "");
        put_token(x, x->tokens[x->n_items++]);
    }
    if (x->n_items < x->n_tokens)
        return true;
    hearth_out_text(&x->out, "]}");
    return false;
}

void hearth_api_tokenize(struct hearth_exchange *x)
{
    const json_t *content = hearth_request_field(x, "content");
    bool bos = false, special = true;
    struct hearth_prompt prompt = {0};
    if (!hearth_request_bool(x, "add_special", &bos) || !hearth_request_bool(x, "parse_special", &special) ||
        !hearth_request_bool(x, "with_pieces", &x->with_pieces))
        return;
    if (!json_is_string(content)) {
        hearth_exchange_error(x, 400, "content", "content: a text is wanted");
        return;
    }
    x->counts = true;
    if (!hearth_prompt_may_fit(x, "content", json_string_length(content)) ||
        !hearth_prompt_tokenize(x, json_string_value(content), json_string_length(content),
                                (bos ? HEARTH_TOKENIZE_BOS : 0) | (special ? HEARTH_TOKENIZE_SPECIAL : 0),
                                &prompt))
        return;
    x->tokens = prompt.tokens;
    x->n_tokens = prompt.n;
    hearth_exchange_write(x, write_tokens);
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
