#include "text/jinja/runtime/python_json.h"

#include <limits>

#include "base/status.h"
#include "text/jinja/runtime/numbers.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

using Json = nlohmann::ordered_json;

class JsonReader {
 public:
  JsonReader(Heap& heap, Origin origin) : heap_(heap), origin_(origin) {}

  absl::StatusOr<Value> Read(const Json& json, int depth) {
    if (depth > heap_.value_depth_max()) {
      return InvalidArgument("the variables of the chat template are nested more than {} deep",
                             heap_.value_depth_max());
    }
    switch (json.type()) {
      case Json::value_t::boolean:
        return Value::Bool(json.get<bool>()).WithOrigin(origin_);
      case Json::value_t::number_integer:
        return Value::Integer(json.get<int64_t>()).WithOrigin(origin_);
      case Json::value_t::number_unsigned:
        if (json.get<uint64_t>() > uint64_t{std::numeric_limits<Int>::max()}) {
          return IntegerTooLarge();
        }
        return Value::Integer(json.get<Int>()).WithOrigin(origin_);
      case Json::value_t::number_float:
        return Value::Real(json.get<double>()).WithOrigin(origin_);
      case Json::value_t::string:
        return ReadString(json.get_ref<const std::string&>());
      case Json::value_t::array:
        return ReadArray(json, depth);
      case Json::value_t::object:
        return ReadObject(json, depth);
      default:
        return Value::None().WithOrigin(origin_);
    }
  }

 private:
  absl::StatusOr<Value> ReadString(const std::string& text) {
    if (!IsValidUtf8(text)) {
      return InvalidArgument("a string among the variables of the chat template is not UTF-8");
    }
    return heap_.MakeString(text, origin_);
  }

  absl::StatusOr<Value> ReadArray(const Json& json, int depth) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const Json& item : json) {
      INCIPIT_ASSIGN_OR_RETURN(Value value, Read(item, depth + 1));
      items.push_back(std::move(value));
    }
    return heap_.MakeSequence(Kind::kList, std::move(items), origin_);
  }

  absl::StatusOr<Value> ReadObject(const Json& json, int depth) {
    INCIPIT_ASSIGN_OR_RETURN(Dict * dict, heap_.NewDict(json.size()));
    dict->origin = origin_;
    for (const auto& [name, item] : json.get_ref<const Json::object_t&>()) {
      INCIPIT_ASSIGN_OR_RETURN(const Value key, ReadString(name));
      INCIPIT_ASSIGN_OR_RETURN(Value value, Read(item, depth + 1));
      dict->Set(key, std::move(value));
    }
    return heap_.Finish(dict);
  }

  Heap& heap_;
  const Origin origin_;
};

}  // namespace

absl::StatusOr<Value> FromJson(Heap& heap, const nlohmann::ordered_json& json, Origin origin) {
  return JsonReader(heap, origin).Read(json, 1);
}

}  // namespace incipit::jinja
