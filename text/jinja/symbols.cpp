#include "text/jinja/symbols.h"

#include "text/jinja/ast_walk.h"

namespace incipit::jinja {
namespace {

template <typename T>
T& As(Stmt& statement) {
  return static_cast<T&>(statement);
}

// Names in the order of Jinja2's generic visitor, which is the order of the nodes' fields.
class UndeclaredFinder {
 public:
  explicit UndeclaredFinder(std::set<std::string> names) : names_(std::move(names)) {}

  void Visit(Body& body) {
    for (const StmtPtr& statement : body) VisitStatement(*statement);
  }
  std::set<std::string> TakeUndeclared() { return std::move(undeclared_); }

 private:
  void VisitExpr(Expr& expr) {
    if (expr.kind == ExprKind::kName) {
      const auto& name = static_cast<NameExpr&>(expr);
      if (name.context == NameContext::kLoad && names_.contains(name.name)) {
        undeclared_.insert(name.name);
      } else {
        names_.erase(name.name);
      }
    }
    ForEachChild(expr, [&](Expr& child) { VisitExpr(child); });
  }
  void VisitIfAny(const ExprPtr& expr) {
    if (expr != nullptr) VisitExpr(*expr);
  }
  void VisitAll(const std::vector<ExprPtr>& exprs) {
    for (const ExprPtr& expr : exprs) VisitExpr(*expr);
  }
  void VisitParameters(MacroCode& code) {
    for (const auto& parameter : code.parameters) VisitExpr(*parameter);
    VisitAll(code.defaults);
    Visit(code.body);
  }
  void VisitIf(IfStmt& node) {
    VisitExpr(*node.test);
    Visit(node.body);
    for (const auto& branch : node.elifs) VisitIf(*branch);
    Visit(node.otherwise);
  }

  void VisitStatement(Stmt& statement) {
    switch (statement.kind) {
      case StmtKind::kOutput:
        return VisitAll(As<OutputStmt>(statement).items);
      case StmtKind::kIf:
        return VisitIf(As<IfStmt>(statement));
      case StmtKind::kFor: {
        auto& node = As<ForStmt>(statement);
        VisitExpr(*node.target);
        VisitExpr(*node.iterable);
        Visit(node.body);
        Visit(node.otherwise);
        return VisitIfAny(node.test);
      }
      case StmtKind::kSet:
        VisitExpr(*As<SetStmt>(statement).target);
        return VisitExpr(*As<SetStmt>(statement).value);
      case StmtKind::kSetBlock:
        VisitExpr(*As<SetBlockStmt>(statement).target);
        VisitIfAny(As<SetBlockStmt>(statement).filter);
        return Visit(As<SetBlockStmt>(statement).body);
      case StmtKind::kMacro:
        return VisitParameters(As<MacroStmt>(statement).code);
      case StmtKind::kCallBlock: {
        auto& node = As<CallBlockStmt>(statement);
        if (node.call != nullptr) VisitExpr(*node.call);
        return VisitParameters(node.code);
      }
      case StmtKind::kFilterBlock:
        Visit(As<FilterBlockStmt>(statement).body);
        return VisitExpr(*As<FilterBlockStmt>(statement).filter);
      case StmtKind::kWith:
        VisitAll(As<WithStmt>(statement).targets);
        VisitAll(As<WithStmt>(statement).values);
        return Visit(As<WithStmt>(statement).body);
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        return;
    }
  }

