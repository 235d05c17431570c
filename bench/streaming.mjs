// SPDX-License-Identifier: MIT
// make bench-streaming: a sparse model of Mistral 7B's shape (TurboSparse's, synthetic) with a part of its neurons in
// memory, beside the same pack all in memory, and beside llama.cpp, which maps the dense file of that shape, in a memory
// cgroup of the same size. Programs run in turn, so that a change of the machine's speed meets all; quoted are medians.
//
//   node bench/streaming.mjs [--case NAME] [--rounds 3] [--gen 160] [--threads N] [--pack FILE] [--dense FILE] [--peer off]
//
// Cases (CASE=NAME with make; all of them without): half and quarter (of the neurons in memory), prompt (512 tokens with half
// of them), ablation (what each step from whole layers to the neuron cache brings). Files that are not given are written
// to bench/out first and deleted at the end: 14 GB of disk.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, rmdirSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { hearth, median, option, out, peer, root } from "./common.mjs";

const llamaBench = join(peer, "bin", "llama-bench-mapped");

const cases = ["half", "quarter", "prompt", "ablation"];
const chosen = option("case", process.env.CASE || "all");
const rounds = Number(option("rounds", 3));
const gen = Number(option("gen", 160));
const threads = Number(option("threads", availableParallelism()));
const withPeer = option("peer", "on") !== "off";
const wanted = (name) => chosen === "all" || chosen === name;

const made = [];

function fail(message) {
    for (const file of made)
        rmSync(file, { force: true });
    console.error(`bench-streaming: ${message}`);
    process.exit(1);
}

// ---- files

function prepare() {
    const given = { pack: option("pack", ""), dense: option("dense", "") };
    mkdirSync(out, { recursive: true });
    const space = statfsSync(out), free = space.bavail * space.bsize;
    const needed = (given.pack ? 0 : 9.5e9) + (given.dense || !withPeer ? 0 : 4.5e9);
    if (free < needed)
        fail(`${out} has ${(free / 1e9).toFixed(1)} GB free and needs ${(needed / 1e9).toFixed(1)}: give --pack and --dense`);
    const make = (name, args) => {
        const file = join(out, name);
        made.push(file);
        console.error(`writing ${file} ...`);
        execFileSync(hearth, args(file), { stdio: ["ignore", "ignore", "ignore"] });
        return file;
    };
    if (!given.pack) {
        const source = make("turbosparse.gguf", (f) => ["synth", "turbosparse-mistral-7b", f]);
        const text = join(out, "profile.txt");
        made.push(text);
        writeFileSync(text, readFileSync(join(root, "docs", "sparse.md"), "utf8").slice(0, 6000));
        const profile = make("turbosparse.profile", (f) => ["profile", source, "-f", text, "-o", f, "-t", String(threads)]);
        given.pack = make("turbosparse.pack.gguf", (f) => ["pack", source, f, "--profile", profile]);
        rmSync(source);
    }
    if (!given.dense && withPeer)
        given.dense = make("mistral-dense.gguf", (f) => ["synth", "mistral-7b-dense", f]);
    return given;
}

function preparePeer() {
    if (!withPeer || existsSync(llamaBench))
        return;
    console.error("installing llama.cpp (npm) and building its llama-bench ...");
    if (!existsSync(join(peer, "node_modules")))
        execFileSync("npm", ["install", "--no-audit", "--no-fund"], { cwd: peer, stdio: ["ignore", "ignore", "inherit"] });
    execFileSync("sh", ["build.sh"], { cwd: peer, stdio: ["ignore", "ignore", "inherit"] });
}

// ---- Hearth

// The JSON of --stats; null when the budget is refused, with the message in refusal.text.
const refusal = { text: "" };

function run(model, ram, more) {
    const args = ["run", model, "--stats", "json", "-q", "--ignore-eos", "-c", "1024", "-s", "7", "-t", String(threads), ...more.map(String)];
    if (ram)
        args.push("--ram", String(Math.round(ram)));
    const done = spawnSync(hearth, args, { encoding: "utf8", maxBuffer: 1 << 26 });
    const last = done.stderr.trim().split("\n").pop();
    if (done.status === 0)
        return JSON.parse(last);
    refusal.text = last;
    if (!last.includes("too small"))
        fail(last);
    return null;
}

