// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/kv_recipe.hpp"

#include <algorithm>
#include <array>

namespace semantic::storage {

namespace {

/// Forms of keys and values, with the letter that a recipe's name has for them. s: rotated keys
/// less their mean, rounded where queries do not look; m: rotated keys less their static mean; r:
/// rotated only.
constexpr kv_form shaped(int bits) { return {bits, true, true, true}; }
constexpr kv_form mean(int bits) { return {bits, true, true}; }
constexpr kv_form rotated(int bits) { return {bits, true, false}; }
/// Shaped keys and rotated values with a wide tail: w and its tokens in a name.
constexpr kv_recipe wide(int key_bits, int value_bits) {
    return kv_recipe(shaped(key_bits), rotated(value_bits)).with_wide_tail(16);
}

// Of the recipes that take up to 41 % of the bytes of f16 a calibration measures those with a wide
// tail: on published models their divergence is a third of that of others with the same bytes
// (perf/README.md, Keys and values). Blocks of less than 64 tokens have no room for one: there a
// calibration measures the same recipe without it, if that has a name. constexpr, since other files
// build tables of options from it before main().
constexpr std::array table{
    named_kv_recipe{"k4v4", {4}},
    named_kv_recipe{"k4s-v4r-w16", wide(4, 4)},
    named_kv_recipe{"k5s-v4r", {shaped(5), rotated(4)}, false},
    named_kv_recipe{"k5s-v4r-w16", wide(5, 4)},
    named_kv_recipe{"k6s-v4r-w16", wide(6, 4)},
    named_kv_recipe{"k6s-v5r", {shaped(6), rotated(5)}, false},
    named_kv_recipe{"k6s-v5r-w16", wide(6, 5)},
    named_kv_recipe{"k7s-v5r", {shaped(7), rotated(5)}, false},
    named_kv_recipe{"k7s-v5r-w16", wide(7, 5)},
    named_kv_recipe{"k8m-v5r", {mean(8), rotated(5)}},
    named_kv_recipe{"k8v8", {8}},
    named_kv_recipe{"k16v16", {16}},
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> short_names{
    {{"4", "k4v4"}, {"8", "k8v8"}, {"16", "k16v16"}}};

}  // namespace

std::span<const named_kv_recipe> kv_recipes() { return table; }

std::optional<kv_recipe> find_kv_recipe(std::string_view name) {
    for (const auto& [short_name, full] : short_names)
        if (name == short_name) name = full;
    const auto found = std::ranges::find(table, name, &named_kv_recipe::name);
    if (found == table.end()) return std::nullopt;
    return found->recipe;
}

std::string_view name_of(const kv_recipe& recipe) {
    for (const named_kv_recipe& each : table)
        if (each.recipe.k == recipe.k && each.recipe.v == recipe.v &&
            each.recipe.wide_tail == recipe.wide_tail)
            return each.name;
    return {};
}

std::string kv_recipe_names() {
    std::string names;
    for (const named_kv_recipe& each : table) {
        if (!names.empty()) names += ", ";
        names += each.name;
    }
    return names;
}

}  // namespace semantic::storage
