// Vector clocks of the threads of a thread block. The clocks show whether a memory access of one
// thread happened before a memory access of another thread.
//
// Each warp has a logical clock, which advances when the warp synchronises with other threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace incipit::emulator {

inline constexpr int kLanes = 32;  // number of lanes of a warp

using Clock = uint32_t;
// A vector clock. The first elements belong to the threads of the thread block, the next to the
// mbarriers (barriers in shared memory). The last two elements belong to the other thread blocks of
// the cluster and to the earlier kernels.
using ClockVector = std::vector<Clock>;

class Clocks {
 public:
  static constexpr int kMostBarriers = 64;

  explicit Clocks(int num_threads);

  int num_warps() const { return static_cast<int>(warps_.size()); }
  // Returns the vector-clock index of mbarrier number `barrier` (a barrier in shared memory). The
  // element counts how often this mbarrier was completed.
  int bulk_agent(int barrier) const { return num_threads_ + barrier; }
  // Returns the vector-clock index for accesses by other thread blocks of the cluster. The element
  // counts barriers of the cluster, like ClusterArrivals().
  int remote_agent() const { return num_threads_ + kMostBarriers; }
  // Returns the vector-clock index for accesses by earlier kernels. In a thread's vector clock, the
  // element is 1 if these accesses happened before the thread's next access, otherwise 0.
  int kernels_agent() const { return num_threads_ + kMostBarriers + 1; }

  // Returns the current clock value of the warp of thread `thread`.
  Clock Now(int thread) const { return warps_[static_cast<size_t>(thread / 32)].now; }
  // Returns how many times all warps of the cluster have called ArriveCluster().
  Clock ClusterArrivals() const { return num_cluster_arrivals_; }
  // Returns true if an access by `agent` (a thread or an asynchronous copy) at clock value `clock`
  // happened before the latest barrier of the cluster.
  bool IsKnownToCluster(int agent, Clock clock) const {
    return cluster_known_ != nullptr && clock <= (*cluster_known_)[static_cast<size_t>(agent)];
  }
  // Returns true if an access by `agent` (a thread or an asynchronous copy) at clock value `clock`
  // happened before the next access of thread `thread`.
  bool Knows(int thread, int agent, Clock clock) const;
  // Returns true if the accesses of all lanes of warp `warp` at clock value `clock` happened before
  // the next access of thread `thread`.
  bool KnowsWarp(int thread, int warp, Clock clock);

  void SyncWarp(int warp) { SyncWarps({&warp, 1}); }
  void SyncWarps(std::span<const int> warps);
  // Records that warp number `warp` of this thread block has arrived at the barrier of the cluster.
  void ArriveAtCluster(int warp);
  // Completes the barrier of the cluster. `orders_reads`: true if the barrier also orders reads of
  // other thread blocks' shared memory. REQUIRES: ArriveAtCluster was called for all warps of all
  // `blocks` (the thread blocks of the cluster).
  static void MeetAsCluster(std::span<Clocks* const> blocks, bool orders_reads);
  // Records that all accesses before the cluster's barrier happened before the next access of
  // thread `thread`. REQUIRES: `thread` has waited for the barrier.
  void WaitForCluster(int thread);

  // Merges the vector clock of thread `thread` into `into`, and advances the clock of the thread's
  // warp.
  void Release(int thread, ClockVector& into);
  std::shared_ptr<const ClockVector> Snapshot(int thread);
  // Records that all accesses in the vector clock `known` happened before the next access of thread
  // `thread`. `source`: number of an mbarrier, kMostBarriers for earlier kernels, or kMostBarriers
  // + 1 for the cluster. Replaces an earlier vector clock of the same source.
  void Acquire(int thread, int source, std::shared_ptr<const ClockVector> known);
  ClockVector MakeVector() const { return ClockVector(static_cast<size_t>(num_agents_)); }

 private:
  struct WarpClock {
    Clock now = 1;
    // Clock value of the warp when the warp passed its latest barrier.
    Clock within = 0;
    // Clock value at which the warp arrived at the cluster's barrier.
    Clock arrived = 0;
    ClockVector known;
  };
  struct Acquired {
    int source = 0;
    std::shared_ptr<const ClockVector> known;
  };
  struct ThreadClock {
    // Vector clocks that the thread has acquired since the latest barrier of its warp.
    std::vector<Acquired> acquired;
    // Cache of the function KnowsWarp(). All accesses of warp i up to clock value whole_warps[i]
    // happened before the next access of this thread.
    std::vector<Clock> whole_warps;
  };

  static void Join(ClockVector& into, const ClockVector& other);

  int num_threads_ = 0;
  int num_agents_ = 0;
  Clock num_cluster_arrivals_ = 0;
  // Merged vector clocks of the warps that have arrived at the current barrier of the cluster.
  ClockVector arriving_;
  // Vector clock of the latest barrier that all thread blocks of the cluster have reached.
  std::shared_ptr<const ClockVector> cluster_known_;
  std::vector<WarpClock> warps_;
  std::vector<ThreadClock> threads_;
};

}  // namespace incipit::emulator
