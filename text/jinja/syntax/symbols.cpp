#include "text/jinja/syntax/symbols.h"

namespace incipit::jinja {

std::optional<int> Symbols::FindRef(const std::string& name) const {
  for (const Symbols* scope = this; scope != nullptr; scope = scope->parent_) {
    if (scope->loads_.contains(name)) return scope->level_;
  }
  return std::nullopt;
}

void Symbols::Store(const std::string& name) {
  stores_.insert(name);
  loads_.try_emplace(name, OuterOr(name, ScopeLoad::Source::kMissing));
}

Symbols::Load Symbols::OuterOr(const std::string& name, ScopeLoad::Source otherwise) const {
  const std::optional<int> outer = parent_ == nullptr ? std::nullopt : parent_->FindRef(name);
  return outer ? Load{ScopeLoad::Source::kOuter, *outer} : Load{otherwise};
}

void Symbols::DeclareParameter(const std::string& name) {
  stores_.insert(name);
  loads_[name] = {ScopeLoad::Source::kParameter};
}

void Symbols::Read(const std::string& name) {
  if (!FindRef(name)) loads_[name] = {ScopeLoad::Source::kContext};
}

void Symbols::Visit(const Expr& expr, bool store_as_parameter) {
  if (expr.kind == ExprKind::kName) {
    const auto& name = NodeAs<const NameExpr>(expr);
    if (store_as_parameter || name.context == NameContext::kParameter) {
      DeclareParameter(name.name);
    } else if (name.context == NameContext::kStore) {
      Store(name.name);
    } else {
      Read(name.name);
    }
  } else if (expr.kind == ExprKind::kNamespaceRef) {
    Read(NodeAs<const NameExpr>(expr).name);
  }
  ForEachChild(expr, [&](const Expr& child) { Visit(child, store_as_parameter); });
}

void Symbols::Visit(const Body& body) {
  for (const auto& statement : body) VisitStatement(*statement);
}

void Symbols::VisitStatement(const Stmt& statement) {
  switch (statement.kind) {
    case StmtKind::kOutput:
      for (const ExprPtr& item : NodeAs<const OutputStmt>(statement).items) Visit(*item);
      return;
    case StmtKind::kIf:
      return VisitIf(NodeAs<const IfStmt>(statement), 0);
    case StmtKind::kFor:
      return Visit(*NodeAs<const ForStmt>(statement).iterable);
    case StmtKind::kSet:
      Visit(*NodeAs<const SetStmt>(statement).value);
      return Visit(*NodeAs<const SetStmt>(statement).target);
    case StmtKind::kSetBlock:
      return Visit(*NodeAs<const BlockStmt>(statement).target);
    case StmtKind::kFilterBlock:
      return Visit(*NodeAs<const BlockStmt>(statement).filter);
    case StmtKind::kMacro:
      return Store(NodeAs<const MacroStmt>(statement).name);
    case StmtKind::kCallBlock:
      if (const ExprPtr& call = NodeAs<const MacroStmt>(statement).call) Visit(*call);
      return;
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      return;
  }
}

// Adds names of an if statement to this scope. If `index` is 0, adds the names in all branches, and
// otherwise only the names in branch number `index`.
void Symbols::VisitIf(const IfStmt& node, size_t index) {
  Visit(*node.branches[index].test);
  Symbols branches[3] = {*this, *this, *this};
  branches[0].Visit(node.branches[index].body);
  if (index == 0) {
    for (size_t i = 1; i < node.branches.size(); ++i) branches[1].VisitIf(node, i);
    branches[2].Visit(node.otherwise);
  }
  Merge(branches);
}

// Adds the names from the branches of an if statement to this scope. If a variable is assigned only
// in branches, the variable also gets an initial value, because the branches may not run.
void Symbols::Merge(std::span<const Symbols> branches) {
  std::set<std::string> stored;
  for (const Symbols& branch : branches) {
    for (const std::string& name : branch.stores_) {
      if (!stores_.contains(name)) stored.insert(name);
    }
  }
  for (const Symbols& branch : branches) {
    for (const auto& [name, load] : branch.loads_) loads_[name] = load;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string& name : stored) {
    loads_[name] = OuterOr(name, ScopeLoad::Source::kContext);
  }
}

}  // namespace incipit::jinja
