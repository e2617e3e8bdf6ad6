#include "kernels/emulator/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace incipit::emulator {

constinit thread_local Place* g_running = nullptr;

namespace {

constexpr int kSharedAlignment = 1024;
constexpr size_t kGridsInFlight = 3;
// Initial value of each byte of shared memory. Uninitialised floating-point numbers are then NaN,
// and uninitialised signed integers are -1.
constexpr int kPoison = 0xFF;
constinit thread_local Machine* g_machine = nullptr;

// Returns the unused fibers of this host thread. Fibers are reused, because the allocation of a
// stack is slow.
std::vector<std::unique_ptr<Fiber>>& FreeFibers() {
  static thread_local std::vector<std::unique_ptr<Fiber>> fibers;
  return fibers;
}

int RoundUp(int bytes, int multiple) { return (bytes + multiple - 1) / multiple * multiple; }

}  // namespace

void Block::FreeShared::operator()(char* memory) const { std::free(memory); }

std::string Describe(const Thread& thread) {
  return fmt::format("block {}, thread {} ({}:{})", thread.block, thread.thread, thread.site.file,
                     thread.site.line);
}

Machine::Machine(const DeviceOptions& options, std::span<const KernelLaunch> launches)
    : options_(options), random_(options.seed) {
  constexpr uint32_t kLanding[] = {0, 1, 4, 16};
  landing_one_in_ = kLanding[random_.Below(std::size(kLanding))];
  for (const KernelLaunch& launch : launches) {
    INCIPIT_CHECK(launch.cluster > 0 && launch.num_blocks % launch.cluster == 0);
    auto grid = std::make_unique<Grid>();
    grid->index = static_cast<int>(grids_.size());
    grid->launch = launch;
    grid->args.resize(launch.args_bytes / sizeof(std::max_align_t) + 1);
    if (launch.args_bytes > 0) std::memcpy(grid->args.data(), launch.args, launch.args_bytes);
    grid->order.resize(static_cast<size_t>(launch.num_blocks / launch.cluster));
    std::iota(grid->order.begin(), grid->order.end(), 0);
    for (size_t i = grid->order.size(); i > 1; --i) {
      std::swap(grid->order[i - 1], grid->order[random_.Below(i)]);
    }
    grids_.push_back(std::move(grid));
  }
  outer_ = std::exchange(g_machine, this);
}

Machine::~Machine() {
  for (auto& cluster : finished_) EndCluster(*cluster);
  for (auto& grid : grids_) {
    for (auto& cluster : grid->in_flight) EndCluster(*cluster);
  }
  g_machine = outer_;
}

Machine& Machine::Get() { return *g_machine; }

Report Machine::Run() {
  while (!has_fault()) {
    for (auto& cluster : finished_) EndCluster(*cluster);
    finished_.clear();
    StartClusters();
    LandSome();
    if (!runnable_.empty()) {
      std::swap(runnable_[random_.Below(runnable_.size())], runnable_.back());
      Warp& warp = *runnable_.back();
      runnable_.pop_back();
      warp.is_queued = false;
      RunWarp(warp);
    } else if (!bulk_.empty()) {
      LandBulk(random_.Below(bulk_.size()));
    } else if (std::all_of(grids_.begin(), grids_.end(),
                           [](const auto& grid) { return grid->has_ended(); })) {
      break;
    } else {
      ReportDeadlock();
    }
  }
  report_.sites = counts_.Sites();
  for (const SiteCounts& site : report_.sites) report_.bank_conflicts += site.bank_conflicts;
  return std::move(report_);
}

// ---- start and end of clusters

bool Machine::MayStart(const Grid& grid) const {
  const auto index = static_cast<size_t>(grid.index);
  if (index == 0) return true;
  const Grid& before = *grids_[index - 1];
  if (!grid.launch.dependent) {
    return std::all_of(grids_.begin(), grids_.begin() + grid.index,
                       [](const auto& earlier) { return earlier->has_ended(); });
  }
  // At most kGridsInFlight kernels (grids) run at the same time.
  if (index >= kGridsInFlight && !grids_[index - kGridsInFlight]->has_ended()) return false;
  return before.num_started == before.order.size() &&
         before.num_ended + before.num_let_go == before.launch.num_blocks;
}

void Machine::StartClusters() {
  for (auto& grid : grids_) {
    if (grid->num_started == grid->order.size() || !MayStart(*grid)) continue;
    if (grid->num_started == 0) {
      const auto running = std::find_if(grids_.begin(), grids_.end(),
                                        [](const auto& one) { return !one->has_ended(); });
      grid->first_running = (*running)->index;
    }
    const int slots =
        std::max(options_.num_sms * grid->launch.code.blocks_per_sm, grid->launch.cluster);
    while (grid->num_started < grid->order.size() &&
           static_cast<int>(grid->in_flight.size() + 1) * grid->launch.cluster <= slots) {
      StartCluster(*grid, grid->order[grid->num_started++]);
    }
  }
}

