// Declares the emulated device: its grids, clusters, blocks, warps and threads, and the scheduler
// that runs the threads. Only the emulator's own files include this header. Kernels include
// calls.h, tests include run.h.
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

// A Splitmix64 random number generator. The seed determines all random decisions of a run.
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
  // The barrier that the thread waits for: its number, or the byte offset of an mbarrier.
  int wait_id = 0;
  const char* wait_name = "";
  Site site;
  std::vector<PendingCopy> copies;  // sorted by copy group
  int64_t num_groups = 0;           // number of copy groups that the thread has committed
};

// A MultiplyAddWarpgroup that the warp has requested and not waited for yet.
struct Multiplication {
  int a = 0, b = 0;  // offsets of both factors in shared memory, in bytes
  int num_blocks = 0;
  float* sums = nullptr;  // address of the sums of lane 0
  int64_t group = 0;
  Site site;
  bool is_computed = false;
};
// The sums of a warp's lanes to which multiplications add, from FenceMultiplies to EndMultiplies.
struct WarpSums {
  int num_blocks = 0;
  bool is_taken = false;  // true: the lanes must not access the sums before EndMultiplies
  std::array<float*, kLanes> home{};  // element i: the sums of lane i, of shape [num_blocks][4]
  std::vector<float> values;          // the current sums, of shape [16][8 * num_blocks]
};

struct Warp {
  Block* block = nullptr;
  std::array<Thread, kLanes> lanes;
  int64_t number = 0;      // index of the warp among all warps of the run
  uint32_t ready = 0;      // bit i is set if lane i can run
  bool is_queued = false;  // the warp is in Machine::runnable_
  // Bit i is set if lane i has arrived at the collective operation `collective`.
  uint32_t arrived = 0;
  const char* collective = "";
  Site collective_site;
  std::array<void*, kLanes> requests{};
  // Number of lanes that have arrived at the barrier function `barrier`.
  int num_at_barrier = 0;
  const char* barrier = "";
  Site barrier_site;
  // True between ArriveCluster and the end of WaitCluster. When the warp arrives, `cluster_phase`
  // becomes the phase of the cluster's barrier.
  bool is_at_cluster = false;
  uint32_t cluster_phase = 0;
  std::deque<Multiplication> multiplying;
  std::vector<WarpSums> sums;
  int64_t num_multiply_groups = 0;  // number of multiplication groups that the warp has committed
  size_t num_multiplications = 0;
};

// A barrier that the kernel identifies by a number (bar.sync).
struct NamedBarrier {
  int num_threads = 0;  // number of threads that must arrive, as the first arriving thread states
  std::vector<Thread*> waiting;
};

struct MemoryBarrier {
  uint64_t* address = nullptr;
  int num_arrivals = 0;         // number of arrivals that complete a phase
  int missing_arrivals = 0;     // number of arrivals that the current phase still needs
  int64_t missing_bytes = 0;    // number of expected bytes that have not been copied yet
  int64_t unclaimed_bytes = 0;  // number of expected bytes for which no copy has been issued yet
  uint32_t phase = 0;           // number of completed phases
  std::vector<Thread*> waiting;
  bool is_fenced = false;  // FenceBarriers was called after InitBarrier
  ClockVector released;    // events known to the threads that have arrived, at their arrivals
  // The events that a thread acquires when it waits for the latest completed phase.
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
  // Element i is the barrier with number i. Number 0 is the barrier of SyncBlock.
  std::array<NamedBarrier, kNamedBarriers> named;
  std::vector<std::unique_ptr<MemoryBarrier>> barriers;
  std::unique_ptr<SharedRaces> races;  // null if races are not detected
  std::vector<LearnedOfBlocks> learned;
  // The events that a thread acquires in WaitForEarlierKernels.
  std::shared_ptr<const ClockVector> kernels_ended;
  // Element i holds the multiplications that warpgroup i has requested: the offsets of both
  // factors, and the number of blocks of 8 columns.
  std::vector<std::vector<std::array<int, 3>>> multiplications;
  int num_ended = 0;  // number of threads of the block that have ended
  bool let_next_start = false;

