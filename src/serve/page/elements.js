// SPDX-License-Identifier: MIT
"use strict";

// ---- elements

const $ = id => document.getElementById(id);

function fill(element, children) {
    for (const child of children)
        if (child || child === 0)
            element.append(child);
    return element;
}

// An element with properties, or attributes; names that begin with "on" are listeners. Strings become text.
function make(tag, properties, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
        if (name.startsWith("on"))
            element.addEventListener(name.slice(2), value);
        else if (name in element)
            element[name] = value;
        else
            element.setAttribute(name, value);
    }
    return fill(element, children);
}

const button = (text, action, properties) =>
    make("button", { type: "button", className: "plain", onclick: action, ...properties }, text);

// Read aloud where someone listens.
const say = text => { $("spoken").textContent = text; };

async function copy(text, from) {
    try {
        await navigator.clipboard.writeText(text);
    } catch { // no clipboard without TLS, save on this machine
        const area = make("textarea", { value: text, className: "unseen" });
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
        from.focus();
    }
    const label = from.textContent;
    from.textContent = "Copied";
    setTimeout(() => { from.textContent = label === "Copied" ? "Copy" : label; }, 1200);
}
