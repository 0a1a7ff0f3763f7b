// SPDX-License-Identifier: Apache-2.0
#include "engine/model/packed/packed_file.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "storage/files/checksum.hpp"
#include "storage/files/mapping_advice.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

constexpr std::string_view magic = "SEMPACK\n";
constexpr std::size_t page_bytes = 4096;
// The file is written in units that are multiples of a huge page, at multiples of one: then the
// page cache holds it in huge pages.
constexpr std::size_t write_unit_bytes = std::size_t{4} << 20;
static_assert(write_unit_bytes % packed_piece_bytes == 0);
constexpr std::size_t footer_bytes = 88;
constexpr std::size_t footer_sum_at = 72;  // offset of the checksum of the bytes before it

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

void append_number(std::string& out, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 255);
}

std::uint64_t number_at(const std::byte* at) {
    std::uint64_t value = 0;
    for (int i = 7; i >= 0; --i) value = value << 8 | std::to_integer<std::uint64_t>(at[i]);
    return value;
}

void append_hash(std::string& out, const storage::block_hash& hash) {
    out.append(reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size());
}

std::size_t pieces_of(std::uint64_t bytes) {
    return static_cast<std::size_t>((bytes + packed_piece_bytes - 1) / packed_piece_bytes);
}

std::uint64_t table_offset(std::uint64_t bytes) {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/// The footer of a packed file: its format, sizes and hashes, and at the end the checksum of all of
/// this.
std::string footer_of(const packed_contents& contents, std::string_view table) {
    std::string footer(magic);
    append_number(footer, packed_layout_version, 4);
    append_number(footer, 0, 4);  // reserved
    append_number(footer, contents.bytes, 8);
    append_hash(footer, contents.weights);
    append_hash(footer, contents.plan);
    append_hash(footer, storage::checksum128(table));
    ASSERT(footer.size() == footer_sum_at);
    append_hash(footer, storage::checksum128(footer));
    return footer;
}

/// The number in a line of /proc/self/smaps: for "FilePmdMapped:   2048 kB" 2048.
std::uint64_t kib_in(const std::string& line) {
    return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
}

}  // namespace

std::uint64_t packed_file_bytes(std::uint64_t arena_bytes) noexcept {
    return table_offset(arena_bytes) + pieces_of(arena_bytes) * 8 + footer_bytes;
}

packed_writer::packed_writer(std::unique_ptr<storage::writable_file> file)
    : file_(std::move(file)) {
    pending_.reserve(write_unit_bytes);
}

result<void> packed_writer::write(std::span<const std::byte> bytes) {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
        const std::size_t count = std::min(bytes.size(), write_unit_bytes - pending_.size());
        pending_.insert(pending_.end(), bytes.begin(),
                        bytes.begin() + static_cast<std::ptrdiff_t>(count));
        bytes = bytes.subspan(count);
        if (pending_.size() < write_unit_bytes) break;
        if (auto ok = flush(); !ok) return ok;
    }
    return {};
}

// Writes the pending bytes, and notes a checksum for each piece. Requires: `pending_` has whole
// pieces, or the end of the weights.
result<void> packed_writer::flush() {
    const std::span<const std::byte> all(pending_);
    for (std::size_t at = 0; at < all.size(); at += packed_piece_bytes) {
        const auto piece = all.subspan(at, std::min(packed_piece_bytes, all.size() - at));
        sums_.push_back(storage::checksum_of(text_of(piece)));
    }
    auto written = file_->write(pending_);
    pending_.clear();
    return written;
}

result<void> packed_writer::finish(const packed_contents& contents) {
    ASSERT(bytes_ == contents.bytes);
    if (auto ok = flush(); !ok) return ok;
    std::string table;
    for (const std::uint64_t sum : sums_) append_number(table, sum, 8);
    std::string tail(static_cast<std::size_t>(table_offset(bytes_) - bytes_), '\0');
    tail += table + footer_of(contents, table);
    if (auto ok = file_->write(bytes_of(tail)); !ok) return ok;
    return file_->sync();
}

packed_file::packed_file(storage::mapped_file mapping, storage::held_file hold, std::string path,
                         std::uint64_t bytes, std::vector<std::uint64_t> sums)
    : mapping_(std::move(mapping)),
      hold_(std::move(hold)),
      path_(std::move(path)),
      bytes_(bytes),
      sums_(std::move(sums)) {}

