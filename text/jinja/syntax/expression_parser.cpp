#include "text/jinja/syntax/expression_parser.h"

#include <algorithm>
#include <span>

#include "base/status.h"

namespace incipit::jinja {
namespace {

// Turns the parsed expression `expr` into the target of an assignment. Returns false if `expr`
// cannot be a target.
bool MakeTarget(Expr& expr) {
  if (expr.kind == ExprKind::kNamespaceRef) return true;
  if (expr.kind == ExprKind::kName) {
    NodeAs<NameExpr>(expr).context = NameContext::kStore;
    return true;
  }
  return expr.kind == ExprKind::kTuple &&
         std::ranges::all_of(expr.children, [](const ExprPtr& item) { return MakeTarget(*item); });
}

bool IsConstantName(std::string_view name) {
  return name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
         name == "None";
}

struct Operator {
  template <typename Op>
  constexpr Operator(std::string_view s, Op o) : spelling(s), op(static_cast<uint8_t>(o)) {}
  std::string_view spelling;
  uint8_t op;
};
constexpr Operator kOr[] = {{"or", 0}}, kAnd[] = {{"and", 0}}, kConcat[] = {{"~", 0}};
constexpr Operator kCompare[] = {
    {"==", CompareOp::kEqual},     {"!=", CompareOp::kNotEqual}, {"<", CompareOp::kLess},
    {"<=", CompareOp::kLessEqual}, {">", CompareOp::kGreater},   {">=", CompareOp::kGreaterEqual},
    {"in", CompareOp::kIn},        {"not", CompareOp::kNotIn},
};
constexpr Operator kSum[] = {{"+", ArithmeticOp::kAdd}, {"-", ArithmeticOp::kSub}};
constexpr Operator kProduct[] = {{"*", ArithmeticOp::kMul},
                                 {"/", ArithmeticOp::kDiv},
                                 {"//", ArithmeticOp::kFloorDiv},
                                 {"%", ArithmeticOp::kMod}};
constexpr Operator kPower[] = {{"**", ArithmeticOp::kPow}};

// Operators that have the same precedence.
struct Level {
  ExprKind kind;
  std::span<const Operator> operators;
};
// Groups of binary operators with equal precedence, from the lowest to the highest precedence.
constexpr Level kLevels[] = {
    {ExprKind::kOr, kOr},
    {ExprKind::kAnd, kAnd},
    {ExprKind::kNot, {}},
    {ExprKind::kCompare, kCompare},
    {ExprKind::kArithmetic, kSum},
    {ExprKind::kConcat, kConcat},
    {ExprKind::kArithmetic, kProduct},
    {ExprKind::kArithmetic, kPower},
};

}  // namespace

absl::Status ExpressionParser::TooDeep() const {
  return stream_.Fail(fmt::format(
      "blocks and expressions are nested more than {} deep (limit depth_max)", depth_max_));
}

Value ExpressionParser::MakeConstant(std::string_view bytes) {
  TextBuilder builder;
  builder.Append(bytes);
  constants_.push_back(std::make_unique<Text>(std::move(builder)));
  return Value::Constant(*constants_.back());
}

ParsedExpr ExpressionParser::Finish(ExprPtr node, int line) {
  node->line = line;
  ForEachChild(*node, [&](Expr& child) { node->depth = std::max(node->depth, child.depth + 1); });
  if (node->depth > depth_max_) return TooDeep();
  return node;
}

ParsedExpr ExpressionParser::ParseExpression(bool with_condition) {
  INCIPIT_RETURN_IF_ERROR(Enter());
  ParsedExpr expr = with_condition ? ParseCondition() : ParseLevel(0);
  Leave();
  return expr;
}

ParsedExpr ExpressionParser::ParseCondition() {
  int line = stream_.current().line;
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr expr, ParseLevel(0));
  while (stream_.SkipName("if")) {
    auto node = std::make_unique<ConditionExpr>();
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr test, ParseLevel(0));
    ExprPtr otherwise;
    if (stream_.SkipName("else")) {
      INCIPIT_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    node->children.push_back(std::move(test));
    node->children.push_back(std::move(expr));
    node->children.push_back(std::move(otherwise));
    node->undefined.message = fmt::format(
        "the inline if-expression on line {} evaluated to false and no else section was defined",
        line);
    INCIPIT_ASSIGN_OR_RETURN(expr, Finish(std::move(node), line));
    line = stream_.current().line;
  }
  return expr;
}

