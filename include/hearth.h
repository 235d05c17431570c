// SPDX-License-Identifier: MIT
// hearth.h: the public C API of Hearth, which runs language models larger than the memory of the machine.
//
// The mental model. A `hearth_model` is an open GGUF file: vocabulary, hyper-parameters, weights. A
// `hearth_session` is one place where tokens are evaluated: it owns the KV cache, the workspace and the
// worker threads. It holds up to `max_seqs` sequences; those made by hearth_seq_fork() share their common
// prefix. A `hearth_sampler` turns a row of logits into a token. A `hearth_stream` turns tokens into text,
// never half a character.
//
// Errors. Functions that can fail return 0 or a negative code of `enum hearth_code` and fill `struct
// hearth_error` when it is not NULL; their comments name the codes. The library never prints and never
// exits.
//
// Ownership. Everything that "open"s is ended by the matching "close", which takes the address of the
// pointer and clears it; closing NULL is fine. When an open fails, the pointer is NULL.
//
// Threads. A model does not change once it is open: any number of threads may use it at once. A session, a
// sampler or a stream may be used by one thread at a time, which need not always be the same one. What may
// be called at any time from any thread says so. Close a model after all that was opened on it.
//
// Limits. Per process: the log sink. Per model: instruction set, memory budget and how storage is read, as
// all sessions of a model read the same weights. Per session: context, sequences, threads, micro-batch,
// types of the KV cache, sparsity.
//
// Versions. Parameter structs begin with their size, which hearth_*_params_default() sets: start from
// these, never from zeros. Where the library fills a struct, or takes an array of them, the caller passes
// sizeof. These structs grow at their ends. A program that was compiled with an older header works with a
// newer library: what its structs lack takes its default. `struct hearth_error` and `struct
// hearth_logit_bias` stay as they are.
#ifndef HEARTH_H
#define HEARTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__ // the shared library exports what is declared here, and nothing else
#pragma GCC visibility push(default)
#endif

#define HEARTH_VERSION_MAJOR 0
#define HEARTH_VERSION_MINOR 2
#define HEARTH_VERSION_PATCH 0

// ---- version and errors

// "0.2.0". Static storage. Threads: any.
const char *hearth_version(void);

enum hearth_code {
    HEARTH_OK = 0,
    HEARTH_E_INVALID = -1,     // an argument or option makes no sense
    HEARTH_E_IO = -2,          // the operating system failed to read or write
    HEARTH_E_FORMAT = -3,      // a file is damaged or is not what it claims to be
    HEARTH_E_UNSUPPORTED = -4, // a sound file that needs something this build does not know
    HEARTH_E_MEMORY = -5,      // no memory
    HEARTH_E_BUDGET = -6,      // the user's own limit (n_ctx, max_seqs, ram) is too small
    HEARTH_E_INTERRUPTED = -7, // stopped on request
    HEARTH_E_KV_FULL = -8      // a session's KV cache has no free page: free or shorten a sequence, try again
};

// What went wrong, in words a user can act on: one line without a full stop. Filled only when a call fails.
struct hearth_error {
    int code; // of enum hearth_code
    char message[500];
    const char
        *param; // the field of a parameter struct that it is about, the first that would help to change:
                // "n_ctx" and so on, so that a program can name what of its own sets it; NULL: none.
                // Static storage
};

// "HEARTH_E_IO" and so on; "unknown code" for all other numbers. Static storage. Threads: any.
const char *hearth_error_name(int code);

// ---- log

// Things worth telling a user that are not errors.
enum hearth_log_level {
    HEARTH_LOG_WARNING, // the results or the speed may not be what the user expects
    HEARTH_LOG_INFO,    // progress
    HEARTH_LOG_DEBUG    // for those who look into Hearth: plans, figures
};

// One line without a newline, free of control characters, valid during the call. Calls come one at a time,
// from any thread that is in the library. A sink must not call the library.
typedef void (*hearth_log_fn)(void *arg, enum hearth_log_level level, const char *message);

// Has `fn` called with every message of the process; NULL, as at the start, drops them. When it returns,
// the former sink is not called any more.
// Threads: any.
void hearth_log_set(hearth_log_fn fn, void *arg);

// ---- model

struct hearth_model;

// What to overlap with reads of single neurons or experts. For benchmarks: results do not depend on it.
enum hearth_overlap {
    HEARTH_OVERLAP_ALL = 0, // computing, and reading what the next layer will probably want
    HEARTH_OVERLAP_COMPUTE, // computing
    HEARTH_OVERLAP_NONE     // waiting; experts are computed none the less
};

// A LoRA adapter in a GGUF (docs/adapters.md).
struct hearth_adapter {
    const char *path;
    float scale; // finite; what it adds is multiplied by this: 1 is what it was trained for, 0 nothing
};

// A memory budget for hearth_model_params.ram that is none yet: as much as is free.
#define HEARTH_RAM_FIT UINT64_MAX
// Another one: as little as the first session that opens runs with.
#define HEARTH_RAM_LEAST (UINT64_MAX - 1)

struct hearth_model_params {
    size_t size;     // set by hearth_model_params_default()
    bool vocab_only; // only the vocabulary is read; such a model can tokenize and nothing else
    const char *cpu; // NULL: the best this CPU has; else "c", "avx2", "neon", ... (an upper limit)
    int n_threads;   // threads used for loading; 0: one per physical core
    // Called now and then while weights load, with a share in 0..1, which starts anew for each kind of
    // weights; returning false stops. Must open and close no session of the model. May be NULL.
    bool (*progress)(void *arg, float share);
    void *progress_arg;
    bool verify; // first read the whole file and hold it against the checksums in it, which packs have
    // The memory budget of the model: bytes of private memory (anonymous pages) that the process may take
    // while a session on it is open, all else that the process holds when the first one opens included.
    // Weights that do not fit are read from the file as they are needed. The results are the same whatever
    // it is: only the speed changes. 0: no limit, all weights are read when the model opens, even if the
    // system has no room for them and ends the process. Else they are read when the first session opens,
    // which further sessions share; a session that needs more fails to open with HEARTH_E_BUDGET.
    // HEARTH_RAM_FIT: what is free when the model opens, less some for the rest of the system, see
    // hearth_model_fit(). HEARTH_RAM_LEAST: the smallest one with which the first session opens. A size above
    // what is free is lowered to that; when weights are read as they are needed for this reason, a warning
    // says so. The fields below matter only with a budget.
    uint64_t ram;
    const char *io;       // how such weights are read: NULL or "auto" (measured), "uring" or "pread"
    const char *throttle; // emulates other storage: "ufs4", "ufs3", "nvme" or "IOPS,MBPS"; NULL: none
    enum hearth_overlap overlap;
    // Sessions that may be open at once, at most 256; 0: 1. So many times the KV cache and the buffers of the
    // first one are set aside in the budget; a session that does not fit into what is left is refused.
    // Sessions that share weights may be used by a thread each, and take turns evaluating.
    int max_sessions;
    // Bytes of the file that take its storage as long as one more request does: shorter gaps between neurons
    // that are read are read over. At most 1 GiB; 0: as of common disks, or of emulated storage.
    uint64_t read_gap;
    // Adapters [n_adapters] that are applied to the model, one after the other; the array and its paths are
    // read while the model opens. Their numbers stay in memory, also with a budget. All results follow from
    // the model's file and these. Not with vocab_only.
    const struct hearth_adapter *adapters;
    size_t n_adapters;
    // Metadata [n_overrides] that is to be otherwise than in the file: "KEY=TYPE:VALUE", with the types int,
    // float, bool and str, "llama.rope.freq_base=float:1e6" for instance. A key that the file has keeps its
    // type.
    const char *const *overrides;
    size_t n_overrides;
};

