// Runs kernels (described in kernels/cuda/device/device.h) on the host. Every thread of every block
// in flight is a fiber, and blocks are interleaved. A seed determines the order of blocks and warps
// and the moments at which asynchronous copies finish. An error of a kernel is returned as a fault
// message.
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
  bool find_races = true;        // detecting races takes about half of the run time
  bool count_accesses = false;   // fills Report::sites; doubles the run time
  LiveMemory* memory = nullptr;  // memory that kernels may access; null: any memory
};

struct RunOptions {
  int num_blocks = 1;
  int cluster = 1;  // blocks per cluster; a divisor of num_blocks
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
  kSharedCopy,  // CopyAsync16: writes to shared memory
  kGlobalLoad,
  kConstantLoad,
  kGlobalStore,
  kGlobalAtomic,
  kGlobalCopy,  // CopyAsync16: reads from global memory
};

// The memory accesses at one source line and their cost.
struct SiteCounts {
  std::string file;
  int line = 0;
  AccessKind kind = AccessKind::kSharedLoad;
  int lane_bytes = 0;         // bytes of one lane's access
  int64_t warp_accesses = 0;  // lanes that access together count once
  int64_t lane_accesses = 0;
  int64_t bank_conflicts = 0;  // shared memory: additional accesses because of bank conflicts
  int64_t sectors = 0;         // global memory: sectors of 32 bytes that were moved
  int64_t fewest_sectors = 0;  // global memory: sectors that contiguous lanes would need
};

struct Report {
  std::string fault;  // empty: no fault; a fault stops the run
  int64_t num_blocks = 0;
  int64_t switches = 0;       // number of fiber switches
  int64_t multiply_adds = 0;  // calls of MultiplyAddWarp, counted per warp
  int64_t load_matrices = 0;  // calls of LoadMatricesWarp, counted per warp
  // Bytes of global memory that were accessed. Every access counts.
  int64_t load_bytes = 0;      // LoadGlobal
  int64_t constant_bytes = 0;  // LoadConstant
  int64_t store_bytes = 0;     // StoreGlobal
  int64_t atomic_bytes = 0;    // AtomicAddGlobal
  int64_t bulk_bytes = 0;      // read by CopyBulk
  int64_t async_bytes = 0;     // read by CopyAsync16
  // Filled only if count_accesses is set.
  std::vector<SiteCounts> sites;
  int64_t bank_conflicts = 0;  // sum over all sites
};

// A kernel without its C++ type.
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
  bool dependent = false;  // may start before the previous kernel has ended
};

// Runs the launches in order, like a stream.
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
