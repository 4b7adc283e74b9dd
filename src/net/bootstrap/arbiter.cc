#include "net/bootstrap/arbiter.h"

#include <atomic>
#include <map>

namespace weft::net::bootstrap {
namespace {

constexpr std::size_t kMostRegisters = 1 << 16;

}  // namespace

struct Arbiter::Registers {
  std::map<Digest, Octets> held;  // the responder's thread's
  std::atomic<bool> any{false};

  Message reply(const Message& request) {
    Message out;
    out.head.kind = request.head.kind;
    if (request.head.kind != MessageKind::kClaim || request.body.empty()) return out;
    if (held.size() >= kMostRegisters && !held.contains(request.head.tag)) return out;
    out.body = held.try_emplace(request.head.tag, request.body).first->second;
    out.head.status = MessageStatus::kDecided;
    any = true;
    return out;
  }
};

Arbiter::Arbiter(std::unique_ptr<Registers> registers) : registers_(std::move(registers)) {
  responder_ = std::make_unique<Responder>(
      Responder::Handlers{.key_of = [](const MessageHead& head) { return std::optional<Key>(head.tag); },
                          .reply = [held = registers_.get()](const Message& request) { return held->reply(request); }});
}

Arbiter::~Arbiter() { responder_.reset(); }

bool Arbiter::claimed() const { return registers_->any; }

Result<std::unique_ptr<Arbiter>> Arbiter::open(const Address& at, Ports ports) {
  std::unique_ptr<Arbiter> arbiter(new Arbiter(std::make_unique<Registers>()));
  WEFT_TRY(arbiter->address_, arbiter->responder_->listen_at(at, ports));
  return arbiter;
}

std::optional<Octets> claim(const Address& arbiter, const Digest& name, const Octets& value,
                            std::chrono::milliseconds limit) {
  const Message request{{.kind = MessageKind::kClaim, .tag = name}, value};
  const Rank nobody = -1;
  auto answers = exchange(name, request, {&arbiter, 1}, {&nobody, 1}, limit);
  if (answers[0].outcome != Answer::Outcome::kAnswered || answers[0].reply.head.status != MessageStatus::kDecided)
    return std::nullopt;
  return std::move(answers[0].reply.body);
}

}  // namespace weft::net::bootstrap
