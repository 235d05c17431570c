// SPDX-License-Identifier: MIT
// The web page of hearth serve in a headless Chromium:
//   node check_page.mjs HEARTH [--at URL] [--shots FOLDER] [--only TEST]
// --at: of a page whose server runs already; --shots: writes pictures of it. Status 77: there is no Chromium.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Browser, findBrowser, sleep } from "./browser.mjs";

const [hearth, ...rest] = process.argv.slice(2);
const option = name => rest.includes(name) ? rest[rest.indexOf(name) + 1] : null;
const shots = option("--shots");
const source = join(dirname(fileURLToPath(import.meta.url)), "../..");
const model = join(source, "models/hearth-novels-drelu-Q8_0.gguf");
const tmp = mkdtempSync(join(tmpdir(), "hearth-page-"));

// ---- servers

const servers = [];

function start(...args) {
    const server = spawn(hearth, ["serve", model, "-np", "2", "-t", "1", "-c", "512", "--temp", "0", "--chat-template",
        "vicuna", "--port", "0", ...args], { stdio: ["ignore", "pipe", "pipe"] });
    servers.push(server);
    return new Promise((resolve, reject) => {
        let log = "";
        const take = data => {
            log += data;
            const base = log.match(/ is served at (http:\S+)/);
            if (base)
                resolve({ server, base: base[1] });
        };
        server.stdout.on("data", take);
        server.stderr.on("data", take);
        server.on("exit", () => reject(new Error(`the server has ended: ${log}`)));
    });
}

// ---- what is on the page

const idle = "!document.querySelector('#send').hidden";
const busy = "!document.querySelector('#stop').hidden";
const messages = role => `[...document.querySelectorAll('.message.${role}')]`;
const texts = role => `${messages(role)}.map(m => m.querySelector('.text, .markdown').textContent)`;
const labelled = text => `button[aria-label="${text}"]`;

async function send(page, text) {
    await page.click("#input");
    await page.type(text);
    await page.press("Enter");
}

async function sendAndWait(page, text) {
    await send(page, text);
    await page.until(`${idle} && !document.querySelector('#input').value`);
}

// A button of a message by its text.
async function clickIn(page, role, i, text) {
    await page.evaluate(`${messages(role)}.at(${i}).querySelectorAll('footer button').forEach(b =>
        b.toggleAttribute('data-here', b.textContent === ${JSON.stringify(text)}))`);
    await page.click("[data-here]");
    await page.evaluate("document.querySelectorAll('[data-here]').forEach(b => b.removeAttribute('data-here'))");
}

async function set(page, values) {
    await page.click("#settings");
    for (const [name, value] of Object.entries(values)) {
        await page.evaluate(`document.querySelector('#settings-dialog [name=${name}]').select()`);
        await page.press("Delete");
        await page.evaluate(`document.querySelector('#settings-dialog [name=${name}]').value = ''`);
        await page.type(value);
    }
    await page.click("#settings-dialog .main");
}

async function shot(page, name) {
    if (shots)
        writeFileSync(join(shots, name + ".png"), await page.screenshot());
}

// An answer as the server streams it, in pieces of n characters.
function streamOf(text, n, thoughts = "") {
    const pieces = value => value.match(new RegExp(`[^]{1,${n}}`, "g")) || [];
    const event = delta => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;
    const timings = { cache_n: 5, prompt_n: 20, prompt_ms: 400, predicted_n: 99, predicted_per_second: 42.5 };
    const events = [...pieces(thoughts).map(t => event({ reasoning_content: t })),
        ...pieces(text).map(t => event({ content: t })),
        `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], timings })}\n\n`];
    return { status: 200, type: "text/event-stream", body: events.join("") + "data: [DONE]\n\n", events };
}

// ---- tests

const HOSTILE = "<img src=x onerror=\"window.hacked=1\"> <script>window.hacked=2</script> " +
    "[a](javascript:window.hacked=3) [b](data:text/html,x) ![c](https://example.org/c.png) " +
    "<a href=\"javascript:window.hacked=4\">d</a>";
