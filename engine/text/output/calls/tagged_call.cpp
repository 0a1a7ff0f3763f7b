// SPDX-License-Identifier: Apache-2.0
// Calls whose parameters are between tags, without quotes. The forms differ in their tags alone:
// Qwen3-Coder's <function=NAME><parameter=KEY>VALUE</parameter></function>, which Seed-OSS has too,
// GLM's NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>, MiniMax's and
// DeepSeek's <invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>, MiniCPM's
// <function name="NAME"><param name="KEY">VALUE</param></function>, whose values may be CDATA. The
// type of a value is the one that its tool's schema says.

#include <algorithm>
#include <array>

#include "engine/text/output/calls/call_reader.hpp"
#include "engine/text/output/calls/json_stream.hpp"
#include "engine/text/output/calls/marks.hpp"

namespace semantic::engine {

namespace {

constexpr std::size_t tagged_name_bytes_max = 256;

using mark_span = std::span<const std::string_view>;

/// The tags of a format.
struct tags {
    std::string_view name_open;  // in front of the name
    mark_span name_ends;         // the first of them ends the name
    bool takes_name_end;         // that text belongs to the name, and not to what follows it
    std::string_view key_open;
    std::string_view key_close;
    std::string_view value_open;  // empty: the key's end is the value's beginning
    bool has_attributes;          // between key_close and value_open, such as string="true"
    std::string_view value_close;
    std::string_view section_close;  // of a value between <![CDATA[ and this; empty: there is none
    mark_span ends;                  // of the call
    bool takes_line_breaks;          // a line break at either end of a value is not part of it
    mark_span closers;               // what may follow the end (see call_reader::closers())
    mark_span all_closers;           // the same after arguments that are JSON: ends and closers
};

constexpr std::array<std::string_view, 1> tag_end{">"};
constexpr std::array<std::string_view, 1> quoted_tag_end{"\">"};

constexpr std::array<std::string_view, 3> qwen_closers{"</function>", "</tool_call>",
                                                       "</tool_response>"};
constexpr tags qwen_tags{.name_open = "<function=",
                         .name_ends = tag_end,
                         .takes_name_end = true,
                         .key_open = "<parameter=",
                         .key_close = ">",
                         .value_open = {},
                         .has_attributes = false,
                         .value_close = "</parameter>",
                         .section_close = {},
                         .ends = mark_span(qwen_closers).first(2),
                         .takes_line_breaks = true,
                         .closers = mark_span(qwen_closers).subspan(1),
                         .all_closers = qwen_closers};

constexpr std::array<std::string_view, 2> seed_closers{"</function>", "</seed:tool_call>"};
constexpr tags seed_tags{.name_open = "<function=",
                         .name_ends = tag_end,
                         .takes_name_end = true,
                         .key_open = "<parameter=",
                         .key_close = ">",
                         .value_open = {},
                         .has_attributes = false,
                         .value_close = "</parameter>",
                         .section_close = {},
                         .ends = seed_closers,
                         .takes_line_breaks = false,
                         .closers = mark_span(seed_closers).subspan(1),
                         .all_closers = seed_closers};

constexpr std::array<std::string_view, 3> glm_name_ends{"\n", "<arg_key>", "</tool_call>"};
constexpr std::array<std::string_view, 1> glm_ends{"</tool_call>"};
constexpr tags glm_tags{.name_open = {},
                        .name_ends = glm_name_ends,
                        .takes_name_end = false,
                        .key_open = "<arg_key>",
                        .key_close = "</arg_key>",
                        .value_open = "<arg_value>",
                        .has_attributes = false,
                        .value_close = "</arg_value>",
                        .section_close = {},
                        .ends = glm_ends,
                        .takes_line_breaks = false,
                        .closers = {},
                        .all_closers = glm_ends};

constexpr std::array<std::string_view, 2> minimax_closers{"</invoke>", "</minimax:tool_call>"};
constexpr tags minimax_tags{.name_open = "<invoke name=\"",
                            .name_ends = quoted_tag_end,
                            .takes_name_end = true,
                            .key_open = "<parameter name=\"",
                            .key_close = "\">",
                            .value_open = {},
                            .has_attributes = false,
                            .value_close = "</parameter>",
                            .section_close = {},
                            .ends = minimax_closers,
                            .takes_line_breaks = false,
                            .closers = mark_span(minimax_closers).subspan(1),
                            .all_closers = minimax_closers};

constexpr std::array<std::string_view, 3> dsml_closers{
    "</｜DSML｜invoke>", "</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"};
constexpr tags dsml_tags{.name_open = "<｜DSML｜invoke name=\"",
                         .name_ends = quoted_tag_end,
                         .takes_name_end = true,
                         .key_open = "<｜DSML｜parameter name=\"",
                         .key_close = "\"",
                         .value_open = ">",
                         .has_attributes = true,
                         .value_close = "</｜DSML｜parameter>",
                         .section_close = {},
                         .ends = dsml_closers,
                         .takes_line_breaks = false,
                         .closers = mark_span(dsml_closers).subspan(1),
                         .all_closers = dsml_closers};

constexpr std::array<std::string_view, 1> minicpm_ends{"</function>"};
constexpr tags minicpm_tags{.name_open = "<function name=\"",
                            .name_ends = quoted_tag_end,
                            .takes_name_end = true,
                            .key_open = "<param name=\"",
                            .key_close = "\">",
                            .value_open = {},
                            .has_attributes = false,
                            .value_close = "</param>",
                            .section_close = "]]></param>",
                            .ends = minicpm_ends,
                            .takes_line_breaks = false,
                            .closers = {},
                            .all_closers = minicpm_ends};

/// Reads a call with its parameters between tags. Text that cannot be decided yet waits in held_.
/// Where the model writes JSON instead, a reader of JSON (inner_) takes over.
class tagged_reader final : public call_reader {
  public:
    /// `after_name_open`: the tag in front of the name has been read.
    tagged_reader(const tags& form, const offered_tools& tools, bool after_name_open)
        : form_(form), tools_(tools), stage_(after_name_open ? stage::name : stage::start) {}

