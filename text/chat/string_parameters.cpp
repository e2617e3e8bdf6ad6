#include "text/chat/string_parameters.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

// Returns the member `name` of the JSON object `object`. Returns a JSON null if `object` is not an
// object or has no such member.
const Json& MemberOf(const Json& object, const char* name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

}  // namespace

StringParameters::StringParameters(const Json& tools) {
  if (!tools.is_array()) return;
  for (const Json& tool : tools) {
    const Json& inner = MemberOf(tool, "function");
    const Json& function = inner.is_null() ? tool : inner;
    const Json& name = MemberOf(function, "name");
    const Json& properties = MemberOf(MemberOf(function, "parameters"), "properties");
    if (!name.is_string() || !properties.is_object()) continue;
    for (const auto& [parameter, schema] : properties.items()) {
      if (MemberOf(schema, "type") == "string") {
        keys_.insert(KeyOf(name.get_ref<const std::string&>(), parameter));
      }
    }
  }
}

bool StringParameters::Contains(std::string_view tool, std::string_view parameter) const {
  return keys_.contains(KeyOf(tool, parameter));
}

// Returns `tool`, a NUL byte and `parameter` as one string. A tool name contains no NUL byte, so
// different pairs of names have different keys.
std::string StringParameters::KeyOf(std::string_view tool, std::string_view parameter) {
  return std::string(tool).append(1, '\0').append(parameter);
}

}  // namespace incipit
