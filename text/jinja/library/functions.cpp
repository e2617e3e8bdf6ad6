// The global functions of templates: range, dict, namespace, raise_exception, strftime_now.
#include <array>
#include <ctime>

#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/objects.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {
namespace {

// Maximum absolute value of an argument of range(). The limit prevents integer overflows.
constexpr Int kRangeBound = Int{1} << 61;

Result MakeRange(Interpreter& in, Arguments& args) {
  std::array<Int, 3> bounds = {0, 0, 1};
  for (size_t i = 0; args.Has(i); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const Int bound, ToIndex(args[i], "argument of range()"));
    if (bound > kRangeBound || bound < -kRangeBound) {
      return InvalidArgument("an argument of range() is too large");
    }
    bounds[args.Has(1) ? i : 1] = bound;
  }
  if (bounds[2] == 0) return InvalidArgument("the third argument of range() must not be zero");
  Range* range = in.heap().New<Range>(bounds[0], bounds[1], bounds[2]);
  if (range->size() > in.heap().limits().range_length_max) {
    return InvalidArgument("range() has more than {} items (limit range_length_max)",
                           in.heap().limits().range_length_max);
  }
  return Value::OfRange(range);
}

// Adds entries to `dict` from the arguments of dict() or namespace(). The positional argument is a
// dict or a sequence of pairs. Each keyword argument is one entry.
absl::Status FillDict(Interpreter& in, std::string_view function, Arguments& arguments,
                      Dict& dict) {
  if (arguments.positional.size() > 1) {
    return InvalidArgument("{}() takes at most 1 positional argument ({} given)", function,
                           arguments.positional.size());
  }
  const auto set = [&](const Value& key, Value value) -> absl::Status {
    INCIPIT_RETURN_IF_ERROR(CheckHashable(key));
    INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
    INCIPIT_RETURN_IF_ERROR(in.heap().Take(Heap::kEntryBytes));
    dict.Set(key, std::move(value));
    return absl::OkStatus();
  };
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      for (const Dict::Entry& entry : source.dict().entries()) {
        INCIPIT_RETURN_IF_ERROR(set(entry.key, entry.value));
      }
    } else {
      INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> pairs, ToVector(in, source));
      for (const Value& pair : pairs) {
        INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> parts, ToVector(in, pair));
        if (parts.size() != 2) {
          return InvalidArgument(
              "an item in the argument of dict() or namespace() has {} elements; it must be a pair "
              "(key, value)",
              parts.size());
        }
        INCIPIT_RETURN_IF_ERROR(set(parts[0], std::move(parts[1])));
      }
    }
  }
  for (auto& [name, value] : arguments.keyword) {
    INCIPIT_RETURN_IF_ERROR(set(name, std::move(value)));
  }
  return absl::OkStatus();
}

Result MakeDict(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(Dict * dict, in.heap().NewDict(0));
  INCIPIT_RETURN_IF_ERROR(FillDict(in, "dict", arguments, *dict));
  return in.heap().Finish(dict);
}

Result MakeNamespace(Interpreter& in, Arguments& arguments) {
  auto* object = in.heap().New<NamespaceObject>();
  INCIPIT_RETURN_IF_ERROR(FillDict(in, "namespace", arguments, object->attributes));
  return Value::OfObject(object);
}

Result RaiseException(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const Value message, ToString(in, arguments[0]));
  return in.Raise(std::string(message.bytes()));
}

// Returns the current time (Interpreter::now()) as local time in the format of the argument, like
// strftime() of C. As in Python, replaces %f by the microseconds, and removes %z and %Z.
Result StrftimeNow(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const Value given, arguments.String(0));
  const auto since_epoch = in.now().time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(since_epoch - seconds).count();
  std::string format;
  for (size_t i = 0; i < given.bytes().size(); ++i) {
    const char c = given.bytes()[i];
    if (c == '\0') return InvalidArgument("the format of strftime_now() contains a null character");
    const char next = i + 1 < given.bytes().size() ? given.bytes()[i + 1] : '\0';
    if (c != '%' || next == '\0') {
      format += c;
      continue;
    }
    ++i;
    if (next == 'f') {
      format += fmt::format("{:06}", micros);
    } else if (next != 'z' && next != 'Z') {
      format += {c, next};
    }
  }
  const std::time_t time = static_cast<std::time_t>(seconds.count());
  std::tm local = {};
  localtime_r(&time, &local);
  std::string text(format.size() * 32 + 64, '\0');
  INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(text.size()));
  // strftime() returns 0 for an empty result, and also if the result does not fit into `text`. The
  // result fits, because `text` has at least 32 bytes for each byte of the format.
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &local));
  return in.heap().MakeString(text);
}

constexpr NamedBuiltin kFunctions[] = {
    {"cycler"},
    {"dict", MakeDict},
    {"joiner"},
    {"lipsum"},
    {"namespace", MakeNamespace},
    {"raise_exception", RaiseException, 1, {"message"}},
    {"range", MakeRange, 1, {"start", "stop", "step"}, 3},
    {"strftime_now", StrftimeNow, 1, {"format"}},
};

}  // namespace

Builtins Functions() { return kFunctions; }

}  // namespace incipit::jinja
