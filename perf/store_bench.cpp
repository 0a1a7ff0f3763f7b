// How long a cache directory takes to open. The agents have 8,192 tokens each in 32 block files;
// the manifests are real, the block files are empty, since opening looks at nothing but their names
// and sizes. The directory is made below TMPDIR, from memory pages: what is timed has no disk in
// it.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "storage/agent_cache_store.hpp"
#include "storage/block_file.hpp"
#include "storage/checksum.hpp"
#include "storage/manifest.hpp"

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
        agent.tokens.push_back(static_cast<token_id>((i * 7919 + static_cast<std::size_t>(number)) %
                                                     128000));
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
        std::ofstream(directory / manifest_path("salt", agent.agent), std::ios::binary)
            << encode_manifest(agent)->bytes;
        for (const manifest_block& block : agent.blocks) {
            fs::create_directories(directory / block_directory(block.name));
            std::ofstream(directory / block_path(block.name), std::ios::binary) << "KV";
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

}  // namespace
}  // namespace semantic::storage

BENCHMARK_MAIN();
