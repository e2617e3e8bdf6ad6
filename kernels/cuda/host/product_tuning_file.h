// Reads and writes the tuning file, which stores for each product size whether cuBLASLt or our own
// kernel is faster. The file is a text file and is valid for one machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/product_library.h"

namespace incipit::cuda {

// Use of the results of a product. kStore: the results are stored. kAdd: the results are added to
// the hidden state. kGate: SiLU(gate) * up is stored.
enum class ProductKind : uint8_t { kStore, kAdd, kGate };

struct ProductKey {
  ProductKind kind = ProductKind::kStore;
  int64_t outputs = 0, columns = 0;
  int64_t rows = 0;  // minimum number of rows; the choice is valid for [rows, 2 * rows) rows

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

  // Reads the tuning file at `path`. `machine` is a text with the names and versions of the GPU and
  // of the software. Errors: NOT_FOUND if the file does not exist, FAILED_PRECONDITION if the file
  // is for another `machine`, INVALID_ARGUMENT if the file is incomplete or has another format.
  static absl::StatusOr<ProductChoices> Read(const std::string& path, const std::string& machine);
  // Writes the tuning file atomically. Creates the folder of the file if needed.
  absl::Status Write(const std::string& path, const std::string& machine) const;

 private:
  std::map<ProductKey, ProductChoice> choices_;
};

}  // namespace incipit::cuda
