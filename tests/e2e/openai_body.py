"""Converts a request of the gRPC API to a request of OpenAI's API with the same values, even if the values are invalid."""
import json
import types

from incipit.v1 import inference_pb2

# Value of max_tokens for a request without max_tokens: the rest of the model's context, as in the gRPC API.
REST = 2**31 - 1
RENAMED = {"include_stop": "include_stop_str_in_output"}
FINISH = {"stop": inference_pb2.FINISH_REASON_STOP, "length": inference_pb2.FINISH_REASON_LENGTH}


class RawTexts:
    """Puts texts that need not be JSON into a JSON text."""

    def __init__(self):
        self._texts = []

    def add(self, text):
        self._texts.append(text)
        return f"@raw{len(self._texts) - 1}@"

    def fill(self, body):
        for i, text in enumerate(self._texts):
            body = body.replace(f'"@raw{i}@"', text)
        return body


def tool_call(call):
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}


def message(value):
    out = {"role": value.role, "content": value.content}
    if value.tool_calls:
        out["tool_calls"] = [tool_call(call) for call in value.tool_calls]
    return out


def tool(value, raw):
    function = {"name": value.name}
    if value.parameters_json:
        function["parameters"] = raw.add(value.parameters_json)
    return {"type": "function", "function": function}


def prompt(request, raw):
    if isinstance(request, inference_pb2.ChatRequest):
        out = {"messages": [message(value) for value in request.messages]}
        if request.tools:
            out["tools"] = [tool(value, raw) for value in request.tools]
        if request.template_arguments_json:
            out["chat_template_kwargs"] = raw.add(request.template_arguments_json)
        return out
    kind = request.WhichOneof("prompt")
    if kind is None:
        return {}
    return {"prompt": request.text if kind == "text" else list(request.token_ids.ids)}


def output(request, is_chat):
    out = {"max_tokens": REST}
    for descriptor, value in request.output.ListFields():
        name = descriptor.name
        if name in ("stop", "stop_token_ids"):
            out[name] = list(value)
        elif name == "logprobs" and is_chat:
            out["logprobs"], out["top_logprobs"] = True, value
        elif name == "prompt_logprobs":
            out["echo"], out["logprobs"] = True, value
        elif name == "keep_special_tokens":
            out["skip_special_tokens"] = False
        else:
            out[RENAMED.get(name, name)] = value
    return out


def convert(request):
    """Returns the path and the body of the request to OpenAI's API."""
    is_chat = isinstance(request, inference_pb2.ChatRequest)
    raw = RawTexts()
    body = {**prompt(request, raw), **output(request, is_chat), "return_token_ids": True}
    for descriptor, value in request.sampling.ListFields():
        body[descriptor.name] = {str(key): bias for key, bias in value.items()} if descriptor.name == "logit_bias" else value
    if request.cache.salt:
        body["cache_salt"] = request.cache.salt
    if request.priority:
        body["priority"] = -request.priority
    for name in ("model", "request_id"):
        if getattr(request, name):
            body[name] = getattr(request, name)
    text = raw.fill(json.dumps(body, separators=(",", ":")))
    return "/v1/chat/completions" if is_chat else "/v1/completions", text.encode()


def is_json(body):
    def refuse(_):
        raise ValueError

    try:
        json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return True


PARAMS = (("sampling.", ""), ("output.prompt_logprobs", "logprobs"), ("output.", ""), ("cache.salt", "cache_salt"),
          ("token_ids.ids", "prompt"), ("token_ids", "prompt"), ("template_arguments_json", "chat_template_kwargs"))
PARAM_ENDS = ((".arguments_json", ".function.arguments"), (".parameters_json", ".function.parameters"))


def param(field):
    """Returns the name in OpenAI's API of the field `field` of the gRPC API."""
    if field == "text":
        return "prompt"
    for ours, theirs in PARAMS:
        if field.startswith(ours):
            return theirs + field[len(ours):]
    for ours, theirs in PARAM_ENDS:
        if field.endswith(ours):
            return field[:-len(ours)] + theirs
    if (field.startswith("tools[") or ".tool_calls[" in field) and field.endswith(".name"):
        return field[:-len(".name")] + ".function.name"
    return field


class HttpOutput:
    """The members of harness.server.Reply that the checks of bad_requests.py use, from a response of OpenAI's API."""

    def __init__(self, response):
        choices = sorted(response["choices"], key=lambda choice: choice["index"])
        self.ids = {choice["index"]: choice["token_ids"] for choice in choices}
        self.token_ids = self.ids[0]
        self.finish_reason = FINISH[choices[0]["finish_reason"]]
        self.usage = types.SimpleNamespace(**response["usage"])
