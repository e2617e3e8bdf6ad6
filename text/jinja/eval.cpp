// The interpreter's expressions and calls.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/objects.h"
#include "text/jinja/operations.h"

namespace incipit::jinja {

absl::StatusOr<Value> Interpreter::Eval(const Expr& expr, Activation& activation) {
  if (expr.kind == ExprKind::kConst) return static_cast<const ConstExpr&>(expr).value;
  INCIPIT_RETURN_IF_ERROR(Enter());
  absl::StatusOr<Value> result = EvalNode(expr, activation);
  Leave();
  return result;
}

absl::StatusOr<Value> Interpreter::EvalNode(const Expr& expr, Activation& activation) {
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConst:
      return static_cast<const ConstExpr&>(expr).value;
    case ExprKind::kName: {
      const auto& node = static_cast<const NameExpr&>(expr);
      const Value& value = SlotAt(node.slot, activation);
      return value.is(Kind::kMissing) ? Value::Undefined(&node.undefined) : value;
    }
    case ExprKind::kNamespaceRef:
      return SlotAt(static_cast<const NamespaceRefExpr&>(expr).slot, activation);
    case ExprKind::kTuple: {
      INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> items,
                               EvalAll(static_cast<const TupleExpr&>(expr).items, activation));
      return heap_.MakeTuple(std::move(items));
    }
    case ExprKind::kList: {
      INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> items,
                               EvalAll(static_cast<const ListExpr&>(expr).items, activation));
      return heap_.MakeList(std::move(items));
    }
    case ExprKind::kDict:
      return EvalDict(static_cast<const DictExpr&>(expr), activation);
    case ExprKind::kUnary:
      return EvalUnary(static_cast<const UnaryExpr&>(expr), activation);
    case ExprKind::kArithmetic:
      return EvalArithmetic(static_cast<const ArithmeticExpr&>(expr), activation);
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return EvalAndOr(static_cast<const ChainExpr&>(expr), activation);
    case ExprKind::kConcat:
      return EvalConcat(static_cast<const ChainExpr&>(expr), activation);
    case ExprKind::kCompare:
      return EvalCompare(static_cast<const CompareExpr&>(expr), activation);
    case ExprKind::kCondition:
      return EvalCondition(static_cast<const ConditionExpr&>(expr), activation);
    case ExprKind::kGetAttribute: {
      const auto& node = static_cast<const GetAttributeExpr&>(expr);
      INCIPIT_ASSIGN_OR_RETURN(const Value object, Eval(*node.object, activation));
      return GetAttribute(*this, object, node.attribute);
    }
    case ExprKind::kGetItem: {
      const auto& node = static_cast<const GetItemExpr&>(expr);
      INCIPIT_ASSIGN_OR_RETURN(const Value object, Eval(*node.object, activation));
      INCIPIT_ASSIGN_OR_RETURN(const Value index, Eval(*node.index, activation));
      return GetItem(*this, object, index);
    }
    case ExprKind::kSlice:
      return EvalSlice(static_cast<const SliceExpr&>(expr), activation);
    case ExprKind::kCall:
      return EvalCall(static_cast<const CallExpr&>(expr), activation, nullptr);
    case ExprKind::kFilter:
      return EvalFilter(static_cast<const FilterExpr&>(expr), activation, nullptr);
    case ExprKind::kTest:
      return EvalTest(static_cast<const TestExpr&>(expr), activation);
  }
  return Value::None();
}

