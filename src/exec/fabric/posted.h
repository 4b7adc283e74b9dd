#pragma once

namespace weft::fabric {

// What has become of a posted operation: done, or under way until `finished` says so.
enum class Posted { kDone, kPending };

}  // namespace weft::fabric
