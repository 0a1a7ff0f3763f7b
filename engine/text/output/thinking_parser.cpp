// SPDX-License-Identifier: Apache-2.0
// Reasoning between tags, then the rest of the answer. Only the start of an answer can be
// reasoning: later, the tag is something the model talks about.

#include <algorithm>
#include <utility>

#include "engine/text/output/answer_pieces.hpp"

namespace semantic::engine {

namespace {

/// Separates the reasoning and gives the rest of the answer to another parser.
class thinking_parser final : public output_parser {
  public:
    thinking_parser(std::unique_ptr<output_parser> rest, thinking_format format, bool is_open)
        : rest_(std::move(rest)),
          open_tag_(thinking_open_of(format)),
          close_tag_(thinking_close_of(format)),
          stage_(is_open ? stage::opened : stage::start) {}

    std::vector<answer_piece> push(std::string_view text) override {
        std::vector<answer_piece> out;
        if (stage_ == stage::rest) {
            append_pieces(out, rest_->push(text));
            return out;
        }
        held_ += text;
        if (stage_ == stage::start || stage_ == stage::opened) at_start();
        if (stage_ == stage::thinking) thinking(out);
        if (stage_ == stage::after_thinking) skip_line_breaks();
        if (stage_ == stage::rest) hand_on(out);
        return out;
    }

    bool is_thinking() const override {
        return stage_ == stage::thinking || stage_ == stage::opened;
    }

  private:
    // start: it is not known yet whether the answer begins with reasoning. opened: the prompt ended
    // inside of reasoning; the opening tag may still come where a turn is read from its start.
    // after_thinking: after the reasoning, in line breaks.
    enum class stage { start, opened, thinking, after_thinking, rest };

    std::vector<answer_piece> end(bool was_cut) override {
        std::vector<answer_piece> out;
        // What was held back in reasoning, such as the begin of a closing tag, belongs to it.
        if (is_thinking()) append_piece<answer_thinking>(out, held_);
        if (stage_ == stage::start) hand_on(out);
        append_pieces(out, was_cut ? rest_->cut_off() : rest_->finish());
        return out;
    }

    /// Skips white space and the opening tag, and decides whether reasoning follows; stays at the
    /// start when more text is needed.
    void at_start() {
        blank_ = std::min(held_.find_first_not_of(" \n", blank_), held_.size());
        if (blank_ == held_.size()) return;
        const std::size_t first = std::exchange(blank_, 0);
        const std::string_view said = std::string_view(held_).substr(first);
        if (said.starts_with(open_tag_)) {
            held_.erase(0, first + open_tag_.size());
            stage_ = stage::thinking;
        } else if (!open_tag_.starts_with(said)) {
            stage_ = stage_ == stage::opened ? stage::thinking : stage::rest;
        }
    }

    /// Reports reasoning up to its closing tag. Line breaks at its two ends are not part of it, so
    /// those at the end of the text so far are held back: they are the first `blank_` bytes of
    /// held_, which need not be searched again.
    void thinking(std::vector<answer_piece>& out) {
        if (!begun_) {
            held_.erase(0, held_.find_first_not_of('\n'));
            begun_ = !held_.empty();
        }
        const std::size_t close = held_.find(close_tag_, blank_);
        const std::size_t end =
            close == std::string::npos ? held_.size() - begun_mark(held_, close_tag_) : close;
        std::size_t sure = end;
        while (sure > blank_ && held_[sure - 1] == '\n') --sure;
        // Nothing but line breaks so far: all of them are held back.
        if (sure == blank_) sure = 0;
        append_piece<answer_thinking>(out, std::string_view(held_).substr(0, sure));
        if (close == std::string::npos) {
            blank_ = end - sure;
            held_.erase(0, sure);
        } else {
            blank_ = 0;
            held_.erase(0, close + close_tag_.size());
            stage_ = stage::after_thinking;
        }
    }

    void skip_line_breaks() {
        const std::size_t first = held_.find_first_not_of('\n');
        held_.erase(0, first);
        if (first != std::string::npos) stage_ = stage::rest;
    }

    /// Gives the text that was held back to the parser of the rest.
    void hand_on(std::vector<answer_piece>& out) {
        append_pieces(out, rest_->push(held_));
        held_.clear();
    }

    std::unique_ptr<output_parser> rest_;  // parses what follows the reasoning
    const std::string_view open_tag_;
    const std::string_view close_tag_;
    std::string held_;  // text that is not decided yet
    stage stage_;
    bool begun_ = false;     // reasoning has had more than line breaks
    std::size_t blank_ = 0;  // white space that held_ begins with
};

}  // namespace

std::unique_ptr<output_parser> make_thinking_parser(std::unique_ptr<output_parser> rest,
                                                    thinking_format format, bool is_open) {
    return std::make_unique<thinking_parser>(std::move(rest), format, is_open);
}

}  // namespace semantic::engine
