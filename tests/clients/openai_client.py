"""Tests the server with OpenAI's client for Python, unmodified: openai_client.py PROGRAM"""
import asyncio
import contextlib
import json
import pathlib
import shutil
import sys
import tempfile
import time

import openai
from support import FAKE_SERVER
from support.checks import Checks, contains, equal, wait_for

from harness import http1
from harness.process import BUNDLED, SOURCE, ServerProcess

MODEL = "incipit-tiny"
STORY = "Once upon a time"
ASK = [{"role": "user", "content": "Tell me a story about a cat."}]
TOOL_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
STOP = "STOP"
CANCEL_SECONDS = 1.0  # the longest time from a cancellation in the client to the end of the sequence in the server
CANCEL_TRIES = 3      # the machine of the test may be busy, so the fastest of several cancellations counts


def client_of(server, kind=openai.OpenAI, **arguments):
    arguments = {"timeout": 60, "max_retries": 0, **arguments}
    return kind(base_url=f"http://127.0.0.1:{server.ports['http']}/v1", api_key="unused", **arguments)


@contextlib.contextmanager
def says(text, chat_template):
    """Yields a server with a fake model whose only token is `text`."""
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        shutil.copytree(BUNDLED, model, ignore=shutil.ignore_patterns("*.safetensors"))
        path = model / "tokenizer.json"
        path.chmod(0o644)
        tokenizer = json.loads(path.read_text())
        token = len(tokenizer["model"]["vocab"])
        tokenizer["added_tokens"].append({"id": token, "content": text, "single_word": False, "lstrip": False,
                                          "rstrip": False, "normalized": False, "special": False})
        path.write_text(json.dumps(tokenizer))
        template = SOURCE / "tests/data/chat_templates" / chat_template
        with ServerProcess("--sampled-token", str(token), "--chat-template", str(template), program=FAKE_SERVER,
                           model=model, http=True) as server:
            yield server


def check_text(checks, server):
    client = client_of(server)
    with checks.check("models"):
        equal([model.id for model in client.models.list()], [MODEL, "org/alias"])
        equal(client.models.retrieve("org/alias").id, "org/alias")
    with checks.check("completion"):
        completion = client.completions.create(model=MODEL, prompt=STORY, max_tokens=20, temperature=0)
        equal((completion.object, completion.choices[0].finish_reason), ("text_completion", "length"))
        equal(completion.usage.completion_tokens, 20)
        assert completion.choices[0].text
    with checks.check("streamed completion, with usage"):
        events = list(client.completions.create(model=MODEL, prompt=STORY, max_tokens=20, temperature=0, stream=True,
                                                stream_options={"include_usage": True}))
        equal("".join(event.choices[0].text for event in events if event.choices), completion.choices[0].text)
        equal((events[-1].choices, events[-1].usage.completion_tokens), ([], 20))
    with checks.check("completion of several prompts and of token ids"):
        ids = http1.call(server.ports["http"], "POST", "/tokenize", {"prompt": STORY}).json["tokens"]
        several = client.completions.create(model=MODEL, prompt=[ids, ids], max_tokens=20, temperature=0)
        equal([choice.text for choice in several.choices], [completion.choices[0].text] * 2)
    with checks.check("echo and log probabilities of a completion"):
        echoed = client.completions.create(model=MODEL, prompt=STORY, max_tokens=3, temperature=0, echo=True, logprobs=2)
        logprobs = echoed.choices[0].logprobs
        equal(echoed.choices[0].text, STORY + completion.choices[0].text[:len(echoed.choices[0].text) - len(STORY)])
        equal(logprobs.token_logprobs[0], None)
        assert all(value <= 0 for value in logprobs.token_logprobs[1:])
        assert all(len(top) >= 2 for top in logprobs.top_logprobs[1:])
    with checks.check("chat, and chat as a stream"):
        chat = client.chat.completions.create(model="org/alias", messages=ASK, temperature=0)
        equal((chat.model, chat.choices[0].message.role), ("org/alias", "assistant"))
        equal(chat.choices[0].finish_reason, "stop")
        stream = client.chat.completions.create(model=MODEL, messages=ASK, temperature=0, stream=True)
        events = list(stream)
        equal(events[0].choices[0].delta.role, "assistant")
        equal("".join(event.choices[0].delta.content or "" for event in events), chat.choices[0].message.content)
        equal(events[-1].choices[0].finish_reason, "stop")
    with checks.check("the stream helper of the client"):
        with client.chat.completions.stream(model=MODEL, messages=ASK, temperature=0) as stream:
            equal(stream.get_final_completion().choices[0].message.content, chat.choices[0].message.content)
    with checks.check("usage names the cached tokens of a conversation"):
        turns = ASK + [{"role": "assistant", "content": chat.choices[0].message.content},
                       {"role": "user", "content": "Tell me more."}]
        usage = client.chat.completions.create(model=MODEL, messages=turns, max_tokens=5).usage
        assert 16 <= usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens, usage
    with checks.check("text parts"):
        parts = [{"role": "user", "content": [{"type": "text", "text": ASK[0]["content"]}]}]
        equal(client.chat.completions.create(model=MODEL, messages=parts, temperature=0).choices[0].message.content,
              chat.choices[0].message.content)
    with checks.check("log probabilities of a chat"):
        content = client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=5, temperature=0, logprobs=True,
                                                 top_logprobs=3).choices[0].logprobs.content
        equal([len(token.top_logprobs) for token in content], [3] * 5)
        equal([token.token for token in content], [token.top_logprobs[0].token for token in content])
        text = bytes(byte for token in content for byte in token.bytes).decode()
        assert chat.choices[0].message.content.startswith(text), text
    with checks.check("n outputs, with a seed"):
        def sample():
            choices = client.chat.completions.create(model=MODEL, messages=ASK, n=3, seed=7, temperature=1,
                                                     max_tokens=30).choices
            return [choice.message.content for choice in choices]
        outputs = sample()
        equal((len(outputs), len(set(outputs))), (3, 3))
        equal(sample(), outputs)
    with checks.check("stop strings"):
        stop = chat.choices[0].message.content.split()[3]
        choice = client.chat.completions.create(model=MODEL, messages=ASK, temperature=0, stop=[stop]).choices[0]
        equal((choice.message.content, choice.finish_reason),
              (chat.choices[0].message.content.split(stop)[0], "stop"))
    with checks.check("the asynchronous client"):
        async def ask():
            async with client_of(server, openai.AsyncOpenAI) as other:
                several = await asyncio.gather(*(other.chat.completions.create(
                    model=MODEL, messages=ASK, temperature=0) for _ in range(8)))
                return {one.choices[0].message.content for one in several}
        equal(asyncio.run(ask()), {chat.choices[0].message.content})


