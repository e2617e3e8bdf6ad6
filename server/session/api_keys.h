// The API keys with which clients may call the server. The server keeps only the SHA-256 digests of
// the keys in memory.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/hash/sha256.h"

namespace incipit {

// Maximum size in bytes of the file with the API keys (the value of the flag --api-key-file).
inline constexpr size_t kApiKeyFileBytesMax = 1 << 20;
inline constexpr size_t kApiKeysMax = 1024;     // maximum number of API keys in the file
inline constexpr size_t kApiKeyBytesMax = 512;  // maximum length of an API key in bytes

// Returns true if `key` has from 1 to kApiKeyBytesMax bytes, and all bytes are visible ASCII
// characters.
inline bool IsApiKey(std::string_view key) {
  return !key.empty() && key.size() <= kApiKeyBytesMax &&
         std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
}

// A list of API keys that does not change after its creation. Thread-safe.
class ApiKeys {
 public:
  // Creates an empty list: every client may call the server, with or without a key.
  ApiKeys() = default;
  // Reads the API keys in the file `path`. Returns an error if the file cannot be read, or if Parse
  // returns an error for its contents. The error message contains `path`, but never a key.
  static absl::StatusOr<ApiKeys> Read(const std::filesystem::path& path);
  // Reads the API keys in `text`, one key in each line. Ignores empty lines, lines that begin with
  // #, and spaces at the beginning and the end of a line. Returns INVALID_ARGUMENT if `text` has no
  // key, more than kApiKeysMax keys, or a line that is not a key.
  static absl::StatusOr<ApiKeys> Parse(std::string_view text);

  // Returns true if the list has a key; clients must then send an API key.
  bool are_required() const { return !digests_.empty(); }
  // Checks `authorization`, the value of a header field. Returns true if the value is "Bearer KEY"
  // with a KEY of the list, or if the list is empty. The running time does not depend on the keys
  // in the list, only on their number.
  bool Accept(std::string_view authorization) const;

 private:
  std::vector<Sha256Digest> digests_;
};

}  // namespace incipit
