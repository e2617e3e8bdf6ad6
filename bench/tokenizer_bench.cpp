// Measures the CPU time that the tokenizer in FOLDER needs per byte of each text FILE. Also prints
// a hash of the token ids, so that the token ids of two builds can be compared.
//
// tokenizer_bench FOLDER FILE...
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace incipit {
namespace {

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

uint64_t HashOf(const std::vector<TokenId>& ids) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const TokenId id : ids) hash = (hash ^ static_cast<uint32_t>(id)) * 0x100000001B3u;
  return hash;
}

int Run(const std::filesystem::path& folder, const std::vector<std::string>& files) {
  constexpr int kRuns = 5;
  const double load_begin = CpuSeconds();
  const auto tokenizer = Tokenizer::Load(folder);
  if (!tokenizer.ok()) {
    fmt::print(stderr, "{}\n", tokenizer.status().ToString());
    return 1;
  }
  fmt::print("{}: loaded in {:.0f} ms\n", folder.filename().string(),
             (CpuSeconds() - load_begin) * 1e3);
  for (const std::string& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    double best = std::numeric_limits<double>::max();
    std::vector<TokenId> ids;
    for (int run = 0; run < kRuns; ++run) {
      const double begin = CpuSeconds();
      auto encoded = (*tokenizer)->Encode(text, {});
      best = std::min(best, CpuSeconds() - begin);
      if (!encoded.ok()) {
        fmt::print(stderr, "{}: {}\n", file, encoded.status().ToString());
        return 1;
      }
      ids = *std::move(encoded);
    }
    const double decode_begin = CpuSeconds();
    const std::string decoded = (*tokenizer)->Decode(ids, /*skip_special_tokens=*/false);
    const double decode = CpuSeconds() - decode_begin;
    const auto num_ids = static_cast<double>(std::max<size_t>(ids.size(), 1));
    fmt::print(
        "{:40} {:6.1f} ns per byte, {:5.2f} bytes per token, decoding {:5.1f} ns per token, "
        "hash of the token ids {:016x}\n",
        std::filesystem::path(file).stem().string(), best * 1e9 / static_cast<double>(text.size()),
        static_cast<double>(text.size()) / num_ids, decode * 1e9 / num_ids, HashOf(ids));
  }
  return 0;
}

}  // namespace
}  // namespace incipit

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: tokenizer_bench FOLDER FILE...\n");
    return 2;
  }
  return incipit::Run(argv[1], std::vector<std::string>(argv + 2, argv + argc));
}
