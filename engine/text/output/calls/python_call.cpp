// Calls as Python: f(city="Paris", days=[1, 2]), in a fence that says tool_code. Read when they are
// whole: only then it is clear that this is one call and nothing else.

#include <array>
#include <cctype>
#include <optional>

#include "engine/text/output/calls/call_reader.hpp"
#include "engine/text/output/calls/json_stream.hpp"

namespace semantic::engine {

namespace {

constexpr std::array<std::string_view, 1> fence_closers{"```"};

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_name(char c) {
    return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
}

/// Literals of Python as JSON.
class literal_reader {
  public:
    explicit literal_reader(std::string_view text) : text_(text) {}

    bool at_end() const { return at_ >= text_.size(); }
    char front() const { return at_end() ? '\0' : text_[at_]; }
    void skip_space() {
        while (!at_end() && is_json_space(front())) ++at_;
    }
    bool take(char c) {
        skip_space();
        if (front() != c) return false;
        ++at_;
        return true;
    }
    std::string name() {
        skip_space();
        std::string out;
        if (!begins_name(front())) return out;
        while (!at_end() && in_name(front())) out += text_[at_++];
        return out;
    }
    std::size_t place() const { return at_; }
    void return_to(std::size_t at) { at_ = at; }

    /// Returns: false when it is no literal.
    bool value(std::string& out, std::size_t depth = 0) {
        skip_space();
        if (depth > call_depth_max || at_end()) return false;
        const char c = front();
        if (c == '"' || c == '\'') return text(out);
        if (c == '[') return list(']', out, depth);
        if (c == '(') return list(')', out, depth);
        if (c == '{') return dict(out, depth);
        if (begins_name(c)) return word(out);
        return number(out);
    }

  private:
    bool word(std::string& out) {
        const std::string said = name();
        if (said == "True" || said == "true") return out += "true", true;
        if (said == "False" || said == "false") return out += "false", true;
        if (said == "None" || said == "null") return out += "null", true;
        return false;
    }

    bool number(std::string& out) {
        std::string written;
        while (!at_end() && (in_name(front()) || front() == '-' || front() == '+'))
            written += text_[at_++];
        if (written.starts_with('+')) written.erase(0, 1);
        std::erase(written, '_');
        if (written.ends_with('.')) written += '0';
        json_stream checked;
        const std::size_t before = out.size();
        for (const char c : written) checked.push(c, out);
        checked.push(' ', out);
        return checked.at() == json_stream::state::whole && out.size() > before;
    }

    bool text(std::string& out) {
        const char quote = text_[at_];
        const std::string three(3, quote);
        const bool is_long = text_.substr(at_).starts_with(three);
        const std::string end = is_long ? three : std::string(1, quote);
        at_ += end.size();
        out += '"';
        while (!text_.substr(at_).starts_with(end)) {
            if (at_end()) return false;
            if (front() == '\\') {
                if (!escape(out)) return false;
            } else {
                append_escaped(out, text_[at_++]);
            }
        }
        at_ += end.size();
        out += '"';
        return true;
    }

    bool escape(std::string& out) {
        if (at_ + 1 >= text_.size()) return false;
        const char c = text_[at_ + 1];
        at_ += 2;
        switch (c) {
            case 'n':
            case 't':
            case 'r':
            case 'b':
            case 'f':
            case '"':
            case '\\':
                out += '\\';
                out += c;
                return true;
            case '\'':
                out += c;
                return true;
            case '\n':
                return true;  // a line that goes on
            case 'u':
                out += "\\u";
                for (int i = 0; i < 4; ++i, ++at_) {
                    if (std::isxdigit(static_cast<unsigned char>(front())) == 0) return false;
                    out += front();
                }
                return true;
            default:
                out += "\\\\";
                append_escaped(out, c);
                return true;
        }
    }

    bool list(char end, std::string& out, std::size_t depth) {
        ++at_;
        out += '[';
        for (bool is_first = true; !take(end); is_first = false) {
            if (!is_first) out += ',';
            if (!value(out, depth + 1)) return false;
            if (take(',')) continue;
            if (!take(end)) return false;
            break;
        }
        out += ']';
        return true;
    }

