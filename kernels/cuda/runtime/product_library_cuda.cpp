// Implements kernels/cuda/runtime/product_library.h with cuBLASLt. Because cuBLASLt expects
// column-major matrices, each row-major matrix is described to cuBLASLt as a transposed matrix.
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "kernels/cuda/runtime/cublaslt.h"
#include "kernels/cuda/runtime/product_library.h"

namespace incipit::cuda {

// Returns the cudaStream_t of `stream`. Defined in runtime_cuda.cpp.
void* HandleOf(Stream& stream);

namespace {

constexpr const char* kLibraries[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

struct Functions {
  lt::GetVersion* get_version = nullptr;
  lt::GetStatusName* get_status_name = nullptr;
  lt::Create* create = nullptr;
  lt::Destroy* destroy = nullptr;
  lt::DescCreate* desc_create = nullptr;
  lt::LayoutCreate* layout_create = nullptr;
  lt::PreferenceCreate* preference_create = nullptr;
  lt::DestroyOne *desc_destroy = nullptr, *layout_destroy = nullptr, *preference_destroy = nullptr;
  lt::SetAttribute *desc_set = nullptr, *preference_set = nullptr;
  lt::GetAlgorithmConfig* algorithm_config = nullptr;
  lt::GetHeuristic* get_heuristic = nullptr;
  lt::CheckAlgorithm* check_algorithm = nullptr;
  lt::Matmul* matmul = nullptr;
};

template <class F>
bool Find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  return function != nullptr;
}

bool FindAll(void* library, Functions& f) {
  return Find(library, "cublasLtGetVersion", f.get_version) &&
         Find(library, "cublasLtGetStatusName", f.get_status_name) &&
         Find(library, "cublasLtCreate", f.create) && Find(library, "cublasLtDestroy", f.destroy) &&
         Find(library, "cublasLtMatmulDescCreate", f.desc_create) &&
         Find(library, "cublasLtMatrixLayoutCreate", f.layout_create) &&
         Find(library, "cublasLtMatmulPreferenceCreate", f.preference_create) &&
         Find(library, "cublasLtMatmulDescDestroy", f.desc_destroy) &&
         Find(library, "cublasLtMatrixLayoutDestroy", f.layout_destroy) &&
         Find(library, "cublasLtMatmulPreferenceDestroy", f.preference_destroy) &&
         Find(library, "cublasLtMatmulDescSetAttribute", f.desc_set) &&
         Find(library, "cublasLtMatmulPreferenceSetAttribute", f.preference_set) &&
         Find(library, "cublasLtMatmulAlgoConfigGetAttribute", f.algorithm_config) &&
         Find(library, "cublasLtMatmulAlgoGetHeuristic", f.get_heuristic) &&
         Find(library, "cublasLtMatmulAlgoCheck", f.check_algorithm) &&
         Find(library, "cublasLtMatmul", f.matmul);
}

// Returns the version text of NVIDIA's driver, or an empty string if the text cannot be read.
std::string DriverBuild() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  return line;
}

// The cuBLASLt descriptors of one product.
class Product {
 public:
  Product(const Functions& functions, const ProductSize& size) : f_(functions) {
    const auto rows = static_cast<uint64_t>(size.rows), k = static_cast<uint64_t>(size.columns);
    const auto outputs = static_cast<uint64_t>(size.outputs);
    is_made_ = Ok(f_.desc_create(&desc, lt::kComputeF32, lt::kF32)) &&
               Ok(f_.desc_set(desc, lt::kDescTransA, &lt::kTransposed, sizeof(lt::kTransposed))) &&
               Ok(f_.desc_set(desc, lt::kDescTransB, &lt::kAsItIs, sizeof(lt::kAsItIs))) &&
               Ok(f_.layout_create(&w, lt::kBF16, k, outputs, size.columns)) &&
               Ok(f_.layout_create(&x, lt::kBF16, k, rows, size.columns)) &&
               Ok(f_.layout_create(&y, lt::kF32, outputs, rows, size.outputs));
  }
  ~Product() {
    for (lt::Handle layout : {w, x, y}) {
      if (layout != nullptr) f_.layout_destroy(layout);
    }
    if (desc != nullptr) f_.desc_destroy(desc);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  bool is_made() const { return is_made_; }

  lt::Handle desc = nullptr, w = nullptr, x = nullptr, y = nullptr;

 private:
  static bool Ok(int status) { return status == lt::kSuccess; }

  const Functions& f_;
  bool is_made_ = false;
};

}  // namespace

// Private state of ProductLibrary. cuBLASLt is never unloaded, because cuBLASLt holds resources of
// the device.
struct ProductLibrary::State {
  Functions f;
  lt::Handle handle = nullptr;
  std::string version;
  ~State() {
    if (handle != nullptr) f.destroy(handle);
  }

