// SPDX-License-Identifier: MIT
// make check-serve-soak: clients that do what they like with hearth serve, for some time. Half of them go in the middle; others
// read slowly, send bodies that are broken or too large, or open a thousand connections at once. Whatever a client gets of a
// text must be the beginning of what it would have got alone. At the end nothing may be left of all that: idle slots, the
// same answers as at the beginning, no connection, no more memory, descriptors and threads, no leak (in a build with the
// address sanitizer), and SIGTERM in the middle of streams ends them, and the server, in good order.
//   node check_serve_soak.mjs HEARTH MODEL [MINUTES [SEED]]
// The seed decides what clients do, but not when, so two runs are alike and not the same.
// Exit status: 0, 1 with a message, 77 where there is no /proc.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [hearth, model, minutes = "30", seed = "1"] = process.argv.slice(2);
const CLIENTS = 10, MOST_BODY = 200000, CONTEXT = 512, PATIENCE_MS = 600000, GONE_MS = 60000;
if (!model || !(Number(minutes) > 0) || !/^\d+$/.test(seed)) {
    console.error("usage: node check_serve_soak.mjs HEARTH MODEL [MINUTES [SEED]]");
    process.exit(2);
}
if (!existsSync("/proc/self/status"))
    process.exit(77);

const folder = mkdtempSync(join(tmpdir(), "hearth-soak-"));
const started = Date.now();
let server = null, base = null, log = "", over = false;
process.on("exit", () => {
    server?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
});

