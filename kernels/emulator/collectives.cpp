// Implements the functions that synchronise the lanes of a warp, the threads of a thread block, and
// the thread blocks of a cluster.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "kernels/emulator/machine.h"

namespace incipit::emulator {

namespace {

[[noreturn]] void FailApart(const char* mine, Site site, const char* others, Site others_site) {
  Machine::Get().Fail(
      site, fmt::format("the thread calls {} while other lanes of its warp wait in {} at {}:{}",
                        mine, others, others_site.file, others_site.line));
}

}  // namespace

void Machine::MeetWarp(const char* collective, void* request, Finish finish, Site site) {
  Thread& thread = current();
  Warp& warp = *thread.warp;
  const auto lane = static_cast<size_t>(thread.thread % kLanes);
  if (warp.arrived == 0) {
    warp.collective = collective;
    warp.collective_site = site;
  } else if (warp.collective != collective || warp.collective_site != site) {
    FailApart(collective, site, warp.collective, warp.collective_site);
  }
  warp.requests[lane] = request;
  warp.arrived |= 1U << lane;
  if (warp.arrived != kAllLanes) return WaitFor(Wait::kWarp, 0, collective, site);
  warp.arrived = 0;
  thread.site = site;
  if (finish != nullptr) finish(warp);
  for (Thread& other : warp.lanes) other.wait = Wait::kNothing;
  warp.ready = kAllLanes;
}

namespace {

constexpr const char* kWarpNumber = "Warp";
constexpr const char* kSyncWarp = "SyncWarp";
constexpr const char* kBallot = "BallotWarp";
constexpr const char* kShuffle = "a shuffle";
constexpr const char* kSyncBlock = "SyncBlock, barrier";
constexpr const char* kSyncThreads = "SyncThreads, barrier";
constexpr const char* kSyncCluster = "SyncCluster";
constexpr const char* kArriveCluster = "ArriveCluster";
constexpr const char* kWaitCluster = "WaitCluster";

struct BallotRequest {
  bool vote;
  uint32_t result;
};

struct ShuffleRequest {
  uint64_t value;
  int from;
  uint64_t result;
};

template <class Request>
Request& RequestOf(const Warp& warp, size_t lane) {
  return *static_cast<Request*>(warp.requests[lane]);
}

// Stops the emulation with an error if the lanes of `warp` call different barrier functions, or the
// same barrier function at different source lines.
void ComeToBarrier(Warp& warp, const char* name, Site site) {
  if (warp.num_at_barrier == 0) {
    warp.barrier = name;
    warp.barrier_site = site;
  } else if (warp.barrier != name || warp.barrier_site != site) {
    FailApart(name, site, warp.barrier, warp.barrier_site);
  }
  warp.num_at_barrier = (warp.num_at_barrier + 1) % kLanes;
}

// Records that barrier number `id` orders its threads: their accesses before the barrier happened
// before their accesses after the barrier.
void OrderThreads(const Thread& last, const NamedBarrier& barrier, int id, Site site) {
  const Block& block = *last.warp->block;
  // Element i: number of lanes of warp i that have reached the barrier.
  std::array<int, kLanes> lanes{};
  ++lanes[static_cast<size_t>(last.thread / kLanes)];
  for (const Thread* thread : barrier.waiting)
    ++lanes[static_cast<size_t>(thread->thread / kLanes)];
  std::array<int, kLanes> warps{};
  size_t num_warps = 0;
  for (size_t warp = 0; warp < lanes.size(); ++warp) {
    if (lanes[warp] == 0) continue;
    if (lanes[warp] != kLanes) {
      Machine::Get().Fail(site,
                          fmt::format("the expected number of threads has reached barrier "
                                      "{}, but only {} of the 32 lanes of warp {} have reached it",
                                      id, lanes[warp], warp));
    }
    warps[num_warps++] = static_cast<int>(warp);
  }
  if (block.races != nullptr) block.races->clocks().SyncWarps({warps.data(), num_warps});
}

// Makes the running thread wait until `num_threads` threads have reached barrier number `id`.
void MeetAtBarrier(int id, int num_threads, const char* name, Site site) {
  Machine& machine = Machine::Get();
  Thread& thread = machine.current();
  ComeToBarrier(*thread.warp, name, site);
  NamedBarrier& barrier = thread.warp->block->named[static_cast<size_t>(id)];
  if (barrier.waiting.empty()) {
    barrier.num_threads = num_threads;
  } else if (barrier.num_threads != num_threads) {
    machine.Fail(site, fmt::format("the thread waits at barrier {} for {} threads, but other "
                                   "threads wait there for {} threads",
                                   id, num_threads, barrier.num_threads));
  }
  if (static_cast<int>(barrier.waiting.size()) + 1 < num_threads) {
    barrier.waiting.push_back(&thread);
    return machine.WaitFor(Wait::kBlockBarrier, id, name, site);
  }
  OrderThreads(thread, barrier, id, site);
  machine.WakeAll(barrier.waiting);
}

}  // namespace

int WarpNumber(Site site) {
  Machine::Get().MeetWarp(kWarpNumber, nullptr, nullptr, site);
  return Running().thread / kLanes;
}

void SyncWarp(Site site) {
  Machine::Get().MeetWarp(
      kSyncWarp, nullptr,
      [](Warp& warp) {
        SharedRaces* races = warp.block->races.get();
        if (races != nullptr) races->clocks().SyncWarp(warp.lanes.front().thread / kLanes);
      },
      site);
}

uint32_t Ballot(bool vote, Site site) {
  BallotRequest request{vote, 0};
  Machine::Get().MeetWarp(
      kBallot, &request,
      [](Warp& warp) {
        uint32_t votes = 0;
        for (size_t i = 0; i < kLanes; ++i) {
          votes |= (RequestOf<BallotRequest>(warp, i).vote ? 1U : 0U) << i;
        }
        for (size_t i = 0; i < kLanes; ++i) RequestOf<BallotRequest>(warp, i).result = votes;
      },
      site);
  return request.result;
}

uint64_t Shuffle(uint64_t value, int from, Site site) {
  ShuffleRequest request{value, from, 0};
  Machine::Get().MeetWarp(
      kShuffle, &request,
      [](Warp& warp) {
        for (size_t i = 0; i < kLanes; ++i) {
          auto& mine = RequestOf<ShuffleRequest>(warp, i);
          mine.result = RequestOf<ShuffleRequest>(warp, static_cast<size_t>(mine.from)).value;
        }
      },
      site);
  return request.result;
}

void SyncBlock(Site site) {
  MeetAtBarrier(0, Machine::Get().current().warp->block->num_threads(), kSyncBlock, site);
}

void SyncThreads(int id, int num_threads, Site site) {
  Machine& machine = Machine::Get();
  if (id < 1 || id >= kNamedBarriers) {
    machine.Fail(site,
                 fmt::format("the barrier number {} is not in [1, {}]", id, kNamedBarriers - 1));
  }
  const int most = machine.current().warp->block->num_threads();
  if (num_threads <= 0 || num_threads % kLanes != 0 || num_threads > most) {
    machine.Fail(
        site,
        fmt::format("barrier {} has {} threads; the number must be a multiple of 32 in [32, {}]",
                    id, num_threads, most));
  }
  MeetAtBarrier(id, num_threads, kSyncThreads, site);
}

namespace {

// Records the arrival of `warp` at the barrier of its cluster. `name` is the name of the barrier
// function that the warp called.
void ArriveAtCluster(Warp& warp, const char* name, bool orders_reads) {
  Machine& machine = Machine::Get();
  const Site site = machine.current().site;
  Cluster& cluster = *warp.block->cluster;
  if (warp.is_at_cluster)
    machine.Fail(site, "the warp arrives twice at the barrier of its cluster");
  if (cluster.num_arrived == 0) {
    cluster.arrived_as = name;
  } else if (cluster.arrived_as != name) {
    machine.Fail(site, fmt::format("the warp calls {} while other warps of its cluster wait in {}",
                                   name, cluster.arrived_as));
  }
  warp.is_at_cluster = true;
  warp.cluster_phase = cluster.phase;
  if (warp.block->races != nullptr) {
    warp.block->races->clocks().ArriveAtCluster(warp.lanes.front().thread / kLanes);
  }
  if (++cluster.num_arrived < cluster.blocks.size() * warp.block->warps.size()) return;
  std::vector<Clocks*> clocks;
  for (const auto& block : cluster.blocks) {
    if (block->races != nullptr) clocks.push_back(&block->races->clocks());
  }
  Clocks::MeetAsCluster(clocks, orders_reads);
  cluster.num_arrived = 0;
  ++cluster.phase;
  machine.WakeAll(cluster.waiting);
}

void WaitForCluster(const char* name, Site site) {
  Machine& machine = Machine::Get();
  Thread& thread = machine.current();
  Warp& warp = *thread.warp;
  Cluster& cluster = *warp.block->cluster;
  while (cluster.phase == warp.cluster_phase) {
    cluster.waiting.push_back(&thread);
    machine.WaitFor(Wait::kCluster, 0, name, site);
  }
  warp.is_at_cluster = false;
  if (warp.block->races != nullptr) warp.block->races->clocks().WaitForCluster(thread.thread);
}

}  // namespace

void SyncCluster(Site site) {
  Machine::Get().MeetWarp(
      kSyncCluster, nullptr, [](Warp& warp) { ArriveAtCluster(warp, kSyncCluster, false); }, site);
  WaitForCluster(kSyncCluster, site);
}

void ArriveCluster(Site site) {
  Machine::Get().MeetWarp(
      kArriveCluster, nullptr, [](Warp& warp) { ArriveAtCluster(warp, kArriveCluster, true); },
      site);
}

void WaitCluster(Site site) {
  Machine& machine = Machine::Get();
  machine.MeetWarp(
      kWaitCluster, nullptr,
      [](Warp& warp) {
        Machine& its = Machine::Get();
        if (!warp.is_at_cluster)
          its.Fail(its.current().site,
                   "the warp calls WaitCluster, but has not called ArriveCluster before");
      },
      site);
  WaitForCluster(kWaitCluster, site);
}

}  // namespace incipit::emulator
