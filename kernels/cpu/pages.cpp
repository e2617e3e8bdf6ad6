#include "kernels/cpu/pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace incipit {

void UnmapPages::operator()(void* data) const { munmap(data, bytes); }

Pages MapPages(size_t bytes) {
  bytes = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* const mapping = mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  // What lies before the first huge page and after the last goes back.
  char* const begin = static_cast<char*>(mapping);
  const size_t skipped =
      (kHugePageBytes - reinterpret_cast<uintptr_t>(begin) % kHugePageBytes) % kHugePageBytes;
  if (skipped > 0) munmap(begin, skipped);
  if (skipped < kHugePageBytes) munmap(begin + skipped + bytes, kHugePageBytes - skipped);
  madvise(begin + skipped, bytes, MADV_HUGEPAGE);  // a hint: without it only speed changes
  return Pages(begin + skipped, UnmapPages{bytes});
}

}  // namespace incipit
