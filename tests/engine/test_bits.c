// SPDX-License-Identifier: MIT
// Not one bit of any logit changes: models of every kind evaluate scripts of prompts and steps, and a hash of
// all rows of logits is held against a record, tests/golden/bits.txt. Logits depend on the file, the tokens
// and their phases only, so a case has one hash, in whatever way it is evaluated: any budget of memory,
// number of threads, CPU level, micro-batch, way of reading.
//
//     test_bits                      compares; test_bits "test_*packs" only some tests
//     test_bits --record FILE        writes the record, after a change that is meant to change logits
//     test_bits --rows "CASE"        prints a hash of each row of one case, to find the first that differs
//
// HEARTH_BITS_WAYS is the number of ways in which a case is evaluated: one unless it is said, or 2 with
// HEARTH_THOROUGH. 0: one way, in memory, for emulators, whose own memory counts against a budget; and golden
// models with one type of KV cache each.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "convert/pack.h"
#include "convert/profile.h"
#include "synth/synth.h"
#include "engine/law.h"
#include "engine/session.h"
#include "weights/tests.h"
#include "check.h"
#include "made_models.h"

#define RECORD HEARTH_SOURCE_DIR "/tests/golden/bits.txt"
// In so many ways each two values meet. Large models are evaluated in half as many.
#define WAYS_TO_COVER 2

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct hearth_error err;

// ---- scripts: what is evaluated

struct run {
    struct hearth_session *session;
    size_t n_vocab;
    uint64_t hash;
    int n_rows;
    bool print; // a hash of each row
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
}

static bool take_row(void *arg, int index, const float *logits)
{
    (void)index;
    struct run *r = arg;
    uint64_t hash = 1;
    bool finite = true;
    for (size_t i = 0; i < r->n_vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        hash = mix(hash, bits);
        finite = finite && isfinite(logits[i]);
    }
    assert_true(finite); // a record of nothing proves nothing
    if (r->print)
        printf("%4d %016llx\n", r->n_rows, (unsigned long long)hash);
    r->hash = mix(r->hash, hash);
    r->n_rows++;
    return true;
}

static hearth_token token_at(const struct run *r, int seq, int i)
{
    return (hearth_token)((uint32_t)(seq * 7919 + i * 104729 + 13) % (uint32_t)r->n_vocab);
}

enum { ALL_ROWS = 1, LAST_ROW = 0 };

// Appends n tokens, which depend on the sequence's number and length.
static void prompt(struct run *r, int seq, int n, int all)
{
    hearth_token tokens[2048];
    const int length = hearth_seq_length(r->session, seq);
    assert_in_range(n, 1, COUNT(tokens));
    for (int i = 0; i < n; i++)
        tokens[i] = token_at(r, seq, length + i);
    OK(hearth_prompt(r->session, seq, tokens, n, all ? take_row : NULL, r, &err));
    if (!all)
        take_row(r, 0, hearth_logits(r->session, 0));
}

static void steps(struct run *r, const int *seqs, int n, int times)
{
    for (; times > 0; times--) {
        hearth_token tokens[32];
        assert_in_range(n, 1, COUNT(tokens));
        for (int k = 0; k < n; k++)
            tokens[k] = token_at(r, seqs[k], 5000 + hearth_seq_length(r->session, seqs[k]));
        OK(hearth_step(r->session, seqs, tokens, n, &err));
        for (int k = 0; k < n; k++)
            take_row(r, k, hearth_logits(r->session, k));
    }
}

static int new_sequence(struct run *r)
{
    const int seq = hearth_seq_new(r->session, &err);
    assert_true(seq >= 0);
    return seq;
}

static int fork_at(struct run *r, int seq, int n)
{
    const int forked = hearth_seq_fork(r->session, seq, n, &err);
    assert_true(forked >= 0);
    return forked;
}

