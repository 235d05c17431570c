// SPDX-License-Identifier: MIT
// Drafts: what is guessed from a text, how many guesses are used, and that no token depends on them.
#include "check.h"
#include "draft/draft.h"
#include "golden_models.h"
#include "model/nextn.h"

static struct hearth_error err;

static uint64_t seed = 1;

static uint32_t roll(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

static double chance(void)
{
    return roll(1000000) / 1e6;
}

// ---- guesses

static void assert_guess(const hearth_token *text, int n, int most, const hearth_token *want, int n_want)
{
    struct hearth_draft d;
    hearth_draft_look_up(&d, text, n, most);
    assert_int_equal(d.n, n_want);
    assert_int_equal(d.used, 0);
    for (int i = 0; i < n_want; i++)
        assert_int_equal(d.tokens[i], want[i]);
}

static void test_lookup(void **state)
{
    (void)state;
    const hearth_token new_end[] = {1, 2, 3, 4}, once[] = {5, 1, 2, 9, 8, 1, 2}, loop[] = {7, 1, 2, 1, 2};
    assert_guess(new_end, 4, 15, NULL, 0);
    assert_guess(new_end, 1, 15, NULL, 0);
    assert_guess(new_end, 0, 15, NULL, 0);
    assert_guess(once, 7, 0, NULL, 0);
    assert_guess(once, 7, -1, NULL, 0);
    assert_guess(once, 7, 3, (hearth_token[]){9, 8, 1}, 3);
    // Beyond the text's end it goes on with what was guessed.
    assert_guess(once, 7, 7, (hearth_token[]){9, 8, 1, 2, 9, 8, 1}, 7);
    assert_guess(loop, 5, 4, (hearth_token[]){1, 2, 1, 2}, 4);
    // The place with the most tokens alike, of several the last.
    const hearth_token most[] = {4, 5, 6, 1, 3, 6, 2, 4, 5, 6}, last[] = {6, 1, 6, 2, 6};
    assert_guess(most, 10, 1, (hearth_token[]){1}, 1);
    assert_guess(last, 5, 1, (hearth_token[]){2}, 1);
    struct hearth_draft d;
    hearth_draft_look_up(&d, most, 10, 2);
    assert_int_equal(d.kind[0], hearth_draft_kind_of_match(3));
    assert_int_equal(d.kind[1], hearth_draft_kind_of_match(4));
}

// The same by its definition.
static void guess_slowly(struct hearth_draft *d, const hearth_token *text, int n, int most)
{
    int best = 0, at = -1;
    for (int place = 1; place < n; place++) {
        int k = 0;
        while (k < place && k < HEARTH_DRAFT_LONGEST && text[place - 1 - k] == text[n - 1 - k])
            k++;
        if (k && k >= best) {
            best = k;
            at = place;
        }
    }
    d->n = 0;
    for (int i = 0; at >= 0 && i < most; i++, d->n++) {
        d->tokens[i] = at + i < n ? text[at + i] : d->tokens[at + i - n];
        d->kind[i] = hearth_draft_kind_of_match(best + i);
    }
}

static void test_lookup_of_random_texts(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        hearth_token text[200];
        const int n = (int)roll(200), most = (int)roll(HEARTH_DRAFT_MOST + 1);
        const uint32_t kinds = 1 + roll(6);
        for (int i = 0; i < n; i++)
            text[i] = i > 40 && roll(4) ? text[i - 37] : (hearth_token)roll(kinds);
        struct hearth_draft got, want;
        hearth_draft_look_up(&got, text, n, most);
        guess_slowly(&want, text, n, most);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.tokens, want.tokens, (size_t)got.n * sizeof *got.tokens);
        assert_memory_equal(got.kind, want.kind, (size_t)got.n * sizeof *got.kind);
    }
}

// ---- how many are used

// A draft whose guesses all have so many tokens alike before them; of `tokens` those that are 1 will come true.
static struct hearth_draft draft_of(int n, int match, double true_ones)
{
    struct hearth_draft d = {.n = n};
    for (int i = 0; i < n; i++) {
        d.tokens[i] = chance() < true_ones;
        d.kind[i] = hearth_draft_kind_of_match(match + i);
    }
    return d;
}

// Takes tokens as texts do. Returns how many.
static int take(struct hearth_pace *p, const struct hearth_draft *d)
{
    int at = 0;
    while (hearth_pace_compare(p, d, at, 1) && at < d->used)
        at++;
    return at + 1;
}

