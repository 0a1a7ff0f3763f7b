// SPDX-License-Identifier: Apache-2.0
// How long a cache directory takes to open, and how fast an agent comes back from it. For opening,
// the agents have 8,192 tokens each in 32 block files; the manifests are real, the block files all
// but empty, since opening looks at nothing but their names and sizes. Directories are made below
// TMPDIR and stay in the page cache: what is timed has no disk in it.

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/block_file.hpp"
#include "storage/disk/manifest.hpp"
#include "storage/files/checksum.hpp"

namespace semantic::storage {
namespace {

namespace fs = std::filesystem;

constexpr int block_tokens = 256;
constexpr std::size_t agent_tokens = 8192;

manifest agent_with(const block_hash& fingerprint, int number) {
    manifest agent;
    agent.fingerprint = fingerprint;
    agent.agent = "agent-" + std::to_string(number);
    for (std::size_t i = 0; i < agent_tokens; ++i) {
        agent.tokens.push_back(
            static_cast<token_id>((i * 7919 + static_cast<std::size_t>(number)) % 128000));
        agent.text += "word";
        agent.token_ends.push_back(static_cast<std::uint32_t>(agent.text.size()));
    }
    for (const block_hash& name : block_names(fingerprint, "salt", agent.tokens, block_tokens))
        agent.blocks.push_back({name, block_tokens});
    return agent;
}

fs::path make_directory(const block_hash& fingerprint, int agents) {
    std::string name = (fs::temp_directory_path() / "semantic-store-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    const fs::path directory = name;
    fs::create_directories(directory / "agents");
    for (int i = 0; i < agents; ++i) {
        const manifest agent = agent_with(fingerprint, i);
        std::ofstream(directory / manifest_path("salt", agent.agent, fingerprint), std::ios::binary)
            << encode_manifest(agent)->bytes;
        for (const manifest_block& block : agent.blocks) {
            fs::create_directories(directory / block_directory(block.name));
            std::ofstream(directory / block_path(block.name, kv_part::full), std::ios::binary)
                << "KV";
        }
    }
    return directory;
}

void open_directory(benchmark::State& state) {
    const auto agents = static_cast<int>(state.range(0));
    const block_hash fingerprint = checksum128("model");
    const fs::path directory = make_directory(fingerprint, agents);
    const kv_layout layout({{1, 64, 64, 0}}, {4, 64}, block_tokens);
    block_pool pool(layout, layout.frame_bytes() * 4);
    for (auto each : state) {
        store_options options{directory.string(), fingerprint, "salt", nullptr,
                              std::uint64_t{1} << 40};
        auto store = agent_cache_store::open(options, pool);
        if (!store || (*store)->list().size() != static_cast<std::size_t>(agents))
            state.SkipWithError("not every agent was found");
        state.PauseTiming();  // closing is not opening
        if (store) (*store).reset();
        state.ResumeTiming();
    }
    fs::remove_all(directory);
}
BENCHMARK(open_directory)
    ->Arg(1000)
    ->Arg(10000)
    ->Iterations(3)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// One agent of a model of 135 M parameters, on disk, and what its files hold.
class agent_on_disk {
  public:
    explicit agent_on_disk(int tokens) {
        std::string name = (fs::temp_directory_path() / "semantic-store-bench-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) std::abort();
        directory_ = name;
        store_ = std::move(
            *agent_cache_store::open({name, checksum128("model"), "salt", nullptr, 0}, pool_));
        agent_state state{*id_, {}, {}, {}, {}, {}, {}, {}};
        for (int i = 0; i < tokens; ++i) {
            state.tokens.push_back(i % 49152);
            state.text += "word";
            state.token_ends.push_back(static_cast<std::uint32_t>(state.text.size()));
        }
        const auto blocks = *kv_block::make_many(pool_, kv_part::full,
                                                 static_cast<std::size_t>(tokens / block_tokens));
        std::uint8_t next = 0;
        for (const auto& block : blocks)
            for (int layer = 0; layer < layout_.layer_count(); ++layer)
                std::fill_n(block->frame(layer), layout_.frame_bytes(), std::byte{++next});
        for (const auto& block : blocks) state.blocks.push_back({block, nullptr});
        store_->put(std::move(state));
        if (!store_->save(*id_)) std::abort();
    }
    ~agent_on_disk() {
        store_.reset();
        fs::remove_all(directory_);
    }
    /// Returns: bytes read from disk.
    std::uint64_t restore() {
        store_->evict(*id_);
        const auto state = store_->find(*id_);
        return store_->restore(*state, static_cast<int>(state->tokens.size()))->bytes_read;
    }
    /// Reads the same files and looks at nothing.
    std::uint64_t read_plainly() const {
        std::uint64_t bytes = 0;
        for (const auto& each : fs::recursive_directory_iterator(directory_ / "blocks"))
            if (each.is_regular_file())
                bytes += read_whole(posix_file_system(), each.path().string(), 1 << 30)->size();
        return bytes;
    }

  private:
    const kv_layout layout_{
        std::vector<kv_layer>(30, kv_layer{3, 64, 64, 0}), {4, 64}, block_tokens};
    block_pool pool_{layout_, layout_.frame_bytes() * 30 * 70};
    const result<agent_id> id_ = agent_id::parse("agent");
    fs::path directory_;
    std::unique_ptr<agent_cache_store> store_;
};

void restore_agent(benchmark::State& state) {
    agent_on_disk agent(static_cast<int>(state.range(0)));
    std::uint64_t bytes = 0;
    for (auto each : state) bytes += agent.restore();
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}
BENCHMARK(restore_agent)->Arg(1024)->Arg(4096)->Arg(16384)->UseRealTime()->MeasureProcessCPUTime();

void read_files(benchmark::State& state) {
    const agent_on_disk agent(static_cast<int>(state.range(0)));
    std::uint64_t bytes = 0;
    for (auto each : state) bytes += agent.read_plainly();
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}
BENCHMARK(read_files)->Arg(1024)->Arg(4096)->Arg(16384)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace semantic::storage

BENCHMARK_MAIN();
