#include "tests/conformance/support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <set>

#include "base/check.h"
#include "base/random.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/simd/select.h"
#include "kernels/numeric.h"
#include "kernels/reference/backend.h"

namespace incipit {
namespace {

// Memory limit of each CPU backend: enough for every test, so that no test depends on the free
// memory of the machine.
constexpr size_t kMemoryBytes = size_t{1} << 30;

std::unique_ptr<Backend> Created(absl::StatusOr<std::unique_ptr<Backend>> backend) {
  INCIPIT_CHECK(backend.ok());
  return *std::move(backend);
}

BackendCase SimdCase(const std::string& name) {
  BackendCase result = {.name = "Simd_" + name};
  const auto supported = simd::SupportedKernels();
  const auto found = std::find_if(supported.begin(), supported.end(),
                                  [&](const simd::Kernels* k) { return k->name == name; });
  if (found == supported.end()) {
    result.unavailable = "this machine has no " + name;
    return result;
  }
  const simd::Kernels* kernels = *found;
  result.rounds_activations = kernels->products[simd::kBF16Weights].rounds_activations;
  result.create = [kernels](int32_t num_threads) {
    return Created(CreateCpuBackendWith({.num_threads = num_threads},
                                        {.kernels = kernels, .memory_limit_bytes = kMemoryBytes}));
  };
  return result;
}

std::vector<BackendCase> AllBackends() {
  std::vector<BackendCase> devices = DeviceBackends();
  if (std::ranges::any_of(devices, &BackendCase::is_emulated)) return devices;
  std::vector<BackendCase> cases;
  for (const std::string name : {"portable", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx"})
    cases.push_back(SimdCase(name));
  std::ranges::move(devices, std::back_inserter(cases));
  return cases;
}

uint16_t NarrowF16(float value) {
  // Uses a binary search over the bits. The bits of f16 magnitudes are in the same order as the
  // magnitudes, and f32 represents each magnitude exactly.
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float magnitude = std::fabs(value);
  uint16_t low = 0, high = 0x7C00;
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (WidenF16(middle) <= magnitude ? low : high) = middle;
  }
  const bool up = WidenF16(high) - magnitude < magnitude - WidenF16(low);
  return static_cast<uint16_t>(sign | (up ? high : low));
}

}  // namespace

const std::vector<BackendCase>& Backends() {
  static const std::vector<BackendCase> cases = AllBackends();
  return cases;
}

std::vector<BackendCase> BackendsAndReference() {
  std::vector<BackendCase> cases = Backends();
  cases.push_back({.name = "Reference", .create = [](int32_t) { return CreateReference(); }});
  return cases;
}

std::unique_ptr<Backend> CreateReference() { return reference::CreateBackend(kMemoryBytes); }

bool Offers(const Backend& backend, bool is_offered, const std::string& what) {
  static std::set<std::string> said;
  if (is_offered) return true;
  const std::string line = what + ": not offered by the backend " + backend.limits().name;
  if (said.insert(line).second) std::printf("[ LIMITED  ] %s\n", line.c_str());
  return false;
}

bool OffersWidth(const Backend& backend, int64_t width) {
  const int32_t multiple = backend.limits().width_multiple;
  return Offers(backend, width % multiple == 0, fmt::format("a width of {}", width));
}

bool OffersInt8(const Backend& backend) {
  const auto formats = backend.limits().weight_formats;
  return Offers(backend, std::ranges::find(formats, WeightFormat::kInt8) != formats.end(),
                "8-bit weights");
}

Tolerance ToleranceOf(const BackendCase& backend, DType weights) {
  if (backend.rounds_weights) return kBF16ActivationTolerance;
  switch (weights) {
    case DType::kF32:
      return kF32Tolerance;
    case DType::kF16:
      return kF16Tolerance;
    case DType::kBF16:
      return backend.rounds_activations ? kBF16ActivationTolerance : kBF16Tolerance;
  }
  return kF32Tolerance;
}

float RandomNumbers::Uniform(float low, float high) {
  const uint64_t bits = RandomBits(seed_, 0, position_++);
  return low + (high - low) * static_cast<float>(bits >> 40) * 0x1p-24f;
}

int32_t RandomNumbers::Below(int32_t bound) {
  return static_cast<int32_t>(RandomBits(seed_, 0, position_++) % static_cast<uint64_t>(bound));
}

Tensor::Tensor(DType dtype, int64_t rows, int64_t cols)
    : dtype_(dtype), rows_(rows), cols_(cols), bytes_(const_view().byte_size()) {}

Tensor Tensor::Random(DType dtype, int64_t rows, int64_t cols, RandomNumbers& numbers,
                      float scale) {
  Tensor tensor(dtype, rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) tensor.Set(r, c, numbers.Uniform(-scale, scale));
  }
  return tensor;
}

TensorView Tensor::view() {
  return {.data = bytes_.data(), .dtype = dtype_, .rows = rows_, .cols = cols_};
}

ConstTensorView Tensor::const_view() const {
  return {.data = bytes_.data(), .dtype = dtype_, .rows = rows_, .cols = cols_};
}

float Tensor::At(int64_t row, int64_t col) const {
  return LoadF32(bytes_.data(), dtype_, row * cols_ + col);
}

std::span<float> Tensor::Row(int64_t row) {
  INCIPIT_CHECK(dtype_ == DType::kF32);
  return {reinterpret_cast<float*>(bytes_.data()) + row * cols_, static_cast<size_t>(cols_)};
}

std::span<const float> Tensor::Row(int64_t row) const {
  INCIPIT_CHECK(dtype_ == DType::kF32);
  return {reinterpret_cast<const float*>(bytes_.data()) + row * cols_, static_cast<size_t>(cols_)};
}

void Tensor::Set(int64_t row, int64_t col, float value) {
  std::byte* const element = bytes_.data() + (row * cols_ + col) * ByteSize(dtype_);
  if (dtype_ == DType::kF32) {
    std::memcpy(element, &value, sizeof(value));
    return;
  }
  const uint16_t bits = dtype_ == DType::kF16 ? NarrowF16(value) : NarrowBF16(value);
  std::memcpy(element, &bits, sizeof(bits));
}

void ExpectNear(const Tensor& actual, const Tensor& expected, float tolerance) {
  ASSERT_EQ(actual.rows(), expected.rows());
  ASSERT_EQ(actual.cols(), expected.cols());
  float largest = 0;
  for (int64_t r = 0; r < expected.rows(); ++r) {
    for (const float value : expected.Row(r)) largest = std::max(largest, std::fabs(value));
  }
  for (int64_t r = 0; r < actual.rows(); ++r) {
    for (int64_t c = 0; c < actual.cols(); ++c) {
      // The test does not use EXPECT_NEAR, because a NaN must fail too and one failure per tensor
      // is enough.
      if (!(std::fabs(actual.At(r, c) - expected.At(r, c)) <= tolerance * largest)) {
        FAIL() << "row " << r << ", column " << c << ": " << actual.At(r, c) << " instead of "
               << expected.At(r, c) << "; the largest is " << largest;
      }
    }
  }
}

void ExpectSameBits(std::span<const float> actual, std::span<const float> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
        << "element " << i << ": " << actual[i] << " instead of " << expected[i];
  }
}

