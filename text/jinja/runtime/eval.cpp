// Evaluates the expressions and calls of a template.
#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/numbers.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {

absl::StatusOr<Value> Interpreter::Eval(const Expr& expr, Activation& activation) {
  if (expr.kind == ExprKind::kConst) return NodeAs<const ValueExpr>(expr).value;
  INCIPIT_RETURN_IF_ERROR(Enter());
  absl::StatusOr<Value> result = EvalNode(expr, activation);
  Leave();
  return result;
}

absl::StatusOr<bool> Interpreter::EvalTruth(const Expr& expr, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(const Value value, Eval(expr, activation));
  return IsTrue(*this, value);
}

absl::StatusOr<Value> Interpreter::EvalNode(const Expr& expr, Activation& activation) {
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConst:
      return NodeAs<const ValueExpr>(expr).value;
    case ExprKind::kName: {
      const auto& node = NodeAs<const NameExpr>(expr);
      const Value& value = SlotAt(node.slot, activation);
      return value.is(Kind::kMissing) ? Value::Undefined(&node.undefined) : value;
    }
    case ExprKind::kTuple: {
      INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> items, EvalAll(expr, activation));
      return heap_.MakeTuple(std::move(items));
    }
    case ExprKind::kList: {
      INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> items, EvalAll(expr, activation));
      return heap_.MakeList(std::move(items));
    }
    case ExprKind::kDict:
      return EvalDict(expr, activation);
    case ExprKind::kNot: {
      INCIPIT_ASSIGN_OR_RETURN(const bool truth, EvalTruth(*expr.children[0], activation));
      return Value::Bool(!truth);
    }
    case ExprKind::kNegative:
    case ExprKind::kPositive:
      return EvalSign(expr, activation);
    case ExprKind::kArithmetic:
      return EvalArithmetic(NodeAs<const ChainExpr>(expr), activation);
    case ExprKind::kCompare:
      return EvalCompare(NodeAs<const ChainExpr>(expr), activation);
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return EvalAndOr(expr, activation);
    case ExprKind::kConcat:
      return EvalConcat(expr, activation);
    case ExprKind::kCondition:
      return EvalCondition(NodeAs<const ConditionExpr>(expr), activation);
    case ExprKind::kGetAttribute: {
      INCIPIT_ASSIGN_OR_RETURN(const Value object, Eval(*expr.children[0], activation));
      const auto& name = NodeAs<const ValueExpr>(expr);
      if (!name.is_item || !object.is(Kind::kDict)) return GetAttribute(*this, object, name.value);
      const Value* found = object.dict().Find(name.value.bytes());
      return found != nullptr ? *found : heap_.MakeUndefined(TypeName(object), name.value);
    }
    case ExprKind::kGetItem: {
      INCIPIT_ASSIGN_OR_RETURN(const Value object, Eval(*expr.children[0], activation));
      INCIPIT_ASSIGN_OR_RETURN(const Value index, Eval(*expr.children[1], activation));
      return GetItem(*this, object, index);
    }
    case ExprKind::kSlice:
      return EvalSlice(expr, activation);
    case ExprKind::kCall:
      return EvalCall(NodeAs<const CallExpr>(expr), activation, nullptr);
    case ExprKind::kFilter:
      return EvalFilter(NodeAs<const CallExpr>(expr), activation, nullptr);
    case ExprKind::kTest:
      return EvalTest(NodeAs<const CallExpr>(expr), activation);
    case ExprKind::kNamespaceRef:  // the target of an assignment is never evaluated
      break;
  }
  return Value::None();
}

absl::StatusOr<std::vector<Value>> Interpreter::EvalAll(const Expr& node, Activation& activation) {
  std::vector<Value> values;
  values.reserve(node.children.size());
  for (const ExprPtr& child : node.children) {
    INCIPIT_ASSIGN_OR_RETURN(values.emplace_back(), Eval(*child, activation));
  }
  return values;
}

absl::StatusOr<Value> Interpreter::EvalDict(const Expr& node, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(Dict * dict, heap_.NewDict(node.children.size() / 2));
  for (size_t i = 0; i < node.children.size(); i += 2) {
    INCIPIT_ASSIGN_OR_RETURN(const Value key, Eval(*node.children[i], activation));
    INCIPIT_ASSIGN_OR_RETURN(Value value, Eval(*node.children[i + 1], activation));
    INCIPIT_RETURN_IF_ERROR(CheckHashable(key));
    dict->Set(key, std::move(value));
  }
  return heap_.Finish(dict);
}