// Fills a struct of `size` bytes with the defaults: all zero. For languages other than C; in C and C++
// hearth_model_params_default() does it.
// Threads: any.
void hearth_model_params_init(struct hearth_model_params *params, size_t size);

static inline struct hearth_model_params hearth_model_params_default(void)
{
    struct hearth_model_params params;
    hearth_model_params_init(&params, sizeof params);
    return params;
}

// Opens the GGUF at `path` (for a split file, any of its parts). `params` NULL: all defaults; its strings are
// copied.
// Errors: HEARTH_E_INVALID (`path` is NULL, parameters make no sense, an adapter is for another model),
// HEARTH_E_IO, HEARTH_E_FORMAT, HEARTH_E_UNSUPPORTED, HEARTH_E_MEMORY, and
// HEARTH_E_INTERRUPTED when `progress` said so. Threads: any.
int hearth_model_open(struct hearth_model **out, const char *path, const struct hearth_model_params *params,
                      struct hearth_error *err);
// Closes the model and gives its memory back. Threads: one, when nobody uses the model any more.
void hearth_model_close(struct hearth_model **model);

// How the hidden states of a text's tokens become its embedding. The numbers are those of files.
enum hearth_pooling {
    HEARTH_POOLING_NONE = 0, // they do not: each token has one of its own
    HEARTH_POOLING_MEAN = 1,
    HEARTH_POOLING_CLS = 2, // the first token's
    HEARTH_POOLING_LAST = 3 // the last token's
};

struct hearth_model_info {
    const char *path;         // as given
    const char *architecture; // e.g. "llama"
    const char *name;         // general.name or ""
    const char *type;         // e.g. "llama 7B Q4_K - Medium": what llama-bench prints
    uint64_t n_params;        // weights
    uint64_t n_bytes;         // tensor bytes in the file
    int n_vocab;              // tokens, and floats in a row of logits
    int n_ctx_train;          // positions that the model was trained for; 0 with vocab_only, as all below
    int n_embd;               // floats that stand for a token between layers
    int n_layer;
    int n_head;    // of queries
    int n_head_kv; // of keys and values
    int n_ff;      // neurons of a layer's feed-forward part, or of one expert
    enum hearth_pooling
        pooling; // what the model was trained for (ARCH.pooling_type); where the file does not
                 // say, or says none of those above: HEARTH_POOLING_MEAN
};

// What the file says of itself, valid as long as the model is open. Threads: any.
const struct hearth_model_info *hearth_model_info(const struct hearth_model *model);

// ---- metadata

// A file describes its model by keys with values: numbers, texts, or arrays of either. All functions that
// give a text write at most `cap` bytes of it to `out`, the last of which is a zero, and return its length
// without the zero: when that is `cap` or more, the text was cut (call again; `out` may be NULL when `cap` is
// 0). A text may have any bytes, zeros too.

// Keys in the file. Threads: any.
int64_t hearth_model_meta_count(const struct hearth_model *model);

// The i-th key, in the file's order; -1 where there is none. Threads: any.
int64_t hearth_model_meta_key(const struct hearth_model *model, int64_t i, char *out, size_t cap);

// How many values the key has: the length of an array, 1 for all others; -1 when there is no such key.
// Threads: any.
int64_t hearth_model_meta_length(const struct hearth_model *model, const char *key);

// The i-th value of the key as text, from 0 on: a text as it is, "true" or "false", a number in decimal
// digits that are enough to give it back. -1 where there is none.
// Threads: any.
int64_t hearth_model_meta_text(const struct hearth_model *model, const char *key, int64_t i, char *out,
                               size_t cap);

// The Jinja template of the model's chat format (the key tokenizer.chat_template), valid as long as the model
// is open; NULL when the file has none. hearth_chat_template_open() makes use of it.
// Threads: any.
const char *hearth_model_chat_template(const struct hearth_model *model);

// ---- tokens

typedef int32_t hearth_token;

enum {
    HEARTH_TOKENIZE_BOS = 1,    // add BOS/EOS where the vocabulary asks for it
    HEARTH_TOKENIZE_SPECIAL = 2 // text such as "<|im_end|>" becomes the control token of that name
};

// Tokens of text[0..len), any bytes; `flags` are HEARTH_TOKENIZE_*. Writes at most `cap` tokens to `out`
// and returns how many there are in all (call again when it is more than `cap`), or a negative code.
// Errors: HEARTH_E_INVALID (a text of more than 2 GiB), HEARTH_E_UNSUPPORTED, HEARTH_E_MEMORY. Threads:
// any.
int64_t hearth_tokenize(const struct hearth_model *model, const char *text, size_t len, int flags,
                        hearth_token *out, size_t cap, struct hearth_error *err);

// The bytes of one token (not always valid UTF-8 on its own). `special` also renders control tokens, which
// are empty otherwise. Returns the length in bytes, 0 where there is no such token; writes at most `cap`
// bytes, no terminating zero.
// Threads: any.
size_t hearth_token_bytes(const struct hearth_model *model, hearth_token token, bool special, char *out,
                          size_t cap);

// The token that begins a text; -1 when the vocabulary has none. Threads: any.
hearth_token hearth_token_bos(const struct hearth_model *model);

