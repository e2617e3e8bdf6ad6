#include "text/jinja/runtime/objects.h"

#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {
namespace {

using Attribute = absl::StatusOr<std::optional<Value>>;

// Returns the argument of loop.cycle(a, b, ...) for the current iteration: `a` in the first
// iteration, `b` in the second, and `a` again after the last argument. arguments.positional[0] is
// the object `loop`.
absl::StatusOr<Value> LoopCycle(Interpreter&, Arguments& arguments) {
  INCIPIT_RETURN_IF_ERROR(arguments.RefuseKeywords("cycle"));
  const auto& items = arguments.positional;
  if (items.size() < 2) return InvalidArgument("loop.cycle() needs at least one argument");
  const auto index0 = static_cast<size_t>(As<LoopContext>(items[0])->index() - 1);
  return items[1 + index0 % (items.size() - 1)];
}

constexpr NamedBuiltin kCycle = {"cycle", LoopCycle};

}  // namespace

Attribute NamespaceObject::Attribute(Interpreter&, std::string_view name) {
  const Value* found = attributes.Find(name);
  return found == nullptr ? std::optional<Value>() : *found;
}

absl::StatusOr<Value> MacroObject::Call(Interpreter& in, Arguments& arguments) {
  return in.CallMacro(code_, closure_, arguments);
}

Attribute MacroObject::Attribute(Interpreter&, std::string_view name) {
  if (!IsMacroAttribute(name)) return std::optional<Value>();
  return Unimplemented("the attribute '{}' of a macro is not supported", name);
}

absl::StatusOr<Value> BuiltinObject::Call(Interpreter& in, Arguments& arguments) {
  if (!self_.is(Kind::kMissing)) {
    arguments.positional.insert(arguments.positional.begin(), self_);
  }
  return builtin_.Call(in, arguments);
}

std::string_view DictView::type_name() const {
  constexpr std::string_view kNames[] = {"dict_keys", "dict_values", "dict_items"};
  return kNames[static_cast<size_t>(part_)];
}

absl::StatusOr<Iterator*> DictView::Iterate(Interpreter& in) {
  return in.heap().New<ValueIterator>(Value::OfDict(&dict_), part_);
}

absl::StatusOr<std::optional<int64_t>> DictView::Length(Interpreter&) {
  return static_cast<int64_t>(dict_.size());
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

absl::StatusOr<std::optional<int64_t>> LoopContext::Length(Interpreter& in) {
  if (length_) return length_;
  INCIPIT_ASSIGN_OR_RETURN(length_, TryLength(in, iterable_));
  if (!length_) {
    INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> rest, ToVector(in, Value::OfIterator(items_)));
    length_ = static_cast<int64_t>(rest.size()) + index() + after_.has_value();
    INCIPIT_ASSIGN_OR_RETURN(const Value list, in.heap().MakeList(std::move(rest)));
    items_ = in.heap().New<ValueIterator>(list);
  }
  return length_;
}

Attribute LoopContext::Attribute(Interpreter& in, std::string_view name) {
  if (name == "index") return Value::Integer(index());
  if (name == "index0") return Value::Integer(index0_);
  if (name == "first") return Value::Bool(index0_ == 0);
  if (name == "depth") return Value::Integer(1);
  if (name == "depth0") return Value::Integer(0);
  if (name == "cycle") {
    return Value::OfObject(in.heap().New<BuiltinObject>(kCycle, Value::OfObject(this)));
  }
  if (name == "changed") return Unimplemented("loop.changed is not supported");
  if (name == "last" || name == "nextitem") {
    if (!after_) {
      INCIPIT_ASSIGN_OR_RETURN(after_, items_->Next(in));
    }
    if (name == "last") return Value::Bool(!after_);
    return after_ ? *after_ : in.heap().MakeUndefined("the loop has no next item");
  }
  if (name == "previtem") {
    return before_ ? *before_ : in.heap().MakeUndefined("the loop has no previous item");
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<int64_t> length, Length(in));
    return Value::Integer(*length - (name == "length"     ? 0
                                     : name == "revindex" ? index0_
                                                          : index()));
  }
  return std::optional<Value>();
}

}  // namespace incipit::jinja