  int num_threads() const { return static_cast<int>(warps.size()) * kLanes; }
  // Returns the offset of `address` in the block's shared memory, in bytes.
  int OffsetOf(const void* address) const {
    return static_cast<int>(static_cast<const char*>(address) - shared.get());
  }
};

struct Cluster {
  Grid* grid = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  int num_ended = 0;  // number of blocks of the cluster that have ended
  // The state of the cluster's barrier: the number of arrived warps, the function through which the
  // warps arrived, the number of completed phases, and the waiting threads.
  size_t num_arrived = 0;
  const char* arrived_as = "";
  uint32_t phase = 0;
  std::vector<Thread*> waiting;
};

struct Grid {
  int index = 0;  // position of the grid in the stream, from 0
  KernelLaunch launch;
  std::vector<std::max_align_t> args;
  std::vector<int> order;  // indices of the clusters, in the order in which the clusters start
  size_t num_started = 0;  // number of clusters of the grid that have started
  int first_running = 0;   // index of the first grid that was still running when this grid started
  int num_ended = 0;       // number of blocks of the grid that have ended
  int num_let_go = 0;  // number of running blocks of the grid that have called LetNextKernelStart
  std::vector<std::unique_ptr<Cluster>> in_flight;
  std::vector<Thread*> waiting;  // threads of the next grid that wait for the end of this grid

  bool has_ended() const { return num_ended == launch.num_blocks; }
};

class Machine {
 public:
  Machine(const DeviceOptions& options, std::span<const KernelLaunch> launches);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Returns the machine that runs on this host thread.
  static Machine& Get();

  Report Run();

  // ---- functions that a kernel's thread calls

  Thread& current() { return *static_cast<Thread*>(g_running); }
  // Stops the run and reports the fault `what` of the running thread at source line `site`.
  [[noreturn]] void Fail(Site site, std::string what);
  // Records the fault `what` and returns. Unlike Fail, this function may also be called outside of
  // a kernel's thread.
  void SetFault(std::string what);
  bool has_fault() const { return !report_.fault.empty(); }
  // Suspends the running thread until another thread calls Wake for the running thread.
  void WaitFor(Wait wait, int id, const char* name, Site site);
  void Wake(Thread& thread);
  void WakeAll(std::vector<Thread*>& threads);
  // Lets other threads run before the running thread continues.
  void Yield();
  // The type of a function that computes a collective operation of a warp. The last arriving lane
  // calls the function. Warp::requests holds the arguments of all 32 lanes.
  using Finish = void (*)(Warp& warp);
  void MeetWarp(const char* collective, void* request, Finish finish, Site site);

  // ---- memory accesses, implemented in access.cpp

  // Checks that the `bytes` bytes of global memory at `address` are allocated and that the access
  // is no race.
  void CheckGlobal(const void* address, int64_t bytes, Access access, Site site);
  GlobalRaces& global_races() { return global_races_; }
  // Counts an access if DeviceOptions::count_accesses is set.
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
  // Clusters that have ended, and whose last thread may still be running.
  std::vector<std::unique_ptr<Cluster>> finished_;
  std::vector<Warp*> runnable_;
  std::vector<BulkCopy> bulk_;
  GlobalRaces global_races_;
  AccessCounts counts_;
  // In each iteration of Run, a bulk copy finishes with probability 1 / landing_one_in_. If the
  // value is 0, a bulk copy finishes only when no thread can run.
  uint32_t landing_one_in_ = 1;
  int quantum_ = 0;  // number of switches between lanes until the scheduler chooses the next warp
};

// Stops the run with a fault if the `bytes` bytes at `address` are outside of the block's shared
// memory, or not aligned.
void CheckShared(const void* address, int bytes, Site site);
// Stops the run with a fault if no barrier orders this access of shared memory after a conflicting
// access.
void OrderShared(const void* address, int bytes, Access access, Site site);

// Returns a description of a MultiplyAddWarpgroup that the block's threads requested and did not
// wait for. Returns an empty string if there is none.
// REQUIRES: all threads of `block` have ended.
std::string FindUnfinishedMultiplies(const Block& block);

// Returns the first part of a fault message: the block, the thread and the source line of `thread`.
std::string Describe(const Thread& thread);

}  // namespace incipit::emulator
