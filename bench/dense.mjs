// SPDX-License-Identifier: MIT
// make bench-dense: Hearth beside llama.cpp on a dense model of Mistral 7B's shape, in memory, in Q4_0 and in Q4_K_M. Both
// programs run in turn, so that a change of the machine's speed meets both; quoted are medians, and the median of the
// pairwise ratios. The memory roof is measured beside each of Hearth's runs.
//
//   node bench/dense.mjs [--pairs 5] [--gen 32] [--prompt 512] [--threads N] [--model FILE[,FILE...]]
//
// Without --model the files (3.8 and 4.1 GiB) are written to bench/out first, the second when its turn comes, and deleted at
// the end: 9 GB of disk. --prompt 0 leaves prompts out, --gen 0 generation.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename, join, resolve } from "node:path";
import { hearth, median, option, out, peer } from "./common.mjs";

const llamaBench = join(peer, "bin", "llama-bench");

const pairs = Number(option("pairs", 5));
const gen = Number(option("gen", 32));
const prompt = Number(option("prompt", 512));
const threads = Number(option("threads", availableParallelism()));
const given = option("model", "").split(",").filter((file) => file).map((file) => resolve(file)); // llama.cpp runs elsewhere
const made = [];

function clear() {
    for (const file of made)
        rmSync(file, { force: true });
}

function fail(message) {
    clear();
    console.error(`bench-dense: ${message}`);
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

// Writes the model's file unless it is there from before.
function make(type, args) {
    mkdirSync(out, { recursive: true });
    const file = join(out, `mistral-7b-dense-${type}.gguf`);
    if (existsSync(file))
        return file;
    const space = statfsSync(out);
    if (space.bavail * space.bsize < 4.8e9)
        fail(`${out} needs 4.8 GB of free space for ${basename(file)}: or give --model`);
    console.error(`writing ${file} ...`);
    made.push(file);
    run(hearth, args(file));
    return file;
}

// The models to measure, as functions that give their files. A file in Q4_0 written again in Q4_K_M has the bytes and
// the types of a real one, which is all that speed depends on.
function models() {
    if (given.length)
        return given.map((file) => () => existsSync(file) ? file : fail(`${file} is not there`));
    const q4_0 = () => make("Q4_0", (file) => ["synth", "mistral-7b-dense", file]);
    return [q4_0, () => make("Q4_K_M", (file) => ["quantize", q4_0(), file, "Q4_K_M"])];
}

function runHearth(model, test, n) {
    const args = ["bench", model, "-t", threads, "-r", 1, "-npl", 1, "-o", "json", "-p", 0, "-n", 0];
    args[args.indexOf(test === "pp" ? "-p" : "-n") + 1] = n;
    const row = JSON.parse(run(hearth, args))[0];
    return { speed: row.avg_ts, bandwidth: row.gb_per_second, roof: row.roof_gb_per_second };
}

function runPeer(model, test, n) {
    const args = ["-m", model, "-t", threads, "-r", 1, "-fa", "on", "-lm", "none", "-o", "json", "-p", 0, "-n", 0];
    args[args.indexOf(test === "pp" ? "-p" : "-n") + 1] = n;
    return { speed: JSON.parse(run(llamaBench, args, peer))[0].avg_ts };
}

function measure(model, test, n) {
    const samples = [];
    for (let i = 0; i < pairs; i++) {
        const ours = runHearth(model, test, n), theirs = runPeer(model, test, n);
        samples.push({ hearth: ours.speed, llama_cpp: theirs.speed, bandwidth: ours.bandwidth, roof: ours.roof });
        console.error(`${basename(model)} ${test}${n} pair ${i + 1}: hearth ${ours.speed.toFixed(2)}, llama.cpp ${theirs.speed.toFixed(2)} tok/s`);
    }
    const of = (key) => median(samples.map((s) => s[key]));
    const row = { model: basename(model), test: `${test}${n}`, hearth: of("hearth"), llama_cpp: of("llama_cpp"),
                  ratio: median(samples.map((s) => s.hearth / s.llama_cpp)), samples };
    if (test === "tg")
        Object.assign(row, { gb_per_second: of("bandwidth"), roof_gb_per_second: of("roof"),
                             of_roof: median(samples.map((s) => s.bandwidth / s.roof)) });
    return row;
}

if (!existsSync(hearth))
    fail("build/hearth is not there: run make first");
preparePeer();
const rows = [];
try {
    for (const model of models()) {
        const file = model();
        if (gen > 0)
            rows.push(measure(file, "tg", gen));
        if (prompt > 0)
            rows.push(measure(file, "pp", prompt));
    }
} finally {
    clear();
}

console.log(`| model | test | hearth tok/s | llama.cpp tok/s | ratio | GB/s | roof GB/s | of roof |`);
console.log(`| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |`);
for (const r of rows)
    console.log(`| ${r.model} | ${r.test} | ${r.hearth.toFixed(2)} | ${r.llama_cpp.toFixed(2)} | ${r.ratio.toFixed(2)} | `
        + (r.of_roof ? `${r.gb_per_second.toFixed(1)} | ${r.roof_gb_per_second.toFixed(1)} | ${(100 * r.of_roof).toFixed(0)} % |` : " | | |"));
mkdirSync(out, { recursive: true });
const report = { date: new Date().toISOString(), threads, pairs, peer: "llama.cpp of node-llama-cpp", rows };
writeFileSync(join(out, "dense.json"), JSON.stringify(report, null, 1) + "\n");
console.log(JSON.stringify(report));
