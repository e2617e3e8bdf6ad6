#include "text/jinja/parser.h"

#include <algorithm>
#include <array>

#include "base/status.h"
#include "text/jinja/ast_walk.h"
#include "text/jinja/expression_parser.h"
#include "text/jinja/resolver.h"

namespace incipit::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  using Result = absl::StatusOr<StmtPtr>;

  Parser(std::vector<Token> tokens, int depth_max)
      : stream_(std::move(tokens)),
        nesting_{.depth = 0, .depth_max = depth_max},
        expressions_(stream_, nesting_) {}

  absl::StatusOr<Program> Run() {
    Program program;
    INCIPIT_RETURN_IF_ERROR(ParseUntil({}, program.body));
    return program;
  }

 private:
  // Statements up to one of the tags in `end`, whose name is then the current token.
  absl::Status ParseUntil(Names end, Body& body) {
    std::unique_ptr<OutputStmt> output;
    const auto flush = [&] {
      if (output != nullptr) body.push_back(std::move(output));
    };
    const auto add = [&](ExprPtr expr) {
      if (output == nullptr) {
        output = std::make_unique<OutputStmt>();
        output->line = expr->line;
      }
      output->items.push_back(std::move(expr));
    };
    while (!stream_.At(TokenType::kEnd)) {
      const Token token = stream_.Next();
      if (token.type == TokenType::kData) {
        auto data = std::make_unique<ConstExpr>();
        data->line = token.line;
        data->value = Value::String(MakeConstantText(token.text));
        add(std::move(data));
      } else if (token.type == TokenType::kVariableBegin) {
        INCIPIT_ASSIGN_OR_RETURN(ExprPtr expr, expressions_.ParseTuple({}));
        add(std::move(expr));
        INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kVariableEnd).status());
      } else {
        flush();
        for (const std::string_view name : end) {
          if (stream_.AtName(name)) return absl::OkStatus();
        }
        INCIPIT_ASSIGN_OR_RETURN(StmtPtr statement, ParseStatement());
        body.push_back(std::move(statement));
        INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kBlockEnd).status());
      }
    }
    flush();
    return absl::OkStatus();
  }

  // The end of the opening tag, then statements up to a tag in `end`.
  absl::Status ParseBody(Names end, Body& body) {
    stream_.SkipIf(TokenType::kColon);
    INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kBlockEnd).status());
    INCIPIT_RETURN_IF_ERROR(ParseUntil(end, body));
    if (!stream_.At(TokenType::kEnd)) return absl::OkStatus();
    return stream_.Fail(fmt::format("unexpected end of template, looking for '{}'",
                                    fmt::join(end.begin(), end.end(), "' or '")));
  }
  absl::Status ParseWholeBody(std::string_view end, Body& body) {
    INCIPIT_RETURN_IF_ERROR(ParseBody({end}, body));
    stream_.Next();
    return absl::OkStatus();
  }

  Result ParseStatement() {
    const NestingGuard guard(nesting_);
    if (guard.too_deep()) {
      return stream_.Fail(
          fmt::format("blocks are nested more than {} deep (limit depth_max)", nesting_.depth_max));
    }
    if (!stream_.At(TokenType::kName)) return stream_.Fail("tag name expected");
    using Method = Result (Parser::*)();
    constexpr std::array<std::pair<std::string_view, Method>, 11> kTags = {{
        {"for", &Parser::ParseFor},
        {"if", &Parser::ParseIf},
        {"set", &Parser::ParseSet},
        {"macro", &Parser::ParseMacro},
        {"call", &Parser::ParseCallBlock},
        {"generation", &Parser::ParseGeneration},
        {"filter", &Parser::ParseFilterBlock},
        {"with", &Parser::ParseWith},
        {"print", &Parser::ParsePrint},
        {"break", &Parser::ParseLoopControl},
        {"continue", &Parser::ParseLoopControl},
    }};
    const Token& tag = stream_.current();
    for (const auto& [name, method] : kTags) {
      if (tag.text == name) return (this->*method)();
    }
    constexpr std::string_view kRefused[] = {"block",  "extends", "include",
                                             "import", "from",    "autoescape"};
    if (std::find(std::begin(kRefused), std::end(kRefused), tag.text) != std::end(kRefused)) {
      return Unimplemented("chat template line {}: the tag '{}' is not supported", tag.line,
                           tag.text);
    }
    return stream_.Fail(fmt::format("unknown tag '{}'", tag.text));
  }

  Result ParseFor() {
    auto node = std::make_unique<ForStmt>();
    node->line = stream_.Next().line;
    INCIPIT_ASSIGN_OR_RETURN(node->target, expressions_.ParseTarget(NameContext::kStore, "in"));
    INCIPIT_RETURN_IF_ERROR(stream_.ExpectName("in").status());
    INCIPIT_ASSIGN_OR_RETURN(node->iterable, expressions_.ParseTuple({.with_condition = false,
                                                                      .end_name = "recursive"}));
    if (stream_.SkipIfName("if")) {
      INCIPIT_ASSIGN_OR_RETURN(node->test, expressions_.ParseExpression());
      node->test_target = CloneTarget(*node->target);
    }
    node->recursive = stream_.SkipIfName("recursive");
    ++num_loops_;
    INCIPIT_RETURN_IF_ERROR(ParseBody({"endfor", "else"}, node->body));
    --num_loops_;
    if (stream_.Next().text == "else") {
      INCIPIT_RETURN_IF_ERROR(ParseWholeBody("endfor", node->otherwise));
    }
    return node;
  }

  Result ParseIf() {
    auto node = std::make_unique<IfStmt>();
    IfStmt* branch = node.get();
    branch->line = stream_.Next().line;
    while (true) {
      INCIPIT_ASSIGN_OR_RETURN(branch->test, expressions_.ParseTuple({.with_condition = false}));
      INCIPIT_RETURN_IF_ERROR(ParseBody({"elif", "else", "endif"}, branch->body));
      const Token end = stream_.Next();
      if (end.text == "elif") {
        node->elifs.push_back(std::make_unique<IfStmt>());
        branch = node->elifs.back().get();
        branch->line = end.line;
        continue;
      }
      if (end.text == "else") {
        INCIPIT_RETURN_IF_ERROR(ParseWholeBody("endif", node->otherwise));
      }
      return node;
    }
  }

  Result ParseSet() {
    const int line = stream_.Next().line;
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr target,
                             expressions_.ParseTarget(NameContext::kStore, "", true));
    if (stream_.SkipIf(TokenType::kAssign)) {
      auto node = std::make_unique<SetStmt>();
      node->line = line;
      node->target = std::move(target);
      INCIPIT_ASSIGN_OR_RETURN(node->value, expressions_.ParseTuple({}));
      return node;
    }
    auto node = std::make_unique<SetBlockStmt>();
    node->line = line;
    node->target = std::move(target);
    INCIPIT_ASSIGN_OR_RETURN(node->filter, expressions_.ParseFilters(nullptr, false));
    INCIPIT_RETURN_IF_ERROR(ParseWholeBody("endset", node->body));
    return node;
  }

  absl::Status ParseSignature(MacroCode& code) {
    INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kLeftParen).status());
    while (!stream_.At(TokenType::kRightParen)) {
      if (!code.parameters.empty()) {
        INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kComma).status());
      }
      INCIPIT_ASSIGN_OR_RETURN(std::unique_ptr<NameExpr> parameter,
                               expressions_.ParseNameTarget(NameContext::kParameter));
      for (const auto& other : code.parameters) {
        if (other->name == parameter->name) {
          return stream_.Fail(fmt::format("duplicate parameter '{}'", parameter->name));
        }
      }
      if (stream_.SkipIf(TokenType::kAssign)) {
        INCIPIT_ASSIGN_OR_RETURN(ExprPtr value, expressions_.ParseExpression());
        code.defaults.push_back(std::move(value));
      } else if (!code.defaults.empty()) {
        return stream_.Fail("non-default argument follows default argument");
      }
      code.not_provided.emplace_back(
          fmt::format("parameter '{}' was not provided", parameter->name));
      code.parameters.push_back(std::move(parameter));
    }
    stream_.Next();
    return absl::OkStatus();
  }

  // The body of what Jinja2 compiles to a function: loops outside of it cannot be left from inside.
  absl::Status ParseFunctionBody(std::string_view end, Body& body) {
    const int outer_loops = std::exchange(num_loops_, 0);
    INCIPIT_RETURN_IF_ERROR(ParseWholeBody(end, body));
    num_loops_ = outer_loops;
    return absl::OkStatus();
  }

  Result ParseMacro() {
    auto node = std::make_unique<MacroStmt>();
    node->line = stream_.Next().line;
    INCIPIT_ASSIGN_OR_RETURN(const std::unique_ptr<NameExpr> name,
                             expressions_.ParseNameTarget(NameContext::kStore));
    node->code.name = name->name;
    INCIPIT_RETURN_IF_ERROR(ParseSignature(node->code));
    INCIPIT_RETURN_IF_ERROR(ParseFunctionBody("endmacro", node->code.body));
    return node;
  }

  Result ParseCallBlock() {
    auto node = std::make_unique<CallBlockStmt>();
    node->line = stream_.Next().line;
    node->code.name = "caller";
    if (stream_.At(TokenType::kLeftParen)) {
      INCIPIT_RETURN_IF_ERROR(ParseSignature(node->code));
    }
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr call, expressions_.ParseExpression());
    if (call->kind != ExprKind::kCall) return stream_.Fail(node->line, "expected call");
    node->call.reset(static_cast<CallExpr*>(call.release()));
    INCIPIT_RETURN_IF_ERROR(ParseFunctionBody("endcall", node->code.body));
    return node;
  }

  Result ParseGeneration() {
    auto node = std::make_unique<CallBlockStmt>();
    node->line = stream_.Next().line;
    node->code.name = "caller";
    INCIPIT_RETURN_IF_ERROR(ParseFunctionBody("endgeneration", node->code.body));
    return node;
  }

  Result ParseFilterBlock() {
    auto node = std::make_unique<FilterBlockStmt>();
    node->line = stream_.Next().line;
    INCIPIT_ASSIGN_OR_RETURN(node->filter, expressions_.ParseFilters(nullptr, true));
    INCIPIT_RETURN_IF_ERROR(ParseWholeBody("endfilter", node->body));
    return node;
  }

  Result ParseWith() {
    auto node = std::make_unique<WithStmt>();
    node->line = stream_.Next().line;
    while (!stream_.At(TokenType::kBlockEnd)) {
      if (!node->targets.empty()) {
        INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kComma).status());
      }
      INCIPIT_ASSIGN_OR_RETURN(ExprPtr target, expressions_.ParseTarget(NameContext::kParameter));
      node->targets.push_back(std::move(target));
      INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kAssign).status());
      INCIPIT_ASSIGN_OR_RETURN(ExprPtr value, expressions_.ParseExpression());
      node->values.push_back(std::move(value));
    }
    INCIPIT_RETURN_IF_ERROR(ParseWholeBody("endwith", node->body));
    return node;
  }

  Result ParsePrint() {
    auto node = std::make_unique<OutputStmt>();
    node->line = stream_.Next().line;
    while (!stream_.At(TokenType::kBlockEnd)) {
      if (!node->items.empty()) {
        INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kComma).status());
      }
      INCIPIT_ASSIGN_OR_RETURN(ExprPtr item, expressions_.ParseExpression());
      node->items.push_back(std::move(item));
    }
    return node;
  }

  Result ParseLoopControl() {
    const Token token = stream_.Next();
    if (num_loops_ == 0) {
      return stream_.Fail(token.line, fmt::format("'{}' outside of a loop", token.text));
    }
    auto node = std::make_unique<LoopControlStmt>(token.text == "break" ? StmtKind::kBreak
                                                                        : StmtKind::kContinue);
    node->line = token.line;
    return node;
  }

  TokenStream stream_;
  Nesting nesting_;
  ExpressionParser expressions_;
  int num_loops_ = 0;  // around the current place, within its function
};

}  // namespace

absl::StatusOr<Program> ParseTemplate(std::string_view source, const ChatTemplateLimits& limits) {
  if (source.size() > limits.source_bytes_max) {
    return InvalidArgument("the chat template has {} bytes; at most {} are allowed", source.size(),
                           limits.source_bytes_max);
  }
  INCIPIT_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  Parser parser(std::move(tokens), limits.depth_max);
  INCIPIT_ASSIGN_OR_RETURN(Program program, parser.Run());
  INCIPIT_RETURN_IF_ERROR(ResolveNames(program));
  return program;
}

}  // namespace incipit::jinja
