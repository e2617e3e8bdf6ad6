#include "kernels/cpu/candidates.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/sampling.h"

namespace incipit {

uint64_t Candidates::mass(int64_t i) const { return MassOf(weights_[i]); }

void Candidates::KeepLargest(int64_t k) {
  if (k >= size_) return;
  const auto one = [](int64_t) { return uint64_t{1}; };
  KeepUpTo(FindCut(static_cast<uint64_t>(k), one), one);
}

void Candidates::KeepMass(uint64_t wanted) {
  const auto mass_of = [this](int64_t i) { return mass(i); };
  KeepUpTo(FindCut(wanted, mass_of), mass_of);
}

// Adds up value_of(i) for the candidates i, those with the largest logits first. Finds the logit at
// which the sum reaches `wanted`.
template <class ValueOf>
Candidates::Cut Candidates::FindCut(uint64_t wanted, const ValueOf& value_of) {
  struct Digit {
    int shift, bits;
  };
  uint32_t prefix = 0;
  for (const auto [shift, bits] : {Digit{21, 11}, Digit{10, 11}, Digit{0, 10}}) {
    const uint32_t digits = uint32_t{1} << bits;
    std::fill_n(histogram_.begin(), digits, 0);
    for (int64_t i = 0; i < size_; ++i) {
      const uint32_t key = OrderKey(logits_[i]);
      if (uint64_t{key} >> (shift + bits) != prefix) continue;
      histogram_[key >> shift & (digits - 1)] += value_of(i);
    }
    uint32_t digit = digits - 1;
    while (histogram_[digit] < wanted) {
      INCIPIT_CHECK(digit > 0);
      wanted -= histogram_[digit--];
    }
    prefix = prefix << bits | digit;
  }
  return {prefix, wanted};
}

template <class ValueOf>
void Candidates::KeepUpTo(Cut cut, const ValueOf& value_of) {
  int64_t kept = 0;
  for (int64_t i = 0; i < size_; ++i) {
    const uint32_t key = OrderKey(logits_[i]);
    if (key < cut.key || (key == cut.key && cut.wanted_of_equals == 0)) continue;
    if (key == cut.key) cut.wanted_of_equals -= std::min(cut.wanted_of_equals, value_of(i));
    tokens_[kept] = tokens_[i];
    logits_[kept] = logits_[i];
    weights_[kept] = weights_[i];
    ++kept;
  }
  size_ = kept;
}

}  // namespace incipit
