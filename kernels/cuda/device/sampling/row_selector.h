// Selects tokens of one row of logits: applies top_k and top_p, samples a token, and finds the
// likeliest tokens.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/block_sums.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/sampling/logits_row.h"
#include "kernels/cuda/device/sampling/sample_math.h"

namespace incipit::cuda {

// Maximum number of candidate tokens, and maximum number of log probabilities, for a row of logits
inline constexpr int kListMax = 4096;

struct RowSelectorMemory {
  BlockSumsMemory sums;
  uint64_t list[kListMax];  // sort keys of candidate tokens (sample_math.h)
  uint32_t list_size;
  uint32_t bad;
  int32_t sampled;
};

// Selects tokens of one row of logits. All threads of a thread block call each function together.
// Mass: probability of a token, as an integer weight. Order: sort key of a token, lower for larger
// logits.
template <int kThreads>
class RowSelector {
 public:
  using Sums = BlockSums<kThreads>;

  INCIPIT_DEVICE RowSelector(RowSelectorMemory* memory, const LogitsRow& row)
      : memory_(memory), sums_(&memory->sums), row_(row) {}

  // Finds the maximum of the row. Returns false if the row contains NaN or +infinity, or only
  // -infinity. REQUIRES: called before the other functions, and again after each change of the row.
  INCIPIT_DEVICE bool Survey() {
    listed_ = -1;
    float best = 0;
    int token_of_best = -1;
    bool bad = false;
    row_.template ForEach<kThreads, 4>([&](int token, float logit) {
      const auto bits = dev::BitCast<uint32_t>(logit);
      bad |= (bits & 0x7FFFFFFF) > kInfinity || bits == kInfinity;
      if (token_of_best >= 0 && !(logit > best)) return;
      best = logit;
      token_of_best = token;
    });
    if (dev::Thread() == 0) dev::StoreShared(&memory_->bad, 0u);
    best_of_thread_ = token_of_best < 0 ? kNoOrder : OrderOf(best, token_of_best);
    best_ = sums_.Min(best_of_thread_);
    max_ = LogitOf(best_);
    if (dev::BallotWarp(bad) != 0 && dev::Lane() == 0) dev::AtomicMaxShared(&memory_->bad, 1u);
    dev::SyncBlock();
    bad = dev::LoadShared(&memory_->bad) != 0;
    dev::SyncBlock();
    return !bad && dev::BitCast<uint32_t>(max_) != kMinusInfinity;
  }

  INCIPIT_DEVICE float max() const { return max_; }
  INCIPIT_DEVICE int LowestOfLargest() const { return TokenOf(best_); }
  INCIPIT_DEVICE void SetTemperature(float inverse) { inverse_temperature_ = inverse; }

  // Returns the sort key of the `count`-th likeliest token. Also collects at least the `count`
  // likeliest tokens in the list of candidates, unsorted. REQUIRES: `count` is at most the number
  // of tokens and at most kListMax.
  INCIPIT_DEVICE uint64_t ListFirst(int count) {
    const uint64_t last = CutByThreads(count);
    if (listed_ < 0) Collect([&](uint64_t order) { return order <= last; });
    return last;
  }
  INCIPIT_DEVICE int listed() const { return listed_; }
  INCIPIT_DEVICE uint64_t Listed(int i) const { return dev::LoadShared(&memory_->list[i]); }

  // Returns the highest sort key that top_k with k = `count` keeps. Likelier tokens have lower sort
  // keys.
  INCIPIT_DEVICE uint64_t KeepTopK(int count) {
    if (count >= row_.num_tokens()) return kLastOrder;
    if (count <= kThreads) return CutByThreads(count);
    return CutByDistance<false>(static_cast<uint64_t>(count), kLastOrder);
  }

  // Applies top_p to the tokens whose sort key is at most `last`. `share` is the sampling parameter
  // top_p, multiplied by 2^63. Returns the highest sort key that top_p keeps.
  INCIPIT_DEVICE uint64_t KeepTopP(uint64_t share, uint64_t last) {
    if (listed_ < 0) return CutByDistance<true>(share, last);
    const auto visit_all = [&](const auto& visit) {
      ForEachListed([&](uint64_t order) {
        if (order <= last) visit(order);
      });
    };
    uint64_t mass = 0;
    visit_all([&](uint64_t order) { mass += MassOf(order); });
    const uint64_t total = sums_.ScanThreads(mass).total;
    return Cut<true>(ShareOfMass(share, total), visit_all);
  }

