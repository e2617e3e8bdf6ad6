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

// Values of the variables that a template receives, such as `messages`. Program::context maps the
// name of a variable to its index in the vector. A variable that the request does not set has the
// kind Kind::kMissing.
using Variables = std::vector<Value>;

// The local variables during one call of a function. The template itself, a macro and the condition
// of a loop `for ... if` count as functions.
struct Activation final : Cell {
  explicit Activation(Activation* outer, size_t num_slots) : parent(outer), slots(num_slots) {}
  Activation* parent;
  std::vector<Value> slots;
};

// Renders a parsed template once. Does not change the parsed template. Not thread-safe.
class Interpreter {
 public:
  // Creates an interpreter. `now` is the time that the template function strftime_now() returns.
  // REQUIRES: `heap` owns the values of the variables that are passed to Render().
  Interpreter(Heap& heap, std::chrono::system_clock::time_point now) : heap_(heap), now_(now) {}

  // Returns the output of the template `program`. If the template calls raise_exception(), returns
  // INVALID_ARGUMENT with the message from the template. All other error messages begin with the
  // line number in the template.
  absl::StatusOr<Value> Render(const Program& program, Variables variables);

  Heap& heap() { return heap_; }
  std::chrono::system_clock::time_point now() const { return now_; }
  // Applies the filter or test `builtin` to `arguments`. `kind` ("filter" or "test") and `name`
  // appear in error messages. Returns an error if `builtin` is null, because then no filter or test
  // has the name `name`.
  absl::StatusOr<Value> Apply(std::string_view kind, std::string_view name,
                              const NamedBuiltin* builtin, Arguments& arguments);
  // Increases the recursion depth by 1, and counts one step of work. Returns INVALID_ARGUMENT if
  // the depth or the work exceeds its limit. Leave() decreases the depth by 1.
  absl::Status Enter() {
    if (++recursion_ <= kRecursionPerDepth * heap_.limits().depth_max) [[likely]] {
      return heap_.Charge();
    }
    return TooDeep();
  }
  void Leave() { --recursion_; }
  absl::Status Raise(std::string message);

  // Calls a macro, or the body of a call block ({% call %}), and returns its output. `closure`
  // holds the local variables of the function in which `code` was defined.
  absl::StatusOr<Value> CallMacro(const MacroStmt& code, Activation* closure, Arguments& arguments);

 private:
  // At most kRecursionPerDepth * depth_max calls of Eval() and RunStatement() may be nested. One
  // call of a macro needs about ten nested calls. With the default value of depth_max, the stack
  // needs at most a few megabytes.
  static constexpr int kRecursionPerDepth = 16;

  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  using FlowOr = absl::StatusOr<Flow>;

  absl::Status TooDeep() const;
  absl::Status EnterScope(const Scope& scope, Activation& activation);
  void LeaveScope(const Scope& scope, Activation& activation);
  absl::Status Assign(const Expr& target, const Value& value, Activation& activation);

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
  // Evaluates a filter. If the filter belongs to a block such as {% filter upper %}, `block` is the
  // output of the block. Otherwise, `block` is null.
  absl::StatusOr<Value> EvalFilter(const CallExpr& node, Activation& activation,
                                   const Value* block);
  absl::StatusOr<Value> EvalTest(const CallExpr& node, Activation& activation);
  absl::StatusOr<std::vector<Value>> EvalAll(const Expr& node, Activation& activation);
  // Evaluates the arguments of a call (all children of `node` except the first), and appends the
  // results to `arguments`.
  absl::Status EvalArguments(const CallExpr& node, Activation& activation, Arguments& arguments);

  Value& SlotAt(const SlotRef& ref, Activation& activation);
  Heap& heap_;
  const std::chrono::system_clock::time_point now_;
  // Variables from the request, and global functions such as range(). Program::context maps a name
  // to its index in `context_`.
  Variables context_;
  int line_ = 0;         // line number, in the template, of the last executed node
  int recursion_ = 0;    // number of nested calls of Eval() and RunStatement()
  int calls_ = 0;        // number of nested calls of macros
  bool raised_ = false;  // true if the template has called raise_exception()
};

}  // namespace incipit::jinja
