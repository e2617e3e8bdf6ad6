// Measures large products of the 8B model shape with Incipit's kernel and with cuBLASLt, and
// compares both results.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "kernels/cuda/device/product/unpack_weight.h"
#include "kernels/cuda/host/launch_product.h"
#include "kernels/cuda/host/library_products.h"
#include "kernels/numeric.h"
#include "tests/gpu_check/append_inputs.h"
#include "tests/gpu_check/device_bench.h"

namespace incipit::cuda {
namespace {

// Tolerances for the comparison of Incipit's kernel with cuBLASLt, relative to the largest result.
// kSumTolerance: for sums in different orders. kRoundedTolerance: for results that are rounded to
// bf16 in different directions.
constexpr double kSumTolerance = 5e-5, kRoundedTolerance = 8e-3;

struct Matrix {
  const char* name;
  int32_t rows = 0, columns = 0;
};

class LibraryBench {
 public:
  explicit LibraryBench(DeviceBench& bench)
      : bench_(bench),
        products_({.large_products = LargeProducts::kLibrary,
                   .note = [](std::string_view note,
                              bool) { fmt::print("{{\"note\": \"{}\"}}\n", note); },
                   .large_rows_min = 1},
                  bench.device()) {}

  absl::Status Run() {
    if (!products_.is_there()) return absl::OkStatus();
    const int64_t rows = bench_.Size(8192, 160);
    INCIPIT_ASSIGN_OR_RETURN(
        weight_, bench_.Random(static_cast<size_t>(bench_.Size(28672 * 4096, 448 * 448) * 2)));
    INCIPIT_ASSIGN_OR_RETURN(
        x_, bench_.Random(static_cast<size_t>(rows * bench_.Size(14336, 448)) * sizeof(dev::bf16)));
    INCIPIT_ASSIGN_OR_RETURN(append_, AppendInputs::Make(bench_, static_cast<int32_t>(rows)));
    // Measures both variants of the qkv product. If the heads of a model have norms, the product
    // only stores its results. In other models, the product appends keys and values to the cache.
    INCIPIT_RETURN_IF_ERROR(CompareSizes<StoreRows<float>>(Scaled({"qkv, stored", 6144, 4096})));
    INCIPIT_RETURN_IF_ERROR(RunOne<AppendRows>({"qkv", 6144, 4096}));
    INCIPIT_RETURN_IF_ERROR(RunOne<AddToHidden>({"output", 4096, 4096}));
    INCIPIT_RETURN_IF_ERROR(RunOne<SiluGate>({"gate and up", 28672, 4096}));
    return RunOne<AddToHidden>({"down", 4096, 14336});
  }

 private:
  template <class Epilogue>
  using OutputOf =
      std::conditional_t<std::is_same_v<Epilogue, AppendRows> || std::is_same_v<Epilogue, SiluGate>,
                         uint16_t, float>;

  // Reduces a matrix for a smoke run, so that an emulated device finishes soon.
  Matrix Scaled(Matrix matrix) const {
    if (!bench_.is_smoke()) return matrix;
    matrix.rows /= 64;
    matrix.columns /= 32;
    return matrix;
  }

  // Allocates memory for the outputs of a product. Slots of the last page that get no output stay
  // zero.
  template <class Epilogue>
  static absl::StatusOr<Memory> OutputsFor(const Matrix& matrix, int64_t rows) {
    const int64_t outputs = std::is_same_v<Epilogue, AppendRows>
                                ? AppendInputs::NumOutputs(matrix.rows, rows)
                            : std::is_same_v<Epilogue, SiluGate> ? rows * matrix.rows / 2
                                                                 : rows * matrix.rows;
    return Memory::Allocate(Place::kDevice,
                            static_cast<size_t>(outputs) * sizeof(OutputOf<Epilogue>));
  }

  template <class Epilogue>
  typename Epilogue::Args EpilogueFor(const Matrix& matrix, const Memory& out, int64_t rows) const {
    if constexpr (std::is_same_v<Epilogue, AppendRows>) {
      return append_->Into(out.data(), matrix.rows, rows);
    } else {
      return EpilogueInto<Epilogue>(out.data(), matrix.rows);
    }
  }

