#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hearth from Python: the shared library by ctypes, nothing else.

    with Model("model.gguf", ram=8 << 30) as model:        # ram: a budget of memory, 0: none
        print(model.complete("It was a dark", n=20))       # greedy; seed=7 samples
        for text in model.stream(model.chat_prompt([("user", "Why is the sky blue?")]), n=200):
            print(text, end="", flush=True)

As a program: hearth.py MODEL PROMPT [N [SEED [RAM_MIB]]] prints what `hearth run MODEL -p PROMPT -n N -s SEED` does
(without a SEED, what it does with --temp 0). HEARTH_LIBRARY names the library if the system does not find it.

Structures have the fields of hearth.h in their order; as each begins with its size, those at its end that are not
needed here may be missing.
"""
import ctypes as c
import os
import sys

hearth = c.CDLL(os.environ.get("HEARTH_LIBRARY", "libhearth.so.0.1"))
BOS, SPECIAL = 1, 2  # HEARTH_TOKENIZE_*


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("message", c.c_char * 500), ("param", c.c_char_p)]


class ModelParams(c.Structure):
    _fields_ = [("size", c.c_size_t), ("vocab_only", c.c_bool), ("cpu", c.c_char_p), ("n_threads", c.c_int),
                ("progress", c.c_void_p), ("progress_arg", c.c_void_p), ("verify", c.c_bool), ("ram", c.c_uint64)]


class SessionParams(c.Structure):
    _fields_ = [("size", c.c_size_t), ("n_ctx", c.c_int), ("max_seqs", c.c_int)]


class SamplerParams(c.Structure):
    _fields_ = [("size", c.c_size_t), ("seed", c.c_uint32), ("temp", c.c_float)]


class ModelInfo(c.Structure):
    _fields_ = [("path", c.c_char_p), ("architecture", c.c_char_p), ("name", c.c_char_p), ("type", c.c_char_p),
                ("n_params", c.c_uint64), ("n_bytes", c.c_uint64), ("n_vocab", c.c_int), ("n_ctx_train", c.c_int)]


class ChatTurn(c.Structure):
    _fields_ = [("role", c.c_char_p), ("content", c.c_char_p)]


class ChatParams(c.Structure):
    _fields_ = [("size", c.c_size_t), ("messages", c.c_char_p), ("turns", c.POINTER(ChatTurn)), ("n_turns", c.c_size_t)]


P, I, N = c.c_void_p, c.c_int, c.c_size_t
for name, result, *arguments in [
    ("model_params_init", None, P, N), ("model_open", I, P, c.c_char_p, P, P), ("model_close", None, P),
    ("model_info", c.POINTER(ModelInfo), P),
    ("session_params_init", None, P, N), ("session_open", I, P, P, P, P), ("session_close", None, P),
    ("sampler_params_init", None, P, N), ("sampler_open", I, P, I, P, P), ("sampler_close", None, P),
    ("sampler_accept", None, P, c.c_int32), ("sampler_accept_prompt", None, P, c.c_int32),
    ("sample", c.c_int32, P, P), ("logits", P, P, I),
    ("tokenize", c.c_int64, P, c.c_char_p, N, I, P, N, P), ("token_is_eog", c.c_bool, P, c.c_int32),
    ("stream_open", I, P, P, c.c_bool, c.c_bool, P), ("stream_close", None, P),
    ("stream_push", N, P, c.c_int32, P), ("stream_flush", N, P, P),
    ("seq_new", I, P, P), ("seq_free", None, P, I), ("prompt", I, P, I, P, I, P, P, P), ("step", I, P, P, P, I, P),
    ("chat_template_open", I, P, P, c.c_char_p, P), ("chat_template_close", None, P),
    ("chat_params_init", None, P, N), ("chat_render", I, P, P, P, P), ("chat_text_close", None, P),
    ("chat_tokenize", c.c_int64, P, P, P, N, P),
]:
    function = getattr(hearth, "hearth_" + name)
    function.restype, function.argtypes = result, arguments


def checked(rc, error):
    """What a function gave, unless that is an error's code."""
    if rc < 0:
        raise RuntimeError(error.message.decode(errors="replace"))
    return rc


