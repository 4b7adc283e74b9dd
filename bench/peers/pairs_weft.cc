// pairs.h over weft: `weft run -n 2 -- weft_pairs`.
#include <cstdlib>
#include <optional>

#include "pairs.h"
#include "weft/communicator.h"

namespace {

using Direction = weft::Transfer::Direction;

void must(const weft::Status& status) {
  if (status) return;
  std::fprintf(stderr, "weft_pairs: %s\n", status.error().message.c_str());
  std::exit(1);
}

class Weft final : public pairs::Library {
 public:
  explicit Weft(weft::Communicator comm) : comm_(std::move(comm)) {}
  int rank() const override { return comm_.rank(); }
  void send(const char* data, std::size_t bytes) override {
    transfer(Direction::kSend, const_cast<char*>(data), bytes, 1);
  }
  void receive(char* data, std::size_t bytes) override { transfer(Direction::kReceive, data, bytes, 1); }
  void send_many(const char* data, std::size_t bytes) override {
    transfer(Direction::kSend, const_cast<char*>(data), bytes, pairs::kOutstanding);
  }
  void receive_many(char* data, std::size_t bytes) override {
    transfer(Direction::kReceive, data, bytes, pairs::kOutstanding);
  }
  bool make_communicator() override {
    auto more = comm_.split(0);
    if (!more) must(tl::make_unexpected(more.error()));
    more_.push_back(std::move(*more));
    return true;
  }

 private:
  void transfer(Direction direction, char* data, std::size_t bytes, int count) {
    transfers_.clear();
    for (int i = 0; i < count; ++i)
      transfers_.push_back(
          {direction, 1 - comm_.rank(), data + static_cast<std::size_t>(i) * bytes, bytes, weft::DataType::kUint8});
    must(comm_.exchange(transfers_));
  }

  weft::Communicator comm_;
  std::vector<weft::Communicator> more_;
  std::vector<weft::Transfer> transfers_;
};

}  // namespace

int main(int argc, char** argv) {
  auto comm = weft::Communicator::from_environment();
  if (!comm || comm->ranks() != 2) {
    std::fprintf(stderr, "weft_pairs: %s\n", comm ? "needs two ranks" : comm.error().message.c_str());
    return 2;
  }
  Weft library(std::move(*comm));
  pairs::measure(library, argc, argv);
  return 0;
}
