# SPDX-License-Identifier: MIT
# The tokenizers of tests/golden/hf, for make_hf.py: small vocabularies in the forms that Hugging Face folders have, and what
# the tokenizers' own libraries make of some texts.

import base64
import json
import os

import sentencepiece.sentencepiece_model_pb2 as pb
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from oracle_common import N_VOCAB, SPM_SPACE, BpeVocab, SpmVocab


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


TEXTS = [
    "The hen and the hearth", " two  spaces and\nlines\n\n", "I'm 12345 we'll <|eot_id|> x</s>", "naïve 火 🔥 ß", "\tin 3.14 the_end()",
    "", "the inner tool<tool>er",
]
LLAMA3 = BpeVocab.SPLIT
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def bpe(specials, split=None, steps=None, ignore_merges=False, normalizer=None):
    vocab = BpeVocab()
    base = {t: i for i, t in enumerate(vocab.tokens[: 256 + len(vocab.merges)])}
    merges = [tuple(m.split(" ")) for m in vocab.merges]
    t = Tokenizer(models.BPE(vocab=base, merges=merges, ignore_merges=ignore_merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.pre_tokenizer = pre_tokenizers.Sequence(steps or [pre_tokenizers.Split(Regex(split), "isolated"), byte_level])
    t.decoder = decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    t.add_tokens([AddedToken(s, special=is_special, normalized=False) for s, is_special in specials])
    return t


def llama3_tokenizer(folder):
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|odd_end"]
    t = bpe([(n, i < 3) for i, n in enumerate(names)], LLAMA3, ignore_merges=True)
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
            special_tokens=[("<|begin_of_text|>", 284)],
        ),
    ])  # fmt: skip
    t.save(os.path.join(folder, "tokenizer.json"))
    config = {"bos_token": "<|begin_of_text|>", "eos_token": {"__type": "AddedToken", "content": "<|eot_id|>"}, "chat_template": TEMPLATE,
              "tokenizer_class": "PreTrainedTokenizerFast"}  # fmt: skip
    write_json(folder, "tokenizer_config.json", config)
    write_json(folder, "generation_config.json", {"bos_token_id": 284, "eos_token_id": [285, 286, 287]})


def qwen_tokenizer(folder):
    names = [("<|endoftext|>", True), ("<|im_end|>", True), ("<tool>", False)]
    t = bpe(names, QWEN2, normalizer=normalizers.NFC())
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.save(os.path.join(folder, "tokenizer.json"))
    config = {"add_bos_token": False, "add_prefix_space": False, "bos_token": None, "eos_token": "<|im_end|>",
              "pad_token": "<|endoftext|>", "tokenizer_class": "Qwen2Tokenizer"}  # fmt: skip
    write_json(folder, "tokenizer_config.json", config)
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(TEMPLATE)


def falcon_tokenizer(folder):
    steps = [
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
    ]  # fmt: skip
    bpe([("<|endoftext|>", True)], steps=steps).save(os.path.join(folder, "tokenizer.json"))
    write_json(folder, "tokenizer_config.json", {"eos_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"})


def spm_model():
    vocab = SpmVocab()
    m = pb.ModelProto()
    for token, score, kind in zip(vocab.tokens, vocab.scores, vocab.types):
        m.pieces.add(piece=token, score=score, type=kind)
    m.trainer_spec.model_type = 2
    m.trainer_spec.byte_fallback = True
    m.trainer_spec.vocab_size = N_VOCAB
    m.normalizer_spec.name = "identity"
    m.normalizer_spec.add_dummy_prefix = True
    m.normalizer_spec.remove_extra_whitespaces = False
    return m


