// A call is the whole answer: {"name": ..., "parameters": {...}}, with or without <|python_tag|> in
// front. What follows the object is text: the family has one call a turn.

#include "engine/text/output/answer_pieces.hpp"
#include "engine/text/output/call_json.hpp"

namespace semantic::engine {

namespace {

constexpr std::string_view tag = "<|python_tag|>";
constexpr std::string_view white_space = " \t\r\n";

class llama3_parser final : public output_parser {
  public:
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
        if (!was_cut || !is_in_call()) append_piece<answer_text>(out, held_);
        held_.clear();
        return out;
    }

    /// An object without a tag may also be what the user asked for.
    bool is_in_call() const {
        if (stage_ != stage::object) return false;
        const std::string_view said = std::string_view(held_).substr(held_.find('{') + 1);
        const std::size_t first = said.find_first_not_of(white_space);
        return has_tag_ ||
               (first != std::string::npos && said.substr(first).starts_with("\"name\""));
    }

    void at_start() {
        std::size_t first = held_.find_first_not_of(white_space);
        if (first == std::string::npos) return;
        const std::string_view said = std::string_view(held_).substr(first);
        if (!has_tag_ && said.starts_with(tag)) {
            has_tag_ = true;
            held_.erase(0, first + tag.size());
            at_start();
        } else if (said.front() == '{') {
            scanned_ = first;
            stage_ = stage::object;
        } else if (has_tag_ || !tag.starts_with(said)) {
            stage_ = stage::text;
        }
    }

    /// Looks for the brace that closes the object; a call ends there.
    void object(std::vector<answer_piece>& out) {
        for (; scanned_ < held_.size() && stage_ == stage::object; ++scanned_) {
            const char c = held_[scanned_];
            if (in_string_) {
                if (escaped_) {
                    escaped_ = false;
                } else if (c == '\\') {
                    escaped_ = true;
                } else if (c == '"') {
                    in_string_ = false;
                }
            } else if (c == '"') {
                in_string_ = true;
            } else if (c == '{') {
                ++depth_;
            } else if (c == '}' && --depth_ == 0) {
                close(scanned_ + 1, out);
                return;
            }
        }
    }

    void close(std::size_t end, std::vector<answer_piece>& out) {
        stage_ = stage::text;
        answer_call call;
        if (read_llama3_call(std::string_view(held_).substr(0, end), call) != call_reading::whole) {
            return;
        }
        out.emplace_back(std::move(call));
        held_.erase(0, end);
    }

    std::string held_;
    stage stage_ = stage::start;
    bool has_tag_ = false;
    std::size_t scanned_ = 0;
    std::size_t depth_ = 0;
    bool in_string_ = false;
    bool escaped_ = false;
};

}  // namespace

std::unique_ptr<output_parser> make_llama3_parser(bool has_tools) {
    if (!has_tools) return make_plain_parser(false);
    return std::make_unique<llama3_parser>();
}

}  // namespace semantic::engine