// The token that ends a text; -1 when the vocabulary has none. Threads: any.
hearth_token hearth_token_eos(const struct hearth_model *model);

// The token that ends a turn of a chat: the one that the file names, else one that is known for it by name,
// "<|eot_id|>" or "<|im_end|>" for instance; -1 when there is none.
// Threads: any.
hearth_token hearth_token_eot(const struct hearth_model *model);

// Whether the token ends a generation, as EOS, EOT and some others do. Threads: any.
bool hearth_token_is_eog(const struct hearth_model *model, hearth_token token);

// Whether the file says that the token is never to be chosen (tokenizer.ggml.suppress_tokens), as its embedding has not
// been trained for instance. A sampler leaves it out by a bias of -INFINITY. Threads: any.
bool hearth_token_is_suppressed(const struct hearth_model *model, hearth_token token);

// ---- text

// Turns tokens into text as they come, holding back incomplete UTF-8 characters.
struct hearth_stream;

// `special`: control tokens become text too. `mid_text`: the tokens continue a prompt; false: they start a
// text, so the space that SentencePiece vocabularies put before the first word is dropped.
// Errors: HEARTH_E_MEMORY. Threads: any.
int hearth_stream_open(struct hearth_stream **out, const struct hearth_model *model, bool special,
                       bool mid_text, struct hearth_error *err);
// Closes the stream. Threads: one at a time.
void hearth_stream_close(struct hearth_stream **stream);

// Text that is complete after this token: *text is valid until the next call. Returns its length.
// Threads: one at a time.
size_t hearth_stream_push(struct hearth_stream *stream, hearth_token token, const char **text);

// What is still held back at the end (bytes that never became a character). Same lifetime.
// Threads: one at a time.
size_t hearth_stream_flush(struct hearth_stream *stream, const char **text);

// ---- chat

// A chat template turns the messages of a conversation into a prompt. It is a program in the language Jinja,
// and does what Jinja2 does with it in transformers, byte by byte (docs/chat.md). Whatever a template does,
// it ends: its steps, its memory and its depth are limited.
struct hearth_chat_template;

// `source` is the text of a template; NULL: the model's own, and where the file has another for conversations
// with tools (tokenizer.chat_template.tool_use), that one for them, unless it has an error, which is logged.
// The texts of BOS and EOS come from `model`, which may be NULL if `source` is not. Neither need stay.
// Errors: HEARTH_E_INVALID (the template has an error: the message names its line), HEARTH_E_UNSUPPORTED (the
// model has no template), HEARTH_E_MEMORY. Threads: any.
int hearth_chat_template_open(struct hearth_chat_template **out, const struct hearth_model *model,
                              const char *source, struct hearth_error *err);
// Closes the template. Renderings of it may stay open. Threads: one, when nobody uses the template any more.
void hearth_chat_template_close(struct hearth_chat_template **t);

// The text of a template that comes with the library, for models whose files have none: "chatml", "llama3",
// "gemma" and so on; NULL when the name is unknown. Static storage. Threads: any.
const char *hearth_chat_builtin(const char *name);
// The i-th name of them, from 0 on; NULL where there is none. Static storage. Threads: any.
const char *hearth_chat_builtin_name(size_t i);

// A message in its simplest form. This struct stays as it is.
struct hearth_chat_turn {
    const char *role;    // "system", "user", "assistant", ...
    const char *content; // any bytes but zero
};

#define HEARTH_CHAT_NOW INT64_MIN

// What is rendered. All strings are JSON texts and may be NULL.
struct hearth_chat_params {
    size_t size; // set by hearth_chat_params_default()
    // An array of messages as in the OpenAI API: objects with role, content (a string or a list of parts),
    // tool_calls, tool_call_id, name, and whatever else the template knows, such as reasoning_content. They
    // are brought into the form that the template understands: parts of text become one string for templates
    // that know no parts, the arguments of tool calls an object or a text, the role system a part of the
    // first other message where the template refuses it.
    const char *messages;
    const struct hearth_chat_turn *turns; // messages in their simplest form, if `messages` is NULL
    size_t n_turns;
    const char *tools;     // array, as in the OpenAI API
    const char *documents; // array of objects with title and text, for models that read such
    const char *variables; // object: further variables of the template, such as {"enable_thinking": false}
    bool add_generation_prompt; // end with the beginning of an answer; true at first
    int64_t now; // Unix time for templates that tell the date; HEARTH_CHAT_NOW, as at first: now
};

// Fills a struct of `size` bytes with the defaults. For languages other than C; in C and C++
// hearth_chat_params_default() does it.
// Threads: any.
void hearth_chat_params_init(struct hearth_chat_params *params, size_t size);

static inline struct hearth_chat_params hearth_chat_params_default(void)
{
    struct hearth_chat_params params;
    hearth_chat_params_init(&params, sizeof params);
    return params;
}

// A rendering: text, of which each byte is known to come from the template or from the data (messages, tools,
// documents, variables).
struct hearth_chat_text;

// Errors: HEARTH_E_INVALID (JSON that is none, a template that refuses the conversation: the message has its
// words, or that goes wrong or on for too long), HEARTH_E_MEMORY. Threads: any, of one template, too.
int hearth_chat_render(struct hearth_chat_text **out, const struct hearth_chat_template *t,
                       const struct hearth_chat_params *params, struct hearth_error *err);
// Closes the rendering. Threads: one at a time.
void hearth_chat_text_close(struct hearth_chat_text **text);

// The text, of *n bytes without a zero at the end, valid until it is closed. Threads: any.
const char *hearth_chat_text_bytes(const struct hearth_chat_text *text, size_t *n);

// How many bytes from byte `at` on have one origin, 0 at the end. *from_data: whether they come from the
// data. Threads: any.
size_t hearth_chat_text_span(const struct hearth_chat_text *text, size_t at, bool *from_data);

// Tokens of a rendering, as hearth_tokenize() gives them, with one BOS where the vocabulary asks for it or
// the template writes it. Names of control tokens become these tokens where the template has written them; in
// data they stay text, so that no message can end its turn or begin another. Errors: those of
// hearth_tokenize(). Threads: any.
int64_t hearth_chat_tokenize(const struct hearth_model *model, const struct hearth_chat_text *text,
                             hearth_token *out, size_t cap, struct hearth_error *err);

// ---- session

struct hearth_session;

enum hearth_kv_type { HEARTH_KV_F16 = 0, HEARTH_KV_F32 = 1, HEARTH_KV_Q8_0 = 2 };

