// SPDX-License-Identifier: Apache-2.0
// Calls as Python: f(city="Paris", days=[1, 2]), in a fence that says tool_code, between OLMo's
// tags or, in LFM2's form, in a list. Literals alone.

#include <array>
#include <cctype>
#include <optional>

#include "engine/text/output/calls/call_reader.hpp"
#include "engine/text/output/calls/json_stream.hpp"

namespace semantic::engine {

namespace {

constexpr std::array<std::string_view, 1> fence_closers{"```"};
constexpr std::array<std::string_view, 1> tag_closers{"</function_calls>"};
constexpr std::array<std::string_view, 2> python_list_closers{"]", "<|tool_call_end|>"};
constexpr std::size_t word_bytes_max = 512;  // of a name or a number
constexpr char splat = '*';  // in levels_: the dict of f(**{...}), whose items are arguments

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_name(char c) {
    return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
}

/// The JSON of a Python word such as True, or of JSON's own word; empty for any other.
std::string_view json_of_word(std::string_view word) {
    if (word == "True" || word == "true") return "true";
    if (word == "False" || word == "false") return "false";
    if (word == "None" || word == "null") return "null";
    return {};
}

/// Reads a call by translating its arguments to JSON, which a json_stream then checks. It works one
/// character at a time, so that no text has to wait.
class python_reader final : public call_reader {
  public:
    /// What the calls are written in: a fence (```tool_code), tags, or a list between brackets.
    enum class frame { fence, tags, list };

    /// `awaits_list`: the bracket that opens the list has not been read yet.
    python_reader(const offered_tools& tools, frame calls, bool awaits_list)
        : tools_(tools), frame_(calls), awaits_list_(awaits_list) {}

    std::size_t read(std::string_view text) override {
        std::size_t at = 0;
        for (; at < text.size() && state_ == state::open; ++at)
            while (state_ == state::open && !take(text[at])) {
            }
        return at;
    }

    std::span<const std::string_view> closers() const override {
        if (frame_ == frame::list) return python_list_closers;
        if (frame_ == frame::tags) return tag_closers;
        return fence_closers;
    }
    std::unique_ptr<call_reader> next(char c) const override {
        if (!begins_name(c) && c != ',' && c != ';') return nullptr;
        return std::make_unique<python_reader>(tools_, frame_, false);
    }

  private:
    enum class stage {
        before_name,
        name,
        after_name,
        item,  // the next one of the open bracket, or the bracket's end
        keyword,
        after_keyword,
        value,
        word,
        after_value,
        colon,
        quotes,  // one, two or three of them: "", "..." or """..."""
        text,
        after_call
    };

    /// Reads one character. Returns: false when the stage has changed without taking it, so that
    /// the new stage must read it.
    bool take(char c) {
        switch (stage_) {
            case stage::name:
                return take_name(c);
            case stage::keyword:
                return in_word(c, in_name(c), stage::after_keyword);
            case stage::word:
                return take_word(c);
            case stage::quotes:
                return take_quotes(c);
            case stage::text:
                return take_text(c), true;
            default:
                break;
        }
        return is_json_space(c) || take_part(c);
    }

    /// Reads a character between words and texts, where white space has no meaning.
    bool take_part(char c) {
        switch (stage_) {
            case stage::before_name:
                return before_name(c), true;
            case stage::after_name:
                return after_name(c), true;
            case stage::item:
                return begin_item(c);
            case stage::after_keyword:
                return after_keyword(c);
            case stage::value:
                return begin_value(c), true;
            case stage::after_value:
                return after_value(c), true;
            case stage::colon:
                if (c != ':') fail();
                write(":");
                stage_ = stage::value;
                return true;
            case stage::after_call:
                if (c == ')') done();
                if (c != ')') fail();
                return true;
            default:
                break;
        }
        return true;
    }

    // ---- the name

    /// One comma or semicolon may come between two calls.
    void before_name(char c) {
        if (awaits_list_) {
            awaits_list_ = false;
            // A single call may be written without the list around it.
            if (c == '[') return;
        }
        if (begins_name(c)) {
            word_ = c;
            stage_ = stage::name;
        } else if (!is_separated_ && (c == ',' || c == ';')) {
            is_separated_ = true;
        } else {
            fail();
        }
    }

    /// Names of tools may have hyphens, unlike Python's.
    bool take_name(char c) { return in_word(c, in_name(c) || c == '-', stage::after_name); }

