// SPDX-License-Identifier: Apache-2.0
// A call is the whole answer: {"name": ..., "parameters": {...}}, with or without <|python_tag|> in
// front. What follows the object is text: the family has one call a turn.

#include <algorithm>

#include "engine/text/output/answer_pieces.hpp"
#include "engine/text/output/calls/call_reader.hpp"
#include "engine/text/output/marked_parser.hpp"

namespace semantic::engine {

namespace {

constexpr std::string_view tag = "<|python_tag|>";
constexpr std::string_view space_before_call = " \t\r\n";

/// Parses such answers. The answer so far waits in held_ until it is known whether it is a call.
class llama3_parser final : public output_parser {
  public:
    llama3_parser(const offered_tools& tools, bool shows_progress)
        : progress_(tools, shows_progress) {}

    std::vector<answer_piece> push(std::string_view text) override {
        std::vector<answer_piece> out;
        held_ += text;
        if (stage_ == stage::start) at_start();
        if (stage_ == stage::object) object(out);
        if (stage_ == stage::text) {
            append_piece<answer_text>(out, held_);
            held_.clear();
        }
        return out;
    }

  private:
    enum class stage { start, object, text };

    std::vector<answer_piece> end(bool was_cut) override {
        std::vector<answer_piece> out;
        if (stage_ == stage::object) progress_.drop(out);
        // A call that a limit cut off is dropped.
        if (!was_cut || !is_in_call()) append_piece<answer_text>(out, held_);
        held_.clear();
        return out;
    }

    /// Whether a limit cut the answer off inside of a call. An object without the tag may also be
    /// JSON that the user asked for, unless its first key is "name".
    bool is_in_call() const {
        if (stage_ != stage::object) return false;
        const std::string_view said = std::string_view(held_).substr(held_.find('{') + 1);
        const std::size_t first = said.find_first_not_of(space_before_call);
        return has_tag_ ||
               (first != std::string::npos && said.substr(first).starts_with("\"name\""));
    }

    /// Skips white space and the tag, and decides whether an object or text follows; stays at the
    /// start when more text is needed.
    void at_start() {
        blank_ = std::min(held_.find_first_not_of(space_before_call, blank_), held_.size());
        if (blank_ == held_.size()) return;
        const std::size_t first = blank_;
        const std::string_view said = std::string_view(held_).substr(first);
        if (!has_tag_ && said.starts_with(tag)) {
            has_tag_ = true;
            held_.erase(0, first + tag.size());
            blank_ = 0;
            // Once more for what follows the tag, which counts only once.
            at_start();
        } else if (said.front() == '{') {
            read_ = first;
            stage_ = stage::object;
        } else if (has_tag_ || !tag.starts_with(said)) {
            stage_ = stage::text;
        }
    }

    /// Reads the object on. One that is no call is kept in held_ as text.
    void object(std::vector<answer_piece>& out) {
        read_ += reader_->read(std::string_view(held_).substr(read_));
        if (reader_->at() != call_reader::state::malformed) progress_.show(*reader_, out);
        if (reader_->at() == call_reader::state::open) return;
        stage_ = stage::text;
        if (progress_.finish(*reader_, out)) {
            held_.erase(0, read_);
        } else {
            progress_.drop(out);
        }
    }

    call_progress progress_;
    std::unique_ptr<call_reader> reader_ = make_json_call_reader(call_object::llama3);
    std::string held_;  // text that is not decided yet
    stage stage_ = stage::start;
    bool has_tag_ = false;   // the tag came, and is no longer in held_
    std::size_t blank_ = 0;  // white space at the start of held_
    std::size_t read_ = 0;   // of held_, by the reader
};

}  // namespace

std::unique_ptr<output_parser> make_llama3_parser(const offered_tools& tools, bool shows_progress) {
    return std::make_unique<llama3_parser>(tools, shows_progress);
}

}  // namespace semantic::engine
