"""Records the replies of a server to a fixed list of valid and invalid requests, to compare two builds:

    python3 tests/e2e/run.py build/release/incipit record > before.jsonl
    diff before.jsonl after.jsonl

Prints one line of JSON for each request. The line of an error has status code, reason, fields and whether a retry delay
is present. The line of a success has tokens, text, finish reasons and usage. Details that may differ are left out: the
wording of errors, times, labels that the server chooses, and the number of messages.
"""
import itertools
import json
import sys
import threading

import bad_requests
import grpc
from harness.chat import ChatServer, TemplateFile
from harness.models import ModelCopy
from harness.server import Reply, BUNDLED, Details, SOURCE, Server, greedy
from google.protobuf import duration_pb2
from incipit.v1 import admin_pb2, inference_pb2

FEW = ["--max-model-len", "400", "--prompt-logprobs-bytes-max", "64KiB"]
TIMES = ("queue_seconds", "share_wait_seconds", "room_wait_seconds", "prefix_wait_seconds", "time_to_first_token_seconds",
         "total_seconds")
RESPONSES = {"Generate": inference_pb2.GenerateResponse, "Chat": inference_pb2.GenerateResponse,
             "Tokenize": inference_pb2.TokenizeResponse, "Detokenize": inference_pb2.DetokenizeResponse}


# --- the record of a reply

def error_record(error):
    details = Details(error)
    record = {"code": error.code().name}
    if details.error_info:
        record["reason"], record["domain"] = details.error_info.reason, details.error_info.domain
        record["metadata"] = sorted(details.error_info.metadata)
    record["fields"] = details.fields
    record["retry"] = details.retry_info is not None
    return record


def logprob_record(entry):
    return [entry.token.token_id, round(entry.token.logprob, 4), entry.rank,
            [[top.token_id, round(top.logprob, 4)] for top in entry.top], entry.token.text.hex()]


def usage_record(usage):
    record = {"keys": sorted(descriptor.name for descriptor, _ in usage.ListFields() if descriptor.name not in TIMES)}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "copied_tokens"):
        record[name] = getattr(usage, name)
    if usage.HasField("cache_miss"):
        miss = usage.cache_miss
        record["miss"] = [inference_pb2.CacheMissReason.Name(miss.reason), miss.first_missing_block,
                          miss.first_differing_token]
    return record


def reply_record(reply, label):
    record = {"code": "OK", "usage": usage_record(reply.usage), "choices": []}
    for choice in sorted(reply.ids):
        last = reply.last.get(choice)
        record["choices"].append({
            "tokens": reply.ids[choice], "text": reply.texts[choice],
            "finish": inference_pb2.FinishReason.Name(last.finish_reason) if last else None,
            "stop": getattr(last, last.WhichOneof("stop")) if last and last.WhichOneof("stop") else None,
            "logprobs": [logprob_record(entry) for entry in reply.logprobs[choice]]})
    if reply.prompt_logprobs:
        record["prompt_logprobs"] = [logprob_record(entry) for entry in reply.prompt_logprobs]
    if label:
        record["labels"] = sorted({message.request_id for message in reply.messages})
    return record


class Recorder:
    def __init__(self, out):
        self._out, self._names = out, set()

    def write(self, name, record):
        assert name not in self._names, name
        self._names.add(name)
        print(json.dumps(dict(name=name, **record), sort_keys=True), file=self._out, flush=True)

    def run(self, name, call, label=""):
        """Records a stream of GenerateResponse, or the return value of a function."""
        try:
            if callable(call):
                text = str(call())
                self.write(name, {"code": "OK", "response": text if len(text) < 4000 else hash_of(text)})
                return
            reply = Reply()
            for message in call:
                reply.add(message)
            self.write(name, reply_record(reply, label))
        except grpc.RpcError as error:
            self.write(name, error_record(error))

    def request(self, name, server, request, **options):
        if not request.sampling.HasField("seed"):
            # Without a seed, the server chooses a random seed.
            request.sampling.seed = 1
        method = "Chat" if isinstance(request, inference_pb2.ChatRequest) else "Generate"
        self.run(name, getattr(server.inference, method)(request, timeout=60, **options), request.request_id)

    def raw(self, name, server, data, method="Generate", **options):
        path = method if method.startswith("/") else f"/incipit.v1.Inference/{method}"
        response = RESPONSES.get(method, inference_pb2.GenerateResponse)
        self.run(name, server.channel.unary_stream(path, bytes, response.FromString)(data, timeout=60, **options))


