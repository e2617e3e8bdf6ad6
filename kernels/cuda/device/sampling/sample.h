// Kernel Sample: samples tokens by the rules of kernels/sampling.h. All backends sample the same
// token from equal logits.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/packed_order.h"
#include "kernels/cuda/device/sampling/row_selector.h"
#include "kernels/cuda/device/sampling/sample_layout.h"
#include "kernels/cuda/device/sampling/score.h"

namespace incipit::cuda {

struct SampleMemory {
  RowSelectorMemory selector;
  // Parameters of the current sample, copied to shared memory to save registers
  SampleEntry entry;
  // `pending_token`: the output token that the previous step sampled and that the host does not
  // know yet. `pending_patch`: index of the LogitPatch that applies penalties to this token. Both
  // are -1 if there is no such token. If the token's logits were not finite, only `pending_token`
  // is -1.
  int32_t pending_token, pending_patch;
};

template <class Shape>
struct Sample {
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kSharedBytes = sizeof(SampleMemory);
  static constexpr int kBlocksPerSm = 1;

  struct Args {
    // f32 [rows, vocab_size], aligned to 16 bytes; the kernel restores logits that it changes
    float* logits = nullptr;
    int32_t vocab_size = 0;  // number of logits in a row; at most 2^kVocabBitsMax
    const SampleHeader* samples = nullptr;
    // Largest of every 16 consecutive logits, [rows, vocab_size / 16 rounded up]; null: not
    // available
    const float* best_logits = nullptr;
    // token ids of the logits in `best_logits`; null: not available
    const int32_t* best_tokens = nullptr;
    // Copies of the logits that the kernel changes by penalties, biases and bans: one f32 for each
    // LogitPatch
    float* originals = nullptr;
    // Device array of sampled token ids. Input: the tokens of the previous batch. Output: the
    // tokens of this batch, which the kernels Embed and Sample read in the next batch. The two
    // batches use different elements (SampledIndex in kernels/cuda/host/sample_plan.h).
    int32_t* sampled = nullptr;
    SampleOutputs outputs;
  };

  // A thread block processes all samples of one row of logits, one after the other. For each
  // sample, the thread block reads the row one to four times. Penalties, biases, bans and log
  // probabilities need additional reads.
  static INCIPIT_DEVICE void Run(const Args& args) {
    dev::WaitForEarlierKernels();
    const int count = dev::LoadConstant(&args.samples->num_groups);
    for (int i = dev::Block(); i < count; i += dev::NumBlocks()) {
      const auto group = dev::BitCast<SampleGroup>(
          dev::LoadConstant(ArrayAt<dev::Vec4>(args, &args.samples->groups) + i));
      for (int entry = group.entry_begin; entry < group.entry_end; ++entry) {
        TakeEntry(ArrayAt<SampleEntry>(args, &args.samples->entries) + entry);
        RunEntry(args, &Shared()->entry, group.logits_row);
      }
    }
  }

 private:
  using Selector = RowSelector<kThreads>;

  template <class T>
  static INCIPIT_DEVICE const T* ArrayAt(const Args& args, const int32_t* offset) {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(args.samples) +
                                      dev::LoadConstant(offset));
  }

  static INCIPIT_DEVICE SampleMemory* Shared() {
    return reinterpret_cast<SampleMemory*>(dev::SharedMemory());
  }
  static INCIPIT_DEVICE void TakeEntry(const SampleEntry* entry) {
    constexpr int kParts = sizeof(SampleEntry) / sizeof(dev::Vec4);
    dev::SyncBlock();  // waits until all threads have read the previous sample's parameters
    if (dev::Thread() < kParts) {
      const auto* const from = reinterpret_cast<const dev::Vec4*>(entry) + dev::Thread();
      dev::StoreShared(reinterpret_cast<dev::Vec4*>(&Shared()->entry) + dev::Thread(),
                       dev::LoadConstant(from));
    }
    if (dev::Thread() == kParts) {
      dev::StoreShared(&Shared()->pending_token, -1);
      dev::StoreShared(&Shared()->pending_patch, -1);
    }
    dev::SyncBlock();
  }

