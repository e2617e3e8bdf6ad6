// A parsed template. The parser makes the nodes; ResolveNames gives every variable its place and
// every scope what it does when it is entered; the interpreter then only reads them.
//
// Scopes are Jinja2's, which compiles a template to Python: a template, a macro, a call block, a
// filtered or a recursive loop are each a function with local slots, which inner functions reach
// through their enclosing activations; loops, with, filter and set blocks are scopes within one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/numbers.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

// What a filter, a test or a function does: positional[0] is what it is applied to.
using Builtin = absl::StatusOr<Value> (*)(Interpreter& interpreter, Arguments& arguments);

// A variable's place: a slot of the activation this many functions further out.
struct SlotRef {
  uint16_t functions_up = 0;
  uint16_t slot = 0;
};

// What entering a scope assigns to one of its variables.
struct ScopeLoad {
  enum class Source : uint8_t {
    kParameter,  // nothing: assigned by the statement
    kContext,    // the request's variables and the globals, by name
    kOuter,      // the variable of this name further out
    kMissing,
  };
  Source source = Source::kMissing;
  uint16_t slot = 0;
  SlotRef outer;
  std::string name;
};
struct Scope {
  std::vector<ScopeLoad> loads;
};

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kNamespaceRef,
  kTuple,
  kList,
  kDict,
  kUnary,
  kArithmetic,
  kAnd,
  kOr,
  kConcat,
  kCompare,
  kCondition,
  kGetAttribute,
  kGetItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
};

struct Expr {
  explicit Expr(ExprKind k) : kind(k) {}
  virtual ~Expr() = default;

  const ExprKind kind;
  int line = 0;
  int depth = 1;  // of nesting, bounded by depth_max
};

struct ConstExpr final : Expr {
  ConstExpr() : Expr(ExprKind::kConst) {}
  Value value;
};

enum class NameContext : uint8_t { kLoad, kStore, kParameter };

struct NameExpr final : Expr {
  NameExpr() : Expr(ExprKind::kName), undefined({}) {}
  std::string name;
  NameContext context = NameContext::kLoad;
  SlotRef slot;
  UndefinedReason undefined;  // if nothing is assigned to it
};

// `ns.attribute` as a target.
struct NamespaceRefExpr final : Expr {
  NamespaceRefExpr() : Expr(ExprKind::kNamespaceRef) {}
  std::string name;
  Value attribute;  // a string
  SlotRef slot;
};

struct TupleExpr final : Expr {
  TupleExpr() : Expr(ExprKind::kTuple) {}
  std::vector<ExprPtr> items;
};

struct ListExpr final : Expr {
  ListExpr() : Expr(ExprKind::kList) {}
  std::vector<ExprPtr> items;
};

struct DictExpr final : Expr {
  DictExpr() : Expr(ExprKind::kDict) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};

enum class UnaryOp : uint8_t { kNot, kNegative, kPositive };
struct UnaryExpr final : Expr {
  UnaryExpr() : Expr(ExprKind::kUnary) {}
  UnaryOp op = UnaryOp::kNot;
  ExprPtr operand;
};

// first op operand op operand ..., from left to right. Chains are flat so that a long sum does not
// nest.
struct ArithmeticExpr final : Expr {
  ArithmeticExpr() : Expr(ExprKind::kArithmetic) {}
  ExprPtr first;
  std::vector<std::pair<ArithmeticOp, ExprPtr>> rest;
};

// and, or, ~
struct ChainExpr final : Expr {
  explicit ChainExpr(ExprKind kind) : Expr(kind) {}
  std::vector<ExprPtr> operands;
};

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
struct CompareExpr final : Expr {
  CompareExpr() : Expr(ExprKind::kCompare) {}
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};

struct ConditionExpr final : Expr {
  ConditionExpr() : Expr(ExprKind::kCondition), undefined({}) {}
  ExprPtr test, then, otherwise;  // `otherwise` may be null
  UndefinedReason undefined;
};

struct GetAttributeExpr final : Expr {
  GetAttributeExpr() : Expr(ExprKind::kGetAttribute) {}
  ExprPtr object;
  Value attribute;  // a string
};

struct GetItemExpr final : Expr {
  GetItemExpr() : Expr(ExprKind::kGetItem) {}
  ExprPtr object, index;
};

