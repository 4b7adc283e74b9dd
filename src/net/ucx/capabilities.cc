#include "net/ucx/ucx.h"

namespace weft::net::ucx {

fabric::Capabilities capabilities() { return messages::capabilities("ucx"); }

}  // namespace weft::net::ucx
