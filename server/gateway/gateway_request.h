// Parses the requests that a gateway sends to the gRPC method Generate.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/prompt_size.h"
#include "server/session/request/request_draft.h"
#include "server/session/request/request_limits.h"

namespace grpc {
class ByteBuffer;
}

namespace incipit {

// Maximum size in bytes of a request's name. The name consists of a name that a client of the
// gateway chose, and a suffix that the gateway adds.
inline constexpr size_t kGatewayNameBytesMax = 1024;

struct GatewayRequest {
  std::string name;      // name by which the gateway may abort the request
  bool streams = false;  // true: the response is a stream; false: the output is sent at the end
  RequestDraft draft;
};

// Returns the numbers of the fields that contain the prompt in the message
// vllm.grpc.engine.GenerateRequest.
const PromptFields& GatewayPromptFields();

// Parses the serialized vllm.grpc.engine.GenerateRequest `bytes`. Returns MALFORMED_MESSAGE if
// `bytes` cannot be parsed. Returns INVALID_FIELD if an option is invalid or not supported. Copies
// at most `limits.stop_strings_max` stop strings.
absl::StatusOr<GatewayRequest> ReadGatewayRequest(const grpc::ByteBuffer& bytes,
                                                  const RequestLimits& limits);

// Returns a copy of the error `status` in which the path of the invalid request field is replaced
// by the path in vllm.grpc.engine.GenerateRequest. REQUIRES: `status` is not OK.
absl::Status WithGatewayField(const absl::Status& status);

}  // namespace incipit
