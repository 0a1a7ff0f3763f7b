// SPDX-License-Identifier: Apache-2.0
// Answers that are text and nothing else.

#include "engine/text/output/answer_pieces.hpp"
#include "engine/text/output/output_parser.hpp"

namespace semantic::engine {

namespace {

class plain_parser final : public output_parser {
  public:
    explicit plain_parser(bool drops_blank) : drops_blank_(drops_blank) {}

    std::vector<answer_piece> push(std::string_view text) override {
        std::vector<answer_piece> out;
        if (text.empty()) return out;
        if (drops_blank_ && text.front() == ' ') text.remove_prefix(1);
        drops_blank_ = false;
        append_piece<answer_text>(out, text);
        return out;
    }

  private:
    std::vector<answer_piece> end(bool) override { return {}; }

    bool drops_blank_;  // nothing has come, and a blank at the head is not the answer's
};

}  // namespace

std::unique_ptr<output_parser> make_plain_parser(bool drops_blank) {
    return std::make_unique<plain_parser>(drops_blank);
}

}  // namespace semantic::engine
