// SPDX-License-Identifier: Apache-2.0
// Calls whose arguments are JSON: an object of name and arguments (Hermes, Llama 3, lists of
// Mistral, Granite, Nemotron and others), and arguments after a name (Harmony, Mistral, DeepSeek,
// Kimi).

#include <algorithm>
#include <array>
#include <cctype>

#include "engine/text/output/calls/call_reader.hpp"
#include "engine/text/output/calls/json_stream.hpp"

namespace semantic::engine {

namespace {

using json_state = json_stream::state;

// The second is the tag that closes a tool's result: some models confuse the two.
constexpr std::array<std::string_view, 2> hermes_closers{"</tool_call>", "</tool_response>"};

/// Reads a call that is one JSON object with its name and arguments. The kinds differ in how much
/// may be missing (see call_object).
class json_call_reader final : public call_reader {
  public:
    explicit json_call_reader(call_object kind) : kind_(kind) {}

    std::size_t read(std::string_view text) override {
        std::size_t at = 0;
        while (at < text.size() && state_ == state::open) {
            if (!take(text[at])) break;
            ++at;
        }
        return at;
    }

    void end(bool) override {
        if (state_ != state::open) return;
        // Arguments that are cut off are never completed here: they would be other arguments.
        if (ended_ || lacks_a_brace()) finish();
    }

    std::span<const std::string_view> closers() const override {
        if (kind_ != call_object::hermes) return {};
        return hermes_closers;
    }

  private:
    /// Which member's value is being read; written_arguments are JSON inside of a JSON string.
    enum class part { other, name, arguments, written_arguments };

    /// Reads one character. Returns: false when it comes after the call and does not belong to it.
    bool take(char c) {
        if (ended_) return take_second_brace(c);
        if (kind_ == call_object::hermes && c == '<' && lacks_a_brace()) {
            finish();
            return false;
        }
        // The examples of some templates have doubled braces ({{...}}), which their models copy.
        // The second one is skipped here.
        if (kind_ != call_object::llama3 && c == '{' && after_first_brace_) {
            doubled_ = true;
            after_first_brace_ = false;
            return true;
        }
        after_first_brace_ = json_.depth() == 0 && c == '{';
        if (json_.depth() == 0 && c != '{' && !is_json_space(c)) return fail(), true;
        if (json_.depth() == 1 && json_.awaits_value() && !is_json_space(c)) begin_member(c);
        if (state_ != state::open) return true;
        std::string piece;
        json_.push(c, piece);
        if (json_.at() == json_state::malformed) return fail(), true;
        take_piece(piece);
        if (json_.at() != json_state::whole || state_ != state::open) return true;
        ended_ = true;
        if (!doubled_) finish();
        return true;
    }

    /// After a complete object that began with doubled braces: waits for the second closing brace.
    /// The call also ends without it.
    bool take_second_brace(char c) {
        if (is_json_space(c)) return true;
        finish();
        return c == '}';
    }

    /// Whether the call is complete except for its last brace, which models forget at times.
    bool lacks_a_brace() const {
        return kind_ == call_object::hermes && json_.depth() == 1 && json_.awaits_end() &&
               !name_.empty() && has_arguments_;
    }

    /// Called at the first character of a value of the outermost object: decides by its key what
    /// the value is. Fails where the key or the value's type makes the object no call.
    void begin_member(char c) {
        const std::string& key = json_.key();
        part_ = part::other;
        if (key == "name") {
            if (c != '"' || !name_json_.empty()) return fail();
            part_ = part::name;
        } else if (key == "arguments" || key == "parameters") {
            if ((c != '{' && c != '"') || has_arguments_) return fail();
            has_arguments_ = true;
            part_ = c == '{' ? part::arguments : part::written_arguments;
        } else if (kind_ == call_object::bare && key != "type" && key != "id") {
            fail();
        }
    }

