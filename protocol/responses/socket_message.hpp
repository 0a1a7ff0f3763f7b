// SPDX-License-Identifier: Apache-2.0
#pragma once
// Responses over a WebSocket: what a client's message is, and which lane of the socket the answer
// to it belongs to. Pure. Source: the Responses API as the vendor's SDKs speak it
// (protocol/README.md).

#include <cstddef>
#include <string>
#include <string_view>

#include "protocol/wire/errc.hpp"

namespace semantic::protocol::responses {

inline constexpr std::size_t lane_bytes_max = 256;

struct socket_message {
    /// "response.create", whose other fields are the body of a POST, "response.steer", ...; empty
    /// where the message has none.
    std::string type;
    /// `stream_id`, which every event of the answer repeats; empty: the message has none.
    std::string lane;
};

/// Reads type and lane of a message. Errors: malformed_json, bad_value; each names the JSON path.
/// It reads a message of any size, since the socket has bounded it.
result<socket_message> read_socket_message(std::string_view message);

/// Returns: the event with the field stream_id = `lane`; unchanged where `lane` is empty. `event`:
/// the text of a JSON object with at least one field.
std::string in_lane(std::string event, std::string_view lane);

/// Returns: the event that refuses a "response.steer" and hands its input back, since this server
/// changes no answer while it is made. The client may send the input as a request of its own.
/// Errors: missing_field, bad_value; each names the JSON path.
result<std::string> steer_failed(std::string_view message);

}  // namespace semantic::protocol::responses
