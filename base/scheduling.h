// Changes the scheduling of threads by the operating system.
#pragma once

namespace incipit {

// Prevents the calling thread, and the threads that it starts later, from interrupting other
// threads when they wake up. If all CPUs are busy, such a thread waits until a time slice of
// another thread ends, a few milliseconds. Does nothing if the process was started with another
// scheduling policy than the default, or if the kernel refuses the change.
void NeverInterruptOthers();

}  // namespace incipit
