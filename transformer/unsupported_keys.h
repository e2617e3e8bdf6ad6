// Refuses keys of config.json that require arithmetic that no supported model family has.
#pragma once

#include "absl/status/status.h"
#include "base/json/json_fields.h"

namespace incipit {

// Returns UNIMPLEMENTED if a configuration requires quantisation, experts, soft caps or another
// option that would be computed wrongly. The message contains the key and its value.
absl::Status RefuseUnsupportedKeys(const JsonFields& fields);

}  // namespace incipit
