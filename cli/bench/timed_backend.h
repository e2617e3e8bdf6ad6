// A backend that passes every call on to another one and adds up what each operation took. Meant
// for backends that have computed when a call returns, as the CPU's.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "kernels/backend.h"

namespace incipit {

// What the time of a step goes to. kOther is what is small: embeddings, copies of blocks.
enum class StepOperation : uint8_t {
  kQkv,
  kAttention,
  kOutput,
  kGateUp,
  kDown,
  kLogits,
  kSampling,
  kOther
};
inline constexpr size_t kNumStepOperations = 8;
std::string_view NameOf(StepOperation operation);

using OperationSeconds = std::array<double, kNumStepOperations>;

class TimedBackend final : public Backend {
 public:
  // `backend` outlives it. Of the products that add to the hidden state, those with
  // `intermediate_size` inputs are the MLP's.
  TimedBackend(Backend& backend, int32_t intermediate_size)
      : backend_(backend), intermediate_size_(intermediate_size) {}

  // Since the last call, of every operation.
  OperationSeconds TakeSeconds();

  BackendLimits limits() const override { return backend_.limits(); }
  size_t FreeBytes() const override { return backend_.FreeBytes(); }
  MachineRates MeasureRates() override { return backend_.MeasureRates(); }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    return backend_.Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<KvPool>> CreateKvPool(const KvPoolShape& shape) override {
    return backend_.CreateKvPool(shape);
  }
  absl::StatusOr<std::unique_ptr<Weight>> PackWeight(std::span<const ConstTensorView> parts,
                                                     WeightUse use, WeightFormat format,
                                                     Shard shard) override {
    return backend_.PackWeight(parts, use, format, shard);
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Store(std::span<const ConstTensorView> parts) override {
    return backend_.Store(parts);
  }
  absl::Status Reserve(const StepBounds& bounds) override { return backend_.Reserve(bounds); }
  void Upload(const Step& step, const StepLogits& logits) override {
    backend_.Upload(step, logits);
  }
  // Never replayed: each operation is to be seen.
  void RunStep(const void*, absl::FunctionRef<void()> enqueue) override { enqueue(); }
  void CopyBlocks(KvPool& pool, std::span<const BlockCopy> copies) override;
  void Embed(const EmbedArgs& args) override;
  void QkvRopeAppend(const QkvRopeAppendArgs& args) override;
  void Attention(const AttentionArgs& args) override;
  void ProjectAdd(const ProjectAddArgs& args) override;
  void GateUpSilu(const GateUpSiluArgs& args) override;
  void Logits(const LogitsArgs& args) override;
  void Sample(const SampleArgs& args) override;
  void Score(const ScoreArgs& args) override;
  absl::Status Synchronize() override { return backend_.Synchronize(); }

 private:
  template <class F>
  void Timed(StepOperation operation, const F& run);

  Backend& backend_;
  const int64_t intermediate_size_;
  const SteadyClock clock_;
  OperationSeconds seconds_{};
};

}  // namespace incipit
