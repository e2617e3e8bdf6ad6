// Reads and writes the tuning file: a text file that lists for each size of matrix product whether
// cuBLASLt or our own kernel is faster. The file is valid for one machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/product_library.h"

namespace incipit::cuda {

// Use of the results of a product. kStore: stores the results. kAdd: adds the results to the hidden
// state. kGate: stores SiLU(gate) * up.
enum class ProductKind : uint8_t { kStore, kAdd, kGate };

struct ProductKey {
  ProductKind kind = ProductKind::kStore;
  int64_t outputs = 0, columns = 0;
  // Minimum number of input rows of a product. The choice of a kernel is valid for products with
  // [rows, 2 * rows) input rows.
  int64_t rows = 0;

  auto operator<=>(const ProductKey&) const = default;
};

struct ProductChoice {
  bool is_library = false;
  ProductAlgorithm algorithm = {};  // algorithm of cuBLASLt; used only if is_library is true

  bool operator==(const ProductChoice&) const = default;
};

class ProductChoices {
 public:
  const ProductChoice* Find(const ProductKey& key) const;
  void Set(const ProductKey& key, const ProductChoice& choice) { choices_[key] = choice; }
  const std::map<ProductKey, ProductChoice>& all() const { return choices_; }

  // Reads the tuning file at `path`. `machine` names the GPU and the software versions. Errors:
  // NOT_FOUND (no file), FAILED_PRECONDITION (the file is for another machine), INVALID_ARGUMENT
  // (invalid contents).
  static absl::StatusOr<ProductChoices> Read(const std::string& path, const std::string& machine);
  // Writes the tuning file atomically. Creates the folder of the file if needed.
  absl::Status Write(const std::string& path, const std::string& machine) const;

 private:
  std::map<ProductKey, ProductChoice> choices_;
};

}  // namespace incipit::cuda
