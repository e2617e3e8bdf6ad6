#include "kernels/cpu/matmul_onednn.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd/select.h"
#include "kernels/numeric.h"

namespace incipit {
namespace {

// Numbers of rows that products are made for; others are padded to the next.
constexpr std::array<int64_t, 18> kRowBuckets = {1,  2,  3,  4,  6,   8,   12,  16,  24,
                                                 32, 48, 64, 96, 128, 192, 256, 384, 512};

// AMX sums in another order for one row than for many. Only the first use of the library can still
// be told; who sets the variable knows better.
void LimitInstructionSet() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("DNNL_MAX_CPU_ISA") != nullptr) return;
    if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) return;
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
  });
}

dnnl::memory::data_type TypeOf(DType dtype) {
  INCIPIT_CHECK(dtype != DType::kF16);
  return dtype == DType::kF32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

absl::Status StatusOf(const dnnl::error& error) {
  const std::string message = fmt::format("oneDNN: {}", error.what());
  if (error.status == dnnl_unimplemented) return absl::UnimplementedError(message);
  if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

// [rows, cols] by columns as rows of a [outputs, inputs] matrix lie in memory.
dnnl::memory::desc PlainWeights(int64_t outputs, int64_t inputs, DType dtype) {
  return {{inputs, outputs}, TypeOf(dtype), dnnl::memory::format_tag::ba};
}

struct Shape {
  int64_t outputs = 0, inputs = 0;
  DType dtype = DType::kF32;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

}  // namespace

class OneDnnContext::State {
 public:
  // A product of one shape and number of rows, with the memory objects that it is run with.
  struct Product {
    dnnl::matmul::primitive_desc description;
    dnnl::matmul primitive;
    dnnl::memory x, y, scratchpad;
  };

  State(const Threads& threads, HostMemory& memory)
      : threads_(threads), memory_(memory), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  dnnl::engine& engine() { return engine_; }
  HostMemory& memory() { return memory_; }

  struct Format {
    dnnl::memory::desc weights;
    bool rows_stay_apart = false;
  };
  // What products of this shape take their weights in, for any number of rows. Throws dnnl::error
  // where there is no product.
  const Format& FormatOf(const Shape& shape) {
    threads_.UseForCallingThread();
    const auto found = formats_.find(shape);
    if (found != formats_.end()) return found->second;
    const dnnl::memory::desc any({shape.inputs, shape.outputs}, TypeOf(shape.dtype),
                                 dnnl::memory::format_tag::any);
    Format format = {.weights = Describe(shape, kRowsToChooseBy, any).weights_desc(),
                     .rows_stay_apart = true};
    for (const int64_t rows : kRowBuckets) {
      const std::string_view name = Describe(shape, rows, format.weights).impl_info_str();
      format.rows_stay_apart = format.rows_stay_apart && name.starts_with("brg");
    }
    return formats_.emplace(shape, std::move(format)).first->second;
  }

  void Reorder(dnnl::memory& from, dnnl::memory& to) {
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
  }

  void Multiply(const Shape& shape, const dnnl::memory& weights, const float* x, int64_t num_rows,
                float* y) {
    const int64_t rows = BucketOf(shape, num_rows);
    Product& product = ProductFor(shape, rows);
    float* const out = rows == num_rows ? y : padded_y_.Get(rows * shape.outputs);
    product.x.set_data_handle(Input(shape, x, num_rows, rows));
    product.y.set_data_handle(out);
    product.scratchpad.set_data_handle(
        scratchpad_.Get(static_cast<int64_t>(product.scratchpad.get_desc().get_size())));
    const std::array<dnnl_exec_arg_t, 4> args = {{{DNNL_ARG_SRC, product.x.get()},
                                                  {DNNL_ARG_WEIGHTS, weights.get()},
                                                  {DNNL_ARG_DST, product.y.get()},
                                                  {DNNL_ARG_SCRATCHPAD, product.scratchpad.get()}}};
    const dnnl_status_t status = dnnl_primitive_execute(product.primitive.get(), stream_.get(),
                                                        static_cast<int>(args.size()), args.data());
    if (status != dnnl_success)
      SetError(Internal("oneDNN: a product failed with status {}", static_cast<int>(status)));
    stream_.wait();
    if (out != y) std::copy_n(out, num_rows * shape.outputs, y);
  }

  void SetError(absl::Status error) {
    if (error_.ok()) error_ = std::move(error);
  }
  absl::Status TakeError() { return std::exchange(error_, absl::OkStatus()); }

 private:
  static constexpr int64_t kRowsToChooseBy = 64;

  dnnl::matmul::primitive_desc Describe(const Shape& shape, int64_t rows,
                                        const dnnl::memory::desc& weights) const {
    const dnnl::memory::desc x({rows, shape.inputs}, TypeOf(shape.dtype),
                               dnnl::memory::format_tag::ab);
    const dnnl::memory::desc y({rows, shape.outputs}, dnnl::memory::data_type::f32,
                               dnnl::memory::format_tag::ab);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return {dnnl::matmul::desc(x, weights, y), attributes, engine_};
  }

  // bf16 without instructions for it takes another path for a single row.
  int64_t BucketOf(const Shape& shape, int64_t num_rows) const {
    const int64_t least = shape.dtype == DType::kBF16 && !native_.bf16 ? 2 : 1;
    return *std::ranges::lower_bound(kRowBuckets, std::max(least, num_rows));
  }

  Product& ProductFor(const Shape& shape, int64_t rows) {
    const auto key = std::make_pair(shape, rows);
    const auto found = products_.find(key);
    if (found != products_.end()) return found->second;
    const auto description = Describe(shape, rows, FormatOf(shape).weights);
    const auto empty = [&](const dnnl::memory::desc& desc) {
      return dnnl::memory(desc, engine_, DNNL_MEMORY_NONE);
    };
    Product product = {.description = description,
                       .primitive = dnnl::matmul(description),
                       .x = empty(description.src_desc()),
                       .y = empty(description.dst_desc()),
                       .scratchpad = empty(description.scratchpad_desc())};
    return products_.emplace(key, std::move(product)).first->second;
  }

  // x as the product takes it: rounded to the weights' type, padded with zeros.
  void* Input(const Shape& shape, const float* x, int64_t num_rows, int64_t rows) {
    const int64_t size = num_rows * shape.inputs, padded_size = rows * shape.inputs;
    if (shape.dtype == DType::kF32) {
      if (rows == num_rows) return const_cast<float*>(x);
      float* const padded = padded_x_.Get(padded_size);
      std::copy_n(x, size, padded);
      std::fill_n(padded + size, padded_size - size, 0.0f);
      return padded;
    }
    uint16_t* const rounded = rounded_x_.Get(padded_size);
    threads_.ForParts(size, size, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t i = begin; i < end; ++i) rounded[i] = NarrowBF16(x[i]);
    });
    std::fill_n(rounded + size, padded_size - size, uint16_t{0});
    return rounded;
  }

  const Threads& threads_;
  HostMemory& memory_;
  const simd::NativeProducts native_ = simd::DetectNativeProducts();
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::map<Shape, Format> formats_;
  std::map<std::pair<Shape, int64_t>, Product> products_;
  Scratch<float> padded_x_, padded_y_;
  Scratch<uint16_t> rounded_x_;
  Scratch<char> scratchpad_;
  absl::Status error_;
};

