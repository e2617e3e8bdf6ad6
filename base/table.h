// Large tables that are read at random, in large pages where the system gives them.
#pragma once

#include <cstddef>
#include <vector>

namespace incipit {

// Memory for tables of a megabyte or more comes in whole large pages: with small ones most random
// reads of such a table also miss the translation buffer. Less memory comes from operator new.
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

// A vector that is made once, at its full size.
template <typename T>
using Table = std::vector<T, TableAllocator<T>>;

}  // namespace incipit
