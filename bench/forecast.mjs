// SPDX-License-Identifier: MIT
// make bench-forecast: what `hearth plan` forecasts, beside what `hearth run` measures, for models at five budgets between
// the smallest one and all of their weights. The machine is measured anew first. Caches are empty when a run begins, so
// short runs of models with experts read more than the forecast says.
import { basename } from "node:path";
import { attemptHearth, count, counts, fail, files, options, runHearth, threadCount, writeReport } from "./common.mjs";

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
const plan = (model, more) => JSON.parse(runHearth(["plan", model, "--json", "-q", ...usual, ...more]));
const percent = (x) => `${(100 * x).toFixed(0)} %`;

// A run within `ram` bytes: {tokens_per_second, forecast, streaming}, or null where all weights fit.
function runWithin(model, ram, n) {
    const done = attemptHearth(["run", model, "-p", "The morning was", "-n", n, "--ignore-eos", "--temp", 0.8, "-s", 7,
                                "--stats", "json", "-q", "--pack", "never", ...usual, "--ram", ram]);
    const last = done.stderr.trim().split("\n").pop();
    if (done.status !== 0)
        fail(last || "hearth run failed");
    const s = JSON.parse(last);
    return s.streaming?.io && s.forecast ? s : null;
}

const rows = [];
runHearth(["plan", o.models[0], "--measure", "-q", ...usual]);
for (const model of o.models) {
    const { least_bytes: least, whole_bytes: whole } = plan(model, ["--ram", "all"]);
    for (const share of o.shares) {
        const ram = Math.round(least + 8 * mib + (whole - least) * share / 100);
        const speed = plan(model, ["--ram", ram]).tokens_per_second;
        const s = runWithin(model, ram, Math.max(8, Math.min(o.gen, Math.round(speed * o.seconds))));
        if (!s)
            continue;
        const tokens = s.generated_tokens - 1, f = s.forecast;
        const row = {
            model: basename(model), ram, share, tokens,
            tokens_per_second: s.tokens_per_second, forecast: f.tokens_per_second,
            mb_per_token: s.streaming.read_bytes_per_token / 1e6, mb_forecast: f.read_bytes_per_token / 1e6,
            reads_per_token: s.streaming.reads / tokens, reads_forecast: f.reads_per_token,
            error: f.tokens_per_second / s.tokens_per_second - 1,
        };
        rows.push(row);
        console.error(`${row.model}, ${(ram / mib).toFixed(0)} MiB: ${row.forecast.toFixed(2)} tok/s forecast, ${row.tokens_per_second.toFixed(2)} measured`);
    }
}

console.log("| model | --ram, MiB | tok/s | forecast | error | MB a token | forecast | reads a token | forecast |");
console.log("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
for (const r of rows)
    console.log(`| ${r.model} | ${(r.ram / mib).toFixed(0)} | ${r.tokens_per_second.toFixed(2)} | ${r.forecast.toFixed(2)} | ${percent(r.error)} `
        + `| ${r.mb_per_token.toFixed(1)} | ${r.mb_forecast.toFixed(1)} | ${r.reads_per_token.toFixed(0)} | ${r.reads_forecast.toFixed(0)} |`);
const mean = rows.reduce((sum, r) => sum + Math.abs(r.error), 0) / (rows.length || 1);
console.log(`\nmean error ${percent(mean)}, largest ${percent(Math.max(0, ...rows.map((r) => Math.abs(r.error))))}`);
console.log(JSON.stringify(writeReport("forecast", { threads, context, mean_error: mean, rows })));