const MARKDOWN = `# Title

A paragraph with **bold**, *italic*, ***both***, ~~gone~~, \`a <b> & c\` and snake_case_name; 2 * 3 * 4.
See [Hearth](https://example.org/a_(b)?x=1&y=2 "title") or https://example.org/path_x. <mailto:a@example.org>

- one
- two
  1. first
  2. second

     a paragraph in it
- [x] done

> A quote with **weight**
> > in a quote

| Name | Size | Notes |
|:-----|-----:|:-----:|
| a \\| b | 12 | \`x\` |
| c | 3456 | |

\`\`\`c
int main(void)
{
    return 0; // <not> **markup**
}
\`\`\`

---

7. seven
8. eight

${HOSTILE}

~~~
never closed *`;

async function testSending(page, base) {
    await set(page, { max_tokens: "16", seed: "3" });
    await page.click("#input");
    await page.type("It was");
    await page.press("Enter", 8); // with Shift: a new line
    assert.equal(await page.evaluate("document.querySelector('#input').value"), "It was\n");
    await page.type("a dark night.");
    await page.press("Enter");
    await page.until(`${idle} && ${messages("assistant")}.length === 1`);
    const [answer] = await page.evaluate(texts("assistant"));
    const body = { messages: [{ role: "user", content: "It was\na dark night." }], max_tokens: 16, seed: 3 };
    const own = await fetch(base + "/v1/chat/completions", { method: "POST", body: JSON.stringify(body) });
    const same = await own.json();
    assert.equal(answer.replace(/\s+/g, " ").trim(), same.choices[0].message.content.replace(/\s+/g, " ").trim());
    assert.match(await page.evaluate("document.querySelector('.figures').textContent"), /tokens\/s · 16 tokens/);
    assert.match(await page.evaluate("document.querySelector('#spoken').textContent"), /^The answer: ./);
    await page.until("/context \\d+ of 512 tokens · memory \\d/.test(document.querySelector('#state').textContent)");
}

async function testStopping(page, base) {
    await set(page, { max_tokens: "" });
    await send(page, "And then?");
    await page.until(`${busy} && ${texts("assistant")}.at(-1).length > 10`);
    await page.press("Escape");
    await page.until(idle);
    assert.match(await page.evaluate(`${messages("assistant")}.at(-1).textContent`), /Stopped\./);
    for (let i = 0, processing = true; processing; i++) {
        assert.ok(i < 100, "the server still generates");
        processing = (await (await fetch(base + "/slots")).json()).some(slot => slot.is_processing);
        await sleep(50);
    }
}

async function testVersions(page) {
    await set(page, { max_tokens: "8" });
    await clickIn(page, "assistant", -1, "Regenerate");
    await page.until(`${idle} && ${messages("assistant")}.at(-1).textContent.includes('2/2')`);
    await page.click(labelled("Former version"));
    assert.match(await page.evaluate(`${messages("assistant")}.at(-1).textContent`), /1\/2.*Stopped\./);
    await clickIn(page, "user", 0, "Edit");
    await page.until("document.activeElement.closest('.edit')");
    await page.evaluate("document.activeElement.select()");
    await page.type("The sun rose.");
    await page.press("Enter");
    await page.until(`${idle} && ${messages("assistant")}.length === 1`);
    assert.deepEqual(await page.evaluate(texts("user")), ["The sun rose."]);
    await page.click(labelled("Former version"));
    assert.equal(await page.evaluate(`${messages("user")}.length`), 2);
    await page.click(labelled("Next version"));
    await clickIn(page, "assistant", 0, "Edit");
    await page.until("document.activeElement.closest('.edit')");
    await page.evaluate("document.activeElement.select()");
    await page.type("My own words.");
    await page.click(".edit .main");
    assert.deepEqual(await page.evaluate(texts("assistant")), ["My own words."]);
    await sendAndWait(page, "What did you say?");
    assert.equal(await page.evaluate(`${messages("assistant")}.length`), 2);
}

