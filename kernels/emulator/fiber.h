// Declares fibers. A fiber is a thread of execution with its own stack that runs only after an
// explicit switch. In the emulator, each CUDA thread is a fiber.
#pragma once

#include <cstddef>
#include <memory>

namespace incipit::emulator {

// The saved registers of a suspended fiber. fiber_x86.cpp switches fibers on x86-64,
// fiber_ucontext.cpp on all other CPUs.
struct FiberContext;
struct FiberContextDeleter {
  void operator()(FiberContext* context) const;
};
std::unique_ptr<FiberContext, FiberContextDeleter> MakeContext();
void PrepareContext(FiberContext& context, char* stack, size_t bytes, void (*entry)());
void SwitchContext(FiberContext& from, FiberContext& to);

// A stack on which code runs after Switch. A fiber is not movable, because AddressSanitizer and
// other fibers keep the address of the fiber. A suspended fiber may be abandoned and started again.
// Objects on the abandoned stack are not destroyed.
class Fiber {
 public:
  static constexpr size_t kStackBytes = size_t{128} << 10;

  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // Makes the next switch to this fiber call `entry`, which must not return. The start of the first
  // frame depends on `color`, which may be any number. Frames of different fibers therefore use
  // different lines of the CPU cache, although the distance of the stacks is a power of two.
  void Start(void (*entry)(), int color);
  // Completes the first switch to a fiber. `entry` must call this function first.
  static void FinishFirstSwitch();

  // Suspends `from`, the running fiber, and runs `to`. Returns when another fiber switches back to
  // `from`.
  static void Switch(Fiber& from, Fiber& to);

 private:
  std::unique_ptr<FiberContext, FiberContextDeleter> context_;
  char* stack_ = nullptr;  // memory of the stack; null if Start was never called
  const void* bottom_ = nullptr;
  size_t bytes_ = 0;
  const char* left_at_ = nullptr;  // an address below all frames when this fiber was last suspended
  void* fake_stack_ = nullptr;
};

}  // namespace incipit::emulator
