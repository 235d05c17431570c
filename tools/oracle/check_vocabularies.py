# SPDX-License-Identifier: MIT
# Tokenizing with vocabularies that no test has: for each family of byte-level BPE a new vocabulary is trained, with the
# family's own steps as its tokenizer.json spells them (not as Hearth or GGUF does), and random awkward texts are encoded by
# Hugging Face's tokenizers, by llama.cpp and by Hearth. Hearth must agree with Hugging Face's; where llama.cpp does not,
# that is counted. Special tokens are in it, and bytes that are no UTF-8 must come back through `hearth detokenize`.
#
#   LLAMA_LIBS=DIR python check_vocabularies.py HEARTH [--seed N] [--texts N] [FAMILY ... | VOCABULARY.gguf ...]
#
# For a given .gguf there is no reference but llama.cpp, and every difference is shown. Published vocabularies may have no
# token for some bytes, which are then lost.

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, Digits, Punctuation, Split

import llama_cpp
from make_text_goldens import CASED, CJK, GPT2, OUT, TEXTS, cl100k, char_class

WORDS = ByteLevel(add_prefix_space=False, use_regex=True)
BYTES = ByteLevel(add_prefix_space=False, use_regex=False)


def isolated(*expressions):
    return [Split(Regex(e), "isolated") for e in expressions]


# name under tokenizer.ggml.pre: the steps of the family's tokenizer.json
FAMILIES = {
    "falcon": [Punctuation("contiguous"), WORDS, *isolated("[0-9][0-9][0-9]")],
    "starcoder": [Digits(individual_digits=True), WORDS],
    "refact": [Digits(individual_digits=True), WORDS],
    "command-r": [Digits(individual_digits=True), WORDS],
    "mpt": [WORDS],
    "gpt-2": [WORDS],
    "gpt-neox": [WORDS],
    "deepseek-coder": [*isolated(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK), Digits(individual_digits=True), BYTES],
    "deepseek-llm": [
        *isolated(
            r"[\r\n]", r"\s?" + char_class(CASED) + "+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
            r"\s+$", CJK, r"\p{N}+",
        ),
        BYTES,
    ],
    # No model's: what llama.cpp does with files that name no pre-tokenizer.
    "default": [*isolated(r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"), BYTES],
    "llama-bpe": [*isolated(cl100k(r"\p{N}{1,3}")), BYTES],
    "qwen2": [*isolated(cl100k(r"\p{N}")), BYTES],
}  # fmt: skip

# The names that GGUF files use for control tokens, and user's words that are found anywhere.
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<fim_prefix>"]
OWN_WORDS = ["    ", "<tool>", "hearth~stone"]

SCRIPTS = [
    (0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x250, 0x2AF), (0x2B0, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x5FF),
    (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x13A0, 0x13FF), (0x1780, 0x17FF),
    (0x1D00, 0x1DBF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x20CF), (0x2100, 0x218F), (0x2190, 0x23FF), (0x2460, 0x24FF),
    (0x2C00, 0x2DFF), (0x3000, 0x30FF), (0x3100, 0x318F), (0x3200, 0x33FF), (0x4E00, 0x4FFF), (0xA640, 0xA7FF), (0xAB30, 0xABBF),
    (0xAC00, 0xAEFF), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFEF), (0x10400, 0x1044F), (0x1D400, 0x1D7FF),
    (0x1F300, 0x1F6FF), (0x20000, 0x200FF), (0xE0000, 0xE007F),
]  # fmt: skip
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\u00a0", "\u2009", "\u3000", "\u0085", "\u2028", "\u180e", "\x0b", "\x0c", " \n", "\n "]
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'Re", "\u2019s", "'\u017f", "'x", "n't"]
EMOJI = ["🔥", "👩\u200d🚀", "👨\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "1\ufe0f\u20e3", "❄\ufe0f", "🇩🇪", "👍🏽"]
CODE = ["==", "!=", "->", "//", "/*", "*/", "&&", "||", "+=", "<<", "$x", "`a`", "#define", "::", "...", "\\n", "^", "~", "|", "@", "_", "__init__"]


def awkward(rng):
    """A text of 1 to 24 pieces of all kinds."""
    text = ""
    for _ in range(rng.randrange(1, 25)):
        kind = rng.randrange(12)
        if kind == 0:
            low, high = rng.choice(SCRIPTS)
            text += "".join(chr(rng.randint(low, high)) for _ in range(rng.randrange(1, 7)))
        elif kind == 1:
            text += "".join(rng.choice("0123456789") for _ in range(rng.randrange(1, 9)))
        elif kind == 2:
            text += rng.choice(CONTRACTIONS)
        elif kind == 3:
            text += rng.choice(EMOJI)
        elif kind == 4:
            text += rng.choice(CODE)
        elif kind in (5, 6):
            text += rng.choice(SPACES)
        elif kind == 7:
            source = rng.choice(TEXTS)
            at = rng.randrange(len(source) + 1)
            text += source[at : at + rng.randrange(12)]
        elif kind == 8:
            text += rng.choice("½²³٣४५Ⅷⅻ㊿①０９") * rng.randrange(1, 4)
        elif kind == 9:
            text += " " * rng.randrange(1, 9)
        else:
            text += rng.choice([" ", ""]) + rng.choice("the hearth Keeps HOT ones neurons naïve Straße мир 世界 κόσμος".split())
    return text


def with_specials(rng, text):
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(CONTROL + OWN_WORDS + ["<|endoftext", "<tool"]) + text[at:]
    return text


def known(text):
    """Whether all characters are old enough that everybody's Unicode tables agree (Python's is the oldest here)."""
    return all(unicodedata.category(c) not in ("Cn", "Cs", "Co") for c in text)


def train(steps, rng, size):
    """A tokenizer of `size` tokens, the same with words that are found in any text, and with control tokens too."""
    made = []
    for _ in range(3):
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.Sequence(list(steps))
        made.append(t)
    lines = open(os.path.join(OUT, "corpus.txt"), encoding="utf-8").read().splitlines(keepends=True)
    lines += [text for text in (awkward(rng) for _ in range(3000)) if known(text)]
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=ByteLevel.alphabet(), show_progress=False, special_tokens=[], min_frequency=2
    )
    made[0].train_from_iterator(lines, trainer)
    for t, control in zip(made[1:], (False, True)):
        t.model = made[0].model
        t.add_special_tokens([AddedToken(c if control else f"\0{c}", normalized=False) for c in CONTROL])
        t.add_tokens([AddedToken(c, normalized=False) for c in OWN_WORDS])
    return made


def write_vocabulary(path, pre, tokenizer):
    spec = json.loads(tokenizer.to_str())
    vocab = spec["model"]["vocab"]
    tokens = [k for k, _ in sorted(vocab.items(), key=lambda kv: kv[1])] + CONTROL + OWN_WORDS
    types = [1] * len(vocab) + [3] * len(CONTROL) + [4] * len(OWN_WORDS)
    merges = [m if isinstance(m, str) else " ".join(m) for m in spec["model"]["merges"]]
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_merges(merges)
    w.add_bos_token_id(len(vocab))
    w.add_eos_token_id(len(vocab))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


class Hearth:
    def __init__(self, program, path):
        self.program, self.path = program, path

    def run(self, command, data, *options):
        done = subprocess.run([self.program, command, self.path, *options], input=data, capture_output=True)
        if done.returncode:
            sys.exit(f"hearth {command} {self.path}: {done.stderr.decode()}")
        return done.stdout

    def tokenize(self, data, special=False):
        out = self.run("tokenize", data, "--no-bos", *([] if special else ["--no-parse-special"]))
        return [int(t) for t in out.split()]


def check_bytes(hearth, rng, n):
    """Bytes that are no UTF-8 come back as they were; returns how often not."""
    bad = 0
    for _ in range(n):
        data = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 40)))
        data = awkward(rng).encode()[: rng.randrange(20)] + data
        ids = hearth.run("tokenize", data, "--no-bos", "--no-parse-special")
        bad += hearth.run("detokenize", ids) != data
    return bad


