// Emulates wgmma, the asynchronous matrix product instruction of a warpgroup (four warps). Each
// warp computes 16 rows of the product, at a random time before the kernel waits for the product.
//
// Until the kernel calls EndMultiplies(), its result variables contain a NaN. If the kernel
// overwrites the NaN, the emulation stops with an error.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/emulator/machine.h"

namespace incipit::emulator {
namespace {

constexpr int kRowBytes = 128, kChunkBytes = 16, kWarpRows = 16, kDepth = 16;
constexpr int kAlignment = 1024, kWarpsOfGroup = 4;
constexpr size_t kRunsAtOnceOneIn = 4;
// Bits of the NaN that is stored in a result variable while the kernel must not access the
// variable.
constexpr uint32_t kTakenSum = 0x7FC0DEAD;

constexpr const char* kFence = "FenceMultiplies";
constexpr const char* kMultiply = "MultiplyAddWarpgroup";
constexpr const char* kCommit = "CommitMultiplies";
constexpr const char* kWait = "WaitMultiplies";
constexpr const char* kEnd = "EndMultiplies";

struct Request {
  LaneSums sums;
  const char *a, *b;
  Site site;
};

// Returns the byte offset in shared memory of 8 consecutive elements of row `row`. `matrix` is the
// byte offset of a matrix with 16 columns. `half` selects the columns: 0 for [0, 8), 1 for [8, 16).
int ChunkAt(int matrix, int row, int half) {
  const int first = matrix % kRowBytes / kChunkBytes;
  return matrix / kAlignment * kAlignment + row * kRowBytes +
         ((first + half) ^ (row % 8)) * kChunkBytes;
}

float Widen(const char* from) {
  dev::bf16 value;
  std::memcpy(&value, from, sizeof(value));
  return dev::ToFloat(value);
}

int FirstRow(const Warp& warp) {
  return warp.lanes.front().thread / kLanes % kWarpsOfGroup * kWarpRows;
}

// Calls each(offset) for every 16 bytes of shared memory that the warp reads for the matrix product
// `one`. `offset` is the byte offset of these 16 bytes in shared memory.
template <class Each>
void ForChunks(const Warp& warp, const Multiplication& one, Each each) {
  for (int half = 0; half < 2; ++half) {
    for (int row = 0; row < kWarpRows; ++row) each(ChunkAt(one.a, FirstRow(warp) + row, half));
    for (int row = 0; row < one.num_blocks * 8; ++row) each(ChunkAt(one.b, row, half));
  }
}

// Returns the element of warp.sums whose results for lane 0 are stored at address `home`, or null
// if there is no such element.
WarpSums* FindSums(Warp& warp, const float* home) {
  const auto at = std::find_if(warp.sums.begin(), warp.sums.end(),
                               [&](const WarpSums& each) { return each.home[0] == home; });
  return at == warp.sums.end() ? nullptr : &*at;
}

void Compute(Warp& warp, Multiplication& one) {
  if (one.is_computed) return;
  one.is_computed = true;
  const auto columns = static_cast<size_t>(one.num_blocks) * 8;
  const char* const shared = warp.block->shared.get();
  float a[kWarpRows][kDepth];
  std::vector<float> b(kDepth * columns);
  for (int k = 0; k < kDepth; ++k) {
    const int half = k / 8, within = k % 8 * 2;
    for (int row = 0; row < kWarpRows; ++row) {
      a[row][k] = Widen(shared + ChunkAt(one.a, FirstRow(warp) + row, half) + within);
    }
    for (size_t row = 0; row < columns; ++row) {
      b[static_cast<size_t>(k) * columns + row] =
          Widen(shared + ChunkAt(one.b, static_cast<int>(row), half) + within);
    }
  }
  WarpSums& all = *FindSums(warp, one.sums);
  for (size_t row = 0; row < kWarpRows; ++row) {
    float* const sums = all.values.data() + row * columns;
    for (size_t k = 0; k < kDepth; ++k) {
      const float* const others = b.data() + k * columns;
      for (size_t column = 0; column < columns; ++column)
        sums[column] += a[row][k] * others[column];
    }
  }
}

// Calls each(lane, i, index) for all results of a warp. Result i of lane `lane` is stored in
// WarpSums::values[index].
template <class Each>
void ForLaneValues(int num_blocks, Each each) {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t i = 0; i < static_cast<size_t>(num_blocks) * 4; ++i) {
      const size_t row = lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      each(lane, i, row * static_cast<size_t>(num_blocks) * 8 + column);
    }
  }
}

