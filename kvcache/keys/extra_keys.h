// The inputs of block keys other than tokens.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace incipit {

struct AdapterKey {
  std::string name;
  std::array<uint8_t, 32> digest{};  // hash of the adapter's content

  friend bool operator==(const AdapterKey&, const AdapterKey&) = default;
};

// The namespace of a request. Requests share blocks only if their namespaces are equal.
struct CacheNamespace {
  std::optional<std::string> tenant{};  // absent: tenants are not isolated; "" is a tenant
  std::string salt{};                   // empty: no salt
  std::optional<AdapterKey> adapter{};

  friend bool operator==(const CacheNamespace&, const CacheNamespace&) = default;
};

// A medium (for example, an image) that occupies tokens of a sequence. These tokens do not identify
// the content of the medium.
struct MediaSpan {
  std::string content_hash;  // hash of the content, as text
  int64_t token_begin = 0;   // index of the first token in the sequence
  int64_t num_tokens = 0;    // number of tokens, 1 or more
};

enum class ExtraKind : uint8_t { kAdapterName = 1, kMedia = 2, kTenant = 3, kSalt = 4 };

// An input of the key of one block, other than the tokens of the block.
struct ExtraKey {
  ExtraKind kind{};
  std::string_view text;
  // Offset of a medium from the first token of the block; only for media. The offset is negative if
  // the medium begins in an earlier block.
  int64_t offset = 0;
};

}  // namespace incipit
