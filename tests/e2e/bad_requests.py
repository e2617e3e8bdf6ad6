"""Invalid requests, and valid requests that look invalid, with the expected result of each. The row numbers refer to
docs/bad_input.md. Every row here concerns prompts, parameters or limits of a request."""
import dataclasses
import typing

import grpc
from harness.server import greedy
from incipit.v1 import inference_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
OK = grpc.StatusCode.OK
NAN, INF = float("nan"), float("inf")
# A word that clients send. No message from the server may contain this word.
CANARY = "Xylophonix"


@dataclasses.dataclass
class Facts:
    """Properties of the served model on which a case may depend."""
    vocab_size: int
    context: int
    eos: int
    tokens_of: typing.Callable  # text -> token ids


@dataclasses.dataclass
class Case:
    row: int
    name: str
    make: typing.Callable  # Facts -> a GenerateRequest or ChatRequest
    code: grpc.StatusCode = INVALID
    # Field that the BadRequest error detail must name.
    field: str = ""
    # Text that the error message must contain: the limit, or the missing thing.
    says: str = ""
    metadata: tuple = ()
    # Status of the same request in OpenAI's API, if it does not follow from `code`.
    http: int = 0
    # Field that the error in OpenAI's API names, if it does not follow from `field`.
    param: str = ""
    # Checks a successful reply: (Reply or HttpOutput, Facts) -> bool.
    check: typing.Callable = None


def ids(count, size=90):
    return [5 + (i * 13) % size for i in range(count)]


def with_sampling(**values):
    def make(_):
        request = greedy(ids(12), 3)
        for name, value in values.items():
            if name == "logit_bias":
                request.sampling.logit_bias.update(value)
            else:
                setattr(request.sampling, name, value)
        return request
    return make


def with_output(prompt=12, max_tokens=3, **values):
    def make(_):
        request = greedy(ids(prompt), max_tokens)
        for name, value in values.items():
            if isinstance(value, list):
                getattr(request.output, name).extend(value)
            else:
                setattr(request.output, name, value)
        return request
    return make


def with_fields(**values):
    return lambda _: greedy(ids(12), 3, **values)


def with_salt(salt):
    def make(_):
        request = greedy(ids(12), 3)
        request.cache.salt = salt
        return request
    return make


def sized(count, max_tokens=0):
    """Makes a request with a prompt of `count(facts)` tokens."""
    return lambda facts: greedy(ids(count(facts)), max_tokens)


def with_token(token, position=3):
    def make(facts):
        prompt = ids(8)
        prompt[position] = token(facts) if callable(token) else token
        return greedy(prompt, 3)
    return make


def bias_all_but_eos(facts):
    # The logit bias makes one token far more likely than all others, so the output ends only at its length limit.
    request = greedy(ids(12), 0)
    request.sampling.logit_bias[5] = 100
    request.sampling.logit_bias[facts.eos] = -100
    request.output.ignore_eos = True
    return request


def everything_on(_):
    request = greedy(ids(20), 12)
    sampling, output = request.sampling, request.output
    sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p = 0.8, 0.9, 40, 0.01
    sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty = 1.3, 1.5, -1.5
    sampling.logit_bias.update({7: 3.5, 9: -100})
    sampling.seed = 3
    output.min_tokens, output.n, output.logprobs, output.prompt_logprobs = 4, 3, 5, 2
    output.stop.extend(["zzzz", "qqqq"])
    output.stop_token_ids.append(11)
    output.include_stop = output.keep_special_tokens = True
    request.cache.salt, request.cache.skip_read, request.priority = "s", True, 5
    return request


def finished_length(tokens=None):
    def check(reply, facts):
        expected = tokens(facts) if callable(tokens) else tokens
        return (reply.finish_reason == inference_pb2.FINISH_REASON_LENGTH
                and (expected is None or len(reply.token_ids) == expected))
    return check


def has_tokens(count):
    return lambda reply, facts: len(reply.token_ids) == count


def rest(prompt):
    return lambda facts: facts.context - prompt


def many_ids(count):
    return lambda facts: inference_pb2.GenerateRequest(token_ids=inference_pb2.TokenIds(ids=[5] * count))


