// A stack of its own, switched to and from by name: what every CUDA thread is in the emulator.
#pragma once

#include <cstddef>
#include <memory>

namespace incipit::emulator {

// The switch itself: fiber_x86.cpp for x86-64, fiber_ucontext.cpp for everything else.
struct FiberContext;
struct FiberContextDeleter {
  void operator()(FiberContext* context) const;
};
std::unique_ptr<FiberContext, FiberContextDeleter> MakeContext();
void PrepareContext(FiberContext& context, char* stack, size_t bytes, void (*entry)());
void SwitchContext(FiberContext& from, FiberContext& to);

// Not movable: its address is what the sanitizer and other fibers know. A fiber may be abandoned in
// the middle and started anew; what its frames held is then not destroyed.
class Fiber {
 public:
  static constexpr size_t kStackBytes = size_t{128} << 10;

  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // The next switch to it calls `entry`, which must not return. `color` (any number) shifts the
  // frames, as stacks a power of two apart would share few lines of the cache.
  void Start(void (*entry)(), int color);
  // What `entry` does first.
  static void FinishFirstSwitch();

  // Leaves `from`, which is running, and returns when somebody switches to it.
  static void Switch(Fiber& from, Fiber& to);

 private:
  std::unique_ptr<FiberContext, FiberContextDeleter> context_;
  char* stack_ = nullptr;  // of whoever called Start; others run on the stack they have
  const void* bottom_ = nullptr;
  size_t bytes_ = 0;
  const char* left_at_ = nullptr;  // below all frames, when it was left last
  void* fake_stack_ = nullptr;
};

}  // namespace incipit::emulator
