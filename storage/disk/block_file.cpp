// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/block_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "storage/files/checksum.hpp"
#include "storage/files/safetensors.hpp"
#include "storage/types/as_size.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

static_assert(std::endian::native == std::endian::little,
              "block files are little-endian and are read in place");

/// Copies the rows of the first `tokens` tokens of a tensor from a block that is not full (`rows`)
/// to `target`, in the form of the file: without the unused rows between two heads.
void gather(const tensor_plan& plan, std::size_t tokens, const std::byte* rows, std::byte* target) {
    const std::size_t head_bytes = plan.rows(tokens) * plan.row_bytes;
    for (std::size_t head = 0; head < as_size(plan.heads); ++head)
        std::memcpy(target + head * head_bytes, rows + head * plan.room * plan.row_bytes,
                    head_bytes);
}

/// The opposite of gather(): from the form of a file to the rows of a block.
void scatter(const tensor_plan& plan, std::size_t tokens, const std::byte* from, std::byte* rows) {
    const std::size_t head_bytes = plan.rows(tokens) * plan.row_bytes;
    for (std::size_t head = 0; head < as_size(plan.heads); ++head)
        std::memcpy(rows + head * plan.room * plan.row_bytes, from + head * head_bytes, head_bytes);
}

/// Tensors of one layer whose bytes follow each other in a file, so that one read gets them all.
struct tensor_run {
    std::size_t first = 0, end = 0;  // among the format's tensors
    std::size_t bytes = 0;
    bool in_place = false;  // a frame has them in the same order: read without a copy
};

/// Returns: the longest run that starts with tensor `first`.
tensor_run run_from(std::size_t first, const std::vector<tensor_plan>& plans,
                    const std::vector<tensor_source>& sources, std::size_t tokens) {
    // In a block that is not full there are unused rows between two heads, which a file has not.
    tensor_run run{first, first, 0, tokens == plans[first].room};
    for (; run.end < plans.size(); ++run.end) {
        const tensor_plan& plan = plans[run.end];
        if (plan.layer != plans[first].layer ||
            sources[run.end].begin != sources[first].begin + run.bytes)
            break;
        run.in_place = run.in_place && plan.at == plans[first].at + run.bytes;
        run.bytes += plan.bytes(tokens);
    }
    return run;
}

/// What a header says.
struct header_read {
    bool is_wide = false;
    std::vector<tensor_source> sources;
};

/// Checks everything in a parsed header against the block that is expected, before a byte of KV is
/// read. Returns: where its tensors are. Errors: corrupt, incompatible.
result<header_read> check_index(const safetensors_index& index, const block_identity& expected,
                                const block_format& format) {
    if (auto ok = check_identity(index, expected, format.part()); !ok) return ok.error();
    const bool wide = format.may_be_wide(expected.tokens.size()) &&
                      index.tensors.size() == format.tensors(true).size();
    if (index.tensors.size() != format.tensors(wide).size())
        return failure{errc::corrupt, "it holds " + std::to_string(index.tensors.size()) +
                                          " tensors, the model has " +
                                          std::to_string(format.tensors().size())};
    std::vector<tensor_source> sources;
    for (const tensor_plan& plan : format.tensors(wide)) {
        const auto found = index.tensors.find(plan.name);
        if (found == index.tensors.end())
            return failure{errc::corrupt, "no tensor \"" + plan.name + "\""};
        if (found->second.type != plan.type ||
            found->second.shape != plan.shape(expected.tokens.size()))
            return failure{errc::corrupt, "tensor \"" + plan.name + "\" has the wrong shape"};
        const auto sum = index.metadata.find(plan.checksum_key());
        if (sum == index.metadata.end())
            return failure{errc::corrupt, "tensor \"" + plan.name + "\" has no checksum"};
        tensor_source source{found->second.begin, {}};
        if (sum->second.size() != source.digits.size())
            return failure{errc::corrupt, "the checksum of tensor \"" + plan.name + "\" is wrong"};
        std::ranges::copy(sum->second, source.digits.begin());
        sources.push_back(source);
    }
    return header_read{wide, std::move(sources)};
}

