// Harmony: messages of a header, <|message|>, a body and an end. The prompt ends inside the first
// header, behind <|start|>assistant. The channel and the recipient in the header say what the body
// is: analysis is reasoning, a recipient makes it a call, anything else is for the user.

#include <array>

#include "engine/text/output/answer_pieces.hpp"
#include "engine/text/output/call_json.hpp"

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

std::string_view without_space_before(std::string_view text) {
    const std::size_t first = text.find_first_not_of(white_space);
    return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

/// The word of a header behind `mark`: up to white space or a mark.
std::string_view word_behind(std::string_view header, std::string_view mark) {
    const std::size_t found = header.find(mark);
    if (found == std::string_view::npos) return {};
    const std::string_view rest = header.substr(found + mark.size());
    return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

class harmony_parser final : public output_parser {
  public:
    explicit harmony_parser(bool has_tools) : has_tools_(has_tools) {}

    std::vector<answer_piece> push(std::string_view text) override {
        std::vector<answer_piece> out;
        held_ += text;
        while (step(out)) {
        }
        return out;
    }

    bool is_thinking() const override { return stage_ == stage::body && kind_ == kind::thinking; }

  private:
    enum class stage { header, body, between };
    enum class kind { text, thinking, call };

    std::vector<answer_piece> end(bool was_cut) override {
        std::vector<answer_piece> out;
        if (stage_ == stage::body) {
            end_body(held_, out, was_cut);
        } else if (stage_ == stage::between) {
            append_piece<answer_text>(out, without_space_before(held_));
        }
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

    bool is_header(std::string_view text) const {
        const std::string_view said = without_space_before(text);
        if (said.empty() || !is_first_) return true;
        return std::any_of(header_beginnings.begin(), header_beginnings.end(), [&](auto beginning) {
            return said.starts_with(beginning) || beginning.starts_with(said);
        });
    }

    bool header() {
        const std::size_t found = held_.find(message_mark);
        if (!is_header(held_)) {
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

    void read_header(std::string_view header) {
        constexpr std::string_view space = "functions.";
        recipient_ = word_behind(header, "to=");
        if (recipient_.starts_with(space)) recipient_.erase(0, space.size());
        const std::string_view channel = word_behind(header, channel_mark);
        if (has_tools_ && !recipient_.empty()) {
            kind_ = kind::call;
        } else {
            kind_ = channel == "analysis" ? kind::thinking : kind::text;
        }
    }

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

    bool between(std::vector<answer_piece>& out) {
        const std::size_t found = held_.find(start_mark);
        if (found == std::string::npos) return false;
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

    void end_body(std::string_view text, std::vector<answer_piece>& out, bool was_cut) const {
        if (kind_ != kind::call) return append_said(text, out);
        // Without arguments a call is whole only where the model has said so.
        if (was_cut && text.find_first_not_of(white_space) == std::string_view::npos) return;
        answer_call call{recipient_, {}};
        const call_reading reading = read_arguments(text, call.arguments_json);
        if (reading == call_reading::whole) {
            out.emplace_back(std::move(call));
        } else if (!was_cut || reading == call_reading::malformed) {
            append_said(text, out);
        }
    }

    bool has_tools_;
    std::string held_;
    stage stage_ = stage::header;
    kind kind_ = kind::text;
    std::string recipient_;
    std::size_t searched_ = 0;  // body of a call: no end before this
    bool is_first_ = true;      // no header has ended yet
};

}  // namespace

std::unique_ptr<output_parser> make_harmony_parser(bool has_tools) {
    return std::make_unique<harmony_parser>(has_tools);
}

}  // namespace semantic::engine
