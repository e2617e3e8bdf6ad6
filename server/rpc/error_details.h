// Converts an error to the status that a gRPC client receives: a code, a message, and details
// (messages of the package google.rpc) for programs.
#pragma once

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace incipit {

// Converts `status` to a grpc::Status with details: ErrorInfo (reason and exceeded limit),
// BadRequest (name of the invalid field) and RetryInfo (retry delay). Cuts a message that is longer
// than 1,024 bytes.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace incipit
