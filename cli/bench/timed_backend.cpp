#include "cli/bench/timed_backend.h"

#include <utility>

namespace incipit {

std::string_view NameOf(StepOperation operation) {
  switch (operation) {
    case StepOperation::kQkv:
      return "qkv";
    case StepOperation::kAttention:
      return "attention";
    case StepOperation::kOutput:
      return "output";
    case StepOperation::kGateUp:
      return "gate_up";
    case StepOperation::kDown:
      return "down";
    case StepOperation::kLogits:
      return "logits";
    case StepOperation::kSampling:
      return "sampling";
    case StepOperation::kOther:
      return "other";
  }
  return "";
}

OperationSeconds TimedBackend::TakeSeconds() { return std::exchange(seconds_, {}); }

template <class F>
void TimedBackend::Timed(StepOperation operation, const F& run) {
  const Time begin = clock_.Now();
  run();
  seconds_[static_cast<size_t>(operation)] += ToSeconds(clock_.Now() - begin);
}

void TimedBackend::WriteBlocks(KvPool& pool, std::span<const BlockWrite> writes) {
  Timed(StepOperation::kOther, [&] { ForwardingBackend::WriteBlocks(pool, writes); });
}

void TimedBackend::CopyBlocks(KvPool& pool, std::span<const BlockCopy> copies) {
  Timed(StepOperation::kOther, [&] { ForwardingBackend::CopyBlocks(pool, copies); });
}

void TimedBackend::Embed(const EmbedArgs& args) {
  Timed(StepOperation::kOther, [&] { ForwardingBackend::Embed(args); });
}

void TimedBackend::QkvRopeAppend(const QkvRopeAppendArgs& args) {
  Timed(StepOperation::kQkv, [&] { ForwardingBackend::QkvRopeAppend(args); });
}

void TimedBackend::Attention(const AttentionArgs& args) {
  Timed(StepOperation::kAttention, [&] { ForwardingBackend::Attention(args); });
}

void TimedBackend::ProjectAdd(const ProjectAddArgs& args) {
  const bool is_mlp = args.weight->cols() == intermediate_size_;
  Timed(is_mlp ? StepOperation::kDown : StepOperation::kOutput,
        [&] { ForwardingBackend::ProjectAdd(args); });
}

void TimedBackend::GateUpSilu(const GateUpSiluArgs& args) {
  Timed(StepOperation::kGateUp, [&] { ForwardingBackend::GateUpSilu(args); });
}

void TimedBackend::Logits(const LogitsArgs& args) {
  Timed(StepOperation::kLogits, [&] { ForwardingBackend::Logits(args); });
}

void TimedBackend::Sample(const SampleArgs& args) {
  Timed(StepOperation::kSampling, [&] { ForwardingBackend::Sample(args); });
}

void TimedBackend::Score(const ScoreArgs& args) {
  Timed(StepOperation::kSampling, [&] { ForwardingBackend::Score(args); });
}

}  // namespace incipit
