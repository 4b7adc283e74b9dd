// In place of the other files where UCX's headers were missing when weft was built.

#include "net/ucx/byte_stream.h"
#include "net/ucx/remote_memory.h"
#include "net/ucx/ucx.h"

namespace weft::net::ucx {
namespace {

tl::unexpected<Error> absent() {
  return bad_input("transport ucx: this weft was built without UCX; install libucx-dev and build again");
}

}  // namespace

Status available() { return absent(); }

Result<std::shared_ptr<Context>> open_context() { return absent(); }

Result<std::unique_ptr<messages::World>> open(std::shared_ptr<Context>, bootstrap::Meeting, Rank,
                                              messages::WaitPolicy::Limits) {
  return absent();
}

Result<std::shared_ptr<Context>> open_stream_context() { return absent(); }

Result<std::unique_ptr<ByteStream>> open_stream(std::shared_ptr<Context>) { return absent(); }

Result<std::unique_ptr<RemoteMemory>> RemoteMemory::open(const std::vector<std::span<std::byte>>&,
                                                         std::function<bool(Rank)>) {
  return absent();
}

}  // namespace weft::net::ucx
