// A wrapper around a device backend for tests, which use f32 matrices in host memory. Each
// operation converts its inputs to the formats of the device, waits for the result, and converts
// the result back to f32.
#pragma once

#include <memory>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit {

class HostViewBackend final : public Backend {
 public:
  explicit HostViewBackend(std::unique_ptr<Backend> device) : device_(std::move(device)) {}

  // Returns the limits of the device, but f32 as the type of activations.
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
  void WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) override {
    device_->WriteBlocks(pool, writes);
  }
  absl::Status ReadBlocks(const KvPool& pool, std::span<const BlockId> blocks,
                          std::span<std::byte> to) override {
    return device_->ReadBlocks(pool, blocks, to);
  }
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
  // A host matrix and its copy in the device's format, in memory that the device can read.
  class Matrix;

  void Finish();

  std::unique_ptr<Backend> device_;
  absl::Status status_;
};

}  // namespace incipit
