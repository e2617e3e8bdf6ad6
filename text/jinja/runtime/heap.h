// Limits the memory and the work of one rendering of a template. The class Heap counts memory and
// work before the rendering uses them.
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

// Owns the containers and strings of one rendering of a template, and counts their memory and the
// steps (units of work) of the rendering. REQUIRES: all Values with strings of the heap are
// destroyed before the heap. Not thread-safe.
class Heap {
 public:
  explicit Heap(const ChatTemplateLimits& limits) : limits_(limits) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const ChatTemplateLimits& limits() const { return limits_; }
  int32_t value_depth_max() const { return 2 * limits_.depth_max; }

  // Number of bytes that the heap counts for one entry of a dict, including the entry in the search
  // index of the dict.
  static constexpr size_t kEntryBytes = 8 * sizeof(Value);

  // Counts `steps` steps of work. One step is, for example, the evaluation of one node of the
  // template. Returns INVALID_ARGUMENT if the total exceeds the limit steps_max. The caller must
  // call Charge() before the work.
  absl::Status Charge(int64_t steps = 1) {
    steps_ += std::min(steps, limits_.steps_max);
    if (steps_ <= limits_.steps_max) [[likely]]
      return CheckMemory(0);
    return TooManySteps();
  }
  // Counts the work of creating or searching `bytes` bytes of text: one step for each KiB. The
  // caller must call ChargeBytes() before the work.
  absl::Status ChargeBytes(size_t bytes);
  // Returns INVALID_ARGUMENT if a string of `bytes` bytes exceeds the limit output_bytes_max.
  absl::Status CheckSize(size_t bytes) const {
    if (bytes <= limits_.output_bytes_max) [[likely]]
      return absl::OkStatus();
    return TooLongString(bytes);
  }
  // Returns INVALID_ARGUMENT if the memory of the rendering plus `more_bytes` bytes exceeds the
  // limit memory_bytes_max.
  absl::Status CheckMemory(size_t more_bytes) const {
    if (cell_bytes_ + string_bytes_ + more_bytes <= limits_.memory_bytes_max) [[likely]] {
      return absl::OkStatus();
    }
    return TooMuchMemory();
  }
  // Counts `bytes` bytes of memory that a value is about to allocate. Returns INVALID_ARGUMENT if
  // the total would exceed the limit memory_bytes_max.
  absl::Status Take(size_t bytes);

  // Moves the text of `builder` to a new string. If `markup` is true, marks the string as safe: its
  // text is not HTML-escaped.
  absl::StatusOr<Value> Finish(TextBuilder& builder, bool markup = false);
  // Creates a string with the bytes `bytes`. `origin` is the source of the text: the template or
  // the request.
  absl::StatusOr<Value> MakeString(std::string_view bytes, Origin origin = Origin::kTemplate);
  // Returns the bytes [begin, end) of `string` as a string. Bytes that are marked as written by a
  // client keep the mark.
  absl::StatusOr<Value> Substring(const Value& string, size_t begin, size_t end);
  // Returns `left` followed by `right`. If the memory of `left` has unused space behind it, appends
  // `right` there without copying `left`.
  absl::StatusOr<Value> Concatenate(const Value& left, const Value& right);

  // Creates a list or a tuple with the items `items`. `is_group` is true for a tuple (key, items)
  // that the filter groupby creates.
  absl::StatusOr<Value> MakeSequence(Kind kind, std::vector<Value> items,
                                     Origin origin = Origin::kTemplate, bool is_group = false);
  absl::StatusOr<Value> MakeList(std::vector<Value> items) {
    return MakeSequence(Kind::kList, std::move(items));
  }
  absl::StatusOr<Value> MakeTuple(std::vector<Value> items) {
    return MakeSequence(Kind::kTuple, std::move(items));
  }
  // Creates an empty dict. The caller may add entries until Finish() makes the dict a value.
  absl::StatusOr<Dict*> NewDict(size_t num_entries);
  absl::StatusOr<Value> Finish(Dict* dict);
  template <typename... Args>
  Value MakeUndefined(Args&&... reason) {
    return Value::Undefined(New<UndefinedReason>(std::forward<Args>(reason)...));
  }

  // Creates an object of the type T that lives as long as the heap.
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
  // Number of bytes that the heap counts for the pointer to one object in the vector `cells_`. The
  // pointer counts twice, because a growing vector may reserve twice the necessary memory.
  static constexpr size_t kCellOverhead = 2 * sizeof(Cell*);
  static constexpr size_t kBlockBytes = 64 << 10;  // size of a block of memory, in bytes

  void* Allocate(size_t bytes);
  template <typename... Args>
  Value NewText(bool markup, Args&&... args);
  // Updates the memory that the heap counts for `text`. The caller must call Count() after `text`
  // was created or extended.
  void Count(Text& text);
  void Free(Text& text);

  absl::Status TooManySteps() const;
  absl::Status TooLongString(size_t bytes) const;
  absl::Status TooMuchMemory() const;
  absl::Status CheckDepth(int32_t depth) const;

  const ChatTemplateLimits limits_;
  int64_t steps_ = 0;
  // Number of bytes of text that are not yet counted in `steps_`; less than one step (1024 bytes).
  size_t uncharged_bytes_ = 0;
  size_t cell_bytes_ = 0;    // number of bytes of all objects except strings
  size_t string_bytes_ = 0;  // number of bytes of all strings that exist now
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  // Size of the last memory block in `blocks_`, and the size of its used part, in bytes.
  size_t block_size_ = 0, block_used_ = 0;
  std::vector<Cell*> cells_;
  std::vector<void*> free_texts_;  // memory of destroyed strings, which new strings reuse
};

}  // namespace incipit::jinja
