// Reads the Generate requests of a gateway.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/prompt_size.h"
#include "server/session/request_draft.h"
#include "server/session/request_limits.h"

namespace grpc {
class ByteBuffer;
}

namespace incipit {

// Maximum size in bytes of a request's name. The name may contain a name that a client of the
// gateway chose.
inline constexpr size_t kGatewayNameBytesMax = 1024;

struct GatewayRequest {
  std::string name;      // name by which the gateway may abort the request
  bool streams = false;  // false: the response contains the output only at its end
  RequestDraft draft;
};

// Returns the numbers of the fields with the prompt in vllm.grpc.engine.GenerateRequest.
const PromptFields& GatewayPromptFields();

// Parses `bytes` as a vllm.grpc.engine.GenerateRequest. Returns MALFORMED_MESSAGE if the parsing
// fails, and INVALID_FIELD if the request has an option that the server does not support. From a
// list that is longer than its limit in `limits`, copies only as many elements as the limit allows.
absl::StatusOr<GatewayRequest> ReadGatewayRequest(const grpc::ByteBuffer& bytes,
                                                  const RequestLimits& limits);

// Returns a copy of the error `status` in which the field of the request has its name in
// vllm.grpc.engine.GenerateRequest. REQUIRES: `status` is not OK.
absl::Status WithGatewayField(const absl::Status& status);

}  // namespace incipit
