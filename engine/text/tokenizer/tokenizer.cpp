// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/tokenizer.hpp"

#include <algorithm>

#include "engine/text/tokenizer/tokenizer_state.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

/// One call of encode: collects ids and, when asked, the offsets of their ends.
class tokenizer::impl::encoding {
  public:
    encoding(const impl& state, std::vector<token_id>& ids, std::vector<std::uint32_t>* ends,
             std::span<const text_range> content = {})
        : state_(state), content_(content), ids_(ids), ends_(ends) {}

    void whole(std::string_view text);

  private:
    void section(std::string_view text, std::size_t base);
    void plain(std::string_view text, std::size_t at);
    void piece(std::string_view bytes, std::size_t at);
    void spell(std::string_view bytes);
    void spell_bytes(std::string_view bytes);
    void spell_characters(std::string_view bytes);
    bool spell_as_bytes(std::string_view character);
    void flush_unknown();
    std::size_t source_of(std::size_t end) const;
    bool is_forged(token_id id, std::size_t begin, std::size_t end) const;
    void emit(token_id id, std::size_t end);

    const impl& state_;
    const std::span<const text_range> content_;  // of the text: no special token counts
    std::vector<token_id>& ids_;
    std::vector<std::uint32_t>* ends_;        // null: nobody asks for them
    const normalized_text* moved_ = nullptr;  // set while a normalised section is encoded
    std::size_t base_ = 0;                    // where the section begins in the text
    std::size_t added_in_front_ = 0;          // bytes in front of the section that the text has not
    // Of the piece that is encoded: its symbols before merging, and its tokens.
    std::vector<bpe_symbol> symbols_;
    std::vector<bpe_symbol> merged_;
    std::uint32_t unknown_length_ = 0;  // bytes that wait for one unknown token
    bpe_merges::scratch work_;
};

/// The byte of the original text that corresponds to byte `end` of the section that is encoded.
std::size_t tokenizer::impl::encoding::source_of(std::size_t end) const {
    end = end > added_in_front_ ? end - added_in_front_ : 0;
    return base_ + (moved_ == nullptr ? end : moved_->source_end(end));
}

/// Whether merges, or the entry of a whole piece, have made a special token out of content: then it
/// must not be used.
bool tokenizer::impl::encoding::is_forged(token_id id, std::size_t begin, std::size_t end) const {
    if (content_.empty() || !state_.special[static_cast<std::size_t>(id)]) return false;
    return !state_.stands_for_others(id) &&
           content_view{content_}.touches({source_of(begin), source_of(end)});
}

/// Appends a token that ends at byte `end` of the section. Ends never go back, also where a
/// normalizer has moved characters.
void tokenizer::impl::encoding::emit(token_id id, std::size_t end) {
    ids_.push_back(id);
    if (ends_ == nullptr) return;
    const std::size_t source = source_of(end);
    const std::uint32_t before = ends_->empty() ? 0 : ends_->back();
    ends_->push_back(std::max(before, static_cast<std::uint32_t>(source)));
}

/// Encodes a text: added tokens that are looked for in the raw text become their ids, and the
/// sections between them are encoded.
void tokenizer::impl::encoding::whole(std::string_view text) {
    std::size_t at = 0;
    for (const auto& hit : state_.added.find_all(text, {content_})) {
        section(text.substr(at, hit.where.begin - at), at);
        base_ = 0;
        moved_ = nullptr;
        added_in_front_ = 0;
        emit(hit.id, hit.where.end);
        at = hit.where.end;
    }
    section(text.substr(at), at);
    if (ends_ != nullptr && !ends_->empty())
        ends_->back() = static_cast<std::uint32_t>(text.size());
}

/// Encodes a section without such tokens: normalises it, and finds the added tokens that are looked
/// for in normalised text. `base`: its first byte in the whole text.
void tokenizer::impl::encoding::section(std::string_view text, std::size_t base) {
    if (text.empty()) return;
    base_ = base;
    added_in_front_ = 0;
    normalized_text made;
    if (!state_.normal.empty()) {
        made = state_.normal.apply(text);
        text = made.text;
        moved_ = made.ends.empty() ? nullptr : &made;
    } else {
        moved_ = nullptr;
    }
    std::size_t at = 0;
    for (const auto& hit : state_.added_normalized.find_all(text, {content_, base, moved_})) {
        plain(text.substr(at, hit.where.begin - at), at);
        emit(hit.id, hit.where.end);
        at = hit.where.end;
    }
    plain(text.substr(at), at);
    moved_ = nullptr;
}