  // Returns true if `algorithm` does not split sums: one thread block computes the whole sum of
  // each result.
  bool IsWhole(const lt::Algorithm& algorithm) const {
    int32_t splits = 0;
    uint32_t scheme = 0;
    size_t written = 0;
    return f.algorithm_config(&algorithm, lt::kConfigSplits, &splits, sizeof(splits), &written) ==
               lt::kSuccess &&
           splits <= 1 &&
           f.algorithm_config(&algorithm, lt::kConfigReductionScheme, &scheme, sizeof(scheme),
                              &written) == lt::kSuccess &&
           scheme == lt::kNoReduction;
  }
};

ProductLibrary::ProductLibrary(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProductLibrary::~ProductLibrary() = default;
ProductLibrary::ProductLibrary(ProductLibrary&&) noexcept = default;
ProductLibrary& ProductLibrary::operator=(ProductLibrary&&) noexcept = default;

absl::StatusOr<ProductLibrary> ProductLibrary::Load() {
  std::string missing;
  for (const char* const name : kLibraries) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = dlerror();
      if (missing.empty()) missing = why == nullptr ? name : why;
      continue;
    }
    auto state = std::make_unique<State>();
    if (!FindAll(library, state->f)) {
      return Unavailable("the library {} does not have all the functions of cuBLASLt", name);
    }
    const int status = state->f.create(&state->handle);
    if (status != lt::kSuccess) {
      state->handle = nullptr;
      return Unavailable("cublasLtCreate of the library {} returned {}", name,
                         state->f.get_status_name(status));
    }
    const size_t version = state->f.get_version();
    state->version = fmt::format("cuBLASLt {}", version);
    if (const std::string build = DriverBuild(); !build.empty()) {
      state->version += fmt::format(", {}", build);
    }
    return ProductLibrary(std::move(state));
  }
  return Unavailable("cuBLASLt cannot be loaded: {}", missing);
}

const std::string& ProductLibrary::version() const { return state_->version; }

std::vector<ProductAlgorithm> ProductLibrary::FindAlgorithms(const ProductSize& size,
                                                             int32_t count) const {
  const Functions& f = state_->f;
  const Product product(f, size);
  lt::Handle preference = nullptr;
  std::vector<ProductAlgorithm> algorithms;
  if (!product.is_made() || f.preference_create(&preference) != lt::kSuccess) return algorithms;
  const uint64_t workspace = kProductWorkspaceBytes;
  f.preference_set(preference, lt::kPreferWorkspaceBytes, &workspace, sizeof(workspace));
  f.preference_set(preference, lt::kPreferReductionSchemes, &lt::kNoReduction,
                   sizeof(lt::kNoReduction));
  std::vector<lt::HeuristicResult> results(static_cast<size_t>(count));
  int found = 0;
  const int status = f.get_heuristic(state_->handle, product.desc, product.w, product.x, product.y,
                                     product.y, preference, count, results.data(), &found);
  f.preference_destroy(preference);
  if (status != lt::kSuccess) return algorithms;
  results.resize(static_cast<size_t>(found));
  for (const lt::HeuristicResult& result : results) {
    if (result.state != lt::kSuccess || !state_->IsWhole(result.algorithm)) continue;
    algorithms.push_back(std::bit_cast<ProductAlgorithm>(result.algorithm));
  }
  return algorithms;
}

bool ProductLibrary::Offers(const ProductSize& size, const ProductAlgorithm& algorithm) const {
  const Functions& f = state_->f;
  const Product product(f, size);
  const auto words = std::bit_cast<lt::Algorithm>(algorithm);
  lt::HeuristicResult result = {};
  return product.is_made() && state_->IsWhole(words) &&
         f.check_algorithm(state_->handle, product.desc, product.w, product.x, product.y, product.y,
                           &words, &result) == lt::kSuccess &&
         result.workspace_bytes <= kProductWorkspaceBytes;
}

absl::Status ProductLibrary::Multiply(Stream& stream, const ProductSize& size,
                                      const ProductAlgorithm& algorithm,
                                      const ProductOperands& operands) const {
  const Functions& f = state_->f;
  const Product product(f, size);
  if (!product.is_made()) return Internal("cuBLASLt cannot create the descriptors of a product");
  const auto words = std::bit_cast<lt::Algorithm>(algorithm);
  const float one = 1, zero = 0;
  const int status = f.matmul(state_->handle, product.desc, &one, operands.w, product.w, operands.x,
                              product.x, &zero, operands.y, product.y, operands.y, product.y,
                              &words, operands.workspace, kProductWorkspaceBytes, HandleOf(stream));
  if (status == lt::kSuccess) return absl::OkStatus();
  return Internal("cublasLtMatmul of a product with {} rows, {} columns and {} outputs returned {}",
                  size.rows, size.columns, size.outputs, f.get_status_name(status));
}

}  // namespace incipit::cuda