// Which neurons of the feed-forward parts are computed for a generated token (prompts are dense): see
// docs/sparse.md. A choice changes results only where it says so; within a choice nothing else does.
enum hearth_sparsity {
    // PREDICT where the model has predictors, else EXACT for the ReLU family, else OFF.
    HEARTH_SPARSITY_AUTO = 0,
    HEARTH_SPARSITY_OFF, // all
    // All gates, and of the rest what they do not make zero: the same results as OFF for the ReLU family;
    // for others only with sparsity_threshold, and then lossy.
    HEARTH_SPARSITY_EXACT,
    HEARTH_SPARSITY_PREDICT // those that the model's predictors name
};

// Whether prompts go through a device with layers that the CPU keeps: the layers' weights pass through its
// memory, each while the one before is computed. Of models with experts, experts do so that 32 tokens of a
// micro-batch use. Micro-batches of fewer than 32 tokens, or with steps among them, are the CPU's.
enum hearth_device_prompts {
    HEARTH_DEVICE_PROMPTS_AUTO = 0, // where it is faster, by the time that prompts took
    HEARTH_DEVICE_PROMPTS_ALWAYS,   // any number of tokens, of an expert too, whatever it takes
    HEARTH_DEVICE_PROMPTS_NEVER     // and no memory of the device is set aside for it
};

struct hearth_session_params {
    size_t size;   // set by hearth_session_params_default()
    int n_ctx;     // positions per sequence; 0: min(the model's, 4096)
    int max_seqs;  // sequences alive at once, at least 1
    int max_steps; // rows of the step class in one evaluation, at most 65535; less than max_seqs, 0 for
                   // example: max_seqs
    int kv_tokens; // positions of all sequences together, rounded up to whole pages; what sequences share
                   // counts once; 0: n_ctx for each of max_seqs
    int n_ubatch;  // prompt tokens evaluated at a time; 0: 512. A free choice: results do not depend on it
    int n_threads; // 0: one per physical core. Results do not depend on it
    enum hearth_kv_type type_k;
    enum hearth_kv_type type_v;
    enum hearth_sparsity sparsity;
    float predict_threshold;  // a neuron is computed when its predictor gives at least this; NAN: the file's
    float sparsity_threshold; // models outside the ReLU family: a neuron whose gate's activation is smaller
                              // than this in magnitude is left out. Changes results; 0: never
    float sparsity_share; // the same with a threshold for each layer, so that this share (0..1) of a text's
                          // neurons falls below it: for packs with magnitudes (docs/sparse.md). 0: never
    // Called after each layer of hearth_prompt(), hearth_step() and hearth_evaluate() (after all of those
    // that a device takes the batch through), on their thread, with the share of the call that is done, above
    // 0 and up to 1; returning false cancels as hearth_cancel() does. Must call no function on the session,
    // nor, with a memory budget, on others of the model, which wait for this evaluation to end. May be NULL.
    bool (*progress)(void *arg, float share);
    void *progress_arg;
    // Models with recurrent layers: states that the session keeps, at most 65536. Beside the one that a
    // sequence goes on from, there are some that it may come back to when it is cut or forked. Where none is
    // left, tokens are evaluated again, which takes time and changes no result. An evaluation needs one for
    // each of its sequences, and one more; where several share theirs, being forks of one another, one for
    // each that is shared, so never more than two for each sequence. Where evaluations have several steps of a
    // sequence, which then is cut between them, another one for each saves evaluating tokens again. 0: max_seqs,
    // and half as many again or 2.
    int max_states;
    int reserved; // 0
    // Devices (GPUs) that compute the last layers of the model, and its head, beside the CPU: numbers in the
    // list of hearth_device_at() or parts of names, separated by commas, at most HEARTH_DEVICES_MOST, the one
    // with the last layers last; or "auto": the first that is no CPU; "all": all that are none; NULL: none.
    // No result depends on them. Of models with experts that do not all have room they compute layers'
    // attention, and experts; of sparse models in memory that have no room, attention and hot neurons.
    // Some rarer kinds of attention (docs/accel.md) leave them the head, and experts; recurrent
    // layers leave them what stands behind the last one, and of models with experts attention between.
    const char *device;
    // Bytes of each device's memory that may be used. 0: nine tenths of what is free there; where that is the
    // system's memory, no more than half of what is free besides the budget, for all such devices together.
    uint64_t vram;
    // So many layers at most, the last ones; the head is one more. 0, or more than there are: as many as there
    // is room for.
    int device_layers;
    // Not 0: also devices that give other bits than the CPU, so that results depend on them.
    int device_inexact;
    enum hearth_device_prompts device_prompts; // of a session with one device
    int n_vrams, n_device_shares;              // lengths of the lists that follow
    // Per cent of what the device has of hot neurons and experts that it computes in each evaluation, where
    // the CPU has them in memory, too: 1 to 100. 0: as much as makes steps fastest, by the time that they
    // took. -1: it has none. Where it is not 0, layers with experts are not whole there, though all had room.
    int device_hot_percent;
    // [n_vrams] the same as `vram`, which does not count then, of each device; read while the session opens.
    // n_vrams is 0, or the number of devices.
    const uint64_t *vrams;
    // [n_device_shares] which share of the layers each device has, as far as there is room, relative to those
    // of the others (3 and 1: three quarters, one quarter); read while the session opens. n_device_shares is
    // the number of devices, or 0: the fastest device has as many as there is room for, then the next one.
    const float *device_shares;
    // [n_cpu_experts] not 0: all experts of this layer are the CPU's. Devices have no hot ones of them, and none
    // pass through a device in prompts; what that leaves of its memory is for attention with its part of the KV
    // cache, and for experts of other layers; no layer is whole on a device then. A layer's attention, and the expert that all its tokens use, may be
    // on a device all the same. Layers behind the list's end are as with 0. Read while the session opens.
    const unsigned char *cpu_experts;
    int n_cpu_experts;
};

// Fills a struct of `size` bytes with the defaults: one sequence, the file's predict_threshold, all else
// zero. For languages other than C; in C and C++ hearth_session_params_default() does it.
// Threads: any.
void hearth_session_params_init(struct hearth_session_params *params, size_t size);

static inline struct hearth_session_params hearth_session_params_default(void)
{
    struct hearth_session_params params;
    hearth_session_params_init(&params, sizeof params);
    return params;
}