def check_tools(checks):
    with checks.check("tools: a call, its result, and the next output"), \
            says(TOOL_CALL + STOP, "Qwen-Qwen2.5-7B-Instruct.jinja") as server:
        client = client_of(server)
        question = {"role": "user", "content": "What is the weather in Paris?"}
        fields = {"model": "fake", "tools": TOOLS, "stop": [STOP], "extra_body": {"return_token_ids": True}}
        choice = client.chat.completions.create(messages=[question], **fields).choices[0]
        call = choice.message.tool_calls[0]
        equal((choice.finish_reason, call.type, call.function.name), ("tool_calls", "function", "get_weather"))
        equal(json.loads(call.function.arguments), {"city": "Paris"})
        result = {"role": "tool", "tool_call_id": call.id, "content": "18 degrees and sun"}
        second = client.chat.completions.create(messages=[question, choice.message, result], tool_choice="none",
                                                **fields).choices[0]
        prompt = http1.call(server.ports["http"], "POST", "/detokenize",
                            {"tokens": second.prompt_token_ids}).json["prompt"]
        contains(prompt, "18 degrees and sun")
        contains(prompt, '"name": "get_weather", "arguments": {"city": "Paris"}')
    with checks.check("tools: a streamed call"), \
            says(TOOL_CALL + STOP, "Qwen-Qwen2.5-7B-Instruct.jinja") as server:
        with client_of(server).chat.completions.stream(model="fake", messages=[question], tools=TOOLS,
                                                       stop=[STOP]) as stream:
            choice = stream.get_final_completion().choices[0]
        equal((choice.finish_reason, choice.message.tool_calls[0].function.name), ("tool_calls", "get_weather"))
        equal(json.loads(choice.message.tool_calls[0].function.arguments), {"city": "Paris"})
    with checks.check("reasoning"), says("<think>because</think>so" + STOP, "Qwen-Qwen3-0.6B.jinja") as server:
        message = client_of(server).chat.completions.create(model="fake", messages=ASK, stop=[STOP]).choices[0].message
        equal((message.reasoning_content.strip(), message.content.strip()), ("because", "so"))


