// A parsed template. The parser makes the nodes; ResolveNames gives every variable its place and
// every scope what it does when it is entered; the interpreter then only reads them.
//
// Scopes are Jinja2's, which compiles a template to Python: a template, a macro, a call block and a
// filtered loop are each a function with local slots, which inner functions reach through their
// enclosing activations; loops, filter and set blocks are scopes within one.
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

// A variable's place: a slot of the activation this many functions further out.
struct SlotRef {
  uint16_t functions_up = 0;
  uint16_t slot = 0;
};

// What entering a scope assigns to one of its variables.
struct ScopeLoad {
  enum class Source : uint8_t {
    kParameter,  // nothing: assigned by the statement
    kContext,    // a variable of the request or a global
    kOuter,      // the variable of this name further out
    kMissing,
  };
  Source source = Source::kMissing;
  uint16_t slot = 0;
  SlotRef outer;
  uint16_t context = 0;  // of kContext: the index of its name
};
using Scope = std::vector<ScopeLoad>;

// With the children of each, in the order of Jinja2's node fields, which its scoping depends on.
enum class ExprKind : uint8_t {
  kConst,         // ValueExpr
  kName,          // NameExpr
  kNamespaceRef,  // NameExpr: `ns.attribute` as a target
  kTuple,         // items
  kList,          // items
  kDict,          // key, value, key, value, ...
  kNot,           // operand
  kNegative,      // operand
  kPositive,      // operand
  kArithmetic,    // ChainExpr
  kCompare,       // ChainExpr
  kAnd,           // ChainExpr
  kOr,            // ChainExpr
  kConcat,        // ChainExpr
  kCondition,     // ConditionExpr: test, then, otherwise (may be null)
  kGetAttribute,  // ValueExpr, the attribute's name: object
  kGetItem,       // object, index
  kSlice,         // object, start, stop, step (may be null, but for the object)
  kCall,          // CallExpr: callee, arguments
  kFilter,        // CallExpr: operand (null in filter blocks: the block's output), arguments
  kTest,          // CallExpr: operand, arguments
};

struct Expr {
  explicit Expr(ExprKind k) : kind(k) {}
  virtual ~Expr() = default;

  const ExprKind kind;
  int line = 0;
  int depth = 1;  // of nesting, bounded by depth_max
  std::vector<ExprPtr> children;
};

struct ValueExpr final : Expr {
  ValueExpr(ExprKind k, Value v) : Expr(k), value(std::move(v)) {}
  Value value;
  bool is_item = false;  // of kGetAttribute: dicts have no attribute of this name
};

enum class NameContext : uint8_t { kLoad, kStore, kParameter };

struct NameExpr final : Expr {
  NameExpr(ExprKind k, std::string n);
  std::string name;
  NameContext context = NameContext::kLoad;
  Value attribute;  // a string, of a kNamespaceRef
  SlotRef slot;
  UndefinedReason undefined;  // if nothing is assigned to it
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

// child op child op child ..., from left to right. Chains are flat so that a long sum does not
// nest.
struct ChainExpr final : Expr {
  using Expr::Expr;
  std::vector<uint8_t> ops;  // of ArithmeticOp or CompareOp, if any; one less than children
};

struct ConditionExpr final : Expr {
  ConditionExpr() : Expr(ExprKind::kCondition), undefined({}) {}
  UndefinedReason undefined;
};

struct CallExpr final : Expr {
  using Expr::Expr;
  std::string name;                       // of a filter or test
  const NamedBuiltin* builtin = nullptr;  // null if there is none: an error once it is reached
  std::vector<Value> keywords;            // the names of the last children
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
  std::vector<Branch> branches;  // if, elif, ...
  Body otherwise;
};

struct ForStmt final : Stmt {
  explicit ForStmt(int l) : Stmt(StmtKind::kFor, l) {}
  ExprPtr target, iterable, test;  // `test` may be null
  Body body, otherwise;
  bool uses_loop = false;  // `loop` occurs in the body
  // Filled by ResolveNames.
  SlotRef loop_slot;    // where `loop` goes, if it is used
  ExprPtr test_target;  // `target`, in the function that filters
  Scope scope, test_scope, otherwise_scope;
  uint16_t num_test_slots = 0;  // of the function that filters
};

struct SetStmt final : Stmt {
  explicit SetStmt(int l) : Stmt(StmtKind::kSet, l) {}
  ExprPtr target, value;
};

// What its body writes is assigned to a target (kSetBlock) or written (kFilterBlock).
struct BlockStmt final : Stmt {
  using Stmt::Stmt;
  ExprPtr target;
  ExprPtr filter;  // a chain of filters that ends in one without operand; may be null if kSetBlock
  Body body;
  Scope scope;
};

struct MacroStmt final : Stmt {
  MacroStmt(StmtKind k, int l, std::string n) : Stmt(k, l), name(std::move(n)) {}
  std::string name;
  std::vector<std::unique_ptr<NameExpr>> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  bool uses_caller = false;  // `caller` occurs in the body and is no parameter
  ExprPtr call;              // of kCallBlock; null in {% generation %}
  // Filled by ResolveNames.
  SlotRef slot;  // of the macro
  Scope scope;
  uint16_t num_slots = 0;
  SlotRef caller_slot;  // if the caller is used
};

// A template's constant strings, which its nodes refer to.
using Constants = std::vector<std::unique_ptr<const Text>>;

struct Program {
  Constants constants;
  std::map<std::string, uint16_t, std::less<>> context;  // the names of the request's variables
  Body body;
  Scope scope;
  uint16_t num_slots = 0;
};

// A copy of a target: names and tuples of names.
ExprPtr CloneTarget(const Expr& target);

// Calls visit(Expr&) for every child.
template <typename Visit>
void ForEachChild(const Expr& expr, Visit visit) {
  for (const ExprPtr& child : expr.children) {
    if (child != nullptr) visit(*child);
  }
}

}  // namespace incipit::jinja