  // Samples one of the tokens whose sort key is at most `last` and whose mass (integer probability
  // weight) is at least `enough`. `random_bits`: 64 random bits.
  INCIPIT_DEVICE int Sample(uint64_t random_bits, uint64_t last, uint64_t enough) {
    const int num_pieces = (row_.num_chunks() + 31) / 32;
    int shift = 0;
    while ((num_pieces - 1) >> shift >= kBins) ++shift;
    SumPieces(num_pieces, shift, last, enough);
    const typename Sums::Scan scan = sums_.ScanBins();
    const uint64_t point = dev::MultiplyHigh(random_bits, scan.total);
    const typename Sums::Found found = sums_.Find(point + 1, scan);
    if (dev::Warp() == 0) {
      FindInPieces(static_cast<int>(found.bin) << shift, found.wanted, last, enough);
    }
    dev::SyncBlock();
    const int token = dev::LoadShared(&memory_->sampled);
    dev::SyncBlock();
    return token;
  }

  // rank: 1 plus the number of likelier tokens in the row. row_mass: sum of the masses (integer
  // probability weights) of all tokens of the row.
  struct Rank {
    int rank = 0;
    uint64_t row_mass = 0;
  };
  INCIPIT_DEVICE Rank RankOf(int token) const {
    const uint64_t own = OrderOf(row_.Get(token), token);
    uint64_t mass = 0, before = 0;
    row_.template ForEach<kThreads, 4>([&](int other, float logit) {
      mass += MassOf(logit);
      before += OrderOf(logit, other) < own ? 1 : 0;
    });
    return {.rank = static_cast<int>(sums_.ScanThreads(before).total) + 1,
            .row_mass = sums_.ScanThreads(mass).total};
  }

 private:
  static constexpr int kDigits = kOrderBits / kBinBits;
  static_assert(kDigits * kBinBits == kOrderBits && 4 * kThreads <= kListMax);
  static constexpr uint32_t kInfinity = 0x7F800000, kMinusInfinity = 0xFF800000;

  // Two tokens whose scaled logits differ by 1.0 are this number of histogram bins apart.
  static constexpr float kBinsPerNat = 64;
  // If a scaled logit is below the maximum by at least this number, the mass (integer probability
  // weight) of the token is 0.
  static constexpr float kNoMass = kBins / kBinsPerNat;
  static_assert(kNoMass > (kMassBits + 1) * 0.6931472f + 0.1f);

  INCIPIT_DEVICE float Scaled(float logit) const {
    return ScaledLogit(logit, max_, inverse_temperature_);
  }
  INCIPIT_DEVICE uint64_t MassOf(float logit) const { return SampleMass(SampleExp(Scaled(logit))); }
  INCIPIT_DEVICE uint64_t MassOf(uint64_t order) const { return MassOf(LogitOf(order)); }
  // Returns the histogram bin for the distance of the scaled logit from the maximum. Returns kBins
  // if the distance is at least kNoMass.
  INCIPIT_DEVICE uint32_t BinOf(float logit) const {
    const float distance = -Scaled(logit);
    return distance < kNoMass ? static_cast<uint32_t>(dev::Multiply(distance, kBinsPerNat)) : kBins;
  }

  template <class Visit>
  INCIPIT_DEVICE void ForEachListed(const Visit& visit) const {
    for (int i = dev::Thread(); i < listed_; i += kThreads) visit(Listed(i));
  }

  // Fills the list of candidates with the sort keys of all tokens for which `wanted` returns true.
  // Returns false if the list is too small.
  template <class Wanted>
  INCIPIT_DEVICE bool Collect(const Wanted& wanted) {
    dev::SyncBlock();
    if (dev::Thread() == 0) dev::StoreShared(&memory_->list_size, 0u);
    dev::SyncBlock();
    row_.template ForEach<kThreads, 4>([&](int token, float logit) {
      const uint64_t order = OrderOf(logit, token);
      if (!wanted(order)) return;
      const uint32_t slot = dev::AtomicAddShared(&memory_->list_size, 1u);
      if (slot < kListMax) dev::StoreShared(&memory_->list[slot], order);
    });
    dev::SyncBlock();
    const uint32_t size = dev::LoadShared(&memory_->list_size);
    listed_ = size <= kListMax ? static_cast<int>(size) : -1;
    return listed_ >= 0;
  }

