// The expressions of a template, by Jinja2's grammar and precedence.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "text/jinja/syntax/ast.h"
#include "text/jinja/syntax/token_stream.h"

namespace incipit::jinja {

// How deep the parser is in blocks and expressions; shared by statements and expressions.
struct Nesting {
  int depth = 0;
  int depth_max = 0;
};

// One level deeper while it lives.
class NestingGuard {
 public:
  explicit NestingGuard(Nesting& nesting) : nesting_(nesting) { ++nesting_.depth; }
  ~NestingGuard() { --nesting_.depth; }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;
  bool too_deep() const { return nesting_.depth > nesting_.depth_max; }

 private:
  Nesting& nesting_;
};

using ParsedExpr = absl::StatusOr<ExprPtr>;

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& stream, Nesting& nesting, Constants& constants)
      : stream_(stream), nesting_(nesting), constants_(constants) {}

  Value MakeConstant(std::string_view bytes);

  ParsedExpr ParseExpression(bool with_condition = true);

  // How often a special variable occurred so far: `loop`, `caller`, `kwargs` and `varargs`.
  enum Special : uint8_t { kLoop, kCaller, kKwargs, kVarargs };
  static constexpr std::string_view kSpecialNames[] = {"loop", "caller", "kwargs", "varargs"};
  const std::array<int, 4>& num_special() const { return num_special_; }

  struct TupleOptions {
    bool simplified = false;  // names and literals only: targets
    bool with_condition = true;
    std::string_view end_name = {};  // a name that also ends the tuple
    bool in_parentheses = false;
    bool with_namespace = false;  // `ns.attribute` too
  };
  // One expression, or several with commas as a tuple.
  ParsedExpr ParseTuple(const TupleOptions& options);

  // What can be assigned to: names and tuples of them.
  ParsedExpr ParseTarget(std::string_view end_name = {}, bool with_namespace = false);
  absl::StatusOr<std::unique_ptr<NameExpr>> ParseNameTarget(NameContext context);

  // `|name(...)|name...` applied to `operand`, which may be null. `start_inline`: the first without
  // its pipe.
  ParsedExpr ParseFilters(ExprPtr operand, bool start_inline);

 private:
  ParsedExpr ParseCondition();
  // Operators of the level, left op right op right ..., and of those that bind more.
  ParsedExpr ParseLevel(size_t index);
  ParsedExpr ParseSigned(bool with_filters);
  ParsedExpr ParsePrimary(bool with_namespace);
  ParsedExpr ParseName(bool with_namespace);
  ParsedExpr ParseString();
  ParsedExpr ParseList();
  ParsedExpr ParseDict();
  ParsedExpr ParsePostfix(ExprPtr operand);
  ParsedExpr ParseFilterExpression(ExprPtr operand);
  ParsedExpr ParseSubscript(ExprPtr object);
  ParsedExpr ParseBrackets(ExprPtr object, int line);
  ParsedExpr ParseCall(ExprPtr callee);
  absl::Status ParseArguments(CallExpr& call);
  ParsedExpr ParseTest(ExprPtr operand);
  absl::StatusOr<std::string> ParseDottedName();
  bool AtTestArgument() const;

  // Expressions with commas, up to a closing bracket.
  template <typename ParseItem>
  absl::Status ParseItems(std::string_view close, bool with_last_comma, ParseItem parse_item);

  // Sets the node's depth from its children's.
  ParsedExpr Finish(ExprPtr node, int line);
  absl::Status TooDeep() const;

  TokenStream& stream_;
  Nesting& nesting_;
  Constants& constants_;
  std::array<int, 4> num_special_ = {};
};

}  // namespace incipit::jinja
