// SPDX-License-Identifier: MIT
// make bench-quality: what becomes of a model's answers when fewer of its neurons are computed, or fewer bits are kept of
// them; writes docs/quality.md and its charts. Every figure is of text that neither models nor predictors were trained on.
//
// It needs $HEARTH_TEST_DATA, a folder with corpora/novels.tar.xz (the books that the models in models/ were trained on, and
// the two that they were not) and corpora/wikitext2_valid.txt. --help tells the options.
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { basename, join } from "node:path";
import { attemptHearth, count, fail, file, options, root, run, runHearth, threadCount, writeReport } from "./common.mjs";

const o = options("Quality of sparse and of quantised models beside dense and unquantised ones.", {
    model: file("a SiLU model beside those in models/, whose quality is measured on WikiText (SmolLM2 135M, for the page)"),
    predictors: file("models/hearth-novels-drelu-Q8_0.gguf with predictors of an earlier run, in place of training some"),
    from: file("figures of an earlier run (bench/out/quality.json), in place of measuring"),
    steps: count(2000, "steps of training predictors"),
    train: count(1500, "kilobytes of text for profiles and predictors", 64),
    chunks: count(8, "chunks of 256 tokens of the novels, whose second halves are scored", 2),
    "model-chunks": count(2, "the same of --model and WikiText", 2),
    prompts: count(6, "prompts that texts are compared of"),
    threads: threadCount(),
});
const { threads } = o;
const docs = join(root, "docs"), models = join(root, "models"), data = process.env.HEARTH_TEST_DATA;
if (!o.from && (!data || !existsSync(join(data, "corpora", "novels.tar.xz"))))
    fail("HEARTH_TEST_DATA must name a folder with corpora/novels.tar.xz");
const work = mkdtempSync(join(tmpdir(), "hearth-quality-"));
process.on("exit", () => rmSync(work, { recursive: true, force: true }));

// ---- texts

const heldOut = ["Doyle_Hound_1902", "Lee_Albany_1884"];
const trained = ["Trollope_Warden_1855", "Gaskell_Ruth_1855", "Stevenson_Treasure_1883", "Hardy_Tess_1891", "James_Roderick_1875"];
const book = (name) => readFileSync(join(work, "novels", `${name}.txt`), "utf8");

function textFile(name, text) {
    const path = join(work, name);
    writeFileSync(path, text);
    return path;
}

const chars = (tokens) => Math.ceil(tokens * 6); // more than tokens of either model take
// From the middle of each book, where neither titles nor contents are.
const middle = (text, length) => text.slice(text.length >> 1, (text.length >> 1) + length);

// Files of text to score and to train on, and beginnings of texts: paragraphs of the books held out, cut in the middle of a
// sentence.
function makeTexts() {
    run("tar", ["xJf", join(data, "corpora", "novels.tar.xz"), "-C", work, ...[...heldOut, ...trained].map((name) => `novels/${name}.txt`)]);
    const prompts = heldOut.flatMap((name) => book(name).split(/\n\s*\n/).filter((p) => p.length > 300).map((p) => p.replace(/\s+/g, " ").slice(0, 120)));
    const wiki = o.model && readFileSync(join(data, "corpora", "wikitext2_valid.txt"), "utf8");
    return {
        novels: textFile("heldout.txt", heldOut.map((name) => middle(book(name), chars(o.chunks * 128))).join("\n")),
        training: textFile("training.txt", trained.map((name) => middle(book(name), o.train * 1000 / trained.length)).join("\n")),
        wiki: wiki && textFile("wiki.txt", middle(wiki, chars(o["model-chunks"] * 256))),
        wikiProfile: wiki && textFile("wiki-profile.txt", wiki.slice(0, 20000)),
        picked: Array.from({ length: o.prompts }, (_, i) => prompts[Math.floor((i + 0.5) * prompts.length / o.prompts)]),
    };
}

