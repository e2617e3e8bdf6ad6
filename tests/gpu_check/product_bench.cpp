// Measures the products of the 8B model shape: each weight times a few rows and times many rows.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "kernels/cuda/device/product/append_rows.h"
#include "kernels/cuda/host/launch_product.h"
#include "tests/gpu_check/append_inputs.h"
#include "tests/gpu_check/device_bench.h"
#include "tests/gpu_check/rate_kernels.h"

namespace incipit::cuda {
namespace {

struct Matrix {
  const char* name;
  int32_t rows = 0, columns = 0;
};
constexpr Matrix kQkv = {"qkv", 6144, 4096}, kOutput = {"output", 4096, 4096},
                 kGateUp = {"gate and up", 28672, 4096}, kDown = {"down", 4096, 14336},
                 kHead = {"head", 128256, 4096};
constexpr int32_t kTokens[] = {1, 16, 32, 64};
constexpr size_t kHidden = 4096;

class ProductBench {
 public:
  explicit ProductBench(DeviceBench& bench) : bench_(bench) {}

  absl::Status Run() {
    const auto weights = static_cast<size_t>(bench_.Size(int64_t{1280} << 20, int64_t{4} << 20));
    const auto rows = static_cast<size_t>(bench_.Size(8192, 80));
    INCIPIT_ASSIGN_OR_RETURN(weights_, bench_.Random(weights));
    INCIPIT_ASSIGN_OR_RETURN(x_, bench_.Random(rows * 14336 * sizeof(dev::bf16)));
    const auto out = static_cast<size_t>(bench_.Size(int64_t{8192} * 28672, 80 * 2048));
    INCIPIT_ASSIGN_OR_RETURN(out_, Memory::Allocate(Place::kDevice, out * sizeof(float)));
    INCIPIT_ASSIGN_OR_RETURN(append_, AppendInputs::Make(bench_, static_cast<int32_t>(rows)));
    INCIPIT_RETURN_IF_ERROR(MakeNorms(rows));
    INCIPIT_RETURN_IF_ERROR(MeasureTensorCores());
    for (const int32_t tokens : kTokens) INCIPIT_RETURN_IF_ERROR(MultiplyFew(tokens));
    return MultiplyMany();
  }

 private:
  // Reduces the rows and columns of a matrix for a smoke run.
  Matrix Scaled(Matrix matrix) const {
    if (!bench_.is_smoke()) return matrix;
    matrix.rows = std::min(matrix.rows / 64, 512) / 16 * 16;
    matrix.columns /= 32;
    return matrix;
  }

  // Allocates memory for the norms within the products and for the maxima that the head product
  // stores for greedy sampling.
  absl::Status MakeNorms(size_t num_rows) {
    const auto few = static_cast<size_t>(std::ranges::max(kTokens));
    const size_t floats = std::max(num_rows, few * kHidden / kUnitRows);
    INCIPIT_ASSIGN_OR_RETURN(squares_, Memory::Allocate(Place::kDevice, floats * sizeof(float)));
    INCIPIT_ASSIGN_OR_RETURN(const Memory ones,
                             Memory::Allocate(Place::kPinned, floats * sizeof(float)));
    std::fill_n(ones.as<float>(), floats, 1.0F);
    bench_.stream().Copy(squares_.data(), ones.data(), floats * sizeof(float));
    INCIPIT_RETURN_IF_ERROR(bench_.stream().Wait());
    INCIPIT_ASSIGN_OR_RETURN(norm_, bench_.Random(kHidden * sizeof(float)));
    const size_t next_floats = few * kHidden / kUnitRows;
    INCIPIT_ASSIGN_OR_RETURN(next_squares_,
                             Memory::Allocate(Place::kDevice, next_floats * sizeof(float)));
    INCIPIT_ASSIGN_OR_RETURN(next_x_,
                             Memory::Allocate(Place::kDevice, few * kHidden * sizeof(dev::bf16)));
    const size_t best = few * static_cast<size_t>(kHead.rows / kUnitRows);
    INCIPIT_ASSIGN_OR_RETURN(best_logits_, Memory::Allocate(Place::kDevice, best * sizeof(float)));
    INCIPIT_ASSIGN_OR_RETURN(best_tokens_,
                             Memory::Allocate(Place::kDevice, best * sizeof(int32_t)));
    return absl::OkStatus();
  }

  // Measures the upper limit of a product: tensor instructions that read only shared memory.
  absl::Status MeasureTensorCores() {
    const int32_t num_blocks = bench_.device().num_sms * MultiplyAgain::kBlocksPerSm;
    const auto count = static_cast<int32_t>(bench_.Size(4096, 3));
    const Work work = {.name = "tensor cores, from shared memory",
                       .bytes = 0,
                       .flops = MultiplyAgain::kFlops * count * num_blocks};
    return bench_.Measure(work, 1, [&](int32_t) {
      Launch<MultiplyAgain>(bench_.stream(), {.num_blocks = num_blocks},
                            {.count = count, .sum = out_.as<float>(), .wanted = 0.1F});
    });
  }

