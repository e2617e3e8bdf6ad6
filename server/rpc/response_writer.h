// Converts the output of a session to GenerateResponse messages of incipit.v1.
#pragma once

#include <string>
#include <vector>

#include "server/rpc/response_format.h"
#include "server/session/output.h"

namespace incipit::v1 {
class GenerateResponse;
}

namespace incipit {

// Returns a message with the output in `part` and the request id `label`. Moves strings out of
// `part`.
v1::GenerateResponse ResponseOf(OutputPart&& part, const std::string& label);

// Writes each part of the output as one GenerateResponse. Thread-safe.
class GenerateResponseFormat final : public ResponseFormat {
 public:
  absl::Status Write(OutputPart part, const std::string& label,
                     std::vector<grpc::ByteBuffer>& messages) override;
};

}  // namespace incipit