// Takes all memory that generating needs, and starts the threads. `params` NULL: all defaults.
// Errors: HEARTH_E_INVALID, HEARTH_E_MEMORY, HEARTH_E_BUDGET (the KV cache is larger than any can be),
// HEARTH_E_IO (the system starts no more threads). On a model with a budget also HEARTH_E_BUDGET (it is too
// small), HEARTH_E_IO (weights cannot be read), HEARTH_E_UNSUPPORTED (the system cannot read as `io` says),
// and HEARTH_E_INTERRUPTED when the model's `progress` said so. Threads: any.
int hearth_session_open(struct hearth_session **out, const struct hearth_model *model,
                        const struct hearth_session_params *params, struct hearth_error *err);
// Closes the session with all its sequences, and gives its memory back. Threads: one at a time.
void hearth_session_close(struct hearth_session **session);

// Positions that a sequence can have. Threads: any.
int hearth_session_n_ctx(const struct hearth_session *session);

// Sequences that there can be at once. Threads: any.
int hearth_session_max_seqs(const struct hearth_session *session);

// Rows that one evaluation takes: n_ubatch and max_steps together. Threads: any.
int hearth_session_max_rows(const struct hearth_session *session);

// Rows of the step class among them. Threads: any.
int hearth_session_max_steps(const struct hearth_session *session);

// Rows that may want logits in one evaluation. Threads: any.
int hearth_session_max_logits(const struct hearth_session *session);

// Positions that the KV cache has room for: whole pages, all sequences together. Threads: any.
int64_t hearth_session_kv_tokens(const struct hearth_session *session);

// How many of these are on pages that no sequence holds. A sequence that grows takes a page for each
// page_tokens positions (hearth_session_kv_stats()), and one more for a copy when it shares its last page.
// Threads: one at a time.
int64_t hearth_session_kv_free(const struct hearth_session *session);

// ---- devices

#define HEARTH_DEVICES_MOST 16 // of one session

// A device that the system's drivers name.
struct hearth_device {
    char name[128];
    char driver[128];
    char backend[32]; // "OpenCL", "CUDA"
    uint64_t memory_bytes;
    uint32_t units; // compute units
    int is_cpu;     // it computes on the CPU
    int exact;      // as far as its driver says, it gives the CPU's bits
};

// How many devices there are, and number `index` of them, if there is one, in `out`, which has `size` bytes
// (sizeof *out). 0 also where there is no memory for a list of them. Threads: any.
int hearth_device_at(int index, struct hearth_device *out, size_t size);

// ---- fitting into memory

enum hearth_fit_kind {
    HEARTH_FIT_WHOLE = 0, // all weights stay in memory
    HEARTH_FIT_STREAMS,   // some are read from the file as they are needed
    HEARTH_FIT_NOT        // the budget is too small: a session fails to open
};

// What a memory budget gives. Bytes.
struct hearth_fit {
    enum hearth_fit_kind kind;
    uint64_t ram;             // the budget, of all private memory of the process
    uint64_t free_bytes;      // what the process can take now, beyond what it holds; UINT64_MAX: unknown
    const char *free_what;    // what bounds that: "memory", "control group", "ulimit -v"
    uint64_t weight_bytes;    // of all weights
    uint64_t whole_bytes;     // the smallest budget for HEARTH_FIT_WHOLE
    uint64_t least_bytes;     // the smallest budget of all
    uint64_t kv_bytes;        // kept for the KV caches of max_sessions sessions,
    uint64_t workspace_bytes; // and for their buffers
    uint64_t resident_bytes;  // of weights in memory, caches included
    // Weights read from the file for each generated token: of whole layers exactly; of experts if all were
    // used alike, of neurons as often as the profile says.
    uint64_t token_bytes;
    uint64_t packed_token_bytes; // the same if hearth pack made a pack of the model; 0: that would not help
};

// What a session with these parameters (NULL: all defaults) would have on this model with a budget of `ram`
// bytes. 0: the model's own budget; HEARTH_RAM_FIT: what is free now, less an eighth (32 MiB to 2 GiB) for
// the system; HEARTH_RAM_LEAST: the smallest one, whether or not it is free. Free is what the system can give
// without swapping, within the limits of control groups and of the process. Reads no weights: on a model that
// was opened with HEARTH_RAM_FIT it costs milliseconds. fit_size: sizeof *fit. Errors: those of
// hearth_session_open(), but for a budget that is too small. Threads: any.
int hearth_model_fit(const struct hearth_model *model, const struct hearth_session_params *params,
                     uint64_t ram, struct hearth_fit *fit, size_t fit_size, struct hearth_error *err);

// ---- sequences

// Which of the two numeric classes an evaluation belongs to: prompt (prefill) or step (decode). A token's
// logits depend on the file, the tokens before it and their phases, and on nothing else: not threads,
// micro-batch, batch-mates or memory budget.
enum hearth_phase { HEARTH_PHASE_PROMPT = 0, HEARTH_PHASE_STEP = 1 };

// Sequences are small integers in 0..max_seqs-1. A new one is empty. Returns its number or a negative code.
// Errors: HEARTH_E_BUDGET (all are in use). Threads: one at a time.
int hearth_seq_new(struct hearth_session *session, struct hearth_error *err);

// A new sequence with the first n_tokens of `seq` (shared, not copied), which stays as it is. Returns its
// number or a negative code.
// Errors: HEARTH_E_INVALID (no such sequence, or it is shorter), HEARTH_E_BUDGET. Threads: one at a time.
int hearth_seq_fork(struct hearth_session *session, int seq, int n_tokens, struct hearth_error *err);

// Ends a sequence; its number may be given to a new one. What others share with it stays. The number of no
// sequence is ignored.
// Threads: one at a time.
void hearth_seq_free(struct hearth_session *session, int seq);

// Tokens in the sequence, that is the position of the next one; 0 where there is no such sequence.
// Threads: one at a time.
int hearth_seq_length(const struct hearth_session *session, int seq);

// Forgets all but the first n_tokens.
// Errors: HEARTH_E_INVALID (no such sequence, or it is shorter). Threads: one at a time.
int hearth_seq_truncate(struct hearth_session *session, int seq, int n_tokens, struct hearth_error *err);

// Writes a sequence to a file: its tokens, their phases and their part of the KV cache, as many bytes as that
// (docs/kv-file.md). No file appears under `path` unless all of it is written; an old one is replaced.
//
// A session need not wait for the disk: this function alone may run in a second thread while the session is
// used, as long as no other call names the sequence meanwhile. A fork made for the purpose will do: it takes
// no time, and the original goes on, or is freed.
// Errors: HEARTH_E_INVALID (no such sequence), HEARTH_E_IO, HEARTH_E_MEMORY. Threads: one at a time, but as
// above.
int hearth_seq_save(struct hearth_session *session, int seq, const char *path, struct hearth_error *err);