// Prompts of several micro-batches, steps of one sequence and of several, a forked one and two that are cut.
static void script_short(struct run *r)
{
    const int a = new_sequence(r), b = new_sequence(r), c = new_sequence(r);
    prompt(r, a, 37, ALL_ROWS);
    steps(r, &a, 1, 3);
    prompt(r, b, 5, LAST_ROW);
    prompt(r, c, 21, LAST_ROW);
    steps(r, (int[]){a, b, c}, 3, 3);
    const int d = fork_at(r, a, 20);
    prompt(r, d, 7, ALL_ROWS);
    steps(r, (int[]){d, a, c, b}, 4, 2);
    OK(hearth_seq_truncate(r->session, b, 3, &err));
    prompt(r, b, 9, ALL_ROWS);
    steps(r, &b, 1, 2);
    OK(hearth_seq_truncate(r->session, a, 30, &err));
    steps(r, (int[]){a, d}, 2, 1);
    prompt(r, a, 38, LAST_ROW); // a second tile of positions
    steps(r, (int[]){b, a}, 2, 2);
}

// Ranges of attention are 1024 positions: they are crossed in prompts and in steps, alone and together.
static void script_long(struct run *r)
{
    const int a = new_sequence(r);
    prompt(r, a, 1000, LAST_ROW);
    prompt(r, a, 50, ALL_ROWS);
    steps(r, &a, 1, 2);
    const int b = fork_at(r, a, 1017);
    steps(r, &b, 1, 10);
    prompt(r, a, 990, LAST_ROW);
    steps(r, (int[]){b, a}, 2, 10);
    OK(hearth_seq_truncate(r->session, a, 1028, &err));
    prompt(r, a, 5, ALL_ROWS);
    steps(r, (int[]){a, b}, 2, 1);
}

// More sequences than the 16 rows of one sparse pass.
static void script_many(struct run *r)
{
    enum { N = 20 };
    int seqs[N];
    for (int i = 0; i < N; i++) {
        seqs[i] = new_sequence(r);
        prompt(r, seqs[i], 1 + i % 5, LAST_ROW);
    }
    static const int counts[] = {N, N, 17, 16, 9, 1};
    for (size_t i = 0; i < COUNT(counts); i++)
        steps(r, seqs + (i % 2 ? N - counts[i] : 0), counts[i], 1);
}

static const struct script {
    const char *name;
    void (*evaluate)(struct run *r);
    int n_ctx, max_seqs, n_ubatch[4];
} SHORT = {"short", script_short, 128, 4, {3, 16, 33, 128}},
  LONG = {"long", script_long, 2100, 2, {50, 128, 333, 512}},
  MANY = {"many", script_many, 64, 20, {1, 2, 4, 8}};

// ---- ways: how it is evaluated

enum residence { IN_MEMORY, FITS, FLOOR, EIGHTH, EIGHTHS_3, EIGHTHS_5, EIGHTHS_7, ALL, N_RESIDENCES };
static const char *const residences[] = {"in memory", "fits", "floor", "1/8", "3/8", "5/8", "7/8", "all"};
static const int eighths[] = {8, 8, 0, 1, 3, 5, 7, 8};

enum dimension {
    RESIDENCE,
    THREADS,
    CPU,
    UBATCH,
    IO,
    OVERLAP,
    N_OF_WAYS,
    MODE = N_OF_WAYS,
    KV,
    N_DIMENSIONS
};
enum { MOST_VALUES = 8 };

struct way {
    int of[N_DIMENSIONS];
};

// What this machine has, the slowest first.
static const char *levels[MOST_VALUES], *ios[2];
static int n_values[N_DIMENSIONS] = {
    [RESIDENCE] = N_RESIDENCES, [THREADS] = 3, [UBATCH] = 4, [OVERLAP] = 3, [MODE] = 4, [KV] = 3};
static bool met[N_DIMENSIONS][MOST_VALUES][N_DIMENSIONS][MOST_VALUES];

static void meet(const struct way *w)
{
    for (int d = 0; d < N_DIMENSIONS; d++)
        for (int e = 0; e < N_DIMENSIONS; e++)
            met[d][w->of[d]][e][w->of[e]] = true;
}

// A model in memory is not streamed, however.
static bool makes_sense(int d, int a, int e)
{
    return !(d == RESIDENCE && a < FLOOR && (e == IO || e == OVERLAP));
}

struct opened {
    struct hearth_model *model;
    struct hearth_session *session;
};

static void close_opened(struct opened *o)
{
    hearth_session_close(&o->session);
    hearth_model_close(&o->model);
}

// All that this test knows of the engine's inside: small models stream as large ones do, in small pieces.
static void stream_always(struct hearth_model *model)
{
    static const struct hearth_weights_tests tests = {
        .always = true, .weights_only = true, .piece_bytes = 100000, .slab_bytes = 65536};
    model->load.tests = &tests;
}

