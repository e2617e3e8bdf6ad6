"""A server process and its gRPC clients."""
import threading

import grpc
from google.rpc import error_details_pb2, status_pb2
from harness.process import (BUNDLED, PROGRAM, SOURCE, START_SECONDS, STOP_SECONDS, STORIES, ServerProcess,  # noqa: F401
                             default_model, die_with_parent)
from incipit.v1 import admin_pb2, admin_pb2_grpc, inference_pb2, inference_pb2_grpc


class Server(ServerProcess):
    """A running server and its gRPC clients."""

    def __init__(self, *flags, **arguments):
        super().__init__(*flags, **arguments)
        self.address = f"127.0.0.1:{self.ports['grpc']}"
        self.channel = self.connect()
        self.inference = inference_pb2_grpc.InferenceStub(self.channel)
        self.admin = admin_pb2_grpc.AdminStub(self.channel)

    def connect(self, *options):
        # A separate subchannel pool, because channels of one process otherwise share a connection.
        return grpc.insecure_channel(self.address, options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0),
            ("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1), *options])

    def close(self):
        self.channel.close()
        super().close()

    def load(self):
        return self.admin.GetLoad(admin_pb2.GetLoadRequest())

    def info(self):
        return self.admin.GetModelInfo(admin_pb2.GetModelInfoRequest())

    def reset_cache(self):
        self.admin.ResetPrefixCache(admin_pb2.ResetPrefixCacheRequest())

    def wait_until_idle(self):
        """Waits until no request is running or waiting and no block is in use. A drain would end the server
        instead."""
        for _ in range(2000):
            load = self.load()
            if load.used_blocks == 0 and load.running == 0 and load.waiting == 0:
                return
            threading.Event().wait(0.005)
        raise AssertionError(f"requests still hold blocks: {load}")

    def generate(self, request, **call_options):
        return collect(self.inference.Generate(request, **call_options))


class Reply:
    """The joined messages of one call: texts, token ids, log probabilities and last delta of each choice, and
    usage."""

    def __init__(self):
        self.messages = []
        self.texts, self.ids, self.logprobs, self.last = {}, {}, {}, {}
        self.prompt_logprobs = []
        self.usage = None

    def add(self, message):
        self.messages.append(message)
        self.prompt_logprobs += message.prompt_logprobs
        for delta in message.deltas:
            choice = delta.choice
            self.texts[choice] = self.texts.get(choice, "") + delta.text
            self.ids.setdefault(choice, []).extend(delta.token_ids)
            self.logprobs.setdefault(choice, []).extend(delta.logprobs)
            if delta.finish_reason:
                self.last[choice] = delta
        if message.HasField("usage"):
            self.usage = message.usage

    @property
    def text(self):
        return self.texts.get(0, "")

    @property
    def token_ids(self):
        return self.ids.get(0, [])

    @property
    def finish_reason(self):
        return self.last[0].finish_reason


def collect(call):
    reply = Reply()
    for message in call:
        reply.add(message)
    return reply


class Details:
    """The error details in the trailer `grpc-status-details-bin`."""

    def __init__(self, error):
        trailers = dict(error.trailing_metadata() or ())
        self.status = status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b""))
        self.bad_request = self._find(error_details_pb2.BadRequest)
        self.retry_info = self._find(error_details_pb2.RetryInfo)
        self.error_info = self._find(error_details_pb2.ErrorInfo)

    def _find(self, kind):
        for detail in self.status.details:
            if detail.Is(kind.DESCRIPTOR):
                message = kind()
                detail.Unpack(message)
                return message
        return None

    @property
    def fields(self):
        return [violation.field for violation in self.bad_request.field_violations] if self.bad_request else []


def greedy(prompt, max_tokens, **fields):
    """Returns a GenerateRequest with greedy sampling. `prompt` is a text or a list of token ids."""
    request = inference_pb2.GenerateRequest(**fields)
    if isinstance(prompt, str):
        request.text = prompt
    else:
        request.token_ids.ids.extend(prompt)
    request.sampling.temperature = 0
    request.output.max_tokens = max_tokens
    return request
