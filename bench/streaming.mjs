// SPDX-License-Identifier: MIT
// make bench-streaming: a sparse model of Mistral 7B's shape (TurboSparse's, synthetic) with a part of its neurons in
// memory, beside the same pack all in memory, and beside llama.cpp, which maps the dense file of that shape, in a memory
// cgroup of the same size. Programs run in turn, so that a change of the machine's speed meets all; quoted are medians.
//
// Cases (CASE=NAME with make; all of them without): half and quarter (of the neurons in memory), prompt (512 tokens with half
// of them), ablation (what each step from whole layers to the neuron cache brings). Files that are not given are written
// to bench/out first and deleted at the end: 10 GB of disk. With --budgets, any model that streams can be measured: one with
// experts, beside llama.cpp with the same file (--dense), or one that is larger than the machine's memory. --help tells the
// options.
import { existsSync, mkdirSync, rmdirSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { attempt, attemptHearth, choice, count, counts, denseModel, fail, file, llamaArgs, median, options, peerProgram, rowsOf, run,
         runHearth, sparsePack, temporaryText, threadCount, writeReport } from "./common.mjs";

const o = options("A sparse pack with a part of its neurons in memory, beside itself in memory and llama.cpp in a memory cgroup.", {
    case: choice("all", ["all", "half", "quarter", "prompt", "ablation"], "what to measure"),
    budgets: counts([], "budgets in MiB in place of the cases, such as 2950,2150"),
    context: count(1024, "positions of the context", 512),
    rounds: count(3, "how often each test is run"),
    gen: count(160, "tokens to generate", 2),
    threads: threadCount(),
    stream: choice("steady", ["steady", "drift"], "the synthetic pack's: whose neighbouring layers and tokens are alike, or as in trained models"),
    pack: file("the pack, with predictors, in place of a synthetic one; with --budgets any model"),
    dense: file("the dense model for llama.cpp, in place of a synthetic one"),
    peer: choice("on", ["on", "off"], "whether llama.cpp is measured"),
});
const { rounds, gen, threads } = o;
const llamaBench = o.peer === "on" && o.case !== "prompt" ? peerProgram("llama-bench-mapped") : null;
const pack = o.pack ?? sparsePack(threads, "--pack", o.stream);
const dense = llamaBench ? o.dense ?? denseModel("--dense") : null;

const gib = (bytes) => (bytes / 2 ** 30).toFixed(2), percent = (x) => `${(100 * x).toFixed(0)} %`;

// ---- Hearth

// The JSON of hearth run --stats on the pack; null when the budget of ram bytes (0: none) is refused, with the message in
// refusal.text. more: further arguments.
const refusal = { text: "" };

function session(ram, more) {
    const args = ["run", pack, "--stats", "json", "-q", "--ignore-eos", "-c", o.context, "-s", 7, "-t", threads, ...more];
    const done = attemptHearth(ram ? [...args, "--ram", Math.round(ram)] : args);
    const last = done.stderr.trim().split("\n").pop();
    if (done.status === 0)
        return JSON.parse(last);
    refusal.text = last;
    if (!last.includes("--ram must be at least"))
        fail(last || "hearth run failed");
    return null;
}

// n tokens generated after a short prompt.
const generate = (ram, n = gen, more = []) => session(ram, ["-p", "The morning was", "-n", n, "--temp", 0.8, ...more]);

// The smallest budget that the pack can run with, in bytes.
function smallest() {
    if (generate(1 << 20, 1))
        fail("a budget of 1 MiB is not refused");
    return Number(/at least [^(]*\((\d+) bytes\)/.exec(refusal.text)[1]);
}

// The budget in bytes with which this share of all neurons is in memory, the share that it really gets, and the plan's figures.
function budgetFor(share) {
    let ram = smallest(), step = 0, best = null;
    for (let i = 0; i < 8; i++) {
        const s = generate(ram, 1)?.streaming;
        if (!s) { // all in memory: too much
            ram -= step / 2;
            step /= 2;
            continue;
        }
        if (!s.neurons)
            fail(`${pack} is not a pack with predictors: no neurons of it can be streamed`);
        const kept = keptOf(s);
        if (!best || Math.abs(kept - share) < Math.abs(best.kept - share))
            best = { ram: Math.round(ram), kept, plan: s };
        if (Math.abs(kept - share) < 0.005)
            break;
        step = (share - kept) * s.neuron_bytes + (kept < share ? s.dense_read_bytes_per_step : 0);
        ram += step;
    }
    return best ?? fail(`${pack} is too small: all of it is in memory with the smallest budget, ${ram} bytes`);
}

// Which share of the neurons, or of the experts, is in memory; null for a model that streams whole layers.
const keptOf = (s) => s.neurons ? (s.neurons_resident + s.neurons_cached) / s.neurons : s.experts ? s.experts_cached / s.experts : null;

// Tokens per second, and milliseconds of a token.
const latency = (s) => ({
    tokens_per_second: s.tokens_per_second, mean_ms: 1000 / s.tokens_per_second, p50: s.ms_per_token_p50,
    p90: s.ms_per_token_p90, p99: s.ms_per_token_p99,
});

// ---- llama.cpp in a memory cgroup

const cages = new Set();
process.on("exit", () => cages.forEach(closeCage));

// A new memory cgroup's folder with a limit in bytes; null where there is none to be had.
function openCage(bytes) {
    const v1 = "/sys/fs/cgroup/memory", v2 = "/sys/fs/cgroup";
    const base = existsSync(join(v1, "memory.limit_in_bytes")) ? v1 : v2;
    const cage = join(base, `hearth-bench-${process.pid}`);
    try {
        mkdirSync(cage);
        cages.add(cage);
        writeFileSync(join(cage, base === v1 ? "memory.limit_in_bytes" : "memory.max"), String(Math.round(bytes)));
    } catch (e) {
        closeCage(cage);
        return null;
    }
    return cage;
}

function closeCage(cage) {
    try {
        if (cages.delete(cage))
            rmdirSync(cage);
    } catch (e) {
        console.error(`${cage} is left behind: ${e.message}`);
    }
}

// Makes the next reader of a file read the storage.
function dropCaches(path) {
    try {
        attempt("sync", []);
        writeFileSync("/proc/sys/vm/drop_caches", "3");
    } catch (e) { // not root: the one file, then
        attempt("dd", [`if=${path}`, "iflag=nocache", "count=0"]);
    }
}

// Tokens per second of n tokens by llama.cpp with the dense file mapped and this many bytes of memory; null where it is not
// measured, has no cgroup, or cannot run with so little.
function mapped(ram, n) {
    if (!llamaBench)
        return null;
    const cage = openCage(ram);
    if (!cage) {
        console.error("no memory cgroup to be had (needs root): no figures of llama.cpp");
        return null;
    }
    dropCaches(dense);
    const args = llamaArgs(dense, threads, ["-p", 0, "-n", n, "-lm", "mmap", "--no-warmup"]);
    const done = attempt("sh", ["-c", 'echo $$ > "$0" && exec "$@"', join(cage, "cgroup.procs"), llamaBench, ...args]);
    closeCage(cage);
    if (done.status === 0)
        return rowsOf(llamaBench, done.stdout)[0].avg_ts;
    console.error(`llama.cpp failed with ${gib(ram)} GiB (${done.signal ?? `status ${done.status}`}): no figures of it`);
    return null;
}

// ---- the storage

// Bytes per second of one long read around the page cache.
function diskSpeed(path) {
    const size = 1 << 22, bytes = Math.min(512 * size, statSync(path).size), start = process.hrtime.bigint();
    run("dd", [`if=${path}`, "of=/dev/null", `bs=${size}`, "count=512", "iflag=direct"]);
    return bytes / (Number(process.hrtime.bigint() - start) / 1e9);
}

// ---- cases

// As people read it.
const shareOf = (budget) => budget.kept === null ? "a part" : percent(budget.kept);

// The medians of everything that is a number in the samples.
function medians(samples) {
    const keys = Object.keys(samples[0]).filter((k) => typeof samples[0][k] === "number");
    return Object.fromEntries(keys.map((k) => [k, median(samples.map((s) => s[k]))]));
}

// What a budget of so many MiB gives.
function budgetOf(mib) {
    const ram = mib * 2 ** 20, s = generate(ram, 2) ?? fail(`${mib} MiB: ${refusal.text}`);
    if (!s.streaming)
        fail(`all of ${pack} is in memory with ${mib} MiB`);
    return { ram, kept: keptOf(s.streaming), plan: s.streaming };
}

// Generation with a part of the neurons or experts in memory, beside all of them where this machine has room for them.
function part(name, budget) {
    const all = [], some = [], ratios = [], theirs = [];
    let fits = true;
    for (let i = 0; i < rounds; i++) {
        const a = fits ? generate(0) : null, b = generate(budget.ram);
        fits = Boolean(a) && !a.streaming;
        if (fits) {
            all.push(latency(a));
            ratios.push(b.tokens_per_second / a.tokens_per_second);
        }
        some.push({
            ...latency(b), hit_rate: b.streaming.hit_rate, mb_per_token: b.streaming.read_bytes_per_token / 1e6,
            wait_share: b.streaming.wait_share, peak_bytes: b.memory_peak_bytes,
        });
        const t = i < 2 ? mapped(budget.ram, 4) : null; // slow, and hardly varies
        if (t)
            theirs.push(t);
        console.error(`${name}, round ${i + 1}: ${fits ? `in memory ${a.tokens_per_second.toFixed(2)}, ` : ""}${shareOf(budget)} of it ${b.tokens_per_second.toFixed(2)}`
            + (t ? `, llama.cpp ${t.toFixed(2)}` : "") + " tok/s");
    }
    const llama = theirs.length ? median(theirs) : null, streamed = medians(some);
    return {
        case: name, ram: budget.ram, neurons_in_memory: budget.kept, plan: budget.plan, in_memory: all.length ? medians(all) : null, streamed,
        of_in_memory: ratios.length ? median(ratios) : null, p99_over_mean: median(some.map((s) => s.p99 / s.mean_ms)),
        llama_cpp_mapped: llama, times_llama_cpp: llama && streamed.tokens_per_second / llama,
    };
}

// A prompt with half of the neurons in memory.
function prompt() {
    const budget = budgetFor(0.5), n = 512, ids = [];
    for (let i = 0; i < n - 1; i++)
        ids.push(300 + (i * 7919) % 20000);
    // Text is not always cut into the tokens it came from: as much of it as gives n of them.
    const whole = runHearth(["detokenize", pack], { input: ids.join(" ") });
    const tokensOf = (length) => runHearth(["tokenize", pack], { input: whole.slice(0, length) }).trim().split(/\s+/).length;
    let low = 0, high = whole.length;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (tokensOf(middle) <= n)
            low = middle;
        else
            high = middle;
    }
    const text = temporaryText("prompt.txt", whole.slice(0, low));
    const all = [], some = [];
    let tokens = 0, bytes = 0;
    for (let i = 0; i < rounds; i++) {
        const a = session(0, ["-f", text, "-n", 1]), b = session(budget.ram, ["-f", text, "-n", 1]);
        all.push(a.prompt_tokens_per_second);
        some.push(b.prompt_tokens_per_second);
        tokens = b.prompt_tokens;
        bytes = b.streaming.prompt_read_bytes;
        console.error(`prompt, round ${i + 1}: in memory ${all[i].toFixed(1)}, half of the neurons ${some[i].toFixed(1)} tok/s`);
    }
    const disk = diskSpeed(pack), diskLimit = tokens / (bytes / disk), computeLimit = median(all);
    return {
        case: "prompt", ram: budget.ram, tokens, tokens_per_second: median(some), in_memory: computeLimit, read_bytes: bytes,
        disk_bytes_per_second: disk, disk_limit: diskLimit, of_limit: median(some) / Math.min(diskLimit, computeLimit),
    };
}

// The same budget, but for the second row, which has the smallest one: a cache of what one token needs. Each row adds one
// thing to the one before.
function ablation() {
    const budget = budgetFor(0.5), n = Math.max(8, Math.floor(gen / 8));
    const rows = [["whole layers, all neurons", budget.ram, ["--sparsity", "off"], n], ["+ bundles, in the smallest cache", smallest(), ["--overlap", "none"], n],
        ["+ cache", budget.ram, ["--overlap", "none"], gen], ["+ computing while bundles are read", budget.ram, ["--overlap", "compute"], gen],
        ["+ looking ahead", budget.ram, [], gen]];
    const result = rows.map(([name, ram, more, tokens]) => {
        const samples = [];
        for (let i = 0; i < rounds; i++) {
            const s = generate(ram, tokens, more);
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
    const theirs = mapped(budget.ram, 4);
    if (theirs)
        result.unshift({ name: "llama.cpp, dense file mapped", ram: budget.ram, tokens_per_second: theirs, mb_per_token: 0, wait_share: 0, hit_rate: 0 });
    return { case: "ablation", rows: result };
}

// ---- the run

const cases = [["half", () => part("half", budgetFor(0.5))], ["quarter", () => part("quarter", budgetFor(0.25))], ["prompt", prompt], ["ablation", ablation]];
const results = o.budgets.length ? o.budgets.map((mib) => part(`${mib} MiB`, budgetOf(mib)))
    : cases.filter(([name]) => o.case === "all" || o.case === name).map(([, measure]) => measure());

const parts = results.filter((r) => r.streamed);
if (parts.length) {
    console.log("| neurons or experts in memory | --ram, GiB | tok/s | in memory | of it | P50 ms | P99 ms | P99 / mean | MB a token | hits | waiting | llama.cpp, mapped | times |");
    console.log("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
}
for (const r of parts) {
    const s = r.streamed;
    console.log(`| ${shareOf({ kept: r.neurons_in_memory })} | ${gib(r.ram)} | ${s.tokens_per_second.toFixed(2)} | ${r.in_memory?.tokens_per_second.toFixed(2) ?? "-"} `
        + `| ${r.of_in_memory === null ? "-" : percent(r.of_in_memory)} `
        + `| ${s.p50.toFixed(0)} | ${s.p99.toFixed(0)} | ${r.p99_over_mean.toFixed(2)} | ${s.mb_per_token.toFixed(1)} | ${s.hit_rate === undefined ? "-" : percent(s.hit_rate)} | ${percent(s.wait_share)} `
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
console.log(JSON.stringify(writeReport("streaming", {
    threads, rounds, gen, model: o.pack ? basename(o.pack) : "turbosparse-mistral-7b", stream: o.pack ? null : o.stream,
    peer: `llama.cpp of node-llama-cpp, ${o.dense ? basename(o.dense) : "mistral-7b-dense"}`, results,
})));
