#include "text/jinja/objects.h"

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/operations.h"

namespace incipit::jinja {
namespace {

using Attribute = absl::StatusOr<std::optional<Value>>;

// A method of an object of ours. Each takes the object as positional[0].
Attribute Method(Interpreter& in, Object& self, std::string_view name, Builtin function) {
  return std::optional(
      Value::OfObject(in.heap().New<BoundMethod>(Value::OfObject(&self), name, function)));
}

absl::StatusOr<Value> LoopCycle(Interpreter&, Arguments& arguments) {
  auto* loop = As<LoopContext>(arguments.positional[0]);
  arguments.positional.erase(arguments.positional.begin());
  return loop->Cycle(arguments);
}

absl::StatusOr<Value> LoopChanged(Interpreter& in, Arguments& arguments) {
  auto* loop = As<LoopContext>(arguments.positional[0]);
  arguments.positional.erase(arguments.positional.begin());
  return loop->Changed(in, arguments);
}

absl::StatusOr<Value> CyclerNext(Interpreter&, Arguments& arguments) {
  INCIPIT_RETURN_IF_ERROR(BoundArguments::Bind({"next", {"self"}, 1, 1}, arguments).status());
  auto* cycler = As<Cycler>(arguments.positional[0]);
  Value current = cycler->current();
  cycler->Advance();
  return current;
}

absl::StatusOr<Value> CyclerReset(Interpreter&, Arguments& arguments) {
  INCIPIT_RETURN_IF_ERROR(BoundArguments::Bind({"reset", {"self"}, 1, 1}, arguments).status());
  As<Cycler>(arguments.positional[0])->Reset();
  return Value::None();
}

absl::StatusOr<Value> DictFromKeys(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"fromkeys", {"self", "iterable", "value"}, 2, 3}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> keys, ToVector(in, bound[1]));
  INCIPIT_ASSIGN_OR_RETURN(Dict * dict, in.heap().NewDict(keys.size()));
  for (const Value& key : keys) {
    if (!IsHashable(key)) return InvalidArgument("unhashable type: '{}'", TypeName(key));
    dict->Set(key, bound.Find(2) == nullptr ? Value::None() : bound[2]);
  }
  return in.heap().Finish(dict);
}

Value Count(int64_t value) { return Value::Integer(value); }

}  // namespace

Attribute NamespaceObject::Attribute(Interpreter& in, std::string_view name) {
  INCIPIT_ASSIGN_OR_RETURN(const Value key, in.heap().MakeString(name));
  const Value* found = attributes.Find(key);
  return found == nullptr ? std::optional<Value>() : *found;
}

absl::StatusOr<Value> MacroObject::Call(Interpreter& in, Arguments& arguments) {
  return in.CallMacro(code_, closure_, arguments);
}

Attribute MacroObject::Attribute(Interpreter& in, std::string_view name) {
  if (name == "name") {
    INCIPIT_ASSIGN_OR_RETURN(Value value, in.heap().MakeString(code_.name));
    return std::optional(std::move(value));
  }
  if (name == "arguments") {
    std::vector<Value> names;
    for (const auto& parameter : code_.parameters) {
      INCIPIT_ASSIGN_OR_RETURN(Value value, in.heap().MakeString(parameter->name));
      names.push_back(std::move(value));
    }
    INCIPIT_ASSIGN_OR_RETURN(Value tuple, in.heap().MakeTuple(std::move(names)));
    return std::optional(std::move(tuple));
  }
  if (name == "catch_kwargs") return std::optional(Value::Bool(code_.kwargs_slot.has_value()));
  if (name == "catch_varargs") return std::optional(Value::Bool(code_.varargs_slot.has_value()));
  if (name == "caller") return std::optional(Value::Bool(code_.uses_caller));
  return std::optional<Value>();
}

std::string FunctionObject::Repr() const {
  return type_name_ == "type" ? fmt::format("<class '{}'>", name_)
                              : fmt::format("<function {}>", name_);
}

absl::StatusOr<Value> FunctionObject::Call(Interpreter& in, Arguments& arguments) {
  return function_(in, arguments);
}

Attribute FunctionObject::Attribute(Interpreter& in, std::string_view name) {
  if (name_ == "dict" && name == "fromkeys") return Method(in, *this, name, DictFromKeys);
  return std::optional<Value>();
}

std::string BoundMethod::Repr() const {
  return fmt::format("<built-in method {} of {} object>", name_, TypeName(self_));
}

absl::StatusOr<Value> BoundMethod::Call(Interpreter& in, Arguments& arguments) {
  if (function_ == nullptr) {
    return Unimplemented("the method '{}' of '{}' is not supported", name_, TypeName(self_));
  }
  arguments.positional.insert(arguments.positional.begin(), self_);
  return function_(in, arguments);
}

std::string_view DictView::type_name() const {
  return part_ == Part::kKeys ? "dict_keys" : part_ == Part::kValues ? "dict_values" : "dict_items";
}