PROMPTS = [
    Case(1, "no prompt", lambda _: inference_pb2.GenerateRequest(), field="prompt", says="missing"),
    Case(2, "empty text", lambda _: greedy("", 3), field="text", says="empty"),
    Case(3, "empty ids", lambda _: inference_pb2.GenerateRequest(token_ids=inference_pb2.TokenIds()),
         field="token_ids", says="empty"),
    Case(4, "id is the vocabulary's size", with_token(lambda facts: facts.vocab_size),
         field="token_ids.ids[3]", says="below"),
    Case(5, "id just above the vocabulary", with_token(lambda facts: facts.vocab_size + 1),
         field="token_ids.ids[3]", says="below"),
    Case(6, "id 2^31 - 1", with_token(2**31 - 1), field="token_ids.ids[3]", says="2147483647"),
    Case(6, "id 2^32 - 1", with_token(2**32 - 1), field="token_ids.ids[3]", says="4294967295"),
    Case(7, "prompt fills the context", sized(lambda facts: facts.context), field="token_ids.ids",
         says="no room for output"),
    Case(8, "prompt beyond the context", sized(lambda facts: facts.context + 1), field="token_ids.ids",
         says="model's context ("),
    Case(8, "prompt far beyond the context", many_ids(900_000), field="token_ids.ids", says="model's context ("),
    Case(9, "max_tokens beyond the context", sized(lambda facts: facts.context - 5, 100), OK,
         check=finished_length(5)),
    Case(9, "one token of room", sized(lambda facts: facts.context - 1, 100), OK, check=finished_length(1)),
    Case(11, "NUL in the text", lambda _: greedy("a\0b", 3), OK, check=has_tokens(3)),
    Case(12, "two million letters", lambda _: greedy("a" * 2_000_000, 3), field="text", says="model's context ("),
    Case(12, "two million spaces", lambda _: greedy(" " * 2_000_000, 3), field="text", says="model's context ("),
    Case(14, "special ids in the prompt", with_token(lambda facts: facts.eos), OK, check=has_tokens(3)),
]