    bool dict(std::string& out, std::size_t depth) {
        ++at_;
        out += '{';
        for (bool is_first = true; !take('}'); is_first = false) {
            if (!is_first) out += ',';
            skip_space();
            if (front() != '"' && front() != '\'') return false;
            if (!text(out) || !take(':')) return false;
            out += ':';
            if (!value(out, depth + 1)) return false;
            if (take(',')) continue;
            if (!take('}')) return false;
            break;
        }
        out += '}';
        return true;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

class python_reader final : public call_reader {
  public:
    explicit python_reader(const offered_tools& tools) : tools_(tools) {}

    /// Looks for the bracket that closes the call.
    std::size_t read(std::string_view text) override {
        std::size_t at = 0;
        while (at < text.size() && state_ == state::open) {
            const char c = text[at++];
            held_ += c;
            if (is_outside(c)) outside(c);
        }
        return at;
    }

    std::span<const std::string_view> closers() const override { return fence_closers; }
    std::unique_ptr<call_reader> next(char c) const override {
        if (!begins_name(c) && c != ',' && c != ';') return nullptr;
        return std::make_unique<python_reader>(tools_);
    }

  private:
    void outside(char c) {
        if (c == '(' || c == '[' || c == '{') {
            ++depth_;
        } else if (c == ')' || c == ']' || c == '}') {
            if (--depth_ <= 0) close();
        } else if (depth_ == 0 && !is_json_space(c) && !in_name(c) && c != ',' && c != ';') {
            fail();
        }
    }

    /// Returns: false for what belongs to a text, its quotes too.
    bool is_outside(char c) {
        if (quotes_ == 0) {
            if (c != '"' && c != '\'') return true;
            quote_ = c;
            quotes_ = 1;
            is_opening_ = true;
            run_ = 0;
            return false;
        }
        if (is_opening_) {
            if (c == quote_ && ++quotes_ < 3) return false;
            is_opening_ = false;
            if (c == quote_) return false;  // the third
            if (quotes_ == 2) {             // an empty text
                quotes_ = 0;
                return is_outside(c);
            }
        }
        if (escaped_ || c != quote_) {
            escaped_ = !escaped_ && c == '\\';
            run_ = 0;
        } else if (++run_ == quotes_) {
            quotes_ = 0;
        }
        return false;
    }

    void close() {
        literal_reader in(held_);
        if (!in.take(',')) in.take(';');
        std::string name = in.name();
        bool is_printed = false;
        if (name == "print" && !tools_.has("print")) {
            is_printed = in.take('(');
            name = in.name();
        }
        if (name.starts_with("default_api."))
            name.erase(0, std::string_view("default_api.").size());
        std::string made;
        if (name.empty() || !in.take('(') || !arguments(in, name, made) ||
            (is_printed && !in.take(')')) || !rest_is_space(in)) {
            fail();
            return;
        }
        name_ = std::move(name);
        arguments_ = std::move(made);
        done();
    }
    static bool rest_is_space(literal_reader& in) {
        in.skip_space();
        return in.at_end();
    }

    bool arguments(literal_reader& in, const std::string& tool, std::string& out) const {
        out = "{";
        for (std::size_t place = 0; !in.take(')'); ++place) {
            if (place > 0) out += ',';
            const std::size_t before = in.place();
            std::optional<std::string> key = in.name();
            if (key->empty() || !in.take('=')) {
                in.return_to(before);
                key = tools_.parameter_at(tool, place);
            }
            if (!key) return false;
            out += '"' + *key + "\":";
            if (!in.value(out)) return false;
            if (in.take(',')) continue;
            if (!in.take(')')) return false;
            break;
        }
        out += '}';
        return true;
    }

    const offered_tools tools_;
    std::string held_;
    char quote_ = '\0';
    int quotes_ = 0;  // one or three around the text that is open
    bool is_opening_ = false;
    int run_ = 0;  // quotes in a row that may close it
    int depth_ = 0;
    bool escaped_ = false;
};

}  // namespace

std::unique_ptr<call_reader> read_tool_code_call(const offered_tools& tools, std::string_view) {
    return std::make_unique<python_reader>(tools);
}

}  // namespace semantic::engine
