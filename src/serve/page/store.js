// SPDX-License-Identifier: MIT
// ---- what is kept in this browser

// A conversation is a tree of messages: an edited message, or another answer, is a sibling of the former one.
//   {id, title, changed, system, next, leaf, nodes: [{id, parent, role, text, thoughts, end, error, figures}]}
const FIELDS = ["temperature", "top_p", "top_k", "min_p", "seed", "max_tokens"];
const CHAT = "hearth.chat.";
const chats = new Map();
let settings = {};
let current = null; // the conversation that is shown
let running = null; // the answer that is being generated: {chat, node, abort, started, first, tokens, ...}
let failure = null; // why there is no answer: {chat, text, action, label}
let editing = null; // the message that is being edited, and what it is to become: {node, draft}
const unfolded = new Set(); // messages whose thoughts are shown
let server = {};    // what /props says

const text = value => typeof value === "string" ? value : "";

function store(key, value) {
    try {
        localStorage.setItem(key, JSON.stringify(value));
        return true;
    } catch {
        notify("This browser's room for conversations is full, so this one is not kept as it is now. Delete some, " +
            "after an export.");
        return false;
    }
}

function forget(key) {
    try {
        localStorage.removeItem(key);
    } catch { // nothing was kept
    }
}

function stored(key) {
    try {
        return JSON.parse(localStorage.getItem(key));
    } catch {
        return null;
    }
}

// Numbers of messages: far below those that adding 1 does not change.
const MOST_ID = 2 ** 40;

// A conversation from outside, with nothing in it that is not expected; null if it is none.
function readChat(from) {
    if (!from || typeof from !== "object" || !Array.isArray(from.nodes) || from.nodes.length > 50000)
        return null;
    const nodes = [], known = new Set([0]);
    for (const node of from.nodes) {
        if (!node || !Number.isInteger(node.id) || node.id < 1 || node.id > MOST_ID || known.has(node.id) || !known.has(node.parent) ||
            !["user", "assistant"].includes(node.role))
            return null;
        known.add(node.id);
        nodes.push({ id: node.id, parent: node.parent, role: node.role, text: text(node.text),
            thoughts: text(node.thoughts), end: text(node.end), error: text(node.error), figures: text(node.figures),
            used: Number(node.used) || 0 });
    }
    return { id: text(from.id) || newId(), title: text(from.title).slice(0, 200) || "Conversation",
        changed: Number(from.changed) || Date.now(), system: text(from.system), nodes,
        next: Math.max(...known) + 1, leaf: known.has(from.leaf) ? from.leaf : Math.max(...known) };
}

const newId = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 10);
const newChat = () => ({ id: newId(), title: "New conversation", changed: Date.now(), system: text(settings.system),
    nodes: [], next: 1, leaf: 0 });

function save(chat) {
    chat.changed = Date.now();
    chats.set(chat.id, chat);
    store(CHAT + chat.id, chat);
}

function load() {
    let keys = [];
    try {
        keys = Object.keys(localStorage);
    } catch { // the browser keeps nothing for pages
    }
    settings = stored("hearth.settings") || {};
    for (const key of keys) {
        const chat = key.startsWith(CHAT) && readChat(stored(key));
        if (chat)
            chats.set(chat.id, chat);
    }
}

const newestFirst = () => [...chats.values()].sort((a, b) => b.changed - a.changed);
const nodeOf = (chat, id) => chat.nodes.find(node => node.id === id);
const siblingsOf = (chat, node) => chat.nodes.filter(other => other.parent === node.parent);

// From the first message to the last one that is shown.
function pathOf(chat, leaf = chat.leaf) {
    const path = [], byId = new Map(chat.nodes.map(node => [node.id, node]));
    for (let node = byId.get(leaf); node; node = byId.get(node.parent))
        path.unshift(node);
    return path;
}

function addNode(chat, parent, role, content) {
    const node = { id: chat.next++, parent, role, text: content, thoughts: "", end: "", error: "", figures: "",
        used: 0 };
    chat.nodes.push(node);
    chat.leaf = node.id;
    return node;
}

// Shows a message, and the newest of those after it.
function choose(chat, node) {
    for (let below = node; below; below = chat.nodes.findLast(other => other.parent === node.id))
        node = below;
    chat.leaf = node.id;
    save(chat);
    show();
}
