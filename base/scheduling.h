// Declares a function that changes how the operating system schedules threads.
#pragma once

namespace incipit {

// Sets the scheduling policy SCHED_BATCH for the calling thread and for all threads that it starts
// later. A thread with this policy does not interrupt another thread. Does nothing if the calling
// thread has another policy than the default, or if the kernel refuses.
void NeverInterruptOthers();

}  // namespace incipit