  // Adds up a number for each token, in ascending order of sort keys: the token's mass (integer
  // probability weight) if kMass is true, otherwise 1. Returns the sort key at which the sum
  // reaches `wanted`.
  template <bool kMass, class VisitAll>
  INCIPIT_DEVICE uint64_t Cut(uint64_t wanted, const VisitAll& visit_all) const {
    uint64_t prefix = 0;
    for (int shift = kOrderBits - kBinBits;; shift -= kBinBits) {
      sums_.Clear();
      visit_all([&](uint64_t order) {
        if (order >> (shift + kBinBits) != prefix) return;
        sums_.Add(order >> shift & (kBins - 1), kMass ? MassOf(order) : 1);
      });
      const typename Sums::Found found = sums_.Find(wanted, sums_.ScanBins());
      prefix = prefix << kBinBits | found.bin;
      wanted = found.wanted;
      if (shift == 0) return prefix;
      if (wanted != found.sum) continue;
      uint64_t last = 0;  // largest sort key that begins with the bits of `prefix`
      visit_all([&](uint64_t order) {
        if (order >> shift == prefix && order > last) last = order;
      });
      return ~sums_.Min(~last);
    }
  }

  template <bool kMass>
  INCIPIT_DEVICE uint64_t CutList(uint64_t wanted, uint64_t last) const {
    return Cut<kMass>(wanted, [&](const auto& visit) {
      ForEachListed([&](uint64_t order) {
        if (order <= last) visit(order);
      });
    });
  }
  // Adds up a number for each token of the row whose sort key satisfies `is_wanted`, in ascending
  // order of sort keys. The number is the mass (integer probability weight) of the token if kMass
  // is true, otherwise 1. Returns the sort key at which the sum reaches `wanted`.
  template <bool kMass, class Wanted>
  INCIPIT_DEVICE uint64_t CutRow(uint64_t wanted, const Wanted& is_wanted) const {
    return Cut<kMass>(wanted, [&](const auto& visit) {
      row_.template ForEach<kThreads, 1>([&](int token, float logit) {
        const uint64_t order = OrderOf(logit, token);
        if (is_wanted(order)) visit(order);
      });
    });
  }

  // Returns the sort key of the `count`-th likeliest token.
  INCIPIT_DEVICE uint64_t CutByThreads(int count) {
    uint64_t bound = kLastOrder;
    if (count <= kThreads && count <= row_.num_chunks()) {
      dev::SyncBlock();
      dev::StoreShared(&memory_->list[dev::Thread()], best_of_thread_);
      listed_ = kThreads;
      dev::SyncBlock();
      bound = CutList<false>(static_cast<uint64_t>(count), kLastOrder);
    }
    const auto is_wanted = [&](uint64_t order) { return order <= bound; };
    const auto wanted = static_cast<uint64_t>(count);
    return Collect(is_wanted) ? CutList<false>(wanted, kLastOrder)
                              : CutRow<false>(wanted, is_wanted);
  }

  // Applies top_p if kMass is true, otherwise top_k, to the tokens with sort keys up to `last`.
  // `asked`: top_p * 2^63, or top_k. Returns the highest sort key that is kept. Likelier tokens
  // have lower sort keys.
  template <bool kMass>
  INCIPIT_DEVICE uint64_t CutByDistance(uint64_t asked, uint64_t last) {
    sums_.Clear();
    row_.template ForEach<kThreads, 4>([&](int token, float logit) {
      const uint32_t bin = BinOf(logit);
      if (bin >= kBins || OrderOf(logit, token) > last) return;
      sums_.Add(bin, kMass ? MassOf(logit) : 1);
    });
    const typename Sums::Scan scan = sums_.ScanBins();
    const uint64_t wanted = kMass ? ShareOfMass(asked, scan.total) : asked;
    if (scan.total < wanted) return last;
    const typename Sums::Found found = sums_.Find(wanted, scan);
    const auto is_in = [&](uint64_t order, uint32_t first_bin) {
      const uint32_t bin = BinOf(LogitOf(order));
      return order <= last && bin <= found.bin && bin >= first_bin;
    };
    if (Collect([&](uint64_t order) { return is_in(order, 0); })) {
      return CutList<kMass>(wanted, last);
    }
    return CutRow<kMass>(found.wanted, [&](uint64_t order) { return is_in(order, found.bin); });
  }

