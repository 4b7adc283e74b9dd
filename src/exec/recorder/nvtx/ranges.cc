#include "exec/recorder/ranges.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include "base/env.h"

namespace weft::recorder {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kDomain = nvtxDomainCreateA("weft");
  return kDomain;
}

}  // namespace

bool ranges_wanted() {
  static const bool kWanted = env::value_of("NVTX_INJECTION64_PATH").has_value();
  return kWanted;
}

std::uint64_t begin_range(const Label& label, std::uint64_t count) {
  const std::string text = label.algorithm[0] == 0
                               ? fmt::format("{} {}", label.collective, count)
                               : fmt::format("{} {} {}, {} {} x{}", label.collective, count, label.type,
                                             label.algorithm, label.protocol, label.channels);
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text.c_str();
  attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attributes.payload.ullValue = count;
  return nvtxDomainRangeStartEx(domain(), &attributes);
}

void end_range(std::uint64_t range) { nvtxDomainRangeEnd(domain(), range); }

}  // namespace weft::recorder
