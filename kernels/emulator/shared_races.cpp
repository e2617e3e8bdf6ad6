#include "kernels/emulator/shared_races.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace incipit::emulator {
namespace {

constexpr int kWordBytes = 4;

template <class T>
T* Zeros(size_t count) {
  auto* array = static_cast<T*>(std::calloc(std::max<size_t>(count, 1), sizeof(T)));
  INCIPIT_CHECK(array != nullptr);
  return array;
}

const char* NameOf(Access access) {
  switch (access) {
    case Access::kWrite:
      return "writes";
    case Access::kAtomic:
      return "updates";
    default:
      return "reads";
  }
}

}  // namespace

SharedRaces::SharedRaces(int num_threads, int shared_bytes)
    : num_warps_(num_threads / kLanes),
      clocks_(num_threads),
      known_writes_(static_cast<size_t>(num_threads)) {
  for (auto& fences : fences_) fences.resize(static_cast<size_t>(num_threads));
  const auto words = static_cast<size_t>((shared_bytes + kWordBytes - 1) / kWordBytes);
  writes_.reset(Zeros<Write>(words));
  reads_.reset(Zeros<Read>(words * static_cast<size_t>(num_warps_)));
  remote_reads_.reset(Zeros<Clock>(words));
}

template <class Each>
std::string SharedRaces::ForWords(Range range, Each each) {
  const int end = range.offset + range.bytes;
  for (int word = range.offset / kWordBytes; word * kWordBytes < end; ++word) {
    const int first = std::max(range.offset - word * kWordBytes, 0);
    const int last = std::min(end - word * kWordBytes, kWordBytes);
    const auto bytes = static_cast<uint8_t>((1 << last) - (1 << first));
    if (!each(Word{word, bytes})) return std::move(race_);
  }
  return {};
}

bool SharedRaces::Race(std::string what) {
  race_ = std::move(what);
  return false;
}

bool SharedRaces::KnowsWrite(int thread, Word word) {
  const Write& write = writes_.get()[word.index];
  if (write.clock == 0 || (write.bytes & word.bytes) == 0) return true;
  if (write.clock == kInFlight) return false;
  const uint64_t key = static_cast<uint64_t>(write.agent) << 32 | write.clock;
  uint64_t& known = known_writes_[static_cast<size_t>(thread)];
  if (key == known) return true;
  if (!clocks_.Knows(thread, write.agent, write.clock)) return false;
  known = key;
  return true;
}

bool SharedRaces::KnowsReads(int thread, Word word, int& warp) {
  const Read* reads = reads_.get() + static_cast<int64_t>(word.index) * num_warps_;
  for (warp = 0; warp < num_warps_; ++warp) {
    const Read& read = reads[warp];
    if (read.clock == 0 || (read.bytes & word.bytes) == 0) continue;
    const bool knows =
        read.lane == Read::kSeveral
            ? clocks_.KnowsWarp(thread, warp, read.clock)
            : clocks_.Knows(thread, warp * kLanes + static_cast<int>(read.lane), read.clock);
    if (!knows) return false;
  }
  const Clock remote = remote_reads_.get()[word.index];
  return remote == 0 || clocks_.Knows(thread, clocks_.remote_agent(), remote);
}

void SharedRaces::NoteRead(int thread, Word word) {
  Read& read = reads_.get()[static_cast<int64_t>(word.index) * num_warps_ + thread / kLanes];
  const Clock now = std::min(clocks_.Now(thread), kMostClock - 1);
  const auto lane = static_cast<uint32_t>(thread % kLanes);
  if (read.clock == now && read.lane == lane) {
    read.bytes = (read.bytes | word.bytes) & 0xF;
  } else if (read.clock == now && read.bytes == word.bytes) {
    read.lane = Read::kSeveral;
  } else {
    read.clock = now & kMostClock;
    read.lane = lane & 0x3F;
    read.bytes = word.bytes & 0xF;
  }
}

std::string SharedRaces::Touch(int thread, Range range, Access access, Site site) {
  if (access == Access::kWrite) {
    return Overwrite(thread, range, {.clock = clocks_.Now(thread), .kind = kStore}, site);
  }
  return ForWords(range, [&](Word word) {
    Write& write = writes_.get()[word.index];
    const bool among_atomics = access == Access::kAtomic && write.kind == kAtomicOp;
    if (!among_atomics && !KnowsWrite(thread, word)) {
      return Race(DescribeWrite(thread, word, NameOf(access), site));
    }
    if (access != Access::kAtomic) {
      NoteRead(thread, word);
      return true;
    }
    int warp = 0;
    if (!KnowsReads(thread, word, warp)) return Race(DescribeRead(thread, word, warp, site));
    write = {.clock = clocks_.Now(thread),
             .agent = static_cast<uint16_t>(thread),
             .bytes = word.bytes,
             .kind = kAtomicOp,
             .line = site.line};
    return true;
  });
}

std::string SharedRaces::Observe(int thread, Range range, Site site) {
  return ForWords(range, [&](Word word) {
    return KnowsWrite(thread, word) || Race(DescribeWrite(thread, word, "uses", site));
  });
}

