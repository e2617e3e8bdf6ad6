// Filters that are Python generators: map, select and their kin look at an item only when it is
// asked for, the others at all of them when the first is.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/attribute_path.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operations.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;
using Item = absl::StatusOr<std::optional<Value>>;
using Items = absl::StatusOr<std::vector<Value>>;

// A filter or test that is applied to items, with the arguments that follow the item.
class Application {
 public:
  Application(std::string_view kind, Arguments rest) : kind_(kind), rest_(std::move(rest)) {}

  // Takes the name, which is the first of the arguments.
  void TakeName() {
    name_ = std::move(rest_.positional.front());
    rest_.positional.erase(rest_.positional.begin());
    if (!name_.is_string()) return;
    builtin_ = kind_ == "filter" ? FindFilter(name_.bytes()) : FindTest(name_.bytes());
  }
  bool has_name() const { return !name_.is(Kind::kMissing); }
  Arguments& rest() { return rest_; }

  Result Apply(Interpreter& in, Value item) const {
    Arguments arguments;
    arguments.positional.reserve(NamedBuiltin::kParametersMax);
    arguments.positional.push_back(std::move(item));
    arguments.positional.insert(arguments.positional.end(), rest_.positional.begin(),
                                rest_.positional.end());
    arguments.keyword = rest_.keyword;
    return in.Apply(kind_, name_.is_string() ? name_.bytes() : TypeName(name_), builtin_,
                    arguments);
  }

 private:
  std::string_view kind_;
  Arguments rest_;
  Value name_;
  const NamedBuiltin* builtin_ = nullptr;
};

// A generator over the items of `source`, which begins by looking at it.
class Generator : public Iterator {
 public:
  explicit Generator(Value source) : source_(std::move(source)) {}

  // Generators over generators are a recursion.
  Item Next(Interpreter& in) final {
    INCIPIT_RETURN_IF_ERROR(in.Enter());
    Item item = TryNext(in);
    in.Leave();
    return item;
  }

 protected:
  // Before the first item, if there is any.
  virtual absl::Status Start(Interpreter& in) = 0;
  virtual Item Produce(Interpreter& in, Iterator& items) = 0;

 private:
  Item TryNext(Interpreter& in) {
    if (done_) return std::optional<Value>();
    if (items_ == nullptr) {
      done_ = true;  // unless it goes well
      INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(in, source_));
      if (!truth) return std::optional<Value>();
      INCIPIT_RETURN_IF_ERROR(Start(in));
      INCIPIT_ASSIGN_OR_RETURN(items_, Iterate(in, source_));
    }
    INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, Produce(in, *items_));
    done_ = !item;
    return item;
  }

  Value source_;
  Iterator* items_ = nullptr;
  bool done_ = false;
};

class MappedItems final : public Generator {
 public:
  MappedItems(Value source, Arguments rest)
      : Generator(std::move(source)), filter_("filter", std::move(rest)) {}

 protected:
  absl::Status Start(Interpreter& in) override {
    if (!filter_.rest().positional.empty()) {
      filter_.TakeName();
      return absl::OkStatus();
    }
    const Value attribute = filter_.rest().TakeKeyword("attribute");
    if (attribute.is(Kind::kMissing)) return InvalidArgument("map requires a filter argument");
    default_ = filter_.rest().TakeKeyword("default");
    INCIPIT_RETURN_IF_ERROR(filter_.rest().RefuseKeywords("map"));
    INCIPIT_ASSIGN_OR_RETURN(path_, AttributePath::Make(in, attribute));
    return absl::OkStatus();
  }

  Item Produce(Interpreter& in, Iterator& items) override {
    INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, items.Next(in));
    if (!item) return item;
    INCIPIT_ASSIGN_OR_RETURN(Value value, path_ ? path_->Get(in, std::move(*item), default_)
                                                : filter_.Apply(in, std::move(*item)));
    return std::optional(std::move(value));
  }

 private:
  Application filter_;
  std::optional<AttributePath> path_;
  Value default_;
};

class SelectedItems final : public Generator {
 public:
  struct Mode {
    bool keeps = true;  // what passes the test; else what does not
    bool by_attribute = false;
  };
  SelectedItems(Value source, Arguments rest, Mode mode)
      : Generator(std::move(source)), test_("test", std::move(rest)), mode_(mode) {}

 protected:
  absl::Status Start(Interpreter& in) override {
    std::vector<Value>& positional = test_.rest().positional;
    if (mode_.by_attribute) {
      if (positional.empty()) return InvalidArgument("missing parameter for attribute name");
      INCIPIT_ASSIGN_OR_RETURN(path_, AttributePath::Make(in, positional.front()));
      positional.erase(positional.begin());
    }
    if (!positional.empty()) test_.TakeName();
    return absl::OkStatus();
  }

  Item Produce(Interpreter& in, Iterator& items) override {
    while (true) {
      INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, items.Next(in));
      if (!item) return item;
      INCIPIT_ASSIGN_OR_RETURN(Value value, path_.Get(in, *item));
      if (test_.has_name()) {
        INCIPIT_ASSIGN_OR_RETURN(value, test_.Apply(in, std::move(value)));
      }
      INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(in, value));
      if (truth == mode_.keeps) return item;
    }
  }

 private:
  Application test_;
  const Mode mode_;
  AttributePath path_;
};

Result TakeSource(std::string_view name, Arguments& args) {
  if (args.positional.empty()) return InvalidArgument("{}() is missing its value", name);
  Value source = std::move(args.positional.front());
  args.positional.erase(args.positional.begin());
  return source;
}

