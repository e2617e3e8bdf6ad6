// Measures the speed of the operations of the CPU backend, with the matrix sizes of models with
// 125M and 0.5B parameters. The data are larger than the caches of the CPU, as in a real model.
//
// kernels_bench [--benchmark_filter=Product] ...
//
// Counter gflops: 10^9 arithmetic operations per second. Counter gbytes: 10^9 bytes of weights,
// keys and values read per second. A benchmark with one thread measures CPU time. A benchmark with
// several threads measures wall time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_options.h"
#include "kernels/numeric.h"

namespace incipit {
namespace {

constexpr size_t kBeyondCaches = size_t{256} << 20;

std::unique_ptr<Backend> CreateBackend(int64_t num_threads) {
  auto backend = CreateCpuBackend({.num_threads = static_cast<int32_t>(num_threads)});
  INCIPIT_CHECK(backend.ok());
  return *std::move(backend);
}

// Returns the bytes of `count` random elements of type `dtype`, with values in [-1, 1).
std::vector<std::byte> RandomElements(DType dtype, int64_t count, uint64_t seed) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * ByteSize(dtype));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = RandomBits(seed, 0, static_cast<uint64_t>(i / 4));
    const float value = static_cast<float>(bits >> (16 * (i % 4)) & 0xFFFF) * 0x1p-15f - 1.0f;
    if (dtype == DType::kF32) {
      std::memcpy(bytes.data() + i * 4, &value, 4);
    } else {
      const uint16_t half = NarrowBF16(value);
      std::memcpy(bytes.data() + i * 2, &half, 2);
    }
  }
  return bytes;
}

void SetRates(benchmark::State& state, double operations, double bytes) {
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["gflops"] =
      benchmark::Counter(operations * iterations * 1e-9, benchmark::Counter::kIsRate);
  state.counters["gbytes"] =
      benchmark::Counter(bytes * iterations * 1e-9, benchmark::Counter::kIsRate);
}

// Value of the benchmark argument `type` for f32 weights that are rounded to 8 bits. All other
// values of `type` are values of the enum DType.
constexpr int64_t kInt8 = 3;

// Returns a buffer that `backend` allocated, with a copy of `contents`.
std::unique_ptr<Buffer> BufferOf(Backend& backend, std::span<const std::byte> contents) {
  auto buffer = backend.Allocate(contents.size());
  INCIPIT_CHECK(buffer.ok());
  std::memcpy((*buffer)->data(), contents.data(), contents.size());
  return *std::move(buffer);
}

// Measures the product of an activation matrix (rows x inputs) and a weight matrix (outputs x
// inputs). Benchmark arguments: number of threads, rows, outputs, inputs, type of the weights.
void Product(benchmark::State& state) {
  const int64_t rows = state.range(1), outputs = state.range(2), inputs = state.range(3);
  const bool is_int8 = state.range(4) == kInt8;
  const auto dtype = is_int8 ? DType::kF32 : static_cast<DType>(state.range(4));
  const auto format = is_int8 ? WeightFormat::kInt8 : WeightFormat::kAsStored;
  const auto backend = CreateBackend(state.range(0));
  const size_t weight_bytes =
      static_cast<size_t>(outputs * inputs) * (is_int8 ? 1 : ByteSize(dtype));
  const std::vector<std::byte> elements = RandomElements(dtype, outputs * inputs, 1);
  const ConstTensorView view = {
      .data = elements.data(), .dtype = dtype, .rows = outputs, .cols = inputs};
  std::vector<std::unique_ptr<Weight>> weights;
  for (size_t bytes = 0; bytes < kBeyondCaches; bytes += weight_bytes) {
    auto weight = backend->PackWeight({&view, 1}, WeightRole::kOutput, format, {});
    INCIPIT_CHECK(weight.ok());
    weights.push_back(*std::move(weight));
  }
  const auto x = BufferOf(*backend, RandomElements(DType::kF32, rows * inputs, 2));
  const auto hidden = BufferOf(*backend, RandomElements(DType::kF32, rows * outputs, 3));
  const std::vector<TokenId> tokens(static_cast<size_t>(rows), 0);
  const std::vector<int32_t> token_begin = {0, static_cast<int32_t>(rows)}, block_begin = {0, 0};
  const std::vector<int32_t> positions(static_cast<size_t>(rows), 0);
  backend->Upload({.tokens = tokens,
                   .positions = positions,
                   .token_begin = token_begin,
                   .block_begin = block_begin},
                  {});
  size_t next = 0;
  for (auto _ : state) {
    backend->ProjectAdd(
        {.x = {.data = x->data(), .dtype = DType::kF32, .rows = rows, .cols = inputs},
         .weight = weights[next].get(),
         .bias = nullptr,
         .hidden = {.data = hidden->data(), .dtype = DType::kF32, .rows = rows, .cols = outputs}});
    next = (next + 1) % weights.size();
  }
  SetRates(state, 2.0 * static_cast<double>(rows * outputs * inputs),
           static_cast<double>(weight_bytes));
}

