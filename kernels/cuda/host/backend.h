// The Backend on an H100 or H200, or on the emulated device; the linked runtime decides which. All
// work is enqueued on one stream. At most two steps are in flight.
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
  // A step after its Upload and before its Synchronize.
  struct StepInFlight {
    std::optional<Event> end;
    bool is_recorded = false;
  };
  struct GraphKey {
    const void* owner;
    int32_t rows;
    auto operator<=>(const GraphKey&) const = default;
  };

  // The norm that ProjectAdd announced with next_norm; the next product uses the norm. `is_begun`:
  // x_ and squares_ already contain the result for this norm. An operation that changes x_ or
  // hidden clears NextNorm.
  struct NextNorm {
    const void* hidden = nullptr;
    const Buffer* weight = nullptr;  // null: no norm was announced
    bool is_begun = false;
  };
  // The input of a product, as in ProductInput.
  struct ProductRows {
    const dev::bf16* x = nullptr;
    const float* squares = nullptr;
    int32_t num_squares = 0;
    float epsilon = 0;
  };

  CudaBackend(const CudaOptions& options, const DeviceProperties& device, Stream stream);

  // Logs once that weights are rounded, if `dtype` is not bf16.
  void SayIfRounded(DType dtype);
  int32_t num_tokens() const { return static_cast<int32_t>(uploaded_.tokens.size()); }
  // Keeps the first error. Returns true if there is none.
  bool Note(const absl::Status& status);
  bool Grow(Memory& scratch, size_t bytes);
  absl::Status ReserveScratch(const StepBounds& bounds);
  bool GrowSampled(int64_t num_samples);
  // Makes the step's plan fit this pool and these heads. Returns false if that fails.
  bool Plan(const KvPool& pool, int32_t num_heads, std::optional<int32_t> window);
  bool Rebuild(const StepBounds& bounds, const AttentionForm& form);
  // Returns the rows of the graph for a step of `num_tokens` tokens, or 0 if there is no such
  // graph.
  static int32_t GraphRowsFor(int32_t num_tokens);
  // Discards all graphs. REQUIRES: nothing is being recorded.
  void ForgetGraphs();
  bool Record(std::optional<Graph>& graph, absl::FunctionRef<void()> enqueue);
  LaunchShape Shape(int64_t num_blocks, int32_t blocks_per_sm) const;
  // Writes bf16 [rows, columns of hidden] to x_: normalised, or without the scale if `squares` is
  // given (Norm). `rows`: device array of the rows of hidden, or null.
  bool NormalizeRows(const TensorView& hidden, const NormArgs& norm, const int32_t* num_rows,
                     const int32_t* rows, int64_t rows_max, float* squares);
  // Returns the step's rows of hidden as input of a product, or nullopt if there is no memory.
  std::optional<ProductRows> Normalized(const TensorView& hidden, const NormArgs& norm);
  // Copies the rows to padded_, where each row begins at a multiple of 16 bytes. Returns nullptr if
  // there is no memory.
  const dev::bf16* PadRowsOf(const TensorView& x);
  template <class Epilogue>
  void Multiply(const DeviceWeight& weight, const ProductRows& x, const int32_t* num_rows,
                int64_t rows_max, const typename Epilogue::Args& epilogue);

  const DeviceProperties device_;
  Stream stream_;
  RowSampler sampler_;
  LibraryProducts library_products_;
  // Null after the message that weights are rounded
  std::function<void(std::string_view, bool)> note_;
  absl::Status status_;
  Step uploaded_;
  StepLogits logits_;  // logits of the uploaded step
  StepMemory step_;
  std::optional<PackedSamples> packed_samples_;  // samples of the step, if they are copied with it
  bool step_is_planned_ = false;
  int32_t rows_ = 0;  // rows of launches: the step's tokens, or those of its graph
  // True if a graph serves the step: enqueued work must fit any step of rows_
  bool has_graph_ = false;
  std::array<StepInFlight, 2> in_flight_;
  size_t latest_ = 0, num_in_flight_ = 0;
  // The tokens that the latest step sampled, and their number. The next step's Embed reads the
  // tokens before its own samples replace them.
  Memory sampled_;
  int64_t num_sampled_ = 0;
  NextNorm next_norm_;
  // Largest logits of units, and their tokens, of the latest logits (BestOfUnits).
  Memory best_logits_, best_tokens_;
  // Scratch memory: grows to the largest step and is kept.
  Memory x_, squares_, padded_, qkv_, partial_sums_, partial_stats_, arrivals_, tile_scratch_,
      copies_;
  Memory staging_;  // pinned memory for weights; released by Reserve
  std::array<Memory, 2> pinned_copies_;
  std::array<bool, 2> copies_are_staged_ = {};
  std::map<GraphKey, std::optional<Graph>> graphs_;  // nullopt: a step with the key has run once
  int64_t num_forgotten_ = 0;                        // how often all graphs were discarded
  bool is_recording_ = false;
  // True if some product stores queries, keys and values in qkv_ before Append stores them in their
  // pages.
  bool has_plain_qkv_ = false;
  // The head that was packed last. An embedding with the same matrix shares its memory.
  const void* head_source_ = nullptr;
  std::weak_ptr<Memory> head_memory_;
};

}  // namespace incipit::cuda
