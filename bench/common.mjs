// SPDX-License-Identifier: MIT
// What the benchmarks share: where things are, their command line, running programs, the peer, the 7B files they measure,
// medians and reports.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
export const out = join(root, "bench", "out"); // what they write
const peer = join(root, "bench", "peer"); // llama.cpp
const bench = `bench-${basename(process.argv[1], ".mjs")}`; // as make calls this one
let hearth = join(root, "build", "hearth");
// What a token costs is measured without drafts: made-up weights repeat themselves, and drafts would come true.
process.env.HEARTH_DRAFT_MAX ??= "0";

// ---- the end

// Ends the benchmark with a message; made files are deleted, as at every end but a kill.
export function fail(message, status = 1) {
    console.error(`${bench}: ${message}`);
    process.exit(status);
}

// Ctrl-C reaches the program that runs, too: attempt() sees it end and stops the benchmark.
process.on("SIGINT", () => process.exit(130));

// ---- the command line

const number = (text, least) => /^\d{1,9}$/.test(text) && Number(text) >= least ? Number(text) : undefined;
const isFile = (path) => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
const all = (values) => values.includes(undefined) ? undefined : values;

// The kinds of options. Each has what --help says of it (value, about), its default (none: undefined), and read(), which
// gives the value of a text, or undefined for one that is not what the option wants. Paths on the command line are relative
// to the current folder.

// A whole number.
export const count = (fallback, about, least = 1) => ({
    value: "N", about, fallback, wants: `a whole number, ${least} or more`, read: (text) => number(text, least),
});

// Whole numbers with commas between them, as an ascending array.
export const counts = (fallback, about, least = 1) => ({
    value: "N,...", about, fallback, wants: `whole numbers, ${least} or more, with commas between them`,
    read: (text) => all([...new Set(text.split(",").map((part) => number(part, least)))])?.sort((a, b) => a - b),
});

// One of some words.
export const choice = (fallback, words, about) => ({
    value: words.join("|"), about, fallback, wants: `one of ${words.join(", ")}`,
    read: (text) => words.includes(text) ? text : undefined,
});

// Any text that is not empty.
export const text = (fallback, about) => ({ value: "TEXT", about, fallback, wants: "a text", read: (words) => words || undefined });

// A file to read, as an absolute path.
export const file = (about) => ({
    value: "FILE", about, wants: "a file that is there", read: (text) => isFile(text) ? resolve(text) : undefined,
});

// Files to read with commas between them, as an array of absolute paths.
export const files = (about) => ({
    value: "FILE,...", about, wants: "files that are there, with commas between them",
    read: (text) => all(text.split(",").map((part) => isFile(part) ? resolve(part) : undefined)),
});

// A file to write, as an absolute path.
export const newFile = (about) => ({
    value: "FILE", about, wants: "a file in a folder that is there",
    read: (text) => text && existsSync(dirname(resolve(text))) ? resolve(text) : undefined,
});

// Threads of every program that is measured.
export const threadCount = () => count(availableParallelism(), "threads of each program");

let usage = "";

function usageOf(about, kinds) {
    const lines = Object.entries(kinds).map(([name, k]) => [`  --${name} ${k.value}`, k.about, k.fallback]);
    const column = Math.max(...lines.map(([left]) => left.length)) + 2;
    return `usage: node bench/${basename(process.argv[1])} [options], or make ${bench} BENCH_ARGS="options"\n\n${about}\n\n`
        + lines.map(([left, words, fallback]) => left.padEnd(column) + words + (fallback === undefined ? "" : ` (default: ${fallback})`)).join("\n");
}

// Ends the benchmark because of how it was called: with the message, what it can be called with, and status 2.
export function misuse(message) {
    fail(`${message}\n\n${usage}`, 2);
}

