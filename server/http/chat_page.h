// The chat page, a web page for conversations with the served model.
#pragma once

#include "server/http/http_message.h"

namespace incipit {

// Returns the HTTP response with the chat page. The header field Content-Security-Policy of the
// response lets the browser run only the page's own script. The field lets the script connect only
// to this server.
HttpResponse ChatPage();

}  // namespace incipit