result<packed_file> packed_file::open(const std::string& path, const packed_contents& contents) {
    auto hold = storage::held_file::open(path);
    if (!hold) return failure{errc::not_found, path + ": there is no such file"};
    auto mapping = storage::mapped_file::open(path);
    if (!mapping) return mapping.error();
    storage::prefer_huge_pages(mapping->bytes());
    const std::span<const std::byte> all = mapping->bytes();
    const std::size_t pieces = pieces_of(contents.bytes);
    const std::uint64_t table_at = table_offset(contents.bytes);
    if (all.size() != packed_file_bytes(contents.bytes))
        return failure{errc::corrupt, path + ": the file has " + std::to_string(all.size()) +
                                          " bytes, packed weights of " +
                                          std::to_string(contents.bytes) + " bytes have others"};
    const auto table = all.subspan(static_cast<std::size_t>(table_at), pieces * 8);
    if (text_of(all.last(footer_bytes)) != footer_of(contents, text_of(table)))
        return failure{errc::corrupt,
                       path + ": the footer or the table is damaged, or of other weights"};
    std::vector<std::uint64_t> sums(pieces);
    for (std::size_t i = 0; i < pieces; ++i) sums[i] = number_at(table.data() + 8 * i);
    return packed_file(std::move(*mapping), std::move(*hold), path, contents.bytes,
                       std::move(sums));
}

result<void> packed_file::check_piece(const std::byte* arena, std::size_t piece) const {
    const std::size_t at = piece * packed_piece_bytes;
    const std::size_t count = std::min(packed_piece_bytes, static_cast<std::size_t>(bytes_) - at);
    if (storage::checksum_of(text_of({arena + at, count})) == sums_[piece]) return {};
    return failure{errc::corrupt, path_ + ": bytes " + std::to_string(at) + " to " +
                                      std::to_string(at + count - 1) +
                                      " are not those that were written"};
}

result<void> packed_file::check_sample(std::uint64_t phase) const {
    const std::size_t stride =
        std::max<std::size_t>(1, (sums_.size() + packed_sample_pieces - 1) / packed_sample_pieces);
    for (std::size_t i = static_cast<std::size_t>(phase % stride); i < sums_.size(); i += stride)
        if (auto ok = check_piece(bytes().data(), i); !ok) return ok;
    return {};
}

result<void> packed_file::check_all() const {
    // `bad`: a damaged piece, any of several; the number of pieces: none.
    std::atomic<std::size_t> bad{sums_.size()}, checked{0};
    tbb::parallel_for(std::size_t{0}, sums_.size(), [&](std::size_t i) {
        if (!check_piece(bytes().data(), i)) bad.store(i, std::memory_order_relaxed);
        checked.fetch_add(1, std::memory_order_relaxed);
    });
    // If another task in the arena throws, TBB silently skips pieces: then `checked` is too small.
    if (checked != sums_.size()) return failure{errc::io, path_ + ": loading was given up"};
    return bad == sums_.size() ? result<void>() : check_piece(bytes().data(), bad);
}

result<void> packed_file::read_all(std::byte* copy) const {
    // `bad` and `checked`: as in check_all().
    std::atomic<std::size_t> bad{sums_.size()}, checked{0};
    std::atomic<bool> failed{false};
    tbb::parallel_for(std::size_t{0}, sums_.size(), [&](std::size_t i) {
        const std::size_t begin = i * packed_piece_bytes;
        const std::size_t end =
            std::min(begin + packed_piece_bytes, static_cast<std::size_t>(bytes_));
        if (failed.load(std::memory_order_relaxed)) return;
        if (!hold_.read_at(begin, {copy + begin, end - begin})) {
            failed = true;
        } else if (!check_piece(copy, i)) {
            bad.store(i, std::memory_order_relaxed);
        }
        checked.fetch_add(1, std::memory_order_relaxed);
    });
    if (checked != sums_.size()) failed = true;
    if (failed) return failure{errc::io, path_ + ": the file cannot be read to its end"};
    return bad == sums_.size() ? result<void>() : check_piece(copy, bad);
}

bool packed_file::is_on_huge_pages() const {
    std::ifstream smaps("/proc/self/smaps");
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes().data());
    bool is_ours = false;
    std::uint64_t mapped_kib = 0, huge_kib = 0;
    for (std::string line; std::getline(smaps, line);) {
        char* after = nullptr;
        const std::uint64_t from = std::strtoull(line.c_str(), &after, 16);
        if (after != line.c_str() && *after == '-') {  // "7f00a0000000-7f00b0000000 r--p ..."
            is_ours = from <= begin && begin < std::strtoull(after + 1, nullptr, 16);
        } else if (is_ours && line.starts_with("Rss:")) {
            mapped_kib = kib_in(line);
        } else if (is_ours && line.starts_with("FilePmdMapped:")) {
            huge_kib = kib_in(line);
            break;
        }
    }
    return huge_kib > 0 && 2 * huge_kib >= mapped_kib;
}

}  // namespace semantic::engine
