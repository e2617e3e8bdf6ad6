#include "transformer/family.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/json/json.h"
#include "base/status.h"

namespace incipit {
namespace {

using Json = nlohmann::json;

constexpr Family kFamilies[] = {
    {"LlamaForCausalLM", "llama", 11008, 32000, 2048, {}, {}, 0},
    {"MistralForCausalLM", "mistral", 14336, 32000, 131072, 8, {}, 4096},
    {"Qwen2ForCausalLM", "qwen2", 22016, 151936, 32768, 32, {}, 4096},
    {"Qwen3ForCausalLM", "qwen3", 22016, 151936, 32768, 32, 128, 4096},
};

std::string SupportedArchitectures() {
  std::string names;
  for (const Family& family : kFamilies) {
    if (!names.empty()) names += ", ";
    names += family.architecture;
  }
  return names;
}

const Family* FindFamily(std::string_view name, std::string_view Family::*member) {
  const auto found = std::ranges::find(kFamilies, name, member);
  return found == std::end(kFamilies) ? nullptr : found;
}

}  // namespace

absl::StatusOr<const Family*> ReadFamily(const JsonFields& fields) {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<std::string> model_type,
                           fields.OptionalString("model_type"));
  const Family* by_type = model_type ? FindFamily(*model_type, &Family::model_type) : nullptr;
  const Json* names = fields.Find("architectures");
  if (names == nullptr) {
    if (by_type != nullptr) return by_type;
    return InvalidArgument("architectures is missing; the supported architectures are {}",
                           SupportedArchitectures());
  }
  if (!names->is_array() || names->size() != 1 || !names->front().is_string()) {
    return InvalidArgument("architectures is {}; it must be an array of one name",
                           ShownValue(*names));
  }
  const auto& name = names->front().get_ref<const std::string&>();
  const Family* family = FindFamily(name, &Family::architecture);
  if (family == nullptr) {
    return Unimplemented("architectures is {}; the supported architectures are {}",
                         ShownValue(*names), SupportedArchitectures());
  }
  if (model_type && by_type != family) {
    return InvalidArgument(
        "model_type is \"{}\", but the architecture {} has the model_type \"{}\"", *model_type,
        name, family->model_type);
  }
  return family;
}

}  // namespace incipit
