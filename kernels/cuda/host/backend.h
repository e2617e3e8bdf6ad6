// The Backend for an H100 or H200 GPU, or for the emulated device if a program links the emulator.
// All work is enqueued on one stream. At most two steps are in flight: uploaded, and not yet
// finished by Synchronize.
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
  // A step that Upload has copied to the device and for which Synchronize has not waited yet
  struct StepInFlight {
    std::optional<Event> end;
    bool is_recorded = false;
  };
  struct GraphKey {
    const void* owner;
    int32_t rows;
    auto operator<=>(const GraphKey&) const = default;
  };

  // The RMSNorm that the next product must apply to its input; ProjectAdd sets the NextNorm from
  // its argument next_norm. If `is_begun` is true, x_ and squares_ already hold the prepared input.
  // Any other change of x_ or of the hidden state clears the NextNorm.
  struct NextNorm {
    const void* hidden = nullptr;
    const Buffer* weight = nullptr;  // norm weight; null if the latest ProjectAdd had no next_norm
    bool is_begun = false;
  };
  // The input x of a product, and the data from which the product computes the scale of each row of
  // x (ProductInput).
  struct ProductRows {
    const dev::bf16* x = nullptr;
    const float* squares = nullptr;
    int32_t num_squares = 0;
    float epsilon = 0;
  };

  CudaBackend(const CudaOptions& options, const DeviceProperties& device, Stream stream);

  // Logs one message that weights are rounded to bf16, if `dtype` is not bf16. Later calls log
  // nothing.
  void SayIfRounded(DType dtype);
  int32_t num_tokens() const { return static_cast<int32_t>(uploaded_.tokens.size()); }
  // Stores `status` as the backend's error, unless an earlier error is stored. Returns true if no
  // error is stored after the call.
  bool Note(const absl::Status& status);
  bool Grow(Memory& scratch, size_t bytes);
  absl::Status ReserveScratch(const StepBounds& bounds);
  bool GrowSampled(int64_t num_samples);
  // Rebuilds the current step's attention plan if the plan does not match the KV pool, the number
  // of heads or the sliding window. Returns false if an error occurs.
  bool Plan(const KvPool& pool, int32_t num_heads, std::optional<int32_t> window);
  bool Rebuild(const StepBounds& bounds, const AttentionForm& form);
  // Returns the number of rows of the CUDA graph to launch for a step of `num_tokens` tokens, or 0
  // if no graph is large enough.
  static int32_t GraphRowsFor(int32_t num_tokens);
  // Discards all recorded CUDA graphs. REQUIRES: no graph is being recorded.
  void ForgetGraphs();
  bool Record(std::optional<Graph>& graph, absl::FunctionRef<void()> enqueue);
  LaunchShape Shape(int64_t num_blocks, int32_t blocks_per_sm) const;
  // Writes rows of `hidden` to x_ as bf16, with kernel Norm. If `squares` is null, the rows are
  // normalised; otherwise they are only multiplied by the norm weight. `rows` holds the indices of
  // the rows in device memory, or is null for all rows.
  bool NormalizeRows(const TensorView& hidden, const NormArgs& norm, const int32_t* num_rows,
                     const int32_t* rows, int64_t rows_max, float* squares);
  // Normalises the rows of `hidden` for all tokens of the step, and returns them as the input of a
  // product. Returns nullopt if an allocation fails.
  std::optional<ProductRows> Normalized(const TensorView& hidden, const NormArgs& norm);
  // Copies the rows of `x` to padded_, where each row begins at a multiple of 16 bytes. Returns
  // nullptr if an allocation fails.
  const dev::bf16* PadRowsOf(const TensorView& x);
  template <class Epilogue>
  void Multiply(const DeviceWeight& weight, const ProductRows& x, const int32_t* num_rows,
                int64_t rows_max, const typename Epilogue::Args& epilogue);

  const DeviceProperties device_;
  Stream stream_;
  RowSampler sampler_;
  LibraryProducts library_products_;
  // Function that logs a message for the operator. Set to null after the message that weights are
  // rounded to bf16, so that the message appears once.
  std::function<void(std::string_view, bool)> note_;
  absl::Status status_;
  Step uploaded_;
  StepLogits logits_;  // rows of logits to compute for the uploaded step, and its samples
  StepMemory step_;
  // Samples of the current step, if Upload copies them together with the step to the device
  std::optional<PackedSamples> packed_samples_;
  bool step_is_planned_ = false;
  // Number of rows that kernels process: the step's number of tokens, or the number of rows of the
  // CUDA graph that runs the step
  int32_t rows_ = 0;
  // True if a CUDA graph runs the current step, or if the step's work may be recorded in a CUDA
  // graph. All enqueued work must then be valid for every step of at most rows_ tokens.
  bool has_graph_ = false;
  std::array<StepInFlight, 2> in_flight_;
  size_t latest_ = 0, num_in_flight_ = 0;
  // Device array of the tokens that the latest step sampled. Kernel Embed of the next step reads
  // the tokens as its input.
  Memory sampled_;
  int64_t num_sampled_ = 0;
  NextNorm next_norm_;
  // Device arrays: the largest of every 16 consecutive logits of the latest Logits call, and the
  // token ids of these logits.
  Memory best_logits_, best_tokens_;
  // Scratch memory of the operations of a step (products, attention, copies of blocks). Each array
  // grows to the size that the largest step needs.
  Memory x_, squares_, padded_, qkv_, partial_sums_, partial_stats_, arrivals_, tile_scratch_,
      copies_;
  Memory staging_;  // pinned memory through which weights are copied to the device
  std::array<Memory, 2> pinned_copies_;
  std::array<bool, 2> copies_are_staged_ = {};
  // Recorded CUDA graphs by owner and number of rows. nullopt: one step with this key has run, but
  // no graph is recorded yet.
  std::map<GraphKey, std::optional<Graph>> graphs_;
  int64_t num_forgotten_ = 0;  // number of ForgetGraphs calls, which discard all CUDA graphs
  bool is_recording_ = false;
  // True if the weight for queries, keys and values is packed in plain row order. The product with
  // this weight then stores its results in qkv_, and kernel Append finishes the results.
  bool has_plain_qkv_ = false;
  // Address in the checkpoint of the latest matrix that was packed as an output head. If an
  // embedding has the same address, both share one copy in device memory.
  const void* head_source_ = nullptr;
  std::weak_ptr<Memory> head_memory_;
};

}  // namespace incipit::cuda