// The smallest budget of a session that has room for all, and the one that holds all.
static void budgets_of(const struct hearth_session *session, uint64_t *least, uint64_t *most)
{
    *least = session->sources->plan.floor.bytes;
    *most = session->sources->plan.bytes;
}

static int try_open(struct opened *o, const char *path, const struct way *w, uint64_t ram,
                    const struct hearth_session_params *session)
{
    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 1;
    params.cpu = levels[w->of[CPU]];
    params.ram = ram;
    params.io = ios[w->of[IO]];
    params.overlap = (enum hearth_overlap)w->of[OVERLAP];
    *o = (struct opened){0};
    OK(hearth_model_open(&o->model, path, &params, &err));
    if (w->of[RESIDENCE] >= FLOOR)
        stream_always(o->model);
    return hearth_session_open(&o->session, o->model, session, &err);
}

// A way's budget; 0 for a model in memory. False: the session makes no sense for this model.
static bool find_budget(const char *path, const struct way *w, const struct hearth_session_params *session,
                        uint64_t *ram)
{
    *ram = w->of[RESIDENCE] == IN_MEMORY ? 0 : 1u << 30;
    if (w->of[RESIDENCE] < FLOOR)
        return true;
    struct opened o;
    uint64_t least, most;
    const int rc = try_open(&o, path, w, *ram, session);
    if (!rc) {
        budgets_of(o.session, &least, &most);
        *ram = least + (most - least) * (uint64_t)eighths[w->of[RESIDENCE]] / 8;
    }
    close_opened(&o);
    return !rc;
}

static void open_way(struct opened *o, const char *path, const struct way *w,
                     const struct hearth_session_params *session)
{
    uint64_t ram;
    if (!find_budget(path, w, session, &ram) || try_open(o, path, w, ram, session))
        fail_msg("%s, %s: %s", path, residences[w->of[RESIDENCE]], err.message);
    struct hearth_streaming_stats stats;
    hearth_session_streaming_stats(o->session, &stats, sizeof stats);
    assert_int_equal(stats.io != NULL, w->of[RESIDENCE] >= FLOOR);
}

// ---- cases against the record

struct line {
    char name[120];
    uint64_t hash;
    bool seen;
};

static struct line record[2000], fresh[2000];
static size_t n_record, n_fresh;
static int n_ways, n_wrong, recorded_law;
static const char *record_to, *rows_of;

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 1;
    for (; *text; text++)
        hash = mix(hash, (uint8_t)*text);
    return hash;
}

static void read_record(void)
{
    FILE *f = fopen(RECORD, "r");
    char text[200];
    assert_non_null(f);
    assert_int_equal(fscanf(f, "law %d\n", &recorded_law), 1);
    while (fgets(text, sizeof text, f)) {
        assert_true(n_record < COUNT(record) && isxdigit((unsigned char)text[0]));
        struct line *l = &record[n_record++];
        char *at;
        l->hash = strtoull(text, &at, 16);
        snprintf(l->name, sizeof l->name, "%s", at + strspn(at, " "));
        l->name[strcspn(l->name, "\n")] = '\0';
    }
    fclose(f);
}

static void write_record(void)
{
    FILE *f = fopen(record_to, "w");
    assert_non_null(f);
    fprintf(f, "law %d\n", HEARTH_NUMERIC_LAW);
    for (size_t i = 0; i < n_fresh; i++)
        fprintf(f, "%016llx %s\n", (unsigned long long)fresh[i].hash, fresh[i].name);
    assert_int_equal(fclose(f), 0);
}

// Logits that were recorded and have changed are another law, unless it is the files that have.
static void tell_changes(void)
{
    int n = 0;
    for (size_t i = 0; i < n_record; i++)
        for (size_t k = 0; k < n_fresh; k++)
            n += !strcmp(record[i].name, fresh[k].name) && record[i].hash != fresh[k].hash;
    if (n && recorded_law == HEARTH_NUMERIC_LAW)
        printf("%d lines of %s have changed: where the arithmetic has, raise HEARTH_NUMERIC_LAW\n", n,
               RECORD);
}