  // Processes one sample: applies penalties, biases and bans to the row of logits, samples a token,
  // and restores the row.
  static INCIPIT_DEVICE void RunEntry(const Args& args, const SampleEntry* entry, int logits_row) {
    const bool patched = dev::LoadShared(&entry->patch_begin) < dev::LoadShared(&entry->patch_end);
    if (args.best_logits != nullptr && !patched && WantsBestOnly(entry)) {
      return TakeBest(args, entry, logits_row);
    }
    float* const logits = args.logits + static_cast<int64_t>(logits_row) * args.vocab_size;
    const LogitsRow row(logits, args.vocab_size);
    Selector selector(&Shared()->selector, row);
    const bool finite = selector.Survey();
    int token = -1;
    if (finite) {
      if (patched) SurveyPatched(args, entry, logits, selector);
      token = SampleToken(entry, selector);
      if (patched) TakeBack(args, entry, logits);
    }
    if (dev::Thread() == 0) StoreToken(args, entry, token);
    const int num_top = dev::LoadShared(&entry->num_top);
    if (!finite || num_top < 0) return;
    if (patched) selector.Survey();
    const int index = dev::LoadShared(&entry->index);
    const int top_begin = dev::LoadShared(&entry->top_begin);
    WriteScore(selector, row, token, num_top,
               {.score = args.outputs.scores + index, .tops = args.outputs.tops + top_begin});
  }

  static INCIPIT_DEVICE bool WantsBestOnly(const SampleEntry* entry) {
    return dev::LoadShared(&entry->greedy) != 0 && dev::LoadShared(&entry->num_top) < 0;
  }

  // Samples the token with the largest logit (the lowest token id of equal logits). Reads only
  // `best_logits`, not all logits.
  static INCIPIT_DEVICE void TakeBest(const Args& args, const SampleEntry* entry, int logits_row) {
    const auto num_units = static_cast<int>(NumUnits(RowOrder::kPlain, args.vocab_size));
    const int64_t first = int64_t{logits_row} * num_units;
    Selector selector(&Shared()->selector, LogitsRow(args.best_logits + first, num_units));
    const bool finite = selector.Survey();
    if (dev::Thread() != 0) return;
    const int64_t unit = first + selector.LowestOfLargest();
    StoreToken(args, entry, finite ? dev::LoadGlobal(args.best_tokens + unit) : -1);
  }

  // Stores the sampled token in the outputs of the sample. Token -1 means that the logits were not
  // finite.
  static INCIPIT_DEVICE void StoreToken(const Args& args, const SampleEntry* entry, int token) {
    const int index = dev::LoadShared(&entry->index);
    dev::StoreGlobal(args.sampled + dev::LoadShared(&entry->sampled), token);
    dev::StoreGlobal(args.outputs.tokens + index, token);
    dev::StoreGlobal(args.outputs.status + index, token < 0 ? 1 : 0);
  }

  // Applies the penalties, biases and bans of a sample to its row of logits and finds the new
  // maximum. Ignores the bans if all tokens are banned.
  static INCIPIT_DEVICE void SurveyPatched(const Args& args, const SampleEntry* entry,
                                           float* logits, Selector& selector) {
    if (dev::LoadShared(&entry->pending) >= 0) FindPending(args, entry);
    const int begin = dev::LoadShared(&entry->patch_begin);
    const int end = dev::LoadShared(&entry->patch_end);
    for (int i = begin + dev::Thread(); i < end; i += kThreads) {
      const int token = PatchAt(args, i).token;
      if (token >= 0) dev::StoreGlobal(args.originals + i, dev::LoadGlobal(logits + token));
    }
    for (uint32_t kinds = kAllKinds;; kinds &= ~LogitPatch::kBanned) {
      for (int i = begin + dev::Thread(); i < end; i += kThreads) {
        LogitPatch patch = PatchAt(args, i);
        if (patch.token < 0) continue;
        patch.kinds &= kinds;
        dev::StoreGlobal(logits + patch.token,
                         Patched(dev::LoadGlobal(args.originals + i), patch, entry));
      }
      dev::SyncBlock();
      if (selector.Survey()) return;
    }
  }