async function testKeeping(page) {
    const before = await page.evaluate("document.querySelector('#thread').innerText");
    await page.reload();
    assert.equal(await page.evaluate("document.querySelector('#thread').innerText"), before);
    await page.click("#new");
    assert.equal(await page.evaluate("document.querySelectorAll('.message').length"), 0);
    await sendAndWait(page, "Another one.");
    assert.equal(await page.evaluate("document.querySelectorAll('#chats li').length"), 2);
    await page.click("#chats .open", 1);
    assert.equal(await page.evaluate("document.querySelector('#thread').innerText"), before);
    await page.click("#chats .current .act", 0);
    await page.until("document.querySelector('#ask').open");
    await page.evaluate("document.querySelector('#ask-input').select()");
    await page.type("Renamed <b>it</b>");
    await page.press("Enter");
    await page.until("document.querySelector('#title').textContent === 'Renamed <b>it</b>'");
}

async function testMarkdown(page) {
    for (const n of [1, 7, 10000]) {
        await page.click("#new");
        await page.intercept(streamOf(MARKDOWN, n, "First I think.\n<b>Then</b> I speak."));
        await sendAndWait(page, HOSTILE);
        await page.until("document.querySelector('.figures')?.textContent.includes('42 tokens/s') || " +
            "document.querySelector('.figures')?.textContent.includes('43 tokens/s')");
        const found = await page.evaluate(`(() => {
            const at = document.querySelector(".markdown"), user = document.querySelector(".user .text");
            const all = s => [...at.querySelectorAll(s)], one = s => at.querySelector(s);
            const texts = s => all(s).map(e => e.textContent);
            return { html: all("img, script, iframe, [onerror], [style]").length, user: user.textContent,
                children: user.children.length,
                links: all("a").map(a => a.href), rel: all("a").every(a => a.rel.includes("noopener")),
                heading: one("h3").textContent, marks: texts(":scope > p:first-of-type > :is(strong, em, del, code)"),
                both: one("strong > em").textContent, items: all("li").length, nested: texts("li ol > li > p"),
                box: one("input").checked, quote: one("blockquote blockquote").textContent, rule: all("hr").length,
                cells: texts("td"), right: one("td.right").textContent, start: all("ol").at(-1).start,
                code: texts(".code code"), language: one(".code header span").textContent,
                thoughts: document.querySelector(".thoughts div").textContent,
                open: document.querySelector(".thoughts").open, hacked: window.hacked }; })()`);
        assert.deepEqual(found, { html: 0, user: HOSTILE, children: 0,
            links: ["https://example.org/a_(b)?x=1&y=2", "https://example.org/path_x", "mailto:a@example.org",
                "https://example.org/c.png"], rel: true,
            heading: "Title", marks: ["bold", "italic", "both", "gone", "a <b> & c"], both: "both", items: 7,
            nested: ["second", "a paragraph in it"], box: true, quote: "in a quote", rule: 1,
            cells: ["a | b", "12", "x", "c", "3456", ""], right: "12", start: 7,
            code: ["int main(void)\n{\n    return 0; // <not> **markup**\n}", "never closed *"], language: "c",
            thoughts: "First I think.\n<b>Then</b> I speak.", open: false });
    }
    await page.intercept(null);
}

// Texts that are made to take long, or to nest deeply.
async function testStrain(page) {
    const texts = ["*a _b ", "[", "[a](", "`` ` ", "> ", "- ", "<http://", "~~~ ~~", "| a ", "*a **b ", "\\", "!["];
    for (const text of texts) {
        const took = await page.evaluate(`(() => {
            const at = performance.now(), element = document.createElement("div");
            const text = ${JSON.stringify(text)};
            showMarkdown(element, text.repeat(20000) + "\\n" + (text + "\\n").repeat(2000));
            return performance.now() - at; })()`);
        assert.ok(took < 3000, `${text}: ${took} ms`);
    }
}

