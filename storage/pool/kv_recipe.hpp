// SPDX-License-Identifier: Apache-2.0
#pragma once
// How K and V are kept in a frame: the recipes, by name. What a recipe costs a model is in
// perf/README.md; which one a model gets is decided in engine/recipe/. Pure values.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace semantic::storage {

/// How the rows of one of K and V are kept.
struct kv_form {
    // 4 to 6, 8, of keys 7 too: integers in groups with a scale and a bias; 16: plain f16.
    int bits = 4;
    /// Signs and a Hadamard transform over the head come before the rounding, which spreads the few
    /// large elements of a row over all of them (arXiv:2404.00456). Attention is computed on
    /// rotated rows, so nothing is turned back but its output.
    bool rotated = false;
    /// Of keys: their static mean is taken away first (engine/model/heads/key_means.hpp).
    bool centred = false;
    /// Of centred keys: later elements compensate an element's rounding error, so that the
    /// remaining error lies where the model's queries do not look
    /// (engine/model/heads/key_shaping.hpp). It changes what is written and nothing of how it is
    /// read.
    bool shaped = false;
    bool operator==(const kv_form&) const = default;
};

struct kv_recipe {
    kv_form k, v;
    int group_size = 64;  // elements along head_dim that share one scale and one bias
    /// Size in tokens of the groups, by absolute position, within which a query reads earlier
    /// tokens in f16 instead of rounded: most of the loss of rounding comes from the tokens just
    /// before the query. 0: no such groups.
    int wide_tail = 0;

    constexpr kv_recipe() : kv_recipe(4) {}
    constexpr kv_recipe(kv_form keys, kv_form values, int group = 64)
        : k(keys), v(values), group_size(group) {}
    /// K and V alike, not rotated: at 4 and 8 bit MLX affine groups.
    constexpr kv_recipe(int bits, int group = 64)
        : kv_recipe(kv_form{bits}, kv_form{bits}, group) {}

    constexpr kv_recipe with_wide_tail(int tokens) const {
        kv_recipe wide = *this;
        wide.wide_tail = tokens;
        return wide;
    }
    /// K and V are kept alike, so that values may lie inside the keys.
    bool uniform() const noexcept { return k == v; }
    /// Stored bits of a key or value element on average, without scales: what is called kv_bits.
    int mean_bits() const noexcept { return (k.bits + v.bits + 1) / 2; }
    bool operator==(const kv_recipe&) const = default;
};

struct named_kv_recipe {
    std::string_view name;
    kv_recipe recipe;
    /// Whether a calibration measures it; the others have to be asked for by name.
    bool is_candidate = true;
};

/// Every recipe that has a name, those with fewer bytes first.
std::span<const named_kv_recipe> kv_recipes();
/// Returns: the recipe of that name; 16, 8 and 4 are short for k16v16, k8v8 and k4v4.
std::optional<kv_recipe> find_kv_recipe(std::string_view name);
/// Returns: its name, whatever the group size; empty for a recipe that has none.
std::string_view name_of(const kv_recipe& recipe);
/// "k4v4, k8v4, ...": for messages.
std::string kv_recipe_names();

}  // namespace semantic::storage
