#include "kernels/cuda/host/library_products.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/device/product/finish_product.h"
#include "kernels/cuda/device/product/unpack_weight.h"
#include "kernels/cuda/host/launch_product.h"

#ifndef INCIPIT_VERSION
#error "INCIPIT_VERSION must be defined as the project's version"
#endif

namespace incipit::cuda {
namespace {

// A large product is divided among several calls of cuBLASLt. Each call except the last multiplies
// a multiple of this number of input rows, because cuBLASLt requires aligned addresses.
constexpr int64_t kRowMultiple = 128;

std::optional<ProductKind> KindOf(WeightRole role) {
  switch (role) {
    case WeightRole::kQkv:
      return ProductKind::kStore;
    case WeightRole::kOutput:
    case WeightRole::kDown:
      return ProductKind::kAdd;
    case WeightRole::kGateUp:
      return ProductKind::kGate;
    case WeightRole::kHead:
    case WeightRole::kEmbedding:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

LibraryProducts::LibraryProducts(const CudaOptions& options, const DeviceProperties& device)
    : whose_(options.large_products),
      rows_min_(options.large_rows_min),
      sums_bytes_max_(options.large_sums_bytes_max),
      tuning_file_(options.tuning_file),
      note_(options.note),
      num_sms_(device.num_sms) {
  if (whose_ == LargeProducts::kOwn) return;
  auto library = ProductLibrary::Load();
  if (!library.ok()) {
    Warn(
        fmt::format("large matrix products are computed by Incipit's own kernels, because cuBLASLt "
                    "cannot be loaded: {}",
                    MessageOf(library.status())));
    return;
  }
  library_ = *std::move(library);
  machine_ = fmt::format("{}, {} SMs, {}, {}, incipit {}", device.name, device.num_sms,
                         device.software, library_->version(), INCIPIT_VERSION);
}

std::string LibraryProducts::numerics() const {
  if (!library_.has_value() || whose_ == LargeProducts::kOwn) return "own products";
  return fmt::format("{} products from {} rows, {}",
                     whose_ == LargeProducts::kFastest ? "fastest" : "library", rows_min_,
                     library_->version());
}

void LibraryProducts::Add(const DeviceWeight& weight, WeightRole role) {
  const std::optional<ProductKind> kind = KindOf(role);
  if (!library_.has_value() || !kind.has_value()) return;
  const Shape shape = {.kind = *kind,
                       .num_units = weight.num_units(),
                       .columns = weight.product_columns(),
                       .weight = weight.memory()};
  for (Shape& known : shapes_) {
    if (known.kind != shape.kind || known.num_units != shape.num_units ||
        known.columns != shape.columns) {
      continue;
    }
    if (known.weight.expired()) known.weight = shape.weight;
    return;
  }
  shapes_.push_back(shape);
}

ProductKey LibraryProducts::KeyOf(ProductKind kind, const ProductInput& input, int64_t rows) const {
  int64_t from = rows_min_;
  while (2 * from <= rows) from *= 2;
  return {.kind = kind,
          .outputs = int64_t{input.num_units} * kUnitRows,
          .columns = input.columns,
          .rows = from};
}

int64_t LibraryProducts::PartRowsMax(int64_t rows, int64_t outputs) const {
  const int64_t fit = sums_bytes_max_ / (outputs * int64_t{sizeof(float)}) / kRowMultiple;
  const int64_t wanted = (rows + kRowMultiple - 1) / kRowMultiple;
  return std::max<int64_t>(std::min(fit, wanted), 1) * kRowMultiple;
}

int64_t LibraryProducts::PartRows(int64_t rows, int64_t outputs) const {
  const int64_t most = PartRowsMax(rows, outputs), parts = (rows + most - 1) / most;
  return ((rows + parts - 1) / parts + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
}

LibraryProducts::ScratchBytes LibraryProducts::ScratchOf(const ProductKey& key,
                                                         int64_t rows) const {
  const int64_t part = PartRowsMax(rows, key.outputs);
  return {.weight = static_cast<size_t>(key.outputs * key.columns) * sizeof(dev::bf16),
          .sums = static_cast<size_t>(part * key.outputs) * sizeof(float)};
}

absl::Status LibraryProducts::GrowScratch(const ScratchBytes& bytes, Stream& stream) {
  const std::pair<Memory*, size_t> wanted[] = {
      {&weight_, bytes.weight}, {&sums_, bytes.sums}, {&workspace_, kProductWorkspaceBytes}};
  const auto is_there = [](const auto& one) { return one.first->byte_size() >= one.second; };
  if (std::ranges::all_of(wanted, is_there)) return absl::OkStatus();
  // Waits for earlier kernels, which may still use the memory that this function frees.
  INCIPIT_RETURN_IF_ERROR(stream.Wait());
  size_t missing = 0;
  for (const auto& [memory, size] : wanted) {
    if (memory->byte_size() >= size) continue;
    *memory = Memory();
    missing += size;
  }
  if (missing > FreeDeviceBytes()) return OutOfMemory(Place::kDevice, missing);
  for (const auto& [memory, size] : wanted) {
    if (memory->byte_size() >= size) continue;
    INCIPIT_ASSIGN_OR_RETURN(*memory, Memory::Allocate(Place::kDevice, size));
  }
  return absl::OkStatus();
}

absl::StatusOr<ProductChoice> LibraryProducts::ChoiceFor(const ProductKey& key, int64_t rows,
                                                         Stream& stream) {
  if (!library_.has_value() || whose_ == LargeProducts::kOwn || rows < rows_min_) {
    return ProductChoice{};
  }
  const ProductChoice* choice = choices_.Find(key);
  if (choice == nullptr && whose_ == LargeProducts::kLibrary) {
    const std::vector<ProductAlgorithm> algorithms = AlgorithmsFor(key, 1);
    choices_.Set(key, algorithms.empty()
                          ? ProductChoice{}
                          : ProductChoice{.is_library = true, .algorithm = algorithms.front()});
    choice = choices_.Find(key);
  }
  if (choice == nullptr || !choice->is_library) return ProductChoice{};
  INCIPIT_RETURN_IF_ERROR(GrowScratch(ScratchOf(key, rows), stream));
  return *choice;
}

template <class Epilogue>
absl::Status LibraryProducts::Run(Stream& stream, const ProductAlgorithm& algorithm,
                                  const ProductArgs<Epilogue>& args, int64_t rows) {
  const ProductInput& input = args.input;
  const int64_t outputs = int64_t{input.num_units} * kUnitRows;
  const int64_t tiles = int64_t{input.num_units} * NumTiles(input.columns);
  Launch<UnpackWeight>(
      stream,
      PersistentShape(tiles / UnpackWeight::kBlockTiles, num_sms_, UnpackWeight::kBlocksPerSm),
      {.weight = input.weight,
       .num_units = input.num_units,
       .columns = input.columns,
       .out = weight_.as<dev::bf16>()});
  const int64_t part = PartRows(rows, outputs);
  for (int64_t row = 0; row < rows; row += part) {
    const int64_t count = std::min(part, rows - row);
    INCIPIT_RETURN_IF_ERROR(library_->Multiply(
        stream, {.rows = count, .outputs = outputs, .columns = input.columns}, algorithm,
        {.x = input.x + row * input.columns,
         .w = weight_.as<dev::bf16>(),
         .y = sums_.as<float>(),
         .workspace = workspace_.data()}));
    using Kernel = FinishProduct<Epilogue>;
    const int64_t items = (count + Kernel::kRows - 1) / Kernel::kRows *
                          ((input.num_units + Kernel::kUnits - 1) / Kernel::kUnits);
    Launch<Kernel>(stream,
                   PersistentShape(items / Kernel::kWarps + 1, num_sms_, Kernel::kBlocksPerSm),
                   {.product = args,
                    .sums = sums_.as<float>(),
                    .first_row = static_cast<int32_t>(row),
                    .max_rows = static_cast<int32_t>(count)});
  }
  return absl::OkStatus();
}

template absl::Status LibraryProducts::Run(Stream&, const ProductAlgorithm&,
                                           const ProductArgs<StoreRows<float>>&, int64_t);
template absl::Status LibraryProducts::Run(Stream&, const ProductAlgorithm&,
                                           const ProductArgs<AppendRows>&, int64_t);
template absl::Status LibraryProducts::Run(Stream&, const ProductAlgorithm&,
                                           const ProductArgs<AddToHidden>&, int64_t);
template absl::Status LibraryProducts::Run(Stream&, const ProductAlgorithm&,
                                           const ProductArgs<SiluGate>&, int64_t);

}  // namespace incipit::cuda
