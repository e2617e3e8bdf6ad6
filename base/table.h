// Declares Table, a large array for random access. If the system supports large memory pages, a
// Table of at least 1 MiB uses large pages.
#pragma once

#include <cstddef>
#include <vector>

namespace incipit {

// Allocates `bytes` bytes for a table. A table of at least one megabyte is allocated in large
// pages, because random reads then cause fewer misses in the address translation cache (TLB).
void* AllocateTable(size_t bytes);
void FreeTable(void* table, size_t bytes) noexcept;

template <typename T>
struct TableAllocator {
  using value_type = T;

  TableAllocator() = default;
  template <typename U>
  TableAllocator(const TableAllocator<U>&) {}

  T* allocate(size_t count) { return static_cast<T*>(AllocateTable(count * sizeof(T))); }
  void deallocate(T* table, size_t count) noexcept { FreeTable(table, count * sizeof(T)); }
  friend bool operator==(const TableAllocator&, const TableAllocator&) { return true; }
};

// A vector for random access, in large memory pages. A Table is created with its final size and
// never grows.
template <typename T>
using Table = std::vector<T, TableAllocator<T>>;

}  // namespace incipit
