// The values of templates: the types of Python that chat templates use. Containers are immutable
// after their creation, as in the immutable sandbox of Jinja2. The Heap of a rendering owns the
// containers. Values count the uses of strings, so that an unused string is freed early.
#pragma once

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

// An integer of a template. Python's integers have no limit; here, a result that does not fit into
// 64 bits is an error.
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
  kMissing,  // a variable without a value; never the result of an expression
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
  kIterator,  // can be iterated only once
  kObject,    // macro, function, bound method, namespace or loop
};

class Value {
 public:
  Value() : Value(Kind::kMissing, {.integer = 0}) {}
  static Value None() { return {Kind::kNone, {.integer = 0}}; }
  static Value Bool(bool value) { return {Kind::kBool, {.boolean = value}}; }
  static Value Integer(Int value) { return {Kind::kInt, {.integer = value}}; }
  static Value Real(double value) { return {Kind::kFloat, {.real = value}}; }
  // Returns the string `text` without counting the uses of `text`. REQUIRES: `text` outlives the
  // value.
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
  bool is_markup() const { return markup_; }  // true for a string that is marked safe

  // Returns the content of the value. REQUIRES, also for the following accessors: the value has the
  // kind in the name of the accessor.
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

  // Returns the origin of a number, a boolean or none: the template or the request.
  Origin origin() const { return origin_; }
  // Returns the same value with the origin `origin`.
  Value WithOrigin(Origin origin) const;
  // Returns the same string, marked safe if `markup` is set. REQUIRES: the value is a string.
  Value WithMarkup(bool markup) const;

  // Returns the result of Python's `is`: true for the same object, and for equal values of kinds
  // that Python stores only once.
  bool IsSame(const Value& other) const;
  // Returns the address of the cell. REQUIRES: the value is a cell and not a string.
  const Cell* Address() const;

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
  // Returns the first Value of the string `text`, which a heap has just created.
  static Value Shared(const Text* text, bool markup);
  // Frees the string of the value. REQUIRES: no other value uses the string.
  void Free();

  Kind kind_;
  bool markup_ = false;
  bool is_shared_ = false;  // true if Text::num_uses_ counts this value
  Origin origin_ = Origin::kTemplate;
  Data data_;
};

// A list or a tuple.
struct List final : Cell {
  std::vector<Value> items;
  Origin origin = Origin::kTemplate;
  int32_t depth = 1;      // nesting depth; Heap limits the depth, so recursive functions are safe
  bool is_group = false;  // true for a tuple (grouper, list) of the filter groupby
};

struct Range final : Cell {
  Range() = default;
  Range(Int begin, Int end, Int by) : start(begin), stop(end), step(by) {}
  Int start = 0, stop = 0, step = 1;

  Int size() const;
  Int At(Int index) const { return start + index * step; }
  bool Contains(Int value) const;
};

// The reason why a value is undefined: the message of the error for a use of the value.
struct UndefinedReason final : Cell {
  explicit UndefinedReason(std::string text) : message(std::move(text)) {}
  // Creates the reason that a value of the type `type_name` has no attribute and no item `name`.
  UndefinedReason(std::string_view type_name, Value name) : type(type_name), key(std::move(name)) {}
  std::string Message() const;

  std::string message;
  std::string_view type;  // name of the type; empty if `message` is the whole message
  Value key;
};

// A total order of hashable values. Numbers may be equal across kinds; other values of different
// kinds are never equal.
struct KeyLess {
  using is_transparent = void;
  bool operator()(const Value& left, const Value& right) const;
  bool operator()(const Value& left, std::string_view right) const;
  bool operator()(std::string_view left, const Value& right) const;
};
// Returns a negative number, 0 or a positive number, in the order of KeyLess.
int CompareKeys(const Value& left, const Value& right);
int CompareNumbers(const Value& left, const Value& right);  // REQUIRES: no operand is NaN

// A dict that keeps the order of insertion. A lookup takes at most logarithmic time, whatever keys
// a client chooses.
class Dict final : public Cell {
 public:
  struct Entry {
    Value key, value;
  };

  // Return the value of `key`, or null if the dict has no such key. REQUIRES: `key` is hashable.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  void Set(const Value& key, Value value);
  // Adds an entry at the end. REQUIRES: the dict does not contain `key`.
  void Append(Value key, Value value);
  void Reserve(size_t num_entries) { entries_.reserve(num_entries); }

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }

  Origin origin = Origin::kTemplate;
  int32_t depth = 1;  // nesting depth: 1 plus the maximum depth of the keys and values

 private:
  using Index = std::map<Value, size_t, KeyLess>;

  template <typename Key>
  std::optional<size_t> IndexOf(const Key& key) const;

  std::vector<Entry> entries_;
  mutable std::unique_ptr<Index> index_;  // index of all entries; null before its first use
};

// A sequence of values that can be read only once, like a Python generator. A value is computed
// only when Next() is called.
class Iterator : public Cell {
 public:
  // Returns the next value. Returns nullopt at the end and in all later calls.
  virtual absl::StatusOr<std::optional<Value>> Next(Interpreter& interpreter) = 0;
};

// A value with behaviour: macro, function, method, loop or namespace.
class Object : public Cell {
 public:
  virtual std::string_view type_name() const = 0;
  virtual std::string Repr() const;
  virtual bool is_callable() const { return false; }
  virtual absl::StatusOr<Value> Call(Interpreter& interpreter, Arguments& arguments);
  // Returns an attribute, or nullopt if the object has no such attribute.
  virtual absl::StatusOr<std::optional<Value>> Attribute(Interpreter& interpreter,
                                                         std::string_view name);
  // Returns an iterator, or nullptr if the object cannot be iterated.
  virtual absl::StatusOr<Iterator*> Iterate(Interpreter& interpreter);
  // Returns the length, or nullopt if the object has no length.
  virtual absl::StatusOr<std::optional<int64_t>> Length(Interpreter& interpreter);
};

// Returns the name of the type in messages, as in Python.
std::string_view TypeName(const Value& value);

// Returns the nesting depth of a container, or 0 for any other value.
int32_t DepthOf(const Value& value);

// Returns false if `value` cannot be the key of a dict.
bool IsHashable(const Value& value);

}  // namespace incipit::jinja
