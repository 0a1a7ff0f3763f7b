// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON checked and printed while it comes: what is certain so far, compactly. For the readers of
// tool calls only. One value; not for use from two threads at once.

#include <cstddef>
#include <string>
#include <string_view>

namespace semantic::engine {

/// How deep a call's JSON may be nested; the parsers of replies allow more.
constexpr std::size_t call_depth_max = 32;

class json_stream {
  public:
    enum class state { open, whole, malformed };

    /// Appends to `out` what `c` makes certain: no white space between parts, a number once it has
    /// ended. Line breaks and other control characters inside of strings, which models write as
    /// they are, are escaped. An object, an array, a string or a word ends with its last character.
    state push(char c, std::string& out);
    state at() const noexcept { return state_; }
    /// Objects and arrays that are open.
    std::size_t depth() const noexcept { return open_.size(); }
    bool in_string() const noexcept { return lexeme_ == lexeme::string; }
    /// What comes next, white space aside, begins a value.
    bool awaits_value() const noexcept {
        return lexeme_ == lexeme::none && (next_ == expects::value || next_ == expects::item);
    }
    /// What comes next is a comma or the end of what is open.
    bool awaits_end() const noexcept { return lexeme_ == lexeme::none && next_ == expects::end; }
    /// The last key of the outermost object, with its escapes.
    const std::string& key() const noexcept { return key_; }

  private:
    enum class expects { value, item, key, first_key, colon, end };  // item: or the array's end
    enum class lexeme { none, string, number, word };

    void structure(char c, std::string& out);
    void begin_value(char c, std::string& out);
    void close(char c, std::string& out);
    void in_string(char c, std::string& out);
    void in_word(char c, std::string& out);
    void end_number(std::string& out);
    void value_ended();
    void fail() noexcept { state_ = state::malformed; }

    std::string open_;  // a bracket for each
    std::string key_;
    std::string text_;  // of a number or a word
    expects next_ = expects::value;
    lexeme lexeme_ = lexeme::none;
    int escape_ = 0;  // 1: after a backslash; else hex digits that must follow, plus one
    bool is_key_ = false;
    state state_ = state::open;
};

bool is_json_space(char c) noexcept;
/// Appends `c`, escaped as in a JSON string.
void append_escaped(std::string& out, char c);
/// Compact JSON with a blank after each comma and colon, as templates print it.
std::string respaced(std::string_view compact);
/// Returns: whether it is an object, whole and of allowed depth.
bool is_json_object(std::string_view text);
/// Returns: what the JSON string says; empty where it is none.
std::string text_of_json(std::string_view quoted);

}  // namespace semantic::engine
