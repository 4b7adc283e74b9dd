#pragma once

#include "api/open.h"
#include "net/mixed/mixed.h"

// How each fabric makes new groups of ranks. Each uses its world, which must outlive it.
namespace weft::api {

std::unique_ptr<session::Groups> groups_of(std::shared_ptr<const Origin> origin, net::shm::World& world,
                                           std::shared_ptr<const cost::MachineView> machine);
std::unique_ptr<session::Groups> groups_of(std::shared_ptr<const Origin> origin, net::messages::World& world);
std::unique_ptr<session::Groups> groups_of(std::shared_ptr<const Origin> origin, net::mixed::World& world);
std::unique_ptr<session::Groups> groups_of(std::shared_ptr<const Origin> origin, const net::threads::World& world,
                                           std::shared_ptr<const cost::MachineView> machine);

}  // namespace weft::api
