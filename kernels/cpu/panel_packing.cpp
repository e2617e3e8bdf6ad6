#include "kernels/cpu/panel_packing.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "base/check.h"
#include "kernels/numeric.h"

namespace incipit {
namespace {

static_assert(static_cast<int>(DType::kBF16) == simd::kBF16Weights);

struct StoredRow {
  // Address of the row; null for a padding row after the last row of the matrix
  const char* data = nullptr;
  DType dtype = DType::kF32;
};

// Returns row `row` of the matrix that consists of the matrices in `parts`, stacked one below the
// other.
StoredRow FindRow(std::span<const ConstTensorView> parts, int64_t row) {
  for (const ConstTensorView& part : parts) {
    if (row < part.rows) {
      const auto bytes = static_cast<size_t>(row * part.cols) * ByteSize(part.dtype);
      return {static_cast<const char*>(part.data) + bytes, part.dtype};
    }
    row -= part.rows;
  }
  return {};
}

// Packs panels (groups of panel_width weight rows) one by one. Each thread has its own packer.
class PanelPacker {
 public:
  PanelPacker(const MatrixSource& source, const PanelShape& shape, const simd::Kernels& kernels,
              const PanelMemory& memory)
      : source_(source),
        shape_(shape),
        kernels_(kernels),
        product_(kernels.products[shape.weights]),
        memory_(memory),
        dtype_(source.dtype()),
        rows_(static_cast<size_t>(shape.panel_width)) {}

  void Pack(int64_t panel) {
    for (int64_t lane = 0; lane < shape_.panel_width; ++lane) {
      rows_[static_cast<size_t>(lane)] = RowOf(panel, lane);
    }
    char* const out = memory_.panels + panel * shape_.panel_bytes;
    if (shape_.weights == simd::kInt8) {
      PackInt8(panel, reinterpret_cast<int8_t*>(out));
    } else if (dtype_ != DType::kF32) {
      const auto read = [](const StoredRow& row, int64_t k) {
        uint16_t bits;
        std::memcpy(&bits, row.data + k * 2, sizeof(bits));
        return bits;
      };
      if (product_.cols_per_step == 2) {
        Interleave<2>(reinterpret_cast<uint16_t*>(out), read);
      } else {
        Interleave<1>(reinterpret_cast<uint16_t*>(out), read);
      }
    } else {
      Interleave<1>(reinterpret_cast<float*>(out), [](const StoredRow& row, int64_t k) {
        return LoadF32(row.data, row.dtype, k);
      });
    }
  }

 private:
  // Returns the matrix row at index `lane` of panel `panel` (a group of weight rows). If the weight
  // consists of the matrices gate and up, panels of gate rows and panels of up rows alternate.
  StoredRow RowOf(int64_t panel, int64_t lane) const {
    if (!shape_.is_gate_up) return FindRow(source_.parts, panel * shape_.panel_width + lane);
    const int64_t size = source_.rows() / 2, row = panel / 2 * shape_.panel_width + lane;
    if (row >= size) return {};
    return FindRow(source_.parts, panel % 2 == 0 ? row : size + row);
  }

  // A panel (a group of panel_width weight rows) is stored column by column. Returns the index of
  // row `lane` in each stored column.
  int64_t PositionOf(int64_t lane) const {
    const int64_t lanes = shape_.pair_lanes, pair = lane / (2 * lanes) * 2 * lanes;
    if (!product_.interleaves_pairs || pair + 2 * lanes > shape_.panel_width) return lane;
    const int64_t in_pair = lane - pair;
    return pair + (in_pair < lanes ? 2 * in_pair : 2 * (in_pair - lanes) + 1);
  }

  // Writes a panel (a group of weight rows), 64 columns at a time. Each cache line is therefore
  // filled while it is in the CPU cache. Columns past the end of the matrix are zero.
  template <int COLS_PER_STEP, class Element, class ReadElement>
  void Interleave(Element* out, const ReadElement& read) const {
    constexpr int64_t kStepsAtOnce = 64 / COLS_PER_STEP;
    const int64_t width = shape_.panel_width, cols = source_.cols();
    for (int64_t begin = 0; begin < shape_.steps; begin += kStepsAtOnce) {
      const int64_t end = std::min(shape_.steps, begin + kStepsAtOnce);
      for (int64_t lane = 0; lane < width; ++lane) {
        const StoredRow& row = rows_[static_cast<size_t>(lane)];
        Element* const to = out + PositionOf(lane) * COLS_PER_STEP;
        for (int64_t step = begin; step < end; ++step) {
          for (int64_t c = 0; c < COLS_PER_STEP; ++c) {
            const int64_t k = step * COLS_PER_STEP + c;
            const bool is_padding = row.data == nullptr || k >= cols;
            to[step * width * COLS_PER_STEP + c] = is_padding ? Element{} : read(row, k);
          }
        }
      }
    }
  }