struct Matrix {
  int64_t outputs, inputs;
};
constexpr Matrix kMatrices[] = {
    // Weight matrices {outputs, inputs} of a model with 125M parameters: query, key and value
    // projections; gate and up projections of the MLP; down projection of the MLP.
    {1280, 768},
    {4096, 768},
    {768, 2048},
    // Weight matrices {outputs, inputs} of a model with 0.5B parameters: query, key and value
    // projections; gate and up projections of the MLP; down projection of the MLP.
    {1152, 896},
    {9728, 896},
    {896, 4864},
};

void ProductArguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"threads", "rows", "outputs", "inputs", "type"});
  for (const int64_t type : {int64_t{2}, int64_t{0}, kInt8}) {
    for (const Matrix& matrix : kMatrices) {
      for (const int64_t rows : {1, 8, 16, 64, 512}) {
        for (const int64_t threads : {1, 2}) {
          benchmark->Args({threads, rows, matrix.outputs, matrix.inputs, type});
        }
      }
    }
  }
  benchmark->UseRealTime();
}
BENCHMARK(Product)->Apply(ProductArguments);

// Measures the maximum rates of `backend`: multiply-adds per second, and bytes read per second.
// Returns, for each rate, the highest value of all calls with the same `num_threads`.
const MachineRates& RatesSoFar(Backend& backend, int64_t num_threads) {
  static std::map<int64_t, MachineRates> rates;
  MachineRates& best = rates[num_threads];
  best = LargerRates(best, backend.MeasureRates());
  return best;
}

struct Heads {
  int32_t num_heads, num_kv_heads, head_dim;
};
// {number of query heads, number of key-value heads, elements per head} of three models, with 0.5B,
// 125M and 8B parameters.
constexpr Heads kHeads[] = {{14, 2, 64}, {12, 4, 64}, {32, 8, 128}};

