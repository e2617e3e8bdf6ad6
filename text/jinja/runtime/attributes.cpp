// Finds attributes and items of values. As in Jinja2's immutable sandbox, a template cannot call
// methods that change a value.
#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/objects.h"
#include "text/jinja/runtime/operations.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

// Returns the attribute `name` of `object`. Returns an undefined value if the sandbox of Jinja2
// forbids the attribute. Returns nullopt if `object` has no such attribute.
absl::StatusOr<std::optional<Value>> SafeAttribute(Interpreter& in, const Value& object,
                                                   std::string_view name) {
  if (object.is_undefined()) return UndefinedError(object);
  INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> value, FindAttribute(in, object, name));
  if ((!value || !name.starts_with('_')) && !IsMutatingMethod(object.kind(), name)) return value;
  return std::optional(in.heap().MakeUndefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe", name, TypeName(object))));
}

// Returns object[key], but does not search for an attribute with the name `key`. Returns nullopt if
// object[key] would raise TypeError or LookupError in Python.
absl::StatusOr<std::optional<Value>> FindItem(Interpreter& in, const Value& object,
                                              const Value& key) {
  if (object.is_undefined()) return UndefinedError(object);
  if (object.is(Kind::kDict)) {
    const Value* found = IsHashable(key) ? object.dict().Find(key) : nullptr;
    return found == nullptr ? std::optional<Value>() : *found;
  }
  if (!object.is_indexable() || !key.is_integral()) return std::nullopt;
  const int64_t length = LengthOf(object);
  Int index = key.integer();
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::optional<Value>();
  if (object.is(Kind::kRange)) return std::optional(Value::Integer(object.range().At(index)));
  if (object.is_sequence()) return std::optional(object.list().items[static_cast<size_t>(index)]);
  const size_t begin = object.text().OffsetOf(static_cast<size_t>(index));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(object.text().is_ascii() ? 0 : begin));
  const size_t end = begin + DecodeAt(object.bytes(), begin).size;
  return in.heap().Substring(object, begin, end);
}

}  // namespace

absl::StatusOr<std::optional<Value>> FindAttribute(Interpreter& in, const Value& object,
                                                   std::string_view name) {
  if (object.is(Kind::kObject)) return object.object().Attribute(in, name);
  if (object.is(Kind::kTuple) && object.list().is_group && (name == "grouper" || name == "list")) {
    return std::optional(object.list().items[name == "list"]);
  }
  const NamedBuiltin* method = FindMethod(object.kind(), name);
  if (method == nullptr) return std::optional<Value>();
  if (method->function == nullptr) {
    return Unimplemented("the attribute '{}' of '{}' is not supported", name, TypeName(object));
  }
  return std::optional(Value::OfObject(in.heap().New<BuiltinObject>(*method, object)));
}

absl::StatusOr<Value> GetAttribute(Interpreter& in, const Value& object, const Value& name) {
  INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> value, SafeAttribute(in, object, name.bytes()));
  if (value) return *value;
  INCIPIT_ASSIGN_OR_RETURN(value, FindItem(in, object, name));
  if (value) return *value;
  return in.heap().MakeUndefined(TypeName(object), name);
}

absl::StatusOr<Value> GetItem(Interpreter& in, const Value& object, const Value& key) {
  INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> value, FindItem(in, object, key));
  if (value) return *value;
  if (key.is_string()) {
    INCIPIT_ASSIGN_OR_RETURN(value, SafeAttribute(in, object, key.bytes()));
    if (value) return *value;
  }
  return in.heap().MakeUndefined(TypeName(object), key);
}

}  // namespace incipit::jinja
