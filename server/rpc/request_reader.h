// From incipit.v1's messages to a request in no protocol's terms. Nothing is checked here.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/session/request_draft.h"
#include "server/session/request_limits.h"

namespace grpc {
class ByteBuffer;
}
namespace google::protobuf {
template <typename T>
class RepeatedField;
}
namespace incipit::v1 {
class ChatRequest;
class GenerateRequest;
}  // namespace incipit::v1

namespace incipit {

// Strings are moved out of the message. Lists of messages and strings are copied up to their
// limits, lists of numbers whole.
RequestDraft DraftOf(v1::GenerateRequest&& message, const RequestLimits& limits);
RequestDraft DraftOf(v1::ChatRequest&& message, const RequestLimits& limits);
TokensDraft TokensOf(const google::protobuf::RepeatedField<uint32_t>& ids);

// MALFORMED_MESSAGE if `bytes` are no Message. On a text thread: takes time by the size.
template <typename Message>
absl::StatusOr<RequestDraft> ReadDraft(const grpc::ByteBuffer& bytes, const RequestLimits& limits);

}  // namespace incipit
