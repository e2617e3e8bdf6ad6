// Finds the variable for each name in a template, as the compiler of Jinja2 does. Also computes the
// initial values of the variables of each scope.
#pragma once

#include "absl/status/status.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

// Sets the fields of the nodes that depend on names: slots (indices of variables), scopes, filters
// and tests. Returns INVALID_ARGUMENT or UNIMPLEMENTED for an invalid or unsupported name. The
// error message contains the line number.
absl::Status ResolveNames(Program& program);

}  // namespace incipit::jinja
