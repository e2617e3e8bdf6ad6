// Control of how the operating system schedules threads.
#pragma once

namespace incipit {

// From now on, the calling thread and the threads that it starts do not interrupt other threads at
// their wake-up. If all CPUs are busy, such a thread runs at the end of a time slice, a few
// milliseconds later. Does nothing if the process was started with another scheduling policy, or if
// the kernel refuses the change.
void NeverInterruptOthers();

}  // namespace incipit
