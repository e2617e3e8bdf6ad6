#include "server/http/chat_page.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "server/http/chat_page_text.h"

namespace incipit {
namespace {

// Returns the Content-Security-Policy source expression that allows only the script or style with
// the SHA-256 hash `hex`. `hex` has 64 hexadecimal digits.
std::string HashSource(std::string_view hex) {
  return fmt::format("'sha256-{}'", absl::Base64Escape(absl::HexStringToBytes(std::string(hex))));
}

// Returns the Content-Security-Policy of the chat page. The directives with "trusted-types" forbid
// the script of the page to insert text as HTML.
std::string ContentSecurityPolicy() {
  return fmt::format(
      "default-src 'none'; script-src {}; style-src {}; img-src data:; connect-src 'self'; "
      "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
      "require-trusted-types-for 'script'; trusted-types 'none'",
      HashSource(kChatScriptSha256), HashSource(kChatStyleSha256));
}

}  // namespace

HttpResponse ChatPage() {
  static const std::string policy = ContentSecurityPolicy();
  return {.content_type = "text/html; charset=utf-8",
          .body = std::string(kChatPageHtml),
          .fields = {{"Content-Security-Policy", policy},
                     {"X-Content-Type-Options", "nosniff"},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cache-Control", "no-cache"}}};
}

}  // namespace incipit
