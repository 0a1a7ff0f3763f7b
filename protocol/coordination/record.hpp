#pragma once
// A session, and an agent's memory, as one line of JSON each, and both together; and back: whole or
// refused. Pure.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/coordination/memory.hpp"
#include "protocol/coordination/session.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::coordination {

/// The first field of a record is its format; a reader refuses another one.
inline constexpr int record_format = 1;

/// What was replied to a request that came with a key.
struct kept_reply {
    std::string key;
    std::string what;  // the request
    std::string reply;
};
/// All that is kept of a session.
struct kept_session {
    session now;
    std::vector<std::pair<std::string, memory>> memories{};  // of its agents, by memory_name()
    std::vector<kept_reply> replies{};                       // the latest last
};

std::string to_record(const kept_session& s);
std::string to_record(const session& s);
std::string to_record(const memory& m);

/// Errors: malformed_json, missing_field, bad_value with the path: a record that no session can
/// have (an agent that is not there, a place outside of the round, ...) is refused as a whole.
result<session> session_of(std::string_view record);
result<memory> memory_of(std::string_view record);
result<kept_session> kept_session_of(std::string_view record);

}  // namespace semantic::protocol::coordination
