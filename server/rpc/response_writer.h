// From a session's output to incipit.v1's messages.
#pragma once

#include <string>

#include "server/session/output.h"

namespace incipit::v1 {
class GenerateResponse;
}

namespace incipit {

// The message of `part`, whose strings are moved from. `label` is the request's.
v1::GenerateResponse ResponseOf(OutputPart&& part, const std::string& label);

}  // namespace incipit
