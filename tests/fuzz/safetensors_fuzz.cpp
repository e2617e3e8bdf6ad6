// Fuzzes safetensors files. The parser must return an error, or every tensor must be within the
// file.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "transformer/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  const auto tensors = incipit::ParseSafetensors(file);
  if (!tensors.ok()) return 0;
  size_t covered = 0;
  for (const auto& [name, tensor] : *tensors) {
    INCIPIT_CHECK(tensor.bytes.data() >= file.data());
    INCIPIT_CHECK(tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size());
    covered += tensor.bytes.size();
  }
  INCIPIT_CHECK(covered + 8 <= size);
  return 0;
}
