// Filters that process a whole sequence or mapping in one call, such as `sort` and `join`.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/library/attribute_path.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/iterators.h"
#include "text/jinja/runtime/objects.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {
namespace {

Result Count(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const int64_t length, Length(in, args[0]));
  return Value::Integer(length);
}

Result ListFilter(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(in, args[0]));
  return in.heap().MakeList(std::move(items));
}

Result First(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(Iterator * items, Iterate(in, args[0]));
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> item, items->Next(in));
  return item ? *item : in.heap().MakeUndefined("No first item, sequence was empty.");
}

// Returns true if Python's reversed() accepts `value`.
bool IsReversible(const Value& value) {
  return value.is_indexable() || As<DictView>(value) != nullptr;
}

Result Last(Interpreter& in, Arguments& args) {
  if (!IsReversible(args[0])) {
    return InvalidArgument("'{}' object is not reversible", TypeName(args[0]));
  }
  const auto undefined = [&in] {
    return in.heap().MakeUndefined("No last item, sequence was empty.");
  };
  if (args[0].is_sequence()) {
    return args[0].list().items.empty() ? undefined() : args[0].list().items.back();
  }
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, args[0]));
  return items.empty() ? undefined() : items.back();
}

Result Reverse(Interpreter& in, Arguments& args) {
  if (args[0].is_string()) {
    return Slice(in, args[0], Value::None(), Value::None(), Value::Integer(-1));
  }
  INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(in, args[0]));
  std::reverse(items.begin(), items.end());
  INCIPIT_ASSIGN_OR_RETURN(const Value list, in.heap().MakeList(std::move(items)));
  return IsReversible(args[0]) ? Value::OfIterator(in.heap().New<ValueIterator>(list)) : list;
}

Result Join(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(in, args.Get(2)));
  INCIPIT_ASSIGN_OR_RETURN(Iterator * items, Iterate(in, args[0]));
  Value separator;
  if (args.Has(1)) {
    INCIPIT_ASSIGN_OR_RETURN(separator, ToString(in, args[1]));
  }
  TextBuilder builder;
  for (bool first = true;; first = false) {
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> item, items->Next(in));
    if (!item) return in.heap().Finish(builder);
    INCIPIT_ASSIGN_OR_RETURN(const Value part, path.Get(in, *item));
    if (!first && args.Has(1)) builder.Append(separator.text());
    INCIPIT_RETURN_IF_ERROR(AppendString(in, part, builder));
    INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(builder.size()));
  }
}

struct Keyed {
  Value key, item;
};

// Sorts `items` by their keys, like Python's sorted(). Sorts in descending order if `reverse` is
// true. Items with equal keys keep their order in both cases.
absl::Status SortByKey(Interpreter& in, std::vector<Keyed>& items, bool reverse) {
  absl::Status status;
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& left, const Keyed& right) {
    if (!status.ok()) return false;
    const absl::StatusOr<bool> less =
        reverse ? Less(in, right.key, left.key) : Less(in, left.key, right.key);
    if (!less.ok()) status = less.status();
    return less.ok() && *less;
  });
  return status;
}

Result SortedList(Interpreter& in, std::vector<Keyed> keyed, bool reverse) {
  INCIPIT_RETURN_IF_ERROR(SortByKey(in, keyed, reverse));
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return in.heap().MakeList(std::move(items));
}

Result Sort(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const bool reverse, args.Truth(in, 1));
  INCIPIT_ASSIGN_OR_RETURN(const bool case_sensitive, args.Truth(in, 2));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<AttributePath> paths,
                           AttributePath::MakeSeveral(in, args.Get(3)));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, args[0]));
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) {
      INCIPIT_ASSIGN_OR_RETURN(keys.emplace_back(), path.KeyOf(in, item, case_sensitive));
    }
    INCIPIT_ASSIGN_OR_RETURN(Value key, in.heap().MakeList(std::move(keys)));
    keyed.push_back({std::move(key), item});
  }
  return SortedList(in, std::move(keyed), reverse);
}

template <bool maximum>
Result Extreme(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const bool case_sensitive, args.Truth(in, 1));
  INCIPIT_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(in, args.Get(2)));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, args[0]));
  if (items.empty()) return in.heap().MakeUndefined("No aggregated item, sequence was empty.");
  Value best = items[0];
  INCIPIT_ASSIGN_OR_RETURN(Value best_key, path.KeyOf(in, best, case_sensitive));
  for (size_t i = 1; i < items.size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(Value key, path.KeyOf(in, items[i], case_sensitive));
    INCIPIT_ASSIGN_OR_RETURN(const bool better,
                             maximum ? Less(in, best_key, key) : Less(in, key, best_key));
    if (!better) continue;
    best = items[i];
    best_key = std::move(key);
  }
  return best;
}

