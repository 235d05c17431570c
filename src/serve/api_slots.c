// SPDX-License-Identifier: MIT
// llama.cpp's /slots/ID?action=...: a slot's last prompt goes to a file and comes back.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/api.h"
#include "serve/fields.h"

// With what the file system adds while it is written.
#define MOST_NAME 200

static const struct action {
    const char *name, *tokens, *bytes, *time; // and of the answer's fields
} actions[] = {
    [HEARTH_SLOT_SAVE] = {"save", "n_saved", "n_written", "save_ms"},
    [HEARTH_SLOT_RESTORE] = {"restore", "n_restored", "n_read", "restore_ms"},
    [HEARTH_SLOT_ERASE] = {"erase", "n_erased", NULL, NULL},
};

static bool find_action(struct hearth_exchange *x, enum hearth_slot_action *action)
{
    for (size_t i = 0; i < sizeof actions / sizeof actions[0] && x->action; i++)
        if (!strcmp(actions[i].name, x->action)) {
            *action = (enum hearth_slot_action)i;
            return true;
        }
    hearth_exchange_error(x, 400, "action", "?action=save, restore or erase is wanted");
    return false;
}

static bool find_slot(struct hearth_exchange *x, int *slot)
{
    char *end;
    const long n = strtol(x->rest, &end, 10);
    *slot = (int)n;
    if (x->rest[0] >= '0' && x->rest[0] <= '9' && !*end && n < x->server->params->n_slots)
        return true;
    hearth_exchange_error(x, 400, "id_slot", "there is no slot %s: they are 0 to %d", x->rest,
                          x->server->params->n_slots - 1);
    return false;
}

// A name in the folder, which leads to no other one and hides nothing.
static bool is_name(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 127 || strchr("/\\", name[i]))
            return false;
    return n && n <= MOST_NAME && name[0] != '.';
}

// The file's path, to be freed. NULL: there is an error in the exchange.
static char *find_path(struct hearth_exchange *x, const char **name)
{
    const char *folder = x->server->params->slot_folder;
    *name = json_string_value(hearth_request_field(x, "filename"));
    if (!*name || !is_name(*name)) {
        hearth_exchange_error(x, 400, "filename",
                              "filename: a name of up to %d bytes without slashes and control characters is "
                              "wanted, which does not begin with a dot",
                              MOST_NAME);
        return NULL;
    }
    const size_t n = strlen(folder) + strlen(*name) + 2;
    char *path = hearth_calloc(n, 1);
    if (path)
        snprintf(path, n, "%s/%s", folder, *name);
    else
        hearth_exchange_error(x, 500, NULL, "out of memory");
    return path;
}

static int status_of(int code)
{
    return code == HEARTH_E_MEMORY ? 500 : code == HEARTH_E_KV_FULL || code == HEARTH_E_BUDGET ? 503 : 400;
}

static void answer(struct hearth_exchange *x, const struct hearth_slot_errand *e, const char *name)
{
    const struct action *action = &actions[e->action];
    json_t *all = json_pack("{s:i, s:i}", "id_slot", e->slot, action->tokens, e->n_tokens);
    if (name) {
        json_object_set_new(all, "filename", json_string(name));
        json_object_set_new(all, action->bytes, json_integer((json_int_t)e->n_bytes));
        json_object_set_new(all, "timings", json_pack("{s:f}", action->time, (double)e->ns / 1e6));
    }
    hearth_exchange_json(x, 200, all);
}

void hearth_api_slot_action(struct hearth_exchange *x)
{
    struct hearth_slot_errand errand = {0};
    struct hearth_error err = {0};
    const char *name = NULL;
    char *path = NULL;
    if (!x->server->params->slot_folder) {
        hearth_exchange_error(x, 501, NULL,
                              "slots are not saved here: the server was started without --slot-save-path");
        return;
    }
    if (!find_action(x, &errand.action) || !find_slot(x, &errand.slot))
        return;
    if (errand.action != HEARTH_SLOT_ERASE && !(path = find_path(x, &name)))
        return;
    errand.path = path;
    const enum hearth_slot_outcome outcome = hearth_scheduler_act(x->server->scheduler, &errand, &err);
    if (outcome == HEARTH_SLOT_BUSY)
        hearth_exchange_error(x, 503, NULL,
                              "slot %d is at work, or too many slots are being saved; try again later",
                              errand.slot);
    else if (outcome == HEARTH_SLOT_FAILED)
        hearth_exchange_error(x, status_of(err.code), NULL, "%s", err.message);
    else
        answer(x, &errand, name);
    free(path);
}