// Measures attention. Benchmark arguments: number of threads, number of sequences, new tokens per
// sequence, earlier tokens per sequence, type of keys and values, index of the model in the list
// kHeads, and 1 if the cache blocks are scattered in memory (otherwise 0).
//
// Each counter is a measured rate divided by the maximum rate of the machine: bytes read (of_read),
// f32 multiply-adds (of_fma), and bf16 dot instructions (of_dot).
void Attention(benchmark::State& state) {
  constexpr int32_t kBlockSize = 16;
  const Heads& heads = kHeads[state.range(5)];
  const bool is_scattered = state.range(6) != 0;
  const int32_t query_size = heads.num_heads * heads.head_dim;
  const auto num_sequences = static_cast<int32_t>(state.range(1));
  const auto num_tokens = static_cast<int32_t>(state.range(2));
  const auto before = static_cast<int32_t>(state.range(3));
  const auto dtype = static_cast<DType>(state.range(4));
  const auto backend = CreateBackend(state.range(0));
  const int32_t blocks_each = (before + num_tokens + kBlockSize - 1) / kBlockSize;
  const int32_t num_blocks = blocks_each * num_sequences;
  const size_t layer_bytes =
      size_t{2} * num_blocks * kBlockSize * heads.num_kv_heads * heads.head_dim * ByteSize(dtype);
  const auto num_layers =
      static_cast<int32_t>(std::clamp<size_t>(kBeyondCaches / layer_bytes, 1, 64));
  auto pool = backend->CreateKvPool({.num_layers = num_layers,
                                     .num_blocks = num_blocks,
                                     .block_size = kBlockSize,
                                     .num_kv_heads = heads.num_kv_heads,
                                     .head_dim = heads.head_dim,
                                     .dtype = dtype});
  INCIPIT_CHECK(pool.ok());

  std::vector<TokenId> tokens(static_cast<size_t>(num_sequences * num_tokens), 0);
  std::vector<int32_t> positions, token_begin = {0}, block_begin = {0};
  for (int32_t s = 0; s < num_sequences; ++s) {
    for (int32_t i = 0; i < num_tokens; ++i) positions.push_back(before + i);
    token_begin.push_back((s + 1) * num_tokens);
    block_begin.push_back((s + 1) * blocks_each);
  }
  std::vector<BlockId> blocks;
  for (int32_t i = 0; i < num_blocks; ++i) blocks.push_back(BlockId{i});
  for (int32_t i = is_scattered ? num_blocks - 1 : 0; i > 0; --i) {
    std::swap(blocks[i], blocks[RandomBits(7, 0, static_cast<uint64_t>(i)) % (i + 1)]);
  }
  backend->Upload({.tokens = tokens,
                   .positions = positions,
                   .token_begin = token_begin,
                   .block_begin = block_begin,
                   .blocks = blocks},
                  {});
  // Access every block of the KV pool before the measurement, so that the operating system
  // allocates the memory of the pool.
  std::vector<BlockCopy> copies;
  for (int32_t i = 1; i < num_blocks; ++i) {
    copies.push_back({.from = BlockId{i}, .to = BlockId{i - 1}, .num_tokens = kBlockSize});
  }
  backend->CopyBlocks(**pool, copies);

  const auto rows = static_cast<int64_t>(tokens.size());
  auto query = RandomElements(DType::kF32, rows * query_size, 3);
  std::vector<float> out(static_cast<size_t>(rows * query_size));
  const TensorView query_view = {
      .data = query.data(), .dtype = DType::kF32, .rows = rows, .cols = query_size};
  TensorView out_view = query_view;
  out_view.data = out.data();
  int32_t layer = 0;
  for (auto _ : state) {
    backend->Attention({.query = query_view,
                        .pool = pool->get(),
                        .layer = layer,
                        .num_heads = heads.num_heads,
                        .scale = 0.125f,
                        .window = 0,
                        .out = out_view});
    layer = (layer + 1) % num_layers;
  }
  double pairs = 0;  // number of pairs (token, position) in which the token attends to the position
  for (const int32_t position : positions) pairs += position + 1;
  const double operations = 4.0 * pairs * query_size;
  SetRates(state, operations, static_cast<double>(layer_bytes));
  const MachineRates& rates = RatesSoFar(*backend, state.range(0));
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["of_read"] =
      benchmark::Counter(static_cast<double>(layer_bytes) * iterations / rates.read_bytes,
                         benchmark::Counter::kIsRate);
  state.counters["of_fma"] =
      benchmark::Counter(operations * iterations / rates.f32, benchmark::Counter::kIsRate);
  if (rates.bf16 == 0) return;
  state.counters["of_dot"] =
      benchmark::Counter(operations * iterations / rates.bf16, benchmark::Counter::kIsRate);
}
template <int64_t kThreads>
void AttentionArguments(benchmark::internal::Benchmark* benchmark) {
  constexpr auto kBF16 = static_cast<int64_t>(DType::kBF16);
  constexpr auto kF32 = static_cast<int64_t>(DType::kF32);
  benchmark->ArgNames({"threads", "sequences", "tokens", "before", "type", "heads", "scattered"})
      ->Args({kThreads, 1, 512, 0, kBF16, 0, 1})
      ->Args({kThreads, 1, 4096, 0, kBF16, 0, 1})
      ->Args({kThreads, 1, 4096, 0, kF32, 0, 1})
      ->Args({kThreads, 1, 4096, 0, kBF16, 2, 1})
      ->Args({kThreads, 8, 1, 1023, kBF16, 0, 1})
      ->Args({kThreads, 1, 1, 4095, kBF16, 0, 1})
      ->Args({kThreads, 1, 1, 16383, kBF16, 0, 1})
      ->Args({kThreads, 32, 1, 127, kBF16, 0, 1});
  for (const int64_t heads : {0, 1, 2}) {
    for (const int64_t before : {4095, 16383}) {
      for (const int64_t type : {kBF16, kF32}) {
        for (const int64_t scattered : {0, 1}) {
          benchmark->Args({kThreads, 8, 1, before, type, heads, scattered});
        }
      }
    }
  }
}
BENCHMARK(Attention)->Apply(AttentionArguments<1>);
BENCHMARK(Attention)->Apply(AttentionArguments<2>)->UseRealTime();