OwnedStep::OwnedStep(const std::vector<SequenceStep>& sequences) {
  for (const SequenceStep& sequence : sequences) {
    for (int32_t i = 0; i < sequence.num_tokens; ++i) {
      tokens_.push_back(0);
      positions_.push_back(sequence.first_position + i);
    }
    blocks_.insert(blocks_.end(), sequence.blocks.begin(), sequence.blocks.end());
    token_begin_.push_back(static_cast<int32_t>(tokens_.size()));
    block_begin_.push_back(static_cast<int32_t>(blocks_.size()));
  }
  no_ranges_.resize(token_begin_.size());
}

void OwnedStep::UploadTo(Backend& backend) const {
  backend.Upload({.tokens = tokens_,
                  .positions = positions_,
                  .token_begin = token_begin_,
                  .block_begin = block_begin_,
                  .blocks = blocks_,
                  .sample_begin = no_ranges_,
                  .score_begin = no_ranges_},
                 {.rows = logits_rows_});
}

void OwnedStep::SetTokens(std::vector<TokenId> tokens) {
  INCIPIT_CHECK(tokens.size() == tokens_.size());
  tokens_ = std::move(tokens);
}

void OwnedStep::SetLogitsRows(std::vector<int32_t> rows) { logits_rows_ = std::move(rows); }

std::unique_ptr<OwnedStep> PlainStep(int32_t num_tokens) {
  return std::make_unique<OwnedStep>(
      std::vector<SequenceStep>{{.first_position = 0, .num_tokens = num_tokens, .blocks = {}}});
}

std::unique_ptr<Weight> Pack(Backend& backend, const std::vector<const Tensor*>& parts,
                             WeightUse use, WeightFormat format) {
  std::vector<ConstTensorView> views;
  for (const Tensor* part : parts) views.push_back(part->const_view());
  auto weight = backend.PackWeight(views, use, format, {});
  INCIPIT_CHECK(weight.ok());
  return *std::move(weight);
}

std::unique_ptr<Buffer> StoreVector(Backend& backend, const Tensor& vector) {
  const ConstTensorView view = vector.const_view();
  auto buffer = backend.Store({&view, 1});
  INCIPIT_CHECK(buffer.ok());
  return *std::move(buffer);
}

}  // namespace incipit