def open_llama(path, name, tokenizer):
    """llama.cpp with the vocabulary; it does not know gpt-neox by name, which has gpt-2's words."""
    if name == "gpt-neox":
        path = path.replace(".gguf", "-2.gguf")
        write_vocabulary(path, "gpt-2", tokenizer)
    return llama_cpp.Model(path, vocab_only=True)


def check_family(program, name, texts, seed, folder):
    rng = random.Random(seed * 1000 + sum(map(ord, name)))
    plain, *with_words = train(FAMILIES[name], rng, rng.choice((700, 1500, 3000)))
    path = os.path.join(folder, name + ".gguf")
    write_vocabulary(path, name, plain)
    hearth, llama = Hearth(program, path), open_llama(path, name, plain)
    bad = llama_differs = compared = 0
    for i in range(texts):
        text = awkward(rng)
        if not known(text):
            continue
        compared += 1
        parse = i % 3 == 0
        text = with_specials(rng, text) if i % 2 == 0 else text
        want = with_words[parse].encode(text, add_special_tokens=False).ids
        got = hearth.tokenize(text.encode(), parse)
        llama_differs += llama.tokenize(text, False, parse) != want
        if got != want:
            bad += 1
            if bad <= 3:
                print(f"  {text!r}\n    reference {want}\n    hearth    {got}\n    llama.cpp {llama.tokenize(text, False, parse)}")
    lost = check_bytes(hearth, rng, texts // 10)
    llama.close()
    print(f"{name}: {plain.get_vocab_size()} tokens, {compared} texts: hearth differs {bad}, llama.cpp {llama_differs}; bytes lost {lost}")
    return bad + lost


def check_file(program, path, texts, seed):
    rng = random.Random(seed)
    hearth, llama = Hearth(program, path), llama_cpp.Model(path, vocab_only=True)
    bad = 0
    for i in range(texts):
        text = awkward(rng)
        got, want = hearth.tokenize(text.encode()), llama.tokenize(text, False, False)
        if got != want:
            bad += 1
            print(f"  {text!r}\n    hearth    {got}\n    llama.cpp {want}")
    lost = check_bytes(hearth, rng, texts // 10)
    llama.close()
    print(f"{os.path.basename(path)}: {texts} texts: {bad} differ; bytes lost {lost}")
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("hearth")
    p.add_argument("what", nargs="*", help="families (default: all), or vocabularies as .gguf")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--texts", type=int, default=600)
    a = p.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in a.what or FAMILIES:
            if name.endswith(".gguf"):
                bad += check_file(a.hearth, name, a.texts, a.seed)
            else:
                bad += check_family(a.hearth, name, a.texts, a.seed, folder)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
