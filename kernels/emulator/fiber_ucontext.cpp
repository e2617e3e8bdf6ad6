// Implements the switch between fibers for all CPUs except x86-64. This switch is slower than the
// switch of fiber_x86.cpp, because ucontext also saves the signal mask.
#include <ucontext.h>

#include "kernels/emulator/fiber.h"

namespace incipit::emulator {

struct FiberContext {
  ucontext_t context;
};

void FiberContextDeleter::operator()(FiberContext* context) const { delete context; }

std::unique_ptr<FiberContext, FiberContextDeleter> MakeContext() {
  return std::unique_ptr<FiberContext, FiberContextDeleter>(new FiberContext{});
}

void PrepareContext(FiberContext& context, char* stack, size_t bytes, void (*entry)()) {
  getcontext(&context.context);
  context.context.uc_stack.ss_sp = stack;
  context.context.uc_stack.ss_size = bytes;
  context.context.uc_link = nullptr;
  makecontext(&context.context, entry, 0);
}

void SwitchContext(FiberContext& from, FiberContext& to) {
  swapcontext(&from.context, &to.context);
}

}  // namespace incipit::emulator
