#include "apps/cli/http_post.h"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <string_view>

#include "net/link/bytes.h"
#include "net/link/socket.h"

namespace weft::cli {
namespace {

namespace link = net::link;

tl::unexpected<Error> no_answer(const std::string& url, std::string_view why) {
  return failure(Code::kSystem, Blame::kInput, "{}: {}", url, why);
}

}  // namespace

Status post_json(const std::string& url, const std::string& body) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return bad_input("{}: http://HOST:PORT/PATH is needed", url);
  const std::size_t slash = url.find('/', kScheme.size());
  std::string host = url.substr(kScheme.size(), slash == std::string::npos ? slash : slash - kScheme.size());
  const std::string path = slash == std::string::npos ? "/v1/metrics" : url.substr(slash);
  if (host.find(':') == std::string::npos) host += ":80";
  WEFT_TRY(const auto address, link::parse_address(url, host));
  const link::WaitLimit limit{.deadline = link::WaitLimit::Clock::now() + std::chrono::seconds(10)};
  const auto ready = [&](int fd, short events) { return link::wait_for(fd, events, limit) == link::Outcome::kDone; };
  WEFT_TRY(const auto fd, link::start_connect(address));
  if (!ready(fd.get(), POLLOUT) || link::connect_error(fd.get()) != 0) return no_answer(url, "nobody answers there");
  const std::string request = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: "
      "close\r\n\r\n{}",
      path, host, body.size(), body);
  const link::Outcome sent = link::send_all(fd.get(), std::as_bytes(std::span(request)), {}, limit);
  if (sent == link::Outcome::kLate) return no_answer(url, "it takes nothing");
  if (sent != link::Outcome::kDone) return no_answer(url, "the connection ended");
  std::string answer;
  char buffer[1024];
  while (answer.find("\r\n") == std::string::npos && ready(fd.get(), POLLIN)) {
    const link::Moved moved = link::receive_now(fd.get(), buffer, sizeof buffer);
    if (moved.over) break;
    answer.append(buffer, moved.bytes);
  }
  const std::string status = answer.substr(0, answer.find("\r\n"));
  if (status.starts_with("HTTP/1.") && status.size() > 9 && status[9] == '2') return {};
  return no_answer(url, status.empty() ? "no answer within 10 s" : status);
}

}  // namespace weft::cli