    /// Adds checked JSON to the member that is being read. Once its value has ended the name is
    /// decoded.
    void take_piece(const std::string& piece) {
        if (part_ == part::other) return;
        std::string& target = part_ == part::name        ? name_json_
                              : part_ == part::arguments ? arguments_
                                                         : written_;
        target += piece;
        if (json_.depth() != 1 || json_.in_string()) return;
        if (part_ == part::name) {
            name_ = text_of_json(name_json_);
            if (name_.empty()) fail();
        }
        part_ = part::other;
    }

    /// Ends the call: as complete when it has what its kind demands.
    void finish() {
        if (!written_.empty()) take_written_arguments();
        if (!has_arguments_ && kind_ == call_object::hermes) arguments_ = "{}";
        const bool is_call = state_ == state::open && !name_.empty() && !arguments_.empty();
        if (is_call) {
            done();
        } else {
            fail();
        }
    }

    /// Decodes arguments that are JSON inside of a string. Fails when the text is no JSON object.
    void take_written_arguments() {
        const std::string text = text_of_json(written_);
        json_stream checked;
        for (const char c : text) {
            if (checked.depth() == 0 && c != '{' && !is_json_space(c)) return fail();
            checked.push(c, arguments_);
        }
        if (checked.at() != json_state::whole) fail();
    }

    // What may be missing, and the object as it is checked.
    call_object kind_;
    json_stream json_;
    part part_ = part::other;
    std::string name_json_;           // the name's value, as JSON
    std::string written_;             // written_arguments so far, as JSON
    bool has_arguments_ = false;      // their key has come
    bool after_first_brace_ = false;  // the last character opened the object
    bool doubled_ = false;
    bool ended_ = false;  // the object is complete; its second brace may follow
};

/// Reads the object of arguments of a call whose name is known.
class arguments_reader final : public call_reader {
  public:
    explicit arguments_reader(std::string name) { name_ = std::move(name); }

    std::size_t read(std::string_view text) override {
        std::size_t at = 0;
        while (at < text.size() && state_ == state::open) {
            const char c = text[at++];
            if (json_.depth() == 0 && c != '{' && !is_json_space(c)) {
                fail();
                break;
            }
            json_.push(c, arguments_);
            if (json_.at() == json_state::malformed) fail();
            if (json_.at() == json_state::whole) done();
        }
        return at;
    }

    /// A call whose arguments never began has none, unless a limit cut the answer off: then they
    /// might have followed.
    void end(bool was_cut) override {
        if (was_cut || state_ != state::open || json_.depth() > 0) return;
        arguments_ = "{}";
        done();
    }

  private:
    json_stream json_;
};

/// Reads calls with a head in front of a JSON object, such as a name and marks. The head ends at
/// the object's brace, since no name contains one. Another reader, made by read_head(), then reads
/// the object.
class headed_reader : public call_reader {
  public:
    std::size_t read(std::string_view text) override {
        std::size_t at = 0;
        if (!inner_) {
            at = std::min(text.find('{'), text.size());
            head_ += text.substr(0, at);
            if (head_.size() > head_bytes_max || !could_be_head(head_)) fail();
            if (state_ == state::open && at < text.size()) {
                inner_ = read_head(head_);
                if (!inner_) fail();
            }
        }
        if (state_ != state::open || !inner_) return at;
        at += inner_->read(text.substr(at));
        take_inner();
        return at;
    }

    void end(bool was_cut) override {
        if (!inner_ || state_ != state::open) return;
        inner_->end(was_cut);
        take_inner();
    }

  private:
    static constexpr std::size_t head_bytes_max = 512;

    /// Returns: the reader of the object after `head`; null when the head begins no call.
    virtual std::unique_ptr<call_reader> read_head(std::string_view head) = 0;
    /// Whether the text so far can still become a head.
    virtual bool could_be_head(std::string_view) const { return true; }

    /// Takes over what the inner reader has read so far.
    void take_inner() {
        name_ = inner_->name();
        arguments_ += inner_->arguments().substr(arguments_.size());
        state_ = inner_->at();
    }

