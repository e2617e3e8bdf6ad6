// Kernel Score: computes the numbers from which the host computes log probabilities of given
// tokens. The host computes the logarithms, so that every backend returns the same bits.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/sampling/row_selector.h"
#include "kernels/cuda/device/sampling/sample_layout.h"

namespace incipit::cuda {

struct SampleShape {
  static constexpr int kThreads = 512;
};

// Output addresses for one row of logits.
struct ScoreSlot {
  TokenScore* score = nullptr;
  TopLogit* tops = nullptr;
};

// Stores the TokenScore of `token` and the `num_top` likeliest tokens of `row` at the addresses in
// `slot`. REQUIRES: selector.Survey() was called after the last change of `row`.
template <int kThreads>
INCIPIT_DEVICE void WriteScore(RowSelector<kThreads>& selector, const LogitsRow& row, int token,
                               int num_top, const ScoreSlot& slot) {
  selector.SetTemperature(1);
  const auto rank = selector.RankOf(token);
  if (dev::Thread() == 0) {
    dev::StoreGlobal(&slot.score->row_mass, rank.row_mass);
    dev::StoreGlobal(&slot.score->row_max, selector.max());
    dev::StoreGlobal(&slot.score->logit, dev::Add(row.Get(token), 0.0f));
    dev::StoreGlobal(&slot.score->rank, static_cast<int32_t>(rank.rank));
  }
  num_top = num_top < row.num_tokens() ? num_top : row.num_tokens();
  if (num_top <= 0) return;
  const uint64_t last = selector.ListFirst(num_top);
  for (int i = dev::Thread(); i < selector.listed(); i += kThreads) {
    const uint64_t order = selector.Listed(i);
    if (order > last) continue;
    int before = 0;
    for (int j = 0; j < selector.listed(); ++j) before += selector.Listed(j) < order ? 1 : 0;
    const TopLogit top = {.token = TokenOf(order), .logit = LogitOf(order)};
    dev::StoreGlobal(slot.tops + before, top);
  }
  dev::SyncBlock();
}

template <class Shape>
struct Score {
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kSharedBytes = sizeof(RowSelectorMemory);
  static constexpr int kBlocksPerSm = 1;

  struct Args {
    // f32 matrix of shape [rows, vocab_size], stored row by row, aligned to 16 bytes
    const float* logits = nullptr;
    int32_t vocab_size = 0;  // number of logits in each row; at most 2^kVocabBitsMax
    ScoreInputs inputs;
    SampleOutputs outputs;
  };

  // Reads each requested row of logits twice: from device memory, then from the L2 cache. If
  // likeliest tokens are requested, usually reads the row two more times, from the L2 cache.
  static INCIPIT_DEVICE void Run(const Args& args) {
    auto* const memory = reinterpret_cast<RowSelectorMemory*>(dev::SharedMemory());
    dev::WaitForEarlierKernels();
    const int count = dev::LoadConstant(args.inputs.num_entries);
    for (int i = dev::Block(); i < count; i += dev::NumBlocks()) {
      const ScoreEntry* const entry = args.inputs.entries + i;
      const int64_t logits_row = dev::LoadConstant(&entry->logits_row);
      const LogitsRow row(args.logits + logits_row * args.vocab_size, args.vocab_size);
      RowSelector<kThreads> selector(memory, row);
      const bool finite = selector.Survey();
      if (dev::Thread() == 0) dev::StoreGlobal(args.outputs.status + i, finite ? 0 : 1);
      if (!finite) continue;
      const int top_begin = dev::LoadConstant(&entry->top_begin);
      WriteScore(selector, row, dev::LoadConstant(&entry->target),
                 dev::LoadConstant(&entry->num_top),
                 {.score = args.outputs.scores + i, .tops = args.outputs.tops + top_begin});
    }
  }
};

}  // namespace incipit::cuda