// A case's line; when it is new in a record that is being written, with a hash of 0.
static struct line *line_of(const char *name)
{
    struct line *lines = record_to ? fresh : record;
    const size_t n = record_to ? n_fresh : n_record;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(lines[i].name, name))
            return &lines[i];
    if (!record_to)
        return NULL;
    assert_true(n_fresh < COUNT(fresh));
    struct line *l = &fresh[n_fresh++];
    snprintf(l->name, sizeof l->name, "%s", name);
    return l;
}

// Whether the hash is the recorded one. A difference is counted, so that all of them are seen.
static bool compare(const char *name, uint64_t hash, const char *how)
{
    struct line *l = line_of(name);
    if (!l) {
        printf("%s: not in %s\n", name, RECORD);
        n_wrong++;
        return false;
    }
    if (record_to && !l->seen)
        l->hash = hash;
    l->seen = true;
    if (l->hash == hash)
        return true;
    printf("%s: %016llx is recorded, this is %016llx: %s\n", name, (unsigned long long)l->hash,
           (unsigned long long)hash, how);
    n_wrong++;
    return false;
}

// ---- cases

// A model file.
struct subject {
    const char *kind;
    char name[64], path[512];
    bool relu;  // of the ReLU family
    bool large; // too large, or one of too many, for the C reference and for many ways
};

// Values of the dimension MODE are the first four sparsities; others come under one of them.
static const struct mode {
    const char *name;
    int value;
    enum hearth_sparsity sparsity;
    float predict, threshold, share;
} OFF = {"off", 0, HEARTH_SPARSITY_OFF, NAN, 0, 0}, EXACT = {"exact", 1, HEARTH_SPARSITY_EXACT, NAN, 0, 0},
  PREDICT = {"predict", 2, HEARTH_SPARSITY_PREDICT, NAN, 0, 0},
  PREDICT_MORE = {"predict-0.2", 2, HEARTH_SPARSITY_PREDICT, 0.2f, 0, 0},
  LOSSY = {"lossy-0.05", 3, HEARTH_SPARSITY_EXACT, NAN, 0.05f, 0},
  SHARE = {"share-0.4", 3, HEARTH_SPARSITY_EXACT, NAN, 0, 0.4f};

// Pairs of enum hearth_kv_type, for keys and for values.
static const struct kv {
    const char *name;
    enum hearth_kv_type k, v;
} kvs[] = {{"f16", HEARTH_KV_F16, HEARTH_KV_F16},
           {"f32", HEARTH_KV_F32, HEARTH_KV_F32},
           {"q8_0", HEARTH_KV_Q8_0, HEARTH_KV_Q8_0},
           {"f32-q8_0", HEARTH_KV_F32, HEARTH_KV_Q8_0}};
enum { F16, F32, Q8_0, MIXED };

// Way j of n of a case: values follow one another from a place that the case's name says, so that cases
// differ. Of several the first is in memory.
static struct way way_of(uint64_t seed, int j, int n, bool large)
{
    struct way w;
    for (int d = 0; d < N_OF_WAYS; d++)
        w.of[d] = (int)((seed >> (8 * d) & 255) + (uint64_t)j) % n_values[d];
    if (n > 1 || !n_ways)
        w.of[RESIDENCE] = j ? FITS + (w.of[RESIDENCE] + j) % (N_RESIDENCES - 1) : IN_MEMORY;
    w.of[OVERLAP] = (w.of[OVERLAP] + j / 2) % n_values[OVERLAP];
    if (large && w.of[CPU] == 0 && n_values[CPU] > 1)
        w.of[CPU] = 1 + (int)(seed >> 56) % (n_values[CPU] - 1);
    return w;
}

static uint64_t evaluate(const struct subject *m, const struct script *script, const struct way *w,
                         struct hearth_session_params session, bool print)
{
    struct opened o;
    session.n_threads = 1 + w->of[THREADS];
    session.n_ubatch = script->n_ubatch[w->of[UBATCH]];
    open_way(&o, m->path, w, &session);
    struct run r = {.session = o.session,
                    .n_vocab = (size_t)hearth_model_info(o.model)->n_vocab,
                    .hash = 1,
                    .print = print};
    script->evaluate(&r);
    close_opened(&o);
    return r.hash;
}

// Whether a model takes these options at all: not each has predictors, heads of 32, magnitudes.
static bool takes(const struct subject *m, const struct hearth_session_params *session)
{
    struct opened o;
    const int rc = try_open(&o, m->path, &(struct way){0}, 0, session);
    close_opened(&o);
    if (rc && rc != HEARTH_E_INVALID)
        fail_msg("%s: %s", m->path, err.message);
    return !rc;
}

