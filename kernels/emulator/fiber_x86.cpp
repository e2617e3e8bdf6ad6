// Implements the switch between fibers for x86-64. Saves only the six registers that a function
// must preserve (System V calling convention).
#include <cstdint>

#include "kernels/emulator/fiber.h"

extern "C" void incipit_switch_stack(void** from, void* to);
asm(R"(
.text
.p2align 4
.globl incipit_switch_stack
.type incipit_switch_stack, @function
incipit_switch_stack:
  pushq %rbx
  pushq %rbp
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbp
  popq %rbx
  ret
.size incipit_switch_stack, .-incipit_switch_stack
)");

namespace incipit::emulator {

struct FiberContext {
  void* stack_pointer = nullptr;
};

void FiberContextDeleter::operator()(FiberContext* context) const { delete context; }

std::unique_ptr<FiberContext, FiberContextDeleter> MakeContext() {
  return std::unique_ptr<FiberContext, FiberContextDeleter>(new FiberContext);
}

void PrepareContext(FiberContext& context, char* stack, size_t bytes, void (*entry)()) {
  constexpr int kSavedRegisters = 6;
  constexpr uintptr_t kAlignment = 16;
  auto* top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(stack + bytes) & -kAlignment);
  // The return address of `entry`. It is null, because `entry` never returns.
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  context.stack_pointer = top;
}

void SwitchContext(FiberContext& from, FiberContext& to) {
  incipit_switch_stack(&from.stack_pointer, to.stack_pointer);
}

}  // namespace incipit::emulator
