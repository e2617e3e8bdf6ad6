// What this process may use of the machine: memory and CPUs, as the kernel and its control groups
// (version 2 or 1) allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace incipit {

// Where the limits are read; tests point it at a tree of their own.
struct HostPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// MemAvailable, and no more than what each control group above this process leaves (its limit
// minus its use, page cache that can be dropped not counted).
size_t AvailableHostBytes(const HostPaths& paths = {});

// CPUs of the affinity mask, and no more than the control groups' CPU quota, rounded down; at least
// one. Threads above the quota would be stopped for part of every period and hold up the others.
int32_t AvailableCpus(const HostPaths& paths = {});

}  // namespace incipit