async function testFiles(page) {
    await page.browser.call("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: tmp });
    const readTitles = () => page.evaluate("[...document.querySelectorAll('#chats .open')].map(b => b.textContent)");
    const titles = await readTitles();
    await page.click("#export");
    const file = join(tmp, "hearth-conversations.json");
    for (let i = 0; i < 100 && !readdirSync(tmp).includes("hearth-conversations.json"); i++)
        await sleep(50);
    const all = JSON.parse(readFileSync(file, "utf8"));
    assert.equal(all.conversations.length, titles.length);
    assert.ok(!JSON.stringify(all).includes("hearth.settings"));
    await page.evaluate("localStorage.clear()");
    await page.reload();
    assert.equal(await page.evaluate("document.querySelectorAll('#chats li').length"), 0);
    all.conversations.push({ nodes: [{ id: 1, parent: 7, role: "user" }] }, { nodes: "x" }, null, // are left out
        { nodes: [{ id: Number.MAX_SAFE_INTEGER, parent: 0, role: "user", text: "no number comes behind this" }] });
    writeFileSync(file, JSON.stringify(all));
    await choose(page, file);
    await page.until(`document.querySelectorAll('#chats li').length === ${titles.length}`);
    assert.deepEqual(await readTitles(), titles);
    writeFileSync(file, "no JSON");
    await choose(page, file);
    await page.until("/no conversations/.test(document.querySelector('#notice').textContent)");
    await page.click("#notice button");
    const last = await page.evaluate("document.querySelectorAll('#chats li').length");
    await page.click("#chats .current .act", 2);
    await page.until("document.querySelector('#ask').open");
    await page.press("Enter");
    await page.until(`document.querySelectorAll('#chats li').length === ${last - 1}`);
}

async function choose(page, file) {
    const { root } = await page.call("DOM.getDocument");
    const { nodeId } = await page.call("DOM.querySelector", { nodeId: root.nodeId, selector: "#file" });
    await page.call("DOM.setFileInputFiles", { nodeId, files: [file] });
}

const refusal = (status, message) =>
    ({ status, type: "application/json", body: JSON.stringify({ error: { message } }) });

async function testErrors(page) {
    await set(page, { max_tokens: "8" });
    await page.click("#new");
    await page.intercept(refusal(503, "all slots are busy and the queue is full; try again later"));
    await sendAndWait(page, "Hello");
    await page.until("/queue is full/.test(document.querySelector('#thread .notice').textContent)");
    await page.intercept(null);
    await page.click("#thread .notice button"); // try again
    await page.until(`${idle} && ${texts("assistant")}.length === 1`);
    await sendAndWait(page, "word ".repeat(600));
    await page.until("/larger --ctx-size/.test(document.querySelector('#thread .notice').textContent)");
    const notice = await page.evaluate("document.querySelector('#thread .notice').textContent");
    const [, n] = notice.match(/has (\d+) tokens/);
    await set(page, { max_tokens: "" });
    await page.click("#new");
    await sendAndWait(page, "word ".repeat(Math.floor(600 * 480 / n)));
    await page.until(`/the context is full/.test(${messages("assistant")}.at(-1).textContent)`);
    await set(page, { max_tokens: "8" });
    await page.click("#new");
    const broken = streamOf("Half of an", 3);
    await page.intercept({ ...broken, body: broken.events.slice(0, -1).join("") });
    await sendAndWait(page, "Hello");
    await page.until(`/broke off/.test(${messages("assistant")}.at(-1).textContent)`);
    assert.deepEqual(await page.evaluate(texts("assistant")), ["Half of an"]);
    await page.intercept(null);
    // No room in the browser.
    await page.evaluate(`for (let n = 4e6; n >= 1; n = Math.floor(n / 2))
        try { localStorage.setItem('x' + n, 'x'.repeat(n)) } catch {}`);
    await page.click("#new");
    await sendAndWait(page, "Is there room? ".repeat(10));
    await page.until("/room for conversations is full/.test(document.querySelector('#notice').textContent)");
    assert.equal(await page.evaluate(`${texts("assistant")}.length`), 1);
    await page.evaluate("Object.keys(localStorage).forEach(key => key[0] === 'x' && localStorage.removeItem(key))");
    await page.click("#notice button");
}

async function testKey(page) {
    const { base } = await start("--api-key", "secret");
    await page.goto(base + "/");
    await page.until("!document.querySelector('#notice').hidden");
    await page.click("#notice button");
    await page.until("document.querySelector('#ask').open");
    await page.type("secret");
    await page.press("Enter");
    await page.until("document.querySelector('#model').textContent");
    await page.until("document.querySelector('#notice').hidden");
    await set(page, { max_tokens: "4" });
    await sendAndWait(page, "Hello");
    await page.until(`${texts("assistant")}.length === 1`);
}

async function testGone(page, server) {
    server.removeAllListeners("exit");
    server.kill("SIGKILL");
    await page.until("/does not answer/.test(document.querySelector('#state').textContent)");
    await send(page, "Are you there?");
    await page.until("/does not answer/.test(document.querySelector('#thread .notice').textContent)");
}

async function testNarrow(page) {
    await page.call("Emulation.setDeviceMetricsOverride",
        { width: 360, height: 740, deviceScaleFactor: 2, mobile: true });
    await sleep(200);
    assert.ok(await page.evaluate("document.documentElement.scrollWidth <= 360"), "wider than a phone");
    await shot(page, "phone");
    await page.click("#menu");
    await shot(page, "phone-menu");
    await page.press("Escape");
    assert.equal(await page.evaluate("document.body.className"), "");
    await page.call("Emulation.clearDeviceMetricsOverride");
}

async function takePictures(page) {
    for (const [name, value] of [["light", "light"], ["dark", "dark"]]) {
        await page.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
        await page.evaluate("document.querySelector('#scroll').scrollTop = 0");
        await shot(page, name);
        await page.evaluate("document.querySelector('#scroll').scrollTop = 1e6");
        await shot(page, name + "-end");
    }
    await page.click("#settings");
    await shot(page, "settings");
    await page.press("Escape");
    await page.call("Emulation.setEmulatedMedia", { features: [] });
}

// ---- all of them

async function runAll(browser) {
    const page = await browser.open();
    const own = option("--at") ? { base: option("--at") } : await start();
    await page.call("Emulation.setDeviceMetricsOverride",
        { width: 1100, height: 800, deviceScaleFactor: 1, mobile: false });
    const run = async test => {
        const at = Date.now();
        if (option("--only") && test.name !== option("--only"))
            return;
        try {
            await test(page, own.base);
            assert.deepEqual(page.errors, []);
            console.log(`${test.name}: ${Date.now() - at} ms`);
        } catch (error) {
            console.error(`${test.name} FAILED: ${error.stack}`);
            await shot(page, test.name);
            process.exitCode = 1;
        }
    };
    await page.goto(own.base + "/");
    await shot(page, "empty");
    for (const test of [testSending, testStopping, testVersions, testKeeping, testMarkdown, testStrain])
        await run(test);
    if (shots)
        await takePictures(page);
    for (const test of [testNarrow, testFiles, testErrors, testKey])
        await run(test);
    if (own.server) {
        page.errors = [];
        await page.goto(own.base + "/");
        await page.until("document.querySelector('#model').textContent");
        await testGone(page, own.server);
        await shot(page, "gone");
    }
}

const program = findBrowser();
if (!program) {
    console.log("skipped: there is no Chromium ($CHROMIUM)");
    process.exit(77);
}
const browser = new Browser(program);
for (const signal of ["SIGINT", "SIGTERM"])
    process.once(signal, () => {
        [browser.process, ...servers].forEach(child => child.kill("SIGKILL"));
        process.exit(1);
    });
try {
    await runAll(browser);
    if (!process.exitCode)
        console.log("the page does what it should");
} catch (error) {
    console.error(`FAILED: ${error.stack}`);
    process.exitCode = 1;
} finally {
    await browser.close();
    servers.forEach(server => { server.removeAllListeners("exit"); server.kill("SIGKILL"); });
    rmSync(tmp, { recursive: true, force: true });
}