    /// Begins the arguments. A call within print(...), which models write in tool_code, counts as
    /// if it had no print around it, unless there is a tool of that name.
    void after_name(char c) {
        if (c != '(') return fail();
        if (word_ == "print" && !is_printed_ && !tools_.has("print")) {
            is_printed_ = is_separated_ = true;
            stage_ = stage::before_name;
            return;
        }
        constexpr std::string_view module = "default_api.";
        if (word_.starts_with(module)) word_.erase(0, module.size());
        if (word_.empty()) return fail();
        name_ = word_;
        levels_ = ")";
        write("{");
        stage_ = stage::item;
    }

    /// Adds `c` to the word if it `is_part` of it; otherwise ends the word. Returns: whether `c`
    /// was taken.
    bool in_word(char c, bool is_part, stage next_stage) {
        if (!is_part) {
            stage_ = next_stage;
            return false;
        }
        word_ += c;
        if (word_.size() > word_bytes_max) fail();
        return true;
    }

    // ---- arguments and what is in them

    void write(std::string_view json) {
        for (const char c : json) json_.push(c, arguments_);
        if (json_.at() == json_stream::state::malformed) fail();
    }
    /// Separates an item from the one before it, if there is one.
    void write_comma() {
        if (json_.awaits_end()) write(",");
    }
    void write_character(char c) {
        std::string escaped;
        append_escaped(escaped, c);
        write(escaped);
    }

    /// Whether the innermost open bracket is the call's own.
    bool are_arguments() const { return levels_.size() == 1; }
    bool closes(char c) const { return c == (levels_.back() == splat ? '}' : levels_.back()); }

    /// Ends the innermost bracket. Tuples become arrays; the dict of ** has no JSON of its own.
    void close() {
        const char level = levels_.back();
        levels_.pop_back();
        if (level != splat) write(level == '}' || levels_.empty() ? "}" : "]");
        stage_ = stage::after_value;
        if (!levels_.empty()) return;
        stage_ = stage::after_call;
        if (!is_printed_ && state_ == state::open) done();
    }

    /// Reads the begin of an argument, an array's item or a dict's key, or the bracket's end.
    bool begin_item(char c) {
        if (stars_ == 1 && c != splat) return fail(), true;
        if (stars_ == 2) return begin_splat(c), true;
        if (closes(c)) return close(), true;
        if (levels_.back() == '}' || levels_.back() == splat) return begin_key(c), true;
        if (!are_arguments()) {
            write_comma();
            stage_ = stage::value;
            return false;
        }
        if (c == splat) return ++stars_, true;
        if (begins_name(c)) {
            word_.clear();
            stage_ = stage::keyword;
            return false;
        }
        write_place();
        stage_ = stage::value;
        return false;
    }

    /// Opens the dict of **, whose items are arguments; it has no bracket of its own in the JSON.
    void begin_splat(char c) {
        stars_ = 0;
        if (c != '{') return fail();
        levels_ += splat;
    }

    void begin_key(char c) {
        if (c != '"' && c != '\'') return fail();
        write_comma();
        is_key_ = true;
        begin_text(c);
    }

    /// Writes an argument's name.
    void write_key(std::string_view key) {
        ++place_;
        write_comma();
        write("\"");
        for (const char c : key) write_character(c);
        write("\":");
    }
    /// Writes the name of an argument that came without one: that of the tool's parameter at this
    /// position. Fails when there is none.
    void write_place() {
        const std::optional<std::string> key = tools_.parameter_at(name_, place_);
        if (!key) return fail();
        write_key(*key);
    }

    /// After a word that was a keyword, if `c` is "=", or else a value without a name.
    bool after_keyword(char c) {
        if (c == '=') {
            write_key(word_);
            stage_ = stage::value;
            return true;
        }
        write_place();
        write_literal();
        return false;
    }

    /// Begins a value: a text, a list, tuple or dict, or a word, which may be a number.
    void begin_value(char c) {
        if (c == '"' || c == '\'') return begin_text(c);
        if (c == '[' || c == '(' || c == '{') {
            levels_ += c == '[' ? ']' : c == '(' ? ')' : '}';
            write(c == '{' ? "{" : "[");
            stage_ = stage::item;
            return;
        }
        word_ = c;
        is_number_ = !begins_name(c);
        stage_ = stage::word;
    }

    bool take_word(char c) {
        const bool is_sign = is_number_ && (c == '-' || c == '+');
        if (in_name(c) || is_sign) return in_word(c, true, stage::word);
        write_literal();
        return false;
    }

