// Stores, for the threads of one block, which events happened before which other events (vector
// clocks). A thread knows an event if the event happened before the thread's current event.
//
// Each warp has a clock. The number of an event is the value of its warp's clock. The clock
// advances whenever a lane makes its known events available to other threads, for example at a
// barrier.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace incipit::emulator {

inline constexpr int kLanes = 32;  // number of lanes of a warp

using Clock = uint32_t;
// Element i is the number of the latest known event of agent i. An agent is a thread of the block,
// or another actor such as a bulk copy.
using ClockVector = std::vector<Clock>;

class Clocks {
 public:
  static constexpr int kMostBarriers = 64;

  explicit Clocks(int num_threads);

  int num_warps() const { return static_cast<int>(warps_.size()); }
  // Returns the agent number of the bulk copies that mbarrier `barrier` counts. (An agent is a
  // thread or another actor with events.) Event n is the end of phase n of the mbarrier, counted
  // from 1.
  int bulk_agent(int barrier) const { return num_threads_ + barrier; }
  // Returns the agent number of all blocks of the cluster that read this block's shared memory. (An
  // agent is a thread or another actor with events.) Event n is the n-th ArriveCluster.
  int remote_agent() const { return num_threads_ + kMostBarriers; }
  // Returns the agent number of all earlier kernels of the stream. (An agent is a thread or another
  // actor with events.) Their only event is their end.
  int kernels_agent() const { return num_threads_ + kMostBarriers + 1; }

  // Returns the number of the current event of thread `thread`.
  Clock Now(int thread) const { return warps_[static_cast<size_t>(thread / 32)].now; }
  // Returns how many times ArriveCluster has been called by all blocks of the cluster.
  Clock ClusterArrivals() const { return num_cluster_arrivals_; }
  // Returns true if event number `clock` of agent `agent` happened before the latest cluster
  // barrier that all blocks of the cluster have reached.
  bool IsKnownToCluster(int agent, Clock clock) const {
    return cluster_known_ != nullptr && clock <= (*cluster_known_)[static_cast<size_t>(agent)];
  }
  // Returns true if event number `clock` of agent `agent` happened before the current event of
  // thread `thread`.
  bool Knows(int thread, int agent, Clock clock) const;
  // Returns true if event number `clock` of every lane of warp `warp` happened before the current
  // event of thread `thread`.
  bool KnowsWarp(int thread, int warp, Clock clock);

  void SyncWarp(int warp) { SyncWarps({&warp, 1}); }
  void SyncWarps(std::span<const int> warps);
  // Records that the warp with the index `warp` has arrived at the barrier of the cluster.
  void ArriveAtCluster(int warp);
  // Completes the barrier of the cluster. REQUIRES: all warps of all blocks in `blocks` have
  // arrived at the barrier.
  static void MeetAsCluster(std::span<Clocks* const> blocks, bool orders_reads);
  // Adds the events that all threads of the cluster knew at their arrival to the events that
  // `thread` knows.
  void WaitForCluster(int thread);

  // Adds all events that `thread` knows, and its own events, to the vector `into`. Another thread
  // that later acquires `into` then knows these events.
  void Release(int thread, ClockVector& into);
  std::shared_ptr<const ClockVector> Snapshot(int thread);
  // Adds the events in `known` to the events that `thread` knows. A later call with the same
  // `source` replaces the events of this call.
  void Acquire(int thread, int source, std::shared_ptr<const ClockVector> known);
  ClockVector MakeVector() const { return ClockVector(static_cast<size_t>(num_agents_)); }

 private:
  struct WarpClock {
    Clock now = 1;
    // Every lane of the warp knows all events of the other lanes whose number is at most `within`.
    Clock within = 0;
    // Number of the warp's latest event before the warp arrived at the cluster's barrier.
    Clock arrived = 0;
    ClockVector known;
  };
  struct Acquired {
    int source = 0;
    std::shared_ptr<const ClockVector> known;
  };
  struct ThreadClock {
    // The events that this thread has acquired from other threads since the latest barrier of its
    // warp.
    std::vector<Acquired> acquired;
    // Element i is the highest event number for which KnowsWarp returned true for warp i. It makes
    // later calls of KnowsWarp faster.
    std::vector<Clock> whole_warps;
  };

  static void Join(ClockVector& into, const ClockVector& other);

  int num_threads_ = 0;
  int num_agents_ = 0;
  Clock num_cluster_arrivals_ = 0;
  // All events that are known to warps that have arrived at the current barrier of the cluster.
  ClockVector arriving_;
  // All events that happened before the latest barrier that all blocks of the cluster have reached.
  std::shared_ptr<const ClockVector> cluster_known_;
  std::vector<WarpClock> warps_;
  std::vector<ThreadClock> threads_;
};

}  // namespace incipit::emulator
