// Finds the variable to which each name in a template refers, as the compiler of Jinja2 does. Also
// lists the variables of each scope that get a value when the scope is entered.
#pragma once

#include "absl/status/status.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

// Sets the fields of all nodes that the parser does not set: slots, scopes, filters and tests.
// Returns INVALID_ARGUMENT or UNIMPLEMENTED, with the line number in the message, for an invalid or
// unsupported name.
absl::Status ResolveNames(Program& program);

}  // namespace incipit::jinja