const generate = (model, ram, n = gen, more = []) => run(model, ram, ["-p", "The morning was", "-n", n, "--temp", 0.8, ...more]);

function smallest(model) {
    if (generate(model, 1 << 20, 1))
        fail("a budget of 1 MiB is not refused");
    return Number(/at least (\d+) bytes/.exec(refusal.text)[1]);
}

// The budget with which this share of all neurons is in memory, and the plan's figures.
function budgetFor(model, share) {
    let ram = smallest(model), step = 0, best = null;
    for (let i = 0; i < 8; i++) {
        const s = generate(model, ram, 1)?.streaming;
        if (!s) { // all in memory: too much
            ram -= step / 2;
            step /= 2;
            continue;
        }
        const kept = (s.neurons_resident + s.neurons_cached) / s.neurons;
        if (!best || Math.abs(kept - share) < Math.abs(best.kept - share))
            best = { ram: Math.round(ram), kept, plan: s };
        if (Math.abs(kept - share) < 0.005)
            break;
        step = (share - kept) * s.neuron_bytes + (kept < share ? s.dense_read_bytes_per_step : 0);
        ram += step;
    }
    return best;
}

const latency = (s) => ({
    tokens_per_second: s.tokens_per_second, mean_ms: 1000 / s.tokens_per_second, p50: s.ms_per_token_p50,
    p90: s.ms_per_token_p90, p99: s.ms_per_token_p99,
});

// ---- llama.cpp in a memory cgroup

function openCage(bytes) {
    const v1 = "/sys/fs/cgroup/memory", v2 = "/sys/fs/cgroup";
    const base = existsSync(join(v1, "memory.limit_in_bytes")) ? v1 : v2;
    const cage = join(base, `hearth-bench-${process.pid}`);
    try {
        mkdirSync(cage);
        writeFileSync(join(cage, base === v1 ? "memory.limit_in_bytes" : "memory.max"), String(Math.round(bytes)));
    } catch (e) {
        rmSync(cage, { recursive: true, force: true });
        return null;
    }
    return cage;
}

function dropCaches(file) {
    try {
        execFileSync("sync");
        writeFileSync("/proc/sys/vm/drop_caches", "3");
    } catch (e) { // the one file, then
        execFileSync("dd", [`if=${file}`, "iflag=nocache", "count=0"], { stdio: "ignore" });
    }
}

// Tokens a second of the dense file, mapped, with this much memory; null where there is no cgroup to be had.
function mapped(model, ram, n) {
    if (!withPeer)
        return null;
    const cage = openCage(ram);
    if (!cage) {
        console.error("no memory cgroup to be had (needs root): no figures of llama.cpp");
        return null;
    }
    dropCaches(model);
    const args = ["-m", model, "-t", String(threads), "-r", "1", "-p", "0", "-n", String(n), "-fa", "on", "-lm", "mmap", "--no-warmup", "-o", "json"];
    const done = spawnSync("sh", ["-c", `echo $$ > ${cage}/cgroup.procs && exec "$@"`, "sh", llamaBench, ...args],
        { cwd: peer, encoding: "utf8", maxBuffer: 1 << 26 });
    try {
        rmdirSync(cage);
    } catch (e) {
        console.error(`${cage} is left behind: ${e.message}`);
    }
    return done.status === 0 ? JSON.parse(done.stdout)[0].avg_ts : null;
}

// ---- the storage: MB/s of one long read around the page cache

function diskSpeed(file) {
    const blocks = Math.min(512, Math.floor(statSync(file).size / (1 << 22)));
    const start = process.hrtime.bigint();
    execFileSync("dd", [`if=${file}`, "of=/dev/null", "bs=4M", `count=${blocks}`, "iflag=direct"], { stdio: "ignore" });
    return blocks * (1 << 22) / (Number(process.hrtime.bigint() - start) / 1e9);
}

// ---- cases

function medians(samples) {
    const keys = Object.keys(samples[0]).filter((k) => typeof samples[0][k] === "number");
    return Object.fromEntries(keys.map((k) => [k, median(samples.map((s) => s[k]))]));
}

