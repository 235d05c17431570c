// SPDX-License-Identifier: MIT
// The chat template that the options ask for.
#include "cli/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/commands.h"
#include "cli/common.h"

// The text of --chat-template, in `text` with a zero at its end; empty: the model's own.
static int read_template(const struct hearth_options *o, const char *command, struct hearth_buffer *text)
{
    const char *given = o->chat_template, *path = o->chat_template_file;
    const char *known = hearth_chat_builtin(given);
    if (!given && !path)
        return HEARTH_EXIT_OK;
    if (!known && given && strstr(given, "{"))
        known = given;
    if (!known && given && !hearth_path_readable(given))
        return hearth_cli_usage(hearth_command_find(command),
                                "--chat-template %s: neither a built-in template nor a file; hearth chat "
                                "--chat-template list names the built-in ones",
                                given);
    int status = HEARTH_EXIT_OK;
    if (known && !hearth_buffer_add(text, known, strlen(known)))
        status = hearth_cli_error("no memory for the template");
    else if (!known)
        status = hearth_cli_read(given ? given : path, text);
    if (!status && !hearth_buffer_add(text, "", 1))
        status = hearth_cli_error("no memory for the template");
    return status;
}

// The built-in template of a model whose file has none: its family's, or ChatML.
static const char *usual_template(const struct hearth_model *model)
{
    static const char *const families[][2] = {
        {"gemma", "gemma"},     {"gemma2", "gemma"}, {"gemma3", "gemma"},    {"command-r", "command-r"},
        {"gpt-oss", "gpt-oss"}, {"phi3", "phi3"},    {"granite", "granite"}, {"granitemoe", "granite"}};
    const char *arch = hearth_model_info(model)->architecture;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (!strcmp(arch, families[i][0]))
            return families[i][1];
    return "chatml";
}

int hearth_cli_open_template(struct hearth_chat_template **out, const struct hearth_options *o,
                             const char *command, const struct hearth_model *model)
{
    struct hearth_buffer text = {0};
    struct hearth_error err = {0};
    int status = read_template(o, command, &text);
    if (!status && !text.n && !hearth_model_chat_template(model)) {
        const char *name = usual_template(model), *builtin = hearth_chat_builtin(name);
        hearth_cli_warn(
            "%s has no chat template: it gets the built-in one named %s; --chat-template names another, and "
            "hearth run continues texts. A model that was not trained to chat may not end its answers: -n N "
            "does",
            o->model, name);
        if (!hearth_buffer_add(&text, builtin, strlen(builtin) + 1))
            status = hearth_cli_error("no memory for the template");
    }
    if (!status && hearth_chat_template_open(out, model, text.n ? text.data : NULL, &err))
        status = hearth_cli_fail(&err);
    free(text.data);
    return status;
}

int hearth_cli_template_variables(json_t **out, const struct hearth_options *o)
{
    json_error_t error;
    *out = o->chat_variables ? json_loads(o->chat_variables, 0, &error) : json_object();
    if (!*out)
        return hearth_cli_error("--chat-template-kwargs: %s", o->chat_variables ? error.text : "no memory");
    if (!json_is_object(*out))
        return hearth_cli_error("--chat-template-kwargs: a JSON object is wanted");
    if (o->reasoning)
        json_object_set_new(*out, "enable_thinking", json_boolean(o->reasoning == 1));
    return HEARTH_EXIT_OK;
}