def hash_of(text):
    total = 0
    for byte in text.encode():
        total = (total * 1_000_003 + byte) % (1 << 64)
    return f"{len(text)} characters, {total:016x}"


# --- requests with one or two faults; clients see which of two faults is reported

def set_in(group, **values):
    def change(request):
        target = getattr(request, group) if group else request
        for name, value in values.items():
            if isinstance(value, list):
                getattr(target, name).extend(value)
            elif isinstance(value, dict):
                getattr(target, name).update(value)
            else:
                setattr(target, name, value)
    return change


def set_retention(**values):
    def change(request):
        for name, value in values.items():
            if isinstance(value, int):
                setattr(request.cache.retention, name, value)
            else:
                getattr(request.cache.retention, name).CopyFrom(value)
    return change


COMMON_FAULTS = {
    "request_id": set_in("", request_id="a" * 129),
    "request_id bytes": set_in("", request_id="a\n"),
    "model": set_in("", model="another"),
    "model size": set_in("", model="m" * 300),
    "temperature": set_in("sampling", temperature=-1.0),
    "top_p": set_in("sampling", top_p=0.0),
    "min_p": set_in("sampling", min_p=1.5),
    "repetition_penalty": set_in("sampling", repetition_penalty=0.0),
    "presence_penalty": set_in("sampling", presence_penalty=3.0),
    "frequency_penalty": set_in("sampling", frequency_penalty=3.0),
    "logit_bias id": set_in("sampling", logit_bias={1 << 30: 1.0}),
    "logit_bias value": set_in("sampling", logit_bias={3: 101.0}),
    "logit_bias size": set_in("sampling", logit_bias={i: 1.0 for i in range(1025)}),
    "n": set_in("output", n=17),
    "min_tokens": set_in("output", max_tokens=3, min_tokens=4),
    "min_tokens context": set_in("output", max_tokens=0, min_tokens=400),
    "min_tokens room": set_in("output", max_tokens=0, min_tokens=395),
    "logprobs": set_in("output", logprobs=21),
    "prompt_logprobs": set_in("output", prompt_logprobs=21),
    "stop count": set_in("output", stop=["a"] * 17),
    "stop empty": set_in("output", stop=["a", ""]),
    "stop size": set_in("output", stop=["a" * 1025]),
    "stop ids count": set_in("output", stop_token_ids=[5] * 65),
    "stop id": set_in("output", stop_token_ids=[1 << 30]),
    "salt": set_in("cache", salt="s" * 257),
    "retention priority": set_retention(priority=101),
    "retention ttl": set_retention(ttl=duration_pb2.Duration(seconds=-1)),
    "retention ttl long": set_retention(ttl=duration_pb2.Duration(seconds=90_000)),
    "retention nanos": set_retention(ttl=duration_pb2.Duration(seconds=1, nanos=2_000_000_000)),
    "retention pin": set_retention(pin=duration_pb2.Duration()),
}
GENERATE_FAULTS = {
    **COMMON_FAULTS,
    "no prompt": lambda request: request.ClearField("prompt") if request.WhichOneof("prompt") else None,
    "empty text": set_in("", text=""),
    "empty ids": lambda request: request.token_ids.ClearField("ids") or request.token_ids.SetInParent(),
    "id": lambda request: request.token_ids.ids.append(1 << 30),
    "too many ids": lambda request: request.token_ids.ids.extend([5] * 500),
    "long text": set_in("", text="once upon a time " * 2000),
}
CALL = {"name": "f", "arguments_json": "{}"}


def add_message(**values):
    return lambda request: request.messages.add(**values)