ParsedExpr ExpressionParser::ParseLevel(size_t index) {
  if (index == std::size(kLevels)) return ParseSigned(true);
  const int line = stream_.current().line;
  const Level& level = kLevels[index];
  if (level.kind == ExprKind::kNot && stream_.AtName("not")) {
    INCIPIT_RETURN_IF_ERROR(Enter());
    stream_.Next();
    auto node = std::make_unique<Expr>(ExprKind::kNot);
    INCIPIT_ASSIGN_OR_RETURN(node->children.emplace_back(), ParseLevel(index));
    Leave();
    return Finish(std::move(node), line);
  }
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr next, ParseLevel(index + 1));
  std::unique_ptr<ChainExpr> node;
  while (stream_.At(TokenType::kOperator) || stream_.At(TokenType::kName)) {
    const Token& token = stream_.current();
    const auto op = std::ranges::find(level.operators, token.text, &Operator::spelling);
    if (op == level.operators.end()) break;
    if (token.text == "not") {
      if (stream_.Look().type != TokenType::kName || stream_.Look().text != "in") break;
      stream_.Next();
    }
    stream_.Next();
    if (node == nullptr) {
      node = std::make_unique<ChainExpr>(level.kind);
      node->children.push_back(std::move(next));
    }
    node->ops.push_back(op->op);
    INCIPIT_ASSIGN_OR_RETURN(next, ParseLevel(index + 1));
    node->children.push_back(std::move(next));
  }
  if (node == nullptr) return next;
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseSigned(bool with_filters) {
  ExprPtr expr;
  if (stream_.AtOperator("-") || stream_.AtOperator("+")) {
    INCIPIT_RETURN_IF_ERROR(Enter());
    const Token token = stream_.Next();
    auto node =
        std::make_unique<Expr>(token.text == "-" ? ExprKind::kNegative : ExprKind::kPositive);
    INCIPIT_ASSIGN_OR_RETURN(node->children.emplace_back(), ParseSigned(false));
    Leave();
    INCIPIT_ASSIGN_OR_RETURN(expr, Finish(std::move(node), token.line));
  } else {
    INCIPIT_ASSIGN_OR_RETURN(expr, ParsePrimary(false));
  }
  INCIPIT_ASSIGN_OR_RETURN(expr, ParsePostfix(std::move(expr)));
  return with_filters ? ParseFilterExpression(std::move(expr)) : std::move(expr);
}

ParsedExpr ExpressionParser::ParsePrimary(bool with_namespace) {
  const Token& token = stream_.current();
  const int line = token.line;
  if (token.type == TokenType::kName) return ParseName(with_namespace);
  if (token.type == TokenType::kString) return ParseString();
  if (token.type == TokenType::kNumber) {
    return Finish(std::make_unique<ValueExpr>(ExprKind::kConst, stream_.Next().number), line);
  }
  if (stream_.AtOperator("[")) return ParseList();
  if (stream_.AtOperator("{")) return ParseDict();
  if (!stream_.SkipOperator("(")) {
    return stream_.Fail(fmt::format("unexpected '{}'", Describe(token)));
  }
  INCIPIT_RETURN_IF_ERROR(Enter());
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr expr, ParseTuple({.in_parentheses = true}));
  Leave();
  INCIPIT_RETURN_IF_ERROR(stream_.ExpectOperator(")"));
  return expr;
}

