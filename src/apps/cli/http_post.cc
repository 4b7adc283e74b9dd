#include "apps/cli/http_post.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string_view>

#include "net/link/socket.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

tl::unexpected<Error> no_answer(const std::string& url, std::string_view why) {
  return failure(Code::kSystem, Blame::kInput, "{}: {}", url, why);
}

// Waits until the socket is ready; false: not in time.
bool ready(int fd, short events, Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd wanted{fd, events, 0};
  return left > 0 && poll(&wanted, 1, static_cast<int>(left)) == 1;
}

}  // namespace

Status post_json(const std::string& url, const std::string& body) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return bad_input("{}: http://HOST:PORT/PATH is needed", url);
  const std::size_t slash = url.find('/', kScheme.size());
  std::string host = url.substr(kScheme.size(), slash == std::string::npos ? slash : slash - kScheme.size());
  const std::string path = slash == std::string::npos ? "/v1/metrics" : url.substr(slash);
  if (host.find(':') == std::string::npos) host += ":80";
  WEFT_TRY(const auto address, net::link::parse_address(url, host));
  const auto until = Clock::now() + std::chrono::seconds(10);
  WEFT_TRY(const auto fd, net::link::start_connect(address));
  if (!ready(fd.get(), POLLOUT, until) || net::link::connect_error(fd.get()) != 0)
    return no_answer(url, "nobody answers there");
  const std::string request = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: "
      "close\r\n\r\n{}",
      path, host, body.size(), body);
  for (std::string_view left = request; !left.empty();) {
    if (!ready(fd.get(), POLLOUT, until)) return no_answer(url, "it takes nothing");
    const ssize_t sent = send(fd.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent <= 0) return no_answer(url, "the connection ended");
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
  std::string answer;
  char buffer[1024];
  while (answer.find("\r\n") == std::string::npos && ready(fd.get(), POLLIN, until)) {
    const ssize_t got = recv(fd.get(), buffer, sizeof buffer, 0);
    if (got <= 0) break;
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  const std::string status = answer.substr(0, answer.find("\r\n"));
  if (status.starts_with("HTTP/1.") && status.size() > 9 && status[9] == '2') return {};
  return no_answer(url, status.empty() ? "no answer within 10 s" : status);
}

}  // namespace weft::cli
