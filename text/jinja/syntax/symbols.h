// What Jinja2's compiler knows about the names of one scope (its module idtracking): which are read
// and which are written, and therefore what entering the scope must do.
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
    int outer_level = 0;  // of kOuter
  };

  Symbols(const Symbols* parent, int level) : parent_(parent), level_(level) {}
  // A scope within this one.
  Symbols Inner() const { return {this, level_ + 1}; }

  // Statements as part of this scope: names in order, and not into scopes of their own.
  void Visit(const Body& body);
  void Visit(const Expr& expr, bool store_as_parameter = false);
  void DeclareParameter(const std::string& name);

  int level() const { return level_; }
  // The level of the scope whose variable `name` is; nullopt if no scope knows it.
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
  std::set<std::string> refs_;
  std::map<std::string, Load> loads_;
  std::set<std::string> stores_;
};

}  // namespace incipit::jinja