function fail(message) {
    if (over)
        return;
    over = true;
    console.error(`serve soak, seed ${seed}, after ${Math.round((Date.now() - started) / 1000)} s: ${message}`);
    console.error(log.split("\n").slice(-60).join("\n"));
    process.exit(1);
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const within = (promise, what, ms = PATIENCE_MS) => {
    let timer;
    const late = new Promise(() => { timer = setTimeout(() => fail(`${what}: nothing within ${ms / 1000} s`), ms); });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

// ---- chance

function generator(state) {
    const next = () => {
        state = (state + 0x6D2B79F5) >>> 0;
        let t = Math.imul(state ^ (state >>> 15), state | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    return {
        below: (n) => Math.floor(next() * n),
        chance: (p) => next() < p,
        one: (list) => list[Math.floor(next() * list.length)],
    };
}

// ---- the server

async function start() {
    // No connection's time is over before the patience with it is: what the server forgot must not go by itself.
    const args = ["serve", model, "--port", "0", "-np", "4", "-t", "2", "-c", CONTEXT, "--kv-size", "640", "--queue", "12", "--ram", "min",
                  "--max-body", MOST_BODY, "--timeout", 2 * PATIENCE_MS / 1000, "--sse-ping-interval", "1", "--prefix-cache", join(folder, "prompts"),
                  "--prefix-cache-size", "8M", "--slot-save-path", folder].map(String);
    // The sanitizer keeps what was freed: less of it than usual, so that growth shows.
    const ASAN_OPTIONS = `${process.env.ASAN_OPTIONS ?? ""}:quarantine_size_mb=4:detect_leaks=1`;
    server = spawn(hearth, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ASAN_OPTIONS } });
    server.ended = new Promise((done) => server.on("exit", (code, signal) => done(signal ?? code)));
    server.ended.then((status) => server.stopping || fail(`the server ended with ${status}`));
    for (const stream of [server.stdout, server.stderr])
        stream.on("data", (bytes) => { log = (log + bytes).slice(-100000); });
    for (let i = 0; i < 3000 && !base; i++, await sleep(100))
        base = /is served at http:\/\/([^\s]*)/.exec(log)?.[1];
    if (!base)
        fail("the server does not start");
}

const where = () => ({ host: base.split(":")[0], port: Number(base.split(":")[1]) });

// ---- requests

const agent = new http.Agent({ keepAlive: true });

// A request and its answer: {status, text, cut}. `leave`: after so many milliseconds the client goes; `slow`: it waits so
// long after each piece; `began` is called when the answer begins.
function ask(method, path, body, { leave = 0, slow = 0, headers = {}, began = () => {} } = {}) {
    return within(new Promise((done) => {
        const result = { status: 0, text: "", cut: true };
        const decoder = new TextDecoder();
        const request = http.request({ ...where(), method, path, headers, agent: leave || slow ? false : agent }, (answer) => {
            result.status = answer.statusCode;
            answer.on("data", (bytes) => {
                began();
                result.text += decoder.decode(bytes, { stream: true });
                if (slow) {
                    answer.pause();
                    setTimeout(() => answer.resume(), slow);
                }
            });
            answer.on("end", () => { result.cut = !answer.complete; });
            answer.on("error", (error) => { result.error = error.message; });
            answer.on("close", () => done(result)); // after its end, however slowly that is read
        });
        request.on("error", (error) => { result.error = error.message; });
        request.on("close", () => result.status || done(result));
        if (leave)
            setTimeout(() => request.destroy(), leave);
        request.end(body);
    }), `${method} ${path}`);
}

const post = (path, body, how) => ask("POST", path, JSON.stringify(body), how);

// Bytes on a connection, whatever they are; what comes back within some time.
function send(bytes, ms) {
    return within(new Promise((done) => {
        let text = "";
        const socket = net.connect(where(), () => socket.write(bytes));
        socket.on("data", (more) => { text += more.toString("latin1"); });
        socket.on("error", () => {});
        socket.on("close", () => done(text));
        setTimeout(() => socket.destroy(), ms);
    }), "raw bytes");
}

// ---- answers

// How each API tells texts: of a whole answer and of an event, as [choice, text].
const apis = {
    "/completion": { whole: (a) => [a.content], event: (e) => [[0, e.content]] },
    "/v1/completions": { whole: (a) => a.choices.map((c) => c.text), event: (e) => e.choices.map((c) => [c.index, c.text]) },
    "/v1/chat/completions": {
        whole: (a) => a.choices.map((c) => (c.message.reasoning_content ?? "") + (c.message.content ?? "")),
        event: (e) => e.choices.map((c) => [c.index, (c.delta.reasoning_content ?? "") + (c.delta.content ?? "")]),
    },
    "/v1/messages": {
        whole: (a) => [a.content.map((c) => c.thinking ?? c.text ?? "").join("")],
        event: (e) => [[0, e.delta?.thinking ?? e.delta?.text ?? ""]],
    },
    "/v1/responses": {
        whole: (a) => [a.output.flatMap((o) => o.content ?? []).map((c) => c.text).join("")],
        event: (e) => [[0, /(output|reasoning)_text\.delta$/.test(e.type) ? e.delta : ""]],
    },
};

// The texts of an answer, as far as it came: {texts, ended, error}.
function textsOf(path, streams, answer) {
    const api = apis[path], found = { texts: [], ended: false, error: null };
    if (!streams) {
        if (!answer.cut)
            Object.assign(found, { texts: api.whole(JSON.parse(answer.text)), ended: true });
        return found;
    }
    const lines = answer.text.split("\n");
    lines.pop();
    for (const line of lines) {
        if (line === "data: [DONE]")
            found.ended = true;
        if (!line.startsWith("data: {"))
            continue;
        const event = JSON.parse(line.slice(6));
        if (event.error || event.type === "error") {
            found.error = (event.error ?? event).message;
            continue;
        }
        if (event.stop === true || event.type === "message_stop" || /^response\.(completed|incomplete)$/.test(event.type))
            found.ended = true;
        for (const [i, text] of event.choices || event.delta || event.content !== undefined ? api.event(event) : [])
            found.texts[i] = (found.texts[i] ?? "") + (text ?? "");
    }
    return found;
}

// ---- texts that are known

const words = "It was a dark and stormy night when the old house by the river burned and nobody came to look for her".split(" ");

function sentence(random, n) {
    return Array.from({ length: n }, () => random.one(words)).join(" ");
}

// Requests whose answers are learned alone, and wanted again in the crowd.
function makePool(random) {
    const pool = [];
    for (let i = 0; i < 14; i++) {
        const path = random.one(Object.keys(apis)), body = { temperature: 0.9, seed: 100 + i };
        const text = sentence(random, 1 + random.below(random.chance(0.3) ? 200 : 30)), length = 4 + random.below(random.chance(0.4) ? 380 : 40);
        if (path.endsWith("ompletion") || path === "/v1/completions")
            Object.assign(body, { prompt: text, max_tokens: length, ignore_eos: random.chance(0.5) });
        else if (path === "/v1/responses")
            Object.assign(body, { input: text, max_output_tokens: length });
        else
            Object.assign(body, { messages: [{ role: "user", content: text }], max_tokens: length });
        if (random.chance(0.3) && (path === "/v1/completions" || path === "/v1/chat/completions"))
            body.n = 2;
        if (random.chance(0.2))
            body.stop = ["the", "\n"];
        if (random.chance(0.2))
            body.logit_bias = { 5: -100, 7: 2 };
        pool.push({ path, body, texts: null });
    }
    pool.push({ path: "/completion", body: { prompt: "She said", max_tokens: 30, temperature: 1, seed: 3, grammar: 'root ::= [a-z ]+ "."' } });
    pool.push({ path: "/v1/chat/completions", body: { messages: [{ role: "user", content: "JSON!" }], max_tokens: 40, temperature: 1, seed: 4,
                                                       response_format: { type: "json_object" } } });
    return pool;
}

async function learn(entry) {
    const answer = await post(entry.path, entry.body);
    if (answer.status !== 200)
        fail(`${entry.path} ${JSON.stringify(entry.body)}: ${answer.status} ${answer.error ?? answer.text}`);
    return textsOf(entry.path, false, answer).texts;
}

// Wants what came of a request to be right, as far as it came.
function judge(entry, streams, answer, left) {
    const what = `${entry.path} ${JSON.stringify(entry.body).slice(0, 200)}`;
    if (answer.status === 503 || (left && answer.status !== 200) || (!answer.status && answer.error === "socket hang up"))
        return;
    if (answer.status !== 200)
        fail(`${what}: ${answer.status} ${answer.error ?? answer.text.slice(0, 300)}`);
    const { texts, ended, error } = textsOf(entry.path, streams, answer);
    if (!left && (answer.cut || error || !ended))
        fail(`${what}: the answer has no end: ${error ?? answer.error ?? ""} ${answer.cut ? "cut" : "whole"} ${answer.text.slice(-300)}`);
    for (let i = 0; i < texts.length; i++) {
        const got = texts[i] ?? "";
        if (left || !ended ? !entry.texts[i].startsWith(got) : entry.texts[i] !== got)
            fail(`${what}: the text is not that of the request alone:\n${JSON.stringify(got)}\n${JSON.stringify(entry.texts[i])}`);
    }
}

// ---- what clients do

const counts = {};
const fine = new Set([0, 200, 204, 400, 403, 404, 405, 413, 501, 503]);

function expect(answer, what) {
    if (!fine.has(answer.status))
        fail(`${what}: status ${answer.status}: ${answer.text.slice(0, 300)}`);
    if (answer.status >= 400 && answer.text && !answer.cut && !JSON.parse(answer.text).error)
        fail(`${what}: an error without its form: ${answer.text.slice(0, 300)}`);
}

// A JSON text with something wrong, most of the time.
function damage(random, text) {
    const at = random.below(text.length), n = random.below(12);
    switch (random.below(7)) {
    case 0: return text.slice(0, at);
    case 1: return text.slice(0, at) + text.slice(at + n);
    case 2: return text.slice(0, at) + text.slice(at, at + n).repeat(random.below(2000)) + text.slice(at + n);
    case 3: return text.slice(0, at) + String.fromCharCode(random.below(random.chance(0.5) ? 128 : 65536)) + text.slice(at + 1);
    case 4: return text.replace(/\d+(\.\d+)?/, () => random.one(["-1", "1e308", "99999999999999999999", "null", "\"1\"", "[]", "-0.0", "{}"]));
    case 5: return text.replace(/"[^"]*"(?=[,}\]])/, () => random.one(["null", "[[]]", "\"\\u0000\\ud800\"", "{\"a\":1}", "[".repeat(3000), "7"]));
    default: return text.replace("{", `{"${random.one(["n", "stop", "logit_bias", "tools", "grammar", "json_schema", "stream_options", "tool_choice",
        "response_format", "chat_template_kwargs", "seed", "top_k", "id_slot", "messages", "prompt"])}": ${random.one(["-5", "[1,2]", "{\"x\":{}}", "\"root ::= x\"",
        "1e99", "true", "[{\"type\":\"function\"}]", "\"\""])},`);
    }
}

