// Filters that are Python generators: they look at an item only when it is asked for.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/attribute_path.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operations.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;
using Item = absl::StatusOr<std::optional<Value>>;

// A generator over the items of `source`, which begins by looking at it.
class Generator : public Iterator {
 public:
  explicit Generator(Value source) : source_(std::move(source)) {}

  Item Next(Interpreter& in) final {
    if (done_) return std::optional<Value>();
    if (!started_) {
      started_ = true;
      INCIPIT_ASSIGN_OR_RETURN(items_, Start(in, source_));
      done_ = items_ == nullptr;
      if (done_) return std::optional<Value>();
    }
    INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, Produce(in, *items_));
    done_ = !item;
    return item;
  }

 protected:
  // What to iterate over; nullptr if there is nothing to do.
  virtual absl::StatusOr<Iterator*> Start(Interpreter& in, const Value& source) = 0;
  virtual Item Produce(Interpreter& in, Iterator& items) = 0;

 private:
  Value source_;
  Iterator* items_ = nullptr;
  bool started_ = false, done_ = false;
};

// The rest of a filter's arguments as those of the filter or test that it applies.
Arguments WithItem(const Arguments& rest, Value item) {
  Arguments arguments;
  arguments.positional.reserve(rest.positional.size() + 1);
  arguments.positional.push_back(std::move(item));
  arguments.positional.insert(arguments.positional.end(), rest.positional.begin(),
                              rest.positional.end());
  arguments.keyword = rest.keyword;
  return arguments;
}

class MappedItems final : public Generator {
 public:
  MappedItems(Value source, Arguments rest)
      : Generator(std::move(source)), rest_(std::move(rest)) {}

 protected:
  absl::StatusOr<Iterator*> Start(Interpreter& in, const Value& source) override {
    INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(in, source));
    if (!truth) return nullptr;
    INCIPIT_RETURN_IF_ERROR(Prepare(in));
    return Iterate(in, source);
  }

  Item Produce(Interpreter& in, Iterator& items) override {
    INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, items.Next(in));
    if (!item) return item;
    if (path_) {
      INCIPIT_ASSIGN_OR_RETURN(Value value, path_->Get(in, std::move(*item), &default_));
      return std::optional(std::move(value));
    }
    Arguments arguments = WithItem(rest_, std::move(*item));
    INCIPIT_ASSIGN_OR_RETURN(Value value, in.CallFilter(filter_, arguments));
    return std::optional(std::move(value));
  }

 private:
  absl::Status Prepare(Interpreter& in) {
    if (!rest_.positional.empty()) {
      filter_ = rest_.positional.front();
      rest_.positional.erase(rest_.positional.begin());
      return absl::OkStatus();
    }
    std::optional<Value> attribute;
    for (const auto& [name, value] : rest_.keyword) {
      if (name.bytes() == "attribute") attribute = value;
    }
    if (!attribute) return InvalidArgument("map requires a filter argument");
    for (const auto& [name, value] : rest_.keyword) {
      if (name.bytes() == "default") {
        default_ = value;
      } else if (name.bytes() != "attribute") {
        return InvalidArgument("map() got an unexpected keyword argument '{}'", name.bytes());
      }
    }
    INCIPIT_ASSIGN_OR_RETURN(path_, AttributePath::Make(in, *attribute));
    return absl::OkStatus();
  }

  Arguments rest_;
  std::optional<AttributePath> path_;
  Value filter_;
  Value default_ = Value::None();
};

class SelectedItems final : public Generator {
 public:
  struct Mode {
    bool keeps = true;  // what passes the test; else what does not
    bool by_attribute = false;
  };
  SelectedItems(Value source, Arguments rest, Mode mode)
      : Generator(std::move(source)), rest_(std::move(rest)), mode_(mode) {}

 protected:
  absl::StatusOr<Iterator*> Start(Interpreter& in, const Value& source) override {
    INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(in, source));
    if (!truth) return nullptr;
    auto& positional = rest_.positional;
    if (mode_.by_attribute) {
      if (positional.empty()) return InvalidArgument("missing parameter for attribute name");
      INCIPIT_ASSIGN_OR_RETURN(path_, AttributePath::Make(in, positional.front()));
      positional.erase(positional.begin());
    }
    if (!positional.empty()) {
      test_ = positional.front();
      positional.erase(positional.begin());
    }
    return Iterate(in, source);
  }

  Item Produce(Interpreter& in, Iterator& items) override {
    while (true) {
      INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, items.Next(in));
      if (!item) return item;
      INCIPIT_ASSIGN_OR_RETURN(Value value, path_.Get(in, *item));
      if (test_) {
        Arguments arguments = WithItem(rest_, std::move(value));
        INCIPIT_ASSIGN_OR_RETURN(value, in.CallTest(*test_, arguments));
      }
      INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(in, value));
      if (truth == mode_.keeps) return item;
    }
  }

 private:
  Arguments rest_;
  const Mode mode_;
  AttributePath path_;
  std::optional<Value> test_;
};

class BatchedItems final : public Generator {
 public:
  BatchedItems(Value source, Value size, Value fill)
      : Generator(std::move(source)), size_(std::move(size)), fill_(std::move(fill)) {}

 protected:
  absl::StatusOr<Iterator*> Start(Interpreter& in, const Value& source) override {
    return Iterate(in, source);
  }