SAMPLING = [
    Case(15, "temperature NaN", with_sampling(temperature=NAN), field="sampling.temperature", says="100"),
    Case(16, "temperature inf", with_sampling(temperature=INF), field="sampling.temperature", says="100"),
    Case(16, "temperature -inf", with_sampling(temperature=-INF), field="sampling.temperature", says="100"),
    Case(16, "temperature -1", with_sampling(temperature=-1), field="sampling.temperature", says="from 0 to 100"),
    Case(16, "temperature 101", with_sampling(temperature=101), field="sampling.temperature", says="100"),
    Case(16, "temperature 1e-40 is greedy", with_sampling(temperature=1e-40), OK,
         check=lambda reply, facts: reply.token_ids == facts.greedy_ids),
    Case(17, "top_p 0", with_sampling(top_p=0), field="sampling.top_p", says="above 0"),
    Case(17, "top_p -0.1", with_sampling(top_p=-0.1), field="sampling.top_p", says="at most 1"),
    Case(17, "top_p 1.0001", with_sampling(top_p=1.0001), field="sampling.top_p", says="at most 1"),
    Case(17, "top_p NaN", with_sampling(top_p=NAN), field="sampling.top_p", says="at most 1"),
    Case(18, "top_k 2^32 - 1", with_sampling(top_k=2**32 - 1, temperature=1), OK, check=has_tokens(3), http=400,
         param="top_k"),
    Case(18, "top_k above the vocabulary", with_sampling(top_k=1_000_000, temperature=1), OK, check=has_tokens(3)),
    Case(19, "min_p 1.1", with_sampling(min_p=1.1), field="sampling.min_p", says="from 0 to 1"),
    Case(19, "min_p -0.1", with_sampling(min_p=-0.1), field="sampling.min_p", says="from 0 to 1"),
    Case(19, "min_p NaN", with_sampling(min_p=NAN), field="sampling.min_p", says="from 0 to 1"),
    Case(20, "repetition_penalty 0", with_sampling(repetition_penalty=0), field="sampling.repetition_penalty",
         says="above 0"),
    Case(20, "repetition_penalty -1", with_sampling(repetition_penalty=-1), field="sampling.repetition_penalty",
         says="above 0"),
    Case(20, "repetition_penalty inf", with_sampling(repetition_penalty=INF), field="sampling.repetition_penalty",
         says="at most 100"),
    Case(20, "repetition_penalty NaN", with_sampling(repetition_penalty=NAN), field="sampling.repetition_penalty",
         says="at most 100"),
    Case(21, "presence_penalty 2.1", with_sampling(presence_penalty=2.1), field="sampling.presence_penalty",
         says="from -2 to 2"),
    Case(21, "presence_penalty NaN", with_sampling(presence_penalty=NAN), field="sampling.presence_penalty",
         says="from -2 to 2"),
    Case(21, "frequency_penalty -2.1", with_sampling(frequency_penalty=-2.1), field="sampling.frequency_penalty",
         says="from -2 to 2"),
    Case(21, "frequency_penalty inf", with_sampling(frequency_penalty=INF), field="sampling.frequency_penalty",
         says="from -2 to 2"),
    Case(22, "penalties with everything else", everything_on, OK, check=lambda reply, _: len(reply.ids) == 3),
    Case(29, "seed min int64", with_sampling(seed=-2**63, temperature=1), OK, check=has_tokens(3)),
    Case(29, "seed max int64", with_sampling(seed=2**63 - 1, temperature=1), OK, check=has_tokens(3)),
    Case(29, "negative seed", with_sampling(seed=-5, temperature=1), OK, check=has_tokens(3)),
    Case(32, "bias of an id above the vocabulary", with_sampling(logit_bias={2**31: 1.0}),
         field="sampling.logit_bias[2147483648]", says="below"),
    Case(34, "no end in sight", bias_all_but_eos, OK, check=finished_length(rest(12))),
    Case(36, "bias NaN", with_sampling(logit_bias={7: NAN}), field="sampling.logit_bias[7]", says="from -100 to 100"),
    Case(36, "bias inf", with_sampling(logit_bias={7: INF}), field="sampling.logit_bias[7]", says="from -100 to 100"),
    Case(36, "bias -inf", with_sampling(logit_bias={7: -INF}), field="sampling.logit_bias[7]",
         says="from -100 to 100"),
    Case(36, "bias 1e38", with_sampling(logit_bias={7: 1e38}), field="sampling.logit_bias[7]",
         says="from -100 to 100"),
    Case(36, "300,000 biases", with_sampling(logit_bias={i: 1.0 for i in range(300_000)}),
         field="sampling.logit_bias", says="at most 1024", param="body"),
]

