#include "kernels/cuda/host/backend.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "kernels/checks.h"
#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/copy_pages.h"
#include "kernels/cuda/device/embed.h"
#include "kernels/cuda/device/norm.h"
#include "kernels/cuda/device/pad_rows.h"
#include "kernels/cuda/device/product/append_rows.h"
#include "kernels/cuda/host/attention_kernels.h"
#include "kernels/cuda/host/launch_product.h"
#include "kernels/cuda/host/scratch_bytes.h"

namespace incipit::cuda {
namespace {

// Maximum numbers of tokens, sequences, cache blocks and samples of a step (batch) until Reserve is
// called.
constexpr StepBounds kFirstBounds = {
    .tokens_max = 512, .sequences_max = 512, .blocks_max = 8192, .samples_max = 512};

// The hidden size of a model must be a multiple of this number.
constexpr int32_t kHiddenMultiple = 8;

// Returns the size in bytes of a list of `num_copies` page copies: a header of 16 bytes, and 16
// bytes for each copy.
size_t CopyBytes(size_t num_copies) { return (num_copies + 1) * sizeof(dev::Vec4); }

const DeviceWeight& WeightOf(const Weight* weight) {
  return static_cast<const DeviceWeight&>(*weight);
}

const float* FloatsOrNull(const Buffer* buffer) {
  return buffer == nullptr ? nullptr : static_cast<const float*>(buffer->data());
}

dev::bf16* BF16Of(const TensorView& view) { return static_cast<dev::bf16*>(view.data); }
float* FloatsOf(const TensorView& view) { return static_cast<float*>(view.data); }

}  // namespace

CudaBackend::CudaBackend(const CudaOptions& options, const DeviceProperties& device, Stream stream,
                         BlockIo block_io)
    : device_(device),
      stream_(std::move(stream)),
      block_io_(std::move(block_io)),
      sampler_(device.num_sms),
      library_products_(options, device),
      note_(options.note) {}

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(const CudaOptions& options) {
  const bool loads_all = options.large_products == LargeProducts::kOwn;
  INCIPIT_ASSIGN_OR_RETURN(const DeviceProperties device, OpenDevice(options.device, loads_all));
  INCIPIT_ASSIGN_OR_RETURN(Stream stream, Stream::Create());
  INCIPIT_ASSIGN_OR_RETURN(BlockIo block_io, BlockIo::Create());
  std::unique_ptr<CudaBackend> backend(
      new CudaBackend(options, device, std::move(stream), std::move(block_io)));
  for (StepInFlight& step : backend->in_flight_) {
    INCIPIT_ASSIGN_OR_RETURN(step.end, Event::Create());
  }
  INCIPIT_RETURN_IF_ERROR(backend->Reserve(kFirstBounds));
  return backend;
}

BackendLimits CudaBackend::limits() const {
  return {.name = "cuda",
          .description = fmt::format("{}, {} SMs, {} GB, {}", device_.name, device_.num_sms,
                                     device_.memory_bytes >> 30, device_.software),
          .numerics = fmt::format("{}, {} SMs, {}", device_.name, device_.num_sms,
                                  library_products_.numerics()),
          .block_sizes = {16, 32, 64},
          .weight_dtypes = {DType::kF32, DType::kF16, DType::kBF16},
          .kv_dtypes = {DType::kBF16},
          .weight_formats = {WeightFormat::kAsStored},
          .hidden_dtype = DType::kF32,
          .activation_dtype = DType::kBF16,
          .head_dim_multiple = 8,
          .width_multiple = 4,
          .logits_rows = StepMemory::kFirstRows};
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::Allocate(size_t bytes) {
  ForgetGraphs();
  INCIPIT_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(Place::kDevice, bytes));
  return std::make_unique<DeviceBuffer>(std::move(memory));
}

absl::StatusOr<std::unique_ptr<KvPool>> CudaBackend::CreateKvPool(const KvPoolShape& shape) {
  ForgetGraphs();
  INCIPIT_RETURN_IF_ERROR(CheckKvPoolShape(shape));
  return DeviceKvPool::Create(shape, limits());
}

void CudaBackend::SayIfRounded(DType dtype) {
  if (dtype == DType::kBF16 || !note_) return;
  note_(fmt::format("the checkpoint's {} weights are rounded to bf16", NameOf(dtype)), false);
  note_ = nullptr;
}

absl::StatusOr<std::unique_ptr<Weight>> CudaBackend::PackWeight(
    std::span<const ConstTensorView> parts, WeightUse use, WeightFormat format, Shard shard) {
  const WeightRole role = use.role;
  ForgetGraphs();
  INCIPIT_RETURN_IF_ERROR(CheckWeightParts(parts, shard));
  if (format != WeightFormat::kAsStored) {
    return Unimplemented("8-bit weights are not supported: the backend cuda multiplies bf16 only");
  }
  const bool takes_hidden = role != WeightRole::kOutput && role != WeightRole::kDown;
  const int32_t multiple = takes_hidden ? kHiddenMultiple : limits().width_multiple;
  if (takes_hidden && parts.front().cols > Norm<NormShape>::kMaxHiddenSize) {
    return Unimplemented("hidden size is {}; the backend cuda supports at most {}",
                         parts.front().cols, Norm<NormShape>::kMaxHiddenSize);
  }
  if (parts.front().cols % multiple != 0) {
    return Unimplemented("a weight has {} columns; the backend cuda needs a multiple of {}",
                         parts.front().cols, multiple);
  }
  const auto head = head_memory_.lock();
  if (role == WeightRole::kEmbedding && head != nullptr && parts.front().data == head_source_) {
    return DeviceWeight::Of(parts, head);
  }
  for (const ConstTensorView& part : parts) SayIfRounded(part.dtype);
  UnpackedWeight source = {.parts = parts};
  if (role == WeightRole::kGateUp) source.order = RowOrder::kGateUp;
  if (role == WeightRole::kQkv && use.rotated_head_dim > 0) {
    INCIPIT_CHECK(source.rows() % use.rotated_head_dim == 0);
    if (use.rotated_head_dim % kUnitRows == 0) {
      source.order = RowOrder::kRotary;
      source.head_dim = use.rotated_head_dim;
    }
  }
  INCIPIT_ASSIGN_OR_RETURN(auto weight, DeviceWeight::Pack(source, staging_, stream_));
  has_plain_qkv_ = has_plain_qkv_ || (role == WeightRole::kQkv && source.order == RowOrder::kPlain);
  library_products_.Add(*weight, role);
  if (role == WeightRole::kHead) {
    head_source_ = parts.front().data;
    head_memory_ = weight->memory();
  }
  return weight;
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::Store(std::span<const ConstTensorView> parts) {
  ForgetGraphs();
  return StoreOnDevice(parts, staging_, stream_);
}

absl::Status CudaBackend::Reserve(const StepBounds& bounds) {
  INCIPIT_CHECK(num_in_flight_ == 0);
  INCIPIT_RETURN_IF_ERROR(stream_.Wait());
  ForgetGraphs();
  staging_ = Memory();
  num_sampled_ = num_sampled_before_ = 0;
  const ModelShape& model = bounds.model;
  AttentionForm form = step_.form();
  if (model.num_kv_heads > 0) {
    form = {.page_size = model.block_size,
            .group = model.num_heads / model.num_kv_heads,
            .windows = model.windows};
    if (form.windows.size() > kMaxWindows) form.windows.clear();
  }
  INCIPIT_RETURN_IF_ERROR(step_.Reserve(bounds, form));
  if (model.num_kv_heads > 0) INCIPIT_RETURN_IF_ERROR(sampler_.Reserve(model.vocab_size));
  INCIPIT_RETURN_IF_ERROR(ReserveScratch(bounds));
  return library_products_.Reserve(bounds.tokens_max, stream_);
}

// Allocates all scratch memory for steps (batches) within `bounds`. If too little device memory is
// free, the error message states the total number of bytes needed.
absl::Status CudaBackend::ReserveScratch(const StepBounds& bounds) {
  struct Wanted {
    Memory* memory;
    size_t bytes;
    Place place = Place::kDevice;
  };
  std::vector<Wanted> wanted = {{&sampled_, SampledBytes(bounds.samples_max)}};
  const ModelShape& model = bounds.model;
  if (model.num_kv_heads > 0) {
    const size_t best = BestOfUnitsBytes(StepMemory::kFirstRows, model.vocab_size);
    const int64_t rows = std::max(bounds.tokens_max, GraphRowsFor(bounds.tokens_max));
    const ProductScratch products = ScratchOfProducts(model, rows);
    const AttentionScratch attention = ScratchOfAttention(step_.plan(),
                                                          {.block_size = model.block_size,
                                                           .num_kv_heads = model.num_kv_heads,
                                                           .head_dim = model.head_dim},
                                                          device_.num_sms);
    const size_t copies = CopyBytes(size_t(bounds.tokens_max) + size_t(bounds.samples_max));
    const Wanted more[] = {{&x_, products.x},
                           {&squares_, products.squares},
                           {&padded_, products.padded},
                           {&qkv_, has_plain_qkv_ ? products.qkv : 0},
                           {&partial_sums_, attention.sums},
                           {&partial_stats_, attention.stats},
                           {&arrivals_, attention.arrivals},
                           {&tile_scratch_, attention.tiles},
                           {&copies_, copies},
                           {&best_logits_, best},
                           {&best_tokens_, best},
                           {&pinned_copies_[0], copies, Place::kPinned},
                           {&pinned_copies_[1], copies, Place::kPinned}};
    wanted.insert(wanted.end(), std::begin(more), std::end(more));
  }
  size_t device_bytes = 0;
  for (const auto& [memory, bytes, place] : wanted) {
    if (memory->byte_size() >= bytes) continue;
    *memory = Memory();
    if (place == Place::kDevice) device_bytes += bytes;
  }
  if (device_bytes > FreeDeviceBytes()) return OutOfMemory(Place::kDevice, device_bytes);
  for (const auto& [memory, bytes, place] : wanted) {
    if (memory->byte_size() >= bytes) continue;
    INCIPIT_ASSIGN_OR_RETURN(*memory, Memory::Allocate(place, bytes));
  }
  return absl::OkStatus();
}

bool CudaBackend::Note(const absl::Status& status) {
  if (status_.ok()) status_ = status;
  return status_.ok();
}

bool CudaBackend::Grow(Memory& scratch, size_t bytes) {
  if (scratch.byte_size() >= bytes) return true;
  INCIPIT_CHECK(!is_recording_);
  // Waits for earlier kernels, which may still use the memory that this function frees.
  if (!Note(stream_.Wait())) return false;
  ForgetGraphs();
  scratch = Memory();
  auto memory = Memory::Allocate(Place::kDevice, bytes);
  if (!Note(memory.status())) return false;
  scratch = *std::move(memory);
  return true;
}

LaunchShape CudaBackend::Shape(int64_t num_blocks, int32_t blocks_per_sm) const {
  return PersistentShape(num_blocks, device_.num_sms, blocks_per_sm);
}

void CudaBackend::Upload(const Step& step, const StepLogits& logits) {
  CheckStep(step, logits);
  // A negative token id n stands for the token with index -1 - n among the tokens that the previous
  // step (batch) sampled. Aborts if this token does not exist, unless an error has occurred.
  for (const TokenId token : step.tokens) {
    INCIPIT_CHECK(-1 - int64_t{token} < num_sampled_ || !status_.ok());
  }
  num_sampled_before_ = std::exchange(num_sampled_, 0);
  if (num_in_flight_ > 0 && !in_flight_[latest_].is_recorded) {
    in_flight_[latest_].end->Record(stream_);
    in_flight_[latest_].is_recorded = true;
  }
  INCIPIT_CHECK(num_in_flight_ < in_flight_.size());
  latest_ = 1 - latest_;
  ++num_in_flight_;
  in_flight_[latest_].is_recorded = false;
  copies_are_staged_[latest_] = false;
  uploaded_ = step;
  logits_ = logits;
  rows_ = num_tokens();
  has_graph_ = false;
  sampler_.BeginStep(latest_);
  packed_samples_.reset();
  step_is_planned_ = false;
  next_norm_ = {};
  if (!step_.Holds(step, logits.rows)) {
    const StepBounds& held = step_.bounds();
    const auto grown = [](int64_t wanted, int64_t has) { return wanted > has ? 2 * wanted : has; };
    const auto tokens = static_cast<int32_t>(grown(num_tokens(), held.tokens_max));
    Rebuild({.tokens_max = tokens,
             .sequences_max =
                 static_cast<int32_t>(grown(std::ssize(step.token_begin), held.sequences_max)),
             .blocks_max = grown(std::ssize(step.blocks), held.blocks_max),
             .samples_max = held.samples_max},
            step_.form());
  }
  if (logits.samples != nullptr && std::ssize(logits.rows) <= StepMemory::kFirstRows &&
      GrowSampled(std::ssize(logits.samples->samples))) {
    CheckPendingTokens(logits.samples->samples);
    packed_samples_ = sampler_.Pack(*logits.samples, latest_);
  }
  if (status_.ok())
    step_is_planned_ = step_.Upload(step, logits.rows, packed_samples_, latest_, stream_);
}

bool CudaBackend::Rebuild(const StepBounds& bounds, const AttentionForm& form) {
  if (!Note(stream_.Wait())) return false;
  ForgetGraphs();
  return Note(step_.Reserve(bounds, form));
}

bool CudaBackend::Plan(const KvPool& pool, int32_t num_heads, std::optional<int32_t> window) {
  const KvPoolShape& shape = pool.shape();
  AttentionForm form = {
      .page_size = shape.block_size, .group = num_heads / shape.num_kv_heads, .windows = {}};
  const AttentionForm& has = step_.form();
  if (has.page_size == form.page_size && has.group == form.group) form.windows = has.windows;
  if (!window.has_value() && form.windows.empty()) window = 0;
  if (window.has_value() && std::ranges::find(form.windows, *window) == form.windows.end()) {
    if (form.windows.size() == kMaxWindows) form.windows.clear();
    form.windows.push_back(*window);
  }
  if (step_is_planned_ && form == has) return status_.ok();
  INCIPIT_CHECK(!is_recording_);
  if (form != has && !Rebuild(step_.bounds(), form)) return false;
  // Waits until the previous copy from pinned host memory has ended, because Upload overwrites this
  // memory.
  if (!Note(stream_.Wait())) return false;
  step_is_planned_ = step_.Upload(uploaded_, logits_.rows, packed_samples_, latest_, stream_);
  INCIPIT_CHECK(step_is_planned_);
  return true;
}

absl::Status CudaBackend::Synchronize() {
  // Discards next_norm_, which was computed from the hidden state, because the caller may change
  // the hidden state after Synchronize.
  next_norm_ = {};
  if (num_in_flight_ == 0) {
    if (Note(stream_.Wait())) sampler_.TakeResults(latest_);
    return status_;
  }
  const size_t oldest = num_in_flight_ == 2 ? 1 - latest_ : latest_;
  StepInFlight& step = in_flight_[oldest];
  if (!step.is_recorded) step.end->Record(stream_);
  --num_in_flight_;
  if (Note(step.end->Wait())) sampler_.TakeResults(oldest);
  return status_;
}

// ---- operations of a step

void CudaBackend::WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) {
  if (writes.empty() || !status_.ok()) return;
  Note(block_io_.Write(static_cast<DeviceKvPool&>(pool), writes, stream_));
}

absl::Status CudaBackend::ReadBlocks(const KvPool& pool, std::span<const BlockId> blocks,
                                     std::span<std::byte> to) {
  INCIPIT_CHECK(to.size() == blocks.size() * BlockBytes(pool));
  if (!status_.ok()) return status_;
  return block_io_.Read(static_cast<const DeviceKvPool&>(pool), blocks, to);
}

void CudaBackend::CopyBlocks(KvPool& pool, std::span<const BlockCopy> copies) {
  if (copies.empty() || !status_.ok()) return;
  auto& device_pool = static_cast<DeviceKvPool&>(pool);
  const KvPoolShape& shape = pool.shape();
  const size_t bytes = CopyBytes(copies.size());
  Memory& staging = pinned_copies_[latest_];
  if (copies_are_staged_[latest_] && !Note(stream_.Wait())) return;
  copies_are_staged_[latest_] = true;
  if (staging.byte_size() < bytes) {
    if (!Note(stream_.Wait())) return;
    auto memory = Memory::Allocate(Place::kPinned, 2 * bytes);
    if (!Note(memory.status())) return;
    staging = *std::move(memory);
  }
  if (!Grow(copies_, staging.byte_size())) return;
  auto* const rows = staging.as<dev::Vec4>();
  rows[0].word[0] = static_cast<uint32_t>(copies.size());
  for (size_t i = 0; i < copies.size(); ++i) {
    rows[i + 1] = {{static_cast<uint32_t>(copies[i].from), static_cast<uint32_t>(copies[i].to),
                    static_cast<uint32_t>(copies[i].num_tokens), 0}};
  }
  stream_.Copy(copies_.data(), rows, bytes);
  CopyPages<CopyPagesShape>::Args args = {.count = copies_.as<int32_t>(),
                                          .copies = copies_.as<dev::Vec4>() + 1,
                                          .pool = reinterpret_cast<char*>(device_pool.layer(0))};
  args.SetLayout(device_pool.layout(), shape.num_layers, shape.num_blocks);
  const int64_t num_items = std::ssize(copies) * shape.num_layers;
  Launch<CopyPages<CopyPagesShape>>(stream_, {.num_blocks = Shape(num_items, 2).num_blocks}, args);
}

void CudaBackend::Embed(const EmbedArgs& args) {
  const DeviceWeight& table = WeightOf(args.table);
  CheckActivation(args.hidden, num_tokens(), table.cols());
  INCIPIT_CHECK(table.order() == RowOrder::kPlain);
  next_norm_ = {};
  if (rows_ == 0 || !status_.ok()) return;
  // `dependent` (early start) is not set: this kernel follows a copy and cannot start before the
  // copy has ended.
  Launch<cuda::Embed<EmbedShape>>(stream_, {.num_blocks = Shape(rows_, 2).num_blocks},
                                  {.step = step_.header(),
                                   .sampled = sampled_.as<int32_t>(),
                                   .table = table.data(),
                                   .vocab = static_cast<int32_t>(table.rows()),
                                   .hidden_size = static_cast<int32_t>(table.cols()),
                                   .hidden = FloatsOf(args.hidden)});
}

bool CudaBackend::NormalizeRows(const TensorView& hidden, const NormArgs& norm,
                                const int32_t* num_rows, const int32_t* rows, int64_t rows_max,
                                float* squares) {
  if (!Grow(x_, NormalizedBytes(rows_max, hidden.cols))) return false;
  Launch<Norm<NormShape>>(stream_, Shape(rows_max, 2),
                          {.num_rows = num_rows,
                           .rows = rows,
                           .hidden = FloatsOf(hidden),
                           .weight = FloatsOrNull(norm.weight),
                           .epsilon = norm.epsilon,
                           .hidden_size = static_cast<int32_t>(hidden.cols),
                           .x = x_.as<dev::bf16>(),
                           .squares = squares});
  return true;
}

std::optional<CudaBackend::ProductRows> CudaBackend::Normalized(const TensorView& hidden,
                                                                const NormArgs& norm) {
  const NextNorm next = std::exchange(next_norm_, {});
  const bool was_named = next.weight != nullptr;
  INCIPIT_CHECK(!was_named || (next.weight == norm.weight && next.hidden == hidden.data));
  if (was_named && !Grow(squares_, SquaresBytes(rows_, hidden.cols))) return std::nullopt;
  float* const squares = was_named ? squares_.as<float>() : nullptr;
  if (!next.is_begun && !NormalizeRows(hidden, norm, step_.num_tokens(), nullptr, rows_, squares)) {
    return std::nullopt;
  }
  const int64_t parts = next.is_begun ? NumUnits(RowOrder::kPlain, hidden.cols) : 1;
  return ProductRows{.x = x_.as<dev::bf16>(),
                     .squares = squares,
                     .num_squares = static_cast<int32_t>(parts),
                     .epsilon = norm.epsilon};
}

const dev::bf16* CudaBackend::PadRowsOf(const TensorView& x) {
  if (!Grow(padded_, PaddedBytes(rows_, x.cols))) return nullptr;
  Launch<PadRows>(stream_, Shape(rows_, PadRows::kBlocksPerSm),
                  {.num_rows = step_.num_tokens(),
                   .x = BF16Of(x),
                   .columns = static_cast<int32_t>(x.cols),
                   .out = padded_.as<dev::bf16>()});
  return padded_.as<dev::bf16>();
}

template <class Epilogue>
void CudaBackend::Multiply(const DeviceWeight& weight, const ProductRows& x,
                           const int32_t* num_rows, int64_t rows_max,
                           const typename Epilogue::Args& epilogue) {
  const ProductArgs<Epilogue> args = {.input = {.num_rows = num_rows,
                                                .x = x.x,
                                                .weight = weight.data(),
                                                .columns = weight.product_columns(),
                                                .num_units = weight.num_units(),
                                                .squares = x.squares,
                                                .num_squares = x.num_squares,
                                                .epsilon = x.epsilon},
                                      .epilogue = epilogue};
  // Does not use cuBLASLt while a CUDA graph is recorded: cuBLASLt always computes `rows_max` rows,
  // but a later launch of the graph may need fewer rows.
  if (rows_max == num_tokens() && !is_recording_) {
    const auto is_done = library_products_.Multiply(stream_, args, rows_max);
    if (!Note(is_done.status()) || *is_done) return;
  }
  LaunchProduct<Epilogue>(stream_, device_.num_sms, rows_max, args);
}

void CudaBackend::QkvRopeAppend(const QkvRopeAppendArgs& args) {
  const DeviceWeight& weight = WeightOf(args.qkv);
  const auto& pool = static_cast<const DeviceKvPool&>(*args.pool);
  CheckActivation(args.query, num_tokens(), int64_t{args.num_heads} * args.head_dim, DType::kBF16);
  CheckPoolCovers(uploaded_, pool.shape());
  if (rows_ == 0 || !Plan(pool, args.num_heads, std::nullopt)) return;
  AppendArgs append = {.step = step_.header(),
                       .product = nullptr,
                       .bias = FloatsOrNull(args.bias),
                       .query_norm = FloatsOrNull(args.query_norm),
                       .key_norm = FloatsOrNull(args.key_norm),
                       .norm_epsilon = args.head_norm_epsilon,
                       .rope = FloatsOrNull(args.rope),
                       .query = BF16Of(args.query),
                       .pool = pool.layer(args.layer),
                       .layout = pool.layout(),
                       .num_heads = args.num_heads};
  if (weight.order() == RowOrder::kRotary) {
    INCIPIT_CHECK(weight.head_dim() == args.head_dim);
    INCIPIT_CHECK(args.query_norm == nullptr && args.key_norm == nullptr);
    const std::optional<ProductRows> x = Normalized(args.hidden, args.norm);
    if (x.has_value()) Multiply<AppendRows>(weight, *x, step_.num_tokens(), rows_, append);
    return;
  }
  const size_t bytes = static_cast<size_t>(rows_ * weight.rows()) * sizeof(float);
  if (!Grow(qkv_, bytes)) return;
  const std::optional<ProductRows> x = Normalized(args.hidden, args.norm);
  if (!x.has_value()) return;
  Multiply<StoreRows<float>>(
      weight, *x, step_.num_tokens(), rows_,
      {.out = qkv_.as<float>(), .bias = nullptr, .width = static_cast<int32_t>(weight.rows())});
  append.product = qkv_.as<float>();
  LaunchAppend(stream_, device_.num_sms, rows_, append);
}

void CudaBackend::Attention(const AttentionArgs& args) {
  const auto& pool = static_cast<const DeviceKvPool&>(*args.pool);
  const KvPoolShape& shape = pool.shape();
  CheckPoolCovers(uploaded_, shape);
  CheckActivation(args.out, num_tokens(), args.query.cols, DType::kBF16);
  if (rows_ == 0 || !Plan(pool, args.num_heads, args.window)) return;
  const AttentionScratch scratch = ScratchOfAttention(step_.plan(), shape, device_.num_sms);
  if (!Grow(partial_sums_, scratch.sums) || !Grow(partial_stats_, scratch.stats) ||
      !Grow(arrivals_, scratch.arrivals) || !Grow(tile_scratch_, scratch.tiles)) {
    return;
  }
  const auto& windows = step_.form().windows;
  const auto list = std::ranges::find(windows, args.window) - windows.begin();
  LaunchAttention(stream_, device_.num_sms, step_.host_header().lists[list],
                  {.step = step_.header(),
                   .list = static_cast<int32_t>(list),
                   .window = args.window,
                   .query = BF16Of(args.query),
                   .pool = pool.layer(args.layer),
                   .out = BF16Of(args.out),
                   .num_heads = args.num_heads,
                   .num_kv_heads = shape.num_kv_heads,
                   .scale = args.scale,
                   .page_size = shape.block_size,
                   .head_dim = shape.head_dim,
                   .partial_sums = partial_sums_.as<float>(),
                   .partial_stats = partial_stats_.as<float>(),
                   .arrivals = arrivals_.as<uint32_t>(),
                   .scratch = tile_scratch_.data()});
}

void CudaBackend::ProjectAdd(const ProjectAddArgs& args) {
  const DeviceWeight& weight = WeightOf(args.weight);
  CheckActivation(args.x, num_tokens(), weight.cols(), DType::kBF16);
  CheckActivation(args.hidden, num_tokens(), weight.rows());
  if (rows_ == 0 || !status_.ok()) return;
  const dev::bf16* x = BF16Of(args.x);
  if (args.x.cols % 8 != 0) {
    x = PadRowsOf(args.x);
    if (x == nullptr) return;
  }
  // True if the kernel of this product also begins the next RMSNorm: multiplies the new hidden
  // state by the weight next_norm and sums the squares of the hidden state. Only kernels for at
  // most kSkinnyRowsMax input rows do this.
  const bool begins = args.next_norm != nullptr && rows_ <= kSkinnyRowsMax;
  if (begins && (!Grow(x_, NormalizedBytes(rows_, weight.rows())) ||
                 !Grow(squares_, SquaresBytes(rows_, weight.rows())))) {
    return;
  }
  next_norm_ = {.hidden = args.hidden.data, .weight = args.next_norm, .is_begun = begins};
  Multiply<AddToHidden>(weight, {.x = x}, step_.num_tokens(), rows_,
                        {.hidden = FloatsOf(args.hidden),
                         .bias = FloatsOrNull(args.bias),
                         .next_norm = begins ? FloatsOrNull(args.next_norm) : nullptr,
                         .x = x_.as<dev::bf16>(),
                         .squares = squares_.as<float>(),
                         .hidden_size = static_cast<int32_t>(weight.rows())});
}

void CudaBackend::GateUpSilu(const GateUpSiluArgs& args) {
  const DeviceWeight& weight = WeightOf(args.gate_up);
  CheckActivation(args.out, num_tokens(), weight.rows() / 2, DType::kBF16);
  if (rows_ == 0 || !status_.ok()) return;
  const std::optional<ProductRows> x = Normalized(args.hidden, args.norm);
  if (!x.has_value()) return;
  Multiply<SiluGate>(weight, *x, step_.num_tokens(), rows_,
                     {.out = BF16Of(args.out),
                      .bias = FloatsOrNull(args.bias),
                      .width = static_cast<int32_t>(weight.rows() / 2)});
}

void CudaBackend::Logits(const LogitsArgs& args) {
  const DeviceWeight& head = WeightOf(args.head);
  CheckActivation(args.logits, args.count, head.rows());
  next_norm_ = {};
  const bool is_all = args.begin == 0 && args.count == std::ssize(logits_.rows);
  for (int32_t done = 0; done < args.count && status_.ok(); done += StepMemory::kFirstRows) {
    const int32_t count = std::min(StepMemory::kFirstRows, args.count - done);
    // True if this iteration computes the logits of all requested tokens of the step (batch)
    const bool is_at_front = is_all && count == args.count;
    const int64_t rows_max = is_at_front && has_graph_ ? rows_ : count;
    const int32_t* const num_rows = is_at_front ? step_.num_logits_rows() : step_.counts() + count;
    const int32_t* const rows =
        is_at_front ? step_.first_logits_rows() : step_.logits_rows() + args.begin + done;
    const size_t best_bytes = BestOfUnitsBytes(rows_max, head.rows());
    if (!Grow(best_logits_, best_bytes) || !Grow(best_tokens_, best_bytes)) return;
    if (!NormalizeRows(args.hidden, args.norm, num_rows, rows, rows_max, nullptr)) return;
    Multiply<StoreLogits>(head, {.x = x_.as<dev::bf16>()}, num_rows, rows_max,
                          {.logits = FloatsOf(args.logits) + done * head.rows(),
                           .best_logits = best_logits_.as<float>(),
                           .best_tokens = best_tokens_.as<int32_t>(),
                           .vocab = static_cast<int32_t>(head.rows())});
  }
}

}  // namespace incipit::cuda

namespace incipit {

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options) {
  return cuda::CudaBackend::Create(options);
}

}  // namespace incipit
