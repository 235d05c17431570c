// SPDX-License-Identifier: MIT
// hearth.h: the public C API of Hearth, which runs language models larger than the memory of the machine.
//
// The mental model. A `hearth_model` is an open GGUF file: vocabulary, hyper-parameters, weights. It is
// immutable once open and may be shared by threads. A `hearth_session` is one mutable place where tokens are
// evaluated: it owns the KV cache, the workspace and the worker threads; one thread at a time may use it. A
// session holds up to `max_seqs` sequences; sequences made by hearth_seq_fork() share their common prefix. A
// `hearth_sampler` turns a row of logits into a token. A `hearth_stream` turns tokens into text, never half a
// character.
//
// Functions that can fail return 0 or a negative HEARTH_E_* code and fill `struct hearth_error` when it is
// not NULL. The library never prints and never exits. Everything that "open"s is ended by the matching
// "close", which takes the address of the pointer and clears it; closing NULL is fine.
#ifndef HEARTH_H
#define HEARTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEARTH_VERSION_MAJOR 0
#define HEARTH_VERSION_MINOR 1
#define HEARTH_VERSION_PATCH 0

// "0.1.0". Static storage.
const char *hearth_version(void);

enum {
    HEARTH_OK = 0,
    HEARTH_E_INVALID = -1,     // an argument or option makes no sense
    HEARTH_E_IO = -2,          // the operating system failed to read or write
    HEARTH_E_FORMAT = -3,      // a file is damaged or is not what it claims to be
    HEARTH_E_UNSUPPORTED = -4, // a sound file that needs something this build does not know
    HEARTH_E_MEMORY = -5,      // no memory
    HEARTH_E_BUDGET = -6,      // the user's own limit (context, --ram) is too small
    HEARTH_E_INTERRUPTED = -7, // stopped on request
    HEARTH_E_KV_FULL = -8      // a session's KV cache has no free page: free or shorten a sequence, try again
};

// What went wrong, in words a user can act on. Filled only when a call fails.
struct hearth_error {
    int code;
    char message[500];
};

// ---- model

struct hearth_model;

// What goes on while single neurons or experts are read: a choice for measuring what each brings. Results do
// not depend on it.
enum hearth_overlap {
    HEARTH_OVERLAP_ALL = 0, // computing, and reading what the next layer will probably want
    HEARTH_OVERLAP_COMPUTE, // computing
    HEARTH_OVERLAP_NONE     // waiting; experts are computed none the less
};

struct hearth_model_params {
    bool vocab_only; // only the vocabulary is read; such a model can tokenize and nothing else
    const char *cpu; // NULL: the best this CPU has; else "c", "avx2", "avx512", ... (an upper limit)
    int n_threads;   // threads used for loading; 0: one per physical core
    // Called now and then while weights load, with a share in 0..1; returning false stops. May be NULL.
    bool (*progress)(void *arg, float share);
    void *progress_arg;
    bool verify; // first read the whole file and hold it against the checksums in it, which packs have
    // Bytes of private memory that this process may take while a session on the model is open; weights that
    // do not fit are read from the file as they are needed. The same results whatever it is: only the speed
    // changes. 0: all weights in memory, read when the model opens. Else they are read when a session opens,
    // each session for itself, and one that needs more than this fails with HEARTH_E_BUDGET.
    uint64_t ram;
    const char *io;       // how such weights are read: NULL or "auto" (measured), "uring" or "pread"
    const char *throttle; // emulates other storage: "ufs4", "ufs3", "nvme" or "IOPS,MBPS"; NULL: none
    enum hearth_overlap overlap;
};

// All defaults.
struct hearth_model_params hearth_model_params_default(void);

// Opens the GGUF at `path` (for a split file, its first part). On success *out is the caller's, to close.
int hearth_model_open(struct hearth_model **out, const char *path, const struct hearth_model_params *params,
                      struct hearth_error *err);
void hearth_model_close(struct hearth_model **model);

struct hearth_model_info {
    const char *path;         // as given
    const char *architecture; // e.g. "llama"
    const char *name;         // general.name or ""
    const char *type;         // e.g. "llama 7B Q4_0": what llama-bench prints
    uint64_t n_params;        // weights
    uint64_t n_bytes;         // tensor bytes in the file
    int n_vocab, n_ctx_train, n_embd, n_layer, n_head, n_head_kv, n_ff;
};