static void test_nothing_is_known(void **state)
{
    (void)state;
    struct hearth_pace p;
    struct hearth_draft d = draft_of(15, 32, 1), *list = &d;
    hearth_pace_begin(&p, 0.1);
    hearth_pace_choose(&p, &list, 1, 1, 16);
    assert_int_equal(d.used, 0);
    hearth_pace_took(&p, 1, 1000);
    hearth_pace_choose(&p, &list, 1, 1, 16);
    assert_true(d.used > 0);
    hearth_pace_choose(&p, &list, 1, 1, 4); // no more rows than there is room for
    assert_int_equal(d.used, 3);
    hearth_pace_choose(&p, &list, 1, 1, 1);
    assert_int_equal(d.used, 0);
    hearth_pace_choose(&p, &list, 1, HEARTH_DRAFT_ROWS + 1, 1000);
    assert_int_equal(d.used, 0);
}

// Several texts: those whose guesses are likelier get the rows.
static void test_texts_share_rows(void **state)
{
    (void)state;
    struct hearth_pace p;
    struct hearth_draft good = draft_of(15, 32, 1), bad = draft_of(15, 1, 0), none = {0};
    struct hearth_draft *list[] = {&bad, &good, &none};
    hearth_pace_begin(&p, 0.1);
    hearth_pace_took(&p, 3, 1000);
    hearth_pace_choose(&p, list, 3, 3, 10);
    assert_true(good.used > 3 && good.used <= 7);
    assert_int_equal(bad.used + none.used, 0);
}

// A simulated session: what it takes beside one without guesses, and that noise and wrong guesses cost little.
static double simulate(double each, double real_each, double matching, double true_ones, int texts)
{
    struct hearth_pace p;
    double ns = 0, tokens = 0;
    hearth_pace_begin(&p, each);
    const double step = 1e6 * (1 + real_each * (texts - 1));
    for (int i = 0; i < 3000; i++) {
        struct hearth_draft drafts[4], *list[4];
        int rows = texts;
        for (int t = 0; t < texts; t++) {
            drafts[t] = draft_of(chance() < matching ? 15 : 0, 1 + (int)roll(20), true_ones);
            list[t] = &drafts[t];
        }
        hearth_pace_choose(&p, list, texts, texts, texts + 15);
        for (int t = 0; t < texts; t++)
            rows += drafts[t].used;
        const double noise = roll(50) ? 0.9 + 0.2 * chance() : 3;
        const double took = 1e6 * (1 + real_each * (rows - 1)) * noise;
        hearth_pace_took(&p, rows, (uint64_t)took);
        ns += took / noise;
        for (int t = 0; t < texts; t++)
            tokens += take(&p, &drafts[t]);
    }
    return ns / (tokens / texts * step);
}

static void test_time(void **state)
{
    (void)state;
    static const double assumed[] = {0.15, 0.5, 0.7}, real[] = {0, 0.02, 0.1, 0.3, 0.6, 1, 1.3};
    static const double matching[] = {0.1, 0.5, 1}, true_ones[] = {0, 0.1, 0.3, 0.5, 0.8, 0.95};
    for (size_t a = 0; a < 3; a++)
        for (size_t r = 0; r < 7; r++)
            for (size_t m = 0; m < 3; m++)
                for (size_t t = 0; t < 6; t++)
                    for (int texts = 1; texts <= 4; texts += 3) {
                        const double ratio = simulate(assumed[a], real[r], matching[m], true_ones[t], texts);
                        if (ratio > 1.03)
                            fail_msg(
                                "each row %.2f, assumed %.2f, matching %.1f, true %.2f, %d texts: %.3f of the time",
                                real[r], assumed[a], matching[m], true_ones[t], texts, ratio);
                    }
    // And it pays where rows are cheap and guesses good.
    assert_true(simulate(0.15, 0.02, 1, 0.95, 1) < 0.2);
    assert_true(simulate(0.15, 0.1, 1, 0.8, 1) < 0.6);
    assert_true(simulate(0.7, 0.02, 1, 0.8, 1) < 0.4);
    assert_true(simulate(0.15, 0.1, 0.5, 0.95, 4) < 0.9);
}

// ---- texts

enum { N_TOKENS = 90, N_PROMPT = 12 };

