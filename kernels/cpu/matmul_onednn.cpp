#include "kernels/cpu/matmul_onednn.h"

#include <unistd.h>

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

// Numbers of input rows for which oneDNN primitives are created. An input with another number of
// rows is padded with zero rows to the next larger number.
constexpr std::array<int64_t, 18> kRowBuckets = {1,  2,  3,  4,  6,   8,   12,  16,  24,
                                                 32, 48, 64, 96, 128, 192, 256, 384, 512};

// Forbids oneDNN to use AMX instructions, whose order of summation depends on the number of rows.
// Has no effect after the first use of oneDNN, or if the environment variable DNNL_MAX_CPU_ISA or
// ONEDNN_MAX_CPU_ISA is set.
void LimitInstructionSet() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("DNNL_MAX_CPU_ISA") != nullptr) return;
    if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) return;
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
  });
}

// Element types of a matrix product. `factors`: type of both matrices that are multiplied. `sums`:
// type of the result.
struct Types {
  dnnl::memory::data_type factors, sums;
  size_t factor_bytes;
};
enum class Form : uint8_t { kF32, kBF16, kInt8 };
Types TypesOf(Form form) {
  using dnnl::memory;
  switch (form) {
    case Form::kF32:
      return {memory::data_type::f32, memory::data_type::f32, 4};
    case Form::kBF16:
      return {memory::data_type::bf16, memory::data_type::f32, 2};
    case Form::kInt8:
      return {memory::data_type::s8, memory::data_type::s32, 1};
  }
  return {};
}

