// Builds safetensors files for tests, both valid and invalid ones.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace incipit {

inline std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Returns a file with this header and data. Checks neither of them.
inline std::string SafetensorsFile(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) {
    file.push_back(static_cast<char>(uint64_t{header.size()} >> (8 * i) & 0xFF));
  }
  return file.append(header).append(data);
}

struct BuiltTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "F32";
  int32_t bytes_per_element = 4;
  // Bytes of the tensor. Empty: every element is 1.0 in F32.
  std::string data = {};
};

// Returns a valid file with these tensors, in this order.
inline std::string SafetensorsFile(const std::vector<BuiltTensor>& tensors) {
  std::string header = "{", data;
  for (const BuiltTensor& tensor : tensors) {
    size_t count = 1;
    for (const int64_t size : tensor.shape) count *= static_cast<size_t>(size);
    const size_t begin = data.size();
    if (!tensor.data.empty()) {
      data += tensor.data;
    } else {
      const std::string_view one("\x00\x00\x80\x3f", 4);
      for (size_t i = 0; i < count; ++i) data += one.substr(4 - tensor.bytes_per_element);
    }
    std::string shape;
    for (const int64_t size : tensor.shape) {
      shape += fmt::format("{}{}", shape.empty() ? "" : ",", size);
    }
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          header.size() > 1 ? "," : "", tensor.name, tensor.dtype, shape, begin,
                          data.size());
  }
  header += "}";
  while (header.size() % 8 != 0) header += " ";
  return SafetensorsFile(header, data);
}

inline void WriteFile(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

// A temporary folder, empty at first. The destructor deletes the folder.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "incipit-model-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace incipit
