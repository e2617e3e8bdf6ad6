#include "kernels/cpu/matmul_simd.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cpu/panel_packing.h"

namespace incipit {
namespace {

// Maximum number of input rows that are packed at a time, which limits the memory for packed rows.
constexpr int64_t kPassRows = 512;
// Maximum number of panels (groups of weight rows) that a thread multiplies in one piece of work.
// These panels stay in the thread's CPU cache while all input rows of the piece are multiplied.
constexpr int64_t kPanelsAtOnce = 8;
// Minimum number of pieces of work per thread into which a product is divided. A weight with few
// rows may be divided into fewer pieces.
constexpr int64_t kPartsMin = 8;

class SimdMatrix final : public PackedMatrix {
 public:
  SimdMatrix(const MatrixSource& source, const PanelShape& shape,
             std::unique_ptr<HostBuffer> memory, SimdMatmulContext& context)
      : context_(context),
        shape_(shape),
        rows_(source.rows()),
        cols_(source.cols()),
        memory_(std::move(memory)) {
    PackPanels(source, shape_, context_.kernels, context_.threads,
               {.panels = panels(), .scales = scales(), .starts = starts()});
  }

  static size_t ByteSizeOf(const PanelShape& shape) {
    return shape.byte_size() + (shape.weights == simd::kInt8 ? 2 * SizeOfScales(shape) : 0);
  }

  size_t byte_size() const override { return memory_->byte_size(); }

  void Multiply(const ProductInput& input, const ProductOutput& output) override {
    const int64_t width = output.Width(rows_);
    for (int64_t begin = 0; begin < input.num_rows; begin += kPassRows) {
      const int64_t count = std::min(kPassRows, input.num_rows - begin);
      MultiplyPass(input.Part(begin, count, cols_),
                   {.finish = output.finish, .bias = output.bias, .y = output.y + begin * width});
    }
  }

 private:
  static size_t SizeOfScales(const PanelShape& shape) {
    return static_cast<size_t>(shape.num_panels * shape.panel_width) * sizeof(float);
  }

  const simd::Product& product() const { return context_.kernels.products[shape_.weights]; }
  bool is_int8() const { return shape_.weights == simd::kInt8; }
  char* panels() const { return static_cast<char*>(memory_->data()); }
  float* scales() const {
    return is_int8() ? reinterpret_cast<float*>(panels() + shape_.byte_size()) : nullptr;
  }
  int32_t* starts() const {
    return is_int8()
               ? reinterpret_cast<int32_t*>(panels() + shape_.byte_size() + SizeOfScales(shape_))
               : nullptr;
  }

  void MultiplyPass(const ProductInput& input, const ProductOutput& output) {
    const int64_t tile_rows = product().tile_rows;
    const int64_t num_tiles = (input.num_rows + tile_rows - 1) / tile_rows;
    const void* const packed = PackRows(input, num_tiles);
    const int64_t num_groups = product().num_groups(input.num_rows);
    const auto multiply = [&](int64_t panel_begin, int64_t panel_end, int64_t group_begin,
                              int64_t group_end) {
      product().multiply({.packed = packed,
                          .row_scales = is_int8() ? context_.row_scales.Get(0) : nullptr,
                          .panels = panels(),
                          .output_scales = scales(),
                          .starts = product().offsets_factors ? starts() : nullptr,
                          .num_rows = input.num_rows,
                          .cols = cols_,
                          .num_outputs = rows_,
                          .panel_begin = panel_begin,
                          .panel_end = panel_end,
                          .group_begin = group_begin,
                          .group_end = group_end,
                          .finish = output.finish,
                          .bias = output.bias,
                          .y = output.y,
                          .y_stride = output.Width(rows_)});
    };
    const int64_t work = input.num_rows * rows_ * cols_;
    // Number of panels (groups of weight rows) that are multiplied together: 2 if the weight
    // consists of the matrices gate and up, otherwise 1.
    const int64_t unit = shape_.is_gate_up ? 2 : 1, num_units = shape_.num_panels / unit;
    // With few input rows, memory bandwidth limits the speed. Each thread then reads one contiguous
    // range of panels (groups of weight rows).
    if (num_tiles == 1) {
      context_.threads.ForParts(num_units, work, [&](int64_t begin, int64_t end, int32_t) {
        multiply(begin * unit, end * unit, 0, 1);
      });
      return;
    }
    // Divides the product into pieces of work. A piece multiplies a group of input rows by a range
    // of panels (groups of weight rows). Consecutive pieces use the same panels, which are then
    // still in a CPU cache.
    const int64_t count = context_.threads.count();
    int64_t num_ranges = std::max((num_units * unit + kPanelsAtOnce - 1) / kPanelsAtOnce,
                                  (kPartsMin * count + num_groups - 1) / num_groups);
    while (num_ranges * num_groups % count != 0) ++num_ranges;
    num_ranges = std::min(num_units, num_ranges);
    context_.threads.ForEach(num_ranges * num_groups, work, [&](int64_t part, int32_t) {
      const int64_t range = part / num_groups, group = part % num_groups;
      multiply(num_units * range / num_ranges * unit, num_units * (range + 1) / num_ranges * unit,
               group, group + 1);
    });
  }

  const void* PackRows(const ProductInput& input, int64_t num_tiles) {
    float* const packed = context_.packed_rows.Get(num_tiles * product().tile_rows * shape_.steps);
    float* const scales = context_.row_scales.Get(kPassRows);
    const int64_t row_floats = product().tile_rows * simd::PackedRowFloats(cols_);
    float* const rows = context_.row_of_thread.Get(context_.threads.count() * row_floats);
    context_.threads.ForParts(num_tiles, input.num_rows * cols_,
                              [&](int64_t begin, int64_t end, int32_t thread) {
                                product().pack_rows({.x = input.x,
                                                     .indices = input.indices,
                                                     .num_rows = input.num_rows,
                                                     .cols = cols_,
                                                     .norm_weight = input.norm_weight,
                                                     .epsilon = input.epsilon,
                                                     .tile_begin = begin,
                                                     .tile_end = end,
                                                     .row = rows + thread * row_floats,
                                                     .packed = packed,
                                                     .scales = scales});
                              });
    return packed;
  }

  SimdMatmulContext& context_;
  const PanelShape shape_;
  const int64_t rows_, cols_;
  // The packed weight rows. For eight-bit weights, the memory also contains the scale of each
  // output, and the value with which the sum of the output starts.
  std::unique_ptr<HostBuffer> memory_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> PackSimdMatrix(const MatrixSource& source,
                                                             SimdMatmulContext& context) {
  const PanelShape shape = PanelShape::Of(source, context.kernels);
  INCIPIT_ASSIGN_OR_RETURN(auto memory,
                           context.memory.Allocate(SimdMatrix::ByteSizeOf(shape), "a weight"));
  return std::make_unique<SimdMatrix>(source, shape, std::move(memory), context);
}

}  // namespace incipit
