// The Backend on an H100 or H200 GPU, or on the emulated device, depending on the linked runtime.
// All work is enqueued on one stream. At most two steps are in flight (uploaded, and Synchronize
// has not been called).
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
  // A step that has been uploaded and for which Synchronize has not been called.
  struct StepInFlight {
    std::optional<Event> end;
    bool is_recorded = false;
  };
  struct GraphKey {
    const void* owner;
    int32_t rows;
    auto operator<=>(const GraphKey&) const = default;
  };

  // The norm that the next product must apply to its input, as announced by ProjectAdd (next_norm).
  // If `is_begun` is true, x_ and squares_ already contain the input of this product. Any operation
  // that changes x_ or the hidden state clears the NextNorm.
  struct NextNorm {
    const void* hidden = nullptr;
    const Buffer* weight = nullptr;  // null: the latest ProjectAdd had no next_norm
    bool is_begun = false;
  };
  // The input x of a product, with the fields of ProductInput that belong to x.
  struct ProductRows {
    const dev::bf16* x = nullptr;
    const float* squares = nullptr;
    int32_t num_squares = 0;
    float epsilon = 0;
  };

  CudaBackend(const CudaOptions& options, const DeviceProperties& device, Stream stream);

  // Logs a message once if `dtype` is not bf16: the weights are then rounded to bf16.
  void SayIfRounded(DType dtype);
  int32_t num_tokens() const { return static_cast<int32_t>(uploaded_.tokens.size()); }
  // Stores `status` as the backend's error, unless an earlier error is stored. Returns true if no
  // error is stored after the call.
  bool Note(const absl::Status& status);
  bool Grow(Memory& scratch, size_t bytes);
  absl::Status ReserveScratch(const StepBounds& bounds);
  bool GrowSampled(int64_t num_samples);
  // Rebuilds the plan of attention of the current step if the plan is not valid for this pool,
  // number of heads and sliding window. Returns false if an error occurs.
  bool Plan(const KvPool& pool, int32_t num_heads, std::optional<int32_t> window);
  bool Rebuild(const StepBounds& bounds, const AttentionForm& form);
  // Returns the number of rows of the graph that serves a step of `num_tokens` tokens, or 0 if no
  // graph is large enough.
  static int32_t GraphRowsFor(int32_t num_tokens);
  // Discards all recorded graphs. REQUIRES: no graph is being recorded.
  void ForgetGraphs();
  bool Record(std::optional<Graph>& graph, absl::FunctionRef<void()> enqueue);
  LaunchShape Shape(int64_t num_blocks, int32_t blocks_per_sm) const;
  // Writes rows of `hidden` to x_ as bf16, with kernel Norm. If `squares` is null, the rows are
  // normalised; otherwise the rows are only multiplied by the norm weight. `rows`: device array
  // with the indices of the rows, or null for all rows.
  bool NormalizeRows(const TensorView& hidden, const NormArgs& norm, const int32_t* num_rows,
                     const int32_t* rows, int64_t rows_max, float* squares);
  // Returns the input of a product that reads the normalised rows of `hidden`, for all tokens of
  // the step. Returns nullopt if an allocation fails.
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
  // Function that logs a message for the operator; null after the message that weights are rounded
  // to bf16
  std::function<void(std::string_view, bool)> note_;
  absl::Status status_;
  Step uploaded_;
  StepLogits logits_;  // rows of logits and samples that the uploaded step needs
  StepMemory step_;
  // The samples of the current step, if Upload copies them to the device together with the step
  std::optional<PackedSamples> packed_samples_;
  bool step_is_planned_ = false;
  // Number of rows that kernels process: the number of tokens of the step, or the number of rows of
  // the step's graph
  int32_t rows_ = 0;
  // True if a recorded graph serves the current step. The operations must then enqueue work that is
  // valid for every step of at most rows_ tokens.
  bool has_graph_ = false;
  std::array<StepInFlight, 2> in_flight_;
  size_t latest_ = 0, num_in_flight_ = 0;
  // Device array of the tokens that the latest step sampled. The next step reads these tokens as
  // its input (kernel Embed), and later overwrites the array with its own samples.
  Memory sampled_;
  int64_t num_sampled_ = 0;
  NextNorm next_norm_;
  // The largest of every 16 consecutive logits of the latest Logits call, and the token ids of
  // these logits (BestOfUnits).
  Memory best_logits_, best_tokens_;
  // Scratch memory of operations. Each array grows to the size that the largest step needs.
  Memory x_, squares_, padded_, qkv_, partial_sums_, partial_stats_, arrivals_, tile_scratch_,
      copies_;
  Memory staging_;  // pinned memory through which weights are copied; released by Reserve
  std::array<Memory, 2> pinned_copies_;
  std::array<bool, 2> copies_are_staged_ = {};
  // Recorded graphs. nullopt: a step with this key has run once, without recording
  std::map<GraphKey, std::optional<Graph>> graphs_;
  int64_t num_forgotten_ = 0;  // number of ForgetGraphs calls
  bool is_recording_ = false;
  // True if any product stores queries, keys and values in qkv_. Kernel Append then moves them from
  // qkv_ to the array of queries and the KV pool.
  bool has_plain_qkv_ = false;
  // Address in the checkpoint of the matrix that was packed last as output head. An embedding with
  // the same address shares the device memory of the head.
  const void* head_source_ = nullptr;
  std::weak_ptr<Memory> head_memory_;
};

}  // namespace incipit::cuda