class OneDnnContext::Matrix final : public PackedMatrix {
 public:
  Matrix(State& state, const Shape& shape, std::unique_ptr<HostBuffer> buffer, dnnl::memory weights)
      : state_(state), shape_(shape), buffer_(std::move(buffer)), weights_(std::move(weights)) {}

  size_t byte_size() const override { return buffer_->byte_size(); }

  void Multiply(const float* x, int64_t num_rows, float* y) override {
    for (int64_t begin = 0; begin < num_rows; begin += kRowBuckets.back()) {
      const int64_t count = std::min(kRowBuckets.back(), num_rows - begin);
      try {
        state_.Multiply(shape_, weights_, x + begin * shape_.inputs, count,
                        y + begin * shape_.outputs);
      } catch (const dnnl::error& error) {
        state_.SetError(StatusOf(error));
      }
    }
  }

 private:
  State& state_;
  Shape shape_;
  std::unique_ptr<HostBuffer> buffer_;
  dnnl::memory weights_;
};

OneDnnContext::OneDnnContext(const Threads& threads, HostMemory& memory) {
  LimitInstructionSet();
  state_ = std::make_unique<State>(threads, memory);
}

OneDnnContext::~OneDnnContext() = default;

absl::StatusOr<std::unique_ptr<PackedMatrix>> OneDnnContext::Pack(
    std::span<const ConstTensorView> parts, OneDnnUse use) {
  Shape shape = {.inputs = parts.front().cols, .dtype = CommonDType(parts)};
  for (const ConstTensorView& part : parts) shape.outputs += part.rows;
  if (shape.dtype == DType::kF16) return Unimplemented("oneDNN has no product of f16 weights here");
  try {
    const State::Format& format = state_->FormatOf(shape);
    if (use == OneDnnUse::kWhereRowsStayApart && !format.rows_stay_apart) {
      return Unimplemented("oneDNN has no product of {} x {} weights that keeps rows apart",
                           shape.outputs, shape.inputs);
    }
    INCIPIT_ASSIGN_OR_RETURN(auto buffer,
                             state_->memory().Allocate(format.weights.get_size(), "a weight"));
    dnnl::memory weights(format.weights, state_->engine(), buffer->data());

    // One matrix of one type, for the library to put into its format.
    std::vector<std::byte> plain(static_cast<size_t>(shape.outputs * shape.inputs) *
                                 ByteSize(shape.dtype));
    std::byte* out = plain.data();
    for (const ConstTensorView& part : parts) {
      if (part.dtype == shape.dtype) {
        std::memcpy(out, part.data, part.byte_size());
        out += part.byte_size();
        continue;
      }
      for (int64_t i = 0; i < part.rows * part.cols; ++i, out += sizeof(float)) {
        const float value = LoadF32(part.data, part.dtype, i);
        std::memcpy(out, &value, sizeof(value));
      }
    }
    dnnl::memory from(PlainWeights(shape.outputs, shape.inputs, shape.dtype), state_->engine(),
                      plain.data());
    state_->Reorder(from, weights);
    return std::make_unique<Matrix>(*state_, shape, std::move(buffer), std::move(weights));
  } catch (const dnnl::error& error) {
    return StatusOf(error);
  }
}

absl::Status OneDnnContext::TakeError() { return state_->TakeError(); }

}  // namespace incipit
