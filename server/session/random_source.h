// Random numbers that no client can predict from the time or from earlier runs of the server.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>

#include "base/random.h"

namespace incipit {

// Generates 64 random bits in each call of Next. The operating system supplies a random key for the
// generator. Thread-safe.
class RandomSource {
 public:
  RandomSource() {
    std::random_device device;
    key_ = uint64_t{device()} << 32 | device();
  }

  uint64_t Next() { return RandomBits(key_, /*stream=*/0, num_calls_.fetch_add(1)); }

 private:
  uint64_t key_ = 0;
  std::atomic<uint64_t> num_calls_{0};
};

}  // namespace incipit
