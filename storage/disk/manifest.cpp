// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/manifest.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "storage/disk/block_format.hpp"
#include "storage/files/checksum.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

using clock = std::chrono::system_clock;

static_assert(std::endian::native == std::endian::little, "manifests are little-endian");

constexpr std::string_view magic = "SEMAGENT";
constexpr std::uint32_t format_version = 3;
constexpr std::size_t header_bytes = 24;         // magic, version, zeros, XXH3-64 of these 16
constexpr std::size_t record_header_bytes = 24;  // payload length, seal

failure corrupt(std::string message) { return {errc::corrupt, std::move(message)}; }

// --- writing ---

template <class Number>
void append_number(std::string& out, Number value) {
    static_assert(std::is_integral_v<Number>);
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_count(std::string& out, std::size_t count) {
    append_number(out, static_cast<std::uint32_t>(count));
}

void append_bytes(std::string& out, std::string_view bytes) {
    append_count(out, bytes.size());
    out += bytes;
}

/// Seven bits a byte, low ones first; the top bit says that more follow.
void append_varint(std::string& out, std::uint32_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
}

std::string_view view_of(const block_hash& hash) {
    return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
}

// Times are cut to 146 years on either side of 1970, half of what a clock can hold in nanoseconds,
// so that the difference of two times does not overflow.
constexpr std::int64_t time_max = std::numeric_limits<std::int64_t>::max() / 2000;
// The longest time that a clock can hold; a manifest with a longer one is corrupt.
constexpr std::int64_t clock_max = std::numeric_limits<std::int64_t>::max() / 1000;

/// Returns: microseconds since 1970, cut to time_max. A wrong clock makes an agent leave too early
/// or too late, but never costs its memory.
std::int64_t microseconds(clock::time_point time) {
    const std::int64_t value =
        std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
    return std::clamp(value, -time_max, time_max);
}

std::string file_header() {
    std::string out(magic);
    append_number(out, format_version);
    append_number(out, std::uint32_t{0});
    append_number(out, checksum_of(out));
    return out;
}

/// Returns: the seal of a record, a hash over its payload and the seal of the record before. So a
/// record is valid only after exactly the bytes that it was written after.
block_hash seal_of(const block_hash& previous, std::string_view payload) {
    std::string bound(view_of(previous));
    append_number(bound, static_cast<std::uint64_t>(payload.size()));
    bound += view_of(checksum128(payload));
    return checksum128(bound);
}

/// Returns: the recurrent states as the bytes of a note: tokens, kind and name of each.
std::string note_of_states(const std::vector<manifest_state>& states) {
    std::string note;
    for (const manifest_state& each : states) {
        append_number(note, each.tokens);
        append_number(note, std::uint32_t{each.is_root ? 1u : 0u});
        note += view_of(each.name);
    }
    return note;
}

/// Appends a version of the agent as a record has it: what follows the first `kept` blocks, tokens
/// and messages of the version before.
void append_version(std::string& out, const manifest& agent, const manifest_kept& kept) {
    const std::uint32_t text_kept = kept.tokens == 0 ? 0 : agent.token_ends[kept.tokens - 1];
    append_number(out, microseconds(agent.last_used));
    append_count(out, kept.blocks);
    append_count(out, agent.blocks.size() - kept.blocks);
    for (std::size_t i = kept.blocks; i < agent.blocks.size(); ++i) {
        out += view_of(agent.blocks[i].name);
        append_number(out, static_cast<std::uint32_t>(agent.blocks[i].tokens));
    }
    append_count(out, agent.tokens.size() - kept.tokens);
    out.append(reinterpret_cast<const char*>(agent.tokens.data() + kept.tokens),
               (agent.tokens.size() - kept.tokens) * sizeof(token_id));
    std::uint32_t before = text_kept;
    for (std::size_t i = kept.tokens; i < agent.token_ends.size(); ++i) {
        append_varint(out, agent.token_ends[i] - before);
        before = agent.token_ends[i];
    }
    append_bytes(out, std::string_view(agent.text).substr(text_kept));
    std::map<std::string, std::string> notes = agent.notes;
    if (!agent.states.empty()) notes[states_note] = note_of_states(agent.states);
    append_count(out, notes.size());
    for (const auto& [key, value] : notes) {
        append_bytes(out, key);
        append_bytes(out, value);
    }
    append_count(out, kept.messages);
    append_count(out, agent.messages.size() - kept.messages);
    for (std::size_t i = kept.messages; i < agent.messages.size(); ++i) {
        append_bytes(out, agent.messages[i].id);
        append_number(out, agent.messages[i].tokens);
        append_bytes(out, agent.messages[i].rest);
    }
}

/// Appends a record: length, seal, payload.
void append_record(std::string& out, std::string_view payload, const block_hash& seal) {
    append_number(out, static_cast<std::uint64_t>(payload.size()));
    out += view_of(seal);
    out += payload;
}

// --- rules that hold on both sides ---

/// Returns: a sentence naming the rule that the messages break; nothing where they break none.
std::optional<std::string> broken_rule_of_messages(const manifest& agent) {
    if (agent.messages.size() > messages_max)
        return "messages has " + std::to_string(agent.messages.size()) + " entries, at most " +
               std::to_string(messages_max) + " are allowed";
    std::uint32_t before = 0;
    for (const message_end& each : agent.messages) {
        if (!agent_id::parse(each.id)) return "messages has an id that is none";
        if (each.tokens < before) return "messages has an end before an earlier one";
        if (each.tokens > agent.tokens.size()) return "messages has an end behind the tokens";
        if (each.rest.size() > message_rest_bytes_max)
            return "messages has a rest of " + std::to_string(each.rest.size()) + " bytes";
        before = each.tokens;
    }
    return std::nullopt;
}

/// The rule that the recurrent states of a manifest break, as a sentence; nothing where they break
/// none.
std::optional<std::string> broken_rule_of_states(const manifest& agent) {
    if (agent.notes.contains(states_note)) return "notes has a key of the states";
    if (agent.states.size() > kept_states_max)
        return "states has " + std::to_string(agent.states.size()) + " entries, at most " +
               std::to_string(kept_states_max) + " are allowed";
    std::uint32_t before = 0;
    for (const manifest_state& each : agent.states) {
        if (each.tokens <= before) return "states has a place that is not behind the one before";
        if (each.tokens > agent.tokens.size()) return "states has a place behind the tokens";
        before = each.tokens;
    }
    return std::nullopt;
}

/// Returns: the first rule that the manifest breaks; nothing where it is right.
std::optional<std::string> broken_rule(const manifest& agent) {
    if (!agent_id::parse(agent.agent)) return "agent is not an agent id";
    if (agent.tokens.size() > manifest_tokens_max)
        return "tokens has " + std::to_string(agent.tokens.size()) + " entries, at most " +
               std::to_string(manifest_tokens_max) + " are allowed";
    if (agent.text.size() > manifest_text_bytes_max)
        return "text has " + std::to_string(agent.text.size()) + " bytes, at most " +
               std::to_string(manifest_text_bytes_max) + " are allowed";
    const std::size_t notes = agent.notes.size() + (agent.states.empty() ? 0 : 1);
    if (notes > manifest_notes_max)
        return "notes has " + std::to_string(notes) + " entries, at most " +
               std::to_string(manifest_notes_max) + " are allowed";
    if (agent.token_ends.size() != agent.tokens.size())
        return "there are " + std::to_string(agent.tokens.size()) + " tokens and " +
               std::to_string(agent.token_ends.size()) + " token ends";
    if (!std::is_sorted(agent.token_ends.begin(), agent.token_ends.end()))
        return "token_ends decreases";
    if (!agent.token_ends.empty() && agent.token_ends.back() > agent.text.size())
        return "token_ends goes beyond the text";
    std::size_t in_blocks = 0;
    for (const manifest_block& block : agent.blocks) {
        if (block.tokens < 1) return "a block has no tokens";
        in_blocks += static_cast<std::size_t>(block.tokens);
    }
    if (in_blocks != agent.tokens.size())
        return "the blocks hold " + std::to_string(in_blocks) + " tokens, the agent has " +
               std::to_string(agent.tokens.size());
    if (auto rule = broken_rule_of_states(agent)) return rule;
    return broken_rule_of_messages(agent);
}

/// Errors: bad_value, when decode_manifest() would refuse the encoded manifest.
result<void> check_before_writing(const manifest& agent) {
    if (const auto rule = broken_rule(agent)) return failure{errc::bad_value, *rule};
    for (token_id token : agent.tokens)
        if (token < 0)
            return failure{errc::bad_value, "tokens has the id " + std::to_string(token)};
    return {};
}

// --- reading ---

/// Takes values off the front of a record. After a fault all values are 0 or empty, and `fault`
/// keeps the first one, so callers check once at the end. `name`: the field, for the message.
class record_reader {
  public:
    explicit record_reader(std::string_view bytes) : bytes_(bytes) {}

    std::string_view take(std::size_t count, const char* name) {
        if (count > bytes_.size()) {
            fail(name, "goes beyond the record");
            bytes_ = {};
            return {};
        }
        const std::string_view taken = bytes_.substr(0, count);
        bytes_.remove_prefix(count);
        return taken;
    }

    template <class Number>
    Number number(const char* name) {
        const std::string_view bytes = take(sizeof(Number), name);
        Number value{};
        if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }

    /// Reads how many entries follow: at most `most`, of which each takes at least `each_bytes` of
    /// the bytes that are left. So a damaged count cannot make the caller allocate much.
    std::size_t count(const char* name, std::size_t most, std::size_t each_bytes) {
        const std::size_t value = number<std::uint32_t>(name);
        if (value <= most && value * each_bytes <= bytes_.size()) return value;
        fail(name, "is not a count in its range");
        return 0;
    }

    std::string_view text(const char* name, std::size_t most) {
        return take(count(name, most, 1), name);
    }

    /// Reads what append_varint() wrote, at most 5 bytes.
    std::uint32_t varint(const char* name) {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            const auto byte = number<std::uint8_t>(name);
            value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) {
                if (value > manifest_text_bytes_max) fail(name, "is not a number in its range");
                return static_cast<std::uint32_t>(value);
            }
        }
        fail(name, "is not a number in its range");
        return 0;
    }

    block_hash hash(const char* name) {
        block_hash value;
        const std::string_view bytes = take(value.bytes.size(), name);
        if (!bytes.empty()) std::memcpy(value.bytes.data(), bytes.data(), bytes.size());
        return value;
    }

    void fail(const char* name, const char* complaint) {
        if (fault.empty()) fault = std::string(name) + " " + complaint;
    }
    bool is_empty() const { return bytes_.empty(); }

    std::string fault;

  private:
    std::string_view bytes_;
};

