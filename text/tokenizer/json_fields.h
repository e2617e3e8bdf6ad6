// Reads the JSON files of a tokenizer, which are untrusted: bounded size and depth, and errors that
// name the part that is wrong.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

inline constexpr size_t kTokenizerFileBytesMax = 256u << 20;
inline constexpr int kTokenizerJsonDepthMax = 32;

// INVALID_ARGUMENT for what is no JSON, no UTF-8, larger than kTokenizerFileBytesMax, nested deeper
// than kTokenizerJsonDepthMax, or no object at the top.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text);

// One object of the file and where it stands in it, such as `normalizer.normalizers[2]`.
class JsonFields {
 public:
  // `object` outlives it.
  static absl::StatusOr<JsonFields> Of(const nlohmann::json& object, std::string path);

  const std::string& path() const { return path_; }
  // Null where the field is missing or null.
  const nlohmann::json* Find(const char* name) const;

  // INVALID_ARGUMENT for another type; the fallback where the field is missing or null, an error
  // without a fallback.
  absl::StatusOr<bool> Bool(const char* name, bool fallback) const;
  absl::StatusOr<std::string> String(const char* name) const;
  absl::StatusOr<std::optional<std::string>> OptionalString(const char* name) const;
  absl::StatusOr<int64_t> Integer(const char* name, int64_t min, int64_t max) const;
  // Of exactly one character.
  absl::StatusOr<char32_t> Character(const char* name) const;
  absl::StatusOr<const nlohmann::json*> Array(const char* name) const;
  absl::StatusOr<const nlohmann::json*> Object(const char* name) const;
  std::string PathOf(const char* name) const;

 private:
  JsonFields(const nlohmann::json& object, std::string path)
      : object_(&object), path_(std::move(path)) {}

  const nlohmann::json* object_;
  std::string path_;
};

}  // namespace incipit