    // The text before the object, and the reader of the object; null: it has not begun.
    std::string head_;
    std::unique_ptr<call_reader> inner_;
};

std::string_view without_space(std::string_view text) {
    while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
    return text;
}

/// Whether this can be a tool's name: letters, digits, characters beyond ASCII and a few others.
bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= 256 && std::all_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte >= 0x80 || std::isalnum(byte) != 0 || c == '_' || c == '-' || c == '.' ||
               c == ':' || c == '/';
    });
}

constexpr std::array<std::string_view, 1> list_closers{"]"};
constexpr std::array<std::string_view, 2> nemotron_closers{"]", "</TOOLCALL>"};
constexpr std::array<std::string_view, 2> listed_closers{"]", "</tool_calls>"};

/// Reads one call of [{"name": ..., "arguments": ...}, ...], or of such objects one after the
/// other. next() makes the reader of the following one.
class list_reader : public headed_reader {
  public:
    using closer_span = std::span<const std::string_view>;

    /// Where the call is: first, so that it is not known yet whether a list begins; in a list; or
    /// among objects without a list.
    enum class position { first, listed, loose };

    list_reader(closer_span closers, position where) : closers_(closers), position_(where) {}

    /// Outside of a list the first closer, the list's bracket, is none.
    closer_span closers() const override {
        return position_ == position::listed ? closers_ : closers_.subspan(1);
    }
    std::unique_ptr<call_reader> next(char c) const override {
        if (c != (position_ == position::listed ? ',' : '{')) return nullptr;
        return std::make_unique<list_reader>(closers_, position_);
    }

  protected:
    /// Of the first call "[" or nothing may come in front; of a later one the comma in a list, and
    /// nothing among loose objects.
    std::unique_ptr<call_reader> read_head(std::string_view head) override {
        head = without_space(head);
        const std::string_view before = position_ == position::listed ? "," : "[";
        const bool may_be_loose = position_ != position::listed;
        if (head == before && position_ != position::loose)
            position_ = position::listed;
        else if (head.empty() && may_be_loose)
            position_ = position::loose;
        else
            return nullptr;
        return make_json_call_reader(call_object::llama3);
    }
    bool could_be_head(std::string_view head) const override {
        head = without_space(head);
        return head.empty() || head == "[" || head == ",";
    }

    position at_position() const { return position_; }

  private:
    const closer_span closers_;  // the list's bracket, then what follows it
    position position_;
};

/// Mistral's calls: a list of objects, or NAME[CALL_ID]...[ARGS]{...}, where either mark may be
/// missing.
class mistral_reader final : public list_reader {
  public:
    mistral_reader() : list_reader(list_closers, position::first) {}

    std::unique_ptr<call_reader> next(char c) const override {
        return at_position() == position::listed ? list_reader::next(c) : nullptr;
    }

  private:
    /// A list's object, as in list_reader; or a name, whose call has its arguments alone in the
    /// object.
    std::unique_ptr<call_reader> read_head(std::string_view head) override {
        if (auto object = list_reader::read_head(head)) return object;
        head = without_space(head);
        if (head.ends_with("[ARGS]")) head.remove_suffix(std::string_view("[ARGS]").size());
        head = without_space(head.substr(0, head.find("[CALL_ID]")));
        if (!is_name(head)) return nullptr;
        return make_arguments_reader(std::string(head));
    }
    bool could_be_head(std::string_view head) const override {
        return head.find('<') == std::string_view::npos;
    }
};

constexpr std::string_view deepseek_begin = "<｜tool▁call▁begin｜>";
constexpr std::string_view deepseek_separator = "<｜tool▁sep｜>";
constexpr std::string_view json_fence = "```json";
constexpr std::array<std::string_view, 3> deepseek_closers{"```", "<｜tool▁call▁end｜>",
                                                           "<｜tool▁calls▁end｜>"};

