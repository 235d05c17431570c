// SPDX-License-Identifier: MIT
// make bench-versions: two versions of Hearth in turn, so that a change of the machine's speed meets both: does a change of the
// code cost speed? Quoted are the medians and the median of the pairs' ratios, new by old. Each model that is given adds its
// cases: a dense one decode and prefill; a sparse pack steps in memory and with half of the bytes in memory; a model with
// experts the latter.
import { availableParallelism } from "node:os";
import { statSync } from "node:fs";
import { attempt, count, fail, file, median, misuse, options, rowsOf, run, threadCount, writeReport } from "./common.mjs";

const o = options("Two versions of Hearth in turn on the same models.", {
    old: file("the other version's program"),
    dense: file("a dense model: decode and prefill"),
    sparse: file("a pack with predictors: steps in memory, and with half of its bytes in memory"),
    experts: file("a model with experts: steps with half of its bytes in memory"),
    pairs: count(5, "how often each case is run with both programs"),
    gen: count(32, "tokens to generate", 2),
    prompt: count(256, "tokens of a prompt"),
    share: count(50, "percent of a file's bytes that are in memory where not all are"),
    threads: threadCount(),
});
if (!o.old)
    misuse("--old is missing: the program to compare with");
if (!o.dense && !o.sparse && !o.experts)
    misuse("there is nothing to measure without --dense, --sparse or --experts");
const now = o.hearth ?? new URL("../build/hearth", import.meta.url).pathname;

// Tokens per second of hearth bench.
const bench = (program, model, args) =>
    rowsOf(program, run(program, ["bench", model, "-t", o.threads, "-o", "json", "-r", 1, "-npl", 1, ...args]))[0].avg_ts;

// Tokens per second of hearth run with a budget in bytes.
function streamed(program, model, ram) {
    const args = ["run", model, "--stats", "json", "-q", "--ignore-eos", "-c", 1024, "-s", 7, "-t", o.threads, "--ram", ram,
                  "-p", "The morning was", "-n", o.gen, "--temp", 0.8];
    const done = attempt(program, args), last = done.stderr.trim().split("\n").pop();
    if (done.status !== 0)
        fail(last || `${program} failed`);
    return JSON.parse(last).tokens_per_second;
}

const budget = (model) => Math.round(statSync(model).size * o.share / 100);
const cases = [];
if (o.dense)
    cases.push(["decode", (program) => bench(program, o.dense, ["-p", 0, "-n", o.gen])],
               ["prefill", (program) => bench(program, o.dense, ["-p", o.prompt, "-n", 0])]);
if (o.sparse)
    cases.push(["sparse", (program) => bench(program, o.sparse, ["-p", 0, "-n", o.gen])],
               ["sparse, part in memory", (program) => streamed(program, o.sparse, budget(o.sparse))]);
if (o.experts)
    cases.push(["experts, part in memory", (program) => streamed(program, o.experts, budget(o.experts))]);

// The one that begins changes from pair to pair: what runs second may find a warmer machine.
function measure(name, speed) {
    const samples = [];
    for (let i = 0; i < o.pairs; i++) {
        const pair = {};
        for (const key of i % 2 ? ["old", "now"] : ["now", "old"])
            pair[key] = speed(key === "old" ? o.old : now);
        samples.push(pair);
        console.error(`${name}, pair ${i + 1}: ${pair.now.toFixed(2)}, old ${pair.old.toFixed(2)} tok/s`);
    }
    const of = (key) => median(samples.map((s) => s[key]));
    return { name, now: of("now"), old: of("old"), ratio: median(samples.map((s) => s.now / s.old)), samples };
}

const rows = cases.map(([name, speed]) => measure(name, speed));
console.log("| case | now, tok/s | old, tok/s | ratio |");
console.log("| --- | ---: | ---: | ---: |");
for (const r of rows)
    console.log(`| ${r.name} | ${r.now.toFixed(2)} | ${r.old.toFixed(2)} | ${r.ratio.toFixed(3)} |`);
console.log(JSON.stringify(writeReport("versions", { threads: o.threads, pairs: o.pairs, cores: availableParallelism(), rows })));
