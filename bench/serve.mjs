// SPDX-License-Identifier: MIT
// make bench-serve: hearth serve with 1, 4, 8 and 16 clients at once, whose prompts have 200 to 1,500 tokens: tokens a second
// of all clients together, and how long each waits for its first token. With --peer, llama.cpp's llama-server does the same
// requests in turn. --help tells the options.
import { spawn } from "node:child_process";
import { request } from "node:http";
import { createServer } from "node:net";
import { basename, join } from "node:path";
import { count, counts, fail, file, median, misuse, options, root, threadCount, writeReport } from "./common.mjs";

const { clients, requests, gen, context, model, threads, peer, hearth } = options("A server with several clients at once.", {
    clients: counts([1, 4, 8, 16], "how many clients there are at once"),
    requests: count(2, "requests of each client, one after the other"),
    gen: count(64, "tokens to generate in each"),
    context: count(2048, "tokens that a text may have, prompt and answer"),
    model: file("the model"),
    threads: threadCount(),
    peer: file("llama.cpp's llama-server, to be measured beside"),
});
if (!model)
    misuse("--model FILE is wanted");

// ---- servers

const freePort = () => new Promise((done) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
        const { port } = probe.address();
        probe.close(() => done(port));
    });
});

// Starts a server for so many clients: {base, stop}.
async function start(program, args, slots) {
    const port = await freePort();
    const child = spawn(program, [...args, "-t", threads, "--port", port, "-np", slots].map(String), { stdio: "ignore" });
    const stop = () => new Promise((done) => { child.on("exit", done); child.kill(); });
    const base = `http://127.0.0.1:${port}`;
    for (let i = 0; i < 600; i++) {
        if (child.exitCode !== null)
            fail(`${basename(program)} ended with status ${child.exitCode}`);
        const health = await fetch(base + "/health").catch(() => null);
        if (health?.ok)
            return { base, stop };
        await new Promise((done) => setTimeout(done, 200));
    }
    fail(`${basename(program)} does not start`);
}

const servers = [["hearth", (n) => start(hearth ?? join(root, "build", "hearth"), ["serve", model, "-c", context], n)]];
if (peer) // its -c is shared by the slots
    servers.push(["llama.cpp", (n) => start(peer, ["-m", model, "-c", context * n, "-fa", "on", "--no-webui"], n)]);

// ---- clients

// Tokens of some words, as many as are asked for, other ones for each request, so that no server can use what it has kept.
async function prompt(base, seed, length) {
    const some = "time house water light stone river night morning people letter window garden story winter road".split(" ");
    let state = seed * 2654435761 >>> 0, content = `Request ${seed}.`;
    for (let i = 0; i < length; i++) { // a word has a token at least
        state = (state * 1664525 + 1013904223) >>> 0;
        content += " " + some[state % some.length];
    }
    const answer = await fetch(base + "/tokenize", { method: "POST", body: JSON.stringify({ content }) });
    const { tokens } = await answer.json();
    return tokens.slice(0, length);
}

// fetch() gives up when an answer has not begun after five minutes; a queue may be longer. The answer of a POST, on a
// connection of its own: servers close those that are idle.
const post = (url, body) => new Promise((done, failed) => request(url, { method: "POST", agent: false }, done).on("error", failed).end(body));

// One request: {first, ms, prompt, tokens}.
async function ask(base, seed) {
    const tokens = await prompt(base, seed, 200 + seed * 397 % 1301), begin = performance.now();
    const answer = await post(base + "/completion", JSON.stringify(
        { prompt: tokens, n_predict: gen, ignore_eos: true, temperature: 0, stream: true, cache_prompt: false }));
    const done = { first: 0, ms: 0, prompt: 0, tokens: 0 };
    const decoder = new TextDecoder();
    let rest = "";
    for await (const bytes of answer) {
        const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
        rest = lines.pop();
        for (const line of lines.filter((l) => l.startsWith("data: {"))) {
            const event = JSON.parse(line.slice(6));
            done.first ||= performance.now() - begin;
            if (event.stop)
                Object.assign(done, { ms: performance.now() - begin, prompt: event.tokens_evaluated, tokens: event.tokens_predicted });
        }
    }
    return done.tokens ? done : fail(`a request of ${tokens.length} tokens came to nothing: status ${answer.statusCode}: ${rest.slice(0, 300)}`);
}

// All clients together, each with its requests.
async function load(base, n) {
    const begin = performance.now();
    const all = (await Promise.all(Array.from({ length: n }, async (_, client) => {
        const mine = [];
        for (let i = 0; i < requests; i++)
            mine.push(await ask(base, 1 + client + i * n));
        return mine;
    }))).flat();
    const seconds = (performance.now() - begin) / 1000, sum = (field) => all.reduce((total, r) => total + r[field], 0);
    return {
        clients: n, seconds, generated: sum("tokens") / seconds, evaluated: (sum("tokens") + sum("prompt")) / seconds,
        first: median(all.map((r) => r.first)) / 1000, last: Math.max(...all.map((r) => r.first)) / 1000,
    };
}

// ---- the table

const rows = [];
console.log("| server | clients | tok/s generated, all | tok/s with prompts | first token, median s | longest |");
console.log("| --- | ---: | ---: | ---: | ---: | ---: |");
for (const n of clients)
    for (const [name, open] of servers) {
        const server = await open(n);
        const row = { server: name, ...await load(server.base, n) };
        await server.stop();
        rows.push(row);
        console.log(`| ${name} | ${n} | ${row.generated.toFixed(1)} | ${row.evaluated.toFixed(0)} | ${row.first.toFixed(2)} | ${row.last.toFixed(2)} |`);
    }
writeReport("serve", { threads, gen, requests, model: basename(model), rows });
