// Declares fibers. A fiber is a thread of execution with its own stack, which runs only after an
// explicit switch to the fiber. In the emulator, each CUDA thread is a fiber.
#pragma once

#include <cstddef>
#include <memory>

namespace incipit::emulator {

// Saved registers of a suspended fiber (a thread with its own stack). The members depend on the
// CPU.
struct FiberContext;
struct FiberContextDeleter {
  void operator()(FiberContext* context) const;
};
std::unique_ptr<FiberContext, FiberContextDeleter> MakeContext();
void PrepareContext(FiberContext& context, char* stack, size_t bytes, void (*entry)());
void SwitchContext(FiberContext& from, FiberContext& to);

// A thread of execution with its own stack, which runs only after a call of Switch(). A Fiber must
// not be moved, because other objects store its address.
class Fiber {
 public:
  static constexpr size_t kStackBytes = size_t{128} << 10;

  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // Prepares the fiber: after the next switch to this fiber, the function `entry` runs. `entry`
  // must not return. If the fiber has run before, objects on its stack are not destroyed. `color`
  // (0 or more) moves the start of the stack, so that the stacks of several fibers use different
  // CPU cache lines.
  void Start(void (*entry)(), int color);
  // Completes the first switch to a fiber. REQUIRES: the function `entry` that was passed to
  // Start() calls FinishFirstSwitch() before any other function.
  static void FinishFirstSwitch();

  // Suspends the running fiber `from` and runs the fiber `to`. Returns when another call of
  // Switch() switches back to `from`.
  static void Switch(Fiber& from, Fiber& to);

 private:
  std::unique_ptr<FiberContext, FiberContextDeleter> context_;
  char* stack_ = nullptr;  // memory of the stack; null until Start() is called
  const void* bottom_ = nullptr;
  size_t bytes_ = 0;
  // An address below all stack frames that existed when the fiber was last suspended.
  const char* left_at_ = nullptr;
  void* fake_stack_ = nullptr;
};

}  // namespace incipit::emulator