ParsedExpr ExpressionParser::ParseName(bool with_namespace) {
  const Token token = stream_.Next();
  if (IsConstantName(token.text)) {
    const char first = static_cast<char>(token.text[0] | 0x20);
    const Value value = first == 'n' ? Value::None() : Value::Bool(first == 't');
    return Finish(std::make_unique<ValueExpr>(ExprKind::kConst, value), token.line);
  }
  for (size_t i = 0; i < std::size(kSpecialNames); ++i) {
    num_special_[i] += token.text == kSpecialNames[i];
  }
  if (with_namespace && stream_.SkipOperator(".")) {
    auto node = std::make_unique<NameExpr>(ExprKind::kNamespaceRef, token.text);
    INCIPIT_ASSIGN_OR_RETURN(const Token attribute, stream_.Expect(TokenType::kName));
    node->attribute = MakeConstant(attribute.text);
    return Finish(std::move(node), token.line);
  }
  return Finish(std::make_unique<NameExpr>(ExprKind::kName, token.text), token.line);
}

ParsedExpr ExpressionParser::ParseString() {
  const int line = stream_.current().line;
  std::string text;
  while (stream_.At(TokenType::kString)) text += stream_.Next().text;
  return Finish(std::make_unique<ValueExpr>(ExprKind::kConst, MakeConstant(text)), line);
}

