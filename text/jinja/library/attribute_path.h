// "address.city" and "0.name": how filters reach into the items of a sequence.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

class Interpreter;

class AttributePath {
 public:
  // None: the item itself. INVALID_ARGUMENT for a part that is a digit and no number.
  static absl::StatusOr<AttributePath> Make(Interpreter& in, const Value& attribute);
  // One path for each of the names between commas.
  static absl::StatusOr<std::vector<AttributePath>> MakeSeveral(Interpreter& in,
                                                                const Value& attribute);

  // `otherwise` stands in for what is undefined on the way, unless it is missing or none.
  absl::StatusOr<Value> Get(Interpreter& in, Value item, const Value& otherwise = Value()) const;
  // What items are compared by.
  absl::StatusOr<Value> KeyOf(Interpreter& in, const Value& item, bool case_sensitive,
                              const Value& otherwise = Value()) const;

 private:
  std::vector<Value> parts_;
};

// Strings in lower case, other values as they are.
absl::StatusOr<Value> IgnoreCase(Interpreter& in, const Value& value);

}  // namespace incipit::jinja
