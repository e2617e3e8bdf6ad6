#include "text/jinja/runtime/interpreter.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/runtime/objects.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {

absl::StatusOr<Value> Interpreter::Render(const Program& program, Variables variables) {
  context_ = std::move(variables);
  for (const auto& [name, index] : program.context) {
    if (!context_[index].is(Kind::kMissing)) continue;
    const NamedBuiltin* function = FindFunction(name);
    if (function == nullptr) continue;
    context_[index] = Value::OfObject(heap_.New<BuiltinObject>(*function));
  }
  const auto run = [&]() -> absl::StatusOr<Value> {
    Activation* activation = heap_.New<Activation>(nullptr, program.num_slots);
    INCIPIT_RETURN_IF_ERROR(EnterScope(program.scope, *activation));
    TextBuilder out;
    INCIPIT_RETURN_IF_ERROR(Run(program.body, *activation, out).status());
    return heap_.Finish(out);
  };
  absl::StatusOr<Value> result = run();
  if (result.ok() || raised_) return result;
  return Annotate(result.status(), fmt::format("chat template line {}", line_));
}

absl::Status Interpreter::Raise(std::string message) {
  raised_ = true;
  return absl::InvalidArgumentError(message);
}

absl::Status Interpreter::TooDeep() const {
  return InvalidArgument("the chat template's calls are nested too deep (limit depth_max of {})",
                         heap_.limits().depth_max);
}

Value& Interpreter::SlotAt(const SlotRef& ref, Activation& activation) {
  Activation* owner = &activation;
  for (int i = 0; i < ref.functions_up; ++i) owner = owner->parent;
  return owner->slots[ref.slot];
}

absl::Status Interpreter::EnterScope(const Scope& scope, Activation& activation) {
  INCIPIT_RETURN_IF_ERROR(heap_.Charge(static_cast<int64_t>(scope.size()) / 8));
  for (const ScopeLoad& load : scope) {
    Value& slot = activation.slots[load.slot];
    switch (load.source) {
      case ScopeLoad::Source::kParameter:
        break;
      case ScopeLoad::Source::kOuter:
        slot = SlotAt(load.outer, activation);
        break;
      case ScopeLoad::Source::kMissing:
        slot = Value();
        break;
      case ScopeLoad::Source::kContext:
        slot = context_[load.context];
        break;
    }
  }
  return absl::OkStatus();
}

void Interpreter::LeaveScope(const Scope& scope, Activation& activation) {
  for (const ScopeLoad& load : scope) activation.slots[load.slot] = Value();
}

absl::Status Interpreter::Assign(const Expr& target, const Value& value, Activation& activation) {
  if (target.kind == ExprKind::kName) {
    SlotAt(NodeAs<const NameExpr>(target).slot, activation) = value;
    return absl::OkStatus();
  }
  if (target.kind == ExprKind::kNamespaceRef) {
    const auto& ref = NodeAs<const NameExpr>(target);
    auto* object = As<NamespaceObject>(SlotAt(ref.slot, activation));
    if (object == nullptr)
      return InvalidArgument("cannot assign attribute on non-namespace object");
    if (object->attributes.Find(ref.attribute) == nullptr) {
      INCIPIT_RETURN_IF_ERROR(heap_.Take(Heap::kEntryBytes));
    }
    object->attributes.Set(ref.attribute, value);
    return absl::OkStatus();
  }
  INCIPIT_CHECK(target.kind == ExprKind::kTuple);
  const std::vector<ExprPtr>& items = target.children;
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> values, ToVector(*this, value));
  if (values.size() != items.size()) {
    return InvalidArgument("{} values to unpack (expected {}, got {})",
                           values.size() < items.size() ? "not enough" : "too many", items.size(),
                           values.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    INCIPIT_RETURN_IF_ERROR(Assign(*items[i], values[i], activation));
  }
  return absl::OkStatus();
}

