// SPDX-License-Identifier: MIT
// hearth inspect: the content of a GGUF file, of any architecture and number formats.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/inspect_adapter.h"
#include "cli/inspect_pack.h"
#include "gguf/checksums.h"
#include "model/arch.h"

#define TEXT_SHOWN  70 // bytes of a text in the table
#define ARRAY_SHOWN 6  // elements of an array

struct totals {
    uint64_t n_params, n_bytes;
    uint64_t tensors[HEARTH_TYPE_END], bytes[HEARTH_TYPE_END];
};

static void add_up(const struct hearth_gguf *g, const struct hearth_pack *pack, struct totals *sum)
{
    memset(sum, 0, sizeof *sum);
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        sum->n_params += hearth_pack_elements(pack, t);
        sum->n_bytes += t->bytes;
        sum->tensors[t->type]++;
        sum->bytes[t->type] += t->bytes;
    }
}

static const char *type_name(enum hearth_gguf_type type)
{
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return names[type];
}

static const char *container_name(const struct hearth_gguf *g)
{
    return hearth_gguf_is_pwri(g) ? "PowerInfer GGUF" : "GGUF";
}

static enum hearth_gguf_type element_type(const struct hearth_gguf_kv *kv)
{
    return kv->type == HEARTH_GGUF_ARRAY ? kv->element : kv->type;
}

static bool is_real(enum hearth_gguf_type type)
{
    return type == HEARTH_GGUF_F32 || type == HEARTH_GGUF_F64;
}

static bool is_unsigned_64(enum hearth_gguf_type type)
{
    return type == HEARTH_GGUF_U64;
}

// ---- table

// Prints any bytes so that a file cannot control the terminal. UTF-8 passes.
static void print_text(FILE *to, struct hearth_str text, size_t max)
{
    size_t n = text.n < max ? text.n : max;
    while (n && n < text.n && ((unsigned char)text.s[n] & 0xC0) == 0x80)
        n--;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text.s[i];
        if (c == '\n')
            fputs("\\n", to);
        else if (c == '\t')
            fputs("\\t", to);
        else if (c < 0x20 || c == 0x7F || (c == 0xC2 && i + 1 < n && (unsigned char)text.s[i + 1] < 0xA0))
            fprintf(to, "\\x%02X", c);
        else
            fputc(c, to);
    }
    if (n < text.n)
        fprintf(to, "... (%zu bytes)", text.n);
}

static void print_element(FILE *to, const struct hearth_gguf_kv *kv, uint64_t i)
{
    enum hearth_gguf_type type = element_type(kv);
    if (type == HEARTH_GGUF_STRING) {
        bool quoted = kv->type == HEARTH_GGUF_ARRAY;
        fputs(quoted ? "\"" : "", to);
        print_text(to, kv->strings[i], TEXT_SHOWN);
        fputs(quoted ? "\"" : "", to);
    } else if (type == HEARTH_GGUF_BOOL) {
        fputs(hearth_gguf_kv_i64(kv, i) ? "true" : "false", to);
    } else if (is_real(type)) {
        fprintf(to, "%.7g", hearth_gguf_kv_f64(kv, i));
    } else if (is_unsigned_64(type)) {
        fprintf(to, "%" PRIu64, hearth_gguf_kv_u64(kv, i));
    } else {
        fprintf(to, "%" PRId64, hearth_gguf_kv_i64(kv, i));
    }
}

static void print_kv(FILE *to, const struct hearth_gguf_kv *kv, int key_width)
{
    char type[48];
    if (kv->type == HEARTH_GGUF_ARRAY)
        snprintf(type, sizeof type, "%s[%" PRIu64 "]", type_name(kv->element), kv->count);
    else
        snprintf(type, sizeof type, "%s", type_name(kv->type));
    fputs("  ", to);
    print_text(to, kv->key, 200);
    fprintf(to, "%*s  %-14s ", kv->key.n < (size_t)key_width ? key_width - (int)kv->key.n : 0, "", type);
    uint64_t n = kv->type == HEARTH_GGUF_ARRAY ? kv->count : 1;
    for (uint64_t i = 0; i < n && i < ARRAY_SHOWN; i++) {
        fputs(i ? ", " : "", to);
        print_element(to, kv, i);
    }
    fputs(n > ARRAY_SHOWN ? ", ...\n" : "\n", to);
}

static int widest_key(const struct hearth_gguf *g)
{
    size_t width = 0;
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g); i++) {
        size_t n = hearth_gguf_kv_at(g, i)->key.n;
        if (n > width && n <= 60)
            width = n;
    }
    return (int)width;
}

