// Defines LogitsRow, which the threads of a thread block use to read one row of logits.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

// A row of f32 logits in global memory. Threads read the row in chunks of four logits (16 bytes),
// aligned to 16 bytes. The first and the last chunk may lie partly outside the row.
class LogitsRow {
 public:
  INCIPIT_DEVICE LogitsRow(const float* logits, int num_tokens)
      : logits_(logits),
        num_tokens_(num_tokens),
        skipped_(static_cast<int>(reinterpret_cast<uintptr_t>(logits) / sizeof(float) % 4)) {}

  INCIPIT_DEVICE int num_tokens() const { return num_tokens_; }
  INCIPIT_DEVICE int num_chunks() const { return (skipped_ + num_tokens_ + 3) / 4; }
  // Returns the token id of logit `i` of chunk `chunk` (four logits). The id is outside [0,
  // num_tokens) if the logit is outside the row.
  INCIPIT_DEVICE int TokenAt(int chunk, int i) const { return 4 * chunk - skipped_ + i; }
  INCIPIT_DEVICE bool Has(int token) const {
    return static_cast<uint32_t>(token) < static_cast<uint32_t>(num_tokens_);
  }
  INCIPIT_DEVICE float Get(int token) const { return dev::LoadGlobal(logits_ + token); }

  // Returns the four logits of chunk `chunk`. Elements outside the row are zero.
  INCIPIT_DEVICE dev::Vec4 Chunk(int chunk) const {
    const int token = TokenAt(chunk, 0);
    if (token >= 0 && token + 4 <= num_tokens_) {
      return dev::LoadGlobal(reinterpret_cast<const dev::Vec4*>(logits_ + token));
    }
    dev::Vec4 part = {};
    INCIPIT_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (Has(token + i)) part.word[i] = dev::BitCast<uint32_t>(Get(token + i));
    }
    return part;
  }

  // Calls visit(token, logit) once for each token of the row. Each thread visits a part of the
  // tokens, in ascending order. kDepth: number of chunks (four logits) that a thread loads at a
  // time.
  template <int kThreads, int kDepth, class Visit>
  INCIPIT_DEVICE void ForEach(const Visit& visit) const {
    const int end = num_chunks();
    for (int first = dev::Thread(); first < end; first += kDepth * kThreads) {
      dev::Vec4 chunks[kDepth] = {};
      INCIPIT_UNROLL
      for (int d = 0; d < kDepth; ++d) {
        if (first + d * kThreads < end) chunks[d] = Chunk(first + d * kThreads);
      }
      INCIPIT_UNROLL
      for (int d = 0; d < kDepth; ++d) {
        INCIPIT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int token = TokenAt(first + d * kThreads, i);
          if (Has(token)) visit(token, dev::BitCast<float>(chunks[d].word[i]));
        }
      }
    }
  }

 private:
  const float* logits_;
  int num_tokens_;
  // number of logits in the first chunk (four logits) that lie before the row
  int skipped_;
};

}  // namespace incipit::cuda
