// SPDX-License-Identifier: MIT
// make bench-drafts: how much faster drafted tokens make answers, for models that chat: a table and bench/out/drafts.json.
//
// Each answer is generated without drafts, with those of the text itself and, with --draft, with a small model's, in turn,
// and must be the same. Quoted are medians over the rounds. --help tells the options.
import { basename } from "node:path";
import { attemptHearth, count, fail, file, files, median, misuse, options, text, threadCount, writeReport } from "./common.mjs";

const o = options("How much faster drafted tokens make answers.", {
    models: files("models that chat, or one and --ram"),
    draft: file("a small model that drafts for them"),
    ram: text(undefined, "memory budget, for a model that is larger"),
    temp: text("0", "temperature"),
    gen: count(250, "tokens of an answer at most"),
    rounds: count(3, "how often each answer is generated"),
    threads: threadCount(),
});
if (!o.models)
    misuse("there is no model to measure: --models FILE,...");

// What people ask that is near what they give, and what is not.
const code = `def compute_invoice(items, tax_rate, discount):
    total = 0
    for item in items:
        price = item["price"]
        quantity = item["quantity"]
        total = total + price * quantity
    if discount > 0:
        total = total - total * discount
    total = total + total * tax_rate
    return round(total, 2)

def print_invoice(items, tax_rate, discount):
    for item in items:
        print(item["name"], item["quantity"], item["price"])
    total = compute_invoice(items, tax_rate, discount)
    print("Total:", total)`;
const notes = "Anna Berg, engineer, Oslo, born 1981. Jonas Lind, teacher, Malmo, born 1975. Maria Costa, doctor, Porto, born 1990. "
    + "Peter Novak, baker, Brno, born 1968. Lucy Hill, writer, Leeds, born 1987.";
const tasks = {
    "change code": `Here is a Python program. Write all of it again with the variable total renamed to price_sum:\n\n${code}`,
    "a table of notes": `Make a Markdown table with the columns name, job, town and year of birth of these notes: ${notes}`,
    "an essay": "Write an essay about the history of the steam engine, in five paragraphs.",
};

const ways = { none: ["--draft-max", 0], text: [], ...(o.draft && { small: ["-md", o.draft] }) };

function answer(model, prompt, way) {
    const done = attemptHearth(["chat", model, "-st", "-p", prompt, "--temp", o.temp, "-s", 7, "-n", o.gen, "-c", 2048, "-t", o.threads,
        ...(o.ram ? ["--ram", o.ram] : []), "--stats", "json", ...ways[way]], { env: { ...process.env, HEARTH_DRAFT_MAX: "15" } });
    if (done.status)
        fail(`${basename(model)}: ${done.stderr.trim().split("\n").pop()}`);
    const s = JSON.parse(done.stderr.trim().split("\n").pop());
    return { text: done.stdout, speed: s.tokens_per_second, tokens: s.generated_tokens, drafted: s.draft_tokens, accepted: s.draft_tokens_accepted };
}

const rows = [];
for (const model of o.models)
    for (const [task, prompt] of Object.entries(tasks)) {
        const runs = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
        for (let round = 0; round < o.rounds; round++)
            for (const way in ways)
                runs[way].push(answer(model, prompt, way));
        const row = { model: basename(model), task, tokens: runs.none[0].tokens };
        for (const way in ways) {
            if (runs[way].some((run) => run.text !== runs.none[0].text))
                fail(`${row.model}, ${task}: drafts (${way}) change the text`);
            row[way] = { speed: median(runs[way].map((run) => run.speed)), drafted: runs[way][0].drafted, accepted: runs[way][0].accepted };
        }
        rows.push(row);
    }

const drafts = (row, way) => `${row[way].speed.toPrecision(4)} (${row[way].accepted} of ${row[way].drafted}) | ${(row[way].speed / row.none.speed).toFixed(2)}`;
console.log(`| model | answer | tokens | without, tok/s | drafts of the text (accepted) | times |${o.draft ? " of a small model | times |" : ""}`);
console.log(`| --- | --- | ---: | ---: | ---: | ---: |${o.draft ? " ---: | ---: |" : ""}`);
for (const row of rows)
    console.log(`| ${row.model} | ${row.task} | ${row.tokens} | ${row.none.speed.toPrecision(4)} | ${drafts(row, "text")} |${o.draft ? ` ${drafts(row, "small")} |` : ""}`);
writeReport("drafts", { models: o.models, draft: o.draft, ram: o.ram, temp: o.temp, rounds: o.rounds, threads: o.threads, rows });
