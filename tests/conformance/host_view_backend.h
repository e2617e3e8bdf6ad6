// A device's backend as the tests see one: f32 matrices on the host go in and come out. Every
// operation converts its inputs to the formats that the backend computes in, runs to its end, and
// converts its results back.
#pragma once

#include <memory>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit {

class HostViewBackend final : public Backend {
 public:
  explicit HostViewBackend(std::unique_ptr<Backend> device) : device_(std::move(device)) {}

  // As the device's, but that activations are f32.
  BackendLimits limits() const override;
  size_t FreeBytes() const override { return device_->FreeBytes(); }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    return device_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<KvPool>> CreateKvPool(const KvPoolShape& shape) override {
    return device_->CreateKvPool(shape);
  }
  absl::StatusOr<std::unique_ptr<Weight>> PackWeight(std::span<const ConstTensorView> parts,
                                                     WeightUse use, WeightFormat format,
                                                     Shard shard) override {
    return device_->PackWeight(parts, use, format, shard);
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Store(std::span<const ConstTensorView> parts) override {
    return device_->Store(parts);
  }
  absl::Status Reserve(const StepBounds& bounds) override { return device_->Reserve(bounds); }
  void Upload(const Step& step, const StepLogits& logits) override {
    device_->Upload(step, logits);
  }
  void RunStep(const void*, absl::FunctionRef<void()> enqueue) override { enqueue(); }
  void CopyBlocks(KvPool& pool, std::span<const BlockCopy> copies) override {
    device_->CopyBlocks(pool, copies);
  }
  void Embed(const EmbedArgs& args) override;
  void QkvRopeAppend(const QkvRopeAppendArgs& args) override;
  void Attention(const AttentionArgs& args) override;
  void ProjectAdd(const ProjectAddArgs& args) override;
  void GateUpSilu(const GateUpSiluArgs& args) override;
  void Logits(const LogitsArgs& args) override;
  void Sample(const SampleArgs& args) override;
  void Score(const ScoreArgs& args) override;
  absl::Status Synchronize() override;

 private:
  // A matrix where the device finds it, in its format.
  class Matrix;

  void Finish();

  std::unique_ptr<Backend> device_;
  absl::Status status_;
};

}  // namespace incipit
