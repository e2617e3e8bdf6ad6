#include "text/jinja/runtime/python_json.h"

#include <limits>

#include "base/status.h"
#include "text/jinja/runtime/numbers.h"
#include "text/unicode/utf8.h"

namespace incipit::jinja {

absl::StatusOr<Value> JsonReader::Read(const Json& json, int depth) {
  if (depth > heap_.value_depth_max()) {
    return InvalidArgument("the variables of the chat template are nested more than {} deep",
                           heap_.value_depth_max());
  }
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::Bool(json.get<bool>()).WithOrigin(Origin::kRequest);
    case Json::value_t::number_integer:
      return Value::Integer(json.get<int64_t>()).WithOrigin(Origin::kRequest);
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > uint64_t{std::numeric_limits<Int>::max()}) {
        return IntegerTooLarge();
      }
      return Value::Integer(json.get<Int>()).WithOrigin(Origin::kRequest);
    case Json::value_t::number_float:
      return Value::Real(json.get<double>()).WithOrigin(Origin::kRequest);
    case Json::value_t::string:
      return ReadString(json.get_ref<const std::string&>());
    case Json::value_t::array:
      return ReadArray(json, depth, nullptr);
    case Json::value_t::object:
      return ReadObject(json, depth, nullptr);
    default:
      return Value::None().WithOrigin(Origin::kRequest);
  }
}

absl::StatusOr<Value> JsonReader::ReadString(std::string_view text, Origin origin) {
  if (!IsUtf8(text)) {
    return InvalidArgument("a string among the variables of the chat template is not UTF-8");
  }
  return heap_.MakeString(text, origin);
}

absl::StatusOr<Value> JsonReader::ReadKey(const std::string& name) {
  Value& known = keys_[std::hash<std::string>()(name) % keys_.size()];
  if (!known.is_string() || known.bytes() != name) {
    INCIPIT_ASSIGN_OR_RETURN(known, ReadString(name));
  }
  return known;
}

absl::StatusOr<Value> JsonReader::ReadArray(const Json& json, int depth, IsPlain* is_plain) {
  std::vector<Value> items;
  items.reserve(json.size());
  for (const Json& item : json) {
    INCIPIT_ASSIGN_OR_RETURN(items.emplace_back(), is_plain != nullptr && item.is_object()
                                                       ? ReadObject(item, depth + 1, is_plain)
                                                       : Read(item, depth + 1));
  }
  return heap_.MakeSequence(Kind::kList, std::move(items), Origin::kRequest);
}

absl::StatusOr<Value> JsonReader::ReadObject(const Json& json, int depth, IsPlain* is_plain) {
  INCIPIT_ASSIGN_OR_RETURN(Dict * dict, heap_.NewDict(json.size()));
  dict->origin = Origin::kRequest;
  for (const auto& [name, item] : json.get_ref<const Json::object_t&>()) {
    INCIPIT_ASSIGN_OR_RETURN(Value key, ReadKey(name));
    const bool is_template = is_plain != nullptr && name == "role" && item.is_string() &&
                             is_plain(item.get_ref<const std::string&>());
    INCIPIT_ASSIGN_OR_RETURN(
        Value value, is_template ? ReadString(item.get_ref<const std::string&>(), Origin::kTemplate)
                                 : Read(item, depth + 1));
    dict->Append(std::move(key), std::move(value));
  }
  return heap_.Finish(dict);
}

}  // namespace incipit::jinja