// A new sequence from such a file, of any session on the same model: evaluation goes on with the same bits
// as in the session that saved it. Returns its number or a negative code; then nothing has changed. There
// are no logits yet, which a file does not hold: to sample what follows, cut the last token off and evaluate
// it again, in its phase.
// Errors: HEARTH_E_INVALID (the file is of another model, or of a session with other type_k, type_v or, when
// tokens were evaluated as steps, lossy sparsity), HEARTH_E_FORMAT (it is damaged), HEARTH_E_UNSUPPORTED (it
// is of another version of the format, or of a library with another arithmetic), HEARTH_E_IO,
// HEARTH_E_MEMORY, HEARTH_E_BUDGET, HEARTH_E_KV_FULL. With a memory budget it may have to wait until another
// session's evaluation has ended, and hearth_cancel() ends that with HEARTH_E_INTERRUPTED. Threads: one at a
// time.
int hearth_seq_load(struct hearth_session *session, const char *path, struct hearth_error *err);

// Gives memory of the KV cache that no sequence uses any more back to the system. It stays part of the
// session's memory: sequences take it again as they grow.
// Threads: one at a time.
void hearth_session_trim(struct hearth_session *session);

// The sequence's tokens and the phases in which they were evaluated: at most `cap` of them go to `tokens` and
// `phases`, either of which may be NULL. Returns how many there are in all; 0 when there is no such sequence.
// Threads: one at a time.
int hearth_seq_tokens(const struct hearth_session *session, int seq, hearth_token *tokens,
                      enum hearth_phase *phases, int cap);

// ---- evaluating

// Gets the logits of token `index` of a prompt: n_vocab floats, valid during the call. Returning false
// stops the prompt with HEARTH_E_INTERRUPTED. Must call no function on the session but hearth_cancel().
typedef bool (*hearth_row_fn)(void *arg, int index, const float *logits);

// Appends tokens[0..n) to one sequence as a prompt, in micro-batches. When `rows` is not NULL it is called
// with the logits of each token in order; else only the last token's are computed, to be read with
// hearth_logits(session, 0). When it fails, the sequence is as it was before, and the session can be used
// further.
// Errors: HEARTH_E_INVALID, HEARTH_E_BUDGET (the sequence would become longer than n_ctx), HEARTH_E_KV_FULL
// (the KV cache has not enough free pages; a sequence that shares its last page needs one more, for a copy),
// HEARTH_E_IO (weights cannot be read), HEARTH_E_INTERRUPTED. Threads: one at a time.
int hearth_prompt(struct hearth_session *session, int seq, const hearth_token *tokens, int n,
                  hearth_row_fn rows, void *arg, struct hearth_error *err);

// One row of an evaluation: the token at a position of a sequence.
struct hearth_batch_row {
    int seq;
    int pos; // -1: the sequence's next one. Else just that is checked: it must be the sequence's length, plus
             // its rows before this one in the batch
    hearth_token token;
    enum hearth_phase phase;
    bool wants_logits;
    int wants_embedding; // 0: no. As wide as it is so that rows of older callers end before it
};

// Appends rows[0..n), of `row_size` bytes each (sizeof *rows), to their sequences and takes all of them
// through the layers together: chunks of prompts beside steps of other sequences, and several rows of a
// sequence, drafted tokens for example. Each row is of the class that it names, and gets the logits that it
// would get alone. Rows of a sequence come in the order of their positions, rows of different ones in any.
// Afterwards hearth_logits(session, i) and hearth_embedding(session, i) are what rows[i] wanted. When it
// fails, all sequences are as they were, and the session can be used further.
//
// At most hearth_session_max_rows() rows, of which at most hearth_session_max_steps() are of the step class
// and at most hearth_session_max_logits() want logits.
// Errors: as of hearth_prompt(), HEARTH_E_INVALID also for a position that is not the sequence's next one and
// for more rows than the above; the message names the row that is refused. While the session is traced also
// HEARTH_E_MEMORY. Threads: one at a time.
int hearth_evaluate(struct hearth_session *session, const struct hearth_batch_row *rows, int n,
                    size_t row_size, struct hearth_error *err);

// One step of n different sequences: appends tokens[i] to seqs[i]. Afterwards hearth_logits(session, i) is
// row i. When it fails, all sequences are as they were before, and the session can be used further.
// Errors: as of hearth_evaluate(). Threads: one at a time.
int hearth_step(struct hearth_session *session, const int *seqs, const hearth_token *tokens, int n,
                struct hearth_error *err);

// Cancels the evaluation that runs in the session: within the time of one layer of a step, of a part of a
// layer of a prompt, or of the head, it returns HEARTH_E_INTERRUPTED. All sequences are as they were before
// it, and the session can be used further.
//
// No request is lost. When no evaluation runs, or the one that does is past its last layer, or fails for
// another reason, the request waits and cancels the next one. So a handler of SIGINT need do nothing else.
// Requests that wait count as one: each evaluation that is cancelled uses them up.
//
// A program that wants to cancel one of several things that it does in a session calls hearth_cancel_clear()
// before it goes on with the others. An evaluation that was cancelled by mistake can be done again, as
// nothing has changed. NULL is fine.
// Threads: any, at any time while the session is open; signal handlers too.
void hearth_cancel(struct hearth_session *session);

// Forgets a request that waits. Returns whether there was one.
// Threads: one at a time.
bool hearth_cancel_clear(struct hearth_session *session);

// Row `row` of the last evaluation's logits: n_vocab floats, valid until the next evaluation; NULL when
// there is no such row, or when the evaluation failed.
// Threads: one at a time.
const float *hearth_logits(const struct hearth_session *session, int row);

// ---- embeddings

// The hidden state of row `row` of the last evaluation, which wanted it: n_embd floats, what the final norm
// gives and the head would get, valid until the next evaluation; NULL when there is no such row, or when the
// evaluation failed. As logits, it depends on the file, the tokens before it and their phases, and on
// nothing else; and no logits depend on whether it is wanted. Where no row wants logits, no head is computed.
// Threads: one at a time.
const float *hearth_embedding(const struct hearth_session *session, int row);

