// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of a history that no model here reads: pictures, and items and blocks of tools that
// other servers ran. A history is taken whatever is in it: a part that can be described in words
// becomes a line of the prompt, the rest is named in the reply. Pure.

#include <boost/json/value.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/wire/json.hpp"

namespace semantic::protocol {

/// Collects the types of tools, items and blocks that are left out of the prompt, each once, for a
/// field of the reply. A request may have any number of them, of any length: the first 64 are kept,
/// cut to 64 bytes.
class left_out_names {
  public:
    static constexpr std::size_t names_max = 64;
    static constexpr std::size_t name_bytes_max = 64;

    void add(std::string_view name);
    std::vector<std::string> take() { return std::move(names_); }

  private:
    std::vector<std::string> names_;
};

/// The position of a reader in a history. In the newest message, which is to be answered,
/// unreadable parts are refused, so that clients learn what this server cannot read; in older ones
/// they are left out.
struct history_position {
    left_out_names& left_out;
    bool is_newest = false;
};

/// The author of a message or item, as far as it decides which of them is the newest.
enum class message_kind { of_user, of_assistant, of_system, result };
/// Returns: the index of the first of the `count` messages that are to be answered: the last
/// message of a user, or all results at the end. System texts, and the beginning of the answer, may
/// follow it.
std::size_t newest_position(std::size_t count,
                            const std::function<message_kind(std::size_t)>& kind_at);

/// Returns: which medium a part of this type has: "image", "audio", "video" or "file"; empty for
/// any other type.
std::string_view medium_of(std::string_view type) noexcept;
/// Returns: the line that replaces such a part in the prompt, as "[image left out]".
std::string left_out_line(std::string_view medium);

/// Deals with a part that is no text. Complains where it is in the newest message, in the words
/// that the vendors use for what they cannot read. Returns: the line that replaces it.
std::string read_medium(const json_cursor& part, std::string_view medium,
                        const history_position& position);

/// In front of a summary that replaces a conversation.
inline constexpr std::string_view summary_head =
    "This is a summary of our conversation up to here:\n\n";

/// Returns: an item or block in one line, "[TYPE: {...}]", without ids and without what no model
/// can read (sealed text, bytes in base 64).
std::string shown_in_a_line(std::string_view type, const boost::json::value& item);
/// The members of `item` that shown_in_a_line() shows, as compact JSON.
std::string readable_members(const boost::json::value& item);

/// Returns: the `name` of an earlier call; "unknown" where the model gave it an empty one.
std::string read_call_name(const json_cursor& call, std::size_t bytes_max);

/// Reads the arguments of an earlier call: a string or, as other servers have it, an object. Models
/// sometimes cut them off or misspell them. Returns: compact JSON where they are an object, numbers
/// spelled as in the string; else the text as it is.
std::string read_arguments(const json_cursor& field, const json_limits& limits);

}  // namespace semantic::protocol
