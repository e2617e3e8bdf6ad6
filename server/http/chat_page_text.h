// Declares the HTML text of the chat page and the hashes of its style and script. The build
// generates the definitions from the files in server/http/web/.
#pragma once

#include <string_view>

namespace incipit {

extern const std::string_view kChatPageHtml;
// SHA-256 hash of the style sheet in the chat page, as 64 hexadecimal digits.
extern const std::string_view kChatStyleSha256;
// SHA-256 hash of the script in the chat page, as 64 hexadecimal digits.
extern const std::string_view kChatScriptSha256;

}  // namespace incipit
