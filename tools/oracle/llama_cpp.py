# SPDX-License-Identifier: MIT
# llama.cpp by ctypes: load, evaluate, tokenize, quantise. Structures are those of llama.h at v0.5.0, the release that
# node-llama-cpp 3.22.1 ships prebuilt; the libraries are found as oracle_common.llama_library_dir() says.

import ctypes as C
import glob
import os

import numpy as np

from oracle_common import llama_library_dir


class ModelParams(C.Structure):
    _fields_ = [
        ("devices", C.c_void_p), ("tensor_buft_overrides", C.c_void_p), ("n_gpu_layers", C.c_int32),
        ("split_mode", C.c_int), ("load_mode", C.c_int), ("lazy_mode", C.c_int), ("main_gpu", C.c_int32),
        ("tensor_split", C.c_void_p), ("progress_callback", C.c_void_p), ("progress_user", C.c_void_p),
        ("kv_overrides", C.c_void_p), ("vocab_only", C.c_bool), ("check_tensors", C.c_bool),
        ("use_extra_bufts", C.c_bool), ("no_host", C.c_bool), ("no_alloc", C.c_bool), ("load_mtp", C.c_bool),
    ]  # fmt: skip


class ContextParams(C.Structure):
    _fields_ = [
        ("n_ctx", C.c_uint32), ("n_batch", C.c_uint32), ("n_ubatch", C.c_uint32), ("n_seq_max", C.c_uint32),
        ("n_rs_seq", C.c_uint32), ("n_outputs_max", C.c_uint32), ("n_outputs_max_per_seq", C.c_uint32),
        ("n_threads", C.c_int32), ("n_threads_batch", C.c_int32), ("ctx_type", C.c_int),
        ("rope_scaling_type", C.c_int), ("pooling_type", C.c_int), ("attention_type", C.c_int),
        ("flash_attn_type", C.c_int), ("rope_freq_base", C.c_float), ("rope_freq_scale", C.c_float),
        ("yarn_ext_factor", C.c_float), ("yarn_attn_factor", C.c_float), ("yarn_beta_fast", C.c_float),
        ("yarn_beta_slow", C.c_float), ("yarn_orig_ctx", C.c_uint32), ("defrag_thold", C.c_float),
        ("cb_eval", C.c_void_p), ("cb_eval_user", C.c_void_p), ("type_k", C.c_int), ("type_v", C.c_int),
        ("abort_callback", C.c_void_p), ("abort_user", C.c_void_p), ("embeddings", C.c_bool),
        ("offload_kqv", C.c_bool), ("no_perf", C.c_bool), ("op_offload", C.c_bool), ("swa_full", C.c_bool),
        ("kv_unified", C.c_bool), ("samplers", C.c_void_p), ("n_samplers", C.c_size_t), ("ctx_other", C.c_void_p),
    ]  # fmt: skip


class Batch(C.Structure):
    _fields_ = [
        ("n_tokens", C.c_int32), ("token", C.POINTER(C.c_int32)), ("embd", C.c_void_p), ("pos", C.c_void_p),
        ("n_seq_id", C.c_void_p), ("seq_id", C.c_void_p), ("logits", C.POINTER(C.c_int8)),
    ]  # fmt: skip


class QuantizeParams(C.Structure):
    _fields_ = [
        ("nthread", C.c_int32), ("ftype", C.c_int), ("output_tensor_type", C.c_int),
        ("token_embedding_type", C.c_int), ("allow_requantize", C.c_bool), ("quantize_output_tensor", C.c_bool),
        ("only_copy", C.c_bool), ("pure", C.c_bool), ("keep_split", C.c_bool), ("dry_run", C.c_bool),
        ("imatrix", C.c_void_p), ("kv_overrides", C.c_void_p), ("tt_overrides", C.c_void_p),
        ("prune_layers", C.c_void_p), ("max_buf_size", C.c_size_t),
    ]  # fmt: skip


LOG_CALLBACK = C.CFUNCTYPE(None, C.c_int, C.c_char_p, C.c_void_p)
_quiet = LOG_CALLBACK(lambda level, text, user: None)
_lib = None