function part(files, name, share) {
    const budget = budgetFor(files.pack, share);
    const all = [], some = [], ratios = [], theirs = [];
    for (let i = 0; i < rounds; i++) {
        const a = generate(files.pack, 0), b = generate(files.pack, budget.ram);
        all.push(latency(a));
        some.push({
            ...latency(b), hit_rate: b.streaming.hit_rate, mb_per_token: b.streaming.read_bytes_per_token / 1e6,
            wait_share: b.streaming.wait_share, peak_bytes: b.memory_peak_bytes,
        });
        ratios.push(b.tokens_per_second / a.tokens_per_second);
        const t = i < 2 ? mapped(files.dense, budget.ram, 4) : null; // slow, and hardly varies
        if (t)
            theirs.push(t);
        console.error(`${name}, round ${i + 1}: in memory ${a.tokens_per_second.toFixed(2)}, ${(budget.kept * 100).toFixed(0)} % of the neurons ${b.tokens_per_second.toFixed(2)}`
            + (t ? `, llama.cpp ${t.toFixed(2)}` : "") + " tok/s");
    }
    const llama = theirs.length ? median(theirs) : null, streamed = medians(some);
    return {
        case: name, ram: budget.ram, neurons_in_memory: budget.kept, plan: budget.plan, in_memory: medians(all), streamed,
        of_in_memory: median(ratios), p99_over_mean: median(some.map((s) => s.p99 / s.mean_ms)),
        llama_cpp_mapped: llama, times_llama_cpp: llama && streamed.tokens_per_second / llama,
    };
}

function prompt(files) {
    const budget = budgetFor(files.pack, 0.5), n = 512, ids = [];
    for (let i = 0; i < n - 1; i++)
        ids.push(300 + (i * 7919) % 20000);
    const text = join(out, "prompt.txt");
    made.push(text);
    // Text is not always cut into the tokens it came from: as much of it as gives n of them.
    const whole = execFileSync(hearth, ["detokenize", files.pack], { input: ids.join(" "), encoding: "utf8" });
    const count = (length) => execFileSync(hearth, ["tokenize", files.pack], { input: whole.slice(0, length), encoding: "utf8" }).trim().split(/\s+/).length;
    let low = 0, high = whole.length;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (count(middle) <= n)
            low = middle;
        else
            high = middle;
    }
    writeFileSync(text, whole.slice(0, low));
    const all = [], some = [];
    let tokens = 0, bytes = 0;
    for (let i = 0; i < rounds; i++) {
        const a = run(files.pack, 0, ["-f", text, "-n", 1]), b = run(files.pack, budget.ram, ["-f", text, "-n", 1]);
        all.push(a.prompt_tokens_per_second);
        some.push(b.prompt_tokens_per_second);
        tokens = b.prompt_tokens;
        bytes = b.streaming.prompt_read_bytes;
        console.error(`prompt, round ${i + 1}: in memory ${all[i].toFixed(1)}, half of the neurons ${some[i].toFixed(1)} tok/s`);
    }
    const disk = diskSpeed(files.pack), diskLimit = tokens / (bytes / disk), computeLimit = median(all);
    return {
        case: "prompt", ram: budget.ram, tokens, tokens_per_second: median(some), in_memory: computeLimit, read_bytes: bytes,
        disk_bytes_per_second: disk, disk_limit: diskLimit, of_limit: median(some) / Math.min(diskLimit, computeLimit),
    };
}

