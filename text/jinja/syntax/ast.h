// The nodes of a parsed template. ResolveNames() assigns a slot (index of a local variable) to
// every variable.
//
// As in Jinja2, a template, a macro, a call block and the condition of a loop (`for ... if`) are
// functions with their own local variables. An inner function can read the variables of the outer
// functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

struct Expr;
struct NamedBuiltin;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<std::unique_ptr<Stmt>>;

// The position of a local variable: element `slot` of Activation::slots of a function.
// `functions_up` is 0 for the function that uses the variable, 1 for the next outer function, and
// so on.
struct SlotRef {
  uint16_t functions_up = 0;
  uint16_t slot = 0;
};

// The initial value of one variable of a scope, such as the body of a loop. The interpreter sets
// the value when it enters the scope.
struct ScopeLoad {
  enum class Source : uint8_t {
    kParameter,  // The variable is a macro parameter or a loop variable, without initial value.
    kContext,    // The value comes from the request, or is a global function.
    kOuter,      // The value comes from an outer scope, which has a variable of this name.
    kMissing,    // The variable has no value until a later statement assigns one.
  };
  Source source = Source::kMissing;
  uint16_t slot = 0;
  SlotRef outer;
  uint16_t context = 0;  // for kContext: index of the variable in Program::context
};
using Scope = std::vector<ScopeLoad>;

// Kinds of expressions. The comment of a kind names its subclass of Expr, if any, and the elements
// of Expr::children.
enum class ExprKind : uint8_t {
  kConst,         // class ValueExpr
  kName,          // class NameExpr
  kNamespaceRef,  // class NameExpr: `ns.attribute` as the target of an assignment
  kTuple,         // child nodes: items of the tuple
  kList,          // child nodes: items of the list
  kDict,          // child nodes: key, value, key, value, ...
  kNot,           // child node: operand
  kNegative,      // child node: operand
  kPositive,      // child node: operand
  kArithmetic,    // class ChainExpr; child nodes: operands of the operators in ChainExpr::ops
  kCompare,       // class ChainExpr; child nodes: operands of the comparisons in ChainExpr::ops
  kAnd,           // class ChainExpr; child nodes: operands of `and`
  kOr,            // class ChainExpr; child nodes: operands of `or`
  kConcat,        // class ChainExpr; child nodes: operands of the operator ~
  kCondition,     // class ConditionExpr: `a if b else c`; child nodes: b, a, c (c may be null)
  kGetAttribute,  // class ValueExpr with the name of the attribute; child node: object
  kGetItem,       // child nodes: object, index
  kSlice,         // child nodes: object, start, stop, step (the last three may be null)
  kCall,          // class CallExpr; child nodes: called expression, arguments
  kFilter,        // class CallExpr; child nodes: operand (null in a filter block), arguments
  kTest,          // class CallExpr; child nodes: operand, arguments
};

struct Expr {
  explicit Expr(ExprKind k) : kind(k) {}
  virtual ~Expr() = default;

  const ExprKind kind;
  int line = 0;
  int depth = 1;  // nesting depth of the expression; at most ChatTemplateLimits::depth_max
  std::vector<ExprPtr> children;
};

struct ValueExpr final : Expr {
  ValueExpr(ExprKind k, Value v) : Expr(k), value(std::move(v)) {}
  Value value;
  // True if `d.name` means d["name"] for a dict `d`, because Python's dict has no method `name`.
  bool is_item = false;
};

enum class NameContext : uint8_t { kLoad, kStore, kParameter };

struct NameExpr final : Expr {
  NameExpr(ExprKind k, std::string n);
  std::string name;
  NameContext context = NameContext::kLoad;
  Value attribute;  // for kNamespaceRef: name of the attribute
  SlotRef slot;
  UndefinedReason undefined;  // error for a use of the variable while it has no value
};

enum class ArithmeticOp : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class CompareOp : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

// An expression such as `a + b - c`, evaluated from left to right. All operands are children of one
// node, so that a long sum is not deeply nested.
struct ChainExpr final : Expr {
  using Expr::Expr;
  // ops[i] is the operator between the children i and i + 1: an ArithmeticOp or a CompareOp. Empty
  // for kAnd, kOr and kConcat.
  std::vector<uint8_t> ops;
};

struct ConditionExpr final : Expr {
  ConditionExpr() : Expr(ExprKind::kCondition), undefined({}) {}
  UndefinedReason undefined;
};