  template <class Epilogue>
  ProductArgs<Epilogue> ArgsOf(const Matrix& matrix, const Memory& num_rows, const Memory& out,
                               int64_t rows) const {
    return {.input = {.num_rows = num_rows.as<int32_t>(),
                      .x = x_.as<dev::bf16>(),
                      .weight = weight_.as<dev::bf16>(),
                      .columns = matrix.columns,
                      .num_units = matrix.rows / kUnitRows},
            .epilogue = EpilogueFor<Epilogue>(matrix, out, rows)};
  }

  template <class Epilogue>
  absl::Status RunOne(const Matrix& wanted) {
    const Matrix matrix = Scaled(wanted);
    INCIPIT_RETURN_IF_ERROR(CompareSizes<Epilogue>(matrix));
    INCIPIT_RETURN_IF_ERROR(MeasureUnpacking(matrix));
    for (const int64_t rows : {bench_.Size(2048, 80), bench_.Size(8192, 160)}) {
      INCIPIT_RETURN_IF_ERROR(MeasureBoth<Epilogue>(matrix, rows));
    }
    return absl::OkStatus();
  }

  // Computes the product with cuBLASLt. Returns false if cuBLASLt has no kernel for this size; the
  // server then uses Incipit's kernel.
  template <class Epilogue>
  absl::StatusOr<bool> ByLibrary(const ProductArgs<Epilogue>& args, int64_t rows) {
    return products_.Multiply(bench_.stream(), args, rows);
  }
  static void SayNone(const Matrix& matrix, int64_t rows) {
    fmt::print("{{\"note\": \"cuBLASLt has no product of {} x {}, {} x {}\"}}\n", matrix.name, rows,
               matrix.rows, matrix.columns);
  }
  template <class Epilogue>
  void ByOurs(const ProductArgs<Epilogue>& args, int64_t rows) {
    LaunchProduct<Epilogue>(bench_.stream(), bench_.device().num_sms, rows, args);
  }

  // ---- results

  template <class T>
  absl::StatusOr<std::vector<double>> OnHost(const Memory& out) {
    INCIPIT_ASSIGN_OR_RETURN(const Memory host, Memory::Allocate(Place::kPinned, out.byte_size()));
    bench_.stream().Copy(host.data(), out.data(), out.byte_size());
    INCIPIT_RETURN_IF_ERROR(bench_.stream().Wait());
    std::vector<double> values(out.byte_size() / sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, float>) {
        values[i] = static_cast<double>(host.as<float>()[i]);
      } else {
        values[i] = static_cast<double>(WidenBF16(host.as<uint16_t>()[i]));
      }
    }
    return values;
  }

  // Compares results for small and large tiles of Incipit's kernel. The last tile is not full.
  template <class Epilogue>
  absl::Status CompareSizes(const Matrix& matrix) {
    INCIPIT_RETURN_IF_ERROR(Compare<Epilogue>(matrix, bench_.Size(100, 70)));
    return Compare<Epilogue>(matrix, bench_.Size(1000, 131));
  }