// The command line as {name: value}, for options given as {name: kind}; about says in a line what the benchmark measures.
// --help and anything that is not understood end the benchmark before it has begun.
export function options(about, kinds) {
    kinds = { ...kinds, hearth: file("the program to measure, in place of build/hearth") };
    usage = usageOf(about, kinds);
    const values = Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [name, kind.fallback]));
    const words = process.argv.slice(2);
    if (words.includes("--help") || words.includes("-h")) {
        console.log(usage);
        process.exit(0);
    }
    for (let i = 0; i < words.length; i += 2) {
        const kind = words[i].startsWith("--") && Object.hasOwn(kinds, words[i].slice(2)) ? kinds[words[i].slice(2)] : null;
        if (!kind)
            misuse(`there is no option ${words[i]}`);
        if (i + 1 === words.length)
            misuse(`${words[i]} takes ${kind.wants}`);
        const value = kind.read(words[i + 1]);
        if (value === undefined)
            misuse(`${words[i]} takes ${kind.wants}, not ${JSON.stringify(words[i + 1])}`);
        values[words[i].slice(2)] = value;
    }
    hearth = values.hearth ?? hearth;
    if (!existsSync(hearth))
        fail(`${hearth} is not there: run make first`);
    return values;
}

// ---- programs

const lastLine = (text) => (text ?? "").trim().split("\n").pop();

// Runs a program to its end: {status, stdout, stderr}, status null after a signal. more: options of spawnSync.
export function attempt(program, args, more = {}) {
    const done = spawnSync(program, args.map(String), { encoding: "utf8", maxBuffer: 1 << 26, ...more });
    if (done.error)
        fail(`${program} cannot be run: ${done.error.message}`);
    if (done.signal === "SIGINT" || done.status === 130)
        fail("interrupted", 130);
    return done;
}

// What a program prints; its failure ends the benchmark, with the program's last words.
export function run(program, args, more) {
    const done = attempt(program, args, more);
    const words = lastLine(done.stderr) || done.signal || `status ${done.status}`, name = basename(program);
    if (done.status !== 0)
        fail(words.startsWith(`${name}:`) ? words : `${name} failed: ${words}`);
    return done.stdout;
}

// As run() and attempt(), with Hearth's program.
export const runHearth = (args, more) => run(hearth, args, more);
export const attemptHearth = (args, more) => attempt(hearth, args, more);

// The rows of JSON that hearth bench and llama-bench print: each has at least avg_ts, tokens per second. Text without such rows
// ends the benchmark.
export function rowsOf(program, text) {
    let rows = null;
    try {
        rows = JSON.parse(text);
    } catch (e) { // said below
    }
    if (!Array.isArray(rows) || !rows.length || !rows.every((row) => row.avg_ts > 0))
        fail(`${basename(program)} printed no speeds: ${lastLine(text) || "nothing"}`);
    return rows;
}

// The rows of hearth bench with these arguments: avg_ts in tokens per second (all sequences together), gb_per_second and
// roof_gb_per_second in 10^9 bytes per second, bytes_per_step in bytes, by part; the last three for generation only.
export function hearthBench(model, threads, args) {
    return rowsOf(hearth, runHearth(["bench", model, "-t", threads, "-o", "json", ...args]));
}

// ---- llama.cpp

// The path of one of llama.cpp's programs, llama-bench or llama-bench-mapped, which is made if it is not there (npm, a minute).
export function peerProgram(name) {
    const program = join(peer, "bin", name);
    if (existsSync(program))
        return program;
    const quietly = { cwd: peer, stdio: ["ignore", "ignore", "inherit"] };
    console.error("installing llama.cpp (npm) and building its llama-bench ...");
    if (!existsSync(join(peer, "node_modules")))
        run("npm", ["install", "--no-audit", "--no-fund"], quietly);
    run("sh", ["build.sh"], quietly);
    return program;
}

// llama-bench's arguments for one repetition of the tests that args name, with flash attention, printed as JSON.
export const llamaArgs = (model, threads, args) => ["-m", model, "-t", threads, "-r", 1, "-fa", "on", "-o", "json", ...args];

