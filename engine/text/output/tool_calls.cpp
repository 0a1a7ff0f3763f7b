#include "engine/text/output/tool_calls.hpp"

#include <algorithm>
#include <utility>

#include "engine/text/output/call_json.hpp"

namespace semantic::engine {

namespace {

constexpr std::string_view open_tag = "<tool_call>";
constexpr std::string_view close_tag = "</tool_call>";

void append_text(std::vector<tool_call_parser::piece>& out, std::string_view text) {
    if (text.empty()) return;
    if (!out.empty()) {
        if (auto* last = std::get_if<std::string>(&out.back())) {
            last->append(text);
            return;
        }
    }
    out.emplace_back(std::string(text));
}

/// How much of the end of `text` may be the start of a line break and an opening tag.
std::size_t undecided_tail(std::string_view text) {
    for (std::size_t length = std::min(text.size(), open_tag.size()); length > 0; --length) {
        const std::string_view tail = text.substr(text.size() - length);
        if (tail.front() == '\n' ? open_tag.starts_with(tail.substr(1))
                                 : open_tag.starts_with(tail)) {
            return length;
        }
    }
    return 0;
}

}  // namespace

void tool_call_parser::give_back(std::size_t count, std::vector<piece>& out) {
    append_text(out, std::string_view(held_).substr(0, count));
    held_.erase(0, count);
}

void tool_call_parser::outside(std::vector<piece>& out) {
    const std::size_t found = held_.find(open_tag);
    if (found == std::string::npos) {
        give_back(held_.size() - undecided_tail(held_), out);
        return;
    }
    const bool line_break = found > 0 && held_[found - 1] == '\n';
    give_back(found - (line_break ? 1 : 0), out);
    inside_ = true;
    tag_at_ = line_break ? 1 : 0;
    searched_ = tag_at_ + open_tag.size();
}

/// Returns: false when more text is needed.
bool tool_call_parser::inside(std::vector<piece>& out) {
    const std::size_t begin = tag_at_ + open_tag.size();
    const std::size_t close = held_.find(close_tag, searched_);
    if (close == std::string::npos) {
        const std::size_t overlap = close_tag.size() - 1;
        searched_ = std::max(searched_, held_.size() > overlap ? held_.size() - overlap : 0);
        return false;
    }
    const std::size_t end = close + close_tag.size();
    searched_ = end;
    call made;
    switch (read_hermes_call(std::string_view(held_).substr(begin, close - begin), made)) {
        case call_reading::unfinished:
            return true;  // the tag may be inside a string: try the next one
        case call_reading::whole:
            held_.erase(0, end);
            out.emplace_back(std::move(made));
            break;
        case call_reading::malformed:
            give_back(begin, out);  // what follows may hold calls of its own
            break;
    }
    inside_ = false;
    return true;
}

std::vector<tool_call_parser::piece> tool_call_parser::push(std::string_view text) {
    std::vector<piece> out;
    held_.append(text);
    for (;;) {
        if (!inside_) outside(out);
        if (!inside_ || !inside(out)) return out;
    }
}

std::vector<tool_call_parser::piece> tool_call_parser::end(bool was_cut) {
    std::vector<piece> out = push({});
    while (inside_) {
        call made;
        const std::size_t begin = tag_at_ + open_tag.size();
        inside_ = false;
        const call_reading reading = read_hermes_call(std::string_view(held_).substr(begin), made);
        if (reading == call_reading::whole) out.emplace_back(std::move(made));
        if (reading == call_reading::whole || (was_cut && reading == call_reading::unfinished)) {
            held_.clear();
            break;
        }
        give_back(begin, out);
        for (piece& p : push({})) {
            if (auto* text = std::get_if<std::string>(&p)) {
                append_text(out, *text);
            } else {
                out.push_back(std::move(p));
            }
        }
    }
    append_text(out, held_);
    held_.clear();
    return out;
}

}  // namespace semantic::engine
