// SPDX-License-Identifier: MIT
// ---- talking with the server

const GONE = "The server does not answer. Is hearth serve still running?";

function request(path, options = {}) {
    const headers = options.body ? { "Content-Type": "application/json" } : {};
    if (settings.key)
        headers.Authorization = "Bearer " + settings.key;
    return fetch(path, { cache: "no-store", ...options, headers });
}

// What an error of the server means, in plain words.
function explain(status, message) {
    const full = message.match(/context length of (\d+) tokens: .* has (\d+)/);
    if (full)
        return `This conversation has ${full[2]} tokens, and the server's context has room for ${full[1]}. ` +
            "Edit an earlier message, begin a new conversation, or start the server with a larger --ctx-size.";
    if (status === 401)
        return "The server wants an API key.";
    if (status === 503 && /queue/.test(message))
        return "The server is busy and its queue is full. Try again in a moment.";
    if (status === 503 && /at once/.test(message))
        return "The server is being sent too much. Try again in a moment.";
    if (status === 503 && /loading/i.test(message))
        return "The server is still loading the model. Try again in a moment.";
    if (status === 503)
        return "The server is shutting down.";
    if (status === 413)
        return "This conversation is too large for the server: " + message + ".";
    return "The server said: " + (message || "status " + status);
}

async function failureOf(response) {
    const body = await response.json().catch(() => null);
    return explain(response.status, text(body && body.error && body.error.message));
}

// The events of a stream, parsed; throws where it breaks off.
async function* eventsOf(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const { done, value } = await reader.read();
        if (done)
            throw new Error("The answer broke off: the connection to the server ended.");
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) {
            const data = line.startsWith("data:") ? line.slice(5).trim() : "";
            if (data === "[DONE]")
                return;
            if (data)
                yield JSON.parse(data);
        }
    }
}

function bodyOf(chat, path) {
    const messages = path.map(node => ({ role: node.role, content: node.text }));
    if (chat.system.trim())
        messages.unshift({ role: "system", content: chat.system });
    const body = { messages, stream: true };
    for (const name of FIELDS)
        if (typeof settings[name] === "number")
            body[name] = settings[name];
    if (settings.thoughts)
        body.chat_template_kwargs = { enable_thinking: settings.thoughts === "on" };
    return body;
}

function take(run, event) {
    const { node } = run;
    if (event.error)
        throw new Error(explain(0, text(event.error.message)));
    const choice = event.choices && event.choices[0];
    const delta = (choice && choice.delta) || {};
    if (delta.content || delta.reasoning_content) {
        run.first ||= performance.now();
        run.tokens++;
    }
    node.text += text(delta.content);
    node.thoughts += text(delta.reasoning_content);
    if (choice && choice.finish_reason)
        node.end = choice.finish_reason;
    if (event.timings)
        node.figures = tell(node, event.timings);
}

const round = n => n < 10 ? n.toFixed(1) : Math.round(n).toString();

const roomOf = props => (props.default_generation_settings || {}).n_ctx || Infinity;

// The figures of an answer, at its end.
function tell(node, t) {
    node.used = t.cache_n + t.prompt_n + t.predicted_n;
    if (node.end === "length" && node.used >= roomOf(server))
        node.end = "full";
    const kept = t.cache_n ? `, ${t.cache_n} of them there already` : "";
    return `${round(t.predicted_per_second)} tokens/s · ${t.predicted_n} tokens · ` +
        `prompt of ${t.cache_n + t.prompt_n} tokens${kept}, ${(t.prompt_ms / 1000).toFixed(1)} s`;
}

// The same, while it comes.
function tellSoFar(run) {
    if (!run.first)
        return `waiting, ${Math.round((performance.now() - run.started) / 1000)} s`;
    const seconds = (performance.now() - run.first) / 1000;
    const rate = run.tokens > 1 && seconds > 0 ? round((run.tokens - 1) / seconds) + " tokens/s · " : "";
    return `${rate}${run.tokens} tokens`;
}

async function stream(run, body) {
    let response;
    try {
        response = await request("v1/chat/completions",
            { method: "POST", body: JSON.stringify(body), signal: run.abort.signal });
    } catch (error) {
        throw error.name === "AbortError" ? error : new Error(GONE);
    }
    if (!response.ok) {
        run.wantsKey = response.status === 401;
        throw new Error(await failureOf(response));
    }
    for await (const event of eventsOf(response)) {
        take(run, event);
        run.dirty = true;
    }
}

// Has the model answer to the last message that is shown.
async function answer(chat) {
    if (running)
        return;
    const body = bodyOf(chat, pathOf(chat));
    const node = addNode(chat, chat.leaf, "assistant", "");
    const run = running = { chat, node, abort: new AbortController(), started: performance.now(), first: 0, tokens: 0 };
    failure = null;
    save(chat);
    show();
    toEnd();
    say("The answer begins.");
    run.timer = setInterval(() => chats.has(chat.id) && save(chat), 3000);
    requestAnimationFrame(() => draw(run));
    try {
        await stream(run, body);
    } catch (error) {
        const stopped = run.abort.signal.aborted;
        node.end = stopped ? "stopped" : "failed";
        node.error = stopped ? "" : error instanceof TypeError ? "The answer broke off: " + GONE : error.message;
    }
    finish(run);
}

function finish(run) {
    const { chat, node } = run;
    clearInterval(run.timer);
    running = null;
    node.figures ||= tellSoFar(run);
    if (!node.text && !node.thoughts && node.end !== "stop" && node.end !== "length") {
        chat.nodes = chat.nodes.filter(other => other !== node);
        chat.leaf = node.parent;
        failure = node.error ? { chat, text: node.error, wantsKey: run.wantsKey } : null;
    }
    if (chats.has(chat.id))
        save(chat);
    const follows = atEnd();
    show();
    if (follows)
        toEnd();
    if (chat === current)
        say(failure ? "" : node.text ? "The answer: " + node.text.slice(0, 3000) : "The answer has ended.");
}

// Several texts may come between two frames; they are drawn at once.
function draw(run) {
    if (running !== run)
        return;
    requestAnimationFrame(() => draw(run));
    const element = run.chat === current && document.querySelector(`[data-node="${run.node.id}"]`);
    if (!element)
        return;
    element.querySelector(".figures").textContent = tellSoFar(run);
    if (!run.dirty)
        return;
    const follows = atEnd();
    run.dirty = false;
    drawAnswer(element, run.node);
    if (follows)
        toEnd();
}

function stop() {
    if (running)
        running.abort.abort();
}
