// SPDX-License-Identifier: Apache-2.0
// capacity: what a model's K and V cost, from its geometry alone.

#include "engine/model/capacity.hpp"

#include <cstdio>

#include "engine/model/config/model_config.hpp"
#include "server/eval/command_line.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::eval {

namespace po = boost::program_options;

namespace {

constexpr int block_tokens = 256;
constexpr int lengths[] = {4096, 16384};

unsigned long long shown(std::uint64_t number) { return number; }

}  // namespace

int run_capacity(const command& self, const std::vector<std::string>& words) {
    options given(self);
    given.add()("kv-bits", po::value<std::string>()->default_value("16,8,4")->value_name("LIST"),
                "KV recipes, one line for each");
    given.add()("memory-mb", po::value<int>()->default_value(8192)->value_name("MB"),
                "of the KV pool, in MiB");
    if (!given.parse(words)) return 0;
    const auto recipes = parse_kv_list("kv-bits", given.get<std::string>("kv-bits"));
    const auto memory = static_cast<std::uint64_t>(given.number("memory-mb", 1, 1 << 24)) << 20;
    const auto config = take(engine::model_config::load(given.model_directory()));
    const std::uint64_t states = engine::kept_state_bytes(config);
    if (states > 0)
        std::printf(
            "An agent keeps the newest two states of the recurrent layers, %llu bytes, "
            "in addition to its K and V.\n\n",
            shown(states));
    std::printf(
        "| KV | bytes per token | past the windows | in frames | past the windows | "
        "agents of %d | of %d |\n",
        lengths[0], lengths[1]);
    std::printf("|---|---|---|---|---|---|---|\n");
    for (const std::string& name : recipes) {
        const auto recipe = storage::find_kv_recipe(name);
        if (!recipe) throw bad_input("--kv-bits: a default is measured, which needs the weights");
        const auto layout = engine::make_kv_layout(config, *recipe, block_tokens);
        std::printf("| %s | %llu | %llu | %llu | %llu |", name.c_str(),
                    shown(layout.bytes_per_token()), shown(engine::lasting_bytes_per_token(layout)),
                    shown(engine::pool_bytes_per_token(layout)),
                    shown(engine::lasting_pool_bytes_per_token(layout)));
        for (const int tokens : lengths)
            std::printf(" %llu |", shown(engine::conversations_in(layout, tokens, memory, states)));
        std::printf("\n");
    }
    return 0;
}

}  // namespace semantic::eval
