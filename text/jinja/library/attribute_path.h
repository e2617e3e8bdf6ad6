// Paths such as "address.city". A filter (such as `map`) uses a path to select a part of each item
// of a sequence.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

class Interpreter;

class AttributePath {
 public:
  // Creates a path from `attribute`, an argument of a filter. If `attribute` is none, the path
  // selects the whole item. Returns INVALID_ARGUMENT if a part of the path has only digits but is
  // not an integer, such as a superscript 2.
  static absl::StatusOr<AttributePath> Make(Interpreter& in, const Value& attribute);
  // Splits `attribute` at commas, and creates one path for each part.
  static absl::StatusOr<std::vector<AttributePath>> MakeSeveral(Interpreter& in,
                                                                const Value& attribute);

  // Returns the part of `item` that the path selects. If the part does not exist, returns
  // `otherwise`. Returns an undefined value if the part does not exist and `otherwise` is missing
  // or none.
  absl::StatusOr<Value> Get(Interpreter& in, Value item, const Value& otherwise = Value()) const;
  // Returns the part of `item` that the path selects, like Get(). If `case_sensitive` is false and
  // the part is a string, converts the part to lower case.
  absl::StatusOr<Value> KeyOf(Interpreter& in, const Value& item, bool case_sensitive,
                              const Value& otherwise = Value()) const;

 private:
  std::vector<Value> parts_;
};

}  // namespace incipit::jinja
