// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/marked_parser.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "engine/text/output/answer_pieces.hpp"
#include "engine/text/output/calls/json_stream.hpp"

namespace semantic::engine {

void call_progress::show(const call_reader& reader, std::vector<answer_piece>& out) {
    if (!is_shown_ || reader.arguments().empty()) return;
    if (!has_begun_) {
        if (!tools_.has(reader.name())) return;
        out.emplace_back(answer_call_begun{reader.name()});
        has_begun_ = true;
    }
    append_piece<answer_call_arguments>(out, reader.arguments().substr(shown_));
    shown_ = reader.arguments().size();
}

bool call_progress::finish(const call_reader& reader, std::vector<answer_piece>& out) {
    if (reader.at() != call_reader::state::whole || !is_json_object(reader.arguments()))
        return false;
    show(reader, out);
    out.emplace_back(answer_call{reader.name(), respaced(reader.arguments())});
    return true;
}

void call_progress::drop(std::vector<answer_piece>& out) {
    if (has_begun_) out.emplace_back(answer_call_dropped{});
    has_begun_ = false;
    shown_ = 0;
}

namespace {

using reader_state = call_reader::state;

constexpr std::string_view fence = "```";
// What began like a call but was none is searched for calls again, which takes time. After as many
// failed calls, or bytes that were read again, the rest of an answer is taken for text.
constexpr int failed_max = 200;
constexpr std::size_t reread_bytes_max = std::size_t{2} << 20;
// How much white space is held back until it is known what follows it; more is text.
constexpr std::size_t blank_bytes_max = 1024;

/// Parses answers of text with calls between marks. Text that cannot be decided yet waits in held_.
/// In addition to marked calls it finds bare ones: JSON objects without marks that are the whole
/// answer, or the whole of a code fence.
class marked_parser final : public output_parser {
  public:
    marked_parser(const call_openers& openers, const offered_tools& tools, bool shows_progress)
        : openers_(openers),
          tools_(tools),
          progress_(tools, shows_progress),
          shows_progress_(shows_progress),
          takes_bare_(openers.takes_bare_calls && tools.known()) {}

    std::vector<answer_piece> push(std::string_view text) override {
        std::vector<answer_piece> out;
        held_ += text;
        while (step(out)) {
        }
        return out;
    }

  private:
    /// Where the parser is: in text, in a marked call, after one, in a bare call, or after one.
    enum class stage { text, call, after_call, bare, after_bare };

    // Each round ends the call that is open. Where it was none, the text after it may begin
    // another.
    std::vector<answer_piece> end(bool was_cut) override {
        std::vector<answer_piece> out;
        is_ending_ = true;
        while (stage_ != stage::text) {
            if (stage_ == stage::call) end_call(was_cut, out);
            if (stage_ == stage::bare || stage_ == stage::after_bare) end_bare(was_cut, out);
            if (stage_ == stage::after_call) end_after_call(was_cut);
            while (step(out)) {
            }
        }
        append_piece<answer_text>(out, held_);
        held_.clear();
        return out;
    }

    /// Returns: false when more text is needed.
    bool step(std::vector<answer_piece>& out) {
        switch (stage_) {
            case stage::text:
                return in_text(out);
            case stage::call:
                return in_call(out);
            case stage::after_call:
                return after_call(out);
            case stage::bare:
                return in_bare(out);
            case stage::after_bare:
                return after_bare(out);
        }
        return false;
    }

    // ---- text

    /// A mark that begins a call: its position in held_ and the byte after it.
    struct opening {
        std::size_t at = std::string_view::npos;  // with the line break that belongs to it
        std::size_t end = 0;
        std::string_view mark;
    };

    /// Reports text up to the next call, and begins that.
    bool in_text(std::vector<answer_piece>& out) {
        if (failed_ >= failed_max || reread_ > reread_bytes_max) {
            say(held_.size(), out);
            return false;
        }
        const opening marked = first_mark();
        if (takes_bare_ && may_be_bare(std::min(marked.at, held_.size()), out)) return false;
        // may_be_bare() has begun one.
        if (stage_ == stage::bare) return true;
        if (marked.at == std::string_view::npos) {
            say(held_.size() - (is_ending_ ? 0 : undecided_tail()), out);
            return false;
        }
        say(marked.at, out);
        begin(openers_.make(tools_, marked.mark), marked.end - marked.at);
        return true;
    }

