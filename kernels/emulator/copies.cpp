// Implements asynchronous copies to shared memory, and mbarriers (barriers in shared memory that
// count copied bytes).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/emulator/machine.h"

namespace incipit::emulator {
namespace {

constexpr int kChunk = 16;
constexpr size_t kLandsAtOnceOneIn = 4;

// Returns the index in Block::barriers of the mbarrier (barrier in shared memory) at address
// `address`.
size_t FindBarrier(const uint64_t* address, Site site) {
  Machine& machine = Machine::Get();
  const Thread& thread = machine.current();
  const Block& block = *thread.warp->block;
  size_t index = 0;
  while (index < block.barriers.size() && block.barriers[index]->address != address) ++index;
  if (index == block.barriers.size()) {
    machine.Fail(site,
                 "the kernel uses an mbarrier, but has not called InitBarrier for this mbarrier");
  }
  if (!block.barriers[index]->is_fenced) {
    machine.Fail(site,
                 "the kernel uses an mbarrier, but has not called FenceBarriers after InitBarrier");
  }
  if (block.races != nullptr) {
    std::string race =
        block.races->Observe(thread.thread, {block.OffsetOf(address), sizeof(*address)}, site);
    if (!race.empty()) machine.Fail(site, std::move(race));
  }
  return index;
}

bool IsAligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % kChunk == 0; }

void LandSomeOf(Thread& thread) {
  for (PendingCopy& copy : thread.copies) {
    if (!copy.landed && Machine::Get().random().OneIn(kLandsAtOnceOneIn)) Machine::Land(copy);
  }
}

}  // namespace

// ---- CopyAsync16, CommitCopies and WaitCopies

void Machine::Land(PendingCopy& copy) {
  copy.landed = true;
  if (copy.bytes > 0) std::memcpy(copy.shared, copy.global, static_cast<size_t>(copy.bytes));
  std::memset(copy.shared + copy.bytes, 0, static_cast<size_t>(kChunk - copy.bytes));
}

void CopyAsync16(void* shared, const void* global, int bytes, Site site) {
  Machine& machine = Machine::Get();
  Thread& thread = machine.current();
  if (bytes < 0 || bytes > kChunk)
    machine.Fail(
        site,
        fmt::format("an asynchronous copy has {} bytes; the number must be from 0 to 16", bytes));
  if (bytes > 0 && !IsAligned(global))
    machine.Fail(site, "the source of an asynchronous copy is not aligned to 16 bytes");
  CheckShared(shared, kChunk, site);
  const Block& block = *thread.warp->block;
  if (block.races != nullptr) {
    std::string race =
        block.races->BeginCopy(thread.thread, {block.OffsetOf(shared), kChunk}, site);
    if (!race.empty()) machine.Fail(site, std::move(race));
  }
  machine.Count(AccessKind::kSharedCopy, shared, kChunk, site);
  if (bytes > 0) {
    machine.Count(AccessKind::kGlobalCopy, global, kChunk, site);
    machine.CheckGlobal(global, bytes, Access::kRead, site);
  }
  machine.report().async_bytes += bytes;
  thread.copies.push_back({.shared = static_cast<char*>(shared),
                           .global = static_cast<const char*>(global),
                           .bytes = bytes,
                           .group = thread.num_groups});
  if (machine.random().OneIn(kLandsAtOnceOneIn)) Machine::Land(thread.copies.back());
}

void CommitCopies() {
  Thread& thread = Machine::Get().current();
  ++thread.num_groups;
  LandSomeOf(thread);
}

void WaitCopies(int left) {
  Thread& thread = Machine::Get().current();
  SharedRaces* races = thread.warp->block->races.get();
  const int64_t first_left = thread.num_groups - left;
  const auto is_left = [&](const PendingCopy& copy) { return copy.group >= first_left; };
  const auto end = std::find_if(thread.copies.begin(), thread.copies.end(), is_left);
  for (auto copy = thread.copies.begin(); copy != end; ++copy) {
    if (!copy->landed) Machine::Land(*copy);
    if (races != nullptr) {
      races->EndCopy(thread.thread, {thread.warp->block->OffsetOf(copy->shared), kChunk});
    }
  }
  thread.copies.erase(thread.copies.begin(), end);
  LandSomeOf(thread);
}

// ---- mbarriers and CopyBulk

void InitBarrier(uint64_t* barrier, int num_arrivals, Site site) {
  Machine& machine = Machine::Get();
  TouchShared(barrier, sizeof(*barrier), Access::kWrite, site);
  if (num_arrivals <= 0)
    machine.Fail(
        site,
        fmt::format("an mbarrier is initialised with {} arrivals; the number must be at least 1",
                    num_arrivals));
  auto& barriers = machine.current().warp->block->barriers;
  for (const auto& other : barriers) {
    if (other->address == barrier)
      machine.Fail(site, "InitBarrier is called twice for the same mbarrier");
  }
  if (barriers.size() == Clocks::kMostBarriers) {
    machine.Fail(site, fmt::format("a thread block initialises more than {} mbarriers",
                                   Clocks::kMostBarriers));
  }
  *barrier = barriers.size();
  barriers.push_back(std::make_unique<MemoryBarrier>());
  barriers.back()->address = barrier;
  barriers.back()->num_arrivals = num_arrivals;
  barriers.back()->missing_arrivals = num_arrivals;
}