const { novels, training, wiki, wikiProfile, picked } = o.from ? {} : makeTexts();

// ---- measuring

const usual = ["-t", threads, "-q"];

// Scores of a model's text: {ppl, divergence}. base: what it is compared with, written where `write` says so.
function score(model, text, chunks, base, write, more) {
    const what = write ? ["-f", text] : ["--kl-divergence"];
    const args = ["perplexity", model, ...what, "-c", 256, "--chunks", chunks, "--kl-divergence-base", base, "--json", ...usual, ...more];
    const s = JSON.parse(runHearth(args));
    const [kld, kld_error] = s.divergence?.kld ?? [0, 0];
    const row = { ppl: s.ppl, kld, kld_error, same: s.divergence?.same_top_p[0] ?? 1, scored: s.scored_tokens };
    console.error(`${basename(model)} ${more.join(" ")}: perplexity ${row.ppl.toFixed(4)}, divergence ${row.kld.toFixed(5)}`);
    return row;
}

const tokensOfText = 40;
const texts = (model, more) => picked.map((p) => runHearth(["run", model, "-p", p, "-n", tokensOfText, "--temp", 0, "--ignore-eos", "--no-escape", ...usual, ...more]));

// How far greedy texts are those of the base: share of texts that are the same to the end, and mean share of each that is.
function agreement(ours, base) {
    let same = 0, sum = 0;
    ours.forEach((text, i) => {
        let n = 0;
        while (n < base[i].length && text[n] === base[i][n])
            n++;
        same += text === base[i];
        sum += base[i].length ? n / base[i].length : 1;
    });
    return { same_texts: same / ours.length, same_share: sum / ours.length };
}

function generationOf(model, more) {
    const done = attemptHearth(["run", model, "-p", picked[0], "-n", 60, "--temp", 0.8, "-s", 7, "--ignore-eos", "--stats", "json", ...usual, ...more]);
    const last = done.stderr.trim().split("\n").pop();
    return done.status === 0 ? JSON.parse(last) : fail(last);
}

// Shares of all neurons: those whose gate is computed, and those whose up and down are, while a text is generated.
const allGates = new Map(); // bytes, by model
function computed(model, more) {
    if (!allGates.has(model))
        allGates.set(model, generationOf(model, ["--sparsity", "exact"]).gate_bytes);
    const s = generationOf(model, more), all = allGates.get(model);
    return { gates: s.gate_bytes / all, neurons: s.up_bytes / all };
}

// Bits of a parameter.
const bits = (path) => Number(/\(([0-9.]+) bits per parameter\)/.exec(runHearth(["inspect", path]))[1]);

// ---- the models

const drelu = join(models, "hearth-novels-drelu-Q8_0.gguf"), silu = join(models, "hearth-novels-swiglu-Q8_0.gguf");
const chat = join(models, "smollm2-135m-sparse.gguf");
// Predictors: trained here, or given.
function withPredictors() {
    if (o.predictors)
        return o.predictors;
    const path = join(work, "predictors.gguf");
    console.error(`training predictors, ${o.steps} steps for each rank ...`);
    runHearth(["train-predictors", drelu, "-f", training, "-o", path, "--steps", o.steps, ...usual], { stdio: ["ignore", "ignore", "inherit"] });
    return path;
}

// A pack that accepts shares of neurons to leave out.
function packOf(model) {
    const profile = join(work, `${basename(model)}.profile`), pack = join(work, `${basename(model)}.hearth.gguf`);
    const text = textFile("profile.txt", model === o.model ? readFileSync(wikiProfile, "utf8") : readFileSync(training, "utf8").slice(0, 60000));
    runHearth(["profile", model, "-f", text, "-o", profile, "--sparsity-threshold", "50%", ...usual]);
    runHearth(["pack", model, pack, "--profile", profile, "--gates-apart", ...["-t", threads]], { stdio: "ignore" });
    return pack;
}

