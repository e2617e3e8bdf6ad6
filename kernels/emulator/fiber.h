// A fiber: a thread of execution with its own stack, which the program switches to explicitly. In
// the emulator, each CUDA thread is a fiber.
#pragma once

#include <cstddef>
#include <memory>

namespace incipit::emulator {

// The saved state of a fiber. fiber_x86.cpp implements the switch for x86-64, fiber_ucontext.cpp
// for all other CPUs.
struct FiberContext;
struct FiberContextDeleter {
  void operator()(FiberContext* context) const;
};
std::unique_ptr<FiberContext, FiberContextDeleter> MakeContext();
void PrepareContext(FiberContext& context, char* stack, size_t bytes, void (*entry)());
void SwitchContext(FiberContext& from, FiberContext& to);

// A stack that can be switched to. Not movable, because the sanitizer and other fibers keep its
// address. A fiber may be abandoned and started again; the objects in the abandoned frames are not
// destroyed.
class Fiber {
 public:
  static constexpr size_t kStackBytes = size_t{128} << 10;

  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // Makes the next switch to this fiber call `entry`, which must not return. `color` is any number
  // and shifts the frames, because stacks whose distance is a power of two would share few cache
  // lines.
  void Start(void (*entry)(), int color);
  // Completes the first switch to a fiber. `entry` must call this function first.
  static void FinishFirstSwitch();

  // Suspends `from`, the running fiber, and runs `to`. Returns when another fiber switches back to
  // `from`.
  static void Switch(Fiber& from, Fiber& to);

 private:
  std::unique_ptr<FiberContext, FiberContextDeleter> context_;
  char* stack_ = nullptr;  // stack of a started fiber; null for the thread's own stack
  const void* bottom_ = nullptr;
  size_t bytes_ = 0;
  const char* left_at_ = nullptr;  // address below all frames at the last switch away
  void* fake_stack_ = nullptr;
};

}  // namespace incipit::emulator
