// SPDX-License-Identifier: MIT
// make bench-forecast: what `hearth plan` forecasts, beside what `hearth run` measures, for models at five budgets between
// the smallest one and all of their weights. Virtual machines change their speed, some by half from one minute to the next, so
// the machine is measured before and after each run, and a run is made again where that gives two forecasts. A forecast is of
// steps whose caches are full, and they are empty when a run begins: a prompt and the first half of the tokens fill them. The
// median token of the second half counts, as memory that the system gives out for the first time stalls single ones.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { attemptHearth, count, counts, fail, files, options, root, run, runHearth, temporaryText, threadCount, writeReport }
    from "./common.mjs";

const o = options("Forecasts of speed and reads beside what comes of them.", {
    models: files("the models, with commas between them"),
    shares: counts([5, 20, 40, 60, 80], "budgets, in percent of the way from the smallest one to all weights"),
    context: count(1024, "positions of the context", 512),
    gen: count(96, "tokens to generate, at most", 8),
    seconds: count(15, "of a run, about: fewer tokens where they take long"),
    threads: threadCount(),
});
const { threads, context } = o;
if (!o.models?.length)
    fail("which models? --models FILE,FILE");

const usual = ["-c", context, "-t", threads], mib = 2 ** 20;
// What fills the caches: bytes of a prompt, and as many tokens after it as are measured then, at least so many.
const promptBytes = 600, leastFilling = 32;
// Between forecasts before and after a run, at most; runs for a row.
const near = 0.1, attempts = 6;
const settling = 2; // seconds before a run
const cache = mkdtempSync(join(tmpdir(), "hearth-forecast-"));
const prompt = temporaryText("forecast-prompt.txt", readFileSync(join(root, "docs/streaming.md")).subarray(0, promptBytes));
const env = { ...process.env, XDG_CACHE_HOME: cache };
const plan = (model, more) => JSON.parse(runHearth(["plan", model, "--json", "-q", ...usual, ...more], { env }));
// What a machine that is measured anew gives.
function planAnew(model, ram) {
    rmSync(cache, { recursive: true, force: true });
    return plan(model, ["--measure", "--ram", ram]);
}
const percent = (x) => `${(100 * x).toFixed(0)} %`;

// The last line of a run within `ram` bytes, or null where all weights fit. What the run before it held, the system has back a
// moment after that one's end.
function runWithin(model, ram, n) {
    run("sleep", [settling]);
    const done = attemptHearth(["run", model, "-f", prompt, "-n", n, "--ignore-eos", "--temp", 0.8, "-s", 7,
                                "--stats", "json", "-q", "--pack", "never", ...usual, "--ram", ram], { env });
    const last = done.stderr.trim().split("\n").pop();
    if (done.status !== 0)
        fail(last || "hearth run failed");
    const s = JSON.parse(last);
    return s.streaming?.io ? s : null;
}

// What a token takes when the caches are full, {ms, bytes, reads, f: the forecast}; null where all weights fit; {why} where
// there is nothing to compare.
function measureWithin(model, ram, tokens) {
    const s = runWithin(model, ram, 2 * Math.max(tokens, leastFilling));
    if (!s)
        return null;
    if (!s.forecast)
        return { why: "the machine was too busy to be measured" };
    const t = s.streaming, bytes = t.late_read_bytes_per_token;
    return { ms: t.late_ms_per_token_p50, bytes, reads: bytes ? bytes * t.reads / t.read_bytes : 0, f: s.forecast };
}

function rowOf(model, ram, share) {
    for (let i = 0; i < attempts; i++) {
        const first = planAnew(model, ram), before = first.tokens_per_second;
        const tokens = Math.max(8, Math.min(o.gen, Math.round(before * o.seconds))), m = measureWithin(model, ram, tokens);
        if (!m)
            return null;
        if (m.why) {
            console.error(`${basename(model)}, ${ram}: ${m.why}`);
            continue;
        }
        const last = planAnew(model, ram), after = last.tokens_per_second;
        if (Math.abs(after / before - 1) > near) {
            console.error(`${basename(model)}, ${ram}: the machine changed its speed (${before.toFixed(2)}, then ${after.toFixed(2)} tok/s forecast)`);
            continue;
        }
        return {
            model: basename(model), ram, share, tokens,
            tokens_per_second: 1e3 / m.ms, forecast: m.f.tokens_per_second,
            mb_per_token: m.bytes / 1e6, mb_forecast: m.f.read_bytes_per_token / 1e6,
            reads_per_token: m.reads, reads_forecast: m.f.reads_per_token,
            computing_ms: (first.compute_ms_per_step + last.compute_ms_per_step) / 2,
            reading_ms: (first.storage_ms_per_step + last.storage_ms_per_step) / 2,
            error: m.f.tokens_per_second * m.ms / 1e3 - 1,
        };
    }
    return null;
}

const rows = [];
for (const model of o.models) {
    const { least_bytes: least, whole_bytes: whole } = plan(model, ["--ram", "all"]);
    for (const share of o.shares) {
        const ram = Math.round(least + 8 * mib + (whole - least) * share / 100), row = rowOf(model, ram, share);
        if (!row)
            continue;
        rows.push(row);
        console.error(`${row.model}, ${(ram / mib).toFixed(0)} MiB: ${row.forecast.toFixed(2)} tok/s forecast, ${row.tokens_per_second.toFixed(2)} measured`);
    }
}
rmSync(cache, { recursive: true, force: true });

console.log("| model | --ram, MiB | tok/s | forecast | error | MB a token | forecast | reads a token | forecast |");
console.log("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
for (const r of rows)
    console.log(`| ${r.model} | ${(r.ram / mib).toFixed(0)} | ${r.tokens_per_second.toFixed(2)} | ${r.forecast.toFixed(2)} | ${percent(r.error)} `
        + `| ${r.mb_per_token.toFixed(1)} | ${r.mb_forecast.toFixed(1)} | ${r.reads_per_token.toFixed(0)} | ${r.reads_forecast.toFixed(0)} |`);
const mean = rows.reduce((sum, r) => sum + Math.abs(r.error), 0) / (rows.length || 1);
console.log(`\nmean error ${percent(mean)}, largest ${percent(Math.max(0, ...rows.map((r) => Math.abs(r.error))))}`);
console.log(JSON.stringify(writeReport("forecast", { threads, context, mean_error: mean, rows })));