  template <class Epilogue>
  absl::Status Compare(const Matrix& matrix, int64_t rows) {
    using Output = OutputOf<Epilogue>;
    INCIPIT_ASSIGN_OR_RETURN(const Memory num_rows, bench_.Number(static_cast<int32_t>(rows)));
    INCIPIT_ASSIGN_OR_RETURN(const Memory ours, OutputsFor<Epilogue>(matrix, rows));
    INCIPIT_ASSIGN_OR_RETURN(const Memory theirs, OutputsFor<Epilogue>(matrix, rows));
    INCIPIT_ASSIGN_OR_RETURN(const bool is_done,
                             ByLibrary(ArgsOf<Epilogue>(matrix, num_rows, theirs, rows), rows));
    if (!is_done) {
      SayNone(matrix, rows);
      return absl::OkStatus();
    }
    ByOurs(ArgsOf<Epilogue>(matrix, num_rows, ours, rows), rows);
    INCIPIT_ASSIGN_OR_RETURN(const std::vector<double> a, OnHost<Output>(ours));
    INCIPIT_ASSIGN_OR_RETURN(const std::vector<double> b, OnHost<Output>(theirs));
    double largest = 0, apart = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return Internal("results not finite");
      largest = std::max(largest, std::fabs(b[i]));
      apart = std::max(apart, std::fabs(a[i] - b[i]));
    }
    const std::string what = fmt::format(
        "{} x {}, {} x {}: Incipit's and cuBLASLt's results differ by at most {:.1e} of the "
        "largest result",
        matrix.name, rows, matrix.rows, matrix.columns, largest > 0 ? apart / largest : 0);
    const double allowed = sizeof(Output) == 4 ? kSumTolerance : kRoundedTolerance;
    if (largest == 0 || apart > allowed * largest) {
      return Internal("{}; {} is allowed", what, allowed);
    }
    fmt::print("{{\"note\": \"product of {}\"}}\n", what);
    return absl::OkStatus();
  }

  // ---- times

  absl::Status MeasureUnpacking(const Matrix& matrix) {
    const double elements = static_cast<double>(matrix.rows) * matrix.columns;
    const auto bytes = static_cast<size_t>(elements) * sizeof(dev::bf16);
    INCIPIT_ASSIGN_OR_RETURN(const Memory out, Memory::Allocate(Place::kDevice, bytes));
    const Work work = {
        .name = fmt::format("unpacking {}, {} x {}", matrix.name, matrix.rows, matrix.columns),
        .bytes = 4 * elements,
        .flops = 0};
    return bench_.Measure(work, 1, [&](int32_t) {
      Launch<UnpackWeight>(bench_.stream(),
                           {.num_blocks = bench_.device().num_sms * UnpackWeight::kBlocksPerSm},
                           {.weight = weight_.as<dev::bf16>(),
                            .num_units = matrix.rows / kUnitRows,
                            .columns = matrix.columns,
                            .out = out.as<dev::bf16>()});
    });
  }

  template <class Epilogue>
  absl::Status MeasureBoth(const Matrix& matrix, int64_t rows) {
    INCIPIT_ASSIGN_OR_RETURN(const Memory num_rows, bench_.Number(static_cast<int32_t>(rows)));
    INCIPIT_ASSIGN_OR_RETURN(const Memory out, OutputsFor<Epilogue>(matrix, rows));
    const auto args = ArgsOf<Epilogue>(matrix, num_rows, out, rows);
    const double elements = static_cast<double>(matrix.rows) * matrix.columns;
    Work work = {.name = fmt::format("large product of {} x {}, {} x {}, ours", matrix.name, rows,
                                     matrix.rows, matrix.columns),
                 .bytes = 0,
                 .flops = 2 * elements * static_cast<double>(rows)};
    INCIPIT_RETURN_IF_ERROR(bench_.Measure(work, 1, [&](int32_t) { ByOurs(args, rows); }));
    INCIPIT_ASSIGN_OR_RETURN(const bool is_done, ByLibrary(args, rows));
    if (!is_done) {
      SayNone(matrix, rows);
      return absl::OkStatus();
    }
    work.name = fmt::format("large product of {} x {}, {} x {}, by cuBLASLt", matrix.name, rows,
                            matrix.rows, matrix.columns);
    absl::Status first;
    INCIPIT_RETURN_IF_ERROR(bench_.Measure(work, 1, [&](int32_t) {
      absl::Status status = ByLibrary(args, rows).status();
      if (first.ok()) first = std::move(status);
    }));
    return first;
  }

  DeviceBench& bench_;
  LibraryProducts products_;
  std::optional<AppendInputs> append_;
  Memory weight_, x_;
};

}  // namespace

absl::Status MeasureLibrary(DeviceBench& bench) { return LibraryBench(bench).Run(); }

}  // namespace incipit::cuda
