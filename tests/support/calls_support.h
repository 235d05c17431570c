// SPDX-License-Identifier: MIT
// Test support: the formats of templates, ours and the tests'.
#ifndef HEARTH_TESTS_CALLS_SUPPORT_H
#define HEARTH_TESTS_CALLS_SUPPORT_H

#include "calls/format.h"
#include "check.h"

// DeepSeek's tags
#define DS(name)   "<\xEF\xBD\x9C" name "\xEF\xBD\x9C>"
#define BAR        "\xE2\x96\x81"
#define DS_OPENING DS("tool" BAR "calls" BAR "begin")
#define DS_CLOSING DS("tool" BAR "calls" BAR "end")
#define DS_BEGIN   DS("tool" BAR "call" BAR "begin") "function" DS("tool" BAR "sep")
#define DS_END     "\n```" DS("tool" BAR "call" BAR "end")

static inline struct hearth_chat_template *open_template(const char *name)
{
    static char source[1 << 16];
    char path[512];
    struct hearth_chat_template *t;
    const char *text = hearth_chat_builtin(name);
    if (!text) {
        snprintf(path, sizeof path, HEARTH_SOURCE_DIR "/tests/golden/chat/templates/%s.jinja", name);
        FILE *f = fopen(path, "rb");
        if (!f)
            fail_msg("%s: cannot be read", path);
        source[fread(source, 1, sizeof source - 1, f)] = '\0';
        fclose(f);
        text = source;
    }
    CHECK(hearth_chat_template_open(&t, NULL, text, &check_error));
    return t;
}

static inline struct hearth_call_format find_format(const char *name)
{
    struct hearth_chat_template *t = open_template(name);
    struct hearth_call_format f;
    CHECK(hearth_call_format_find(&f, t, &check_error));
    hearth_chat_template_close(&t);
    return f;
}

#endif
