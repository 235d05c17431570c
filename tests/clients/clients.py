# SPDX-License-Identifier: MIT
# The Python packages of OpenAI and Anthropic against a server: clients.py BASE. Run by check_clients.sh.
import json
import sys

import anthropic
import openai

base = sys.argv[1]
ai = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)
claude = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0)
user = [{"role": "user", "content": "Say hello."}]
schema = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
question = [{"role": "user", "content": "What is the weather in Rome?"}]


def chats():
    assert ai.models.list().data[0].id
    whole = ai.chat.completions.create(model="any", messages=user, max_tokens=12, logprobs=True, top_logprobs=2)
    choice = whole.choices[0]
    assert choice.finish_reason in ("stop", "length") and choice.message.content
    assert len(choice.logprobs.content[0].top_logprobs) == 2
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    stream = ai.chat.completions.create(
        model="any", messages=user, max_tokens=12, stream=True, stream_options={"include_usage": True}
    )
    text, usage = "", None
    for chunk in stream:
        text += "".join(c.delta.content or "" for c in chunk.choices)
        usage = chunk.usage or usage
    assert text == choice.message.content, (text, choice.message.content)
    assert usage.completion_tokens == whole.usage.completion_tokens
    with ai.chat.completions.stream(model="any", messages=user, stop=text[4:8]) as stream:
        assert stream.get_final_completion().choices[0].message.content == text[:4]


def forms():
    answer = ai.chat.completions.create(
        model="any",
        messages=question,
        response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": schema}},
    )
    assert json.loads(answer.choices[0].message.content)["city"] in ("Rome", "Oslo")


def tools():
    tool = {"type": "function", "function": {"name": "weather", "description": "the weather", "parameters": schema}}
    args = dict(model="any", messages=question, tools=[tool], tool_choice="required", parallel_tool_calls=False)
    message = ai.chat.completions.create(**args).choices[0].message
    call = message.tool_calls[0]
    assert call.function.name == "weather" and json.loads(call.function.arguments)["city"]
    with ai.chat.completions.stream(**args) as stream:
        streamed = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert streamed.function.arguments == call.function.arguments
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    after = question + [message.model_dump(exclude_none=True), result]
    assert ai.chat.completions.create(model="any", messages=after, max_tokens=8).choices[0].message.content


def completions():
    whole = ai.completions.create(model="any", prompt=["One, two,", "A, B,"], max_tokens=4, logprobs=1)
    assert len(whole.choices) == 2 and len(whole.choices[0].logprobs.tokens) == 4
    text = "".join(c.choices[0].text for c in ai.completions.create(model="any", prompt="One, two,", max_tokens=4, stream=True))
    assert text == whole.choices[0].text


def embeddings():
    texts = ["One, two,", "A, B,"]
    two = ai.embeddings.create(model="any", input=texts)  # the package asks for base64
    assert [e.index for e in two.data] == [0, 1] and two.usage.prompt_tokens == two.usage.total_tokens
    plain = ai.embeddings.create(model="any", input=texts[1], encoding_format="float").data[0].embedding
    assert max(abs(a - b) for a, b in zip(plain, two.data[1].embedding, strict=True)) < 1e-6
    assert len(ai.embeddings.create(model="any", input=[[1, 2], [3]], dimensions=8).data[1].embedding) == 8


def responses():
    whole = ai.responses.create(model="any", input="Say hello.", max_output_tokens=12)
    assert whole.output_text and whole.usage.output_tokens <= 12
    with ai.responses.stream(model="any", input="Say hello.", max_output_tokens=12) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
    assert text == whole.output_text
    tool = {"type": "function", "name": "weather", "description": "the weather", "parameters": schema, "strict": True}
    answer = ai.responses.create(
        model="any", input=question, tools=[tool], tool_choice="required", parallel_tool_calls=False
    )
    call = next(item for item in answer.output if item.type == "function_call")
    assert json.loads(call.arguments)["city"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    after = question + [call.model_dump(exclude_none=True), result]
    assert ai.responses.create(model="any", input=after, max_output_tokens=8).status


def messages():
    whole = claude.messages.create(model="any", max_tokens=12, system="Be brief.", messages=user)
    assert whole.content[0].text and whole.stop_reason in ("end_turn", "max_tokens")
    with claude.messages.stream(model="any", max_tokens=12, system="Be brief.", messages=user) as stream:
        assert stream.get_final_message().content[0].text == whole.content[0].text
    assert claude.messages.count_tokens(model="any", system="Be brief.", messages=user).input_tokens > 5
    tool = {"name": "weather", "description": "the weather", "input_schema": schema}
    args = dict(
        model="any",
        max_tokens=200,
        messages=question,
        tools=[tool],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
    )
    answer = claude.messages.create(**args)
    use = next(block for block in answer.content if block.type == "tool_use")
    assert answer.stop_reason == "tool_use" and use.input["city"]
    with claude.messages.stream(**args) as stream:
        assert stream.get_final_message().content[-1].input == use.input
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}
    after = question + [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    assert claude.messages.create(model="any", max_tokens=8, messages=after, tools=[tool])


def errors():
    for wrong in (dict(messages=[]), dict(messages=user, temperature=-3), dict(messages=user, tool_choice="required", tools=[{}])):
        try:
            ai.chat.completions.create(model="any", **wrong)
            raise AssertionError(wrong)
        except openai.BadRequestError as error:
            assert error.body["message"]
    try:
        claude.messages.create(model="any", max_tokens=5, messages=[])
        raise AssertionError("no messages")
    except anthropic.BadRequestError as error:
        assert error.body["error"]["type"] == "invalid_request_error"


for check in (chats, forms, tools, completions, embeddings, responses, messages, errors):
    check()
    print("python:", check.__name__)
