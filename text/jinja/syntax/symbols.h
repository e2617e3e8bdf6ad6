// The names that one scope of a template reads and writes, as in the module idtracking of Jinja2.
// The names determine the values to load when the interpreter enters the scope.
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
    int outer_level = 0;  // for kOuter: level of the outer scope
  };

  Symbols(const Symbols* parent, int level) : parent_(parent), level_(level) {}
  // Returns the symbols of a scope inside this scope.
  Symbols Inner() const { return {this, level_ + 1}; }

  // Adds the names of statements or of an expression to this scope, in order. The bodies of inner
  // scopes are not visited.
  void Visit(const Body& body);
  void Visit(const Expr& expr, bool store_as_parameter = false);
  void DeclareParameter(const std::string& name);

  int level() const { return level_; }
  // Returns the level of the scope that contains the variable `name`. Returns nullopt if no scope
  // contains `name`.
  std::optional<int> FindRef(const std::string& name) const;
  const std::map<std::string, Load>& loads() const { return loads_; }

 private:
  void VisitStatement(const Stmt& statement);
  void VisitIf(const IfStmt& node, size_t index);
  void Store(const std::string& name);
  void Read(const std::string& name);
  void Merge(std::span<const Symbols> branches);

  const Symbols* parent_;
  int level_;
  std::set<std::string> refs_;         // names of variables that the scope contains
  std::map<std::string, Load> loads_;  // values to load, by the name of the variable
  std::set<std::string> stores_;       // names that the scope writes
};

}  // namespace incipit::jinja
