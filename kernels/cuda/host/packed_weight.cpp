#include "kernels/cuda/host/packed_weight.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/host_limits.h"
#include "kernels/cpu/threads.h"
#include "kernels/numeric.h"

namespace incipit::cuda {
namespace {

// Address and element type of one row of a checkpoint matrix.
struct SourceOfRow {
  const char* data;
  DType dtype;
};
SourceOfRow FindRow(const UnpackedWeight& weight, int64_t row) {
  size_t part = 0;
  while (row >= weight.parts[part].rows) row -= weight.parts[part++].rows;
  const ConstTensorView& view = weight.parts[part];
  const size_t bytes = static_cast<size_t>(row * view.cols) * ByteSize(view.dtype);
  return {static_cast<const char*>(view.data) + bytes, view.dtype};
}

// Reads elements [column, column + columns) of a matrix row, rounds them to bf16 and stores them in
// `out`. REQUIRES: `columns` is at most kTileColumns.
void ReadColumns(const SourceOfRow& row, int64_t column, int64_t columns, uint16_t* out) {
  if (row.dtype == DType::kBF16) {
    std::memcpy(out, row.data + column * 2, static_cast<size_t>(columns) * 2);
    return;
  }
  for (int64_t i = 0; i < columns; ++i) {
    out[i] = NarrowBF16(LoadF32(row.data, row.dtype, column + i));
  }
}

// Copies a matrix row of `columns` elements to a unit (a group of 16 packed rows) at address
// `unit`. `row`, in [0, 16), is the index of the packed row in the unit.
void PackRow(const SourceOfRow& source, int64_t columns, int row, uint16_t* unit) {
  constexpr int kChunk = 8;
  const int num_tiles = NumTiles(static_cast<int>(columns));
  for (int run = 0; run < kNumRuns; ++run) {
    for (int i = 0; i < RunLength(num_tiles, run); ++i) {
      const int64_t column = int64_t{RunBegin(num_tiles, run) + i} * kTileColumns;
      uint16_t values[kTileColumns] = {};
      ReadColumns(source, column, std::min<int64_t>(kTileColumns, columns - column), values);
      uint16_t* const tile = unit + int64_t{TilePosition(run, i)} * kTileElements;
      for (int chunk = 0; chunk < kTileColumns; chunk += kChunk) {
        std::memcpy(tile + ElementInTile(row, chunk), values + chunk, kChunk * sizeof(uint16_t));
      }
    }
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
  const int64_t unit_elements = weight.unit_elements();
  const int64_t num_units = static_cast<int64_t>(out.size()) / unit_elements;
  const Threads threads(AvailableCpus());
  threads.ForEach(num_units, num_units * unit_elements, [&](int64_t index, int32_t) {
    uint16_t* const unit = out.data() + index * unit_elements;
    for (int row = 0; row < kUnitRows; ++row) {
      const int64_t from =
          SourceRow(weight.order, rows, (first_unit + index) * kUnitRows + row, weight.head_dim);
      if (from >= 0) {
        PackRow(FindRow(weight, from), columns, row, unit);
        continue;
      }
      for (int64_t tile = 0; tile < unit_elements; tile += kTileElements) {
        std::fill_n(unit + tile + int64_t{row} * kTileColumns, kTileColumns, uint16_t{0});
      }
    }
  });
}

void UnpackRow(std::span<const uint16_t> packed, RowOrder order, int64_t rows, int64_t row,
               std::span<uint16_t> out, int64_t head_dim) {
  int64_t packed_row = row;
  if (order != RowOrder::kPlain) {
    const int64_t whole = order == RowOrder::kGateUp ? rows : head_dim;
    const int64_t within = row % whole, in_half = within % (whole / 2);
    const int64_t unit = row / whole * NumUnits(RowOrder::kGateUp, whole) + in_half / 8;
    packed_row = unit * kUnitRows + in_half % 8 + (within < whole / 2 ? 0 : 8);
  }
  const int num_tiles = NumTiles(static_cast<int>(out.size()));
  for (size_t column = 0; column < out.size(); ++column) {
    const int64_t element = PackedElement(num_tiles, packed_row, static_cast<int>(column));
    out[column] = packed[static_cast<size_t>(element)];
  }
}

}  // namespace incipit::cuda