struct CallExpr final : Expr {
  using Expr::Expr;
  std::string name;  // name of the filter or test
  // The implementation of the filter or test `name`; null if the name is unknown. An unknown name
  // is an error only when the node is executed.
  const NamedBuiltin* builtin = nullptr;
  // Names of the keyword arguments. The values of these arguments are the last children.
  std::vector<Value> keywords;
};

enum class StmtKind : uint8_t {
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kFilterBlock,
  kMacro,
  kCallBlock,
  kBreak,
  kContinue,
};

struct Stmt {
  Stmt(StmtKind k, int l) : kind(k), line(l) {}
  virtual ~Stmt() = default;

  const StmtKind kind;
  const int line;
};

struct OutputStmt final : Stmt {
  explicit OutputStmt(int l) : Stmt(StmtKind::kOutput, l) {}
  std::vector<ExprPtr> items;
};

struct IfStmt final : Stmt {
  struct Branch {
    ExprPtr test;
    Body body;
  };
  explicit IfStmt(int l) : Stmt(StmtKind::kIf, l) {}
  std::vector<Branch> branches;  // the branch `if`, followed by the branches `elif`
  Body otherwise;                // body of `else`; empty if there is none
};

struct ForStmt final : Stmt {
  explicit ForStmt(int l) : Stmt(StmtKind::kFor, l) {}
  ExprPtr target, iterable, test;  // `test`: condition of a loop `for ... if`; may be null
  Body body, otherwise;
  bool uses_loop = false;  // true if the loop body uses the variable `loop`
  // ResolveNames() fills the following fields.
  // Slot (storage of a local variable) of the variable `loop`. Valid only if `uses_loop` is true.
  SlotRef loop_slot;
  // Copy of `target` (the variables of the loop). An item is assigned to the copy before `test` is
  // evaluated for this item.
  ExprPtr test_target;
  Scope scope, test_scope, otherwise_scope;
  uint16_t num_test_slots = 0;  // number of local variables that `test` uses
};

struct SetStmt final : Stmt {
  explicit SetStmt(int l) : Stmt(StmtKind::kSet, l) {}
  ExprPtr target, value;
};

// A set block (kSetBlock), whose output is assigned to a variable, or a filter block
// (kFilterBlock), whose output is filtered and then becomes output of the template.
struct BlockStmt final : Stmt {
  using Stmt::Stmt;
  ExprPtr target;
  // Filters for the output of the block, such as `trim|upper`. Null if a set block has no filter.
  ExprPtr filter;
  Body body;
  Scope scope;
};

struct MacroStmt final : Stmt {
  MacroStmt(StmtKind k, int l, std::string n) : Stmt(k, l), name(std::move(n)) {}
  std::string name;
  std::vector<std::unique_ptr<NameExpr>> parameters;
  std::vector<ExprPtr> defaults;  // default values of the last parameters
  Body body;
  bool uses_caller = false;  // true if the body uses `caller` and no parameter is named `caller`
  ExprPtr call;              // expression f(x) of {% call f(x) %}; null for {% generation %}
  // ResolveNames() fills the following fields.
  SlotRef slot;  // position of the local variable that contains the macro
  Scope scope;
  uint16_t num_slots = 0;
  SlotRef caller_slot;  // position of the variable `caller`, if `uses_caller` is true
};

// The constant strings of a template. The nodes of the template refer to these strings.
using Constants = std::vector<std::unique_ptr<const Text>>;

struct Program {
  Constants constants;
  // Maps the name of each variable that a request may set, and of each global function, to an
  // index. The element of Variables with this index contains the value.
  std::map<std::string, uint16_t, std::less<>> context;
  Body body;
  Scope scope;
  uint16_t num_slots = 0;  // number of local variables outside macros
};

ExprPtr CloneTarget(const Expr& target);

// Casts `node`, an Expr or a Stmt, to its subclass T. REQUIRES: `node` is a T.
template <typename T, typename Node>
T& NodeAs(Node& node) {
  return static_cast<T&>(node);
}

// Calls visit(child) for every child of `expr` that is not null.
template <typename Visit>
void ForEachChild(const Expr& expr, Visit visit) {
  for (const ExprPtr& child : expr.children) {
    if (child != nullptr) visit(*child);
  }
}

}  // namespace incipit::jinja
