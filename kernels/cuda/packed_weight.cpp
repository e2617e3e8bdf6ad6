#include "kernels/cuda/packed_weight.h"

#include <algorithm>
#include <cstring>

#include "kernels/numeric.h"

namespace incipit::cuda {
namespace {

// Columns column .. + out.size() of a row of the parts.
void ReadRow(const UnpackedWeight& weight, int64_t row, int64_t column, std::span<uint16_t> out) {
  size_t part = 0;
  while (row >= weight.parts[part].rows) row -= weight.parts[part++].rows;
  const ConstTensorView& view = weight.parts[part];
  const int64_t first = row * view.cols + column;
  if (view.dtype == DType::kBF16) {
    std::memcpy(out.data(), static_cast<const char*>(view.data) + first * 2, out.size() * 2);
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = NarrowBF16(LoadF32(view.data, view.dtype, first + static_cast<int64_t>(i)));
  }
}

}  // namespace

int64_t UnpackedWeight::rows() const {
  int64_t rows = 0;
  for (const ConstTensorView& part : parts) rows += part.rows;
  return rows;
}

int64_t UnpackedWeight::columns() const { return parts.front().cols; }

void PackUnits(const UnpackedWeight& weight, int64_t first_unit, std::span<uint16_t> out) {
  const int64_t rows = weight.rows(), columns = weight.columns();
  const int num_tiles = NumTiles(static_cast<int>(columns));
  const int64_t num_units = static_cast<int64_t>(out.size()) / weight.unit_elements();
  std::fill(out.begin(), out.end(), uint16_t{0});
  for (int64_t packed_row = 0; packed_row < num_units * kUnitRows; ++packed_row) {
    const int64_t row = SourceRow(weight.order, rows, first_unit * kUnitRows + packed_row);
    if (row < 0) continue;
    for (int64_t column = 0; column < columns; column += 8) {
      const int64_t place = PackedElement(num_tiles, packed_row, static_cast<int>(column));
      const size_t count = static_cast<size_t>(std::min<int64_t>(8, columns - column));
      ReadRow(weight, row, column, out.subspan(static_cast<size_t>(place), count));
    }
  }
}

void UnpackRow(std::span<const uint16_t> packed, RowOrder order, int64_t rows, int64_t row,
               std::span<uint16_t> out) {
  int64_t packed_row = row;
  if (order == RowOrder::kGateUp) {
    const int64_t within = row % (rows / 2);
    packed_row = within / 8 * kUnitRows + within % 8 + (row < rows / 2 ? 0 : 8);
  }
  const int num_tiles = NumTiles(static_cast<int>(out.size()));
  for (size_t column = 0; column < out.size(); ++column) {
    const int64_t place = PackedElement(num_tiles, packed_row, static_cast<int>(column));
    out[column] = packed[static_cast<size_t>(place)];
  }
}

}  // namespace incipit::cuda
