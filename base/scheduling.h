// Declares functions for the threads of the operating system.
#pragma once

namespace incipit {

// Sets the scheduling policy SCHED_BATCH for the calling thread and for all threads that the
// calling thread starts later. Threads with this policy do not interrupt other threads. Changes
// nothing if the calling thread has a scheduling policy other than the default (SCHED_OTHER), or if
// the kernel does not allow the change.
void NeverInterruptOthers();

// Sets the name of the calling thread, which programs like `top -H` show. REQUIRES: `name` has at
// most 15 characters.
void NameThisThread(const char* name);

}  // namespace incipit
