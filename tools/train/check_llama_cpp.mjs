// SPDX-License-Identifier: MIT
// Compare an exported SwiGLU model in llama.cpp (npm package node-llama-cpp) with what oracle.py --json wrote down:
// tokens, logits, greedy continuation, held-out loss. Usage: node check_llama_cpp.mjs MODEL.gguf ORACLE.json
import {readFileSync} from "node:fs";
import {getLlama} from "node-llama-cpp";

const [modelPath, oraclePath] = process.argv.slice(2);
const oracle = JSON.parse(readFileSync(oraclePath, "utf8"));
const llama = await getLlama({build: "never", gpu: false});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({contextSize: 512, batchSize: 512, sequences: 1, threads: 2});
const sequence = context.getSequence();
let failed = false;

function check(ok, text) {
    failed ||= !ok;
    console.log((ok ? "ok      " : "FAILED  ") + text);
}

async function logitsOf(ids) {
    await sequence.clearHistory();
    const out = await sequence.controlledEvaluate(ids.map((id) => [id, {generateNext: {logits: true}}]));
    return out.map((o) => o.next.logits);
}

for (const {text, ids} of oracle.sentences) {
    const got = model.tokenize(text);
    check(JSON.stringify(got) === JSON.stringify(ids), `tokens of ${JSON.stringify(text)}`);
    check(model.detokenize(got) === text, "  and back");
}

let worst = 0, sum = 0, count = 0;
(await logitsOf(oracle.prompt)).forEach((logits, i) => {
    oracle.logits[i].forEach((want, id) => {
        const diff = Math.abs(logits.get(id) - want);
        worst = Math.max(worst, diff);
        sum += diff * diff;
        count++;
    });
});
check(Math.sqrt(sum / count) < 0.05, `logits: rms difference ${Math.sqrt(sum / count).toFixed(4)}, worst ${worst.toFixed(4)}`);

const ids = [...oracle.prompt], greedy = [];
while (greedy.length < oracle.greedy.length) {
    const last = (await logitsOf(ids)).at(-1);
    const [best] = last.entries().next().value;
    ids.push(best);
    greedy.push(best);
}
let same = 0;
while (same < greedy.length && greedy[same] === oracle.greedy[same]) same++;
console.log(`greedy: ${same} of ${greedy.length} tokens as in PyTorch: ${JSON.stringify(model.detokenize(ids))}`);

if (oracle.rows) {
    let loss = 0, n = 0;
    for (const row of oracle.rows) {
        const out = await logitsOf(row.slice(0, -1));
        out.forEach((logits, i) => {
            let top = -Infinity, total = 0;
            for (const x of logits.values()) top = Math.max(top, x);
            for (const x of logits.values()) total += Math.exp(x - top);
            loss += top + Math.log(total) - logits.get(row[i + 1]);
            n++;
        });
    }
    loss /= n;
    check(Math.abs(loss - oracle.loss) < 0.01, `held-out loss ${loss.toFixed(4)}, PyTorch ${oracle.loss.toFixed(4)}`);
}
process.exit(failed ? 1 : 0);
