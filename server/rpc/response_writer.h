// Converts the output of a session to GenerateResponse messages.
#pragma once

#include <string>

#include "server/session/output.h"

namespace incipit::v1 {
class GenerateResponse;
}

namespace incipit {

// Returns a message with the output in `part` and the request id `label`. Moves strings out of
// `part`.
v1::GenerateResponse ResponseOf(OutputPart&& part, const std::string& label);

}  // namespace incipit