  absl::Status MultiplyFew(int32_t tokens) {
    INCIPIT_RETURN_IF_ERROR(MeasureProduct<AppendRows>(kQkv, tokens, [&](const Matrix& matrix) {
      return append_->Into(out_.data(), matrix.rows, tokens);
    }));
    const auto add = [&](const Matrix& matrix) -> AddToHidden::Args {
      return {.hidden = out_.as<float>(),
              .bias = nullptr,
              .next_norm = norm_.as<float>(),
              .x = next_x_.as<dev::bf16>(),
              .squares = next_squares_.as<float>(),
              .hidden_size = matrix.rows};
    };
    INCIPIT_RETURN_IF_ERROR(MeasureProduct<AddToHidden>(kOutput, tokens, add));
    INCIPIT_RETURN_IF_ERROR(
        MeasureProduct<SiluGate>(kGateUp, tokens, [&](const Matrix& matrix) -> SiluGate::Args {
          return {.out = out_.as<dev::bf16>(), .bias = nullptr, .width = matrix.rows / 2};
        }));
    INCIPIT_RETURN_IF_ERROR(MeasureProduct<AddToHidden>(kDown, tokens, add));
    return MeasureProduct<StoreLogits>(kHead, tokens,
                                       [&](const Matrix& matrix) -> StoreLogits::Args {
                                         return {.logits = out_.as<float>(),
                                                 .best_logits = best_logits_.as<float>(),
                                                 .best_tokens = best_tokens_.as<int32_t>(),
                                                 .vocab = matrix.rows};
                                       });
  }

  absl::Status MultiplyMany() {
    const auto tokens = static_cast<int32_t>(bench_.Size(8192, 80));
    const auto store = [&](const Matrix& matrix) -> StoreRows<float>::Args {
      return {.out = out_.as<float>(), .bias = nullptr, .width = matrix.rows};
    };
    const Matrix square = {"square", 8192, 8192};
    INCIPIT_RETURN_IF_ERROR(MeasureProduct<StoreRows<float>>(square, tokens, store));
    INCIPIT_RETURN_IF_ERROR(MeasureProduct<AppendRows>(kQkv, tokens, [&](const Matrix& matrix) {
      return append_->Into(out_.data(), matrix.rows, tokens);
    }));
    return MeasureProduct<SiluGate>(kGateUp, tokens, [&](const Matrix& matrix) -> SiluGate::Args {
      return {.out = out_.as<dev::bf16>(), .bias = nullptr, .width = matrix.rows / 2};
    });
  }

  template <class Epilogue, class ArgsOf>
  absl::Status MeasureProduct(const Matrix& wanted, int32_t tokens, const ArgsOf& args_of) {
    const Matrix matrix = Scaled(wanted);
    const double elements = static_cast<double>(matrix.rows) * matrix.columns;
    const auto weight_elements = static_cast<int64_t>(matrix.rows) * matrix.columns;
    const auto held = static_cast<int32_t>(
        weights_.byte_size() / (static_cast<size_t>(weight_elements) * sizeof(dev::bf16)));
    const int32_t turns =
        std::clamp(bench_.TurnsFor(elements * sizeof(dev::bf16)), 1, std::max(1, held));
    INCIPIT_ASSIGN_OR_RETURN(const Memory num_rows, bench_.Number(tokens));
    // As in a layer, products of few rows include the preceding norm (kernels/cuda/device/norm.h).
    const bool follows_norm =
        std::is_same_v<Epilogue, AppendRows> || std::is_same_v<Epilogue, SiluGate>;
    const bool is_few = tokens <= std::ranges::max(kTokens);
    const Work work = {.name = fmt::format("product of {} x {}, {} x {}", matrix.name, tokens,
                                           matrix.rows, matrix.columns),
                       .bytes = 2 * (elements + static_cast<double>(tokens) * matrix.columns),
                       .flops = 2 * elements * tokens};
    return bench_.Measure(work, turns, [&](int32_t turn) {
      LaunchProduct<Epilogue>(
          bench_.stream(), bench_.device().num_sms, tokens,
          {.input = {.num_rows = num_rows.as<int32_t>(),
                     .x = x_.as<dev::bf16>(),
                     .weight = weights_.as<dev::bf16>() + turn * weight_elements,
                     .columns = matrix.columns,
                     .num_units = matrix.rows / kUnitRows,
                     .squares = follows_norm ? squares_.as<float>() : nullptr,
                     .num_squares = is_few ? matrix.columns / kUnitRows : 1,
                     .epsilon = 1e-5F},
           .epilogue = args_of(matrix)});
    });
  }

  DeviceBench& bench_;
  std::optional<AppendInputs> append_;
  Memory weights_, x_, out_;
  Memory squares_, norm_, next_x_, next_squares_, best_logits_, best_tokens_;
};

}  // namespace

absl::Status MeasureProducts(DeviceBench& bench) { return ProductBench(bench).Run(); }

}  // namespace incipit::cuda
