// Converts the output of a session to messages of incipit.v1.
#pragma once

#include <string>

#include "server/session/output.h"

namespace incipit::v1 {
class GenerateResponse;
}

namespace incipit {

// Returns the message with the output of `part` and the request id `label`. Moves strings out of
// `part`.
v1::GenerateResponse ResponseOf(OutputPart&& part, const std::string& label);

}  // namespace incipit
