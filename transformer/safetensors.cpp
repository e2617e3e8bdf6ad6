#include "transformer/safetensors.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/json/json.h"
#include "base/status.h"

namespace incipit {
namespace {

using Json = nlohmann::json;

constexpr size_t kPrefixBytes = 8;
constexpr JsonLimits kHeaderJsonLimits = {
    .bytes_max = kSafetensorsHeaderBytesMax, .values_max = 10'000'000, .depth_max = 8};

struct FileType {
  std::string_view name;
  uint64_t num_bits;
  std::optional<DType> dtype;
};
constexpr FileType kFileTypes[] = {
    {"F32", 32, DType::kF32},
    {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBF16},
    {"BOOL", 8, {}},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"U8", 8, {}},
    {"I8", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"I32", 32, {}},
    {"U32", 32, {}},
    {"I64", 64, {}},
    {"U64", 64, {}},
    {"F64", 64, {}},
    {"C64", 64, {}},
};

bool MultiplyFits(uint64_t a, uint64_t b, uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

absl::StatusOr<std::string_view> HeaderOf(std::span<const std::byte> file) {
  if (file.size() < kPrefixBytes) {
    return InvalidArgument("the file has {} bytes; a safetensors file has at least {} bytes",
                           file.size(), kPrefixBytes);
  }
  uint64_t length = 0;
  for (size_t i = kPrefixBytes; i-- > 0;) length = length << 8 | static_cast<uint64_t>(file[i]);
  if (length > kSafetensorsHeaderBytesMax) {
    return InvalidArgument("the length of the header is {} bytes; it must be at most {}", length,
                           kSafetensorsHeaderBytesMax);
  }
  if (length > file.size() - kPrefixBytes) {
    return InvalidArgument(
        "the length of the header is {} bytes, but the file has only {} bytes after the length "
        "field",
        length, file.size() - kPrefixBytes);
  }
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kPrefixBytes, length);
  if (!header.starts_with('{')) return InvalidArgument("the header does not start with '{{'");
  return header;
}

absl::Status CheckMetadata(const Json& metadata) {
  const bool is_valid =
      metadata.is_object() &&
      std::ranges::all_of(metadata, [](const Json& value) { return value.is_string(); });
  return is_valid ? absl::OkStatus()
                  : InvalidArgument("__metadata__ must be an object whose values are strings");
}

absl::Status ReadShape(const Json& entry, StoredTensor& tensor) {
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array()) return InvalidArgument("shape is not an array");
  for (const Json& size : *shape) {
    if (!size.is_number_unsigned() ||
        size.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return InvalidArgument("shape is {}; it must hold sizes from 1 to 2^63 - 1",
                             ShownValue(*shape));
    }
    tensor.shape.push_back(size.get<int64_t>());
  }
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) {
    return InvalidArgument("shape is {}; an empty tensor is not a weight",
                           ShownShape(tensor.shape));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ByteSizeOf(const FileType& type, std::span<const int64_t> shape) {
  uint64_t num_bits = type.num_bits;
  for (const int64_t size : shape) {
    if (!MultiplyFits(num_bits, static_cast<uint64_t>(size), num_bits)) {
      return InvalidArgument("shape is {}; the number of bits of the tensor does not fit 64 bits",
                             ShownShape(shape));
    }
  }
  if (num_bits % 8 != 0) {
    return InvalidArgument("a tensor of shape {} and type {} does not have a whole number of bytes",
                           ShownShape(shape), type.name);
  }
  return num_bits / 8;
}

// Checks `entry`, the description of one tensor in the JSON header, and returns the tensor. `data`
// contains the bytes of the file after the header.
absl::StatusOr<StoredTensor> ReadTensor(const Json& entry, std::span<const std::byte> data) {
  if (!entry.is_object()) return InvalidArgument("the tensor's header entry is not an object");
  StoredTensor tensor;
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) return InvalidArgument("dtype is not a string");
  tensor.dtype_name = dtype->get<std::string>();
  const auto type = std::ranges::find(kFileTypes, tensor.dtype_name, &FileType::name);
  if (type == std::end(kFileTypes)) {
    return InvalidArgument("dtype is {}, which is not a type of the safetensors format",
                           ShownValue(*dtype));
  }
  tensor.dtype = type->dtype;
  INCIPIT_RETURN_IF_ERROR(ReadShape(entry, tensor));

  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
    return InvalidArgument("data_offsets is not an array of two offsets");
  }
  const auto begin = (*offsets)[0].get<uint64_t>(), end = (*offsets)[1].get<uint64_t>();
  if (begin > end || end > data.size()) {
    return InvalidArgument("data_offsets is [{}, {}], but the file has {} bytes of data", begin,
                           end, data.size());
  }
  INCIPIT_ASSIGN_OR_RETURN(const uint64_t num_bytes, ByteSizeOf(*type, tensor.shape));
  if (end - begin != num_bytes) {
    return InvalidArgument(
        "data_offsets is [{}, {}], but a tensor of shape {} and type {} has {} bytes", begin, end,
        ShownShape(tensor.shape), type->name, num_bytes);
  }
  tensor.bytes = data.subspan(begin, num_bytes);
  return tensor;
}

absl::Status CheckCoverage(const StoredTensors& tensors, std::span<const std::byte> data) {
  std::vector<const StoredTensors::value_type*> ordered;
  ordered.reserve(tensors.size());
  for (const auto& entry : tensors) ordered.push_back(&entry);
  std::ranges::sort(ordered, {}, [](const auto* entry) { return entry->second.bytes.data(); });
  const std::byte* expected = data.data();
  for (const auto* entry : ordered) {
    const std::byte* begin = entry->second.bytes.data();
    if (begin != expected) {
      return InvalidArgument(
          "tensor {}: its data begins at byte {}; the previous tensor ends at byte {}",
          ShownValue(entry->first), begin - data.data(), expected - data.data());
    }
    expected = begin + entry->second.bytes.size();
  }
  const auto rest = data.data() + data.size() - expected;
  if (rest == 0) return absl::OkStatus();
  return InvalidArgument("{} bytes after the last tensor belong to no tensor", rest);
}

}  // namespace

std::string ShownShape(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t size : shape) fmt::format_to(std::back_inserter(text), "{}, ", size);
  if (!shape.empty()) text.resize(text.size() - 2);
  return text + "]";
}

absl::StatusOr<StoredTensors> ParseSafetensors(std::span<const std::byte> file) {
  INCIPIT_ASSIGN_OR_RETURN(const std::string_view header, HeaderOf(file));
  const std::span<const std::byte> data = file.subspan(kPrefixBytes + header.size());
  absl::StatusOr<Json> json = ParseJson(header, kHeaderJsonLimits);
  if (!json.ok()) return Annotate(json.status(), "header");
  StoredTensors tensors;
  for (const auto& [name, entry] : json->items()) {
    if (name == "__metadata__") {
      INCIPIT_RETURN_IF_ERROR(CheckMetadata(entry));
      continue;
    }
    absl::StatusOr<StoredTensor> tensor = ReadTensor(entry, data);
    if (!tensor.ok()) {
      return Annotate(tensor.status(), fmt::format("tensor {}", ShownValue(name)));
    }
    tensors.emplace(name, *std::move(tensor));
  }
  INCIPIT_RETURN_IF_ERROR(CheckCoverage(tensors, data));
  return tensors;
}

}  // namespace incipit