absl::StatusOr<std::vector<Value>> Interpreter::EvalAll(const std::vector<ExprPtr>& exprs,
                                                        Activation& activation) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) {
    INCIPIT_ASSIGN_OR_RETURN(Value value, Eval(*expr, activation));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Value> Interpreter::EvalDict(const DictExpr& node, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(Dict * dict, heap_.NewDict(node.items.size()));
  for (const auto& [key_node, value_node] : node.items) {
    INCIPIT_ASSIGN_OR_RETURN(const Value key, Eval(*key_node, activation));
    INCIPIT_ASSIGN_OR_RETURN(Value value, Eval(*value_node, activation));
    if (!IsHashable(key)) return InvalidArgument("unhashable type: '{}'", TypeName(key));
    dict->Set(key, std::move(value));
  }
  return heap_.Finish(dict);
}

absl::StatusOr<Value> Interpreter::EvalUnary(const UnaryExpr& node, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(const Value operand, Eval(*node.operand, activation));
  if (node.op == UnaryOp::kNot) {
    INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(*this, operand));
    return Value::Bool(!truth);
  }
  if (operand.is_undefined()) return UndefinedError(operand);
  if (!operand.is_number()) {
    return InvalidArgument("bad operand type for unary {}: '{}'",
                           node.op == UnaryOp::kNegative ? '-' : '+', TypeName(operand));
  }
  const bool negative = node.op == UnaryOp::kNegative;
  if (operand.is(Kind::kFloat)) return Value::Real(negative ? -operand.real() : operand.real());
  if (!negative) return Value::Integer(operand.integer());
  INCIPIT_ASSIGN_OR_RETURN(const Int result, NegateInt(operand.integer()));
  return Value::Integer(result);
}

absl::StatusOr<Value> Interpreter::EvalArithmetic(const ArithmeticExpr& node,
                                                  Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(Value result, Eval(*node.first, activation));
  for (const auto& [op, operand_node] : node.rest) {
    INCIPIT_ASSIGN_OR_RETURN(const Value operand, Eval(*operand_node, activation));
    INCIPIT_ASSIGN_OR_RETURN(result, Binary(*this, op, result, operand));
  }
  return result;
}

absl::StatusOr<Value> Interpreter::EvalAndOr(const ChainExpr& node, Activation& activation) {
  Value result;
  for (const ExprPtr& operand : node.operands) {
    INCIPIT_ASSIGN_OR_RETURN(result, Eval(*operand, activation));
    if (operand == node.operands.back()) break;
    INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(*this, result));
    if (truth == (node.kind == ExprKind::kOr)) break;
  }
  return result;
}

absl::StatusOr<Value> Interpreter::EvalConcat(const ChainExpr& node, Activation& activation) {
  TextBuilder builder;
  for (const ExprPtr& operand : node.operands) {
    INCIPIT_ASSIGN_OR_RETURN(const Value value, Eval(*operand, activation));
    INCIPIT_RETURN_IF_ERROR(Write(value, builder));
  }
  return heap_.Finish(builder);
}

