#include "transformer/weights_digest.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/status.h"

namespace incipit {
namespace {

// Tensors are hashed in pieces of this size, so that several threads can hash one tensor.
constexpr size_t kPieceBytes = size_t{64} << 20;
constexpr std::string_view kTitle = "incipit weights digest 1";
constexpr size_t kCacheBytesMax = size_t{1} << 20;

struct Piece {
  std::span<const std::byte> bytes;
  Xxh3Digest digest{};
};

std::span<const uint8_t> OctetsOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

Xxh3Digest Xxh3OfText(std::string_view text) {
  return Xxh3(OctetsOf(std::as_bytes(std::span(text))));
}

std::vector<Piece> PiecesOf(const StoredTensors& tensors) {
  std::vector<Piece> pieces;
  for (const auto& [name, tensor] : tensors) {
    for (size_t begin = 0; begin < tensor.bytes.size(); begin += kPieceBytes) {
      const size_t size = std::min(kPieceBytes, tensor.bytes.size() - begin);
      pieces.push_back({.bytes = tensor.bytes.subspan(begin, size)});
    }
  }
  return pieces;
}

void HashPieces(std::vector<Piece>& pieces, int32_t num_threads) {
  std::atomic<size_t> next = 0;
  const auto hash = [&] {
    for (size_t i = next++; i < pieces.size(); i = next++) {
      pieces[i].digest = Xxh3(OctetsOf(pieces[i].bytes));
      ReleasePages(pieces[i].bytes);
    }
  };
  std::vector<std::thread> threads;
  const size_t num_helpers = std::min(pieces.size(), static_cast<size_t>(num_threads)) - 1;
  for (size_t i = 0; i < num_helpers; ++i) threads.emplace_back(hash);
  hash();
  for (std::thread& thread : threads) thread.join();
}

// Appends a number in little-endian byte order.
void AppendNumber(uint64_t number, std::string& message) {
  for (int i = 0; i < 8; ++i) message.push_back(static_cast<char>(number >> (8 * i) & 0xFF));
}

void AppendText(std::string_view text, std::string& message) {
  AppendNumber(text.size(), message);
  message.append(text);
}

std::string HexOf(const Xxh3Digest& digest) { return fmt::format("{:02x}", fmt::join(digest, "")); }

// Returns the beginning of a cache file for these weight files.
std::string CacheHeader(const std::vector<FileIdentity>& files) {
  std::string text = fmt::format("{}\n", kTitle);
  for (const FileIdentity& file : files) {
    text += fmt::format("{} {} {} {} {}\n", file.device, file.inode, file.size, file.modified_ns,
                        file.changed_ns);
  }
  return text;
}

// Returns the contents of a cache file: the header, the digest, and a checksum of both.
std::string CacheText(const std::string& header, const WeightsDigest& digest) {
  const std::string text = header + HexOf(digest) + "\n";
  return text + HexOf(Xxh3OfText(text)) + "\n";
}

std::optional<WeightsDigest> ReadCache(const std::filesystem::path& path,
                                       const std::string& header) {
  const absl::StatusOr<std::string> text = ReadTextFile(path, kCacheBytesMax);
  if (!text.ok() || !text->starts_with(header)) return std::nullopt;
  const std::string_view digits = std::string_view(*text).substr(header.size());
  WeightsDigest digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    if (digits.size() < 2 * i + 2) return std::nullopt;
    const char* const begin = digits.data() + 2 * i;
    if (std::from_chars(begin, begin + 2, digest[i], 16).ptr != begin + 2) return std::nullopt;
  }
  return *text == CacheText(header, digest) ? std::optional(digest) : std::nullopt;
}

bool AreUnchangedAt(const std::vector<FileIdentity>& files, int64_t now_ns) {
  return std::ranges::all_of(files, [&](const FileIdentity& file) {
    return std::max(file.changed_ns, file.modified_ns) <= now_ns - kUnchangedNs;
  });
}

}  // namespace

WeightsDigest DigestWeights(const Checkpoint& checkpoint, int32_t num_threads) {
  std::vector<Piece> pieces = PiecesOf(checkpoint.tensors());
  if (!pieces.empty()) HashPieces(pieces, std::max(num_threads, 1));
  std::string message;
  AppendText(kTitle, message);
  auto piece = pieces.begin();
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    AppendText(name, message);
    AppendText(tensor.dtype_name, message);
    AppendNumber(tensor.shape.size(), message);
    for (const int64_t size : tensor.shape) AppendNumber(static_cast<uint64_t>(size), message);
    AppendNumber(tensor.bytes.size(), message);
    for (size_t left = tensor.bytes.size(); left > 0; left -= piece++->bytes.size()) {
      message.append(reinterpret_cast<const char*>(piece->digest.data()), piece->digest.size());
    }
  }
  return Xxh3OfText(message);
}

CachedWeightsDigest DigestWeightsCached(const Checkpoint& checkpoint,
                                        const WeightsDigestOptions& options) {
  const std::vector<FileIdentity> files = checkpoint.files();
  const std::string header = CacheHeader(files);
  if (const auto digest = ReadCache(options.cache_file, header)) {
    for (const auto& [name, tensor] : checkpoint.tensors()) ReleasePages(tensor.bytes);
    return {.digest = *digest, .is_from_cache = true};
  }
  CachedWeightsDigest result = {.digest = DigestWeights(checkpoint, options.num_threads)};
  if (AreUnchangedAt(files, options.now_ns)) {
    result.write_status = WriteFileAtomically(options.cache_file, CacheText(header, result.digest));
  }
  return result;
}

}  // namespace incipit