Interpreter::FlowOr Interpreter::Run(const Body& body, Activation& activation, TextBuilder& out) {
  for (const auto& statement : body) {
    INCIPIT_RETURN_IF_ERROR(Enter());
    INCIPIT_ASSIGN_OR_RETURN(const Flow flow, RunStatement(*statement, activation, out));
    Leave();
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::FlowOr Interpreter::RunStatement(const Stmt& statement, Activation& activation,
                                              TextBuilder& out) {
  line_ = statement.line;
  switch (statement.kind) {
    case StmtKind::kOutput:
      return RunOutput(NodeAs<const OutputStmt>(statement), activation, out);
    case StmtKind::kIf:
      return RunIf(NodeAs<const IfStmt>(statement), activation, out);
    case StmtKind::kFor:
      return RunFor(NodeAs<const ForStmt>(statement), activation, out);
    case StmtKind::kSet:
      return RunSet(NodeAs<const SetStmt>(statement), activation);
    case StmtKind::kSetBlock:
    case StmtKind::kFilterBlock:
      return RunBlock(NodeAs<const BlockStmt>(statement), activation, out);
    case StmtKind::kMacro: {
      const auto& node = NodeAs<const MacroStmt>(statement);
      SlotAt(node.slot, activation) = Value::OfObject(heap_.New<MacroObject>(node, &activation));
      return Flow::kNormal;
    }
    case StmtKind::kCallBlock:
      return RunCallBlock(NodeAs<const MacroStmt>(statement), activation, out);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

absl::Status Interpreter::Write(const Value& value, TextBuilder& out) {
  INCIPIT_RETURN_IF_ERROR(AppendString(*this, value, out));
  return heap_.CheckSize(out.size());
}

Interpreter::FlowOr Interpreter::RunOutput(const OutputStmt& node, Activation& activation,
                                           TextBuilder& out) {
  for (const ExprPtr& item : node.items) {
    INCIPIT_ASSIGN_OR_RETURN(const Value value, Eval(*item, activation));
    INCIPIT_RETURN_IF_ERROR(Write(value, out));
  }
  return Flow::kNormal;
}

Interpreter::FlowOr Interpreter::RunIf(const IfStmt& node, Activation& activation,
                                       TextBuilder& out) {
  for (const IfStmt::Branch& branch : node.branches) {
    INCIPIT_ASSIGN_OR_RETURN(const bool taken, EvalTruth(*branch.test, activation));
    if (taken) return Run(branch.body, activation, out);
  }
  return Run(node.otherwise, activation, out);
}

// Returns a function that computes the items of a loop `for ... if`. The function tests the
// condition of an item only when the loop requests the item.
absl::StatusOr<LazyItems::Produce> Interpreter::StartTested(const ForStmt& node, Iterator* items,
                                                            Activation* closure) {
  Activation* inner = heap_.New<Activation>(closure, node.num_test_slots);
  INCIPIT_RETURN_IF_ERROR(EnterScope(node.test_scope, *inner));
  return LazyItems::Produce([&node, items, inner](Interpreter& in) -> LazyItems::Item {
    while (true) {
      INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, items->Next(in));
      if (!item) return item;
      INCIPIT_RETURN_IF_ERROR(in.Assign(*node.test_target, *item, *inner));
      INCIPIT_ASSIGN_OR_RETURN(const bool passes, in.EvalTruth(*node.test, *inner));
      if (passes) return item;
    }
  });
}

Interpreter::FlowOr Interpreter::RunFor(const ForStmt& node, Activation& activation,
                                        TextBuilder& out) {
  INCIPIT_ASSIGN_OR_RETURN(Value iterable, Eval(*node.iterable, activation));
  INCIPIT_ASSIGN_OR_RETURN(Iterator * items, Iterate(*this, iterable));
  if (node.test != nullptr) {
    items = heap_.New<LazyItems>([&node, items, closure = &activation](Interpreter& in) {
      return in.StartTested(node, items, closure);
    });
    iterable = Value::OfIterator(items);
  }
  LoopContext* context = node.uses_loop ? heap_.New<LoopContext>(iterable, items) : nullptr;
  bool completed_once = false;
  while (true) {
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> item,
                             context == nullptr ? items->Next(*this) : context->Advance(*this));
    if (!item) break;
    INCIPIT_RETURN_IF_ERROR(heap_.Charge());
    INCIPIT_RETURN_IF_ERROR(Assign(*node.target, *item, activation));
    if (context != nullptr) SlotAt(node.loop_slot, activation) = Value::OfObject(context);
    INCIPIT_RETURN_IF_ERROR(EnterScope(node.scope, activation));
    INCIPIT_ASSIGN_OR_RETURN(const Flow flow, Run(node.body, activation, out));
    if (flow == Flow::kBreak) break;
    // If `completed_once` stays false, the else branch of the loop runs. As in Jinja2, `continue`
    // does not complete an iteration.
    completed_once |= flow == Flow::kNormal;
  }
  LeaveScope(node.scope, activation);
  if (completed_once || node.otherwise.empty()) return Flow::kNormal;
  INCIPIT_RETURN_IF_ERROR(EnterScope(node.otherwise_scope, activation));
  INCIPIT_ASSIGN_OR_RETURN(const Flow flow, Run(node.otherwise, activation, out));
  if (flow == Flow::kNormal) LeaveScope(node.otherwise_scope, activation);
  return flow;
}

Interpreter::FlowOr Interpreter::RunSet(const SetStmt& node, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(const Value value, Eval(*node.value, activation));
  INCIPIT_RETURN_IF_ERROR(Assign(*node.target, value, activation));
  return Flow::kNormal;
}

Interpreter::FlowOr Interpreter::RunBlock(const BlockStmt& node, Activation& activation,
                                          TextBuilder& out) {
  INCIPIT_RETURN_IF_ERROR(EnterScope(node.scope, activation));
  TextBuilder block;
  INCIPIT_ASSIGN_OR_RETURN(const Flow flow, Run(node.body, activation, block));
  if (flow != Flow::kNormal) return flow;
  INCIPIT_ASSIGN_OR_RETURN(Value value, heap_.Finish(block));
  if (node.filter != nullptr) {
    INCIPIT_ASSIGN_OR_RETURN(value,
                             EvalFilter(NodeAs<const CallExpr>(*node.filter), activation, &value));
  }
  INCIPIT_RETURN_IF_ERROR(node.target == nullptr ? Write(value, out)
                                                 : Assign(*node.target, value, activation));
  LeaveScope(node.scope, activation);
  return Flow::kNormal;
}

Interpreter::FlowOr Interpreter::RunCallBlock(const MacroStmt& node, Activation& activation,
                                              TextBuilder& out) {
  Value result;
  if (node.call == nullptr) {
    Arguments arguments;
    INCIPIT_ASSIGN_OR_RETURN(result, CallMacro(node, &activation, arguments));
  } else {
    const Value caller = Value::OfObject(heap_.New<MacroObject>(node, &activation));
    INCIPIT_ASSIGN_OR_RETURN(result,
                             EvalCall(NodeAs<const CallExpr>(*node.call), activation, &caller));
  }
  INCIPIT_RETURN_IF_ERROR(Write(result, out));
  return Flow::kNormal;
}

}  // namespace incipit::jinja