const step = ["--phase", "step"];

// A model's rows, the first of which is its base. ways: {name, model, more}.
function rowsOf(ways, text, chunks, phase, withTexts, withNeurons) {
    const base = join(work, "base.kld");
    let baseTexts = null;
    const rows = ways.map((way, i) => {
        const row = { name: way.name, share: way.share, ...score(way.model, text, chunks, base, i === 0, [...phase, ...way.more]) };
        if (withNeurons)
            Object.assign(row, i ? computed(way.model, way.more) : { gates: 1, neurons: 1 });
        if (withTexts) {
            const ours = texts(way.model, way.more);
            baseTexts ??= ours;
            Object.assign(row, agreement(ours, baseTexts));
        }
        return row;
    });
    rmSync(base, { force: true });
    // Not the base's own ratio: its rows do not tell apart what is very unlikely (docs/formats.md).
    return rows.map((row) => ({ ...row, ratio: row.ppl / rows[0].ppl }));
}

function sparseRows(model) {
    const off = { name: "dense (`--sparsity off`)", model, more: ["--sparsity", "off"] };
    const exact = { name: "`exact`", model, more: ["--sparsity", "exact"] };
    const predict = [0.25, 0.5, 0.75, 1, 1.25, 1.5, 2].map((x) => ({
        name: `\`predict\`, threshold ${x}${x === 1 ? " (the file's)" : ""}`, share: x, model, more: ["--sparsity", "predict", "--predict-threshold", x],
    }));
    return rowsOf([off, exact, ...predict], novels, o.chunks, step, true, true);
}

function chatRows() {
    const ways = ["off", "exact"].map((mode) => ({ name: `\`${mode}\``, model: chat, more: ["--sparsity", mode] }));
    return rowsOf(ways, novels, o.chunks, step, true, true);
}

const shares = [10, 20, 30, 40, 50, 60, 70];
function thresholdRows(model, text, chunks) {
    const pack = packOf(model);
    const ways = [{ name: "all neurons", share: 0, model: pack, more: ["--sparsity", "off"] },
        ...shares.map((x) => ({ name: `${x} % left out`, share: x, model: pack, more: ["--sparsity-threshold", `${x}%`] }))];
    return rowsOf(ways, text, chunks, step, model !== o.model, false);
}

// Tokens of a text: probabilities of models with the same ones can be compared.
const idsOf = (model) => runHearth(["tokenize", model, "Once upon a time, 1,024 words.", "--ids", "-q"]);

// The model made sparse, as files of their own; and the one that ships, where it was made of this one.
function sparsifiedRows(model, text, chunks) {
    const learned = textFile("sparsify.txt", model === o.model ? readFileSync(wikiProfile, "utf8") : readFileSync(training, "utf8").slice(0, 60000));
    const files = [...shares, 80, 90].map((x) => {
        const path = join(work, `${basename(model, ".gguf")}-sparse-${x}.gguf`);
        runHearth(["sparsify", model, "-f", learned, "-o", path, "--density", 100 - x, ...usual]);
        return { name: `${x} % off`, share: x, model: path, more: [] };
    });
    const trained = basename(model).startsWith("smollm2") && idsOf(model) === idsOf(chat)
        ? [{ name: `trained to be, in four bits: \`${basename(chat)}\``, share: 100, model: chat, more: [] }] : [];
    const rows = rowsOf([{ name: "all neurons", share: 0, model, more: [] }, ...files, ...trained], text, chunks, step, model !== o.model, false);
    files.forEach((f) => rmSync(f.model));
    return rows;
}

