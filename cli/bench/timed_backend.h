// A backend that forwards every call to another backend and measures the total time of each
// operation. The measured times are correct only if the other backend returns from a call after the
// operation is complete, as the CPU backend does.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "kernels/backend.h"

namespace incipit {

// The operations whose times TimedBackend measures. kOther stands for all small operations
// together, such as embeddings, block writes and block copies.
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
  // Forwards calls to `backend`. The attention and the MLP both call ProjectAdd(), so the shape of
  // the weight matrix decides which operation the time belongs to. A matrix with
  // `intermediate_size` columns (the width of the MLP) belongs to kDown, and any other matrix to
  // kOutput. REQUIRES: `backend` outlives this object.
  TimedBackend(Backend& backend, int32_t intermediate_size)
      : backend_(backend), intermediate_size_(intermediate_size) {}

  // Returns the total time of each operation since the previous call of TakeSeconds(), in seconds.
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
  // Always calls `enqueue`, which calls each operation of the step, so that each operation is
  // measured. A backend that replays a recorded step does not call `enqueue`.
  void RunStep(const void*, absl::FunctionRef<void()> enqueue) override { enqueue(); }
  void WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) override;
  absl::Status ReadBlocks(const KvPool& pool, std::span<const BlockId> blocks,
                          std::span<std::byte> to) override {
    return backend_.ReadBlocks(pool, blocks, to);
  }
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
