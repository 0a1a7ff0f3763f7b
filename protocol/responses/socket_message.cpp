// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/socket_message.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::responses {

namespace json = boost::json;

namespace {

json_limits limits_of(std::string_view message) {
    json_limits limits;
    // The socket has bounded the message already.
    limits.bytes_max = message.size();
    return limits;
}

}  // namespace

result<socket_message> read_socket_message(std::string_view message) {
    return read_object(message, limits_of(message), [](const json_cursor& root) {
        socket_message read;
        if (const auto type = root.find("type")) read.type = type->as_string();
        if (const auto lane = root.find("stream_id"))
            read.lane = parse_bounded(*lane, lane_bytes_max);
        return read;
    });
}

std::string in_lane(std::string event, std::string_view lane) {
    if (lane.empty()) return event;
    // The closing brace: an event is a JSON object.
    event.pop_back();
    return event + R"(,"stream_id":)" + to_text(json::value(lane)) + "}";
}

result<std::string> steer_failed(std::string_view message) {
    return read_object(message, limits_of(message), [](const json_cursor& root) {
        const json::object error{
            {"type", "invalid_request_error"},
            {"code", "steering_not_supported"},
            {"message",
             "an answer takes up nothing while it is made: send the input as a "
             "response.create after it"},
        };
        const json::object steer{
            {"previous_response_id", root.at("previous_response_id").as_string()},
            {"input", root.at("input").value()},
        };
        return to_text(json::object{{"type", "response.steer.failed"},
                                    {"sequence_number", 0},
                                    {"error", error},
                                    {"steer", steer}});
    });
}

}  // namespace semantic::protocol::responses
