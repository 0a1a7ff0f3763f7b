// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer.json. Refuses everything that is not supported, with its name.

#include <boost/json.hpp>

#include <algorithm>
#include <utility>

#include "engine/text/tokenizer/json_access.hpp"
#include "engine/text/tokenizer/tokenizer_state.hpp"
#include "engine/text/tokenizer/utf8.hpp"
#include "storage/files/file.hpp"
#include "storage/files/gguf.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

// Against damaged files.
constexpr std::uint64_t file_bytes_max = std::uint64_t{256} << 20;

failure corrupt(std::string message) { return {errc::corrupt, std::move(message)}; }
failure unsupported(std::string message) {
    return {errc::incompatible, std::move(message) + " is not supported"};
}

std::optional<token_id> id_of(const boost::json::value& json) {
    if (!json.is_int64()) return std::nullopt;
    const std::int64_t id = json.get_int64();
    if (id < 0 || id >= token_ids_max) return std::nullopt;
    return static_cast<token_id>(id);
}

std::string_view view(const boost::json::string& text) { return {text.data(), text.size()}; }

/// The two parts of a merge, which is "a b" or ["a", "b"]; nothing if it is neither.
std::optional<std::pair<std::string_view, std::string_view>> pair_of(
    const boost::json::value& json) {
    if (const auto* both = json.if_array()) {
        if (both->size() != 2 || !(*both)[0].is_string() || !(*both)[1].is_string()) {
            return std::nullopt;
        }
        return std::pair{view((*both)[0].get_string()), view((*both)[1].get_string())};
    }
    const auto* line = json.if_string();
    if (line == nullptr) return std::nullopt;
    const std::string_view text = view(*line);
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
        return std::nullopt;
    }
    return std::pair{text.substr(0, space), text.substr(space + 1)};
}

}  // namespace

/// Sets the spelling of an id; ids that are passed over are unused.
void tokenizer::impl::keep(token_id id, std::string spelling) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= spellings.size()) spellings.resize(at + 1);
    spellings[at] = std::move(spelling);
}

/// Reads the spellings and ids of the model's tokens. Errors: corrupt.
result<void> tokenizer::impl::read_vocabulary(const boost::json::value& model) {
    const boost::json::object* vocabulary = member(model, "vocab").if_object();
    if (vocabulary == nullptr) return corrupt("model has no vocab");
    model_ids.reserve(vocabulary->size());
    for (const auto& [spelling, number] : *vocabulary) {
        const auto id = id_of(number);
        if (!id)
            return corrupt("model.vocab: the id of '" + std::string(spelling) +
                           "' is out of range");
        model_ids.emplace(std::string(spelling), *id);
        keep(*id, std::string(spelling));
    }
    return {};
}

std::optional<bpe_merges::rule> tokenizer::impl::rule_of(std::string_view left,
                                                         std::string_view right,
                                                         std::string& joined) const {
    joined.assign(left).append(right);
    const auto first = model_ids.find(left);
    const auto second = model_ids.find(right);
    const auto merged = model_ids.find(joined);
    if (first == model_ids.end() || second == model_ids.end() || merged == model_ids.end())
        return std::nullopt;
    return bpe_merges::rule{first->second, second->second, merged->second};
}

/// Reads the merges in order of their rank. Errors: corrupt.
result<void> tokenizer::impl::read_merges(const boost::json::value& model) {
    const boost::json::array* list = array_of(model, "merges");
    if (list == nullptr) return corrupt("model has no merges");
    std::vector<bpe_merges::rule> rules;
    rules.reserve(list->size());
    std::string joined;
    for (std::size_t i = 0; i < list->size(); ++i) {
        const auto bad = [&](std::string_view why) {
            return corrupt("model.merges[" + std::to_string(i) + "]: " + std::string(why));
        };
        const auto both = pair_of((*list)[i]);
        if (!both) return bad("is not a pair of tokens");
        const auto rule = rule_of(both->first, both->second, joined);
        if (!rule) return bad("names a token that is not in the vocabulary");
        rules.push_back(*rule);
    }
    merges = bpe_merges(rules);
    return {};
}

