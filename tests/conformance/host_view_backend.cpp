#include "tests/conformance/host_view_backend.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/check.h"
#include "kernels/numeric.h"

namespace incipit {

class HostViewBackend::Matrix {
 public:
  Matrix(const TensorView& host, DType dtype) : host_(host) {
    INCIPIT_CHECK(host.dtype == DType::kF32);
    view_ = host;
    view_.dtype = dtype;
    auto memory = cuda::Memory::Allocate(cuda::Place::kPinned, view_.byte_size());
    INCIPIT_CHECK(memory.ok());
    memory_ = *std::move(memory);
    view_.data = memory_.data();
    if (view_.byte_size() == 0) return;
    if (dtype == DType::kF32) {
      std::memcpy(view_.data, host.data, host.byte_size());
      return;
    }
    for (int64_t i = 0; i < size(); ++i) {
      memory_.as<uint16_t>()[i] = NarrowBF16(static_cast<const float*>(host.data)[i]);
    }
  }

  const TensorView& view() const { return view_; }
  void ToHost() const {
    for (int64_t i = 0; i < size(); ++i) {
      static_cast<float*>(host_.data)[i] = LoadF32(view_.data, view_.dtype, i);
    }
  }

 private:
  int64_t size() const { return view_.rows * view_.cols; }

  TensorView host_, view_;
  cuda::Memory memory_;
};

BackendLimits HostViewBackend::limits() const {
  BackendLimits limits = device_->limits();
  limits.hidden_dtype = limits.activation_dtype = DType::kF32;
  return limits;
}

void HostViewBackend::Finish() {
  const absl::Status status = device_->Synchronize();
  EXPECT_TRUE(status.ok()) << status;
  if (status_.ok()) status_ = status;
}

absl::Status HostViewBackend::Synchronize() {
  Finish();
  return status_;
}

void HostViewBackend::Embed(const EmbedArgs& args) {
  const Matrix hidden(args.hidden, device_->limits().hidden_dtype);
  EmbedArgs with = args;
  with.hidden = hidden.view();
  device_->Embed(with);
  Finish();
  hidden.ToHost();
}

void HostViewBackend::QkvRopeAppend(const QkvRopeAppendArgs& args) {
  const Matrix hidden(args.hidden, device_->limits().hidden_dtype);
  const Matrix query(args.query, device_->limits().activation_dtype);
  QkvRopeAppendArgs with = args;
  with.hidden = hidden.view();
  with.query = query.view();
  device_->QkvRopeAppend(with);
  Finish();
  query.ToHost();
}

void HostViewBackend::Attention(const AttentionArgs& args) {
  const Matrix query(args.query, device_->limits().activation_dtype);
  const Matrix out(args.out, device_->limits().activation_dtype);
  AttentionArgs with = args;
  with.query = query.view();
  with.out = out.view();
  device_->Attention(with);
  Finish();
  out.ToHost();
}

void HostViewBackend::ProjectAdd(const ProjectAddArgs& args) {
  const Matrix x(args.x, device_->limits().activation_dtype);
  const Matrix hidden(args.hidden, device_->limits().hidden_dtype);
  ProjectAddArgs with = args;
  with.x = x.view();
  with.hidden = hidden.view();
  device_->ProjectAdd(with);
  Finish();
  hidden.ToHost();
}

void HostViewBackend::GateUpSilu(const GateUpSiluArgs& args) {
  const Matrix hidden(args.hidden, device_->limits().hidden_dtype);
  const Matrix out(args.out, device_->limits().activation_dtype);
  GateUpSiluArgs with = args;
  with.hidden = hidden.view();
  with.out = out.view();
  device_->GateUpSilu(with);
  Finish();
  out.ToHost();
}

void HostViewBackend::Logits(const LogitsArgs& args) {
  const Matrix hidden(args.hidden, device_->limits().hidden_dtype);
  const Matrix logits(args.logits, DType::kF32);
  LogitsArgs with = args;
  with.hidden = hidden.view();
  with.logits = logits.view();
  device_->Logits(with);
  Finish();
  logits.ToHost();
}

void HostViewBackend::Sample(const SampleArgs& args) {
  const Matrix logits(args.logits, DType::kF32);
  SampleArgs with = args;
  with.logits = logits.view();
  device_->Sample(with);
  Finish();
}

void HostViewBackend::Score(const ScoreArgs& args) {
  const Matrix logits(args.logits, DType::kF32);
  ScoreArgs with = args;
  with.logits = logits.view();
  device_->Score(with);
  Finish();
}

}  // namespace incipit
