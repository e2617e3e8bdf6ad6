// Who knows what of whom: the happens-before order of one block's threads, as vector clocks. An
// event of a thread is numbered by its warp's clock, which goes on whenever one of its lanes tells
// others something, so one number orders what a thread did before that from what it did after.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace incipit::emulator {

inline constexpr int kLanes = 32;  // of a warp

using Clock = uint32_t;
// The latest event known of each agent: of every thread, and of what is no thread but acts.
using ClockVector = std::vector<Clock>;

class Clocks {
 public:
  static constexpr int kMostBarriers = 64;

  explicit Clocks(int num_threads);

  int num_warps() const { return static_cast<int>(warps_.size()); }
  // Agents that are no threads: the bulk copies of an mbarrier (its event is the phase, from 1),
  // other blocks of the cluster that read here (the number of ArriveClusters, from 1), the kernels
  // before this one (1: they have ended).
  int bulk_agent(int barrier) const { return num_threads_ + barrier; }
  int remote_agent() const { return num_threads_ + kMostBarriers; }
  int kernels_agent() const { return num_threads_ + kMostBarriers + 1; }

  // The number of what `thread` does now.
  Clock Now(int thread) const { return warps_[static_cast<size_t>(thread / 32)].now; }
  // How often the cluster has met so that reads are over.
  Clock ClusterArrivals() const { return num_cluster_arrivals_; }
  // Whether other blocks of the cluster know of it.
  bool IsKnownToCluster(int agent, Clock clock) const {
    return cluster_known_ != nullptr && clock <= (*cluster_known_)[static_cast<size_t>(agent)];
  }
  // Whether event `clock` of `agent` happened before what `thread` does now.
  bool Knows(int thread, int agent, Clock clock) const;
  // The same of event `clock` of every lane of a warp.
  bool KnowsWarp(int thread, int warp, Clock clock);

  void SyncWarp(int warp) { SyncWarps({&warp, 1}); }
  void SyncWarps(std::span<const int> warps);
  // A cluster meets: each warp arrives, then all have, then each thread learns of it.
  void ArriveAtCluster(int warp);
  static void MeetAsCluster(std::span<Clocks* const> blocks, bool orders_reads);
  void WaitForCluster(int thread);

  // Everything that `thread` knows and did, to be acquired by others.
  void Release(int thread, ClockVector& into);
  std::shared_ptr<const ClockVector> Snapshot(int thread);
  // `source` names where it comes from: a later one of the same source replaces it.
  void Acquire(int thread, int source, std::shared_ptr<const ClockVector> known);
  ClockVector MakeVector() const { return ClockVector(static_cast<size_t>(num_agents_)); }

 private:
  struct WarpClock {
    Clock now = 1;
    Clock within = 0;   // events of its lanes up to here are known to all its lanes
    Clock arrived = 0;  // events of its lanes up to here came before its arrival at the cluster's
    ClockVector known;
  };
  struct Acquired {
    int source = 0;
    std::shared_ptr<const ClockVector> known;
  };
  struct ThreadClock {
    std::vector<Acquired> acquired;  // since the warp last met
    std::vector<Clock> whole_warps;  // per warp, what KnowsWarp has found true
  };

  static void Join(ClockVector& into, const ClockVector& other);

  int num_threads_ = 0;
  int num_agents_ = 0;
  Clock num_cluster_arrivals_ = 0;
  ClockVector arriving_;                              // of the warps that have arrived
  std::shared_ptr<const ClockVector> cluster_known_;  // since the cluster met
  std::vector<WarpClock> warps_;
  std::vector<ThreadClock> threads_;
};

}  // namespace incipit::emulator
