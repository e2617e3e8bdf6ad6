"""Random requests that share prefixes, and their streams over gRPC and over HTTP."""
import dataclasses
import http.client
import json
import threading

import grpc
from harness import http1
from harness.server import Details, Reply
from incipit.v1 import inference_pb2

WORDS = ("a and big bird boy cake cat day dog door flower friend girl happy hat he house it jumped little looked mom"
         " moon morning one played rain ran red run sad said saw she sky smiled sun the then they time to toy tree"
         " very walked was water went with café naïve 猫 🐈 ñandú").split()
# Characters of several bytes, which the tokenizer splits into several tokens.
WIDE_CHARACTERS = "猫🐈éñ日本"
DOCUMENTS, DOCUMENT_WORDS = 6, (20, 160)
FINISH_NAMES = {inference_pb2.FINISH_REASON_STOP: "stop", inference_pb2.FINISH_REASON_LENGTH: "length"}


@dataclasses.dataclass
class Request:
    """The part of a request that determines its output. `token_ids` replaces `text` if the list is not empty. The
    keys of `sampling` and `output` are field names of the API."""
    text: str
    token_ids: list
    sampling: dict
    output: dict

    def over_grpc(self):
        request = inference_pb2.GenerateRequest()
        if self.token_ids:
            request.token_ids.ids.extend(self.token_ids)
        else:
            request.text = self.text
        for target, fields in ((request.sampling, self.sampling), (request.output, self.output)):
            for name, value in fields.items():
                if name == "logit_bias":
                    target.logit_bias.update(value)
                elif name == "stop":
                    target.stop.extend(value)
                else:
                    setattr(target, name, value)
        return request

    def over_http(self):
        fields = {**self.sampling, **self.output}
        fields["logit_bias"] = {str(token): bias for token, bias in fields.get("logit_bias", {}).items()}
        return {"prompt": self.token_ids or self.text, "stream": True, "return_token_ids": True,
                "stream_options": {"include_usage": True}, **fields}


def random_sampling(generator, wide_tokens):
    """Returns greedy sampling for half of the requests, and otherwise sampling with a fixed seed."""
    sampling = {"temperature": 0.0, "repetition_penalty": 1.0}
    if generator.random() < 0.5:
        sampling.update(temperature=generator.choice((0.5, 0.8, 1.0, 1.6)), seed=generator.randrange(1 << 31))
        sampling.update(generator.choice(({}, {"top_p": 0.9}, {"top_k": 20}, {"min_p": 0.05})))
    if generator.random() < 0.3:
        sampling.update(generator.choice(({"repetition_penalty": 1.2}, {"presence_penalty": 0.7},
                                          {"frequency_penalty": 0.4, "presence_penalty": -0.2})))
    if generator.random() < 0.2:
        sampling["logit_bias"] = {token: 6.0 for token in wide_tokens}
    return sampling


def random_output(generator):
    output = {"max_tokens": generator.choice((1, 2, 8, 16, 32, 48, 64, 96, 128, 192)), "n": 1,
              "ignore_eos": generator.random() < 0.8}
    if generator.random() < 0.2:
        output["n"] = 2
    if generator.random() < 0.2:
        output["stop"] = generator.sample(["the", " and", ".", "🐈", "day"], 2)
    return output


