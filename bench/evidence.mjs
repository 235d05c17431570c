// SPDX-License-Identifier: MIT
// make evidence: measures again what README.md and the pages in docs/ quote, keeps what each command printed in
// bench/out/evidence, and writes docs/evidence.md: what every figure comes from, when it was measured last and on what machine,
// and the papers' claims with Hearth's figures beside them. Short ones by default; long ones by name (NAMES="dense batch").
import { spawnSync } from "node:child_process";
import { cpus } from "node:os";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fail, out, root, run } from "./common.mjs";

// what: of what the figures are. where: which page quotes them. needs: beside a build.
const novels = "models/hearth-novels-drelu-Q8_0.gguf", hearth = "build/hearth", folder = join(out, "evidence");
const sets = {
    demo: { what: "speed, memory and reads of a model in memory and with a budget", where: "README.md", minutes: 1, command: "make demo" },
    studies: { what: "forecasts for models and machines that are not here, two charts", where: "docs/studies.md", minutes: 1, command: "make studies" },
    "cache-trained": {
        what: "hit rates of cache policies, trained model", where: "docs/streaming.md", minutes: 1,
        command: `${hearth} run ${novels} -p "It was a dark and stormy night, and" -n 480 -s 1 --ignore-eos --trace bench/out/evidence/trained.trace && `
            + `${hearth} plan --simulate bench/out/evidence/trained.trace --svg bench/out/evidence/cache-trained.svg`,
    },
    activity: { what: "activity of the trained model", where: "docs/synth.md", minutes: 1, command: `build/tests/synth_stats ${novels} 32 100` },
    quality: {
        what: "perplexity, divergence, recall and precision, three charts", where: "docs/quality.md", minutes: 10,
        needs: "$HEARTH_TEST_DATA", command: 'make bench-quality BENCH_ARGS="$QUALITY_ARGS"', long: true,
    },
    kernels: { what: "single kernels beside this machine's limits", where: "docs/speed.md", minutes: 3, command: "make bench-kernels", long: true },
    dense: { what: "dense 7B, beside llama.cpp", where: "docs/speed.md", minutes: 12, needs: "npm, 9 GB of disk", command: "make bench-dense", long: true },
    sparse: { what: "sparse 7B in memory, beside llama.cpp", where: "docs/speed.md", minutes: 15, needs: "npm, 10 GB", command: "make bench-sparse", long: true },
    streaming: {
        what: "sparse 7B with half and a quarter of its neurons in memory, a prompt, the ablation", where: "docs/speed.md", minutes: 15, needs: "npm, 10 GB, root",
        command: "make bench-streaming", long: true,
    },
    drift: {
        what: "the same with a stream that drifts", where: "docs/speed.md", minutes: 10, needs: "npm, 10 GB, root",
        command: 'make bench-streaming BENCH_ARGS="--stream drift"', long: true,
    },
    experts: {
        what: "a model with experts in less memory than it needs, beside llama.cpp with the same file", where: "docs/speed.md", minutes: 30,
        needs: "a model in $EXPERTS_MODEL (hearth synth qwen3-30b-a3b), npm, root",
        command: 'make bench-streaming BENCH_ARGS="--pack $EXPERTS_MODEL --dense $EXPERTS_MODEL --budgets 5100,8192"', long: true,
    },
    large: {
        what: "a 47B pack with 7, 12, 16 and 19 GiB", where: "docs/speed.md", minutes: 20, needs: "a pack in $LARGE_PACK (hearth synth turbosparse-mixtral-47b, hearth pack)",
        command: 'make bench-streaming BENCH_ARGS="--pack $LARGE_PACK --budgets 7168,12288,16384,19456 --peer off"', long: true,
    },
    "speed-memory": {
        what: "the picture of speed against memory: forecasts, and measured figures of bench/speed-memory.json", where: "README.md", minutes: 1, command: "make speed-memory",
    },
    batch: { what: "what a token costs with 1 to 32 sequences, a chart", where: "docs/speed.md", minutes: 10, needs: "5 GB", command: "make bench-batch", long: true },
    drafts: {
        what: "answers with and without drafted tokens", where: "docs/speed.md", minutes: 3, needs: "models that chat in $DRAFT_MODELS, with commas between them",
        command: 'make bench-drafts BENCH_ARGS="--models $DRAFT_MODELS"', long: true,
    },
    device: {
        what: "best of 4 with a device beside the CPU: the share that a session finds, and fixed ones", where: "docs/accel.md", minutes: 15,
        needs: "a device, 10 GB", command: "make bench-device", long: true,
    },
    forecast: {
        what: "forecasts beside what comes of them", where: "docs/speed.md", minutes: 30, needs: "models in $FORECAST_MODELS, with commas between them",
        command: 'make bench-forecast BENCH_ARGS="--models $FORECAST_MODELS"', long: true,
    },
    serve: {
        what: "the server with 1 to 16 clients", where: "docs/speed.md", minutes: 10, needs: "a model in $SERVE_MODEL",
        command: 'make bench-serve BENCH_ARGS="--model $SERVE_MODEL"', long: true,
    },
};

