#include "kernels/emulator/global_races.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/emulator/machine.h"

namespace incipit::emulator {
namespace {

constexpr uintptr_t kGlobalWordBytes = 4;

const Grid& GridOf(const Thread& thread) { return *thread.warp->block->cluster->grid; }
Clocks& ClocksOf(const Thread& thread) { return thread.warp->block->races->clocks(); }

}  // namespace

GlobalRaces::Page& GlobalRaces::PageOf(uintptr_t address) {
  const uintptr_t number = address / kPageBytes;
  if (number == latest_) return *latest_page_;
  auto& page = pages_[number];
  if (page == nullptr) page = std::make_unique<Page>();
  latest_ = number;
  latest_page_ = page.get();
  return *page;
}

std::string GlobalRaces::Touch(const Thread& thread, const void* address, int64_t bytes,
                               Access access, Site site) {
  const auto first = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = first + static_cast<uintptr_t>(bytes);
  Event now = {.grid = GridOf(thread).index,
               .block = thread.block,
               .clock = ClocksOf(thread).Now(thread.thread),
               .thread = static_cast<uint16_t>(thread.thread),
               .is_atomic = access == Access::kAtomic};
  for (uintptr_t word = first / kGlobalWordBytes * kGlobalWordBytes; word < end;
       word += kGlobalWordBytes) {
    const uintptr_t from = std::max(first, word) - word;
    const uintptr_t to = std::min(end - word, kGlobalWordBytes);
    now.bytes = static_cast<uint8_t>((1U << to) - (1U << from));
    Word& state = PageOf(word)[word % kPageBytes / kGlobalWordBytes];
    if (TouchWord(thread, state, now, access)) continue;
    const bool reads = access != Access::kWrite && access != Access::kAtomic;
    return fmt::format(
        "race between two accesses of global memory; later access: kernel {}, block {}, thread {} "
        "{} {} bytes, source line {}:{}; conflict with the earlier access: {}",
        now.grid, now.block, now.thread, reads ? "reads" : "writes", bytes, site.file, site.line,
        race_);
  }
  return {};
}

bool GlobalRaces::TouchWord(const Thread& thread, Word& word, const Event& now, Access access) {
  const auto conflicts = [&](const Event& before) {
    if (before.grid < 0 || (before.bytes & now.bytes) == 0) return false;
    if (before.is_atomic && now.is_atomic && before.grid == now.grid) return false;
    return !IsOrdered(thread, before);
  };
  if (conflicts(word.write)) return Race(Describe(word.write, "wrote"));
  if (access == Access::kConstant && word.write.grid >= 0 && (word.write.bytes & now.bytes) != 0 &&
      (word.write.grid == now.grid ||
       (word.write.grid >= GridOf(thread).first_running && GridOf(thread).launch.dependent))) {
    return Race("LoadConstant reads the bytes as a constant, but a kernel writes the same bytes; " +
                Describe(word.write, "wrote"));
  }
  if (access == Access::kBulkRead && word.write.grid >= 0 && NeedsFence(thread, word.write)) {
    return Race("FenceBulkGlobal was not called after the barrier and before this bulk copy; " +
                Describe(word.write, "wrote"));
  }
  if (access != Access::kWrite && access != Access::kAtomic) {
    if (now.grid < word.read.grid) return true;
    const bool adds = word.read.grid == now.grid && word.read.block == now.block &&
                      word.read.thread == now.thread && word.read.clock == now.clock;
    const uint8_t bytes = adds ? word.read.bytes : uint8_t{0};
    word.read = now;
    word.read.bytes = static_cast<uint8_t>(bytes | now.bytes);
    return true;
  }
  if (conflicts(word.read)) return Race(Describe(word.read, "read"));
  word.write = now;
  return true;
}

bool GlobalRaces::Race(std::string what) {
  race_ = std::move(what);
  return false;
}

bool GlobalRaces::NeedsFence(const Thread& thread, const Event& before) {
  const Grid& grid = GridOf(thread);
  const SharedRaces& races = *thread.warp->block->races;
  if (before.grid < grid.first_running) return false;
  if (before.grid < grid.index) {
    return !races.IsFenced(thread.thread, ClocksOf(thread).kernels_agent(), 1, Memory::kGlobal);
  }
  return before.block == thread.block &&
         !races.IsFenced(thread.thread, before.thread, before.clock, Memory::kGlobal);
}

bool GlobalRaces::IsOrdered(const Thread& thread, const Event& before) {
  const Grid& grid = GridOf(thread);
  Clocks& clocks = ClocksOf(thread);
  if (before.grid > grid.index) return false;
  if (before.grid < grid.index) {
    if (before.grid < grid.first_running) return true;
    return clocks.Knows(thread.thread, clocks.kernels_agent(), 1) &&
           Machine::Get().grids()[static_cast<size_t>(before.grid)]->has_ended();
  }
  if (before.block == thread.block) {
    return clocks.Knows(thread.thread, before.thread, before.clock);
  }
  for (const LearnedOfBlocks& learned : thread.warp->block->learned) {
    if (!clocks.Knows(thread.thread, learned.thread, learned.clock)) continue;
    for (const BlockKnowledge& other : learned.blocks) {
      if (other.block == before.block && before.clock <= (*other.known)[before.thread]) return true;
    }
  }
  return false;
}

void GlobalRaces::Learn(std::vector<BlockKnowledge>& blocks, const BlockKnowledge& more) {
  const auto same = std::find_if(blocks.begin(), blocks.end(), [&](const BlockKnowledge& one) {
    return one.block == more.block;
  });
  if (same == blocks.end()) {
    blocks.push_back(more);
  } else if (same->known != more.known) {
    auto joined = std::make_shared<ClockVector>(*same->known);
    for (size_t i = 0; i < joined->size(); ++i) {
      (*joined)[i] = std::max((*joined)[i], (*more.known)[i]);
    }
    same->known = std::move(joined);
  }
}

void GlobalRaces::Order(const Thread& thread, const void* address) {
  const int grid = GridOf(thread).index;
  Block& block = *thread.warp->block;
  AtomicWord& word = atomics_[reinterpret_cast<uintptr_t>(address)];
  if (word.grid != grid) word = {.grid = grid, .blocks = {}};
  std::vector<BlockKnowledge> before = word.blocks;
  for (const LearnedOfBlocks& learned : block.learned) {
    if (!ClocksOf(thread).Knows(thread.thread, learned.thread, learned.clock)) continue;
    for (const BlockKnowledge& other : learned.blocks) Learn(word.blocks, other);
  }
  Learn(word.blocks, {thread.block, ClocksOf(thread).Snapshot(thread.thread)});
  if (before.empty()) return;
  block.learned.push_back({thread.thread, ClocksOf(thread).Now(thread.thread), std::move(before)});
}

std::string GlobalRaces::Describe(const Event& before, const char* did) {
  return fmt::format(
      "in kernel {}, block {}, thread {}, another access {} the same bytes; nothing orders the two "
      "accesses",
      before.grid, before.block, before.thread, did);
}

}  // namespace incipit::emulator
