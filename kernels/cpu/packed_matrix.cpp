#include "kernels/cpu/packed_matrix.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"

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

size_t SizeOfScales(const PanelShape& shape) {
  return static_cast<size_t>(shape.num_panels * shape.panel_width) * sizeof(float);
}

size_t ByteSizeOf(const PanelShape& shape) {
  return shape.byte_size() + (shape.weights == simd::kInt8 ? 2 * SizeOfScales(shape) : 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> PackedMatrix::Pack(const MatrixSource& source,
                                                                 ProductContext& context) {
  const PanelShape shape = PanelShape::Of(source, context.kernels);
  INCIPIT_ASSIGN_OR_RETURN(auto memory, context.memory.Allocate(ByteSizeOf(shape), "a weight"));
  return std::unique_ptr<PackedMatrix>(new PackedMatrix(source, shape, std::move(memory), context));
}

PackedMatrix::PackedMatrix(const MatrixSource& source, const PanelShape& shape,
                           std::unique_ptr<HostBuffer> memory, ProductContext& context)
    : context_(context),
      shape_(shape),
      rows_(source.rows()),
      cols_(source.cols()),
      memory_(std::move(memory)) {
  PackPanels(source, shape_, context_.kernels, context_.threads,
             {.panels = panels(), .scales = scales(), .starts = starts()});
}

float* PackedMatrix::scales() const {
  return is_int8() ? reinterpret_cast<float*>(panels() + shape_.byte_size()) : nullptr;
}

int32_t* PackedMatrix::starts() const {
  if (!is_int8()) return nullptr;
  return reinterpret_cast<int32_t*>(panels() + shape_.byte_size() + SizeOfScales(shape_));
}

void PackedMatrix::Multiply(const ProductInput& input, const ProductOutput& output) {
  const int64_t width = output.Width(rows_);
  for (int64_t begin = 0; begin < input.num_rows; begin += kPassRows) {
    const int64_t count = std::min(kPassRows, input.num_rows - begin);
    MultiplyPass(input.Part(begin, count, cols_),
                 {.finish = output.finish, .bias = output.bias, .y = output.y + begin * width});
  }
}

void PackedMatrix::MultiplyPass(const ProductInput& input, const ProductOutput& output) {
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

const void* PackedMatrix::PackRows(const ProductInput& input, int64_t num_tiles) {
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

}  // namespace incipit
