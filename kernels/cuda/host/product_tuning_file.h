// Stores for each product size whether cuBLASLt or our own kernel is faster. The file has lines of
// text and is valid for one machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/product_library.h"

namespace incipit::cuda {

// What the epilogue does with the results (product.h).
enum class ProductKind : uint8_t { kStore, kAdd, kGate };

struct ProductKey {
  ProductKind kind = ProductKind::kStore;
  int64_t outputs = 0, columns = 0;
  int64_t rows = 0;  // the key stands for [rows, 2 * rows) rows

  auto operator<=>(const ProductKey&) const = default;
};

struct ProductChoice {
  bool is_library = false;
  ProductAlgorithm algorithm = {};  // used if is_library is true

  bool operator==(const ProductChoice&) const = default;
};

class ProductChoices {
 public:
  const ProductChoice* Find(const ProductKey& key) const;
  void Set(const ProductKey& key, const ProductChoice& choice) { choices_[key] = choice; }
  const std::map<ProductKey, ProductChoice>& all() const { return choices_; }

  // Reads the file. `machine` is one line that names everything on which a choice depends. Returns
  // NOT_FOUND if there is no file, FAILED_PRECONDITION if the file is for another machine,
  // INVALID_ARGUMENT if the file has another format or is incomplete.
  static absl::StatusOr<ProductChoices> Read(const std::string& path, const std::string& machine);
  // Writes the file atomically and creates its folder.
  absl::Status Write(const std::string& path, const std::string& machine) const;

 private:
  std::map<ProductKey, ProductChoice> choices_;
};

}  // namespace incipit::cuda
