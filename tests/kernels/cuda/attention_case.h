// An attention step in memory: sequences with random queries, keys and values, and page tables in
// no order. Unused slots of the pool are NaN. The expected results are computed by the definition
// in double precision.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/attention/page_layout.h"
#include "kernels/cuda/host/attention_plan.h"
#include "kernels/emulator/run.h"

namespace incipit::cuda {

struct CaseShape {
  int num_heads = 1, num_kv_heads = 1, head_dim = 64, page_size = 16, window = 0;
};

// Computes the tokens [begin, end) of a sequence in the step. The earlier tokens are already in the
// pool.
struct CaseSequence {
  // Sequences with equal ids have equal queries, keys and values.
  int id = 0;
  int begin = 0, end = 0;
};

class AttentionCase {
 public:
  AttentionCase(const CaseShape& shape, std::vector<CaseSequence> sequences,
                AttentionPlanOptions options = {})
      : shape_(shape), sequences_(std::move(sequences)) {
    layout_ = {shape.page_size, shape.num_kv_heads, shape.head_dim};
    FillPages();
    FillQueries();
    options.page_size = shape.page_size;
    options.group = shape.num_heads / shape.num_kv_heads;
    options.max_tokens = static_cast<int>(positions.size());
    options.max_sequences = static_cast<int>(sequences_.size());
    options.max_pages = static_cast<int>(blocks.size());
    options.windows = {shape.window};
    AttentionPlan plan(options);
    plan_.resize((plan.max_bytes() + 15) / 16);
    plan_bytes = plan.Build(step(), std::as_writable_bytes(std::span(plan_)));
    const size_t partial_rows = static_cast<size_t>(options.max_partial_rows) * shape.num_kv_heads;
    partial_sums_.assign(partial_rows * shape.head_dim, NAN);
    partial_stats_.assign(partial_rows * 2, NAN);
    arrivals_.assign(static_cast<size_t>(plan.max_decode_tiles()) * shape.num_kv_heads, 0);
    out.assign(query.size(), {0x7FFF});
  }

  Step step() const {
    return {.positions = positions,
            .token_begin = token_begin,
            .block_begin = block_begin,
            .blocks = blocks};
  }

  // The following functions return parts of the attention plan. A test may change the plan before
  // it runs the kernel.
  char* plan() { return reinterpret_cast<char*>(plan_.data()); }
  StepHeader& header() { return *reinterpret_cast<StepHeader*>(plan()); }
  AttentionList& list() { return header().lists[0]; }
  DecodeItem* decode_items() { return reinterpret_cast<DecodeItem*>(plan() + list().decode_items); }
  PrefillTile* prefill_tiles() {
    return reinterpret_cast<PrefillTile*>(plan() + list().prefill_tiles);
  }
  int32_t* page_tables() { return reinterpret_cast<int32_t*>(plan() + header().page_tables); }

  PagedAttentionArgs args() {
    return {.step = &header(),
            .list = 0,
            .window = shape_.window,
            .query = query.data(),
            .pool = pool.data(),
            .out = out.data(),
            .num_heads = shape_.num_heads,
            .num_kv_heads = shape_.num_kv_heads,
            .scale = scale(),
            .page_size = shape_.page_size,
            .head_dim = shape_.head_dim,
            .partial_sums = partial_sums_.data(),
            .partial_stats = partial_stats_.data(),
            .arrivals = arrivals_.data(),
            .scratch = scratch_.data()};
  }
  template <class Kernel>
  emulator::Report Run(int num_blocks = 4, uint64_t seed = 1, bool count_accesses = false) {
    if constexpr (requires { Kernel::kScratchBytes; }) {
      scratch_.assign(static_cast<size_t>(Kernel::kScratchBytes) * num_blocks / sizeof(__int128),
                      -1);
    }
    return emulator::Run<Kernel>(
        {.num_blocks = num_blocks, .seed = seed, .count_accesses = count_accesses}, args());
  }

