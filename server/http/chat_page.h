// The chat page, a web page for conversations with the served model.
#pragma once

#include "server/http/http_message.h"

namespace incipit {

// Returns the HTTP response with the chat page. Its header field Content-Security-Policy makes the
// browser run only the page's own script, and connect this script only to this server.
HttpResponse ChatPage();

}  // namespace incipit
