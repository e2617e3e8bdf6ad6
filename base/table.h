// Declares large tables with random access. Tables use large pages if the system supports large
// pages.
#pragma once

#include <cstddef>
#include <vector>

namespace incipit {

// Allocates memory for a table: at least one megabyte in large pages, less than one megabyte by
// operator new. With small pages, most random reads of a large table would also miss the buffer for
// address translation (TLB).
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

// A vector that is created with its final size and never grows.
template <typename T>
using Table = std::vector<T, TableAllocator<T>>;

}  // namespace incipit
