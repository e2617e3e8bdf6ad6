// The memory and the limits of one rendering. A template charges every allocation and every unit of
// work to the heap in advance, so that no template exceeds its limits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/runtime/template_limits.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// Owns the values of one rendering. Destroying the heap destroys all values except finished strings
// that are still shared. REQUIRES: no finished string outlives the heap. Not thread-safe.
class Heap {
 public:
  explicit Heap(const ChatTemplateLimits& limits) : limits_(limits) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const ChatTemplateLimits& limits() const { return limits_; }
  int32_t value_depth_max() const { return 2 * limits_.depth_max; }

  // Bytes charged for an entry of a dict and its index.
  static constexpr size_t kEntryBytes = 8 * sizeof(Value);

  // Charges `steps` steps before the work: one step for each node, element or KiB. Returns
  // INVALID_ARGUMENT if the total exceeds steps_max.
  absl::Status Charge(int64_t steps = 1) {
    steps_ += std::min(steps, limits_.steps_max);
    if (steps_ <= limits_.steps_max) [[likely]]
      return CheckMemory(0);
    return TooManySteps();
  }
  // Before text of this size is made or searched.
  absl::Status ChargeBytes(size_t bytes);
  absl::Status CheckSize(size_t bytes) const {  // of one string
    if (bytes <= limits_.output_bytes_max) [[likely]]
      return absl::OkStatus();
    return TooLongString(bytes);
  }
  absl::Status CheckMemory(size_t more_bytes) const {
    if (cell_bytes_ + string_bytes_ + more_bytes <= limits_.memory_bytes_max) [[likely]] {
      return absl::OkStatus();
    }
    return TooMuchMemory();
  }
  // Memory that something on this heap is about to take, and keeps.
  absl::Status Take(size_t bytes);

  // Returns the text of `builder` as a string. `builder` is then empty.
  absl::StatusOr<Value> Finish(TextBuilder& builder, bool markup = false);
  absl::StatusOr<Value> MakeString(std::string_view bytes, Origin origin = Origin::kTemplate);
  // Returns the bytes [begin, end) of `string`, with the marks of their origin. If the range is the
  // whole string, the result shares the memory of `string`.
  absl::StatusOr<Value> Substring(const Value& string, size_t begin, size_t end);
  // The right string behind the left one. Takes time linear in `right` if `left` is the latest of
  // several concatenations, so that adding to a string again and again is linear too.
  absl::StatusOr<Value> Concatenate(const Value& left, const Value& right);

  // Returns a list or a tuple. `is_group` marks the pairs of groupby, whose two items are also
  // attributes.
  absl::StatusOr<Value> MakeSequence(Kind kind, std::vector<Value> items,
                                     Origin origin = Origin::kTemplate, bool is_group = false);
  absl::StatusOr<Value> MakeList(std::vector<Value> items) {
    return MakeSequence(Kind::kList, std::move(items));
  }
  absl::StatusOr<Value> MakeTuple(std::vector<Value> items) {
    return MakeSequence(Kind::kTuple, std::move(items));
  }
  // Returns a dict. Set() may be called on the dict until the dict is passed to Finish().
  absl::StatusOr<Dict*> NewDict(size_t num_entries);
  absl::StatusOr<Value> Finish(Dict* dict);
  template <typename... Args>
  Value MakeUndefined(Args&&... reason) {
    return Value::Undefined(New<UndefinedReason>(std::forward<Args>(reason)...));
  }

  template <typename T, typename... Args>
  T* New(Args&&... args) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    T* const cell = new (Allocate(sizeof(T))) T(std::forward<Args>(args)...);
    cells_.push_back(cell);
    cell_bytes_ += sizeof(T) + kCellOverhead;
    return cell;
  }

 private:
  friend class Value;
  static constexpr size_t kCellOverhead = 2 * sizeof(Cell*);  // of the list of cells
  static constexpr size_t kBlockBytes = 64 << 10;

  // Memory for one object, which is not freed before the heap is.
  void* Allocate(size_t bytes);
  template <typename... Args>
  Value NewText(bool markup, Args&&... args);
  // Counts the memory of a string that is new or was added to.
  void Count(Text& text);
  void Free(Text& text);

  absl::Status TooManySteps() const;
  absl::Status TooLongString(size_t bytes) const;
  absl::Status TooMuchMemory() const;
  absl::Status CheckDepth(int32_t depth) const;

  const ChatTemplateLimits limits_;
  int64_t steps_ = 0;
  size_t uncharged_bytes_ = 0;
  size_t cell_bytes_ = 0;
  size_t string_bytes_ = 0;  // memory of all strings that exist
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  size_t block_size_ = 0, block_used_ = 0;  // of the last block
  std::vector<Cell*> cells_;
  std::vector<void*> free_texts_;  // memory of strings that are gone
};

}  // namespace incipit::jinja