// Tokens per second of llama.cpp in the one test that args name, the whole model in memory of its own. The program is
// peerProgram("llama-bench").
export function llamaSpeed(program, model, threads, args) {
    return rowsOf(program, run(program, llamaArgs(model, threads, ["-lm", "none", ...args])))[0].avg_ts;
}

// ---- files

const made = new Set(); // what this run wrote, and deletes when it ends, however it does
process.on("exit", () => made.forEach((path) => rmSync(path, { force: true })));

// Ends the benchmark unless bench/out has room for so many bytes. instead: the option that makes it unnecessary.
function needSpace(bytes, instead) {
    mkdirSync(out, { recursive: true });
    const space = statfsSync(out), free = space.bavail * space.bsize;
    if (free < bytes)
        fail(`${out} has ${(free / 1e9).toFixed(1)} GB free and needs ${(bytes / 1e9).toFixed(1)}: or give ${instead}`);
}

// The path of bench/out/NAME. write(path) makes it, and it is deleted at the end, unless it is there from before: then it is
// used as it is, and stays. bytes: the disk space that making it takes; instead: the option that makes it unnecessary.
function makeFile(name, bytes, instead, write) {
    const path = join(out, name);
    if (existsSync(path)) {
        if (!made.has(path))
            console.error(`taking ${path}, which is there`);
        return path;
    }
    needSpace(bytes, instead);
    console.error(`writing ${path} ...`);
    made.add(path);
    write(path);
    return path;
}

// Deletes a made file before the end.
function drop(path) {
    if (made.delete(path))
        rmSync(path, { force: true });
}

// Writes a text to bench/out/NAME until the end, and gives its path.
export function temporaryText(name, text) {
    mkdirSync(out, { recursive: true });
    const path = join(out, name);
    made.add(path);
    writeFileSync(path, text);
    return path;
}

// A dense model of Mistral 7B's shape in Q4_0: 4.1 GB.
export function denseModel(instead) {
    return makeFile("mistral-7b-dense-Q4_0.gguf", 4.5e9, instead, (path) => runHearth(["synth", "mistral-7b-dense", path]));
}

// That model written again in Q4_K_M, 4.4 GB: the bytes and the types of a real one, which is all that speed depends on.
export function denseModelK(instead) {
    return makeFile("mistral-7b-dense-Q4_K_M.gguf", 4.8e9, instead, (path) => runHearth(["quantize", denseModel(instead), path, "Q4_K_M"]));
}

// A pack of a sparse model of Mistral 7B's shape, with a profile of a few pages of text: they are enough to tell which neurons
// are active most of the time. 4.9 GB, and as much again while it is made. stream: "steady", or "drift" for one that changes
// from layer to layer and from token to token (docs/synth.md).
export function sparsePack(threads, instead, stream = "steady") {
    const name = stream === "drift" ? "turbosparse-mistral-7b-drift" : "turbosparse-mistral-7b";
    const more = stream === "drift" ? ["--drift"] : [];
    return makeFile(`${name}.pack.gguf`, 9.8e9, instead, (path) => {
        const source = makeFile(`${name}.gguf`, 4.9e9, instead, (f) => runHearth(["synth", "turbosparse-mistral-7b", f, ...more]));
        const pages = join(root, "docs", "sparse.md");
        const profile = makeFile(`${name}.profile`, 1e7, instead,
                                 (f) => runHearth(["profile", source, "-f", pages, "-o", f, "-t", threads]));
        runHearth(["pack", source, path, "--profile", profile]);
        drop(source);
    });
}

// ---- figures

// The middle one of some numbers, or the mean of the two in the middle.
export function median(values) {
    const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// Writes figures, and the date before them, to bench/out/NAME.json; gives them with the date.
export function writeReport(name, figures) {
    const report = { date: new Date().toISOString(), ...figures };
    mkdirSync(out, { recursive: true });
    writeFileSync(join(out, `${name}.json`), JSON.stringify(report, null, 1) + "\n");
    return report;
}
