#include "kernels/cuda/host/product_tuning_file.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace incipit::cuda {
namespace {

constexpr std::string_view kTitle = "incipit gpu_products 1";
constexpr std::string_view kLast = "end";
constexpr std::string_view kOwn = "own", kLibrary = "library";
constexpr std::array<std::string_view, 3> kKinds = {"store", "add", "gate"};
constexpr size_t kBytesMax = size_t{1} << 20;

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

template <class T>
bool Parse(std::string_view text, int base, T& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc() && rest == end && !text.empty();
}

// Parses a line of the tuning file: kind of product, outputs, columns, minimum rows, and `own` or
// `library`. After `library`, hexadecimal integers follow, which hold the algorithm's binary data.
bool ParseLine(std::string_view line, ProductKey& key, ProductChoice& choice) {
  const std::vector<std::string_view> words = Split(line, ' ');
  if (words.size() < 5) return false;
  const auto kind = std::ranges::find(kKinds, words[0]);
  if (kind == kKinds.end()) return false;
  key.kind = static_cast<ProductKind>(kind - kKinds.begin());
  if (!Parse(words[1], 10, key.outputs) || !Parse(words[2], 10, key.columns) ||
      !Parse(words[3], 10, key.rows) || key.outputs <= 0 || key.columns <= 0 || key.rows <= 0) {
    return false;
  }
  choice.is_library = words[4] == kLibrary;
  if (!choice.is_library) return words[4] == kOwn && words.size() == 5;
  auto& algorithm = choice.algorithm.words;
  if (words.size() != 5 + algorithm.size()) return false;
  for (size_t i = 0; i < algorithm.size(); ++i) {
    if (!Parse(words[5 + i], 16, algorithm[i])) return false;
  }
  return true;
}

std::string LineOf(const ProductKey& key, const ProductChoice& choice) {
  std::string line =
      fmt::format("{} {} {} {} {}", kKinds[static_cast<size_t>(key.kind)], key.outputs, key.columns,
                  key.rows, choice.is_library ? kLibrary : kOwn);
  if (choice.is_library) line += fmt::format(" {:016x}", fmt::join(choice.algorithm.words, " "));
  return line;
}

}  // namespace

const ProductChoice* ProductChoices::Find(const ProductKey& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? nullptr : &found->second;
}

absl::StatusOr<ProductChoices> ProductChoices::Read(const std::string& path,
                                                    const std::string& machine) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("the tuning file {} does not exist", path);
  std::string text(kBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  std::vector<std::string_view> lines = Split(text, '\n');
  if (lines.front() != kTitle) return InvalidArgument("the file {} is not a tuning file", path);
  if (lines.size() < 4 || lines.back() != "" || lines[lines.size() - 2] != kLast) {
    return InvalidArgument("the tuning file {} is truncated", path);
  }
  if (lines[1] != machine)
    return FailedPrecondition("the tuning file {} was measured on another machine", path);
  ProductChoices choices;
  for (size_t i = 2; i + 2 < lines.size(); ++i) {
    ProductKey key;
    ProductChoice choice;
    if (!ParseLine(lines[i], key, choice)) {
      return InvalidArgument("line {} of the tuning file {} is invalid", i + 1, path);
    }
    choices.Set(key, choice);
  }
  return choices;
}

absl::Status ProductChoices::Write(const std::string& path, const std::string& machine) const {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const std::string part = fmt::format("{}.{}.part", path, getpid());
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << kTitle << '\n' << machine << '\n';
  for (const auto& [key, choice] : choices_) file << LineOf(key, choice) << '\n';
  file << kLast << '\n';
  file.close();
  if (file) {
    std::filesystem::rename(part, path, error);
  } else if (!error) {
    error = std::make_error_code(std::errc::io_error);
  }
  if (!error) return absl::OkStatus();
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  return Unavailable("the tuning file {} cannot be written: {}", path, error.message());
}

}  // namespace incipit::cuda
