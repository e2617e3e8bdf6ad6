#include "server/http/chat_page.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "server/http/chat_page_text.h"

namespace incipit {
namespace {

// Returns the source expression of a Content-Security-Policy for a SHA-256 hash.
std::string HashSource(std::string_view hex) {
  return fmt::format("'sha256-{}'", absl::Base64Escape(absl::HexStringToBytes(std::string(hex))));
}

// The part with "trusted-types" forbids that the script converts text to HTML.
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
