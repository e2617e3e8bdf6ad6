#include "kernels/cpu/threads.h"

#include <sched.h>

#include <vector>

namespace incipit {

void Threads::Pin() {
  pinned_for_ = std::this_thread::get_id();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // If the machine has more CPUs than a cpu_set_t can hold, sched_getaffinity fails, and no thread
  // is bound to a CPU.
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
#pragma omp parallel num_threads(count_)
  {
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpus[static_cast<size_t>(omp_get_thread_num()) % cpus.size()], &own);
    sched_setaffinity(0, sizeof(own), &own);
  }
}

}  // namespace incipit