    std::size_t read(std::string_view text) override {
        if (inner_) return read_inner(text);
        held_ += text;
        taken_ = 0;
        while (state_ == state::open && !inner_ && step()) {
        }
        if (inner_) {
            // All that was not taken is from `text`, since nothing was held when the JSON began, so
            // the number of its bytes that were read can be computed from it.
            const std::string left = held_.substr(taken_);
            held_.clear();
            return text.size() - left.size() + read_inner(left);
        }
        held_.erase(0, taken_);
        return state_ == state::whole ? text.size() - held_.size() : text.size();
    }

    /// A call that ends between two parameters is complete although its closing tag is missing, if
    /// the model ended it and no limit did.
    void end(bool was_cut) override {
        if (state_ != state::open) return;
        if (inner_) {
            inner_->end(was_cut);
            take_inner();
        } else if (stage_ == stage::between && held_.empty() && !was_cut) {
            arguments_ += '}';
            done();
        }
    }

    std::span<const std::string_view> closers() const override {
        if (has_json_arguments_) return form_.all_closers;
        return inner_ ? inner_->closers() : form_.closers;
    }

  private:
    enum class stage { start, name, between, key, before_value, value };

    std::string_view rest() const { return std::string_view(held_).substr(taken_); }

    /// Has the reader of JSON read on.
    std::size_t read_inner(std::string_view text) {
        const std::size_t read = inner_->read(text);
        take_inner();
        return read;
    }
    void take_inner() {
        if (name_.empty()) name_ = inner_->name();
        arguments_ += inner_->arguments().substr(arguments_.size());
        state_ = inner_->at();
    }

    void skip_space() {
        while (taken_ < held_.size() && is_json_space(held_[taken_])) ++taken_;
    }

    enum class met { yes, no, open };  // open: more text is needed to decide
    /// Takes `mark` if the text that is left begins with it.
    met take(std::string_view mark) {
        if (rest().starts_with(mark)) {
            taken_ += mark.size();
            return met::yes;
        }
        return mark.starts_with(rest()) ? met::open : met::no;
    }

    /// Each of the following reads one item. Returns: false when more text is needed, or the call
    /// has ended.
    bool step() {
        switch (stage_) {
            case stage::start:
                return start();
            case stage::name:
                return read_name();
            case stage::between:
                return between();
            case stage::key:
                return read_key();
            case stage::before_value:
                return before_value();
            case stage::value:
                return read_value();
        }
        return false;
    }

