#include "text/jinja/expression_parser.h"

#include <algorithm>

#include "base/status.h"
#include "text/jinja/ast_walk.h"

namespace incipit::jinja {
namespace {

// Turns what was parsed as an expression into a target; false if it cannot be one.
bool MakeTarget(Expr& expr, NameContext context) {
  if (expr.kind == ExprKind::kNamespaceRef) return true;
  if (expr.kind == ExprKind::kName) {
    static_cast<NameExpr&>(expr).context = context;
    return true;
  }
  if (expr.kind != ExprKind::kTuple) return false;
  const auto& items = static_cast<TupleExpr&>(expr).items;
  return std::all_of(items.begin(), items.end(),
                     [&](const ExprPtr& item) { return MakeTarget(*item, context); });
}

bool IsConstantName(std::string_view name) {
  return name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
         name == "None";
}

std::optional<CompareOp> CompareOperator(TokenType type) {
  switch (type) {
    case TokenType::kEqual:
      return CompareOp::kEqual;
    case TokenType::kNotEqual:
      return CompareOp::kNotEqual;
    case TokenType::kLess:
      return CompareOp::kLess;
    case TokenType::kLessEqual:
      return CompareOp::kLessEqual;
    case TokenType::kGreater:
      return CompareOp::kGreater;
    case TokenType::kGreaterEqual:
      return CompareOp::kGreaterEqual;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::Status ExpressionParser::TooDeep() const {
  return stream_.Fail(
      fmt::format("blocks and expressions are nested more than {} deep (limit "
                  "depth_max)",
                  nesting_.depth_max));
}

ParsedExpr ExpressionParser::Finish(ExprPtr node, int line) {
  node->line = line;
  int depth = 0;
  ForEachChild(*node, [&](Expr& child) { depth = std::max(depth, child.depth); });
  node->depth = depth + 1;
  if (node->depth > nesting_.depth_max) return TooDeep();
  return node;
}

ParsedExpr ExpressionParser::ParseExpression(bool with_condition) {
  const NestingGuard guard(nesting_);
  if (guard.too_deep()) return TooDeep();
  return with_condition ? ParseCondition() : ParseOr();
}

ParsedExpr ExpressionParser::ParseCondition() {
  int line = stream_.current().line;
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr expr, ParseOr());
  while (stream_.SkipIfName("if")) {
    auto node = std::make_unique<ConditionExpr>();
    node->then = std::move(expr);
    INCIPIT_ASSIGN_OR_RETURN(node->test, ParseOr());
    if (stream_.SkipIfName("else")) {
      INCIPIT_ASSIGN_OR_RETURN(node->otherwise, ParseExpression());
    }
    node->undefined.message = fmt::format(
        "the inline if-expression on line {} evaluated to false and no else section was defined",
        line);
    INCIPIT_ASSIGN_OR_RETURN(expr, Finish(std::move(node), line));
    line = stream_.current().line;
  }
  return expr;
}

ParsedExpr ExpressionParser::ParseChain(Parse operand, ExprKind kind, std::string_view name) {
  const int line = stream_.current().line;
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr first, (this->*operand)());
  const auto skip = [&] {
    return name.empty() ? stream_.SkipIf(TokenType::kTilde) : stream_.SkipIfName(name);
  };
  if (!skip()) return first;
  auto node = std::make_unique<ChainExpr>(kind);
  node->operands.push_back(std::move(first));
  do {
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr next, (this->*operand)());
    node->operands.push_back(std::move(next));
  } while (skip());
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseOr() {
  return ParseChain(&ExpressionParser::ParseAnd, ExprKind::kOr, "or");
}

ParsedExpr ExpressionParser::ParseAnd() {
  return ParseChain(&ExpressionParser::ParseNot, ExprKind::kAnd, "and");
}

ParsedExpr ExpressionParser::ParseNot() {
  if (!stream_.AtName("not")) return ParseCompare();
  const NestingGuard guard(nesting_);
  if (guard.too_deep()) return TooDeep();
  const int line = stream_.Next().line;
  auto node = std::make_unique<UnaryExpr>();
  INCIPIT_ASSIGN_OR_RETURN(node->operand, ParseNot());
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseCompare() {
  const int line = stream_.current().line;
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr first, ParseSum());
  auto node = std::make_unique<CompareExpr>();
  while (true) {
    std::optional<CompareOp> op = CompareOperator(stream_.current().type);
    if (op) {
      stream_.Next();
    } else if (stream_.SkipIfName("in")) {
      op = CompareOp::kIn;
    } else if (stream_.AtName("not") && stream_.Look().type == TokenType::kName &&
               stream_.Look().text == "in") {
      stream_.Next();
      stream_.Next();
      op = CompareOp::kNotIn;
    } else {
      break;
    }
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr operand, ParseSum());
    node->rest.emplace_back(*op, std::move(operand));
  }
  if (node->rest.empty()) return first;
  node->first = std::move(first);
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseArithmetic(Parse operand,
                                             std::vector<std::pair<TokenType, ArithmeticOp>> ops) {
  const int line = stream_.current().line;
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr first, (this->*operand)());
  auto node = std::make_unique<ArithmeticExpr>();
  while (true) {
    const auto it =
        std::find_if(ops.begin(), ops.end(), [&](const auto& op) { return stream_.At(op.first); });
    if (it == ops.end()) break;
    stream_.Next();
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr next, (this->*operand)());
    node->rest.emplace_back(it->second, std::move(next));
  }
  if (node->rest.empty()) return first;
  node->first = std::move(first);
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseSum() {
  return ParseArithmetic(&ExpressionParser::ParseConcat, {{TokenType::kAdd, ArithmeticOp::kAdd},
                                                          {TokenType::kSub, ArithmeticOp::kSub}});
}

ParsedExpr ExpressionParser::ParseConcat() {
  return ParseChain(&ExpressionParser::ParseProduct, ExprKind::kConcat, "");
}

ParsedExpr ExpressionParser::ParseProduct() {
  return ParseArithmetic(&ExpressionParser::ParsePower,
                         {{TokenType::kMul, ArithmeticOp::kMul},
                          {TokenType::kDiv, ArithmeticOp::kDiv},
                          {TokenType::kFloorDiv, ArithmeticOp::kFloorDiv},
                          {TokenType::kMod, ArithmeticOp::kMod}});
}

ParsedExpr ExpressionParser::ParsePower() {
  const int line = stream_.current().line;
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr first, ParseUnary(true));
  auto node = std::make_unique<ArithmeticExpr>();
  while (stream_.SkipIf(TokenType::kPow)) {
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr next, ParseUnary(true));
    node->rest.emplace_back(ArithmeticOp::kPow, std::move(next));
  }
  if (node->rest.empty()) return first;
  node->first = std::move(first);
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseUnary(bool with_filters) {
  const NestingGuard guard(nesting_);
  ExprPtr expr;
  if (stream_.At(TokenType::kSub) || stream_.At(TokenType::kAdd)) {
    if (guard.too_deep()) return TooDeep();
    auto node = std::make_unique<UnaryExpr>();
    const Token token = stream_.Next();
    node->op = token.type == TokenType::kSub ? UnaryOp::kNegative : UnaryOp::kPositive;
    INCIPIT_ASSIGN_OR_RETURN(node->operand, ParseUnary(false));
    INCIPIT_ASSIGN_OR_RETURN(expr, Finish(std::move(node), token.line));
  } else {
    INCIPIT_ASSIGN_OR_RETURN(expr, ParsePrimary(false));
  }
  INCIPIT_ASSIGN_OR_RETURN(expr, ParsePostfix(std::move(expr)));
  return with_filters ? ParseFilterExpression(std::move(expr)) : std::move(expr);
}

