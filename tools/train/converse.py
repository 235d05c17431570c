# SPDX-License-Identifier: MIT
# Text that a chat model writes itself: it asks in the user's place, answers, and continues from nothing. What it
# writes is what a copy of it is to write as well, so nothing is better to distil it on. Asks a running server.
import argparse
import json
import random
import threading
import time
import urllib.request

START = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
USER, ASSISTANT, END = "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n"
BEGIN = "<|endoftext|>"


def arguments():
    p = argparse.ArgumentParser(description="Lets a chat model (ChatML) write text of its own; see README.md.")
    p.add_argument("--url", default="http://127.0.0.1:8080", help="of `hearth serve MODEL --parallel N`")
    p.add_argument("--out", required=True, help="file with a text in JSON on each line; it is added to")
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--parallel", type=int, default=24, help="texts at a time (default 24)")
    p.add_argument("--free", type=float, default=0.4, help="share of texts that are no conversation (default 0.4)")
    p.add_argument("--temperature", type=float, default=0.8, help="of texts and answers (default 0.8; questions: 0.1 more)")
    p.add_argument("--top-p", type=float, default=0.95, help="(default 0.95); small models drift into noise with 1")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


class Writer:
    def __init__(self, args):
        self.args, self.lock, self.tokens = args, threading.Lock(), 0
        self.end, self.out = time.monotonic() + 60 * args.minutes, open(args.out, "a", encoding="utf-8")

    def ask(self, prompt, n, temperature, rng):
        """(text, whether the model ended it itself)."""
        body = {"prompt": prompt, "n_predict": n, "temperature": temperature, "seed": rng.randrange(1 << 31),
                "top_k": 0, "top_p": self.args.top_p, "min_p": 0.0}
        request = urllib.request.Request(self.args.url + "/completion", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=3600) as answer:
            reply = json.load(answer)
        with self.lock:
            self.tokens += reply["tokens_predicted"]
        return reply["content"], reply.get("stop_type") == "eos"

    def free(self, rng):
        return BEGIN + self.ask(BEGIN, 500, self.args.temperature, rng)[0]

    def conversation(self, rng):
        """One turn, or two; None where not even the first question came to an end."""
        text, turns = START, 0
        for _ in range(1 if rng.random() < 0.75 else 2):
            question, ended = self.ask(text + USER, 120, self.args.temperature + 0.1, rng)
            if not ended:
                break
            turn = text + USER + question + END + ASSISTANT
            answer, ended = self.ask(turn, 400, self.args.temperature, rng)
            text, turns = turn + answer, turns + 1
            if not ended:
                break
            text += END
        return text if turns else None

    def work(self, i):
        rng = random.Random(self.args.seed * 1000 + i)
        while time.monotonic() < self.end:
            text = self.free(rng) if rng.random() < self.args.free else self.conversation(rng)
            with self.lock:
                if text is not None:
                    self.out.write(json.dumps(text) + "\n")
                    self.out.flush()


def main():
    writer = Writer(arguments())
    threads = [threading.Thread(target=writer.work, args=(i,)) for i in range(writer.args.parallel)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"{writer.args.out}: {writer.tokens} tokens written")


if __name__ == "__main__":
    main()