/// Reads a header without parsing it: makes the header that write_block_file() would write for this
/// block, takes the digits of the checksums from the file, and compares all bytes. Returns: nothing
/// where they differ, and then a parser has to judge. Errors: those of the file.
result<std::optional<header_read>> read_own_header(readable_file& file, std::uint64_t file_bytes,
                                                   const block_identity& expected,
                                                   const block_format& format, bool wide) {
    block_format::header own = format.header_of(expected, wide);
    if (file_bytes != own.bytes.size() + own.data_bytes) return std::optional<header_read>();
    std::string there(own.bytes.size(), '\0');
    if (auto ok = file.read_at(0, std::as_writable_bytes(std::span(there))); !ok) return ok.error();
    std::vector<tensor_source> sources(own.digits.size());
    std::uint64_t begin = own.bytes.size();
    for (std::size_t i = 0; i < sources.size(); ++i) {
        auto& digits = sources[i].digits;
        std::memcpy(digits.data(), there.data() + own.digits[i], digits.size());
        std::memcpy(own.bytes.data() + own.digits[i], digits.data(), digits.size());
        sources[i].begin = begin;
        begin += format.tensors(wide)[i].bytes(expected.tokens.size());
    }
    if (there != own.bytes) return std::optional<header_read>();
    return std::optional(header_read{wide, std::move(sources)});
}

/// Returns: where the tensors of the expected block are in the file, after everything that a header
/// can say was checked. Errors: corrupt, incompatible, those of the file.
result<header_read> read_header(readable_file& file, std::uint64_t file_bytes,
                                const block_identity& expected, const block_format& format) {
    const bool may_be_wide = format.may_be_wide(expected.tokens.size());
    for (const bool wide : {true, false}) {
        if (wide && !may_be_wide) continue;
        auto own = read_own_header(file, file_bytes, expected, format, wide);
        if (!own) return own.error();
        if (*own) return std::move(**own);
    }
    const auto index = safetensors_index::read(file, file_bytes);
    if (!index) return index.error();
    return check_index(*index, expected, format);
}

/// Reads a run of tensors into the frame of their layer, through `scratch` where the frame has
/// another order, and compares each checksum while the bytes are in the processor's cache.
/// `tokens`: of the block. Errors: corrupt, those of the file.
result<void> read_run(readable_file& file, const tensor_run& run,
                      const std::vector<tensor_plan>& plans,
                      const std::vector<tensor_source>& sources, std::size_t tokens,
                      kv_block& block, std::vector<std::byte>& scratch) {
    if (!run.in_place) scratch.resize(std::max(scratch.size(), run.bytes));
    std::byte* at = run.in_place ? plans[run.first].rows_in(block) : scratch.data();
    if (auto ok = file.read_at(sources[run.first].begin, {at, run.bytes}); !ok) return ok;
    for (std::size_t i = run.first; i < run.end; at += plans[i].bytes(tokens), ++i) {
        if (digits_of_checksum({at, plans[i].bytes(tokens)}) != sources[i].digits)
            return failure{errc::corrupt,
                           "the checksum of tensor \"" + plans[i].name + "\" is wrong"};
        if (!run.in_place) scatter(plans[i], tokens, at, plans[i].rows_in(block));
    }
    return {};
}

}  // namespace

result<std::uint64_t> write_block_file(file_system& files, const std::string& path,
                                       const block_identity& identity, const block_format& format,
                                       const kv_block& block) {
    ASSERT(block.part() == format.part());
    const std::size_t tokens = identity.tokens.size();
    const bool full = tokens == as_size(format.layout().block_tokens());
    const bool wide = block.wide() != nullptr && as_size(block.wide_end()) == tokens;
    block_format::header header = format.header_of(identity, wide);
    std::vector<std::byte> gathered(full ? 0 : static_cast<std::size_t>(header.data_bytes));
    std::byte* next = gathered.data();
    std::vector<std::span<const std::byte>> pieces;
    for (std::size_t i = 0; i < format.tensors(wide).size(); ++i) {
        const tensor_plan& plan = format.tensors(wide)[i];
        std::span<const std::byte> bytes(plan.rows_in(block), plan.bytes(tokens));
        if (!full) {
            gather(plan, tokens, bytes.data(), next);
            bytes = {next, bytes.size()};
            next += bytes.size();
        }
        const checksum_digits digits = digits_of_checksum(bytes);
        std::ranges::copy(digits,
                          header.bytes.begin() + static_cast<std::ptrdiff_t>(header.digits[i]));
        // Tensors that follow each other in memory are written by one call.
        if (!pieces.empty() && pieces.back().data() + pieces.back().size() == bytes.data())
            pieces.back() = {pieces.back().data(), pieces.back().size() + bytes.size()};
        else
            pieces.push_back(bytes);
    }

    auto file = files.create(path);
    if (!file) return file.error();
    if (auto ok = (*file)->write(std::as_bytes(std::span(header.bytes))); !ok) return ok.error();
    for (const auto& piece : pieces)
        if (auto ok = (*file)->write(piece); !ok) return ok.error();
    if (auto ok = (*file)->sync(); !ok) return ok.error();
    return header.bytes.size() + header.data_bytes;
}