// The text of a session that evaluates token by token; logits of each step.
static void grow_plainly(struct hearth_session *s, const hearth_token *prompt, hearth_token *text,
                         float *logits, int n_vocab, struct hearth_sampler *sampler)
{
    const int seq = hearth_seq_new(s, &err);
    OK(hearth_prompt(s, seq, prompt, N_PROMPT, NULL, NULL, &err));
    for (int i = 0; i < N_TOKENS; i++) {
        text[i] = hearth_sample(sampler, hearth_logits(s, 0));
        hearth_sampler_accept(sampler, text[i]);
        OK(hearth_step(s, &seq, &text[i], 1, &err));
        memcpy(logits + (size_t)i * (size_t)n_vocab, hearth_logits(s, 0), (size_t)n_vocab * sizeof *logits);
    }
    hearth_seq_free(s, seq);
}

struct text {
    struct hearth_drafted drafted;
    struct hearth_sampler *sampler;
    const hearth_token *want;
    const float *logits;
    int n; // generated
};

// Rows cost nothing: as many guesses as there are.
static void cost_nothing(struct hearth_pace *pace)
{
    for (int r = 1; r <= HEARTH_DRAFT_ROWS; r++)
        pace->ns[r] = 1000;
}

static void take_rows(struct hearth_session *s, struct hearth_pace *pace, struct text *t, int n_vocab)
{
    bool more = true;
    int at = 0;
    for (; more && t->n < N_TOKENS; at++) {
        const float *logits = hearth_logits(s, t->drafted.row + at);
        assert_memory_equal(logits, t->logits + (size_t)(t->n - 1) * (size_t)n_vocab,
                            (size_t)n_vocab * sizeof *logits);
        const hearth_token token = hearth_sample(t->sampler, logits);
        hearth_sampler_accept(t->sampler, token);
        assert_int_equal(token, t->want[t->n]);
        t->n++;
        assert_true(hearth_drafted_take(&t->drafted, pace, at, token, &more));
    }
    OK(hearth_drafted_end(s, &t->drafted, at, &err));
    assert_int_equal(hearth_seq_length(s, t->drafted.seq), t->drafted.n - 1);
}

static struct hearth_sampler *open_sampler(int n_vocab, float temp, uint32_t with_seed)
{
    struct hearth_sampler *sampler = NULL;
    struct hearth_sampler_params p = hearth_sampler_params_default();
    p.temp = temp;
    p.seed = with_seed;
    OK(hearth_sampler_open(&sampler, n_vocab, &p, &err));
    return sampler;
}

// What a model's own file guesses with, if it has that.
struct ahead {
    struct hearth_model *layer;
    struct hearth_session *session;
    struct hearth_drafter *drafter;
};

static void open_ahead(struct ahead *a, const struct hearth_model *model, struct hearth_session *main,
                       int n_texts)
{
    struct hearth_session_params p = hearth_session_params_default();
    *a = (struct ahead){0};
    OK(hearth_nextn_open(&a->layer, model->info.path, NULL, UINT64_MAX, &err));
    if (!a->layer)
        return;
    p.n_ctx = 120;
    p.max_seqs = n_texts;
    p.max_steps = HEARTH_DRAFTER_STEPS;
    p.n_threads = 1;
    OK(hearth_session_open(&a->session, a->layer, &p, &err));
    OK(hearth_drafter_open_nextn(&a->drafter, a->layer, a->session, main, n_texts, &err));
}

static void close_ahead(struct ahead *a)
{
    hearth_drafter_close(&a->drafter);
    hearth_session_close(&a->session);
    hearth_model_close(&a->layer);
}

