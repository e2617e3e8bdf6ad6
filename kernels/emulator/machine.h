// The emulated device: grids, the clusters of them in flight, blocks, warps and threads, and who
// runs next. The emulator's own files only; kernels see calls.h, tests see run.h.
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

// Splitmix64: all randomness of a run comes from its seed.
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
  int wait_id = 0;  // which barrier
  const char* wait_name = "";
  Site site;
  std::vector<PendingCopy> copies;  // in the order of their groups
  int64_t num_groups = 0;           // committed
};

// A MultiplyAddWarpgroup that a warp has not waited for.
struct Multiplication {
  int a = 0, b = 0;  // bytes of shared memory
  int num_blocks = 0;
  float* sums = nullptr;  // of lane 0
  int64_t group = 0;
  Site site;
  bool is_computed = false;
};
// What multiplications add to, from a FenceMultiplies on.
struct WarpSums {
  int num_blocks = 0;
  bool is_taken = false;              // from the lanes, until EndMultiplies
  std::array<float*, kLanes> home{};  // [num_blocks][4] of each lane
  std::vector<float> values;          // [16][8 * num_blocks]
};

struct Warp {
  Block* block = nullptr;
  std::array<Thread, kLanes> lanes;
  int64_t number = 0;      // of the run
  uint32_t ready = 0;      // lanes that could run
  bool is_queued = false;  // among the machine's runnable warps
  // The collective that lanes are coming to.
  uint32_t arrived = 0;
  const char* collective = "";
  Site collective_site;
  std::array<void*, kLanes> requests{};
  // The barrier, of threads or of a cluster, that lanes are coming to.
  int num_at_barrier = 0;
  const char* barrier = "";
  Site barrier_site;
  // Between arriving at the cluster's barrier, in this phase of it, and having waited.
  bool is_at_cluster = false;
  uint32_t cluster_phase = 0;
  std::deque<Multiplication> multiplying;
  std::vector<WarpSums> sums;
  int64_t num_multiply_groups = 0;  // committed
  size_t num_multiplications = 0;
};

// bar.sync: by number.
struct NamedBarrier {
  int num_threads = 0;  // that the first to come named
  std::vector<Thread*> waiting;
};

struct MemoryBarrier {
  uint64_t* address = nullptr;
  int num_arrivals = 0;         // of each phase
  int missing_arrivals = 0;     // of this phase
  int64_t missing_bytes = 0;    // expected and not landed
  int64_t unclaimed_bytes = 0;  // expected, and no copy has been issued for them
  uint32_t phase = 0;           // the one that is not over
  std::vector<Thread*> waiting;
  bool is_fenced = false;                    // FenceBarriers has followed InitBarrier
  ClockVector released;                      // by all that have arrived
  std::shared_ptr<const ClockVector> known;  // to those who waited for the latest phase
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
  std::array<NamedBarrier, kNamedBarriers> named;  // [0] is SyncBlock's
  std::vector<std::unique_ptr<MemoryBarrier>> barriers;
  std::unique_ptr<SharedRaces> races;  // or none
  std::vector<LearnedOfBlocks> learned;
  std::shared_ptr<const ClockVector> kernels_ended;              // what WaitForEarlierKernels tells
  std::vector<std::vector<std::array<int, 3>>> multiplications;  // of each warpgroup, as asked for
  int num_ended = 0;                                             // threads
  bool let_next_start = false;

  int num_threads() const { return static_cast<int>(warps.size()) * kLanes; }
  // Of one of its threads' addresses.
  int OffsetOf(const void* address) const {
    return static_cast<int>(static_cast<const char*>(address) - shared.get());
  }
};

struct Cluster {
  Grid* grid = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  int num_ended = 0;  // blocks
  // Its barrier: warps that have arrived, as what; how often all have; who waits for that.
  size_t num_arrived = 0;
  const char* arrived_as = "";
  uint32_t phase = 0;
  std::vector<Thread*> waiting;
};

struct Grid {
  int index = 0;  // in the stream
  KernelLaunch launch;
  std::vector<std::max_align_t> args;
  std::vector<int> order;  // in which clusters start
  size_t num_started = 0;  // clusters
  int first_running = 0;   // of the grids, when this one started
  int num_ended = 0;       // blocks
  int num_let_go = 0;      // blocks in flight that let the next kernel start
  std::vector<std::unique_ptr<Cluster>> in_flight;
  std::vector<Thread*> waiting;  // of the next grid, for the end of this one

  bool has_ended() const { return num_ended == launch.num_blocks; }
};

class Machine {
 public:
  Machine(const DeviceOptions& options, std::span<const KernelLaunch> launches);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // The one that runs on this host thread.
  static Machine& Get();

  Report Run();

  // ---- from a kernel's thread
  Thread& current() { return *static_cast<Thread*>(g_running); }
  // Gives up the run.
  [[noreturn]] void Fail(Site site, std::string what);
  // The same from anywhere; returns.
  void SetFault(std::string what);
  bool has_fault() const { return !report_.fault.empty(); }
  // Until somebody wakes this thread.
  void WaitFor(Wait wait, int id, const char* name, Site site);
  void Wake(Thread& thread);
  void WakeAll(std::vector<Thread*>& threads);
  // Lets others run; this thread goes on some time later.
  void Yield();
  // With the requests of all 32 lanes, by the last lane to come to it.
  using Finish = void (*)(Warp& warp);
  void MeetWarp(const char* collective, void* request, Finish finish, Site site);

  // ---- memory (access.cpp)
  // As TouchGlobal, of any number of bytes.
  void CheckGlobal(const void* address, int64_t bytes, Access access, Site site);
  GlobalRaces& global_races() { return global_races_; }
  // Nothing unless accesses are counted.
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
  std::vector<std::unique_ptr<Cluster>> finished_;  // whose last thread may still be running
  std::vector<Warp*> runnable_;
  std::vector<BulkCopy> bulk_;
  GlobalRaces global_races_;
  AccessCounts counts_;
  uint32_t landing_one_in_ = 1;  // 0: only when nothing else can happen
  int quantum_ = 0;              // switches until the scheduler chooses again
};

// That `address` is in shared memory and aligned.
void CheckShared(const void* address, int bytes, Site site);
// That nothing races with it.
void OrderShared(const void* address, int bytes, Access access, Site site);

// Of a block whose threads have ended; empty if there are none.
std::string FindUnfinishedMultiplies(const Block& block);

// What every message starts with.
std::string Describe(const Thread& thread);

}  // namespace incipit::emulator
