// SPDX-License-Identifier: Apache-2.0
// Reads a tokenizer from a GGUF's metadata. Refuses everything that is not supported, with the key.
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

#include <boost/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "engine/text/gguf/gguf_fields.hpp"
#include "engine/text/gguf/gguf_pipelines.hpp"
#include "engine/text/gguf/tokenizer_kind.hpp"
#include "engine/text/tokenizer/tokenizer_state.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::gguf_array;
using storage::gguf_view;
using storage::result;

namespace {

constexpr std::string_view tokens_key = "tokenizer.ggml.tokens";
constexpr std::string_view types_key = "tokenizer.ggml.token_type";
constexpr std::string_view scores_key = "tokenizer.ggml.scores";
constexpr std::string_view merges_key = "tokenizer.ggml.merges";

// A spelling is looked up at each of its characters, and each byte of an added token is a node of a
// tree: both are bounded, so that memory and time stay linear in the file's length. The longest
// token of a published byte-level vocabulary is 512 bytes, the longest piece of SentencePiece 93.
constexpr std::size_t spelling_bytes_max = std::size_t{64} << 10;
constexpr std::size_t piece_bytes_max = 512;
constexpr std::size_t added_bytes_max = std::size_t{4} << 20;

enum class token_type {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
};

failure corrupt(std::string_view key, const std::string& why) {
    return {errc::corrupt, std::string(key) + why};
}

/// The index of an element, for messages.
std::string at(std::size_t index) { return "[" + std::to_string(index) + "]"; }

/// Whether it is the token that converters write for an unused id.
bool is_padding(std::string_view spelling, std::size_t id) {
    return spelling == "[PAD" + std::to_string(id) + "]";
}

std::size_t characters(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return !utf8::is_continuation(c); }));
}

/// The normalizer and decoder of SentencePiece models as a tokenizer.json would have them.
/// `prefixed`: a blank is put in front of every text.
const boost::json::value& sentence_piece_pipeline(bool prefixed) {
    // Those of the tokenizer.json of Llama 2, which puts a blank in front of every section, and of
    // Gemma, which does not.
    static const boost::json::value plain = boost::json::parse(R"({
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]}})");
    static const boost::json::value with_prefix = boost::json::parse(R"({
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})");
    return prefixed ? with_prefix : plain;
}

}  // namespace

/// One reading of one file.
class tokenizer::impl::gguf_reading {
  public:
    gguf_reading(const gguf_view& metadata, std::string_view pre, impl& made)
        : metadata_(metadata), pre_(pre), made_(made) {}
    result<void> whole();

  private:
    result<void> byte_level();
    result<void> sentence_piece(bool has_merges);
    result<void> read_types();
    result<void> read_tokens();
    result<void> take_token(std::size_t id, std::string spelling);
    result<void> read_merges();
    result<void> read_scores();
    result<void> merge_by_scores();
    void offer_splits(token_id id);
    result<void> read_ends(bool adds_bos, std::int64_t bos, std::int64_t eos);
    result<std::int64_t> id_at(std::string_view key, std::int64_t otherwise) const;
    bool is_plain(std::string_view token) const;
    bool is_shown_control(std::string_view token) const;

    /// A way to split a piece in two: a merge rule, with the keys of its order.
    struct split {
        float score;
        std::uint32_t left, right;  // characters
        bpe_merges::rule rule;
    };

    const gguf_view& metadata_;
    std::string_view pre_;  // from outside; empty: the file's
    impl& made_;
    const gguf_pipeline* pipeline_ = nullptr;  // byte-level only
    bool is_gemma4_ = false;                   // SentencePiece with merges
    std::size_t spelling_bytes_max_ = spelling_bytes_max;
    std::vector<token_type> types_;  // by id
    std::vector<float> scores_;      // SentencePiece only
    std::size_t added_bytes_ = 0;    // of all added tokens
    std::vector<split> splits_;      // of all pieces, in the end in order of their rank
};

result<void> tokenizer::impl::gguf_reading::whole() {
    const auto kind = kind_of_gguf_tokenizer(metadata_, pre_);
    if (!kind) return kind.error();
    pipeline_ = kind->pipeline;
    return pipeline_ != nullptr ? byte_level() : sentence_piece(kind->model == "gemma4");
}

