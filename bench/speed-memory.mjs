// SPDX-License-Identifier: MIT
// make speed-memory: docs/speed-memory.svg, the picture of README.md: generated tokens a second by memory. Nothing is measured
// here. Dots are the measured figures of bench/speed-memory.json, which tells where, when and how; lines are what hearth plan
// forecasts for the shapes of the same models on the same machine. --svg FILE writes it elsewhere.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { attemptHearth, count, fail, median, newFile, options, root, run, runHearth } from "./common.mjs";

const { svg, every, hearth } = options("Draws measured speeds by memory, and forecasts beside them.", {
    svg: newFile("where to draw the chart, in place of docs/speed-memory.svg"),
    every: count(1, "forecasts with every N-th budget alone, for a look at the rest"),
});
const { models, measured, threads, forecast_machine: machine } = JSON.parse(readFileSync(join(root, "bench", "speed-memory.json"), "utf8"));

// ---- forecasts

const folder = mkdtempSync(join(tmpdir(), "hearth-shapes-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const range = (from, to, step) => Array.from({ length: Math.round((to - from) / step) + 1 }, (_, i) => from + i * step);
const budgets = [...range(0.75, 4.5, 0.25), ...range(5, 20, 1)].filter((_, i) => (i + 1) % every === 0); // GiB

// A plan for the model with so many GiB (0: for all of it), or null where that is too little.
function plan(shape, gib) {
    const ram = gib ? `${Math.round(gib * 1024)}M` : "all";
    const done = attemptHearth(["plan", shape, "--machine", machine, "-c", 1024, "-t", threads, "--ram", ram, "--json", "-q"]);
    return done.status === 0 ? JSON.parse(done.stdout) : null;
}

// [GiB, tokens a second], up to what all of it takes.
function forecast(model) {
    const shape = join(folder, model);
    runHearth(["synth", "--shape", model, shape, "-q"]);
    const whole = plan(shape, 0) ?? fail(`no forecast of ${model}`);
    const all = Math.round(whole.ram_bytes / 2 ** 20) / 1024;
    const points = budgets.filter((gib) => gib < all).map((gib) => [gib, plan(shape, gib)?.tokens_per_second]);
    return { all, points: [...points.filter(([, speed]) => speed), [all, whole.tokens_per_second]] };
}

// ---- the chart

const forecasts = new Map(models.map(({ model }) => [model, forecast(model)]));
const last = Math.max(...budgets);
const gibOf = (set, point) => point.mib ? point.mib / 1024 : set.file_gib ?? forecasts.get(set.model).all;
const dots = (sets) => sets.flatMap((set) => set.points.map((p) => [gibOf({ ...set, ...p }, p), median(p.tokens_per_second)]));

const lines = models.flatMap(({ model, label }, i) => [
    { label: `${label}, measured`, strong: true, dots: true, points: dots(measured.filter((m) => m.program === "Hearth" && m.model === model)) },
    { label: `${label}, forecast`, dashed: true, like: 2 * i, points: forecasts.get(model).points },
]);
for (const set of measured.filter((m) => m.program !== "Hearth")) { // hardly above the axis: with their figures
    const points = dots([set]), figures = points.map(([, speed]) => speed.toPrecision(speed < 1 ? 2 : 3)).join(", ");
    lines.push({ label: `${set.program}, ${set.label}: ${figures}`, strong: true, dots: true, points });
}
for (const line of lines)
    line.points = line.points.filter(([gib]) => gib <= last);

const x = [...new Set(lines.flatMap((line) => line.points.map(([gib]) => gib)))].sort((a, b) => a - b);
const series = lines.map(({ points, ...line }) => {
    const at = new Map(points);
    return { ...line, y: x.map((gib) => at.get(gib) ?? null) };
});
run(join(hearth ? dirname(hearth) : join(root, "build"), "tests", "draw_chart"), [svg ?? join(root, "docs", "speed-memory.svg")], {
    input: JSON.stringify({
        title: "Speed against memory", subtitle: "dots: measured on two cores of a Zen 5, synthetic models in Q4_0; lines: what hearth plan forecasts",
        x_label: "memory that the program may use, GiB", y_label: "tokens a second", x, series,
    }),
});
