// SPDX-License-Identifier: MIT
// What the benchmarks share: where things are, options, medians.
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
export const out = join(root, "bench", "out"); // what they write
export const peer = join(root, "bench", "peer"); // llama.cpp
export const hearth = join(root, "build", "hearth");

// The value behind --name on the command line.
export function option(name, fallback) {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? fallback : process.argv[at + 1];
}

export function median(values) {
    const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
