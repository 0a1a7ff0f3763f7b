// SPDX-License-Identifier: Apache-2.0
// What packed weights on disk promise of a model: the same bits, and no others.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "engine/model/compute_arena.hpp"
#include "engine/model/weights/weight_files.hpp"
#include "storage/files/checksum.hpp"
#include "storage/files/safetensors.hpp"
#include "tests/engine/model/gguf_twin.hpp"
#include "tests/engine/model/packed/packed_model.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using tests::files_with;
using tests::flip_bit;
using tests::load_packed;
using tests::load_plain;
using tests::packed_bytes;
using tests::packed_options;

std::string golden(const std::string& name) {
    return SEMANTIC_SOURCE_DIR "/tests/golden/models/" + name;
}

/// Loads the model in every way and compares each with packing into memory.
void expect_same_bits(const std::string& model, weight_form form = weight_form::native) {
    const tests::temp_dir dir;
    const auto wanted = load_plain(model, form);
    ASSERT_TRUE(wanted) << wanted.error().what;
    const auto expect = [&](weights_access access, bool is_first) {
        packed_folder folder(storage::posix_file_system(), packed_options(dir / "packed"));
        const auto got = load_packed(model, folder, access, form);
        ASSERT_TRUE(got) << got.error().what;
        EXPECT_EQ(got->origin().trouble, "");
        EXPECT_EQ(got->origin().is_first, is_first);
        EXPECT_EQ(got->origin().is_mapped, access == weights_access::mapped);
        EXPECT_EQ(got->hash(), wanted->hash());
        EXPECT_EQ(got->bytes(), wanted->bytes());
        EXPECT_TRUE(packed_bytes(*got) == packed_bytes(*wanted)) << model;
    };
    expect(weights_access::mapped, true);
    expect(weights_access::mapped, false);
    expect(weights_access::read, false);
    std::filesystem::remove_all(dir / "packed");
    expect(weights_access::read, true);
}

TEST(packed_weights, have_the_same_bits_packed_now_or_before_and_mapped_or_read) {
    for (const char* name : {"smollm2", "llama31", "qwen25", "mlx-4bit", "mlx-8bit", "gptoss",
                             "gptoss-mxfp4", "qwen3moe", "deepseek2", "deepseek2-mlx-8bit"})
        expect_same_bits(golden(name));
    for (const weight_form form : {weight_form::q8, weight_form::q4})
        expect_same_bits(golden("smollm2"), form);
}

TEST(packed_weights, have_the_same_bits_of_every_type_of_gguf_blocks) {
    using storage::gguf_type;
    for (const gguf_type type :
         {gguf_type::q4_0, gguf_type::q4_1, gguf_type::q5_0, gguf_type::q5_1, gguf_type::q8_0,
          gguf_type::q2_k, gguf_type::q3_k, gguf_type::q4_k, gguf_type::q5_k, gguf_type::q6_k,
          gguf_type::iq4_nl, gguf_type::iq4_xs, gguf_type::mxfp4}) {
        const tests::temp_dir dir;
        const auto twin = tests::random_twin("qwen3_moe", type);
        tests::write_bytes(dir / "model.gguf", tests::gguf_of(twin).bytes());
        expect_same_bits(dir / "model.gguf");
    }
}

