#include "base/table.h"

#include <sys/mman.h>

#include <new>

namespace incipit {
namespace {

constexpr size_t kLargePageBytes = size_t{2} << 20;
constexpr size_t kLargeTableBytes = size_t{1} << 20;
constexpr std::align_val_t kLineAlignment{64};

size_t WholePages(size_t bytes) {
  return (bytes + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
}

}  // namespace

void* AllocateTable(size_t bytes) {
  if (bytes < kLargeTableBytes) return ::operator new(bytes, kLineAlignment);
  const size_t whole = WholePages(bytes);
  void* table = ::operator new (whole, std::align_val_t{kLargePageBytes});
  // madvise asks the kernel for large pages. Without large pages, the table still works, but
  // slower.
  madvise(table, whole, MADV_HUGEPAGE);
  return table;
}

void FreeTable(void* table, size_t bytes) noexcept {
  if (bytes < kLargeTableBytes) {
    ::operator delete(table, kLineAlignment);
  } else {
    ::operator delete (table, std::align_val_t{kLargePageBytes});
  }
}

}  // namespace incipit
