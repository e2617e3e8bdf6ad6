// The expressions of a template, by Jinja2's grammar and precedence.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/token_stream.h"

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

class ExpressionParser {
 public:
  using Result = absl::StatusOr<ExprPtr>;

  ExpressionParser(TokenStream& stream, Nesting& nesting) : stream_(stream), nesting_(nesting) {}

  Result ParseExpression(bool with_condition = true);

  struct TupleOptions {
    bool simplified = false;  // names and literals only: targets
    bool with_condition = true;
    std::string_view end_name = {};  // a name that also ends the tuple
    bool in_parentheses = false;
    bool with_namespace = false;  // `ns.attribute` too
  };
  // One expression, or several with commas as a tuple.
  Result ParseTuple(const TupleOptions& options);

  // What can be assigned to: names and tuples of them.
  Result ParseTarget(NameContext context, std::string_view end_name = {},
                     bool with_namespace = false);
  absl::StatusOr<std::unique_ptr<NameExpr>> ParseNameTarget(NameContext context);

  // `|name(...)|name...` applied to `operand`, which may be null. `start_inline`: the first without
  // its pipe.
  Result ParseFilters(ExprPtr operand, bool start_inline);

 private:
  Result ParseCondition();
  Result ParseOr();
  Result ParseAnd();
  Result ParseNot();
  Result ParseCompare();
  Result ParseSum();
  Result ParseConcat();
  Result ParseProduct();
  Result ParsePower();
  Result ParseUnary(bool with_filters);
  Result ParsePrimary(bool with_namespace);
  Result ParseName(bool with_namespace);
  Result ParseString();
  Result ParseList();
  Result ParseDict();
  Result ParsePostfix(ExprPtr operand);
  Result ParseFilterExpression(ExprPtr operand);
  Result ParseSubscript(ExprPtr object);
  Result ParseBrackets(ExprPtr object, int line);
  Result ParseSlice(ExprPtr object, ExprPtr start, int line);
  Result ParseCall(ExprPtr callee);
  absl::StatusOr<CallArguments> ParseArguments();
  absl::Status ParseArgument(CallArguments& arguments, int line);
  Result ParseTest(ExprPtr operand);
  absl::StatusOr<std::string> ParseDottedName();
  bool AtTestArgument() const;

  using Parse = Result (ExpressionParser::*)();
  // left op right op right ..., flat.
  Result ParseArithmetic(Parse operand, std::vector<std::pair<TokenType, ArithmeticOp>> ops);
  Result ParseChain(Parse operand, ExprKind kind, std::string_view name);

  // Sets the node's depth from its children's.
  Result Finish(ExprPtr node, int line);
  absl::Status TooDeep() const;

  TokenStream& stream_;
  Nesting& nesting_;
};

}  // namespace incipit::jinja