    bool start() {
        skip_space();
        if (rest().empty()) return false;
        // Some models write the whole call as JSON, a form that they learnt, too.
        if (rest().front() == '{') {
            inner_ = make_json_call_reader(call_object::hermes);
            return false;
        }
        const met found = take(form_.name_open);
        if (found == met::no) fail();
        if (found != met::yes) return false;
        stage_ = stage::name;
        return true;
    }

    /// Reads the name up to the first text that ends it. Fails as soon as it cannot be a name.
    bool read_name() {
        std::size_t end = std::string_view::npos;
        std::size_t length = 0;
        for (const std::string_view mark : form_.name_ends) {
            const std::size_t found = rest().find(mark);
            if (found < end) {
                end = found;
                length = mark.size();
            }
        }
        std::string_view name = rest().substr(0, end);
        // The last bytes may be the begin of what ends the name, so they are not checked as a name.
        if (end == std::string_view::npos) {
            std::size_t begun = 0;
            for (const std::string_view mark : form_.name_ends)
                begun = std::max(begun, begun_mark(name, mark));
            name.remove_suffix(begun);
        }
        const bool is_odd = name.size() > tagged_name_bytes_max ||
                            name.find_first_of("{}\"") != std::string_view::npos ||
                            (form_.takes_name_end && name.find('\n') != std::string_view::npos);
        if (is_odd) fail();
        if (is_odd || end == std::string_view::npos) return false;
        name_ = trimmed(name);
        if (name_.empty() || name_.find_first_of(" <\t") != std::string::npos) {
            name_.clear();
            fail();
            return false;
        }
        taken_ += end + (form_.takes_name_end ? length : 0);
        arguments_ = "{";
        stage_ = stage::between;
        return true;
    }

    /// Reads the tag that begins a parameter, or that ends the call.
    bool between() {
        skip_space();
        if (rest().empty()) return false;
        // Some models write the arguments as JSON after the name.
        if (rest().front() == '{' && arguments_ == "{") {
            arguments_.clear();
            inner_ = make_arguments_reader(name_);
            has_json_arguments_ = true;
            return false;
        }
        met found = take(form_.key_open);
        if (found == met::yes) {
            stage_ = stage::key;
            return true;
        }
        bool may_come = found == met::open;
        for (const std::string_view end : form_.ends) {
            found = take(end);
            if (found == met::yes) {
                arguments_ += '}';
                done();
                return false;
            }
            may_come = may_come || found == met::open;
        }
        if (!may_come) fail();
        return false;
    }

    /// Reads a parameter's name up to its closing tag. Fails when it is empty or too long.
    bool read_key() {
        const std::size_t end = rest().find(form_.key_close);
        const bool is_open = end == std::string_view::npos;
        const std::size_t size_max = tagged_name_bytes_max + form_.key_close.size();
        if (is_open && rest().size() <= size_max) return false;
        if (!is_open && end <= tagged_name_bytes_max) key_ = trimmed(rest().substr(0, end));
        if (is_open || end > tagged_name_bytes_max || key_.empty()) {
            fail();
            return false;
        }
        taken_ += end + form_.key_close.size();
        stage_ = stage::before_value;
        return true;
    }

    /// Reads up to where the parameter's value begins, and adds its name to the arguments. A value
    /// that is text is added as it comes, others only when they are complete.
    bool before_value() {
        is_text_ = tools_.is_text(name_, key_);
        if (form_.has_attributes) {
            if (!read_attributes()) return false;
        } else if (!form_.value_open.empty()) {
            skip_space();
            const met found = take(form_.value_open);
            if (found == met::no) fail();
            if (found != met::yes) return false;
        }
        if (arguments_.size() > 1) arguments_ += ',';
        arguments_ += '"';
        for (const char c : key_) append_escaped(arguments_, c);
        arguments_ += is_text_ ? "\":\"" : "\":";
        at_value_start_ = true;
        stage_ = stage::value;
        return true;
    }

    /// Reads attributes up to the value. If one says whether the value is a string, it overrides
    /// the tool's schema.
    bool read_attributes() {
        const std::size_t end = rest().find(form_.value_open);
        const std::string_view attributes = rest().substr(0, end);
        if (attributes.size() > tagged_name_bytes_max) fail();
        if (state_ != state::open || end == std::string_view::npos) return false;
        if (attributes.find("string=\"true\"") != std::string_view::npos) is_text_ = true;
        if (attributes.find("string=\"false\"") != std::string_view::npos) is_text_ = false;
        taken_ += end + form_.value_open.size();
        return true;
    }