/// Returns: the fault with the path of the file in its message.
failure block_file_reader::at_path(const failure& fault) const {
    // Errors of the file system name the path already.
    if (fault.what.starts_with(path_)) return fault;
    return {fault.code, path_ + ": " + fault.what};
}

/// Divides the file into pieces of whole layers, each of at least 128 KiB if there is so much.
void block_file_reader::cut_into_pieces() {
    constexpr std::size_t piece_bytes = 128 * 1024;
    const auto& plans = format_->tensors(is_wide_);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < plans.size(); ++i) {
        const bool new_layer = i == 0 || plans[i].layer != plans[i - 1].layer;
        if (new_layer && (i == 0 || bytes >= piece_bytes)) {
            pieces_.push_back({i, i, {}});
            bytes = 0;
        }
        piece& last = pieces_.back();
        if (new_layer) last.layers.push_back(plans[i].layer);
        last.end = i + 1;
        bytes += plans[i].bytes(tokens_);
    }
}

result<block_file_reader> block_file_reader::open(file_system& files, std::string path,
                                                  const block_identity& expected,
                                                  const block_format& format, block_pool& pool,
                                                  bool keep_open) {
    block_file_reader reader(files, std::move(path), format, expected.tokens.size());
    auto file = files.open(reader.path_);
    if (!file) return reader.at_path(file.error());
    const auto file_bytes = (*file)->size();
    if (!file_bytes) return reader.at_path(file_bytes.error());
    auto header = read_header(**file, *file_bytes, expected, format);
    if (!header) return reader.at_path(header.error());
    auto block = kv_block::make(pool, format.part());
    if (!block) return reader.at_path(block.error());
    if (header->is_wide) {
        auto rows = wide_tail::make(pool, format.part());
        if (!rows) return reader.at_path(rows.error());
        (*block)->keep_wide(std::move(*rows), static_cast<int>(reader.tokens_));
    }
    reader.file_bytes_ = *file_bytes;
    reader.is_wide_ = header->is_wide;
    reader.sources_ = std::move(header->sources);
    reader.block_ = std::move(*block);
    if (keep_open) reader.file_ = std::move(*file);
    reader.cut_into_pieces();
    return reader;
}

result<void> block_file_reader::read(const piece& some) const {
    std::unique_ptr<readable_file> own;
    if (file_ == nullptr) {
        auto file = files_->open(path_);
        if (!file) return at_path(file.error());
        own = std::move(*file);
    }
    auto ok = read(own ? *own : *file_, some);
    return ok ? ok : at_path(ok.error());
}

result<void> block_file_reader::read(readable_file& file, const piece& some) const {
    std::vector<std::byte> scratch;  // of one layer at most
    for (std::size_t next = some.first; next < some.end;) {
        const auto& plans = format_->tensors(is_wide_);
        const tensor_run run = run_from(next, plans, sources_, tokens_);
        if (auto ok = read_run(file, run, plans, sources_, tokens_, *block_, scratch); !ok)
            return ok;
        next = run.end;
    }
    return {};
}

result<block_read> read_block_file(file_system& files, const std::string& path,
                                   const block_identity& expected, const block_format& format,
                                   block_pool& pool) {
    const auto reader = block_file_reader::open(files, path, expected, format, pool);
    if (!reader) return reader.error();
    for (const block_file_reader::piece& each : reader->pieces())
        if (auto ok = reader->read(each); !ok) return ok.error();
    return block_read{reader->block(), reader->file_bytes()};
}

}  // namespace semantic::storage
