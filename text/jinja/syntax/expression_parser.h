// Parses the expressions of a template, with the grammar and the precedence of Jinja2.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "text/jinja/syntax/ast.h"
#include "text/jinja/syntax/token_stream.h"

namespace incipit::jinja {

using ParsedExpr = absl::StatusOr<ExprPtr>;

// Parses expressions. The parser of statements is a subclass.
class ExpressionParser {
 protected:
  ExpressionParser(std::vector<Token> tokens, int depth_max)
      : stream_(std::move(tokens)), depth_max_(depth_max) {}

  // Increases the nesting depth of blocks and expressions by 1. Returns an error if the depth
  // exceeds the limit depth_max. Leave() decreases the depth by 1.
  absl::Status Enter() { return ++depth_ <= depth_max_ ? absl::OkStatus() : TooDeep(); }
  void Leave() { --depth_; }

  // Adds a constant string to the template, and returns the string as a value.
  Value MakeConstant(std::string_view bytes);

  // Parses an expression. Accepts the form `a if b else c` without parentheses only if
  // `with_condition` is true.
  ParsedExpr ParseExpression(bool with_condition = true);

  enum Special : uint8_t { kLoop, kCaller, kKwargs, kVarargs };
  static constexpr std::string_view kSpecialNames[] = {"loop", "caller", "kwargs", "varargs"};

  struct TupleOptions {
    bool simplified = false;  // true if each item of the tuple must be a name or a literal
    bool with_condition = true;
    std::string_view end_name = {};  // name that ends the tuple, such as `recursive`; may be empty
    bool in_parentheses = false;
    // True if an attribute, such as `ns.attribute`, may be an item of the tuple
    bool with_namespace = false;
  };
  // Parses one expression, or a tuple of several expressions separated by commas.
  ParsedExpr ParseTuple(const TupleOptions& options);

  // Parses the target of an assignment: a name, or a tuple of names. If `with_namespace` is true,
  // an attribute such as `ns.attribute` may replace a name. `end_name` is a name that ends the
  // target, such as `in`.
  ParsedExpr ParseTarget(std::string_view end_name = {}, bool with_namespace = false);
  absl::StatusOr<std::unique_ptr<NameExpr>> ParseNameTarget(NameContext context);

  // Parses the filters after the expression `operand`, such as `|trim|upper`. In a filter block,
  // `operand` is null. If `start_inline` is true, no `|` precedes the first filter.
  ParsedExpr ParseFilters(ExprPtr operand, bool start_inline);

  TokenStream stream_;
  Constants constants_;
  // Number of uses of each special variable, such as `loop`, in the part of the template that was
  // already parsed.
  std::array<int, 4> num_special_ = {};

 private:
  ParsedExpr ParseCondition();
  // Parses an expression with the operators of kLevels[index] and all operators of higher
  // precedence.
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

  // Parses items separated by commas, and then the closing bracket `close`. A comma may follow the
  // last item. Calls `parse_item` for each item.
  template <typename ParseItem>
  absl::Status ParseItems(std::string_view close, ParseItem parse_item);

  // Sets the line and the nesting depth of `node`. Returns an error if the depth exceeds the limit
  // depth_max.
  ParsedExpr Finish(ExprPtr node, int line);
  absl::Status TooDeep() const;

  int depth_ = 0;
  const int depth_max_;
};

}  // namespace incipit::jinja
