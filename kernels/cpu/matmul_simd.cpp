#include "kernels/cpu/matmul_simd.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "kernels/numeric.h"

namespace incipit {
namespace {

// Row `row` of the parts one after the other.
class RowFinder {
 public:
  explicit RowFinder(std::span<const ConstTensorView> parts) : parts_(parts) {}

  struct Row {
    const char* data = nullptr;  // null past the end
    DType dtype = DType::kF32;
  };
  Row Find(int64_t row) const {
    for (const ConstTensorView& part : parts_) {
      if (row < part.rows) {
        const auto bytes = static_cast<size_t>(row * part.cols) * ByteSize(part.dtype);
        return {static_cast<const char*>(part.data) + bytes, part.dtype};
      }
      row -= part.rows;
    }
    return {};
  }

 private:
  std::span<const ConstTensorView> parts_;
};

// Interleaves `width` rows: out[k * width + j] = row j's element k. A block of columns at a time,
// so that what is written stays in the cache until it is complete.
template <class Element, class ReadElement>
void PackPanel(int64_t cols, int64_t width, Element* out, const ReadElement& read) {
  constexpr int64_t kColumns = 64;
  for (int64_t begin = 0; begin < cols; begin += kColumns) {
    const int64_t end = std::min(cols, begin + kColumns);
    for (int64_t j = 0; j < width; ++j) {
      for (int64_t k = begin; k < end; ++k) out[k * width + j] = read(j, k);
    }
  }
}

template <class Element>
void PackSameType(std::span<const RowFinder::Row> rows, int64_t cols, Element* out) {
  PackPanel(cols, std::ssize(rows), out, [&](int64_t j, int64_t k) {
    Element value{};
    if (rows[j].data != nullptr) {
      std::memcpy(&value, rows[j].data + k * sizeof(Element), sizeof(Element));
    }
    return value;
  });
}

class SimdMatrix final : public PackedMatrix {
 public:
  SimdMatrix(std::span<const ConstTensorView> parts, std::unique_ptr<HostBuffer> panels,
             SimdMatmulContext& context)
      : context_(context),
        panels_(std::move(panels)),
        dtype_(CommonDType(parts)),
        cols_(parts.front().cols) {
    for (const ConstTensorView& part : parts) rows_ += part.rows;
    const RowFinder finder(parts);
    context_.threads.ForParts(num_panels(), rows_ * cols_,
                              [&](int64_t begin, int64_t end, int32_t) {
                                std::vector<RowFinder::Row> rows(width());
                                for (int64_t panel = begin; panel < end; ++panel) {
                                  for (int64_t j = 0; j < width(); ++j) {
                                    rows[j] = finder.Find(panel * width() + j);
                                  }
                                  Pack(rows, panel);
                                }
                              });
  }

  static size_t ByteSizeOf(std::span<const ConstTensorView> parts, int64_t width) {
    int64_t rows = 0;
    for (const ConstTensorView& part : parts) rows += part.rows;
    const int64_t padded = (rows + width - 1) / width * width;
    return static_cast<size_t>(padded * parts.front().cols) * ByteSize(CommonDType(parts));
  }

  size_t byte_size() const override { return panels_->byte_size(); }

  void Multiply(const float* x, int64_t num_rows, float* y) override {
    if (num_rows == 0) return;
    const simd::Kernels& kernels = context_.kernels;
    const float* packed = x;  // one row is packed as it is
    if (num_rows > 1) {
      float* const rows = context_.packed_rows.Get(num_rows * cols_);
      const int64_t tiles = (num_rows + kernels.tile_rows - 1) / kernels.tile_rows;
      context_.threads.ForParts(tiles, num_rows * cols_, [&](int64_t begin, int64_t end, int32_t) {
        kernels.pack_rows({.x = x,
                           .num_rows = num_rows,
                           .cols = cols_,
                           .tile_begin = begin,
                           .tile_end = end,
                           .packed = rows});
      });
      packed = rows;
    }
    const auto multiply = kernels.multiply[static_cast<int>(dtype_)];
    context_.threads.ForParts(num_panels(), num_rows * rows_ * cols_,
                              [&](int64_t begin, int64_t end, int32_t) {
                                multiply({.packed = packed,
                                          .panels = panels_->data(),
                                          .num_rows = num_rows,
                                          .cols = cols_,
                                          .num_outputs = rows_,
                                          .panel_begin = begin,
                                          .panel_end = end,
                                          .y = y,
                                          .y_stride = rows_});
                              });
  }

 private:
  int64_t width() const { return context_.kernels.panel_width; }
  int64_t num_panels() const { return (rows_ + width() - 1) / width(); }

  void Pack(std::span<const RowFinder::Row> rows, int64_t panel) {
    const size_t panel_bytes = static_cast<size_t>(width() * cols_) * ByteSize(dtype_);
    char* const out = static_cast<char*>(panels_->data()) + panel * panel_bytes;
    const bool as_stored = std::all_of(rows.begin(), rows.end(), [&](const RowFinder::Row& row) {
      return row.data == nullptr || row.dtype == dtype_;
    });
    if (!as_stored) {
      PackPanel(cols_, width(), reinterpret_cast<float*>(out), [&](int64_t j, int64_t k) {
        return rows[j].data != nullptr ? LoadF32(rows[j].data, rows[j].dtype, k) : 0.0f;
      });
    } else if (dtype_ == DType::kF32) {
      PackSameType(rows, cols_, reinterpret_cast<float*>(out));
    } else {
      PackSameType(rows, cols_, reinterpret_cast<uint16_t*>(out));
    }
  }

  SimdMatmulContext& context_;
  std::unique_ptr<HostBuffer> panels_;
  DType dtype_;
  int64_t rows_ = 0, cols_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> PackSimdMatrix(std::span<const ConstTensorView> parts,
                                                             SimdMatmulContext& context) {
  const size_t bytes = SimdMatrix::ByteSizeOf(parts, context.kernels.panel_width);
  INCIPIT_ASSIGN_OR_RETURN(auto panels, context.memory.Allocate(bytes, "a weight"));
  return std::make_unique<SimdMatrix>(parts, std::move(panels), context);
}

}  // namespace incipit
