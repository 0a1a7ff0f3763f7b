#include "storage/manifest.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <algorithm>
#include <limits>
#include <optional>

#include "storage/checksum.hpp"
#include "storage/strict_json.hpp"

namespace semantic::storage {

namespace {

namespace json = boost::json;
using clock = std::chrono::system_clock;

constexpr std::string_view format_name = "semantic-agent";
constexpr std::uint64_t format_version = 1;
// The file is `{"checksum":"<32 hex>",` and then what the checksum covers, to the last byte.
constexpr std::string_view opening = "{\"checksum\":\"";
constexpr std::string_view closing = "\",";
constexpr std::size_t checksum_digits = 32;
constexpr std::size_t covered_from = opening.size() + checksum_digits + closing.size();

failure corrupt(std::string what) { return {errc::corrupt, std::move(what)}; }

// --- writing ---

/// Length of the UTF-8 sequence at the start of `text`, or 0. Source: Unicode 15, table 3-7.
std::size_t utf8_sequence(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto in = [&](std::size_t i, int low, int high) {
        return i < text.size() && byte(i) >= low && byte(i) <= high;
    };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf) return in(1, 0x80, 0xbf) ? 2 : 0;
    if (lead >= 0xe0 && lead <= 0xef) {
        const int low = lead == 0xe0 ? 0xa0 : 0x80;
        const int high = lead == 0xed ? 0x9f : 0xbf;
        return in(1, low, high) && in(2, 0x80, 0xbf) ? 3 : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        const int low = lead == 0xf0 ? 0x90 : 0x80;
        const int high = lead == 0xf4 ? 0x8f : 0xbf;
        return in(1, low, high) && in(2, 0x80, 0xbf) && in(3, 0x80, 0xbf) ? 4 : 0;
    }
    return 0;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t count = utf8_sequence(text);
        if (count == 0) return false;
        text.remove_prefix(count);
    }
    return true;
}

/// A JSON string when the bytes are UTF-8, else {"hex":"…"}.
void append_bytes(std::string& out, std::string_view bytes) {
    if (is_utf8(bytes)) {
        append_json_string(out, bytes);
        return;
    }
    constexpr char digits[] = "0123456789abcdef";
    out += "{\"hex\":\"";
    for (char each : bytes) {
        const auto byte = static_cast<unsigned char>(each);
        out += digits[byte >> 4];
        out += digits[byte & 15];
    }
    out += "\"}";
}

template <class Range, class Append>
void append_array(std::string& out, const Range& range, Append append) {
    out += '[';
    bool first = true;
    for (const auto& each : range) {
        if (!first) out += ',';
        first = false;
        append(each);
    }
    out += ']';
}

