// Memory that an operation needs while it runs. Grows to the largest use and stays: a step after
// warm-up allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/check.h"

namespace incipit {

// Aligned to a cache line; contents are lost when it grows.
template <class T>
class Scratch {
 public:
  // At least `size` elements.
  T* Get(int64_t size) {
    if (size > size_) {
      memory_.reset();
      const size_t bytes = (static_cast<size_t>(size) * sizeof(T) + 63) / 64 * 64;
      memory_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
      INCIPIT_CHECK(memory_ != nullptr);
      size_ = size;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T[], Free> memory_;
  int64_t size_ = 0;
};

}  // namespace incipit