/// A Llama of one layer whose embedding is 40 MB: more than what is packed at once.
void write_wide_model(const std::string& directory) {
    std::ofstream(directory + "/config.json") << R"({"model_type": "llama", "hidden_size": 512,
        "num_attention_heads": 8, "vocab_size": 20000, "intermediate_size": 1024,
        "num_hidden_layers": 1, "tie_word_embeddings": true})";
    const std::string layer = "model.layers.0.";
    const std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes = {
        {"model.embed_tokens.weight", {20000, 512}},
        {layer + "input_layernorm.weight", {512}},
        {layer + "self_attn.q_proj.weight", {512, 512}},
        {layer + "self_attn.k_proj.weight", {512, 512}},
        {layer + "self_attn.v_proj.weight", {512, 512}},
        {layer + "self_attn.o_proj.weight", {512, 512}},
        {layer + "post_attention_layernorm.weight", {512}},
        {layer + "mlp.gate_proj.weight", {1024, 512}},
        {layer + "mlp.up_proj.weight", {1024, 512}},
        {layer + "mlp.down_proj.weight", {512, 1024}},
        {"model.norm.weight", {512}}};
    std::vector<std::vector<float>> values;
    std::uint32_t seed = 7;
    for (const auto& [name, shape] : shapes) {
        std::size_t count = 1;
        for (const std::int64_t each : shape) count *= static_cast<std::size_t>(each);
        std::vector<float>& numbers = values.emplace_back(count);
        for (float& number : numbers) {
            seed = seed * 1664525u + 1013904223u;
            number = static_cast<float>(seed >> 8) / 16777216.0f - 0.5f;
        }
    }
    std::vector<storage::tensor_to_write> list;
    for (std::size_t i = 0; i < shapes.size(); ++i)
        list.push_back({shapes[i].first, storage::dtype::f32, shapes[i].second,
                        std::as_bytes(std::span(values[i]))});
    std::ofstream out(directory + "/model.safetensors", std::ios::binary);
    out << storage::safetensors_header(list, {});
    for (const auto& each : values)
        out.write(reinterpret_cast<const char*>(each.data()),
                  static_cast<std::streamsize>(each.size() * sizeof(float)));
}

TEST(packed_weights, have_the_same_bits_where_they_are_packed_in_several_windows) {
    const tests::temp_dir dir;
    write_wide_model(dir.path());
    expect_same_bits(dir.path());
    expect_same_bits(dir.path(), weight_form::q4);
}

// A change of a packed matrix's record, or of its position, changes this sum and must raise
// packed_layout_version: else a file of the former layout would be read as one of the new.
TEST(packed_weights, have_the_layout_of_their_version) {
    ASSERT_EQ(packed_layout_version, 1u);
    const auto sum = [](const std::string& model, weight_form form) {
        return storage::checksum128(packed_bytes(*load_plain(golden(model), form))).hex();
    };
    EXPECT_EQ(sum("smollm2", weight_form::native), "b6e19f54530428f379e4fa236a5d29c0");
    EXPECT_EQ(sum("smollm2", weight_form::q8), "a06ac5885dd7b6f4df231948116743c1");
    EXPECT_EQ(sum("smollm2", weight_form::q4), "3bfdaf5d038512ed6cdca416e19e96a9");
    EXPECT_EQ(sum("gptoss-mxfp4", weight_form::native), "bf803c43b7b0302309bdc83c31ca7cf6");
}

/// A model of the test's own, with a folder of packed weights next to it.
class packed_model_test : public testing::Test {
  protected:
    packed_model_test() {
        std::filesystem::copy(golden("smollm2"), model_);
        wanted_ = packed_bytes(*load_plain(model_));
    }
    storage::result<model_weights> load() {
        packed_folder folder(storage::posix_file_system(), options_);
        return load_packed(model_, folder);
    }
    bool knows_hashes(const packed_folder& folder) const {
        const auto files = open_weight_files(model_);
        return folder.find_hashes({{files->front().path(), files->front().bytes()}}).has_value();
    }
    std::string packed_path() const {
        const auto found = files_with(options_.directory, ".packed");
        EXPECT_EQ(found.size(), 1u);
        return found.empty() ? "" : found[0];
    }
    /// The next load finds a fault in the packed file and packs the model again.
    void expect_made_again() {
        const auto got = load();
        ASSERT_TRUE(got) << got.error().what;
        EXPECT_TRUE(got->origin().is_first);
        EXPECT_NE(got->origin().trouble, "");
        EXPECT_TRUE(packed_bytes(*got) == wanted_);
        EXPECT_FALSE(load()->origin().is_first);
    }

