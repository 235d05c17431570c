// SPDX-License-Identifier: MIT
// The JavaScript packages of OpenAI and Anthropic against a server: clients.mjs BASE. Run by check_clients.sh.
import assert from "node:assert/strict";
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";

const base = process.argv[2];
const ai = new OpenAI({ baseURL: base + "/v1", apiKey: "none", maxRetries: 0 });
const claude = new Anthropic({ baseURL: base, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Say hello." }];
const question = [{ role: "user", content: "What is the weather in Rome?" }];
const schema = { type: "object", properties: { city: { enum: ["Rome", "Oslo"] } }, required: ["city"], additionalProperties: false };

async function chats() {
    const whole = await ai.chat.completions.create({ model: "any", messages, max_tokens: 12 });
    let text = "";
    for await (const chunk of await ai.chat.completions.create({ model: "any", messages, max_tokens: 12, stream: true }))
        text += chunk.choices[0]?.delta?.content ?? "";
    assert.equal(text, whole.choices[0].message.content);
}

async function tools() {
    const tool = { type: "function", function: { name: "weather", description: "the weather", parameters: schema } };
    const args = { model: "any", messages: question, tools: [tool], tool_choice: "required", parallel_tool_calls: false };
    const whole = await ai.chat.completions.create(args);
    const call = whole.choices[0].message.tool_calls[0];
    assert.ok(JSON.parse(call.function.arguments).city);
    const streamed = await ai.chat.completions.stream(args).finalChatCompletion();
    assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
}

async function responses() {
    const whole = await ai.responses.create({ model: "any", input: "Say hello.", max_output_tokens: 12 });
    let text = "";
    for await (const event of await ai.responses.create({ model: "any", input: "Say hello.", max_output_tokens: 12, stream: true }))
        if (event.type === "response.output_text.delta")
            text += event.delta;
    assert.equal(text, whole.output_text);
}

async function anthropic() {
    const whole = await claude.messages.create({ model: "any", max_tokens: 12, messages });
    const streamed = await claude.messages.stream({ model: "any", max_tokens: 12, messages }).finalMessage();
    assert.equal(streamed.content[0].text, whole.content[0].text);
    const tool = { name: "weather", description: "the weather", input_schema: schema };
    const args = { model: "any", max_tokens: 200, messages: question, tools: [tool], tool_choice: { type: "tool", name: "weather" } };
    const use = (await claude.messages.stream(args).finalMessage()).content.find((block) => block.type === "tool_use");
    assert.ok(use.input.city);
}

async function errors() {
    await assert.rejects(ai.chat.completions.create({ model: "any", messages: [] }), OpenAI.BadRequestError);
    await assert.rejects(claude.messages.create({ model: "any", max_tokens: 5, messages: [] }), Anthropic.BadRequestError);
}

async function embeddings() {
    const two = await ai.embeddings.create({ model: "any", input: ["One, two,", "A, B,"] });
    const one = await ai.embeddings.create({ model: "any", input: "A, B,", encoding_format: "float" });
    assert.ok(one.data[0].embedding.every((x, i) => Math.abs(x - two.data[1].embedding[i]) < 1e-6));
}

async function leaving() {
    const stop = new AbortController();
    const stream = await ai.chat.completions.create({ model: "any", messages, stream: true }, { signal: stop.signal });
    for await (const _ of stream)
        stop.abort();
    for (let i = 0; i < 50; i++) {
        const slots = await (await fetch(base + "/slots")).json();
        if (!slots.some((slot) => slot.is_processing))
            return;
        await new Promise((done) => setTimeout(done, 100));
    }
    assert.fail("a text goes on that nobody wants");
}

for (const check of [chats, tools, embeddings, responses, anthropic, errors, leaving]) {
    await check();
    console.log("javascript:", check.name);
}