def add_call(**values):
    return lambda request: request.messages.add(role="assistant", tool_calls=[inference_pb2.ToolCall(**values)])


def add_tool(**values):
    return lambda request: request.tools.add(**values)


CHAT_FAULTS = {
    **COMMON_FAULTS,
    "no messages": lambda request: request.ClearField("messages"),
    "many messages": lambda request: [request.messages.add(role="user", content="x") for _ in range(1001)],
    "role empty": add_message(role="", content="x"),
    "role bytes": add_message(role="User", content="x"),
    "role size": add_message(role="u" * 65, content="x"),
    "role refused": add_message(role="wizard", content="x"),
    "name size": add_message(role="user", name="n" * 257),
    "tool_call_id size": add_message(role="user", tool_call_id="n" * 257),
    "many calls": lambda request: request.messages.add(
        role="assistant", tool_calls=[inference_pb2.ToolCall(**CALL)] * 129),
    "call name": add_call(name=""),
    "call name size": add_call(name="n" * 257),
    "call id size": add_call(name="f", id="i" * 257),
    "call arguments": add_call(name="f", arguments_json="[]"),
    "call arguments size": add_call(name="f", arguments_json="{}" + " " * 65_535),
    "call arguments depth": add_call(name="f", arguments_json='{"a":' * 33 + "1" + "}" * 33),
    "many tools": lambda request: [request.tools.add(name="t") for _ in range(129)],
    "tool name": add_tool(name=""),
    "tool name size": add_tool(name="t" * 257),
    "tool parameters": add_tool(name="t", parameters_json="{"),
    "tool parameters size": add_tool(name="t", parameters_json="{}" + " " * 65_535),
    "tool parameters depth": add_tool(name="t", parameters_json='{"a":' * 33 + "1" + "}" * 33),
    "arguments": set_in("", template_arguments_json="7"),
    "arguments size": set_in("", template_arguments_json="{}" + " " * 65_535),
    "arguments reserved": set_in("", template_arguments_json='{"tools": 1}'),
    "long content": add_message(role="user", content="once upon a time " * 2000),
}


def generate_base():
    return greedy(bad_requests.ids(12), 3)


def chat_base():
    return bad_requests.chat(bad_requests.USER)(None)


def record_faults(recorder, server):
    for kind, base, faults in (("Generate", generate_base, GENERATE_FAULTS), ("Chat", chat_base, CHAT_FAULTS)):
        for first, second in itertools.combinations_with_replacement(faults, 2):
            if first != second and first.startswith("logit_bias") and second.startswith("logit_bias"):
                # The order of two wrong entries of a map is not defined, so either fault may be reported.
                continue
            request = base()
            faults[first](request)
            if first != second:
                faults[second](request)
            recorder.request(f"{kind}: {first} / {second}", server, request)
        request = base()
        for change in faults.values():
            change(request)
        recorder.request(f"{kind}: every fault and a wrong tenant", server, request, metadata=(("x-tenant-id", "a/b"),))


# --- good requests

def good_requests():
    base = dict(temperature=0.8, seed=5)
    for name, values in {
        "plain": {}, "top_p": {"top_p": 0.7}, "top_k": {"top_k": 7}, "min_p": {"min_p": 0.2},
        "repetition": {"repetition_penalty": 1.4}, "presence": {"presence_penalty": 1.0},
        "frequency": {"frequency_penalty": -1.0}, "bias": {"logit_bias": {9: 5.0, 4: -100.0}},
        "hot": {"temperature": 5.0}, "greedy": {"temperature": 0.0}, "negative seed": {"seed": -9},
        "all": {"top_p": 0.9, "top_k": 30, "min_p": 0.01, "repetition_penalty": 1.1, "presence_penalty": 0.3,
                "frequency_penalty": 0.2, "logit_bias": {11: 1.5}},
    }.items():
        for output_name, output in {
            "short": {"max_tokens": 12}, "choices": {"max_tokens": 8, "n": 3},
            "logprobs": {"max_tokens": 6, "logprobs": 3},
            "prompt logprobs": {"max_tokens": 3, "prompt_logprobs": 2}, "to the end": {"ignore_eos": True},
            "stop": {"max_tokens": 40, "stop": ["e ", ". "]},
            "stop included": {"max_tokens": 40, "stop": ["e ", ". "], "include_stop": True},
            "stop late": {"max_tokens": 40, "stop": ["e", "a"], "min_tokens": 9},
            "stop ids": {"max_tokens": 40, "stop_token_ids": list(range(5, 60))},
            "stop ids included": {"max_tokens": 40, "stop_token_ids": list(range(5, 60)), "include_stop": True},
            "special": {"max_tokens": 60, "keep_special_tokens": True},
        }.items():
            request = inference_pb2.GenerateRequest(text="Once upon a time there was a cat")
            set_in("sampling", **{**base, **values})(request)
            set_in("output", **output)(request)
            yield f"{name}, {output_name}", request


