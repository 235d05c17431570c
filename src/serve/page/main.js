// SPDX-License-Identifier: MIT
// ---- the conversations

function buildEntry(chat) {
    const busy = running && running.chat === chat ? " …" : "";
    const act = (sign, title, action) => button(sign, () => action(chat),
        { className: "plain act", title, "aria-label": `${title} ${chat.title}` });
    return make("li", { className: chat === current ? "current" : "" },
        make("button", { type: "button", className: "open", title: chat.title, onclick: () => open(chat),
            ...(chat === current ? { "aria-current": "page" } : {}) }, chat.title + busy),
        act("✎", "Rename", rename), act("⤓", "Export", () => exportChats([chat])), act("✕", "Delete", remove));
}

// The messages are built anew: whose button had the focus, and which it was.
function heldFocus() {
    const element = document.activeElement, message = element && element.closest("#thread .message");
    const nameOf = button => button.ariaLabel || button.textContent;
    const i = message && element.tagName === "BUTTON" ? [...$("thread").children].indexOf(message) : -1;
    return () => {
        const fresh = i >= 0 && !element.isConnected && $("thread").children[i];
        const again = fresh && [...fresh.querySelectorAll("button:enabled")].find(b => nameOf(b) === nameOf(element));
        if (again || fresh)
            (again || $("scroll")).focus();
    };
}

function show() {
    const focus = heldFocus();
    $("chats").replaceChildren(...newestFirst().map(buildEntry));
    $("title").textContent = current.title;
    document.title = current.nodes.length ? current.title + " – Hearth" : "Hearth";
    $("send").hidden = running !== null;
    $("stop").hidden = running === null;
    $("export").disabled = !chats.size;
    showThread();
    showState();
    focus();
}

function open(chat) {
    current = chat;
    editing = null;
    store("hearth.current", chat.id);
    openMenu(false);
    show();
    toEnd();
    $("input").focus();
}

async function rename(chat) {
    const title = await ask({ title: "Rename this conversation", yes: "Rename", label: "Title", value: chat.title });
    if (!title || !title.trim())
        return;
    chat.title = title.trim().slice(0, 200);
    save(chat);
    show();
}

async function remove(chat) {
    const about = `“${chat.title}” cannot be had back.`;
    if (!await ask({ title: "Delete this conversation?", text: about, yes: "Delete" }))
        return;
    if (running && running.chat === chat)
        stop();
    chats.delete(chat.id);
    forget(CHAT + chat.id);
    if (chat === current)
        open(newestFirst()[0] || newChat());
    else
        show();
}

