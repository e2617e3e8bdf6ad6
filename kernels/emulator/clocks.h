// Vector clocks for the threads of one block: they store which events happened before which other
// events. A thread knows an event if the event happened before the thread's current event.
//
// Each warp has a clock, which numbers the events of the warp. The clock advances whenever events
// become known to other threads, for example at a barrier.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace incipit::emulator {

inline constexpr int kLanes = 32;  // number of lanes of a warp

using Clock = uint32_t;
// Element i is the number of the latest event of agent i that a thread knows. An agent is a thread,
// or another source of events such as a bulk copy.
using ClockVector = std::vector<Clock>;

class Clocks {
 public:
  static constexpr int kMostBarriers = 64;

  explicit Clocks(int num_threads);

  int num_warps() const { return static_cast<int>(warps_.size()); }
  // Returns the index in a ClockVector for the bulk copies of mbarrier `barrier`. Event n is the
  // end of phase n of the mbarrier, counted from 1.
  int bulk_agent(int barrier) const { return num_threads_ + barrier; }
  // Returns the index in a ClockVector for reads of this block's shared memory by other blocks of
  // the cluster. Event n is the n-th ArriveCluster.
  int remote_agent() const { return num_threads_ + kMostBarriers; }
  // Returns the index in a ClockVector for the earlier kernels of the stream. Their only event is
  // the end of the last of these kernels.
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
  // Adds the events of all threads of the cluster before the cluster's barrier to the events that
  // `thread` knows. REQUIRES: `thread` has waited for the barrier.
  void WaitForCluster(int thread);

  // Adds the events that `thread` knows, and its own events, to `into`. A thread that later calls
  // Acquire with `into` then knows all of these events.
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
    // Events of other threads that this thread knows from Acquire. Cleared at the next barrier of
    // the warp.
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
