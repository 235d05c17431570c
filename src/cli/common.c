// SPDX-License-Identifier: MIT
// Shared by the sub-commands.
#include "cli/common.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/os.h"
#include "base/threads.h"
#include "cli/adapters.h"
#include "cli/devices.h"
#include "cli/folder_models.h"
#include "cli/machine.h"
#include "cli/wrap.h"
#include "model/nextn.h"
#include "plan/chart.h"
#include "store/store.h"
#include "text/unicode.h"

// ---- messages

static bool quiet_mode;
static const struct hearth_command *command; // that is running, or NULL

// A new string; NULL: no memory.
static char *compose(const char *kind, const char *fmt, va_list args)
{
    char head[64];
    va_list again;
    va_copy(again, args);
    const int more = vsnprintf(NULL, 0, fmt, again), n = snprintf(head, sizeof head, "hearth: %s", kind);
    va_end(again);
    char *message = more < 0 ? NULL : malloc((size_t)n + (size_t)more + 1);
    if (!message)
        return NULL;
    memcpy(message, head, (size_t)n);
    vsnprintf(message + n, (size_t)more + 1, fmt, args);
    return message;
}

// On a terminal, lines end between words.
static void say(const char *kind, const char *fmt, va_list args)
{
    const int columns = hearth_terminal_columns(stderr);
    va_list again;
    va_copy(again, args);
    char *message = columns ? compose(kind, fmt, again) : NULL;
    va_end(again);
    char *lines = message ? hearth_wrap(message, (size_t)columns, 2, 0) : NULL;
    hearth_terminal_message();
    if (lines) {
        fprintf(stderr, "%s\n", lines);
    } else {
        fprintf(stderr, "hearth: %s", kind);
        vfprintf(stderr, fmt, args);
        fputc('\n', stderr);
    }
    free(message);
    free(lines);
}

static void say_to_log(const char *kind, const char *fmt, ...) HEARTH_PRINTF(2, 3);
static void say_to_log(const char *kind, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(kind, fmt, args);
    va_end(args);
}

static void log_sink(void *arg, enum hearth_log_level level, const char *message)
{
    const enum hearth_log_level *up_to = arg;
    if (level <= *up_to)
        say_to_log(level == HEARTH_LOG_WARNING ? "warning: " : "", "%s", message);
}

void hearth_cli_log_init(bool quiet, bool verbose)
{
    static enum hearth_log_level up_to;
    quiet_mode = quiet;
    hearth_progress_switch(!quiet);
    up_to = verbose ? HEARTH_LOG_DEBUG : HEARTH_LOG_WARNING;
    hearth_log_set(log_sink, &up_to);
}

void hearth_cli_warn(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say("warning: ", fmt, args);
    va_end(args);
}

void hearth_cli_info(const char *fmt, ...)
{
    if (quiet_mode)
        return;
    va_list args;
    va_start(args, fmt);
    say("", fmt, args);
    va_end(args);
}