static void check(const struct subject *m, const struct script *script, const struct mode *mode, int kv)
{
    char name[sizeof record[0].name], how[200];
    snprintf(name, sizeof name, "%s/%s %s %s %s", m->kind, m->name, script->name, mode->name, kvs[kv].name);
    struct hearth_session_params session = hearth_session_params_default();
    session.n_ctx = script->n_ctx;
    session.max_seqs = script->max_seqs;
    session.type_k = kvs[kv].k;
    session.type_v = kvs[kv].v;
    session.sparsity = mode->sparsity;
    session.predict_threshold = mode->predict;
    session.sparsity_threshold = mode->threshold;
    session.sparsity_share = mode->share;
    if ((rows_of && strcmp(rows_of, name)) || !takes(m, &session))
        return;
    const int n = rows_of || !n_ways ? 1 : script == &LONG || m->large ? (n_ways + 1) / 2 : n_ways;
    bool same = true;
    for (int j = 0; j < n && same; j++) {
        struct way w = way_of(hash_text(name), j, n, m->large || script == &LONG);
        const uint64_t hash = evaluate(m, script, &w, session, rows_of != NULL);
        w.of[MODE] = mode->value;
        w.of[KV] = kv % MIXED;
        meet(&w);
        snprintf(how, sizeof how, "%s, %d threads, %s, micro-batches of %d, %s, overlap %d",
                 residences[w.of[RESIDENCE]], 1 + w.of[THREADS], levels[w.of[CPU]],
                 script->n_ubatch[w.of[UBATCH]], ios[w.of[IO]], w.of[OVERLAP]);
        same = rows_of || compare(name, hash, how);
    }
}

// What is left out of a model depends on whether zeros come by themselves.
static const struct mode *own_mode(const struct subject *m)
{
    return m->relu ? &EXACT : &LOSSY;
}

// All modes, each type of KV cache with one of them at least.
static void check_modes(const struct subject *m, int turn)
{
    check(m, &SHORT, &OFF, F16);
    check(m, &SHORT, &OFF, F32 + turn % 2);
    check(m, &SHORT, own_mode(m), turn % MIXED);
    check(m, &SHORT, &PREDICT, (turn + 1) % (MIXED + 1));
    check(m, &SHORT, &PREDICT, F16);
}

static void begin(void)
{
    n_wrong = 0;
}

static void end(void)
{
    assert_int_equal(n_wrong, 0);
}

static struct subject subject_at(const char *kind, const char *name, const char *path)
{
    struct subject m = {.kind = kind};
    snprintf(m.name, sizeof m.name, "%s", name);
    snprintf(m.path, sizeof m.path, "%s", path);
    return m;
}

// ---- models that are files

static struct subject subject_in(const char *kind, const char *subfolder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, HEARTH_SOURCE_DIR "/%s/%s.gguf", subfolder, name);
    return subject_at(kind, name, path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Calls fn for each GGUF there, in the order of their names.
static void each_model(const char *kind, const char *subfolder, void (*fn)(struct subject *m, int turn))
{
    char *names[400];
    size_t n = 0;
    char path[512];
    snprintf(path, sizeof path, HEARTH_SOURCE_DIR "/%s", subfolder);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        const size_t len = strlen(e->d_name);
        if (len < 6 || strcmp(e->d_name + len - 5, ".gguf"))
            continue;
        assert_true(n < COUNT(names));
        names[n++] = strndup(e->d_name, len - 5);
    }
    closedir(d);
    assert_true(n > 0);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        struct subject m = subject_in(kind, subfolder, names[i]);
        fn(&m, (int)i);
        free(names[i]);
    }
}

// What is done with a model follows from its name: so others may come and go.
static void check_golden(struct subject *m, int at)
{
    static const char *const relu[] = {"relu.", "drelu.", "bamboo.", "opt.", "jump.", "nemotron.", "arcee."};
    const uint64_t turn = hash_text(m->name);
    (void)at;
    m->large = turn % 2; // there are enough of them for each way to be met
    for (size_t i = 0; i < COUNT(relu); i++)
        m->relu = m->relu || !strncmp(m->name, relu[i], strlen(relu[i]));
    for (int kv = 0; kv < MIXED; kv++)
        if (n_ways || kv == (int)(turn / 4 % MIXED))
            check(m, &SHORT, &OFF, kv);
    check(m, &SHORT, own_mode(m), (int)(turn / 2 % MIXED));
}