def record_good(recorder, server):
    for name, request in good_requests():
        recorder.request(f"good: {name}", server, request)
    for salt, tenant in (("", ""), ("s", ""), ("", "t"), ("s", "t"), ("", ""), ("s", "t")):
        for skip in (False, True):
            request = greedy(bad_requests.ids(90), 4, request_id="label", priority=3)
            request.cache.salt, request.cache.skip_read = salt, skip
            names = itertools.count()
            name = next(text for text in (f"cache: salt {salt!r}, tenant {tenant!r}, skip {skip}, {i}" for i in names)
                        if text not in recorder._names)
            recorder.request(name, server, request, metadata=(("x-tenant-id", tenant),) if tenant else ())
    for size in (1, 15, 16, 17, 33, 90, 91, 100, 399):
        recorder.request(f"cache: {size} ids", server, greedy(bad_requests.ids(size), 1))
    for level in (0, 5, 50, 100):
        request = greedy(bad_requests.ids(40), 2)
        set_retention(priority=level, ttl=duration_pb2.Duration(seconds=60),
                      pin=duration_pb2.Duration(nanos=1))(request)
        recorder.request(f"retention {level}", server, request)


TEXTS = ["", "a", "Once upon a time", "\u732b\U0001f408 e\u0301", "<s></s><unk>", " \n\t ", "a\0b", "x" * 5000]


def record_text(recorder, server):
    for index, text in enumerate(TEXTS):
        for adds in (None, True, False):
            request = inference_pb2.TokenizeRequest(text=text)
            if adds is not None:
                request.add_special_tokens = adds
            recorder.run(f"Tokenize {index}, {adds}", lambda: server.inference.Tokenize(request))
    for index, ids in enumerate(([], [0, 1, 2, 3], list(range(300)), [1 << 30], [2**32 - 1], [5] * 5000)):
        for skip in (False, True):
            request = inference_pb2.DetokenizeRequest(ids=ids, skip_special_tokens=skip)
            recorder.run(f"Detokenize {index}, {skip}", lambda: server.inference.Detokenize(request))