/// Reads a byte-level model. Errors: corrupt.
result<void> tokenizer::impl::gguf_reading::byte_level() {
    const boost::json::value pipeline = {{"normalizer", pipeline_->normalizer()},
                                         {"pre_tokenizer", pipeline_->pre_tokenizer()},
                                         {"decoder", {{"type", "ByteLevel"}}}};
    if (auto read = made_.read_pipeline(pipeline); !read) return read;
    made_.ignore_merges = pipeline_->ignore_merges;
    if (auto read = read_types(); !read) return read;
    if (auto read = read_tokens(); !read) return read;
    if (auto read = read_merges(); !read) return read;
    // -1: a file that wants such tokens must name them.
    return read_ends(pipeline_->adds_bos, -1, -1);
}

/// Reads a SentencePiece model. `has_merges`: it lists merges (Gemma 4), and not scores by which
/// pieces are merged. Errors: corrupt.
result<void> tokenizer::impl::gguf_reading::sentence_piece(bool has_merges) {
    // llama.cpp's defaults for missing keys.
    const std::int64_t unknown_id = has_merges ? 3 : 0, bos_id = has_merges ? 2 : 1,
                       eos_id = has_merges ? 1 : 2;
    const auto prefixed = gguf_fields::flag(metadata_, "tokenizer.ggml.add_space_prefix");
    if (!prefixed) return prefixed.error();
    if (auto read = made_.read_pipeline(sentence_piece_pipeline(prefixed->value_or(!has_merges)));
        !read)
        return read;
    made_.byte_fallback = true;
    made_.fuse_unknown = true;
    is_gemma4_ = has_merges;
    spelling_bytes_max_ = piece_bytes_max;
    if (auto read = read_types(); !read) return read;
    if (auto read = read_tokens(); !read) return read;
    const auto unknown_token = id_at("tokenizer.ggml.unknown_token_id", unknown_id);
    if (!unknown_token) return unknown_token.error();
    made_.unknown = static_cast<token_id>(*unknown_token);
    if (has_merges) {
        if (auto read = read_merges(); !read) return read;
    } else {
        if (auto read = read_scores(); !read) return read;
        if (auto made = merge_by_scores(); !made) return made;
    }
    return read_ends(true, bos_id, eos_id);
}

/// Reads the type of each token. Errors: corrupt when there are none, too many, or unknown ones.
result<void> tokenizer::impl::gguf_reading::read_types() {
    const auto tokens = gguf_fields::strings(metadata_, tokens_key);
    if (!tokens) return tokens.error();
    if (*tokens == nullptr || (*tokens)->count == 0)
        return corrupt(tokens_key, " is missing or empty");
    const std::size_t count = (*tokens)->count;
    if (count > static_cast<std::size_t>(token_ids_max))
        return corrupt(tokens_key, " has " + std::to_string(count) + " tokens; at most " +
                                       std::to_string(token_ids_max) + " are read");
    const auto types = gguf_fields::numbers(metadata_, types_key);
    if (!types) return types.error();
    if (*types == nullptr) return corrupt(types_key, " is missing");
    if ((*types)->count != count)
        return corrupt(types_key, " has " + std::to_string((*types)->count) + " elements, " +
                                      std::string(tokens_key) + " has " + std::to_string(count));
    types_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const double type = (*types)->number(i);
        if (!(type >= 1 && type <= 6) || type != std::floor(type))
            return corrupt(types_key, at(i) + " is not one of 1 to 6");
        types_.push_back(static_cast<token_type>(static_cast<int>(type)));
    }
    return {};
}

/// Reads the tokens' spellings; unused ids are left out. Errors: corrupt when one is too long or no
/// UTF-8, or none is used.
result<void> tokenizer::impl::gguf_reading::read_tokens() {
    // Read before, by read_types().
    const std::vector<std::string_view>& tokens =
        gguf_fields::strings(metadata_, tokens_key).value()->strings;
    made_.model_ids.reserve(tokens.size());
    made_.spellings.reserve(tokens.size());
    made_.special.reserve(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::string_view spelling = tokens[i];
        if (spelling.size() > spelling_bytes_max_)
            return corrupt(tokens_key, at(i) + " has " + std::to_string(spelling.size()) +
                                           " bytes; at most " +
                                           std::to_string(spelling_bytes_max_) + " are read");
        if (utf8::valid_prefix(spelling) != spelling.size())
            return corrupt(tokens_key, at(i) + " is not UTF-8");
        // An unused id: published files leave it out.
        if (spelling.empty() || (types_[i] == token_type::unused && is_padding(spelling, i)))
            continue;
        if (auto taken = take_token(i, std::string(spelling)); !taken) return taken;
    }
    if (made_.spellings.empty()) return corrupt(tokens_key, " has no token that is used");
    return {};
}