void hearth_cli_next(const char *fmt, ...)
{
    if (quiet_mode)
        return;
    va_list args;
    va_start(args, fmt);
    hearth_terminal_message();
    fputs("hearth: next: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

int hearth_cli_error(const char *fmt, ...)
{
    hearth_progress_end();
    va_list args;
    va_start(args, fmt);
    say("error: ", fmt, args);
    va_end(args);
    return HEARTH_EXIT_FAILURE;
}

void hearth_cli_set_command(const struct hearth_command *cmd)
{
    command = cmd;
}

// A budget that is too small: first what would do, as --ram takes it.
static int fail_for_budget(const struct hearth_error *err, const char *option)
{
    const double mib = 1 << 20;
    const char *least = strchr(err->message, '(');
    const double bytes = least ? strtod(least + 1, NULL) : 0;
    const bool large = bytes >= 1024 * mib;
    return hearth_cli_error("give %s %.2f%c or %s min: %s%s; a smaller context (-c)%s takes less", option,
                            ceil(bytes / mib / (large ? 1024 : 1) * 100) / 100, large ? 'G' : 'M', option,
                            option, err->message + strlen(err->param),
                            command->bit == HEARTH_CMD_SERVE ? " or fewer texts at once (-np)" : "");
}

int hearth_cli_fail(const struct hearth_error *err)
{
    if (err->code == HEARTH_E_INTERRUPTED) {
        hearth_progress_end();
        return HEARTH_EXIT_INTERRUPTED;
    }
    const char *option = command && err->param ? hearth_option_for(command, err->param) : NULL;
    const size_t n = option ? strlen(err->param) : 0;
    if (option && err->code == HEARTH_E_BUDGET && !strncmp(err->message, "ram must be", 11))
        return fail_for_budget(err, option);
    if (option && !strncmp(err->message, err->param, n) && err->message[n] == ' ') // "ram must be ..."
        return hearth_cli_error("%s%s", option, err->message + n);
    if (option)
        return hearth_cli_error("%s (option %s)", err->message, option);
    return hearth_cli_error("%s", err->message);
}

int hearth_cli_usage(const struct hearth_command *cmd, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say("error: ", fmt, args);
    va_end(args);
    if (cmd)
        fprintf(stderr, "hearth: see hearth %s --help\n", cmd->name);
    else
        fprintf(stderr, "hearth: see hearth --help\n");
    return HEARTH_EXIT_USAGE;
}

void hearth_cli_print_version(void)
{
    printf("hearth %s\nCPU: %s (%s)\n", hearth_version(), hearth_cpu_brand(),
           hearth_cpu_level_name(hearth_cpu_flags()));
    hearth_cli_print_devices();
}

// ---- stopping

static atomic_bool interrupted; // signal handlers set it
static _Atomic(struct hearth_session *) cancelled_by_signal;

// The second time the program is to end at once.
static bool on_interrupt(void)
{
    if (atomic_exchange(&interrupted, true))
        return false;
    hearth_cancel(atomic_load(&cancelled_by_signal));
    return true;
}

void hearth_cli_cancel_on_interrupt(struct hearth_session *session)
{
    atomic_store(&cancelled_by_signal, session);
    if (atomic_load(&interrupted))
        hearth_cancel(session);
}

void hearth_cli_catch_interrupt(void)
{
    hearth_console_catch(on_interrupt);
}

bool hearth_cli_interrupted(void)
{
    return atomic_load(&interrupted);
}

bool hearth_cli_take_interrupt(void)
{
    return atomic_exchange(&interrupted, false);
}

// ---- input and output

bool hearth_buffer_add(struct hearth_buffer *b, const void *src, size_t n)
{
    if (n > b->cap - b->n) {
        size_t cap = b->cap ? b->cap : 256;
        while (cap - b->n < n) {
            if (cap > SIZE_MAX / 2)
                return false;
            cap *= 2;
        }
        char *grown = realloc(b->data, cap);
        if (!grown)
            return false;
        b->data = grown;
        b->cap = cap;
    }
    if (n)
        memcpy(b->data + b->n, src, n);
    b->n += n;
    return true;
}

// Tokenizing accepts no more.
#define TEXT_MAX ((size_t)INT32_MAX)

int hearth_cli_read(const char *path, struct hearth_buffer *out)
{
    const bool is_stdin = !strcmp(path, "-");
    FILE *f = is_stdin ? stdin : hearth_file_stream(path, "rb");
    if (!f)
        return hearth_cli_error("cannot open %s: %s", path, strerror(errno));
    const char *name = is_stdin ? "standard input" : path;
    int status = HEARTH_EXIT_OK;
    char block[65536];
    size_t n;
    while (!status && (n = fread(block, 1, sizeof block, f)) > 0)
        if (n > TEXT_MAX - out->n)
            status = hearth_cli_error("%s holds more than 2 GiB: no text that long can be used", name);
        else if (!hearth_buffer_add(out, block, n))
            status = hearth_cli_error("no memory for the contents of %s", name);
    if (!status && ferror(f))
        status = hearth_cli_error("cannot read %s: %s", name, strerror(errno));
    if (!is_stdin)
        fclose(f);
    return status;
}

// What is there where something is to be written.
enum occupant { NOTHING, MODEL, UNREADABLE, OTHER };

static enum occupant look_at(const char *path)
{
    struct hearth_path at;
    char magic[4] = "";
    if (!hearth_path_look(path, &at) || at.kind != HEARTH_PATH_FILE || !at.size)
        return NOTHING;
    FILE *f = hearth_file_stream(path, "rb");
    if (!f)
        return UNREADABLE;
    const bool is_model = fread(magic, 1, sizeof magic, f) == sizeof magic &&
                          (!memcmp(magic, "GGUF", 4) || !memcmp(magic, "PWRI", 4));
    fclose(f);
    return is_model ? MODEL : OTHER;
}

int hearth_cli_check_out(const char *path)
{
    return look_at(path) != OTHER
               ? HEARTH_EXIT_OK
               : hearth_cli_error("%s is there and no GGUF file: it is not overwritten; remove it first, or "
                                  "give another name",
                                  path);
}

int hearth_cli_check_text_out(const struct hearth_options *o, const char *path)
{
    if (!path)
        return HEARTH_EXIT_OK;
    if (look_at(path) == MODEL)
        return hearth_cli_error("%s is a model: it is not overwritten; give another name", path);
    const char *const read[] = {o->file,         o->system_file,      o->chat_template_file,
                                o->grammar_file, o->json_schema_file, o->simulate};
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++)
        if (read[i] && hearth_path_same(read[i], path))
            return hearth_cli_error("%s is read here: give another name for what is written", path);
    return HEARTH_EXIT_OK;
}

int hearth_cli_stdout_close(int status)
{
    hearth_progress_end();
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    int failed = hearth_cli_error("cannot write to standard output: %s", strerror(errno));
    return status ? status : failed;
}

size_t hearth_cli_character(const char *text, size_t n)
{
    const unsigned char c = (unsigned char)*text;
    if (c < 128)
        return c >= ' ' && c != 127;
    uint32_t code = 0;
    const size_t length = hearth_utf8_decode(text, n, &code);
    return code < 0x80 || code >= 0xa0 ? length : 0; // between are C1's, which some terminals obey
}

void hearth_cli_warn_binary(const char *path, const struct hearth_buffer *text)
{
    const size_t n = text->n < 65536 ? text->n : 65536;
    size_t strange = 0;
    for (size_t i = 0; i < n;) {
        const unsigned char c = (unsigned char)text->data[i];
        const size_t length = c < 128 ? 1 : hearth_utf8_decode(text->data + i, text->n - i, NULL);
        strange += !length || (c < 32 && !strchr("\t\n\v\f\r", c));
        i += length ? length : 1;
    }
    if (strange > n / 100)
        hearth_cli_warn("%s does not look like text: of its first %zu bytes, %zu are in no text",
                        strcmp(path, "-") ? path : "standard input", n, strange);
}

bool hearth_cli_stdin_is_piped(void)
{
    struct hearth_path at;
    return hearth_stream_look(0, &at) &&
           (at.kind == HEARTH_PATH_PIPE || at.kind == HEARTH_PATH_FILE || at.kind == HEARTH_PATH_SOCKET);
}

void hearth_cli_await_stdin(const char *message)
{
    if (!hearth_console_waits(500))
        hearth_cli_info("%s", message);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hearth_cli_unescapes(const struct hearth_options *o)
{
    return !o->no_escape && (o->escape || o->prompt);
}

size_t hearth_cli_unescape(char *text, size_t n)
{
    static const char letters[] = "nrt'\"\\", meanings[] = "\n\r\t'\"\\";
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        const char *letter =
            text[i] == '\\' && i + 1 < n && text[i + 1] ? strchr(letters, text[i + 1]) : NULL;
        if (letter) {
            text[to++] = meanings[letter - letters];
            i++;
        } else if (text[i] == '\\' && i + 3 < n && text[i + 1] == 'x' && hex_digit(text[i + 2]) >= 0 &&
                   hex_digit(text[i + 3]) >= 0) {
            text[to++] = (char)(16 * hex_digit(text[i + 2]) + hex_digit(text[i + 3]));
            i += 3;
        } else {
            text[to++] = text[i];
        }
    }
    return to;
}

void hearth_cli_format_bytes(char *out, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    int u = 0;
    for (; v >= 1024 && u < 4; u++)
        v /= 1024;
    snprintf(out, size, u ? "%.2f %s" : "%.0f %s", v, units[u]);
}

void hearth_cli_format_memory(char *out, size_t size)
{
    const double mib = 1 << 20;
    const uint64_t peak = hearth_memory_peak(), files = hearth_memory_files();
    int n =
        snprintf(out, size, "%.0f MiB of memory at most", (double)(peak - (files < peak ? files : 0)) / mib);
    if (files && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, ", and %.0f MiB of the program itself", (double)files / mib);
}

int hearth_cli_chart(const struct hearth_chart *chart, const char *path)
{
    struct hearth_error err = {0};
    if (hearth_chart_write(chart, path, &err))
        return hearth_cli_fail(&err);
    hearth_cli_info("%s: a chart, for a browser", path);
    return HEARTH_EXIT_OK;
}

void hearth_cli_format_count(char *out, size_t size, uint64_t n)
{
    double v = (double)n;
    if (v >= 1e9)
        snprintf(out, size, "%.2f B", v / 1e9);
    else if (v >= 1e6)
        snprintf(out, size, "%.2f M", v / 1e6);
    else if (v >= 1e3)
        snprintf(out, size, "%.2f K", v / 1e3);
    else
        snprintf(out, size, "%.0f", v);
}

// ---- models

bool hearth_cli_progress(void *arg, float share)
{
    (void)arg;
    hearth_progress_share((double)share);
    return !hearth_cli_interrupted();
}

void hearth_cli_progress_of_file(const char *path, const char *what)
{
    struct hearth_path at;
    // Of a split model it is one part.
    const bool known = hearth_path_look(path, &at) && at.size > 0 && !strstr(path, "-of-");
    hearth_progress_begin(known ? HEARTH_PROGRESS_BYTES : HEARTH_PROGRESS_SHARE, known ? (double)at.size : 1,
                          "%s", what);
}

// most: not 0: the layer that guesses ahead alone, as hearth_nextn_open() takes it.
static int open_model_at(struct hearth_model **out, const char *path, const struct hearth_options *o,
                         bool vocab_only, uint64_t most, struct hearth_error *err)
{
    struct hearth_model_params params = hearth_model_params_default();
    params.vocab_only = vocab_only;
    params.cpu = hearth_options_cpu(o);
    params.n_threads = o->n_threads > 0 ? (int)o->n_threads : 0;
    params.progress = hearth_cli_progress;
    params.verify = o->verify;
    params.ram = hearth_options_ram(o);
    if (params.ram && params.ram < HEARTH_RAM_LEAST)
        params.ram = params.ram > o->aside ? params.ram - o->aside : 1;
    params.io = hearth_options_io(o);
    params.throttle = o->throttle;
    params.overlap = (enum hearth_overlap)o->overlap;
    params.read_gap = vocab_only ? 0 : hearth_cli_read_gap(o, path);
    struct hearth_cli_adapters adapters = {0};
    struct hearth_cli_overrides overrides = {0};
    int rc = HEARTH_OK;
    if (hearth_cli_overrides_read(&overrides, o) || (!vocab_only && hearth_cli_adapters_read(&adapters, o)))
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for the options about the model");
    params.adapters = adapters.list;
    params.n_adapters = adapters.n;
    params.overrides = overrides.list;
    params.n_overrides = overrides.n;
    if (!most)
        hearth_cli_progress_of_file(path, "loading");
    else
        params.progress = NULL;
    if (!rc)
        rc = most ? hearth_nextn_open(out, path, &params, most, err)
                  : hearth_model_open(out, path, &params, err);
    hearth_progress_end();
    hearth_cli_adapters_close(&adapters);
    hearth_cli_overrides_close(&overrides);
    return rc;
}

int hearth_cli_open_model_at(struct hearth_model **out, const char *path, const struct hearth_options *o,
                             bool vocab_only, struct hearth_error *err)
{
    return open_model_at(out, path, o, vocab_only, 0, err);
}

int hearth_cli_open_nextn(struct hearth_model **out, const char *path, const struct hearth_options *o,
                          uint64_t most, struct hearth_error *err)
{
    return open_model_at(out, path, o, false, most, err);
}

// What can be said of the options before a file is looked at.
static int check_model_options(const struct hearth_options *o)
{
    struct hearth_error err = {0};
    struct hearth_throttle throttle;
    unsigned flags;
    if (!hearth_cpu_limit(hearth_options_cpu(o), &flags))
        return hearth_cli_usage(NULL, "--cpu %s: this CPU does not have these instructions; its level is %s",
                                hearth_options_cpu(o), hearth_cpu_level_name(hearth_cpu_flags()));
    if (o->throttle && hearth_throttle_parse(&throttle, o->throttle, &err))
        return hearth_cli_usage(NULL, "%s", err.message);
    struct hearth_cli_adapters adapters;
    const int status = hearth_cli_adapters_read(&adapters, o);
    hearth_cli_adapters_close(&adapters);
    return status ? status : hearth_cli_check_device(o);
}

// "llama3": programs that download models have names for them.
static bool is_name(const char *path)
{
    struct hearth_path at;
    return hearth_path_name(path) == path && !strstr(path, ".gguf") && !hearth_path_look(path, &at) &&
           errno == ENOENT;
}

int hearth_cli_open_model(struct hearth_model **out, const struct hearth_options *o, bool vocab_only)
{
    struct hearth_error err = {0};
    const int status = check_model_options(o);
    if (status)
        return status;
    if (is_name(o->model))
        return hearth_cli_error("there is no file %s here: give the path of a GGUF file", o->model);
    struct hearth_path at;
    if (hearth_path_look(o->model, &at) && at.kind == HEARTH_PATH_FOLDER)
        return hearth_cli_refuse_folder(o->model);
    const int rc = hearth_cli_open_model_at(out, o->model, o, vocab_only, &err);
    return rc ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
}

void hearth_cli_note_unused(const struct hearth_options *o, struct hearth_session *session)
{
    struct hearth_streaming_stats stats;
    hearth_session_streaming_stats(session, &stats, sizeof stats);
    const bool given[] = {o->io != 0, o->throttle != NULL, o->overlap != 0};
    static const char *const names[] = {"--io", "--throttle", "--overlap"};
    char unused[40] = "";
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (given[i])
            snprintf(unused + strlen(unused), sizeof unused - strlen(unused), "%s%s", *unused ? ", " : "",
                     names[i]);
    if (*unused && !stats.io)
        hearth_cli_info("without effect here: %s (all weights are in memory; see --ram)", unused);
}

int hearth_cli_threads(const struct hearth_options *o)
{
    return hearth_pool_threads((int)o->n_threads);
}

int hearth_cli_tokenize(const struct hearth_model *model, const char *text, size_t n, int flags,
                        hearth_token **tokens, size_t *n_tokens)
{
    // A token is rarely shorter than a byte. BOS, EOS and an added space come on top. If that is
    // not enough, a second try is.
    size_t cap = n + 16;
    struct hearth_error err = {0};
    *tokens = NULL;
    for (;;) {
        hearth_token *grown =
            cap <= SIZE_MAX / sizeof **tokens ? realloc(*tokens, cap * sizeof **tokens) : NULL;
        if (!grown) {
            free(*tokens);
            *tokens = NULL;
            return hearth_cli_error("no memory for the tokens of a text of %zu bytes", n);
        }
        *tokens = grown;
        int64_t count = hearth_tokenize(model, text ? text : "", n, flags, *tokens, cap, &err);
        if (count < 0) {
            free(*tokens);
            *tokens = NULL;
            return hearth_cli_fail(&err);
        }
        if ((uint64_t)count <= cap) {
            *n_tokens = (size_t)count;
            return HEARTH_EXIT_OK;
        }
        cap = (size_t)count;
    }
}

int hearth_cli_open_with_text(struct hearth_model **model, struct hearth_buffer *text,
                              const struct hearth_options *o)
{
    const int status = hearth_cli_read(o->file, text);
    hearth_cli_catch_interrupt();
    if (status)
        return status;
    hearth_cli_warn_binary(o->file, text);
    return hearth_cli_open_model(model, o, false);
}

static int check_files(const struct hearth_options *o, const char *name, const char *made)
{
    const struct hearth_command *cmd = hearth_command_find(name);
    if (!o->file)
        return hearth_cli_usage(cmd, "-f is missing: which text should be run through the model?");
    if (!o->out)
        return hearth_cli_usage(cmd, "-o is missing: where should %s go?", made);
    if (hearth_path_same(o->model, o->out) || hearth_path_same(o->file, o->out))
        return hearth_cli_error("%s is what %s is made of: give another name for it", o->out, made);
    return hearth_cli_check_out(o->out);
}

int hearth_cli_open_to_make(struct hearth_model **model, hearth_token **tokens, size_t *n_tokens,
                            const struct hearth_options *o, const char *name, const char *made)
{
    struct hearth_buffer text = {0};
    int status = check_files(o, name, made);
    if (!status)
        status = hearth_cli_open_with_text(model, &text, o);
    if (!status)
        status = hearth_cli_tokenize(*model, text.data, text.n, 0, tokens, n_tokens);
    free(text.data);
    return status;
}

struct hearth_session_params hearth_cli_session_params(const struct hearth_options *o, int n_ctx,
                                                       int max_seqs)
{
    struct hearth_session_params params = hearth_session_params_default();
    params.n_ctx = n_ctx;
    params.max_seqs = max_seqs;
    params.kv_tokens = (int)o->kv_size;
    params.n_ubatch = (int)o->n_ubatch;
    params.n_threads = o->n_threads > 0 ? (int)o->n_threads : 0;
    params.type_k = (enum hearth_kv_type)o->type_k;
    params.type_v = (enum hearth_kv_type)o->type_v;
    params.sparsity = (enum hearth_sparsity)o->sparsity;
    params.predict_threshold = (float)o->predict_threshold;
    params.sparsity_threshold = (float)o->sparsity_threshold.least;
    params.sparsity_share = (float)o->sparsity_threshold.share;
    hearth_cli_choose_device(o, &params);
    return params;
}

enum hearth_pooling hearth_cli_pooling(const struct hearth_options *o, const struct hearth_model *model)
{
    // The option's first choice is the model's own.
    return o->pooling ? (enum hearth_pooling)(o->pooling - 1) : hearth_model_info(model)->pooling;
}

static void note_unused_threshold(const struct hearth_model *model,
                                  const struct hearth_session_params *params)
{
    const bool asks = params->sparsity == HEARTH_SPARSITY_PREDICT ||
                      (params->sparsity == HEARTH_SPARSITY_AUTO && !(params->sparsity_threshold > 0) &&
                       !(params->sparsity_share > 0));
    if (!isnan(params->predict_threshold) && !(asks && model->hp.has_predictors))
        hearth_cli_info("without effect here: --predict-threshold (%s)", model->hp.has_predictors
                                                                             ? "predictors are not asked"
                                                                             : "the model has no predictors");
}

int hearth_cli_open_session(struct hearth_session **out, const struct hearth_model *model,
                            const struct hearth_session_params *params)
{
    struct hearth_error err = {0};
    hearth_progress_begin(HEARTH_PROGRESS_SHARE, 1, "loading");
    const int rc = hearth_session_open(out, model, params, &err);
    hearth_progress_end();
    if (rc)
        return hearth_cli_fail(&err);
    note_unused_threshold(model, params);
    if (params->n_cpu_experts && !model->hp.n_expert)
        hearth_cli_info(
            "without effect here: --cpu-moe, --n-cpu-moe, --override-tensor (the model has no experts)");
    hearth_cli_tell_device(*out, params);
    hearth_cli_cancel_on_interrupt(*out);
    return HEARTH_EXIT_OK;
}

int hearth_cli_end_trace(struct hearth_session *session, int status)
{
    struct hearth_error err = {0};
    if (status != HEARTH_EXIT_OK && status != HEARTH_EXIT_INTERRUPTED)
        return status;
    return hearth_session_trace_end(session, &err) ? hearth_cli_fail(&err) : status;
}

double hearth_cli_log_prob(const float *logits, int n_vocab, hearth_token token)
{
    double max = (double)logits[0], sum = 0;
    for (int i = 1; i < n_vocab; i++)
        if ((double)logits[i] > max)
            max = (double)logits[i];
    for (int i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - max);
    return (double)logits[token] - max - log(sum);
}
