// Runs kernels, which kernels/cuda/device/device.h describes, on the host. Every thread of a
// running block is a fiber, and several blocks run in turns. A seed determines the order of blocks
// and warps, and the moments at which asynchronous copies finish. An error of a kernel becomes a
// fault message (Report::fault).
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
  bool find_races = true;        // report races, which takes about half of the run time
  bool count_accesses = false;   // fill Report::sites, which doubles the run time
  LiveMemory* memory = nullptr;  // the memory that kernels may access; null: any memory
};

struct RunOptions {
  int num_blocks = 1;
  int cluster = 1;  // number of blocks per cluster; a divisor of num_blocks
  uint64_t seed = 1;
  int num_sms = 4;
  bool find_races = true;
  bool count_accesses = false;
};

enum class AccessKind : uint8_t {
  kSharedLoad,
  kSharedStore,
  kSharedAtomic,
  kMatrixLoad,  // reads of LoadMatricesWarp and LoadMatricesTransposedWarp
  kSharedCopy,  // writes of CopyAsync16 to shared memory
  kGlobalLoad,
  kConstantLoad,
  kGlobalStore,
  kGlobalAtomic,
  kGlobalCopy,  // reads of CopyAsync16 from global memory
};

// Numbers of memory accesses of one kind at one source line, and of the transactions that these
// accesses need.
struct SiteCounts {
  std::string file;
  int line = 0;
  AccessKind kind = AccessKind::kSharedLoad;
  int lane_bytes = 0;         // number of bytes that one lane accesses
  int64_t warp_accesses = 0;  // number of accesses; lanes that access memory together count once
  int64_t lane_accesses = 0;
  int64_t bank_conflicts = 0;  // shared memory: number of transactions added by bank conflicts
  int64_t sectors = 0;         // global memory: number of transferred sectors (32 bytes each)
  // Global memory: number of sectors (32 bytes each) if the lanes accessed contiguous bytes.
  int64_t fewest_sectors = 0;
};

struct Report {
  std::string fault;  // message of the fault that stopped the run; empty: no fault
  int64_t num_blocks = 0;
  int64_t switches = 0;       // number of fiber switches
  int64_t multiply_adds = 0;  // number of MultiplyAddWarp calls, counted once per warp
  int64_t load_matrices = 0;  // number of LoadMatricesWarp calls, counted once per warp
  // Numbers of bytes of global memory that the kernels accessed. A byte counts once for each
  // access.
  int64_t load_bytes = 0;      // bytes read by LoadGlobal
  int64_t constant_bytes = 0;  // bytes read by LoadConstant
  int64_t store_bytes = 0;     // bytes written by StoreGlobal
  int64_t atomic_bytes = 0;    // bytes changed by AtomicAddGlobal
  int64_t bulk_bytes = 0;      // bytes read by CopyBulk
  int64_t async_bytes = 0;     // bytes read by CopyAsync16
  // Accesses by source line; empty if count_accesses is false.
  std::vector<SiteCounts> sites;
  int64_t bank_conflicts = 0;  // sum of SiteCounts::bank_conflicts over all source lines
};

// A kernel as plain data, without its C++ type.
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
  const void* args = nullptr;  // the kernel's arguments, which are copied when the run starts
  size_t args_bytes = 0;
  int num_blocks = 1;
  int cluster = 1;
  bool dependent = false;  // true: the kernel may start before the previous kernel has ended
};

// Runs the kernels of `launches` in the order in which a CUDA stream would run them.
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
