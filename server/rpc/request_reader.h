// Converts a message of the package incipit.v1 to a RequestDraft (a request whose values are not
// checked yet).
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/session/request/request_draft.h"
#include "server/session/request/request_limits.h"

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

// Converts a GenerateRequest to a RequestDraft (a request whose values are not checked yet). Copies
// at most `limits.stop_strings_max` stop strings.
RequestDraft DraftOf(v1::GenerateRequest&& message, const RequestLimits& limits);
// Converts a ChatRequest to a RequestDraft (a request whose values are not checked yet). Copies at
// most as many messages, tools and stop strings as `limits` allows.
RequestDraft DraftOf(v1::ChatRequest&& message, const RequestLimits& limits);
// Returns `ids` as a TokensDraft.
TokensDraft TokensOf(const google::protobuf::RepeatedField<uint32_t>& ids);

// Parses `bytes` as a `Message`, and converts the message to a RequestDraft (a request whose values
// are not checked yet). Returns MALFORMED_MESSAGE if the parsing fails. Should not be called on a
// gRPC thread, because a long message takes long to parse.
template <typename Message>
absl::StatusOr<RequestDraft> ReadDraft(const grpc::ByteBuffer& bytes, const RequestLimits& limits);

}  // namespace incipit
