// Converts errors to the status that gRPC clients receive: a code, a message, and google.rpc
// details for programs.
#pragma once

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace incipit {

// Converts `status` to a grpc::Status. For an error, the details contain the RequestError of
// `status`: ErrorInfo with the domain "incipit", the name of the reason and the bound if any;
// BadRequest if a field is wrong; RetryInfo if the error has a retry delay. A long message is cut
// to 1,024 bytes so that the message fits in the trailers.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace incipit
