// Inputs of the sampling kernels for tests: rows of logits, requests, and memory of the device.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/device/sampling/sample_layout.h"
#include "kernels/cuda/host/sample_plan.h"

namespace incipit::cuda {

struct Request {
  int32_t logits_row = 0;
  SamplingParams params = {};
  int32_t choice = 0;
  int64_t position = 0;
  std::vector<TokenCount> counts = {};
  std::vector<TokenId> banned = {};
  // Pending token: the token that the previous step samples and that the host does not know yet.
  // -1: the previous step sampled no token, because its logits were not finite. Absent: the request
  // has no pending token.
  std::optional<TokenId> pending = {};

  // Returns the sample of this request in a step. If the request has a pending token, the token is
  // sample number `index` of the previous step.
  StepSample sample(int32_t index) const {
    return {.params = &params,
            .choice = choice,
            .position = position,
            .counts = counts,
            .pending_sample = pending.has_value() ? index : -1,
            .banned = banned};
  }
};

// Memory that begins at a 128-byte boundary, like memory of a device.
class Block {
 public:
  explicit Block(size_t bytes) : memory_(bytes / sizeof(Line) + 1) {}
  std::byte* data() { return memory_.front().bytes; }

 private:
  struct alignas(128) Line {
    std::byte bytes[128] = {};
  };
  std::vector<Line> memory_;
};

inline const SampleHeader* SamplesOf(Block& inputs) {
  return reinterpret_cast<const SampleHeader*>(inputs.data());
}

// Rows of logits. The first row begins at a 128-byte boundary, like memory of a device.
class Rows {
 public:
  explicit Rows(std::vector<std::vector<float>> rows) : rows_(std::move(rows)) {
    const size_t size = rows_.size() * rows_.front().size();
    padded_.resize(size + 32);
    first_ = (128 - reinterpret_cast<uintptr_t>(padded_.data()) % 128) % 128 / sizeof(float);
    for (size_t i = 0; i < rows_.size(); ++i) {
      std::ranges::copy(rows_[i], padded_.begin() + static_cast<int64_t>(first_ + i * vocab()));
    }
  }

  size_t vocab() const { return rows_.front().size(); }
  const std::vector<float>& operator[](size_t row) const { return rows_[row]; }
  float* data() { return padded_.data() + first_; }
  TensorView view() {
    return {data(), DType::kF32, std::ssize(rows_), static_cast<int64_t>(vocab())};
  }
  // Returns true if no logit has changed. Compares bits, because a NaN is not equal to itself.
  bool AreUntouched() {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const float* const now = data() + i * vocab();
      for (size_t v = 0; v < vocab(); ++v) {
        if (std::bit_cast<uint32_t>(now[v]) != std::bit_cast<uint32_t>(rows_[i][v])) return false;
      }
    }
    return true;
  }

 private:
  std::vector<std::vector<float>> rows_;
  std::vector<float> padded_;
  size_t first_ = 0;
};

// The largest of every 16 logits of a row, and its token, as the epilogue StoreLogits stores them.
// A NaN counts as the largest logit.
class Best {
 public:
  Best(const Rows& rows, size_t count)
      : units_((rows.vocab() + 15) / 16),
        logits_(count * units_ * sizeof(float)),
        tokens_(count * units_ * sizeof(int32_t)) {
    for (size_t i = 0; i < count * units_; ++i) {
      const std::vector<float>& row = rows[i / units_];
      const size_t first = i % units_ * 16;
      size_t best = first;
      for (size_t v = first; v < std::min(first + 16, row.size()); ++v) {
        if (std::isnan(row[best])) break;
        if (std::isnan(row[v]) || row[v] > row[best]) best = v;
      }
      logits()[i] = row[best];
      tokens()[i] = static_cast<int32_t>(best);
    }
  }

  float* logits() { return reinterpret_cast<float*>(logits_.data()); }
  int32_t* tokens() { return reinterpret_cast<int32_t*>(tokens_.data()); }

 private:
  size_t units_;
  Block logits_, tokens_;
};

inline SampleCapacity CapacityFor(size_t rows, size_t vocab) {
  const auto tokens = static_cast<int32_t>(vocab);
  return {.rows = static_cast<int32_t>(rows),
          .patches = std::max(tokens, 64) + 1,
          .tops = std::max(tokens, 64)};
}

}  // namespace incipit::cuda