function exportChats(list) {
    const blob = new Blob([JSON.stringify({ hearth: 1, conversations: list }, null, 1)], { type: "application/json" });
    const link = make("a", { href: URL.createObjectURL(blob), download: "hearth-conversations.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function importChats(file) {
    let all;
    try {
        all = JSON.parse(await file.text());
    } catch {
        all = null;
    }
    const found = (all && Array.isArray(all.conversations) ? all.conversations : []).map(readChat).filter(chat => chat);
    if (!found.length) {
        notify("There are no conversations in this file.");
        return;
    }
    for (const chat of found) {
        if (chats.has(chat.id))
            chat.id = newId();
        chats.set(chat.id, chat);
        if (!store(CHAT + chat.id, chat))
            break;
    }
    open(found[0]);
}

// ---- dialogs

// Asks, with a field if there is a label; gives what was written there, or true; null: no.
function ask({ title, text: about = "", yes, label = "", value = "", secret = false }) {
    const dialog = $("ask"), input = $("ask-input");
    $("ask-title").textContent = title;
    $("ask-text").textContent = about;
    $("ask-text").hidden = !about;
    $("ask-label").hidden = !label;
    $("ask-label").firstElementChild.textContent = label;
    $("ask-yes").textContent = yes;
    input.className = secret ? "secret" : "";
    input.value = value;
    dialog.returnValue = "";
    dialog.showModal();
    (label ? input : $("ask-yes")).focus();
    return new Promise(resolve => dialog.addEventListener("close", () => {
        resolve(dialog.returnValue !== "yes" ? null : label ? input.value : true);
    }, { once: true }));
}

async function askKey() {
    const key = await ask({ title: "The server wants an API key", text: "It is kept in this browser alone.",
        yes: "Use it", label: "API key", secret: true });
    if (key === null)
        return;
    settings.key = key.trim();
    store("hearth.settings", settings);
    failure = null;
    show();
    connect();
}

function openSettings() {
    const form = $("settings-dialog").querySelector("form");
    const usual = (server.default_generation_settings || {}).params || {};
    for (const name of FIELDS) {
        const value = usual[name === "max_tokens" ? "n_predict" : name];
        form.elements[name].value = settings[name] ?? "";
        form.elements[name].placeholder = value === undefined ? "" : value === -1 || value === 4294967295
            ? (name === "seed" ? "random" : "no limit") : String(+value.toPrecision(6));
    }
    form.elements.system.value = current.system;
    form.elements.thoughts.value = settings.thoughts || "";
    form.elements.key.value = settings.key || "";
    $("settings-dialog").showModal();
}

function takeSettings() {
    const { elements } = $("settings-dialog").querySelector("form");
    for (const name of FIELDS) {
        const { value, validity } = elements[name];
        if (validity.valid)
            settings[name] = value === "" ? undefined : Number(value);
    }
    settings.thoughts = elements.thoughts.value;
    settings.key = elements.key.value.trim();
    settings.system = current.system = elements.system.value;
    store("hearth.settings", settings);
    if (current.nodes.length)
        save(current);
}

// ---- the server's state

let connected = false, figures = null, trouble = "";

function notify(message, label, action) {
    const hide = () => { $("notice").hidden = true; };
    $("notice").replaceChildren(make("span", null, message),
        make("button", { type: "button", onclick: () => { hide(); if (action) action(); } }, label || "Close"));
    $("notice").hidden = false;
}

const bytes = n => n >= 1e9 ? (n / 1e9).toFixed(1) + " GB" : Math.round(n / 1e6) + " MB";

// Rates between two looks at /metrics.
function compare(before, now) {
    const since = name => (now[name] || 0) - ((before && before[name]) || 0);
    const both = (neurons, experts) => since("hearth:" + neurons) + since("hearth:" + experts);
    const hits = both("neuron_hits_total", "expert_hits_total");
    const misses = both("neuron_misses_total", "expert_misses_total");
    const seconds = before ? (now.time - before.time) / 1000 : 0;
    return {
        memory: now["hearth:memory_bytes"],
        hits: hits + misses ? hits / (hits + misses) : before ? before.shown.hits : undefined,
        read: now["hearth:read_bytes_total"] && seconds ? since("hearth:read_bytes_total") / seconds : undefined,
        waiting: now["llamacpp:requests_deferred"],
    };
}

function readMetrics(body) {
    const now = { time: performance.now() };
    for (const [, name, value] of body.matchAll(/^([\w:]+) (\S+)$/gm))
        now[name] = Number(value);
    now.shown = compare(figures, now);
    return now;
}

function showState() {
    const parts = [], shown = figures ? figures.shown : {};
    const last = pathOf(current).findLast(node => node.used), room = roomOf(server);
    if (last && room < Infinity)
        parts.push(`context ${last.used} of ${room} tokens`);
    if (shown.memory)
        parts.push("memory " + bytes(shown.memory));
    if (shown.hits !== undefined)
        parts.push(`cache hits ${(shown.hits * 100).toFixed(shown.hits > 0.99 ? 1 : 0)} %`);
    if (shown.read !== undefined)
        parts.push(bytes(shown.read) + "/s read");
    if (shown.waiting)
        parts.push(`${shown.waiting} waiting`);
    $("state").textContent = trouble || parts.join(" · ");
    $("model").textContent = $("model").title = text(server.model_alias);
}

let timer = 0; // of connect(), or of look()

function later(action, ms) {
    clearTimeout(timer);
    timer = setTimeout(action, ms);
}

// Until the server answers.
async function connect() {
    let wait = 3000;
    try {
        const response = await request("props");
        if (response.ok) {
            server = await response.json();
            trouble = "";
            if (!connected)
                later(look, 0);
            connected = true;
            showState();
            return;
        }
        trouble = await failureOf(response);
        connected = false;
        if (response.status === 401) {
            notify(trouble, "Give the key", askKey);
            showState();
            return;
        }
        wait = 1000;
    } catch {
        trouble = GONE;
        connected = false;
    }
    showState();
    later(connect, wait);
}

// Every two seconds, while someone can see it.
async function look() {
    if (!document.hidden) {
        try {
            const response = await request("metrics");
            if (response.ok)
                figures = readMetrics(await response.text());
            else if (response.status !== 503) { // this server does not tell
                figures = null;
                connected = false;
                return;
            }
        } catch {
            connected = false;
            figures = null;
            connect();
            return;
        }
        showState();
    }
    later(look, 2000);
}

// ---- what people do

function resize() {
    const input = $("input");
    input.style.height = "auto";
    input.style.height = input.scrollHeight + 2 + "px";
}

function send() {
    const content = $("input").value.trim();
    if (!content || running)
        return;
    if (!current.nodes.length) {
        current.title = content.replace(/\s+/g, " ").slice(0, 60);
        store("hearth.current", current.id);
    }
    $("input").value = "";
    resize();
    editing = null;
    addNode(current, current.leaf, "user", content);
    answer(current);
}

function openMenu(opens) {
    document.body.classList.toggle("menu", opens);
    $("menu").setAttribute("aria-expanded", opens);
    if (opens)
        $("new").focus();
}

function listen() {
    $("composer").addEventListener("submit", event => {
        event.preventDefault();
        send();
    });
    $("input").addEventListener("input", resize);
    $("input").addEventListener("keydown", event => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing)
            return;
        event.preventDefault();
        send();
    });
    document.addEventListener("keydown", event => {
        if (event.key !== "Escape" || document.querySelector("dialog[open]"))
            return;
        if (document.body.classList.contains("menu"))
            openMenu(false);
        else
            stop();
    });
    $("stop").addEventListener("click", () => { stop(); $("input").focus(); });
    $("new").addEventListener("click", () => open(newChat()));
    $("menu").addEventListener("click", () => openMenu(true));
    $("shade").addEventListener("click", () => openMenu(false));
    $("settings").addEventListener("click", openSettings);
    $("settings-dialog").addEventListener("close", () => { takeSettings(); connect(); });
    $("ask-no").addEventListener("click", () => $("ask").close());
    $("defaults").addEventListener("click", () => {
        for (const name of [...FIELDS, "thoughts"])
            $("settings-dialog").querySelector("form").elements[name].value = "";
    });
    $("export").addEventListener("click", () => exportChats(newestFirst()));
    $("import").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", async () => {
        if ($("file").files[0])
            await importChats($("file").files[0]);
        $("file").value = "";
    });
    addEventListener("pagehide", () => { if (running) save(running.chat); });
    addEventListener("storage", event => takeOver(event.key || ""));
}

// Another tab has changed something.
function takeOver(key) {
    const id = key.startsWith(CHAT) ? key.slice(CHAT.length) : "";
    const chat = id && readChat(stored(key));
    if (key === "hearth.settings")
        settings = stored(key) || {};
    if (!id || (running && running.chat.id === id))
        return;
    if (chat)
        chats.set(id, chat);
    else
        chats.delete(id);
    if (current.id === id && !editing)
        current = chat || newChat();
    show();
}

load();
current = chats.get(stored("hearth.current")) || newChat();
listen();
show();
toEnd();
connect();