  std::set<std::string> names_;
  std::set<std::string> undeclared_;
};

}  // namespace

std::optional<int> Symbols::FindRef(const std::string& name) const {
  for (const Symbols* scope = this; scope != nullptr; scope = scope->parent_) {
    if (scope->refs_.contains(name)) return scope->level_;
  }
  return std::nullopt;
}

void Symbols::Store(const std::string& name) {
  stores_.insert(name);
  if (refs_.contains(name)) return;
  Load load{ScopeLoad::Source::kMissing};
  if (parent_ != nullptr) {
    if (const std::optional<int> outer = parent_->FindRef(name)) {
      load = {ScopeLoad::Source::kOuter, *outer};
    }
  }
  refs_.insert(name);
  loads_[name] = load;
}

void Symbols::DeclareParameter(const std::string& name) {
  stores_.insert(name);
  refs_.insert(name);
  loads_[name] = {ScopeLoad::Source::kParameter};
}

void Symbols::Read(const std::string& name) {
  if (FindRef(name)) return;
  refs_.insert(name);
  loads_[name] = {ScopeLoad::Source::kContext};
}

void Symbols::Visit(Expr& expr, bool store_as_parameter) {
  if (expr.kind == ExprKind::kName) {
    const auto& name = static_cast<NameExpr&>(expr);
    if (store_as_parameter || name.context == NameContext::kParameter) {
      DeclareParameter(name.name);
    } else if (name.context == NameContext::kStore) {
      Store(name.name);
    } else {
      Read(name.name);
    }
  } else if (expr.kind == ExprKind::kNamespaceRef) {
    Read(static_cast<NamespaceRefExpr&>(expr).name);
  }
  ForEachChild(expr, [&](Expr& child) { Visit(child, store_as_parameter); });
}

void Symbols::VisitArguments(CallArguments& arguments) {
  ForEachArgument(arguments, [&](Expr& argument) { Visit(argument); });
}

void Symbols::Visit(Body& body) {
  for (const StmtPtr& statement : body) VisitStatement(*statement);
}

void Symbols::VisitStatement(Stmt& statement) {
  switch (statement.kind) {
    case StmtKind::kOutput:
      for (const ExprPtr& item : As<OutputStmt>(statement).items) Visit(*item);
      return;
    case StmtKind::kIf:
      return VisitIf(As<IfStmt>(statement));
    case StmtKind::kFor:
      return Visit(*As<ForStmt>(statement).iterable);
    case StmtKind::kSet:
      Visit(*As<SetStmt>(statement).value);
      return Visit(*As<SetStmt>(statement).target);
    case StmtKind::kSetBlock:
      return Visit(*As<SetBlockStmt>(statement).target);
    case StmtKind::kMacro:
      return Store(As<MacroStmt>(statement).code.name);
    case StmtKind::kCallBlock:
      if (const auto& call = As<CallBlockStmt>(statement).call) Visit(*call);
      return;
    case StmtKind::kFilterBlock:
      return Visit(*As<FilterBlockStmt>(statement).filter);
    case StmtKind::kWith:
      for (const ExprPtr& value : As<WithStmt>(statement).values) Visit(*value);
      return;
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      return;
  }
}

void Symbols::VisitIf(IfStmt& node) {
  Visit(*node.test);
  Symbols branches[3] = {*this, *this, *this};
  branches[0].Visit(node.body);
  for (const auto& branch : node.elifs) branches[1].VisitIf(*branch);
  branches[2].Visit(node.otherwise);
  Merge(branches);
}

// A name that only some branches write falls back to what it means without them.
void Symbols::Merge(std::span<const Symbols> branches) {
  std::set<std::string> stored;
  for (const Symbols& branch : branches) {
    for (const std::string& name : branch.stores_) {
      if (!stores_.contains(name)) stored.insert(name);
    }
  }
  for (const Symbols& branch : branches) {
    refs_.insert(branch.refs_.begin(), branch.refs_.end());
    for (const auto& [name, load] : branch.loads_) loads_[name] = load;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string& name : stored) {
    const std::optional<int> outer = parent_ == nullptr ? std::nullopt : parent_->FindRef(name);
    loads_[name] =
        outer ? Load{ScopeLoad::Source::kOuter, *outer} : Load{ScopeLoad::Source::kContext};
  }
}

std::set<std::string> FindUndeclared(Body& body, std::set<std::string> names) {
  UndeclaredFinder finder(std::move(names));
  finder.Visit(body);
  return finder.TakeUndeclared();
}

}  // namespace incipit::jinja
