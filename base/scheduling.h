// Declares a function that changes how the operating system schedules threads.
#pragma once

namespace incipit {

// Sets a scheduling policy for the calling thread and the threads that it starts later. If all CPUs
// are busy when such a thread becomes runnable, it waits for the end of a time slice instead of
// interrupting another thread. Does nothing if the process does not have the default policy, or if
// the kernel refuses the change.
void NeverInterruptOthers();

}  // namespace incipit