    const tests::temp_dir dir_;
    const std::string model_ = dir_ / "model";
    packed_folder_options options_ = packed_options(dir_ / "packed");
    std::string wanted_;
};

TEST_F(packed_model_test, a_flipped_bit_is_found_wherever_it_is) {
    ASSERT_TRUE(load());
    const std::uint64_t bytes = std::filesystem::file_size(packed_path());
    for (const std::uint64_t at : {std::uint64_t{0}, bytes / 2, bytes - 200, bytes - 1}) {
        flip_bit(packed_path(), at);
        expect_made_again();
    }
}

TEST_F(packed_model_test, a_file_of_another_length_is_not_used) {
    ASSERT_TRUE(load());
    std::filesystem::resize_file(packed_path(), std::filesystem::file_size(packed_path()) - 1);
    expect_made_again();
    std::ofstream(packed_path(), std::ios::app) << 'x';
    expect_made_again();
    std::filesystem::resize_file(packed_path(), 0);
    expect_made_again();
}

TEST_F(packed_model_test, a_file_of_other_weights_under_its_name_is_not_used) {
    ASSERT_TRUE(load());
    packed_folder others(storage::posix_file_system(), packed_options(dir_ / "others"));
    ASSERT_TRUE(load_packed(golden("qwen25"), others));
    std::filesystem::copy_file(files_with(dir_ / "others", ".packed")[0], packed_path(),
                               std::filesystem::copy_options::overwrite_existing);
    expect_made_again();
}

TEST_F(packed_model_test, a_changed_source_is_noticed) {
    const auto first = load();
    ASSERT_TRUE(first);
    const std::string source = model_ + "/model.safetensors";
    const auto time = std::filesystem::last_write_time(source);
    flip_bit(source, std::filesystem::file_size(source) - 4);
    std::filesystem::last_write_time(source, time);  // as one does who wants to hide it
    const auto second = load();
    ASSERT_TRUE(second);
    EXPECT_TRUE(second->origin().is_first);
    EXPECT_NE(second->hash(), first->hash());
    EXPECT_EQ(files_with(options_.directory, ".packed").size(), 2u);
}

TEST_F(packed_model_test, a_source_that_was_just_written_is_hashed_again) {
    options_.settle_time = std::chrono::hours(1);
    ASSERT_TRUE(load());
    // It is packed already, but its hash has to be computed to know that.
    const auto again = load();
    ASSERT_TRUE(again);
    EXPECT_TRUE(packed_bytes(*again) == wanted_);
    packed_folder folder(storage::posix_file_system(), options_);
    EXPECT_FALSE(knows_hashes(folder));
}

TEST_F(packed_model_test, verifying_reads_the_sources_and_every_byte_of_what_was_packed) {
    ASSERT_TRUE(load());
    options_.verify_all = true;
    packed_folder folder(storage::posix_file_system(), options_);
    EXPECT_FALSE(knows_hashes(folder));
    const auto again = load();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->origin().trouble, "");
    EXPECT_FALSE(again->origin().is_first);
    EXPECT_TRUE(packed_bytes(*again) == wanted_);
}

TEST_F(packed_model_test, a_budget_of_one_byte_too_little_keeps_nothing_and_loads_all_the_same) {
    options_.budget_bytes = packed_file_bytes(load_plain(model_)->bytes());
    ASSERT_TRUE(load());
    EXPECT_EQ(std::filesystem::file_size(packed_path()), options_.budget_bytes);
    std::filesystem::remove_all(options_.directory);
    --options_.budget_bytes;
    const auto got = load();
    ASSERT_TRUE(got);
    EXPECT_NE(got->origin().trouble.find(std::to_string(options_.budget_bytes)), std::string::npos)
        << got->origin().trouble;
    EXPECT_FALSE(got->origin().is_mapped);
    EXPECT_TRUE(packed_bytes(*got) == wanted_);
    EXPECT_TRUE(files_with(options_.directory, ".packed").empty());
}