ParsedExpr ExpressionParser::ParsePrimary(bool with_namespace) {
  const Token& token = stream_.current();
  switch (token.type) {
    case TokenType::kName:
      return ParseName(with_namespace);
    case TokenType::kString:
      return ParseString();
    case TokenType::kInteger:
    case TokenType::kFloat: {
      auto node = std::make_unique<ConstExpr>();
      node->value = token.number;
      const int line = stream_.Next().line;
      return Finish(std::move(node), line);
    }
    case TokenType::kLeftParen: {
      stream_.Next();
      const NestingGuard guard(nesting_);
      if (guard.too_deep()) return TooDeep();
      INCIPIT_ASSIGN_OR_RETURN(ExprPtr expr, ParseTuple({.in_parentheses = true}));
      INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kRightParen).status());
      return expr;
    }
    case TokenType::kLeftBracket:
      return ParseList();
    case TokenType::kLeftBrace:
      return ParseDict();
    default:
      return stream_.Fail(fmt::format("unexpected '{}'", Describe(token)));
  }
}

ParsedExpr ExpressionParser::ParseName(bool with_namespace) {
  const Token token = stream_.Next();
  if (IsConstantName(token.text)) {
    auto node = std::make_unique<ConstExpr>();
    const char first = static_cast<char>(token.text[0] | 0x20);
    node->value = first == 'n' ? Value::None() : Value::Bool(first == 't');
    return Finish(std::move(node), token.line);
  }
  if (with_namespace && stream_.SkipIf(TokenType::kDot)) {
    auto node = std::make_unique<NamespaceRefExpr>();
    node->name = token.text;
    INCIPIT_ASSIGN_OR_RETURN(const Token attribute, stream_.Expect(TokenType::kName));
    node->attribute = Value::String(MakeConstantText(attribute.text));
    return Finish(std::move(node), token.line);
  }
  auto node = std::make_unique<NameExpr>();
  node->name = token.text;
  node->undefined.message = fmt::format("'{}' is undefined", token.text);
  return Finish(std::move(node), token.line);
}