    /// Writes a finished word or number. Python's spellings of numbers that JSON lacks (1_000, +1,
    /// 1.) are changed; other words make it no call.
    void write_literal() {
        stage_ = stage::after_value;
        if (begins_name(word_[0])) {
            const std::string_view json = json_of_word(word_);
            if (json.empty()) fail();
            return write(json);
        }
        std::erase(word_, '_');
        if (word_.starts_with('+')) word_.erase(0, 1);
        if (word_.ends_with('.')) word_ += '0';
        const bool is_number =
            !word_.empty() && (word_[0] == '-' || (word_[0] >= '0' && word_[0] <= '9'));
        if (!is_number) return fail();
        write(word_);
        write(" ");  // json_stream writes a number only when a character after it has ended it
    }

    void after_value(char c) {
        if (c == ',') {
            stage_ = stage::item;
        } else if (closes(c)) {
            close();
        } else {
            fail();
        }
    }

    // ---- texts

    void begin_text(char quote) {
        write("\"");
        quote_ = quote;
        quotes_ = 1;
        run_ = 0;
        stage_ = stage::quotes;
    }

    /// Counts the quotes that open a text. Two and then something else were an empty text.
    bool take_quotes(char c) {
        if (c == quote_) {
            if (++quotes_ == 3) stage_ = stage::text;
            return true;
        }
        if (quotes_ == 2) {
            end_text();
        } else {
            stage_ = stage::text;
        }
        return false;
    }

    void end_text() {
        write("\"");
        stage_ = is_key_ ? stage::colon : stage::after_value;
        is_key_ = false;
    }

    /// Reads a character inside of a text, which ends with as many quotes in a row as it began
    /// with.
    void take_text(char c) {
        if (digits_left_ > 0) {
            if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return fail();
            --digits_left_;
            return write(std::string_view(&c, 1));
        }
        if (is_escaped_) return take_escaped(c);
        if (c == quote_) {
            if (++run_ == quotes_) end_text();
            return;
        }
        for (; run_ > 0; --run_) write_character(quote_);
        is_escaped_ = c == '\\';
        if (!is_escaped_) write_character(c);
    }

    /// Reads the character after a backslash. Escapes that JSON does not have keep their backslash,
    /// as in Python.
    void take_escaped(char c) {
        is_escaped_ = false;
        if (std::string_view("ntrbf\"\\").find(c) != std::string_view::npos) {
            write("\\");
            return write(std::string_view(&c, 1));
        }
        if (c == 'u') {
            digits_left_ = 4;
            return write("\\u");
        }
        if (c == '\n') return;  // a line that goes on
        if (c != '\'') write("\\\\");
        write_character(c);
    }

    const offered_tools tools_;
    const frame frame_;
    bool awaits_list_;  // the list's bracket has not been read
    stage stage_ = stage::before_name;
    json_stream json_;           // checks what is written to arguments_
    std::string levels_;         // what closes each bracket that is open
    std::string word_;           // the name, keyword or literal that is read
    std::size_t place_ = 0;      // position of the next argument, from 0
    int stars_ = 0;              // of **, in front of its dict
    bool is_separated_ = false;  // the comma before the name has been read, or none may come
    bool is_printed_ = false;    // the call is inside of print(...)
    bool is_number_ = false;     // word_ is a number
    bool is_key_ = false;        // the text that is read is a dict's key
    char quote_ = '\0';          // the quote of the text that is read
    int quotes_ = 0;             // one or three around the text that is open
    int run_ = 0;                // quotes in a row that may close it
    bool is_escaped_ = false;    // the last character was a backslash
    int digits_left_ = 0;        // hexadecimal digits of \uXXXX that must follow
};

}  // namespace

std::unique_ptr<call_reader> read_tool_code_call(const offered_tools& tools, std::string_view) {
    return std::make_unique<python_reader>(tools, python_reader::frame::fence, false);
}

std::unique_ptr<call_reader> read_olmo_call(const offered_tools& tools, std::string_view) {
    return std::make_unique<python_reader>(tools, python_reader::frame::tags, false);
}

std::unique_ptr<call_reader> read_lfm2_call(const offered_tools& tools, std::string_view) {
    return std::make_unique<python_reader>(tools, python_reader::frame::list, true);
}

/// Reads the literal as the only argument of a call.
std::string json_of_python(std::string_view literal) {
    constexpr std::string_view head = "{\"x\":";
    python_reader reader(offered_tools(), python_reader::frame::fence, false);
    reader.read("f(x=");
    const bool is_all = reader.read(literal) == literal.size() &&
                        reader.at() == call_reader::state::open && reader.read(")") == 1 &&
                        reader.at() == call_reader::state::whole;
    const std::string_view made = reader.arguments();
    if (!is_all || !made.starts_with(head)) return {};
    return std::string(made.substr(head.size(), made.size() - head.size() - 1));
}

}  // namespace semantic::engine
