// Runs a parsed template over a request's variables.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/ast.h"
#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

using Variables = std::map<std::string, Value, std::less<>>;

// The local variables of one running function: template, macro, recursive or filtered loop.
struct Activation final : Cell {
  explicit Activation(Activation* outer, size_t num_slots) : parent(outer), slots(num_slots) {}
  Activation* parent;
  std::vector<Value> slots;
};

// One rendering; not thread-safe. The program is only read.
class Interpreter {
 public:
  // `now` is what strftime_now() formats, in local time. The variables' values are the heap's.
  Interpreter(Heap& heap, const Variables& variables, std::chrono::system_clock::time_point now);
  ~Interpreter();

  // INVALID_ARGUMENT: what a template raised is its message alone, everything else names the line.
  absl::StatusOr<Value> Render(const Program& program);

  // For filters, methods and objects.
  Heap& heap() { return heap_; }
  std::chrono::system_clock::time_point now() const { return now_; }
  absl::StatusOr<Value> Call(const Value& callee, Arguments& arguments);
  absl::StatusOr<Value> CallFilter(const Value& name, Arguments& arguments);
  absl::StatusOr<Value> CallTest(const Value& name, Arguments& arguments);
  // What raise_exception(message) returns.
  absl::Status Raise(std::string message);

  // For the objects that templates define.
  absl::StatusOr<Value> CallMacro(const MacroCode& code, Activation* closure, Arguments& arguments);
  absl::StatusOr<Value> CallLoop(const ForStmt& node, Activation* closure, const Value& iterable,
                                 int64_t depth);
  absl::Status EnterScope(const Scope& scope, Activation& activation);
  absl::Status Assign(const Expr& target, const Value& value, Activation& activation);
  absl::StatusOr<Value> Eval(const Expr& expr, Activation& activation);

 private:
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  using FlowOr = absl::StatusOr<Flow>;

  // Statements.
  FlowOr Run(const Body& body, Activation& activation, TextBuilder& out);
  FlowOr RunStatement(const Stmt& statement, Activation& activation, TextBuilder& out);
  FlowOr RunOutput(const OutputStmt& node, Activation& activation, TextBuilder& out);
  FlowOr RunIf(const IfStmt& node, Activation& activation, TextBuilder& out);
  FlowOr RunFor(const ForStmt& node, Activation& activation, TextBuilder& out);
  FlowOr RunSet(const SetStmt& node, Activation& activation);
  FlowOr RunSetBlock(const SetBlockStmt& node, Activation& activation);
  FlowOr RunMacro(const MacroStmt& node, Activation& activation);
  FlowOr RunCallBlock(const CallBlockStmt& node, Activation& activation, TextBuilder& out);
  FlowOr RunFilterBlock(const FilterBlockStmt& node, Activation& activation, TextBuilder& out);
  FlowOr RunWith(const WithStmt& node, Activation& activation, TextBuilder& out);

  struct LoopRun {
    const ForStmt& node;
    Activation& activation;
    TextBuilder& out;
    Iterator* items;
    Value iterable;
    int64_t depth = 0;
    Activation* recursive_closure = nullptr;
  };
  FlowOr RunLoop(const LoopRun& loop);
  absl::StatusOr<Iterator*> LoopItems(const ForStmt& node, const Value& iterable,
                                      Activation& activation);
  void LeaveScope(const Scope& scope, Activation& activation);
  absl::Status BindMacro(const MacroCode& code, Arguments& arguments, Activation& activation);
  absl::Status Write(const Value& value, TextBuilder& out);

  // Expressions.
  absl::StatusOr<Value> EvalNode(const Expr& expr, Activation& activation);
  absl::StatusOr<Value> EvalDict(const DictExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalUnary(const UnaryExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalArithmetic(const ArithmeticExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalAndOr(const ChainExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalConcat(const ChainExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalCompare(const CompareExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalCondition(const ConditionExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalSlice(const SliceExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalCall(const CallExpr& node, Activation& activation, const Value* caller);
  absl::StatusOr<Value> EvalFilter(const FilterExpr& node, Activation& activation,
                                   const Value* block);
  absl::StatusOr<Value> EvalTest(const TestExpr& node, Activation& activation);
  absl::StatusOr<std::vector<Value>> EvalAll(const std::vector<ExprPtr>& exprs,
                                             Activation& activation);
  absl::Status EvalArguments(const CallArguments& nodes, Activation& activation,
                             Arguments& arguments);

  Value& SlotAt(const SlotRef& ref, Activation& activation);
  absl::Status Enter();  // one level of recursion deeper; undone by Leave
  void Leave() { --recursion_; }
  absl::Status EnterCall();

  Heap& heap_;
  const Variables& variables_;
  const std::chrono::system_clock::time_point now_;
  Variables globals_;
  int line_ = 0;       // of the node that was reached last
  int recursion_ = 0;  // of Eval and RunStatement
  int calls_ = 0;      // of macros and recursive loops
  bool raised_ = false;
};

}  // namespace incipit::jinja
