// SPDX-License-Identifier: MIT
// make bench-batch: what a token costs when several sequences take their steps together, for a dense model of Mistral 7B's
// shape in Q4_0: a table, bench/out/batch.json, and a plot of milliseconds a token over the number of sequences.
//
// Every round measures all numbers of sequences one after the other; quoted are medians over the rounds. Without --model the
// 3.8 GiB file is written to bench/out first and deleted at the end. --help tells the options.
import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { count, counts, denseModel, file, hearthBench, median, newFile, options, root, threadCount, writeReport } from "./common.mjs";

const { rounds, gen, sequences, threads, model: given, svg } = options("What a token costs when several sequences take their steps together.", {
    rounds: count(3, "how often all numbers of sequences are measured"),
    gen: count(16, "tokens to generate in each sequence"),
    sequences: counts([1, 2, 4, 8, 16, 32], "how many sequences to generate at once"),
    threads: threadCount(),
    model: file("the model, in place of a synthetic one"),
    svg: newFile("where to draw the plot, in place of docs/batch.svg"),
});

// ---- the plot

const width = 760, height = 430, left = 74, right = 24, top = 66, bottom = 62;

function text(x, y, words, attributes = "") {
    words = words.replace(/[<&]/g, (c) => c === "<" ? "&lt;" : "&amp;"); // a model's name is in one of them
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

const model = given ?? denseModel("--model");
const samples = new Map(sequences.map((n) => [n, []]));
let name = "";
for (let round = 0; round < rounds; round++)
    // One process a round: the model is loaded once.
    for (const row of hearthBench(model, threads, ["-r", 1, "-p", 0, "-n", gen, "-npl", sequences.join(",")])) {
        name = row.model_type;
        samples.get(row.n_sequences).push(row.avg_ts);
        console.error(`round ${round + 1}, ${row.n_sequences} sequences: ${row.avg_ts.toFixed(2)} tok/s in all`);
    }
const rows = sequences.map((n) => ({ sequences: n, speed: median(samples.get(n)), ms: 1000 / median(samples.get(n)), samples: samples.get(n) }));
console.log("| sequences | tok/s in all | ms a token | of one alone |");
console.log("| ---: | ---: | ---: | ---: |");
for (const r of rows)
    console.log(`| ${r.sequences} | ${r.speed.toFixed(1)} | ${r.ms.toFixed(1)} | ${(r.ms / rows[0].ms).toFixed(2)} |`);
writeFileSync(svg ?? join(root, "docs", "batch.svg"), plot(rows, `${name}, ${threads} threads: what a token costs`));
writeReport("batch", { threads, rounds, model: basename(model), rows });
