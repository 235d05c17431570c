// SPDX-License-Identifier: MIT
// make bench-device: best of 4 whose texts end one after the other, with hot neurons or experts on a device. How they are
// divided between the device and the CPU is left to the session, beside fixed shares of the device (--device-hot). Programs
// run in turn, so that a change of the machine's speed meets all; quoted are medians. Each run has 4 texts at once, then 3,
// 2 and 1, in one session: what it learns of the device is part of its time.
//
// A model that is not given is written to bench/out first and deleted at the end: 10 GB of disk. --help tells the options.
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { count, counts, file, hearthBench, median, newFile, options, root, run, sparsePack, text, threadCount, writeReport } from "./common.mjs";

const o = options("A session that divides work between a device and the CPU, beside fixed shares.", {
    model: file("a model with hot neurons (a sparse pack) or hot experts, in place of a synthetic pack"),
    device: text("0", "the device, by its number or a part of its name"),
    vram: text("1G", "of its memory"),
    layers: count(1, "whole layers, or layers' attention, that the device has besides, at most"),
    shares: counts([0, 25, 50, 75, 100], "fixed shares of the device, per cent", 0),
    texts: count(4, "texts that a run begins with"),
    gen: count(64, "tokens of each text before the next one ends"),
    rounds: count(3, "how often every program is run"),
    threads: threadCount(),
    svg: newFile("where to draw the chart, in place of bench/out/device.svg"),
});
const alive = Array.from({ length: o.texts }, (_, i) => o.texts - i);
const model = o.model ?? sparsePack(o.threads, "--model");
const ways = [{ name: "by time", percent: -1 }, ...o.shares.map((percent) => ({ name: `${percent} %`, percent }))];

// Tokens a second of all texts together, for each number of texts that are left.
function measure(percent) {
    const rows = hearthBench(model, o.threads, ["-r", 1, "-p", 0, "-n", o.gen, "-npl", alive.join(","), "--roof", 0, "--device", o.device,
                                                "--vram", o.vram, "-ngl", o.layers, "--device-hot", percent]);
    return rows.map((row) => row.avg_ts);
}

for (let round = 1; round <= o.rounds; round++)
    for (const way of ways) {
        way.samples = [...(way.samples ?? []), measure(way.percent)];
        console.error(`round ${round}: ${way.name}: ${way.samples.at(-1).map((v) => v.toFixed(1)).join(", ")} tok/s`);
    }
for (const way of ways)
    way.speeds = alive.map((_, i) => median(way.samples.map((sample) => sample[i])));
const fixed = ways.slice(1), best = alive.map((_, i) => Math.max(...fixed.map((way) => way.speeds[i])));

console.log(`${basename(model)}, device ${o.device} with ${o.vram}; tokens a second, all texts together\n`);
console.log(`| texts left | ${ways.map((way) => way.name).join(" | ")} | of the best fixed share |`);
console.log(`| ---: |${" ---: |".repeat(ways.length + 1)}`);
alive.forEach((n, i) => console.log(`| ${n} | ${ways.map((way) => way.speeds[i].toFixed(1)).join(" | ")} | ${(ways[0].speeds[i] / best[i]).toFixed(2)} |`));

const { device, vram, layers, gen, rounds, threads } = o;
writeReport("device", { model: basename(model), device, vram, layers, gen, rounds, threads, alive, ways });
const drawer = join(o.hearth ? dirname(o.hearth) : join(root, "build"), "tests", "draw_chart");
const svg = o.svg ?? join(root, "bench", "out", "device.svg");
if (existsSync(drawer)) {
    run(drawer, [svg], {
        input: JSON.stringify({
            title: `Best of ${o.texts}, whose texts end one after the other`,
            subtitle: `${basename(model)}; the device's share of hot neurons or experts: by time, or fixed`,
            x_label: "texts that are left", y_label: "tokens a second", x: alive.toReversed(),
            series: ways.map((way, i) => ({ label: way.name, strong: !i, dashed: i > 0, dots: !i, y: way.speeds.toReversed() })),
        }),
    });
    console.log(`\n${svg}`);
}