/// Reads a time. `name`: of the field, for errors.
clock::time_point read_time(record_reader& reader, const char* name) {
    const auto value = reader.number<std::int64_t>(name);
    if (value < -clock_max || value > clock_max) {
        reader.fail(name, "is not a time in its range");
        return {};
    }
    return clock::time_point(std::chrono::duration_cast<clock::duration>(
        std::chrono::microseconds(std::clamp(value, -time_max, time_max))));
}

/// Reads the list of blocks: keeps the first ones of the version before and adds new ones. Returns:
/// how many tokens the kept blocks have.
std::size_t read_blocks(record_reader& reader, manifest& agent) {
    const std::size_t kept = reader.number<std::uint32_t>("blocks");
    if (kept > agent.blocks.size()) {
        reader.fail("blocks", "keeps more than there are");
        return 0;
    }
    agent.blocks.resize(kept);
    std::size_t kept_tokens = 0;
    for (const manifest_block& block : agent.blocks)
        kept_tokens += static_cast<std::size_t>(block.tokens);
    const std::size_t added =
        reader.count("blocks", manifest_tokens_max, sizeof(block_hash) + sizeof(std::uint32_t));
    for (std::size_t i = 0; i < added; ++i) {
        const block_hash name = reader.hash("blocks");
        const auto tokens = reader.number<std::uint32_t>("blocks");
        if (tokens < 1 || tokens > manifest_tokens_max)
            reader.fail("blocks", "has a block with an impossible number of tokens");
        else
            agent.blocks.push_back({name, static_cast<int>(tokens)});
    }
    return kept_tokens;
}

