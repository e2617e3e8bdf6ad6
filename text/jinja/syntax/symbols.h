// The variables that one scope of a template (such as the body of a loop) reads and assigns, as in
// the module idtracking of Jinja2.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

class Symbols {
 public:
  struct Load {
    ScopeLoad::Source source;
    int outer_level = 0;  // for kOuter: nesting level of the outer scope
  };

  Symbols(const Symbols* parent, int level) : parent_(parent), level_(level) {}
  Symbols Inner() const { return {this, level_ + 1}; }

  // Adds the names in the statements `body` to this scope, in the order of the statements. Does not
  // add names of inner scopes, such as the bodies of loops.
  void Visit(const Body& body);
  // Adds the names in `expr` to this scope. If `store_as_parameter` is true, every name is declared
  // as a parameter.
  void Visit(const Expr& expr, bool store_as_parameter = false);
  void DeclareParameter(const std::string& name);

  int level() const { return level_; }
  // Returns the nesting level of the innermost scope with the variable `name`: this scope or an
  // outer scope. Returns nullopt if there is no such scope.
  std::optional<int> FindRef(const std::string& name) const;
  const std::map<std::string, Load>& loads() const { return loads_; }

 private:
  void VisitStatement(const Stmt& statement);
  void VisitIf(const IfStmt& node, size_t index);
  void Store(const std::string& name);
  void Read(const std::string& name);
  // Returns a Load with the source kOuter if an outer scope has the variable `name`. Otherwise
  // returns a Load with the source `otherwise`.
  Load OuterOr(const std::string& name, ScopeLoad::Source otherwise) const;
  void Merge(std::span<const Symbols> branches);

  const Symbols* parent_;
  int level_;
  // Maps the name of each variable of the scope to its initial value.
  std::map<std::string, Load> loads_;
  std::set<std::string> stores_;  // names of variables that the scope assigns
};

}  // namespace incipit::jinja
