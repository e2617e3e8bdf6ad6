// The filter `attr`, and the filters that return generators (which compute each item on request).
#include "base/status.h"
#include "text/jinja/library/attribute_path.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/iterators.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {
namespace {

using Produce = LazyItems::Produce;
using Items = absl::StatusOr<std::vector<Value>>;

// A filter or test that another filter applies to each item of a sequence, with the arguments of
// the filter or test. Example: the filter `round` with the argument 2 in `items|map("round", 2)`.
class Application {
 public:
  // Finds the filter or test. `kind` is "filter" or "test". REQUIRES: rest.positional[0] is the
  // name of the filter or test.
  Application(std::string_view kind, Arguments rest) : kind_(kind), rest_(std::move(rest)) {
    name_ = std::move(rest_.positional.front());
    rest_.positional.erase(rest_.positional.begin());
    if (!name_.is_string()) return;
    builtin_ = kind_ == "filter" ? FindFilter(name_.bytes()) : FindTest(name_.bytes());
  }

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

Value TakeFirst(std::vector<Value>& values) {
  Value first = std::move(values.front());
  values.erase(values.begin());
  return first;
}

// Returns an iterator over the items of `value`. Returns null if the truth value of `value` is
// false, as for none or 0.
absl::StatusOr<Iterator*> IterateIfTrue(Interpreter& in, const Value& value) {
  INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(in, value));
  if (!truth) return nullptr;
  return Iterate(in, value);
}

absl::StatusOr<Produce> StartMap(Interpreter& in, Arguments args) {
  INCIPIT_ASSIGN_OR_RETURN(Iterator * items, IterateIfTrue(in, TakeFirst(args.positional)));
  if (items == nullptr) return Produce();
  std::function<Result(Interpreter&, Value)> map;
  if (!args.positional.empty()) {
    map = [filter = Application("filter", std::move(args))](Interpreter& interpreter, Value item) {
      return filter.Apply(interpreter, std::move(item));
    };
  } else {
    const Value attribute = args.TakeKeyword("attribute");
    if (attribute.is(Kind::kMissing)) return InvalidArgument("map requires a filter argument");
    const Value otherwise = args.TakeKeyword("default");
    INCIPIT_RETURN_IF_ERROR(args.RefuseKeywords("map"));
    INCIPIT_ASSIGN_OR_RETURN(AttributePath path, AttributePath::Make(in, attribute));
    map = [path = std::move(path), otherwise](Interpreter& interpreter, Value item) {
      return path.Get(interpreter, std::move(item), otherwise);
    };
  }
  return Produce([items, map = std::move(map)](Interpreter& interpreter) -> LazyItems::Item {
    INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, items->Next(interpreter));
    if (!item) return item;
    INCIPIT_ASSIGN_OR_RETURN(item, map(interpreter, std::move(*item)));
    return item;
  });
}

// Starts the filter `select` (or `reject`, if `keeps` is false). Returns a function that returns
// the next kept item in each call.
template <bool keeps, bool by_attribute>
absl::StatusOr<Produce> StartSelect(Interpreter& in, Arguments args) {
  INCIPIT_ASSIGN_OR_RETURN(Iterator * items, IterateIfTrue(in, TakeFirst(args.positional)));
  if (items == nullptr) return Produce();
  AttributePath path;
  if (by_attribute) {
    if (args.positional.empty())
      return InvalidArgument("selectattr() and rejectattr() need the name of an attribute");
    INCIPIT_ASSIGN_OR_RETURN(path, AttributePath::Make(in, TakeFirst(args.positional)));
  }
  std::optional<Application> test;
  if (!args.positional.empty()) test.emplace("test", std::move(args));
  return Produce([items, path, test](Interpreter& interpreter) -> LazyItems::Item {
    while (true) {
      INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, items->Next(interpreter));
      if (!item) return item;
      INCIPIT_ASSIGN_OR_RETURN(Value value, path.Get(interpreter, *item));
      if (test) {
        INCIPIT_ASSIGN_OR_RETURN(value, test->Apply(interpreter, std::move(value)));
      }
      INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(interpreter, value));
      if (truth == keeps) return item;
    }
  });
}

// Returns a generator, which computes its items on request. The generator calls `start` when its
// first item is requested.
template <absl::StatusOr<Produce> (*start)(Interpreter&, Arguments)>
Result Lazy(Interpreter& in, Arguments& args) {
  return Value::OfIterator(in.heap().New<LazyItems>(
      [args = std::move(args)](Interpreter& interpreter) { return start(interpreter, args); }));
}

// Computes a list of items with `make`. Returns a function that returns the next item of the list
// in each call.
template <Items (*make)(Interpreter&, const Arguments&)>
absl::StatusOr<Produce> MakeAll(Interpreter& in, Arguments args) {
  INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> items, make(in, args));
  INCIPIT_ASSIGN_OR_RETURN(const Value list, in.heap().MakeList(std::move(items)));
  return Produce([items = in.heap().New<ValueIterator>(list)](Interpreter& interpreter) {
    return items->Next(interpreter);
  });
}

Items MakeItems(Interpreter& in, const Arguments& args) {
  if (args[0].is_undefined()) return std::vector<Value>();
  if (!args[0].is(Kind::kDict)) return InvalidArgument("the filter `items` accepts only a mapping");
  return ToVector(in, Value::OfIterator(in.heap().New<ValueIterator>(args[0], DictPart::kItems)));
}

// Splits the items of the sequence args[0] into lists of args[1] items.
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
    seen.Append(key, Value::None());
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
      fmt::format("attr() did not find the attribute in the '{} object'", TypeName(args[0])));
}

constexpr NamedBuiltin kSelectionFilters[] = {
    {"attr", Attribute, 2, {"obj", "name"}},
    {"batch", Lazy<MakeAll<MakeBatches>>, 2, {"value", "linecount", "fill_with"}},
    {"items", Lazy<MakeAll<MakeItems>>, 1, {"value"}},
    {"map", Lazy<StartMap>},
    {"reject", Lazy<StartSelect<false, false>>},
    {"rejectattr", Lazy<StartSelect<false, true>>},
    {"select", Lazy<StartSelect<true, false>>},
    {"selectattr", Lazy<StartSelect<true, true>>},
    {"slice", Lazy<MakeAll<MakeSlices>>, 2, {"value", "slices", "fill_with"}},
    {"unique", Lazy<MakeAll<MakeUnique>>, 1, {"value", "case_sensitive", "attribute"}},
};

}  // namespace

Builtins SelectionFilters() { return kSelectionFilters; }

}  // namespace incipit::jinja
