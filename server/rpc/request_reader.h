// Converts messages of incipit.v1 to a RequestDraft. The values are not checked here.
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

// Converts a GenerateRequest to a RequestDraft. Strings are moved out of `message`. Lists are
// copied up to their limits.
RequestDraft DraftOf(v1::GenerateRequest&& message, const RequestLimits& limits);
// Converts a ChatRequest to a RequestDraft. Strings are moved out of `message`. Lists are copied up
// to their limits.
RequestDraft DraftOf(v1::ChatRequest&& message, const RequestLimits& limits);
// Returns `ids` as a TokensDraft.
TokensDraft TokensOf(const google::protobuf::RepeatedField<uint32_t>& ids);

// Parses `bytes` and returns the RequestDraft, or MALFORMED_MESSAGE if `bytes` is not a valid
// `Message`. Takes time linear in the size of `bytes`, so callers run ReadDraft on a text thread.
template <typename Message>
absl::StatusOr<RequestDraft> ReadDraft(const grpc::ByteBuffer& bytes, const RequestLimits& limits);

}  // namespace incipit