static void test_goldens(void **state)
{
    (void)state;
    begin();
    each_model("golden", "tests/golden/models", check_golden);
    end();
}

static void check_powerinfer(struct subject *m, int turn)
{
    m->relu = true;
    check_modes(m, turn);
    check(m, &SHORT, &PREDICT_MORE, F32);
    check(m, &SHORT, &LOSSY, F32);
}

static void test_powerinfer(void **state)
{
    (void)state;
    begin();
    each_model("pwri", "tests/golden/pwri", check_powerinfer);
    end();
}

static void check_shipped(struct subject *m, int turn)
{
    m->relu = strstr(m->name, "relu") != NULL || strstr(m->name, "sparse") != NULL;
    m->large = true;
    check(m, &SHORT, &OFF, turn ? F16 : Q8_0);
    check(m, &SHORT, own_mode(m), turn ? F32 : F16);
}

static void test_shipped(void **state)
{
    (void)state;
    begin();
    each_model("shipped", "models", check_shipped);
    end();
}

// ---- models that are made

// Files that are made here are recorded, too: where one differs its logits will.
static struct subject made_subject(const char *kind, const char *name, const char *file)
{
    struct subject m = subject_at(kind, name, in_folder(file));
    char line[sizeof record[0].name];
    FILE *f = fopen(m.path, "rb");
    uint64_t hash = 1;
    assert_non_null(f);
    for (uint8_t bytes[8] = {0}; fread(bytes, 1, sizeof bytes, f);) {
        uint64_t value = 0;
        for (size_t i = sizeof bytes; i-- > 0;)
            value = value << 8 | bytes[i];
        hash = mix(hash, value);
    }
    fclose(f);
    snprintf(line, sizeof line, "%s/%s file", kind, name);
    if (!rows_of)
        compare(line, hash, "the file");
    return m;
}

static struct subject make_preset_with(const char *preset, bool early)
{
    const char *path = in_folder("model.gguf");
    const struct hearth_synth_params params = {.seed = 5, .n_threads = 2, .early_predictors = early};
    remove(path);
    OK(hearth_synth(preset, path, &params, &err));
    struct subject m = made_subject(early ? "synth-early" : "synth", preset, "model.gguf");
    m.large = true;
    m.relu = strcmp(preset, "tiny-dense") && strcmp(preset, "tiny-qwen3-moe");
    return m;
}

static struct subject make_preset(const char *preset)
{
    return make_preset_with(preset, false);
}

static void test_presets(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny-dense",           "tiny-relullama",       "tiny-opt",
                                          "tiny-falcon",          "tiny-turbosparse",     "tiny-qwen3-moe",
                                          "tiny-turbosparse-moe", "tiny-turbosparse-pack"};
    begin();
    for (size_t i = 0; i < COUNT(presets); i++) {
        const struct subject m = make_preset(presets[i]);
        check_modes(&m, (int)i);
        check(&m, &MANY, &OFF, F16);
        check(&m, &MANY, own_mode(&m), F16);
        check(&m, &MANY, &PREDICT, F16);
    }
    end();
}

// A profile of what is in the folder; a share of activations is left out of models that leave out none.
static void make_profile(const struct subject *m)
{
    enum { N = 320 };
    struct hearth_model *model;
    hearth_token tokens[N];
    OK(hearth_model_open(&model, m->path, NULL, &err));
    for (int i = 0; i < N; i++)
        tokens[i] = (hearth_token)((i * i * 31 + i * 7) % hearth_model_info(model)->n_vocab);
    const struct hearth_profile_params params = {.n_threads = 2, .sparsity_share = m->relu ? 0.0f : 0.4f};
    remove(in_folder("profile"));
    OK(hearth_profile(model, tokens, N, &params, in_folder("profile"), NULL, &err));
    hearth_model_close(&model);
}

// Its pack, with the profile in the folder or without one.
static struct subject make_pack(const struct subject *source, const char *kind, bool with_profile)
{
    const struct hearth_pack_params params = {.profile = with_profile ? in_folder("profile") : NULL,
                                              .n_threads = 2};
    remove(in_folder("pack.gguf"));
    OK(hearth_pack_write(source->path, in_folder("pack.gguf"), &params, NULL, &err));
    struct subject pack = made_subject(kind, source->name, "pack.gguf");
    pack.large = source->large;
    pack.relu = source->relu;
    return pack;
}