TEST_F(packed_model_test, a_budget_that_has_become_smaller_is_kept_at_the_next_load) {
    ASSERT_TRUE(load());
    const std::uint64_t bytes = std::filesystem::file_size(packed_path());
    options_.budget_bytes = bytes;
    EXPECT_FALSE(load()->origin().is_first);
    options_.budget_bytes = bytes - 1;
    std::int64_t told = 0;
    options_.on_change = [&told](std::int64_t change) { told += change; };
    EXPECT_FALSE(load()->origin().is_mapped);
    EXPECT_TRUE(files_with(options_.directory, ".packed").empty());
    EXPECT_LE(told, -static_cast<std::int64_t>(bytes));
}

TEST_F(packed_model_test, what_was_used_longest_ago_goes_first_unless_it_is_in_use) {
    const auto load_of = [&](const std::string& name) {
        packed_folder folder(storage::posix_file_system(), options_);
        auto got = load_packed(name, folder);
        EXPECT_TRUE(got) << (got ? "" : got.error().what);
        return std::move(*got);
    };
    const auto held_of = [&](const model_weights& weights) {
        return std::filesystem::exists(options_.directory + "/" + weights.hash().hex() + ".packed");
    };
    const auto first = load_of(golden("qwen25")), second = load_of(golden("mistral"));
    std::uint64_t both = 0;
    for (const auto& each : files_with(options_.directory, ".packed"))
        both += std::filesystem::file_size(each);
    options_.budget_bytes = both;
    const auto third = load_of(golden("llama31"));  // both are in use: nothing may go
    EXPECT_TRUE(held_of(first) && held_of(second) && !held_of(third));
    EXPECT_NE(third.origin().trouble, "");
    {
        const storage::block_hash used = load_plain(golden("qwen25"))->hash();
        const tests::temp_dir other;
        options_.directory = other.path();
        const auto oldest = load_of(golden("qwen25")).hash(),
                   older = load_of(golden("mistral")).hash();
        ASSERT_EQ(oldest, used);
        ASSERT_FALSE(load_of(golden("qwen25")).origin().is_first);  // used once more
        options_.budget_bytes = both;
        const auto newest = load_of(golden("llama31"));
        EXPECT_EQ(newest.origin().trouble, "");
        EXPECT_TRUE(std::filesystem::exists(other / (oldest.hex() + ".packed")));
        EXPECT_FALSE(std::filesystem::exists(other / (older.hex() + ".packed")));
    }
}

TEST_F(packed_model_test, the_share_of_the_file_system_that_stays_free_stays_free) {
    std::filesystem::create_directory(dir_ / "faulty");
    tests::fault_file_system files(dir_ / "faulty");
    options_.directory = dir_ / "faulty";
    const std::uint64_t wanted = packed_file_bytes(load_plain(model_)->bytes());
    const auto load_here = [&] {
        packed_folder folder(files, options_);
        return load_packed(model_, folder);
    };
    files.set_space({.total_bytes = 20'000'000, .free_bytes = 1'000'000 + wanted - 1});
    EXPECT_NE(load_here()->origin().trouble, "");
    files.set_space({.total_bytes = 20'000'000, .free_bytes = 1'000'000 + wanted});
    EXPECT_EQ(load_here()->origin().trouble, "");
}

TEST_F(packed_model_test, every_change_of_bytes_is_told) {
    std::int64_t told = 0, most = 0;
    options_.on_change = [&](std::int64_t change) {
        told += change;
        most = std::max(most, told);
    };
    const auto held = [&] {
        return static_cast<std::int64_t>(
            *storage::bytes_below(storage::posix_file_system(), options_.directory));
    };
    ASSERT_TRUE(load());
    EXPECT_EQ(told, held());
    EXPECT_GE(most, static_cast<std::int64_t>(std::filesystem::file_size(packed_path())));
    flip_bit(packed_path(), 0);
    ASSERT_TRUE(load());
    EXPECT_EQ(told, held());
}

