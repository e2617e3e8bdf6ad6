// Implements Backend for an H100 or H200 GPU, or for the emulated GPU if a program links the
// emulator. All work of steps is enqueued on one stream. At most two steps (batches) are in flight,
// that is, between Upload and Synchronize.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/cuda/host/block_io.h"
#include "kernels/cuda/host/library_products.h"
#include "kernels/cuda/host/memory.h"
#include "kernels/cuda/host/sampler.h"
#include "kernels/cuda/host/step_memory.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

class CudaBackend final : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(const CudaOptions& options);

  BackendLimits limits() const override;
  size_t FreeBytes() const override { return FreeDeviceBytes(); }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<KvPool>> CreateKvPool(const KvPoolShape& shape) override;
  absl::StatusOr<std::unique_ptr<Weight>> PackWeight(std::span<const ConstTensorView> parts,
                                                     WeightUse use, WeightFormat format,
                                                     Shard shard) override;
  absl::StatusOr<std::unique_ptr<Buffer>> Store(std::span<const ConstTensorView> parts) override;
  absl::Status Reserve(const StepBounds& bounds) override;

  void Upload(const Step& step, const StepLogits& logits) override;
  void RunStep(const void* owner, absl::FunctionRef<void()> enqueue) override;
  absl::Status RecordSteps(const void* owner, int32_t tokens_max, const Step& step,
                           const StepLogits& logits, absl::FunctionRef<void()> enqueue) override;
  void WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) override;
  absl::Status ReadBlocks(const KvPool& pool, std::span<const BlockId> blocks,
                          std::span<std::byte> to) override;
  void CopyBlocks(KvPool& pool, std::span<const BlockCopy> copies) override;
  void Embed(const EmbedArgs& args) override;
  void QkvRopeAppend(const QkvRopeAppendArgs& args) override;
  void Attention(const AttentionArgs& args) override;
  void ProjectAdd(const ProjectAddArgs& args) override;
  void GateUpSilu(const GateUpSiluArgs& args) override;
  void Logits(const LogitsArgs& args) override;
  void Sample(const SampleArgs& args) override;
  void Score(const ScoreArgs& args) override;
  absl::Status Synchronize() override;

  LibraryProducts& library_products() { return library_products_; }

 private:
  // State of a step (batch) between Upload and Synchronize
  struct StepInFlight {
    std::optional<Event> end;
    bool is_recorded = false;
  };
  struct GraphKey {
    const void* owner;
    int32_t rows;
    auto operator<=>(const GraphKey&) const = default;
  };

  // An RMSNorm that the next matrix product must apply to its input. Only ProjectAdd sets this
  // object. Every other operation that changes the hidden state clears this object.
  struct NextNorm {
    const void* hidden = nullptr;
    // RMSNorm weight; null if ProjectAdd was called without next_norm
    const Buffer* weight = nullptr;
    // True if ProjectAdd has already multiplied `hidden` by the RMSNorm weight (result in x_) and
    // summed the squares of `hidden` (result in squares_)
    bool is_begun = false;
  };
  // Input x of a matrix product, and the sums of squares from which the product kernel computes the
  // RMSNorm factor of each row of x.
  struct ProductRows {
    const dev::bf16* x = nullptr;
    const float* squares = nullptr;
    int32_t num_squares = 0;
    float epsilon = 0;
  };

  CudaBackend(const CudaOptions& options, const DeviceProperties& device, Stream stream,
              BlockIo block_io);

  // If `dtype` is not bf16, logs that weights are rounded to bf16. Only the first call with such a
  // type logs this message.
  void SayIfRounded(DType dtype);
  int32_t num_tokens() const { return static_cast<int32_t>(uploaded_.tokens.size()); }
  // Stores `status` in status_, unless status_ already holds an error. Returns status_.ok().
  bool Note(const absl::Status& status);
  bool Grow(Memory& scratch, size_t bytes);
  absl::Status ReserveScratch(const StepBounds& bounds);
  bool GrowSampled(int64_t num_samples);
  // Aborts if the `pending_sample` of a sample is not below the number of tokens that the previous
  // step (batch) sampled.
  void CheckPendingTokens(std::span<const StepSample> samples) const;
  // Divides the attention of the current step (batch) into work items, unless this was already done
  // for the same page size, number of heads and sliding window. Returns false if an error occurs.
  bool Plan(const KvPool& pool, int32_t num_heads, std::optional<int32_t> window);
  bool Rebuild(const StepBounds& bounds, const AttentionForm& form);
  // Returns the number of rows (one for each token) of the smallest CUDA graph that can run a step
  // of `num_tokens` tokens. Returns 0 if no graph is large enough.
  static int32_t GraphRowsFor(int32_t num_tokens);
  // Discards all recorded CUDA graphs. REQUIRES: no graph is being recorded.
  void ForgetGraphs();
  bool Record(std::optional<Graph>& graph, absl::FunctionRef<void()> enqueue);
  LaunchShape Shape(int64_t num_blocks, int32_t blocks_per_sm) const;
  // Multiplies rows of `hidden` by the RMSNorm weight and stores the results in x_ as bf16. If
  // `squares` is null, also divides each row by its root mean square. `rows`: device array of row
  // indices, or null for all rows.
  bool NormalizeRows(const TensorView& hidden, const NormArgs& norm, const int32_t* num_rows,
                     const int32_t* rows, int64_t rows_max, float* squares);
  // Applies RMSNorm to the rows of `hidden`, and returns the normalised rows as the input of a
  // product. Returns nullopt if an allocation fails.
  std::optional<ProductRows> Normalized(const TensorView& hidden, const NormArgs& norm);
  // Copies the rows of `x` to padded_, each row aligned to 16 bytes. Returns nullptr if an
  // allocation fails.
  const dev::bf16* PadRowsOf(const TensorView& x);
  template <class Epilogue>
  void Multiply(const DeviceWeight& weight, const ProductRows& x, const int32_t* num_rows,
                int64_t rows_max, const typename Epilogue::Args& epilogue);

  const DeviceProperties device_;
  Stream stream_;
  BlockIo block_io_;
  RowSampler sampler_;
  LibraryProducts library_products_;
  // Function that logs a message for the operator. The backend calls the function at most once,
  // then sets note_ to null.
  std::function<void(std::string_view, bool)> note_;
  absl::Status status_;
  Step uploaded_;
  // rows of logits to compute for the uploaded step (batch), and tokens to sample from them
  StepLogits logits_;
  StepMemory step_;
  // Inputs of kernel Sample for the current step (batch), if Upload copies them to the device
  // together with the step; otherwise nullopt
  std::optional<PackedSamples> packed_samples_;
  bool step_is_planned_ = false;
  // Number of rows (one for each token) that kernels process: the step's number of tokens, or the
  // number of rows of the CUDA graph that runs the step
  int32_t rows_ = 0;
  // True if the current step (batch) runs in a CUDA graph, or may be recorded as a CUDA graph.
  // Kernel launches must then be valid for any number of tokens up to rows_.
  bool has_graph_ = false;
  std::array<StepInFlight, 2> in_flight_;
  size_t latest_ = 0, num_in_flight_ = 0;
  // Device array of the tokens that the latest two steps (batches) sampled. SampledIndex() returns
  // the index of a token. The next step reads the tokens of the latest step.
  Memory sampled_;
  // numbers of tokens that the latest step (num_sampled_) and the step before it
  // (num_sampled_before_) sampled
  int64_t num_sampled_ = 0, num_sampled_before_ = 0;
  NextNorm next_norm_;
  // Device arrays for the latest call of Logits: the largest of every 16 consecutive logits of a
  // row, and the token id of this logit.
  Memory best_logits_, best_tokens_;
  // Scratch memory of the operations of a step (batch). Each array grows when an operation needs a
  // larger array.
  Memory x_, squares_, padded_, qkv_, partial_sums_, partial_stats_, arrivals_, tile_scratch_,
      copies_;
  Memory staging_;  // pinned memory through which weights are copied to the device
  std::array<Memory, 2> pinned_copies_;
  std::array<bool, 2> copies_are_staged_ = {};
  // Recorded CUDA graphs. The value nullopt means that a step (batch) with this GraphKey has run,
  // but has not been recorded yet.
  std::map<GraphKey, std::optional<Graph>> graphs_;
  int64_t num_forgotten_ = 0;  // number of times that all recorded CUDA graphs were discarded
  bool is_recording_ = false;
  // True if the rows of the query, key and value weight are packed in their original order
  // (RowOrder::kPlain). Kernel Append must then apply the rotary embedding.
  bool has_plain_qkv_ = false;
  // Address in the checkpoint of the latest matrix that was packed as an output head. An embedding
  // matrix at the same address uses the device memory of the output head.
  const void* head_source_ = nullptr;
  std::weak_ptr<Memory> head_memory_;
};

}  // namespace incipit::cuda
