#include "apps/cli/serve_page.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cctype>

#include "apps/explore/explore.h"
#include "net/link/bytes.h"
#include "net/link/socket.h"

namespace weft::cli {
namespace {

namespace link = net::link;

constexpr std::size_t kLongestRequest = 8192;      // bytes; browsers send about 1000
constexpr std::chrono::seconds kClientTimeout{2};  // of a client that does not send or take

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

std::string read_request(int fd, const link::WaitLimit& limit) {
  std::string request;
  char buffer[2048];
  while (request.size() < kLongestRequest && request.find("\r\n\r\n") == std::string::npos) {
    const link::Moved moved = link::receive_now(fd, buffer, sizeof buffer);
    request.append(buffer, moved.bytes);
    if (moved.over) break;
    if (moved.bytes == 0 && link::wait_for(fd, POLLIN, limit) != link::Outcome::kDone) break;
  }
  return request;
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
  WEFT_TRY(const UniqueFd listener, link::listen_on(link::loopback()));
  const std::string host = link::local_address(listener.get()).text();
  ready("http://" + host + "/");
  for (;;) {
    (void)link::wait_for(listener.get(), POLLIN, {});
    WEFT_TRY(const UniqueFd client, link::accept_from(listener.get()));
    if (!client.open()) continue;
    const link::WaitLimit limit{.deadline = link::WaitLimit::Clock::now() + kClientTimeout};
    const std::string said = http_answer(read_request(client.get(), limit), host, html);
    (void)link::send_all(client.get(), std::as_bytes(std::span(said)), {}, limit);
  }
}

}  // namespace weft::cli