OUTPUT = [
    Case(23, "n 0 is 1", with_output(n=0), OK, check=lambda reply, _: list(reply.ids) == [0]),
    Case(24, "n 17", with_output(n=17), field="output.n", says="at most 16"),
    Case(24, "n 2^31", with_output(n=2**31), field="output.n", says="at most 16"),
    Case(24, "n 2^32 - 1", with_output(n=2**32 - 1), field="output.n", says="at most 16"),
    Case(26, "max_tokens 0 is the rest", with_output(max_tokens=0, ignore_eos=True), OK,
         check=finished_length(rest(12))),
    Case(26, "max_tokens 2^32 - 1", with_output(max_tokens=2**32 - 1, ignore_eos=True), OK,
         check=finished_length(rest(12)), http=400, param="max_tokens"),
    Case(26, "max_tokens 2^31 - 1", with_output(max_tokens=2**31 - 1, ignore_eos=True), OK,
         check=finished_length(rest(12))),
    Case(27, "min_tokens above max_tokens", with_output(min_tokens=4), field="output.min_tokens", says="max_tokens"),
    Case(28, "min_tokens 10^9, max_tokens unset", with_output(max_tokens=0, min_tokens=10**9),
         field="output.min_tokens", says="context"),
    Case(28, "min_tokens beyond the room", lambda facts: with_output(
        prompt=20, max_tokens=0, min_tokens=facts.context - 10)(facts), field="output.min_tokens", says="room"),
    Case(30, "logprobs 21", with_output(logprobs=21), field="output.logprobs", says="at most 20"),
    Case(30, "logprobs 2^31", with_output(logprobs=2**31), field="output.logprobs", says="at most 20"),
    Case(30, "logprobs -1 as uint32", with_output(logprobs=2**32 - 1), field="output.logprobs", says="at most 20"),
    Case(30, "prompt_logprobs 21", with_output(prompt_logprobs=21), field="output.prompt_logprobs",
         says="at most 20"),
    Case(38, "prompt_logprobs too large to send", with_output(prompt=200, prompt_logprobs=20),
         field="output.prompt_logprobs", says="at most 65536"),
    Case(39, "17 stop strings", with_output(stop=["a"] * 17), field="output.stop", says="at most 16"),
    Case(39, "10,000 stop strings", with_output(stop=["a"] * 10_000), field="output.stop", says="at most 16"),
    Case(40, "an empty stop string", with_output(stop=["a", ""]), field="output.stop[1]", says="empty"),
    Case(41, "a stop string of 1 MiB", with_output(stop=["a" * 2**20]), field="output.stop[0]", says="at most 1024"),
    Case(41, "the worst stop string that is allowed", with_output(max_tokens=50, stop=["a" * 1023 + "b"]), OK,
         check=lambda reply, _: reply.usage is not None),
    Case(42, "a stop string that is part of a character's neighbours",
         with_output(stop=["\u732b", "\U0001f408"]), OK, check=lambda reply, _: reply.usage is not None),
    Case(43, "10,000 stop ids", with_output(stop_token_ids=[5] * 10_000), field="output.stop_token_ids",
         says="at most 64"),
    Case(43, "65 stop ids", with_output(stop_token_ids=[5] * 65), field="output.stop_token_ids", says="at most 64"),
    Case(43, "a stop id above the vocabulary", with_output(stop_token_ids=[5, 2**31]),
         field="output.stop_token_ids[1]", says="below", param="stop_token_ids"),
]

LABELS = [
    Case(45, "a short request id", with_fields(request_id="a"), OK, check=has_tokens(3)),
    Case(46, "a request id of 129 bytes", with_fields(request_id="a" * 129), field="request_id",
         says="at most 128"),
    Case(46, "a request id of 1 MiB", with_fields(request_id=CANARY * 100_000), field="request_id",
         says="at most 128"),
    Case(46, "a line end in the request id", with_fields(request_id=f"{CANARY}\r\n"), field="request_id",
         says="printable"),
    Case(46, "a terminal sequence in the request id", with_fields(request_id=f"\x1b[31m{CANARY}"),
         field="request_id", says="printable"),
    Case(46, "a format in the request id", with_fields(request_id="%s%n{}"), OK, check=has_tokens(3)),
    Case(46, "host and port as the request id", with_fields(request_id="localhost:1"), OK, check=has_tokens(3)),
    Case(47, "a path as the model", with_fields(model=f"../../{CANARY}"), NOT_FOUND, says="not served"),
    Case(47, "an unknown model", with_fields(model=CANARY), NOT_FOUND, says="not served"),
    Case(47, "a model of 64 KiB", with_fields(model=CANARY * 6_554), field="model", says="at most 256"),
    Case(48, "a salt of 257 bytes", with_salt("s" * 257), field="cache.salt", says="at most 256"),
    Case(48, "a salt of 1 MiB", with_salt(CANARY * 100_000), field="cache.salt", says="at most 256"),
    Case(48, "NUL in the salt", with_salt("a\0b"), OK, check=has_tokens(3)),
    Case(48, "an empty salt", with_salt(""), OK, check=has_tokens(3)),
    Case(64, "priority min int32 is clamped", with_fields(priority=-2**31), OK, check=has_tokens(3), http=400,
         param="priority"),
    Case(64, "priority max int32 is clamped", with_fields(priority=2**31 - 1), OK, check=has_tokens(3)),
    Case(46, "a tenant of 129 bytes", with_fields(), field="x-tenant-id", says="at most 128",
         metadata=(("x-tenant-id", "t" * 129),)),
    Case(46, "an empty tenant", with_fields(), field="x-tenant-id", says="empty", metadata=(("x-tenant-id", ""),)),
    Case(46, "a tenant with a slash", with_fields(), field="x-tenant-id", says="letter",
         metadata=(("x-tenant-id", f"../{CANARY}"),)),
    Case(46, "two tenants", with_fields(), field="x-tenant-id", says="more than once",
         metadata=(("x-tenant-id", "a"), ("x-tenant-id", "b"))),
]


