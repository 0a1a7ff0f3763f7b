// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks JSON while it streams, and prints it compactly as far as it is certain. For the readers of
// tool calls only. One value; not for use from two threads at once.

#include <cstddef>
#include <string>
#include <string_view>

namespace semantic::engine {

/// The deepest nesting of a call's JSON; the parsers of replies allow more.
constexpr std::size_t call_depth_max = 32;

class json_stream {
  public:
    enum class state { open, whole, malformed };

    /// Reads one character, and appends to `out` what is certain now: without white space between
    /// parts; a number when it has ended. Control characters inside strings, which models write
    /// unescaped, are escaped. Returns: whether the value goes on, has ended, or is invalid.
    state push(char c, std::string& out);
    state at() const noexcept { return state_; }
    /// The number of open objects and arrays.
    std::size_t depth() const noexcept { return open_.size(); }
    bool in_string() const noexcept { return lexeme_ == lexeme::string; }
    /// Whether a value must begin next.
    bool awaits_value() const noexcept {
        return lexeme_ == lexeme::none && (next_ == expects::value || next_ == expects::item);
    }
    /// Whether a comma or a closing bracket must come next.
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
    int escape_ = 0;       // 1: after a backslash; else hex digits that must follow, plus one
    bool is_key_ = false;  // the string that is read, or was read last, is a key
    state state_ = state::open;
};

bool is_json_space(char c) noexcept;
/// Appends `c`, escaped as in a JSON string.
void append_escaped(std::string& out, char c);
/// Adds a blank after each comma and colon of compact JSON, as templates print it.
std::string respaced(std::string_view compact);
/// Whether the text is a complete JSON object of allowed depth.
bool is_json_object(std::string_view text);
/// The text that a JSON string encodes; empty if it is none.
std::string text_of_json(std::string_view quoted);

}  // namespace semantic::engine
