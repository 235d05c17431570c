# SPDX-License-Identifier: MIT
# From a folder or archive of plain-text books to token files: reading, the held-out books, cutting into documents,
# training the byte-level BPE vocabulary, encoding.
import json
import os
import random
import tarfile

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"  # begins every document; id 0; both BOS and EOS


def read_corpus(path):
    """[(name, text)] sorted by name from a folder or a tar archive of .txt files."""
    books = []
    if os.path.isdir(path):
        for root, _, files in os.walk(path):
            for name in files:
                if name.endswith(".txt"):
                    with open(os.path.join(root, name), "rb") as f:
                        books.append((name, f.read()))
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                if member.isfile() and member.name.endswith(".txt"):
                    books.append((os.path.basename(member.name), tar.extractfile(member).read()))
    if len(books) < 3:
        raise SystemExit(f"{path}: fewer than three .txt files; give a folder or a tar archive of books")
    return sorted((name, tidy(raw.decode("utf-8", "replace"))) for name, raw in books)


PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2014": " - ", "\ufeff": ""})


def tidy(text):
    """One paragraph a line, a blank line between: undoes hard wrapping, indents, doubled spaces, typographic quotes.

    Transcribers wrap in many ways; left alone, a small model spends itself on guessing line ends.
    """
    lines = text.translate(PLAIN).splitlines()
    widths = sorted(len(line) for line in lines if line.strip())
    if not widths:
        return ""
    wide = widths[len(widths) * 9 // 10]
    wrapped = wide < 110
    paragraphs, open_ = [], False
    for line in lines:
        words = " ".join(line.split())
        if not words:
            open_ = False
            continue
        if wrapped and open_ and not line.startswith(("  ", "\t")):
            paragraphs[-1] += " " + words
        else:
            paragraphs.append(words)
        # A short line that closes a sentence ends its paragraph where no blank line says so.
        open_ = len(line) > 0.8 * wide or words[-1] not in ".!?\"':"
    return "\n\n".join(paragraphs)


def split_books(books, held_out):
    """(training books, validation books); without names, two books spread over the sorted list are held out."""
    names = held_out or [books[len(books) // 3][0], books[2 * len(books) // 3][0]]
    missing = set(names) - {name for name, _ in books}
    if missing:
        raise SystemExit(f"no such book to hold out: {', '.join(sorted(missing))}")
    return [b for b in books if b[0] not in names], [b for b in books if b[0] in names]


def cut_documents(text, rng, low=1500, high=6000):
    """Cut a book at paragraph borders into documents of low..high bytes, so that the model sees many beginnings."""
    documents, piece, size, goal = [], [], 0, rng.randint(low, high)
    for paragraph in text.split("\n\n"):
        piece.append(paragraph)
        size += len(paragraph) + 2
        if size >= goal:
            documents.append("\n\n".join(piece).strip())
            piece, size, goal = [], 0, rng.randint(low, high)
    documents.append("\n\n".join(piece).strip())
    return [d for d in documents if d]


def train_tokenizer(texts, vocab):
    """Byte-level BPE with GPT-2's pre-tokenizer, its byte alphabet, and one special token."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tok.train_from_iterator(texts, trainer)
    if tok.get_vocab_size() != vocab:
        raise SystemExit(f"the corpus gives only {tok.get_vocab_size()} of {vocab} tokens; use more text")
    return tok


def encode(tok, texts):
    """Token ids, without special tokens, one list per text."""
    return [e.ids for e in tok.encode_batch(texts, add_special_tokens=False)]


def window_rows(ids, end, context):
    """Rows [n, context] of consecutive text, each begun with the end-of-text token: the validation layout."""
    n = len(ids) // (context - 1)
    rows = np.empty((n, context), np.uint16)
    rows[:, 0] = end
    rows[:, 1:] = np.asarray(ids[: n * (context - 1)], np.uint16).reshape(n, context - 1)
    return rows


def prepare(corpus, folder, cfg, held_out, seed):
    """Write tokenizer.json, train.bin, val.bin (uint16) and data.json to folder, unless they are there already."""
    meta_path = os.path.join(folder, "data.json")
    if os.path.exists(meta_path):
        return
    if corpus is None:
        raise SystemExit(f"{folder} holds no prepared data yet: give --corpus")
    os.makedirs(folder, exist_ok=True)
    train, val = split_books(read_corpus(corpus), held_out)
    tok = train_tokenizer((text for _, text in train), cfg.vocab)
    tok.save(os.path.join(folder, "tokenizer.json"))
    end = tok.token_to_id(END)

    rng = random.Random(seed)
    documents = [d for _, text in train for d in cut_documents(text, rng)]
    rng.shuffle(documents)
    stream, step = [], 512
    for i in range(0, len(documents), step):
        for ids in encode(tok, documents[i : i + step]):
            stream.append(np.asarray([end, *ids], np.uint16))
    stream = np.concatenate(stream)
    stream.tofile(os.path.join(folder, "train.bin"))

    rows, val_bytes = [], 0
    for _, text in val:
        part = window_rows(encode(tok, [text])[0], end, cfg.context)
        rows.append(part)
        val_bytes += sum(len(s.encode()) for s in tok.decode_batch([r[1:].tolist() for r in part]))
    rows = np.concatenate(rows)
    rows.tofile(os.path.join(folder, "val.bin"))
    meta = {
        "books": len(train),
        "held_out": [name for name, _ in val],
        "train_bytes": sum(len(d.encode()) for d in documents),
        "train_tokens": int(stream.size),
        "documents": len(documents),
        "val_rows": len(rows),
        "val_tokens": int(rows[:, 1:].size),
        "val_bytes": val_bytes,
        "end_id": end,
    }
    with open(meta_path + ".tmp", "w") as f:
        json.dump(meta, f, indent=1)
    os.replace(meta_path + ".tmp", meta_path)


class Batches:
    """Training rows in an order that depends only on (seed, step): a resumed run sees what it would have seen."""

    def __init__(self, folder, context, batch, seed):
        self.data = np.fromfile(os.path.join(folder, "train.bin"), np.uint16)
        self.context, self.batch, self.seed = context, batch, seed
        self.per_epoch = ((self.data.size - 1) // context - 1) // batch
        if self.per_epoch < 1:
            raise SystemExit("the training text is shorter than one batch")
        self.epoch = -1

    def __call__(self, step):
        """ids and targets [batch, context], int64."""
        epoch, i = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            rng = np.random.default_rng((self.seed, epoch))
            self.shift = int(rng.integers(self.context))
            self.order = rng.permutation(self.per_epoch * self.batch)
            self.epoch = epoch
        starts = self.order[i * self.batch : (i + 1) * self.batch] * self.context + self.shift
        rows = np.stack([self.data[s : s + self.context + 1] for s in starts]).astype(np.int64)
        return rows[:, :-1], rows[:, 1:]


def val_rows(folder, context):
    """The held-out rows [n, context], int64."""
    return np.fromfile(os.path.join(folder, "val.bin"), np.uint16).astype(np.int64).reshape(-1, context)
