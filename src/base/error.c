// SPDX-License-Identifier: MIT
// Errors go into the caller's struct.
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"

void hearth_make_printable(char *text)
{
    unsigned char *p = (unsigned char *)text;
    for (; *p; p++) {
        if (*p < 0x20 || *p == 0x7F)
            *p = '?';
        if (*p == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0)
            p[0] = p[1] = '?';
    }
    size_t n = (size_t)(p - (unsigned char *)text), pending = 0;
    while (pending < 3 && pending < n && (p[-1 - (ptrdiff_t)pending] & 0xC0) == 0x80)
        pending++;
    if (pending < n) {
        const unsigned char lead = p[-1 - (ptrdiff_t)pending];
        const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
        if (length > 1 && length > pending + 1)
            text[n - pending - 1] = '\0';
    }
}

static void fill(struct hearth_error *err, int code, const char *param, const char *fmt, va_list args)
{
    err->code = code;
    err->param = param;
    vsnprintf(err->message, sizeof err->message, fmt, args);
    hearth_make_printable(err->message);
}

int hearth_fail(struct hearth_error *err, int code, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        fill(err, code, NULL, fmt, args);
        va_end(args);
    }
    return code;
}

int hearth_fail_param(struct hearth_error *err, int code, const char *param, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        fill(err, code, param, fmt, args);
        va_end(args);
    }
    return code;
}

int hearth_fail_in(struct hearth_error *err, int code, const char *fmt, ...)
{
    if (err) {
        char words[100], *m = err->message;
        va_list args;
        va_start(args, fmt);
        vsnprintf(words, sizeof words, fmt, args);
        va_end(args);
        const size_t n = strlen(words) + 2, room = sizeof err->message - n - 1, length = strlen(m);
        const size_t kept = length < room ? length : room;
        memmove(m + n, m, kept);
        memcpy(m, words, n - 2);
        memcpy(m + n - 2, ": ", 2);
        m[n + kept] = '\0';
        hearth_make_printable(m);
    }
    return code;
}

int hearth_fail_errno(struct hearth_error *err, int errno_value, const char *fmt, ...)
{
    if (err) {
        char text[128];
        hearth_os_error_text(errno_value, text, sizeof text);
        va_list args;
        va_start(args, fmt);
        err->code = HEARTH_E_IO;
        err->param = NULL;
        int n = vsnprintf(err->message, sizeof err->message, fmt, args);
        va_end(args);
        if (n >= 0 && (size_t)n < sizeof err->message)
            snprintf(err->message + n, sizeof err->message - (size_t)n, ": %s", text);
        hearth_make_printable(err->message);
    }
    return HEARTH_E_IO;
}

const char *hearth_error_name(int code)
{
    static const char *const names[] = {"HEARTH_OK",       "HEARTH_E_INVALID",     "HEARTH_E_IO",
                                        "HEARTH_E_FORMAT", "HEARTH_E_UNSUPPORTED", "HEARTH_E_MEMORY",
                                        "HEARTH_E_BUDGET", "HEARTH_E_INTERRUPTED", "HEARTH_E_KV_FULL"};
    const int n = (int)(sizeof names / sizeof *names);
    return code <= 0 && code > -n ? names[-code] : "unknown code";
}
