// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many files and sockets this process may have open. Thread: at start, before others run.

#include <cstddef>

namespace semantic::server {

/// Descriptors that are not for connections: block files of two restores, manifests, the listening
/// socket, spool files, the log.
constexpr std::size_t own_descriptors = 320;

/// Raises the soft limit of descriptors to `connections` and own_descriptors, as far as the hard
/// limit allows: a cache that cannot open its files would lose memories. Returns: how many of the
/// connections there is room for, at least 1.
std::size_t make_room_for_connections(std::size_t connections);

/// Files and sockets that this process has open; 0 where the system does not say.
std::size_t open_files();

}  // namespace semantic::server
