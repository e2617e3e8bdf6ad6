// What keys and values depend on besides tokens.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace incipit {

struct AdapterKey {
  std::string name;
  std::array<uint8_t, 32> digest{};  // of the adapter's content

  friend bool operator==(const AdapterKey&, const AdapterKey&) = default;
};

// Who may share blocks with whom: chains of different namespaces have no key in common.
struct CacheNamespace {
  std::optional<std::string> tenant{};  // absent where tenants are not isolated; "" is a name
  std::string salt{};                   // empty: none
  std::optional<AdapterKey> adapter{};

  friend bool operator==(const CacheNamespace&, const CacheNamespace&) = default;
};

// An image or the like, which stands in a sequence as tokens that do not tell it from others.
struct MediaSpan {
  std::string content_hash;  // as text
  int64_t token_begin = 0;   // in the sequence
  int64_t num_tokens = 0;    // 1 or more
};

enum class ExtraKind : uint8_t { kAdapterName = 1, kMedia = 2, kTenant = 3, kSalt = 4 };

// A part of one block's key, beside its tokens.
struct ExtraKey {
  ExtraKind kind{};
  std::string_view text;
  // Of media: where it begins, from the block's first token; negative if in an earlier block.
  int64_t offset = 0;
};

}  // namespace incipit
