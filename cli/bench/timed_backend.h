// A backend that forwards every call to another backend and measures the total time of each
// operation. The measured times are correct only if the other backend returns from a call after the
// operation is complete, as the CPU backend does.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "kernels/forwarding_backend.h"

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

class TimedBackend final : public ForwardingBackend {
 public:
  // Forwards calls to `backend`. The attention and the MLP both call ProjectAdd(), so the shape of
  // the weight matrix decides which operation the time belongs to. A matrix with
  // `intermediate_size` columns (the width of the MLP) belongs to kDown, and any other matrix to
  // kOutput. REQUIRES: `backend` outlives this object.
  TimedBackend(Backend& backend, int32_t intermediate_size)
      : ForwardingBackend(backend), intermediate_size_(intermediate_size) {}

  // Returns the total time of each operation since the previous call of TakeSeconds(), in seconds.
  OperationSeconds TakeSeconds();

  void WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) override;
  void CopyBlocks(KvPool& pool, std::span<const BlockCopy> copies) override;
  void Embed(const EmbedArgs& args) override;
  void QkvRopeAppend(const QkvRopeAppendArgs& args) override;
  void Attention(const AttentionArgs& args) override;
  void ProjectAdd(const ProjectAddArgs& args) override;
  void GateUpSilu(const GateUpSiluArgs& args) override;
  void Logits(const LogitsArgs& args) override;
  void Sample(const SampleArgs& args) override;
  void Score(const ScoreArgs& args) override;

 private:
  template <class F>
  void Timed(StepOperation operation, const F& run);

  const int64_t intermediate_size_;
  const SteadyClock clock_;
  OperationSeconds seconds_{};
};

}  // namespace incipit
