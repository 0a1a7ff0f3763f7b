// SPDX-License-Identifier: Apache-2.0
// Writes a model of real geometry with random weights, for the other programs to measure.
// Run: build/bin/make_model GEOMETRY DIR-OR-FILE [--bits 4|8|16] [--layers N] [--seed N]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <string_view>

#include "perf/random/random_gemma.hpp"
#include "perf/random/random_hybrid.hpp"
#include "perf/random/random_model.hpp"

namespace {

using namespace semantic::perf;

constexpr const char* tokenizer = SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny";

int usage() {
    std::fprintf(stderr,
                 "usage: make_model GEOMETRY DIR [--bits 4|8|16] [--layers N] [--seed N]\n"
                 "Writes a Llama model with random weights to DIR. Geometries:\n");
    for (const model_geometry& g : known_geometries()) {
        std::fprintf(stderr, "  %-5.*s %d layers, hidden %d, %d heads, %d KV heads of %d\n",
                     static_cast<int>(g.name.size()), g.name.data(), g.layers, g.hidden, g.heads,
                     g.kv_heads, g.head_dim);
    }
    std::fprintf(stderr,
                 "       make_model GEOMETRY FILE.gguf [--layers N] [--seed N]\n"
                 "Writes a hybrid of Qwen3.5's architecture in Q4_K. Geometries:\n");
    for (const hybrid_geometry& g : known_hybrids()) {
        std::fprintf(stderr, "  %.*s %d layers, hidden %d\n", static_cast<int>(g.name.size()),
                     g.name.data(), g.layers, g.hidden);
    }
    std::fprintf(stderr,
                 "       make_model GEOMETRY FILE.gguf [--layers N] [--seed N]\n"
                 "Writes a model of Gemma 4's architecture in Q4_K; N ends with a full layer, and "
                 "is whole where layers read others' keys. Geometries:\n");
    for (const gemma_geometry& g : known_gemmas()) {
        std::fprintf(stderr, "  %.*s %d layers, hidden %d\n", static_cast<int>(g.name.size()),
                     g.name.data(), g.layers, g.hidden);
    }
    return 2;
}

/// Reads `--layers N`, where `is_cut` allows so many, and `--seed N`. Returns: the seed; nothing
/// for anything else.
std::optional<unsigned> parse_cut(int argc, char** argv, int& layers,
                                  const std::function<bool(int)>& is_cut) {
    unsigned seed = 1;
    for (int i = 3; i < argc; i += 2) {
        const std::string_view name = argv[i];
        const int value = std::atoi(argv[i + 1]);
        if (name == "--layers" && value >= 1 && value <= layers && is_cut(value)) {
            layers = value;
        } else if (name == "--seed" && value >= 0) {
            seed = static_cast<unsigned>(value);
        } else {
            return std::nullopt;
        }
    }
    return seed;
}

int make_gemma(gemma_geometry geometry, int argc, char** argv) {
    const auto seed = parse_cut(argc, argv, geometry.layers, [&](int layers) {
        return layers % geometry.full_every == 0 && geometry.sharing == 0;
    });
    if (!seed) return usage();
    write_random_gemma(geometry, tokenizer, *seed, argv[2]);
    return 0;
}

int make_hybrid(hybrid_geometry geometry, int argc, char** argv) {
    const auto seed = parse_cut(argc, argv, geometry.layers, [](int) { return true; });
    if (!seed) return usage();
    write_random_hybrid(geometry, tokenizer, *seed, argv[2]);
    return 0;
}

int run(int argc, char** argv) {
    if (argc < 3 || argc % 2 == 0) return usage();
    for (const hybrid_geometry& g : known_hybrids())
        if (g.name == argv[1]) return make_hybrid(g, argc, argv);
    for (const gemma_geometry& g : known_gemmas())
        if (g.name == argv[1]) return make_gemma(g, argc, argv);
    const auto all = known_geometries();
    const auto found = std::ranges::find(all, std::string_view(argv[1]), &model_geometry::name);
    if (found == all.end()) return usage();
    random_model_options options;
    options.geometry = *found;
    options.tokenizer = tokenizer;
    for (int i = 3; i < argc; i += 2) {
        const std::string_view name = argv[i];
        const int value = std::atoi(argv[i + 1]);
        if (name == "--bits" && (value == 4 || value == 8 || value == 16)) {
            options.bits = value;
        } else if (name == "--layers" && value >= 1 && value <= found->layers) {
            options.geometry.layers = value;
        } else if (name == "--seed" && value >= 0) {
            options.seed = static_cast<unsigned>(value);
        } else {
            return usage();
        }
    }
    write_random_model(options, argv[2]);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "make_model: %s\n", error.what());
        return 1;
    }
}