    /// Reports the first `count` bytes of held_ as text.
    void say(std::size_t count, std::vector<answer_piece>& out) {
        if (count == 0) return;
        const std::string_view said = std::string_view(held_).substr(0, count);
        append_piece<answer_text>(out, said);
        at_line_start_ = said.back() == '\n';
        is_first_ = is_first_ && is_blank(said);
        held_.erase(0, count);
    }

    /// The first mark in held_; of several at the same position the longest. `at` is npos when
    /// there is none.
    opening first_mark() const {
        opening found;
        for (const std::string_view mark : openers_.marks) {
            const std::size_t at = held_.find(mark);
            const bool is_longer = at == found.at && mark.size() > found.mark.size();
            if (at == std::string::npos || (at > found.at && !is_longer)) continue;
            if (at < found.at || is_longer) found = {at, at + mark.size(), mark};
        }
        if (found.at != std::string_view::npos) found.at -= line_breaks_before(found.at);
        return found;
    }

    /// How many line breaks before byte `end` belong to a mark there.
    std::size_t line_breaks_before(std::size_t end) const {
        std::size_t count = 0;
        while (count < std::min(end, openers_.line_breaks) && held_[end - count - 1] == '\n')
            ++count;
        return count;
    }

    /// How many bytes at the end of held_ may be the begin of a mark, with the line breaks that
    /// belong to it.
    std::size_t undecided_tail() const {
        std::size_t length = 0;
        for (const std::string_view mark : openers_.marks)
            length = std::max(length, begun_mark(held_, mark));
        return length + line_breaks_before(held_.size() - length);
    }

    // ---- calls between marks

    /// Begins a call. `opener_bytes`: the bytes of held_ that the call's mark takes.
    void begin(std::unique_ptr<call_reader> reader, std::size_t opener_bytes) {
        reader_ = std::move(reader);
        opener_bytes_ = opener_bytes;
        read_ = opener_bytes;
        progress_ = call_progress(tools_, shows_progress_);
        stage_ = stage::call;
    }

    /// Reads the call on, and reports its progress. Returns: false when more text is needed.
    bool in_call(std::vector<answer_piece>& out) {
        read_ += reader_->read(std::string_view(held_).substr(read_));
        if (reader_->at() == reader_state::malformed) return give_up(out), true;
        progress_.show(*reader_, out);
        if (reader_->at() == reader_state::open) return false;
        close_call(out);
        return true;
    }

    /// Reports a complete call.
    void close_call(std::vector<answer_piece>& out) {
        if (!progress_.finish(*reader_, out)) return give_up(out);
        held_.erase(0, read_);
        is_first_ = false;
        at_line_start_ = false;
        closed_ = 0;
        stage_ = stage::after_call;
    }

    /// What was read is no call: its mark becomes text, and all after it is searched for calls
    /// again.
    void give_up(std::vector<answer_piece>& out) {
        progress_.drop(out);
        note_failure();
        stage_ = stage::text;
        // The next call of a section has no mark: then one byte becomes text, so that reading goes
        // on.
        say(std::min(std::max<std::size_t>(opener_bytes_, 1), held_.size()), out);
    }

    /// Counts a call that was none, for the limits on these.
    void note_failure() {
        ++failed_;
        reread_ += held_.size();
    }

    /// After a call: takes the marks that close it, or begins the next call of the same section.
    bool after_call(std::vector<answer_piece>&) {
        const std::size_t first = held_.find_first_not_of(" \t\r\n");
        if (std::min(first, held_.size()) > blank_bytes_max) {
            stage_ = stage::text;
            return true;
        }
        if (first == std::string::npos) return false;
        const std::string_view rest = std::string_view(held_).substr(first);
        const auto closers = reader_->closers().subspan(closed_);
        for (std::size_t i = 0; i < closers.size(); ++i) {
            if (!rest.starts_with(closers[i])) continue;
            held_.erase(0, first + closers[i].size());
            closed_ += i + 1;
            return true;
        }
        if (auto next = closed_ > 0 ? nullptr : reader_->next(rest.front())) {
            begin(std::move(next), first);
            return true;
        }
        const auto may_come = [&](std::string_view mark) { return mark.starts_with(rest); };
        if (std::any_of(closers.begin(), closers.end(), may_come)) return false;
        stage_ = stage::text;
        return true;
    }