def record_wire(recorder, server):
    valid = generate_base().SerializeToString()
    chat = chat_base().SerializeToString()
    for name, data in {
        "no bytes": b"", "cut off": valid[:-1], "garbage": b"\xff" * 100, "another type": b"\x0a\x03\x01\x02\x03",
        "no UTF-8": b"\x12\x02\xff\xfe", "no UTF-8 in a label": valid + b"\x0a\x01\xff",
        "unknown field": valid + b"\xfa\x07\x03abc", "nested groups": valid + b"\xfb\x07" * 200 + b"\xfc\x07" * 200,
        "negative id": b"\x1a\x0c\x0a\x0a" + b"\xff" * 9 + b"\x01",
        "two prompts": valid + b"\x12\x01a", "too large": b"\x12\x84\x80\x80\x02" + b"a" * (2**22 + 4),
    }.items():
        recorder.raw(f"bytes, Generate: {name}", server, data)
        recorder.raw(f"bytes, Chat: {name}", server, data, "Chat")
        for method in ("Tokenize", "Detokenize"):
            path = f"/incipit.v1.Inference/{method}"
            recorder.run(f"bytes, {method}: {name}", lambda: server.channel.unary_unary(
                path, bytes, RESPONSES[method].FromString)(data, timeout=60))
    recorder.raw("bytes: Chat of Chat", server, chat, "Chat")
    recorder.raw("unknown method", server, valid, "Destroy")
    recorder.raw("unknown service", server, valid, "/incipit.v2.Inference/Generate")
    recorder.raw("compressed", server, valid * 2000, compression=grpc.Compression.Gzip)
    for name, metadata in {
        "large value": [("x-large", "a" * 17_000)], "many entries": [(f"k{i}", "v") for i in range(600)],
        "tenant of 128": [("x-tenant-id", "t" * 128)], "tenant of 129": [("x-tenant-id", "t" * 129)],
        "empty tenant": [("x-tenant-id", "")], "space in tenant": [("x-tenant-id", "a b")],
        "two tenants": [("x-tenant-id", "a"), ("x-tenant-id", "b")],
        "large value and wrong tenant": [("x-large", "a" * 17_000), ("x-tenant-id", "a b")],
    }.items():
        for method in ("Generate", "Chat"):
            recorder.raw(f"metadata, {method}: {name}", server, valid if method == "Generate" else chat, method,
                         metadata=metadata)
            recorder.raw(f"metadata, {method}, garbage: {name}", server, b"\xff" * 9, method, metadata=metadata)
        recorder.run(f"metadata, Tokenize: {name}", lambda: server.inference.Tokenize(
            inference_pb2.TokenizeRequest(text="a"), metadata=metadata))
    recorder.run("deadline now", server.inference.Generate(generate_base(), timeout=0))


def record_admin(recorder, server):
    ids = inference_pb2.TokenIds
    for name, request in {
        "nothing": {}, "tokens": {"prompt_tokens": 20}, "no tokens": {"prompt_tokens": 0},
        "many": {"prompt_tokens": 10**6}, "ids": {"token_ids": ids(ids=[5, 6, 7])}, "no ids": {"token_ids": ids()},
        "wrong id": {"token_ids": ids(ids=[1 << 30])}, "too many ids": {"token_ids": ids(ids=[5] * 5000)},
        "salt": {"token_ids": ids(ids=[5]), "cache_salt": "s" * 257},
    }.items():
        for tenant in ((), (("x-tenant-id", "a b"),)):
            recorder.run(f"GetLoad: {name}, {tenant}", lambda: server.admin.GetLoad(
                admin_pb2.GetLoadRequest(**request), metadata=tenant).admission)
    for level in ("debug", "info", "loud", ""):
        recorder.run(f"SetLogLevel {level}", lambda: server.admin.SetLogLevel(
            admin_pb2.SetLogLevelRequest(level=level)).previous_level)
    recorder.run("ResetPrefixCache", lambda: server.admin.ResetPrefixCache(admin_pb2.ResetPrefixCacheRequest()))
    recorder.run("GetModelInfo", lambda: server.admin.GetModelInfo(admin_pb2.GetModelInfoRequest()))


# --- servers in other states

def endless(max_tokens=0):
    request = greedy(bad_requests.ids(12), max_tokens)
    request.output.ignore_eos = True
    return request


def hold(server):
    """Starts a call that keeps running, because its client reads only the first message."""
    generate = server.connect().unary_stream("/incipit.v1.Inference/Generate", bytes, bytes)
    call = generate(endless().SerializeToString())
    next(call)
    return call


