// Decides which variable every name means, as Jinja2's compiler does: what a scope reads from the
// request, what it copies from the scope around it, and what stays its own.
#pragma once

#include "absl/status/status.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

// Fills in slots, scopes, filters and tests. INVALID_ARGUMENT or UNIMPLEMENTED naming the line.
absl::Status ResolveNames(Program& program);

}  // namespace incipit::jinja