    /// The answer has ended within a call. It may be complete even so; otherwise it is dropped if a
    /// limit cut it off, and else is text.
    void end_call(bool was_cut, std::vector<answer_piece>& out) {
        reader_->end(was_cut);
        if (reader_->at() == reader_state::whole) {
            read_ = held_.size();
            return close_call(out);
        }
        if (reader_->at() == reader_state::malformed || !was_cut) return give_up(out);
        // A call that a limit cut off is dropped with its text.
        progress_.drop(out);
        held_.clear();
        stage_ = stage::text;
    }

    /// The answer has ended after a call. White space that was held for a closing mark is dropped.
    void end_after_call(bool was_cut) {
        stage_ = stage::text;
        if (closed_ == 0 && (was_cut || is_blank(held_))) held_.clear();
    }

    // ---- calls without marks

    static bool is_blank(std::string_view text) {
        return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
    }

    /// Looks for an object that begins the answer, or for a fence with one, and begins a bare call
    /// there. `end`: how far to look, up to the first mark. Returns: true when more text is needed
    /// to decide.
    bool may_be_bare(std::size_t end, std::vector<answer_piece>& out) {
        const std::string_view text = std::string_view(held_).substr(0, end);
        if (is_first_) {
            const std::size_t first = text.find_first_not_of(" \t\r\n");
            is_first_ = std::min(first, text.size()) <= blank_bytes_max;
            if (is_first_ && first == std::string_view::npos)
                return end == held_.size() && !is_ending_;
            if (is_first_ && text[first] == '{') return begin_bare(first, false), false;
        }
        for (std::size_t at = fence_at(text, 0); at != std::string_view::npos;
             at = fence_at(text, at + 1)) {
            const fence_head head = head_of_fence(text.substr(at));
            if (head == fence_head::other) continue;
            if (head == fence_head::open && (end < held_.size() || is_ending_)) return false;
            say(at, out);
            if (head == fence_head::open) return true;
            return begin_bare(held_.find('{'), true), false;
        }
        return false;
    }

    /// The position of the next ``` at the start of a line, or of its begin at the end of `text`;
    /// npos when there is none.
    std::size_t fence_at(std::string_view text, std::size_t from) const {
        for (; from < text.size(); ++from) {
            from = text.find('`', from);
            if (from == std::string_view::npos) return from;
            const bool at_start = from == 0 ? at_line_start_ : text[from - 1] == '\n';
            const std::string_view rest = text.substr(from);
            if (at_start && (rest.starts_with(fence) || fence.starts_with(rest))) return from;
        }
        return std::string_view::npos;
    }

    /// What follows a fence: an object, something else, or too little to decide.
    enum class fence_head { call, other, open };
    /// Reads what follows a fence; a word such as "json" may come before the object, which begins a
    /// line.
    static fence_head head_of_fence(std::string_view text) {
        if (fence.starts_with(text)) return fence_head::open;
        text.remove_prefix(fence.size());
        constexpr std::array<std::string_view, 4> words{"json", "tool_call", "xml", "python"};
        for (const std::string_view word : words) {
            if (word.starts_with(text)) return fence_head::open;
            if (!text.starts_with(word)) continue;
            text.remove_prefix(word.size());
            break;
        }
        const std::size_t first = text.find_first_not_of(" \t\r\n");
        if (std::min(first, text.size()) > blank_bytes_max) return fence_head::other;
        if (first == std::string_view::npos) return fence_head::open;
        const bool is_line = text.substr(0, first).find('\n') != std::string_view::npos;
        return is_line && text[first] == '{' ? fence_head::call : fence_head::other;
    }

    /// Begins a bare call at byte `at` of held_.
    void begin_bare(std::size_t at, bool is_fenced) {
        reader_ = make_json_call_reader(call_object::bare);
        bare_.clear();
        progress_ = call_progress(tools_, shows_progress_);
        is_fenced_ = is_fenced;
        read_ = at;
        stage_ = stage::bare;
    }

    /// Reads a bare call on. It stays in held_, since it may turn out to be text.
    bool in_bare(std::vector<answer_piece>& out) {
        read_ += reader_->read(std::string_view(held_).substr(read_));
        const bool is_odd = !reader_->name().empty() && !tools_.has(reader_->name());
        if (reader_->at() == reader_state::malformed || is_odd) return refuse_bare(out), true;
        if (bare_.empty()) progress_.show(*reader_, out);  // one is shown at a time
        if (reader_->at() == reader_state::open) return false;
        return keep_bare(out);
    }

