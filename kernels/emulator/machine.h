// Declares the emulated device: its kernels (grids), clusters, blocks, warps and threads, and the
// scheduler that runs the threads. Only the source files of the emulator include this header.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/emulator/access_counts.h"
#include "kernels/emulator/calls.h"
#include "kernels/emulator/clocks.h"
#include "kernels/emulator/fiber.h"
#include "kernels/emulator/global_races.h"
#include "kernels/emulator/run.h"
#include "kernels/emulator/shared_races.h"

namespace incipit::emulator {

inline constexpr uint32_t kAllLanes = ~0U;
inline constexpr int kNamedBarriers = 16;

struct Warp;
struct Block;
struct Cluster;
struct Grid;

// A random number generator (Splitmix64). All random decisions of a run depend only on the seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  uint32_t Below(size_t bound) { return static_cast<uint32_t>((Next() >> 32) * bound >> 32); }
  bool OneIn(size_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

enum class Wait : uint8_t {
  kNothing,
  kWarp,
  kBlockBarrier,
  kMemoryBarrier,
  kCluster,
  kGrid,
  kEnded
};

struct PendingCopy {
  char* shared = nullptr;
  const char* global = nullptr;
  int bytes = 0;
  int64_t group = 0;
  bool landed = false;
};

struct Thread : Place {
  Warp* warp = nullptr;
  std::unique_ptr<Fiber> fiber;
  Wait wait = Wait::kNothing;
  // Identifies the barrier for which the thread waits: the number of a barrier, or the offset of an
  // mbarrier in shared memory in bytes.
  int wait_id = 0;
  const char* wait_name = "";
  Site site;
  // Asynchronous copies for which the thread has not waited yet, sorted by copy group.
  std::vector<PendingCopy> copies;
  int64_t num_groups = 0;  // number of groups of copies that the thread has committed
};

// A matrix product that a warp has requested with MultiplyAddWarpgroup, and for which the warp has
// not waited yet.
struct Multiplication {
  int a = 0, b = 0;  // offsets in shared memory of both factors, in bytes
  int num_blocks = 0;
  float* sums = nullptr;  // address at which lane 0 stores its sums
  int64_t group = 0;
  Site site;
  bool is_computed = false;
};
// The sums (results) of the matrix products of a warp, which MultiplyAddWarpgroup updates. A
// WarpSums exists from FenceMultiplies to EndMultiplies.
struct WarpSums {
  int num_blocks = 0;
  // True after a MultiplyAddWarpgroup: the lanes must not access their sums until EndMultiplies.
  bool is_taken = false;
  // Element i is the address of the sums of lane i, of shape [num_blocks][4].
  std::array<float*, kLanes> home{};
  std::vector<float> values;  // current sums of the warp, of shape [16][8 * num_blocks]
};

struct Warp {
  Block* block = nullptr;
  std::array<Thread, kLanes> lanes;
  int64_t number = 0;      // index of this warp among all warps of the run
  uint32_t ready = 0;      // bit i is set if lane i is not waiting
  bool is_queued = false;  // true if the warp is in Machine::runnable_
  // Bit i is set if lane i has called the warp function `collective` and waits for the other lanes.
  uint32_t arrived = 0;
  const char* collective = "";
  Site collective_site;
  std::array<void*, kLanes> requests{};
  // Number of lanes that have called the barrier function `barrier`, modulo 32.
  int num_at_barrier = 0;
  const char* barrier = "";
  Site barrier_site;
  // True from the warp's arrival at the barrier of its cluster until the warp has waited for this
  // barrier. `cluster_phase` is the phase of the barrier at the arrival.
  bool is_at_cluster = false;
  uint32_t cluster_phase = 0;
  std::deque<Multiplication> multiplying;
  std::vector<WarpSums> sums;
  // Number of groups of multiplications that the warp has committed.
  int64_t num_multiply_groups = 0;
  size_t num_multiplications = 0;
};

// A barrier that a kernel identifies by a number, as the PTX instruction bar.sync does.
struct NamedBarrier {
  // Number of threads that must reach the barrier. The first thread at the barrier sets this
  // number.
  int num_threads = 0;
  std::vector<Thread*> waiting;
};

struct MemoryBarrier {
  uint64_t* address = nullptr;
  int num_arrivals = 0;         // number of arrivals that complete a phase of the barrier
  int missing_arrivals = 0;     // number of arrivals that are missing in the current phase
  int64_t missing_bytes = 0;    // number of expected bytes that have not been copied yet
  int64_t unclaimed_bytes = 0;  // number of expected bytes for which no copy was requested yet
  uint32_t phase = 0;           // number of completed phases of the barrier
  std::vector<Thread*> waiting;
  bool is_fenced = false;  // true if FenceBarriers was called after InitBarrier
  // Events that happened before the arrivals in the current phase of the barrier.
  ClockVector released;
  // Events that happened before the end of the latest completed phase of the barrier.
  std::shared_ptr<const ClockVector> known;
};

struct BulkCopy {
  Block* block = nullptr;
  int barrier = 0;
  char* shared = nullptr;
  const char* global = nullptr;
  uint32_t bytes = 0;
};

struct Block {
  Cluster* cluster = nullptr;
  int index = 0;
  int rank = 0;
  std::vector<std::unique_ptr<Warp>> warps;
  struct FreeShared {
    void operator()(char* memory) const;
  };
  std::unique_ptr<char, FreeShared> shared;
  // Element i is the barrier with the number i. SyncBlock uses barrier 0.
  std::array<NamedBarrier, kNamedBarriers> named;
  std::vector<std::unique_ptr<MemoryBarrier>> barriers;
  // Detector of races in shared memory. Null if races are not detected.
  std::unique_ptr<SharedRaces> races;
  std::vector<LearnedOfBlocks> learned;
  // Vector clock that contains only the end of the earlier kernels, for WaitForEarlierKernels.
  std::shared_ptr<const ClockVector> kernels_ended;
  // Element i lists the matrix products that warpgroup i (four warps) has requested: the offsets of
  // the two factors in shared memory, and the number of groups of 8 columns.
  std::vector<std::vector<std::array<int, 3>>> multiplications;
  int num_ended = 0;  // number of threads of this block that have ended
  bool let_next_start = false;

  int num_threads() const { return static_cast<int>(warps.size()) * kLanes; }
  // Returns the offset of `address` in the shared memory of this block, in bytes.
  int OffsetOf(const void* address) const {
    return static_cast<int>(static_cast<const char*>(address) - shared.get());
  }
};

struct Cluster {
  Grid* grid = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  int num_ended = 0;  // number of blocks of this cluster that have ended
  // State of the cluster's barrier. `num_arrived` is the number of warps that have arrived in the
  // current phase, and `arrived_as` is the function that they called. `phase` is the number of
  // completed phases.
  size_t num_arrived = 0;
  const char* arrived_as = "";
  uint32_t phase = 0;
  std::vector<Thread*> waiting;
};

struct Grid {
  int index = 0;  // index of this kernel (grid) in the stream, from 0
  KernelLaunch launch;
  std::vector<std::max_align_t> args;
  // Indices of the kernel's clusters, in the order in which the clusters start.
  std::vector<int> order;
  size_t num_started = 0;  // number of clusters of this kernel that have started
  // Index of the first kernel of the stream that had not ended when this kernel started.
  int first_running = 0;
  int num_ended = 0;  // number of blocks of this kernel that have ended
  // Number of blocks that have called LetNextKernelStart and have not ended.
  int num_let_go = 0;
  std::vector<std::unique_ptr<Cluster>> in_flight;
  // Threads of the next kernel that wait until this kernel has ended.
  std::vector<Thread*> waiting;

  bool has_ended() const { return num_ended == launch.num_blocks; }
};

class Machine {
 public:
  Machine(const DeviceOptions& options, std::span<const KernelLaunch> launches);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Returns the emulated device that is running on the calling host thread.
  static Machine& Get();

  Report Run();

  Thread& current() { return *static_cast<Thread*>(g_running); }
  // Stops the run. The report contains the fault `what` with the running thread and the source line
  // `site`.
  [[noreturn]] void Fail(Site site, std::string what);
  // Stores the fault `what` in the report, and returns. Unlike Fail, this function may be called
  // when no CUDA thread is running.
  void SetFault(std::string what);
  bool has_fault() const { return !report_.fault.empty(); }
  // Suspends the running thread until another thread wakes it. The report of a deadlock uses
  // `wait`, `id`, `name` and `site` to describe what the thread waits for.
  void WaitFor(Wait wait, int id, const char* name, Site site);
  void Wake(Thread& thread);
  void WakeAll(std::vector<Thread*>& threads);
  // Lets other threads run before the running thread continues.
  void Yield();
  // A function that computes the results of a warp operation, such as a shuffle, for all 32 lanes.
  // The lane that arrives last calls the function. Warp::requests holds the arguments of all lanes.
  using Finish = void (*)(Warp& warp);
  void MeetWarp(const char* collective, void* request, Finish finish, Site site);

  // ---- memory accesses, implemented in access.cpp

  // Checks an access of global memory. Stops the run with a fault if the `bytes` bytes at `address`
  // are not allocated, or if the access is a race.
  void CheckGlobal(const void* address, int64_t bytes, Access access, Site site);
  GlobalRaces& global_races() { return global_races_; }
  // Counts an access of memory if DeviceOptions::count_accesses is true.
  void Count(AccessKind kind, const void* address, int bytes, Site site);
  AccessCounts* counts() { return options_.count_accesses ? &counts_ : nullptr; }

  // ---- asynchronous copies, implemented in copies.cpp
  void Issue(const BulkCopy& copy);
  void Arrived(Block& block, int barrier);
  static void Land(PendingCopy& copy);

  Random& random() { return random_; }
  Report& report() { return report_; }
  std::span<const std::unique_ptr<Grid>> grids() const { return grids_; }

 private:
  static void RunThread();
  void StartClusters();
  bool MayStart(const Grid& grid) const;
  void StartCluster(Grid& grid, int index);
  void StartBlock(Cluster& cluster, int index, int rank);
  void StartThread(Thread& thread);
  void EndThread(Thread& thread);
  void EndCluster(Cluster& cluster);
  void RunWarp(Warp& warp);
  void SwitchTo(Thread& thread, Fiber& from);
  void LandSome();
  void LandBulk(size_t which);
  void ReportDeadlock();

  DeviceOptions options_;
  Random random_;
  Report report_;
  Fiber scheduler_;
  Machine* outer_ = nullptr;
  std::vector<std::unique_ptr<Grid>> grids_;
  // Clusters of which all blocks have ended. They are destroyed later, because the fiber of the
  // last thread may still use its cluster.
  std::vector<std::unique_ptr<Cluster>> finished_;
  std::vector<Warp*> runnable_;
  std::vector<BulkCopy> bulk_;
  GlobalRaces global_races_;
  AccessCounts counts_;
  // In each iteration of Run, one bulk copy is completed with probability 1 / landing_one_in_. If
  // landing_one_in_ is 0, a bulk copy is completed only when no thread can run.
  uint32_t landing_one_in_ = 1;
  // Number of switches between lanes of the running warp that are left before the scheduler chooses
  // another warp.
  int quantum_ = 0;
};

// Stops the run with a fault if the `bytes` bytes at `address` are not within the shared memory of
// the running thread's block, or if `address` is not aligned.
void CheckShared(const void* address, int bytes, Site site);
// Stops the run with a fault if an access of shared memory by the running thread is a race.
void OrderShared(const void* address, int bytes, Access access, Site site);

// Returns a fault message if a warp of `block` has requested a MultiplyAddWarpgroup without waiting
// for it, or if the warps of a warpgroup have computed different numbers of products. Otherwise
// returns an empty string.
// REQUIRES: all threads of `block` have ended.
std::string FindUnfinishedMultiplies(const Block& block);

// Returns the beginning of a fault message about `thread`: its block, its number and its source
// line.
std::string Describe(const Thread& thread);

}  // namespace incipit::emulator