enum class Rule : int64_t { kGreedy, kTemperature, kTopK, kTopP, kTopKTopP, kPenalties, kLogprobs };

// Measures sampling. Benchmark arguments: number of threads, number of rows of logits, size of the
// vocabulary, sampling rule (a value of Rule).
void Sampling(benchmark::State& state) {
  const int64_t rows = state.range(1), vocab = state.range(2);
  const auto backend = CreateBackend(state.range(0));
  auto logits = RandomElements(DType::kF32, rows * vocab, 5);
  auto* values = reinterpret_cast<float*>(logits.data());
  // Change the uniform random values to values that resemble logits: most are low, and few are
  // high.
  for (int64_t i = 0; i < rows * vocab; ++i) values[i] = -2.5f * std::log(1.0001f - values[i]) - 1;

  SamplingParams params;
  std::vector<TokenCount> counts;
  switch (static_cast<Rule>(state.range(3))) {
    case Rule::kGreedy:
      params.temperature = 0;
      break;
    case Rule::kTemperature:
      break;
    case Rule::kTopK:
      params.top_k = 50;
      break;
    case Rule::kTopP:
      params.top_p = 0.9f;
      break;
    case Rule::kTopKTopP:
      params.top_k = 20;
      params.top_p = 0.8f;
      break;
    case Rule::kPenalties:
      params.top_k = 50;
      params.repetition_penalty = 1.1f;
      for (TokenId token = 0; token < 500; ++token) {
        counts.push_back({.token = token * 7, .in_prompt = 1, .in_output = 1});
      }
      break;
    case Rule::kLogprobs:
      params.temperature = 0;
      params.num_logprobs = 20;
      break;
  }
  std::vector<StepSample> samples;
  std::vector<int32_t> logits_rows;
  for (int64_t i = 0; i < rows; ++i) {
    samples.push_back({.params = &params, .position = i, .counts = counts});
    logits_rows.push_back(static_cast<int32_t>(i));
  }
  std::vector<TokenId> tokens(samples.size());
  std::vector<RowStatus> status(samples.size());
  Logprobs logprobs;
  for (auto _ : state) {
    logprobs.Clear();
    ++params.seed;
    backend->Sample(
        {.logits = {.data = logits.data(), .dtype = DType::kF32, .rows = rows, .cols = vocab},
         .samples = samples,
         .logits_rows = logits_rows,
         .tokens = tokens,
         .status = status,
         .logprobs = &logprobs});
  }
  SetRates(state, 0, static_cast<double>(rows * vocab) * sizeof(float));
}

void SamplingArguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"threads", "rows", "vocab", "rule"});
  for (const int64_t vocab : {32000, 151936}) {
    for (int64_t rule = 0; rule <= static_cast<int64_t>(Rule::kLogprobs); ++rule) {
      benchmark->Args({1, 1, vocab, rule});
    }
  }
}
BENCHMARK(Sampling)->Apply(SamplingArguments);

}  // namespace
}  // namespace incipit

BENCHMARK_MAIN();