  // Returns the largest error of head `head` of token `token`, divided by the error that rounding
  // weights and result to bf16 may cause. Returns NaN if the result contains NaN.
  double Error(int token, int head) const;
  double WorstError() const {
    double worst = 0;
    for (int token = 0; token < num_tokens(); ++token) {
      for (int head = 0; head < shape_.num_heads; ++head) {
        const double error = Error(token, head);
        if (!(error <= worst)) worst = error;
        if (std::isnan(worst)) return worst;
      }
    }
    return worst;
  }

  // Removes the queries, keys and values of the step's tokens from `query` and `pool`, and returns
  // them, token by token.
  std::vector<float> Unappended() {
    std::vector<float> product;
    const auto take = [&](dev::bf16& from) {
      product.push_back(dev::ToFloat(from));
      from = {0x7FFF};
    };
    const size_t row = static_cast<size_t>(shape_.num_heads) * shape_.head_dim;
    size_t sequence = 0;
    for (int token = 0; token < num_tokens(); ++token) {
      if (token == token_begin[sequence + 1]) ++sequence;
      for (size_t i = 0; i < row; ++i) take(query[token * row + i]);
      const int slot = positions[token] % shape_.page_size;
      const int page =
          static_cast<int>(blocks[block_begin[sequence] + positions[token] / shape_.page_size]);
      for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
        for (int head = 0; head < shape_.num_kv_heads; ++head) {
          for (int dim = 0; dim < shape_.head_dim; ++dim) {
            take(pool[layout_.Offset(page, part, head, slot, dim)]);
          }
        }
      }
    }
    return product;
  }
  // Sets the keys or the values of all heads, at one position of a sequence, to `x`. `part` selects
  // keys or values.
  void Store(KvPart part, int sequence, int position, float x) {
    const int page = static_cast<int>(blocks[block_begin[sequence] + position / shape_.page_size]);
    for (int head = 0; head < shape_.num_kv_heads; ++head) {
      for (int dim = 0; dim < shape_.head_dim; ++dim) {
        pool[layout_.Offset(page, part, head, position % shape_.page_size, dim)] = dev::ToBF16(x);
      }
    }
  }
  // Sets all stored keys and values of the sequence to NaN.
  void SpoilSequence(int sequence) {
    for (int i = block_begin[sequence]; i < block_begin[sequence + 1]; ++i) {
      const auto page = pool.begin() + static_cast<int>(blocks[i]) * layout_.PageSize();
      std::fill(page, page + layout_.PageSize(), dev::bf16{0x7FFF});
    }
  }

  int num_tokens() const { return static_cast<int>(positions.size()); }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_dim)); }
  const KvLayout& layout() const { return layout_; }
  bool arrivals_are_clear() const {
    return std::all_of(arrivals_.begin(), arrivals_.end(), [](uint32_t n) { return n == 0; });
  }
  // Returns the bits of the attention result of token `token`.
  std::vector<uint16_t> Row(int token) const {
    const size_t size = static_cast<size_t>(shape_.num_heads) * shape_.head_dim;
    std::vector<uint16_t> row(size);
    std::memcpy(row.data(), out.data() + token * size, size * 2);
    return row;
  }

  std::vector<int32_t> positions, token_begin, block_begin;
  std::vector<BlockId> blocks;
  std::vector<dev::bf16> query, pool, out;
  size_t plan_bytes = 0;

 private:
  dev::bf16 Made(int kind, int id, int position, int head, int dim) const {
    uint64_t x =
        (((static_cast<uint64_t>(kind) * 64 + id) * 65536 + position) * 128 + head) * 256 + dim + 1;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    x ^= x >> 31;
    const double a = static_cast<double>(x >> 40) / (1 << 24);
    const double b = static_cast<double>(x & 0xFFFFFF) / (1 << 24);
    return dev::ToBF16(static_cast<float>((a + b - 1) * (kind == 0 ? 4 : 2)));
  }
  double Element(KvPart part, int sequence, int position, int kv_head, int dim) const {
    return dev::ToFloat(
        Made(part == KvPart::kKey ? 1 : 2, sequences_[sequence].id, position, kv_head, dim));
  }
  void FillPages();
  void FillQueries();

  CaseShape shape_;
  std::vector<CaseSequence> sequences_;
  KvLayout layout_;
  std::vector<__int128> plan_, scratch_;
  std::vector<float> partial_sums_, partial_stats_;
  std::vector<uint32_t> arrivals_;
};

