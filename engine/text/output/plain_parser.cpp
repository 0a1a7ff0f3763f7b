// Answers that are text and nothing else, and text with calls in the Hermes form.

#include "engine/text/output/answer_pieces.hpp"
#include "engine/text/output/output_parser.hpp"
#include "engine/text/output/tool_calls.hpp"

namespace semantic::engine {

namespace {

class plain_parser final : public output_parser {
  public:
    std::vector<answer_piece> push(std::string_view text) override {
        std::vector<answer_piece> out;
        append_piece<answer_text>(out, text);
        return out;
    }

  private:
    std::vector<answer_piece> end(bool) override { return {}; }
};

/// The prompt ends with "Assistant:", and the blank that the template writes behind it in the next
/// prompt is the first thing the model says.
class deepseek2_parser final : public output_parser {
  public:
    std::vector<answer_piece> push(std::string_view text) override {
        std::vector<answer_piece> out;
        if (text.empty()) return out;
        if (at_start_ && text.front() == ' ') text.remove_prefix(1);
        at_start_ = false;
        append_piece<answer_text>(out, text);
        return out;
    }

  private:
    std::vector<answer_piece> end(bool) override { return {}; }

    bool at_start_ = true;
};

class hermes_parser final : public output_parser {
  public:
    std::vector<answer_piece> push(std::string_view text) override { return of(calls_.push(text)); }

  private:
    std::vector<answer_piece> end(bool was_cut) override {
        return of(was_cut ? calls_.cut_off() : calls_.finish());
    }
    static std::vector<answer_piece> of(std::vector<tool_call_parser::piece> pieces) {
        std::vector<answer_piece> out;
        for (auto& piece : pieces) {
            if (const auto* text = std::get_if<std::string>(&piece)) {
                append_piece<answer_text>(out, *text);
            } else {
                out.emplace_back(std::get<answer_call>(std::move(piece)));
            }
        }
        return out;
    }
    tool_call_parser calls_;
};

}  // namespace

std::unique_ptr<output_parser> make_plain_parser(bool) { return std::make_unique<plain_parser>(); }

std::unique_ptr<output_parser> make_deepseek2_parser(bool) {
    return std::make_unique<deepseek2_parser>();
}

std::unique_ptr<output_parser> make_hermes_parser(bool has_tools) {
    if (!has_tools) return make_plain_parser(false);
    return std::make_unique<hermes_parser>();
}

}  // namespace semantic::engine
