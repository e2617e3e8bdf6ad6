// Which product is whose, and the file that keeps it: lines of text, for one machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/product_library.h"

namespace incipit::cuda {

// By what is done with the results (product.h).
enum class ProductKind : uint8_t { kStore, kAdd, kGate };

struct ProductKey {
  ProductKind kind = ProductKind::kStore;
  int64_t outputs = 0, columns = 0;
  int64_t rows = 0;  // and as many again, less one

  auto operator<=>(const ProductKey&) const = default;
};

struct ProductChoice {
  bool is_library = false;
  ProductAlgorithm algorithm = {};  // the library's

  bool operator==(const ProductChoice&) const = default;
};

class ProductChoices {
 public:
  const ProductChoice* Find(const ProductKey& key) const;
  void Set(const ProductKey& key, const ProductChoice& choice) { choices_[key] = choice; }
  const std::map<ProductKey, ProductChoice>& all() const { return choices_; }

  // `machine`: one line, all that a choice depends on. NOT_FOUND: there is no file.
  // FAILED_PRECONDITION: it is another machine's. INVALID_ARGUMENT: it is no such file, or not
  // whole.
  static absl::StatusOr<ProductChoices> Read(const std::string& path, const std::string& machine);
  // Readers see the file whole or not at all. Makes its folder.
  absl::Status Write(const std::string& path, const std::string& machine) const;

 private:
  std::map<ProductKey, ProductChoice> choices_;
};

}  // namespace incipit::cuda