static int widest_name(const struct hearth_gguf *g)
{
    size_t width = 4;
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++) {
        size_t n = hearth_gguf_tensor_at(g, i)->name.n;
        if (n > width && n <= 60)
            width = n;
    }
    return (int)width;
}

static void print_tensor(FILE *to, const struct hearth_gguf *g, const struct hearth_gguf_tensor *t, int width)
{
    char size[32], shape[100] = "";
    size_t used = 0;
    for (uint32_t d = 0; d < t->n_dims; d++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%" PRIu64, d ? " x " : "", t->ne[d]);
    hearth_cli_format_bytes(size, sizeof size, t->bytes);
    fputs("  ", to);
    print_text(to, t->name, 200);
    fprintf(to, "%*s  %-8s %-24s %12s", t->name.n < (size_t)width ? width - (int)t->name.n : 0, "",
            hearth_type_info(t->type)->name, shape, size);
    if (hearth_gguf_n_shards(g) > 1)
        fprintf(to, "  shard %u", t->shard + 1);
    fputc('\n', to);
}

// Prints a line of the table. On a terminal that it does not fit, it ends in "...".
static void print_cut(const char *line)
{
    const int columns = hearth_terminal_columns(stdout);
    int width = 0;
    size_t cut = 0, i = 0; // where the last three columns begin
    for (; line[i] && line[i] != '\n'; i++) {
        if (((unsigned char)line[i] & 0xC0) == 0x80)
            continue;
        if (width++ <= columns - 3)
            cut = i;
    }
    if (columns < 20 || width <= columns)
        fputs(line, stdout);
    else
        printf("%.*s...\n", (int)cut, line);
}

static void end_line(struct hearth_text_stream *l)
{
    if (hearth_text_stream_end(l))
        print_cut(l->text);
    free(l->text);
}

// The number under "<architecture>.<name>"; 0: there is none.
static uint32_t number_of(const struct hearth_gguf *g, const char *name)
{
    const struct hearth_gguf_kv *arch = hearth_gguf_find(g, "general.architecture");
    char key[160];
    uint32_t value = 0;
    if (!arch || arch->type != HEARTH_GGUF_STRING)
        return 0;
    snprintf(key, sizeof key, "%.*s.%s", (int)(arch->strings[0].n < 80 ? arch->strings[0].n : 80),
             arch->strings[0].s, name);
    struct hearth_error ignored = {0};
    return hearth_gguf_u32_of_layers(g, key, false, &value, &ignored) ? 0 : value;
}

// What people look for first, where the file says it.
static void print_shape(const struct hearth_gguf *g)
{
    static const struct {
        const char *key, *what;
    } numbers[] = {{"block_count", "layers"},         {"embedding_length", "wide"},
                   {"attention.head_count", "heads"}, {"attention.head_count_kv", "of keys and values"},
                   {"expert_count", "experts"},       {"expert_used_count", "used"}};
    const char *comma = "";
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const uint32_t n = number_of(g, numbers[i].key);
        if (!n)
            continue;
        printf("%s%" PRIu32 " %s", *comma ? comma : "shape         ", n, numbers[i].what);
        comma = ", ";
    }
    if (*comma)
        putchar('\n');
    if (number_of(g, "context_length"))
        printf("context       %" PRIu32 " tokens\n", number_of(g, "context_length"));
}

static void print_vocabulary(const struct hearth_gguf *g)
{
    static const char *const names[] = {"tokenizer.ggml.model", "tokenizer.ggml.pre"};
    const struct hearth_gguf_kv *tokens = hearth_gguf_find(g, "tokenizer.ggml.tokens");
    if (!tokens || tokens->type != HEARTH_GGUF_ARRAY)
        return;
    printf("tokenizer     %" PRIu64 " tokens", tokens->count);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct hearth_gguf_kv *kv = hearth_gguf_find(g, names[i]);
        if (!kv || kv->type != HEARTH_GGUF_STRING)
            continue;
        fputs(", ", stdout);
        print_text(stdout, kv->strings[0], 40);
    }
    printf("%s\n", hearth_gguf_find(g, "tokenizer.chat_template") ? ", with a chat template" : "");
}

// The number format that most of the bytes have.
static const char *main_format(const struct totals *sum)
{
    uint32_t most = 0;
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++)
        if (sum->bytes[type] > sum->bytes[most])
            most = type;
    return hearth_type_info(most)->name;
}