/// Adds a token; control and user-defined ones, and SentencePiece's unknown one, are also looked
/// for in texts. Errors: corrupt for a spelling that came before, and for too many bytes.
result<void> tokenizer::impl::gguf_reading::take_token(std::size_t index, std::string spelling) {
    const token_type type = types_[index];
    const auto id = static_cast<token_id>(index);
    // Converters write SentencePiece's user-defined tokens of blanks with real blanks.
    const bool is_blank = spelling.find_first_not_of(' ') == std::string::npos;
    if (pipeline_ == nullptr && type == token_type::user_defined && is_blank) {
        std::string blanks;
        for (std::size_t i = 0; i < spelling.size(); ++i) blanks += "▁";
        spelling = std::move(blanks);
    }
    if (const auto [first, is_new] = made_.model_ids.emplace(spelling, id); !is_new)
        return corrupt(tokens_key, at(index) + " is the same as " +
                                       at(static_cast<std::size_t>(first->second)));
    const bool is_added = type == token_type::control || type == token_type::user_defined ||
                          (type == token_type::unknown && pipeline_ == nullptr);
    if (!is_added) {
        made_.keep(id, std::move(spelling));
        return {};
    }
    added_bytes_ += spelling.size();
    if (added_bytes_ > added_bytes_max)
        return corrupt(tokens_key, ": control and user-defined tokens have more than " +
                                       std::to_string(added_bytes_max) + " bytes");
    added_token token;
    token.id = id;
    token.special =
        type == token_type::user_defined ? is_shown_control(spelling) : !is_plain(spelling);
    token.content = std::move(spelling);
    made_.take_added(token);
    return {};
}

/// Whether a control token of the file is not special in the published tokenizer.json.
bool tokenizer::impl::gguf_reading::is_plain(std::string_view token) const {
    if (pipeline_ != nullptr) return pipeline_->is_plain(token);
    if (is_gemma4_) return false;
    // google/gemma-3-270m-it and its kin
    return token.starts_with("<unused") || token.starts_with("<|fim_") || token == "<mask>" ||
           token == "<2mass>" || token == "[@BOS@]";
}

/// Whether it is one of Gemma 4's marks of calls, channels and strings: special in the published
/// file, but user-defined in a GGUF, so that llama.cpp shows them.
bool tokenizer::impl::gguf_reading::is_shown_control(std::string_view token) const {
    constexpr std::string_view shown[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                          "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                          R"(<|"|>)"};
    return is_gemma4_ && std::find(std::begin(shown), std::end(shown), token) != std::end(shown);
}

/// Reads the merges, each a pair of tokens with a blank between them. Errors: corrupt.
result<void> tokenizer::impl::gguf_reading::read_merges() {
    const auto list = gguf_fields::strings(metadata_, merges_key);
    if (!list) return list.error();
    if (*list == nullptr) return corrupt(merges_key, " is missing");
    std::vector<bpe_merges::rule> rules;
    rules.reserve((*list)->count);
    std::string joined;
    for (std::size_t i = 0; i < (*list)->count; ++i) {
        const std::string_view line = (*list)->strings[i];
        const std::size_t space = line.find(' ');
        if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
            return corrupt(merges_key, at(i) + " is not a pair of tokens");
        const auto rule = made_.rule_of(line.substr(0, space), line.substr(space + 1), joined);
        if (!rule)
            return corrupt(merges_key, at(i) + " names a token that is not in the vocabulary");
        rules.push_back(*rule);
    }
    made_.merges = bpe_merges(rules);
    return {};
}

/// Reads the score of each token. Errors: corrupt when they are missing, or one is no number.
result<void> tokenizer::impl::gguf_reading::read_scores() {
    const auto list = gguf_fields::numbers(metadata_, scores_key);
    if (!list) return list.error();
    if (*list == nullptr) return corrupt(scores_key, " is missing");
    if ((*list)->count != types_.size())
        return corrupt(scores_key, " has " + std::to_string((*list)->count) + " elements, " +
                                       std::string(tokens_key) + " has " +
                                       std::to_string(types_.size()));
    scores_.reserve(types_.size());
    for (std::size_t i = 0; i < types_.size(); ++i) {
        const double score = (*list)->number(i);
        if (!(std::abs(score) <= std::numeric_limits<float>::max()))
            return corrupt(scores_key, at(i) + " is no number");
        // User-defined pieces are merged before all others, whatever a converter wrote for them.
        scores_.push_back(types_[i] == token_type::user_defined
                              ? std::numeric_limits<float>::infinity()
                              : static_cast<float>(score));
    }
    return {};
}

/// Adds to splits_ each way to make this piece of two other pieces, in order of their ids.
void tokenizer::impl::gguf_reading::offer_splits(token_id id) {
    const auto index = static_cast<std::size_t>(id);
    const std::string_view piece = made_.spellings[index];
    const std::size_t first = splits_.size();
    const auto all = static_cast<std::uint32_t>(characters(piece));
    std::uint32_t left = 0;
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
        if (utf8::is_continuation(piece[cut])) continue;
        ++left;
        const auto head = made_.model_ids.find(piece.substr(0, cut));
        if (head == made_.model_ids.end()) continue;
        const auto tail = made_.model_ids.find(piece.substr(cut));
        if (tail == made_.model_ids.end()) continue;
        splits_.push_back({scores_[index], left, all - left, {head->second, tail->second, id}});
    }
    std::sort(splits_.begin() + static_cast<std::ptrdiff_t>(first), splits_.end(),
              [](const split& a, const split& b) {
                  return std::pair(a.rule.left, a.rule.right) <
                         std::pair(b.rule.left, b.rule.right);
              });
}

