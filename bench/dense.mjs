// SPDX-License-Identifier: MIT
// make bench-dense: Hearth beside llama.cpp on a dense model of Mistral 7B's shape, in memory, in Q4_0 and in Q4_K_M. Both
// programs run in turn, so that a change of the machine's speed meets both; quoted are medians, and the median of the
// pairwise ratios. The memory roof is measured beside each of Hearth's runs.
//
// Without --model the files (3.8 and 4.1 GiB) are written to bench/out first, the second when its turn comes, and deleted at
// the end: 9 GB of disk. --help tells the options.
import { basename } from "node:path";
import { count, denseModel, denseModelK, files, hearthBench, llamaSpeed, median, misuse, options, peerProgram, threadCount, writeReport } from "./common.mjs";

const { pairs, gen, prompt, threads, model: given } = options("Hearth beside llama.cpp on dense models, in memory.", {
    pairs: count(5, "how often each test is run with both programs"),
    gen: count(32, "tokens to generate; 0: leave generation out", 0),
    prompt: count(512, "tokens of a prompt; 0: leave prompts out", 0),
    threads: threadCount(),
    model: files("the models, in place of synthetic ones in Q4_0 and Q4_K_M"),
});
if (!gen && !prompt)
    misuse("with neither --gen nor --prompt there is nothing to measure");
const llamaBench = peerProgram("llama-bench");

// One test with both programs, tg (generation) or pp (prompt) of n tokens: the medians, and every pair's figures.
function measure(model, test, n) {
    const args = test === "pp" ? ["-p", n, "-n", 0] : ["-p", 0, "-n", n];
    const samples = [];
    for (let i = 0; i < pairs; i++) {
        const ours = hearthBench(model, threads, ["-r", 1, "-npl", 1, ...args])[0], theirs = llamaSpeed(llamaBench, model, threads, args);
        samples.push({ hearth: ours.avg_ts, llama_cpp: theirs, bandwidth: ours.gb_per_second, roof: ours.roof_gb_per_second });
        console.error(`${basename(model)} ${test}${n} pair ${i + 1}: hearth ${ours.avg_ts.toFixed(2)}, llama.cpp ${theirs.toFixed(2)} tok/s`);
    }
    const of = (key) => median(samples.map((s) => s[key]));
    const row = { model: basename(model), test: `${test}${n}`, hearth: of("hearth"), llama_cpp: of("llama_cpp"),
                  ratio: median(samples.map((s) => s.hearth / s.llama_cpp)), samples };
    if (test === "tg")
        Object.assign(row, { gb_per_second: of("bandwidth"), roof_gb_per_second: of("roof"),
                             of_roof: median(samples.map((s) => s.bandwidth / s.roof)) });
    return row;
}

// Functions that give the models, for the second is made when the first is done with.
const models = given ? given.map((path) => () => path) : [denseModel, denseModelK].map((make) => () => make("--model"));
const rows = [];
for (const model of models) {
    const path = model();
    if (gen)
        rows.push(measure(path, "tg", gen));
    if (prompt)
        rows.push(measure(path, "pp", prompt));
}

console.log(`| model | test | hearth tok/s | llama.cpp tok/s | ratio | GB/s | roof GB/s | of roof |`);
console.log(`| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |`);
for (const r of rows)
    console.log(`| ${r.model} | ${r.test} | ${r.hearth.toFixed(2)} | ${r.llama_cpp.toFixed(2)} | ${r.ratio.toFixed(2)} | `
        + (r.of_roof ? `${r.gb_per_second.toFixed(1)} | ${r.roof_gb_per_second.toFixed(1)} | ${(100 * r.of_roof).toFixed(0)} % |` : " | | |"));
console.log(JSON.stringify(writeReport("dense", { threads, pairs, peer: "llama.cpp of node-llama-cpp", rows })));
