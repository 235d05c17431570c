// SPDX-License-Identifier: MIT
// make bench-sparse: Hearth on a sparse model of Mistral 7B's shape (TurboSparse's, synthetic, packed with a profile), beside
// llama.cpp on the dense model of that shape, both in memory. Programs run in turn, so that a change of the machine's speed meets all;
// quoted are medians, and medians of the pairwise ratios.
//
//   node bench/sparse.mjs [--pairs 5] [--gen 32] [--threads N] [--sparse FILE] [--dense FILE]
//
// Files that are not given are written to bench/out first (9 GB, and as much again for a while) and deleted at the end.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { hearth, median, option, out, peer, root } from "./common.mjs";

const llamaBench = join(peer, "bin", "llama-bench");

const pairs = Number(option("pairs", 5));
const gen = Number(option("gen", 32));
const threads = Number(option("threads", availableParallelism()));
const modes = ["predict", "exact", "off"];

function fail(message) {
    console.error(`bench-sparse: ${message}`);
    process.exit(1);
}

function run(program, args, cwd) {
    return execFileSync(program, args.map(String), { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], maxBuffer: 1 << 26 });
}

function preparePeer() {
    if (existsSync(llamaBench))
        return;
    console.error("installing llama.cpp (npm) and building its llama-bench ...");
    execFileSync("npm", ["install", "--no-audit", "--no-fund"], { cwd: peer, stdio: ["ignore", "ignore", "inherit"] });
    execFileSync("sh", ["build.sh"], { cwd: peer, stdio: ["ignore", "ignore", "inherit"] });
}

const made = [];

function makeFile(name, args) {
    const file = join(out, name);
    mkdirSync(out, { recursive: true });
    const space = statfsSync(out);
    if (space.bavail * space.bsize < 6e9)
        fail(`${out} needs 6 GB of free space for ${name}`);
    console.error(`writing ${file} ...`);
    made.push(file);
    run(hearth, args(file));
    return file;
}

// A profile of a page of text is enough to tell which neurons are active most of the time.
function makePack() {
    const source = makeFile("turbosparse.gguf", (f) => ["synth", "turbosparse-mistral-7b", f]);
    const text = join(out, "profile.txt");
    made.push(text);
    writeFileSync(text, readFileSync(join(root, "docs", "sparse.md"), "utf8").slice(0, 3000));
    const profile = makeFile("turbosparse.profile", (f) => ["profile", source, "-f", text, "-o", f, "-t", threads]);
    const pack = makeFile("turbosparse.pack.gguf", (f) => ["pack", source, f, "--profile", profile]);
    rmSync(source);
    return pack;
}

function runHearth(model, mode, sequences) {
    // Several repetitions, because the memory roof is measured between them.
    const args = ["bench", model, "-t", threads, "-r", 3, "-p", 0, "-n", gen, "-npl", sequences, "--sparsity", mode, "-o", "json"];
    return JSON.parse(run(hearth, args))[0];
}

function runPeer(model) {
    const args = ["-m", model, "-t", threads, "-r", 1, "-p", 0, "-n", gen, "-fa", "on", "-lm", "none", "-o", "json"];
    return JSON.parse(run(llamaBench, args, peer))[0].avg_ts;
}

if (!existsSync(hearth))
    fail("build/hearth is not there: run make first");
preparePeer();
const sparse = option("sparse", "") || makePack();
const given = option("dense", "");
const dense = given ? resolve(given) : makeFile("mistral-7b-dense.gguf", (f) => ["synth", "mistral-7b-dense", f]);

const samples = [];
for (let i = 0; i < pairs; i++) {
    const sample = { llama_cpp: runPeer(dense) };
    for (const mode of modes)
        sample[mode] = runHearth(sparse, mode, 1);
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
    ...Object.fromEntries(["predict", "off"].map((mode) => [mode, runHearth(sparse, mode, sequences).avg_ts])),
}));
for (const file of made)
    rmSync(file, { force: true });

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
mkdirSync(out, { recursive: true });
const report = { date: new Date().toISOString(), threads, pairs, gen, model: "turbosparse-mistral-7b", peer: "llama.cpp of node-llama-cpp, mistral-7b-dense", rows, curve };
writeFileSync(join(out, "sparse.json"), JSON.stringify(report, null, 1) + "\n");
console.log(JSON.stringify(report));