def library(verbose=False):
    global _lib
    if _lib is not None:
        return _lib
    where = llama_library_dir()
    ggml = C.CDLL(glob.glob(os.path.join(where, "libggml.v*.so"))[0], mode=C.RTLD_GLOBAL)
    lib = C.CDLL(glob.glob(os.path.join(where, "libllama.v*.so"))[0], mode=C.RTLD_GLOBAL)
    if not verbose:
        lib.llama_log_set(_quiet, None)
    lib.llama_backend_init()
    ggml.ggml_backend_load_all_from_path.argtypes = [C.c_char_p]
    ggml.ggml_backend_load_all_from_path(where.encode())
    p, i32 = C.c_void_p, C.c_int32
    for name, result, arguments in [
        ("llama_model_default_params", ModelParams, []), ("llama_context_default_params", ContextParams, []),
        ("llama_model_quantize_default_params", QuantizeParams, []),
        ("llama_model_load_from_file", p, [C.c_char_p, ModelParams]), ("llama_model_free", None, [p]),
        ("llama_init_from_model", p, [p, ContextParams]), ("llama_free", None, [p]),
        ("llama_model_get_vocab", p, [p]), ("llama_vocab_n_tokens", i32, [p]), ("llama_get_memory", p, [p]),
        ("llama_memory_clear", None, [p, C.c_bool]), ("llama_decode", i32, [p, Batch]),
        ("llama_batch_get_one", Batch, [p, i32]), ("llama_batch_init", Batch, [i32, i32, i32]),
        ("llama_batch_free", None, [Batch]), ("llama_synchronize", None, [p]),
        ("llama_get_logits_ith", C.POINTER(C.c_float), [p, i32]), ("llama_print_system_info", C.c_char_p, []),
        ("llama_tokenize", i32, [p, C.c_char_p, i32, p, i32, C.c_bool, C.c_bool]),
        ("llama_model_quantize", C.c_uint32, [C.c_char_p, C.c_char_p, C.POINTER(QuantizeParams)]),
    ]:  # fmt: skip
        fn = getattr(lib, name)
        fn.restype, fn.argtypes = result, arguments
    _lib = lib
    return lib


class Model:
    """A model and one context. kv: ggml type of the KV cache (0 F32, 1 F16). repack: llama.cpp's own weight layouts."""

    def __init__(self, path, threads=1, n_ctx=512, kv=1, flash=-1, repack=True, vocab_only=False, load_mode=-1):
        self.lib = library()
        m = self.lib.llama_model_default_params()
        m.n_gpu_layers, m.use_extra_bufts, m.vocab_only, m.load_mode = 0, repack, vocab_only, load_mode
        self.ctx = None
        self.model = self.lib.llama_model_load_from_file(path.encode(), m)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        self.vocab = self.lib.llama_model_get_vocab(self.model)
        self.n_vocab = self.lib.llama_vocab_n_tokens(self.vocab)
        if vocab_only:
            return
        c = self.lib.llama_context_default_params()
        c.n_ctx, c.n_batch, c.n_ubatch, c.n_seq_max = n_ctx, n_ctx, min(n_ctx, 512), 1
        c.n_threads = c.n_threads_batch = threads
        c.type_k = c.type_v = kv
        c.flash_attn_type = flash
        self.ctx = self.lib.llama_init_from_model(self.model, c)
        if not self.ctx:
            raise RuntimeError(f"llama.cpp cannot make a context for {path}")

    def logits(self, tokens, step=False):
        """Logits at every position, float32 [n][n_vocab]; step: one token at a time, as when generating."""
        lib = self.lib
        lib.llama_memory_clear(lib.llama_get_memory(self.ctx), True)
        rows = np.empty((len(tokens), self.n_vocab), np.float32)
        size = 1 if step else len(tokens)
        batch = lib.llama_batch_init(size, 0, 1)
        pos = C.cast(batch.pos, C.POINTER(C.c_int32))
        n_seq = C.cast(batch.n_seq_id, C.POINTER(C.c_int32))
        seq = C.cast(batch.seq_id, C.POINTER(C.POINTER(C.c_int32)))
        for start in range(0, len(tokens), size):
            batch.n_tokens = size
            for i in range(size):
                batch.token[i], pos[i], n_seq[i], seq[i][0] = int(tokens[start + i]), start + i, 1, 0
                batch.logits[i] = 1
            if lib.llama_decode(self.ctx, batch):
                raise RuntimeError("llama_decode failed")
            for i in range(size):
                rows[start + i] = np.ctypeslib.as_array(lib.llama_get_logits_ith(self.ctx, i), (self.n_vocab,))
        lib.llama_batch_free(batch)
        return rows

    def tokenize(self, text, add_special=True, parse_special=False):
        raw = text if isinstance(text, bytes) else text.encode()
        out = (C.c_int32 * (len(raw) + 8))()
        n = self.lib.llama_tokenize(self.vocab, raw, len(raw), out, len(out), add_special, parse_special)
        if n < 0:
            raise RuntimeError("llama_tokenize failed")
        return list(out[:n])

    def close(self):
        if self.ctx:
            self.lib.llama_free(self.ctx)
        self.lib.llama_model_free(self.model)


def quantize(source, target, file_type, threads=1, pure=False, requantize=False):
    """As llama-quantize: file_type is llama.cpp's ftype number (2 Q4_0, 7 Q8_0, 15 Q4_K_M, 18 Q6_K, ...)."""
    lib = library()
    p = lib.llama_model_quantize_default_params()
    p.nthread, p.ftype, p.pure, p.allow_requantize = threads, file_type, pure, requantize
    if lib.llama_model_quantize(source.encode(), target.encode(), C.byref(p)):
        raise RuntimeError(f"llama.cpp could not quantise {source}")