/// Makes merge rules of the scores.
result<void> tokenizer::impl::gguf_reading::merge_by_scores() {
    // SentencePiece merges the neighbours whose piece scores best. As rules: every way to make a
    // piece of two, by score, longer left halves first, which is the order that published
    // tokenizer.json files have.
    for (std::size_t i = 0; i < made_.spellings.size(); ++i) {
        const bool is_made =
            types_[i] == token_type::normal || types_[i] == token_type::user_defined;
        if (is_made && !made_.spellings[i].empty()) offer_splits(static_cast<token_id>(i));
    }
    std::stable_sort(splits_.begin(), splits_.end(), [](const split& a, const split& b) {
        return std::tuple(a.score, a.left, a.right) > std::tuple(b.score, b.left, b.right);
    });
    std::vector<bpe_merges::rule> rules;
    rules.reserve(splits_.size());
    for (const split& each : splits_) rules.push_back(each.rule);
    made_.merges = bpe_merges(rules);
    return {};
}

/// The id that a key names; `otherwise` when it is missing, which may be negative for none. Errors:
/// corrupt when the id is no token.
result<std::int64_t> tokenizer::impl::gguf_reading::id_at(std::string_view key,
                                                          std::int64_t otherwise) const {
    const auto said = gguf_fields::number(metadata_, key);
    if (!said) return said.error();
    if (!said->has_value() && otherwise < 0) return otherwise;
    const std::uint64_t id = said->value_or(static_cast<std::uint64_t>(otherwise));
    if (id >= made_.spellings.size() || made_.spellings[id].empty())
        return corrupt(key, (said->has_value() ? " " : " is missing, and ") + std::to_string(id) +
                                " is no token of the file");
    return static_cast<std::int64_t>(id);
}

/// Reads which tokens are put in front of and after every text (BOS and EOS). `adds_bos`, `bos`,
/// `eos`: what holds where the keys are missing; a negative id means none. Errors: corrupt.
result<void> tokenizer::impl::gguf_reading::read_ends(bool adds_bos, std::int64_t bos,
                                                      std::int64_t eos) {
    const struct {
        std::string_view flag_key, id_key;
        bool adds;
        std::int64_t id;
        std::vector<token_id>& list;
    } ends[] = {
        {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", adds_bos, bos,
         made_.prefix},
        {"tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false, eos, made_.suffix},
    };
    for (const auto& end : ends) {
        const auto said = gguf_fields::flag(metadata_, end.flag_key);
        if (!said) return said.error();
        if (!said->value_or(end.adds)) continue;
        const auto id = id_at(end.id_key, end.id);
        if (!id) return id.error();
        if (*id < 0)
            return corrupt(end.id_key, " is missing, and " + std::string(end.flag_key) +
                                           " puts it around every text");
        end.list.push_back(static_cast<token_id>(*id));
    }
    return {};
}

result<tokenizer> tokenizer::from_gguf(const gguf_view& metadata, std::string_view pre) {
    auto state = std::make_unique<impl>();
    if (auto read = impl::gguf_reading(metadata, pre, *state).whole(); !read) return read.error();
    state->finish();
    return tokenizer(std::move(state));
}

std::string tokenizer::gguf_pres() { return gguf_pipeline_names(); }

bool tokenizer::is_gguf_pre(std::string_view name) { return find_gguf_pipeline(name) != nullptr; }

}  // namespace semantic::engine