void Machine::StartCluster(Grid& grid, int index) {
  auto cluster = std::make_unique<Cluster>();
  cluster->grid = &grid;
  for (int rank = 0; rank < grid.launch.cluster; ++rank) {
    StartBlock(*cluster, index * grid.launch.cluster + rank, rank);
  }
  grid.in_flight.push_back(std::move(cluster));
}

void Machine::StartBlock(Cluster& cluster, int index, int rank) {
  const KernelLaunch& launch = cluster.grid->launch;
  auto block = std::make_unique<Block>();
  block->cluster = &cluster;
  block->index = index;
  block->rank = rank;
  const int bytes = RoundUp(std::max(launch.code.shared_bytes, 1), kSharedAlignment);
  block->shared.reset(
      static_cast<char*>(std::aligned_alloc(kSharedAlignment, static_cast<size_t>(bytes))));
  std::memset(block->shared.get(), kPoison, static_cast<size_t>(bytes));
  for (int thread = 0; thread < launch.code.num_threads; ++thread) {
    if (thread % kLanes == 0) {
      block->warps.push_back(std::make_unique<Warp>());
      block->warps.back()->block = block.get();
      block->warps.back()->number = report_.num_blocks * kLanes + thread / kLanes;
    }
    Thread& state = block->warps.back()->lanes[static_cast<size_t>(thread % kLanes)];
    static_cast<Place&>(state) = {.thread = thread,
                                  .block = index,
                                  .num_blocks = launch.num_blocks,
                                  .cluster_rank = rank,
                                  .shared = block->shared.get(),
                                  .shared_bytes = launch.code.shared_bytes};
    state.warp = block->warps.back().get();
    StartThread(state);
  }
  if (options_.find_races) {
    block->races = std::make_unique<SharedRaces>(launch.code.num_threads, bytes);
  }
  ++report_.num_blocks;
  cluster.blocks.push_back(std::move(block));
}

void Machine::StartThread(Thread& thread) {
  auto& free = FreeFibers();
  if (free.empty()) {
    thread.fiber = std::make_unique<Fiber>();
  } else {
    thread.fiber = std::move(free.back());
    free.pop_back();
  }
  thread.fiber->Start(&Machine::RunThread, thread.thread);
  Wake(thread);
}

void Machine::RunThread() {
  Fiber::FinishFirstSwitch();
  Machine& machine = Get();
  Thread& thread = machine.current();
  const Grid& grid = *thread.warp->block->cluster->grid;
  grid.launch.code.run(grid.args.data());
  machine.EndThread(thread);
  machine.WaitFor(Wait::kEnded, 0, "its end", {});
  // This line is never reached, because a thread that has ended is never resumed.
  std::abort();
}

void Machine::EndThread(Thread& thread) {
  for (PendingCopy& copy : thread.copies) {
    if (!copy.landed) Land(copy);
  }
  Block& block = *thread.warp->block;
  if (++block.num_ended < block.num_threads()) return;
  for (const BulkCopy& copy : bulk_) {
    if (copy.block != &block) continue;
    return SetFault(
        fmt::format("block {} ended while a bulk copy to byte {} of the block's shared memory "
                    "was in flight",
                    block.index, copy.shared - block.shared.get()));
  }
  if (block.races != nullptr && block.races->IsReadRemotely()) {
    return SetFault(
        fmt::format("block {} ended, but another block has read its shared memory since the last "
                    "barrier of the cluster",
                    block.index));
  }
  for (const auto& warp : block.warps) {
    if (!warp->is_at_cluster) continue;
    return SetFault(fmt::format(
        "block {} has called ArriveCluster, but ended without calling WaitCluster", block.index));
  }
  if (std::string unfinished = FindUnfinishedMultiplies(block); !unfinished.empty()) {
    return SetFault(std::move(unfinished));
  }
  if (options_.count_accesses) {
    for (const auto& warp : block.warps) counts_.EndWarp(warp->number);
  }
  Cluster& cluster = *block.cluster;
  Grid& grid = *cluster.grid;
  ++grid.num_ended;
  if (block.let_next_start) --grid.num_let_go;
  if (++cluster.num_ended < grid.launch.cluster) return;
  const auto at = std::find_if(grid.in_flight.begin(), grid.in_flight.end(),
                               [&](const auto& one) { return one.get() == &cluster; });
  finished_.push_back(std::move(*at));
  grid.in_flight.erase(at);
  if (grid.has_ended()) WakeAll(grid.waiting);
}