ParsedExpr ExpressionParser::ParseTuple(const TupleOptions& options) {
  const int line = stream_.current().line;
  auto node = std::make_unique<Expr>(ExprKind::kTuple);
  bool is_tuple = false;
  while (true) {
    if (stream_.At(TokenType::kVariableEnd) || stream_.At(TokenType::kBlockEnd) ||
        stream_.AtOperator(")") ||
        (!options.end_name.empty() && stream_.AtName(options.end_name))) {
      break;
    }
    INCIPIT_ASSIGN_OR_RETURN(node->children.emplace_back(),
                             options.simplified ? ParsePrimary(options.with_namespace)
                                                : ParseExpression(options.with_condition));
    if (!stream_.SkipOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!node->children.empty()) return std::move(node->children.front());
    if (!options.in_parentheses) {
      return stream_.Fail(
          fmt::format("expected an expression, got '{}'", Describe(stream_.current())));
    }
  }
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseTarget(std::string_view end_name, bool with_namespace) {
  const int line = stream_.current().line;
  INCIPIT_ASSIGN_OR_RETURN(
      ExprPtr target,
      ParseTuple({.simplified = true, .end_name = end_name, .with_namespace = with_namespace}));
  if (!MakeTarget(*target))
    return stream_.Fail(line, "the target of an assignment must be a variable");
  return target;
}

absl::StatusOr<std::unique_ptr<NameExpr>> ExpressionParser::ParseNameTarget(NameContext context) {
  INCIPIT_ASSIGN_OR_RETURN(const Token token, stream_.Expect(TokenType::kName));
  if (IsConstantName(token.text)) {
    return stream_.Fail(token.line, fmt::format("cannot assign to '{}'", token.text));
  }
  auto node = std::make_unique<NameExpr>(ExprKind::kName, token.text);
  node->line = token.line;
  node->context = context;
  return node;
}

template <typename ParseItem>
absl::Status ExpressionParser::ParseItems(std::string_view close, ParseItem parse_item) {
  for (bool first = true; !stream_.AtOperator(close); first = false) {
    if (!first) {
      INCIPIT_RETURN_IF_ERROR(stream_.ExpectOperator(","));
      if (stream_.AtOperator(close)) break;
    }
    INCIPIT_RETURN_IF_ERROR(parse_item());
  }
  return stream_.ExpectOperator(close);
}

ParsedExpr ExpressionParser::ParseList() {
  const int line = stream_.Next().line;
  auto node = std::make_unique<Expr>(ExprKind::kList);
  INCIPIT_RETURN_IF_ERROR(ParseItems("]", [&]() -> absl::Status {
    INCIPIT_ASSIGN_OR_RETURN(node->children.emplace_back(), ParseExpression());
    return absl::OkStatus();
  }));
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseDict() {
  const int line = stream_.Next().line;
  auto node = std::make_unique<Expr>(ExprKind::kDict);
  INCIPIT_RETURN_IF_ERROR(ParseItems("}", [&]() -> absl::Status {
    INCIPIT_ASSIGN_OR_RETURN(node->children.emplace_back(), ParseExpression());
    INCIPIT_RETURN_IF_ERROR(stream_.ExpectOperator(":"));
    INCIPIT_ASSIGN_OR_RETURN(node->children.emplace_back(), ParseExpression());
    return absl::OkStatus();
  }));
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParsePostfix(ExprPtr operand) {
  while (true) {
    if (stream_.AtOperator(".") || stream_.AtOperator("[")) {
      INCIPIT_ASSIGN_OR_RETURN(operand, ParseSubscript(std::move(operand)));
    } else if (stream_.AtOperator("(")) {
      INCIPIT_ASSIGN_OR_RETURN(operand, ParseCall(std::move(operand)));
    } else {
      return operand;
    }
  }
}

ParsedExpr ExpressionParser::ParseFilterExpression(ExprPtr operand) {
  while (true) {
    if (stream_.AtOperator("|")) {
      INCIPIT_ASSIGN_OR_RETURN(operand, ParseFilters(std::move(operand), false));
    } else if (stream_.AtName("is")) {
      INCIPIT_ASSIGN_OR_RETURN(operand, ParseTest(std::move(operand)));
    } else if (stream_.AtOperator("(")) {
      INCIPIT_ASSIGN_OR_RETURN(operand, ParseCall(std::move(operand)));
    } else {
      return operand;
    }
  }
}

ParsedExpr ExpressionParser::ParseSubscript(ExprPtr object) {
  const Token token = stream_.Next();
  if (token.text == "[") return ParseBrackets(std::move(object), token.line);
  const Token attribute = stream_.Next();
  ExprPtr node;
  if (attribute.type == TokenType::kName) {
    node = std::make_unique<ValueExpr>(ExprKind::kGetAttribute, MakeConstant(attribute.text));
    node->children.push_back(std::move(object));
  } else if (attribute.type == TokenType::kNumber && attribute.number.is_integral()) {
    node = std::make_unique<Expr>(ExprKind::kGetItem);
    node->children.push_back(std::move(object));
    node->children.push_back(std::make_unique<ValueExpr>(ExprKind::kConst, attribute.number));
  } else {
    return stream_.Fail(attribute.line, "a name or a number must follow '.'");
  }
  return Finish(std::move(node), token.line);
}

ParsedExpr ExpressionParser::ParseBrackets(ExprPtr object, int line) {
  auto node = std::make_unique<Expr>(ExprKind::kGetItem);
  node->children.push_back(std::move(object));
  const auto at_end = [&] { return stream_.AtOperator("]") || stream_.AtOperator(","); };
  const auto parse_bound = [&]() -> ParsedExpr {
    return stream_.AtOperator(":") || at_end() ? ExprPtr() : ParseExpression();
  };
  INCIPIT_ASSIGN_OR_RETURN(node->children.emplace_back(), parse_bound());
  if (stream_.AtOperator(":")) {
    auto slice = std::make_unique<Expr>(ExprKind::kSlice);
    slice->children = std::move(node->children);
    while (slice->children.size() < 4 && stream_.SkipOperator(":")) {
      INCIPIT_ASSIGN_OR_RETURN(slice->children.emplace_back(), parse_bound());
    }
    slice->children.resize(4);
    node = std::move(slice);
  } else if (node->children.back() == nullptr) {
    return stream_.Refuse(line, "an empty index");
  }
  if (stream_.AtOperator(",")) return stream_.Refuse(line, "an index with a comma");
  INCIPIT_RETURN_IF_ERROR(stream_.ExpectOperator("]"));
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseCall(ExprPtr callee) {
  const int line = stream_.current().line;
  auto node = std::make_unique<CallExpr>(ExprKind::kCall);
  node->children.push_back(std::move(callee));
  INCIPIT_RETURN_IF_ERROR(ParseArguments(*node));
  return Finish(std::move(node), line);
}

absl::Status ExpressionParser::ParseArguments(CallExpr& call) {
  const int line = stream_.current().line;
  INCIPIT_RETURN_IF_ERROR(stream_.ExpectOperator("("));
  return ParseItems(")", [&]() -> absl::Status {
    if (stream_.AtOperator("*") || stream_.AtOperator("**")) {
      return stream_.Refuse(line, fmt::format("an argument with '{}'", stream_.current().text));
    }
    if (stream_.At(TokenType::kName) && stream_.Look().type == TokenType::kOperator &&
        stream_.Look().text == "=") {
      const std::string name = stream_.Next().text;
      stream_.Next();
      for (const Value& other : call.keywords) {
        if (other.bytes() == name) {
          return stream_.Fail(line, fmt::format("keyword argument repeated: {}", name));
        }
      }
      call.keywords.push_back(MakeConstant(name));
    } else if (!call.keywords.empty()) {
      return stream_.Fail(line, "a positional argument follows a keyword argument");
    }
    INCIPIT_ASSIGN_OR_RETURN(call.children.emplace_back(), ParseExpression());
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> ExpressionParser::ParseDottedName() {
  INCIPIT_ASSIGN_OR_RETURN(Token token, stream_.Expect(TokenType::kName));
  std::string name = token.text;
  while (stream_.SkipOperator(".")) {
    INCIPIT_ASSIGN_OR_RETURN(token, stream_.Expect(TokenType::kName));
    name += "." + token.text;
  }
  return name;
}

ParsedExpr ExpressionParser::ParseFilters(ExprPtr operand, bool start_inline) {
  while (std::exchange(start_inline, false) || stream_.SkipOperator("|")) {
    const int line = stream_.current().line;
    auto node = std::make_unique<CallExpr>(ExprKind::kFilter);
    node->children.push_back(std::move(operand));
    INCIPIT_ASSIGN_OR_RETURN(node->name, ParseDottedName());
    if (stream_.AtOperator("(")) INCIPIT_RETURN_IF_ERROR(ParseArguments(*node));
    INCIPIT_ASSIGN_OR_RETURN(operand, Finish(std::move(node), line));
  }
  return operand;
}

bool ExpressionParser::AtTestArgument() const {
  if (stream_.At(TokenType::kName)) {
    return !stream_.AtName("else") && !stream_.AtName("or") && !stream_.AtName("and");
  }
  return stream_.At(TokenType::kString) || stream_.At(TokenType::kNumber) ||
         stream_.AtOperator("(") || stream_.AtOperator("[") || stream_.AtOperator("{");
}

ParsedExpr ExpressionParser::ParseTest(ExprPtr operand) {
  const int line = stream_.Next().line;
  const bool negated = stream_.SkipName("not");
  auto node = std::make_unique<CallExpr>(ExprKind::kTest);
  node->children.push_back(std::move(operand));
  INCIPIT_ASSIGN_OR_RETURN(node->name, ParseDottedName());
  if (stream_.AtOperator("(")) {
    INCIPIT_RETURN_IF_ERROR(ParseArguments(*node));
  } else if (AtTestArgument()) {
    if (stream_.AtName("is")) return stream_.Fail("tests cannot be chained with 'is'");
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr argument, ParsePrimary(false));
    INCIPIT_ASSIGN_OR_RETURN(node->children.emplace_back(), ParsePostfix(std::move(argument)));
  }
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr test, Finish(std::move(node), line));
  if (!negated) return test;
  auto inverse = std::make_unique<Expr>(ExprKind::kNot);
  inverse->children.push_back(std::move(test));
  return Finish(std::move(inverse), line);
}

}  // namespace incipit::jinja
