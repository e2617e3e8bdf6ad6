// Runs kernels (kernels/cuda/device/device.h says what one is) on the host: every thread of every
// block in flight is a fiber, blocks are interleaved, and the order of blocks and warps and the
// moments at which asynchronous copies land follow from a seed. What is wrong comes back as a fault
// in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/emulator/live_memory.h"

namespace incipit::emulator {

struct DeviceOptions {
  int num_sms = 4;
  uint64_t seed = 1;
  bool find_races = true;        // costs about half of the time
  bool count_accesses = false;   // Report::sites; costs as much again
  LiveMemory* memory = nullptr;  // all that kernels may access; nullptr: any
};

struct RunOptions {
  int num_blocks = 1;
  int cluster = 1;  // blocks of a cluster; divides num_blocks
  uint64_t seed = 1;
  int num_sms = 4;
  bool find_races = true;
  bool count_accesses = false;
};

enum class AccessKind : uint8_t {
  kSharedLoad,
  kSharedStore,
  kSharedAtomic,
  kMatrixLoad,  // LoadMatricesWarp, LoadMatricesTransposedWarp
  kSharedCopy,  // CopyAsync16: where it writes
  kGlobalLoad,
  kConstantLoad,
  kGlobalStore,
  kGlobalAtomic,
  kGlobalCopy,  // CopyAsync16: where it reads
};

// What the accesses at one place in the source cost.
struct SiteCounts {
  std::string file;
  int line = 0;
  AccessKind kind = AccessKind::kSharedLoad;
  int lane_bytes = 0;         // of one lane's access
  int64_t warp_accesses = 0;  // lanes that go together count once
  int64_t lane_accesses = 0;
  int64_t bank_conflicts = 0;  // of shared memory: how often the banks had to be used again
  int64_t sectors = 0;         // of global memory: of 32 bytes, moved
  int64_t fewest_sectors = 0;  // that would do if lanes lay side by side
};

struct Report {
  std::string fault;  // empty: none. The run was given up where it was found
  int64_t num_blocks = 0;
  int64_t switches = 0;       // of fibers
  int64_t multiply_adds = 0;  // MultiplyAddWarp of a warp
  int64_t load_matrices = 0;  // LoadMatricesWarp of a warp
  // Bytes of global memory, each access counted by itself.
  int64_t load_bytes = 0;      // LoadGlobal
  int64_t constant_bytes = 0;  // LoadConstant
  int64_t store_bytes = 0;     // StoreGlobal
  int64_t atomic_bytes = 0;    // AtomicAddGlobal
  int64_t bulk_bytes = 0;      // read by CopyBulk
  int64_t async_bytes = 0;     // read by CopyAsync16
  // With count_accesses only.
  std::vector<SiteCounts> sites;
  int64_t bank_conflicts = 0;  // of all sites
};

// A kernel without its type.
struct KernelCode {
  void (*run)(const void* args) = nullptr;
  const char* name = "";
  int num_threads = 0;
  int shared_bytes = 0;
  int blocks_per_sm = 1;
};

template <class Kernel>
KernelCode CodeOf(const char* name = "kernel") {
  static_assert(Kernel::kThreads % 32 == 0 && Kernel::kThreads <= 1024);
  static_assert(sizeof(typename Kernel::Args) <= 4096);
  static_assert(std::is_trivially_copyable_v<typename Kernel::Args>);
  return {[](const void* args) { Kernel::Run(*static_cast<const typename Kernel::Args*>(args)); },
          name, Kernel::kThreads, Kernel::kSharedBytes, Kernel::kBlocksPerSm};
}

struct KernelLaunch {
  KernelCode code;
  const void* args = nullptr;  // copied at the start of the run
  size_t args_bytes = 0;
  int num_blocks = 1;
  int cluster = 1;
  bool dependent = false;  // may start before the one in front has ended
};

// One after another, as a stream runs them.
Report RunKernels(const DeviceOptions& options, std::span<const KernelLaunch> launches);

template <class Kernel>
Report Run(const RunOptions& options, const typename Kernel::Args& args) {
  const KernelLaunch launch = {.code = CodeOf<Kernel>(),
                               .args = &args,
                               .args_bytes = sizeof(args),
                               .num_blocks = options.num_blocks,
                               .cluster = options.cluster};
  return RunKernels({.num_sms = options.num_sms,
                     .seed = options.seed,
                     .find_races = options.find_races,
                     .count_accesses = options.count_accesses},
                    {&launch, 1});
}

}  // namespace incipit::emulator
