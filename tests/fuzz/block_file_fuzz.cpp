// SPDX-License-Identifier: Apache-2.0
// Block files: arbitrary bytes, and a good file with arbitrary bytes in places. What is accepted
// holds exactly the KV that was written.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "storage/disk/block_file.hpp"
#include "storage/types/assert.hpp"
#include "tests/storage/agents/store_fixture.hpp"

using namespace semantic::storage;
using namespace semantic::storage::tests;

namespace {

/// One file in memory, whatever the path.
class one_file final : public file_system {
  public:
    std::string bytes;

    result<std::unique_ptr<readable_file>> open(const std::string&) override {
        struct reader final : readable_file {
            explicit reader(const std::string& from) : from_(from) {}
            result<std::uint64_t> size() override { return from_.size(); }
            result<void> read_at(std::uint64_t offset, std::span<std::byte> target) override {
                if (offset > from_.size() || target.size() > from_.size() - offset)
                    return failure{errc::corrupt, "the file ends"};
                if (!target.empty())
                    std::memcpy(target.data(), from_.data() + offset, target.size());
                return {};
            }
            const std::string& from_;
        };
        return std::unique_ptr<readable_file>(new reader(bytes));
    }
    result<bool> exists(const std::string&) override { return true; }
    result<std::unique_ptr<writable_file>> create(const std::string&) override {
        struct writer final : writable_file {
            explicit writer(std::string& to) : to_(to) {}
            result<void> write(std::span<const std::byte> more) override {
                to_.append(reinterpret_cast<const char*>(more.data()), more.size());
                return {};
            }
            result<void> sync() override { return {}; }
            std::string& to_;
        };
        bytes.clear();
        return std::unique_ptr<writable_file>(new writer(bytes));
    }
    result<std::unique_ptr<writable_file>> append(const std::string& path) override {
        return create(path);
    }
    result<void> rename(const std::string&, const std::string&) override { return {}; }
    result<void> link(const std::string&, const std::string&) override { return {}; }
    result<void> unlink(const std::string&) override { return {}; }
    result<void> sync_directory(const std::string&) override { return {}; }
    result<void> make_directory(const std::string&) override { return {}; }
    result<void> remove_directory(const std::string&) override { return {}; }
    result<std::vector<directory_entry>> list(const std::string&) override {
        return std::vector<directory_entry>{};
    }
    result<std::unique_ptr<directory_lock>> lock(const std::string& path) override {
        return failure{errc::locked, path};
    }
    result<disk_space> space(const std::string&) override { return disk_space{}; }
};

struct bench {
    kv_layout layout = small_layout();
    block_format format{layout, kv_part::full};
    block_pool pool{layout, layout.frame_bytes() * 16};
    std::vector<token_id> tokens = some_tokens(block_tokens);
    block_identity identity{fingerprint_of("model"), "salt", {}, tokens};
    one_file files;
    std::string whole;

    bench() {
        const auto state = make_state(pool, "a", tokens);
        ASSERT(write_block_file(files, "f", identity, format, *state.blocks[0].full));
        whole = files.bytes;
    }
    void check() {
        const auto read = read_block_file(files, "f", identity, format, pool);
        if (!read)
            ASSERT(read.error().code == errc::corrupt || read.error().code == errc::incompatible);
        else
            ASSERT(holds(layout, {{read->block, nullptr}}, tokens, block_tokens));
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    static bench files;
    files.files.bytes.assign(reinterpret_cast<const char*>(data), count);
    files.check();
    // Four bytes an edit: where, what, and how many bytes are cut out or put in there.
    files.files.bytes = files.whole;
    for (; count >= 4; data += 4, count -= 4) {
        std::string& bytes = files.files.bytes;
        const std::size_t place = data[0] | static_cast<std::size_t>(data[1]) << 8;
        const std::size_t at = place % (bytes.size() + 1);
        if (data[3] < 128 && at < bytes.size()) bytes[at] = static_cast<char>(data[2]);
        if (data[3] >= 128 && data[3] < 192) bytes.erase(at, data[3] - 127u);
        if (data[3] >= 192) bytes.insert(at, data[3] - 191u, static_cast<char>(data[2]));
        if (bytes.empty()) break;
    }
    files.check();
    return 0;
}