const gets = ["/", "/health", "/v1/health", "/v1/models", "/models", "/props", "/slots", "/metrics", "/v1/models/x", "/nothing", "/v1/nothing", "/slots/0"];
const tool = { type: "function", function: { name: "look", parameters: { type: "object", properties: { place: { type: "string" } } } } };
const others = [
    ["/v1/embeddings", { input: ["dark night", "the old house", sentence(generator(5), 80)] }],
    ["/embedding", { content: "the river" }],
    ["/tokenize", { content: sentence(generator(6), 300), with_pieces: true }],
    ["/detokenize", { tokens: [1, 2, 300, 301, 302] }],
    ["/apply-template", { messages: [{ role: "user", content: "hello" }] }],
    ["/v1/messages/count_tokens", { messages: [{ role: "user", content: "hello" }], max_tokens: 3 }],
    ["/v1/chat/completions", { messages: [{ role: "user", content: "call" }], tools: [tool], tool_choice: "required", max_tokens: 60, stream: true }],
    ["/v1/messages", { messages: [{ role: "user", content: "call" }], tools: [{ name: "look", input_schema: tool.function.parameters }], max_tokens: 40 }],
    ["/v1/completions", { prompt: ["one", "two", "three"], max_tokens: 9, logprobs: 3 }],
    ["/completion", { prompt: "four", n_predict: 8, n_probs: 5, ignore_eos: true }],
    ["/v1/responses", { input: [{ role: "user", content: "Go on" }], max_output_tokens: 20, stream: true }],
];

