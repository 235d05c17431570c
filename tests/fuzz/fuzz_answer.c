// SPDX-License-Identifier: MIT
// The first byte of the input chooses a template and whether the prompt has begun thoughts; the rest is an
// answer, which must come apart the same at once and in pieces. Or the rest is a template whose format is
// looked for.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

// What was handed out: kinds and texts, those of one kind joined.
struct record {
    uint8_t *bytes;
    size_t n, cap;
    int last, begun, ended;
};

static void put(struct record *r, const char *s, size_t n)
{
    CHECK(r->n + n <= r->cap);
    if (n)
        memcpy(r->bytes + r->n, s, n);
    r->n += n;
}

static void take(void *arg, const struct hearth_answer_part *part)
{
    struct record *r = arg;
    const char kind = (char)part->kind;
    if (r->last != (int)part->kind || part->kind == HEARTH_ANSWER_CALL)
        put(r, &kind, 1);
    r->last = (int)part->kind;
    put(r, part->text, part->n);
    r->begun += part->kind == HEARTH_ANSWER_CALL;
    r->ended += part->kind == HEARTH_ANSWER_CALL_END;
    CHECK(r->ended <= r->begun && (part->kind < HEARTH_ANSWER_CALL || part->call == r->begun - 1));
}

static void take_apart(struct record *r, const struct hearth_answer_params *p, const char *text, size_t n,
                       size_t step)
{
    struct hearth_answer *a;
    *r = (struct record){.cap = 6 * n + 64, .last = -1}; // a byte may become an escape
    r->bytes = malloc(r->cap);
    CHECK(r->bytes && !hearth_answer_open(&a, p, take, r, NULL));
    for (size_t at = 0; at < n; at += step)
        CHECK(!hearth_answer_push(a, text + at, n - at < step ? n - at : step, NULL));
    hearth_answer_finish(a);
    hearth_answer_close(&a);
}

static void find_format(struct hearth_call_format *f, const char *source)
{
    struct hearth_chat_template *t;
    if (hearth_chat_template_open(&t, NULL, source, NULL))
        return;
    CHECK(!hearth_call_format_find(f, t, NULL));
    hearth_chat_template_close(&t);
}

static char *read_template(const char *name)
{
    char path[512], *text = calloc(1, 1 << 16);
    snprintf(path, sizeof path, HEARTH_SOURCE_DIR "/tests/golden/chat/templates/%s.jinja", name);
    FILE *file = fopen(path, "rb");
    CHECK(file && text && fread(text, 1, (1 << 16) - 1, file));
    fclose(file);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"qwen3-tools",  "llama31-tools", "mistral-tools",
                                        "mistral-args", "deepseek-r1",   "harmony",
                                        "qwen-coder",   "glm",           "gemma4-tools"};
    enum { N = sizeof names / sizeof *names };
    static struct hearth_call_format formats[N];
    static bool known[N];
    if (!size)
        return 0;
    const int which = data[0] % 16;
    const char *text = (const char *)data + 1;
    if (which >= N) {
        struct hearth_call_format f;
        char *source = strndup(text, size - 1);
        CHECK(source);
        find_format(&f, source);
        free(source);
        return 0;
    }
    if (!known[which]) {
        char *source = read_template(names[which]);
        find_format(&formats[which], source);
        free(source);
        known[which] = true;
    }
    static const char think[] = "<think>\n";
    static const char *const tools[] = {"f", "get_weather"};
    const struct hearth_answer_params p = {&formats[which],
                                           !(data[0] & 32),
                                           data[0] & 16 ? think : NULL,
                                           data[0] & 16 ? sizeof think - 1 : 0,
                                           tools,
                                           2,
                                           NULL,
                                           false};
    struct record whole, pieces;
    take_apart(&whole, &p, text, size - 1, size);
    for (size_t step = 1; step < 6; step++) {
        take_apart(&pieces, &p, text, size - 1, step);
        CHECK(pieces.n == whole.n && !memcmp(pieces.bytes, whole.bytes, whole.n));
        free(pieces.bytes);
    }
    free(whole.bytes);
    return 0;
}
