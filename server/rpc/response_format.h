// An interface that converts the output of a request to the messages of one gRPC service.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/rpc/error_details.h"
#include "server/session/output.h"

namespace incipit {

// Converts the output of calls to messages. For one call, at most one function runs at a time.
class ResponseFormat {
 public:
  virtual ~ResponseFormat() = default;

  // Converts the output `part` to serialized messages, and appends the messages to `messages`.
  // Write may append no message. `label` is the name of the request. If Write returns an error, the
  // call ends with this error.
  virtual absl::Status Write(OutputPart part, const std::string& label,
                             std::vector<grpc::ByteBuffer>& messages) = 0;
  // Converts the final status of the call to the status that the client receives.
  virtual grpc::Status StatusOf(const absl::Status& status) const { return ToGrpcStatus(status); }
};

}  // namespace incipit