// Texts of a golden model, by drafts and without: the same tokens and logits. Returns how many guesses came true.
static uint64_t compare_texts(const struct hearth_model *model, const int32_t *ids,
                              enum hearth_sparsity sparsity, float temp, int n_texts)
{
    const int n_vocab = hearth_model_info(model)->n_vocab;
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = 120;
    p.max_seqs = n_texts;
    p.max_steps = n_texts + HEARTH_DRAFT_MOST;
    p.n_threads = 2;
    p.sparsity = sparsity;
    OK(hearth_session_open(&s, model, &p, &err));
    struct hearth_pace pace;
    struct text texts[3] = {0};
    struct hearth_drafted *drafted[3];
    hearth_pace_begin(&pace, 0.1);
    struct ahead ahead;
    open_ahead(&ahead, model, s, n_texts);
    pace.drafter = ahead.drafter;
    for (int t = 0; t < n_texts; t++) {
        hearth_token *want = calloc(N_TOKENS, sizeof *want);
        float *logits = calloc((size_t)N_TOKENS * (size_t)n_vocab, sizeof *logits);
        assert_non_null(want);
        assert_non_null(logits);
        struct hearth_sampler *sampler = open_sampler(n_vocab, temp, 7 + (uint32_t)t);
        grow_plainly(s, ids, want, logits, n_vocab, sampler);
        hearth_sampler_close(&sampler);
        texts[t] = (struct text){
            .sampler = open_sampler(n_vocab, temp, 7 + (uint32_t)t), .want = want, .logits = logits};
    }
    for (int t = 0; t < n_texts; t++) {
        struct text *x = &texts[t];
        drafted[t] = &x->drafted;
        x->drafted.seq = hearth_seq_new(s, &err);
        x->drafted.which = t;
        OK(hearth_prompt(s, x->drafted.seq, ids, N_PROMPT, NULL, NULL, &err));
        assert_true(hearth_drafted_add(&x->drafted, ids, N_PROMPT));
        const hearth_token first = hearth_sample(x->sampler, hearth_logits(s, 0));
        hearth_sampler_accept(x->sampler, first);
        assert_true(hearth_drafted_add(&x->drafted, &first, 1));
        assert_int_equal(first, x->want[x->n++]);
    }
    for (int going = n_texts; going;) {
        struct hearth_drafted *list[3];
        cost_nothing(&pace);
        going = 0;
        for (int t = 0; t < n_texts; t++)
            if (texts[t].n < N_TOKENS) {
                drafted[t]->room = N_TOKENS - texts[t].n;
                list[going++] = drafted[t];
            }
        if (!going)
            break;
        OK(hearth_drafted_step(s, &pace, list, going, &err));
        for (int t = 0; t < n_texts; t++)
            if (texts[t].n < N_TOKENS)
                take_rows(s, &pace, &texts[t], n_vocab);
    }
    for (int t = 0; t < n_texts; t++) {
        hearth_sampler_close(&texts[t].sampler);
        hearth_drafted_free(&texts[t].drafted);
        free((void *)(uintptr_t)texts[t].want);
        free((void *)(uintptr_t)texts[t].logits);
    }
    close_ahead(&ahead);
    hearth_session_close(&s);
    return pace.hits_in_step;
}

// A prompt in which things repeat, so that something is guessed from the beginning.
static void repeat(int32_t *ids)
{
    for (int i = N_PROMPT / 2; i < N_PROMPT; i++)
        ids[i] = ids[i - N_PROMPT / 2];
}

static void test_texts(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-mha.Q8_0",     "qwen3.Q4_0",       "gemma3.Q4_0",
                                        "gemma4.Q8_0",        "mixtral.Q4_0",     "drelu.Q4_0",
                                        "opt.Q8_0",           "deepseek-v3.Q8_0", "qwen35.Q8_0",
                                        "qwen3next.Q8_0",     "lfm2moe.Q8_0",     "nemotron-h-moe.Q8_0",
                                        "kimi-delta.Q8_0",    "falcon-h.Q8_0",    "qwen35-next.Q8_0",
                                        "glm-lite-next.Q8_0", "ling3.Q8_0",       "minimax-text.Q8_0"};
    uint64_t came_true = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct golden g = {0};
        struct hearth_model *model = NULL;
        assert_true(golden_read(&g, names[i]));
        repeat(g.ids);
        OK(hearth_model_open(&model, g.path, NULL, &err));
        came_true += compare_texts(model, g.ids, HEARTH_SPARSITY_AUTO, 0, 1);
        came_true += compare_texts(model, g.ids, HEARTH_SPARSITY_AUTO, 0.9f, 3);
        came_true += compare_texts(model, g.ids, HEARTH_SPARSITY_OFF, 0.5f, 2);
        hearth_model_close(&model);
        golden_free(&g);
    }
    assert_true(came_true > 100);
}

// ---- a small model that drafts

static struct hearth_session *open_steps(const struct hearth_model *model, int n_texts)
{
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = 120;
    p.max_seqs = n_texts;
    p.max_steps = HEARTH_DRAFT_MOST + 1;
    p.n_threads = 1;
    OK(hearth_session_open(&s, model, &p, &err));
    return s;
}