const formats = ["Q6_K", "Q5_K_M", "Q5_0", "Q4_K_M", "Q4_1", "Q4_0", "Q3_K_M", "Q2_K"];
function formatRows(model, text, chunks, from, phase) {
    const files = formats.slice(from).map((type) => {
        const path = join(work, `${basename(model, ".gguf")}-${type}.gguf`);
        runHearth(["quantize", model, path, type, ...usual], { stdio: "ignore" });
        return { name: type, model: path, more: [], bits: bits(path), bytes: statSync(path).size };
    });
    const first = { name: "the file itself", model, more: [], bits: bits(model), bytes: statSync(model).size };
    const ways = [first, ...files], rows = rowsOf(ways, text, chunks, phase, model !== o.model, false);
    files.forEach((f) => rmSync(f.model));
    return rows.map((row, i) => ({ ...row, bits: ways[i].bits, bytes: ways[i].bytes }));
}

// ---- statistics of activity

// The mean row of the table of hearth profile, shares.
function profileOf(model) {
    const text = textFile("profile.txt", readFileSync(novels, "utf8").slice(0, 60000));
    const done = attemptHearth(["profile", model, "-f", text, "-o", join(work, "any.profile"), "-t", threads]);
    const line = done.stderr.split("\n").find((l) => /^ *mean /.test(l)) ?? fail(`${basename(model)}: no profile`);
    const [one, eight, thirtytwo, again, n50, n80] = line.trim().split(/\s+/).slice(1).map((x) => Number(x) / 100);
    return { one, eight, thirtytwo, again, n50, n80 };
}

// Means over the layers of what synth_stats prints, while texts are generated.
function statsOf(model) {
    const lines = run(join(root, "build", "tests", "synth_stats"), [model, 32, 60]).trim().split("\n");
    const names = lines[1].trim().split(/\s+/), rows = lines.slice(2).map((l) => l.trim().split(/\s+/).map(Number));
    const mean = (name, from = 0) => rows.slice(from).reduce((sum, row) => sum + row[names.indexOf(name)], 0) / (rows.length - from);
    return { layers: rows.map((row) => Object.fromEntries(names.map((n, i) => [n, row[i]]))),
             missed: mean("missed"), idle: mean("idle"), jaccard: mean("jacc"), union: mean("union"), found: mean("found", 1), vain: mean("vain", 1) };
}

function activity(predicted) {
    const rows = [{ name: "trained: `hearth-novels-drelu`", ...profileOf(drelu), ...statsOf(drelu), layers: statsOf(predicted).layers },
        { name: "trained: `smollm2-135m-sparse`", ...profileOf(chat), ...statsOf(chat) }];
    for (const [name, more] of [["`synth small-turbosparse`", []], ["`synth --drift small-turbosparse`", ["--drift"]]]) {
        const path = join(work, "synth.gguf");
        runHearth(["synth", "small-turbosparse", path, ...more], { stdio: "ignore" });
        rows.push({ name, ...profileOf(path), ...statsOf(path) });
        rmSync(path);
    }
    return rows;
}

// ---- the page

const percent = (x, digits = 1) => `${(100 * x).toFixed(digits)} %`;
const change = (row) => `${row.ratio >= 1 ? "+" : ""}${(100 * (row.ratio - 1)).toFixed(2)} %`;