LaneSums RequestedSums(const Warp& warp, size_t lane) {
  return static_cast<const Request*>(warp.requests[lane])->sums;
}

// Copies the result variables of all lanes of `warp` to WarpSums::values.
void Fence(Warp& warp) {
  const LaneSums first = RequestedSums(warp, 0);
  WarpSums* sums = FindSums(warp, first.values);
  if (sums == nullptr) sums = &warp.sums.emplace_back();
  if (sums->is_taken) return;
  sums->num_blocks = first.num_blocks;
  sums->values.resize(static_cast<size_t>(kWarpRows * first.num_blocks * 8));
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sums->home[lane] = RequestedSums(warp, lane).values;
  }
  ForLaneValues(first.num_blocks, [&](size_t lane, size_t i, size_t index) {
    sums->values[index] = sums->home[lane][i];
  });
}

bool SameBits(const float& stored, float value) {
  return std::memcmp(&stored, &value, sizeof(value)) == 0;
}

// Overwrites the result variables of all lanes of `warp` with a NaN, because the kernel must not
// access them before it calls EndMultiplies().
void Take(Warp& warp, Site site) {
  WarpSums* const sums = FindSums(warp, RequestedSums(warp, 0).values);
  bool is_fenced = sums != nullptr;
  if (is_fenced && !sums->is_taken) {
    ForLaneValues(sums->num_blocks, [&](size_t lane, size_t i, size_t index) {
      float& home = sums->home[lane][i];
      is_fenced = is_fenced && SameBits(home, sums->values[index]);
      std::memcpy(&home, &kTakenSum, sizeof(kTakenSum));
    });
  }
  if (!is_fenced)
    Machine::Get().Fail(site,
                        "the kernel changed the sums of a matrix product, and did not call "
                        "FenceMultiplies afterwards");
  sums->is_taken = true;
}

void GiveBack(Warp& warp) {
  Machine& machine = Machine::Get();
  const Site site = static_cast<Request*>(warp.requests[0])->site;
  WarpSums* const sums = FindSums(warp, RequestedSums(warp, 0).values);
  if (sums == nullptr)
    machine.Fail(site, "EndMultiplies and MultiplyAddWarpgroup get different result variables");
  if (!warp.multiplying.empty())
    machine.Fail(site,
                 "the kernel must call CommitMultiplies after MultiplyAddWarpgroup and before "
                 "EndMultiplies");
  const auto taken = dev::BitCast<float>(kTakenSum);
  bool is_written = false;
  ForLaneValues(sums->num_blocks, [&](size_t lane, size_t i, size_t index) {
    float& home = sums->home[lane][i];
    is_written = is_written || (sums->is_taken && !SameBits(home, taken));
    home = sums->values[index];
  });
  if (is_written)
    machine.Fail(
        site,
        "the kernel wrote sums of a matrix product between MultiplyAddWarpgroup and EndMultiplies");
  warp.sums.erase(warp.sums.begin() + (sums - warp.sums.data()));
}

void CheckMatrix(const char* matrix, int rows, Site site) {
  const int offset = static_cast<int>(matrix - Running().shared);
  if (offset % kAlignment >= kRowBytes || offset % (2 * kChunkBytes) != 0) {
    Machine::Get().Fail(
        site,
        fmt::format("the matrix has offset {} in shared memory; the offset must be a multiple of "
                    "32, and its remainder modulo {} must be less than 128",
                    offset, kAlignment));
  }
  CheckShared(Running().shared + offset / kAlignment * kAlignment, rows * kRowBytes, site);
}

// Stops the emulation with an error if the four warps of a warpgroup request different matrix
// products.
void CompareWithGroup(Warp& warp, const Multiplication& one, Site site) {
  const auto group = static_cast<size_t>(warp.lanes.front().thread / kLanes / kWarpsOfGroup);
  auto& all = warp.block->multiplications;
  if (all.size() <= group) all.resize(group + 1);
  const std::array<int, 3> what = {one.a, one.b, one.num_blocks};
  if (warp.num_multiplications == all[group].size()) {
    all[group].push_back(what);
  } else if (all[group][warp.num_multiplications] != what) {
    Machine::Get().Fail(
        site, "the warp and another warp of its warpgroup request different matrix products");
  }
  ++warp.num_multiplications;
}

