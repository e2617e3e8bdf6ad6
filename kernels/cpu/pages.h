// Memory straight from the kernel, in huge pages where it has them: large arrays are read from end
// to end in every step, and huge pages save most of the address translation.
#pragma once

#include <cstddef>
#include <memory>

namespace incipit {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

struct UnmapPages {
  size_t bytes = 0;
  void operator()(void* data) const;
};
using Pages = std::unique_ptr<void, UnmapPages>;

// Zeroed, and costing nothing until it is touched; starts at a huge page. Null if the kernel
// refuses.
Pages MapPages(size_t bytes);

}  // namespace incipit
