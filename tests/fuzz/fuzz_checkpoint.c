// SPDX-License-Identifier: MIT
// Fuzz target: any bytes as a file of a Hugging Face folder. Byte 0 says which: 0 safetensors, 1 a file of torch.save(),
// 2 a pickle, 3 tokenizer.model, 4 tokenizer.json, 5 config.json, 6 hf_quant_config.json,
// 7 tiktoken.model. What is opened must keep the readers' promises.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convert/hf_vocab.h"
#include "convert/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

// A file with the input, which goes again when the program ends.
static char folder[64], path[128];

static void remove_files(void)
{
    static const char *const names[] = {"input", "config.json", "tokenizer.json", "hf_quant_config.json",
                                        "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void write_file(const char *name, const uint8_t *data, size_t n)
{
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/hearth-fuzz-XXXXXX");
        CHECK(mkdtemp(folder));
        atexit(remove_files);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, n, f) == n);
    CHECK(!fclose(f));
}

static void check_tensors(const struct hearth_source_list *list, const struct hearth_file *f)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct hearth_source_tensor *t = &list->items[i];
        uint64_t n = 1;
        CHECK(t->name[0] && t->n_dims <= HEARTH_SOURCE_DIMS);
        for (uint32_t k = 0; k < t->n_dims; k++)
            n *= t->dims[k];
        CHECK(n == t->n_elements);
        CHECK(t->offset <= hearth_file_size(f) && t->bytes <= hearth_file_size(f) - t->offset);
        CHECK(t->type == HEARTH_TYPE_END || hearth_type_bytes(t->type, n) == t->bytes);
    }
}

static void read_tensors(const uint8_t *data, size_t n, bool torch)
{
    struct hearth_error err = {0};
    struct hearth_source_list list = {0};
    struct hearth_file *f;
    write_file("input", data, n);
    CHECK(!hearth_file_open(&f, path, &err));
    const int rc = torch ? hearth_torch_read(f, &list, &err) : hearth_safetensors_read(f, &list, &err);
    CHECK(!rc == !err.message[0]);
    if (!rc)
        check_tensors(&list, f);
    hearth_source_list_free(&list);
    hearth_file_close(&f);
}

static int check_pickled(void *arg, const struct hearth_pickle_tensor *t, struct hearth_error *err)
{
    (void)arg;
    (void)err;
    CHECK(strlen(t->name) == t->n_name && t->n_dims <= HEARTH_SOURCE_DIMS && t->element_bytes);
    return 0;
}

static void read_spm(const uint8_t *data, size_t n)
{
    struct hearth_error err = {0};
    struct hearth_sentencepiece s;
    char *copy = malloc(n + 1);
    CHECK(copy);
    memcpy(copy, data, n);
    const int rc = hearth_sentencepiece_parse(&s, "input", copy, n, &err);
    CHECK(!rc == !err.message[0]);
    for (uint32_t i = 0; !rc && i < s.n; i++)
        CHECK(s.pieces[i].n && s.types[i] >= 1 && s.types[i] <= 6);
    hearth_sentencepiece_close(&s);
}

// A small model's own config.json.
static const char config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":300,\"hidden_size\":16,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":2,\"intermediate_size\":32,\"max_position_embeddings\":64}";

// How a checkpoint is quantised, in a file of its own.
static void read_quantised(const uint8_t *data, size_t n)
{
    struct hearth_error err = {0};
    struct hearth_hf_model m;
    write_file("config.json", (const uint8_t *)config, strlen(config));
    write_file("hf_quant_config.json", data, n);
    const int rc = hearth_hf_model_open(&m, folder, NULL, &err);
    CHECK(!rc == !err.message[0]);
    hearth_hf_model_close(&m);
    unlink(path); // other inputs have none
}

// A vocabulary of ranks.
static void read_tiktoken(const uint8_t *data, size_t n)
{
    static const char class[] = "{\"tokenizer_class\":\"TikTokenTokenizer\"}";
    struct hearth_error err = {0};
    struct hearth_hf_model m;
    struct hearth_hf_vocab v = {.m = &m};
    write_file("config.json", (const uint8_t *)config, strlen(config));
    CHECK(!hearth_hf_model_open(&m, folder, NULL, &err));
    write_file("tokenizer_config.json", (const uint8_t *)class, strlen(class));
    CHECK(!hearth_json_file_open(&v.config, folder, "tokenizer_config.json", true, &err));
    write_file("input", data, n);
    const int rc = hearth_hf_vocab_from_tiktoken(&v, path, &err);
    CHECK(!rc == !err.message[0]);
    for (uint32_t i = 0; !rc && i < v.n_merges; i++)
        CHECK(memchr(v.merges[i].s, ' ', v.merges[i].n));
    hearth_hf_vocab_free(&v);
    hearth_hf_model_close(&m);
}

static void read_json(const uint8_t *data, size_t n, bool tokenizer)
{
    struct hearth_error err = {0};
    struct hearth_hf_model m;
    struct hearth_hf_vocab v = {.m = &m};
    write_file("config.json", tokenizer ? (const uint8_t *)config : data, tokenizer ? strlen(config) : n);
    write_file("tokenizer.json", data, n);
    int rc = hearth_hf_model_open(&m, folder, NULL, &err);
    CHECK(!rc == !err.message[0]);
    if (!rc && tokenizer && !hearth_json_file_open(&v.tokenizer, folder, "tokenizer.json", true, &err)) {
        rc = hearth_hf_vocab_from_json(&v, &err);
        for (uint32_t i = 0; !rc && i < v.n; i++)
            CHECK(v.types[i] >= 1 && v.types[i] <= 6);
    }
    hearth_hf_vocab_free(&v);
    hearth_hf_model_close(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hearth_error err = {0};
    if (!size)
        return 0;
    const uint8_t kind = data[0] % 8;
    data++;
    size--;
    if (kind < 2)
        read_tensors(data, size, kind == 1);
    else if (kind == 2)
        CHECK(!hearth_pickle_read("input", data, size, check_pickled, NULL, &err) == !err.message[0]);
    else if (kind == 3)
        read_spm(data, size);
    else if (kind == 6)
        read_quantised(data, size);
    else if (kind == 7)
        read_tiktoken(data, size);
    else
        read_json(data, size, kind == 4);
    return 0;
}
