#pragma once

#include "api/open.h"
#include "weft/unique_id.h"

namespace weft::api {

// One rank of those who meet by this id. `watch`: see net::bootstrap::Invitation. Errors: see Communicator::connect.
Result<Opened> open_by_id(const env::Settings& settings, const calibrate::Rates& rates, const UniqueId& id, Rank rank,
                          Rank ranks, const std::function<Status()>& watch = {});

// What the environment says, and the options before it. Errors (bad input): see env::read; a transport that does not
// exist.
Result<env::Settings> settings_of(const ConnectOptions& options);

}  // namespace weft::api
