// Fuzzes the KV cache. The input chooses cache options and a sequence of calls. Each call must have
// the same result as a call to a naive cache.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "tests/kvcache/model_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBytesMax = 4096;
  if (size == 0 || size > kBytesMax) return 0;
  size_t next = 1;
  const auto choose = [&](uint32_t count) -> uint64_t {
    uint64_t value = 0;
    for (uint32_t range = 1; range < count && next < size; range <<= 8) {
      value = value << 8 | data[next++];
    }
    return value;
  };
  incipit::ModelRun run(choose, static_cast<incipit::EvictionPolicyKind>(data[0] % 6));
  const std::string error = run.RunWhile([&] { return next < size; });
  if (!error.empty()) fmt::print(stderr, "{}\n", error);
  INCIPIT_CHECK(error.empty());
  return 0;
}
