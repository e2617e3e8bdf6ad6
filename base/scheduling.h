// How the kernel treats threads.
#pragma once

namespace incipit {

// From here on the calling thread, and those that it starts, do not interrupt others when they are
// woken: where every CPU is taken they run at the end of a time slice, a few milliseconds later. A
// policy that was given from outside stays; so does this thread's where the kernel refuses.
void NeverInterruptOthers();

}  // namespace incipit