inline void AttentionCase::FillPages() {
  block_begin = {0};
  for (const CaseSequence& sequence : sequences_) {
    const int num_pages = (sequence.end + shape_.page_size - 1) / shape_.page_size;
    block_begin.push_back(block_begin.back() + num_pages);
  }
  const int num_pages = block_begin.back() + 2;
  std::vector<int> order(num_pages);
  for (int i = 0; i < num_pages; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  for (int i = 0; i + 2 < num_pages; ++i) blocks.push_back(BlockId{order[i]});
  pool.assign(static_cast<size_t>(layout_.LayerSize(num_pages)), {0x7FFF});
  for (size_t s = 0; s < sequences_.size(); ++s) {
    for (int position = 0; position < sequences_[s].end; ++position) {
      const int page = static_cast<int>(blocks[block_begin[s] + position / shape_.page_size]);
      for (int head = 0; head < shape_.num_kv_heads; ++head) {
        for (int dim = 0; dim < shape_.head_dim; ++dim) {
          for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
            pool[layout_.Offset(page, part, head, position % shape_.page_size, dim)] =
                Made(part == KvPart::kKey ? 1 : 2, sequences_[s].id, position, head, dim);
          }
        }
      }
    }
  }
}

inline void AttentionCase::FillQueries() {
  token_begin = {0};
  for (const CaseSequence& sequence : sequences_) {
    for (int position = sequence.begin; position < sequence.end; ++position) {
      positions.push_back(position);
      for (int head = 0; head < shape_.num_heads; ++head) {
        for (int dim = 0; dim < shape_.head_dim; ++dim) {
          query.push_back(Made(0, sequence.id, position, head, dim));
        }
      }
    }
    token_begin.push_back(static_cast<int32_t>(positions.size()));
  }
}

inline double AttentionCase::Error(int token, int head) const {
  int sequence = 0;
  while (token >= token_begin[sequence + 1]) ++sequence;
  const int position = positions[token];
  const int kv_head = head / (shape_.num_heads / shape_.num_kv_heads);
  const int first = shape_.window > 0 ? std::max(0, position + 1 - shape_.window) : 0;
  const size_t row = (static_cast<size_t>(token) * shape_.num_heads + head) * shape_.head_dim;
  std::vector<double> weights;
  double maximum = -INFINITY, total = 0;
  for (int p = first; p <= position; ++p) {
    double score = 0;
    for (int dim = 0; dim < shape_.head_dim; ++dim) {
      score += static_cast<double>(dev::ToFloat(query[row + dim])) *
               Element(KvPart::kKey, sequence, p, kv_head, dim);
    }
    weights.push_back(score * scale());
    maximum = std::max(maximum, weights.back());
  }
  for (double& weight : weights) total += weight = std::exp(weight - maximum);
  double worst = 0;
  for (int dim = 0; dim < shape_.head_dim; ++dim) {
    double sum = 0, size = 0;
    for (int p = first; p <= position; ++p) {
      const double value = Element(KvPart::kValue, sequence, p, kv_head, dim);
      sum += weights[p - first] / total * value;
      size += weights[p - first] / total * std::fabs(value);
    }
    const double error = std::fabs(dev::ToFloat(out[row + dim]) - sum) / (size / 128 + 1e-5);
    if (std::isnan(error)) return error;
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace incipit::cuda