function table(columns, rows) {
    const lines = [columns.map(([name]) => name), columns.map(([, align]) => align ?? "---:"), ...rows.map((row) => columns.map(([, , cell]) => cell(row)))];
    return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

const common = [["perplexity", , (r) => r.ppl.toFixed(3)], ["change", , change], ["divergence, nats", , (r) => r.kld ? `${r.kld.toFixed(4)} ± ${r.kld_error.toFixed(4)}` : "0"],
    ["same likeliest token", , (r) => percent(r.same)]];
const greedy = [["greedy texts the same", , (r) => percent(r.same_texts, 0)], ["... to here", , (r) => percent(r.same_share, 0)]];
const named = (title) => [title, "---", (r) => r.name];

function draw(name, chart) {
    run(join(root, "build", "tests", "draw_chart"), [join(docs, name)], { input: JSON.stringify(chart) });
}

function page(r) {
    const when = r.date.slice(0, 10);
    const [small, , made] = r.activity, layers = small.layers, best = r.sparse.find((row) => row.share === 1), exact = r.sparse[1];
    const other = r.other?.name;
    return `# Quality

What becomes of a model's answers when fewer neurons are computed, or fewer bits are kept of each weight. Written by
\`${r.command}\` on ${when} (${r.machine}).

- **perplexity**: of text that the model was not trained on, and its *change* against the first row.
- **divergence**: Kullback-Leibler divergence of the probabilities of all tokens from those of the first row, mean over
  positions and its standard error.
- **same likeliest token**: at how many positions the first row's most likely token is this one's, too.
- **greedy texts**: ${r.prompts} prompts continued by ${tokensOfText} tokens, always the likeliest: how many texts are the first row's to the end, and what
  share of a text comes before the first difference. One token that differs changes all that follows.

Texts: ${r.sparse[0].scored.toLocaleString("en")} scored tokens of two novels that the models in [models/](../models/README.md) were not trained on (chunks of 256, second
halves)${r.other ? `; ${r.other.thresholds[0].scored.toLocaleString("en")} of WikiText-2 for \`${other}\`` : ""}. These are small samples. A change of perplexity below some 2 % (WikiText: 5 %) may be chance; the
divergence, which looks at all tokens and not at the text's own one alone, is steadier.

## Neurons left out: a model trained for it

\`hearth-novels-drelu\`: dReLU, six layers of 768 neurons, with predictors by \`hearth train-predictors\` (${r.steps} steps, ${(r.train / 1000).toFixed(1)} MB of novels). Everything is evaluated in steps, as in generation. *Gates* and *neurons*: the shares of all gates, and of all
up and down rows, that are computed.

${table([named("`--sparsity`"), ["gates", , (x) => percent(x.gates)], ["neurons", , (x) => percent(x.neurons)], ...common, ...greedy], r.sparse)}

\`exact\` differs from dense by ${Math.abs(exact.ppl - r.sparse[0].ppl).toPrecision(2)} in perplexity${exact.same_texts === 1 ? ", and all texts are the same" : ""}. \`predict\` with the file's own threshold changes it by
${change(best)}.

![Perplexity against the share of gates that are computed](quality-predict.svg)

Recall and precision of the predictors, layer by layer, counted in neurons while 32 texts are generated: of the active ones
those that are named, and of the named ones those that are active. Predictors are trained to find 98 % of the sum of
magnitudes, so they leave out neurons that give little.

${table([["layer", , (x) => x.layer.toFixed(0)], ["active", , (x) => percent(x.active)], ["named", , (x) => percent(x.predct)],
        ["recall", , (x) => percent(1 - x.missed)], ["precision", , (x) => percent(1 - x.idle)]], layers)}

\`smollm2-135m-sparse\`, the chat model that ships, has no predictors: the gates of all neurons are computed
([models/](../models/README.md)).

${table([named("`--sparsity`"), ["gates", , (x) => percent(x.gates)], ["neurons", , (x) => percent(x.neurons)], ...common, ...greedy], r.chat)}

## Neurons left out: models with SiLU

In these no neuron is off. The smallest ones are left out (\`--sparsity-threshold N%\`: in each layer the share N of
activated gates that was smallest in the profile's text). \`hearth-novels-swiglu\` is the twin of the model above:

${table([named("neurons"), ...common, ...greedy], r.thresholds)}
${r.other ? `
\`${other}\` (135 million parameters, 30 layers, ${r.other.bits} bits a weight):

${table([named("neurons"), ...common], r.other.thresholds)}
` : ""}
## Models with SiLU made sparse

