// SPDX-License-Identifier: Apache-2.0
#pragma once
// One agent on disk, without its KV: which blocks it consists of, its tokens and its text. A file
// is a list of records, each a newer version that says what it keeps of the one before. Encoding
// and decoding are pure; the function that touches a file is marked. Byte layout:
// storage/FORMAT.md.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "storage/files/file.hpp"
#include "storage/pool/agent_state.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::storage {

struct manifest_block {
    block_hash name;
    int tokens = 0;
    bool operator==(const manifest_block&) const = default;
};

/// A recurrent state that the agent can go on from.
struct manifest_state {
    std::uint32_t tokens = 0;  // before it
    bool is_root = false;      // as in kept_state
    block_hash name;           // of its file
    bool operator==(const manifest_state&) const = default;
};

struct manifest {
    block_hash fingerprint;
    std::string agent;
    tenant_id tenant{};
    std::vector<token_id> tokens;
    std::string text;  // any bytes
    std::vector<std::uint32_t>
        token_ends;  // [tokens], never decreasing, the last one at most text.size()
    std::vector<manifest_block> blocks;  // their tokens add up to tokens.size()
    // Beyond 146 years on either side of 1970 the nearer end is written, and taken when read.
    std::chrono::system_clock::time_point created{};
    std::chrono::system_clock::time_point last_used{};
    std::map<std::string, std::string> notes;  // any bytes
    std::vector<message_end> messages{};       // as in agent_state
    std::vector<manifest_state> states{};      // ascending by their tokens, within `tokens`
    bool operator==(const manifest&) const = default;
};

constexpr std::size_t manifest_tokens_max = 1 << 24;
constexpr std::size_t manifest_text_bytes_max = 1 << 28;
constexpr std::size_t manifest_notes_max = 256;
/// The key of the note that lists the states in the file; never among `notes`.
constexpr const char* states_note = "states";
constexpr std::size_t manifest_file_bytes_max = 1 << 30;

/// One of an agent's files other than its manifest: its path under the cache directory, and whether
/// the agent is lost without it. Siblings need not exist; a missing state costs only the position
/// that it belongs to.
struct agent_part_file {
    std::string path;
    bool is_needed = false;
};
/// Returns: all files of the agent but its manifest.
std::vector<agent_part_file> files_of(const manifest& agent);

/// Bytes of a manifest file, and the seal of the last record in them, which the next one continues.
struct sealed_bytes {
    std::string bytes;
    block_hash seal;
};

/// How much of the version before a new version keeps, from the start of each list.
struct manifest_kept {
    std::size_t blocks = 0;
    std::size_t tokens = 0;    // of those blocks
    std::size_t messages = 0;  // each of them ends within those tokens
};

/// Returns: a whole file. Errors: bad_value, naming the field and the number, for what
/// decode_manifest would refuse.
result<sealed_bytes> encode_manifest(const manifest& agent);
/// Returns: the record to append to a file that ends with `seal`, for a version that keeps `kept`
/// of the one before. Requires: the kept blocks, tokens, their text and messages are the same in
/// both versions; `created`, `agent`, `tenant` and `fingerprint` are those of the file. Errors: as
/// encode_manifest().
result<sealed_bytes> encode_update(const manifest& agent, const manifest_kept& kept,
                                   const block_hash& seal);

struct decoded_manifest {
    manifest agent;     // the newest version that is whole
    bool torn = false;  // bytes after it are damaged, or of a save that was cut off
};

/// Returns: the newest whole version in a file; what follows it is ignored and makes `torn` true.
/// Errors: corrupt (no whole record, a field out of its range, fields that contradict each other),
/// incompatible (another format version). A manifest of another model decodes; the caller compares
/// the fingerprint.
result<decoded_manifest> decode_manifest(std::string_view bytes);

/// Returns: the path, relative to the cache directory, of one model's manifest of an agent:
/// "agents/<hash of salt and id>.<fingerprint>.manifest", both in hex. The id itself is not in it.
std::string manifest_path(std::string_view tenant_salt, std::string_view agent,
                          const block_hash& fingerprint);
/// Returns: the beginning that the manifests of the agent have in common, whatever the model.
/// Requires: a path that manifest_path() has returned.
std::string_view agent_part(std::string_view manifest_path);
/// The path that the agent's only manifest has in a directory of format 1. Requires: as above.
std::string former_manifest_path(std::string_view manifest_path);
/// Whether a path under the cache directory is one of format 1.
bool is_former_manifest_path(std::string_view path);
/// Returns: the path of format 2. Requires: is_former_manifest_path().
std::string renamed_manifest_path(std::string_view former, const block_hash& fingerprint);

/// Blocks. Appends a record and syncs the file. Errors: io, out_of_space, not_found; the file may
/// then end with the record, a part of it, or neither, and must be replaced before anything more is
/// appended.
result<void> append_manifest(file_system& files, const std::string& path,
                             const std::string& record);

}  // namespace semantic::storage
