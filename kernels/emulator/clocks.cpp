#include "kernels/emulator/clocks.h"

#include <algorithm>
#include <utility>

namespace incipit::emulator {
namespace {

size_t At(int index) { return static_cast<size_t>(index); }

}  // namespace

Clocks::Clocks(int num_threads)
    : num_threads_(num_threads),
      num_agents_(num_threads + kMostBarriers + 2),
      warps_(At(num_threads / kLanes)),
      threads_(At(num_threads)) {
  for (WarpClock& warp : warps_) warp.known = MakeVector();
  for (ThreadClock& thread : threads_) thread.whole_warps.resize(warps_.size());
}

bool Clocks::Knows(int thread, int agent, Clock clock) const {
  const WarpClock& warp = warps_[At(thread / kLanes)];
  if (agent < num_threads_ && agent / kLanes == thread / kLanes) {
    return agent == thread || clock <= warp.within;
  }
  if (clock <= warp.known[At(agent)]) return true;
  const auto& acquired = threads_[At(thread)].acquired;
  return std::any_of(acquired.begin(), acquired.end(),
                     [&](const Acquired& one) { return clock <= (*one.known)[At(agent)]; });
}

bool Clocks::KnowsWarp(int thread, int warp, Clock clock) {
  Clock& found = threads_[At(thread)].whole_warps[At(warp)];
  if (clock <= found) return true;
  if (warp == thread / kLanes) return clock <= warps_[At(warp)].within;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!Knows(thread, warp * kLanes + lane, clock)) return false;
  }
  found = clock;
  return true;
}

void Clocks::Join(ClockVector& into, const ClockVector& other) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

void Clocks::SyncWarps(std::span<const int> warps) {
  // Merges the vector clocks that the lanes of a warp have acquired into the vector clock of the
  // warp. Often, several lanes have acquired the same vector clock, which is then merged only once.
  for (const int warp : warps) {
    const ClockVector* latest = nullptr;
    for (int lane = 0; lane < kLanes; ++lane) {
      auto& acquired = threads_[At(warp * kLanes + lane)].acquired;
      for (const Acquired& one : acquired) {
        if (one.known.get() == latest) continue;
        latest = one.known.get();
        Join(warps_[At(warp)].known, *latest);
      }
      acquired.clear();
    }
    warps_[At(warp)].within = warps_[At(warp)].now;
  }
  if (warps.size() > 1) {
    ClockVector all = warps_[At(warps.front())].known;
    for (const int warp : warps.subspan(1)) Join(all, warps_[At(warp)].known);
    for (const int warp : warps) {
      std::fill_n(all.begin() + warp * kLanes, kLanes, warps_[At(warp)].now);
    }
    for (const int warp : warps) warps_[At(warp)].known = all;
  }
  for (const int warp : warps) ++warps_[At(warp)].now;
}

void Clocks::ArriveAtCluster(int warp) {
  if (arriving_.empty()) arriving_ = MakeVector();
  WarpClock& arriving = warps_[At(warp)];
  Join(arriving_, arriving.known);
  const ClockVector* latest = nullptr;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (const Acquired& one : threads_[At(warp * kLanes + lane)].acquired) {
      if (one.known.get() == latest) continue;
      latest = one.known.get();
      Join(arriving_, *latest);
    }
  }
  std::fill_n(arriving_.begin() + warp * kLanes, kLanes, arriving.now);
  arriving.arrived = arriving.now++;
}

void Clocks::MeetAsCluster(std::span<Clocks* const> blocks, bool orders_reads) {
  for (Clocks* block : blocks) {
    if (orders_reads) {
      block->arriving_[At(block->remote_agent())] = ++block->num_cluster_arrivals_;
    }
    block->cluster_known_ = std::make_shared<const ClockVector>(std::move(block->arriving_));
    block->arriving_.clear();
  }
}

void Clocks::WaitForCluster(int thread) {
  Acquire(thread, kMostBarriers + 1, cluster_known_);
  WarpClock& warp = warps_[At(thread / kLanes)];
  warp.within = std::max(warp.within, warp.arrived);
}

void Clocks::Release(int thread, ClockVector& into) {
  WarpClock& warp = warps_[At(thread / kLanes)];
  Join(into, warp.known);
  for (const Acquired& one : threads_[At(thread)].acquired) Join(into, *one.known);
  for (int lane = 0; lane < kLanes; ++lane) {
    Clock& known = into[At(thread / kLanes * kLanes + lane)];
    known = std::max(known, warp.within);
  }
  into[At(thread)] = warp.now++;
}

std::shared_ptr<const ClockVector> Clocks::Snapshot(int thread) {
  auto known = std::make_shared<ClockVector>(MakeVector());
  Release(thread, *known);
  return known;
}

void Clocks::Acquire(int thread, int source, std::shared_ptr<const ClockVector> known) {
  auto& acquired = threads_[At(thread)].acquired;
  const auto same = std::find_if(acquired.begin(), acquired.end(),
                                 [&](const Acquired& one) { return one.source == source; });
  if (same != acquired.end()) {
    same->known = std::move(known);
  } else {
    acquired.push_back({source, std::move(known)});
  }
}

}  // namespace incipit::emulator