static void check_packs(const struct subject *source, int turn)
{
    make_profile(source);
    for (int with = 0; with < 2; with++) {
        const struct subject pack = make_pack(source, with ? "pack-profile" : "pack", with);
        check_modes(&pack, turn + with);
        check(&pack, &SHORT, &SHARE, F16);
        check(&pack, &SHORT, &SHARE, Q8_0);
        check(&pack, &MANY, with ? &PREDICT : &OFF, F16);
    }
}

static void test_packs(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny-relullama",   "tiny-opt",   "tiny-falcon",
                                          "tiny-turbosparse", "tiny-dense", "tiny-turbosparse-moe"};
    begin();
    for (size_t i = 0; i < COUNT(presets); i++) {
        const struct subject m = make_preset(presets[i]);
        check_packs(&m, (int)i);
    }
    end();
}

// All numbers are f32: a tensor per expert, as old files have them; down by neuron; predictors; biases.
static void test_made(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool relu;
        struct made made;
    } models[] = {
        {"llama", false, {.arch = "llama"}},
        {"llama-split-experts", false, {.arch = "llama", .experts = true, .split_experts = true}},
        {"llama-experts", false, {.arch = "llama", .experts = true, .by_neuron = true, .predictors = true}},
        {"qwen3moe", false, {.arch = "qwen3moe", .experts = true, .by_neuron = true}},
        {"qwen2", false, {.arch = "qwen2", .optional = true}},
        {"falcon", false, {.arch = "falcon", .optional = true}},
        {"bamboo", true, {.arch = "bamboo", .by_neuron = true, .predictors = true}},
        {"opt", true, {.arch = "opt", .optional = true, .by_neuron = true, .predictors = true}},
        {"opt-wide", true, {.arch = "opt", .by_neuron = true, .predictors = true, .wide = true}},
    };
    begin();
    for (size_t i = 0; i < COUNT(models); i++) {
        made_write(in_folder("made.gguf"), &models[i].made);
        struct subject m = made_subject("made", models[i].name, "made.gguf");
        m.relu = models[i].relu;
        check_modes(&m, (int)i);
        check(&m, &MANY, own_mode(&m), F32);
        check(&m, &MANY, &PREDICT, F16);
    }
    end();
}

// The made ones are the smallest that have magnitudes.
static void test_made_packs(void **state)
{
    (void)state;
    begin();
    for (int experts = 0; experts < 2; experts++) {
        made_write(in_folder("made.gguf"), &(struct made){.arch = "llama", .experts = experts});
        struct subject m = made_subject("made", experts ? "llama-moe" : "llama-dense", "made.gguf");
        check_packs(&m, experts);
    }
    end();
}

// ---- predictors that look at the layer before

static void check_early(const struct subject *m)
{
    check(m, &SHORT, &PREDICT, F16);
    check(m, &SHORT, &PREDICT_MORE, F32);
    check(m, &MANY, &PREDICT, F16);
}

static void test_early(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny-turbosparse", "tiny-falcon", "tiny-turbosparse-moe"};
    begin();
    for (size_t i = 0; i < COUNT(presets); i++) {
        const struct subject m = make_preset_with(presets[i], true);
        check_early(&m);
        make_profile(&m);
        const struct subject pack = make_pack(&m, "pack-early", true);
        check_early(&pack);
    }
    made_write(in_folder("made.gguf"),
               &(struct made){.arch = "llama",
                              .experts = true,
                              .by_neuron = true,
                              .predictors = true,
                              .set = {{"hearth.pack.predictor_input", 's', 0, "previous"}}});
    const struct subject m = made_subject("made-early", "llama-experts", "made.gguf");
    check_early(&m);
    const struct subject pack = make_pack(&m, "pack-early", false);
    check_early(&pack);
    end();
}

// ---- many positions