ParsedExpr ExpressionParser::ParseString() {
  const int line = stream_.current().line;
  std::string text;
  while (stream_.At(TokenType::kString)) text += stream_.Next().text;
  auto node = std::make_unique<ConstExpr>();
  node->value = Value::String(MakeConstantText(std::move(text)));
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseTuple(const TupleOptions& options) {
  const int line = stream_.current().line;
  auto node = std::make_unique<TupleExpr>();
  bool is_tuple = false;
  while (true) {
    if (!node->items.empty()) {
      INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kComma).status());
    }
    if (stream_.At(TokenType::kVariableEnd) || stream_.At(TokenType::kBlockEnd) ||
        stream_.At(TokenType::kRightParen) ||
        (!options.end_name.empty() && stream_.AtName(options.end_name))) {
      break;
    }
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr item, options.simplified
                                               ? ParsePrimary(options.with_namespace)
                                               : ParseExpression(options.with_condition));
    node->items.push_back(std::move(item));
    if (!stream_.At(TokenType::kComma)) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!node->items.empty()) return std::move(node->items.front());
    if (!options.in_parentheses) {
      return stream_.Fail(
          fmt::format("expected an expression, got '{}'", Describe(stream_.current())));
    }
  }
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseTarget(NameContext context, std::string_view end_name,
                                         bool with_namespace) {
  const int line = stream_.current().line;
  INCIPIT_ASSIGN_OR_RETURN(
      ExprPtr target,
      ParseTuple({.simplified = true, .end_name = end_name, .with_namespace = with_namespace}));
  if (!MakeTarget(*target, context)) {
    return stream_.Fail(line, "cannot assign to this expression");
  }
  return target;
}

absl::StatusOr<std::unique_ptr<NameExpr>> ExpressionParser::ParseNameTarget(NameContext context) {
  INCIPIT_ASSIGN_OR_RETURN(const Token token, stream_.Expect(TokenType::kName));
  if (IsConstantName(token.text)) {
    return stream_.Fail(token.line, fmt::format("cannot assign to '{}'", token.text));
  }
  auto node = std::make_unique<NameExpr>();
  node->line = token.line;
  node->name = token.text;
  node->context = context;
  node->undefined.message = fmt::format("'{}' is undefined", token.text);
  return node;
}

ParsedExpr ExpressionParser::ParseList() {
  const int line = stream_.Next().line;
  auto node = std::make_unique<ListExpr>();
  while (!stream_.At(TokenType::kRightBracket)) {
    if (!node->items.empty()) {
      INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kComma).status());
      if (stream_.At(TokenType::kRightBracket)) break;
    }
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr item, ParseExpression());
    node->items.push_back(std::move(item));
  }
  INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kRightBracket).status());
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseDict() {
  const int line = stream_.Next().line;
  auto node = std::make_unique<DictExpr>();
  while (!stream_.At(TokenType::kRightBrace)) {
    if (!node->items.empty()) {
      INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kComma).status());
      if (stream_.At(TokenType::kRightBrace)) break;
    }
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr key, ParseExpression());
    INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kColon).status());
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    node->items.emplace_back(std::move(key), std::move(value));
  }
  INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kRightBrace).status());
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParsePostfix(ExprPtr operand) {
  while (true) {
    if (stream_.At(TokenType::kDot) || stream_.At(TokenType::kLeftBracket)) {
      INCIPIT_ASSIGN_OR_RETURN(operand, ParseSubscript(std::move(operand)));
    } else if (stream_.At(TokenType::kLeftParen)) {
      INCIPIT_ASSIGN_OR_RETURN(operand, ParseCall(std::move(operand)));
    } else {
      return operand;
    }
  }
}

