// Rejects a config.json with options that no supported model family has, such as quantisation.
#pragma once

#include "absl/status/status.h"
#include "base/json/json_fields.h"

namespace incipit {

// Returns UNIMPLEMENTED if config.json turns on an unsupported option, such as quantisation,
// experts or soft caps. The error message contains the key of the option and its value.
absl::Status RefuseUnsupportedKeys(const JsonFields& fields);

}  // namespace incipit