std::string SharedRaces::Overwrite(int thread, Range range, const Write& write, Site site) {
  return ForWords(range, [&](Word word) {
    if (!KnowsWrite(thread, word)) return Race(DescribeWrite(thread, word, "writes", site));
    int warp = 0;
    if (!KnowsReads(thread, word, warp)) return Race(DescribeRead(thread, word, warp, site));
    Write& old = writes_.get()[word.index];
    if (write.kind == kBulk && old.clock != 0 && old.kind != kBulk &&
        !IsFenced(thread, old.agent, old.clock, Memory::kShared)) {
      return Race(DescribeWrite(thread, word, "copies without FenceBulkShared over", site));
    }
    const bool adds = old.clock == write.clock && old.agent == thread && old.kind == write.kind;
    const auto bytes = static_cast<uint8_t>(adds ? old.bytes | word.bytes : word.bytes);
    old = write;
    if (write.kind != kBulk) old.agent = static_cast<uint16_t>(thread);
    old.bytes = bytes;
    old.line = site.line;
    return true;
  });
}

std::string SharedRaces::BeginCopy(int thread, Range range, Site site) {
  return Overwrite(thread, range, {.clock = kInFlight, .kind = kCopy}, site);
}

void SharedRaces::EndCopy(int thread, Range range) {
  ForWords(range, [&](Word word) {
    Write& write = writes_.get()[word.index];
    if (write.kind == kCopy && write.agent == thread) write.clock = clocks_.Now(thread);
    return true;
  });
}

std::string SharedRaces::BeginMultiply(int thread, Range range, Site site) {
  return ForWords(range, [&](Word word) {
    if (!KnowsWrite(thread, word)) return Race(DescribeWrite(thread, word, "multiplies", site));
    const Write& write = writes_.get()[word.index];
    if (write.clock != 0 && write.kind != kBulk &&
        !IsFenced(thread, write.agent, write.clock, Memory::kShared)) {
      return Race(DescribeWrite(thread, word, "multiplies without FenceBulkShared", site));
    }
    Read& read = reads_.get()[static_cast<int64_t>(word.index) * num_warps_ + thread / kLanes];
    read.clock = kMostClock;
    read.lane = Read::kSeveral;
    read.bytes = 0xF;
    return true;
  });
}

void SharedRaces::EndMultiply(int thread, Range range) {
  ForWords(range, [&](Word word) {
    Read& read = reads_.get()[static_cast<int64_t>(word.index) * num_warps_ + thread / kLanes];
    read.clock = std::min(clocks_.Now(thread), kMostClock - 1) & kMostClock;
    return true;
  });
}

std::string SharedRaces::BeginBulk(int thread, Range range, int barrier, Clock phase, Site site) {
  return Overwrite(
      thread, range,
      {.clock = phase, .agent = static_cast<uint16_t>(clocks_.bulk_agent(barrier)), .kind = kBulk},
      site);
}

void SharedRaces::FenceBulk(int thread, Memory memory) {
  Fences& fences = fences_[static_cast<size_t>(memory)][static_cast<size_t>(thread)];
  fences.known = clocks_.Snapshot(thread);
  fences.clocks.push_back((*fences.known)[static_cast<size_t>(thread)]);
}

bool SharedRaces::IsFenced(int thread, int agent, Clock clock, Memory memory) const {
  const auto& all = fences_[static_cast<size_t>(memory)];
  const Fences& mine = all[static_cast<size_t>(thread)];
  if (mine.known != nullptr && clock <= (*mine.known)[static_cast<size_t>(agent)]) return true;
  // Agents that are not threads, for example bulk copies, have larger numbers and never call
  // FenceBulk().
  if (agent >= static_cast<int>(all.size())) return false;
  const auto& theirs = all[static_cast<size_t>(agent)].clocks;
  const auto fence = std::lower_bound(theirs.begin(), theirs.end(), clock);
  return fence != theirs.end() && clocks_.Knows(thread, agent, *fence);
}

std::string SharedRaces::ReadRemotely(Range range, Site site) {
  return ForWords(range, [&](Word word) {
    const Write& write = writes_.get()[word.index];
    if (write.clock != 0 && !clocks_.IsKnownToCluster(write.agent, write.clock)) {
      return Race(fmt::format(
          "race: the code at {}:{} reads byte {} of another block's shared memory, but the other "
          "block wrote this byte at line {} after the last barrier of the cluster",
          site.file, site.line, word.index * kWordBytes, write.line));
    }
    remote_reads_.get()[word.index] = last_remote_read_ = clocks_.ClusterArrivals() + 1;
    return true;
  });
}

std::string SharedRaces::DescribeWrite(int thread, Word word, const char* does, Site site) const {
  const Write& write = writes_.get()[word.index];
  std::string by = fmt::format("thread {} wrote", write.agent);
  if (write.kind == kCopy) {
    by = fmt::format("thread {}{} copied to", write.agent,
                     write.clock == kInFlight ? ", which has not waited," : "");
  } else if (write.kind == kBulk) {
    by = "a pending bulk copy wrote";
  } else if (write.kind == kAtomicOp) {
    by = fmt::format("thread {} updated", write.agent);
  }
  return fmt::format(
      "race between two accesses of shared memory: thread {} {} byte {} at {}:{}, and {} the same "
      "byte at line {}; nothing orders the two accesses",
      thread, does, word.index * kWordBytes, site.file, site.line, by, write.line);
}

std::string SharedRaces::DescribeRead(int thread, Word word, int warp, Site site) const {
  std::string by = "another block";
  if (warp < num_warps_) {
    const Read& read = reads_.get()[static_cast<int64_t>(word.index) * num_warps_ + warp];
    by = read.lane == Read::kSeveral
             ? fmt::format("lanes of warp {}", warp)
             : fmt::format("thread {}", warp * kLanes + static_cast<int>(read.lane));
  }
  return fmt::format(
      "race: thread {} overwrites byte {} of shared memory at {}:{}, but {} may still read this "
      "byte",
      thread, word.index * kWordBytes, site.file, site.line, by);
}

}  // namespace incipit::emulator
