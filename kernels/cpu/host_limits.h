// The memory and the CPUs that this process may use, according to the kernel and its control groups
// (cgroup version 2 or 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace incipit {

// Folders from which the limits are read. Tests use folders of their own.
struct HostPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// Returns the bytes of memory that this process can still allocate. The result is the kernel's
// MemAvailable or, if smaller, the memory that the control groups of this process have left. A
// control group has its limit minus its use left. Page cache that the kernel can drop does not
// count as use.
size_t AvailableHostBytes(const HostPaths& paths = {});

// Returns the number of CPUs in the affinity mask, limited by the CPU quota of the control groups
// (rounded down, at least 1). With more threads than the quota, the kernel would stop some threads
// in every period, and the others would wait for them.
int32_t AvailableCpus(const HostPaths& paths = {});

}  // namespace incipit
