// Benchmarks of the search for stop strings, per output token. The request has the maximum: 16
// strings of 1,024 bytes each. The texts are chosen to keep partial matches possible for as long as
// possible.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "text/stop_strings.h"

namespace incipit {
namespace {

constexpr int kStrings = 16;
constexpr size_t kBytes = 1024;

enum Shape : int64_t { kOneLetter, kNearMatch, kPeriods, kUnrelated };

std::string Repeated(const std::string& unit, size_t size) {
  std::string text;
  while (text.size() < size) text += unit;
  text.resize(size);
  return text;
}

std::vector<std::string> Strings(Shape shape) {
  std::vector<std::string> strings;
  for (int i = 0; i < kStrings; ++i) {
    const auto at = static_cast<size_t>(i);
    switch (shape) {
      case kOneLetter:  // the text matches all bytes of a stop string except the last
        strings.push_back(std::string(kBytes - 1 - at, 'a') + "b");
        break;
      case kNearMatch:  // the text repeatedly fails to match in the middle of a stop string
        strings.push_back(std::string(kBytes / 2 + at, 'a') + "b" +
                          std::string(kBytes / 2 - 1 - at, 'a'));
        break;
      case kPeriods:
        strings.push_back(Repeated(std::string(at + 1, 'a') + "c", kBytes - 1) + "b");
        break;
      case kUnrelated:
        strings.push_back(Repeated(std::string(1, static_cast<char>('A' + i)) + "xyz", kBytes));
        break;
    }
  }
  return strings;
}

void BM_StopStrings(benchmark::State& state) {
  const auto shape = static_cast<Shape>(state.range(0));
  const auto token_bytes = static_cast<size_t>(state.range(1));
  StopStrings stop(std::make_shared<const StopStringSet>(Strings(shape)));
  const std::string unit = shape == kOneLetter   ? "a"
                           : shape == kNearMatch ? std::string(500, 'a') + "c"
                           : shape == kPeriods   ? "aaaaaaaac"
                                                 : "once upon a time ";
  const std::string text = Repeated(unit, 64 * 1024 * token_bytes);
  size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(stop.Push(std::string_view(text).substr(at, token_bytes), false));
    at += token_bytes;
    if (at == text.size()) at = 0;
  }
}
// Arguments: shape of the stop strings, number of bytes of a token. A token has 1 byte (a letter)
// or 128 bytes (the longest token of common vocabularies).
BENCHMARK(BM_StopStrings)
    ->ArgsProduct({{kOneLetter, kNearMatch, kPeriods, kUnrelated}, {1, 4, 16, 128}});

}  // namespace
}  // namespace incipit

BENCHMARK_MAIN();
