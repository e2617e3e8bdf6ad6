// Executes a parsed template with the variables of a request.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/runtime/heap.h"
#include "text/jinja/runtime/iterators.h"
#include "text/jinja/runtime/value.h"
#include "text/jinja/syntax/ast.h"

namespace incipit::jinja {

// The values of the variables in Program::context, by index. A variable that the request does not
// set is missing.
using Variables = std::vector<Value>;

// The local variables of one call of a function: a template, a macro or the filter of a loop.
struct Activation final : Cell {
  explicit Activation(Activation* outer, size_t num_slots) : parent(outer), slots(num_slots) {}
  Activation* parent;
  std::vector<Value> slots;
};

// Executes one rendering of a template. Never changes the program. Not thread-safe.
class Interpreter {
 public:
  // strftime_now() formats `now` in local time. REQUIRES: `heap` owns the values of `variables`.
  Interpreter(Heap& heap, std::chrono::system_clock::time_point now) : heap_(heap), now_(now) {}

  // Returns the output of `program`. If the template calls raise_exception(), returns
  // INVALID_ARGUMENT with the message of the template. Every other error message begins with the
  // line in the template.
  absl::StatusOr<Value> Render(const Program& program, Variables variables);

  // The following functions are for filters, methods and objects.
  Heap& heap() { return heap_; }
  std::chrono::system_clock::time_point now() const { return now_; }
  // Applies the filter or test `builtin` to `arguments`. The error messages contain `kind`
  // ("filter" or "test") and `name`. `builtin` is null if no filter or test has the name `name`.
  absl::StatusOr<Value> Apply(std::string_view kind, std::string_view name,
                              const NamedBuiltin* builtin, Arguments& arguments);
  // Increases the recursion depth by 1; Leave() decreases the depth by 1. Returns INVALID_ARGUMENT
  // if the depth or the number of steps exceeds the limit.
  absl::Status Enter() {
    if (++recursion_ <= kRecursionPerDepth * heap_.limits().depth_max) [[likely]] {
      return heap_.Charge();
    }
    return TooDeep();
  }
  void Leave() { --recursion_; }
  // Returns the error of raise_exception(message).
  absl::Status Raise(std::string message);

  // Calls `code`, a macro or the body of a call block, and returns its output. `closure` is the
  // activation in which `code` was defined.
  absl::StatusOr<Value> CallMacro(const MacroStmt& code, Activation* closure, Arguments& arguments);

 private:
  // Maximum number of nested evaluations for each level of depth_max. One call of a macro takes
  // about ten nested evaluations. With the default depth_max, the stack stays below a few
  // megabytes.
  static constexpr int kRecursionPerDepth = 16;

  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  using FlowOr = absl::StatusOr<Flow>;

  absl::Status TooDeep() const;
  absl::Status EnterScope(const Scope& scope, Activation& activation);
  void LeaveScope(const Scope& scope, Activation& activation);
  absl::Status Assign(const Expr& target, const Value& value, Activation& activation);

  // The following functions execute statements.
  FlowOr Run(const Body& body, Activation& activation, TextBuilder& out);
  FlowOr RunStatement(const Stmt& statement, Activation& activation, TextBuilder& out);
  FlowOr RunOutput(const OutputStmt& node, Activation& activation, TextBuilder& out);
  FlowOr RunIf(const IfStmt& node, Activation& activation, TextBuilder& out);
  FlowOr RunFor(const ForStmt& node, Activation& activation, TextBuilder& out);
  absl::StatusOr<LazyItems::Produce> StartTested(const ForStmt& node, Iterator* items,
                                                 Activation* closure);
  FlowOr RunSet(const SetStmt& node, Activation& activation);
  FlowOr RunBlock(const BlockStmt& node, Activation& activation, TextBuilder& out);
  FlowOr RunCallBlock(const MacroStmt& node, Activation& activation, TextBuilder& out);
  absl::Status BindMacro(const MacroStmt& code, Arguments& arguments, Activation& activation);
  absl::Status Write(const Value& value, TextBuilder& out);

  // The following functions evaluate expressions.
  absl::StatusOr<Value> Eval(const Expr& expr, Activation& activation);
  absl::StatusOr<bool> EvalTruth(const Expr& expr, Activation& activation);
  absl::StatusOr<Value> EvalNode(const Expr& expr, Activation& activation);
  absl::StatusOr<Value> EvalDict(const Expr& node, Activation& activation);
  absl::StatusOr<Value> EvalSign(const Expr& node, Activation& activation);
  absl::StatusOr<Value> EvalArithmetic(const ChainExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalCompare(const ChainExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalAndOr(const Expr& node, Activation& activation);
  absl::StatusOr<Value> EvalConcat(const Expr& node, Activation& activation);
  absl::StatusOr<Value> EvalCondition(const ConditionExpr& node, Activation& activation);
  absl::StatusOr<Value> EvalSlice(const Expr& node, Activation& activation);
  absl::StatusOr<Value> EvalCall(const CallExpr& node, Activation& activation, const Value* caller);
  // `block` is the text to which the filter without operand is applied.
  absl::StatusOr<Value> EvalFilter(const CallExpr& node, Activation& activation,
                                   const Value* block);
  absl::StatusOr<Value> EvalTest(const CallExpr& node, Activation& activation);
  absl::StatusOr<std::vector<Value>> EvalAll(const Expr& node, Activation& activation);
  // Evaluates all children of `node` except the first, and appends the results to `arguments`.
  absl::Status EvalArguments(const CallExpr& node, Activation& activation, Arguments& arguments);

  Value& SlotAt(const SlotRef& ref, Activation& activation);
  Heap& heap_;
  const std::chrono::system_clock::time_point now_;
  Variables context_;    // variables of the request; a global replaces a missing variable
  int line_ = 0;         // line of the last executed node
  int recursion_ = 0;    // depth of nested Eval() and RunStatement()
  int calls_ = 0;        // depth of nested macro calls
  bool raised_ = false;  // true if the template has called raise_exception()
};

}  // namespace incipit::jinja
