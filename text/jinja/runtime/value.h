// The values that templates compute: numbers, strings, lists, dicts and other types of Python. As
// in Jinja2's immutable sandbox, a container does not change after its creation. Containers are
// freed with the Heap; a string is freed when no Value uses it.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/text.h"

namespace incipit::jinja {

// The integer type of templates. Unlike in Python, a result that does not fit into 64 bits is an
// error.
using Int = int64_t;

class Interpreter;
class Object;
class Iterator;
struct List;
class Dict;
struct Range;
struct UndefinedReason;
class Arguments;

// An object that a Heap owns.
struct Cell {
  virtual ~Cell() = default;
};

enum class Kind : uint8_t {
  kMissing,  // absence of a value, for example in a variable that was never set
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kIterator,  // a generator, which can be iterated only once
  kObject,    // a macro, function, bound method, namespace, dict view or loop
};

class Value {
 public:
  Value() : Value(Kind::kMissing, {.integer = 0}) {}
  static Value None() { return {Kind::kNone, {.integer = 0}}; }
  static Value Bool(bool value) { return {Kind::kBool, {.boolean = value}}; }
  static Value Integer(Int value) { return {Kind::kInt, {.integer = value}}; }
  static Value Real(double value) { return {Kind::kFloat, {.real = value}}; }
  // Returns a string value that uses `text` without a copy. REQUIRES: `text` outlives the value.
  static Value Constant(const Text& text) { return {Kind::kString, {.text = &text}}; }
  static Value OfList(const List* list) { return {Kind::kList, {.list = list}}; }
  static Value OfTuple(const List* tuple) { return {Kind::kTuple, {.list = tuple}}; }
  static Value OfDict(const Dict* dict) { return {Kind::kDict, {.dict = dict}}; }
  static Value OfRange(const Range* range) { return {Kind::kRange, {.range = range}}; }
  static Value OfIterator(Iterator* iterator) { return {Kind::kIterator, {.iterator = iterator}}; }
  static Value OfObject(Object* object) { return {Kind::kObject, {.object = object}}; }
  static Value Undefined(const UndefinedReason* reason) {
    return {Kind::kUndefined, {.undefined = reason}};
  }

  Value(const Value& other)
      : kind_(other.kind_),
        markup_(other.markup_),
        is_shared_(other.is_shared_),
        origin_(other.origin_),
        data_(other.data_) {
    if (is_shared_) ++data_.text->num_uses_;
  }
  Value(Value&& other) noexcept
      : kind_(std::exchange(other.kind_, Kind::kMissing)),
        markup_(other.markup_),
        is_shared_(std::exchange(other.is_shared_, false)),
        origin_(other.origin_),
        data_(other.data_) {}
  Value& operator=(const Value& other) { return *this = Value(other); }
  Value& operator=(Value&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(is_shared_, other.is_shared_);
    kind_ = std::exchange(other.kind_, kind_);
    markup_ = other.markup_;
    origin_ = other.origin_;
    return *this;
  }
  ~Value() {
    if (is_shared_ && --data_.text->num_uses_ == 0) Free();
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  // Returns true for a value that has a length and that can be indexed.
  bool is_indexable() const {
    return is_string() || is_sequence() || is(Kind::kDict) || is(Kind::kRange) || is_undefined();
  }
  // Returns true if the string is HTML, which must not be escaped.
  bool is_markup() const { return markup_; }

  // The functions from boolean() to undefined() return the content of the value. REQUIRES: the kind
  // of the value fits the function, for example kBool for boolean().
  bool boolean() const { return data_.boolean; }
  Int integer() const { return kind_ == Kind::kBool ? Int{data_.boolean} : data_.integer; }
  double real() const {  // REQUIRES: is_number()
    return kind_ == Kind::kFloat ? data_.real : static_cast<double>(integer());
  }
  const Text& text() const { return *data_.text; }
  std::string_view bytes() const { return data_.text->bytes; }
  const List& list() const { return *data_.list; }  // REQUIRES: is_sequence()
  const Dict& dict() const { return *data_.dict; }
  const Range& range() const { return *data_.range; }
  Iterator& iterator() const { return *data_.iterator; }
  Object& object() const { return *data_.object; }
  const UndefinedReason& undefined() const { return *data_.undefined; }

  // Returns whether a number, a boolean or the value `none` comes from the template or from the
  // request.
  Origin origin() const { return origin_; }
  Value WithOrigin(Origin origin) const;
  // Returns a copy of the string value. If `markup` is true, the copy is marked safe: its text is
  // not HTML-escaped. REQUIRES: the value is a string.
  Value WithMarkup(bool markup) const;

  // Compares two values, like Python's operator `is`. Numbers, strings, booleans and none are the
  // same if they are equal and have the same kind. All other values are the same if they refer to
  // the same object.
  bool IsSame(const Value& other) const;
  // Returns the address of the object to which the value refers. REQUIRES: the value is not a
  // number, a boolean or none.
  uintptr_t Address() const { return std::bit_cast<uintptr_t>(data_); }

 private:
  friend class Heap;

  union Data {
    bool boolean;
    Int integer;
    double real;
    const List* list;
    const Dict* dict;
    const Range* range;
    Iterator* iterator;
    Object* object;
    const UndefinedReason* undefined;
    const Text* text;
  };
  Value(Kind kind, Data data) : kind_(kind), data_(data) {}
  // Creates the first Value for `text`, a string that a heap has just created.
  static Value Shared(const Text* text, bool markup);
  void Free();

  Kind kind_;
  bool markup_ = false;
  bool is_shared_ = false;  // true if Text::num_uses_ includes this Value
  Origin origin_ = Origin::kTemplate;
  Data data_;
};

struct List final : Cell {
  std::vector<Value> items;
  Origin origin = Origin::kTemplate;
  // Nesting depth of the list or tuple. Heap limits the depth, so that recursive functions do not
  // exhaust the stack.
  int32_t depth = 1;
  bool is_group = false;  // true for a tuple (key, items) of the filter groupby
};

struct Range final : Cell {
  Range() = default;
  Range(Int begin, Int end, Int by) : start(begin), stop(end), step(by) {}
  Int start = 0, stop = 0, step = 1;

