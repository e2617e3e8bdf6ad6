#include "text/jinja/syntax/parser.h"

#include <algorithm>
#include <array>

#include "base/status.h"
#include "text/jinja/syntax/expression_parser.h"
#include "text/jinja/syntax/resolver.h"

namespace incipit::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

class Parser : private ExpressionParser {
 public:
  using Result = absl::StatusOr<std::unique_ptr<Stmt>>;

  Parser(std::vector<Token> tokens, int depth_max)
      : ExpressionParser(std::move(tokens), depth_max) {}

  absl::StatusOr<Program> Run() {
    Program program;
    INCIPIT_RETURN_IF_ERROR(ParseUntil({}, program.body));
    program.constants = std::move(constants_);
    return program;
  }

 private:
  // Parses statements into `body`, up to a tag with a name in `end`, such as `endif`. This name is
  // then the current token.
  absl::Status ParseUntil(Names end, Body& body) {
    OutputStmt* output = nullptr;  // last statement of `body` if it is an OutputStmt; else null
    const auto add = [&](ExprPtr expr) {
      if (output == nullptr) {
        auto node = std::make_unique<OutputStmt>(expr->line);
        output = node.get();
        body.push_back(std::move(node));
      }
      output->items.push_back(std::move(expr));
    };
    while (!stream_.At(TokenType::kEnd)) {
      const Token token = stream_.Next();
      if (token.type == TokenType::kData) {
        auto data = std::make_unique<ValueExpr>(ExprKind::kConst, MakeConstant(token.text));
        data->line = token.line;
        add(std::move(data));
      } else if (token.type == TokenType::kVariableBegin) {
        INCIPIT_ASSIGN_OR_RETURN(ExprPtr expr, ParseTuple({}));
        add(std::move(expr));
        INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kVariableEnd).status());
      } else {
        output = nullptr;
        for (const std::string_view name : end) {
          if (stream_.AtName(name)) return absl::OkStatus();
        }
        INCIPIT_ASSIGN_OR_RETURN(std::unique_ptr<Stmt> statement, ParseStatement());
        body.push_back(std::move(statement));
        INCIPIT_RETURN_IF_ERROR(stream_.Expect(TokenType::kBlockEnd).status());
      }
    }
    return absl::OkStatus();
  }

  // Parses the rest of the opening tag, and then statements into `body`, up to a tag with a name in
  // `end`, such as `endif`.
  absl::Status ParseBody(Names end, Body& body) {
    stream_.SkipOperator(":");
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
    INCIPIT_RETURN_IF_ERROR(Enter());
    if (!stream_.At(TokenType::kName)) return stream_.Fail("tag name expected");
    using Method = Result (Parser::*)(int line);
    constexpr std::array<std::pair<std::string_view, Method>, 9> kTags = {{
        {"for", &Parser::ParseFor},
        {"if", &Parser::ParseIf},
        {"set", &Parser::ParseSet},
        {"macro", &Parser::ParseMacro},
        {"call", &Parser::ParseCallBlock},
        {"generation", &Parser::ParseGeneration},
        {"filter", &Parser::ParseFilterBlock},
        {"break", &Parser::ParseBreak},
        {"continue", &Parser::ParseContinue},
    }};
    const Token tag = stream_.Next();
    for (const auto& [name, method] : kTags) {
      if (tag.text != name) continue;
      Result statement = (this->*method)(tag.line);
      Leave();
      return statement;
    }
    constexpr std::string_view kRefused[] = {"block", "extends",    "include", "import",
                                             "from",  "autoescape", "with",    "print"};
    if (std::ranges::find(kRefused, tag.text) != std::end(kRefused)) {
      return stream_.Refuse(tag.line, fmt::format("the tag '{}'", tag.text));
    }
    return stream_.Fail(tag.line, fmt::format("unknown tag '{}'", tag.text));
  }

  Result ParseFor(int line) {
    auto node = std::make_unique<ForStmt>(line);
    INCIPIT_ASSIGN_OR_RETURN(node->target, ParseTarget("in"));
    INCIPIT_RETURN_IF_ERROR(stream_.ExpectName("in"));
    INCIPIT_ASSIGN_OR_RETURN(node->iterable,
                             ParseTuple({.with_condition = false, .end_name = "recursive"}));
    if (stream_.SkipName("if")) {
      INCIPIT_ASSIGN_OR_RETURN(node->test, ParseExpression());
      node->test_target = CloneTarget(*node->target);
    }
    if (stream_.AtName("recursive")) return stream_.Refuse(line, "a 'recursive' loop");
    ++num_loops_;
    const auto before = num_special_;
    INCIPIT_RETURN_IF_ERROR(ParseBody({"endfor", "else"}, node->body));
    node->uses_loop = num_special_[kLoop] > before[kLoop];
    --num_loops_;
    if (stream_.Next().text == "else") {
      INCIPIT_RETURN_IF_ERROR(ParseWholeBody("endfor", node->otherwise));
    }
    return node;
  }

  Result ParseIf(int line) {
    auto node = std::make_unique<IfStmt>(line);
    std::string end;
    do {
      IfStmt::Branch& branch = node->branches.emplace_back();
      INCIPIT_ASSIGN_OR_RETURN(branch.test, ParseTuple({.with_condition = false}));
      INCIPIT_RETURN_IF_ERROR(ParseBody({"elif", "else", "endif"}, branch.body));
      end = stream_.Next().text;
    } while (end == "elif");
    if (end == "else") INCIPIT_RETURN_IF_ERROR(ParseWholeBody("endif", node->otherwise));
    return node;
  }

  Result ParseSet(int line) {
    INCIPIT_ASSIGN_OR_RETURN(ExprPtr target, ParseTarget("", true));
    if (stream_.SkipOperator("=")) {
      auto node = std::make_unique<SetStmt>(line);
      node->target = std::move(target);
      INCIPIT_ASSIGN_OR_RETURN(node->value, ParseTuple({}));
      return node;
    }
    auto node = std::make_unique<BlockStmt>(StmtKind::kSetBlock, line);
    node->target = std::move(target);
    INCIPIT_ASSIGN_OR_RETURN(node->filter, ParseFilters(nullptr, false));
    INCIPIT_RETURN_IF_ERROR(ParseWholeBody("endset", node->body));
    return node;
  }

  absl::Status ParseSignature(MacroStmt& macro) {
    INCIPIT_RETURN_IF_ERROR(stream_.ExpectOperator("("));
    while (!stream_.SkipOperator(")")) {
      if (!macro.parameters.empty()) INCIPIT_RETURN_IF_ERROR(stream_.ExpectOperator(","));
      INCIPIT_ASSIGN_OR_RETURN(std::unique_ptr<NameExpr> parameter,
                               ParseNameTarget(NameContext::kParameter));
      for (const auto& other : macro.parameters) {
        if (other->name == parameter->name) {
          return stream_.Fail(fmt::format("duplicate parameter '{}'", parameter->name));
        }
      }
      if (stream_.SkipOperator("=")) {
        INCIPIT_ASSIGN_OR_RETURN(macro.defaults.emplace_back(), ParseExpression());
      } else if (!macro.defaults.empty()) {
        return stream_.Fail(
            "a parameter without default value follows a parameter with default value");
      } else if (parameter->name == "caller") {
        return stream_.Fail("the macro parameter 'caller' must have a default value");
      }
      parameter->undefined.message =
          fmt::format("parameter '{}' was not provided", parameter->name);
      macro.parameters.push_back(std::move(parameter));
    }
    return absl::OkStatus();
  }

  // Parses the body of a macro or call block. In Jinja2, this body is a function: `break` and
  // `continue` cannot leave a loop outside of the body.
  Result ParseFunctionBody(std::unique_ptr<MacroStmt> node, std::string_view end) {
    const int outer_loops = std::exchange(num_loops_, 0);
    const auto before = num_special_;
    INCIPIT_RETURN_IF_ERROR(ParseWholeBody(end, node->body));
    num_loops_ = outer_loops;
    const auto occurs = [&](Special special) {
      return num_special_[special] > before[special] &&
             std::ranges::none_of(node->parameters, [&](const auto& parameter) {
               return parameter->name == kSpecialNames[special];
             });
    };
    for (const auto special : {kKwargs, kVarargs}) {
      if (!occurs(special)) continue;
      return stream_.Refuse(node->line,
                            fmt::format("the special variable '{}'", kSpecialNames[special]));
    }
    node->uses_caller = occurs(kCaller);
    return node;
  }

  Result ParseMacro(int line) {
    INCIPIT_ASSIGN_OR_RETURN(const std::unique_ptr<NameExpr> name,
                             ParseNameTarget(NameContext::kStore));
    auto node = std::make_unique<MacroStmt>(StmtKind::kMacro, line, name->name);
    INCIPIT_RETURN_IF_ERROR(ParseSignature(*node));
    return ParseFunctionBody(std::move(node), "endmacro");
  }

  Result ParseCallBlock(int line) {
    auto node = std::make_unique<MacroStmt>(StmtKind::kCallBlock, line, "caller");
    if (stream_.AtOperator("(")) INCIPIT_RETURN_IF_ERROR(ParseSignature(*node));
    INCIPIT_ASSIGN_OR_RETURN(node->call, ParseExpression());
    if (node->call->kind != ExprKind::kCall) return stream_.Fail(line, "expected call");
    return ParseFunctionBody(std::move(node), "endcall");
  }

  Result ParseGeneration(int line) {
    return ParseFunctionBody(std::make_unique<MacroStmt>(StmtKind::kCallBlock, line, "caller"),
                             "endgeneration");
  }

  Result ParseFilterBlock(int line) {
    auto node = std::make_unique<BlockStmt>(StmtKind::kFilterBlock, line);
    INCIPIT_ASSIGN_OR_RETURN(node->filter, ParseFilters(nullptr, true));
    INCIPIT_RETURN_IF_ERROR(ParseWholeBody("endfilter", node->body));
    return node;
  }

  Result ParseBreak(int line) { return ParseLoopControl(StmtKind::kBreak, line); }
  Result ParseContinue(int line) { return ParseLoopControl(StmtKind::kContinue, line); }
  Result ParseLoopControl(StmtKind kind, int line) {
    if (num_loops_ == 0) return stream_.Fail(line, "'break' or 'continue' outside of a loop");
    return std::make_unique<Stmt>(kind, line);
  }

  // Number of loops around the current position, without loops outside of the current macro.
  int num_loops_ = 0;
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
