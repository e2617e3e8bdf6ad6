// A step of random tokens whose queries, keys and values come from a product. The product either
// appends in its own epilogue (append_rows.h), or stores f32 rows for a separate Append kernel.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/device/product/append_rows.h"
#include "kernels/cuda/device/product/tiled_product.h"
#include "tests/kernels/cuda/product_problem.h"

namespace incipit::cuda {

struct AppendRowsShape {
  int rows = 3, head_dim = 64, page_size = 16;
  bool has_bias = false;
  int num_heads = 2, num_kv_heads = 1, columns = 72;

  auto operator<=>(const AppendRowsShape&) const = default;
};

class AppendRowsProblem {
 public:
  static constexpr uint16_t kUntouched = 0x7FFF;
  struct Outcome {
    std::string fault;
    std::vector<uint16_t> query, pool;
    bool operator==(const Outcome&) const = default;
  };

  explicit AppendRowsProblem(const AppendRowsShape& shape)
      : shape_(shape),
        layout_({shape.page_size, shape.num_kv_heads, shape.head_dim}),
        width_((shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim),
        rotary_({.rows = shape.rows,
                 .columns = shape.columns,
                 .width = width_,
                 .order = RowOrder::kRotary,
                 .head_dim = shape.head_dim}),
        plain_({.rows = shape.rows, .columns = shape.columns, .width = width_}) {
    std::mt19937 random(7);
    rope_ = RandomF32(random, static_cast<size_t>(kPositions * shape.head_dim));
    num_pages_ = shape.rows / shape.page_size + 2;
    std::vector<int32_t> slots(static_cast<size_t>(num_pages_ * shape.page_size));
    std::iota(slots.begin(), slots.end(), 0);
    std::ranges::shuffle(slots, random);
    step_.resize((sizeof(StepHeader) + sizeof(Vec4) - 1) / sizeof(Vec4));
    const size_t rows_at = step_.size();
    step_.resize(rows_at + static_cast<size_t>(shape.rows));
    header().num_tokens = shape.rows;
    header().rows = static_cast<int32_t>(rows_at * sizeof(Vec4));
    for (int row = 0; row < shape.rows; ++row) {
      step_row(row) = {.position = static_cast<int32_t>(random() % kPositions),
                       .slot = row % 9 == 8 ? -1 : slots[static_cast<size_t>(row)],
                       .table = -1,
                       .length = -1};
    }
  }

  StepHeader& header() { return *reinterpret_cast<StepHeader*>(step_.data()); }
  StepRow& step_row(int row) {
    return reinterpret_cast<StepRow*>(reinterpret_cast<char*>(step_.data()) + header().rows)[row];
  }
  ProductProblem& product() { return rotary_; }
  const KvLayout& layout() const { return layout_; }
  int width() const { return width_; }
  void SetRows(int rows) {
    rotary_.SetRows(rows);
    plain_.SetRows(rows);
    header().num_tokens = rows;
  }
  void SetX(int row, int column, float x) {
    for (ProductProblem* const product : {&rotary_, &plain_}) {
      product->x()[static_cast<size_t>(row * shape_.columns + column)] = NarrowBF16(x);
    }
  }

  // Returns arguments whose results go to `outcome`. Fills `outcome` with a value that marks
  // untouched elements.
  AppendArgs ArgsFor(Outcome& outcome) {
    const auto queries = static_cast<size_t>(shape_.rows * shape_.num_heads * shape_.head_dim);
    outcome.query.assign(queries, kUntouched);
    outcome.pool.assign(static_cast<size_t>(layout_.LayerSize(num_pages_)), kUntouched);
    return {.step = &header(),
            .bias = shape_.has_bias ? plain_.bias().data() : nullptr,
            .rope = rope_.data(),
            .query = DeviceBF16(outcome.query),
            .pool = DeviceBF16(outcome.pool),
            .layout = layout_,
            .num_heads = shape_.num_heads};
  }

  // Runs `Kernel`, a product whose epilogue appends queries, keys and values as AppendRows does.
  template <class Kernel>
  Outcome Run(const ProductRun& run = {}) {
    Outcome outcome;
    const AppendArgs args = ArgsFor(outcome);
    outcome.fault = RunProduct<Kernel>(run, rotary_.input(), args);
    return outcome;
  }

  // Runs Rows, a product that stores f32 rows, and then the Append kernel.
  template <class Rows = TiledProduct<SmallTiles<StoreRows<float>>>>
  Outcome RunApart() {
    std::vector<Vec4> product(static_cast<size_t>(shape_.rows) * static_cast<size_t>(width_) / 4);
    Outcome outcome;
    AppendArgs args = ArgsFor(outcome);
    args.product = product.data();
    auto* const rows = reinterpret_cast<float*>(product.data());
    outcome.fault = RunProduct<Rows>({}, plain_.input(), {rows, nullptr, width_});
    outcome.fault += emulator::Run<Append<float>>({.num_blocks = 3}, args).fault;
    return outcome;
  }

 private:
  static constexpr int kPositions = 50;

  AppendRowsShape shape_;
  KvLayout layout_;
  int width_;
  // Two products with the same matrix and the same input x. The rows of the matrix are in rotary
  // order for `rotary_`, and in plain order for `plain_`.
  ProductProblem rotary_, plain_;
  int num_pages_ = 0;
  std::vector<float> rope_;
  std::vector<Vec4> step_;
};

}  // namespace incipit::cuda