The same models by \`hearth sparsify\`, which puts a linear part in the place of the neurons that are off
([sparse.md](sparse.md#models-whose-neurons-were-always-active)) and trains nothing. The shares are those that were asked for.
\`hearth-novels-swiglu\`:

${table([named("neurons"), ...common, ...greedy], r.sparsified)}
${r.other ? `
\`${other}\`:

${table([named("neurons"), ...common], r.other.sparsified)}
` : ""}
![Perplexity against the share of neurons left out](quality-thresholds.svg)

## Number formats

Of the two tiny models in models/, which are Q8_0, written again by \`hearth quantize\`; evaluated as prompts. The first row is the
file itself, so what Q8_0 has lost already is not counted ([formats.md](formats.md) has more about it). Models this small lose more than
large ones.

\`hearth-novels-drelu\`:

${table([named("format"), ["bits a weight", , (x) => x.bits.toFixed(2)], ...common, ...greedy], r.formats)}

\`hearth-novels-swiglu\`:

${table([named("format"), ["bits a weight", , (x) => x.bits.toFixed(2)], ...common, ...greedy], r.formatsTwin)}
${r.other ? `
\`${other}\`, whose weights have ${r.other.bits} bits already:

${table([named("format"), ["bits a weight", , (x) => x.bits.toFixed(2)], ...common], r.other.formats)}
` : ""}
![Divergence against bits a weight](quality-formats.svg)

## Activity: trained, made up, published

What caches and predictors live on. *Trained* and \`synth\` are measured here: shares of neurons by \`hearth profile\` on text, the rest
by \`synth_stats\` while texts are generated. *Found ahead*: of the active neurons, those that a look at the input of the layer
before finds; *in vain*: of those that it names, those that are not active.

${table([["model", "---", (x) => x.name], ["active", , (x) => percent(x.one)], ["in any of 8 tokens", , (x) => percent(x.eight)], ["of 32", , (x) => percent(x.thirtytwo)],
        ["active again", , (x) => percent(x.again)], ["neurons with 50 % of activations", , (x) => percent(x.n50)], ["with 80 %", , (x) => percent(x.n80)],
        ["overlap (Jaccard)", , (x) => x.jaccard.toFixed(2)], ["found ahead", , (x) => percent(x.found, 0)], ["in vain", , (x) => percent(x.vain, 0)]], r.activity)}

Published figures of large models:

| model | source | figure |
| --- | --- | --- |
| TurboSparse-Mistral-7B | TurboSparse | 10 % of neurons are active |
| TurboSparse-Mixtral-47B | TurboSparse | 15 % of those of two experts |
| Bamboo-7B, layer 10 | PowerInfer-2 | "highly active" for one token under 1 %, in a batch of 32 about 75 % |
| OPT-30B, a layer | PowerInfer | 26 % of the neurons have 80 % of the activations |
| Llama-2-70B ReGLU, a layer | PowerInfer | 43 % |
| Llama-2-70B SwiGLU, a layer | PowerInfer | 69 % |
| predictors of OPT and Llama | PowerInfer | above 95 % accuracy |

The small trained model's activity is more even than any of these: ${percent(small.n80, 0)} of its neurons have 80 % of the activations, where synthetic
models have ${percent(made.n80, 0)}, which is rosier than 26 to 43 % as well. So caches of synthetic models find more than they would in a model
like this one; [synth.md](synth.md#streams-that-drift) says which of its streams flatter, and by how much.
`;
}