/// Reads token ids and the lengths of their texts after the first `kept_tokens` tokens. Cuts
/// `agent.text` to those; the caller appends the new text. Requires: read_blocks() was called.
void read_tokens(record_reader& reader, std::size_t kept_tokens, manifest& agent) {
    agent.tokens.resize(kept_tokens);
    agent.token_ends.resize(kept_tokens);
    std::uint32_t end = kept_tokens == 0 ? 0 : agent.token_ends.back();
    agent.text.resize(end);
    // Each token takes its id and at least one byte of its length.
    const std::size_t added = reader.count("tokens", manifest_tokens_max, sizeof(token_id) + 1);
    const std::string_view ids = reader.take(added * sizeof(token_id), "tokens");
    // take() has noted the fault.
    if (ids.size() != added * sizeof(token_id)) return;
    agent.tokens.resize(kept_tokens + added);
    if (added > 0) std::memcpy(agent.tokens.data() + kept_tokens, ids.data(), ids.size());
    agent.token_ends.reserve(kept_tokens + added);
    for (std::size_t i = 0; i < added; ++i) {
        const std::uint32_t more = reader.varint("token_bytes");
        if (more > manifest_text_bytes_max - end)
            return reader.fail("token_bytes", "goes beyond the text");
        end += more;
        agent.token_ends.push_back(end);
        if (agent.tokens[kept_tokens + i] < 0) return reader.fail("tokens", "has a negative id");
    }
}