absl::StatusOr<Iterator*> DictView::Iterate(Interpreter& in) {
  return in.heap().New<DictIterator>(dict_, part_);
}

absl::StatusOr<std::optional<int64_t>> DictView::Length(Interpreter&) {
  return std::optional(static_cast<int64_t>(dict_.size()));
}

absl::StatusOr<std::optional<Value>> LoopContext::Advance(Interpreter& in) {
  std::optional<Value> item;
  if (after_) {
    item = std::exchange(after_, std::nullopt);
  } else {
    INCIPIT_ASSIGN_OR_RETURN(item, items_->Next(in));
  }
  if (!item) return item;
  ++index0_;
  before_ = std::exchange(current_, item);
  return item;
}

absl::StatusOr<bool> LoopContext::HasNext(Interpreter& in) {
  if (!after_) {
    INCIPIT_ASSIGN_OR_RETURN(after_, items_->Next(in));
  }
  return after_.has_value();
}

absl::StatusOr<std::optional<int64_t>> LoopContext::Length(Interpreter& in) {
  if (length_) return length_;
  INCIPIT_ASSIGN_OR_RETURN(length_, TryLength(in, iterable_));
  if (!length_) {
    INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> rest, ToVector(in, Value::OfIterator(items_)));
    length_ = static_cast<int64_t>(rest.size()) + index() + after_.has_value();
    items_ = in.heap().New<VectorIterator>(std::move(rest));
  }
  return length_;
}

absl::StatusOr<Value> LoopContext::Call(Interpreter& in, Arguments& arguments) {
  if (recursion_.node == nullptr) {
    return InvalidArgument("the loop must have the 'recursive' marker to be called recursively");
  }
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"loop", {"iterable"}, 1}, arguments));
  return in.CallLoop(*recursion_.node, recursion_.closure, bound[0], depth0_ + 1);
}

Attribute LoopContext::Attribute(Interpreter& in, std::string_view name) {
  if (name == "index") return std::optional(Count(index()));
  if (name == "index0") return std::optional(Count(index0_));
  if (name == "first") return std::optional(Value::Bool(index0_ == 0));
  if (name == "depth") return std::optional(Count(depth0_ + 1));
  if (name == "depth0") return std::optional(Count(depth0_));
  if (name == "cycle") return Method(in, *this, name, LoopCycle);
  if (name == "changed") return Method(in, *this, name, LoopChanged);
  if (name == "last" || name == "nextitem") {
    INCIPIT_ASSIGN_OR_RETURN(const bool has_next, HasNext(in));
    if (name == "last") return std::optional(Value::Bool(!has_next));
    if (!has_next) return std::optional(in.heap().MakeUndefined("there is no next item"));
    return after_;
  }
  if (name == "previtem") {
    if (index0_ == 0) return std::optional(in.heap().MakeUndefined("there is no previous item"));
    return before_;
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<int64_t> length, Length(in));
    if (name == "length") return std::optional(Count(*length));
    return std::optional(Count(*length - (name == "revindex" ? index0_ : index())));
  }
  return std::optional<Value>();
}

absl::StatusOr<Value> LoopContext::Cycle(Arguments& arguments) {
  if (!arguments.keyword.empty()) return InvalidArgument("cycle() takes no keyword arguments");
  const auto& items = arguments.positional;
  if (items.empty()) return InvalidArgument("no items for cycling given");
  return items[static_cast<size_t>(index0_) % items.size()];
}

absl::StatusOr<Value> LoopContext::Changed(Interpreter& in, Arguments& arguments) {
  if (!arguments.keyword.empty()) return InvalidArgument("changed() takes no keyword arguments");
  const auto& values = arguments.positional;
  bool same = last_changed_ && last_changed_->size() == values.size();
  for (size_t i = 0; same && i < values.size(); ++i) {
    if (values[i].IsSame((*last_changed_)[i])) continue;
    INCIPIT_ASSIGN_OR_RETURN(same, Equal(in, values[i], (*last_changed_)[i]));
  }
  if (same) return Value::Bool(false);
  last_changed_ = values;
  return Value::Bool(true);
}

Attribute Cycler::Attribute(Interpreter& in, std::string_view name) {
  if (name == "next") return Method(in, *this, name, CyclerNext);
  if (name == "reset") return Method(in, *this, name, CyclerReset);
  if (name == "current") return std::optional(current());
  if (name == "items") return std::optional(items_);
  if (name == "pos") return std::optional(Count(static_cast<int64_t>(pos_)));
  return std::optional<Value>();
}

absl::StatusOr<Value> Joiner::Call(Interpreter& in, Arguments& arguments) {
  INCIPIT_RETURN_IF_ERROR(BoundArguments::Bind({"joiner", {}, 0}, arguments).status());
  if (std::exchange(used_, true)) return separator_;
  return in.heap().MakeString("");
}

}  // namespace incipit::jinja
