# SPDX-License-Identifier: MIT
# Makes tests/golden/text: small vocabularies trained on the texts there, and the ids that Hugging Face's tokenizers
# (byte-level BPE) and SentencePiece give to awkward texts. Needs tokenizers, sentencepiece and gguf from PyPI.
#
#   python make_text_goldens.py
#
# Expressions are written here as the models' tokenizer.json files have them, not as Hearth has them.

import io
import json
import os
import random

import gguf
import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "..", "tests", "golden", "text")

CONTRACT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def cl100k(digits):
    return CONTRACT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL


def o200k(end, digits):
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    start = r"[^\r\n\p{L}\p{N}]?"
    words = f"{start}{upper}*{lower}+{end}|{start}{upper}+{lower}*{end}"
    return f"{words}|{digits}" + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL


DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*" + TAIL
)
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
HAN_KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
KIMI_UPPER, KIMI_LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
KIMI = (
    r"[\p{Han}]+"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{KIMI_UPPER}*{KIMI_LOWER}+{CONTRACT}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{KIMI_UPPER}+{KIMI_LOWER}*{CONTRACT}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

# The cased letters that DeepSeek LLM's tokenizer lists, in hexadecimal.
CASED = """
41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C
38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B
1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4
1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113
2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B
2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06
FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF
1E900-1E943
"""


def char_class(ranges):
    return "[" + "".join("-".join(chr(int(end, 16)) for end in r.split("-")) for r in ranges.split()) + "]"


# name: (expressions, one after the other; whether a word that is a token is taken whole)
PRE = {
    "gpt-2": ([GPT2], False),
    "default": ([r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], False),
    "llama-bpe": ([cl100k(r"\p{N}{1,3}")], True),
    "qwen2": ([cl100k(r"\p{N}")], False),
    "qwen35": (
        [CONTRACT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL],
        False,
    ),
    "falcon": ([r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], False),
    "starcoder": ([r"\p{N}", GPT2], False),
    "deepseek-llm": (
        [
            r"[\r\n]",
            r"\s?" + char_class(CASED) + "+",
            "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
            r"\s+$",
            CJK,
            r"\p{N}+",
        ],
        False,
    ),
    "deepseek-coder": ([r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"], False),
    "deepseek-v3": ([r"\p{N}{1,3}", HAN_KANA, DEEPSEEK3], False),
    "tekken": ([o200k("", r"\p{N}")], True),
    "gpt-4o": ([o200k(CONTRACT + "?", r"\p{N}{1,3}")], False),
    "viking": ([BLOOM, r"\p{N}"], False),
    "chameleon": (
        [
            r"<sentinel:[0-9]+>",
            r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
            r"([\t\n]|    |  )",
            r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]",
            GPT2,
        ],
        False,
    ),
    "bailingmoe": (
        [
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        ],
        False,
    ),
    "seed-coder": ([CONTRACT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + TAIL], False),
    "exaone-moe": (
        [
            CONTRACT + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        ],
        False,
    ),
    "kimi-k2": ([KIMI], False),
    "tiny_aya": ([r"\d{1,3}(?=(?:\d{3})*\b)", o200k(CONTRACT + "?", r"\p{N}{1,3}")], False),
    "superbpe": ([r"\p{N}+", r"(?=(\d{3})+(?!\d))"], False),
    "minicpm5": ([r"\p{N}{1,3}", cl100k(r"\p{N}+")], True),
    "youtu": (
        [
            "[\uac00-\ud7a3\u3131-\u318e]+"
            "|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
            "|[\u3105-\u312f]+|" + HAN_KANA,
            o200k(CONTRACT + "?", r"\p{N}"),
        ],
        True,
    ),
    "jais-2": (
        [
            CONTRACT
            + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
            + "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4))
            + r"|\s{1,2}(?!\S)|\s{1}"
        ],
        False,
    ),
}

TEXTS = [
    "",
    " ",
    "  ",
    "   \t ",
    "\n",
    "\n\n\n",
    "\r\n \r\n",
    " \n x\n",
    "a",
    "Hello, world!",
    " Hello  World ",
    "   leading and trailing   ",
    "tabs\tand\n\nnewlines \n  mixed\r\n\tin",
    "I'm we'll YOU'RE they'Ve he'd 'tis o'clock's 'S 'LL rock'n'roll",
    "can't,won't.don't!isn't?",
    "3 33 333 3333 33333 333333 3333333 1,234,567.89 0x1F4 1e-9 \u00bd \u00b2 \u0663\u0664 \u2167",
    "123abc 1234abc 12345.abc 1234567_8",
    "x=42;y+=-1;z**=2<<3>>1&0xff|~7^1",
    "foo(bar)[baz]{qux}<T>::operator->*()",
    "    if (x) {\n        return;\n    }\n\n\n",
    "snake_case camelCase PascalCase SCREAMING_CASE kebab-case HTTPServer2Go iPhone XMLHttpRequest",
    "$100 \u20ac50 \u00a320 \u00a51000 100% ~5 ^2 |x| `code` a+b=c <tag/>",
    "!!!???...,,,;;;:::---___***///\\\\\\",
    "... . . . '''\"\"\"``` -- \u2014 \u2013 \u2018q\u2019 \u201cQ\u201d \u00abg\u00bb \u201eu\u201c 。，、！？「」『』（）：；",
    "Straße GRÖSSE naïve façade Ångström ÀÉÎÕÜ ßẞ \u01c5 ª º \u0149 \ufb01",
    "\u0435\u0308\u0436 ё Ё \u0438\u0306 a\u0301e\u0301 n\u0303o Z\u0351\u036b\u0343a\u0337l\u0363g\u0328o",
    "Быстрая лиса, 42 раза! Ещё ТЕКСТ",
    "η Αθήνα ΑΒΓ \u1f7d \u1fd3 \u03ce",
    "火在爐子裡燃燒，記憶在等待。apple工作1314151天～",
    "你好World世界hello 你 好",
    "ラーメンを食べます。カタカナとひらがな、漢字。\uff8a\uff9d\uff76\uff78\u3005\u3006",
    "안녕하세요 세계! 난로에 불이",
    "مرحبا بالعالم، 123 \u0661\u0662\u0663\u061f שלום עולם",
    "आग जल रही है। नमस्ते ไฟกำลังลุกไหม้ កាន់តែ",
    "🔥🔥 fire ❄\ufe0f 👩\u200d🚀👨\u200d👩\u200d👧\u200d👦 🏳\ufe0f\u200d🌈 e\u20e3 1\ufe0f\u20e3",
    "zero\u200bwidth\u200djoiner\u00adsoft\u2060hyphen\ufeffbom",
    "nbsp\u00a0here\u2003em\u2009thin\u3000ideographic\u2028line\u2029para\u0085nel",
    "\u180emongolian \u1680ogham \u205fmath  \u180e  x",
    "control\x01\x02\x1b[0m\x7f del\x0b\x0cvt ff",
    "\U0001d573\U0001d58a\U0001d591 \U00010437 \U00020000\U0002a736 \U0001f9ff",
    "<|endoftext|> <s> </s> <unk> [INST] <0x0A> <|im_start|>",
    "<sentinel:12> IMGIMGABCZ IMGIMGZ",
    "\u017fs '\u017f \u212a \u00c5 '\u212a",
    "https://example.org/a/b?c=d&e=f#g nobody@example.org",
    "The hearth keeps the hot ones; most neurons are cold.",
    "thethethethethe ininin " + "a" * 51,
    "a b c d e f g h " * 3,
    " " * 41 + "x" + "\n" * 9 + " " * 70,
    "\u2581already\u2581marked \u2581 text\u2581",
    "\u0120byte \u010aalphabet \u0109",
    ".\n/\n\n// a/\n !\r\n.\r\n",
    "path/to/file.c, \"q'uo'te\", (c) 2024; (d)e.f,g:h",
    "1000000 1234567 12 1a 99 bottles,100000000000001",
    "two  12   345    \n 6  ",
]


def corpus():
    lines = open(os.path.join(OUT, "corpus.txt"), encoding="utf-8").read()
    return lines.splitlines(keepends=True)


def add_tokens(w, tokens, types, scores=None):
    w.add_token_list(tokens)
    w.add_token_types(types)
    if scores is not None:
        w.add_token_scores(scores)


def write(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def make_bpe():
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=[]
    )
    # Trained without cuts, on the test's own texts too: merges reach across words, so that a wrong cut shows.
    base = Tokenizer(models.BPE())
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    base.train_from_iterator(corpus() + TEXTS * 2, trainer)
    spec = json.loads(base.to_str())["model"]
    vocab, merges = spec["vocab"], [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in spec["merges"]]
    # Whole words that no merges lead to: only "ignore merges" finds them.
    for word in ("Ġneurons", "hearth", "World", "333", "ä½łå¥½"):
        vocab.setdefault(word, len(vocab))
    cases = {"texts": TEXTS, "ids": {}}
    for name, (expressions, ignore_merges) in PRE.items():
        t = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
        splits = [pre_tokenizers.Split(Regex(e), "isolated") for e in expressions]
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        t.pre_tokenizer = pre_tokenizers.Sequence(splits + [byte_level])
        t.decoder = decoders.ByteLevel()
        rows = [t.encode(text).ids for text in TEXTS]
        assert all(t.decode(row) == text for row, text in zip(rows, TEXTS)), name
        cases["ids"][name] = rows
    for a in PRE:
        for b in PRE:
            same = a == b or {a, b} == {"qwen2", "bailingmoe"}  # written differently, but the same cuts
            assert same or cases["ids"][a] != cases["ids"][b], f"{a} and {b} look the same"
    tokens = [k for k, _ in sorted(vocab.items(), key=lambda kv: kv[1])]
    w = gguf.GGUFWriter(os.path.join(OUT, "bpe.gguf"), "llama")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    end = len(tokens)
    tokens += ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>"]
    add_tokens(w, tokens, [1] * end + [3, 3, 3, 4])
    w.add_token_merges([" ".join(m) for m in merges])
    w.add_eos_token_id(end)
    w.add_bos_token_id(end)
    write(w)
    return cases


def make_merges():
    """As Gemma 4's: over characters, by merges, spaces marked, bytes for unknown characters, no cuts at all."""
    base = Tokenizer(models.BPE())
    base.normalizer = normalizers.Replace(" ", "\u2581")
    trainer = trainers.BpeTrainer(vocab_size=900, limit_alphabet=120, show_progress=False, special_tokens=[])
    base.train_from_iterator(["".join(corpus()), *TEXTS * 2, "\n" * 24, " " * 40], trainer)
    spec = json.loads(base.to_str())["model"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in spec["merges"]]
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>", "<|tool_call>"]
    types = [3, 3, 3, 3, 3, 3, 4]
    for byte in range(256):
        tokens.append(f"<0x{byte:02X}>")
        types.append(6)
    ordered = [k for k, _ in sorted(spec["vocab"].items(), key=lambda kv: kv[1])]
    tokens, types = tokens + ordered, types + [1] * len(ordered)
    t = Tokenizer(models.BPE(vocab={k: i for i, k in enumerate(tokens)}, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    w = gguf.GGUFWriter(os.path.join(OUT, "merges.gguf"), "gemma4")
    w.add_tokenizer_model("gemma4")
    add_tokens(w, tokens, types, [-1000.0] * len(tokens))
    w.add_token_merges([" ".join(m) for m in merges])
    for name, i in (("pad", 0), ("eos", 1), ("bos", 2), ("unk", 3)):
        getattr(w, f"add_{name}_token_id")(i)
    w.add_add_space_prefix(False)
    w.add_add_bos_token(False)  # as early files have it
    write(w)
    rng = random.Random(11)
    pieces = [k.replace("\u2581", " ") for k in ordered]
    texts = TEXTS + ["".join(rng.choices(pieces, k=rng.randrange(1, 30))) for _ in range(30)]
    texts += ["\n" * n for n in (2, 5, 7, 23, 31)] + ["a\n\nb\n \n\n  c"]
    return {"texts": texts, "ids": {"merges": [t.encode(text).ids for text in texts]}}


def train_spm(**kw):
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(line.rstrip("\n") for line in corpus()),
        model_writer=model,
        model_type="bpe",
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        max_sentence_length=100000,
        minloglevel=2,
        hard_vocab_limit=False,
        **kw,
    )
    return model.getvalue()


def make_spm(name, **kw):
    blob = train_spm(**kw)
    p = spm.SentencePieceProcessor(model_proto=blob)
    proto = pb.ModelProto.FromString(blob)
    w = gguf.GGUFWriter(os.path.join(OUT, name + ".gguf"), "llama")
    w.add_tokenizer_model("llama")
    add_tokens(
        w,
        [piece.piece for piece in proto.pieces],
        [piece.type for piece in proto.pieces],
        [piece.score for piece in proto.pieces],
    )
    w.add_bos_token_id(p.bos_id())
    w.add_eos_token_id(p.eos_id())
    w.add_unk_token_id(p.unk_id())
    w.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    write(w)
    rng = random.Random(7)
    alphabet = [piece.piece.replace("\u2581", " ") for piece in proto.pieces if piece.type == 1]
    texts = TEXTS + ["".join(rng.choices(alphabet, k=rng.randrange(1, 30))) for _ in range(20)]
    return {"texts": texts, "ids": {name: [p.encode(text) for text in texts]}}


def dump(name, cases):
    with open(os.path.join(OUT, name + ".json"), "w", encoding="utf-8") as f:
        f.write('{"texts": [\n')
        f.write(",\n".join(json.dumps(text) for text in cases["texts"]))
        f.write('\n], "ids": {\n')
        rows = []
        for pre, ids in cases["ids"].items():
            lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in ids)
            rows.append(json.dumps(pre) + ": [\n" + lines + "]")
        f.write(",\n".join(rows) + "\n}}\n")


def main():
    dump("bpe", make_bpe())
    # As Llama's: bytes for unknown characters, digits one by one, runs of spaces as pieces.
    spm_cases = make_spm(
        "spm", vocab_size=760, byte_fallback=True, split_digits=True, allow_whitespace_only_pieces=True,
        character_coverage=0.98,
    )  # fmt: skip
    dump("spm", spm_cases)
    # No bytes: unknown characters become <unk>. No space put before the text; pieces reach across spaces.
    plain_cases = make_spm(
        "spm-plain", vocab_size=600, character_coverage=0.98, add_dummy_prefix=False, split_by_whitespace=False,
        split_by_number=False, split_by_unicode_script=False,
    )  # fmt: skip
    dump("spm-plain", plain_cases)
    dump("merges", make_merges())


if __name__ == "__main__":
    main()
