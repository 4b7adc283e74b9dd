#include "apps/cli/serve_page.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "apps/explore/explore.h"
#include "net/link/socket.h"

namespace weft::cli {
namespace {

constexpr std::size_t kLongestRequest = 8192;  // bytes; browsers send about 1000
constexpr timeval kClientTimeout{2, 0};        // of a client that does not send or take

tl::unexpected<Error> failed(const char* call) {
  return failure(Code::kSystem, Blame::kInput, "explore: {}: {}", call, std::strerror(errno));
}

std::string answer(std::string_view status, std::string_view type, std::string_view body, bool with_body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n"
      "Content-Security-Policy: {}; frame-ancestors 'none'\r\n"
      "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\r\n{}",
      status, type, body.size(), explore::kContentPolicy, with_body ? body : "");
}

// The value of a header, in lower case; empty: none, or several.
std::string header(const std::string& request, const std::string& name) {
  std::string found;
  for (std::size_t at = request.find("\r\n"); at != std::string::npos && at + 2 < request.size();) {
    const std::size_t end = request.find("\r\n", at + 2);
    std::string line = request.substr(at + 2, end == std::string::npos ? end : end - at - 2);
    std::ranges::transform(line, line.begin(), [](unsigned char c) { return std::tolower(c); });
    if (line.starts_with(name + ":")) {
      if (!found.empty()) return "";
      found = line.substr(name.size() + 1);
      found.erase(0, found.find_first_not_of(" \t"));
      found.erase(found.find_last_not_of(" \t") + 1);
    }
    at = end;
  }
  return found;
}

std::string read_request(int fd) {
  std::string request;
  char buffer[2048];
  while (request.size() < kLongestRequest && request.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    request.append(buffer, static_cast<std::size_t>(got));
  }
  return request;
}

void send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace

std::string http_answer(const std::string& request, const std::string& host, const std::string& html) {
  const std::string asked = header(request, "host");
  const std::string local = "localhost" + host.substr(host.rfind(':'));
  if (request.find("\r\n\r\n") == std::string::npos)
    return answer("400 Bad Request", "text/plain", "no request\n", true);
  if (asked != host && asked != local)
    return answer("403 Forbidden", "text/plain", "another host was asked for\n", true);
  const bool head = request.starts_with("HEAD ");
  if (!head && !request.starts_with("GET ")) return answer("405 Method Not Allowed", "text/plain", "GET only\n", true);
  const std::size_t at = request.find(' ') + 1;
  const std::string path = request.substr(at, request.find_first_of(" ?", at) - at);
  if (path != "/") return answer("404 Not Found", "text/plain", "there is one page: /\n", !head);
  return answer("200 OK", "text/html", html, !head);
}

Status serve_page(const std::string& html, const std::function<void(const std::string& url)>& ready) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (!listener.open()) return failed("socket");
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return failed("bind");
  if (listen(listener.get(), 16) != 0) return failed("listen");
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return failed("getsockname");
  const std::string host = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  ready("http://" + host + "/");
  for (;;) {
    const UniqueFd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return failed("accept");
    }
    setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &kClientTimeout, sizeof kClientTimeout);
    setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &kClientTimeout, sizeof kClientTimeout);
    send_all(client.get(), http_answer(read_request(client.get()), host, html));
  }
}

}  // namespace weft::cli