const doings = {
    async whole(random, pool) {
        const entry = random.one(pool);
        judge(entry, false, await post(entry.path, entry.body), false);
    },
    async stream(random, pool) {
        const entry = random.one(pool);
        judge(entry, true, await post(entry.path, { ...entry.body, stream: true }), false);
    },
    async slow(random, pool) {
        const entry = random.one(pool);
        judge(entry, true, await post(entry.path, { ...entry.body, stream: true }, { slow: 1 + random.below(80) }), false);
    },
    async leave(random, pool) {
        const entry = random.one(pool), streams = random.chance(0.7);
        judge(entry, streams, await post(entry.path, { ...entry.body, stream: streams }, { leave: 1 + random.below(random.chance(0.3) ? 3000 : 300) }), true);
    },
    async broken(random, pool) {
        const entry = random.one(pool), body = damage(random, JSON.stringify({ ...entry.body, stream: random.chance(0.3) }));
        expect(await ask("POST", entry.path, body, { leave: random.chance(0.3) ? 1 + random.below(500) : 0 }), `${entry.path} ${body.slice(0, 500)}`);
    },
    async brokenOther(random) {
        const [path, given] = random.one(others), body = damage(random, JSON.stringify(given));
        expect(await ask("POST", path, body, { leave: random.chance(0.3) ? 1 + random.below(500) : 0 }), `${path} ${body.slice(0, 500)}`);
    },
    async other(random) {
        const [path, body] = random.one(others);
        const answer = await post(path, body, { leave: random.chance(0.4) ? 1 + random.below(500) : 0 });
        expect(answer, path);
        if (answer.status >= 400 && answer.status !== 503)
            fail(`${path}: ${answer.status} ${answer.text}`);
    },
    async huge(random) {
        const path = random.one(["/completion", "/v1/chat/completions", "/tokenize"]), body = Buffer.alloc(MOST_BODY + 1 + random.below(400000), 0x20);
        const headers = random.chance(0.5) ? { "transfer-encoding": "chunked" } : {};
        const answer = await ask("POST", path, body, { headers });
        if (answer.status && answer.status !== 413)
            fail(`${path} with a body of ${body.length} bytes: status ${answer.status}`);
    },
    async large() { // as large as may be
        const answer = await post("/completion", { prompt: "x".repeat(MOST_BODY - 100), n_predict: 1 });
        if (answer.status !== 400 && answer.status !== 503)
            fail(`a prompt of ${MOST_BODY} bytes: status ${answer.status} ${answer.error ?? ""}`);
    },
    async get(random) {
        expect(await ask(random.one(["GET", "GET", "GET", "HEAD", "OPTIONS", "POST", "DELETE"]), random.one(gets), ""), "GET");
    },
    async slots(random) {
        const action = random.one(["save", "restore", "erase", "erase", "nothing"]), name = random.one(["a", "b", "../a", "", "a/b", ".", "x".repeat(300)]);
        expect(await post(`/slots/${random.below(5) - 1}?action=${action}`, { filename: name }), `/slots ${action} ${name}`);
    },
    async raw(random) {
        const body = JSON.stringify({ prompt: "x", n_predict: 3 });
        await send(random.one([
            `POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length + 50}\r\n\r\n${body}`,
            "POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Le", "\x00\xff\r\n\r\n", `GET /${"a".repeat(9000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
            "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(50), `POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n${body}`,
            `POST /completion HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n${body}`,
            `POST /completion HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"pro\r\nzz\r\n`,
        ]), 10 + random.below(500));
    },
};
// Each as often as it is named. Of those that get texts, half go in the middle.
const often = ["whole", "stream", "stream", "slow", "leave", "leave", "leave", "leave", "leave", "broken", "broken", "brokenOther", "other", "other",
               "huge", "large", "get", "slots", "raw"];

