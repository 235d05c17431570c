// SPDX-License-Identifier: MIT
// make bench-sparse: Hearth on a sparse model of Mistral 7B's shape (TurboSparse's, synthetic, packed with a profile), beside
// llama.cpp on the dense model of that shape, both in memory. Programs run in turn, so that a change of the machine's speed meets all;
// quoted are medians, and medians of the pairwise ratios.
//
// Files that are not given are written to bench/out first and deleted at the end: 10 GB of disk. --help tells the options.
import { basename } from "node:path";
import { count, denseModel, file, hearthBench, llamaSpeed, median, options, peerProgram, sparsePack, threadCount, writeReport } from "./common.mjs";

const o = options("Hearth on a sparse model beside llama.cpp on a dense one of the same shape, in memory.", {
    pairs: count(5, "how often every program is run"),
    gen: count(32, "tokens to generate"),
    threads: threadCount(),
    sparse: file("the sparse model, with predictors, in place of a synthetic pack"),
    dense: file("the dense model, in place of a synthetic one"),
});
const { pairs, gen, threads } = o;
const modes = ["predict", "exact", "off"];
const llamaBench = peerProgram("llama-bench");
const sparse = o.sparse ?? sparsePack(threads, "--sparse");
const dense = o.dense ?? denseModel("--dense");

// Several repetitions, because the memory roof is measured between them.
function generate(mode, sequences) {
    return hearthBench(sparse, threads, ["-r", 3, "-p", 0, "-n", gen, "-npl", sequences, "--sparsity", mode])[0];
}

const samples = [];
for (let i = 0; i < pairs; i++) {
    const sample = { llama_cpp: llamaSpeed(llamaBench, dense, threads, ["-p", 0, "-n", gen]) };
    for (const mode of modes)
        sample[mode] = generate(mode, 1);
    samples.push(sample);
    console.error(`round ${i + 1}: llama.cpp ${sample.llama_cpp.toFixed(2)}`
        + modes.map((m) => `, ${m} ${sample[m].avg_ts.toFixed(2)}`).join("") + " tok/s");
}
const of = (mode, f) => median(samples.map((s) => f(s[mode])));
const rows = modes.map((mode) => ({
    mode,
    tokens_per_second: of(mode, (r) => r.avg_ts),
    ratio: median(samples.map((s) => s[mode].avg_ts / s.llama_cpp)),
    gb_per_second: of(mode, (r) => r.gb_per_second),
    roof_gb_per_second: of(mode, (r) => r.roof_gb_per_second),
    of_roof: of(mode, (r) => r.gb_per_second / r.roof_gb_per_second),
    bytes_per_step: samples[0][mode].bytes_per_step,
}));
const curve = [1, 4, 8].map((sequences) => ({
    sequences,
    ...Object.fromEntries(["predict", "off"].map((mode) => [mode, generate(mode, sequences).avg_ts])),
}));

const mb = (bytes) => (bytes / 1e6).toFixed(0);
console.log(`llama.cpp, dense file of the same shape: ${median(samples.map((s) => s.llama_cpp)).toFixed(2)} tok/s\n`);
console.log("| sparsity | tok/s | of llama.cpp, dense | GB/s | of roof | MB a token: predictor | gate | up | down | rest |");
console.log("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
for (const r of rows) {
    const b = r.bytes_per_step;
    console.log(`| ${r.mode} | ${r.tokens_per_second.toFixed(2)} | ${r.ratio.toFixed(2)} | ${r.gb_per_second.toFixed(1)} | ${(100 * r.of_roof).toFixed(0)} % | `
        + [b.predictor, b.gate, b.up, b.down, b.rest].map(mb).join(" | ") + " |");
}
console.log("\n| sequences at once | predict, tok/s in all | off, tok/s in all |\n| ---: | ---: | ---: |");
for (const c of curve)
    console.log(`| ${c.sequences} | ${c.predict.toFixed(2)} | ${c.off.toFixed(2)} |`);
console.log(JSON.stringify(writeReport("sparse", {
    threads, pairs, gen, model: o.sparse ? basename(o.sparse) : "turbosparse-mistral-7b",
    peer: `llama.cpp of node-llama-cpp, ${o.dense ? basename(o.dense) : "mistral-7b-dense"}`, rows, curve,
})));
