#include "server/rpc/local_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

namespace incipit {
namespace {

bool IsLoopback(const in_addr& address) { return ntohl(address.s_addr) >> 24 == 127; }

bool IsLoopback(const in6_addr& address) {
  if (IN6_IS_ADDR_LOOPBACK(&address)) return true;
  if (!IN6_IS_ADDR_V4MAPPED(&address)) return false;
  in_addr inner{};
  inner.s_addr = address.s6_addr32[3];
  return IsLoopback(inner);
}

bool RemovePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Returns the part of `text` before the last occurrence of `end`, or an empty text if `text` does
// not contain `end`.
std::string Before(std::string_view text, std::string_view end) {
  const size_t at = text.rfind(end);
  return std::string(text.substr(0, at == text.npos ? 0 : at));
}

}  // namespace

bool IsLocalPeer(std::string_view peer) {
  if (peer.starts_with("unix:") || peer.starts_with("unix-abstract:")) return true;
  if (RemovePrefix(peer, "ipv4:")) {
    in_addr address{};
    return inet_pton(AF_INET, Before(peer, ":").c_str(), &address) == 1 && IsLoopback(address);
  }
  if (!RemovePrefix(peer, "ipv6:")) return false;
  std::string host;
  if (RemovePrefix(peer, "%5B")) {
    host = Before(peer, "%5D:");
  } else if (RemovePrefix(peer, "[")) {
    host = Before(peer, "]:");
  }
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1 && IsLoopback(address);
}

}  // namespace incipit