// Trouble at every single operation on the disk, one after the other: the model is loaded, with the
// right bits, then and at the next start; and what is in the folder is whole or absent.
TEST_F(packed_model_test, is_whole_or_absent_after_a_power_cut_at_any_operation) {
    for (const tests::fault kind : {tests::fault::power_cut, tests::fault::no_space,
                                    tests::fault::io_error, tests::fault::torn_write}) {
        for (int n = 1;; ++n) {
            ASSERT_LT(n, 200);
            const tests::temp_dir dir;
            tests::fault_file_system files(dir.path());
            options_.directory = dir / "packed";
            files.fail_at(n, kind);
            {
                packed_folder folder(files, options_);
                const auto got = load_packed(model_, folder);
                ASSERT_TRUE(got) << got.error().what;
                EXPECT_TRUE(packed_bytes(*got) == wanted_);
            }
            const bool has_fired = files.has_fired();
            if (kind == tests::fault::power_cut && has_fired)
                files.restart(n % 3 == 0   ? tests::lost::everything
                              : n % 3 == 1 ? tests::lost::at_random
                                           : tests::lost::nothing,
                              static_cast<unsigned>(n));
            files.reset();
            for (const std::string& path : files_with(options_.directory, ".packed"))
                EXPECT_EQ(std::filesystem::file_size(path),
                          packed_file_bytes(load_plain(model_)->bytes()));
            packed_folder folder(files, options_);
            const auto again = load_packed(model_, folder);
            ASSERT_TRUE(again) << again.error().what;
            EXPECT_EQ(again->origin().trouble, "") << n;
            EXPECT_TRUE(packed_bytes(*again) == wanted_);
            EXPECT_TRUE(again->origin().is_mapped);
            EXPECT_TRUE(files_with(options_.directory, ".tmp").empty());
            if (!has_fired) break;
        }
    }
}

// TBB leaves out work in silence where something else in the arena throws: what was packed by then
// is no model.
TEST(packed_weights, that_are_given_up_half_way_are_not_kept) {
    const tests::temp_dir dir;
    write_wide_model(dir.path());
    const std::string wanted = packed_bytes(*load_plain(dir.path()));
    for (int milliseconds = 0; milliseconds < 100; milliseconds += 10) {
        packed_folder folder(storage::posix_file_system(), packed_options(dir / "packed"));
        compute_arena arena(2);
        const auto load = [&] { (void)load_packed(dir.path(), folder); };
        const auto fail = [&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
            throw std::runtime_error("no tokenizer");
        };
        EXPECT_THROW(arena.run_both(load, fail), std::runtime_error);
        const auto again = load_packed(dir.path(), folder);
        ASSERT_TRUE(again) << again.error().what;
        EXPECT_EQ(again->origin().trouble, "");
        EXPECT_TRUE(packed_bytes(*again) == wanted) << milliseconds;
        std::filesystem::remove_all(dir / "packed");
    }
}

TEST_F(packed_model_test, another_process_that_writes_there_is_left_alone) {
    ASSERT_TRUE(storage::posix_file_system().make_directory(options_.directory));
    auto lock = storage::posix_file_system().lock(options_.directory);
    ASSERT_TRUE(lock);
    const auto second = load();
    ASSERT_TRUE(second);
    EXPECT_NE(second->origin().trouble, "");
    EXPECT_TRUE(packed_bytes(*second) == wanted_);
    lock->reset();
    EXPECT_EQ(load()->origin().trouble, "");
    EXPECT_FALSE(load()->origin().is_first);
}

}  // namespace
}  // namespace semantic::engine