  Int size() const;
  Int At(Int index) const { return start + index * step; }
  bool Contains(Int value) const;
};

// The reason why a value is undefined. If a template uses the value, Message() is the error
// message.
struct UndefinedReason final : Cell {
  explicit UndefinedReason(std::string text) : message(std::move(text)) {}
  // Creates the reason "a value of the type `type_name` has no attribute and no item `name`".
  UndefinedReason(std::string_view type_name, Value name) : type(type_name), key(std::move(name)) {}
  std::string Message() const;

  std::string message;
  // Name of the type, such as "dict", in which the attribute or item `key` is missing. Empty if
  // `message` is set.
  std::string_view type;
  Value key;
};

// A total order of all values that can be keys of a dict. Numbers of different kinds may be equal,
// such as 1 and 1.0. Other values of different kinds are never equal.
struct KeyLess {
  using is_transparent = void;
  bool operator()(const Value& left, const Value& right) const;
  bool operator()(const Value& left, std::string_view right) const;
  bool operator()(std::string_view left, const Value& right) const;
};
// Compares two keys in the order of KeyLess. Returns a negative number if left < right, 0 if both
// are equal, and a positive number otherwise.
int CompareKeys(const Value& left, const Value& right);
// Compares two numbers. Returns a negative number if left < right, 0 if both are equal, and a
// positive number otherwise. REQUIRES: neither number is NaN.
int CompareNumbers(const Value& left, const Value& right);

// A dict that keeps its entries in the order of insertion, like in Python. Even if a client chooses
// the keys, a lookup takes at most logarithmic time in the number of entries.
class Dict final : public Cell {
 public:
  struct Entry {
    Value key, value;
  };

  // Returns the value of `key`. Returns null if the dict has no such key. REQUIRES: `key` can be
  // the key of a dict (IsHashable).
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  void Set(const Value& key, Value value);
  // Appends an entry. REQUIRES: the dict does not contain `key`.
  void Append(Value key, Value value);
  void Reserve(size_t num_entries) { entries_.reserve(num_entries); }

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }

  Origin origin = Origin::kTemplate;
  int32_t depth = 1;  // 1 plus the maximum nesting depth of all keys and values

 private:
  using Index = std::map<Value, size_t, KeyLess>;

  template <typename Key>
  std::optional<size_t> IndexOf(const Key& key) const;

  std::vector<Entry> entries_;
  mutable std::unique_ptr<Index> index_;  // search index of all entries; null until first used
};

// A sequence of values that can be read only once, like a Python generator. Next() computes the
// next value.
class Iterator : public Cell {
 public:
  // Returns the next value, or nullopt if no value is left.
  virtual absl::StatusOr<std::optional<Value>> Next(Interpreter& interpreter) = 0;
};

// Base class of macros, functions, methods, loops, namespaces and dict views.
class Object : public Cell {
 public:
  virtual std::string_view type_name() const = 0;
  virtual std::string Repr() const;
  virtual bool is_callable() const { return false; }
  virtual absl::StatusOr<Value> Call(Interpreter& interpreter, Arguments& arguments);
  // Returns the attribute `name` of the object. Returns nullopt if there is no such attribute.
  virtual absl::StatusOr<std::optional<Value>> Attribute(Interpreter& interpreter,
                                                         std::string_view name);
  // Returns an iterator over the object. Returns nullptr if the object cannot be iterated.
  virtual absl::StatusOr<Iterator*> Iterate(Interpreter& interpreter);
  // Returns the length of the object. Returns nullopt if the object has no length.
  virtual absl::StatusOr<std::optional<int64_t>> Length(Interpreter& interpreter);
};

// Returns the name of the Python type of `value`, for error messages.
std::string_view TypeName(const Value& value);

// Returns the number of items or characters of `value`. REQUIRES: value.is_indexable().
int64_t LengthOf(const Value& value);

// Returns the nesting depth of `value` if `value` is a container. Returns 0 otherwise.
int32_t DepthOf(const Value& value);

// Returns true if `value` can be the key of a dict.
bool IsHashable(const Value& value);

}  // namespace incipit::jinja