  Item Produce(Interpreter& in, Iterator& items) override {
    std::vector<Value> batch;
    if (held_) batch.push_back(*std::exchange(held_, std::nullopt));
    while (true) {
      INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, items.Next(in));
      if (!item) break;
      INCIPIT_ASSIGN_OR_RETURN(const bool full,
                               Equal(in, Value::Integer(static_cast<Int>(batch.size())), size_));
      if (full) {
        held_ = std::move(item);
        return Finish(in, std::move(batch));
      }
      batch.push_back(std::move(*item));
    }
    if (batch.empty()) return std::optional<Value>();
    if (!fill_.is_none()) {
      INCIPIT_ASSIGN_OR_RETURN(const bool less,
                               Less(in, Value::Integer(static_cast<Int>(batch.size())), size_));
      if (less) {
        INCIPIT_ASSIGN_OR_RETURN(const Int size, ToIndex(size_, "linecount"));
        const Int missing = size - static_cast<Int>(batch.size());
        if (missing > in.heap().limits().steps_max) return in.heap().Charge(missing);
        INCIPIT_RETURN_IF_ERROR(in.heap().Charge(static_cast<int64_t>(missing)));
        batch.insert(batch.end(), static_cast<size_t>(missing), fill_);
      }
    }
    return Finish(in, std::move(batch));
  }

 private:
  static Item Finish(Interpreter& in, std::vector<Value> batch) {
    INCIPIT_ASSIGN_OR_RETURN(Value list, in.heap().MakeList(std::move(batch)));
    return std::optional(std::move(list));
  }

  Value size_, fill_;
  std::optional<Value> held_;  // the first item of the next batch
};

class SlicedItems final : public Generator {
 public:
  SlicedItems(Value source, Value slices, Value fill)
      : Generator(std::move(source)), slices_(std::move(slices)), fill_(std::move(fill)) {}

 protected:
  absl::StatusOr<Iterator*> Start(Interpreter& in, const Value& source) override {
    INCIPIT_ASSIGN_OR_RETURN(sequence_, ToVector(in, source));
    INCIPIT_ASSIGN_OR_RETURN(num_slices_, ToIndex(slices_, "slices"));
    if (num_slices_ == 0) return InvalidArgument("division by zero");
    return num_slices_ < 0 ? nullptr : Iterate(in, source);
  }

  Item Produce(Interpreter& in, Iterator&) override {
    if (next_ >= num_slices_) return std::optional<Value>();
    INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
    const Int length = static_cast<Int>(sequence_.size());
    const Int per_slice = length / num_slices_, with_extra = length % num_slices_;
    const auto begin_of = [&](Int slice) {
      return static_cast<ptrdiff_t>(slice * per_slice + std::min(slice, with_extra));
    };
    std::vector<Value> slice(sequence_.begin() + begin_of(next_),
                             sequence_.begin() + begin_of(next_ + 1));
    if (!fill_.is_none() && next_ >= with_extra) slice.push_back(fill_);
    ++next_;
    INCIPIT_ASSIGN_OR_RETURN(Value list, in.heap().MakeList(std::move(slice)));
    return std::optional(std::move(list));
  }

 private:
  Value slices_, fill_;
  std::vector<Value> sequence_;
  Int num_slices_ = 0, next_ = 0;
};

class MappingItems final : public Generator {
 public:
  using Generator::Generator;

 protected:
  absl::StatusOr<Iterator*> Start(Interpreter& in, const Value& source) override {
    if (source.is_undefined()) return nullptr;
    if (!source.is(Kind::kDict)) return InvalidArgument("can only get item pairs from a mapping");
    return in.heap().New<DictIterator>(source.dict(), DictIterator::Part::kItems);
  }
  Item Produce(Interpreter& in, Iterator& items) override { return items.Next(in); }
};

Result TakeSource(std::string_view name, Arguments& arguments) {
  if (arguments.positional.empty()) return InvalidArgument("{}() is missing its value", name);
  Value source = std::move(arguments.positional.front());
  arguments.positional.erase(arguments.positional.begin());
  return source;
}

Result Map(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(Value source, TakeSource("map", arguments));
  return Value::OfIterator(in.heap().New<MappedItems>(std::move(source), std::move(arguments)));
}

template <bool keeps, bool by_attribute>
Result Select(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(Value source, TakeSource("select", arguments));
  return Value::OfIterator(in.heap().New<SelectedItems>(
      std::move(source), std::move(arguments),
      SelectedItems::Mode{.keeps = keeps, .by_attribute = by_attribute}));
}

Result Items(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"items", {"value"}, 1}, arguments));
  return Value::OfIterator(in.heap().New<MappingItems>(bound[0]));
}

Result Batch(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"batch", {"value", "linecount", "fill_with"}, 2}, arguments));
  return Value::OfIterator(
      in.heap().New<BatchedItems>(bound[0], bound[1], bound.IsNone(2) ? Value::None() : bound[2]));
}

Result SliceFilter(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"slice", {"value", "slices", "fill_with"}, 2}, arguments));
  return Value::OfIterator(
      in.heap().New<SlicedItems>(bound[0], bound[1], bound.IsNone(2) ? Value::None() : bound[2]));
}

Result Attribute(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"attr", {"obj", "name"}, 2}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Value name, bound.String(1));
  if (bound[0].is_undefined()) return UndefinedError(bound[0]);
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> found,
                           FindAttribute(in, bound[0], name.bytes()));
  if (found) return GetAttribute(in, bound[0], name);
  return in.heap().MakeUndefined(
      fmt::format("'{} object' has no such attribute", TypeName(bound[0])));
}

constexpr NamedBuiltin kSelectionFilters[] = {
    {"attr", Attribute},
    {"batch", Batch},
    {"items", Items},
    {"map", Map},
    {"reject", Select<false, false>},
    {"rejectattr", Select<false, true>},
    {"select", Select<true, false>},
    {"selectattr", Select<true, true>},
    {"slice", SliceFilter},
};

}  // namespace

std::span<const NamedBuiltin> SelectionFilters() { return kSelectionFilters; }

}  // namespace incipit::jinja
