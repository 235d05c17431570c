// SPDX-License-Identifier: MIT
// Tokenizing under stress: merges against a plain version, round trips of random text, very long words,
// compiled against interpreted expressions, many threads.
#include "text_support.h"

#include <pthread.h>
#include <time.h>

#include "gguf/gguf.h"
#include "text/bytes.h"
#include "text/pretok.h"
#include "text/unicode.h"
#include "text/vocab_impl.h"

static uint64_t seed = 88172645463325252u;

static uint32_t random_u32(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

static uint32_t random_below(uint32_t n)
{
    return (uint32_t)((uint64_t)random_u32() * n >> 32);
}

static struct hearth_vocab *create(const struct hearth_vocab_spec *spec)
{
    struct hearth_error err = {0};
    struct hearth_vocab *v;
    if (hearth_vocab_create(&v, spec, "test", &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return v;
}

// ---- against plain versions

#define MAX_TOKENS 80
#define MAX_TEXT   600

struct random_vocab {
    char texts[MAX_TOKENS][16];
    char merge_texts[MAX_TOKENS][32];
    struct hearth_str tokens[MAX_TOKENS], merges[MAX_TOKENS];
    float scores[MAX_TOKENS];
    struct hearth_vocab_spec spec;
};

static int find_token(const struct random_vocab *r, const char *s, size_t n)
{
    for (uint32_t i = 0; i < r->spec.n_tokens; i++) {
        if (r->tokens[i].n == n && memcmp(r->tokens[i].s, s, n) == 0)
            return (int)i;
    }
    return -1;
}

static void add_token(struct random_vocab *r, const char *s, size_t n)
{
    if (find_token(r, s, n) >= 0)
        return;
    uint32_t i = r->spec.n_tokens++;
    memcpy(r->texts[i], s, n);
    r->tokens[i] = (struct hearth_str){r->texts[i], n};
    r->scores[i] = -(float)random_below(6); // many equal ones
}

static void random_spec(struct random_vocab *r, const char *model)
{
    memset(r, 0, sizeof *r);
    r->spec = (struct hearth_vocab_spec){.model = model,
                                         .pre = "gpt-2",
                                         .tokens = r->tokens,
                                         .scores = r->scores,
                                         .merges = r->merges,
                                         .bos = -1,
                                         .eos = -1,
                                         .eot = -1,
                                         .unk = -1,
                                         .pad = -1};
    add_token(r, "a", 1);
    add_token(r, "b", 1);
    add_token(r, "c", 1);
}

// Plain merging: the best pair of the whole list, again and again.
static int64_t merge_plainly(const struct random_vocab *r, bool spm, const char *text, size_t n,
                             hearth_token *out)
{
    static size_t ends[MAX_TEXT];
    size_t count = n;
    for (size_t i = 0; i < n; i++)
        ends[i] = i + 1;
    for (;;) {
        size_t best = count;
        float best_score = -1e30f;
        for (size_t i = 0; i + 1 < count; i++) {
            size_t start = i ? ends[i - 1] : 0, left = ends[i] - start, right = ends[i + 1] - ends[i];
            float score = -1e30f;
            if (spm) {
                int t = find_token(r, text + start, left + right);
                if (t >= 0)
                    score = r->scores[t];
            } else {
                char merge[64];
                memcpy(merge, text + start, left);
                merge[left] = ' ';
                memcpy(merge + left + 1, text + ends[i], right);
                for (uint32_t m = r->spec.n_merges; left + right < 32 && m-- > 0;) {
                    if (r->merges[m].n == left + right + 1 &&
                        memcmp(r->merges[m].s, merge, left + right + 1) == 0)
                        score = -(float)m;
                }
            }
            if (score > best_score) {
                best_score = score;
                best = i;
            }
        }
        if (best == count)
            break;
        memmove(&ends[best], &ends[best + 1], (count - best - 1) * sizeof *ends);
        count--;
    }
    int64_t written = 0;
    for (size_t i = 0; i < count; i++) {
        size_t start = i ? ends[i - 1] : 0;
        int t = find_token(r, text + start, ends[i] - start);
        if (t >= 0) {
            out[written++] = t;
            continue;
        }
        for (size_t k = start; k < ends[i]; k++)
            out[written++] = find_token(r, text + k, 1);
    }
    return written;
}

static void check_random(const struct random_vocab *r, bool spm)
{
    struct hearth_vocab *v = create(&r->spec);
    for (int k = 0; k < 12; k++) {
        char text[MAX_TEXT];
        hearth_token want[MAX_TEXT];
        size_t n = random_below(k < 6 ? 60 : MAX_TEXT); // both sides of the switch to a heap
        for (size_t i = 0; i < n; i++)
            text[i] = k % 3 ? "abc"[random_below(3)] : 'a';
        struct ids got = tokenize(v, text, n, 0);
        int64_t want_n = merge_plainly(r, spm, text, n, want);
        assert_true(same_ids(got, want, want_n, ""));
        free(got.v);
    }
    hearth_vocab_close(&v);
}

static void test_spm_against_plain_merging(void **state)
{
    (void)state;
    static struct random_vocab r;
    for (int round = 0; round < 60; round++) {
        random_spec(&r, "llama");
        uint32_t more = random_below(MAX_TOKENS - 3);
        for (uint32_t i = 0; i < more; i++) {
            char s[8];
            size_t n = 2 + random_below(6);
            for (size_t k = 0; k < n; k++)
                s[k] = random_below(3) ? 'a' : "abc"[random_below(3)];
            add_token(&r, s, n);
        }
        check_random(&r, true);
    }
}

static void test_bpe_against_plain_merging(void **state)
{
    (void)state;
    static struct random_vocab r;
    for (int round = 0; round < 60; round++) {
        random_spec(&r, "gpt2");
        uint32_t merges = random_below(MAX_TOKENS - 3);
        for (uint32_t i = 0; i < merges; i++) {
            const struct hearth_str *left = &r.tokens[random_below(r.spec.n_tokens)];
            const struct hearth_str *right = &r.tokens[random_below(r.spec.n_tokens)];
            if (left->n + right->n > 14)
                continue;
            char s[32];
            memcpy(s, left->s, left->n);
            memcpy(s + left->n, right->s, right->n);
            if (random_below(10)) // now and then a merge whose result is no token
                add_token(&r, s, left->n + right->n);
            int n = snprintf(r.merge_texts[i], sizeof r.merge_texts[i], "%.*s %.*s", (int)left->n, left->s,
                             (int)right->n, right->s);
            r.merges[r.spec.n_merges++] = (struct hearth_str){r.merge_texts[i], (size_t)n};
        }
        check_random(&r, false);
    }
}

// ---- round trips and long words, over the golden vocabularies

static struct hearth_gguf *gguf_of(const char *name)
{
    struct hearth_error err = {0};
    struct hearth_gguf *g;
    if (hearth_gguf_open(&g, golden_path(name), &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return g;
}

static struct hearth_vocab *golden_vocab(const char *name)
{
    struct hearth_error err = {0};
    struct hearth_gguf *g = gguf_of(name);
    struct hearth_vocab *v;
    if (hearth_vocab_open(&v, g, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    hearth_gguf_close(&g);
    return v;
}

// The golden BPE vocabulary with another pre-tokenizer.
static struct hearth_vocab *bpe_with(const struct hearth_gguf *g, const char *pre)
{
    const struct hearth_gguf_kv *tokens = hearth_gguf_find(g, "tokenizer.ggml.tokens");
    const struct hearth_gguf_kv *merges = hearth_gguf_find(g, "tokenizer.ggml.merges");
    struct hearth_vocab_spec spec = {.model = "gpt2",
                                     .pre = pre,
                                     .n_tokens = (uint32_t)tokens->count,
                                     .tokens = tokens->strings,
                                     .n_merges = (uint32_t)merges->count,
                                     .merges = merges->strings,
                                     .bos = -1,
                                     .eos = -1,
                                     .eot = -1,
                                     .unk = -1,
                                     .pad = -1};
    return create(&spec);
}

static void expect_round_trip(const struct hearth_vocab *v, const char *text, size_t n, size_t prefix)
{
    struct ids ids = tokenize(v, text, n, 0);
    size_t back_n;
    char *back = detokenize(v, ids, true, &back_n);
    if (n == 0)
        prefix = 0;
    assert_int_equal(back_n, n + prefix);
    assert_memory_equal(back + prefix, text, n);
    free(back);
    free(ids.v);
}

// Random characters, from scripts that the expressions treat differently; never U+2581.
static size_t random_text(char *out, size_t room)
{
    static const char *const bits[] = {
        "a",
        "the",
        "X",
        "HTTP",
        "\xC3\xA9",
        "\xC3\x89",
        "\xD0\x96",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "0",
        "12",
        "3456",
        "'s",
        "'LL",
        "'",
        ".",
        "!?",
        "\"",
        "_",
        "$",
        "+",
        "/",
        "\xE2\x80\x94",
        "\xE4\xBD\xA0",
        "\xE5\xA5\xBD",
        "\xE3\x81\x82",
        "\xE3\x80\x82",
        "\xEA\xB0\x80",
        "\xF0\x9F\x94\xA5",
        "\xE2\x80\x8D",
        "\xCC\x88",
        "\xC2\xA0",
        "\xE2\x80\xA8",
        "\xE1\xA0\x8E",
        "\xC2\xBD",
        "\xD9\xA3",
        "\xE2\x85\xA7",
        "\xC5\xBF",
        "\xF0\x90\x90\xB7",
        "\xC2\xAA",
        "\x01",
        "<",
        "|>",
    };
    size_t n = 0, want = random_below((uint32_t)room - 4);
    while (n < want) {
        if (random_below(4)) {
            const char *b = bits[random_below(sizeof bits / sizeof *bits)];
            if (n + strlen(b) > room)
                break;
            memcpy(out + n, b, strlen(b));
            n += strlen(b);
            continue;
        }
        uint32_t c = random_below(random_below(2) ? 0x500 : 0x20000);
        if (n + 4 <= room && c != 0x2581)
            n += hearth_utf8_encode(c, out + n);
    }
    return n;
}

static void test_round_trips(void **state)
{
    (void)state;
    struct hearth_gguf *g = gguf_of("bpe.gguf");
    struct hearth_vocab *spm = golden_vocab("spm.gguf");
    const char *pre;
    for (size_t i = 0; (pre = hearth_pretok_name(i)); i++) {
        struct hearth_vocab *v = bpe_with(g, pre);
        for (int k = 0; k < 12; k++) {
            char text[6000];
            size_t n = random_text(text, k % 4 ? 300 : sizeof text);
            expect_round_trip(v, text, n, 0);
            expect_round_trip(spm, text, n, 1);
            for (size_t b = 0; b < n; b++) {
                if (random_below(3) == 0)
                    text[b] = (char)random_u32(); // any bytes at all
            }
            expect_round_trip(v, text, n, 0);
        }
        hearth_vocab_close(&v);
    }
    hearth_vocab_close(&spm);
    hearth_gguf_close(&g);
}

struct words {
    const char *at;
    size_t ends[4096], n;
};

static int add_word(void *arg, const char *s, size_t n, struct hearth_error *err)
{
    struct words *w = arg;
    (void)err;
    assert_true(n > 0);
    assert_ptr_equal(s, w->at); // words follow one another
    assert_true(w->n < sizeof w->ends / sizeof *w->ends);
    w->at = s + n;
    w->ends[w->n++] = (size_t)(w->at - s);
    return HEARTH_OK;
}

static void test_interpreted_as_compiled(void **state)
{
    (void)state;
    const char *pre;
    for (size_t i = 0; (pre = hearth_pretok_name(i)); i++) {
        struct hearth_error err = {0};
        struct hearth_pretok *a, *b;
        struct hearth_pretok_state *run_a = NULL, *run_b = NULL;
        assert_int_equal(hearth_pretok_open(&a, pre, "test", &err), HEARTH_OK);
        assert_int_equal(hearth_pretok_open(&b, pre, "test", &err), HEARTH_OK);
        hearth_pretok_interpret(b);
        for (int k = 0; k < 30; k++) {
            static struct words x, y;
            char text[2000];
            size_t n = random_text(text, sizeof text);
            x.at = y.at = text;
            x.n = y.n = 0;
            assert_int_equal(hearth_pretok_split(a, &run_a, text, n, add_word, &x, &err), HEARTH_OK);
            assert_int_equal(hearth_pretok_split(b, &run_b, text, n, add_word, &y, &err), HEARTH_OK);
            assert_ptr_equal(x.at, text + n);
            assert_int_equal(x.n, y.n);
            assert_memory_equal(x.ends, y.ends, x.n * sizeof *x.ends);
        }
        hearth_pretok_state_free(run_a);
        hearth_pretok_state_free(run_b);
        hearth_pretok_close(&a);
        hearth_pretok_close(&b);
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// One name for each set of expressions, the common ones first.
static const char *const distinct[] = {
    "gpt-2",      "llama-bpe",    "qwen2",          "gpt-4o",      "default",  "qwen35",   "falcon",
    "starcoder",  "deepseek-llm", "deepseek-coder", "deepseek-v3", "spark2_5", "youtu",    "bloom",
    "viking",     "tekken",       "tiny_aya",       "chameleon",   "jais-2",   "superbpe", "bailingmoe",
    "seed-coder", "ufakzeka",     "laguna",         "exaone-moe",  "afmoe",    "minicpm5", "kimi-k2",
};

// Texts that no expression cuts, or that invite going back over them again and again.
static const char *const units[] = {
    "a",
    "A",
    "aA",
    " ",
    "\n",
    "\r\n",
    " \n",
    "7",
    "7a",
    ".",
    "'s",
    "'",
    "$ ",
    "\t ",
    "\xC2\xAA",
    "\xE4\xBD\xA0",
    "\xCC\x88",
    "a b",
    "\xF0\x9F\x94\xA5",
    "\xFF",
    "the",
    "/\n",
};

// Again and again, as often as there is room.
static size_t repeat(char *text, const char *unit, size_t room)
{
    size_t n = 0, length = strlen(unit);
    for (; n + length <= room; n += length)
        memcpy(text + n, unit, length);
    return n;
}

// The slowest of them, in seconds a MiB.
struct slowest {
    double seconds;
    const char *pre, *unit;
};

static void note_time(struct slowest *s, double took, size_t n, const char *pre, const char *unit)
{
    const double per_mib = took * (1 << 20) / (double)n;
    if (per_mib > s->seconds)
        *s = (struct slowest){per_mib, pre, unit};
}

// At most what a test takes that is ten times slower than here. Of time that grows with the square of the length there
// is more a MiB the longer a text is: so there is less of it a MiB in shorter ones.
static void end_times(const struct slowest *s, const char *what, double most)
{
    printf("slowest: %s, \"%s\" again and again: %.2f s a MiB, %s\n", s->pre, s->unit, s->seconds, what);
    assert_true(s->seconds < most);
}

struct cut {
    const char *at;
    size_t n;
};

static int follow(void *arg, const char *s, size_t n, struct hearth_error *err)
{
    struct cut *c = arg;
    (void)err;
    if (s != c->at || !n)
        fail_msg("a word of %zu bytes does not follow the one before", n);
    c->at = s + n;
    c->n++;
    return HEARTH_OK;
}

// Cut by every set of expressions: the common ones a whole MiB. What matching takes of the stack grows with a text.
static void test_long_words(void **state)
{
    (void)state;
    const size_t room = SANITIZED ? 1 << 16 : 1 << 20;
    char *text = malloc(room);
    assert_non_null(text);
    struct slowest slowest = {0};
    for (size_t i = 0; i < sizeof distinct / sizeof *distinct; i++) {
        struct hearth_error err = {0};
        struct hearth_pretok *p;
        struct hearth_pretok_state *run = NULL;
        OK(hearth_pretok_open(&p, distinct[i], "test", &err));
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            if (*units[u] == '\xFF') // no UTF-8: no word has it, see test_long_merges
                continue;
            const size_t n = repeat(text, units[u], i < 4 ? room : room / 8);
            struct cut cut = {.at = text};
            const double start = seconds();
            if (hearth_pretok_split(p, &run, text, n, follow, &cut, &err))
                fail_msg("%s, \"%s\": %s", distinct[i], units[u], err.message);
            note_time(&slowest, seconds() - start, n, distinct[i], units[u]);
            assert_ptr_equal(cut.at, text + n);
            assert_in_range(cut.n, 1, n);
        }
        hearth_pretok_state_free(run);
        hearth_pretok_close(&p);
    }
    end_times(&slowest, "cut", 30);
    free(text);
}

static void check_growth(const struct hearth_vocab *v, const char *text, size_t n)
{
    struct ids whole = tokenize(v, text, n, 0), quarter = tokenize(v, text, n / 4, 0);
    assert_in_range(whole.n, 4 * quarter.n - 16, 4 * quarter.n + 16);
    free(quarter.v);
    free(whole.v);
}

// And merged: that is the same however they were cut, so long texts are those of one set. One is as long as above, and
// of four times as many tokens as its first quarter.
static void test_long_merges(void **state)
{
    (void)state;
    const size_t room = SANITIZED ? 1 << 16 : 1 << 20;
    char *text = malloc(room);
    assert_non_null(text);
    struct hearth_gguf *g = gguf_of("bpe.gguf");
    struct hearth_vocab *spm[] = {golden_vocab("spm.gguf"), golden_vocab("spm-plain.gguf")};
    struct slowest slowest = {0};
    for (size_t i = 0; i < sizeof distinct / sizeof *distinct; i++) {
        struct hearth_vocab *v = bpe_with(g, distinct[i]);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            const size_t n = repeat(text, units[u], i ? room / 64 : u ? room / 4 : room);
            const double start = seconds();
            expect_round_trip(v, text, n, 0);
            if (!i && u)
                note_time(&slowest, seconds() - start, n, distinct[i], units[u]);
            if (i == 0)
                expect_round_trip(spm[0], text, n, 1);
            if (i == 0)
                free(tokenize(spm[1], text, n, 0).v);
            if (!i && !u)
                check_growth(v, text, n);
        }
        hearth_vocab_close(&v);
    }
    end_times(&slowest, "tokenized twice and back", 15);
    hearth_vocab_close(&spm[0]);
    hearth_vocab_close(&spm[1]);
    hearth_gguf_close(&g);
    free(text);
}

// ---- threads

struct job {
    const struct hearth_vocab *v;
    const char *text;
    size_t n;
    int64_t count;
    uint64_t sum;
};

static void *work(void *arg)
{
    struct job *j = arg;
    hearth_token *out = malloc(j->n * sizeof *out);
    for (int round = 0; round < 20; round++) {
        j->count = hearth_vocab_tokenize(j->v, j->text, j->n, HEARTH_TOKENIZE_SPECIAL, out, j->n, NULL);
        j->sum = 0;
        for (int64_t i = 0; i < j->count; i++)
            j->sum = j->sum * 31 + (uint64_t)out[i];
    }
    free(out);
    return NULL;
}

// Thousands of special tokens, each with a length of its own, which nearly are in the text everywhere, or are in
// each other. If each were looked for at each place, this would last for many minutes.
static void test_many_specials(void **state)
{
    (void)state;
    enum { N = 3000, TEXT = 300000 };
    static char letters[N + 1];
    static struct hearth_str tokens[N + 1];
    static char *made[N];
    static float scores[N + 1];
    static int32_t types[N + 1];
    char *text = malloc(TEXT);
    assert_non_null(text);
    memset(letters, 'a', N);
    for (int kind = 0; kind < 3; kind++) { // a..ac; a..a; a..a, of which none may be in the text
        tokens[0] = (struct hearth_str){"<unk>", 5};
        types[0] = HEARTH_TOKEN_UNKNOWN;
        for (uint32_t i = 0; i < N; i++) {
            made[i] = malloc(i + 3);
            assert_non_null(made[i]);
            snprintf(made[i], i + 3, "%.*s%s", (int)i + 1, letters, kind ? "" : "c");
            tokens[i + 1] = (struct hearth_str){made[i], strlen(made[i])};
            types[i + 1] = kind == 2 && i > 2 ? HEARTH_TOKEN_CONTROL : HEARTH_TOKEN_USER;
        }
        const struct hearth_vocab_spec spec = {.model = "llama",
                                               .n_tokens = N + 1,
                                               .tokens = tokens,
                                               .scores = scores,
                                               .types = types,
                                               .bos = -1,
                                               .eos = -1,
                                               .eot = -1,
                                               .unk = 0,
                                               .pad = -1};
        struct hearth_vocab *v = create(&spec);
        for (size_t i = 0; i < TEXT; i++)
            text[i] = kind == 1 && i % 1000 == 999 ? 'b' : 'a';
        struct hearth_fragment *got;
        size_t count;
        assert_int_equal(hearth_special_split(v, text, TEXT, kind < 2, NULL, &got, &count, NULL), HEARTH_OK);
        assert_int_equal(count, kind == 0 ? 1 : kind == 1 ? 2 * TEXT / 1000 : TEXT / 3);
        assert_int_equal(got[0].length, kind == 0 ? TEXT : kind == 1 ? 999 : 3);
        free(got);
        hearth_vocab_close(&v);
        for (uint32_t i = 0; i < N; i++)
            free(made[i]);
    }
    free(text);
}

static void test_threads(void **state)
{
    (void)state;
    static const char *const names[] = {"bpe.gguf", "spm.gguf"};
    char *text = malloc(8192);
    size_t n = random_text(text, 8192);
    for (int k = 0; k < 2; k++) {
        struct hearth_vocab *v = golden_vocab(names[k]);
        pthread_t threads[4];
        struct job jobs[4];
        for (int i = 0; i < 4; i++) {
            jobs[i] = (struct job){.v = v, .text = text, .n = n};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_true(jobs[i].count > 0);
            assert_int_equal(jobs[i].count, jobs[0].count);
            assert_int_equal(jobs[i].sum, jobs[0].sum);
        }
        hearth_vocab_close(&v);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spm_against_plain_merging),
        cmocka_unit_test(test_bpe_against_plain_merging),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_interpreted_as_compiled),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_long_merges),
        cmocka_unit_test(test_many_specials),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