std::int64_t microseconds(clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

std::string encode_body(const manifest& agent) {
    std::string out = "\"format\":\"";
    out += format_name;
    out += "\",\"format_version\":" + std::to_string(format_version);
    out += ",\"fingerprint\":\"" + agent.fingerprint.hex() + "\",\"agent\":";
    append_json_string(out, agent.agent);
    out += ",\"created_us\":" + std::to_string(microseconds(agent.created));
    out += ",\"last_used_us\":" + std::to_string(microseconds(agent.last_used));
    out += ",\"blocks\":";
    append_array(out, agent.blocks, [&](const manifest_block& block) {
        out += "[\"" + block.name.hex() + "\"," + std::to_string(block.tokens) + "]";
    });
    out += ",\"tokens\":";
    append_array(out, agent.tokens, [&](token_id token) { out += std::to_string(token); });
    out += ",\"token_bytes\":";
    std::uint32_t before = 0;
    append_array(out, agent.token_ends, [&](std::uint32_t end) {
        out += std::to_string(end - before);
        before = end;
    });
    out += ",\"text\":";
    append_bytes(out, agent.text);
    out += ",\"notes\":";
    append_array(out, agent.notes, [&](const auto& note) {
        out += '[';
        append_bytes(out, note.first);
        out += ',';
        append_bytes(out, note.second);
        out += ']';
    });
    out += '}';
    return out;
}

// --- rules that hold on both sides ---

std::optional<std::string> broken_rule(const manifest& agent) {
    if (!agent_id::parse(agent.agent)) return "agent is not an agent id";
    if (agent.tokens.size() > manifest_tokens_max)
        return "tokens has " + std::to_string(agent.tokens.size()) + " entries, at most " +
               std::to_string(manifest_tokens_max) + " are allowed";
    if (agent.text.size() > manifest_text_bytes_max)
        return "text has " + std::to_string(agent.text.size()) + " bytes, at most " +
               std::to_string(manifest_text_bytes_max) + " are allowed";
    if (agent.notes.size() > manifest_notes_max)
        return "notes has " + std::to_string(agent.notes.size()) + " entries, at most " +
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
    return std::nullopt;
}

// --- reading ---

/// Reads typed fields of one object; remembers the first fault.
class field_reader {
  public:
    explicit field_reader(const json::object& fields) : fields_(fields) {}

    const json::value* find(const char* name) {
        const json::value* value = fields_.if_contains(name);
        if (value == nullptr) fail(name, "is missing");
        return value;
    }

    std::optional<std::int64_t> number(const json::value& value, const char* name, std::int64_t low,
                                       std::int64_t high) {
        if (value.is_int64() && value.get_int64() >= low && value.get_int64() <= high)
            return value.get_int64();
        fail(name, "is not a whole number in its range");
        return std::nullopt;
    }

    std::int64_t number_field(const char* name, std::int64_t low, std::int64_t high) {
        const json::value* value = find(name);
        return value == nullptr ? low : number(*value, name, low, high).value_or(low);
    }

    std::string string_field(const char* name) {
        const json::value* value = find(name);
        if (value == nullptr) return {};
        if (!value->is_string()) {
            fail(name, "is not a string");
            return {};
        }
        return {value->get_string().data(), value->get_string().size()};
    }

    /// The inverse of append_bytes.
    std::string bytes(const json::value& value, const char* name) {
        if (value.is_string()) return {value.get_string().data(), value.get_string().size()};
        const json::value* hex =
            value.is_object() ? value.get_object().if_contains("hex") : nullptr;
        if (hex == nullptr || !hex->is_string() || hex->get_string().size() % 2 != 0) {
            fail(name, "is neither a string nor hex");
            return {};
        }
        std::string out;
        const json::string& digits = hex->get_string();
        for (std::size_t i = 0; i < digits.size(); i += 2) {
            const int high = digit(digits[i]);
            const int low = digit(digits[i + 1]);
            if (high < 0 || low < 0) {
                fail(name, "has a digit that is not hex");
                return {};
            }
            out += static_cast<char>(high * 16 + low);
        }
        return out;
    }

    const json::array& array_field(const char* name, std::size_t count_max) {
        static const json::array nothing;
        const json::value* value = find(name);
        if (value == nullptr) return nothing;
        if (!value->is_array() || value->get_array().size() > count_max) {
            fail(name, "is not an array of a permitted length");
            return nothing;
        }
        return value->get_array();
    }

    void fail(const char* name, const char* what) {
        if (fault.empty()) fault = std::string(name) + " " + what;
    }

    std::string fault;

  private:
    static int digit(char c) {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'a' && c <= 'f') return c - 'a' + 10;
        return -1;
    }
    const json::object& fields_;
};

clock::time_point time_of(std::int64_t microseconds_since_epoch) {
    return clock::time_point(std::chrono::duration_cast<clock::duration>(
        std::chrono::microseconds(microseconds_since_epoch)));
}

void read_tokens(field_reader& reader, manifest& agent) {
    for (const json::value& each : reader.array_field("tokens", manifest_tokens_max))
        agent.tokens.push_back(static_cast<token_id>(
            reader.number(each, "tokens", 0, std::numeric_limits<token_id>::max()).value_or(0)));
    std::int64_t end = 0;
    constexpr auto text_max = static_cast<std::int64_t>(manifest_text_bytes_max);
    for (const json::value& each : reader.array_field("token_bytes", manifest_tokens_max)) {
        end += reader.number(each, "token_bytes", 0, text_max - end).value_or(0);
        agent.token_ends.push_back(static_cast<std::uint32_t>(end));
    }
}

void read_blocks(field_reader& reader, manifest& agent) {
    for (const json::value& each : reader.array_field("blocks", manifest_tokens_max)) {
        if (!each.is_array() || each.get_array().size() != 2 || !each.get_array()[0].is_string())
            return reader.fail("blocks", "has an entry that is not [name, tokens]");
        const json::string& hex = each.get_array()[0].get_string();
        const auto name = block_hash::from_hex({hex.data(), hex.size()});
        if (!name) return reader.fail("blocks", "has a name that is not 32 hex digits");
        constexpr auto most = static_cast<std::int64_t>(manifest_tokens_max);
        const auto tokens = reader.number(each.get_array()[1], "blocks", 1, most);
        agent.blocks.push_back({*name, static_cast<int>(tokens.value_or(0))});
    }
}

