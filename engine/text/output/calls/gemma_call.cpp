// SPDX-License-Identifier: Apache-2.0
// Gemma's function calls: call:NAME{key:value,...}, with bare keys and strings between marks of
// their own, <escape> (FunctionGemma) or <|"|> (Gemma 4).

#include <algorithm>
#include <array>

#include "engine/text/output/calls/call_reader.hpp"
#include "engine/text/output/calls/json_stream.hpp"
#include "engine/text/output/calls/marks.hpp"

namespace semantic::engine {

namespace {

constexpr std::string_view call_word = "call:";
constexpr std::size_t name_bytes_max = 256;

struct gemma_marks {
    std::string_view quote;
    std::span<const std::string_view> closers;
};
constexpr std::array<std::string_view, 2> function_gemma_closers{"<end_function_call>",
                                                                 "<start_function_response>"};
constexpr std::array<std::string_view, 2> gemma4_closers{"<tool_call|>", "<|tool_response>"};
constexpr gemma_marks function_gemma{"<escape>", function_gemma_closers};
constexpr gemma_marks gemma4{"<|\"|>", gemma4_closers};

/// Reads a call by translating its arguments to JSON, which a json_stream then checks. Text that
/// cannot be decided yet waits in held_.
class gemma_reader final : public call_reader {
  public:
    explicit gemma_reader(const gemma_marks& marks) : marks_(marks) {}

    std::size_t read(std::string_view text) override {
        held_ += text;
        taken_ = 0;
        while (state_ == state::open && step()) {
        }
        held_.erase(0, taken_);
        // What a whole call leaves in held_ comes after it.
        return state_ == state::whole ? text.size() - held_.size() : text.size();
    }

    std::span<const std::string_view> closers() const override { return marks_.closers; }

  private:
    /// What is read next: the name, a bracket or separator, a text between the format's quotes, a
    /// text between JSON's quotes, a bare key, or a bare value.
    enum class stage { name, parts, quoted, plain_quoted, key, word };

    std::string_view rest() const { return std::string_view(held_).substr(taken_); }

    /// Each of the following reads one item. Returns: false when more text is needed, or the call
    /// has ended.
    bool step() {
        switch (stage_) {
            case stage::name:
                return read_name();
            case stage::parts:
                return read_part();
            case stage::quoted:
                return read_quoted();
            case stage::plain_quoted:
                return read_plain_quoted();
            case stage::key:
                return read_key();
            case stage::word:
                return read_word();
        }
        return false;
    }

    /// Reads call:NAME up to its brace, which stays for read_part(). Fails as soon as the text
    /// cannot become that.
    bool read_name() {
        while (taken_ < held_.size() && is_json_space(held_[taken_])) ++taken_;
        const std::size_t end = rest().find('{');
        const std::string_view said = rest().substr(0, end);
        const std::string_view begin = said.substr(0, call_word.size());
        if (!call_word.starts_with(begin) || said.size() > name_bytes_max ||
            said.find_first_of(" \n<\"") != std::string_view::npos)
            fail();
        if (state_ != state::open || end == std::string_view::npos) return false;
        name_ = said.substr(std::min(said.size(), call_word.size()));
        // A brace that comes before the whole word, or a name of no length.
        if (begin.size() < call_word.size() || name_.empty()) {
            name_.clear();
            fail();
            return false;
        }
        taken_ += end;
        stage_ = stage::parts;
        return true;
    }

    /// Adds JSON to the arguments. Its last bracket ends the call.
    void write(std::string_view json) {
        for (const char c : json) json_.push(c, arguments_);
        if (json_.at() == json_stream::state::malformed) fail();
        if (json_.at() == json_stream::state::whole) done();
    }
    void write_text(std::string_view text) {
        std::string escaped;
        for (const char c : text) append_escaped(escaped, c);
        write(escaped);
    }

    /// Reads a bracket or a separator, or finds out what begins here.
    bool read_part() {
        while (taken_ < held_.size() && is_json_space(held_[taken_])) ++taken_;
        if (rest().empty()) return false;
        const char c = rest().front();
        if (std::string_view("{}[],:").find(c) != std::string_view::npos) {
            ++taken_;
            write(std::string_view(&c, 1));
            return state_ == state::open;
        }
        if (rest().starts_with(marks_.quote)) {
            taken_ += marks_.quote.size();
            write("\"");
            stage_ = stage::quoted;
            return true;
        }
        if (marks_.quote.starts_with(rest())) return false;
        if (c == '"') {
            ++taken_;
            write("\"");
            stage_ = stage::plain_quoted;
        } else {
            stage_ = json_.awaits_value() ? stage::word : stage::key;
        }
        return true;
    }

    /// Reads a text between the format's own quotes as far as it is certain.
    bool read_quoted() {
        const std::size_t end = held_.find(marks_.quote, taken_);
        const bool is_open = end == std::string::npos;
        // Without a closing quote all is text but an end that may be the begin of one.
        const std::size_t sure = is_open ? held_.size() - begun_mark(rest(), marks_.quote) : end;
        write_text(std::string_view(held_).substr(taken_, sure - taken_));
        taken_ = sure;
        if (is_open) return false;
        taken_ += marks_.quote.size();
        write("\"");
        stage_ = stage::parts;
        return true;
    }

    /// Reads a string that the model wrote as in JSON.
    bool read_plain_quoted() {
        while (taken_ < held_.size() && state_ == state::open) {
            write(std::string_view(held_).substr(taken_++, 1));
            if (json_.in_string()) continue;
            stage_ = stage::parts;
            return state_ == state::open;
        }
        return false;
    }

    /// Reads a key without quotes up to what separates it.
    bool read_key() {
        const std::size_t end = rest().find_first_of(":,{}[]");
        const std::string_view key = rest().substr(0, end);
        if (key.size() > name_bytes_max) fail();
        if (state_ != state::open || end == std::string_view::npos) return false;
        write("\"");
        write_text(key.substr(0, key.find_last_not_of(" \n") + 1));
        write("\"");
        taken_ += end;
        stage_ = stage::parts;
        return state_ == state::open;
    }

    /// Reads a number, true, false or null. Anything else counts as a string whose quotes the model
    /// forgot.
    bool read_word() {
        const std::size_t end = rest().find_first_of(",{}[]");
        if (end == std::string_view::npos) {
            if (rest().size() > 4 * name_bytes_max) fail();
            return false;
        }
        std::string_view word = rest().substr(0, end);
        if (word.size() > 4 * name_bytes_max) fail();
        word = word.substr(0, word.find_last_not_of(" \n") + 1);
        write(offered_tools().json_of({}, {}, word));
        taken_ += end;
        stage_ = stage::parts;
        return state_ == state::open;
    }

    const gemma_marks& marks_;
    stage stage_ = stage::name;
    std::string held_;       // text that is not decided yet
    std::size_t taken_ = 0;  // of held_
    json_stream json_;       // checks what is written to arguments_
};

}  // namespace

std::unique_ptr<call_reader> read_function_gemma_call(const offered_tools&, std::string_view) {
    return std::make_unique<gemma_reader>(function_gemma);
}

std::unique_ptr<call_reader> read_gemma4_call(const offered_tools&, std::string_view) {
    return std::make_unique<gemma_reader>(gemma4);
}

}  // namespace semantic::engine