    /// Reads what may come in front of a value: a line break and the begin of a CDATA section.
    /// Returns: false when more text is needed.
    bool begin_value() {
        if (form_.takes_line_breaks) {
            if (rest().empty()) return false;
            if (rest().front() == '\n') ++taken_;
        }
        if (!form_.section_close.empty()) {
            const met found = take("<![CDATA[");
            if (found == met::open) return false;
            in_section_ = found == met::yes;
        }
        at_value_start_ = false;
        return true;
    }
    std::string_view value_close() const {
        return in_section_ ? form_.section_close : form_.value_close;
    }

    /// Reads a value up to its closing tag, and adds it to the arguments by its type.
    bool read_value() {
        if (at_value_start_ && !begin_value()) return false;
        const std::size_t from = std::max(searched_, taken_);
        const std::size_t end = held_.find(value_close(), from);
        if (end == std::string::npos) {
            wait_in_value();
            return false;
        }
        std::string_view value = std::string_view(held_).substr(taken_, end - taken_);
        if (form_.takes_line_breaks && value.ends_with('\n')) value.remove_suffix(1);
        if (is_text_) {
            append_text(value);
            arguments_ += '"';
        } else {
            arguments_ += tools_.json_of(name_, key_, value);
        }
        taken_ = end + value_close().size();
        in_section_ = false;
        searched_ = 0;
        stage_ = stage::between;
        return true;
    }

    /// Called in a value whose end has not come yet. Of a text it adds all but the bytes that may
    /// be the begin of the closing tag or the line break in front of it. Of other values it notes
    /// how far it has searched.
    void wait_in_value() {
        const std::size_t begun = begun_mark(rest(), value_close());
        std::size_t sure = held_.size() - begun;
        searched_ = sure;
        if (!is_text_) {
            searched_ -= taken_;  // read() then drops the first taken_ bytes of held_
            return;
        }
        if (form_.takes_line_breaks && sure > taken_ && held_[sure - 1] == '\n') --sure;
        append_text(std::string_view(held_).substr(taken_, sure - taken_));
        taken_ = sure;
        searched_ = 0;
    }

    void append_text(std::string_view text) {
        for (const char c : text) append_escaped(arguments_, c);
    }

    static std::string trimmed(std::string_view text) {
        while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
        while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
        return std::string(text);
    }

    const tags& form_;
    const offered_tools tools_;
    stage stage_;
    std::string held_;                    // text that is not decided yet
    std::size_t taken_ = 0;               // of held_
    std::size_t searched_ = 0;            // in held_: a value's end does not begin before this
    std::string key_;                     // of the parameter that is read
    bool is_text_ = false;                // its value is a string
    bool at_value_start_ = false;         // nothing of the value has been read
    bool in_section_ = false;             // the value is in a CDATA section
    bool has_json_arguments_ = false;     // inner_ reads them, without the name
    std::unique_ptr<call_reader> inner_;  // reads a call, or its arguments, written as JSON
};

/// Makes a reader of `form`. `opener`: the mark that began the call; it may be the tag in front of
/// the name.
std::unique_ptr<call_reader> read_tagged(const tags& form, const offered_tools& tools,
                                         std::string_view opener) {
    const bool after_name_open = !form.name_open.empty() && opener == form.name_open;
    return std::make_unique<tagged_reader>(form, tools, after_name_open);
}

}  // namespace

std::unique_ptr<call_reader> read_qwen_xml_call(const offered_tools& tools,
                                                std::string_view opener) {
    return read_tagged(qwen_tags, tools, opener);
}

std::unique_ptr<call_reader> read_glm_call(const offered_tools& tools, std::string_view opener) {
    return read_tagged(glm_tags, tools, opener);
}

std::unique_ptr<call_reader> read_seed_call(const offered_tools& tools, std::string_view opener) {
    return read_tagged(seed_tags, tools, opener);
}

std::unique_ptr<call_reader> read_minimax_call(const offered_tools& tools,
                                               std::string_view opener) {
    return read_tagged(minimax_tags, tools, opener);
}

std::unique_ptr<call_reader> read_dsml_call(const offered_tools& tools, std::string_view opener) {
    return read_tagged(dsml_tags, tools, opener);
}

std::unique_ptr<call_reader> read_minicpm_call(const offered_tools& tools,
                                               std::string_view opener) {
    return read_tagged(minicpm_tags, tools, opener);
}

}  // namespace semantic::engine
