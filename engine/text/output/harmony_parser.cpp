// SPDX-License-Identifier: Apache-2.0
// Harmony: messages of a header, <|message|>, a body and an end. The prompt ends inside the first
// header, after <|start|>assistant. The channel and the recipient in the header say what the body
// is: analysis is reasoning, a recipient makes it a call, anything else is for the user.

#include <algorithm>
#include <array>

#include "engine/text/output/answer_pieces.hpp"
#include "engine/text/output/calls/call_reader.hpp"
#include "engine/text/output/marked_parser.hpp"

namespace semantic::engine {

namespace {

constexpr std::string_view start_mark = "<|start|>";
constexpr std::string_view message_mark = "<|message|>";
constexpr std::string_view channel_mark = "<|channel|>";
constexpr std::array<std::string_view, 4> end_marks{"<|end|>", "<|return|>", "<|call|>",
                                                    start_mark};
/// How the rest of the first header can begin. A model that has not learnt the format writes
/// something else, which is then text.
constexpr std::array<std::string_view, 3> header_beginnings{channel_mark, message_mark, "to="};
constexpr std::string_view white_space = " \t\r\n";
/// A longer header counts as text for the user.
constexpr std::size_t header_bytes_max = 4096;

std::string_view without_space_before(std::string_view text) {
    const std::size_t first = text.find_first_not_of(white_space);
    return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

/// The word that follows `mark` in a header, up to white space or another mark; empty when there is
/// no such mark.
std::string_view word_after(std::string_view header, std::string_view mark) {
    const std::size_t found = header.find(mark);
    if (found == std::string_view::npos) return {};
    const std::string_view rest = header.substr(found + mark.size());
    return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

/// Parses answers in the Harmony format. Text that cannot be decided yet waits in held_.
class harmony_parser final : public output_parser {
  public:
    harmony_parser(const offered_tools& tools, bool shows_progress)
        : tools_(tools), shows_progress_(shows_progress), progress_(tools, false) {}

    std::vector<answer_piece> push(std::string_view text) override {
        std::vector<answer_piece> out;
        held_ += text;
        while (step(out)) {
        }
        return out;
    }

    bool is_thinking() const override { return stage_ == stage::body && kind_ == kind::thinking; }

  private:
    /// Where the parser is: in a message's header, in its body, or between two messages.
    enum class stage { header, body, between };
    enum class kind { text, thinking, call };

    std::vector<answer_piece> end(bool was_cut) override {
        std::vector<answer_piece> out;
        if (stage_ == stage::body) {
            end_body(held_, out, was_cut);
        } else if (stage_ == stage::between) {
            append_piece<answer_text>(out, without_space_before(held_));
        }
        // A header without its message has nothing for the user, and is dropped.
        held_.clear();
        return out;
    }

    /// Returns: false when more text is needed.
    bool step(std::vector<answer_piece>& out) {
        switch (stage_) {
            case stage::header:
                return header();
            case stage::body:
                return body(out);
            case stage::between:
                return between(out);
        }
        return false;
    }

    /// Whether `text` can be the begin of a header. Only the answer's first message may lack one:
    /// later headers follow <|start|>.
    bool is_header(std::string_view text) const {
        const std::string_view said = without_space_before(text);
        if (said.empty() || !is_first_) return true;
        return std::any_of(header_beginnings.begin(), header_beginnings.end(), [&](auto beginning) {
            return said.starts_with(beginning) || beginning.starts_with(said);
        });
    }

    /// Reads a header up to its <|message|>.
    bool header() {
        const std::size_t found = held_.find(message_mark);
        if (std::min(found, held_.size()) > header_bytes_max || !is_header(held_)) {
            kind_ = kind::text;
        } else if (found == std::string::npos) {
            return false;
        } else {
            read_header(std::string_view(held_).substr(0, found));
            held_.erase(0, found + message_mark.size());
        }
        stage_ = stage::body;
        is_first_ = false;
        return true;
    }

    /// Sets what kind of message follows. A recipient is a tool only if the request has tools.
    void read_header(std::string_view header) {
        constexpr std::string_view space = "functions.";  // the namespace of all tools
        std::string recipient(word_after(header, "to="));
        if (recipient.starts_with(space)) recipient.erase(0, space.size());
        const std::string_view channel = word_after(header, channel_mark);
        if (!tools_.none() && !recipient.empty()) {
            kind_ = kind::call;
            reader_ = make_arguments_reader(std::move(recipient));
            read_ = 0;
            progress_ = call_progress(tools_, shows_progress_);
        } else {
            kind_ = channel == "analysis" ? kind::thinking : kind::text;
        }
    }

    /// Reads a message's body up to the first mark that ends it. Without one, all is reported but
    /// the last bytes that may be the begin of a mark.
    bool body(std::vector<answer_piece>& out) {
        std::size_t end = std::string::npos;
        std::string_view by;
        std::size_t begun = 0;
        for (const std::string_view mark : end_marks) {
            const std::size_t found = held_.find(mark, searched_);
            if (found < end) {
                end = found;
                by = mark;
            }
            begun = std::max(begun, begun_mark(held_, mark));
        }
        if (end == std::string::npos) {
            const std::size_t sure = held_.size() - begun;
            if (kind_ == kind::call) {
                searched_ = sure;
                read_call(sure, out);
            } else {
                append_said(std::string_view(held_).substr(0, sure), out);
                held_.erase(0, sure);
            }
            return false;
        }
        end_body(std::string_view(held_).substr(0, end), out, false);
        held_.erase(0, by == start_mark ? end : end + by.size());
        searched_ = 0;
        stage_ = stage::between;
        return true;
    }

    /// Reads up to the next message's <|start|>. Text in front of it is for the user.
    bool between(std::vector<answer_piece>& out) {
        const std::size_t found = held_.find(start_mark, searched_);
        if (found == std::string::npos) {
            searched_ = held_.size() - begun_mark(held_, start_mark);
            return false;
        }
        searched_ = 0;
        const std::string_view stray = std::string_view(held_).substr(0, found);
        append_piece<answer_text>(out, without_space_before(stray));
        held_.erase(0, found + start_mark.size());
        stage_ = stage::header;
        return true;
    }

    void append_said(std::string_view text, std::vector<answer_piece>& out) const {
        if (kind_ == kind::thinking) {
            append_piece<answer_thinking>(out, text);
        } else {
            append_piece<answer_text>(out, text);
        }
    }

    /// Reports the end of a body. `text`: what of it has not been reported; of a call, all of it. A
    /// body that turns out to be no call is text, except for a call that a limit cut off.
    void end_body(std::string_view text, std::vector<answer_piece>& out, bool was_cut) {
        if (kind_ != kind::call) return append_said(text, out);
        read_call(text.size(), out);
        reader_->end(was_cut);
        // Only white space may follow the object of arguments.
        const bool is_call = is_white(text.substr(read_)) && progress_.finish(*reader_, out);
        if (is_call) return;
        progress_.drop(out);
        if (!was_cut || reader_->at() != call_reader::state::open) append_said(text, out);
    }

    /// Hands the reader the body of a call up to byte `end` of held_, and reports the progress.
    void read_call(std::size_t end, std::vector<answer_piece>& out) {
        if (reader_->at() == call_reader::state::open && end > read_)
            read_ += reader_->read(std::string_view(held_).substr(read_, end - read_));
        if (reader_->at() != call_reader::state::malformed) progress_.show(*reader_, out);
    }
    static bool is_white(std::string_view text) {
        return text.find_first_not_of(white_space) == std::string_view::npos;
    }

    const offered_tools tools_;
    const bool shows_progress_;
    call_progress progress_;               // of the call that is read
    std::unique_ptr<call_reader> reader_;  // of the body of a call
    std::size_t read_ = 0;                 // of held_, by the reader
    std::string held_;                     // text that is not decided yet
    stage stage_ = stage::header;
    kind kind_ = kind::text;    // of the message that is read
    std::size_t searched_ = 0;  // body of a call, or between messages: no mark before this
    bool is_first_ = true;      // no header has ended yet
};

}  // namespace

std::unique_ptr<output_parser> make_harmony_parser(const offered_tools& tools,
                                                   bool shows_progress) {
    return std::make_unique<harmony_parser>(tools, shows_progress);
}

}  // namespace semantic::engine
