// <think>\nreasoning\n</think>\n\n, then text and calls in the Hermes form. Only the start of an
// answer can be reasoning: further behind, the tag is something the model talks about.

#include "engine/text/output/answer_pieces.hpp"

namespace semantic::engine {

namespace {

constexpr std::string_view open_tag = "<think>";
constexpr std::string_view close_tag = "</think>";

class qwen3_parser final : public output_parser {
  public:
    /// `is_open`: the prompt ends behind the opening tag.
    qwen3_parser(bool has_tools, bool is_open)
        : rest_(make_hermes_parser(has_tools)), stage_(is_open ? stage::thinking : stage::start) {}

    std::vector<answer_piece> push(std::string_view text) override {
        std::vector<answer_piece> out;
        if (stage_ == stage::rest) {
            append_pieces(out, rest_->push(text));
            return out;
        }
        held_ += text;
        if (stage_ == stage::start) at_start();
        if (stage_ == stage::thinking) thinking(out);
        if (stage_ == stage::behind) behind();
        if (stage_ == stage::rest) hand_on(out);
        return out;
    }

    bool is_thinking() const override { return stage_ == stage::thinking; }

  private:
    enum class stage { start, thinking, behind, rest };

    std::vector<answer_piece> end(bool was_cut) override {
        std::vector<answer_piece> out;
        if (stage_ == stage::thinking) append_piece<answer_thinking>(out, held_);
        if (stage_ == stage::start) hand_on(out);
        append_pieces(out, was_cut ? rest_->cut_off() : rest_->finish());
        return out;
    }

    void at_start() {
        const std::size_t first = held_.find_first_not_of(" \n");
        if (first == std::string::npos) return;
        const std::string_view said = std::string_view(held_).substr(first);
        if (said.starts_with(open_tag)) {
            held_.erase(0, first + open_tag.size());
            stage_ = stage::thinking;
        } else if (!open_tag.starts_with(said)) {
            stage_ = stage::rest;
        }
    }

    /// The line breaks at both ends are the template's.
    void thinking(std::vector<answer_piece>& out) {
        if (!begun_) {
            held_.erase(0, held_.find_first_not_of('\n'));
            begun_ = !held_.empty();
        }
        const std::size_t close = held_.find(close_tag);
        const std::size_t end =
            close == std::string::npos ? held_.size() - begun_mark(held_, close_tag) : close;
        const std::string_view said = std::string_view(held_).substr(0, end);
        const std::size_t sure = said.find_last_not_of('\n') + 1;
        append_piece<answer_thinking>(out, said.substr(0, sure));
        if (close == std::string::npos) {
            held_.erase(0, sure);
        } else {
            held_.erase(0, close + close_tag.size());
            stage_ = stage::behind;
        }
    }

    void behind() {
        const std::size_t first = held_.find_first_not_of('\n');
        held_.erase(0, first);
        if (first != std::string::npos) stage_ = stage::rest;
    }

    void hand_on(std::vector<answer_piece>& out) {
        append_pieces(out, rest_->push(held_));
        held_.clear();
    }

    std::unique_ptr<output_parser> rest_;
    std::string held_;
    stage stage_;
    bool begun_ = false;  // reasoning has had more than line breaks
};

}  // namespace

std::unique_ptr<output_parser> make_qwen3_parser(bool has_tools) {
    return std::make_unique<qwen3_parser>(has_tools, false);
}

std::unique_ptr<output_parser> make_qwen3_thinking_parser(bool has_tools) {
    return std::make_unique<qwen3_parser>(has_tools, true);
}

}  // namespace semantic::engine
