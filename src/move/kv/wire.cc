#include "move/kv/wire.h"

#include "base/result.h"

namespace weft::kv {

bool valid(const Question& q, bool known) {
  if (q.ask > Ask::kCounters || q.reserved != 0 || (q.ask == Ask::kHello) == known) return false;
  const bool has_keys = q.ask == Ask::kMatch || q.ask == Ask::kBegin;
  const bool has_id = q.ask == Ask::kEnd || q.ask == Ask::kCommit || q.ask == Ask::kAbandon || q.ask == Ask::kExtend;
  const bool has_time = has_keys || q.ask == Ask::kExtend || q.ask == Ask::kHello;
  return (has_keys ? q.count <= kMostKeys : q.count == 0) && (has_id || q.id == 0) &&
         (has_time ? q.milliseconds > 0 || q.ask == Ask::kMatch : q.milliseconds == 0);
}

bool valid(const Answer& a, std::uint32_t asked) {
  if (a.verdict > Verdict::kClosed || a.reserved != 0 || a.text > kMostText || a.pages > asked) return false;
  return a.verdict == Verdict::kGood ? a.number >= 0 && a.number <= kMostKeys : a.pages == 0 && a.text > 0;
}

Status check_key(const std::string& text) {
  constexpr std::size_t kFewest = 16;
  if (text.empty() || text.size() >= kFewest) return {};
  return bad_input("key: {} characters can be guessed: it has at least {}; make one with: openssl rand -hex 32",
                   text.size(), kFewest);
}

net::link::Key connection_key(const std::string& text) { return net::link::sha256("weft kv connection: " + text); }

}  // namespace weft::kv
