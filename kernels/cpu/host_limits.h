// Returns the memory and the number of CPUs that this process may use. The limits of the operating
// system and of the process's control groups (cgroup version 2 or 1) apply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace incipit {

// Root folders of the files from which the limits are read (/proc and the control groups). Tests
// pass folders with test files.
struct HostPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// Returns the number of bytes that this process can still allocate: the minimum of MemAvailable in
// /proc/meminfo and the free memory of each control group of the process. Page cache that can be
// dropped counts as free.
size_t AvailableHostBytes(const HostPaths& paths = {});

// Returns the number of CPUs that this process may use: the CPUs in its affinity mask, but at most
// the CPU quota of its control groups (in whole CPUs, at least 1).
int32_t AvailableCpus(const HostPaths& paths = {});

}  // namespace incipit
