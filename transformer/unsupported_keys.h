// The keys of config.json that ask for arithmetic that no served model family has.
#pragma once

#include "absl/status/status.h"
#include "base/json/json_fields.h"

namespace incipit {

// Returns UNIMPLEMENTED, naming key and value, if a configuration asks for quantisation, experts,
// soft caps or anything else that would be computed wrongly here.
absl::Status RefuseUnsupportedKeys(const JsonFields& fields);

}  // namespace incipit