// Of the feed-forward parts: it decides whether a token leaves neurons off. NULL where nothing tells it.
static const char *activation_of(const struct hearth_gguf *g)
{
    const struct hearth_gguf_kv *name = hearth_gguf_find(g, "general.architecture");
    const struct hearth_arch *arch =
        name && name->type == HEARTH_GGUF_STRING ? hearth_arch_find(name->strings[0]) : NULL;
    enum hearth_activation activation;
    struct hearth_error ignored = {0};
    if (!arch || hearth_inspect_is_adapter(g) || !number_of(g, "block_count") ||
        hearth_activation_read(&activation, arch, g, &ignored))
        return NULL;
    return hearth_activation_name(activation);
}

static void print_summary(const struct hearth_gguf *g, const struct hearth_pack *pack,
                          const struct totals *sum)
{
    static const struct {
        const char *label, *key;
    } names[] = {{"architecture", "general.architecture"}, {"name", "general.name"}};
    char text[32];
    printf("file          %s\n", hearth_gguf_path(g));
    printf("container     %s version %u, %u %s\n", container_name(g), hearth_gguf_version(g),
           hearth_gguf_n_shards(g), hearth_gguf_n_shards(g) == 1 ? "shard" : "shards");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct hearth_gguf_kv *kv = hearth_gguf_find(g, names[i].key);
        if (!kv || kv->type != HEARTH_GGUF_STRING)
            continue;
        printf("%-13s ", names[i].label);
        print_text(stdout, kv->strings[0], TEXT_SHOWN);
        putchar('\n');
    }
    hearth_cli_format_count(text, sizeof text, sum->n_params);
    printf("parameters    %s\n", text);
    hearth_cli_format_bytes(text, sizeof text, sum->n_bytes);
    printf("weights       %s", text);
    if (sum->n_params)
        printf(", mostly %s (%.2f bits per parameter)", main_format(sum),
               8.0 * (double)sum->n_bytes / (double)sum->n_params);
    putchar('\n');
    if (hearth_gguf_file_type(g))
        printf("file type     %s\n", hearth_gguf_file_type(g));
    print_shape(g);
    const char *activation = activation_of(g);
    if (activation)
        printf("activation    %s\n", activation);
    print_vocabulary(g);
    if (hearth_inspect_is_adapter(g))
        hearth_inspect_adapter_print(g);
    else if (!pack || !hearth_inspect_predictors(g))
        printf("predictors    %s\n", hearth_inspect_predictors(g) ? "of each layer's neurons" : "none");
    if (pack)
        hearth_inspect_pack_print(pack);
}

static void print_table(const struct hearth_gguf *g, const struct hearth_pack *pack, const struct totals *sum)
{
    print_summary(g, pack, sum);
    printf("\nmetadata (%" PRIu64 ")\n", hearth_gguf_n_kv(g));
    int width = widest_key(g);
    struct hearth_text_stream l;
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g) && hearth_text_stream(&l); i++) {
        print_kv(l.to, hearth_gguf_kv_at(g, i), width);
        end_line(&l);
    }

    if (hearth_gguf_n_tensors(g) == 0) {
        puts("\nno tensors");
        return;
    }
    puts("\nnumber formats");
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        char size[32];
        if (!sum->tensors[type])
            continue;
        hearth_cli_format_bytes(size, sizeof size, sum->bytes[type]);
        printf("  %-8s %6" PRIu64 " tensor%s %12s\n", hearth_type_info(type)->name, sum->tensors[type],
               sum->tensors[type] == 1 ? " " : "s", size);
    }
    printf("\ntensors (%" PRIu64 ")\n", hearth_gguf_n_tensors(g));
    width = widest_name(g);
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g) && hearth_text_stream(&l); i++) {
        print_tensor(l.to, g, hearth_gguf_tensor_at(g, i), width);
        end_line(&l);
    }
}

// ---- JSON

static json_t *json_element(const struct hearth_gguf_kv *kv, uint64_t i)
{
    enum hearth_gguf_type type = element_type(kv);
    if (type == HEARTH_GGUF_STRING)
        return hearth_json_string(kv->strings[i].s, kv->strings[i].n);
    if (type == HEARTH_GGUF_BOOL)
        return json_boolean(hearth_gguf_kv_i64(kv, i));
    if (is_real(type))
        return hearth_json_real(hearth_gguf_kv_f64(kv, i));
    // jansson's integers are signed. The few values above their range become reals.
    if (is_unsigned_64(type) && hearth_gguf_kv_u64(kv, i) > INT64_MAX)
        return json_real((double)hearth_gguf_kv_u64(kv, i));
    return json_integer(hearth_gguf_kv_i64(kv, i));
}

static json_t *json_kv(const struct hearth_gguf_kv *kv)
{
    if (kv->type != HEARTH_GGUF_ARRAY)
        return json_element(kv, 0);
    json_t *values = json_array();
    for (uint64_t i = 0; i < kv->count && i < ARRAY_SHOWN; i++)
        json_array_append_new(values, json_element(kv, i));
    return json_pack("{s:s, s:I, s:o}", "type", type_name(kv->element), "count", (json_int_t)kv->count,
                     "first", values);
}

