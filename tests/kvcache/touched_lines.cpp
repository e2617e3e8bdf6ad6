#include "tests/kvcache/touched_lines.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace incipit {
namespace {

constexpr size_t kTouchesMax = size_t{1} << 20;

bool recording = false;
std::vector<uintptr_t> touches;

void Touch(const volatile void* address, size_t size) {
  if (!recording || size == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  for (uintptr_t line = begin / 64; line <= (begin + size - 1) / 64; ++line) {
    // The vector must not allocate memory while accesses are recorded.
    INCIPIT_CHECK(touches.size() < kTouchesMax);
    touches.push_back(line);
  }
}

}  // namespace

void BeginTouching() {
  touches.clear();
  touches.reserve(kTouchesMax);
  recording = true;
}

std::vector<uintptr_t> EndTouching() {
  recording = false;
  std::vector<uintptr_t> lines = touches;
  std::ranges::sort(lines);
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines;
}

}  // namespace incipit

using incipit::Touch;

// The functions that instrumented code calls. gcc and clang use the same names.
#define INCIPIT_TOUCH(name, size) \
  extern "C" void name(void* address) { Touch(address, size); }
#define INCIPIT_TOUCH_BOTH(suffix, size)   \
  INCIPIT_TOUCH(__tsan_read##suffix, size) \
  INCIPIT_TOUCH(__tsan_write##suffix, size)

INCIPIT_TOUCH_BOTH(1, 1)
INCIPIT_TOUCH_BOTH(2, 2)
INCIPIT_TOUCH_BOTH(4, 4)
INCIPIT_TOUCH_BOTH(8, 8)
INCIPIT_TOUCH_BOTH(16, 16)
INCIPIT_TOUCH(__tsan_unaligned_read2, 2)
INCIPIT_TOUCH(__tsan_unaligned_read4, 4)
INCIPIT_TOUCH(__tsan_unaligned_read8, 8)
INCIPIT_TOUCH(__tsan_unaligned_read16, 16)
INCIPIT_TOUCH(__tsan_unaligned_write2, 2)
INCIPIT_TOUCH(__tsan_unaligned_write4, 4)
INCIPIT_TOUCH(__tsan_unaligned_write8, 8)
INCIPIT_TOUCH(__tsan_unaligned_write16, 16)

extern "C" {
void __tsan_read_range(void* address, size_t size) { Touch(address, size); }
void __tsan_write_range(void* address, size_t size) { Touch(address, size); }
void __tsan_vptr_read(void** address) { Touch(address, sizeof(*address)); }
void __tsan_vptr_update(void** address, void*) { Touch(address, sizeof(*address)); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}

// Functions of the C library. The linker option --wrap redirects all calls of the program to the
// __wrap_ functions.
void* __real_memcpy(void* to, const void* from, size_t size);
void* __real_memmove(void* to, const void* from, size_t size);
void* __real_memset(void* to, int value, size_t size);
int __real_memcmp(const void* a, const void* b, size_t size);

void* __wrap_memcpy(void* to, const void* from, size_t size) {
  Touch(to, size);
  Touch(from, size);
  return __real_memcpy(to, from, size);
}
void* __wrap_memmove(void* to, const void* from, size_t size) {
  Touch(to, size);
  Touch(from, size);
  return __real_memmove(to, from, size);
}
void* __wrap_memset(void* to, int value, size_t size) {
  Touch(to, size);
  return __real_memset(to, value, size);
}
int __wrap_memcmp(const void* a, const void* b, size_t size) {
  Touch(a, size);
  Touch(b, size);
  return __real_memcmp(a, b, size);
}
}