void Start(Warp& warp) {
  Machine& machine = Machine::Get();
  const auto& mine = *static_cast<Request*>(warp.requests[0]);
  for (const void* each : warp.requests) {
    const auto& request = *static_cast<const Request*>(each);
    if (request.a != mine.a || request.b != mine.b) {
      machine.Fail(mine.site,
                   "the lanes of a warp pass different matrices to MultiplyAddWarpgroup");
    }
  }
  const Multiplication one = {.a = warp.block->OffsetOf(mine.a),
                              .b = warp.block->OffsetOf(mine.b),
                              .num_blocks = mine.sums.num_blocks,
                              .sums = mine.sums.values,
                              .group = warp.num_multiply_groups,
                              .site = mine.site};
  CompareWithGroup(warp, one, mine.site);
  if (SharedRaces* races = warp.block->races.get(); races != nullptr) {
    std::string race;
    ForChunks(warp, one, [&](int chunk) {
      if (!race.empty()) return;
      race = races->BeginMultiply(machine.current().thread, {chunk, kChunkBytes}, mine.site);
    });
    if (!race.empty()) machine.Fail(mine.site, std::move(race));
  }
  Take(warp, mine.site);
  warp.multiplying.push_back(one);
  machine.report().multiply_adds += one.num_blocks;
  if (!machine.random().OneIn(kRunsAtOnceOneIn)) return;
  for (Multiplication& each : warp.multiplying) Compute(warp, each);
}

void Finish(Warp& warp, int64_t before_group) {
  const int thread = Machine::Get().current().thread;
  while (!warp.multiplying.empty() && warp.multiplying.front().group < before_group) {
    Multiplication& one = warp.multiplying.front();
    Compute(warp, one);
    if (SharedRaces* races = warp.block->races.get(); races != nullptr) {
      ForChunks(warp, one, [&](int chunk) { races->EndMultiply(thread, {chunk, kChunkBytes}); });
    }
    warp.multiplying.pop_front();
  }
}

}  // namespace

void FenceMultiplies(const LaneSums& sums, Site site) {
  Request request{sums, nullptr, nullptr, site};
  Machine::Get().MeetWarp(kFence, &request, Fence, site);
}

void MultiplyAddWarpgroup(const LaneSums& sums, const char* a, const char* b, Site site) {
  CheckMatrix(a, kWarpsOfGroup * kWarpRows, site);
  CheckMatrix(b, sums.num_blocks * 8, site);
  Request request{sums, a, b, site};
  Machine::Get().MeetWarp(kMultiply, &request, Start, site);
}

void CommitMultiplies(Site site) {
  Machine::Get().MeetWarp(
      kCommit, nullptr, [](Warp& warp) { ++warp.num_multiply_groups; }, site);
}

void WaitMultiplies(int left, Site site) {
  Machine::Get().MeetWarp(
      kWait, &left,
      [](Warp& warp) {
        const int most = *static_cast<int*>(warp.requests[0]);
        Finish(warp, warp.num_multiply_groups - most);
      },
      site);
}

void EndMultiplies(const LaneSums& sums, Site site) {
  WaitMultiplies(0, site);
  Request request{sums, nullptr, nullptr, site};
  Machine::Get().MeetWarp(kEnd, &request, GiveBack, site);
}

std::string FindUnfinishedMultiplies(const Block& block) {
  for (const auto& warp : block.warps) {
    const auto number = static_cast<size_t>(warp->lanes.front().thread / kLanes);
    if (!warp->multiplying.empty()) {
      const Site site = warp->multiplying.front().site;
      return fmt::format(
          "block {} ended while warp {} had not waited for MultiplyAddWarpgroup, "
          "which it called at {}:{}",
          block.index, number, site.file, site.line);
    }
    const size_t group = number / kWarpsOfGroup;
    if (group < block.multiplications.size() &&
        warp->num_multiplications != block.multiplications[group].size()) {
      return fmt::format(
          "block {} ended after warp {} had computed {} matrix products, but other warps of its "
          "warpgroup had computed {}",
          block.index, number, warp->num_multiplications, block.multiplications[group].size());
    }
  }
  return {};
}

}  // namespace incipit::emulator
