// Selects cuBLASLt or our own kernel for each size of a large matrix product, by measurements.
#include <algorithm>

#include "kernels/cuda/host/launch_product.h"
#include "kernels/cuda/host/library_products.h"

namespace incipit::cuda {
namespace {

// Maximum number of cuBLASLt algorithms that are measured for each product size
constexpr int32_t kAlgorithmsMax = 4;

}  // namespace

bool LibraryProducts::Serves(const ProductKey& key, const ProductAlgorithm& algorithm) const {
  for (const int64_t rows : {key.rows, key.rows + 1, 2 * key.rows - 1}) {
    const int64_t part = PartRows(rows, key.outputs), last = rows - (rows - 1) / part * part;
    for (const int64_t count : {std::min(part, rows), last}) {
      const ProductSize size = {.rows = count, .outputs = key.outputs, .columns = key.columns};
      if (!library_->Offers(size, algorithm)) return false;
    }
  }
  return true;
}

std::vector<ProductAlgorithm> LibraryProducts::AlgorithmsFor(const ProductKey& key,
                                                             int32_t count) const {
  const int64_t part = std::min(PartRows(key.rows, key.outputs), key.rows);
  std::vector<ProductAlgorithm> algorithms = library_->FindAlgorithms(
      {.rows = part, .outputs = key.outputs, .columns = key.columns}, kAlgorithmsMax);
  std::erase_if(algorithms, [&](const ProductAlgorithm& one) { return !Serves(key, one); });
  algorithms.resize(std::min(algorithms.size(), static_cast<size_t>(count)));
  return algorithms;
}

bool LibraryProducts::IsKnown(const ProductKey& key) const {
  const ProductChoice* const choice = choices_.Find(key);
  return choice != nullptr && (!choice->is_library || Serves(key, choice->algorithm));
}

void LibraryProducts::ReadChoices() {
  if (tuning_file_.empty()) return;
  auto found = ProductChoices::Read(tuning_file_, machine_);
  if (!found.ok()) {
    if (absl::IsNotFound(found.status())) return;
    return Warn(fmt::format(
        "large matrix products are measured again, because the tuning file cannot be used: {}",
        MessageOf(found.status())));
  }
  for (const auto& [key, choice] : found->all()) choices_.Set(key, choice);
}

void LibraryProducts::WriteChoices() const {
  if (tuning_file_.empty()) return;
  const absl::Status status = choices_.Write(tuning_file_, machine_);
  if (!status.ok()) {
    Warn(
        fmt::format("large matrix products will be measured again at the next start, because the "
                    "tuning file cannot be written: {}",
                    MessageOf(status)));
  }
}

absl::Status LibraryProducts::Reserve(int64_t rows_max, Stream& stream) {
  const bool may = library_.has_value() && whose_ != LargeProducts::kOwn && rows_max >= rows_min_;
  if (!may || shapes_.empty()) return absl::OkStatus();
  std::vector<ProductKey> keys;
  ScratchBytes most;
  for (const Shape& shape : shapes_) {
    const ProductInput input = {.columns = shape.columns, .num_units = shape.num_units};
    for (int64_t rows = rows_min_; rows <= rows_max; rows *= 2) {
      keys.push_back(KeyOf(shape.kind, input, rows));
    }
    const ScratchBytes bytes = ScratchOf(keys.back(), rows_max);
    most = {std::max(most.weight, bytes.weight), std::max(most.sums, bytes.sums)};
  }
  INCIPIT_RETURN_IF_ERROR(GrowScratch(most, stream));
  if (whose_ == LargeProducts::kLibrary) return absl::OkStatus();
  const auto is_known = [&](const ProductKey& key) { return IsKnown(key); };
  if (!std::ranges::all_of(keys, is_known)) ReadChoices();
  const int64_t num_known = std::ranges::count_if(keys, is_known);
  const absl::Status tried = MeasureAll(keys, stream);
  if (absl::IsResourceExhausted(tried)) {
    Warn(fmt::format(
        "large matrix products are not measured, but computed by Incipit's own kernels: {}",
        MessageOf(tried)));
  } else {
    INCIPIT_RETURN_IF_ERROR(tried);
    if (num_known < std::ssize(keys)) WriteChoices();
  }
  const int64_t count = std::ranges::count_if(keys, [&](const ProductKey& key) {
    const ProductChoice* const choice = choices_.Find(key);
    return choice != nullptr && choice->is_library;
  });
  if (count == 0) {
    for (Memory* const scratch : {&weight_, &sums_, &workspace_}) *scratch = Memory();
  }
  Note(fmt::format(
      "large matrix products: {} of {} sizes are computed by {}; sizes measured now: {}", count,
      keys.size(), library_->version(), std::ranges::count_if(keys, is_known) - num_known));
  return absl::OkStatus();
}

absl::Status LibraryProducts::MeasureAll(const std::vector<ProductKey>& keys, Stream& stream) {
  int64_t x_count = 0;
  size_t out_bytes = 0;
  for (const ProductKey& key : keys) {
    x_count = std::max(x_count, key.rows * key.columns);
    const size_t bytes = key.kind == ProductKind::kGate ? sizeof(dev::bf16) / 2 : sizeof(float);
    out_bytes = std::max(out_bytes, static_cast<size_t>(key.rows * key.outputs) * bytes);
  }
  INCIPIT_ASSIGN_OR_RETURN(ProductMeter meter, ProductMeter::Create(stream, x_count, out_bytes));
  for (const Shape& shape : shapes_) {
    for (const ProductKey& key : keys) {
      const bool is_its = key.kind == shape.kind && key.columns == shape.columns &&
                          key.outputs == int64_t{shape.num_units} * kUnitRows;
      if (is_its) INCIPIT_RETURN_IF_ERROR(Measure(shape, key, meter));
    }
  }
  return absl::OkStatus();
}

absl::Status LibraryProducts::Measure(const Shape& shape, const ProductKey& key,
                                      ProductMeter& meter) {
  const std::shared_ptr<Memory> weight = shape.weight.lock();
  if (weight == nullptr) return absl::OkStatus();
  INCIPIT_RETURN_IF_ERROR(meter.SetRows(key.rows));
  const ProductInput input = {.num_rows = meter.num_rows(),
                              .x = meter.x(),
                              .weight = weight->as<dev::bf16>(),
                              .columns = shape.columns,
                              .num_units = shape.num_units};
  switch (key.kind) {
    case ProductKind::kStore:
      return Try<StoreRows<float>>(
          key, {input, EpilogueInto<StoreRows<float>>(meter.out(), key.outputs)}, meter);
    case ProductKind::kAdd:
      return Try<AddToHidden>(key, {input, EpilogueInto<AddToHidden>(meter.out(), key.outputs)},
                              meter);
    case ProductKind::kGate:
      return Try<SiluGate>(key, {input, EpilogueInto<SiluGate>(meter.out(), key.outputs)}, meter);
  }
  return absl::OkStatus();
}

template <class Epilogue>
absl::Status LibraryProducts::Try(const ProductKey& key, const ProductArgs<Epilogue>& args,
                                  ProductMeter& meter) {
  if (!IsKnown(key)) {
    INCIPIT_ASSIGN_OR_RETURN(const ProductChoice choice, Fastest(key, args, meter));
    choices_.Set(key, choice);
    return absl::OkStatus();
  }
  const ProductChoice* const choice = choices_.Find(key);
  if (!choice->is_library) return absl::OkStatus();
  INCIPIT_RETURN_IF_ERROR(Run(meter.stream(), choice->algorithm, args, key.rows));
  return meter.stream().Wait();
}

template <class Epilogue>
absl::StatusOr<ProductChoice> LibraryProducts::Fastest(const ProductKey& key,
                                                       const ProductArgs<Epilogue>& args,
                                                       ProductMeter& meter) {
  Stream& stream = meter.stream();
  INCIPIT_ASSIGN_OR_RETURN(double shortest, meter.SecondsOf([&] {
    LaunchProduct<Epilogue>(stream, num_sms_, key.rows, args);
    return absl::OkStatus();
  }));
  ProductChoice choice;
  for (const ProductAlgorithm& algorithm : AlgorithmsFor(key, kAlgorithmsMax)) {
    INCIPIT_ASSIGN_OR_RETURN(const double seconds, meter.SecondsOf([&] {
      return Run(stream, algorithm, args, key.rows);
    }));
    if (seconds >= shortest) continue;
    shortest = seconds;
    choice = {.is_library = true, .algorithm = algorithm};
  }
  return choice;
}

}  // namespace incipit::cuda
