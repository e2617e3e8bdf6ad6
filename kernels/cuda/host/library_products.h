// Large products by a library, where that is faster than our own kernel: the weight is unpacked
// into scratch memory, multiplied by a part of the rows at a time, and each part's sums are
// finished by the same epilogues. One stream uses it.
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
// The same kind: storing f32 rows moves twice the bytes of results, of the library's and of ours.
template <>
inline constexpr std::optional<ProductKind> kKindOf<AppendRows> = ProductKind::kStore;
template <>
inline constexpr std::optional<ProductKind> kKindOf<AddToHidden> = ProductKind::kAdd;
template <>
inline constexpr std::optional<ProductKind> kKindOf<SiluGate> = ProductKind::kGate;

class LibraryProducts {
 public:
  LibraryProducts(const CudaOptions& options, const DeviceProperties& device);

  // A weight that steps multiply: what it takes is reserved, and measured if the weight is still
  // there by then.
  void Add(const DeviceWeight& weight, WeightRole role);

  // Takes memory for steps of so many rows and decides, for each size of product, whose it is: by
  // the tuning file, or by measuring. RESOURCE_EXHAUSTED as Memory::Allocate. REQUIRES: the stream
  // has nothing to do.
  absl::Status Reserve(int64_t rows_max, Stream& stream);

  // Enqueues the product if it is the library's; false: it is our own kernel's. `rows`: as
  // *num_rows says, not more.
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

  // Whether a library could be loaded; kOwn does not ask for one.
  bool is_there() const { return library_.has_value(); }
  // From now on.
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
  // Of how many rows each part is, but for the last one; of so many or fewer at most.
  int64_t PartRows(int64_t rows, int64_t outputs) const;
  int64_t PartRowsMax(int64_t rows, int64_t outputs) const;
  ScratchBytes ScratchOf(const ProductKey& key, int64_t rows) const;
  absl::Status GrowScratch(const ScratchBytes& bytes, Stream& stream);
  absl::StatusOr<ProductChoice> ChoiceFor(const ProductKey& key, int64_t rows, Stream& stream);

  // Whether an algorithm serves every number of rows that the key stands for, as far as one can
  // ask.
  bool Serves(const ProductKey& key, const ProductAlgorithm& algorithm) const;
  std::vector<ProductAlgorithm> AlgorithmsFor(const ProductKey& key, int32_t count) const;
  bool IsKnown(const ProductKey& key) const;
  void ReadChoices();
  void WriteChoices() const;
  absl::Status Measure(const Shape& shape, const ProductKey& key, ProductMeter& meter);
  absl::Status MeasureAll(const std::vector<ProductKey>& keys, Stream& stream);
  // Whose is unknown is measured; what is the library's is computed once, which loads its kernel.
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

// Without a bias or a next norm: results of a weight of so many rows go to `out`.
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