def error_of(kind, function, *arguments, **fields):
    try:
        function(*arguments, **fields)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def check_errors(checks, server):
    client = client_of(server)
    with checks.check("an unknown model is NotFoundError"):
        error = error_of(openai.NotFoundError, client.chat.completions.create, model="other", messages=ASK)
        equal((error.status_code, error.code), (404, "model_not_found"))
    with checks.check("a wrong field is BadRequestError with its name"):
        error = error_of(openai.BadRequestError, client.chat.completions.create, model=MODEL, messages=ASK, top_p=7)
        equal((error.param, error.code), ("top_p", "invalid_field"))
    with checks.check("a field that would change the output is BadRequestError with its name"):
        error = error_of(openai.BadRequestError, client.chat.completions.create, model=MODEL, messages=ASK,
                         response_format={"type": "json_object"})
        equal(error.param, "response_format")
    with checks.check("an image part is BadRequestError with its name"):
        image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
        error = error_of(openai.BadRequestError, client.chat.completions.create, model=MODEL, messages=image)
        contains(error.param, "messages[0].content")
    with checks.check("a long prompt is BadRequestError with OpenAI's code"):
        error = error_of(openai.BadRequestError, client.completions.create, model=MODEL, prompt="cat " * 5000)
        equal(error.code, "context_length_exceeded")
    with checks.check("an unknown path is NotFoundError"):
        error_of(openai.NotFoundError, client.embeddings.create, model=MODEL, input="text")


def slow_server(*flags):
    return ServerProcess("--step-time-ms", "20", "--max-model-len", "16384", *flags, program=FAKE_SERVER, http=True)


def await_idle(server, since):
    """Waits until the server runs no sequence. Returns the seconds since the time `since`."""
    wait_for(lambda: server.metric("incipit_requests_running") == 0, "an idle server")
    return time.monotonic() - since


def fastest(cancel):
    """Returns the shortest result of several calls of `cancel`, and fails if the result exceeds CANCEL_SECONDS."""
    seconds = min(cancel() for _ in range(CANCEL_TRIES))
    assert seconds <= CANCEL_SECONDS, f"the server ran the sequence {seconds:.2f} s longer"
    return seconds


def check_cancellation(checks):
    endless = {"model": "fake", "messages": ASK, "max_tokens": 10000}
    with slow_server() as server:
        client = client_of(server)
        running = lambda: server.metric("incipit_requests_running") == 1  # noqa: E731
        with checks.check("a closed stream ends in the server within a second"):
            def close():
                stream = client.chat.completions.create(stream=True, **endless)
                for _ in range(3):
                    next(stream)
                equal(server.metric("incipit_requests_running"), 1)
                start = time.monotonic()
                stream.close()
                return await_idle(server, start)
            checks.note(f"closed stream: idle after {fastest(close):.3f} s")
        with checks.check("a timeout of the client ends the request within a second"):
            def time_out():
                error_of(openai.APITimeoutError, client.with_options(timeout=0.3).chat.completions.create, **endless)
                return await_idle(server, time.monotonic())
            checks.note(f"timeout: idle after {fastest(time_out):.3f} s")
        with checks.check("a cancelled task of the asynchronous client ends the request within a second"):
            async def cancel_task():
                async with client_of(server, openai.AsyncOpenAI) as other:
                    task = asyncio.create_task(other.chat.completions.create(**endless))
                    while not await asyncio.to_thread(running):
                        await asyncio.sleep(0.01)
                    start = time.monotonic()
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                    return await asyncio.to_thread(await_idle, server, start)
            checks.note(f"cancelled task: idle after {fastest(lambda: asyncio.run(cancel_task())):.3f} s")
        with checks.check("every cancellation is counted as cancelled"):
            wait_for(lambda: server.metric("incipit_requests_total", outcome="cancelled") == 3 * CANCEL_TRIES,
                     "all cancelled")
    with checks.check("a full server is RateLimitError, and the client sends the request again"), \
            slow_server("--requests-max", "1") as server:
        client = client_of(server)
        stream = client.chat.completions.create(stream=True, **endless)
        next(stream)
        error = error_of(openai.RateLimitError, client.chat.completions.create, model="fake", messages=ASK, max_tokens=2)
        assert int(error.response.headers["Retry-After"]) >= 1
        stream.close()
        retried = client.with_options(max_retries=8).chat.completions.create(model="fake", messages=ASK, max_tokens=2)
        equal(retried.usage.completion_tokens, 2)


def main():
    checks = Checks()
    with ServerProcess("--model-alias", "org/alias", http=True) as server:
        check_text(checks, server)
        check_errors(checks, server)
    check_tools(checks)
    check_cancellation(checks)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
