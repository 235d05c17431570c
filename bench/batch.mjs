// SPDX-License-Identifier: MIT
// make bench-batch: what a token costs when several sequences take their steps together, for a dense model of Mistral 7B's
// shape in Q4_0: a table, bench/out/batch.json, and a plot of milliseconds a token over the number of sequences.
//
//   node bench/batch.mjs [--rounds 3] [--gen 16] [--sequences 1,2,4,8,16,32] [--threads N] [--model FILE] [--svg docs/batch.svg]
//
// Every round measures all numbers of sequences one after the other; quoted are medians over the rounds. Without --model the
// 3.8 GiB file is written to bench/out first and deleted at the end.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename, join, resolve } from "node:path";
import { hearth, median, option, out, root } from "./common.mjs";

const rounds = Number(option("rounds", 3));
const gen = Number(option("gen", 16));
const sequences = option("sequences", "1,2,4,8,16,32").split(",").map(Number);
const threads = Number(option("threads", availableParallelism()));
const given = option("model", "");
const svg = resolve(root, option("svg", join("docs", "batch.svg")));

function fail(message) {
    console.error(`bench-batch: ${message}`);
    process.exit(1);
}

function run(args) {
    return execFileSync(hearth, args.map(String), { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], maxBuffer: 1 << 26 });
}

function prepareModel() {
    if (given && !existsSync(given))
        fail(`${given} is not there`);
    if (given)
        return given;
    mkdirSync(out, { recursive: true });
    const file = join(out, "mistral-7b-dense-Q4_0.gguf");
    const space = statfsSync(out);
    if (!existsSync(file) && space.bavail * space.bsize < 4.8e9)
        fail(`${out} needs 4.8 GB of free space: or give --model`);
    if (!existsSync(file))
        run(["synth", "mistral-7b-dense", file]);
    return file;
}

// ---- the plot

const width = 760, height = 430, left = 74, right = 24, top = 66, bottom = 62;

function text(x, y, words, attributes = "") {
    return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${words}</text>`;
}

// Both axes are logarithmic: where cost is shared evenly, the line falls by half for twice the sequences.
function plot(rows, title) {
    const most = Math.max(...rows.map((r) => r.ms)), least = rows[0].ms / rows[rows.length - 1].sequences;
    const low = Math.floor(Math.log2(least)), high = Math.ceil(Math.log2(most));
    const last = Math.log2(rows[rows.length - 1].sequences) || 1;
    const x = (n) => left + (width - left - right) * Math.log2(n) / last;
    const y = (ms) => top + (height - top - bottom) * (high - Math.log2(ms)) / (high - low);
    const lines = [];
    for (let e = low; e <= high; e++) {
        lines.push(`<line x1="${left}" x2="${width - right}" y1="${y(2 ** e).toFixed(1)}" y2="${y(2 ** e).toFixed(1)}" stroke="#ddd"/>`);
        lines.push(text(left - 8, y(2 ** e) + 4, String(2 ** e), 'text-anchor="end" fill="#444"'));
    }
    for (const r of rows)
        lines.push(text(x(r.sequences), height - bottom + 20, String(r.sequences), 'text-anchor="middle" fill="#444"'));
    const line = (points) => points.map(([n, ms], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(ms).toFixed(1)}`).join("");
    const even = rows.map((r) => [r.sequences, rows[0].ms * rows[0].sequences / r.sequences]);
    lines.push(`<path d="${line(even)}" fill="none" stroke="#888" stroke-dasharray="5 4"/>`);
    lines.push(`<path d="${line(rows.map((r) => [r.sequences, r.ms]))}" fill="none" stroke="#b8431f" stroke-width="2.5"/>`);
    for (const r of rows) {
        lines.push(`<circle cx="${x(r.sequences).toFixed(1)}" cy="${y(r.ms).toFixed(1)}" r="4" fill="#b8431f"/>`);
        lines.push(text(x(r.sequences), y(r.ms) - 10, r.ms.toFixed(r.ms < 30 ? 1 : 0), 'text-anchor="middle" fill="#b8431f"'));
    }
    lines.push(text(left, 26, title, 'font-size="16" fill="#111"'));
    lines.push(text(left, 46, "milliseconds a token, all sequences together; dashed: one sequence's cost shared evenly", 'fill="#444"'));
    lines.push(text((left + width - right) / 2, height - 18, "sequences in a step", 'text-anchor="middle" fill="#444"'));
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" `
        + `font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>\n${lines.join("\n")}\n</svg>\n`;
}

// ---- measuring

if (!existsSync(hearth))
    fail("build/hearth is not there: run make first");
const model = prepareModel();
const samples = new Map(sequences.map((n) => [n, []]));
let name = "";
try {
    for (let round = 0; round < rounds; round++)
        // One process a round: the model is loaded once.
        for (const row of JSON.parse(run(["bench", model, "-t", threads, "-r", 1, "-p", 0, "-n", gen, "-npl", sequences.join(","), "-o", "json"]))) {
            name = row.model_type;
            samples.get(row.n_sequences).push(row.avg_ts);
            console.error(`round ${round + 1}, ${row.n_sequences} sequences: ${row.avg_ts.toFixed(2)} tok/s in all`);
        }
} finally {
    if (!given)
        rmSync(model, { force: true });
}
const rows = sequences.map((n) => ({ sequences: n, speed: median(samples.get(n)), ms: 1000 / median(samples.get(n)), samples: samples.get(n) }));
console.log("| sequences | tok/s in all | ms a token | of one alone |");
console.log("| ---: | ---: | ---: | ---: |");
for (const r of rows)
    console.log(`| ${r.sequences} | ${r.speed.toFixed(1)} | ${r.ms.toFixed(1)} | ${(r.ms / rows[0].ms).toFixed(2)} |`);
mkdirSync(out, { recursive: true });
writeFileSync(svg, plot(rows, `${name}, ${threads} threads: what a token costs`));
writeFileSync(join(out, "batch.json"),
              JSON.stringify({ date: new Date().toISOString(), threads, rounds, model: basename(model), rows }, null, 1) + "\n");