/// DeepSeek's calls: function<sep>NAME\n```json\n{...}\n```, or NAME<sep>{...}.
class deepseek_reader final : public headed_reader {
  public:
    std::span<const std::string_view> closers() const override { return deepseek_closers; }

  private:
    /// The name is after the separator if something is there, and else before it.
    std::unique_ptr<call_reader> read_head(std::string_view head) override {
        head = without_space(head);
        if (head.starts_with(deepseek_begin)) head.remove_prefix(deepseek_begin.size());
        const std::size_t separator = head.find(deepseek_separator);
        if (separator == std::string_view::npos) return nullptr;
        std::string_view name = without_space(head.substr(0, separator));
        std::string_view rest = without_space(head.substr(separator + deepseek_separator.size()));
        if (rest.ends_with(json_fence)) {
            rest = without_space(rest.substr(0, rest.size() - json_fence.size()));
        } else if (rest.ends_with("```")) {
            rest = without_space(rest.substr(0, rest.size() - 3));
        }
        if (!rest.empty()) name = rest;  // the text before it is the type
        if (!is_name(name)) return nullptr;
        return make_arguments_reader(std::string(name));
    }
};

constexpr std::string_view kimi_begin = "<|tool_call_begin|>";
constexpr std::string_view kimi_separator = "<|tool_call_argument_begin|>";
constexpr std::array<std::string_view, 2> kimi_closers{"<|tool_call_end|>",
                                                       "<|tool_calls_section_end|>"};

/// Kimi's calls: functions.NAME:0<|tool_call_argument_begin|>{...}. The head is the call's id,
/// which contains the tool's name and ends with the call's number.
class kimi_reader final : public headed_reader {
  public:
    std::span<const std::string_view> closers() const override { return kimi_closers; }

  private:
    std::unique_ptr<call_reader> read_head(std::string_view head) override {
        head = without_space(head);
        if (head.starts_with(kimi_begin)) head.remove_prefix(kimi_begin.size());
        if (!head.ends_with(kimi_separator)) return nullptr;
        head.remove_suffix(kimi_separator.size());
        std::string_view name = without_space(head);
        constexpr std::string_view module = "functions.";
        if (name.starts_with(module)) name.remove_prefix(module.size());
        const std::size_t digits = name.find_last_not_of("0123456789") + 1;
        if (digits > 1 && digits < name.size() && name[digits - 1] == ':')
            name = name.substr(0, digits - 1);
        if (!is_name(name)) return nullptr;
        return make_arguments_reader(std::string(name));
    }
};

}  // namespace

std::unique_ptr<call_reader> make_json_call_reader(call_object kind) {
    return std::make_unique<json_call_reader>(kind);
}

std::unique_ptr<call_reader> make_arguments_reader(std::string name) {
    return std::make_unique<arguments_reader>(std::move(name));
}

std::unique_ptr<call_reader> read_hermes_call(const offered_tools&, std::string_view) {
    return make_json_call_reader(call_object::hermes);
}

std::unique_ptr<call_reader> read_mistral_call(const offered_tools&, std::string_view) {
    return std::make_unique<mistral_reader>();
}

std::unique_ptr<call_reader> read_granite_calls(const offered_tools&, std::string_view) {
    return std::make_unique<list_reader>(list_closers, list_reader::position::first);
}

std::unique_ptr<call_reader> read_nemotron_calls(const offered_tools&, std::string_view) {
    return std::make_unique<list_reader>(nemotron_closers, list_reader::position::first);
}

std::unique_ptr<call_reader> read_listed_calls(const offered_tools&, std::string_view) {
    return std::make_unique<list_reader>(listed_closers, list_reader::position::first);
}

std::unique_ptr<call_reader> read_kimi_call(const offered_tools&, std::string_view) {
    return std::make_unique<kimi_reader>();
}

std::unique_ptr<call_reader> read_deepseek_call(const offered_tools&, std::string_view) {
    return std::make_unique<deepseek_reader>();
}

}  // namespace semantic::engine