static json_t *json_tensor(const struct hearth_gguf_tensor *t)
{
    json_t *shape = json_array();
    for (uint32_t d = 0; d < t->n_dims; d++)
        json_array_append_new(shape, json_integer((json_int_t)t->ne[d]));
    return json_pack("{s:o, s:s, s:o, s:I, s:I, s:i}", "name", hearth_json_string(t->name.s, t->name.n),
                     "type", hearth_type_info(t->type)->name, "shape", shape, "bytes", (json_int_t)t->bytes,
                     "offset", (json_int_t)t->offset, "shard", (int)t->shard + 1);
}

// jansson wants object keys in UTF-8 and zero-terminated; keys of a valid file are.
static void set_key(json_t *object, struct hearth_str key, json_t *value)
{
    json_t *clean = hearth_json_string(key.s, key.n);
    const char *text = clean ? json_string_value(clean) : NULL;
    if (text)
        json_object_set_new(object, text, value);
    else
        json_decref(value);
    json_decref(clean);
}

static json_t *build_json(const struct hearth_gguf *g, const struct hearth_pack *pack,
                          const struct totals *sum)
{
    json_t *metadata = json_object(), *formats = json_object(), *tensors = json_array();
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g); i++) {
        const struct hearth_gguf_kv *kv = hearth_gguf_kv_at(g, i);
        set_key(metadata, kv->key, json_kv(kv));
    }
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++)
        if (sum->tensors[type])
            json_object_set_new(formats, hearth_type_info(type)->name,
                                json_pack("{s:I, s:I}", "tensors", (json_int_t)sum->tensors[type], "bytes",
                                          (json_int_t)sum->bytes[type]));
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++)
        json_array_append_new(tensors, json_tensor(hearth_gguf_tensor_at(g, i)));

    const struct hearth_gguf_kv *arch = hearth_gguf_find(g, "general.architecture");
    const char *path = hearth_gguf_path(g);
    return json_pack("{s:o, s:s, s:i, s:i, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "path",
                     hearth_json_string(path, strlen(path)), "container", container_name(g), "version",
                     (int)hearth_gguf_version(g), "shards", (int)hearth_gguf_n_shards(g), "architecture",
                     arch && arch->type == HEARTH_GGUF_STRING ? json_element(arch, 0) : json_null(),
                     "n_params", (json_int_t)sum->n_params, "n_bytes", (json_int_t)sum->n_bytes, "metadata",
                     metadata, "formats", formats, "tensors", tensors, "pack",
                     pack ? hearth_inspect_pack_json(pack) : json_null(), "adapter",
                     hearth_inspect_is_adapter(g) ? hearth_inspect_adapter_json(g) : json_null());
}

// For --verify. Returns an exit status.
static int verify(const struct hearth_gguf *g)
{
    struct hearth_checksums *c = NULL;
    struct hearth_error err = {0};
    hearth_cli_catch_interrupt();
    int rc = hearth_checksums_open(&c, g, &err);
    if (!rc && !c)
        return hearth_cli_error("%s has no checksums: there is nothing to verify it against",
                                hearth_gguf_path(g));
    hearth_cli_progress_of_file(hearth_gguf_path(g), "checking");
    if (!rc)
        rc = hearth_checksums_verify(c, 0, hearth_cli_progress, NULL, &err);
    hearth_progress_end();
    hearth_checksums_close(&c);
    return rc ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
}

// A damaged pack is still a GGUF that can be shown.
static struct hearth_pack *open_pack(const struct hearth_gguf *g)
{
    struct hearth_pack *pack = NULL;
    struct hearth_error err = {0};
    if (hearth_gguf_is_pack(g) && hearth_pack_open(&pack, g, &err))
        hearth_cli_warn("%s", err.message);
    return pack;
}

int hearth_cmd_inspect(const struct hearth_options *o)
{
    struct hearth_gguf *g = NULL;
    struct hearth_error err = {0};
    if (hearth_gguf_open(&g, o->model, &err))
        return hearth_cli_fail(&err);
    int status = o->verify ? verify(g) : HEARTH_EXIT_OK;
    if (!status) {
        struct hearth_pack *pack = open_pack(g);
        struct totals sum;
        add_up(g, pack, &sum);
        if (o->json)
            status = hearth_json_answer(build_json(g, pack, &sum));
        else
            print_table(g, pack, &sum);
        hearth_pack_close(&pack);
    }
    hearth_gguf_close(&g);
    return status;
}
