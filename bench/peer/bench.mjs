// SPDX-License-Identifier: MIT
// Prompt and generation speed of llama.cpp through node-llama-cpp, as llama-bench measures them: an empty context,
// random tokens, one warm-up of each, then repetitions. Prints one JSON object.

import {options, open, flash} from "./common.mjs";

const o = options({m: "", p: 512, n: 128, t: 2, r: 5, fa: "auto", mmap: "on", ub: 512},
    "usage: node bench.mjs -m MODEL [-p 512] [-n 128] [-t 2] [-r 5] [-fa auto|on|off] [-mmap on|off] [-ub 512]");
const {llama, model} = await open(o);
const context = await model.createContext({
    contextSize: Math.max(o.p, o.n + 1) + 8, batchSize: o.ub, sequences: 1, threads: {ideal: o.t, min: o.t},
    flashAttention: flash(o.fa), performanceTracking: false
});
const sequence = context.getSequence();

// Any ids do: the work does not depend on them. A fixed generator keeps runs alike.
let state = 12345;
const vocabulary = model.fileInfo.metadata?.tokenizer?.ggml?.tokens?.length ?? 256;
const token = () => (state = (state * 1103515245 + 12345) % 2147483648) % vocabulary;

async function prompt() {
    const tokens = Array.from({length: o.p}, token);
    await sequence.clearHistory();
    const start = process.hrtime.bigint();
    await sequence.evaluateWithoutGeneratingNewTokens(tokens);
    return o.p / (Number(process.hrtime.bigint() - start) / 1e9);
}

async function generate(n) {
    await sequence.clearHistory();
    const first = [model.tokens.bos ?? token()];
    let done = 0;
    const start = process.hrtime.bigint();
    const steps = sequence.evaluate(first, {temperature: 0, yieldEogToken: true});
    let next = await steps.next();
    while (++done < n && !next.done) {
        next = await steps.next(token());
    }
    const seconds = Number(process.hrtime.bigint() - start) / 1e9;
    await steps.return();
    return done / seconds;
}

function summary(samples) {
    const sorted = [...samples].sort((a, b) => a - b);
    const mean = samples.reduce((a, b) => a + b, 0) / samples.length;
    return {median: sorted[sorted.length >> 1], mean, best: sorted.at(-1), samples};
}

const result = {
    peer: "node-llama-cpp 3.22.1", llama_cpp: llama.llamaCppRelease.release, system: llama.systemInfo, model: o.m,
    model_bytes: model.size, threads: context.currentThreads || o.t, flash_attention: o.fa, mmap: o.mmap, ubatch: o.ub
};
if (o.p > 0) {
    await prompt();
    const samples = [];
    for (let i = 0; i < o.r; i++)
        samples.push(await prompt());
    result[`pp${o.p}`] = summary(samples);
}
if (o.n > 0) {
    await generate(2);
    const samples = [];
    for (let i = 0; i < o.r; i++)
        samples.push(await generate(o.n));
    result[`tg${o.n}`] = summary(samples);
}
console.log(JSON.stringify(result, null, 2));
await context.dispose();
await llama.dispose();