async function client(random, pool, end) {
    while (Date.now() < end && !over) {
        const doing = random.one(often);
        counts[doing] = (counts[doing] ?? 0) + 1;
        await doings[doing](random, pool);
        if (random.chance(0.2))
            await sleep(random.below(200));
    }
}

// A thousand connections at once, some of which begin to say something.
async function flood(random) {
    const bytes = ["", "", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"];
    counts.flood = (counts.flood ?? 0) + 1;
    await Promise.all(Array.from({ length: 1000 }, () => send(random.one(bytes), 500 + random.below(1000))));
}

// ---- what must hold when all is quiet

const statusOf = (name) => Number(new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))[1]);

async function metric(name) {
    const answer = await ask("GET", "/metrics");
    return Number(new RegExp(`^${name} (\\S+)`, "m").exec(answer.text)?.[1]);
}

// What a descriptor of the server is, such as "socket:[4711]".
function descriptorOf(number) {
    try {
        return readlinkSync(`/proc/${server.pid}/fd/${number}`);
    } catch {
        return ""; // closed by now
    }
}

const descriptors = () => readdirSync(`/proc/${server.pid}/fd`).map(descriptorOf).filter((what) => what);
const sockets = () => descriptors().filter((what) => what.startsWith("socket:"));

// Connections as the system knows them; one that was reset, or closed by both sides, is not among them although the server may
// still have its socket.
function connections() {
    const port = `:${where().port.toString(16).toUpperCase().padStart(4, "0")}`, TIME_WAIT = "06";
    return readFileSync("/proc/net/tcp", "utf8").split("\n").map((line) => line.trim().split(/\s+/))
        .filter(([, from, to, state]) => (from?.endsWith(port) || to?.endsWith(port)) && state !== TIME_WAIT)
        .map(([, from, to, state, queues]) => `${from} ${to} state ${state} queues ${queues}`).join("\n");
}

// Waits until nothing is at work, and connections have gone: {memory in KiB, descriptors, threads}.
async function quiet() {
    agent.destroy();
    for (let i = 0; i < PATIENCE_MS / 100; i++, await sleep(100)) {
        const answer = await ask("GET", "/slots");
        if (answer.status === 200 && JSON.parse(answer.text).every((slot) => !slot.is_processing) && await metric("llamacpp:requests_deferred") === 0)
            break;
        if (i + 1 >= PATIENCE_MS / 100)
            fail(`slots that stay busy: ${answer.text}`);
    }
    agent.destroy();
    // For two seconds, since some may be on their way to the server yet. Nobody says anything meanwhile.
    for (let i = 0, since = 0; since < 20; i++) {
        await sleep(100);
        since = sockets().length > server.sockets ? 0 : since + 1;
        if (i >= GONE_MS / 100 && !since)
            fail(`${sockets().length - server.sockets} connections stay: ${sockets().join(" ")}\n${connections()}`);
    }
    return { memory: statusOf("RssAnon"), descriptors: descriptors().length, threads: statusOf("Threads") };
}

