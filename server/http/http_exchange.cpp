#include "server/http/http_exchange.h"

#include <utility>

#include "server/http/http_connection.h"

namespace incipit {

void HttpExchange::AddFields(std::vector<std::pair<std::string, std::string>> fields) {
  fields_ = std::move(fields);
}
void HttpExchange::Respond(HttpResponse response, std::function<void(bool)> on_written) {
  response.fields.insert(response.fields.end(), fields_.begin(), fields_.end());
  connection_->Respond(std::move(response), std::move(on_written));
}
void HttpExchange::BeginStream(HttpResponse head) {
  head.fields.insert(head.fields.end(), fields_.begin(), fields_.end());
  connection_->BeginStream(std::move(head));
}
void HttpExchange::Write(std::string bytes, std::function<void(bool)> on_written) {
  connection_->Write(std::move(bytes), std::move(on_written));
}
void HttpExchange::EndStream() { connection_->EndStream(); }
void HttpExchange::Abort() { connection_->Close(); }
void HttpExchange::OnClosed(std::function<void()> on_closed) {
  connection_->OnClosed(std::move(on_closed));
}

}  // namespace incipit