Result Sum(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(in, args.Get(1)));
  Value total = args.Get(2, Value::Integer(0));
  if (total.is_string()) return InvalidArgument("sum() can't sum strings");
  INCIPIT_ASSIGN_OR_RETURN(Iterator * items, Iterate(in, args[0]));
  while (true) {
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> item, items->Next(in));
    if (!item) return total;
    INCIPIT_ASSIGN_OR_RETURN(const Value value, path.Get(in, *item));
    INCIPIT_ASSIGN_OR_RETURN(total, Binary(in, ArithmeticOp::kAdd, total, value));
  }
}

Result DictSort(Interpreter& in, Arguments& args) {
  std::string_view by = "key";
  if (args.Has(2)) by = args[2].is_string() ? args[2].bytes() : "";
  if (by != "key" && by != "value") {
    return InvalidArgument("dictsort() can only sort by either \"key\" or \"value\"");
  }
  if (args[0].is_undefined()) return UndefinedError(args[0]);
  if (!args[0].is(Kind::kDict)) {
    return InvalidArgument("'{}' object has no attribute 'items'", TypeName(args[0]));
  }
  INCIPIT_ASSIGN_OR_RETURN(const bool case_sensitive, args.Truth(in, 1));
  INCIPIT_ASSIGN_OR_RETURN(const bool reverse, args.Truth(in, 3));
  std::vector<Keyed> keyed;
  for (const Dict::Entry& entry : args[0].dict().entries()) {
    Value key = by == "key" ? entry.key : entry.value;
    INCIPIT_ASSIGN_OR_RETURN(key, AttributePath().KeyOf(in, key, case_sensitive));
    INCIPIT_ASSIGN_OR_RETURN(Value item, in.heap().MakeTuple({entry.key, entry.value}));
    keyed.push_back({std::move(key), std::move(item)});
  }
  return SortedList(in, std::move(keyed), reverse);
}

Result GroupBy(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(in, args[1]));
  INCIPIT_ASSIGN_OR_RETURN(const bool case_sensitive, args.Truth(in, 3));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, args[0]));
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    INCIPIT_ASSIGN_OR_RETURN(Value key, path.KeyOf(in, item, case_sensitive, args.Get(2)));
    keyed.push_back({std::move(key), item});
  }
  INCIPIT_RETURN_IF_ERROR(SortByKey(in, keyed, false));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> members = {keyed[begin].item};
    size_t end = begin + 1;
    for (; end < keyed.size(); ++end) {
      INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, keyed[begin].key, keyed[end].key));
      if (!equal) break;
      members.push_back(keyed[end].item);
    }
    INCIPIT_ASSIGN_OR_RETURN(Value grouper, path.KeyOf(in, members[0], true, args.Get(2)));
    INCIPIT_ASSIGN_OR_RETURN(Value list, in.heap().MakeList(std::move(members)));
    INCIPIT_ASSIGN_OR_RETURN(
        groups.emplace_back(),
        in.heap().MakeSequence(Kind::kTuple, {std::move(grouper), std::move(list)},
                               Origin::kTemplate, true));
    begin = end;
  }
  return in.heap().MakeList(std::move(groups));
}

constexpr NamedBuiltin kSequenceFilters[] = {
    {"count", Count, 1, {"value"}},
    {"dictsort", DictSort, 1, {"value", "case_sensitive", "by", "reverse"}},
    {"first", First, 1, {"seq"}},
    {"groupby", GroupBy, 2, {"value", "attribute", "default", "case_sensitive"}},
    {"join", Join, 1, {"value", "d", "attribute"}},
    {"last", Last, 1, {"seq"}},
    {"length", Count, 1, {"value"}},
    {"list", ListFilter, 1, {"value"}},
    {"max", Extreme<true>, 1, {"value", "case_sensitive", "attribute"}},
    {"min", Extreme<false>, 1, {"value", "case_sensitive", "attribute"}},
    {"reverse", Reverse, 1, {"value"}},
    {"sort", Sort, 1, {"value", "reverse", "case_sensitive", "attribute"}},
    {"sum", Sum, 1, {"iterable", "attribute", "start"}},
};

}  // namespace

Builtins SequenceFilters() { return kSequenceFilters; }

}  // namespace incipit::jinja