// Appends tokens[0..n) to one sequence as a prompt, in micro-batches, and writes their embedding to `out`:
// n_embd floats, with HEARTH_POOLING_NONE n times n_embd. For that of a text, the sequence is empty before.
// `norm` is as for hearth_embedding_normalize(); 2 is what most programs expect. Sums are in double
// precision, token by token, so the embedding does not depend on n_ubatch. No logits are computed. When it
// fails, the sequence is as it was before, the session can be used further, and `out` may be anything.
// Errors: as of hearth_prompt(). Threads: one at a time.
int hearth_embed(struct hearth_session *session, int seq, const hearth_token *tokens, int n,
                 enum hearth_pooling pooling, int norm, float *out, struct hearth_error *err);

// Divides x[0..n) by its norm. norm 2: its Euclidean length; 1: the sum of its magnitudes; 3 and more: the
// norm of that order; 0: its largest magnitude, which becomes 32760; negative: x stays as it is. Zeros stay
// zeros. Threads: any.
void hearth_embedding_normalize(float *x, int n, int norm);

// ---- statistics

// Of sessions that read weights from the file as they go (hearth_model_params.ram). Reads ahead count in
// the phase in which they end; an evaluation with rows of both phases counts as a prompt. Sessions that share
// weights have these figures in common.
struct hearth_streaming_stats {
    // "io_uring" or "pread", on Windows "overlapped"; NULL: all weights are in memory, and all below is 0.
    const char *io;
    bool direct; // reads go around the page cache

    // What the budget bought.
    uint64_t planned_bytes;    // private memory of the process, all in all
    uint64_t dense_bytes;      // dense weights in memory
    uint64_t dense_read_bytes; // dense weights that each step reads from the file

    // Neurons of feed-forward parts that are read by neuron.
    uint64_t neurons;          // in the model
    uint64_t neuron_bytes;     // of all of them in the file
    uint64_t neurons_resident; // in memory for good
    uint64_t resident_bytes;   // memory of these
    uint64_t neurons_cached;   // that the neuron cache has slots for now
    uint64_t cache_bytes; // memory of the neuron cache or the expert cache now, reserve and tables included

    // Neurons that steps asked for.
    uint64_t neuron_resident_hits; // found in memory for good
    uint64_t neuron_hits;          // found in the cache
    uint64_t neuron_late_hits;     // on their way into the cache
    uint64_t neuron_misses;        // read then

    // Experts that are read one by one.
    uint64_t experts;            // in the model, all layers
    uint64_t expert_bytes;       // of all of them in the file
    uint64_t experts_cached;     // that the expert cache has slots for now
    uint64_t expert_hits;        // asked for by steps and found in the cache or on their way there
    uint64_t expert_misses;      // asked for by steps and read then
    uint64_t experts_ahead;      // read ahead by steps
    uint64_t experts_ahead_used; // and then asked for

    // Reads since the first of the sessions was opened.
    uint64_t prompt_reads;
    uint64_t prompt_read_bytes;
    uint64_t prompt_wait_ns; // the evaluating thread waited for reads
    uint64_t step_reads;
    uint64_t step_read_bytes;
    uint64_t step_wait_ns;
    uint64_t read_retries; // reads that failed or came short and were done again

    // What is set aside for contexts and prompts, and lent to weights while they do not use it: to layers
    // that would be read else, and, of cache_bytes, to the cache.
    uint64_t lent_bytes;

    // Steps whose layers' neurons were guessed, and read ahead, while the layer before was computed; before their own
    // attention; not at all. The fastest way is found by trying.
    uint64_t steps_guessed_early, steps_guessed_late, steps_not_guessed;
};

// The KV cache now.
struct hearth_kv_stats {
    int page_tokens;       // consecutive positions of a page
    uint64_t pages;        // in all
    uint64_t pages_used;   // held by sequences
    uint64_t pages_shared; // held by several
};

// Of a device of a session since this was opened; zeros where there is none.
struct hearth_device_stats {
    const char *name;              // NULL: there is none. As long as the session
    int works;                     // 0: it has failed, and the CPU does its work
    int layers;                    // whole ones of the model, that follow one another
    int head;                      // and its head
    uint64_t neurons;              // hot ones of layers that no device has whole
    uint64_t bytes;                // of its memory
    uint64_t tokens;               // that went through its layers
    uint64_t runs;                 // of kernels
    uint64_t bytes_up, bytes_down; // to it, from it
    uint64_t experts;              // hot ones that it has
    uint64_t expert_rows;          // rows that went through these
    uint64_t through;    // prompt tokens that passed the CPU's layers there, or of which experts did,
                         // whose weights came for that
    int first_layer;     // of its layers
    int attention;       // layers, that follow one another, whose attention alone it has
    const char *backend; // as in struct hearth_device, of static storage; NULL: there is no device
};

// Of a session since it was opened.
struct hearth_stats {
    uint64_t prompt_tokens; // evaluated as prompts
    uint64_t prompt_ns;     // time of evaluations with any of these
    uint64_t steps;         // evaluations with rows of the step class
    uint64_t step_tokens;   // these rows
    uint64_t step_ns;       // time of evaluations with no others

    // Weight bytes that each step of one sequence reads from memory, sparse feed-forward parts excluded.
    uint64_t weight_bytes_per_step;
    // Weight bytes that sparse feed-forward parts read from memory, in all steps together.
    uint64_t predictor_bytes;
    uint64_t gate_bytes;
    uint64_t up_bytes;
    uint64_t down_bytes;

    uint64_t memory_bytes; // private memory held: weights, KV cache, workspace
    uint64_t kv_bytes;     // of it the KV cache
};

// Fills `out`, which has `size` bytes (sizeof *out), with what the session has done so far. Fields that this
// library does not know become zero.
// Threads: one at a time.
void hearth_session_stats(const struct hearth_session *session, struct hearth_stats *out, size_t size);

// The same of the KV cache. Threads: one at a time.
void hearth_session_kv_stats(const struct hearth_session *session, struct hearth_kv_stats *out, size_t size);

// The same of weights that are read as they are needed. Threads: one at a time.
void hearth_session_streaming_stats(const struct hearth_session *session, struct hearth_streaming_stats *out,
                                    size_t size);

// The same of the session's device, of several the first. Threads: one at a time.
void hearth_session_device_stats(const struct hearth_session *session, struct hearth_device_stats *out,
                                 size_t size);
// The same of device number `index`, in the order of hearth_session_params.device. Returns how many devices
// the session has. Threads: one at a time.
int hearth_session_device_stats_at(const struct hearth_session *session, int index,
                                   struct hearth_device_stats *out, size_t size);