def chat(*messages, **fields):
    def make(_):
        request = inference_pb2.ChatRequest(**fields)
        for message in messages:
            request.messages.add(**message)
        request.sampling.temperature = 0
        request.output.max_tokens = 3
        return request
    return make


USER = {"role": "user", "content": "Hello"}


def chat_with_call(**call):
    return chat({"role": "assistant", "tool_calls": [inference_pb2.ToolCall(**call)]})


CHAT = [
    Case(58, "a reserved template argument", chat(USER, template_arguments_json='{"messages": []}'),
         field="template_arguments_json", says="messages, which is reserved"),
    Case(58, "another reserved template argument", chat(USER, template_arguments_json='{"bos_token": "x"}'),
         field="template_arguments_json", says="bos_token, which is reserved"),
    Case(58, "template arguments that are no object", chat(USER, template_arguments_json="[1]"),
         field="template_arguments_json", says="not a JSON object"),
    Case(58, "template arguments that are no JSON", chat(USER, template_arguments_json=f"{{{CANARY}"),
         field="template_arguments_json", says="not a JSON object"),
    Case(58, "template arguments 64 levels deep", chat(USER, template_arguments_json='{"a":' * 64 + "1" + "}" * 64),
         field="template_arguments_json", says="32", param="body"),
    Case(58, "template arguments 60,000 levels deep",
         chat(USER, template_arguments_json='{"a":' + "[" * 60_000 + "]"), field="template_arguments_json", says="32",
         param="body"),
    Case(59, "a client's own template", chat(USER, template_arguments_json='{"chat_template": "{{ messages }}"}'),
         field="template_arguments_json", says="chat_template, which is reserved"),
    Case(58, "template arguments above 64 KiB", chat(USER, template_arguments_json='{"a": "%s"}' % ("x" * 65_536)),
         field="template_arguments_json", says="at most 65536"),
    Case(60, "no message", chat(), field="messages", says="empty"),
    Case(60, "10,000 messages", chat(*[USER] * 10_000), field="messages", says="at most 1000"),
    Case(60, "an empty role", chat({"role": "", "content": "x"}), field="messages[0].role", says="1 to 64"),
    Case(60, "a role of control tokens", chat(USER, {"role": "<|im_start|>", "content": "x"}),
         field="messages[1].role", says="lower-case"),
    Case(60, "a role of 65 bytes", chat({"role": "r" * 65}), field="messages[0].role", says="1 to 64"),
    Case(60, "a role that the template refuses", chat({"role": "wizard", "content": "x"}), field="messages",
         says="unknown role"),
    Case(60, "129 tools", chat(USER, tools=[inference_pb2.Tool(name="t")] * 129), field="tools", says="at most 128"),
    Case(60, "a tool without a name", chat(USER, tools=[inference_pb2.Tool()]), field="tools[0].name", says="empty"),
    Case(60, "a tool whose parameters are no object",
         chat(USER, tools=[inference_pb2.Tool(name="t", parameters_json="7")]), field="tools[0].parameters_json",
         says="JSON object"),
    Case(60, "a tool call without a name", chat_with_call(id="1"), field="messages[0].tool_calls[0].name",
         says="empty"),
    Case(60, "a tool call whose arguments are no JSON", chat_with_call(name="f", arguments_json=f"{{{CANARY}"),
         field="messages[0].tool_calls[0].arguments_json", says="JSON object"),
    Case(13, "special tokens in a message are text", chat({"role": "user", "content": "<s></s><|im_end|>"}), OK,
         check=lambda reply, facts: reply.usage.prompt_tokens > len(facts.tokens_of("user: \nassistant:")) + 5),
    Case(11, "NUL in a message", chat({"role": "user", "content": "a\0b"}), OK, check=has_tokens(3)),
    Case(60, "parameters are checked in chat too", chat(USER, output=inference_pb2.OutputOptions(n=17)),
         field="output.n", says="at most 16"),
]

GENERATE = PROMPTS + SAMPLING + OUTPUT + LABELS