  // Stores the pending token (the output token that the previous step sampled) in shared memory.
  // Also stores the index of its LogitPatch (change of a logit). A token without a LogitPatch gets
  // the spare LogitPatch at the end of the sample's array.
  static INCIPIT_DEVICE void FindPending(const Args& args, const SampleEntry* entry) {
    const int pending = dev::LoadGlobal(args.sampled + dev::LoadShared(&entry->pending));
    const int token = pending < args.vocab_size ? pending : -1;
    const int last = dev::LoadShared(&entry->patch_end) - 1;
    if (dev::Thread() == 0) {
      dev::StoreShared(&Shared()->pending_token, token);
      dev::StoreShared(&Shared()->pending_patch, last);
    }
    dev::SyncBlock();
    const int begin = dev::LoadShared(&entry->patch_begin);
    for (int i = begin + dev::Thread(); i < last; i += kThreads) {
      if (LoadPatch(args, i).token == token) dev::StoreShared(&Shared()->pending_patch, i);
    }
    dev::SyncBlock();
  }

  static INCIPIT_DEVICE LogitPatch LoadPatch(const Args& args, int i) {
    const auto* const patches = ArrayAt<dev::Vec4>(args, &args.samples->patches);
    return dev::BitCast<LogitPatch>(dev::LoadConstant(patches + i));
  }

  // Returns the LogitPatch with index `i`. If this patch applies penalties to the pending token
  // (the output token that the previous step sampled), adds 1 to `in_output`. If the patch changes
  // no logit, `token` of the result is -1.
  static INCIPIT_DEVICE LogitPatch PatchAt(const Args& args, int i) {
    LogitPatch patch = LoadPatch(args, i);
    if (i == dev::LoadShared(&Shared()->pending_patch)) {
      patch.token = dev::LoadShared(&Shared()->pending_token);
      patch.kinds |= LogitPatch::kPenalized;
      ++patch.in_output;
    }
    return patch;
  }

  static INCIPIT_DEVICE void TakeBack(const Args& args, const SampleEntry* entry, float* logits) {
    const int end = dev::LoadShared(&entry->patch_end);
    for (int i = dev::LoadShared(&entry->patch_begin) + dev::Thread(); i < end; i += kThreads) {
      const int token = PatchAt(args, i).token;
      if (token >= 0) dev::StoreGlobal(logits + token, dev::LoadGlobal(args.originals + i));
    }
    dev::SyncBlock();
  }

  static INCIPIT_DEVICE float Patched(float logit, const LogitPatch& patch,
                                      const SampleEntry* entry) {
    if (dev::BitCast<uint32_t>(logit) == kMinusInfinity) return logit;
    if ((patch.kinds & LogitPatch::kPenalized) != 0) {
      const float repetition = dev::LoadShared(&entry->repetition_penalty);
      logit = logit > 0 ? dev::Divide(logit, repetition) : dev::Multiply(logit, repetition);
      if (patch.in_output > 0) {
        const float frequency = dev::LoadShared(&entry->frequency_penalty);
        const auto times = static_cast<float>(patch.in_output);
        logit = dev::Add(logit, -dev::Multiply(frequency, times));
        logit = dev::Add(logit, -dev::LoadShared(&entry->presence_penalty));
      }
      logit = WithinFinite(logit);
    }
    if ((patch.kinds & LogitPatch::kBiased) != 0) logit = WithinFinite(dev::Add(logit, patch.bias));
    return (patch.kinds & LogitPatch::kBanned) != 0 ? dev::BitCast<float>(kMinusInfinity) : logit;
  }
  static INCIPIT_DEVICE float WithinFinite(float value) {
    if (value < -kLargest) return -kLargest;
    return kLargest < value ? kLargest : value;
  }

  // Samples a token: applies temperature, top_k, top_p and min_p.
  static INCIPIT_DEVICE int SampleToken(const SampleEntry* entry, Selector& selector) {
    if (dev::LoadShared(&entry->greedy) != 0) return selector.LowestOfLargest();
    selector.SetTemperature(dev::LoadShared(&entry->inverse_temperature));
    uint64_t last = kLastOrder;
    const int top_k = dev::LoadShared(&entry->top_k);
    if (top_k > 0) last = selector.KeepTopK(top_k);
    const uint64_t share = dev::LoadShared(&entry->top_p_share);
    if (share < uint64_t{1} << 63) last = selector.KeepTopP(share, last);
    return selector.Sample(dev::LoadShared(&entry->random_bits), last,
                           dev::LoadShared(&entry->min_p_mass));
  }

  static constexpr uint32_t kAllKinds = ~uint32_t{0};
  static constexpr uint32_t kMinusInfinity = 0xFF800000;
  static constexpr float kLargest = 3.40282347e+38f;
};

}  // namespace incipit::cuda
