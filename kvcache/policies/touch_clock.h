// A clock that counts uses of cache blocks (touches) instead of time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace incipit {

// A clock that counts uses of cache blocks (touches). The age of a block is the number of uses of
// all blocks since its last use. Ages must be below 2^32.
class TouchClock {
 public:
  using Stamp = uint32_t;

  // Number of ranges into which block ages are divided. The ranges begin at 0, 16, 24, 32, 48, 64,
  // 96, ... units. Example: if a unit is 4 block uses, the second range begins at an age of 64
  // block uses.
  static constexpr int kAges = 48;
  static constexpr uint64_t kFirstAge = 16;

  // `start`: first value of now(). `unit`: number of block uses in one unit of age. `epoch`: number
  // of block uses in one epoch. REQUIRES: `unit` and `epoch` are powers of two.
  TouchClock(uint64_t start, uint32_t unit, uint32_t epoch)
      : now_(start), unit_shift_(std::countr_zero(unit)), epoch_shift_(std::countr_zero(epoch)) {}

  void Advance(uint64_t touches) { now_ += touches; }
  uint64_t now() const { return now_; }
  Stamp stamp() const { return static_cast<Stamp>(now_); }
  uint32_t AgeOf(Stamp stamp) const { return this->stamp() - stamp; }

  uint64_t epoch() const { return now_ >> epoch_shift_; }
  uint64_t EpochOf(Stamp stamp) const { return (now_ - AgeOf(stamp)) >> epoch_shift_; }
  uint32_t epoch_touches() const { return uint32_t{1} << epoch_shift_; }

  int AgeClassOf(Stamp stamp) const { return AgeClass(AgeOf(stamp)); }
  int AgeClass(uint64_t age) const {
    const uint64_t units = age >> unit_shift_;
    if (units < kFirstAge) return 0;
    const int octave = static_cast<int>(std::bit_width(units)) - 1;
    const int half = static_cast<int>(units >> (octave - 1) & 1);
    const int first_octave = static_cast<int>(std::bit_width(kFirstAge)) - 1;
    return std::min(2 * (octave - first_octave) + 1 + half, kAges - 1);
  }
  // Returns the lowest age in the range of ages with the index `age_class`, in units (a unit is a
  // fixed number of block uses). BeginOf(kAges) is the end of the last range.
  static constexpr double BeginOf(int age_class) {
    if (age_class == 0) return 0;
    const auto octave = static_cast<double>(kFirstAge << (age_class - 1) / 2);
    return age_class % 2 == 1 ? octave : octave * 1.5;
  }
  double units_per_touch() const { return 1.0 / static_cast<double>(uint64_t{1} << unit_shift_); }

 private:
  uint64_t now_;
  int unit_shift_, epoch_shift_;
};

}  // namespace incipit
