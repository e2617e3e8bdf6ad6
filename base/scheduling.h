// Declares a function that changes how the operating system schedules threads.
#pragma once

namespace incipit {

// Sets the scheduling policy SCHED_BATCH for the calling thread and for all threads that the
// calling thread starts later. Threads with this policy do not interrupt other threads. Changes
// nothing if the calling thread has a scheduling policy other than the default (SCHED_OTHER), or if
// the kernel does not allow the change.
void NeverInterruptOthers();

}  // namespace incipit
