// What the conformance tests share: the backends of this build, random tensors, steps, tolerances.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace incipit {

// One way to get a backend in this build.
struct BackendCase {
  std::string name;
  std::function<std::unique_ptr<Backend>(int32_t num_threads)> create = {};
  std::string unavailable = {};     // why this machine cannot run it; empty if it can
  bool rounds_activations = false;  // to bf16, for bf16 weights
  bool rounds_weights = false;      // to bf16, whatever they are stored as; and activations
  bool has_threads = true;          // of the host, whose number a caller chooses
  bool keeps_rows_apart = true;     // a row's bits do not depend on the other rows
  bool is_card = false;             // fast enough for the shapes of large models

  // A device, but not a card: draws take milliseconds.
  bool is_emulated() const { return !has_threads && !is_card; }
};
// Every one except the reference itself; beside an emulated device not the CPU's, for which there
// is a program of its own.
const std::vector<BackendCase>& Backends();

// And the reference, for what is defined exactly.
std::vector<BackendCase> BackendsAndReference();

std::unique_ptr<Backend> CreateReference();

// The backends of a program beside those of the machine's CPU: each links a file that says which.
std::vector<BackendCase> DeviceBackends();

// False if the backend's limits do not offer this. Says so, once each, so that a run shows what it
// leaves out.
bool Offers(const Backend& backend, bool is_offered, const std::string& what);
bool OffersWidth(const Backend& backend, int64_t width);
bool OffersInt8(const Backend& backend);

// How far a result may be from the reference, relative to the largest magnitude in it. Between
// rounding steps both sides compute in f32 and differ in the order of additions only; the reference
// adds up in double.
struct Tolerance {
  float products;   // matrix products and what is fused with them
  float attention;  // softmax over stored keys and values
};
inline constexpr Tolerance kF32Tolerance = {.products = 1e-5f, .attention = 1e-5f};
// Weights are widened exactly, so f16 and bf16 weights are as exact as f32 ones ...
inline constexpr Tolerance kF16Tolerance = kF32Tolerance;
inline constexpr Tolerance kBF16Tolerance = kF32Tolerance;
// ... unless activations are rounded to bf16 (8 bits) as well, which oneDNN does.
inline constexpr Tolerance kBF16ActivationTolerance = {.products = 1e-2f, .attention = 1e-5f};
// An activation that lies on the border between two of 255 numbers may be rounded to either, and
// what is compared has seen a different order of additions before.
inline constexpr float kInt8NormTolerance = 1e-2f;
// A key that lies on the border between two bf16 numbers may be stored as either. Where attention
// takes dots of bf16, queries and weights are rounded by up to 2^-9 of themselves as well: a mean
// of values moves by at most 2^-8 of the largest for the weights, and 2 E for queries that move
// scores by E. Few of the roundings point one way: all together they stay within the same bound.
inline constexpr float kBF16StorageTolerance = 4e-3f;

Tolerance ToleranceOf(const BackendCase& backend, DType weights);

// Numbers from a seed: the same in every run.
class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed) : seed_(seed) {}
  float Uniform(float low, float high);
  int32_t Below(int32_t bound);

 private:
  uint64_t seed_, position_ = 0;
};

// A matrix that owns its elements.
class Tensor {
 public:
  Tensor(DType dtype, int64_t rows, int64_t cols);
  static Tensor Random(DType dtype, int64_t rows, int64_t cols, RandomNumbers& numbers,
                       float scale = 1);

  TensorView view();
  ConstTensorView const_view() const;
  float At(int64_t row, int64_t col) const;
  std::span<float> Row(int64_t row);  // REQUIRES: f32
  std::span<const float> Row(int64_t row) const;
  void Set(int64_t row, int64_t col, float value);
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

 private:
  DType dtype_;
  int64_t rows_, cols_;
  std::vector<std::byte> bytes_;
};

// Fails the test where `actual` is further from `expected` than `tolerance` allows.
void ExpectNear(const Tensor& actual, const Tensor& expected, float tolerance);
void ExpectSameBits(std::span<const float> actual, std::span<const float> expected);

// A part of one sequence: its next tokens, and the table of its blocks.
struct SequenceStep {
  int32_t first_position = 0, num_tokens = 0;
  std::vector<BlockId> blocks = {};
};

// Owns the arrays of a Step, which samples nothing.
class OwnedStep {
 public:
  explicit OwnedStep(const std::vector<SequenceStep>& sequences);
  OwnedStep(const OwnedStep&) = delete;
  OwnedStep& operator=(const OwnedStep&) = delete;

  void UploadTo(Backend& backend) const;
  int64_t num_tokens() const { return static_cast<int64_t>(tokens_.size()); }

  void SetTokens(std::vector<TokenId> tokens);
  // Token rows, ascending.
  void SetLogitsRows(std::vector<int32_t> rows);

 private:
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, token_begin_{0}, block_begin_{0}, no_ranges_{0}, logits_rows_;
  std::vector<BlockId> blocks_;
};

// One step of `num_tokens` tokens without blocks, for operations that do not touch the cache.
std::unique_ptr<OwnedStep> PlainStep(int32_t num_tokens);

std::unique_ptr<Weight> Pack(Backend& backend, const std::vector<const Tensor*>& parts,
                             WeightUse use, WeightFormat format = WeightFormat::kAsStored);
std::unique_ptr<Buffer> StoreVector(Backend& backend, const Tensor& vector);

}  // namespace incipit