// Valid as long as the model is open.
const struct hearth_model_info *hearth_model_info(const struct hearth_model *model);

// ---- tokens

typedef int32_t hearth_token;

enum {
    HEARTH_TOKENIZE_BOS = 1,    // add BOS/EOS where the vocabulary asks for it
    HEARTH_TOKENIZE_SPECIAL = 2 // text such as "<|im_end|>" becomes the control token of that name
};

// Tokens of text[0..len), any bytes. Writes at most `cap` tokens to `out` and returns how many there are in
// all (call again when it is more than `cap`), or a negative code.
int64_t hearth_tokenize(const struct hearth_model *model, const char *text, size_t len, int flags,
                        hearth_token *out, size_t cap, struct hearth_error *err);

// The bytes of one token (not always valid UTF-8 on its own). `special` also renders control tokens, which
// are empty otherwise. Returns the length in bytes; writes at most `cap` bytes, no terminating zero.
size_t hearth_token_bytes(const struct hearth_model *model, hearth_token token, bool special, char *out,
                          size_t cap);

hearth_token hearth_token_bos(const struct hearth_model *model); // -1 when the vocabulary has none
bool hearth_token_is_eog(const struct hearth_model *model, hearth_token token); // ends a generation

// Turns tokens into text as they come, holding back incomplete UTF-8 characters. `mid_text`: the tokens
// continue a prompt; false: they start a text, so the space that SentencePiece vocabularies put before the
// first word is dropped.
struct hearth_stream;
int hearth_stream_open(struct hearth_stream **out, const struct hearth_model *model, bool special,
                       bool mid_text, struct hearth_error *err);
void hearth_stream_close(struct hearth_stream **stream);
// Text that is complete after this token: *text is valid until the next call. Returns its length.
size_t hearth_stream_push(struct hearth_stream *stream, hearth_token token, const char **text);
// What is still held back at the end (bytes that never became a character). Same lifetime.
size_t hearth_stream_flush(struct hearth_stream *stream, const char **text);

// ---- session

struct hearth_session;

enum hearth_kv_type { HEARTH_KV_F16 = 0, HEARTH_KV_F32 = 1, HEARTH_KV_Q8_0 = 2 };

// Which neurons of the feed-forward parts are computed for a generated token (prompts are dense): see
// docs/sparse.md. A choice changes results only where it says so; within a choice nothing else does.
enum hearth_sparsity {
    // PREDICT where the model has predictors, else EXACT for the ReLU family, else OFF.
    HEARTH_SPARSITY_AUTO = 0,
    HEARTH_SPARSITY_OFF, // all
    // All gates, and of the rest what they do not make zero: the same results as OFF for the ReLU
    // family; for others only with sparsity_threshold, and then lossy.
    HEARTH_SPARSITY_EXACT,
    HEARTH_SPARSITY_PREDICT // those that the model's predictors name
};

struct hearth_session_params {
    int n_ctx;     // positions per sequence; 0: min(the model's, 4096)
    int max_seqs;  // sequences alive at once, at least 1
    int kv_tokens; // positions of all sequences together, rounded up to whole pages; what sequences share
                   // counts once; 0: n_ctx for each of max_seqs
    int n_ubatch;  // prompt tokens evaluated at a time; 0: 512. A free choice: results do not depend on it
    int n_threads; // 0: one per physical core. Results do not depend on it
    enum hearth_kv_type type_k, type_v;
    enum hearth_sparsity sparsity;
    float predict_threshold;  // a neuron is computed when its predictor gives at least this; NAN: the file's
    float sparsity_threshold; // models outside the ReLU family: a neuron whose gate's activation is smaller
                              // than this in magnitude is left out. Changes results; 0: never
    float sparsity_share; // the same with a threshold for each layer, so that this share (0..1) of a text's
                          // neurons falls below it: for packs with magnitudes (docs/sparse.md). 0: never
};

// One sequence, the file's predict_threshold, all else zero.
struct hearth_session_params hearth_session_params_default(void);