SPM_CONFIG = {
    "add_bos_token": True, "add_eos_token": False, "bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>", "unk_token": "<unk>",
    "tokenizer_class": "LlamaTokenizer",
    "added_tokens_decoder": {
        str(i): {"content": t, "special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
        for i, t in enumerate(["<unk>", "<s>", "</s>"])
    },
    "chat_template": [{"name": "default", "template": TEMPLATE}, {"name": "tool_use", "template": "{{ tools }}"}],
}  # fmt: skip


def spm_tokenizer(folder):
    with open(os.path.join(folder, "tokenizer.model"), "wb") as f:
        f.write(spm_model().SerializeToString(deterministic=True))
    write_json(folder, "tokenizer_config.json", SPM_CONFIG)


# Best first; unlike SPM_PIECES, all characters are there, as merges need them.
JSON_PIECES = "_t he _the _a in re er nd _and on at _h _s is it en ea ha _ t h e a n d i r s o".split(" ")


def spm_json_tokenizer(folder):
    """Such a vocabulary in the form that transformers has."""
    ids = {t: i for i, t in enumerate(SpmVocab().tokens[:259] + [p.replace("_", SPM_SPACE) for p in JSON_PIECES])}
    merges = []
    for piece in JSON_PIECES:
        piece = piece.replace("_", SPM_SPACE)
        splits = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        merges += sorted((s for s in splits if s[0] in ids and s[1] in ids), key=lambda s: (ids[s[0]], ids[s[1]]))
    t = Tokenizer(models.BPE(vocab=ids, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend(SPM_SPACE), normalizers.Replace(" ", SPM_SPACE)])
    t.decoder = decoders.Sequence([decoders.Replace(SPM_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    t.add_special_tokens([AddedToken(s, normalized=False) for s in ("<unk>", "<s>", "</s>")])
    t.save(os.path.join(folder, "tokenizer.json"))
    write_json(folder, "tokenizer_config.json", SPM_CONFIG)


GEMMA_SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>"]
# Where a text may have them: those of turns are control tokens, those of calls are not, whatever the file says.
GEMMA_MARKS = [("<|turn>", True), ("<turn|>", True), ("<|tool_call>", True), ('<|"|>', True), ("[word]", False)]


def gemma4_tokenizer(folder):
    """BPE over characters with merges, as in Gemma 4: spaces become marks, lines' ends and other characters may be bytes."""
    pieces = [p.replace("_", SPM_SPACE) for p in JSON_PIECES if len(p) < 3][: N_VOCAB - 260 - len(GEMMA_MARKS)]
    tokens = GEMMA_SPECIALS + [f"<0x{i:02X}>" for i in range(256)] + [m for m, _ in GEMMA_MARKS] + pieces
    ids = {t: i for i, t in enumerate(tokens)}
    merges = [(p[0], p[1]) for p in pieces if len(p) == 2 and p[0] in ids and p[1] in ids]
    t = Tokenizer(models.BPE(vocab=ids, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.Replace(" ", SPM_SPACE)
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace(SPM_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", 2)])
    t.add_tokens([AddedToken(s, special=is_special, normalized=False) for s, is_special in [(s, True) for s in GEMMA_SPECIALS] + GEMMA_MARKS])
    t.save(os.path.join(folder, "tokenizer.json"))
    config = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>",
              "tokenizer_class": "PreTrainedTokenizerFast"}  # fmt: skip
    write_json(folder, "tokenizer_config.json", config)
    write_json(folder, "generation_config.json", {"bos_token_id": 2, "eos_token_id": [1, 261]})
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(TEMPLATE)


def gpt2_tokenizer(folder):
    vocab = BpeVocab()
    ids = {"</s>": 2}
    for t in vocab.tokens[: 256 + len(vocab.merges)]:
        ids[t] = len(ids) - 1 if len(ids) <= 2 else len(ids)
    write_json(folder, "vocab.json", ids)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "\n".join(vocab.merges) + "\n")
    write_json(folder, "tokenizer_config.json", {"bos_token": "</s>", "eos_token": "</s>", "tokenizer_class": "GPT2Tokenizer"})


KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])  # fmt: skip
KIMI_SPECIALS = ["[BOS]", "[EOS]", "<|im_end|>", "<|reserved_token_287|>"]


def kimi_ranks():
    """{bytes: rank} of the vocabulary of BpeVocab."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode
    vocab, byte_of = BpeVocab(), {c: b for b, c in bytes_to_unicode().items()}
    return {bytes(byte_of[c] for c in t): i for i, t in enumerate(vocab.tokens[: 256 + len(vocab.merges)])}


def tiktoken_tokenizer(folder):
    """Kimi's: a token and its rank in each line."""
    with open(os.path.join(folder, "tiktoken.model"), "wb") as f:
        for token, rank in kimi_ranks().items():
            f.write(base64.b64encode(token) + b" %d\n" % rank)
    added = {str(284 + i): {"content": t, "special": True} for i, t in enumerate(KIMI_SPECIALS[:3])}
    config = {"added_tokens_decoder": added, "bos_token": "[BOS]", "eos_token": "[EOS]", "tokenizer_class": "TikTokenTokenizer",
              "chat_template": TEMPLATE}  # fmt: skip
    write_json(folder, "tokenizer_config.json", config)


class KimiTokenizer:
    """What llama.cpp's converter asks of the tokenizer that Kimi's checkpoints bring along as code."""

    def __init__(self):
        self.model = type("Model", (), {"_mergeable_ranks": kimi_ranks()})
        self.special_tokens = {t: 284 + i for i, t in enumerate(KIMI_SPECIALS)}


TOKENIZERS = {
    "llama3": (llama3_tokenizer, "llama-bpe"), "qwen": (qwen_tokenizer, "qwen2"), "falcon": (falcon_tokenizer, "falcon"),
    "spm": (spm_tokenizer, None), "spm-json": (spm_json_tokenizer, None), "gpt2": (gpt2_tokenizer, "gpt-2"),
    "gemma4": (gemma4_tokenizer, None), "tiktoken": (tiktoken_tokenizer, "kimi-k2"),
}  # fmt: skip


def tokenizer_ids(kind, folder):
    """Ids of TEXTS, special tokens that the texts name included, and what is added to a text."""
    if kind == "spm":
        import sentencepiece
        p = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "tokenizer.model"))
        return [[1] + p.encode(t) for t in TEXTS if "</s>" not in t]
    if kind == "tiktoken":
        import tiktoken
        specials = {t: 284 + i for i, t in enumerate(KIMI_SPECIALS)}
        t = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=kimi_ranks(), special_tokens=specials)
        return [t.encode(text, allowed_special="all") for text in TEXTS]
    if kind == "gpt2":
        t = Tokenizer(models.BPE.from_file(os.path.join(folder, "vocab.json"), os.path.join(folder, "merges.txt")))
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return [[2] + t.encode(text).ids for text in TEXTS if "</s>" not in text]
    t = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    return [t.encode(text).ids for text in TEXTS]


def make_tokenizer(kind, out):
    folder = os.path.join(out, "tokenizers", kind)
    os.makedirs(folder, exist_ok=True)
    TOKENIZERS[kind][0](folder)
    for name in os.listdir(folder): # without indentation
        path = os.path.join(folder, name)
        if name.endswith(".json") and name != "ids.json":
            write_json(folder, name, json.load(open(path, encoding="utf-8")))
    ids = tokenizer_ids(kind, folder)
    texts = TEXTS if len(ids) == len(TEXTS) else [t for t in TEXTS if "</s>" not in t]
    write_json(folder, "ids.json", {"texts": texts, "ids": ids})