    /// Keeps a complete bare call until it is known that nothing else follows it.
    bool keep_bare(std::vector<answer_piece>& out) {
        call_progress whole(tools_, false);
        std::vector<answer_piece> made;
        if (!whole.finish(*reader_, made)) return refuse_bare(out), true;
        if (bare_.empty()) progress_.show(*reader_, out);
        bare_.push_back(std::move(made.front()));
        stage_ = stage::after_bare;
        return true;
    }

    /// After a bare call: another one may follow, or the end of its fence. Anything else makes all
    /// of it text.
    bool after_bare(std::vector<answer_piece>& out) {
        const std::size_t first = held_.find_first_not_of(" \t\r\n", read_);
        read_ = std::min(first, held_.size());
        if (first == std::string::npos) return false;
        const std::string_view rest = std::string_view(held_).substr(first);
        if (rest.front() == '{') {
            reader_ = make_json_call_reader(call_object::bare);
            read_ = first;
            stage_ = stage::bare;
            return true;
        }
        if (!is_fenced_) return refuse_bare(out), true;
        if (rest.starts_with(fence)) {
            if (rest.size() > fence.size() && rest[fence.size()] != '\n') {
                refuse_bare(out);
            } else if (rest.size() > fence.size() || is_ending_) {
                accept_bare(first + fence.size(), out);
            } else {
                return false;
            }
            return true;
        }
        if (fence.starts_with(rest) && !is_ending_) return false;
        refuse_bare(out);
        return true;
    }

    /// Reports the kept calls, and drops held_ up to byte `end`.
    void accept_bare(std::size_t end, std::vector<answer_piece>& out) {
        for (answer_piece& call : bare_) out.push_back(std::move(call));
        bare_.clear();
        held_.erase(0, end);
        is_first_ = false;
        at_line_start_ = false;
        stage_ = stage::text;
    }

    /// The object was JSON for the user: it becomes text up to its first brace, and the rest is
    /// searched for calls again.
    void refuse_bare(std::vector<answer_piece>& out) {
        bare_.clear();
        progress_.drop(out);
        stage_ = stage::text;
        note_failure();
        say(held_.find('{') + 1, out);
        is_first_ = false;
    }

    /// The answer has ended in or after a bare call: reports the kept calls if nothing but their
    /// fence follows them. A call that a limit cut off is dropped.
    void end_bare(bool was_cut, std::vector<answer_piece>& out) {
        if (stage_ == stage::bare) {
            reader_->end(was_cut);
            if (reader_->at() != reader_state::whole) {
                const bool is_call = !bare_.empty() || !reader_->arguments().empty();
                if (!was_cut || !is_call) return refuse_bare(out);
                if (bare_.empty()) progress_.drop(out);
                return accept_bare(held_.size(), out);
            }
            read_ = held_.size();
            keep_bare(out);
            if (stage_ != stage::after_bare) return;
        }
        const std::string_view rest = std::string_view(held_).substr(read_);
        const std::size_t first = rest.find_first_not_of(" \t\r\n");
        // The fence may lack its closing line, or the line break after that.
        const bool is_all = first == std::string_view::npos || rest.substr(first) == fence;
        if (!is_all) return refuse_bare(out);
        accept_bare(held_.size(), out);
    }

    const call_openers& openers_;  // must outlive this
    const offered_tools tools_;
    call_progress progress_;  // of the call that is read
    const bool shows_progress_;
    const bool takes_bare_;  // bare calls count: the format has them, and the tools are known
    std::string held_;       // text that is not reported yet
    stage stage_ = stage::text;
    std::unique_ptr<call_reader> reader_;  // of the call that is read, or was read last
    std::size_t opener_bytes_ = 0;         // of held_, before the call that is read
    std::size_t read_ = 0;                 // of held_, by the reader
    std::vector<answer_piece> bare_;       // complete bare calls that are not reported yet
    bool is_fenced_ = false;               // the bare call is in a fence
    bool is_first_ = true;                 // nothing but white space has been said
    bool at_line_start_ = true;            // held_ begins a line
    std::size_t closed_ = 0;               // after a call: how many of its closers have come
    bool is_ending_ = false;               // no more text comes
    // See failed_max and reread_bytes_max.
    int failed_ = 0;
    std::size_t reread_ = 0;
};

}  // namespace

std::unique_ptr<output_parser> make_marked_parser(const call_openers& openers,
                                                  const offered_tools& tools, bool shows_progress) {
    return std::make_unique<marked_parser>(openers, tools, shows_progress);
}

}  // namespace semantic::engine