// The papers' claims. ours: null where nothing has been measured.
const P2 = "PowerInfer-2", P1 = "PowerInfer", TS = "TurboSparse";
const claims = [
    { claim: "half of the feed-forward part on flash, over llama.cpp's mmap", paper: P2, theirs: "24.6x (mean), 27.8x (most); 11.1 tok/s of Bamboo-7B on a phone",
        ours: "28.6x and 29.5x (17.5 and 0.61, 17.8 and 0.60 tok/s), 54x on a day of slower storage (15.6 and 0.29), 2 CPU cores, synthetic 7B", by: "streaming" },
    { claim: "... with a stream that drifts, as trained models' do", paper: "", theirs: "", ours: "19x (11.8 and 0.61 tok/s), 45 % of the speed in memory, 2 cores of a Zen 5; what the storage can read is 22x", by: "drift" },
    { claim: "a quarter of it in memory", paper: P2, theirs: "4.7 tok/s (47B, Ace 2), 14.1x llama.cpp over models", ours: "9.0 tok/s (7B), 15.4x, 39 % of the speed in memory; with a third 58 % (Zen 4), 63 % on a machine with slow memory", by: "streaming" },
    { claim: "all in memory, sparse over dense llama.cpp", paper: `${P2}, ${TS}`, theirs: "2.24x (phone), 2.08x (PC, CPU)", ours: "2.34x to 2.48x, 2 CPU cores", by: "sparse" },
    { claim: "half on flash, beside all in memory", paper: P2, theirs: "11.1 of 20 tok/s, 56 %", ours: "71 to 77 % (Zen 5), 78 to 81 % (Zen 4), 88 % on a machine with slow memory", by: "streaming" },
    { claim: "P99 of a token over the mean, half on flash", paper: P2, theirs: "1.79 (Bamboo-7B), 1.41 (47B)", ours: "1.3 to 1.8 (7B, Zen 5), 1.3 (7B, Zen 4), 1.34 (47B at 16 GiB), 1.12 to 1.35 (47B from 6 to 19 GiB)", by: "streaming, large" },
    { claim: "47B with 7 GB of memory", paper: P2, theirs: "2.13 tok/s", ours: "1.28 to 1.33 tok/s (2 cores of a Zen 5), 1.36 (Xeon); 1.07 to 1.13 (Zen 4), storage busy 97 %; forecast for the phone 2.26", by: "large, studies" },
    { claim: "47B, half on flash (16 GB)", paper: P2, theirs: "9.96 tok/s", ours: "5.46 tok/s (2 cores of a Zen 5), 5.50 (Xeon); forecast for the phone's CPU 7.85", by: "large, studies" },
    { claim: "47B with 19 GB", paper: P2, theirs: "11.68 tok/s", ours: "8.43 tok/s (2 cores of a Zen 5), 6.68 (Xeon), 5.95 (Zen 4); forecast for the phone's CPU 8.83", by: "large, studies" },
    { claim: "a model with experts in half of its memory, over llama.cpp's mmap", paper: "", theirs: "", ours: "70x (10.7 and 13.3, and 0.17 tok/s; 30B, 8 of 16 GiB), 75x (10.2 and 0.14, Xeon), 39x (11.2 and 12.1, and 0.30; gpt-oss-20b, 8 of 11 GiB), 2 CPU cores, synthetic", by: "experts" },
    { claim: "best of N: four sequences over one, all in memory", paper: P2, theirs: "1.28x CPU-only with N = 4, by the NPU", ours: "no NPU; four sequences together make 1.59 times the tokens of one (`predict`, 37.1 and 23.4 tok/s); 49.9 tok/s on another day", by: "sparse" },
    { claim: "prompts of 512, half on flash", paper: P2, theirs: "405 tok/s (NPU), of 721 in memory: 56 %", ours: "54.6 tok/s (CPU), of 59.4 in memory: 92 %", by: "streaming" },
    { claim: "ablation, half on flash", paper: P2, theirs: "0.40, bundles 1.09, cache 4.18, pipeline 9.60, NPU 11.07 tok/s", ours: "0.60 (llama.cpp), whole layers 1.69, bundles 1.77, cache 12.5, computing meanwhile 14.7, looking ahead 17.0 tok/s, 2 cores of a Zen 5", by: "streaming" },
    { claim: "hit rate of the neuron cache, half in memory", paper: P2, theirs: "95 to 96.5 %", ours: "93.7 % (synthetic), 72.8 % (small trained model, whose activity is even)", by: "cache-trained" },
    { claim: "SiLU model with half of its neurons left out", paper: P2, theirs: "5.3 tok/s, 2.4x LLMFlash", ours: "0.8 tok/s with half of the memory (all neurons, whole layers: 1.5), 7.6 in memory (all: 8.1), made-up weights, 2 cores of a Zen 4: it does not pay here ([streaming.md](streaming.md#gates-first))", by: null },
    { claim: "predictors find the active neurons", paper: P1, theirs: "above 95 %", ours: "98 % of the sum of magnitudes; 74 to 85 % of the active neurons, 41 to 62 % of those named are active (small trained model)", by: "quality" },
    { claim: "quality with predictors beside dense", paper: P1, theirs: "perplexity within 0.1 % (where training of predictors ends)", ours: "+0.65 % with the file's threshold, +0.42 % at 0.75 of it (small trained model)", by: "quality" },
    { claim: "GPU and CPU together, over llama.cpp", paper: P1, theirs: "7.23x (mean), 11.69x (most)", ours: "1.9 to 2.7x (7B sparse, 2 of 4 GiB on an H200, beside llama.cpp's dense 7B with half of its layers there); 1.4 to 2.5x PowerInfer itself", by: "device" },
    { claim: "energy of a token", paper: P2, theirs: "0.257 J, llama.cpp 0.672 J", ours: null, by: null },
];