async function check(pool, when) {
    for (const entry of pool) {
        const texts = await learn(entry);
        entry.texts ??= texts;
        if (JSON.stringify(texts) !== JSON.stringify(entry.texts))
            fail(`${entry.path} ${JSON.stringify(entry.body)} has another answer ${when}`);
    }
    const vectors = await post("/v1/embeddings", others[0][1]);
    check.vectors ??= vectors.text;
    if (vectors.status !== 200 || vectors.text !== check.vectors)
        fail(`embeddings ${when}: status ${vectors.status}`);
}

// SIGTERM in the middle of streams, and again: what they have got by then is right, and they have an end.
async function terminate() {
    const body = { prompt: "It was", max_tokens: 480, temperature: 0.9, seed: 9, ignore_eos: true };
    const long = ["/completion", "/v1/completions"].map((path) => ({ path, body }));
    for (const entry of long)
        entry.texts = await learn(entry);
    let streams;
    await new Promise((began) => {
        streams = Array.from({ length: 6 }, (_, i) => long[i % 2]).map(async (entry) => {
            const answer = await post(entry.path, { ...entry.body, stream: true }, { began });
            judge(entry, true, answer, true);
            if (answer.status === 200 && entry.path === "/v1/completions" && !answer.text.trimEnd().endsWith("data: [DONE]"))
                fail(`a stream without its end: ${answer.text.slice(-300)}`);
        });
    });
    server.stopping = true;
    server.kill("SIGTERM");
    await sleep(100);
    server.kill("SIGTERM");
    await Promise.all(streams);
    return within(server.ended, "SIGTERM");
}

// ---- all of it

const random = generator(Number(seed)), pool = makePool(random);
await start();
server.sockets = sockets().length; // that are no connections
await check(pool, "at the beginning");
await check(pool, "at once again");
writeFileSync(join(folder, "b"), "HEARTHKV and then nothing");

const begun = Date.now(), total = Number(minutes) * 60000, rounds = Math.max(3, Math.min(12, Math.round(Number(minutes) * 2))), seen = [];
for (let round = 0; round < rounds; round++) {
    const end = begun + total * (round + 1) / rounds;
    const clients = Array.from({ length: CLIENTS }, (_, i) => client(generator(Number(seed) * 1000 + round * 50 + i), pool, end));
    if (round % 2 === 0)
        clients.push(flood(random));
    await Promise.all(clients);
    seen.push(await quiet());
    console.log(`${Math.round((Date.now() - started) / 1000)} s: ${Object.values(counts).reduce((a, b) => a + b)} requests, `
                + `${seen[round].memory} KiB, ${seen[round].descriptors} descriptors, ${seen[round].threads} threads`);
}
await check(pool, "at the end");

// What is kept on purpose (prompts, constraints, their states) is there after a part of the time.
const early = seen[Math.floor(rounds / 3)], last = seen[rounds - 1];
if (last.memory > early.memory * 1.1 + 32768)
    fail(`memory grows: ${seen.map((s) => s.memory).join(", ")} KiB`);
if (last.descriptors > seen[0].descriptors + 4 || last.threads > seen[0].threads + 16) // those that read requests come as they are needed
    fail(`descriptors or threads stay: ${JSON.stringify(seen)}`);
const preempted = await metric("hearth:preempted_total");
console.log(`${Object.entries(counts).map(([name, n]) => `${name} ${n}`).join(", ")}; texts that made room: ${preempted}`);

const status = await terminate();
if (status !== 0 || /Sanitizer|runtime error/.test(log))
    fail(`the server ended with ${status}`);
over = true;