void read_notes(field_reader& reader, manifest& agent) {
    for (const json::value& each : reader.array_field("notes", manifest_notes_max)) {
        if (!each.is_array() || each.get_array().size() != 2)
            return reader.fail("notes", "has an entry that is not [key, value]");
        std::string key = reader.bytes(each.get_array()[0], "notes");
        std::string value = reader.bytes(each.get_array()[1], "notes");
        if (!agent.notes.emplace(std::move(key), std::move(value)).second)
            return reader.fail("notes", "has a key twice");
    }
}

}  // namespace

result<std::string> encode_manifest(const manifest& agent) {
    if (const auto rule = broken_rule(agent)) return failure{errc::bad_value, *rule};
    for (token_id token : agent.tokens)
        if (token < 0)
            return failure{errc::bad_value, "tokens has the id " + std::to_string(token)};
    const std::string body = encode_body(agent);
    std::string out(opening);
    out += checksum128(body).hex();
    out += closing;
    out += body;
    if (out.size() > manifest_file_bytes_max)
        return failure{errc::bad_value,
                       "the manifest needs " + std::to_string(out.size()) + " bytes, at most " +
                           std::to_string(manifest_file_bytes_max) + " are allowed"};
    return out;
}

result<manifest> decode_manifest(std::string_view bytes) {
    if (bytes.size() < covered_from || !bytes.starts_with(opening) ||
        bytes.substr(covered_from - closing.size(), closing.size()) != closing)
        return corrupt("it does not start as a manifest does");
    const std::string_view body = bytes.substr(covered_from);
    if (checksum128(body).hex() != bytes.substr(opening.size(), checksum_digits))
        return corrupt("its checksum is wrong");
    const auto root = parse_strict_json(bytes);
    if (!root) return root.error();

    field_reader reader(root->get_object());
    const std::string format = reader.string_field("format");
    constexpr std::int64_t version_max = std::numeric_limits<std::int32_t>::max();
    const std::int64_t version = reader.number_field("format_version", 1, version_max);
    if (!reader.fault.empty()) return corrupt(reader.fault);
    if (format != format_name || version != static_cast<std::int64_t>(format_version))
        return failure{errc::incompatible, "it is of format " + format + " version " +
                                               std::to_string(version) + ", this program reads " +
                                               std::string(format_name) + " version " +
                                               std::to_string(format_version)};
    manifest agent;
    const auto fingerprint = block_hash::from_hex(reader.string_field("fingerprint"));
    if (!fingerprint) return corrupt("fingerprint is not 32 hex digits");
    agent.fingerprint = *fingerprint;
    agent.agent = reader.string_field("agent");
    // Half of what a clock can hold in nanoseconds, on either side of 1970: about 146 years.
    constexpr std::int64_t time_max = std::numeric_limits<std::int64_t>::max() / 2000;
    agent.created = time_of(reader.number_field("created_us", -time_max, time_max));
    agent.last_used = time_of(reader.number_field("last_used_us", -time_max, time_max));
    read_blocks(reader, agent);
    read_tokens(reader, agent);
    if (const json::value* text = reader.find("text")) agent.text = reader.bytes(*text, "text");
    read_notes(reader, agent);
    if (!reader.fault.empty()) return corrupt(reader.fault);
    if (const auto rule = broken_rule(agent)) return corrupt(*rule);
    return agent;
}

std::string manifest_path(std::string_view tenant_salt, std::string_view agent) {
    return "agents/" + field_hasher().add(tenant_salt).add(agent).finish().hex() + ".json";
}

result<std::uint64_t> replace_manifest(file_system& files, const std::string& path,
                                       const std::string& encoded) {
    const std::string temporary = path + ".tmp";
    const auto write = [&]() -> result<void> {
        auto file = files.create(temporary);
        if (!file) return file.error();
        if (auto ok = (*file)->write(std::as_bytes(std::span(encoded))); !ok) return ok;
        if (auto ok = (*file)->sync(); !ok) return ok;
        return files.rename(temporary, path);
    };
    if (auto ok = write(); !ok) {
        (void)files.unlink(temporary);  // best effort: opening the store removes what is left
        return ok.error();
    }
    if (auto ok = files.sync_directory(path.substr(0, path.rfind('/'))); !ok) return ok.error();
    return encoded.size();
}

}  // namespace semantic::storage
