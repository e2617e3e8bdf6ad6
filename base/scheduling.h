// Declares a function that changes how the operating system schedules threads.
#pragma once

namespace incipit {

// Sets the scheduling policy SCHED_BATCH for the calling thread and for all threads that the
// calling thread starts later. A thread with this policy does not interrupt another thread. Does
// nothing if the calling thread does not have the default policy, or if the kernel refuses the
// change.
void NeverInterruptOthers();

}  // namespace incipit
