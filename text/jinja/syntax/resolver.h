// Decides which variable every name refers to, like the compiler of Jinja2. A scope loads some
// variables from the request, copies some from an outer scope, and has its own variables.
#pragma once

#include "absl/status/status.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

// Sets the slots, scopes, filters and tests of all nodes. Returns INVALID_ARGUMENT or UNIMPLEMENTED
// with the line in the message.
absl::Status ResolveNames(Program& program);

}  // namespace incipit::jinja
