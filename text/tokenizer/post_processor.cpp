#include "text/tokenizer/post_processor.h"

#include <string>
#include <utility>

#include "base/status.h"
#include "text/tokenizer/bpe_model.h"

namespace incipit {
namespace {

// Maximum number of items (special tokens and positions for the text) in a template. A
// sequence of post-processors can multiply the number of items.
constexpr size_t kTemplateItemsMax = 4096;

// The parts of an encoding: lists of tokens that one post-processor passes to the next.
using Parts = std::vector<TextTemplate>;

absl::Status ApplyProcessor(const JsonFields& fields, bool add_special_tokens, Parts& parts);

absl::StatusOr<TokenId> CheckedId(const nlohmann::json& id, const std::string& path) {
  if (!id.is_number_unsigned() || id.get<uint64_t>() > kTokenIdMax) {
    return InvalidArgument("the field {} has the token id {}; an id must be from 0 to {}", path,
                           id.dump(), kTokenIdMax);
  }
  return id.get<TokenId>();
}

absl::StatusOr<TextTemplate> SpecialTokenIds(const JsonFields& fields, const std::string& name) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* json, fields.Object("special_tokens"));
  const auto found = json->find(name);
  const std::string path = fields.PathOf("special_tokens");
  if (found == json->end())
    return InvalidArgument(
        "the field {} does not define a special token that the post-processor uses", path);
  INCIPIT_ASSIGN_OR_RETURN(const JsonFields token, JsonFields::Of(*found, path));
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* ids, token.Array("ids"));
  TextTemplate result;
  for (const nlohmann::json& id : *ids) {
    INCIPIT_ASSIGN_OR_RETURN(const TokenId checked, CheckedId(id, token.PathOf("ids")));
    result.push_back(checked);
  }
  return result;
}

absl::Status ApplyTemplate(const JsonFields& fields, bool add_special_tokens, Parts& parts) {
  if (parts.empty() || parts.size() > 2) {
    return Unimplemented(
        "the post-processor {} gets {} lists of tokens from the previous post-processor; only 1 or "
        "2 lists are supported",
        fields.path(), parts.size());
  }
  const char* name = parts.size() == 1 ? "single" : "pair";
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* pieces, fields.Array(name));
  Parts result;
  for (const nlohmann::json& json : *pieces) {
    INCIPIT_ASSIGN_OR_RETURN(const JsonFields piece, JsonFields::Of(json, fields.PathOf(name)));
    const bool is_sequence = piece.Find("Sequence") != nullptr;
    const char* kind = is_sequence ? "Sequence" : "SpecialToken";
    INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* object, piece.Object(kind));
    INCIPIT_ASSIGN_OR_RETURN(const JsonFields item, JsonFields::Of(*object, piece.PathOf(kind)));
    const absl::StatusOr<std::string> id = item.String("id");
    if (!id.ok()) return id.status();
    if (is_sequence) {
      const size_t index = *id == "A" ? 0 : 1;
      if (index >= parts.size() || (*id != "A" && *id != "B")) {
        return InvalidArgument(
            "the field {} must be \"A\" in the template \"single\", and \"A\" or \"B\" in the "
            "template \"pair\"",
            item.PathOf("id"));
      }
      result.push_back(parts[index]);
    } else if (add_special_tokens) {
      INCIPIT_ASSIGN_OR_RETURN(TextTemplate ids, SpecialTokenIds(fields, *id));
      result.push_back(std::move(ids));
    }
  }
  parts = std::move(result);
  return absl::OkStatus();
}

// Applies a post-processor of the type BertProcessing or RobertaProcessing to `parts` (lists of
// tokens). Adds the token `cls` before the first list, and the token `sep` after every list.
// RobertaProcessing also adds `sep` before every list except the first.
absl::Status ApplyClassifier(const JsonFields& fields, bool is_roberta, Parts& parts) {
  const auto id_of = [&](const char* name) -> absl::StatusOr<TokenId> {
    INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* pair, fields.Array(name));
    if (pair->size() != 2) return InvalidArgument("field {} is not a pair", fields.PathOf(name));
    return CheckedId((*pair)[1], fields.PathOf(name));
  };
  INCIPIT_ASSIGN_OR_RETURN(const TokenId cls, id_of("cls"));
  INCIPIT_ASSIGN_OR_RETURN(const TokenId sep, id_of("sep"));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == 0) parts[i].insert(parts[i].begin(), cls);
    if (i > 0 && is_roberta) parts[i].insert(parts[i].begin(), sep);
    parts[i].push_back(sep);
  }
  return absl::OkStatus();
}

absl::Status ApplySequence(const JsonFields& fields, bool add_special_tokens, Parts& parts) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* array, fields.Array("processors"));
  for (size_t i = 0; i < array->size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(
        const JsonFields processor,
        JsonFields::Of((*array)[i], fmt::format("{}[{}]", fields.PathOf("processors"), i)));
    INCIPIT_RETURN_IF_ERROR(ApplyProcessor(processor, add_special_tokens, parts));
  }
  return absl::OkStatus();
}

absl::Status ApplyProcessor(const JsonFields& fields, bool add_special_tokens, Parts& parts) {
  INCIPIT_ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
  // The type ByteLevel changes only character offsets, which this tokenizer does not compute.
  if (type == "ByteLevel") return absl::OkStatus();
  if (type == "Sequence") {
    INCIPIT_RETURN_IF_ERROR(ApplySequence(fields, add_special_tokens, parts));
  } else if (type == "TemplateProcessing") {
    INCIPIT_RETURN_IF_ERROR(ApplyTemplate(fields, add_special_tokens, parts));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    if (!add_special_tokens) return absl::OkStatus();
    INCIPIT_RETURN_IF_ERROR(ApplyClassifier(fields, type == "RobertaProcessing", parts));
  } else {
    return Unimplemented("the field {} has the unsupported value {}", fields.PathOf("type"), type);
  }
  size_t num_items = 0;
  for (const TextTemplate& part : parts) num_items += part.size();
  if (num_items > kTemplateItemsMax) {
    return InvalidArgument("the post-processor {} makes {} tokens; at most {} tokens are supported",
                           fields.path(), num_items, kTemplateItemsMax);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PostProcessing> CreatePostProcessing(const JsonFields& fields) {
  PostProcessing result;
  for (const bool add_special_tokens : {true, false}) {
    Parts parts = {{std::nullopt}};
    INCIPIT_RETURN_IF_ERROR(ApplyProcessor(fields, add_special_tokens, parts));
    TextTemplate& items =
        add_special_tokens ? result.with_special_tokens : result.without_special_tokens;
    items.clear();
    for (const TextTemplate& part : parts) items.insert(items.end(), part.begin(), part.end());
  }
  return result;
}

}  // namespace incipit
