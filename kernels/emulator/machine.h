// Declares the state of the emulated device (kernels, clusters, blocks, warps and threads) and its
// scheduler. Only source files of the emulator include this header.
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

// A random number generator (Splitmix64).
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
  // The barrier for which the thread waits: the number of a named barrier, or the byte offset of an
  // mbarrier (a barrier in shared memory).
  int wait_id = 0;
  const char* wait_name = "";
  Site site;
  // Asynchronous copies by CopyAsync16() for which the thread has not waited yet, oldest first.
  std::vector<PendingCopy> copies;
  int64_t num_groups = 0;  // number of calls of CommitCopies() by this thread
};

// An asynchronous matrix product that a warp has requested, and for which the warp has not waited
// yet.
struct Multiplication {
  int a = 0, b = 0;  // byte offsets in shared memory of the two factors of the product
  int num_blocks = 0;
  float* sums = nullptr;  // address of the variables of lane 0 that receive results of the product
  int64_t group = 0;
  Site site;
  bool is_computed = false;
};
// The results of asynchronous matrix products of a warp. This object exists from the call of
// FenceMultiplies() to the call of EndMultiplies().
struct WarpSums {
  int num_blocks = 0;
  // True from the call of MultiplyAddWarpgroup() to the call of EndMultiplies(). During this time,
  // the kernel must not access the results.
  bool is_taken = false;
  // Element i is the address of the results of lane i, an array of shape [num_blocks][4].
  std::array<float*, kLanes> home{};
  std::vector<float> values;  // current results of the warp, of shape [16][8 * num_blocks]
};

struct Warp {
  Block* block = nullptr;
  std::array<Thread, kLanes> lanes;
  // Number that identifies the warp. No two emulated warps have the same number.
  int64_t number = 0;
  uint32_t ready = 0;      // bit i is set if lane i can run
  bool is_queued = false;  // true if Machine::runnable_ contains this warp
  // Bit i is set if lane i has called the function named `collective` and waits there for the other
  // lanes of the warp.
  uint32_t arrived = 0;
  const char* collective = "";
  Site collective_site;
  std::array<void*, kLanes> requests{};
  // Number of lanes that have called the barrier function whose name is stored in `barrier`, at
  // most 31. The call of the last lane resets the number to 0.
  int num_at_barrier = 0;
  const char* barrier = "";
  Site barrier_site;
  // True from the arrival of the warp at the barrier of its cluster until the warp has finished
  // waiting at this barrier.
  bool is_at_cluster = false;
  // Value of Cluster::phase when the warp arrived at the barrier of its cluster.
  uint32_t cluster_phase = 0;
  std::deque<Multiplication> multiplying;
  std::vector<WarpSums> sums;
  // Number of calls of CommitMultiplies() by the warp.
  int64_t num_multiply_groups = 0;
  size_t num_multiplications = 0;
};

// A barrier of a thread block, identified by a number (as in the PTX instruction bar.sync).
struct NamedBarrier {
  // Number of threads that must reach the barrier before they all continue.
  int num_threads = 0;
  std::vector<Thread*> waiting;
};

struct MemoryBarrier {
  uint64_t* address = nullptr;
  int num_arrivals = 0;      // number of arrivals that each phase of the barrier needs
  int missing_arrivals = 0;  // number of arrivals that the current phase still needs
  // Number of bytes that ArriveExpecting() announced and that have not been copied yet.
  int64_t missing_bytes = 0;
  // Number of bytes that ArriveExpecting() announced, but for which CopyBulk() has not been called
  // yet.
  int64_t unclaimed_bytes = 0;
  uint32_t phase = 0;  // number of times that the barrier was completed
  std::vector<Thread*> waiting;
  bool is_fenced = false;  // true if FenceBarriers() was called after InitBarrier()
  // Merged vector clocks of all threads that have arrived at the barrier.
  ClockVector released;
  // Copy of `released` (the merged vector clocks) at the latest completion of the barrier.
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
  // Barriers of this thread block. The index of an element is the number of the barrier.
  // SyncBlock() uses barrier 0.
  std::array<NamedBarrier, kNamedBarriers> named;
  std::vector<std::unique_ptr<MemoryBarrier>> barriers;
  // Detector of races in shared memory. Null if races are not detected.
  std::unique_ptr<SharedRaces> races;
  std::vector<LearnedOfBlocks> learned;
  // Vector clock that each thread merges into its own vector clock in WaitForEarlierKernels(), to
  // record that the earlier kernels have ended.
  std::shared_ptr<const ClockVector> kernels_ended;
  // Element i lists the matrix products of warpgroup i (four warps). Each product has three
  // numbers: two byte offsets of its factors in shared memory, and its number of columns divided by
  // 8.
  std::vector<std::vector<std::array<int, 3>>> multiplications;
  int num_ended = 0;  // number of threads of this thread block that have ended
  bool let_next_start = false;

