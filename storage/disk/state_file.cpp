// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/state_file.hpp"

#include <map>
#include <utility>

#include "storage/files/checksum.hpp"
#include "storage/files/safetensors.hpp"

namespace semantic::storage {

namespace {

constexpr const char* tensor_name = "state";
constexpr const char* checksum_key = "xxh3_64.state";

/// Checks the header of a state's file. Returns: the offset of the state's bytes. Errors: corrupt,
/// incompatible.
result<std::uint64_t> check_index(const safetensors_index& index, const block_identity& expected,
                                  std::size_t state_bytes) {
    if (auto ok = check_identity(index, expected, kv_part::state); !ok) return ok.error();
    const auto found = index.tensors.find(tensor_name);
    if (index.tensors.size() != 1 || found == index.tensors.end())
        return failure{errc::corrupt, "it does not hold one tensor \"state\""};
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(state_bytes)};
    if (found->second.type != dtype::u8 || found->second.shape != shape)
        return failure{errc::corrupt, "tensor \"state\" has the wrong shape"};
    return found->second.begin;
}

/// Reads and checks an open file; the errors do not name its path.
result<state_read> read_from(readable_file& file, const block_identity& expected,
                             block_pool& pool) {
    const auto file_bytes = file.size();
    if (!file_bytes) return file_bytes.error();
    const auto index = safetensors_index::read(file, *file_bytes);
    if (!index) return index.error();
    const auto begin = check_index(*index, expected, pool.layout().state_bytes());
    if (!begin) return begin.error();
    auto state = recurrent_state::make(pool);
    if (!state) return state.error();
    if (auto ok = file.read_at(*begin, (*state)->bytes()); !ok) return ok.error();
    const checksum_digits digits = digits_of_checksum((*state)->bytes());
    const auto sum = index->metadata.find(checksum_key);
    if (sum == index->metadata.end() ||
        sum->second != std::string_view(digits.data(), digits.size()))
        return failure{errc::corrupt, "the checksum of tensor \"state\" is wrong"};
    return state_read{std::move(*state), *file_bytes};
}

}  // namespace

std::uint64_t state_file_bytes_max(std::size_t tokens, std::size_t state_bytes) {
    // All of the header but token ids is below 2 KiB; an id with its comma has at most 12 bytes.
    return 2048 + 12 * std::uint64_t{tokens} + state_bytes;
}

result<std::uint64_t> write_state_file(file_system& files, const std::string& path,
                                       const block_identity& identity,
                                       std::span<const std::byte> state) {
    std::map<std::string, std::string, std::less<>> metadata;
    for (auto& [key, value] : identity_fields(identity, kv_part::state))
        metadata.emplace(key, std::move(value));
    const checksum_digits digits = digits_of_checksum(state);
    metadata.emplace(checksum_key, std::string(digits.data(), digits.size()));
    const tensor_to_write tensor{
        tensor_name, dtype::u8, {static_cast<std::int64_t>(state.size())}, state};
    const std::string header = safetensors_header({&tensor, 1}, metadata);
    auto file = files.create(path);
    if (!file) return file.error();
    if (auto ok = (*file)->write(std::as_bytes(std::span(header))); !ok) return ok.error();
    if (auto ok = (*file)->write(state); !ok) return ok.error();
    if (auto ok = (*file)->sync(); !ok) return ok.error();
    return header.size() + state.size();
}

result<state_read> read_state_file(file_system& files, const std::string& path,
                                   const block_identity& expected, block_pool& pool) {
    const auto at_path = [&](const failure& fault) {
        // Errors of the file system name the path already.
        if (fault.what.starts_with(path)) return fault;
        return failure{fault.code, path + ": " + fault.what};
    };
    auto file = files.open(path);
    if (!file) return at_path(file.error());
    auto found = read_from(**file, expected, pool);
    if (!found) return at_path(found.error());
    return found;
}

}  // namespace semantic::storage
