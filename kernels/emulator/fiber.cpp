#include "kernels/emulator/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define INCIPIT_FIBERS_NOTIFY_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define INCIPIT_FIBERS_NOTIFY_SANITIZER 1
#endif

#ifdef INCIPIT_FIBERS_NOTIFY_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace incipit::emulator {
#ifdef INCIPIT_FIBERS_NOTIFY_SANITIZER
namespace {
// The fiber that the latest call of Switch() suspended.
thread_local Fiber* g_left = nullptr;
// Upper bound on the size of the stack frame of the function Switch(), in bytes.
constexpr ptrdiff_t kSwitchFrameBytes = 1024;
}  // namespace
#endif

Fiber::Fiber() : context_(MakeContext()) {}

Fiber::~Fiber() {
  if (stack_ != nullptr) munmap(stack_, kStackBytes);
}

void Fiber::Start(void (*entry)(), int color) {
  constexpr int kColors = 32;
  constexpr size_t kColorBytes = 320;
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (stack_ == nullptr) {
    void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    INCIPIT_CHECK(stack != MAP_FAILED);
    stack_ = static_cast<char*>(stack);
    mprotect(stack_, page, PROT_NONE);
    bottom_ = left_at_ = stack_ + page;
    bytes_ = kStackBytes - page;
  }
  fake_stack_ = nullptr;
#ifdef INCIPIT_FIBERS_NOTIFY_SANITIZER
  // Mark the whole stack as accessible for AddressSanitizer, because functions that never returned
  // may have left inaccessible ranges.
  __asan_unpoison_memory_region(left_at_, static_cast<size_t>(stack_ + kStackBytes - left_at_));
#endif
  const size_t shift = static_cast<size_t>(color % kColors) * kColorBytes;
  PrepareContext(*context_, stack_ + page, bytes_ - shift, entry);
}

void Fiber::FinishFirstSwitch() {
#ifdef INCIPIT_FIBERS_NOTIFY_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &g_left->bottom_, &g_left->bytes_);
#endif
}

void Fiber::Switch(Fiber& from, Fiber& to) {
#ifdef INCIPIT_FIBERS_NOTIFY_SANITIZER
  from.left_at_ = static_cast<char*>(__builtin_frame_address(0)) - kSwitchFrameBytes;
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.bottom_, to.bytes_);
  g_left = &from;
  SwitchContext(*from.context_, *to.context_);
  __sanitizer_finish_switch_fiber(from.fake_stack_, &g_left->bottom_, &g_left->bytes_);
#else
  SwitchContext(*from.context_, *to.context_);
#endif
}

}  // namespace incipit::emulator