/// Encodes text without added tokens: splits it into pieces. `at`: its first byte in the section.
void tokenizer::impl::encoding::plain(std::string_view text, std::size_t at) {
    if (text.empty()) return;
    if (!state_.splitter.adds_prefix_space() || text.front() == ' ') {
        for (const text_range& r : state_.splitter.split(text)) {
            piece(text.substr(r.begin, r.end - r.begin), at + r.begin);
        }
        return;
    }
    const std::string spaced = ' ' + std::string(text);
    // The pieces' positions count this blank; source_of() takes it off again.
    added_in_front_ = 1;
    for (const text_range& r : state_.splitter.split(spaced)) {
        piece(std::string_view(spaced).substr(r.begin, r.end - r.begin), at + r.begin);
    }
    added_in_front_ = 0;
}

/// Encodes one piece by merging its symbols. A token that would forge a special one (is_forged())
/// is spelled by its parts.
void tokenizer::impl::encoding::piece(std::string_view bytes, std::size_t at) {
    if (state_.ignore_merges) {
        if (const auto found = state_.whole_pieces.find(bytes);
            found != state_.whole_pieces.end() &&
            !is_forged(found->second, at, at + bytes.size())) {
            emit(found->second, at + bytes.size());
            return;
        }
    }
    spell(bytes);
    state_.merges.apply(symbols_, work_);
    merged_.swap(symbols_);
    for (const bpe_symbol& symbol : merged_) {
        if (is_forged(symbol.id, at, at + symbol.length)) {
            // symbols_ is free: its tokens are in merged_.
            spell(bytes.substr(0, symbol.length));
            for (std::size_t end = at; const bpe_symbol& part : symbols_)
                emit(part.id, end += part.length);
        } else {
            emit(symbol.id, at + symbol.length);
        }
        at += symbol.length;
        bytes.remove_prefix(symbol.length);
    }
}

/// Writes the bytes to symbols_, before any merge.
void tokenizer::impl::encoding::spell(std::string_view bytes) {
    symbols_.clear();
    if (state_.splitter.byte_level()) {
        spell_bytes(bytes);
    } else {
        spell_characters(bytes);
    }
}

/// Appends the unknown token for the bytes that were collected for it, if any.
void tokenizer::impl::encoding::flush_unknown() {
    if (unknown_length_ == 0) return;
    symbols_.push_back({state_.unknown, unknown_length_});
    unknown_length_ = 0;
}

/// Appends a symbol for each byte. Bytes that the vocabulary lacks become the unknown token, if
/// there is one.
void tokenizer::impl::encoding::spell_bytes(std::string_view bytes) {
    for (const char c : bytes) {
        const token_id id = state_.byte_ids[static_cast<unsigned char>(c)];
        if (id >= 0) {
            flush_unknown();
            symbols_.push_back({id, 1});
            // Without an unknown token these bytes are left out.
        } else if (state_.unknown >= 0) {
            if (!state_.fuse_unknown) flush_unknown();
            ++unknown_length_;
        }
    }
    flush_unknown();
}

/// Appends a symbol for each byte of a character. Returns: false when the vocabulary lacks one of
/// them.
bool tokenizer::impl::encoding::spell_as_bytes(std::string_view character) {
    if (!state_.byte_fallback) return false;
    const bool all = std::all_of(character.begin(), character.end(), [&](char c) {
        return state_.fallback_ids[static_cast<unsigned char>(c)] >= 0;
    });
    if (!all) return false;
    for (const char c : character) {
        symbols_.push_back({state_.fallback_ids[static_cast<unsigned char>(c)], 1});
    }
    return true;
}

/// Appends a symbol for each character, or for its bytes where the vocabulary lacks it, or the
/// unknown token.
void tokenizer::impl::encoding::spell_characters(std::string_view bytes) {
    while (!bytes.empty()) {
        const utf8::step s = utf8::next(bytes);
        // Bytes that are no character are taken one at a time.
        const std::string_view character = bytes.substr(0, s.code < 0 ? 1 : s.length);
        bytes.remove_prefix(character.size());
        const auto found = state_.model_ids.find(character);
        const auto length = static_cast<std::uint32_t>(character.size());
        if (found != state_.model_ids.end()) {
            flush_unknown();
            symbols_.push_back({found->second, length});
        } else if (!spell_as_bytes(character) && state_.unknown >= 0) {
            if (!state_.fuse_unknown) flush_unknown();
            unknown_length_ += length;
        }
    }
    flush_unknown();
}

