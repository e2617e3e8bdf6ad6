// The API keys with which clients may call the server. Only the digests of the keys are in memory.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/hash/sha256.h"

namespace incipit {

// Maximum size of the file of --api-key-file, in bytes.
inline constexpr size_t kApiKeyFileBytesMax = 1 << 20;
inline constexpr size_t kApiKeysMax = 1024;     // maximum number of keys
inline constexpr size_t kApiKeyBytesMax = 512;  // maximum length of a key, in bytes

// Returns true if `key` has from 1 to kApiKeyBytesMax bytes, and all bytes are visible ASCII
// characters.
inline bool IsApiKey(std::string_view key) {
  return !key.empty() && key.size() <= kApiKeyBytesMax &&
         std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
}

// A list of keys that does not change. Thread-safe.
class ApiKeys {
 public:
  // Creates an empty list: every client may call the server, with or without a key.
  ApiKeys() = default;
  // Reads the keys in the file `path`. Returns an error if the file cannot be read, or if Parse
  // returns an error. The message contains `path` and no key.
  static absl::StatusOr<ApiKeys> Read(const std::filesystem::path& path);
  // Reads the keys in `text`, one key in each line. Ignores empty lines, lines that begin with #,
  // and spaces at the beginning and the end of a line. Returns INVALID_ARGUMENT if `text` has no
  // key, more than kApiKeysMax keys, or a line that is not a key.
  static absl::StatusOr<ApiKeys> Parse(std::string_view text);

  // Returns true if clients need a key.
  bool are_required() const { return !digests_.empty(); }
  // Returns true if `authorization` is "Bearer KEY" with a key of the list, or if no key is
  // required. The time to compare does not depend on the keys of the list.
  bool Accept(std::string_view authorization) const;

 private:
  std::vector<Sha256Digest> digests_;
};

}  // namespace incipit
