// The inputs of block keys other than tokens: tenant, salt, adapter and media.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace incipit {

struct AdapterKey {
  std::string name;
  std::array<uint8_t, 32> digest{};  // hash of the contents of the adapter

  friend bool operator==(const AdapterKey&, const AdapterKey&) = default;
};

// The cache namespace of a request. Two requests can share cached blocks only if their namespaces
// are equal.
struct CacheNamespace {
  // Name of the tenant. Absent: tenants are not isolated. An empty name is also a tenant.
  std::optional<std::string> tenant{};
  std::string salt{};  // empty if the request has no salt
  std::optional<AdapterKey> adapter{};

  friend bool operator==(const CacheNamespace&, const CacheNamespace&) = default;
};

// An image or another medium in a prompt. The medium occupies tokens of the sequence, but the ids
// of these tokens do not identify the content of the medium.
struct MediaSpan {
  std::string content_hash;  // hash of the medium's content, as text
  int64_t token_begin = 0;   // index in the sequence of the first token of the medium
  int64_t num_tokens = 0;    // number of tokens of the medium, at least 1
};

enum class ExtraKind : uint8_t { kAdapterName = 1, kMedia = 2, kTenant = 3, kSalt = 4 };

// An input of the key of one block, other than the tokens of the block.
struct ExtraKey {
  ExtraKind kind{};
  std::string_view text;
  // Offset of a medium from the first token of the block, in tokens; only for media. The offset is
  // negative if the medium begins in an earlier block.
  int64_t offset = 0;
};

}  // namespace incipit
