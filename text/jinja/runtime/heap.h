// The memory and the limits of one rendering. A template charges every allocation and every unit of
// work to the heap in advance, so that no template exceeds the limits.
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

// Owns the containers and strings of one rendering, and counts the memory and the steps of the
// rendering. REQUIRES: every value of a string is destroyed before the heap. Not thread-safe.
class Heap {
 public:
  explicit Heap(const ChatTemplateLimits& limits) : limits_(limits) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const ChatTemplateLimits& limits() const { return limits_; }
  int32_t value_depth_max() const { return 2 * limits_.depth_max; }

  // Number of bytes charged for one entry of a dict, including the entry in the dict's index.
  static constexpr size_t kEntryBytes = 8 * sizeof(Value);

  // Charges `steps` steps before the work: one step for each node, element or KiB. Returns
  // INVALID_ARGUMENT if the total exceeds steps_max.
  absl::Status Charge(int64_t steps = 1) {
    steps_ += std::min(steps, limits_.steps_max);
    if (steps_ <= limits_.steps_max) [[likely]]
      return CheckMemory(0);
    return TooManySteps();
  }
  // Charges the steps for creating or searching `bytes` bytes of text: one step for each KiB. Call
  // ChargeBytes() before the work.
  absl::Status ChargeBytes(size_t bytes);
  // Returns INVALID_ARGUMENT if a string of `bytes` bytes exceeds output_bytes_max.
  absl::Status CheckSize(size_t bytes) const {
    if (bytes <= limits_.output_bytes_max) [[likely]]
      return absl::OkStatus();
    return TooLongString(bytes);
  }
  // Returns INVALID_ARGUMENT if `more_bytes` additional bytes would exceed memory_bytes_max.
  absl::Status CheckMemory(size_t more_bytes) const {
    if (cell_bytes_ + string_bytes_ + more_bytes <= limits_.memory_bytes_max) [[likely]] {
      return absl::OkStatus();
    }
    return TooMuchMemory();
  }
  // Counts `bytes` bytes of memory that a value on this heap will allocate and keep. Returns
  // INVALID_ARGUMENT if these bytes would exceed memory_bytes_max.
  absl::Status Take(size_t bytes);

  // Returns the text of `builder` as a string, marked safe if `markup` is set. `builder` is then
  // empty.
  absl::StatusOr<Value> Finish(TextBuilder& builder, bool markup = false);
  // Returns a string of `bytes`, all with the origin `origin`.
  absl::StatusOr<Value> MakeString(std::string_view bytes, Origin origin = Origin::kTemplate);
  // Returns the bytes [begin, end) of `string`, with the marks of their origin. If the range is the
  // whole string, the result shares the memory of `string`.
  absl::StatusOr<Value> Substring(const Value& string, size_t begin, size_t end);
  // Returns `left` followed by `right`. If no other string extends `left` and the memory of `left`
  // has room, `right` is appended in place. The time is then linear in the size of `right`.
  // Therefore a loop that extends one string takes time linear in the final size.
  absl::StatusOr<Value> Concatenate(const Value& left, const Value& right);

  // Returns a list or a tuple. `is_group` marks a pair of the filter groupby, whose two items are
  // also the attributes `grouper` and `list`.
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

  // Creates a cell (a container or another object) that lives as long as the heap.
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
  // Number of bytes that `cells_` needs for one cell.
  static constexpr size_t kCellOverhead = 2 * sizeof(Cell*);
  static constexpr size_t kBlockBytes = 64 << 10;  // size of a block of memory

  // Returns memory for one object of `bytes` bytes. The memory is freed with the heap.
  void* Allocate(size_t bytes);
  template <typename... Args>
  Value NewText(bool markup, Args&&... args);
  // Updates the counted memory after `text` was created or extended.
  void Count(Text& text);
  void Free(Text& text);

  absl::Status TooManySteps() const;
  absl::Status TooLongString(size_t bytes) const;
  absl::Status TooMuchMemory() const;
  absl::Status CheckDepth(int32_t depth) const;

  const ChatTemplateLimits limits_;
  int64_t steps_ = 0;
  size_t uncharged_bytes_ = 0;  // bytes of text, less than 1 KiB, not yet charged as a step
  size_t cell_bytes_ = 0;       // number of bytes of all cells and their contents
  size_t string_bytes_ = 0;     // number of bytes of all existing strings
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  size_t block_size_ = 0, block_used_ = 0;  // size and used bytes of the last block
  std::vector<Cell*> cells_;
  std::vector<void*> free_texts_;  // memory of destroyed strings, reused for new strings
};

}  // namespace incipit::jinja
