// Allocates working memory of an operation. The memory grows to the largest requested size and is
// not freed between steps. Large memory is allocated in huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "kernels/cpu/host_memory.h"

namespace incipit {

// Working memory for elements of type T, aligned to a cache line. If the memory grows, its previous
// contents are lost.
template <class T>
class Scratch {
 public:
  // Returns the address of memory for at least `size` elements.
  T* Get(int64_t size) {
    if (size > size_) {
      memory_.reset();
      pages_.reset();
      const size_t bytes = (static_cast<size_t>(size) * sizeof(T) + 63) / 64 * 64;
      if (bytes >= kHugePageBytes) {
        pages_ = MapPages(bytes);
        data_ = static_cast<T*>(pages_.get());
      } else {
        memory_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
        data_ = memory_.get();
      }
      INCIPIT_CHECK(data_ != nullptr);
      size_ = size;
    }
    return data_;
  }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T[], Free> memory_;
  Pages pages_;
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace incipit
