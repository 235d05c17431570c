// SPDX-License-Identifier: MIT
// The most probable next tokens after each of the given ids, by llama.cpp. One JSON object per position and line:
// {"position", "token", "top": [[id, probability, logit], ...]}. Ids come from -ids "1 2 3" or from stdin.

import {readFileSync} from "node:fs";
import {options, open, flash} from "./common.mjs";

const o = options({m: "", ids: "", top: 10, t: 1, fa: "off", mmap: "on"},
    'usage: node top.mjs -m MODEL [-ids "1 2 3"] [-top 10] [-t 1] [-fa off|on|auto]');
const ids = (o.ids || readFileSync(0, "utf8")).trim().split(/[\s,]+/).map(Number);
if (ids.some((id) => !Number.isInteger(id) || id < 0)) {
    console.error("ids are whole numbers separated by spaces");
    process.exit(2);
}
const {llama, model} = await open(o);
const context = await model.createContext({
    contextSize: ids.length + 8, batchSize: ids.length + 8, sequences: 1, threads: {ideal: o.t, min: o.t},
    flashAttention: flash(o.fa)
});
const input = ids.map((id) => [id, {generateNext: {logits: true, probabilities: true}}]);
const output = await context.getSequence().controlledEvaluate(input);
ids.forEach((id, position) => {
    const {logits, probabilities} = output[position].next;
    const top = [...logits].slice(0, o.top).map(([t, logit]) => [t, probabilities.get(t), logit]);
    console.log(JSON.stringify({position, token: id, top}));
});
await context.dispose();
await llama.dispose();