struct SliceExpr final : Expr {
  SliceExpr() : Expr(ExprKind::kSlice) {}
  ExprPtr object, start, stop, step;  // all but the object may be null
};

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<Value, ExprPtr>> keyword;  // the names are strings
  ExprPtr star, double_star;                       // may be null
};

struct CallExpr final : Expr {
  CallExpr() : Expr(ExprKind::kCall) {}
  ExprPtr callee;
  CallArguments arguments;
};

struct FilterExpr final : Expr {
  FilterExpr() : Expr(ExprKind::kFilter) {}
  ExprPtr operand;  // null in filter blocks: the block's output
  std::string name;
  Builtin function = nullptr;  // null if there is none: an error once it is reached
  CallArguments arguments;
};

struct TestExpr final : Expr {
  TestExpr() : Expr(ExprKind::kTest) {}
  ExprPtr operand;
  std::string name;
  Builtin function = nullptr;
  CallArguments arguments;
};

enum class StmtKind : uint8_t {
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBreak,
  kContinue,
};

struct Stmt {
  explicit Stmt(StmtKind k) : kind(k) {}
  virtual ~Stmt() = default;

  const StmtKind kind;
  int line = 0;
};

struct OutputStmt final : Stmt {
  OutputStmt() : Stmt(StmtKind::kOutput) {}
  std::vector<ExprPtr> items;
};

struct IfStmt final : Stmt {
  IfStmt() : Stmt(StmtKind::kIf) {}
  ExprPtr test;
  Body body;
  std::vector<std::unique_ptr<IfStmt>> elifs;  // test and body only
  Body otherwise;
};

struct ForStmt final : Stmt {
  ForStmt() : Stmt(StmtKind::kFor) {}
  ExprPtr target, iterable, test;  // `test` may be null
  Body body, otherwise;
  bool recursive = false;
  // Filled by ResolveNames.
  std::optional<SlotRef> loop_slot;  // where `loop` goes, if the body uses it
  ExprPtr test_target;               // `target`, in the function that filters
  Scope scope, test_scope, otherwise_scope;
  uint16_t num_test_slots = 0;  // of the function that filters
  uint16_t num_loop_slots = 0;  // of the function that a recursive loop is
};

struct SetStmt final : Stmt {
  SetStmt() : Stmt(StmtKind::kSet) {}
  ExprPtr target, value;
};

struct SetBlockStmt final : Stmt {
  SetBlockStmt() : Stmt(StmtKind::kSetBlock) {}
  ExprPtr target;
  ExprPtr filter;  // a chain of FilterExpr that ends in one without operand, or null
  Body body;
  Scope scope;
};

// What a macro and a call block share.
struct MacroCode {
  std::string name;
  std::vector<std::unique_ptr<NameExpr>> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  std::vector<UndefinedReason> not_provided;  // one for each parameter
  // Filled by ResolveNames.
  Scope scope;
  uint16_t num_slots = 0;
  std::optional<uint16_t> caller_slot, kwargs_slot, varargs_slot;  // where the body uses them
  bool uses_caller = false;  // also where `caller` is a parameter of its own
};

struct MacroStmt final : Stmt {
  MacroStmt() : Stmt(StmtKind::kMacro) {}
  SlotRef slot;
  MacroCode code;
};

struct CallBlockStmt final : Stmt {
  CallBlockStmt() : Stmt(StmtKind::kCallBlock) {}
  std::unique_ptr<CallExpr> call;  // null in {% generation %}: the body itself
  MacroCode code;
};

struct FilterBlockStmt final : Stmt {
  FilterBlockStmt() : Stmt(StmtKind::kFilterBlock) {}
  ExprPtr filter;
  Body body;
  Scope scope;
};

struct WithStmt final : Stmt {
  WithStmt() : Stmt(StmtKind::kWith) {}
  std::vector<ExprPtr> targets, values;
  Body body;
  Scope scope;
};

struct LoopControlStmt final : Stmt {
  explicit LoopControlStmt(StmtKind kind) : Stmt(kind) {}
};

struct Program {
  Body body;
  Scope scope;
  uint16_t num_slots = 0;
};

}  // namespace incipit::jinja
