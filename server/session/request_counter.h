// Counts the requests that the server has accepted and that have not ended, and limits their
// number.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace incipit {

// Counts requests and limits their number to a maximum. Thread-safe. REQUIRES: the RequestCounter
// outlives all Slot objects that Take returned.
class RequestCounter {
 public:
  // An object that counts as one request in the RequestCounter until the object is destroyed.
  class Slot {
   public:
    Slot() = default;
    Slot(Slot&& other) noexcept : counter_(std::exchange(other.counter_, nullptr)) {}
    Slot& operator=(Slot&& other) noexcept {
      std::swap(counter_, other.counter_);
      return *this;
    }
    ~Slot() {
      if (counter_ != nullptr) counter_->count_.fetch_sub(1);
    }

   private:
    friend class RequestCounter;
    explicit Slot(RequestCounter* counter) : counter_(counter) {}
    RequestCounter* counter_ = nullptr;
  };

  explicit RequestCounter(int32_t max) : max_(max) {}

  int32_t max() const { return max_; }
  int32_t count() const { return count_.load(); }
  // Counts one more request and returns its Slot. Returns nullopt if the maximum number of requests
  // is reached.
  std::optional<Slot> Take() {
    int32_t count = count_.load();
    do {
      if (count >= max_) return std::nullopt;
    } while (!count_.compare_exchange_weak(count, count + 1));
    return Slot(this);
  }

 private:
  const int32_t max_;
  std::atomic<int32_t> count_{0};
};

}  // namespace incipit
