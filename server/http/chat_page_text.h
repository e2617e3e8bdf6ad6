// The text of the chat page. The build generates the definitions from the files in web/.
#pragma once

#include <string_view>

namespace incipit {

extern const std::string_view kChatPageHtml;
// SHA-256 of the content of the page's element `style` or `script`, as 64 hexadecimal digits.
extern const std::string_view kChatStyleSha256;
extern const std::string_view kChatScriptSha256;

}  // namespace incipit