  INCIPIT_DEVICE uint64_t MassIfKept(int token, float logit, uint64_t last, uint64_t enough) const {
    if (!row_.Has(token) || OrderOf(logit, token) > last) return 0;
    const uint64_t mass = MassOf(logit);
    return mass >= enough ? mass : 0;
  }
  INCIPIT_DEVICE uint64_t MassOfChunk(const dev::Vec4& values, int chunk, uint64_t last,
                                      uint64_t enough) const {
    uint64_t sum = 0;
    INCIPIT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const auto logit = dev::BitCast<float>(values.word[i]);
      sum += MassIfKept(row_.TokenAt(chunk, i), logit, last, enough);
    }
    return sum;
  }

  // Computes a histogram of the row. Each bin is the sum of the masses (integer probability
  // weights) of 128 * 2^shift consecutive tokens. Skips tokens whose sort key is above `last`, and
  // tokens whose mass is below `enough`.
  INCIPIT_DEVICE void SumPieces(int num_pieces, int shift, uint64_t last, uint64_t enough) const {
    constexpr int kDepth = 4, kWarps = kThreads / 32;
    sums_.Clear();
    for (int first = dev::Warp() * kDepth; first < num_pieces; first += kWarps * kDepth) {
      dev::Vec4 values[kDepth] = {};
      INCIPIT_UNROLL
      for (int d = 0; d < kDepth; ++d) {
        const int chunk = (first + d) * 32 + dev::Lane();
        if (chunk < row_.num_chunks()) values[d] = row_.Chunk(chunk);
      }
      INCIPIT_UNROLL
      for (int d = 0; d < kDepth; ++d) {
        const int chunk = (first + d) * 32 + dev::Lane();
        uint64_t sum = MassOfChunk(values[d], chunk, last, enough);
        if (dev::BallotWarp(sum != 0) == 0) continue;
        INCIPIT_UNROLL
        for (int mask = 16; mask > 0; mask /= 2) sum += dev::ShuffleXorWarp(sum, mask);
        if (dev::Lane() == 0) sums_.Add(static_cast<uint32_t>(first + d) >> shift, sum);
      }
    }
  }

  // Finds the sampled token: adds up masses (integer probability weights) in ascending order of
  // token id, from logit 128 * piece on. The sampled token is the token at which the sum reaches
  // `wanted`. All lanes of one warp call FindInPieces together.
  INCIPIT_DEVICE void FindInPieces(int piece, uint64_t wanted, uint64_t last,
                                   uint64_t enough) const {
    for (;; ++piece) {
      const int chunk = 32 * piece + dev::Lane();
      const dev::Vec4 values = chunk < row_.num_chunks() ? row_.Chunk(chunk) : dev::Vec4{};
      const uint64_t own = MassOfChunk(values, chunk, last, enough);
      uint64_t upto = own;
      INCIPIT_UNROLL
      for (int distance = 1; distance < 32; distance *= 2) {
        const uint64_t below = dev::ShuffleUpWarp(upto, distance);
        if (dev::Lane() >= distance) upto += below;
      }
      const uint64_t total = dev::ShuffleWarp(upto, 31);
      if (wanted <= total) {
        if (wanted > upto || wanted <= upto - own) return;
        wanted -= upto - own;
        INCIPIT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int token = row_.TokenAt(chunk, i);
          const auto logit = dev::BitCast<float>(values.word[i]);
          const uint64_t mass = MassIfKept(token, logit, last, enough);
          if (wanted > 0 && wanted <= mass) dev::StoreShared(&memory_->sampled, token);
          wanted = wanted <= mass ? 0 : wanted - mass;
        }
        return;
      }
      wanted -= total;
    }
  }

  RowSelectorMemory* memory_;
  Sums sums_;
  LogitsRow row_;
  float max_ = 0, inverse_temperature_ = 1;
  uint64_t best_ = 0, best_of_thread_ = 0;
  int listed_ = -1;  // number of candidate tokens in the list, or -1 if there is no list
};

}  // namespace incipit::cuda
