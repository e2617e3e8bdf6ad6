// What one rendering has made, and what it may still use. Every allocation and every unit of work
// of a template is charged here before it happens, so no template can outgrow its limits.
#pragma once

#include <deque>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/runtime/template_limits.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// Not thread-safe: one per rendering. Everything that it made dies with it, except finished strings
// that are still shared; those must not outlive it either.
class Heap {
 public:
  explicit Heap(const ChatTemplateLimits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const ChatTemplateLimits& limits() const { return limits_; }
  int32_t value_depth_max() const { return 2 * limits_.depth_max; }

  static constexpr size_t kEntryBytes = 4 * sizeof(Value);  // of a dict, with its index

  // One step for each node, element or KiB that is about to be worked on.
  absl::Status Charge(int64_t steps = 1);
  // Before text of this size is made or searched.
  absl::Status ChargeBytes(size_t bytes);
  absl::Status CheckSize(size_t bytes) const;  // of one string
  absl::Status CheckMemory(size_t more_bytes) const;
  // Memory that something on this heap is about to take, and keeps.
  absl::Status Take(size_t bytes);

  // The text as a string; `builder` is left empty.
  absl::StatusOr<Value> Finish(TextBuilder& builder, bool markup = false);
  absl::StatusOr<Value> MakeString(std::string_view bytes, Origin origin = Origin::kTemplate);
  // A range of bytes of another string, with its marks. The whole range shares it.
  absl::StatusOr<Value> Substring(const Value& string, size_t begin, size_t end);

  // A list or a tuple. `is_group`: the pair of groupby, whose parts are also attributes.
  absl::StatusOr<Value> MakeSequence(Kind kind, std::vector<Value> items,
                                     Origin origin = Origin::kTemplate, bool is_group = false);
  absl::StatusOr<Value> MakeList(std::vector<Value> items) {
    return MakeSequence(Kind::kList, std::move(items));
  }
  absl::StatusOr<Value> MakeTuple(std::vector<Value> items) {
    return MakeSequence(Kind::kTuple, std::move(items));
  }
  // A dict that may still be Set, until it is passed to Finish.
  absl::StatusOr<Dict*> NewDict(size_t num_entries);
  absl::StatusOr<Value> Finish(Dict* dict);
  Value MakeUndefined(std::string message);

  template <typename T, typename... Args>
  T* New(Args&&... args) {
    auto cell = std::make_unique<T>(std::forward<Args>(args)...);
    T* result = cell.get();
    cells_.push_back(std::move(cell));
    cell_bytes_ += sizeof(T) + kCellOverhead;
    return result;
  }

 private:
  static constexpr size_t kCellOverhead = 48;  // of the allocator and the list of cells

  absl::Status CheckDepth(int32_t depth) const;

  const ChatTemplateLimits limits_;
  int64_t steps_ = 0;
  size_t uncharged_bytes_ = 0;
  size_t cell_bytes_ = 0;
  size_t string_bytes_ = 0;  // of the strings that are alive
  std::deque<std::unique_ptr<Cell>> cells_;
};

}  // namespace incipit::jinja
