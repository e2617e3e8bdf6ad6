// PageBuffer: memory for reads and writes with direct I/O.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/check.h"
#include "tier/segments/record.h"

namespace incipit {

// Page-aligned memory for I/O. REQUIRES: the number of bytes is a multiple of kPageBytes.
class PageBuffer {
 public:
  explicit PageBuffer(size_t num_bytes)
      : num_bytes_(num_bytes),
        memory_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, num_bytes))) {
    INCIPIT_CHECK(memory_ != nullptr);
  }
  std::span<std::byte> bytes() const { return {memory_.get(), num_bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  size_t num_bytes_;
  std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace incipit