static hearth_token likeliest(const float *logits, int n_vocab)
{
    int best = 0;
    for (int i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

// What the model says that follows.
static void go_on(struct hearth_session *s, int n_vocab, const hearth_token *text, int n, hearth_token *out,
                  int n_out)
{
    int seq = hearth_seq_new(s, &err);
    OK(hearth_prompt(s, seq, text, n, NULL, NULL, &err));
    for (int i = 0; i < n_out; i++) {
        out[i] = likeliest(hearth_logits(s, 0), n_vocab);
        OK(hearth_step(s, &seq, &out[i], 1, &err));
    }
    hearth_seq_free(s, seq);
}

// A golden model that drafts for itself.
struct own {
    struct golden g;
    struct hearth_model *model;
    struct hearth_session *session;
    struct hearth_drafter *drafter;
    struct hearth_pace pace;
};

static void open_own(struct own *o, int n_texts)
{
    *o = (struct own){0};
    assert_true(golden_read(&o->g, "llama-mha.F32"));
    OK(hearth_model_open(&o->model, o->g.path, NULL, &err));
    o->session = open_steps(o->model, n_texts);
    OK(hearth_drafter_open(&o->drafter, o->model, o->session, o->model, n_texts, &err));
    hearth_pace_begin(&o->pace, 0.1);
}

static void close_own(struct own *o)
{
    hearth_drafter_close(&o->drafter);
    hearth_session_close(&o->session);
    hearth_model_close(&o->model);
    golden_free(&o->g);
}

// Texts that grow by what was guessed, by something else, or are others at once: guesses are what the model says.
static void test_drafter(void **state)
{
    (void)state;
    struct own o;
    open_own(&o, 2);
    const int n_vocab = hearth_model_info(o.model)->n_vocab;
    struct hearth_session *plain = open_steps(o.model, 1);
    for (int r = 1; r <= HEARTH_DRAFT_ROWS; r++)
        o.pace.ns[r] = 1e12; // a step takes long, and no longer with more rows
    for (int kind = 0; kind < HEARTH_DRAFT_KINDS; kind++)
        o.pace.hits[kind] = o.pace.tries[kind] = 100;
    hearth_token texts[2][120];
    int n[2] = {0, 0}, guessed = 0;
    for (int round = 0; round < 60; round++) {
        const int which = (int)roll(2);
        hearth_token *text = texts[which];
        if (n[which] < 4 || n[which] > 80 || !roll(5)) {
            const int from = n[which] > 4 && roll(2) ? 4 : 0; // as a text that shares its beginning
            n[which] = 5 + (int)roll(30);
            for (int i = from; i < n[which]; i++)
                text[i] = (hearth_token)roll((uint32_t)n_vocab);
        }
        struct hearth_draft d;
        hearth_token want[HEARTH_DRAFT_MOST];
        const int most = 1 + (int)roll(HEARTH_DRAFT_MOST);
        const struct hearth_draft_text x = {.which = which, .tokens = text, .n = n[which], .most = most};
        hearth_drafter_guess(o.drafter, &d, &o.pace, &x, 1);
        assert_true(d.n > 0 && d.n <= most);
        go_on(plain, n_vocab, text, n[which], want, d.n);
        assert_memory_equal(d.tokens, want, (size_t)d.n * sizeof *want);
        guessed += d.n;
        for (int i = 0; i < d.n && roll(6); i++)
            text[n[which]++] = d.tokens[i];
        text[n[which]++] = (hearth_token)roll((uint32_t)n_vocab);
    }
    assert_true(guessed > 200);
    // Texts that are longer than its context get none, and others after them do. Of the last token there is no guess.
    hearth_token text[130];
    for (int i = 0; i < 130; i++)
        text[i] = (hearth_token)roll((uint32_t)n_vocab);
    static const int lengths[] = {130, 120, 118, 40};
    for (size_t i = 0; i < 4; i++) {
        struct hearth_draft d;
        const struct hearth_draft_text x = {.tokens = text, .n = lengths[i], .most = 5};
        hearth_drafter_guess(o.drafter, &d, &o.pace, &x, 1);
        assert_int_equal(d.n, lengths[i] >= 120 ? 0 : lengths[i] == 118 ? 2 : 5);
    }
    hearth_session_close(&plain);
    close_own(&o);
}

// It pauses when what it gives is not worth its time, and tries again.
static void test_drafter_pauses(void **state)
{
    (void)state;
    struct own o;
    struct hearth_draft d;
    open_own(&o, 1);
    hearth_pace_took(&o.pace, 1, 1000);
    int asked = 0;
    for (int i = 0; i < 400; i++) {
        if (!hearth_drafter_pays(o.drafter, &o.pace, 1))
            continue;
        asked++;
        const struct hearth_draft_text x = {.tokens = o.g.ids, .n = 8, .most = 3};
        hearth_drafter_guess(o.drafter, &d, &o.pace, &x, 1);
        hearth_drafter_took(o.drafter, 1, 1000); // none came true
    }
    assert_true(asked > 16 && asked < 100);
    close_own(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_lookup_of_random_texts),
        cmocka_unit_test(test_nothing_is_known),
        cmocka_unit_test(test_texts_share_rows),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_drafter),
        cmocka_unit_test(test_drafter_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