// From now on writes down which neurons each step needs (docs/trace.md): the computed ones where predictors
// name them, else the active ones. The file appears under `path` when hearth_session_trace_end() is called,
// and not if the session closes before. A step that cannot be written down fails.
// Errors: HEARTH_E_INVALID (steps of this session do not go by neuron, or it is traced already),
// HEARTH_E_IO, HEARTH_E_MEMORY. Threads: one at a time.
int hearth_session_trace(struct hearth_session *session, const char *path, struct hearth_error *err);

// Completes the trace, if there is one. Errors: HEARTH_E_IO, HEARTH_E_MEMORY. Threads: one at a time.
int hearth_session_trace_end(struct hearth_session *session, struct hearth_error *err);

// ---- grammars

// What a text may look like, token by token: docs/grammar.md has the language. Samplers that have a grammar
// choose no token that it does not allow.
struct hearth_grammar;

// Compiles text[0..len), a grammar in GBNF, for a model's vocabulary. The grammar never changes what it
// allows; it keeps what it has worked out, some MiB, for all of its samplers. `model` NULL: without a
// vocabulary, for hearth_grammar_matches() alone. Nothing is kept of text and model.
// Errors: HEARTH_E_FORMAT (the message begins with line and column), HEARTH_E_MEMORY. Threads: any.
int hearth_grammar_open(struct hearth_grammar **out, const struct hearth_model *model, const char *text,
                        size_t len, struct hearth_error *err);
// Closes the grammar; its samplers are closed before. Threads: one at a time.
void hearth_grammar_close(struct hearth_grammar **grammar);

// Whether text[0..len) is, from its first byte to its last, what the grammar allows. Rules that ask for
// tokens match no text.
// Threads: any.
bool hearth_grammar_matches(struct hearth_grammar *grammar, const char *text, size_t len);

// ---- sampling

struct hearth_sampler;

struct hearth_logit_bias {
    hearth_token token;
    float bias; // added to the token's logit before all samplers; -INFINITY: never chosen
};

// Names, meanings and defaults are llama.cpp's. Strings and arrays are borrowed until the sampler is open.
struct hearth_sampler_params {
    size_t size;       // set by hearth_sampler_params_default()
    uint32_t seed;     // UINT32_MAX: a random one
    float temp;        // <= 0: greedy
    int top_k;         // <= 0: off
    float top_p;       // >= 1: off
    float min_p;       // <= 0: off
    int repeat_last_n; // tokens the penalties look back on; 0: off, -1: all
    float repeat_penalty, presence_penalty, frequency_penalty;

    float typ_p;                             // locally typical sampling; >= 1: off
    float top_n_sigma;                       // keep logits within n standard deviations of the best; < 0: off
    float xtc_probability, xtc_threshold;    // exclude top choices; probability 0 or threshold above 0.5: off
    float dynatemp_range, dynatemp_exponent; // temperature follows the entropy within temp +- range; 0: off
    float dry_multiplier, dry_base;          // DRY: penalty = multiplier * base^(length - allowed); 0: off
    int dry_allowed_length;                  // repeats shorter than this are free
    int dry_penalty_last_n;                  // tokens DRY looks back on; 0: off, -1: the context
    const char *const *dry_breakers;         // texts that repeats do not reach across
    int n_dry_breakers;
    int mirostat;                     // 0: off; version 1 or 2 in place of the chain
    float mirostat_tau, mirostat_eta; // target surprise in bits, learning rate
    const struct hearth_logit_bias *logit_biases;
    int n_logit_biases;
    // The samplers in the order in which they act, names separated by ';'; NULL: all, in llama.cpp's order.
    // What is not named is off.
    const char *samplers;
    // For DRY's breakers, and then it must outlive the sampler; else NULL will do.
    const struct hearth_model *model;
    int n_ctx; // what dry_penalty_last_n = -1 means; 0: 4096
    // Tokens that it does not allow are left out before all samplers. It must outlive the sampler. Each
    // sampler is at a place of its own in it; those of one grammar may be in different threads. NULL: none.
    struct hearth_grammar *grammar;
};

// "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature": the names there are, in the default
// order. Static storage.
// Threads: any.
const char *hearth_sampler_names(void);

// Fills a struct of `size` bytes with the defaults, llama.cpp's. For languages other than C; in C and C++
// hearth_sampler_params_default() does it.
// Threads: any.
void hearth_sampler_params_init(struct hearth_sampler_params *params, size_t size);

static inline struct hearth_sampler_params hearth_sampler_params_default(void)
{
    struct hearth_sampler_params params;
    hearth_sampler_params_init(&params, sizeof params);
    return params;
}

// `n_vocab`: floats in a row of logits. `params` NULL: all defaults.
// Errors: HEARTH_E_INVALID, HEARTH_E_MEMORY. Threads: any.
int hearth_sampler_open(struct hearth_sampler **out, int n_vocab, const struct hearth_sampler_params *params,
                        struct hearth_error *err);
// Closes the sampler. Threads: one at a time.
void hearth_sampler_close(struct hearth_sampler **sampler);

// Makes the sampler what it was when it was opened: the same seed, no tokens, the start of the grammar.
// Threads: one at a time.
void hearth_sampler_reset(struct hearth_sampler *sampler);
// A second sampler that would choose the same from now on, at the same place of the same grammar: for
// sequences that go on from one text. Errors: HEARTH_E_MEMORY. Threads: one at a time.
int hearth_sampler_clone(struct hearth_sampler **out, const struct hearth_sampler *sampler,
                         struct hearth_error *err);

// Picks a token from n_vocab logits (not changed). Allocates nothing. -1: the grammar allows no token, or
// only such with a logit of -INFINITY; never without a grammar. Threads: one at a time.
hearth_token hearth_sample(struct hearth_sampler *sampler, const float *logits);

// Tells the sampler what was chosen, for the penalties and the grammar. After a token that the grammar does
// not allow, it allows none. Threads: one at a time.
void hearth_sampler_accept(struct hearth_sampler *sampler, hearth_token token);
// The same of what was in the prompt: the grammar is about the text that follows it. Threads: one at a time.
void hearth_sampler_accept_prompt(struct hearth_sampler *sampler, hearth_token token);

// Whether the text may end here: the grammar is at an end, though more may be allowed. True without a
// grammar. Threads: one at a time.
bool hearth_sampler_may_end(struct hearth_sampler *sampler);

// The seed in use. Threads: any.
uint32_t hearth_sampler_seed(const struct hearth_sampler *sampler);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
