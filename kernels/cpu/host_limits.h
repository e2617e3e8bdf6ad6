// Returns the memory and the number of CPUs that this process may use, according to the kernel and
// the control groups of the process (cgroup version 2 or 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace incipit {

// Folders from which the limits are read. Tests pass folders with test files.
struct HostPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// Returns the number of bytes of memory that this process can still allocate: the minimum of the
// kernel's MemAvailable and the free memory of each control group of this process. The free memory
// of a control group is its limit minus its use. Page cache that the kernel can drop does not count
// as use.
size_t AvailableHostBytes(const HostPaths& paths = {});

// Returns the number of CPUs in the affinity mask. The CPU quota of the control groups, rounded
// down to at least 1, limits the result. If threads exceeded the quota, the kernel would stop some
// threads in every period of the quota, and the other threads would wait for the stopped threads.
int32_t AvailableCpus(const HostPaths& paths = {});

}  // namespace incipit