// Prose within 100 columns; tables and what they are drawn from stay as they are.
function wrap(text) {
    return text.split("\n\n").map((part) => {
        if (/^(\||#|!\[)/.test(part) || part.includes("\n|"))
            return part;
        return part.split(/\n(?=- )/).map((item) => {
            const indent = item.startsWith("- ") ? "  " : "", lines = [];
            for (const word of item.split(/\s+/).filter(Boolean)) {
                const last = lines[lines.length - 1];
                if (last !== undefined && last.length + 1 + word.length <= 100)
                    lines[lines.length - 1] += ` ${word}`;
                else
                    lines.push(lines.length ? indent + word : word);
            }
            return lines.join("\n");
        }).join("\n");
    }).join("\n\n") + "\n";
}

function charts(r) {
    const ascending = (rows, x) => rows.sort((a, b) => x(a) - x(b)).filter((row, i, all) => !i || x(row) > x(all[i - 1]));
    const predict = ascending(r.sparse.filter((row) => row.share), (row) => row.gates);
    const over = (rows) => rows.map((row) => Math.max(0, 100 * (row.ratio - 1)));
    draw("quality-predict.svg", {
        title: "Neurons that predictors name", subtitle: "hearth-novels-drelu, text held out, in steps; dense is 0",
        x_label: "gates computed, % of all", y_label: "perplexity, % above dense", x: predict.map((row) => 100 * row.gates),
        series: [{ label: "predict", y: over(predict), strong: true }, { label: "exact", y: predict.map(() => over([r.sparse[1]])[0]), dashed: true }],
    });
    const up = (rows) => rows.filter((row) => row.share <= 60);
    draw("quality-thresholds.svg", {
        title: "Neurons left out, by size and by hearth sparsify", subtitle: "SiLU models, text held out, in steps", x_label: "neurons left out, %",
        y_label: "perplexity, % above all neurons", x: up(r.thresholds).map((row) => row.share),
        series: [{ label: "novels, by size", y: over(up(r.thresholds)), dashed: true }, { label: "novels, sparsify", y: over(up(r.sparsified)), strong: true },
            ...(r.other ? [{ label: `${basename(r.other.name, ".gguf")}, by size`, y: over(up(r.other.thresholds)), dashed: true },
                { label: `${basename(r.other.name, ".gguf")}, sparsify`, y: over(up(r.other.sparsified)) }] : [])],
    });
    const ordered = ascending(r.formats.map((row, i) => [row, r.formatsTwin[i]]).slice(1), ([row]) => row.bits);
    draw("quality-formats.svg", {
        title: "Fewer bits a weight", subtitle: "models in models/, text held out; the Q8_0 file is 0", x_label: "bits a weight",
        y_label: "divergence, nats", x: ordered.map(([row]) => row.bits),
        series: [{ label: "dReLU", y: ordered.map(([row]) => Math.max(0, row.kld)), strong: true }, { label: "SwiGLU", y: ordered.map(([, row]) => Math.max(0, row.kld)) }],
    });
}

function measure() {
    const predicted = withPredictors();
    const r = {
        sparse: sparseRows(predicted), chat: chatRows(), thresholds: thresholdRows(silu, novels, o.chunks),
        sparsified: sparsifiedRows(silu, novels, o.chunks),
        formats: formatRows(drelu, novels, o.chunks, 0, []), formatsTwin: formatRows(silu, novels, o.chunks, 0, []), activity: activity(predicted),
    };
    if (o.model)
        r.other = { name: basename(o.model), bits: bits(o.model), thresholds: thresholdRows(o.model, wiki, o["model-chunks"]),
                    sparsified: sparsifiedRows(o.model, wiki, o["model-chunks"]),
                    formats: formatRows(o.model, wiki, o["model-chunks"], 3, []) };
    const words = process.argv.slice(2).filter((a, i, all) => a !== "--hearth" && all[i - 1] !== "--hearth").map((a) => existsSync(a) ? basename(a) : a);
    const command = `make bench-quality${words.length ? ` BENCH_ARGS="${words.join(" ")}"` : ""}`, machine = `${cpus()[0].model.trim()}, ${threads} thread${threads === 1 ? "" : "s"}`;
    return writeReport("quality", { command, machine, prompts: o.prompts, steps: o.steps, train: o.train, ...r });
}

const figures = o.from ? JSON.parse(readFileSync(o.from, "utf8")) : measure();
charts(figures);
writeFileSync(join(docs, "quality.md"), wrap(page(figures)).trimEnd() + "\n");
