// Runs CUDA kernels on the CPU, and detects errors such as races. Each CUDA thread is a fiber (a
// thread that the emulator schedules). A random seed determines the order in which the threads run.
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
  bool find_races = true;  // true: races are detected, which doubles the run time
  // True: memory accesses are counted (Report::sites), which doubles the run time.
  bool count_accesses = false;
  // The global memory that kernels may access. Null: kernels may access any memory.
  LiveMemory* memory = nullptr;
};

struct RunOptions {
  int num_blocks = 1;
  int cluster = 1;  // number of thread blocks per cluster; must be a divisor of num_blocks
  uint64_t seed = 1;
  int num_sms = 4;
  bool find_races = true;
  bool count_accesses = false;
};

enum class AccessKind : uint8_t {
  kSharedLoad,
  kSharedStore,
  kSharedAtomic,
  // reads of shared memory by LoadMatricesWarp() and LoadMatricesTransposedWarp()
  kMatrixLoad,
  kSharedCopy,  // writes to shared memory by CopyAsync16()
  kGlobalLoad,
  kConstantLoad,
  kGlobalStore,
  kGlobalAtomic,
  kGlobalCopy,  // reads of global memory by CopyAsync16()
};

// Counts the memory accesses of one kind at one source line of a kernel.
struct SiteCounts {
  std::string file;
  int line = 0;
  AccessKind kind = AccessKind::kSharedLoad;
  int lane_bytes = 0;  // number of bytes that a lane accesses at a time
  // Number of accesses by warps. If all 32 lanes of a warp make an access together, the access
  // counts once.
  int64_t warp_accesses = 0;
  int64_t lane_accesses = 0;
  // Number of additional transactions of shared memory that bank conflicts cause.
  int64_t bank_conflicts = 0;
  int64_t sectors = 0;  // number of sectors (32 bytes) of global memory that were transferred
  // Number of sectors (32 bytes) of global memory that would be transferred if each warp accessed
  // contiguous bytes.
  int64_t fewest_sectors = 0;
};

struct Report {
  std::string fault;  // error message if a kernel made an error, otherwise empty
  int64_t num_blocks = 0;
  int64_t switches = 0;  // number of switches between CUDA threads
  // Number of products of a 16 x 16 matrix and a 16 x 8 matrix that warps have computed.
  int64_t multiply_adds = 0;
  int64_t load_matrices = 0;  // number of calls of LoadMatricesWarp(), counted once per warp
  // Number of bytes that kernels read by LoadGlobal(). A byte that is read twice counts twice.
  int64_t load_bytes = 0;
  int64_t constant_bytes = 0;  // number of bytes that kernels read by LoadConstant()
  int64_t store_bytes = 0;     // number of bytes that kernels wrote by StoreGlobal()
  int64_t atomic_bytes = 0;    // number of bytes that kernels changed by AtomicAddGlobal()
  int64_t bulk_bytes = 0;      // number of bytes that kernels copied by CopyBulk()
  int64_t async_bytes = 0;     // number of bytes that kernels copied by CopyAsync16()
  // Numbers of memory accesses by source line. Empty if DeviceOptions::count_accesses is false.
  std::vector<SiteCounts> sites;
  int64_t bank_conflicts = 0;  // sum of SiteCounts::bank_conflicts over all source lines
};

// A kernel without its C++ type (type erasure).
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
  // Arguments of the kernel, which RunKernels() copies.
  const void* args = nullptr;
  size_t args_bytes = 0;
  int num_blocks = 1;
  int cluster = 1;
  bool dependent = false;  // true: the kernel may start before the previous kernel has ended
};

// Runs the kernels in `launches` as a CUDA stream does, until all kernels have ended or a kernel
// makes an error.
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