ParsedExpr ExpressionParser::ParseFilterExpression(ExprPtr operand) {
  while (true) {
    if (stream_.At(TokenType::kPipe)) {
      INCIPIT_ASSIGN_OR_RETURN(operand, ParseFilters(std::move(operand), false));
    } else if (stream_.AtName("is")) {
      INCIPIT_ASSIGN_OR_RETURN(operand, ParseTest(std::move(operand)));
    } else if (stream_.At(TokenType::kLeftParen)) {
      INCIPIT_ASSIGN_OR_RETURN(operand, ParseCall(std::move(operand)));
    } else {
      return operand;
    }
  }
}

ParsedExpr ExpressionParser::ParseSubscript(ExprPtr object) {
  const Token token = stream_.Next();
  if (token.type == TokenType::kLeftBracket) return ParseBrackets(std::move(object), token.line);
  const Token attribute = stream_.Next();
  if (attribute.type == TokenType::kName) {
    auto node = std::make_unique<GetAttributeExpr>();
    node->object = std::move(object);
    node->attribute = Value::String(MakeConstantText(attribute.text));
    return Finish(std::move(node), token.line);
  }
  if (attribute.type != TokenType::kInteger) {
    return stream_.Fail(attribute.line, "expected name or number after '.'");
  }
  auto index = std::make_unique<ConstExpr>();
  index->value = attribute.number;
  auto node = std::make_unique<GetItemExpr>();
  node->object = std::move(object);
  node->index = std::move(index);
  return Finish(std::move(node), token.line);
}

ParsedExpr ExpressionParser::ParseBrackets(ExprPtr object, int line) {
  auto indices = std::make_unique<TupleExpr>();
  while (!stream_.At(TokenType::kRightBracket)) {
    if (!indices->items.empty()) {
      INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kComma).status());
    }
    ExprPtr index;
    if (!stream_.At(TokenType::kColon)) {
      INCIPIT_ASSIGN_OR_RETURN(index, ParseExpression());
    }
    if (stream_.At(TokenType::kColon)) {
      if (!indices->items.empty()) {
        return Unimplemented(
            "chat template line {}: a slice among several indices is not supported", line);
      }
      return ParseSlice(std::move(object), std::move(index), line);
    }
    indices->items.push_back(std::move(index));
  }
  stream_.Next();
  auto node = std::make_unique<GetItemExpr>();
  node->object = std::move(object);
  if (indices->items.size() == 1) {
    node->index = std::move(indices->items.front());
  } else {
    INCIPIT_ASSIGN_OR_RETURN(node->index, Finish(std::move(indices), line));
  }
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseSlice(ExprPtr object, ExprPtr start, int line) {
  auto node = std::make_unique<SliceExpr>();
  node->object = std::move(object);
  node->start = std::move(start);
  const auto at_end = [&] {
    return stream_.At(TokenType::kRightBracket) || stream_.At(TokenType::kComma);
  };
  stream_.Next();
  if (!stream_.At(TokenType::kColon) && !at_end()) {
    INCIPIT_ASSIGN_OR_RETURN(node->stop, ParseExpression());
  }
  if (stream_.SkipIf(TokenType::kColon) && !at_end()) {
    INCIPIT_ASSIGN_OR_RETURN(node->step, ParseExpression());
  }
  if (stream_.At(TokenType::kComma)) {
    return Unimplemented("chat template line {}: a slice among several indices is not supported",
                         line);
  }
  INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kRightBracket).status());
  return Finish(std::move(node), line);
}

ParsedExpr ExpressionParser::ParseCall(ExprPtr callee) {
  const int line = stream_.current().line;
  auto node = std::make_unique<CallExpr>();
  node->callee = std::move(callee);
  INCIPIT_ASSIGN_OR_RETURN(node->arguments, ParseArguments());
  return Finish(std::move(node), line);
}

absl::StatusOr<CallArguments> ExpressionParser::ParseArguments() {
  INCIPIT_ASSIGN_OR_RETURN(const Token open, stream_.Expect(TokenType::kLeftParen));
  CallArguments arguments;
  bool first = true;
  while (!stream_.At(TokenType::kRightParen)) {
    if (!first) {
      INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kComma).status());
      if (stream_.At(TokenType::kRightParen)) break;
    }
    INCIPIT_RETURN_IF_ERROR(ParseArgument(arguments, open.line));
    first = false;
  }
  INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kRightParen).status());
  return arguments;
}