def random_requests(generator, count, tokenize):
    """Returns `count` different requests. Their prompts begin with parts of a few documents. `tokenize` returns the
    token ids of a text."""
    words = lambda least, most: " ".join(generator.choice(WORDS) for _ in range(generator.randint(least, most)))
    documents = [words(*DOCUMENT_WORDS) for _ in range(DOCUMENTS)]
    wide_tokens = tokenize(WIDE_CHARACTERS)
    requests = []
    for index in range(count):
        document = generator.choice(documents)
        text = document[:generator.randint(len(document) // 3, len(document))]
        if index % 16 == 0:  # a long prompt, for which the cache often has too few free blocks
            text = " ".join(generator.sample(documents, 3))
        text += " " + words(1, 12)
        token_ids = tokenize(text) if generator.random() < 0.5 else []
        requests.append(Request(text, token_ids, random_sampling(generator, wide_tokens), random_output(generator)))
    return requests


@dataclasses.dataclass
class Plan:
    """How a client sends a request, and what then happens. If several of the last three fields are set, the first
    event counts."""
    request: int               # index of the request
    is_http: bool
    tenant: str
    priority: int
    skip_read: bool            # whether the request does not read the cache; over gRPC only
    cancel_tokens: int = -1    # number of output tokens after which the client cancels; -1: the client does not cancel
    cancel_seconds: float = 0  # seconds after which the client cancels; 0: the client does not cancel; over gRPC only
    deadline: float = 0        # in seconds; 0: no deadline; over gRPC only

    @property
    def may_be_cancelled(self):
        return self.cancel_tokens >= 0 or self.cancel_seconds > 0


def random_plan(generator, num_requests):
    plan = Plan(generator.randrange(num_requests), generator.random() < 0.2, f"tenant-{generator.randrange(3)}",
                generator.choice((0, 0, 0, 1, 5)), generator.random() < 0.05)
    event = generator.random()
    if event < 0.2:
        plan.cancel_tokens = generator.randrange(96)
    elif event < 0.3 and not plan.is_http:
        plan.cancel_seconds = 10 ** generator.uniform(-2.5, 0.5)
    elif event < 0.5 and not plan.is_http:
        plan.deadline = 10 ** generator.uniform(-1.5, 0.7)
    return plan


class Outcome:
    """What a client has received. `end` is "ok", "cancelled", "deadline", "refused" (the server estimates that the
    deadline would pass in the queue) or the text of an error."""

    def __init__(self):
        self.end = ""
        self.texts, self.ids, self.finish = {}, {}, {}  # by choice
        self.prompt_tokens = self.completion_tokens = 0  # of the last message

    @property
    def num_tokens(self):
        return sum(map(len, self.ids.values()))


def stream_over_grpc(stub, request, plan):
    """Sends `request`, or a request that determines the output alone if `plan` is None."""
    message = request.over_grpc()
    options = {}
    if plan:
        message.priority, message.cache.skip_read = plan.priority, plan.skip_read
        options = {"metadata": (("x-tenant-id", plan.tenant),), "timeout": plan.deadline or None}
    outcome, reply = Outcome(), Reply()
    outcome.texts, outcome.ids = reply.texts, reply.ids
    call = stub.Generate(message, **options)
    timer = None
    if plan and plan.cancel_seconds > 0:
        timer = threading.Timer(plan.cancel_seconds, call.cancel)
        timer.start()
    try:
        if plan and plan.cancel_tokens == 0:
            call.cancel()
        for part in call:
            reply.add(part)
            if plan and 0 <= plan.cancel_tokens <= outcome.num_tokens:
                call.cancel()
        outcome.end = "ok"
    except grpc.RpcError as error:
        outcome.end = end_of(error)
    finally:
        if timer:
            timer.cancel()
    outcome.finish = {choice: FINISH_NAMES[delta.finish_reason] for choice, delta in reply.last.items()}
    if reply.usage:
        outcome.prompt_tokens, outcome.completion_tokens = reply.usage.prompt_tokens, reply.usage.completion_tokens
    return outcome


def end_of(error):
    if error.code() == grpc.StatusCode.CANCELLED:
        return "cancelled"
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return "deadline"
    if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and Details(error).error_info.reason == "QUEUE_TOO_LONG":
        return "refused"
    return f"{error.code().name}: {error.details()}"


def stream_over_http(port, request, plan):
    outcome = Outcome()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10 * http1.SECONDS)
    body = {**request.over_http(), "priority": -plan.priority}
    try:
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json", "X-Tenant-Id": plan.tenant})
        if plan.cancel_tokens == 0:
            outcome.end = "cancelled"
            return outcome
        with connection.getresponse() as response:
            if response.status != 200:
                outcome.end = f"{response.status}: {response.read()}"
            else:
                read_events(response, outcome, plan.cancel_tokens)
    finally:
        connection.close()
    return outcome


def read_events(response, outcome, cancel_tokens):
    for line in response:
        if not line.startswith(b"data: "):
            continue
        if line == b"data: [DONE]\n":
            outcome.end = "ok"
            continue
        event = json.loads(line[len(b"data: "):])
        if "error" in event:
            outcome.end = str(event["error"])
            return
        for choice in event["choices"]:
            index = choice["index"]
            outcome.texts[index] = outcome.texts.get(index, "") + choice["text"]
            outcome.ids.setdefault(index, []).extend(choice.get("token_ids") or [])
            if choice["finish_reason"]:
                outcome.finish[index] = choice["finish_reason"]
        if event.get("usage"):
            outcome.prompt_tokens = event["usage"]["prompt_tokens"]
            outcome.completion_tokens = event["usage"]["completion_tokens"]
        if 0 <= cancel_tokens <= outcome.num_tokens:
            outcome.end = "cancelled"
            return
    outcome.end = outcome.end or "the stream ended without [DONE]"