  int num_threads() const { return static_cast<int>(warps.size()) * kLanes; }
  // Returns the offset in bytes of `address` in the shared memory of this thread block.
  int OffsetOf(const void* address) const {
    return static_cast<int>(static_cast<const char*>(address) - shared.get());
  }
};

struct Cluster {
  Grid* grid = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  int num_ended = 0;       // number of thread blocks of this cluster that have ended
  size_t num_arrived = 0;  // number of warps that have arrived at the barrier of the cluster
  // Name of the function by which warps arrived at the cluster's barrier.
  const char* arrived_as = "";
  uint32_t phase = 0;  // number of completed barriers of the cluster
  std::vector<Thread*> waiting;
};

struct Grid {
  int index = 0;  // index of this kernel launch (grid) in the order of launch, from 0
  KernelLaunch launch;
  std::vector<std::max_align_t> args;
  // Indices of the kernel's clusters, in the order in which the clusters start.
  std::vector<int> order;
  size_t num_started = 0;  // number of clusters of this kernel that have started
  // Index of the oldest kernel that had not ended when this kernel started.
  int first_running = 0;
  int num_ended = 0;  // number of thread blocks of this kernel that have ended
  // Number of running thread blocks of this kernel that have called LetNextKernelStart().
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
  // Stops the emulation with an error message: the text `what`, the running thread, and the source
  // line `site`.
  [[noreturn]] void Fail(Site site, std::string what);
  // Stores the error message `what` in the report if it is the first error. Unlike Fail(),
  // SetFault() returns.
  void SetFault(std::string what);
  bool has_fault() const { return !report_.fault.empty(); }
  // Suspends the running thread until Wake() is called for this thread. The parameters describe the
  // wait. An error message about a deadlock contains this description.
  void WaitFor(Wait wait, int id, const char* name, Site site);
  void Wake(Thread& thread);
  void WakeAll(std::vector<Thread*>& threads);
  // Lets other threads run before the running thread continues.
  void Yield();
  // A function that computes the results of a warp operation, such as a shuffle, from the arguments
  // of all 32 lanes (Warp::requests).
  using Finish = void (*)(Warp& warp);
  void MeetWarp(const char* collective, void* request, Finish finish, Site site);

  // ---- memory accesses, implemented in access.cpp

  // Stops the emulation with an error if the `bytes` bytes at `address` are not allocated global
  // memory, or if the access is a race.
  void CheckGlobal(const void* address, int64_t bytes, Access access, Site site);
  GlobalRaces& global_races() { return global_races_; }
  // Counts a memory access by the running thread if DeviceOptions::count_accesses is true.
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
  // Clusters that have ended. Run() destroys them.
  std::vector<std::unique_ptr<Cluster>> finished_;
  std::vector<Warp*> runnable_;
  std::vector<BulkCopy> bulk_;
  GlobalRaces global_races_;
  AccessCounts counts_;
  // Before the scheduler runs a warp, one bulk copy in flight may finish; the probability is
  // 1 / landing_one_in_. If landing_one_in_ is 0, bulk copies finish only if no thread can run.
  uint32_t landing_one_in_ = 1;
  // Number of thread switches that the running warp may still make before the scheduler chooses
  // another warp.
  int quantum_ = 0;
};

// Stops the emulation with an error if the `bytes` bytes at `address` are outside of the thread
// block's shared memory or not aligned.
void CheckShared(const void* address, int bytes, Site site);
// Records an access of shared memory by the running thread. Stops the emulation with an error if
// the access is a race.
void OrderShared(const void* address, int bytes, Access access, Site site);

// Returns an error message if matrix products of the thread block `block` are incomplete, otherwise
// an empty string. REQUIRES: all threads of `block` have ended.
std::string FindUnfinishedMultiplies(const Block& block);

// Returns a text with the thread block, the number and the source line of `thread`.
std::string Describe(const Thread& thread);

}  // namespace incipit::emulator
