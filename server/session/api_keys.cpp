#include "server/session/api_keys.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "absl/strings/ascii.h"
#include "base/mapped_file.h"
#include "base/status.h"

namespace incipit {
namespace {

constexpr std::string_view kScheme = "bearer";
constexpr std::string_view kSpaces = " \t\r";

bool IsBearer(std::string_view scheme) {
  return std::ranges::equal(scheme, kScheme, {}, absl::ascii_tolower);
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

Sha256Digest DigestOf(std::string_view key) {
  return Sha256({reinterpret_cast<const uint8_t*>(key.data()), key.size()});
}

// Returns 1 if `a` and `b` are equal, otherwise 0. The running time does not depend on the values
// of `a` and `b`.
uint64_t AreEqual(const Sha256Digest& a, const Sha256Digest& b) {
  using Words = std::array<uint64_t, 4>;
  const auto x = std::bit_cast<Words>(a);
  const auto y = std::bit_cast<Words>(b);
  uint64_t difference = 0;
  for (size_t i = 0; i < x.size(); ++i) difference |= x[i] ^ y[i];
  // The highest bit of `difference | -difference` is 0 if `difference` is 0, otherwise 1.
  return 1 ^ ((difference | (0 - difference)) >> 63);
}

}  // namespace

absl::StatusOr<ApiKeys> ApiKeys::Read(const std::filesystem::path& path) {
  INCIPIT_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path, kApiKeyFileBytesMax));
  absl::StatusOr<ApiKeys> keys = Parse(text);
  explicit_bzero(text.data(), text.size());
  if (!keys.ok()) return Annotate(keys.status(), path.string());
  return keys;
}

absl::StatusOr<ApiKeys> ApiKeys::Parse(std::string_view text) {
  ApiKeys keys;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    if (!IsApiKey(line)) {
      return InvalidArgument(
          "line {} is not a key; an API key has from 1 to {} visible ASCII characters, without "
          "spaces",
          number, kApiKeyBytesMax);
    }
    if (keys.digests_.size() == kApiKeysMax) {
      return InvalidArgument("the API key file has more than {} keys", kApiKeysMax);
    }
    keys.digests_.push_back(DigestOf(line));
  }
  if (keys.digests_.empty())
    return InvalidArgument("the file has no key; at least one API key is required");
  return keys;
}

bool ApiKeys::Accept(std::string_view authorization) const {
  if (!are_required()) return true;
  const std::string_view field = Trimmed(authorization);
  const size_t space = std::min(field.find(' '), field.size());
  const std::string_view key = Trimmed(field.substr(space));
  if (!IsBearer(field.substr(0, space)) || !IsApiKey(key)) return false;
  const Sha256Digest digest = DigestOf(key);
  uint64_t is_known = 0;
  for (const Sha256Digest& known : digests_) is_known |= AreEqual(digest, known);
  return is_known != 0;
}

}  // namespace incipit
