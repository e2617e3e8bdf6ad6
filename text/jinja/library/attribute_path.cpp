#include "text/jinja/library/attribute_path.h"

#include "base/status.h"
#include "text/jinja/library/string_ops.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/numbers.h"
#include "text/jinja/runtime/operations.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {

absl::StatusOr<AttributePath> AttributePath::Make(Interpreter& in, const Value& attribute) {
  AttributePath path;
  if (attribute.is_none()) return path;
  if (!attribute.is_string()) {
    path.parts_.push_back(attribute);
    return path;
  }
  INCIPIT_ASSIGN_OR_RETURN(const Value dot, in.heap().MakeString("."));
  INCIPIT_ASSIGN_OR_RETURN(path.parts_, Split(in, attribute, &dot, -1, false));
  for (Value& part : path.parts_) {
    const std::string_view bytes = part.bytes();
    if (bytes.empty() || SkipWhile(bytes, 0, IsDigit) < bytes.size()) continue;
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<Int> index, ParseInt(bytes, 10));
    if (!index)
      return InvalidArgument(
          "an index in an attribute path (such as 0 in items.0) is not an integer");
    part = Value::Integer(*index);
  }
  return path;
}

absl::StatusOr<std::vector<AttributePath>> AttributePath::MakeSeveral(Interpreter& in,
                                                                      const Value& attribute) {
  std::vector<Value> names = {attribute};
  if (attribute.is_string()) {
    INCIPIT_ASSIGN_OR_RETURN(const Value comma, in.heap().MakeString(","));
    INCIPIT_ASSIGN_OR_RETURN(names, Split(in, attribute, &comma, -1, false));
  }
  std::vector<AttributePath> paths;
  for (const Value& name : names) {
    INCIPIT_ASSIGN_OR_RETURN(AttributePath path, Make(in, name));
    paths.push_back(std::move(path));
  }
  return paths;
}

absl::StatusOr<Value> AttributePath::Get(Interpreter& in, Value item,
                                         const Value& otherwise) const {
  const bool has_otherwise = !otherwise.is(Kind::kMissing) && !otherwise.is_none();
  for (const Value& part : parts_) {
    INCIPIT_ASSIGN_OR_RETURN(item, GetItem(in, item, part));
    if (has_otherwise && item.is_undefined()) item = otherwise;
  }
  return item;
}

absl::StatusOr<Value> AttributePath::KeyOf(Interpreter& in, const Value& item, bool case_sensitive,
                                           const Value& otherwise) const {
  INCIPIT_ASSIGN_OR_RETURN(const Value key, Get(in, item, otherwise));
  return key.is_string() && !case_sensitive ? ChangeCase(in, key, CaseOp::kLower) : key;
}

}  // namespace incipit::jinja