void Machine::EndCluster(Cluster& cluster) {
  for (auto& block : cluster.blocks) {
    for (auto& warp : block->warps) {
      for (Thread& thread : warp->lanes) {
        if (thread.fiber != nullptr) FreeFibers().push_back(std::move(thread.fiber));
      }
    }
  }
}

// ---- scheduling

void Machine::RunWarp(Warp& warp) {
  constexpr int kFewest = 32, kDoublings = 6;
  quantum_ = kFewest << random_.Below(kDoublings);
  const int turn = static_cast<int>(random_.Below(kLanes));
  const int lane = (std::countr_zero(std::rotr(warp.ready, turn)) + turn) % kLanes;
  SwitchTo(warp.lanes[static_cast<size_t>(lane)], scheduler_);
  if (warp.ready != 0 && !warp.is_queued) {
    warp.is_queued = true;
    runnable_.push_back(&warp);
  }
}

void Machine::SwitchTo(Thread& thread, Fiber& from) {
  ++report_.switches;
  g_running = &thread;
  Fiber::Switch(from, *thread.fiber);
}

void Machine::WaitFor(Wait wait, int id, const char* name, Site site) {
  Thread& thread = current();
  thread.wait = wait;
  thread.wait_id = id;
  thread.wait_name = name;
  thread.site = site;
  thread.warp->ready &= ~(1U << (thread.thread % kLanes));
  Yield();
}

void Machine::Yield() {
  Thread& thread = current();
  const Warp& warp = *thread.warp;
  const int turn = thread.thread % kLanes + 1;
  if (warp.ready == 0 || --quantum_ <= 0 || has_fault()) {
    g_running = nullptr;
    Fiber::Switch(*thread.fiber, scheduler_);
    return;
  }
  const int lane = (std::countr_zero(std::rotr(warp.ready, turn)) + turn) % kLanes;
  Thread& next = thread.warp->lanes[static_cast<size_t>(lane)];
  if (&next != &thread) SwitchTo(next, *thread.fiber);
}

void Machine::Wake(Thread& thread) {
  Warp& warp = *thread.warp;
  thread.wait = Wait::kNothing;
  warp.ready |= 1U << (thread.thread % kLanes);
  if (warp.is_queued || (g_running != nullptr && current().warp == &warp)) return;
  warp.is_queued = true;
  runnable_.push_back(&warp);
}

void Machine::WakeAll(std::vector<Thread*>& threads) {
  for (Thread* thread : threads) Wake(*thread);
  threads.clear();
}

void Machine::Fail(Site site, std::string what) {
  Thread& thread = current();
  thread.site = site;
  SetFault(fmt::format("{}: {}", Describe(thread), what));
  // Free the memory of `what` here, because this function never returns and destructors do not run.
  std::string().swap(what);
  g_running = nullptr;
  Fiber::Switch(*thread.fiber, scheduler_);
  // This line is never reached, because no thread is resumed after a fault.
  std::abort();
}

void Machine::SetFault(std::string what) {
  if (report_.fault.empty()) report_.fault = std::move(what);
}

void Machine::ReportDeadlock() {
  constexpr size_t kMostLines = 16;
  // Key: text that describes the barrier or kernel for which threads wait. Value: list of the
  // thread numbers.
  std::map<std::string, std::string> waiting;
  for (const auto& grid : grids_) {
    for (const auto& cluster : grid->in_flight) {
      for (const auto& block : cluster->blocks) {
        for (const auto& warp : block->warps) {
          for (const Thread& thread : warp->lanes) {
            auto& threads = waiting[fmt::format(
                "kernel {} block {}: wait for {}{} ({}:{})", grid->index, block->index,
                thread.wait_name,
                thread.wait == Wait::kBlockBarrier || thread.wait == Wait::kMemoryBarrier
                    ? fmt::format(" {}", thread.wait_id)
                    : "",
                thread.site.file, thread.site.line)];
            threads += fmt::format("{}{}", threads.empty() ? "" : ",", thread.thread);
          }
        }
      }
    }
  }
  std::string text = "deadlock: no thread can run";
  size_t num_lines = 0;
  for (const auto& [what, threads] : waiting) {
    if (++num_lines > kMostLines) break;
    text += fmt::format("\n  {}: threads {}", what, threads);
  }
  SetFault(std::move(text));
}

Report RunKernels(const DeviceOptions& options, std::span<const KernelLaunch> launches) {
  return Machine(options, launches).Run();
}

}  // namespace incipit::emulator
