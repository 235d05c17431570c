// SPDX-License-Identifier: MIT
// A headless Chromium, steered over its DevTools protocol through a pipe: nothing needs to be installed for it.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const NAMES = [process.env.CHROMIUM, "chromium", "chromium-browser", "google-chrome"];
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"];

export const findBrowser = () => NAMES.find(name => name && spawnSync(name, ["--version"]).status === 0);

export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

export class Browser {
    constructor(program) {
        this.folder = mkdtempSync(join(tmpdir(), "hearth-browser-"));
        this.process = spawn(program, [...FLAGS, `--user-data-dir=${this.folder}`, "about:blank"],
            { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
        this.calls = new Map();
        this.listeners = [];
        let rest = "";
        this.process.stdio[4].setEncoding("utf8").on("data", data => {
            const messages = (rest + data).split("\0");
            rest = messages.pop();
            messages.forEach(message => this.take(JSON.parse(message)));
        });
    }

    take(message) {
        const call = this.calls.get(message.id);
        if (!call) {
            this.listeners.forEach(listener => listener(message));
            return;
        }
        this.calls.delete(message.id);
        if (message.error)
            call.reject(new Error(`${call.method}: ${message.error.message}`));
        else
            call.resolve(message.result);
    }

    call(method, params = {}, sessionId = undefined) {
        const id = this.last = (this.last || 0) + 1;
        this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
        return new Promise((resolve, reject) => this.calls.set(id, { method, resolve, reject }));
    }

    async open() {
        const { targetId } = await this.call("Target.createTarget", { url: "about:blank" });
        const { sessionId } = await this.call("Target.attachToTarget", { targetId, flatten: true });
        const page = new Page(this, sessionId);
        for (const domain of ["Page", "Runtime", "Log", "DOM"])
            await page.call(domain + ".enable");
        return page;
    }

    async close() {
        const ended = new Promise(resolve => this.process.once("exit", resolve));
        this.call("Browser.close").catch(() => {});
        await Promise.race([ended, sleep(5000)]);
        this.process.kill("SIGKILL");
        rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
    }
}

const KEYS = { Enter: 13, Escape: 27, Tab: 9 };

class Page {
    constructor(browser, sessionId) {
        this.browser = browser;
        this.sessionId = sessionId;
        this.errors = []; // that scripts threw, and what the policy forbade
        this.reply = null; // what requests get in place of the server's answer: {status, type, body}
        browser.listeners.push(message => message.sessionId === sessionId && this.hear(message));
    }

    call(method, params) {
        return this.browser.call(method, params, this.sessionId);
    }

    hear({ method, params }) {
        if (method === "Runtime.exceptionThrown")
            this.errors.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
        if (method === "Log.entryAdded" && params.entry.source === "security")
            this.errors.push(params.entry.text);
        if (method === "Fetch.requestPaused")
            this.answer(params.requestId);
    }

    // From now on chats get this reply; null: the server's.
    async intercept(reply) {
        this.reply = reply;
        if (reply)
            await this.call("Fetch.enable", { patterns: [{ urlPattern: "*/v1/chat/completions" }] });
        else
            await this.call("Fetch.disable");
    }

    answer(requestId) {
        const { status, type, body } = this.reply;
        this.call("Fetch.fulfillRequest", { requestId, responseCode: status,
            responseHeaders: [{ name: "Content-Type", value: type }], body: Buffer.from(body).toString("base64") });
    }

    async goto(url) {
        await this.call("Page.navigate", { url });
        await this.until("document.readyState === 'complete'");
    }

    async reload() {
        await this.evaluate("window.former = true");
        await this.call("Page.reload");
        await this.until("!window.former && document.readyState === 'complete'");
    }

    async evaluate(expression) {
        const { result, exceptionDetails } = await this.call("Runtime.evaluate",
            { expression, awaitPromise: true, returnByValue: true });
        if (exceptionDetails)
            throw new Error(`${expression}: ${exceptionDetails.exception?.description || exceptionDetails.text}`);
        return result.value;
    }

    async until(expression, seconds = 60) {
        for (let i = 0; i < seconds * 20; i++) {
            if (await this.evaluate(expression).catch(() => false))
                return;
            await sleep(50);
        }
        throw new Error(`waited in vain: ${expression}`);
    }

    // A click of the mouse in the middle of an element, which must be the topmost there.
    async click(selector, i = 0) {
        const where = await this.evaluate(`(() => {
            const element = document.querySelectorAll(${JSON.stringify(selector)})[${i}];
            if (!element) return null;
            element.scrollIntoView({ block: "nearest" });
            const { left, top, width, height } = element.getBoundingClientRect();
            const x = left + width / 2, y = top + height / 2;
            return element.contains(document.elementFromPoint(x, y)) ? { x, y } : null;
        })()`);
        if (!where)
            throw new Error(`cannot click ${selector} (${i})`);
        for (const type of ["mousePressed", "mouseReleased"])
            await this.call("Input.dispatchMouseEvent", { type, ...where, button: "left", clickCount: 1 });
    }

    type(text) {
        return this.call("Input.insertText", { text });
    }

    async press(key, modifiers = 0) {
        const code = { key, code: key, windowsVirtualKeyCode: KEYS[key], modifiers };
        const text = key === "Enter" ? "\r" : undefined;
        await this.call("Input.dispatchKeyEvent", { type: "keyDown", ...code, text });
        await this.call("Input.dispatchKeyEvent", { type: "keyUp", ...code });
    }

    async screenshot() {
        const { data } = await this.call("Page.captureScreenshot", { format: "png" });
        return Buffer.from(data, "base64");
    }
}
