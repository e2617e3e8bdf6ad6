// What an expression is bound to be, before anything is rendered.
#pragma once

#include <optional>

#include "text/jinja/ast.h"

namespace incipit::jinja {

// The kind of every value that the expression can have; nothing where that depends on what it
// meets.
std::optional<Kind> CertainKind(const Expr& expr);

}  // namespace incipit::jinja