/// Reads the model, which must be BPE without the options that are not supported. Errors: corrupt;
/// incompatible.
result<void> tokenizer::impl::read_model(const boost::json::value& model) {
    const std::string type = text_of(model, "type");
    // Old files have no type: those with merges are BPE.
    if (type != "BPE" && !(type.empty() && array_of(model, "merges") != nullptr)) {
        return unsupported("model of type '" + type + "'");
    }
    for (const char* option : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        if (!text_of(model, option).empty())
            return unsupported("model BPE: " + std::string(option));
    }
    const boost::json::value& dropout = member(model, "dropout");
    if (dropout.is_number() && dropout.to_number<double>() != 0.0) {
        return unsupported("model BPE: dropout");
    }
    fuse_unknown = flag_of(model, "fuse_unk", false);
    byte_fallback = flag_of(model, "byte_fallback", false);
    ignore_merges = flag_of(model, "ignore_merges", false);
    if (auto read = read_vocabulary(model); !read) return read;
    if (auto read = read_merges(model); !read) return read;
    if (const std::string spelling = text_of(model, "unk_token"); !spelling.empty()) {
        const auto found = model_ids.find(spelling);
        if (found == model_ids.end()) {
            return corrupt("model.unk_token '" + spelling + "' is not in the vocabulary");
        }
        unknown = found->second;
    }
    return {};
}

/// Reads the tokens that are recognised as a whole in texts. Errors: corrupt.
result<void> tokenizer::impl::read_added(const boost::json::value& file) {
    const boost::json::array* list = array_of(file, "added_tokens");
    if (list == nullptr) return {};
    for (const auto& json : *list) {
        added_token token;
        const auto id = id_of(member(json, "id"));
        token.content = text_of(json, "content");
        if (!id) return corrupt("added_tokens: the id of '" + token.content + "' is out of range");
        token.id = *id;
        token.special = flag_of(json, "special", false);
        token.normalized = flag_of(json, "normalized", !token.special);
        token.single_word = flag_of(json, "single_word", false);
        token.lstrip = flag_of(json, "lstrip", false);
        token.rstrip = flag_of(json, "rstrip", false);
        take_added(token);
    }
    return {};
}

/// Adds a token to the finders. Requires: `normal` is read.
void tokenizer::impl::take_added(const added_token& token) {
    keep(token.id, token.content);
    if (special.size() < spellings.size()) special.resize(spellings.size());
    special[static_cast<std::size_t>(token.id)] = token.special;
    added_ids.insert_or_assign(token.content, token.id);
    if (token.normalized) {
        added_normalized.add(normal.apply(token.content).text, token);
    } else {
        added.add(token.content, token);
    }
}

/// Reads the tokens that are put in front of and after a single text. Errors: corrupt;
/// incompatible.
result<void> tokenizer::impl::read_template(const boost::json::value& json) {
    const boost::json::array* single = array_of(json, "single");
    if (single == nullptr) return corrupt("post_processor TemplateProcessing has no single");
    bool behind_text = false;
    for (const auto& item : *single) {
        if (const auto& sequence = member(item, "Sequence"); sequence.is_object()) {
            if (text_of(sequence, "id") != "A" || behind_text) {
                return unsupported("post_processor TemplateProcessing: a second text in single");
            }
            behind_text = true;
            continue;
        }
        const std::string name = text_of(member(item, "SpecialToken"), "id");
        const auto& entry = member(member(json, "special_tokens"), name);
        const boost::json::array* ids = array_of(entry, "ids");
        if (ids == nullptr) {
            return corrupt("post_processor TemplateProcessing: no ids for '" + name + "'");
        }
        for (const auto& number : *ids) {
            const auto id = id_of(number);
            if (!id) return corrupt("post_processor TemplateProcessing: an id is out of range");
            (behind_text ? suffix : prefix).push_back(*id);
        }
    }
    return {};
}

/// Reads what is added to an encoded text. Errors: corrupt; incompatible.
result<void> tokenizer::impl::read_post_processor(const boost::json::value& json) {
    if (json.is_null()) return {};
    const std::string type = text_of(json, "type");
    if (type == "ByteLevel") return {};  // it only trims offsets
    if (type == "TemplateProcessing") return read_template(json);
    if (type != "Sequence") return unsupported("post_processor of type '" + type + "'");
    const boost::json::array* parts = array_of(json, "processors");
    if (parts == nullptr) return corrupt("post_processor Sequence has no processors");
    bool has_template = false;
    for (const auto& part : *parts) {
        const bool is_template = text_of(part, "type") == "TemplateProcessing";
        if (is_template && std::exchange(has_template, true)) {
            return unsupported("post_processor Sequence: a second TemplateProcessing");
        }
        if (auto read = read_post_processor(part); !read) return read;
    }
    return {};
}

