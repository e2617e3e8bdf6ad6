// Stores the happens-before order of the threads of one block as vector clocks. A thread knows the
// events that happened before its current event. The clock of a warp numbers the events of its
// lanes. The clock advances whenever a lane releases its known events to other threads (at a
// barrier, for example). A single number therefore separates the events before a release from the
// events after it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace incipit::emulator {

inline constexpr int kLanes = 32;  // number of lanes of a warp

using Clock = uint32_t;
// Element i is the number of the latest known event of agent i. Agents are the threads of the
// block, and other actors such as bulk copies.
using ClockVector = std::vector<Clock>;

class Clocks {
 public:
  static constexpr int kMostBarriers = 64;

  explicit Clocks(int num_threads);

  int num_warps() const { return static_cast<int>(warps_.size()); }
  // Agents that are not threads:
  // - bulk_agent: the bulk copies of mbarrier `barrier`. Event n is the end of the barrier's phase
  //   n, counted from 1.
  // - remote_agent: other blocks of the cluster that read this block's shared memory. Event n is
  //   the n-th ArriveCluster, counted from 1.
  // - kernels_agent: the earlier kernels of the stream. Event 1 is the end of all these kernels.
  int bulk_agent(int barrier) const { return num_threads_ + barrier; }
  int remote_agent() const { return num_threads_ + kMostBarriers; }
  int kernels_agent() const { return num_threads_ + kMostBarriers + 1; }

  // Returns the number of the current event of `thread`.
  Clock Now(int thread) const { return warps_[static_cast<size_t>(thread / 32)].now; }
  // Returns the number of times that all blocks of the cluster have called ArriveCluster. A read of
  // another block's shared memory ends at the reader's next ArriveCluster.
  Clock ClusterArrivals() const { return num_cluster_arrivals_; }
  // Returns true if event `clock` of `agent` happened before the last complete barrier of the
  // cluster.
  bool IsKnownToCluster(int agent, Clock clock) const {
    return cluster_known_ != nullptr && clock <= (*cluster_known_)[static_cast<size_t>(agent)];
  }
  // Returns true if event `clock` of `agent` happened before the current event of `thread`.
  bool Knows(int thread, int agent, Clock clock) const;
  // Returns true if event `clock` of every lane of `warp` happened before the current event of
  // `thread`.
  bool KnowsWarp(int thread, int warp, Clock clock);

  void SyncWarp(int warp) { SyncWarps({&warp, 1}); }
  void SyncWarps(std::span<const int> warps);
  // The three parts of a cluster's barrier. ArriveAtCluster: a warp arrives. MeetAsCluster: all
  // warps have arrived. WaitForCluster: a thread acquires the events that all other threads knew at
  // their arrival.
  void ArriveAtCluster(int warp);
  static void MeetAsCluster(std::span<Clocks* const> blocks, bool orders_reads);
  void WaitForCluster(int thread);

  // Adds the events that `thread` knows, and the thread's own events, to `into`. Other threads can
  // acquire `into`.
  void Release(int thread, ClockVector& into);
  std::shared_ptr<const ClockVector> Snapshot(int thread);
  // Adds the events in `known` to the events that `thread` knows. A later call with the same
  // `source` replaces `known`.
  void Acquire(int thread, int source, std::shared_ptr<const ClockVector> known);
  ClockVector MakeVector() const { return ClockVector(static_cast<size_t>(num_agents_)); }

 private:
  struct WarpClock {
    Clock now = 1;
    Clock within = 0;  // each lane knows the events of all lanes of the warp up to this clock
    // Each event of the warp up to this clock happened before the warp arrived at the cluster's
    // barrier.
    Clock arrived = 0;
    ClockVector known;
  };
  struct Acquired {
    int source = 0;
    std::shared_ptr<const ClockVector> known;
  };
  struct ThreadClock {
    // The vectors that this thread has acquired since the last barrier of its warp.
    std::vector<Acquired> acquired;
    // Element i is the highest clock for which KnowsWarp has returned true for warp i.
    std::vector<Clock> whole_warps;
  };

  static void Join(ClockVector& into, const ClockVector& other);

  int num_threads_ = 0;
  int num_agents_ = 0;
  Clock num_cluster_arrivals_ = 0;
  ClockVector arriving_;  // events known to the warps that have arrived at the cluster's barrier
  // The events that the blocks of the cluster knew at the last complete barrier of the cluster.
  std::shared_ptr<const ClockVector> cluster_known_;
  std::vector<WarpClock> warps_;
  std::vector<ThreadClock> threads_;
};

}  // namespace incipit::emulator
