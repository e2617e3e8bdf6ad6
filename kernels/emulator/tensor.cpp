// Emulates the PTX instructions ldmatrix and mma.sync. Each result of mma.sync is an f32 sum, whose
// products are added in ascending order of the summation index.
#include <array>
#include <cstring>

#include "kernels/emulator/machine.h"

namespace incipit::emulator {
namespace {

constexpr const char* kLoadMatrices = "LoadMatricesWarp";
constexpr const char* kLoadTransposed = "LoadMatricesTransposedWarp";
constexpr const char* kMultiplyAdd = "MultiplyAddWarp";

struct LoadRequest {
  const char* row;
  uint32_t* words;
  Site site;
};

struct MultiplyRequest {
  float* sums;
  const uint32_t* a;
  uint32_t b[2];
};

void CountLoad(const Warp& warp) {
  Machine& machine = Machine::Get();
  ++machine.report().load_matrices;
  if (machine.counts() == nullptr) return;
  std::array<uint64_t, kLanes> rows;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    rows[lane] = reinterpret_cast<uint64_t>(static_cast<LoadRequest*>(warp.requests[lane])->row);
  }
  machine.counts()->NoteRows(rows, static_cast<LoadRequest*>(warp.requests[0])->site);
}

void LoadStraight(Warp& warp) {
  for (size_t matrix = 0; matrix < 4; ++matrix) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const char* row = static_cast<LoadRequest*>(warp.requests[matrix * 8 + lane / 4])->row;
      std::memcpy(&static_cast<LoadRequest*>(warp.requests[lane])->words[matrix],
                  row + lane % 4 * 4, 4);
    }
  }
  CountLoad(warp);
}

void LoadTransposed(Warp& warp) {
  for (size_t matrix = 0; matrix < 4; ++matrix) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      uint16_t pair[2];
      for (size_t i = 0; i < 2; ++i) {
        const size_t source = matrix * 8 + lane % 4 * 2 + i;
        const char* row = static_cast<LoadRequest*>(warp.requests[source])->row;
        std::memcpy(&pair[i], row + lane / 4 * 2, 2);
      }
      std::memcpy(&static_cast<LoadRequest*>(warp.requests[lane])->words[matrix], pair, 4);
    }
  }
  CountLoad(warp);
}

void Multiply(Warp& warp) {
  float a[16][16], b[16][8], sums[16][8];
  const auto request = [&](size_t lane) -> MultiplyRequest& {
    return *static_cast<MultiplyRequest*>(warp.requests[lane]);
  };
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const MultiplyRequest& from = request(lane);
    const size_t g = lane / 4, q = lane % 4 * 2;
    for (size_t i = 0; i < 4; ++i) {
      float* to = &a[g + i % 2 * 8][q + i / 2 * 8];
      to[0] = dev::LowFloat(from.a[i]);
      to[1] = dev::HighFloat(from.a[i]);
    }
    for (size_t i = 0; i < 2; ++i) {
      b[q + i * 8][g] = dev::LowFloat(from.b[i]);
      b[q + i * 8 + 1][g] = dev::HighFloat(from.b[i]);
    }
    std::memcpy(&sums[g][q], from.sums, 8);
    std::memcpy(&sums[g + 8][q], from.sums + 2, 8);
  }
  for (size_t row = 0; row < 16; ++row) {
    float sum[8];
    std::memcpy(sum, sums[row], sizeof(sum));
    for (size_t k = 0; k < 16; ++k) {
      for (size_t column = 0; column < 8; ++column) sum[column] += a[row][k] * b[k][column];
    }
    std::memcpy(sums[row], sum, sizeof(sum));
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const size_t g = lane / 4, q = lane % 4 * 2;
    std::memcpy(request(lane).sums, &sums[g][q], 8);
    std::memcpy(request(lane).sums + 2, &sums[g + 8][q], 8);
  }
  ++Machine::Get().report().multiply_adds;
}

}  // namespace

void LoadMatrices(uint32_t* words, const void* row, bool transposed, Site site) {
  constexpr int kRowBytes = 16;
  CheckShared(row, kRowBytes, site);
  OrderShared(row, kRowBytes, Access::kRead, site);
  LoadRequest request{static_cast<const char*>(row), words, site};
  Machine::Get().MeetWarp(transposed ? kLoadTransposed : kLoadMatrices, &request,
                          transposed ? LoadTransposed : LoadStraight, site);
}

void MultiplyAdd(float* sums, const uint32_t* a, uint32_t b0, uint32_t b1, Site site) {
  MultiplyRequest request{sums, a, {b0, b1}};
  Machine::Get().MeetWarp(kMultiplyAdd, &request, Multiply, site);
}

}  // namespace incipit::emulator