static void test_long(void **state)
{
    (void)state;
    begin();
    struct subject m = subject_in("golden", "tests/golden/models", "mistral-gqa.Q4_0");
    for (int kv = 0; kv <= MIXED; kv++)
        check(&m, &LONG, &OFF, kv);
    m = subject_in("golden", "tests/golden/models", "window.Q8_0");
    check(&m, &LONG, &OFF, F16);
    check(&m, &LONG, &LOSSY, F32);
    m = subject_in("golden", "tests/golden/models", "qwen2-yarn.Q8_0");
    check(&m, &LONG, &OFF, F16);
    m = subject_in("golden", "tests/golden/models", "falcon-40b.Q8_0");
    check(&m, &LONG, &OFF, F32);
    m = subject_in("golden", "tests/golden/models", "drelu.Q8_0");
    check(&m, &LONG, &EXACT, F16);
    m = subject_in("golden", "tests/golden/models", "qwen3moe.Q4_0");
    check(&m, &LONG, &OFF, F16);
    m = make_preset("tiny-relullama");
    check(&m, &LONG, &PREDICT, F16);
    end();
}

// ---- all of it

// Every case that is recorded has been evaluated.
static void test_recorded(void **state)
{
    (void)state;
    begin();
    for (size_t i = 0; i < n_record && !record_to; i++)
        if (!record[i].seen) {
            printf("%s is recorded and was not evaluated\n", record[i].name);
            n_wrong++;
        }
    end();
}

// Each two values of two dimensions have met.
static void test_covered(void **state)
{
    (void)state;
    if (n_ways < WAYS_TO_COVER)
        skip();
    begin();
    for (int d = 0; d < N_DIMENSIONS; d++)
        for (int e = 0; e < N_DIMENSIONS; e++)
            for (int a = 0; a < n_values[d]; a++)
                for (int b = 0; d != e && b < n_values[e]; b++)
                    if (!met[d][a][e][b] && makes_sense(d, a, e) && makes_sense(e, b, d)) {
                        printf("value %d of dimension %d and value %d of dimension %d never met\n", a, d, b,
                               e);
                        n_wrong++;
                    }
    end();
}

// Whether this machine has a CPU level, or a way of reading.
static bool opens(const char *cpu, const char *io)
{
    const struct subject m = subject_in("golden", "tests/golden/models", "relu.Q8_0");
    struct hearth_model_params params = hearth_model_params_default();
    params.cpu = cpu;
    params.ram = io ? 1u << 30 : 0;
    params.io = io;
    struct opened o = {0};
    struct hearth_session_params session = hearth_session_params_default();
    session.n_ctx = 16;
    session.n_threads = 1;
    bool yes = !hearth_model_open(&o.model, m.path, &params, &err);
    if (yes)
        stream_always(o.model);
    yes = yes && !hearth_session_open(&o.session, o.model, &session, &err);
    close_opened(&o);
    return yes;
}

static int prepare(void **state)
{
    for (size_t i = 0; hearth_cpu_level(i); i++)
        if (opens(hearth_cpu_level(i), NULL))
            levels[n_values[CPU]++] = hearth_cpu_level(i);
    static const char *const ways[] = {"pread", "uring"};
    for (size_t i = 0; i < COUNT(ways); i++)
        if (opens(NULL, ways[i]))
            ios[n_values[IO]++] = ways[i];
    assert_true(n_values[CPU] && n_values[IO]);
    read_record();
    if (!record_to && !rows_of && recorded_law != HEARTH_NUMERIC_LAW) {
        printf("%s is of law %d, this is law %d: record it anew\n", RECORD, recorded_law, HEARTH_NUMERIC_LAW);
        return -1;
    }
    return make_folder(state);
}

int main(int argc, char **argv)
{
    const char *ways = getenv("HEARTH_BITS_WAYS");
    n_ways = ways ? atoi(ways) : is_thorough() ? WAYS_TO_COVER : 1;
    for (int i = 1; i < argc; i++)
        if (i + 1 < argc && !strcmp(argv[i], "--record"))
            record_to = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--rows"))
            rows_of = argv[++i];
        else
            cmocka_set_test_filter(argv[i]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),  cmocka_unit_test(test_powerinfer), cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_presets),  cmocka_unit_test(test_packs),      cmocka_unit_test(test_made),
        cmocka_unit_test(test_long),     cmocka_unit_test(test_made_packs), cmocka_unit_test(test_early),
        cmocka_unit_test(test_recorded), cmocka_unit_test(test_covered),
    };
    const int failed = cmocka_run_group_tests(tests, prepare, remove_folder);
    if (record_to && !failed) {
        write_record();
        tell_changes();
    }
    return failed;
}
