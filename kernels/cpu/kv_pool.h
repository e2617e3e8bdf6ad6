// Stores keys and values in host memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/numeric.h"

namespace incipit {

// Host memory for keys and values, with the layout [layer][cache block][kv_head][keys, values]. The
// keys of a KV head in a cache block have the layout [block_size / g][head_dim][g]. g = min(16,
// block_size) is the number of positions whose keys are stored together. The values have the layout
// [block_size][head_dim].
class CpuKvPool final : public KvPool {
 public:
  CpuKvPool(const KvPoolShape& shape, std::unique_ptr<HostBuffer> memory)
      : shape_(shape), group_(std::min(16, shape.block_size)), memory_(std::move(memory)) {}

  static size_t ByteSizeOf(const KvPoolShape& shape) {
    return shape.block_bytes() * static_cast<size_t>(shape.num_blocks);
  }

  const KvPoolShape& shape() const override { return shape_; }

  // Returns the distance in elements between two consecutive cache blocks of a layer.
  int64_t block_stride() const { return head_stride() * shape_.num_kv_heads; }

  // Returns the address of the keys of KV head `head` in cache block 0 of layer `layer`. The values
  // of the same KV head and cache block follow the keys.
  const void* Head(int32_t layer, int32_t head) const { return At(layer, 0, head); }

  // Returns the keys and values of cache block `block` in one layer.
  std::span<std::byte> Block(int32_t layer, BlockId block) const {
    return {reinterpret_cast<std::byte*>(At(layer, IndexOf(block), 0)),
            static_cast<size_t>(block_stride()) * ByteSize(shape_.dtype)};
  }

  struct Slot {
    int32_t layer = 0, head = 0;
    BlockId block{};
    int32_t slot = 0;
  };
  // Stores the key and the value of one position (slot) of a cache block. `key_value` holds the
  // key, then the value.
  void Write(const Slot& at, const std::span<const float> key_value[2]) {
    char* const head = At(at.layer, IndexOf(at.block), at.head);
    if (shape_.dtype == DType::kF32) {
      WriteAs<float>(head, at.slot, key_value, [](float value) { return value; });
    } else {
      WriteAs<uint16_t>(head, at.slot, key_value, NarrowBF16);
    }
  }

  // Copies keys and values from cache block copy.from to cache block copy.to, in one layer. Copies
  // only the first copy.num_tokens positions.
  void Copy(int32_t layer, const BlockCopy& copy) {
    INCIPIT_CHECK(copy.num_tokens >= 0 && copy.num_tokens <= shape_.block_size);
    for (int32_t head = 0; head < shape_.num_kv_heads; ++head) {
      char* const from = At(layer, IndexOf(copy.from), head);
      char* const to = At(layer, IndexOf(copy.to), head);
      CopyKeys(from, to, copy.num_tokens);
      const size_t values = size_t(shape_.block_size) * shape_.head_dim * ByteSize(shape_.dtype);
      std::memmove(to + values, from + values,
                   size_t(copy.num_tokens) * shape_.head_dim * ByteSize(shape_.dtype));
    }
  }

 private:
  int64_t head_stride() const { return int64_t{2} * shape_.block_size * shape_.head_dim; }

  int32_t IndexOf(BlockId block) const {
    const auto index = static_cast<int32_t>(block);
    INCIPIT_CHECK(index >= 0 && index < shape_.num_blocks);
    return index;
  }

  char* At(int32_t layer, int32_t block, int32_t head) const {
    const int64_t element =
        (int64_t{layer} * shape_.num_blocks + block) * block_stride() + head * head_stride();
    return static_cast<char*>(memory_->data()) + element * ByteSize(shape_.dtype);
  }

  template <class Element, class Convert>
  void WriteAs(char* head, int32_t slot, const std::span<const float> key_value[2],
               const Convert& convert) {
    auto* keys = reinterpret_cast<Element*>(head);
    Element* values = keys + int64_t{shape_.block_size} * shape_.head_dim;
    keys += int64_t{slot} / group_ * group_ * shape_.head_dim + slot % group_;
    values += int64_t{slot} * shape_.head_dim;
    for (int32_t d = 0; d < shape_.head_dim; ++d) {
      keys[int64_t{d} * group_] = convert(key_value[0][d]);
      values[d] = convert(key_value[1][d]);
    }
  }

  void CopyKeys(const char* from, char* to, int32_t num_tokens) {
    const size_t size = ByteSize(shape_.dtype);
    for (int32_t begin = 0; begin < num_tokens; begin += group_) {
      const size_t run = size_t(std::min(group_, num_tokens - begin)) * size;
      const size_t first = size_t(begin) * shape_.head_dim * size;
      for (int32_t d = 0; d < shape_.head_dim; ++d) {
        const size_t offset = first + size_t(d) * group_ * size;
        std::memmove(to + offset, from + offset, run);
      }
    }
  }

  KvPoolShape shape_;
  int32_t group_;
  std::unique_ptr<HostBuffer> memory_;
};

}  // namespace incipit