void FenceBarriers() {
  for (auto& barrier : Machine::Get().current().warp->block->barriers) barrier->is_fenced = true;
}

void Arrive(uint64_t* address, uint32_t expected_bytes, Site site) {
  Machine& machine = Machine::Get();
  const Thread& thread = machine.current();
  Block& block = *thread.warp->block;
  const size_t index = FindBarrier(address, site);
  MemoryBarrier& barrier = *block.barriers[index];
  if (barrier.missing_arrivals == 0) {
    machine.Fail(site, fmt::format("an mbarrier has more than {} arrivals in one phase",
                                   barrier.num_arrivals));
  }
  --barrier.missing_arrivals;
  barrier.missing_bytes += expected_bytes;
  barrier.unclaimed_bytes += expected_bytes;
  if (block.races != nullptr) {
    Clocks& clocks = block.races->clocks();
    if (barrier.released.empty()) barrier.released = clocks.MakeVector();
    clocks.Release(thread.thread, barrier.released);
  }
  machine.Arrived(block, static_cast<int>(index));
}

void Machine::Arrived(Block& block, int index) {
  MemoryBarrier& barrier = *block.barriers[static_cast<size_t>(index)];
  if (barrier.missing_arrivals > 0 || barrier.missing_bytes > 0) return;
  barrier.missing_arrivals = barrier.num_arrivals;
  ++barrier.phase;
  if (block.races != nullptr) {
    const int agent = block.races->clocks().bulk_agent(index);
    barrier.released[static_cast<size_t>(agent)] = barrier.phase;
    barrier.known = std::make_shared<const ClockVector>(barrier.released);
  }
  WakeAll(barrier.waiting);
}

void WaitBarrier(uint64_t* address, uint32_t parity, Site site) {
  Machine& machine = Machine::Get();
  if (parity > 1)
    machine.Fail(
        site,
        fmt::format("the thread waits for parity {} of an mbarrier; the parity must be 0 or 1",
                    parity));
  const Thread& thread = machine.current();
  const Block& block = *thread.warp->block;
  const size_t index = FindBarrier(address, site);
  MemoryBarrier& barrier = *block.barriers[index];
  while ((barrier.phase & 1) == parity) {
    barrier.waiting.push_back(&machine.current());
    const char* name = parity == 0 ? "mbarrier parity 0, byte" : "mbarrier parity 1, byte";
    machine.WaitFor(Wait::kMemoryBarrier, block.OffsetOf(address), name, site);
  }
  if (barrier.known == nullptr) return;
  block.races->clocks().Acquire(thread.thread, static_cast<int>(index), barrier.known);
}

void FenceBulk(Memory memory) {
  const Thread& thread = Machine::Get().current();
  SharedRaces* races = thread.warp->block->races.get();
  if (races != nullptr) races->FenceBulk(thread.thread, memory);
}

void CopyBulk(void* shared, const void* global, uint32_t bytes, uint64_t* address, Site site) {
  Machine& machine = Machine::Get();
  const Thread& thread = machine.current();
  Block& block = *thread.warp->block;
  const size_t index = FindBarrier(address, site);
  MemoryBarrier& barrier = *block.barriers[index];
  if (bytes == 0 || bytes % kChunk != 0 || !IsAligned(shared) || !IsAligned(global)) {
    machine.Fail(
        site,
        fmt::format("a bulk copy has {} bytes; size, source and destination must be multiples "
                    "of 16 bytes",
                    bytes));
  }
  if (barrier.unclaimed_bytes < bytes) {
    machine.Fail(
        site, fmt::format("a bulk copy has {} bytes, but its mbarrier expects only {} more bytes",
                          bytes, barrier.unclaimed_bytes));
  }
  CheckShared(shared, static_cast<int>(bytes), site);
  if (block.races != nullptr) {
    std::string race =
        block.races->BeginBulk(thread.thread, {block.OffsetOf(shared), static_cast<int>(bytes)},
                               static_cast<int>(index), barrier.phase + 1, site);
    if (!race.empty()) machine.Fail(site, std::move(race));
  }
  machine.CheckGlobal(global, bytes, Access::kBulkRead, site);
  barrier.unclaimed_bytes -= bytes;
  machine.report().bulk_bytes += bytes;
  machine.Issue({.block = &block,
                 .barrier = static_cast<int>(index),
                 .shared = static_cast<char*>(shared),
                 .global = static_cast<const char*>(global),
                 .bytes = bytes});
}

void Machine::Issue(const BulkCopy& copy) {
  bulk_.push_back(copy);
  if (landing_one_in_ == 1 && random_.OneIn(2)) LandBulk(bulk_.size() - 1);
}

void Machine::LandSome() {
  if (bulk_.empty() || landing_one_in_ == 0 || !random_.OneIn(landing_one_in_)) return;
  LandBulk(random_.Below(bulk_.size()));
}

void Machine::LandBulk(size_t which) {
  const BulkCopy copy = bulk_[which];
  bulk_[which] = bulk_.back();
  bulk_.pop_back();
  std::memcpy(copy.shared, copy.global, copy.bytes);
  MemoryBarrier& barrier = *copy.block->barriers[static_cast<size_t>(copy.barrier)];
  barrier.missing_bytes -= copy.bytes;
  Arrived(*copy.block, copy.barrier);
}

}  // namespace incipit::emulator
