// The happens-before order of the threads of one block, as vector clocks. A thread knows the events
// that happened before its current event. Events of a thread are numbered by the clock of its warp.
// The clock advances whenever a lane of the warp releases its knowledge to other threads. A single
// number therefore separates the events before a release from the events after it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace incipit::emulator {

inline constexpr int kLanes = 32;  // number of lanes of a warp

using Clock = uint32_t;
// The latest known event of each agent. Agents are the threads, and other actors such as bulk
// copies.
using ClockVector = std::vector<Clock>;

class Clocks {
 public:
  static constexpr int kMostBarriers = 64;

  explicit Clocks(int num_threads);

  int num_warps() const { return static_cast<int>(warps_.size()); }
  // Agents that are not threads. The bulk copies of an mbarrier: event n is phase n, from 1. Other
  // blocks of the cluster that read this block's shared memory: event n is the n-th ArriveCluster,
  // from 1. The earlier kernels: event 1 is the end of these kernels.
  int bulk_agent(int barrier) const { return num_threads_ + barrier; }
  int remote_agent() const { return num_threads_ + kMostBarriers; }
  int kernels_agent() const { return num_threads_ + kMostBarriers + 1; }

  // Returns the number of the current event of `thread`.
  Clock Now(int thread) const { return warps_[static_cast<size_t>(thread / 32)].now; }
  // Returns how often all blocks of the cluster have called ArriveCluster, which ends reads of
  // other blocks.
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
  // A barrier of a cluster has three parts: each warp arrives, then the barrier is complete, then
  // each thread acquires the knowledge of all other threads.
  void ArriveAtCluster(int warp);
  static void MeetAsCluster(std::span<Clocks* const> blocks, bool orders_reads);
  void WaitForCluster(int thread);

  // Adds the knowledge and the events of `thread` to `into`, so that other threads can acquire
  // them.
  void Release(int thread, ClockVector& into);
  std::shared_ptr<const ClockVector> Snapshot(int thread);
  // Adds `known` to the knowledge of `thread`. A later vector from the same `source` replaces this
  // one.
  void Acquire(int thread, int source, std::shared_ptr<const ClockVector> known);
  ClockVector MakeVector() const { return ClockVector(static_cast<size_t>(num_agents_)); }

 private:
  struct WarpClock {
    Clock now = 1;
    Clock within = 0;  // all lanes know the events of the other lanes up to this clock
    // Events up to this clock precede the warp's arrival at the cluster's barrier.
    Clock arrived = 0;
    ClockVector known;
  };
  struct Acquired {
    int source = 0;
    std::shared_ptr<const ClockVector> known;
  };
  struct ThreadClock {
    // Knowledge acquired since the last barrier of the warp's lanes.
    std::vector<Acquired> acquired;
    // Per warp: the highest clock for which KnowsWarp returned true.
    std::vector<Clock> whole_warps;
  };

  static void Join(ClockVector& into, const ClockVector& other);

  int num_threads_ = 0;
  int num_agents_ = 0;
  Clock num_cluster_arrivals_ = 0;
  ClockVector arriving_;  // joined knowledge of the warps that have arrived
  // Knowledge of all blocks at the last complete barrier of the cluster.
  std::shared_ptr<const ClockVector> cluster_known_;
  std::vector<WarpClock> warps_;
  std::vector<ThreadClock> threads_;
};

}  // namespace incipit::emulator
