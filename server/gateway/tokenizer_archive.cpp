#include "server/gateway/tokenizer_archive.h"

#include <smg/grpc/common/common.pb.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash/sha256.h"
#include "base/json/json.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "server/gateway/zip_archive.h"
#include "server/rpc/message_bytes.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
// Maximum size in bytes of a file in the archive. The gateway accepts archives of at most 200 MB.
constexpr size_t kFileBytesMax = 128 << 20;

constexpr std::string_view kTokenizerName = "tokenizer.json";
constexpr std::string_view kConfigName = "tokenizer_config.json";
constexpr std::string_view kTemplateName = "chat_template.jinja";
constexpr std::string_view kOtherNames[] = {"config.json", "generation_config.json"};

// Returns the JSON object `config` without the member chat_template.
absl::StatusOr<std::string> WithoutTemplates(std::string_view config) {
  INCIPIT_ASSIGN_OR_RETURN(nlohmann::json json,
                           ParseJsonObject(config, {.bytes_max = kFileBytesMax}));
  json.erase("chat_template");
  return json.dump();
}

absl::StatusOr<std::vector<ZipFile>> ReadFiles(const std::filesystem::path& folder,
                                               const FileChoice& chat_template) {
  using enum FileChoice::Kind;
  std::vector<ZipFile> files;
  const auto add = [&files](std::string_view name, std::optional<std::string> contents) {
    if (contents) files.push_back({std::string(name), *std::move(contents)});
  };
  INCIPIT_ASSIGN_OR_RETURN(auto tokenizer,
                           ReadTextFileIfExists(folder / kTokenizerName, kFileBytesMax));
  if (!tokenizer) return Refuse(Reason::kNoTokenizer, "this model has no tokenizer.json");
  add(kTokenizerName, std::move(tokenizer));
  INCIPIT_ASSIGN_OR_RETURN(auto config, ReadTextFileIfExists(folder / kConfigName, kFileBytesMax));
  if (config && chat_template.kind != kAuto) {
    INCIPIT_ASSIGN_OR_RETURN(config, WithoutTemplates(*config));
  }
  add(kConfigName, std::move(config));
  if (chat_template.kind != kNone) {
    const std::filesystem::path path = chat_template.kind == kFile
                                           ? std::filesystem::path(chat_template.path)
                                           : folder / kTemplateName;
    INCIPIT_ASSIGN_OR_RETURN(auto text, ReadTextFileIfExists(path, kFileBytesMax));
    add(kTemplateName, std::move(text));
  }
  for (const std::string_view name : kOtherNames) {
    INCIPIT_ASSIGN_OR_RETURN(auto contents, ReadTextFileIfExists(folder / name, kFileBytesMax));
    add(name, std::move(contents));
  }
  return files;
}

std::string HexOf(const Sha256Digest& digest) {
  std::string out;
  for (const uint8_t byte : digest) out += fmt::format("{:02x}", byte);
  return out;
}

TokenizerArchive::Chunks ChunksOf(const std::string& archive) {
  TokenizerArchive::Chunks chunks;
  for (size_t begin = 0; begin < archive.size(); begin += kChunkBytes) {
    smg::grpc::common::GetTokenizerChunk chunk;
    chunk.set_data(archive.substr(begin, kChunkBytes));
    if (begin + kChunkBytes >= archive.size()) {
      chunk.set_sha256(
          HexOf(Sha256({reinterpret_cast<const uint8_t*>(archive.data()), archive.size()})));
    }
    ToBytes(chunk, chunks.emplace_back());
  }
  return chunks;
}

}  // namespace

std::shared_ptr<const TokenizerArchive::Chunks> TokenizerArchive::GetIfReady() {
  MutexLock lock(mutex_);
  return chunks_;
}

absl::StatusOr<std::shared_ptr<const TokenizerArchive::Chunks>> TokenizerArchive::Get() {
  MutexLock reading(reading_);
  if (auto chunks = GetIfReady(); chunks != nullptr) return chunks;
  INCIPIT_ASSIGN_OR_RETURN(const auto files, ReadFiles(folder_, chat_template_));
  auto chunks = std::make_shared<const Chunks>(ChunksOf(ZipOf(files)));
  MutexLock lock(mutex_);
  chunks_ = chunks;
  return chunks;
}

}  // namespace incipit
