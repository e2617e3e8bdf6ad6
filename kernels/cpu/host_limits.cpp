#include "kernels/cpu/host_limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace incipit {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// Returns the first number in the file `path`, or nullopt if the file holds "max" or does not
// exist.
std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// Returns the number after `key` in the file `path`, which has lines of the form "key number".
std::optional<uint64_t> ReadField(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

// Returns the folder of the control group `path` below `mount`, then the folders of its parent
// groups, and last `mount`. A process in a container may see only the folder `mount`.
std::vector<std::string> WithAncestors(const std::string& mount, std::string path) {
  std::vector<std::string> folders;
  while (!path.empty() && path != "/") {
    folders.push_back(mount + path);
    path.erase(path.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

// Returns the path of this process's control group, read from /proc/self/cgroup. `controller`: name
// of a controller of cgroup version 1; empty for cgroup version 2.
std::optional<std::string> GroupPath(const HostPaths& paths, std::string_view controller) {
  std::ifstream file(paths.proc + "/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    std::string name;
    bool found = controller.empty() && second == first + 1;
    while (std::getline(names, name, ',')) found = found || name == controller;
    if (found) return line.substr(second + 1);
  }
  return std::nullopt;
}

std::vector<std::string> Folders(const HostPaths& paths, std::string_view controller) {
  const auto path = GroupPath(paths, controller);
  if (!path.has_value()) return {};
  const std::string mount =
      controller.empty() ? paths.cgroup : paths.cgroup + "/" + std::string(controller);
  return WithAncestors(mount, *path);
}

uint64_t Left(std::optional<uint64_t> limit, std::optional<uint64_t> used,
              std::optional<uint64_t> droppable) {
  if (!limit.has_value() || !used.has_value()) return kUnlimited;
  const uint64_t held = *used - std::min(*used, droppable.value_or(0));
  return *limit > held ? *limit - held : 0;
}

uint64_t MemoryLeftInGroups(const HostPaths& paths) {
  uint64_t left = kUnlimited;
  for (const std::string& folder : Folders(paths, "")) {
    left = std::min(left,
                    Left(ReadNumber(folder + "/memory.max"), ReadNumber(folder + "/memory.current"),
                         ReadField(folder + "/memory.stat", "inactive_file")));
  }
  for (const std::string& folder : Folders(paths, "memory")) {
    left = std::min(left, Left(ReadNumber(folder + "/memory.limit_in_bytes"),
                               ReadNumber(folder + "/memory.usage_in_bytes"),
                               ReadField(folder + "/memory.stat", "total_inactive_file")));
  }
  return left;
}

// Returns a CPU quota as a number of whole CPUs. `quota` and `period` are in microseconds.
uint64_t Cpus(std::optional<uint64_t> quota, std::optional<uint64_t> period) {
  if (!quota.has_value() || period.value_or(0) == 0) return kUnlimited;
  return std::max<uint64_t>(1, *quota / *period);
}

uint64_t CpusInGroups(const HostPaths& paths) {
  uint64_t cpus = kUnlimited;
  for (const std::string& folder : Folders(paths, "")) {
    std::ifstream file(folder + "/cpu.max");
    uint64_t quota = 0, period = 0;
    if (file >> quota >> period) cpus = std::min(cpus, Cpus(quota, period));
  }
  for (const std::string& folder : Folders(paths, "cpu")) {
    // The file cpu.cfs_quota_us holds -1 if there is no quota. ReadNumber then returns 2^64 - 1.
    const auto quota = ReadNumber(folder + "/cpu.cfs_quota_us");
    if (quota.value_or(kUnlimited) > kUnlimited / 2) continue;
    cpus = std::min(cpus, Cpus(quota, ReadNumber(folder + "/cpu.cfs_period_us")));
  }
  return cpus;
}

uint64_t CpusOfAffinityMask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint64_t>(CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

size_t AvailableHostBytes(const HostPaths& paths) {
  const auto kib = ReadField(paths.proc + "/meminfo", "MemAvailable:");
  const uint64_t free_pages_bytes = static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) *
                                    static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t available = kib.has_value() ? *kib * 1024 : free_pages_bytes;
  return std::min(available, MemoryLeftInGroups(paths));
}

int32_t AvailableCpus(const HostPaths& paths) {
  return static_cast<int32_t>(std::min(CpusOfAffinityMask(), CpusInGroups(paths)));
}

}  // namespace incipit
