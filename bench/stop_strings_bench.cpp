// Measures the time per output token of the search for stop strings. The request has 16 stop
// strings of 1,024 bytes each, the maximum that the server allows. The output texts contain long
// partial matches of the stop strings.
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
      // The stop strings are many letters a and then one b. The output has only letters a. The end
      // of the output therefore always matches the beginning of a stop string, but never the b.
      case kOneLetter:
        strings.push_back(std::string(kBytes - 1 - at, 'a') + "b");
        break;
      // The output repeats this pattern: 500 letters a, then one letter c. The letters a match the
      // beginning of each stop string, but the letter c does not.
      case kNearMatch:
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
// Benchmark arguments: kind of the stop strings (a value of Shape), and number of bytes of each
// output token.
BENCHMARK(BM_StopStrings)
    ->ArgsProduct({{kOneLetter, kNearMatch, kPeriods, kUnrelated}, {1, 4, 16, 128}});

}  // namespace
}  // namespace incipit

BENCHMARK_MAIN();
