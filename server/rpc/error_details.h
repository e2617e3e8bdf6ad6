// Errors as gRPC clients see them: a canonical code, a message, and google.rpc details that
// programs can read.
#pragma once

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace incipit {

// Returns OK for OK, else the RequestError of `status` in `grpc-status-details-bin`: ErrorInfo
// always (domain "incipit", the reason's name, and the bound if there is one), BadRequest if a
// field is wrong, RetryInfo if there is a delay. Long messages are cut to what trailers can carry.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace incipit
