#include "kernels/cuda/host/product_meter.h"

#include <algorithm>

#include "base/clock.h"
#include "base/status.h"

namespace incipit::cuda {
namespace {

constexpr int32_t kSamples = 4, kCallsMax = 32;
constexpr double kSampleSeconds = 0.002;
constexpr size_t kPatternBytes = size_t{4} << 20;

// Fills memory with bf16 numbers of both signs and absolute values in [2^-7, 2^-5).
void FillPattern(Memory& memory) {
  uint64_t state = 88172645463325252;  // state of the xorshift64 random number generator
  for (size_t i = 0; i < memory.byte_size() / sizeof(uint64_t); ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    memory.as<uint64_t>()[i] = (state & 0x80FF80FF80FF80FF) | 0x3C003C003C003C00;
  }
}

}  // namespace

absl::StatusOr<ProductMeter> ProductMeter::Create(Stream& stream, int64_t x_count,
                                                  size_t out_bytes) {
  ProductMeter meter(stream);
  const size_t x_bytes = static_cast<size_t>(x_count) * sizeof(dev::bf16);
  INCIPIT_ASSIGN_OR_RETURN(meter.num_rows_, Memory::Allocate(Place::kDevice, sizeof(int32_t)));
  INCIPIT_ASSIGN_OR_RETURN(meter.pinned_rows_, Memory::Allocate(Place::kPinned, sizeof(int32_t)));
  INCIPIT_ASSIGN_OR_RETURN(meter.x_, Memory::Allocate(Place::kDevice, x_bytes));
  INCIPIT_ASSIGN_OR_RETURN(meter.out_, Memory::Allocate(Place::kDevice, out_bytes));
  INCIPIT_ASSIGN_OR_RETURN(Memory pattern,
                           Memory::Allocate(Place::kPinned, std::min(x_bytes, kPatternBytes)));
  FillPattern(pattern);
  for (size_t done = 0; done < x_bytes; done += pattern.byte_size()) {
    stream.Copy(meter.x_.as<char>() + done, pattern.data(),
                std::min(pattern.byte_size(), x_bytes - done));
  }
  INCIPIT_RETURN_IF_ERROR(stream.Wait());
  return meter;
}

absl::Status ProductMeter::SetRows(int64_t rows) {
  *pinned_rows_.as<int32_t>() = static_cast<int32_t>(rows);
  stream_->Copy(num_rows_.data(), pinned_rows_.data(), sizeof(int32_t));
  return stream_->Wait();
}

absl::StatusOr<double> ProductMeter::SecondsOf(absl::FunctionRef<absl::Status()> enqueue) {
  const SteadyClock clock;
  double shortest = 0;
  int32_t calls = 1;
  // Iterations -2 and -1 are a warm-up, whose times are ignored. They load kernels and determine
  // the number of calls in each later iteration.
  for (int32_t sample = -2; sample < kSamples; ++sample) {
    const Time begin = clock.Now();
    for (int32_t i = 0; i < calls; ++i) INCIPIT_RETURN_IF_ERROR(enqueue());
    INCIPIT_RETURN_IF_ERROR(stream_->Wait());
    const double seconds = ToSeconds(clock.Now() - begin) / calls;
    if (sample == -1) {
      calls = static_cast<int32_t>(
          std::clamp(kSampleSeconds / std::max(seconds, 1e-9), 1.0, double{kCallsMax}));
    }
    if (sample <= 0 || seconds < shortest) shortest = seconds;
  }
  return shortest;
}

}  // namespace incipit::cuda
