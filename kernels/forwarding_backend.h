// ForwardingBackend: a backend that forwards every call to another backend. A derived class changes
// some of the calls, for example to measure them.
#pragma once

#include <memory>
#include <span>

#include "kernels/backend.h"

namespace incipit {

class ForwardingBackend : public Backend {
 public:
  // REQUIRES: `backend` outlives this object.
  explicit ForwardingBackend(Backend& backend) : backend_(backend) {}

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
  // Always calls `enqueue`, so that a derived class receives each operation of the step. A backend
  // that replays a recorded step does not call `enqueue`.
  void RunStep(const void*, absl::FunctionRef<void()> enqueue) override { enqueue(); }
  void WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) override {
    backend_.WriteBlocks(pool, writes);
  }
  absl::Status ReadBlocks(const KvPool& pool, std::span<const BlockId> blocks,
                          std::span<std::byte> to) override {
    return backend_.ReadBlocks(pool, blocks, to);
  }
  void CopyBlocks(KvPool& pool, std::span<const BlockCopy> copies) override {
    backend_.CopyBlocks(pool, copies);
  }
  void Embed(const EmbedArgs& args) override { backend_.Embed(args); }
  void QkvRopeAppend(const QkvRopeAppendArgs& args) override { backend_.QkvRopeAppend(args); }
  void Attention(const AttentionArgs& args) override { backend_.Attention(args); }
  void ProjectAdd(const ProjectAddArgs& args) override { backend_.ProjectAdd(args); }
  void GateUpSilu(const GateUpSiluArgs& args) override { backend_.GateUpSilu(args); }
  void Logits(const LogitsArgs& args) override { backend_.Logits(args); }
  void Sample(const SampleArgs& args) override { backend_.Sample(args); }
  void Score(const ScoreArgs& args) override { backend_.Score(args); }
  absl::Status Synchronize() override { return backend_.Synchronize(); }

 private:
  Backend& backend_;
};

}  // namespace incipit