  void PackInt8(int64_t panel, int8_t* out) {
    const int64_t width = shape_.panel_width;
    values_.resize(static_cast<size_t>(source_.cols()));
    numbers_.assign(static_cast<size_t>(shape_.steps * product_.cols_per_step), 0);
    for (int64_t lane = 0; lane < width; ++lane) {
      const StoredRow& row = rows_[static_cast<size_t>(lane)];
      if (row.data != nullptr) WidenRow(row.data, row.dtype, values_);
      if (row.data == nullptr) std::ranges::fill(values_, 0.0f);
      const int64_t output = panel * width + lane;
      memory_.scales[output] =
          kernels_.quantize_row(values_.data(), std::ssize(values_), numbers_.data());
      memory_.starts[output] = product_.offsets_factors
                                   ? -128 * std::accumulate(numbers_.begin(), numbers_.end(), 0)
                                   : 0;
      if (product_.cols_per_step == 2) {
        Scatter<2>(lane, out);
      } else {
        INCIPIT_CHECK(product_.cols_per_step == 4);
        Scatter<4>(lane, out);
      }
    }
  }

  template <int COLS_PER_STEP>
  void Scatter(int64_t lane, int8_t* out) const {
    const int8_t* from = numbers_.data();
    int8_t* to = out + lane * COLS_PER_STEP;
    for (int64_t step = 0; step < shape_.steps; ++step) {
      std::memcpy(to, from, COLS_PER_STEP);
      from += COLS_PER_STEP;
      to += shape_.panel_width * COLS_PER_STEP;
    }
  }

  const MatrixSource& source_;
  const PanelShape& shape_;
  const simd::Kernels& kernels_;
  const simd::Product& product_;
  const PanelMemory& memory_;
  const DType dtype_;
  std::vector<StoredRow> rows_;
  std::vector<float> values_;
  std::vector<int8_t> numbers_;
};

}  // namespace

PanelShape PanelShape::Of(const MatrixSource& source, const simd::Kernels& kernels) {
  PanelShape shape;
  const bool is_int8 = source.format == WeightFormat::kInt8;
  shape.weights = is_int8 ? simd::kInt8 : static_cast<int>(source.dtype());
  shape.is_gate_up = source.role == WeightRole::kGateUp;
  const simd::Product& product = kernels.products[shape.weights];
  shape.panel_width = product.panel_width;
  shape.pair_lanes = kernels.pair_lanes;
  const int64_t of_a_kind = shape.is_gate_up ? source.rows() / 2 : source.rows();
  const int64_t panels_of_a_kind = (of_a_kind + shape.panel_width - 1) / shape.panel_width;
  shape.num_panels = shape.is_gate_up ? 2 * panels_of_a_kind : panels_of_a_kind;
  const int64_t cols_per_step = product.cols_per_step;
  const int64_t multiple = product.steps_multiple, cols_of_multiple = cols_per_step * multiple;
  shape.steps = (source.cols() + cols_of_multiple - 1) / cols_of_multiple * multiple;
  const size_t element = is_int8 ? 1 : ByteSize(source.dtype());
  shape.panel_bytes =
      shape.steps * shape.panel_width * cols_per_step * static_cast<int64_t>(element);
  return shape;
}

void PackPanels(const MatrixSource& source, const PanelShape& shape, const simd::Kernels& kernels,
                const Threads& threads, const PanelMemory& memory) {
  threads.ForParts(shape.num_panels, source.rows() * source.cols(),
                   [&](int64_t begin, int64_t end, int32_t) {
                     PanelPacker packer(source, shape, kernels, memory);
                     for (int64_t panel = begin; panel < end; ++panel) packer.Pack(panel);
                   });
}

}  // namespace incipit
