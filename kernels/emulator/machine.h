// The emulated device: grids, the clusters in flight, blocks, warps and threads, and the scheduling
// of threads. Only the emulator's own files include this header; kernels include calls.h, tests
// include run.h.
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

// A Splitmix64 generator. All random decisions of a run depend only on the seed.
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
  int wait_id = 0;  // number of the barrier
  const char* wait_name = "";
  Site site;
  std::vector<PendingCopy> copies;  // sorted by group
  int64_t num_groups = 0;           // number of committed groups
};

// A MultiplyAddWarpgroup that the warp has not waited for yet.
struct Multiplication {
  int a = 0, b = 0;  // offsets in shared memory, in bytes
  int num_blocks = 0;
  float* sums = nullptr;  // sums of lane 0
  int64_t group = 0;
  Site site;
  bool is_computed = false;
};
// The sums to which multiplications add, remembered since FenceMultiplies.
struct WarpSums {
  int num_blocks = 0;
  bool is_taken = false;              // the lanes must not access the sums until EndMultiplies
  std::array<float*, kLanes> home{};  // shape [num_blocks][4] of each lane
  std::vector<float> values;          // shape [16][8 * num_blocks]
};

struct Warp {
  Block* block = nullptr;
  std::array<Thread, kLanes> lanes;
  int64_t number = 0;      // index among all warps of the run
  uint32_t ready = 0;      // mask of the lanes that can run
  bool is_queued = false;  // the warp is in the machine's list of runnable warps
  // The collective operation at which lanes are arriving.
  uint32_t arrived = 0;
  const char* collective = "";
  Site collective_site;
  std::array<void*, kLanes> requests{};
  // The barrier of threads or of a cluster at which lanes are arriving.
  int num_at_barrier = 0;
  const char* barrier = "";
  Site barrier_site;
  // True between ArriveCluster and the end of WaitCluster. `cluster_phase` is the phase of the
  // cluster's barrier at the arrival.
  bool is_at_cluster = false;
  uint32_t cluster_phase = 0;
  std::deque<Multiplication> multiplying;
  std::vector<WarpSums> sums;
  int64_t num_multiply_groups = 0;  // number of committed groups
  size_t num_multiplications = 0;
};

// A barrier that is named by a number (bar.sync).
struct NamedBarrier {
  int num_threads = 0;  // number of threads that the first arriving thread stated
  std::vector<Thread*> waiting;
};

struct MemoryBarrier {
  uint64_t* address = nullptr;
  int num_arrivals = 0;         // arrivals per phase
  int missing_arrivals = 0;     // arrivals that the current phase still needs
  int64_t missing_bytes = 0;    // bytes that are expected and not copied yet
  int64_t unclaimed_bytes = 0;  // expected bytes for which no copy has been issued yet
  uint32_t phase = 0;           // the current phase
  std::vector<Thread*> waiting;
  bool is_fenced = false;  // FenceBarriers was called after InitBarrier
  ClockVector released;    // knowledge of all threads that have arrived
  // Knowledge for threads that waited for the latest phase.
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
  std::array<NamedBarrier, kNamedBarriers> named;  // [0] is the barrier of SyncBlock
  std::vector<std::unique_ptr<MemoryBarrier>> barriers;
  std::unique_ptr<SharedRaces> races;  // null if races are not detected
  std::vector<LearnedOfBlocks> learned;
  std::shared_ptr<const ClockVector> kernels_ended;  // knowledge that WaitForEarlierKernels adds
  // Per warpgroup: the requested multiplications.
  std::vector<std::vector<std::array<int, 3>>> multiplications;
  int num_ended = 0;  // number of threads that have ended
  bool let_next_start = false;

  int num_threads() const { return static_cast<int>(warps.size()) * kLanes; }
  // Returns the offset in shared memory of an address that one of the block's threads uses.
  int OffsetOf(const void* address) const {
    return static_cast<int>(static_cast<const char*>(address) - shared.get());
  }
};

struct Cluster {
  Grid* grid = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  int num_ended = 0;  // number of blocks that have ended
  // The state of the cluster's barrier: the number of warps that have arrived, the function through
  // which they arrived, the number of completed phases, and the waiting threads.
  size_t num_arrived = 0;
  const char* arrived_as = "";
  uint32_t phase = 0;
  std::vector<Thread*> waiting;
};

struct Grid {
  int index = 0;  // position in the stream
  KernelLaunch launch;
  std::vector<std::max_align_t> args;
  std::vector<int> order;  // order in which the clusters start
  size_t num_started = 0;  // number of clusters that have started
  int first_running = 0;   // index of the first grid that was still running when this grid started
  int num_ended = 0;       // number of blocks that have ended
  int num_let_go = 0;      // number of blocks in flight that have called LetNextKernelStart
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

  // ---- called by a kernel's thread

  Thread& current() { return *static_cast<Thread*>(g_running); }
  // Stops the run with the fault `what` at `site`.
  [[noreturn]] void Fail(Site site, std::string what);
  // Records the fault `what`. Unlike Fail, this function may be called from anywhere and returns.
  void SetFault(std::string what);
  bool has_fault() const { return !report_.fault.empty(); }
  // Suspends the running thread until another thread wakes it.
  void WaitFor(Wait wait, int id, const char* name, Site site);
  void Wake(Thread& thread);
  void WakeAll(std::vector<Thread*>& threads);
  // Lets other threads run. The running thread continues some time later.
  void Yield();
  // A function that the last arriving lane calls with the requests of all 32 lanes.
  using Finish = void (*)(Warp& warp);
  void MeetWarp(const char* collective, void* request, Finish finish, Site site);

  // ---- memory (access.cpp)

  // Checks an access like TouchGlobal, for any number of bytes.
  void CheckGlobal(const void* address, int64_t bytes, Access access, Site site);
  GlobalRaces& global_races() { return global_races_; }
  // Counts an access if DeviceOptions::count_accesses is set.
  void Count(AccessKind kind, const void* address, int bytes, Site site);
  AccessCounts* counts() { return options_.count_accesses ? &counts_ : nullptr; }

  // ---- copies (copies.cpp)
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
  // Clusters whose last thread may still be running.
  std::vector<std::unique_ptr<Cluster>> finished_;
  std::vector<Warp*> runnable_;
  std::vector<BulkCopy> bulk_;
  GlobalRaces global_races_;
  AccessCounts counts_;
  uint32_t landing_one_in_ = 1;  // 0: copies finish only when no thread can run
  int quantum_ = 0;              // fiber switches until the scheduler chooses the next warp
};

// Fails the run if the bytes are not in shared memory or not aligned.
void CheckShared(const void* address, int bytes, Site site);
// Fails the run if the access races with another one.
void OrderShared(const void* address, int bytes, Access access, Site site);

// Returns a description of a multiplication that was not waited for, or an empty string.
// REQUIRES: all threads of `block` have ended.
std::string FindUnfinishedMultiplies(const Block& block);

// Returns the beginning of every fault message: block, thread and source line.
std::string Describe(const Thread& thread);

}  // namespace incipit::emulator
