// SPDX-License-Identifier: MIT
// ---- the messages

const atEnd = () => $("scroll").scrollHeight - $("scroll").scrollTop - $("scroll").clientHeight < 60;
const toEnd = () => { $("scroll").scrollTop = $("scroll").scrollHeight; };
const isRunning = node => running !== null && running.node === node;

function drawAnswer(element, node) {
    const thoughts = element.querySelector(".thoughts"), body = element.querySelector(".markdown");
    thoughts.hidden = !node.thoughts.trim();
    thoughts.querySelector("summary").textContent = isRunning(node) && !node.text ? "Thinking…" : "Thoughts";
    thoughts.querySelector("div").textContent = node.thoughts.trim();
    body.classList.toggle("wait", isRunning(node) && !node.text);
    showMarkdown(body, node.text);
}

const ENDINGS = { stopped: "Stopped. ", length: "Cut off: it had as many tokens as an answer may have. ",
    full: "Cut off: the context is full. " };

function buildFooter(chat, node) {
    const siblings = siblingsOf(chat, node), i = siblings.indexOf(node), user = node.role === "user";
    const footer = make("footer");
    if (siblings.length > 1)
        fill(footer, [
            button("‹", () => choose(chat, siblings[i - 1]), { "aria-label": "Former version", disabled: !i }),
            make("span", null, `${i + 1}/${siblings.length}`),
            button("›", () => choose(chat, siblings[i + 1]),
                { "aria-label": "Next version", disabled: i + 1 === siblings.length }),
        ]);
    if (!isRunning(node))
        fill(footer, [
            button("Copy", event => copy(node.text, event.currentTarget)),
            button("Edit", () => edit(node)),
            !user && button("Regenerate", () => regenerate(chat, node)),
        ]);
    if (!user)
        footer.append(make("span", { className: "figures" },
            isRunning(node) ? tellSoFar(running) : (ENDINGS[node.end] || "") + node.figures));
    return footer;
}

function buildEditor(chat, node) {
    const area = make("textarea", { value: editing.draft, rows: Math.min(12, node.text.split("\n").length + 1),
        "aria-label": "Edit the message", oninput: () => { editing.draft = area.value; } });
    const done = () => {
        editing = null;
        show();
        $("input").focus();
    };
    const keep = () => {
        const content = area.value.trim();
        if (!content || running)
            return;
        editing = null;
        addNode(chat, node.parent, node.role, content);
        save(chat);
        if (node.role === "user")
            answer(chat);
        else
            show();
        $("input").focus();
    };
    area.addEventListener("keydown", event => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing && node.role === "user") {
            event.preventDefault();
            keep();
        } else if (event.key === "Escape") {
            event.stopPropagation();
            done();
        }
    });
    setTimeout(() => area.focus());
    return make("div", { className: "edit" }, area, make("div", { className: "row" },
        make("button", { type: "button", onclick: done }, "Cancel"),
        make("button", { type: "button", className: "main", onclick: keep }, node.role === "user" ? "Send" : "Keep")));
}

function buildMessage(chat, node) {
    const user = node.role === "user";
    const element = make("article", { className: "message " + node.role, "aria-label": user ? "You" : "Answer",
        "data-node": node.id });
    if (editing && editing.node === node)
        return fill(element, [buildEditor(chat, node)]);
    if (user)
        return fill(element, [make("div", { className: "text" }, node.text), buildFooter(chat, node)]);
    fill(element, [
        make("details", { className: "thoughts", open: unfolded.has(node),
            ontoggle: event => unfolded[event.target.open ? "add" : "delete"](node) }, make("summary"), make("div")),
        make("div", { className: "markdown" }),
        node.error && make("p", { className: "notice" }, make("span", null, node.error)),
        buildFooter(chat, node),
    ]);
    drawAnswer(element, node);
    return element;
}

function edit(node) {
    editing = { node, draft: node.text };
    show();
}

function regenerate(chat, node) {
    if (running)
        return;
    chat.leaf = node.parent;
    answer(chat);
}

function buildFailure() {
    const action = failure.wantsKey ? ["Give the key", askKey] : ["Try again", () => answer(current)];
    return make("p", { className: "notice", role: "alert" }, make("span", null, failure.text),
        make("button", { type: "button", onclick: action[1] }, action[0]));
}

function showThread() {
    const path = pathOf(current), last = path.at(-1);
    const children = path.map(node => buildMessage(current, node));
    if (failure && failure.chat === current)
        children.push(buildFailure());
    else if (last && last.role === "user" && !editing && !running)
        children.push(button("Have it answered", () => answer(current)));
    if (!children.length)
        children.push(make("p", { id: "empty" }, make("strong", null, "What is on your mind?"),
            "What you write stays between this browser and the server."));
    $("thread").replaceChildren(...children);
}