absl::StatusOr<Value> Interpreter::EvalSign(const Expr& node, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(const Value operand, Eval(*node.children[0], activation));
  const bool negative = node.kind == ExprKind::kNegative;
  if (operand.is_undefined()) return UndefinedError(operand);
  if (!operand.is_number()) {
    return InvalidArgument("bad operand type for unary {}: '{}'", negative ? '-' : '+',
                           TypeName(operand));
  }
  return Arithmetic(ArithmeticOp::kMul, operand, Value::Integer(negative ? -1 : 1));
}

absl::StatusOr<Value> Interpreter::EvalArithmetic(const ChainExpr& node, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(Value result, Eval(*node.children[0], activation));
  for (size_t i = 0; i < node.ops.size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const Value operand, Eval(*node.children[i + 1], activation));
    INCIPIT_ASSIGN_OR_RETURN(
        result, Binary(*this, static_cast<ArithmeticOp>(node.ops[i]), result, operand));
  }
  return result;
}

absl::StatusOr<Value> Interpreter::EvalCompare(const ChainExpr& node, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(Value left, Eval(*node.children[0], activation));
  for (size_t i = 0; i < node.ops.size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(Value right, Eval(*node.children[i + 1], activation));
    INCIPIT_ASSIGN_OR_RETURN(const bool holds,
                             Compare(*this, static_cast<CompareOp>(node.ops[i]), left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

absl::StatusOr<Value> Interpreter::EvalAndOr(const Expr& node, Activation& activation) {
  Value result;
  for (const ExprPtr& operand : node.children) {
    INCIPIT_ASSIGN_OR_RETURN(result, Eval(*operand, activation));
    if (operand == node.children.back()) break;
    INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(*this, result));
    if (truth == (node.kind == ExprKind::kOr)) break;
  }
  return result;
}

absl::StatusOr<Value> Interpreter::EvalConcat(const Expr& node, Activation& activation) {
  // Minimum size in bytes of a left operand that is extended in memory instead of copied.
  constexpr size_t kLongBytes = 256;
  INCIPIT_ASSIGN_OR_RETURN(const Value first, Eval(*node.children[0], activation));
  const bool is_long = first.is_string() && first.bytes().size() >= kLongBytes;
  TextBuilder builder;
  if (!is_long) INCIPIT_RETURN_IF_ERROR(Write(first, builder));
  for (size_t i = 1; i < node.children.size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const Value value, Eval(*node.children[i], activation));
    INCIPIT_RETURN_IF_ERROR(Write(value, builder));
  }
  INCIPIT_ASSIGN_OR_RETURN(Value rest, heap_.Finish(builder));
  // Heap::Concatenate() usually extends a long string without copying the string. Therefore a loop
  // that extends one string takes linear time.
  return is_long ? heap_.Concatenate(first, rest) : std::move(rest);
}

absl::StatusOr<Value> Interpreter::EvalCondition(const ConditionExpr& node,
                                                 Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(const bool truth, EvalTruth(*node.children[0], activation));
  if (truth) return Eval(*node.children[1], activation);
  if (node.children[2] == nullptr) return Value::Undefined(&node.undefined);
  return Eval(*node.children[2], activation);
}

absl::StatusOr<Value> Interpreter::EvalSlice(const Expr& node, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(const Value object, Eval(*node.children[0], activation));
  Value bounds[3] = {Value::None(), Value::None(), Value::None()};
  for (size_t i = 0; i < 3; ++i) {
    if (node.children[i + 1] == nullptr) continue;
    INCIPIT_ASSIGN_OR_RETURN(bounds[i], Eval(*node.children[i + 1], activation));
  }
  return Slice(*this, object, bounds[0], bounds[1], bounds[2]);
}

absl::Status Interpreter::EvalArguments(const CallExpr& node, Activation& activation,
                                        Arguments& arguments) {
  const size_t num_positional = node.children.size() - node.keywords.size();
  arguments.positional.reserve(num_positional);
  for (size_t i = 1; i < node.children.size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(Value value, Eval(*node.children[i], activation));
    if (i < num_positional) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.keyword.emplace_back(node.keywords[i - num_positional], std::move(value));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Interpreter::EvalCall(const CallExpr& node, Activation& activation,
                                            const Value* caller) {
  INCIPIT_ASSIGN_OR_RETURN(const Value callee, Eval(*node.children[0], activation));
  Arguments arguments;
  INCIPIT_RETURN_IF_ERROR(EvalArguments(node, activation, arguments));
  if (caller != nullptr) {
    if (!arguments.TakeKeyword("caller").is(Kind::kMissing)) {
      return InvalidArgument("keyword argument repeated: caller");
    }
    INCIPIT_ASSIGN_OR_RETURN(Value name, heap_.MakeString("caller"));
    arguments.keyword.emplace_back(std::move(name), *caller);
  }
  line_ = node.line;
  if (callee.is_undefined()) return UndefinedError(callee);
  if (callee.is(Kind::kObject)) return callee.object().Call(*this, arguments);
  return InvalidArgument("'{}' object is not callable", TypeName(callee));
}

absl::StatusOr<Value> Interpreter::EvalFilter(const CallExpr& node, Activation& activation,
                                              const Value* block) {
  Arguments arguments;
  const Expr* operand = node.children[0].get();
  if (operand == nullptr) {
    arguments.positional.push_back(*block);
  } else if (block != nullptr && operand->kind == ExprKind::kFilter) {
    INCIPIT_RETURN_IF_ERROR(Enter());
    INCIPIT_ASSIGN_OR_RETURN(arguments.positional.emplace_back(),
                             EvalFilter(NodeAs<const CallExpr>(*operand), activation, block));
    Leave();
  } else {
    INCIPIT_ASSIGN_OR_RETURN(arguments.positional.emplace_back(), Eval(*operand, activation));
  }
  INCIPIT_RETURN_IF_ERROR(EvalArguments(node, activation, arguments));
  line_ = node.line;
  return Apply("filter", node.name, node.builtin, arguments);
}

absl::StatusOr<Value> Interpreter::EvalTest(const CallExpr& node, Activation& activation) {
  Arguments arguments;
  INCIPIT_ASSIGN_OR_RETURN(arguments.positional.emplace_back(),
                           Eval(*node.children[0], activation));
  INCIPIT_RETURN_IF_ERROR(EvalArguments(node, activation, arguments));
  line_ = node.line;
  return Apply("test", node.name, node.builtin, arguments);
}

absl::StatusOr<Value> Interpreter::Apply(std::string_view kind, std::string_view name,
                                         const NamedBuiltin* builtin, Arguments& arguments) {
  if (builtin == nullptr) return InvalidArgument("no {} named '{}' found", kind, name);
  return builtin->Call(*this, arguments);
}

absl::StatusOr<Value> Interpreter::CallMacro(const MacroStmt& code, Activation* closure,
                                             Arguments& arguments) {
  if (++calls_ > heap_.limits().depth_max) {
    return InvalidArgument("calls of macros are nested more than {} deep (limit depth_max)",
                           heap_.limits().depth_max);
  }
  INCIPIT_RETURN_IF_ERROR(heap_.CheckMemory(code.num_slots * sizeof(Value)));
  Activation* activation = heap_.New<Activation>(closure, code.num_slots);
  INCIPIT_RETURN_IF_ERROR(BindMacro(code, arguments, *activation));
  INCIPIT_RETURN_IF_ERROR(EnterScope(code.scope, *activation));
  const size_t num_required = code.parameters.size() - code.defaults.size();
  for (size_t i = 0; i < code.parameters.size(); ++i) {
    const uint16_t slot = code.parameters[i]->slot.slot;
    if (!activation->slots[slot].is(Kind::kMissing)) continue;
    if (i < num_required) {
      activation->slots[slot] = Value::Undefined(&code.parameters[i]->undefined);
    } else {
      INCIPIT_ASSIGN_OR_RETURN(activation->slots[slot],
                               Eval(*code.defaults[i - num_required], *activation));
    }
  }
  TextBuilder out;
  INCIPIT_RETURN_IF_ERROR(Run(code.body, *activation, out).status());
  --calls_;
  return heap_.Finish(out);
}

absl::Status Interpreter::BindMacro(const MacroStmt& code, Arguments& arguments,
                                    Activation& activation) {
  const size_t num_parameters = code.parameters.size();
  if (arguments.positional.size() > num_parameters) {
    return InvalidArgument("macro '{}' takes not more than {} argument(s)", code.name,
                           num_parameters);
  }
  for (size_t i = 0; i < num_parameters; ++i) {
    const NameExpr& parameter = *code.parameters[i];
    activation.slots[parameter.slot.slot] = i < arguments.positional.size()
                                                ? arguments.positional[i]
                                                : arguments.TakeKeyword(parameter.name);
  }
  if (code.uses_caller) {
    const Value caller = arguments.TakeKeyword("caller");
    const bool none = caller.is(Kind::kMissing) || caller.is_none();
    activation.slots[code.caller_slot.slot] =
        none ? heap_.MakeUndefined("No caller defined") : caller;
  }
  if (arguments.keyword.empty()) return absl::OkStatus();
  return InvalidArgument("macro '{}' takes no keyword argument '{}'", code.name,
                         arguments.keyword.front().first.bytes());
}

}  // namespace incipit::jinja
