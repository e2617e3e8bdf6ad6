// Inputs of block keys other than tokens: tenant, salt, adapter, and images or other media in the
// prompt.
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

// Name of the tenant of requests without a tenant name.
inline constexpr std::string_view kDefaultTenant = "default";

// Tenant, salt and adapter of a request. Requests can share cached blocks only if all three are
// equal.
struct CacheNamespace {
  // Name of the tenant; an empty name is allowed. std::nullopt: all tenants share cached blocks.
  std::optional<std::string> tenant{};
  std::string salt{};  // cache salt of the request; empty: no salt
  std::optional<AdapterKey> adapter{};

  friend bool operator==(const CacheNamespace&, const CacheNamespace&) = default;
};

// An image or other medium (not text) in a prompt. Different images can have equal token ids, so
// block keys depend on `content_hash`.
struct MediaSpan {
  std::string content_hash;  // hash of the content of the image or other medium, as text
  int64_t token_begin = 0;   // index, in the sequence, of the first token of the image
  int64_t num_tokens = 0;    // number of tokens of the image, at least 1
};

enum class ExtraKind : uint8_t { kAdapterName = 1, kMedia = 2, kTenant = 3, kSalt = 4 };

// An input of the key of one block, other than tokens: for example, the name of the tenant or the
// hash of an image.
struct ExtraKey {
  ExtraKind kind{};
  std::string_view text;
  // Only for an image or other medium: number of tokens from the start of the block to the start of
  // the image. Negative if the image begins in an earlier block.
  int64_t offset = 0;
};

}  // namespace incipit