// The model must outlive the session. Allocates everything that generating needs.
int hearth_session_open(struct hearth_session **out, const struct hearth_model *model,
                        const struct hearth_session_params *params, struct hearth_error *err);
void hearth_session_close(struct hearth_session **session);
int hearth_session_n_ctx(const struct hearth_session *session);

// Sequences are small integers in 0..max_seqs-1. New ones are empty.
int hearth_seq_new(struct hearth_session *session, struct hearth_error *err);
// A new sequence with the first n_tokens of `seq` (shared, not copied). Returns its number or a negative
// code.
int hearth_seq_fork(struct hearth_session *session, int seq, int n_tokens, struct hearth_error *err);
void hearth_seq_free(struct hearth_session *session, int seq);
int hearth_seq_length(const struct hearth_session *session, int seq);
// Forgets all but the first n_tokens.
int hearth_seq_truncate(struct hearth_session *session, int seq, int n_tokens, struct hearth_error *err);

// Writes a sequence to a file: its tokens, their phases and their part of the KV cache, as many bytes as that
// (docs/kv-file.md). No file appears under `path` unless all of it is written; an old one is replaced.
int hearth_seq_save(struct hearth_session *session, int seq, const char *path, struct hearth_error *err);
// A new sequence from such a file, of any session on the same model: evaluation goes on with the same bits as
// in the session that saved it. Returns its number. There are no logits yet, which a file does not hold: to
// sample what follows, cut the last token off and evaluate it again, in its phase. Fails, with nothing
// changed, with HEARTH_E_INVALID when the file is of another model, or of a session with other type_k, type_v
// or (when tokens were evaluated as steps) lossy sparsity, HEARTH_E_FORMAT when it is damaged, and as
// hearth_seq_new() and hearth_prompt() do when there is no room.
int hearth_seq_load(struct hearth_session *session, const char *path, struct hearth_error *err);

// Gives memory of the KV cache that no sequence uses any more back to the system. It stays part of the
// session's memory: sequences take it again as they grow.
void hearth_session_trim(struct hearth_session *session);

// Which of the two numeric classes an evaluation belongs to. A token's logits depend on the file, the tokens
// before it and their phases, and on nothing else: not threads, micro-batch, batch-mates or memory budget.
enum hearth_phase { HEARTH_PHASE_PROMPT = 0, HEARTH_PHASE_STEP = 1 };

// The sequence's tokens and the phases in which they were evaluated: at most `cap` of them go to `tokens` and
// `phases`, either of which may be NULL. Returns how many there are in all; 0 when there is no such sequence.
int hearth_seq_tokens(const struct hearth_session *session, int seq, hearth_token *tokens,
                      enum hearth_phase *phases, int cap);

// Appends tokens[0..n) to one sequence as a prompt, in micro-batches. When `rows` is not NULL it is called
// with the logits of each token in order (n_vocab floats, valid during the call; returning false stops with
// HEARTH_E_INTERRUPTED); else only the last token's are computed, to be read with hearth_logits(session, 0).
// When weights cannot be read from the file (HEARTH_E_IO) the sequence is as it was before, and the session
// can be used further; so after a step. The same where there is no room: HEARTH_E_BUDGET when the sequence
// would become longer than n_ctx, HEARTH_E_KV_FULL when the session's KV cache has not enough free pages. A
// sequence that others share its last page with needs one page more, for a copy.
typedef bool (*hearth_row_fn)(void *arg, int index, const float *logits);
int hearth_prompt(struct hearth_session *session, int seq, const hearth_token *tokens, int n,
                  hearth_row_fn rows, void *arg, struct hearth_error *err);

// One step of n different sequences: appends tokens[i] to seqs[i]. Afterwards hearth_logits(session, i) is
// row i.
int hearth_step(struct hearth_session *session, const int *seqs, const hearth_token *tokens, int n,
                struct hearth_error *err);

// n_vocab floats, valid until the next evaluation; NULL when there is no such row.
const float *hearth_logits(const struct hearth_session *session, int row);