absl::Status ExpressionParser::ParseArgument(CallArguments& arguments, int line) {
  const auto invalid = [&] {
    return stream_.Fail(line, "invalid syntax for function call expression");
  };
  if (stream_.SkipIf(TokenType::kMul)) {
    if (arguments.star != nullptr || arguments.double_star != nullptr) return invalid();
    INCIPIT_ASSIGN_OR_RETURN(arguments.star, ParseExpression());
    return absl::OkStatus();
  }
  if (stream_.SkipIf(TokenType::kPow)) {
    if (arguments.double_star != nullptr) return invalid();
    INCIPIT_ASSIGN_OR_RETURN(arguments.double_star, ParseExpression());
    return absl::OkStatus();
  }
  if (stream_.At(TokenType::kName) && stream_.Look().type == TokenType::kAssign) {
    if (arguments.double_star != nullptr) return invalid();
    const std::string name = stream_.Next().text;
    stream_.Next();
    for (const auto& [key, value] : arguments.keyword) {
      if (key.bytes() == name)
        return stream_.Fail(line, fmt::format("keyword argument repeated: {}", name));
    }
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    arguments.keyword.emplace_back(Value::String(MakeConstantText(name)), std::move(value));
    return absl::OkStatus();
  }
  if (arguments.star != nullptr || arguments.double_star != nullptr || !arguments.keyword.empty()) {
    return invalid();
  }
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
  arguments.positional.push_back(std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<std::string> ExpressionParser::ParseDottedName() {
  INCIPIT_ASSIGN_OR_RETURN(Token token, stream_.Expect(TokenType::kName));
  std::string name = token.text;
  while (stream_.SkipIf(TokenType::kDot)) {
    INCIPIT_ASSIGN_OR_RETURN(token, stream_.Expect(TokenType::kName));
    name += "." + token.text;
  }
  return name;
}

ParsedExpr ExpressionParser::ParseFilters(ExprPtr operand, bool start_inline) {
  while (start_inline || stream_.At(TokenType::kPipe)) {
    if (!start_inline) stream_.Next();
    start_inline = false;
    const int line = stream_.current().line;
    auto node = std::make_unique<FilterExpr>();
    node->operand = std::move(operand);
    INCIPIT_ASSIGN_OR_RETURN(node->name, ParseDottedName());
    if (stream_.At(TokenType::kLeftParen)) {
      INCIPIT_ASSIGN_OR_RETURN(node->arguments, ParseArguments());
    }
    INCIPIT_ASSIGN_OR_RETURN(operand, Finish(std::move(node), line));
  }
  return operand;
}

bool ExpressionParser::AtTestArgument() const {
  switch (stream_.current().type) {
    case TokenType::kName:
      return !stream_.AtName("else") && !stream_.AtName("or") && !stream_.AtName("and");
    case TokenType::kString:
    case TokenType::kInteger:
    case TokenType::kFloat:
    case TokenType::kLeftParen:
    case TokenType::kLeftBracket:
    case TokenType::kLeftBrace:
      return true;
    default:
      return false;
  }
}

ParsedExpr ExpressionParser::ParseTest(ExprPtr operand) {
  const int line = stream_.Next().line;
  const bool negated = stream_.SkipIfName("not");
  auto node = std::make_unique<TestExpr>();
  node->operand = std::move(operand);
  INCIPIT_ASSIGN_OR_RETURN(node->name, ParseDottedName());
  if (stream_.At(TokenType::kLeftParen)) {
    INCIPIT_ASSIGN_OR_RETURN(node->arguments, ParseArguments());
  } else if (AtTestArgument()) {
    if (stream_.AtName("is")) return stream_.Fail("tests cannot be chained with 'is'");
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr argument, ParsePrimary(false));
    INCIPIT_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    node->arguments.positional.push_back(std::move(argument));
  }
  INCIPIT_ASSIGN_OR_RETURN(ExprPtr test, Finish(std::move(node), line));
  if (!negated) return test;
  auto inverse = std::make_unique<UnaryExpr>();
  inverse->operand = std::move(test);
  return Finish(std::move(inverse), line);
}

}  // namespace incipit::jinja