def record_states(recorder):
    good, chat = generate_base(), chat_base()
    wrong = greedy([1 << 30], 3)
    too_long = greedy(bad_requests.ids(4000), 3)
    requests = {"good": good, "wrong": wrong, "too long": too_long, "Chat": chat}
    states = {"requests-max": ["--requests-max", "1"], "streams-max": ["--streams-max", "1"],
              "waiting-prompt-tokens-max": ["--running-max", "1", "--waiting-prompt-tokens-max", "5"],
              "kv-blocks": ["--kv-blocks", "8"]}
    for state, flags in states.items():
        with ChatServer("--write-stall-timeout", "1h", *flags) as server:
            calls = [hold(server)] if state != "kv-blocks" else []
            if state == "waiting-prompt-tokens-max":
                calls += [server.inference.Generate(endless())]
                while server.load().waiting == 0:
                    threading.Event().wait(0.01)
            for name, request in requests.items():
                recorder.request(f"{state}: {name}", server, request)
            recorder.request(f"{state}: wrong tenant", server, good, metadata=(("x-tenant-id", "a b"),))
            recorder.raw(f"{state}: garbage", server, b"\xff" * 9)
            for call in calls:
                call.cancel()
    with ChatServer() as server:
        server.admin.Drain(admin_pb2.DrainRequest())
        for name, request in requests.items():
            recorder.request(f"drain: {name}", server, request)
        recorder.request("drain: wrong tenant", server, good, metadata=(("x-tenant-id", "a b"),))
        recorder.request("drain: large metadata", server, good, metadata=(("x", "a" * 17_000),))
        recorder.raw("drain: garbage", server, b"\xff" * 9)
        recorder.run("drain: Tokenize", lambda: server.inference.Tokenize(inference_pb2.TokenizeRequest(text="a")))
        server.admin.Resume(admin_pb2.ResumeRequest())
        recorder.request("resumed: good", server, good)


def record_models(recorder):
    conversation = bad_requests.chat({"role": "system", "content": "Be brief."}, bad_requests.USER,
                                     {"role": "assistant", "content": "Hi <|im_end|>"}, bad_requests.USER)(None)
    with_tools = bad_requests.chat(bad_requests.USER, tools=[inference_pb2.Tool(
        name="look", description="Looks things up.",
        parameters_json='{"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}')])(None)
    arguments = bad_requests.chat(bad_requests.USER, template_arguments_json='{"enable_thinking": false}')(None)
    chats = {"conversation": conversation, "tools": with_tools, "arguments": arguments}
    for path in sorted((SOURCE / "tests/data/chat_templates").glob("*.jinja")):
        with Server("--chat-template", str(path)) as server:
            for name, request in chats.items():
                recorder.request(f"{path.stem}: {name}", server, request)
    for name, text in {"raises": "{{ raise_exception('no \x1b\"' ~ messages[0]['content'] * 100) }}",
                       "divides by zero": "{{ 1 // 0 }}", "no method": "{{ messages[0].frob() }}"}.items():
        with TemplateFile(text) as template, Server(*template.flags) as server:
            recorder.request(f"template {name}", server, conversation)
    with Server("--chat-template", "none") as server:
        recorder.request("no template: Chat", server, conversation)
    with ModelCopy(BUNDLED) as model:
        (model.path / "tokenizer.json").unlink()
        with Server(model=model.path) as server:
            stop = endless(3)
            stop.output.stop.append("a")
            for name, request in {"text": greedy("a", 3), "ids": generate_base(), "stop": stop,
                                  "Chat": conversation}.items():
                recorder.request(f"no tokenizer: {name}", server, request)
            recorder.run("no tokenizer: Tokenize", lambda: server.inference.Tokenize(
                inference_pb2.TokenizeRequest(text="a")))
            recorder.run("no tokenizer: Detokenize", lambda: server.inference.Detokenize(
                inference_pb2.DetokenizeRequest(ids=[1])))


def main():
    recorder = Recorder(sys.stdout)
    with ChatServer(*FEW) as server:
        info = server.info()
        facts = bad_requests.Facts(info.vocab_size, info.max_model_len, info.eos_token_ids[0], lambda _: [])
        for group in ("GENERATE", "CHAT"):
            for case in getattr(bad_requests, group):
                recorder.request(f"row {case.row}, {case.name}", server, case.make(facts), metadata=case.metadata)
        record_faults(recorder, server)
        record_good(recorder, server)
        record_text(recorder, server)
        record_wire(recorder, server)
        record_admin(recorder, server)
    record_states(recorder)
    record_models(recorder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