// Of sessions that read weights from the file as they go (hearth_model_params.ram). Reads ahead count in the
// phase in which they end.
struct hearth_streaming_stats {
    const char *io; // "io_uring" or "pread"; NULL: all weights are in memory, and all that follows is 0
    bool direct;    // around the page cache
    // What the budget bought:
    uint64_t planned_bytes; // private memory of the process, all in all
    uint64_t dense_bytes;   // weights in memory apart from neurons of feed-forward parts that go by neuron,
    uint64_t dense_read_bytes;                          // and those that each step reads from the file
    uint64_t neurons, neurons_resident, neurons_cached; // all of them, and those that memory is for
    uint64_t neuron_bytes;                              // of all neurons in the file
    uint64_t resident_bytes, cache_bytes; // memory of those that stay, and of the neuron cache with what
                                          // one step needs beyond it
    // Since the session was opened, in prompts and in steps:
    uint64_t prompt_reads, prompt_read_bytes, prompt_wait_ns; // wait: of the evaluating thread for reads
    uint64_t step_reads, step_read_bytes, step_wait_ns;
    uint64_t read_retries;
    // Neurons that steps asked for: resident, in the cache, on their way there, and read then.
    uint64_t asked_resident, asked_cached, asked_arriving, asked_read;
    // Experts that come one by one: all of them, in all layers; those that memory is for, which then is
    // cache_bytes with what a step needs beyond it; bytes of all in the file; and those that steps asked for,
    // which were in memory or on their way, or were read then; and those that steps read ahead, and of them
    // the ones that were wanted.
    uint64_t experts, experts_cached, expert_bytes, experts_asked_cached, experts_asked_read;
    uint64_t experts_read_ahead, experts_ahead_used;
};

// The KV cache now. A page holds page_tokens consecutive positions of a sequence, or of several that share
// them.
struct hearth_kv_stats {
    int page_tokens;
    uint64_t pages, pages_used, pages_shared; // all, those of sequences, and of these those of several
};

struct hearth_stats {
    uint64_t prompt_tokens, step_tokens; // evaluated so far; a step of n sequences counts n
    uint64_t prompt_ns, step_ns;
    uint64_t steps;
    uint64_t weight_bytes_per_step; // bytes of weights that one step of one sequence touches, without these:
    // bytes of weights read in all steps so far by feed-forward parts that go by neuron; else 0
    uint64_t predictor_bytes, gate_bytes, up_bytes, down_bytes;
    uint64_t memory_bytes; // private memory held: weights, KV, workspace
    uint64_t kv_bytes;
    struct hearth_kv_stats kv;
    struct hearth_streaming_stats streaming;
};

void hearth_session_stats(const struct hearth_session *session, struct hearth_stats *out);

// From now on writes down which neurons each step needs (docs/trace.md): the computed ones where predictors
// name them, else the active ones. Fails with HEARTH_E_INVALID where steps do not go by neuron. The file
// appears under `path` when hearth_session_trace_end() is called, and not if the session closes before. A
// step that cannot be written down fails.
int hearth_session_trace(struct hearth_session *session, const char *path, struct hearth_error *err);
// Completes the trace, if there is one.
int hearth_session_trace_end(struct hearth_session *session, struct hearth_error *err);

// ---- sampling

struct hearth_sampler;

struct hearth_logit_bias {
    hearth_token token;
    float bias; // added to the token's logit before all samplers; -INFINITY: never chosen
};

// Names, meanings and defaults are llama.cpp's. Strings and arrays are borrowed until the sampler is open.
struct hearth_sampler_params {
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
};

// "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature": the names there are, in the default
// order.
const char *hearth_sampler_names(void);

struct hearth_sampler_params hearth_sampler_params_default(void);

int hearth_sampler_open(struct hearth_sampler **out, int n_vocab, const struct hearth_sampler_params *params,
                        struct hearth_error *err);
void hearth_sampler_close(struct hearth_sampler **sampler);
// Picks a token from n_vocab logits (not changed). Allocates nothing.
hearth_token hearth_sample(struct hearth_sampler *sampler, const float *logits);
// Tells the sampler what was chosen (or was in the prompt), for the penalties.
void hearth_sampler_accept(struct hearth_sampler *sampler, hearth_token token);
uint32_t hearth_sampler_seed(const struct hearth_sampler *sampler); // the one in use

#ifdef __cplusplus
}
#endif
#endif
