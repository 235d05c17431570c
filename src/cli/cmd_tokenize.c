// SPDX-License-Identifier: MIT
// hearth tokenize: text to token ids, on one line, as a list, one by one with their texts, or as JSON.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/json.h"

#define PIECE_MAX 1024 // bytes of a token's text that are shown

// The text of a token, that of a control token being its name. Returns its length.
static size_t piece_of(const struct hearth_model *model, hearth_token token, char out[PIECE_MAX])
{
    const size_t n = hearth_token_bytes(model, token, true, out, PIECE_MAX);
    return n < PIECE_MAX ? n : PIECE_MAX;
}

static void print_ids(const hearth_token *tokens, size_t n, bool as_list)
{
    fputs(as_list ? "[" : "", stdout);
    for (size_t i = 0; i < n; i++)
        printf("%s%" PRId32, !i ? "" : as_list ? ", " : " ", tokens[i]);
    puts(as_list ? "]" : "");
}

// "     1 -> '<s>'". What would move the cursor or is no text is shown as \xHH.
static void print_pieces(const struct hearth_model *model, const hearth_token *tokens, size_t n)
{
    char piece[PIECE_MAX];
    for (size_t i = 0; i < n; i++) {
        const size_t length = piece_of(model, tokens[i], piece);
        printf("%6" PRId32 " -> '", tokens[i]);
        for (size_t at = 0; at < length;) {
            const size_t size = hearth_cli_character(piece + at, length - at);
            if (size)
                fwrite(piece + at, 1, size, stdout);
            else
                printf("\\x%02X", (unsigned char)piece[at]);
            at += size ? size : 1;
        }
        puts("'");
    }
}

static json_t *json_pieces(const struct hearth_model *model, const hearth_token *tokens, size_t n)
{
    json_t *list = json_array();
    char piece[PIECE_MAX];
    for (size_t i = 0; i < n; i++) {
        const size_t length = piece_of(model, tokens[i], piece);
        json_array_append_new(list, json_pack("{s:I, s:o}", "id", (json_int_t)tokens[i], "piece",
                                              hearth_json_string(piece, length)));
    }
    return json_pack("{s:I, s:o}", "n_tokens", (json_int_t)n, "tokens", list);
}

static int print_tokens(const struct hearth_options *o, const struct hearth_model *model,
                        const hearth_token *tokens, size_t n)
{
    if (o->json)
        return hearth_json_answer(json_pieces(model, tokens, n));
    if (o->pieces)
        print_pieces(model, tokens, n);
    else
        print_ids(tokens, n, o->ids);
    if (o->show_count)
        printf("Total number of tokens: %zu\n", n);
    return HEARTH_EXIT_OK;
}

static int read_text(const struct hearth_options *o, struct hearth_buffer *text)
{
    if (!o->prompt)
        return hearth_cli_read(o->file ? o->file : "-", text);
    return hearth_buffer_add(text, o->prompt, strlen(o->prompt)) ? HEARTH_EXIT_OK
                                                                 : hearth_cli_error("no memory for the text");
}

int hearth_cmd_tokenize(const struct hearth_options *o)
{
    struct hearth_model *model = NULL;
    struct hearth_buffer text = {0};
    hearth_token *tokens = NULL;
    size_t n = 0;
    const int flags =
        (o->no_bos ? 0 : HEARTH_TOKENIZE_BOS) | (o->no_parse_special ? 0 : HEARTH_TOKENIZE_SPECIAL);
    const struct hearth_command *cmd = hearth_command_find("tokenize");
    if (o->prompt && o->file)
        return hearth_cli_usage(cmd, "-p and -f exclude each other");
    if (o->parse_special && o->no_parse_special)
        return hearth_cli_usage(cmd, "--parse-special and --no-parse-special exclude each other");
    int status = hearth_cli_open_model(&model, o, true);
    if (!status)
        status = read_text(o, &text);
    if (!status && hearth_cli_unescapes(o))
        text.n = hearth_cli_unescape(text.data, text.n);
    if (!status)
        status = hearth_cli_tokenize(model, text.data, text.n, flags, &tokens, &n);
    if (!status)
        status = print_tokens(o, model, tokens, n);
    free(tokens);
    free(text.data);
    hearth_model_close(&model);
    return status;
}
