#include "text/jinja/syntax/ast.h"

#include "base/status.h"

namespace incipit::jinja {

NameExpr::NameExpr(ExprKind k, std::string n)
    : Expr(k), name(std::move(n)), undefined(fmt::format("'{}' is undefined", name)) {}

ExprPtr CloneTarget(const Expr& target) {
  ExprPtr copy;
  if (target.kind == ExprKind::kName) {
    const auto& name = NodeAs<const NameExpr>(target);
    auto node = std::make_unique<NameExpr>(name.kind, name.name);
    node->context = name.context;
    copy = std::move(node);
  } else {
    copy = std::make_unique<Expr>(target.kind);
  }
  copy->line = target.line;
  copy->depth = target.depth;
  for (const ExprPtr& item : target.children) copy->children.push_back(CloneTarget(*item));
  return copy;
}

}  // namespace incipit::jinja
