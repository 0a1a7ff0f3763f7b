// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server's address. Only this machine may be named: a load client must not be able to reach
// anybody else's. Pure; asks no name server.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace semantic::bench {

struct server_url {
    std::string host;                    // as written, without brackets
    std::vector<std::string> addresses;  // loopback literals to try in order
    std::uint16_t port = 80;
    std::string base_path;  // in front of /v1/...; empty or "/x"

    std::string authority() const;  // HOST:PORT, as the Host header has it
    std::string text() const { return "http://" + authority() + base_path; }
};

/// Reads http://HOST[:PORT][/PATH]; a trailing /v1 is taken off, since the paths of both APIs bring
/// their own. Errors: usage_error when it is no such URL, or HOST is not 127.0.0.0/8, ::1 or
/// localhost.
server_url parse_url(std::string_view text);

}  // namespace semantic::bench
