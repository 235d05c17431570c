// SPDX-License-Identifier: MIT
// Who may use the server.
#include "serve/access.h"

#include <string.h>
#include <strings.h>

// ---- keys

static bool same(const char *key, const char *given)
{
    const size_t n = strlen(key), m = strlen(given);
    unsigned char difference = n != m;
    for (size_t i = 0; i < m; i++)
        difference |= (unsigned char)(key[n ? i % n : 0] ^ given[i]);
    return !difference;
}

static bool known(const struct hearth_server_params *params, const char *given)
{
    bool found = false;
    for (int i = 0; i < params->n_api_keys; i++)
        found |= same(params->api_keys[i], given);
    return found;
}

bool hearth_access_key(const struct hearth_server_params *params, const char *authorization,
                       const char *x_api_key)
{
    if (!params->n_api_keys)
        return true;
    const bool bearer = authorization && !strncasecmp(authorization, "Bearer ", 7);
    return (bearer && known(params, authorization + 7)) || (x_api_key && known(params, x_api_key));
}

// ---- names of this machine

// "127.0.0.1:8080", "localhost", "[::1]:8080".
static bool is_this_machine(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t n = strlen(names[i]);
        if (!strncasecmp(host, names[i], n) && (!host[n] || host[n] == ':'))
            return true;
    }
    return !strncmp(host, "127.", 4) && strspn(host, "0123456789.:") == strlen(host);
}

bool hearth_access_host(bool local, const char *host)
{
    return !local || !host || !*host || is_this_machine(host);
}

// ---- web pages

static bool is_listed(const char *list, const char *origin)
{
    const size_t n = strlen(origin);
    while (*list) {
        list += strspn(list, ", ");
        const size_t m = strcspn(list, ", ");
        if (n && m == n && !strncasecmp(list, origin, n))
            return true;
        list += m;
    }
    return false;
}

const char *hearth_access_origin(const struct hearth_server_params *params, const char *origin)
{
    if (params->origins && !strcmp(params->origins, "*"))
        return "*";
    if (!origin)
        return NULL;
    if (params->origins)
        return is_listed(params->origins, origin) ? origin : NULL;
    const char *host = strstr(origin, "://");
    return host && is_this_machine(host + 3) ? origin : NULL;
}

bool hearth_access_page(const struct hearth_server_params *params, const char *origin, const char *host)
{
    if (!origin || hearth_access_origin(params, origin))
        return true;
    const char *name = strstr(origin, "://");
    return name && host && *host && !strcasecmp(name + 3, host);
}
