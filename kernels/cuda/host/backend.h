// The Backend on an H100 or H200, or on the emulated device: which one, the runtime that is linked
// decides. Enqueues on one stream; at most two steps are on their way.
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
  // A step between Upload and Synchronize.
  struct StepInFlight {
    std::optional<Event> end;
    bool is_recorded = false;
  };
  struct GraphKey {
    const void* owner;
    int32_t rows;
    auto operator<=>(const GraphKey&) const = default;
  };

  // The norm that ProjectAdd has named, until an operation takes it. Begun: x_ and squares_ are its
  // part of it. Who changes x_, or hidden, forgets it.
  struct NextNorm {
    const void* hidden = nullptr;
    const Buffer* weight = nullptr;  // none: nothing was named
    bool is_begun = false;
  };
  // What a product takes, as ProductInput says.
  struct ProductRows {
    const dev::bf16* x = nullptr;
    const float* squares = nullptr;
    int32_t num_squares = 0;
    float epsilon = 0;
  };

  CudaBackend(const CudaOptions& options, const DeviceProperties& device, Stream stream);

  // Once, if it is no bf16.
  void SayIfRounded(DType dtype);
  int32_t num_tokens() const { return static_cast<int32_t>(uploaded_.tokens.size()); }
  // Remembers the first thing that went wrong.
  bool Note(const absl::Status& status);
  bool Grow(Memory& scratch, size_t bytes);
  absl::Status ReserveScratch(const StepBounds& bounds);
  bool GrowSampled(int64_t num_samples);
  // Makes the step's plan one for this pool and these heads; false if it cannot be.
  bool Plan(const KvPool& pool, int32_t num_heads, std::optional<int32_t> window);
  bool Rebuild(const StepBounds& bounds, const AttentionForm& form);
  // Rows of the graph that serves so many tokens; 0: none does.
  static int32_t GraphRowsFor(int32_t num_tokens);
  // REQUIRES: nothing is being recorded.
  void ForgetGraphs();
  bool Record(std::optional<Graph>& graph, absl::FunctionRef<void()> enqueue);
  LaunchShape Shape(int64_t num_blocks, int32_t blocks_per_sm) const;
  // bf16 [rows, columns of hidden], in x_: normalised, or as Norm leaves x beside `squares`.
  // `rows`: of hidden, on the device, or none.
  bool NormalizeRows(const TensorView& hidden, const NormArgs& norm, const int32_t* num_rows,
                     const int32_t* rows, int64_t rows_max, float* squares);
  // The step's rows of hidden, as a product takes them. None if there is no room.
  std::optional<ProductRows> Normalized(const TensorView& hidden, const NormArgs& norm);
  // The rows where each begins at 16 bytes, in padded_; nullptr if there is no room.
  const dev::bf16* PadRowsOf(const TensorView& x);
  template <class Epilogue>
  void Multiply(const DeviceWeight& weight, const ProductRows& x, const int32_t* num_rows,
                int64_t rows_max, const typename Epilogue::Args& epilogue);

  const DeviceProperties device_;
  Stream stream_;
  RowSampler sampler_;
  LibraryProducts library_products_;
  std::function<void(std::string_view, bool)> note_;  // until it is said that weights are rounded
  absl::Status status_;
  Step uploaded_;
  StepLogits logits_;  // of the uploaded step
  StepMemory step_;
  std::optional<PackedSamples> packed_samples_;  // of the step, if they go with it
  bool step_is_planned_ = false;
  int32_t rows_ = 0;        // of launches: the step's tokens, or those of the graph that serves it
  bool has_graph_ = false;  // such a graph: what is enqueued must serve any step of its rows
  std::array<StepInFlight, 2> in_flight_;
  size_t latest_ = 0, num_in_flight_ = 0;
  // The tokens that the latest step sampled, and their number; the next step's Embed reads them
  // before its own samples replace them.
  Memory sampled_;
  int64_t num_sampled_ = 0;
  NextNorm next_norm_;
  // Of the latest logits, for BestOfUnits.
  Memory best_logits_, best_tokens_;
  // Grow to the largest step and stay.
  Memory x_, squares_, padded_, qkv_, partial_sums_, partial_stats_, arrivals_, tile_scratch_,
      copies_;
  Memory staging_;  // of weights on their way; until steps are prepared
  std::array<Memory, 2> pinned_copies_;
  std::array<bool, 2> copies_are_staged_ = {};
  std::map<GraphKey, std::optional<Graph>> graphs_;  // none: the shape was seen once
  int64_t num_forgotten_ = 0;                        // how often they were
  bool is_recording_ = false;
  // Whether a product's queries, keys and values go through qkv_ before they are appended.
  bool has_plain_qkv_ = false;
  // The head that was packed last: an embedding of the same matrix shares it.
  const void* head_source_ = nullptr;
  std::weak_ptr<Memory> head_memory_;
};

}  // namespace incipit::cuda