absl::StatusOr<Value> Interpreter::EvalCompare(const CompareExpr& node, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(Value left, Eval(*node.first, activation));
  for (const auto& [op, operand_node] : node.rest) {
    INCIPIT_ASSIGN_OR_RETURN(Value right, Eval(*operand_node, activation));
    INCIPIT_ASSIGN_OR_RETURN(const bool holds, Compare(*this, op, left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

absl::StatusOr<Value> Interpreter::EvalCondition(const ConditionExpr& node,
                                                 Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(const Value test, Eval(*node.test, activation));
  INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(*this, test));
  if (truth) return Eval(*node.then, activation);
  if (node.otherwise == nullptr) return Value::Undefined(&node.undefined);
  return Eval(*node.otherwise, activation);
}

absl::StatusOr<Value> Interpreter::EvalSlice(const SliceExpr& node, Activation& activation) {
  INCIPIT_ASSIGN_OR_RETURN(const Value object, Eval(*node.object, activation));
  SliceBounds bounds;
  const std::pair<const ExprPtr&, Value&> parts[] = {
      {node.start, bounds.start}, {node.stop, bounds.stop}, {node.step, bounds.step}};
  for (const auto& [part, bound] : parts) {
    if (part == nullptr) continue;
    INCIPIT_ASSIGN_OR_RETURN(bound, Eval(*part, activation));
  }
  return Slice(*this, object, bounds);
}

absl::Status Interpreter::EvalArguments(const CallArguments& nodes, Activation& activation,
                                        Arguments& arguments) {
  for (const ExprPtr& node : nodes.positional) {
    INCIPIT_ASSIGN_OR_RETURN(Value value, Eval(*node, activation));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, node] : nodes.keyword) {
    INCIPIT_ASSIGN_OR_RETURN(Value value, Eval(*node, activation));
    arguments.keyword.emplace_back(name, std::move(value));
  }
  if (nodes.star != nullptr) {
    INCIPIT_ASSIGN_OR_RETURN(const Value star, Eval(*nodes.star, activation));
    INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> values, ToVector(*this, star));
    for (Value& value : values) arguments.positional.push_back(std::move(value));
  }
  if (nodes.double_star == nullptr) return absl::OkStatus();
  INCIPIT_ASSIGN_OR_RETURN(const Value mapping, Eval(*nodes.double_star, activation));
  if (!mapping.is(Kind::kDict)) {
    return InvalidArgument("argument after ** must be a mapping, not {}", TypeName(mapping));
  }
  for (const Dict::Entry& entry : mapping.dict().entries()) {
    if (!entry.key.is_string()) return InvalidArgument("keywords must be strings");
    for (const auto& [name, value] : arguments.keyword) {
      if (name.bytes() == entry.key.bytes()) {
        return InvalidArgument("got multiple values for keyword argument '{}'", name.bytes());
      }
    }
    arguments.keyword.emplace_back(entry.key, entry.value);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Interpreter::EvalCall(const CallExpr& node, Activation& activation,
                                            const Value* caller) {
  INCIPIT_ASSIGN_OR_RETURN(const Value callee, Eval(*node.callee, activation));
  Arguments arguments;
  INCIPIT_RETURN_IF_ERROR(EvalArguments(node.arguments, activation, arguments));
  if (caller != nullptr) {
    for (const auto& [name, value] : arguments.keyword) {
      if (name.bytes() == "caller") {
        return InvalidArgument("keyword argument repeated: caller");
      }
    }
    INCIPIT_ASSIGN_OR_RETURN(Value name, heap_.MakeString("caller"));
    arguments.keyword.emplace_back(std::move(name), *caller);
  }
  line_ = node.line;
  return Call(callee, arguments);
}

absl::StatusOr<Value> Interpreter::Call(const Value& callee, Arguments& arguments) {
  if (callee.is_undefined()) return UndefinedError(callee);
  if (!callee.is(Kind::kObject)) {
    return InvalidArgument("'{}' object is not callable", TypeName(callee));
  }
  return callee.object().Call(*this, arguments);
}

absl::StatusOr<Value> Interpreter::EvalFilter(const FilterExpr& node, Activation& activation,
                                              const Value* block) {
  Arguments arguments;
  if (node.operand == nullptr) {
    arguments.positional.push_back(*block);
  } else if (block != nullptr && node.operand->kind == ExprKind::kFilter) {
    INCIPIT_RETURN_IF_ERROR(Enter());
    INCIPIT_ASSIGN_OR_RETURN(
        Value operand,
        EvalFilter(static_cast<const FilterExpr&>(*node.operand), activation, block));
    Leave();
    arguments.positional.push_back(std::move(operand));
  } else {
    INCIPIT_ASSIGN_OR_RETURN(Value operand, Eval(*node.operand, activation));
    arguments.positional.push_back(std::move(operand));
  }
  INCIPIT_RETURN_IF_ERROR(EvalArguments(node.arguments, activation, arguments));
  line_ = node.line;
  if (node.function == nullptr) return InvalidArgument("no filter named '{}' found", node.name);
  return node.function(*this, arguments);
}

absl::StatusOr<Value> Interpreter::EvalTest(const TestExpr& node, Activation& activation) {
  Arguments arguments;
  INCIPIT_ASSIGN_OR_RETURN(Value operand, Eval(*node.operand, activation));
  arguments.positional.push_back(std::move(operand));
  INCIPIT_RETURN_IF_ERROR(EvalArguments(node.arguments, activation, arguments));
  line_ = node.line;
  if (node.function == nullptr) return InvalidArgument("no test named '{}' found", node.name);
  return node.function(*this, arguments);
}

absl::StatusOr<Value> Interpreter::CallFilter(const Value& name, Arguments& arguments) {
  const Builtin function = name.is_string() ? FindFilter(name.bytes()) : nullptr;
  if (function == nullptr) {
    return InvalidArgument("no filter named '{}'",
                           name.is_string() ? name.bytes() : TypeName(name));
  }
  INCIPIT_RETURN_IF_ERROR(Enter());
  absl::StatusOr<Value> result = function(*this, arguments);
  Leave();
  return result;
}

absl::StatusOr<Value> Interpreter::CallTest(const Value& name, Arguments& arguments) {
  const Builtin function = name.is_string() ? FindTest(name.bytes()) : nullptr;
  if (function == nullptr) {
    return InvalidArgument("no test named '{}'", name.is_string() ? name.bytes() : TypeName(name));
  }
  INCIPIT_RETURN_IF_ERROR(Enter());
  absl::StatusOr<Value> result = function(*this, arguments);
  Leave();
  return result;
}

absl::Status Interpreter::EnterCall() {
  if (++calls_ > heap_.limits().depth_max) {
    return InvalidArgument("calls of macros are nested more than {} deep (limit depth_max)",
                           heap_.limits().depth_max);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Interpreter::CallMacro(const MacroCode& code, Activation* closure,
                                             Arguments& arguments) {
  INCIPIT_RETURN_IF_ERROR(EnterCall());
  INCIPIT_RETURN_IF_ERROR(heap_.CheckMemory(code.num_slots * sizeof(Value)));
  Activation* activation = heap_.New<Activation>(closure, code.num_slots);
  INCIPIT_RETURN_IF_ERROR(BindMacro(code, arguments, *activation));
  INCIPIT_RETURN_IF_ERROR(EnterScope(code.scope, *activation));
  const size_t num_required = code.parameters.size() - code.defaults.size();
  for (size_t i = 0; i < code.parameters.size(); ++i) {
    Value& slot = activation->slots[code.parameters[i]->slot.slot];
    if (!slot.is(Kind::kMissing)) continue;
    if (i < num_required) {
      slot = Value::Undefined(&code.not_provided[i]);
    } else {
      INCIPIT_ASSIGN_OR_RETURN(Value value, Eval(*code.defaults[i - num_required], *activation));
      activation->slots[code.parameters[i]->slot.slot] = std::move(value);
    }
  }
  TextBuilder out;
  INCIPIT_RETURN_IF_ERROR(Run(code.body, *activation, out).status());
  --calls_;
  return heap_.Finish(out);
}

absl::Status Interpreter::BindMacro(const MacroCode& code, Arguments& arguments,
                                    Activation& activation) {
  const size_t num_parameters = code.parameters.size();
  const size_t num_positional = std::min(num_parameters, arguments.positional.size());
  const auto take_keyword = [&](std::string_view name) -> std::optional<Value> {
    for (auto it = arguments.keyword.begin(); it != arguments.keyword.end(); ++it) {
      if (it->first.bytes() != name) continue;
      Value value = std::move(it->second);
      arguments.keyword.erase(it);
      return value;
    }
    return std::nullopt;
  };
  for (size_t i = 0; i < num_parameters; ++i) {
    Value& slot = activation.slots[code.parameters[i]->slot.slot];
    if (i < num_positional) {
      slot = arguments.positional[i];
    } else if (std::optional<Value> value = take_keyword(code.parameters[i]->name)) {
      slot = std::move(*value);
    }
  }
  if (code.caller_slot) {
    std::optional<Value> caller = take_keyword("caller");
    activation.slots[*code.caller_slot] = caller && !caller->is_none()
                                              ? std::move(*caller)
                                              : heap_.MakeUndefined("No caller defined");
  }
  if (code.kwargs_slot) {
    INCIPIT_ASSIGN_OR_RETURN(Dict * kwargs, heap_.NewDict(arguments.keyword.size()));
    for (auto& [name, value] : arguments.keyword) kwargs->Set(name, std::move(value));
    INCIPIT_ASSIGN_OR_RETURN(activation.slots[*code.kwargs_slot], heap_.Finish(kwargs));
  } else if (!arguments.keyword.empty()) {
    return InvalidArgument("macro '{}' takes no keyword argument '{}'", code.name,
                           arguments.keyword.front().first.bytes());
  }
  if (code.varargs_slot) {
    INCIPIT_ASSIGN_OR_RETURN(
        activation.slots[*code.varargs_slot],
        heap_.MakeTuple({arguments.positional.begin() + static_cast<ptrdiff_t>(num_positional),
                         arguments.positional.end()}));
  } else if (arguments.positional.size() > num_parameters) {
    return InvalidArgument("macro '{}' takes not more than {} argument(s)", code.name,
                           num_parameters);
  }
  return absl::OkStatus();
}

}  // namespace incipit::jinja