tokenizer::tokenizer(std::unique_ptr<impl> state) : impl_(std::move(state)) {}
tokenizer::tokenizer(tokenizer&&) noexcept = default;
tokenizer& tokenizer::operator=(tokenizer&&) noexcept = default;
tokenizer::~tokenizer() = default;

std::vector<token_id> tokenizer::encode(std::string_view text, bool add_special) const {
    std::vector<token_id> ids;
    if (add_special) ids = impl_->prefix;
    impl::encoding(*impl_, ids, nullptr).whole(text);
    if (add_special) ids.insert(ids.end(), impl_->suffix.begin(), impl_->suffix.end());
    return ids;
}

std::vector<token_id> tokenizer::encode(std::string_view text,
                                        std::vector<std::uint32_t>& token_ends,
                                        std::span<const text_range> content) const {
    std::vector<token_id> ids;
    token_ends.clear();
    impl::encoding(*impl_, ids, &token_ends, content).whole(text);
    return ids;
}

std::vector<control_token> tokenizer::control_tokens(std::string_view text,
                                                     std::span<const text_range> content) const {
    std::vector<control_token> found;
    const auto search_normalized = [&](std::size_t begin, std::size_t end) {
        if (!impl_->added_normalized.has_special() || begin == end) return;
        const std::string_view section = text.substr(begin, end - begin);
        normalized_text made;
        if (impl_->normal.empty()) {
            made.text = section;
        } else {
            made = impl_->normal.apply(section);
        }
        for (const auto& hit : impl_->added_normalized.find_all(made.text, {content, begin, &made}))
            if (is_special(hit.id))
                found.push_back({{begin + made.source_end(hit.spelling.begin),
                                  begin + made.source_end(hit.spelling.end)},
                                 hit.id});
    };
    std::size_t at = 0;
    for (const auto& hit : impl_->added.find_all(text, {content})) {
        search_normalized(at, hit.where.begin);
        if (is_special(hit.id)) found.push_back({hit.spelling, hit.id});
        at = hit.where.end;
    }
    search_normalized(at, text.size());
    return found;
}

std::string_view tokenizer::bytes(token_id id) const {
    if (id < 0 || id >= vocabulary()) return {};
    return impl_->raw[static_cast<std::size_t>(id)];
}

std::string tokenizer::decode(const std::vector<token_id>& ids, bool skip_special) const {
    std::vector<std::string_view> spellings;
    spellings.reserve(ids.size());
    for (const token_id id : ids) {
        if (id < 0 || id >= vocabulary() || (skip_special && is_special(id))) continue;
        spellings.push_back(impl_->spellings[static_cast<std::size_t>(id)]);
    }
    return impl_->decoder.decode(spellings);
}

bool tokenizer::is_special(token_id id) const {
    return id >= 0 && id < vocabulary() && impl_->special[static_cast<std::size_t>(id)];
}

bool tokenizer::is_control(token_id id, std::string_view text) const {
    if (!is_special(id)) return false;
    return !impl_->stands_for_others(id) ||
           text.find(impl_->spellings[static_cast<std::size_t>(id)]) != std::string_view::npos;
}

token_id tokenizer::find(std::string_view token) const {
    for (const token_map* map : {&impl_->added_ids, &impl_->model_ids}) {
        if (const auto found = map->find(token); found != map->end()) return found->second;
    }
    return -1;
}

int tokenizer::vocabulary() const noexcept { return static_cast<int>(impl_->spellings.size()); }

std::size_t tokenizer::bytes_per_token_max() const noexcept { return impl_->bytes_per_token_max; }

/// The pieces that a normalised text is cut into before merging; added tokens are pieces with their
/// ids, others have -1.
std::vector<tokenizer::impl::piece> tokenizer::impl::pieces(std::string_view normalized) const {
    std::vector<piece> out;
    const auto plain = [&](std::size_t begin, std::size_t end) {
        for (const text_range& r : splitter.split(normalized.substr(begin, end - begin))) {
            out.push_back({{begin + r.begin, begin + r.end}, -1});
        }
    };
    std::size_t at = 0;
    for (const auto& hit : added_normalized.find_all(normalized)) {
        plain(at, hit.where.begin);
        out.push_back({hit.where, hit.id});
        at = hit.where.end;
    }
    plain(at, normalized.size());
    return out;
}

}  // namespace semantic::engine
