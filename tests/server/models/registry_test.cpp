// SPDX-License-Identifier: Apache-2.0
#include "server/models/registry.hpp"

#include <gtest/gtest.h>

#include <map>

namespace semantic::server {
namespace {

/// What find_model() would find.
const std::map<std::string, found_model> findable{
    {"/m/a.gguf", {"/m/a.gguf", "a"}}, {"a", {"/m/a.gguf", "a"}},
    {"/m/b", {"/m/b", "b"}},           {"/other/a", {"/other/a", "a"}},
    {"org/c", {"/hub/c", "org/c"}},    {"/tiny", {"/tiny", "semantic-tiny"}},
};

registry_sources sources() {
    registry_sources from;
    from.models_file_name = "m.yaml";
    from.embedded = "/tiny";
    from.find = [](const std::string& name) -> storage::result<found_model> {
        const auto at = findable.find(name);
        if (at != findable.end()) return at->second;
        return storage::failure{storage::errc::not_found, "no " + name};
    };
    return from;
}

listed_model listed(const std::string& name, const std::string& path = {},
                    std::vector<std::string> aliases = {}) {
    return {name, path, std::move(aliases), {}};
}

/// "a=/m/a.gguf *b=/m/b": the star is in front of the one to start with.
std::string made(const registry_sources& from) {
    const auto all = make_registry(from);
    if (!all) return all.error().what;
    std::string text;
    for (std::size_t i = 0; i < all->models.size(); ++i) {
        const registered_model& each = all->models.at(i);
        text.append(i == 0 ? "" : " ").append(i == all->models.start() ? "*" : "");
        text.append(each.name).append("=").append(each.fault.empty() ? each.path : "?");
    }
    return text;
}

TEST(registry, without_a_word_it_is_the_embedded_model) {
    EXPECT_EQ(made(sources()), "*semantic-tiny=/tiny");
    registry_sources without = sources();
    without.embedded.clear();
    EXPECT_NE(made(without).find("name one with --model"), std::string::npos);
}

TEST(registry, model_alone_is_the_only_one_as_ever) {
    registry_sources from = sources();
    from.wanted = "org/c";
    EXPECT_EQ(made(from), "*org/c=/hub/c");
    from.wanted = "nowhere";
    EXPECT_EQ(made(from), "no nowhere");
}

TEST(registry, of_a_folder_the_only_model_starts_and_of_several_the_named_one) {
    registry_sources from = sources();
    from.folder = {{"/m/a.gguf", "a"}};
    EXPECT_EQ(made(from), "*a=/m/a.gguf");
    from.folder = {{"/m/a.gguf", "a"}, {"/m/b", "b"}};
    EXPECT_EQ(made(from),
              "--models-dir has several models, name the one to start with by --model: a, b");
    from.wanted = "b";
    EXPECT_EQ(made(from), "a=/m/a.gguf *b=/m/b");
    from.wanted = "/m/../m/b/";
    EXPECT_EQ(made(from), "no /m/../m/b/") << "as find_model() has it";
    from.wanted = "org/c";
    EXPECT_EQ(made(from), "a=/m/a.gguf b=/m/b *org/c=/hub/c");
    from.wanted = "/other/a";
    EXPECT_EQ(made(from),
              "--model /other/a would be called a, which is the name of another model already");
}

TEST(registry, the_file_comes_first_and_speaks_for_the_folder) {
    registry_sources from = sources();
    from.file.models = {listed("coder", "/m/a.gguf", {"gpt-5"}), listed("b")};
    from.folder = {{"/m/a.gguf", "a"}, {"/m/b", "b"}, {"/m/d", "d"}};
    EXPECT_EQ(made(from), "*coder=/m/a.gguf b=/m/b d=/m/d") << "each model once";
    from.file.default_name = "b";
    EXPECT_EQ(made(from), "coder=/m/a.gguf *b=/m/b d=/m/d");
    from.wanted = "gpt-5";
    EXPECT_EQ(made(from), "*coder=/m/a.gguf b=/m/b d=/m/d") << "an alias";
    from.wanted = "/m/a.gguf";
    EXPECT_EQ(made(from), "*coder=/m/a.gguf b=/m/b d=/m/d") << "its path";
    from.wanted.clear();
    from.file.default_name = "e";
    EXPECT_EQ(made(from), "m.yaml: default 'e' is none of its models");
}

TEST(registry, a_name_that_the_file_gives_away_is_not_the_folders_too) {
    registry_sources from = sources();
    from.file.models = {listed("a", "org/c")};
    from.folder = {{"/m/a.gguf", "a"}};
    EXPECT_EQ(made(from), "*a=/hub/c");
    const auto all = make_registry(from);
    ASSERT_EQ(all->notes.size(), 1u);
    EXPECT_EQ(all->notes[0], "/m/a.gguf is left out: m.yaml gives its name, a, to another model");
}

TEST(registry, a_model_that_is_not_there_is_kept_with_its_fault_unless_it_is_to_start) {
    registry_sources from = sources();
    from.file.models = {listed("coder", "/m/a.gguf"), listed("gone", "/gone")};
    EXPECT_EQ(made(from), "*coder=/m/a.gguf gone=?");
    EXPECT_EQ(make_registry(from)->notes.at(0), "gone cannot be loaded: no /gone");
    EXPECT_EQ(make_registry(from)->models.at(1).fault, "no /gone");
    from.wanted = "gone";
    EXPECT_EQ(made(from), "no /gone");
}

struct name_case {
    const char* name;
    bool strict;
    std::optional<std::size_t> meant;
};

TEST(registry, a_name_or_alias_means_its_model_and_any_other_the_default_unless_strict) {
    const registry models({{"a", {"x", "y"}}, {"org/b", {"z"}}, {"c"}}, 0);
    const name_case cases[]{
        {"a", false, 0}, {"x", false, 0}, {"org/b", false, 1},  {"z", false, 1},
        {"c", true, 2},  {"y", true, 0},  {"gpt-4o", false, 2}, {"gpt-4o", true, {}},
        {"A", true, {}}, {"", true, {}},  {"", false, 2},       {"b", true, {}},
    };
    for (const name_case& each : cases)
        EXPECT_EQ(models.resolve(each.name, 2, each.strict), each.meant) << each.name;
    EXPECT_EQ(models.find("z"), 1u);
    EXPECT_EQ(models.find("z:latest"), 1u);
    EXPECT_EQ(models.find("z:7b"), std::nullopt);
    EXPECT_EQ(models.find("zz"), std::nullopt);
}

TEST(registry, many_names_are_told_as_a_few) {
    std::vector<registered_model> many;
    for (int i = 0; i < 15; ++i) many.push_back({"m" + std::to_string(i)});
    EXPECT_TRUE(registry(many, 0).names().ends_with("m11 and 3 more"));
}

}  // namespace
}  // namespace semantic::server
