// Paths such as "address.city" and "0.name", with which filters select a part of each item of a
// sequence.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

class Interpreter;

class AttributePath {
 public:
  // Creates the path from the argument of a filter. If `attribute` is None, the path selects the
  // item itself. Returns INVALID_ARGUMENT for a part of digits that Python cannot convert to an
  // integer.
  static absl::StatusOr<AttributePath> Make(Interpreter& in, const Value& attribute);
  // Creates one path for each part of `attribute` between commas.
  static absl::StatusOr<std::vector<AttributePath>> MakeSeveral(Interpreter& in,
                                                                const Value& attribute);

  // Returns the part of `item` that the path selects. If `otherwise` is neither missing nor none,
  // `otherwise` replaces every undefined value on the path.
  absl::StatusOr<Value> Get(Interpreter& in, Value item, const Value& otherwise = Value()) const;
  // Returns the key by which filters compare `item`. If `case_sensitive` is false, a string is
  // converted to lower case.
  absl::StatusOr<Value> KeyOf(Interpreter& in, const Value& item, bool case_sensitive,
                              const Value& otherwise = Value()) const;

 private:
  std::vector<Value> parts_;
};

// Returns a string in lower case, and any other value unchanged.
absl::StatusOr<Value> IgnoreCase(Interpreter& in, const Value& value);

}  // namespace incipit::jinja
