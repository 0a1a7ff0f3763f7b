// SPDX-License-Identifier: Apache-2.0
#include "protocol/live/dialogue.hpp"

#include <boost/json/object.hpp>

#include <algorithm>

#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::live {

namespace {

namespace json = boost::json;

constexpr json_limits limits{message_bytes_max, 4, 64};

/// Returns: a message of this type with the members of `rest`.
std::string typed(const char* type, json::object rest = {}) {
    json::object message{{"type", type}};
    for (auto& [key, value] : rest) message[key] = std::move(value);
    return to_text(json::value(std::move(message)));
}

/// Returns: a key in a message; nothing where it is absent or empty.
std::optional<std::string> key_at(const json_cursor& from, std::string_view name) {
    const auto field = from.find(name);
    // Pages send the text of an input field, which may be blank.
    if (!field || field->value() == json::value("")) return std::nullopt;
    return parse_bounded(*field, key_bytes_max);
}

struct client_message {
    std::string type;
    shown_keys keys{};
};

result<client_message> parse(std::string_view text) {
    return read_object(text, limits, [](const json_cursor& root) {
        client_message message{bounded_at(root, "type", 64)};
        if (message.type == "authenticate")
            message.keys = {key_at(root, "api_key"), key_at(root, "admin_key")};
        return message;
    });
}

}  // namespace

std::string error_message(std::string_view code, std::string_view message) {
    return typed("error", {{"code", code}, {"message", message}});
}

std::string too_slow_message(std::size_t messages) {
    return error_message("too_slow", std::to_string(messages) +
                                         " messages wait to be read: connect again for a snapshot");
}

/// Sends an error and closes the connection.
answer dialogue::end(std::string_view code, std::string_view message, close_code why) {
    stage_ = stage::closed;
    return {error_message(code, message), {}, false, why};
}

answer dialogue::opened(bool is_known, time now) {
    last_ = now;
    if (!is_known) return {typed("authenticate")};
    return welcomed(false);
}

answer dialogue::welcomed(bool is_admin) {
    stage_ = stage::watching;
    answer said{typed("welcome", {{"admin", is_admin}})};
    said.wants_snapshot = true;
    return said;
}

answer dialogue::refused(std::string_view why) {
    return end("unauthorized", why, close_code::unauthorized);
}

answer dialogue::waited() {
    if (stage_ != stage::greeting) return {};
    return end("unauthorized", "no key came in time", close_code::unauthorized);
}

answer dialogue::said_binary() {
    return end("binary", "messages are text", close_code::unsupported);
}

/// Counts a message against the client's rate: messages_at_once in reserve, refilled by
/// messages_a_second. Returns: whether it is within the rate.
bool dialogue::takes_message(time now) {
    const double seconds = std::chrono::duration<double>(now - last_).count();
    allowance_ = std::min(messages_at_once, allowance_ + seconds * messages_a_second);
    last_ = now;
    if (allowance_ < 1) return false;
    allowance_ -= 1;
    return true;
}

answer dialogue::said(std::string_view message, time now) {
    if (stage_ == stage::closed) return {};
    if (!takes_message(now))
        return end("too_many", "too many messages; two a second are taken", close_code::policy);
    return read(message);
}

answer dialogue::read(std::string_view text) {
    const auto message = parse(text);
    if (!message) return end("malformed", message.error().message, close_code::policy);
    if (message->type == "ping") return {typed("pong")};
    // A client that watches may send another key, such as the administrator's.
    if (message->type == "authenticate" && stage_ != stage::judging) {
        stage_ = stage::judging;
        answer asks;
        asks.judge = message->keys;
        return asks;
    }
    if (stage_ != stage::watching)
        return end("unauthorized", "the first message must be {\"type\":\"authenticate\",…}",
                   close_code::unauthorized);
    if (message->type == "snapshot") {
        answer again;
        again.wants_snapshot = true;
        return again;
    }
    return {error_message("unknown_type", "no message has the type " + quoted(message->type))};
}

}  // namespace semantic::protocol::live
