# SPDX-License-Identifier: MIT
# Models of architecture "llama" between GGUF and PyTorch: every tensor dequantised to F32, and back.
import os

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFValueType

from model import Config, Model


def value_of(reader, key, default=None):
    field = reader.fields.get(key)
    return default if field is None else field.contents()


def config_of(reader, context=0):
    """The shape that a file's header tells; context 0: the file's."""
    value = lambda key, default=None: value_of(reader, f"llama.{key}", default)
    return Config(
        vocab=len(reader.fields["tokenizer.ggml.tokens"].data),
        hidden=value("embedding_length"), ffn=value("feed_forward_length"), layers=value("block_count"),
        heads=value("attention.head_count"),
        kv_heads=value("attention.head_count_kv", value("attention.head_count")),
        context=context or value("context_length"), rms_eps=value("attention.layer_norm_rms_epsilon"),
        rope_base=value("rope.freq_base", 10000.0), activation=value("feed_forward.activation", "silu"),
    )


def load(path, context=0):
    """(model, reader) of a GGUF of architecture llama whose head is tied to the embedding."""
    reader = gguf.GGUFReader(path)
    if value_of(reader, "general.architecture") != "llama":
        raise SystemExit(f"{path}: architecture {value_of(reader, 'general.architecture')}, not llama")
    model = Model(config_of(reader, context)).eval()
    state = {
        t.name: torch.from_numpy(np.array(gguf.quants.dequantize(t.data, t.tensor_type), np.float32))
        for t in reader.tensors
    }
    if "output.weight" in state:
        raise SystemExit(f"{path}: a head of its own (output.weight) is not supported")
    model.load_state_dict(state)
    return model, reader


def copy_header(writer, reader, changed):
    """All keys of another file but those that the writer makes itself; `changed` keys have new values."""
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", *changed):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, sub_type=sub)


def write(path, reader, state, strings):
    """A file with another one's header and new weights: F16 matrices, F32 vectors. It is renamed into place."""
    writer = gguf.GGUFWriter(path + ".tmp", "llama")
    copy_header(writer, reader, {*strings, "general.file_type"})
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    for key, text in strings.items():
        writer.add_string(key, text)
    for name, x in state.items():
        x = np.ascontiguousarray(x.float().cpu().numpy())
        writer.add_tensor(name, x if x.ndim == 1 else x.astype(np.float16),
                          raw_dtype=GGMLQuantizationType.F32 if x.ndim == 1 else GGMLQuantizationType.F16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(path + ".tmp", path)
