// The nodes of a parsed template. The parser creates the nodes. ResolveNames() then assigns a slot
// to every variable, and to every scope the values to load when the scope is entered. The
// interpreter only reads the nodes.
//
// Scopes follow Jinja2, which compiles a template to Python functions with local variables. A
// template, a macro, a call block and the filter of a loop (`for ... if`) are functions with their
// own slots. An inner function reads the slots of an enclosing function in the activation (one
// running call) of that function. Loops, filter blocks and set blocks are scopes inside a function.
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

// The slot of a variable: the slot with index `slot` in the activation of an enclosing function.
// `functions_up` counts the functions from the inner function outwards; 0 is the function itself.
struct SlotRef {
  uint16_t functions_up = 0;
  uint16_t slot = 0;
};

// The value that a variable of a scope receives when the scope is entered.
struct ScopeLoad {
  enum class Source : uint8_t {
    kParameter,  // no value: the statement itself assigns the variable
    kContext,    // the request variable or the global with the same name
    kOuter,      // the variable with the same name in an outer scope
    kMissing,    // a missing value: no statement has assigned the variable yet
  };
  Source source = Source::kMissing;
  uint16_t slot = 0;
  SlotRef outer;
  uint16_t context = 0;  // for kContext: index of the variable in Program::context
};
using Scope = std::vector<ScopeLoad>;

// Kinds of expressions. The comment of each kind names the class of the node, unless the class is
// Expr, and the children. The children have the order of the node fields of Jinja2, because the
// scoping of Jinja2 depends on this order.
enum class ExprKind : uint8_t {
  kConst,         // class ValueExpr
  kName,          // class NameExpr
  kNamespaceRef,  // class NameExpr: `ns.attribute` as the target of an assignment
  kTuple,         // children: the items
  kList,          // children: the items
  kDict,          // children: key, value, key, value, ...
  kNot,           // child: operand
  kNegative,      // child: operand
  kPositive,      // child: operand
  kArithmetic,    // class ChainExpr; children: operands
  kCompare,       // class ChainExpr; children: operands
  kAnd,           // class ChainExpr; children: operands
  kOr,            // class ChainExpr; children: operands
  kConcat,        // class ChainExpr; children: operands
  kCondition,     // class ConditionExpr; children: test, then, otherwise (may be null)
  kGetAttribute,  // class ValueExpr (name of the attribute); child: object
  kGetItem,       // children: object, index
  kSlice,         // children: object, start, stop, step (the last three may be null)
  kCall,          // class CallExpr; children: callee, arguments
  kFilter,        // class CallExpr; children: operand (null: output of a block), arguments
  kTest,          // class CallExpr; children: operand, arguments
};

struct Expr {
  explicit Expr(ExprKind k) : kind(k) {}
  virtual ~Expr() = default;

  const ExprKind kind;
  int line = 0;
  int depth = 1;  // nesting depth of the expression; maximum: ChatTemplateLimits::depth_max
  std::vector<ExprPtr> children;
};

struct ValueExpr final : Expr {
  ValueExpr(ExprKind k, Value v) : Expr(k), value(std::move(v)) {}
  Value value;
  bool is_item = false;  // for kGetAttribute: true if no dict has an attribute of this name
};

enum class NameContext : uint8_t { kLoad, kStore, kParameter };

struct NameExpr final : Expr {
  NameExpr(ExprKind k, std::string n);
  std::string name;
  NameContext context = NameContext::kLoad;
  Value attribute;  // for kNamespaceRef: name of the attribute
  SlotRef slot;
  UndefinedReason undefined;  // error message if the variable is used without a value
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

// A chain `child op child op child ...`, evaluated from left to right. A chain is one node, so that
// a long sum has no deep nesting.
struct ChainExpr final : Expr {
  using Expr::Expr;
  // Operators between the children, as values of ArithmeticOp or CompareOp. Not used for kAnd, kOr
  // and kConcat.
  std::vector<uint8_t> ops;
};

struct ConditionExpr final : Expr {
  ConditionExpr() : Expr(ExprKind::kCondition), undefined({}) {}
  UndefinedReason undefined;
};

struct CallExpr final : Expr {
  using Expr::Expr;
  std::string name;  // name of the filter or test
  // The filter or test `name`; null if no filter or test has this name. A null `builtin` is an
  // error only when the node is executed.
  const NamedBuiltin* builtin = nullptr;
  std::vector<Value> keywords;  // names of the keyword arguments, which are the last children
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
  std::vector<Branch> branches;  // the branch `if` and all branches `elif`, in order
  Body otherwise;                // body of `else`
};

struct ForStmt final : Stmt {
  explicit ForStmt(int l) : Stmt(StmtKind::kFor, l) {}
  ExprPtr target, iterable, test;  // `test` is null if the loop has no `if`
  Body body, otherwise;
  bool uses_loop = false;  // true if the body uses the variable `loop`
  // ResolveNames() fills the following fields.
  SlotRef loop_slot;    // slot of the variable `loop`, if `uses_loop` is true
  ExprPtr test_target;  // copy of `target` for the function that evaluates `test`
  Scope scope, test_scope, otherwise_scope;
  uint16_t num_test_slots = 0;  // number of slots of the function that evaluates `test`
};

struct SetStmt final : Stmt {
  explicit SetStmt(int l) : Stmt(StmtKind::kSet, l) {}
  ExprPtr target, value;
};

// A block whose output is assigned to a target (kSetBlock) or filtered and written (kFilterBlock).
struct BlockStmt final : Stmt {
  using Stmt::Stmt;
  ExprPtr target;
  // A chain of filters. The first filter has no operand child; its operand is the output of the
  // block. May be null for kSetBlock.
  ExprPtr filter;
  Body body;
  Scope scope;
};

struct MacroStmt final : Stmt {
  MacroStmt(StmtKind k, int l, std::string n) : Stmt(k, l), name(std::move(n)) {}
  std::string name;
  std::vector<std::unique_ptr<NameExpr>> parameters;
  std::vector<ExprPtr> defaults;  // default values of the last defaults.size() parameters
  Body body;
  bool uses_caller = false;  // true if the body uses `caller` and no parameter has that name
  ExprPtr call;              // the called expression of a kCallBlock; null for {% generation %}
  // ResolveNames() fills the following fields.
  SlotRef slot;  // slot of the variable that holds the macro
  Scope scope;
  uint16_t num_slots = 0;
  SlotRef caller_slot;  // slot of the variable `caller`, if `uses_caller` is true
};

// The constant strings of a template. The nodes of the template refer to the constant strings.
using Constants = std::vector<std::unique_ptr<const Text>>;

struct Program {
  Constants constants;
  std::map<std::string, uint16_t, std::less<>> context;  // index of each context variable, by name
  Body body;
  Scope scope;
  uint16_t num_slots = 0;  // number of slots of the template's own activation
};

// Copies the target of an assignment: a name, or a tuple of names.
ExprPtr CloneTarget(const Expr& target);

// Calls visit(Expr&) for every child that is not null.
template <typename Visit>
void ForEachChild(const Expr& expr, Visit visit) {
  for (const ExprPtr& child : expr.children) {
    if (child != nullptr) visit(*child);
  }
}

}  // namespace incipit::jinja