// ---- running

const record = join(root, "docs", "evidence.json");
const runs = existsSync(record) ? JSON.parse(readFileSync(record, "utf8")) : {};
const version = () => run("git", ["-C", root, "describe", "--always", "--dirty"]).trim();
const machine = () => `${cpus()[0].model.trim()}, ${cpus().length} threads`;

function measure(name) {
    const set = sets[name], start = Date.now();
    for (const [, variable] of (set.command + (set.needs ?? "")).matchAll(/\$([A-Z_]+)/g))
        if (process.env[variable] === undefined && variable !== "QUALITY_ARGS")
            return fail(`${name} needs ${variable} in the environment: ${set.needs}`);
    mkdirSync(folder, { recursive: true });
    console.error(`${name}: ${set.command} (about ${set.minutes} min)`);
    const done = spawnSync("sh", ["-c", set.command], { cwd: root, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "inherit"] });
    writeFileSync(join(folder, `${name}.txt`), done.stdout ?? "");
    if (done.status !== 0)
        fail(`${name} failed with status ${done.status}`);
    // Not the values of variables: they may name folders of this machine.
    runs[name] = { date: new Date().toISOString().slice(0, 10), machine: machine(), version: version(), seconds: Math.round((Date.now() - start) / 1000) };
    writeFileSync(record, JSON.stringify(runs, null, 1) + "\n");
}

// ---- the page

const code = (text) => `\`${text.replaceAll("|", "\\|")}\``;
const last = (name) => runs[name] ? `${runs[name].date}, ${runs[name].machine}, ${runs[name].version}` : "not yet: the page tells when";

function page() {
    const rows = Object.entries(sets).map(([name, s]) => `| ${name} | ${s.what} | [${s.where.replace("docs/", "")}](${s.where.startsWith("docs/") ? s.where.slice(5) : `../${s.where}`}) `
        + `| ${code(s.command)} | ${s.minutes} min${s.needs ? `; ${s.needs}` : ""} | ${last(name)} |`);
    const papers = claims.map((c) => `| ${c.claim} | ${c.paper} | ${c.theirs} | ${c.ours ?? `**not measured**${c.note ? `: ${c.note}` : ""}`} | ${c.by ?? ""} |`);
    return `# Evidence

What the figures on these pages come from. \`make evidence\` runs the short commands again, \`make
evidence NAMES="dense sparse"\` those it names, \`NAMES=all\` all, and writes this page. What a command
prints is kept in \`bench/out/evidence/NAME.txt\`. Pages and charts that a command makes wholly
(studies.md, quality.md, batch.svg) are overwritten. Figures within other pages are not: compare
them with what was printed, and edit them by hand. Machines of others are shared and differ: a
figure belongs to the machine and day that its page names.

| name | figures | page | command | takes | last run by \`make evidence\` |
| --- | --- | --- | --- | --- | --- |
${rows.join("\n")}

## The papers' claims

Figures of PowerInfer-2 (arXiv 2406.06282), PowerInfer (arXiv 2312.12456) and TurboSparse (arXiv
2406.05955) are of their hardware: a OnePlus 12 with an NPU unless another is named, PCs with a GPU.
Hearth's are of two CPU cores of a virtual machine and of synthetic models in these shapes, unless
they say something else; no trained model of that size has been measured. So ratios compare, speeds
do not. The last column names the rows above that measure it.

| claim | paper | theirs | Hearth's | by |
| --- | --- | --- | --- | --- |
${papers.join("\n")}
`;
}

const wanted = process.argv.slice(2).flatMap((word) => word.split(/[\s,]+/)).filter(Boolean);
for (const name of wanted)
    if (!sets[name] && !["all", "page"].includes(name))
        fail(`there is no ${name}: ${Object.keys(sets).join(", ")}, all, or page (which measures nothing)`, 2);
const names = wanted.includes("all") ? Object.keys(sets) : wanted.length ? wanted.filter((name) => name !== "page") : Object.keys(sets).filter((name) => !sets[name].long);
names.forEach(measure);
writeFileSync(join(root, "docs", "evidence.md"), page());
