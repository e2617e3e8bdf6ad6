// Converts the output of a request to GenerateResponse messages of the package incipit.v1.
#pragma once

#include <string>
#include <vector>

#include "server/rpc/response_format.h"
#include "server/session/output.h"

namespace incipit::v1 {
class GenerateResponse;
}

namespace incipit {

// Returns a GenerateResponse with the output in `part` and the request id `label`. Moves the
// strings out of `part`.
v1::GenerateResponse ResponseOf(OutputPart&& part, const std::string& label);

// Converts each part of the output to one GenerateResponse. Thread-safe.
class GenerateResponseFormat final : public ResponseFormat {
 public:
  absl::Status Write(OutputPart part, const std::string& label,
                     std::vector<grpc::ByteBuffer>& messages) override;
};

}  // namespace incipit
