// Checks the memory accesses of a kernel's threads. Also implements the atomic operations on global
// memory and the wait for earlier kernels.
#include <fmt/format.h>

#include "kernels/emulator/machine.h"

namespace incipit::emulator {
namespace {

bool IsShared(const Place& place, const void* address) {
  const auto* byte = static_cast<const char*>(address);
  return byte >= place.shared && byte < place.shared + place.shared_bytes;
}

bool IsAligned(const void* address, int bytes) {
  const bool is_vector = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
  return !is_vector || reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) == 0;
}

}  // namespace

void CheckShared(const void* address, int bytes, Site site) {
  const Place& place = Running();
  const auto* byte = static_cast<const char*>(address);
  if (byte < place.shared || byte + bytes > place.shared + place.shared_bytes) {
    Machine::Get().Fail(
        site, fmt::format("an access of {} bytes at byte {} is outside of the {} bytes of "
                          "shared memory",
                          bytes, byte - place.shared, place.shared_bytes));
  }
  if (!IsAligned(address, bytes)) {
    Machine::Get().Fail(
        site,
        fmt::format("an access of {} bytes at byte {} of shared memory is not aligned to its size",
                    bytes, byte - place.shared));
  }
}

void OrderShared(const void* address, int bytes, Access access, Site site) {
  Machine& machine = Machine::Get();
  const Thread& thread = machine.current();
  const Block& block = *thread.warp->block;
  if (block.races == nullptr) return;
  std::string race =
      block.races->Touch(thread.thread, {block.OffsetOf(address), bytes}, access, site);
  if (!race.empty()) machine.Fail(site, std::move(race));
}

void Machine::Count(AccessKind kind, const void* address, int bytes, Site site) {
  if (!options_.count_accesses) return;
  const Thread& thread = current();
  counts_.Note(thread.warp->number, thread.thread % kLanes, kind,
               reinterpret_cast<uint64_t>(address), bytes, site);
}

void TouchShared(const void* address, int bytes, Access access, Site site) {
  CheckShared(address, bytes, site);
  OrderShared(address, bytes, access, site);
  Machine::Get().Count(access == Access::kWrite    ? AccessKind::kSharedStore
                       : access == Access::kAtomic ? AccessKind::kSharedAtomic
                                                   : AccessKind::kSharedLoad,
                       address, bytes, site);
}

void TouchGlobal(const void* address, int bytes, Access access, Site site) {
  if (IsShared(Running(), address)) {
    Machine::Get().Fail(site, "the thread accesses shared memory as if it were global memory");
  }
  if (!IsAligned(address, bytes)) {
    Machine::Get().Fail(
        site, fmt::format(
                  "an access of {} bytes at address {} of global memory is not aligned to its size",
                  bytes, address));
  }
  Machine& machine = Machine::Get();
  Report& report = machine.report();
  AccessKind kind = AccessKind::kGlobalLoad;
  switch (access) {
    case Access::kBulkRead:
    case Access::kRead:
      report.load_bytes += bytes;
      break;
    case Access::kConstant:
      kind = AccessKind::kConstantLoad;
      report.constant_bytes += bytes;
      break;
    case Access::kWrite:
      kind = AccessKind::kGlobalStore;
      report.store_bytes += bytes;
      break;
    case Access::kAtomic:
      kind = AccessKind::kGlobalAtomic;
      report.atomic_bytes += bytes;
      break;
  }
  machine.Count(kind, address, bytes, site);
  machine.CheckGlobal(address, bytes, access, site);
}

void Machine::CheckGlobal(const void* address, int64_t bytes, Access access, Site site) {
  if (options_.memory != nullptr && !options_.memory->Holds(address, bytes)) {
    Fail(site, fmt::format("the thread accesses {} bytes of global memory that are not allocated",
                           bytes));
  }
  const Thread& thread = current();
  if (thread.warp->block->races == nullptr) return;
  std::string race = global_races_.Touch(thread, address, bytes, access, site);
  if (!race.empty()) Fail(site, std::move(race));
}

uint32_t AtomicAddGlobal(uint32_t* address, uint32_t value, Site site) {
  Machine& machine = Machine::Get();
  TouchGlobal(address, sizeof(*address), Access::kAtomic, site);
  if (machine.random().OneIn(2)) machine.Yield();
  const Thread& thread = machine.current();
  if (thread.warp->block->races != nullptr) machine.global_races().Order(thread, address);
  const uint32_t before = *address;
  *address = before + value;
  if (machine.random().OneIn(2)) machine.Yield();
  return before;
}

void WaitForEarlierKernels(Site site) {
  Machine& machine = Machine::Get();
  Thread& thread = machine.current();
  const int index = thread.warp->block->cluster->grid->index;
  if (index == 0) return;
  Grid& before = *machine.grids()[static_cast<size_t>(index) - 1];
  if (!before.has_ended()) {
    before.waiting.push_back(&thread);
    machine.WaitFor(Wait::kGrid, 0, "the previous kernel", site);
  }
  if (thread.warp->block->races == nullptr) return;
  Block& block = *thread.warp->block;
  Clocks& clocks = block.races->clocks();
  if (block.kernels_ended == nullptr) {
    ClockVector known = clocks.MakeVector();
    known[static_cast<size_t>(clocks.kernels_agent())] = 1;
    block.kernels_ended = std::make_shared<const ClockVector>(std::move(known));
  }
  clocks.Acquire(thread.thread, Clocks::kMostBarriers, block.kernels_ended);
}

void LetNextKernelStart() {
  Block& block = *Machine::Get().current().warp->block;
  if (block.let_next_start) return;
  block.let_next_start = true;
  ++block.cluster->grid->num_let_go;
}

const void* ReadCluster(const void* shared, int bytes, int rank, Site site) {
  Machine& machine = Machine::Get();
  CheckShared(shared, bytes, site);
  const Thread& thread = machine.current();
  const Cluster& cluster = *thread.warp->block->cluster;
  if (rank < 0 || rank >= static_cast<int>(cluster.blocks.size())) {
    machine.Fail(
        site, fmt::format(
                  "rank {} is not the rank of a thread block of the cluster: ranks are in [0, {})",
                  rank, cluster.blocks.size()));
  }
  if (thread.warp->is_at_cluster) {
    machine.Fail(
        site,
        "the thread reads shared memory of its cluster between ArriveCluster and WaitCluster");
  }
  const Block& other = *cluster.blocks[static_cast<size_t>(rank)];
  if (other.num_ended > 0) {
    machine.Fail(site,
                 fmt::format("the thread reads shared memory of block {}; {} threads of that block "
                             "have already ended",
                             other.index, other.num_ended));
  }
  const auto offset = reinterpret_cast<const char*>(shared) - thread.shared;
  if (&other == thread.warp->block) {
    OrderShared(shared, bytes, Access::kRead, site);
  } else if (other.races != nullptr) {
    std::string race = other.races->ReadRemotely({static_cast<int>(offset), bytes}, site);
    if (!race.empty()) machine.Fail(site, std::move(race));
  }
  return other.shared.get() + offset;
}

}  // namespace incipit::emulator