absl::Status StatusOf(const dnnl::error& error) {
  const std::string message = fmt::format("oneDNN: {}", error.what());
  if (error.status == dnnl_unimplemented) return absl::UnimplementedError(message);
  if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

struct Shape {
  int64_t outputs = 0, inputs = 0;
  Form form = Form::kF32;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// Describes a matrix [outputs][inputs] whose rows are stored one after the other.
dnnl::memory::desc PlainWeights(const Shape& shape) {
  return {{shape.inputs, shape.outputs}, TypesOf(shape.form).factors, dnnl::memory::format_tag::ba};
}

}  // namespace

class OneDnnContext::State {
 public:
  // The oneDNN primitive for one matrix shape and one number of rows, with its memory objects.
  struct Product {
    dnnl::matmul::primitive_desc description;
    dnnl::matmul primitive;
    dnnl::memory x, y, scratchpad;
  };

  State(const simd::Kernels& kernels, const Threads& threads, HostMemory& memory)
      : kernels_(kernels),
        threads_(threads),
        memory_(memory),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {}

  dnnl::engine& engine() { return engine_; }
  HostMemory& memory() { return memory_; }
  const simd::Kernels& kernels() const { return kernels_; }

  struct Format {
    dnnl::memory::desc weights;
    bool rows_stay_apart = false;
  };
  // Returns oneDNN's memory format for the weights of a matrix with the shape `shape`. The format
  // is the same for every number of input rows. Throws dnnl::error if oneDNN has no product for
  // this shape.
  const Format& FormatOf(const Shape& shape) {
    threads_.UseForCallingThread();
    const auto found = formats_.find(shape);
    if (found != formats_.end()) return found->second;
    const dnnl::memory::desc any({shape.inputs, shape.outputs}, TypesOf(shape.form).factors,
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

  struct Weights {
    const dnnl::memory& packed;
    // One scale for each output, if the weights have eight bits; otherwise null.
    const float* scales;
  };
  void Multiply(const Shape& shape, const Weights& weights, const ProductInput& input,
                const ProductOutput& output) {
    const int64_t rows = BucketOf(shape, input.num_rows);
    Product& product = ProductFor(shape, rows);
    // oneDNN writes directly to the output if no rows are padded and no other operation is applied
    // to the sums.
    const bool in_place = output.finish == simd::Finish::kStore && rows == input.num_rows;
    float* const sums = in_place ? output.y : sums_.Get(rows * shape.outputs);
    product.x.set_data_handle(Factors(shape, input, rows));
    product.y.set_data_handle(sums);
    product.scratchpad.set_data_handle(
        scratchpad_.Get(static_cast<int64_t>(product.scratchpad.get_desc().get_size())));
    const std::array<dnnl_exec_arg_t, 4> args = {{{DNNL_ARG_SRC, product.x.get()},
                                                  {DNNL_ARG_WEIGHTS, weights.packed.get()},
                                                  {DNNL_ARG_DST, product.y.get()},
                                                  {DNNL_ARG_SCRATCHPAD, product.scratchpad.get()}}};
    const dnnl_status_t status = dnnl_primitive_execute(product.primitive.get(), stream_.get(),
                                                        static_cast<int>(args.size()), args.data());
    if (status != dnnl_success)
      SetError(Internal("oneDNN failed to compute a matrix product: status {}",
                        static_cast<int>(status)));
    stream_.wait();
    if (in_place && output.bias == nullptr && weights.scales == nullptr) return;
    const int64_t width = output.Width(shape.outputs);
    threads_.ForParts(
        input.num_rows, input.num_rows * shape.outputs, [&](int64_t begin, int64_t end, int32_t) {
          for (int64_t row = begin; row < end; ++row) {
            kernels_.finish_row({.sums = sums + row * shape.outputs,
                                 .output_scales = weights.scales,
                                 .row_scale = weights.scales == nullptr ? 1 : scales_.Get(0)[row],
                                 .num_outputs = shape.outputs,
                                 .finish = output.finish,
                                 .bias = output.bias,
                                 .y = output.y + row * width});
          }
        });
  }

  void SetError(absl::Status error) {
    if (error_.ok()) error_ = std::move(error);
  }
  absl::Status TakeError() { return std::exchange(error_, absl::OkStatus()); }

 private:
  static constexpr int64_t kRowsToChooseBy = 64;

  dnnl::matmul::primitive_desc Describe(const Shape& shape, int64_t rows,
                                        const dnnl::memory::desc& weights) const {
    const Types types = TypesOf(shape.form);
    const dnnl::memory::desc x({rows, shape.inputs}, types.factors, dnnl::memory::format_tag::ab);
    const dnnl::memory::desc y({rows, shape.outputs}, types.sums, dnnl::memory::format_tag::ab);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return {dnnl::matmul::desc(x, weights, y), attributes, engine_};
  }

  // Returns the number of input rows after padding. On a CPU without bf16 instructions, a single
  // bf16 row is padded to two rows. Without this padding, oneDNN could compute other bits for the
  // row than in a larger batch.
  int64_t BucketOf(const Shape& shape, int64_t num_rows) const {
    const int64_t least = shape.form == Form::kBF16 && !native_.bf16 ? 2 : 1;
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

  // Returns the address of the input rows in the form that oneDNN needs: normalised if requested,
  // converted to the type of the product, and padded with rows of zeros.
  void* Factors(const Shape& shape, const ProductInput& input, int64_t rows) {
    const int64_t cols = shape.inputs;
    const bool as_they_are = shape.form == Form::kF32 && input.norm_weight == nullptr &&
                             input.indices == nullptr && rows == input.num_rows;
    if (as_they_are) return const_cast<float*>(input.x);
    const auto row_bytes = cols * static_cast<int64_t>(TypesOf(shape.form).factor_bytes);
    char* const factors = factors_.Get(rows * row_bytes);
    float* const normed = normed_.Get(threads_.count() * cols);
    float* const scales = scales_.Get(kRowBuckets.back());
    threads_.ForParts(
        input.num_rows, input.num_rows * cols, [&](int64_t begin, int64_t end, int32_t thread) {
          for (int64_t row = begin; row < end; ++row) {
            const int64_t index = input.indices == nullptr ? row : input.indices[row];
            const float* x = input.x + index * cols;
            if (input.norm_weight != nullptr) {
              float* const out = normed + thread * cols;
              kernels_.rms_norm(x, input.norm_weight, input.epsilon, cols, out);
              x = out;
            }
            char* const to = factors + row * row_bytes;
            if (shape.form == Form::kF32) {
              std::memcpy(to, x, static_cast<size_t>(row_bytes));
            } else if (shape.form == Form::kBF16) {
              kernels_.narrow_row(x, cols, reinterpret_cast<uint16_t*>(to));
            } else {
              scales[row] = kernels_.quantize_row(x, cols, reinterpret_cast<int8_t*>(to));
            }
          }
        });
    std::memset(factors + input.num_rows * row_bytes, 0,
                static_cast<size_t>((rows - input.num_rows) * row_bytes));
    return factors;
  }

  const simd::Kernels& kernels_;
  const Threads& threads_;
  HostMemory& memory_;
  const simd::NativeProducts native_ = simd::DetectNativeProducts();
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::map<Shape, Format> formats_;
  std::map<std::pair<Shape, int64_t>, Product> products_;
  Scratch<float> sums_, normed_, scales_;
  Scratch<char> factors_, scratchpad_;
  absl::Status error_;
};

class OneDnnContext::Matrix final : public PackedMatrix {
 public:
  Matrix(State& state, const Shape& shape, std::unique_ptr<HostBuffer> buffer, dnnl::memory weights,
         std::vector<float> scales)
      : state_(state),
        shape_(shape),
        buffer_(std::move(buffer)),
        weights_(std::move(weights)),
        scales_(std::move(scales)) {}

  size_t byte_size() const override {
    return buffer_->byte_size() + scales_.size() * sizeof(float);
  }

  void Multiply(const ProductInput& input, const ProductOutput& output) override {
    const int64_t width = output.Width(shape_.outputs);
    for (int64_t begin = 0; begin < input.num_rows; begin += kRowBuckets.back()) {
      const int64_t count = std::min(kRowBuckets.back(), input.num_rows - begin);
      try {
        state_.Multiply(
            shape_, {.packed = weights_, .scales = scales_.empty() ? nullptr : scales_.data()},
            input.Part(begin, count, shape_.inputs),
            {.finish = output.finish, .bias = output.bias, .y = output.y + begin * width});
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
  // One scale for each output, if the weights have eight bits; otherwise empty.
  std::vector<float> scales_;
};

namespace {

// Returns the matrix `source` in row-major order, with elements of the type that shape.form
// requires. Copies the matrix to `plain` if necessary. Appends the scales of eight-bit rows to
// `scales`.
void* PlainMatrix(const MatrixSource& source, const Shape& shape, const simd::Kernels& kernels,
                  std::vector<std::byte>& plain, std::vector<float>& scales) {
  const bool is_int8 = shape.form == Form::kInt8;
  const void* const only = source.parts[0].data;
  const bool is_aligned = reinterpret_cast<uintptr_t>(only) % TypesOf(shape.form).factor_bytes == 0;
  if (source.parts.size() == 1 && is_aligned && !is_int8) return const_cast<void*>(only);
  plain.resize(static_cast<size_t>(shape.outputs * shape.inputs) *
               TypesOf(shape.form).factor_bytes);
  std::vector<float> row(static_cast<size_t>(shape.inputs));
  std::byte* out = plain.data();
  for (const ConstTensorView& part : source.parts) {
    if (!is_int8 && part.dtype == source.dtype()) {
      std::memcpy(out, part.data, part.byte_size());
      out += part.byte_size();
      continue;
    }
    for (int64_t r = 0; r < part.rows; ++r) {
      const size_t offset = static_cast<size_t>(r * part.cols) * ByteSize(part.dtype);
      WidenRow(static_cast<const char*>(part.data) + offset, part.dtype, row);
      if (is_int8) {
        scales.push_back(
            kernels.quantize_row(row.data(), part.cols, reinterpret_cast<int8_t*>(out)));
        out += part.cols;
      } else {
        std::memcpy(out, row.data(), row.size() * sizeof(float));
        out += row.size() * sizeof(float);
      }
    }
  }
  return plain.data();
}

}  // namespace

std::string DescribeOneDnn() {
  LimitInstructionSet();
  const dnnl::version_t* const version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{} {} isa {} caches {} {} {}", version->major, version->minor,
                     version->patch, version->hash, static_cast<int>(dnnl::get_effective_cpu_isa()),
                     sysconf(_SC_LEVEL1_DCACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE),
                     sysconf(_SC_LEVEL3_CACHE_SIZE));
}

OneDnnContext::OneDnnContext(const simd::Kernels& kernels, const Threads& threads,
                             HostMemory& memory) {
  LimitInstructionSet();
  state_ = std::make_unique<State>(kernels, threads, memory);
}

OneDnnContext::~OneDnnContext() = default;

absl::StatusOr<std::unique_ptr<PackedMatrix>> OneDnnContext::Pack(const MatrixSource& source,
                                                                  OneDnnUse use) {
  const bool is_int8 = source.format == WeightFormat::kInt8;
  if (source.dtype() == DType::kF16 && !is_int8) {
    return Unimplemented("oneDNN is not used for f16 weights");
  }
  // oneDNN is not used for eight-bit weights on a CPU without VNNI instructions: oneDNN would add
  // pairs of products in 16 bits, which can overflow.
  if (is_int8 && !simd::DetectNativeProducts().int8) {
    return Unimplemented("oneDNN cannot multiply eight-bit weights exactly on this machine");
  }
  const Shape shape = {.outputs = source.rows(),
                       .inputs = source.cols(),
                       .form = is_int8                          ? Form::kInt8
                               : source.dtype() == DType::kBF16 ? Form::kBF16
                                                                : Form::kF32};
  try {
    const State::Format& format = state_->FormatOf(shape);
    if (use == OneDnnUse::kWhereRowsStayApart && !format.rows_stay_apart) {
      return Unimplemented(
          "oneDNN cannot multiply a weight with {} outputs and {} inputs so that a row has the "
          "same bits in every batch",
          shape.outputs, shape.inputs);
    }
    INCIPIT_ASSIGN_OR_RETURN(auto buffer,
                             state_->memory().Allocate(format.weights.get_size(), "a weight"));
    dnnl::memory weights(format.weights, state_->engine(), buffer->data());
    std::vector<std::byte> plain;
    std::vector<float> scales;
    dnnl::memory from(PlainWeights(shape), state_->engine(),
                      PlainMatrix(source, shape, state_->kernels(), plain, scales));
    state_->Reorder(from, weights);
    return std::make_unique<Matrix>(*state_, shape, std::move(buffer), std::move(weights),
                                    std::move(scales));
  } catch (const dnnl::error& error) {
    return StatusOf(error);
  }
}

absl::Status OneDnnContext::TakeError() { return state_->TakeError(); }

}  // namespace incipit