/// Reads the notes: pairs of texts, each key once.
void read_notes(record_reader& reader, manifest& agent) {
    agent.notes.clear();
    // 8: the lengths of key and value.
    const std::size_t notes = reader.count("notes", manifest_notes_max, 8);
    for (std::size_t i = 0; i < notes; ++i) {
        std::string key(reader.text("notes", manifest_file_bytes_max));
        std::string value(reader.text("notes", manifest_file_bytes_max));
        if (!agent.notes.emplace(std::move(key), std::move(value)).second)
            return reader.fail("notes", "has a key twice");
    }
}

/// Decodes the note of the recurrent states and removes it from the notes.
void read_states(record_reader& reader, manifest& agent) {
    agent.states.clear();
    const auto note = agent.notes.extract(states_note);
    if (!note) return;
    record_reader states(note.mapped());
    while (!states.is_empty() && states.fault.empty()) {
        manifest_state each;
        each.tokens = states.number<std::uint32_t>(states_note);
        const auto kind = states.number<std::uint32_t>(states_note);
        each.name = states.hash(states_note);
        if (kind > 1) states.fail(states_note, "has a state of no known kind");
        each.is_root = kind == 1;
        agent.states.push_back(each);
    }
    if (agent.states.empty()) states.fail(states_note, "names none");
    if (!states.fault.empty()) reader.fault = states.fault;
}

/// Reads the ends of messages: how many of those in the version before are kept, and the new ones.
void read_messages(record_reader& reader, manifest& agent) {
    const std::size_t kept = reader.number<std::uint32_t>("messages");
    if (kept > agent.messages.size()) return reader.fail("messages", "keeps more than there are");
    agent.messages.resize(kept);
    // 12: two lengths and the number of tokens.
    const std::size_t added = reader.count("messages", messages_max, 12);
    for (std::size_t i = 0; i < added; ++i) {
        message_end each;
        each.id = reader.text("messages", message_rest_bytes_max);
        each.tokens = reader.number<std::uint32_t>("messages");
        each.rest = reader.text("messages", message_rest_bytes_max);
        agent.messages.push_back(std::move(each));
    }
}

/// Changes `agent`, the version before, to the version of one record. Errors: corrupt.
result<void> read_version(record_reader& reader, manifest& agent) {
    agent.last_used = read_time(reader, "last_used_us");
    const std::size_t kept_tokens = read_blocks(reader, agent);
    if (!reader.fault.empty()) return corrupt(reader.fault);
    read_tokens(reader, kept_tokens, agent);
    agent.text += reader.text("text", manifest_text_bytes_max);
    read_notes(reader, agent);
    read_states(reader, agent);
    read_messages(reader, agent);
    if (reader.fault.empty() && !reader.is_empty()) reader.fail("the record", "has a rest");
    if (!reader.fault.empty()) return corrupt(reader.fault);
    if (const auto rule = broken_rule(agent)) return corrupt(*rule);
    return {};
}

/// Takes the next record off the front of `bytes`, if it is whole and follows the record with
/// `seal`, and sets `seal` to its own. Returns: its payload, or nothing.
std::optional<std::string_view> next_record(std::string_view& bytes, block_hash& seal) {
    if (bytes.size() < record_header_bytes) return std::nullopt;
    std::uint64_t payload_bytes = 0;
    std::memcpy(&payload_bytes, bytes.data(), sizeof payload_bytes);
    if (payload_bytes > bytes.size() - record_header_bytes) return std::nullopt;
    const std::string_view payload =
        bytes.substr(record_header_bytes, static_cast<std::size_t>(payload_bytes));
    const block_hash expected = seal_of(seal, payload);
    if (view_of(expected) != bytes.substr(sizeof payload_bytes, sizeof(block_hash)))
        return std::nullopt;
    seal = expected;
    bytes.remove_prefix(record_header_bytes + payload.size());
    return payload;
}

/// Checks the first bytes of a manifest file. Errors: corrupt, incompatible.
result<void> check_header(std::string_view bytes) {
    if (!bytes.starts_with(magic) || bytes.size() < header_bytes)
        return corrupt("it does not start as a manifest does");
    std::uint32_t version = 0;
    std::uint64_t checksum = 0;
    std::memcpy(&version, bytes.data() + magic.size(), sizeof version);
    std::memcpy(&checksum, bytes.data() + header_bytes - sizeof checksum, sizeof checksum);
    if (checksum != checksum_of(bytes.substr(0, header_bytes - sizeof checksum)))
        return corrupt("its header's checksum is wrong");
    if (version != format_version)
        return failure{errc::incompatible, "it is of format version " + std::to_string(version) +
                                               ", this program reads version " +
                                               std::to_string(format_version)};
    return {};
}

}  // namespace