Result Map(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(Value source, TakeSource("map", args));
  return Value::OfIterator(in.heap().New<MappedItems>(std::move(source), std::move(args)));
}

template <bool keeps, bool by_attribute>
Result Select(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(Value source, TakeSource("select", args));
  return Value::OfIterator(in.heap().New<SelectedItems>(
      std::move(source), std::move(args),
      SelectedItems::Mode{.keeps = keeps, .by_attribute = by_attribute}));
}

// A generator whose items `make` makes of the arguments.
template <Items (*make)(Interpreter&, const Arguments&)>
Result Defer(Interpreter& in, Arguments& args) {
  return Value::OfIterator(in.heap().New<DeferredItems>(
      [args = std::move(args)](Interpreter& interpreter) { return make(interpreter, args); }));
}

Items MakeItems(Interpreter& in, const Arguments& args) {
  if (args[0].is_undefined()) return std::vector<Value>();
  if (!args[0].is(Kind::kDict)) return InvalidArgument("can only get item pairs from a mapping");
  return ToVector(in, Value::OfIterator(in.heap().New<ValueIterator>(args[0], DictPart::kItems)));
}

// Lists of as many items as the argument says, compared as Python does: it may be no integer.
Items MakeBatches(Interpreter& in, const Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, args[0]));
  std::vector<Value> batches, batch;
  const auto size = [&] { return Value::Integer(static_cast<Int>(batch.size())); };
  const auto finish = [&]() -> absl::Status {
    INCIPIT_ASSIGN_OR_RETURN(batches.emplace_back(), in.heap().MakeList(std::move(batch)));
    batch.clear();
    return absl::OkStatus();
  };
  for (const Value& item : items) {
    INCIPIT_ASSIGN_OR_RETURN(const bool full, Equal(in, size(), args[1]));
    if (full) INCIPIT_RETURN_IF_ERROR(finish());
    batch.push_back(item);
  }
  if (batch.empty()) return batches;
  if (!args.IsNone(2)) {
    INCIPIT_ASSIGN_OR_RETURN(const bool less, Less(in, size(), args[1]));
    if (less) {
      INCIPIT_ASSIGN_OR_RETURN(const Int wanted, ToIndex(args[1], "linecount"));
      INCIPIT_RETURN_IF_ERROR(in.heap().Charge(wanted));
      INCIPIT_RETURN_IF_ERROR(in.heap().CheckMemory(static_cast<size_t>(wanted) * sizeof(Value)));
      batch.resize(static_cast<size_t>(wanted), args[2]);
    }
  }
  INCIPIT_RETURN_IF_ERROR(finish());
  return batches;
}

Items MakeSlices(Interpreter& in, const Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, args[0]));
  INCIPIT_ASSIGN_OR_RETURN(const Int num_slices, ToIndex(args[1], "slices"));
  if (num_slices == 0) return InvalidArgument("division by zero");
  std::vector<Value> slices;
  const Int length = static_cast<Int>(items.size());
  auto begin = items.begin();
  for (Int i = 0; i < num_slices; ++i) {
    const bool with_extra = i < length % num_slices;
    const auto end = begin + static_cast<ptrdiff_t>(length / num_slices + with_extra);
    std::vector<Value> slice(begin, end);
    if (!args.IsNone(2) && !with_extra) slice.push_back(args[2]);
    INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
    INCIPIT_ASSIGN_OR_RETURN(slices.emplace_back(), in.heap().MakeList(std::move(slice)));
    begin = end;
  }
  return slices;
}

Items MakeUnique(Interpreter& in, const Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const bool case_sensitive, args.Truth(in, 1));
  INCIPIT_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(in, args.Get(2)));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, args[0]));
  std::vector<Value> unique;
  Dict seen;
  for (const Value& item : items) {
    INCIPIT_ASSIGN_OR_RETURN(const Value key, path.KeyOf(in, item, case_sensitive));
    INCIPIT_RETURN_IF_ERROR(CheckHashable(key));
    if (seen.Find(key) != nullptr) continue;
    INCIPIT_RETURN_IF_ERROR(in.heap().Take(Heap::kEntryBytes));
    seen.Set(key, Value::None());
    unique.push_back(item);
  }
  return unique;
}

Result Attribute(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value name, args.String(1));
  if (args[0].is_undefined()) return UndefinedError(args[0]);
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> found,
                           FindAttribute(in, args[0], name.bytes()));
  if (found) return GetAttribute(in, args[0], name);
  return in.heap().MakeUndefined(
      fmt::format("'{} object' has no such attribute", TypeName(args[0])));
}

constexpr NamedBuiltin kSelectionFilters[] = {
    {"attr", Attribute, 2, {"obj", "name"}},
    {"batch", Defer<MakeBatches>, 2, {"value", "linecount", "fill_with"}},
    {"items", Defer<MakeItems>, 1, {"value"}},
    {"map", Map},
    {"reject", Select<false, false>},
    {"rejectattr", Select<false, true>},
    {"select", Select<true, false>},
    {"selectattr", Select<true, true>},
    {"slice", Defer<MakeSlices>, 2, {"value", "slices", "fill_with"}},
    {"unique", Defer<MakeUnique>, 1, {"value", "case_sensitive", "attribute"}},
};

}  // namespace

Builtins SelectionFilters() { return kSelectionFilters; }

}  // namespace incipit::jinja
