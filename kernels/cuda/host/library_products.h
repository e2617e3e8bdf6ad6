// Computes large matrix products with cuBLASLt (NVIDIA's library) if cuBLASLt is faster than our
// own kernel. A kernel first unpacks the weight. cuBLASLt then multiplies a range of input rows at
// a time, and kernel FinishProduct processes the results of this range.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/cuda/device/product/append_rows.h"
#include "kernels/cuda/device/product/product.h"
#include "kernels/cuda/host/memory.h"
#include "kernels/cuda/host/product_meter.h"
#include "kernels/cuda/host/product_tuning_file.h"
#include "kernels/cuda/runtime/product_library.h"

namespace incipit::cuda {

template <class Epilogue>
inline constexpr std::optional<ProductKind> kKindOf = std::nullopt;
template <>
inline constexpr std::optional<ProductKind> kKindOf<StoreRows<float>> = ProductKind::kStore;
// Products whose results are stored by AppendRows are not measured. For these products, the choice
// between cuBLASLt and our own kernel uses the measurements of StoreRows<float>.
template <>
inline constexpr std::optional<ProductKind> kKindOf<AppendRows> = ProductKind::kStore;
template <>
inline constexpr std::optional<ProductKind> kKindOf<AddToHidden> = ProductKind::kAdd;
template <>
inline constexpr std::optional<ProductKind> kKindOf<SiluGate> = ProductKind::kGate;

class LibraryProducts {
 public:
  LibraryProducts(const CudaOptions& options, const DeviceProperties& device);

  // Registers a weight matrix of the model for the next call of Reserve.
  void Add(const DeviceWeight& weight, WeightRole role);

  // Allocates memory for products with up to `rows_max` input rows. Selects cuBLASLt or our own
  // kernel for each product size, from the tuning file or by measurements. Returns
  // RESOURCE_EXHAUSTED if there is too little memory. REQUIRES: the stream is idle.
  absl::Status Reserve(int64_t rows_max, Stream& stream);

  // Enqueues a product if cuBLASLt was selected for the size of the product. Returns false if the
  // caller must launch our own kernel instead. REQUIRES: `rows`, the number of input rows, equals
  // *args.input.num_rows in device memory.
  template <class Epilogue>
  absl::StatusOr<bool> Multiply(Stream& stream, const ProductArgs<Epilogue>& args, int64_t rows) {
    if constexpr (!kKindOf<Epilogue>.has_value()) {
      return false;
    } else {
      const ProductKey key = KeyOf(*kKindOf<Epilogue>, args.input, rows);
      INCIPIT_ASSIGN_OR_RETURN(const ProductChoice choice, ChoiceFor(key, rows, stream));
      if (choice.is_library) {
        INCIPIT_RETURN_IF_ERROR(Run(stream, choice.algorithm, args, rows));
      }
      return choice.is_library;
    }
  }

  // Returns the text that BackendLimits::numerics contains for matrix products.
  std::string numerics() const;
  // Returns true if cuBLASLt is loaded.
  bool is_there() const { return library_.has_value(); }
  // Selects the kernels that compute large products from now on: our own kernels, those of
  // cuBLASLt, or the faster ones for each product size.
  void Use(LargeProducts whose) { whose_ = whose; }

 private:
  struct Shape {
    ProductKind kind = ProductKind::kStore;
    int32_t num_units = 0, columns = 0;
    std::weak_ptr<Memory> weight;
  };
  struct ScratchBytes {
    size_t weight = 0, sums = 0;
  };

  ProductKey KeyOf(ProductKind kind, const ProductInput& input, int64_t rows) const;
  // Returns how many rows of the input each call of cuBLASLt multiplies, for a product with `rows`
  // input rows. The last call may multiply fewer rows.
  int64_t PartRows(int64_t rows, int64_t outputs) const;
  // Returns the maximum number of input rows that each call of cuBLASLt multiplies, for a product
  // with `rows` input rows and `outputs` outputs.
  int64_t PartRowsMax(int64_t rows, int64_t outputs) const;
  ScratchBytes ScratchOf(const ProductKey& key, int64_t rows) const;
  absl::Status GrowScratch(const ScratchBytes& bytes, Stream& stream);
  absl::StatusOr<ProductChoice> ChoiceFor(const ProductKey& key, int64_t rows, Stream& stream);

  // Returns true if `algorithm` can compute products with the lowest, the second lowest and the
  // highest number of input rows in [key.rows, 2 * key.rows). Other numbers in this range are not
  // tested.
  bool Serves(const ProductKey& key, const ProductAlgorithm& algorithm) const;
  std::vector<ProductAlgorithm> AlgorithmsFor(const ProductKey& key, int32_t count) const;
  bool IsKnown(const ProductKey& key) const;
  void ReadChoices();
  void WriteChoices() const;
  absl::Status Measure(const Shape& shape, const ProductKey& key, ProductMeter& meter);
  absl::Status MeasureAll(const std::vector<ProductKey>& keys, Stream& stream);
  // Prepares products of the size `key`. If no kernel is stored for `key`, measures the kernels and
  // stores the fastest. If a kernel of cuBLASLt is stored, computes one product, because cuBLASLt
  // loads its kernel at the first use.
  template <class Epilogue>
  absl::Status Try(const ProductKey& key, const ProductArgs<Epilogue>& args, ProductMeter& meter);
  template <class Epilogue>
  absl::StatusOr<ProductChoice> Fastest(const ProductKey& key, const ProductArgs<Epilogue>& args,
                                        ProductMeter& meter);
  template <class Epilogue>
  absl::Status Run(Stream& stream, const ProductAlgorithm& algorithm,
                   const ProductArgs<Epilogue>& args, int64_t rows);
  void Note(const std::string& text) const {
    if (note_) note_(text, /*is_warning=*/false);
  }
  void Warn(const std::string& text) const {
    if (note_) note_(text, /*is_warning=*/true);
  }

  LargeProducts whose_;
  const int64_t rows_min_, sums_bytes_max_;
  const std::string tuning_file_;
  const std::function<void(std::string_view, bool)> note_;
  const int32_t num_sms_;
  std::optional<ProductLibrary> library_;
  std::string machine_;
  std::vector<Shape> shapes_;
  ProductChoices choices_;
  Memory weight_, sums_, workspace_;
};

// Returns the arguments with which an epilogue (a class that stores the results of a product)
// writes to `out`, without a bias. `outputs`: number of results of the product for each input row.
template <class Epilogue>
typename Epilogue::Args EpilogueInto(void* out, int64_t outputs) {
  typename Epilogue::Args args;
  const auto width = static_cast<int32_t>(outputs);
  if constexpr (std::is_same_v<Epilogue, AddToHidden>) {
    args.hidden = static_cast<float*>(out);
    args.hidden_size = width;
  } else {
    args.out = static_cast<decltype(args.out)>(out);
    args.width = std::is_same_v<Epilogue, SiluGate> ? width / 2 : width;
  }
  return args;
}

}  // namespace incipit::cuda