/// Makes what is looked up while encoding, from what was read.
void tokenizer::impl::prepare_pieces() {
    special.resize(spellings.size());
    raw.reserve(spellings.size());
    for (const std::string& spelling : spellings) raw.push_back(decoder.bytes(spelling));
    byte_ids.fill(-1);
    fallback_ids.fill(-1);
    for (const auto& [spelling, id] : model_ids) {
        if (const auto byte = named_byte(spelling)) {
            fallback_ids[static_cast<unsigned char>(*byte)] = id;
        }
        if (!splitter.byte_level()) {
            if (ignore_merges) whole_pieces.emplace(spelling, id);
            continue;
        }
        const auto bytes = from_byte_alphabet(spelling);
        if (!bytes) continue;
        if (bytes->size() == 1) byte_ids[static_cast<unsigned char>(bytes->front())] = id;
        if (ignore_merges) whole_pieces.emplace(*bytes, id);
    }
}

std::size_t tokenizer::impl::widest_token() const {
    const auto is_known = [](token_id id) { return id >= 0; };
    const bool has_all_bytes =
        std::all_of(byte_ids.begin(), byte_ids.end(), is_known) ||
        (byte_fallback && std::all_of(fallback_ids.begin(), fallback_ids.end(), is_known));
    // Unknown text may be one token however long it is; white space may go with the next token.
    if (!has_all_bytes || splitter.drops() || added.looks_around() ||
        added_normalized.looks_around())
        return 0;
    std::size_t widest = 0;
    for (std::size_t id = 0; id < spellings.size(); ++id)
        widest = std::max({widest, raw[id].size(), spellings[id].size()});
    return widest * normal.shrinks_at_most();
}

/// Reads the normalizer, the pre-tokenizer and the decoder. Errors: incompatible; corrupt.
result<void> tokenizer::impl::read_pipeline(const boost::json::value& file) {
    auto made_normal = normalizer::parse(member(file, "normalizer"));
    if (!made_normal) return made_normal.error();
    normal = std::move(*made_normal);
    auto made_splitter = pre_tokenizer::parse(member(file, "pre_tokenizer"));
    if (!made_splitter) return made_splitter.error();
    splitter = std::move(*made_splitter);
    auto made_decoder = token_decoder::parse(member(file, "decoder"));
    if (!made_decoder) return made_decoder.error();
    decoder = std::move(*made_decoder);
    if (splitter.byte_level() != decoder.byte_level()) {
        return unsupported("ByteLevel in only one of pre_tokenizer and decoder");
    }
    return {};
}

void tokenizer::impl::finish() {
    prepare_pieces();
    bytes_per_token_max = widest_token();
}

/// Reads the parts in an order in which each has what it needs. Errors: corrupt; incompatible.
result<std::unique_ptr<tokenizer::impl>> tokenizer::impl::build(std::string_view tokenizer_json) {
    boost::system::error_code error;
    const boost::json::value file = boost::json::parse(tokenizer_json, error);
    if (error) return corrupt("not JSON: " + error.message());
    if (!file.is_object()) return corrupt("not a JSON object");
    auto state = std::make_unique<impl>();
    if (auto read = state->read_pipeline(file); !read) return read.error();
    if (auto read = state->read_model(member(file, "model")); !read) return read.error();
    if (auto read = state->read_added(file); !read) return read.error();
    if (auto read = state->read_post_processor(member(file, "post_processor")); !read) {
        return read.error();
    }
    if (state->spellings.empty()) return corrupt("the vocabulary is empty");
    state->finish();
    return state;
}

result<tokenizer> tokenizer::parse(std::string_view tokenizer_json) {
    auto state = impl::build(tokenizer_json);
    if (!state) return failure{state.error().code, "tokenizer.json: " + state.error().what};
    return tokenizer(std::move(*state));
}

result<tokenizer> tokenizer::load(const std::string& model, std::string_view pre) {
    if (storage::is_gguf_path(model)) {
        const auto parts = storage::open_gguf(model);
        if (!parts) return parts.error();
        auto made = from_gguf(parts->front().view(), pre);
        if (!made) return failure{made.error().code, model + ": " + made.error().what};
        return made;
    }
    if (!pre.empty())
        return failure{errc::bad_value, "tokenizer-pre: " + model + " is no GGUF file"};
    const std::string path = model + "/tokenizer.json";
    auto text = storage::read_whole(storage::posix_file_system(), path, file_bytes_max);
    if (!text) return text.error();
    auto made = parse(*text);
    if (!made) return failure{made.error().code, model + "/" + made.error().what};
    return made;
}

}  // namespace semantic::engine
