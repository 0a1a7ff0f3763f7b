// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_files.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <system_error>

#include "engine/model/config/model_config.hpp"
#include "engine/model/weights/gguf_names.hpp"
#include "storage/files/file.hpp"
#include "storage/files/mapping_advice.hpp"

namespace semantic::engine {

namespace {

using storage::errc;
using storage::failure;
using storage::result;
using storage::safetensors_file;

/// Bytes hashed between two drops of their pages.
constexpr std::size_t hash_piece_bytes = 8u << 20;

/// The names of a model's safetensors files: model.safetensors if there is one, else those that the
/// index lists, else all in the folder. Errors: not_found; io; those of the index.
result<std::vector<std::string>> list_files(const std::string& directory) {
    storage::file_system& files = storage::posix_file_system();
    const std::string single = "model.safetensors", index = "model.safetensors.index.json";
    // file_system::list() has no links, since a cache directory must not lead out of itself; the
    // Hugging Face cache consists of them. One that leads nowhere is named when it is opened.
    std::vector<std::string> names;
    bool has_index = false;
    std::error_code ec, unknown;
    for (std::filesystem::directory_iterator at(directory, ec), end; !ec && at != end;
         at.increment(ec)) {
        if (at->is_directory(unknown)) continue;
        std::string name = at->path().filename().string();
        if (name == single) return std::vector<std::string>{single};
        has_index = has_index || name == index;
        if (name.ends_with(".safetensors")) names.push_back(std::move(name));
    }
    if (ec) {
        const bool is_missing = ec == std::errc::no_such_file_or_directory;
        return failure{is_missing ? errc::not_found : errc::io, directory + ": " + ec.message()};
    }
    std::sort(names.begin(), names.end());
    if (has_index) {
        auto text = storage::read_whole(files, directory + "/" + index, 64u << 20);
        if (!text) return text.error();
        auto listed = parse_weight_index(*text);
        if (listed) return listed;
        return failure{listed.error().code, directory + "/" + index + ": " + listed.error().what};
    }
    if (names.empty()) {
        return failure{errc::not_found, directory + ": there is no *.safetensors file in it"};
    }
    return names;
}

storage::block_hash hash_of(const XXH128_hash_t& digest) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, digest);
    storage::block_hash hash;
    static_assert(sizeof canonical.digest == sizeof hash.bytes);
    std::memcpy(hash.bytes.data(), canonical.digest, sizeof hash.bytes);
    return hash;
}

/// The hash of a file's bytes, which are read piece by piece and dropped from memory again.
/// `first`: the file's first byte among those of all files, for `pace`, which may end it early.
storage::block_hash hash_file(const weight_file& file, std::uint64_t first, read_pace& pace) {
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                         &XXH3_freeState);
    if (state == nullptr || XXH3_128bits_reset(state.get()) != XXH_OK) throw std::bad_alloc();
    const std::span<const std::byte> bytes = file.bytes();
    for (std::size_t at = 0; at < bytes.size(); at += hash_piece_bytes) {
        const auto piece = bytes.subspan(at, std::min(hash_piece_bytes, bytes.size() - at));
        if (!pace.wait_for(first + at)) break;
        const std::size_t next = std::min(at + 2 * hash_piece_bytes, bytes.size());
        storage::prefetch(bytes.subspan(next, std::min(hash_piece_bytes, bytes.size() - next)));
        XXH3_128bits_update(state.get(), piece.data(), piece.size());
        file.drop(piece);
    }
    return hash_of(XXH3_128bits_digest(state.get()));
}

/// Opens a GGUF and its further parts, with the tensors under their published names. Errors: those
/// of opening; incompatible.
result<std::vector<weight_file>> open_gguf_files(const std::string& path) {
    auto parts = storage::open_gguf(path);
    if (!parts) return parts.error();
    const auto& metadata = parts->front().view().metadata;
    const auto at = metadata.find("general.architecture");
    const auto* name = at == metadata.end() ? nullptr : std::get_if<std::string_view>(&at->second);
    const std::string architecture(name == nullptr ? "" : *name);
    const further_layers further = find_further_layers(parts->front().view(), architecture);
    std::vector<weight_file> files;
    for (storage::gguf_file& part : *parts) {
        auto tensors = published_tensors(part.view(), architecture, further);
        if (!tensors) {
            return failure{tensors.error().code, part.path() + ": " + tensors.error().what};
        }
        files.emplace_back(std::move(part), std::move(*tensors));
    }
    return files;
}

}  // namespace

const char* stored_tensor::type_name() const noexcept {
    return blocks ? storage::find_block_size(*blocks)->name : storage::to_string(type);
}

weight_file::weight_file(safetensors_file file, std::string path)
    : path_(std::move(path)), file_(std::move(file)) {
    for (const auto& [name, view] : std::get<safetensors_file>(file_).view().tensors) {
        tensors_.push_back({name, view.type, std::nullopt, view.shape, view.bytes, false, name});
    }
}

weight_file::weight_file(storage::gguf_file file, std::vector<stored_tensor> tensors)
    : path_(file.path()), file_(std::move(file)), tensors_(std::move(tensors)) {}

std::span<const std::byte> weight_file::bytes() const noexcept {
    return std::visit([](const auto& file) { return file.bytes(); }, file_);
}

void weight_file::drop(std::span<const std::byte> part) const noexcept {
    std::visit([&](const auto& file) { file.drop(part); }, file_);
}

result<std::vector<weight_file>> open_weight_files(const std::string& model) {
    if (storage::is_gguf_path(model)) return open_gguf_files(model);
    auto names = list_files(model);
    if (!names) return names.error();
    std::vector<weight_file> files;
    for (const std::string& name : *names) {
        auto file = safetensors_file::open(model + "/" + name);
        if (!file) return file.error();
        files.emplace_back(std::move(*file), model + "/" + name);
    }
    return files;
}

void read_pace::advance(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    packed_ += bytes;
    moved_.notify_all();
}

void read_pace::finish() {
    const std::lock_guard lock(mutex_);
    is_finished_ = true;
    moved_.notify_all();
}

void read_pace::stop() {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    moved_.notify_all();
}

bool read_pace::wait_for(std::uint64_t hashed) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock,
                [&] { return is_stopped_ || is_finished_ || hashed <= packed_ + lead_bytes; });
    return !is_stopped_;
}

std::vector<storage::block_hash> hash_each(const std::vector<weight_file>& files, read_pace& pace) {
    std::vector<storage::block_hash> hashes;
    std::uint64_t first = 0;
    for (const weight_file& file : files) {
        hashes.push_back(hash_file(file, first, pace));
        first += file.bytes().size();
    }
    return hashes;
}

storage::block_hash hash_together(std::vector<storage::block_hash> hashes,
                                  const std::string& form) {
    if (!form.empty()) hashes.push_back(hash_of(XXH3_128bits(form.data(), form.size())));
    return hash_of(XXH3_128bits(hashes.data(), hashes.size() * sizeof hashes[0]));
}

}  // namespace semantic::engine
