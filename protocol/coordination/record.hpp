#pragma once
// A session, and an agent's memory, as one line of JSON each, and back: whole or refused. Pure.

#include <string>
#include <string_view>

#include "protocol/coordination/memory.hpp"
#include "protocol/coordination/session.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::coordination {

/// The first field of a record is its format; a reader refuses another one.
inline constexpr int record_format = 1;

std::string to_record(const session& s);
std::string to_record(const memory& m);

/// Errors: malformed_json, missing_field, bad_value with the path: a record that no session can
/// have (an agent that is not there, a place outside of the round, ...) is refused as a whole.
result<session> session_of(std::string_view record);
result<memory> memory_of(std::string_view record);

}  // namespace semantic::protocol::coordination
