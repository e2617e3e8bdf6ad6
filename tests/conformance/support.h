// Shared helpers of the conformance tests: backends of this build, random tensors, steps and
// tolerances.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace incipit {

// A backend of this build, with the properties that tests must respect.
struct BackendCase {
  std::string name;
  std::function<std::unique_ptr<Backend>(int32_t num_threads)> create = {};
  // The reason why this machine cannot run the backend. Empty if the machine can run the backend.
  std::string unavailable = {};
  // True: activations are rounded to bf16 in products with bf16 weights.
  bool rounds_activations = false;
  // True: weights of every stored type, and activations, are rounded to bf16.
  bool rounds_weights = false;
  // True: the backend uses threads of the host, and the caller chooses their number.
  bool has_threads = true;
  // True: the bits of a result row do not depend on the other rows of the batch.
  bool keeps_rows_apart = true;
  // True: a graphics card, which is fast enough for the shapes of large models.
  bool is_card = false;

  // Returns true for an emulated device. On an emulated device, one call of Sample can last
  // milliseconds.
  bool is_emulated() const { return !has_threads && !is_card; }
};
// Returns all backends of this build except the reference. If the build has an emulated device, the
// CPU backends are left out, because another test program covers them.
const std::vector<BackendCase>& Backends();

// Returns Backends() and the reference, for tests of exactly defined results.
std::vector<BackendCase> BackendsAndReference();

std::unique_ptr<Backend> CreateReference();

// Returns the device backends of a test program. Each test program links one file that defines this
// function.
std::vector<BackendCase> DeviceBackends();

// Returns `is_offered`. If `is_offered` is false, prints that the backend does not offer the
// feature `what`. Equal lines are printed only once.
bool Offers(const Backend& backend, bool is_offered, const std::string& what);
bool OffersWidth(const Backend& backend, int64_t width);
bool OffersInt8(const Backend& backend);

// Maximum difference from the reference, relative to the largest magnitude in the result. Between
// rounding steps, backends compute in f32 and add in another order; the reference adds in double.
struct Tolerance {
  // Tolerance for matrix products and operations that are fused with them.
  float products;
  // Tolerance for softmax over the stored keys and values.
  float attention;
};
inline constexpr Tolerance kF32Tolerance = {.products = 1e-5f, .attention = 1e-5f};
// f16 and bf16 weights have the tolerance of f32 weights, because the conversion to f32 is exact.
inline constexpr Tolerance kF16Tolerance = kF32Tolerance;
inline constexpr Tolerance kBF16Tolerance = kF32Tolerance;
// Instruction sets that multiply bf16 numbers (avx512_bf16, amx) also round activations to bf16 (8
// significant bits), which needs a larger tolerance.
inline constexpr Tolerance kBF16ActivationTolerance = {.products = 1e-2f, .attention = 1e-5f};
// Tolerance for products whose inputs are results of a norm, rounded to 8 bits (one of 255
// numbers). An input near the border between two of these numbers may be rounded to either, because
// backends add in different orders.
inline constexpr float kInt8NormTolerance = 1e-2f;
// Tolerance if keys and values are stored as bf16. Backends may round a key near the border between
// two bf16 numbers to different numbers. Attention by bf16 dot instructions also rounds queries and
// softmax weights, each by up to 2^-9 of its magnitude. The roundings rarely have the same sign, so
// the sum of all errors stays within this tolerance.
inline constexpr float kBF16StorageTolerance = 4e-3f;

Tolerance ToleranceOf(const BackendCase& backend, DType weights);

// A random number generator that returns the same numbers in every run for the same seed.
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
  std::span<float> Row(int64_t row);  // REQUIRES: the type is f32.
  std::span<const float> Row(int64_t row) const;
  void Set(int64_t row, int64_t col, float value);
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

 private:
  DType dtype_;
  int64_t rows_, cols_;
  std::vector<std::byte> bytes_;
};

// Fails the test if an element of `actual` differs from `expected` by more than `tolerance` times
// the largest magnitude in `expected`.
void ExpectNear(const Tensor& actual, const Tensor& expected, float tolerance);
void ExpectSameBits(std::span<const float> actual, std::span<const float> expected);

// The next tokens of one sequence, and the sequence's block table.
struct SequenceStep {
  int32_t first_position = 0, num_tokens = 0;
  std::vector<BlockId> blocks = {};
};

// Owns the arrays of a Step without samples.
class OwnedStep {
 public:
  explicit OwnedStep(const std::vector<SequenceStep>& sequences);
  OwnedStep(const OwnedStep&) = delete;
  OwnedStep& operator=(const OwnedStep&) = delete;

  void UploadTo(Backend& backend) const;
  int64_t num_tokens() const { return static_cast<int64_t>(tokens_.size()); }

  void SetTokens(std::vector<TokenId> tokens);
  // Sets the token rows that need logits. REQUIRES: `rows` ascends.
  void SetLogitsRows(std::vector<int32_t> rows);

 private:
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, token_begin_{0}, block_begin_{0}, no_ranges_{0}, logits_rows_;
  std::vector<BlockId> blocks_;
};

// Returns a step of `num_tokens` tokens without cache blocks, for operations that do not use the KV
// pool.
std::unique_ptr<OwnedStep> PlainStep(int32_t num_tokens);

std::unique_ptr<Weight> Pack(Backend& backend, const std::vector<const Tensor*>& parts,
                             WeightUse use, WeightFormat format = WeightFormat::kAsStored);
std::unique_ptr<Buffer> StoreVector(Backend& backend, const Tensor& vector);

}  // namespace incipit