class Handle:
    """What a function of the library opens, for a `with`: its close function takes the address of the pointer."""

    def __init__(self, kind, *arguments, opens=None):
        self.pointer, self.kind, error = P(), kind, Error()
        function = getattr(hearth, "hearth_" + (opens or kind + "_open"))
        checked(function(c.byref(self.pointer), *arguments, c.byref(error)), error)

    def __enter__(self):
        return self.pointer

    def __exit__(self, *_):
        getattr(hearth, f"hearth_{self.kind}_close")(c.byref(self.pointer))


def params(struct, name, **fields):
    """A parameter structure with the library's defaults, but for these fields."""
    p = struct()
    getattr(hearth, f"hearth_{name}_params_init")(c.byref(p), c.sizeof(p))
    for key, value in fields.items():
        setattr(p, key, value)
    return p


def all_tokens(give):
    """Tokens of a function that writes as many as there is room for and tells how many there are."""
    error, room = Error(), 256
    while True:
        tokens = (c.c_int32 * room)()
        n = checked(give(tokens, room, c.byref(error)), error)
        if n <= room:
            return tokens[:n]
        room = n


class Model:
    """A model with one session of one sequence. For one thread at a time."""

    def __init__(self, path, ram=0, n_ctx=0):
        self.model = Handle("model", os.fsencode(path), c.byref(params(ModelParams, "model", ram=ram)))
        try:
            session = params(SessionParams, "session", n_ctx=n_ctx)
            self.session = Handle("session", self.model.pointer, c.byref(session))
        except RuntimeError:
            self.model.__exit__()
            raise
        self.info = hearth.hearth_model_info(self.model.pointer).contents

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session.__exit__()
        self.model.__exit__()

    def tokenize(self, text, flags=BOS | SPECIAL):
        text = text.encode()
        return all_tokens(lambda *out: hearth.hearth_tokenize(self.model.pointer, text, len(text), flags, *out))

    def chat_prompt(self, messages):
        """Tokens of (role, content) pairs in the model's own chat format, which end with the beginning of an answer."""
        turns = (ChatTurn * len(messages))(*[ChatTurn(role.encode(), text.encode()) for role, text in messages])
        with Handle("chat_template", self.model.pointer, None) as template:
            p = params(ChatParams, "chat", turns=turns, n_turns=len(messages))
            with Handle("chat_text", template, c.byref(p), opens="chat_render") as text:
                return all_tokens(lambda *out: hearth.hearth_chat_tokenize(self.model.pointer, text, *out))

    def stream(self, prompt, n=64, seed=None):
        """Pieces of at most n tokens of text that continue `prompt`, a text or tokens."""
        tokens = self.tokenize(prompt) if isinstance(prompt, str) else prompt
        session, model, error, text = self.session.pointer, self.model.pointer, Error(), c.c_char_p()
        choice = {"temp": 0} if seed is None else {"seed": seed}
        sampling = params(SamplerParams, "sampler", **choice)
        seq = checked(hearth.hearth_seq_new(session, c.byref(error)), error)
        try:
            with Handle("sampler", self.info.n_vocab, c.byref(sampling)) as sampler, \
                    Handle("stream", model, False, True) as stream:
                def piece(length):
                    return c.string_at(text, length).decode(errors="replace")

                array = (c.c_int32 * len(tokens))(*tokens)
                checked(hearth.hearth_prompt(session, seq, array, len(tokens), None, None, c.byref(error)), error)
                for token in tokens:
                    hearth.hearth_sampler_accept_prompt(sampler, token)
                for i in range(n):
                    token = hearth.hearth_sample(sampler, hearth.hearth_logits(session, 0))
                    hearth.hearth_sampler_accept(sampler, token)
                    if hearth.hearth_token_is_eog(model, token):
                        break
                    yield piece(hearth.hearth_stream_push(stream, token, c.byref(text)))
                    if i + 1 < n:
                        one, which = (c.c_int32 * 1)(token), (I * 1)(seq)
                        checked(hearth.hearth_step(session, which, one, 1, c.byref(error)), error)
                yield piece(hearth.hearth_stream_flush(stream, c.byref(text)))
        finally:
            hearth.hearth_seq_free(session, seq)

    def complete(self, prompt, n=64, seed=None):
        return "".join(self.stream(prompt, n, seed))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} MODEL PROMPT [N [SEED [RAM_MIB]]]")
    path, prompt, count, seed, ram = (sys.argv[1:] + [None] * 3)[:5]
    with Model(path, int(ram or 0) << 20) as opened:
        for piece in opened.stream(prompt, int(count or 64), int(seed) if seed else None):
            sys.stdout.write(piece)
            sys.stdout.flush()