// The same budget, but for the second row, which has the smallest one: a cache of what one token needs. Each row adds one
// thing to the one before.
function ablation(files) {
    const budget = budgetFor(files.pack, 0.5), n = Math.max(8, Math.floor(gen / 8));
    const rows = [["whole layers, all neurons", budget.ram, ["--sparsity", "off"], n], ["+ bundles, in the smallest cache", smallest(files.pack), ["--overlap", "none"], n],
        ["+ cache", budget.ram, ["--overlap", "none"], gen], ["+ computing while bundles are read", budget.ram, ["--overlap", "compute"], gen],
        ["+ looking ahead", budget.ram, [], gen]];
    const result = rows.map(([name, ram, more, count]) => {
        const samples = [];
        for (let i = 0; i < rounds; i++) {
            const s = generate(files.pack, ram, count, more);
            if (!s)
                fail(`${name}: ${refusal.text}`);
            samples.push({
                tokens_per_second: s.tokens_per_second, mb_per_token: (s.streaming?.read_bytes_per_token ?? 0) / 1e6,
                wait_share: s.streaming?.wait_share ?? 0, hit_rate: s.streaming?.hit_rate ?? 0,
            });
        }
        console.error(`${name}: ${median(samples.map((s) => s.tokens_per_second)).toFixed(2)} tok/s`);
        return { name, ram, ...medians(samples) };
    });
    const theirs = mapped(files.dense, budget.ram, 4);
    if (theirs)
        result.unshift({ name: "llama.cpp, dense file mapped", ram: budget.ram, tokens_per_second: theirs, mb_per_token: 0, wait_share: 0, hit_rate: 0 });
    return { case: "ablation", rows: result };
}

// ---- the run

if (!existsSync(hearth))
    fail("build/hearth is not there: run make first");
if (chosen !== "all" && !cases.includes(chosen))
    fail(`there is no case ${chosen}: ${cases.join(", ")}`);
preparePeer();
const files = prepare();
const results = [];
for (const [name, fn] of [["half", () => part(files, "half", 0.5)], ["quarter", () => part(files, "quarter", 0.25)],
    ["prompt", () => prompt(files)], ["ablation", () => ablation(files)]])
    if (wanted(name))
        results.push(fn());
for (const file of made)
    rmSync(file, { force: true });

const gib = (bytes) => (bytes / 2 ** 30).toFixed(2), percent = (x) => `${(100 * x).toFixed(0)} %`;
const parts = results.filter((r) => r.streamed);
if (parts.length) {
    console.log("| neurons in memory | --ram, GiB | tok/s | in memory | of it | P50 ms | P99 ms | P99 / mean | MB a token | hits | waiting | llama.cpp, mapped | times |");
    console.log("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
}
for (const r of parts) {
    const s = r.streamed;
    console.log(`| ${percent(r.neurons_in_memory)} | ${gib(r.ram)} | ${s.tokens_per_second.toFixed(2)} | ${r.in_memory.tokens_per_second.toFixed(2)} | ${percent(r.of_in_memory)} `
        + `| ${s.p50.toFixed(0)} | ${s.p99.toFixed(0)} | ${r.p99_over_mean.toFixed(2)} | ${s.mb_per_token.toFixed(1)} | ${percent(s.hit_rate)} | ${percent(s.wait_share)} `
        + `| ${r.llama_cpp_mapped?.toFixed(2) ?? "-"} | ${r.times_llama_cpp?.toFixed(1) ?? "-"} |`);
}
for (const r of results.filter((x) => x.case === "prompt"))
    console.log(`\nprompt of ${r.tokens}, half of the neurons: ${r.tokens_per_second.toFixed(1)} tok/s; in memory ${r.in_memory.toFixed(1)}; `
        + `the disk's limit ${r.disk_limit.toFixed(1)} (${(r.disk_bytes_per_second / 1e6).toFixed(0)} MB/s, ${(r.read_bytes / 1e6).toFixed(0)} MB); ${percent(r.of_limit)} of the lower one`);
for (const r of results.filter((x) => x.rows)) {
    console.log("\n| what streams | --ram, GiB | tok/s | MB a token | hits | waiting |\n| --- | ---: | ---: | ---: | ---: | ---: |");
    for (const row of r.rows)
        console.log(`| ${row.name} | ${gib(row.ram)} | ${row.tokens_per_second.toFixed(2)} | ${row.mb_per_token.toFixed(1)} | ${percent(row.hit_rate)} | ${percent(row.wait_share)} |`);
}
const report = { date: new Date().toISOString(), threads, rounds, gen, model: "turbosparse-mistral-7b", peer: "llama.cpp of node-llama-cpp, mistral-7b-dense", results };
writeFileSync(join(out, "streaming.json"), JSON.stringify(report, null, 1) + "\n");
console.log(JSON.stringify(report));
