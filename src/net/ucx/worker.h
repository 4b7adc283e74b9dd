#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "net/messages/carrier.h"
#include "net/ucx/context.h"
#include "net/ucx/exchange.h"

namespace weft::net::ucx {

using messages::Block;
using messages::Clock;
using messages::ContextId;
using messages::Frame;

// Frames as UCX's active messages: the frame is the header, its bytes the data. Small ones come with the message,
// large ones are fetched into the place where they belong (rendezvous); where the one ends and the other begins UCX
// knows. A message travels whole: parts are put together here first, because active messages may overtake each other.
// Besides, a TCP connection to every peer carries the two workers' addresses and their last words (Exchange). UCX
// connects the workers only when there is something to send.
class Worker final : public messages::Carrier {
 public:
  // `near`: ranks of the same machine. Owns: the worker; neither the receiver nor the epoll set, which outlive it.
  Worker(WorkerHandle worker, Rank rank, std::vector<bool> near, std::chrono::milliseconds timeout,
         messages::Receiver& receiver, int epoll);

  int lanes() const override { return 1; }
  void attach(Rank peer, int lane, UniqueFd fd, const link::Handshake& greeting) override;
  bool attached(Rank peer, int) const override { return links_[static_cast<std::size_t>(peer)].exchange != nullptr; }
  void send(const Route& route, const Frame& frame, const std::byte* payload, const Block& block,
            bool more_follows) override;
  bool pump(Rank peer) override;
  bool pump_all() override;
  void left(Rank peer, ContextId own) override;
  Rank unsettled(ContextId own) override;
  Rank reader_of(ContextId own, const std::byte* begin, const std::byte* end) const override;
  bool reads_callers(Rank peer, ContextId own) const override;
  void drop_callers(ContextId own) override;
  void divert(ContextId own) override;
  void share(bool several) override { shared_ = several; }
  bool writes(ContextId own) const override;
  bool may_sleep() override;
  void woken(void* what) override;
  void leave(Clock::duration longest) override;

 private:
  struct Header {
    Frame frame;
    Rank from;
    ContextId context;  // of the communicator, at the receiver
  };
  // A frame that UCX has not taken yet. UCX reads its header, too.
  struct Outgoing {
    Worker* owner;
    Header header;
    Rank to;
    const std::byte* payload;
    Block block;
    const std::byte* callers;  // the caller's memory that it was sent from, also where the block is a copy; or null
    ContextId own;
    bool given_up;  // the peer has left the communicator
  };
  // A frame whose bytes are being fetched.
  struct Fetch {
    Worker* owner;
    Rank from;
    Frame frame;
    std::byte* at;
    ContextId context;
    Block block;  // that it is fetched into, where others share the worker; else empty
  };
  struct Link {
    std::unique_ptr<Exchange> exchange;
    ucp_ep_h endpoint = nullptr;
    std::vector<Outgoing*> waiting;                           // for the peer's address
    std::unordered_map<ContextId, std::vector<Block>> parts;  // by strand
    // Since when it has seemed to have ended, and why. What it sent before may still be on its way.
    Clock::time_point suspect{};
    std::string reason;
    bool ended = false;
    bool sent = false;  // UCX has sent something to the peer: from then on it takes small frames at once
  };

  static ucs_status_t on_message(void* self, const void* header, std::size_t header_length, void* data,
                                 std::size_t length, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* outgoing);
  static void on_fetched(void* request, ucs_status_t status, std::size_t length, void* fetch);
  static void on_error(void* self, ucp_ep_h endpoint, ucs_status_t status);

  Link& link(Rank peer) { return links_[static_cast<std::size_t>(peer)]; }
  Rank rank_of(const Link& link) const { return static_cast<Rank>(&link - links_.data()); }
  const Library& ucp() const { return context_->library(); }
  bool progress() { return !frozen_ && ucp().worker_progress(worker_->get()) != 0; }
  std::string text(ucs_status_t status) const { return "UCX says: " + context_->text(status); }
  void connect(Link& link);
  void watch(Link& link);
  void suspect(Link& link, const std::string& reason);
  void judge(Link& link, Clock::time_point now);
  void drop_waiting(Link& link);
  void start(Outgoing& outgoing);
  void forget(Outgoing& outgoing);
  void fetch(const Header& header, void* description, std::byte* at, Block block);
  void fetched(Fetch& fetch);
  Block& part_of(Link& link, ContextId own, std::size_t strand);
  // Whether UCX has memory that is not weft's: it fetches into it, or sends from it.
  bool holds_callers(ContextId own) const;
  void end_turns(ContextId own);
  void close_endpoints(Clock::time_point deadline);
  // Until a condition holds, at most until the deadline.
  void progress_until(const std::function<bool()>& reached, Clock::time_point deadline);

  Rank rank_;
  std::vector<bool> near_;
  std::chrono::milliseconds timeout_;
  messages::Receiver& receiver_;
  int epoll_;
  messages::Blocks blocks_{messages::kSlotBytes};  // for messages that are put together
  std::vector<Link> links_;                        // by rank; never moved, UCX knows where they are
  std::vector<Rank> known_;                        // those with a connection
  std::vector<std::unique_ptr<Outgoing>> all_outgoing_;
  std::vector<Outgoing*> free_outgoing_, under_way_;
  std::vector<const Fetch*> fetches_;  // under way
  Clock::time_point watched_{};
  bool shared_ = false;                     // by several communicators
  bool frozen_ = false;                     // UCX gets no turn any more: it would write where it must not
  bool gone_ = false;                       // what UCX still calls back about concerns nobody
  std::shared_ptr<const Context> context_;  // callbacks need it while the worker ends
  std::optional<WorkerHandle> worker_;      // until left; ends before what its callbacks use
};

}  // namespace weft::net::ucx