result<sealed_bytes> encode_manifest(const manifest& agent) {
    if (auto ok = check_before_writing(agent); !ok) return ok.error();
    std::string payload(view_of(agent.fingerprint));
    append_bytes(payload, agent.agent);
    payload += view_of(agent.tenant.salt);
    append_number(payload, microseconds(agent.created));
    append_version(payload, agent, {});
    sealed_bytes out{file_header(), {}};
    out.seal = seal_of(checksum128(out.bytes), payload);
    append_record(out.bytes, payload, out.seal);
    if (out.bytes.size() > manifest_file_bytes_max)
        return failure{errc::bad_value, "the manifest needs " + std::to_string(out.bytes.size()) +
                                            " bytes, at most " +
                                            std::to_string(manifest_file_bytes_max) +
                                            " are allowed"};
    return out;
}

result<sealed_bytes> encode_update(const manifest& agent, const manifest_kept& kept,
                                   const block_hash& seal) {
    if (auto ok = check_before_writing(agent); !ok) return ok.error();
    ASSERT(kept.blocks <= agent.blocks.size() && kept.tokens <= agent.tokens.size());
    ASSERT(kept.messages <= agent.messages.size());
    std::string payload;
    append_version(payload, agent, kept);
    sealed_bytes out{{}, seal_of(seal, payload)};
    append_record(out.bytes, payload, out.seal);
    return out;
}

result<decoded_manifest> decode_manifest(std::string_view bytes) {
    if (auto ok = check_header(bytes); !ok) return ok.error();
    block_hash seal = checksum128(bytes.substr(0, header_bytes));
    bytes.remove_prefix(header_bytes);
    const auto first = next_record(bytes, seal);
    if (!first) return corrupt("its first record's checksum is wrong");

    decoded_manifest found;
    record_reader reader(*first);
    found.agent.fingerprint = reader.hash("fingerprint");
    found.agent.agent = std::string(reader.text("agent", manifest_text_bytes_max));
    found.agent.tenant = {reader.hash("tenant")};
    found.agent.created = read_time(reader, "created_us");
    if (auto ok = read_version(reader, found.agent); !ok) return ok.error();
    while (const auto next = next_record(bytes, seal)) {
        record_reader update(*next);
        if (auto ok = read_version(update, found.agent); !ok) return ok.error();
    }
    found.torn = !bytes.empty();
    return found;
}

std::vector<agent_part_file> files_of(const manifest& agent) {
    std::vector<agent_part_file> files;
    for (const manifest_block& block : agent.blocks)
        for (const kv_part part : kv_parts)
            files.push_back({block_path(block.name, part), part == kv_part::full});
    for (const manifest_state& state : agent.states)
        files.push_back({block_path(state.name, kv_part::state), false});
    return files;
}

namespace {

constexpr std::string_view folder = "agents/";
constexpr std::string_view extension = ".manifest";
constexpr std::size_t hash_digits = 2 * sizeof(block_hash);

}  // namespace

std::string manifest_path(std::string_view tenant_salt, std::string_view agent,
                          const block_hash& fingerprint) {
    return std::string(folder) + field_hasher().add(tenant_salt).add(agent).finish().hex() + "." +
           fingerprint.hex() + std::string(extension);
}

std::string_view agent_part(std::string_view manifest_path) {
    return manifest_path.substr(0, folder.size() + hash_digits + 1);
}

std::string former_manifest_path(std::string_view manifest_path) {
    return std::string(manifest_path.substr(0, folder.size() + hash_digits)) +
           std::string(extension);
}

bool is_former_manifest_path(std::string_view path) {
    return path.size() == folder.size() + hash_digits + extension.size() &&
           path.starts_with(folder) && path.ends_with(extension) &&
           block_hash::from_hex(path.substr(folder.size(), hash_digits)).has_value();
}

std::string renamed_manifest_path(std::string_view former, const block_hash& fingerprint) {
    return std::string(agent_part(former)) + fingerprint.hex() + std::string(extension);
}

result<void> append_manifest(file_system& files, const std::string& path,
                             const std::string& record) {
    auto file = files.append(path);
    if (!file) return file.error();
    if (auto ok = (*file)->write(std::as_bytes(std::span(record))); !ok) return ok;
    return (*file)->sync();
}

}  // namespace semantic::storage
