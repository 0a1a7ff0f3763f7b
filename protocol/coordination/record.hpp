// SPDX-License-Identifier: Apache-2.0
#pragma once
// A session, and an agent's memory, as one line of JSON each, and both together, in parts where
// they are long; and back: whole or refused. Pure.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/coordination/kept_reply.hpp"
#include "protocol/coordination/memory.hpp"
#include "protocol/coordination/session.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::coordination {

/// The first field of a record is its format; a reader refuses another one.
inline constexpr int record_format = 1;

/// All that is stored of a session. Lines and exchanges of a long one are stored in parts, which
/// never change, so a turn does not write them again.
struct kept_session {
    session now;
    std::vector<std::pair<std::string, memory>> memories{};  // of its agents, by memory_name()
    std::vector<kept_reply> replies{};                       // the latest last
    std::vector<stored_part> line_parts{};                   // that hold the first lines
};

/// A kept session without the items that its parts have.
struct kept_head {
    session now;  // its lines: those that no part holds
    std::vector<stored_part> line_parts{};
    /// By memory_name(). Their exchanges: those that no part holds.
    std::vector<std::pair<std::string, memory>> memories{};
    std::vector<std::shared_ptr<const kept_reply>> replies{};
};
/// Each returns the record as one line of JSON.
std::string to_record(const kept_head& head);
/// Returns: the bytes of a part with these items.
std::string lines_part(const std::vector<line>& lines);
std::string exchanges_part(const std::vector<exchange>& exchanges);

std::string to_record(const kept_session& s);
std::string to_record(const session& s);
std::string to_record(const memory& m);

/// Reads a record. One that no session can have (an agent that does not exist, a place outside of
/// the round, ...) is refused as a whole. Errors: malformed_json, missing_field, bad_value with the
/// path.
result<session> session_of(std::string_view record);
result<memory> memory_of(std::string_view record);
/// Returns the bytes of a part by its name; nothing where there is none.
using part_reader = std::function<std::optional<std::string>(const std::string& name)>;
/// Reads a record and its parts. Errors: likewise; also for a part that is missing or incomplete.
result<kept_session> kept_session_of(std::string_view record, const part_reader& part = {});

}  // namespace semantic::protocol::coordination
