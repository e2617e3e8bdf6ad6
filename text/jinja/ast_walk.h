// Walks over the children of an expression, in the order of Jinja2's node fields, which its scoping
// rules depend on.
#pragma once

#include "absl/functional/function_ref.h"
#include "text/jinja/ast.h"

namespace incipit::jinja {

using ExprVisitor = absl::FunctionRef<void(Expr&)>;

void ForEachChild(Expr& expr, ExprVisitor visit);
void ForEachArgument(CallArguments& arguments, ExprVisitor visit);

// A copy of a target: names and tuples of names.
ExprPtr CloneTarget(const Expr& target);

}  // namespace incipit::jinja
