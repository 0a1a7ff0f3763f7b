// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/kv_layout.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "storage/pool/block_frames.hpp"
#include "storage/types/as_size.hpp"

namespace semantic::storage {

namespace {

// A cache line, and the width of the widest vector register: a region starts where an aligned load
// may.
constexpr std::size_t region_alignment = 64;
// Far above any published model; keeps every product below 2^63 without a check at each step.
constexpr int size_max = 1 << 20;

std::size_t aligned(std::size_t bytes) {
    return (bytes + region_alignment - 1) / region_alignment * region_alignment;
}

/// Throws std::invalid_argument where the value is not 1 to size_max.
void require_size(const std::string& name, int value) {
    if (value < 1 || value > size_max)
        throw std::invalid_argument(name + " must be 1 to " + std::to_string(size_max) +
                                    ", this is " + std::to_string(value));
}

/// Throws std::invalid_argument where bits or flags of keys or values are no possible combination.
/// `name`: "key" or "value".
void require_form(const std::string& name, const kv_form& form) {
    constexpr std::array possible{4, 5, 6, 8, 16};
    const bool of_keys = name == "key" && form.bits == 7;
    if (!of_keys && std::ranges::find(possible, form.bits) == possible.end())
        throw std::invalid_argument(name + " bits must be 4, 5, 6, " +
                                    (name == "key" ? "7, " : "") + "8 or 16, this is " +
                                    std::to_string(form.bits));
    if (form.rotated && form.bits == 16)
        throw std::invalid_argument(name + " of 16 bits gain nothing by being rotated");
    if (form.centred && (!form.rotated || name != "key"))
        throw std::invalid_argument("only rotated keys are stored less their mean");
    if (form.shaped && !form.centred)
        throw std::invalid_argument("only keys less their mean are rounded by what queries see");
}

/// Throws std::invalid_argument where the recipe is impossible for any layer.
void require_recipe(const kv_recipe& recipe) {
    require_form("key", recipe.k);
    require_form("value", recipe.v);
    if (recipe.wide_tail < 0 || (recipe.wide_tail > 0 && (!recipe.k.rotated || !recipe.v.rotated)))
        throw std::invalid_argument("only rotated keys and values have a wide tail, of tokens");
    if (recipe.k.bits == 16 && recipe.v.bits == 16) return;
    require_size("kv group size", recipe.group_size);
    if (recipe.group_size % 8 != 0)
        throw std::invalid_argument("kv group size must be a multiple of 8, this is " +
                                    std::to_string(recipe.group_size));
}

/// Throws std::invalid_argument where a row of `dim` elements cannot be divided into groups.
void require_groups(const std::string& prefix, int dim, const kv_form& form, int group_size) {
    if (form.bits == 16 || dim % group_size == 0) return;
    throw std::invalid_argument(prefix + "head dimension " + std::to_string(dim) +
                                " is not a multiple of the group size " +
                                std::to_string(group_size));
}

/// Throws std::invalid_argument where the layer's numbers, or the recipe for such a layer, are
/// impossible.
void require_layer(const kv_layer& layer, int index, const kv_recipe& recipe) {
    const std::string prefix = "layer " + std::to_string(index) + ": ";
    require_size(prefix + "kv_heads", layer.kv_heads);
    require_size(prefix + "k_dim", layer.k_dim);
    require_size(prefix + "v_dim", layer.v_dim);
    if (layer.window < 0)
        throw std::invalid_argument(prefix + "window must not be negative, this is " +
                                    std::to_string(layer.window));
    if (layer.values_in_keys && layer.v_dim > layer.k_dim)
        throw std::invalid_argument(prefix + "values of v_dim " + std::to_string(layer.v_dim) +
                                    " do not lie inside keys of k_dim " +
                                    std::to_string(layer.k_dim));
    if (layer.values_in_keys && recipe.k.centred)
        throw std::invalid_argument(prefix + "keys that values lie in keep their mean");
    if (layer.values_in_keys && recipe.wide_tail > 0)
        throw std::invalid_argument(prefix + "keys that values lie in have no wide tail");
    if (layer.values_in_keys && !recipe.uniform())
        throw std::invalid_argument(prefix + "values that lie inside the keys are kept as these");
    require_groups(prefix, layer.k_dim, recipe.k, recipe.group_size);
    require_groups(prefix, layer.v_dim, recipe.v, recipe.group_size);
}

/// Returns: the region of K or V of a layer, put at `offset`: weights, scales and biases, each
/// aligned. Moves `offset` to its end.
kv_region place(std::size_t& offset, int heads, int dim, const kv_form& form, int group_size,
                int block_tokens) {
    kv_region region;
    region.heads = heads;
    region.dim = dim;
    region.bits = form.bits;
    region.rotated = form.rotated;
    region.shaped = form.shaped;
    region.groups = form.bits == 16 ? 0 : dim / group_size;
    region.row_bytes = as_size(dim) * as_size(form.bits) / 8;
    const std::size_t rows = as_size(heads) * as_size(block_tokens);
    const std::size_t parameters = aligned(rows * as_size(region.groups) * 2);
    region.weights = offset;
    region.scales = region.weights + aligned(rows * region.row_bytes);
    region.biases = region.scales + parameters;
    offset = region.biases + parameters;
    return region;
}

std::size_t blocks_of(std::int64_t tokens, int block_tokens) {
    return static_cast<std::size_t>((tokens + block_tokens - 1) / block_tokens);
}

/// Returns: bytes of one token in a region, with its scales and biases (2 bytes each).
std::size_t row_cost(const kv_region& region) {
    return as_size(region.heads) * (region.row_bytes + as_size(region.groups) * 4);
}

/// Assigns the layers of a part to frames, in order: a layer shares the frame of the layer before
/// where it still fits. `needs` [all layers]: bytes of each. `slots` [all layers]: receives the
/// frame number; `regions` [all layers]: moved to their offset in the frame.
void share_frames(const std::vector<int>& layers, const std::vector<std::size_t>& needs,
                  std::size_t frame_bytes, std::vector<int>& slots,
                  std::vector<std::array<kv_region, 2>>& regions) {
    int frame = -1;
    // No room is left in the frame before the first one, so the first layer begins a new frame.
    std::size_t end = frame_bytes;
    for (const int layer : layers) {
        const std::size_t need = needs[as_size(layer)];
        if (end + need > frame_bytes) {
            ++frame;
            end = 0;
        }
        slots[as_size(layer)] = frame;
        for (kv_region& region : regions[as_size(layer)]) {
            region.weights += end;
            region.scales += end;
            region.biases += end;
        }
        end += need;
    }
}

}  // namespace

kv_layout::kv_layout(std::vector<kv_layer> layers, kv_recipe recipe, int block_tokens,
                     std::size_t state_bytes)
    : layers_(std::move(layers)),
      recipe_(recipe),
      block_tokens_(block_tokens),
      state_bytes_(state_bytes) {
    if (layers_.empty()) throw std::invalid_argument("a kv layout needs at least one layer");
    // The count is cut only so that it fits into an int; require_size() refuses it then.
    require_size("layer count",
                 static_cast<int>(std::min<std::size_t>(layers_.size(), size_max + 1)));
    require_size("block tokens", block_tokens_);
    require_recipe(recipe_);
    std::vector<std::size_t> needs;  // [layer] bytes
    for (int index = 0; index < layer_count(); ++index) {
        const kv_layer& each = layer(index);
        require_layer(each, index, recipe_);
        std::size_t offset = 0;
        const kv_region keys =
            place(offset, each.kv_heads, each.k_dim, recipe_.k, recipe_.group_size, block_tokens_);
        kv_region values = keys;
        values.dim = each.v_dim;
        if (!each.values_in_keys)
            values = place(offset, each.kv_heads, each.v_dim, recipe_.v, recipe_.group_size,
                           block_tokens_);
        regions_.push_back({keys, values});
        needs.push_back(offset);
        frame_bytes_ = std::max(frame_bytes_, offset);
        for (const kv_region& region : stored(index)) bytes_per_token_ += row_cost(region);
        part_layers_[each.window == 0 ? 0 : 1].push_back(index);
        window_ = std::max(window_, each.window);
    }
    slots_.resize(layers_.size());
    for (const std::vector<int>& part : part_layers_)
        share_frames(part, needs, frame_bytes_, slots_, regions_);
    if (has_wide_tail()) place_wide_tails();
}

/// Assigns the f16 rows of a group (the wide tail) of every layer to frames, as many layers to a
/// frame as fit. Throws std::invalid_argument where the group does not divide a block or a frame is
/// too small.
void kv_layout::place_wide_tails() {
    const int tokens = recipe_.wide_tail;
    if (block_tokens_ % tokens != 0)
        throw std::invalid_argument("a wide tail of " + std::to_string(tokens) +
                                    " tokens does not divide blocks of " +
                                    std::to_string(block_tokens_));
    wide_.resize(layers_.size());
    for (const kv_part part : kv_parts) {
        // As in share_frames(): the first layer begins a new frame.
        std::size_t frame = 0, end = frame_bytes_;
        for (const int index : layers(part)) {
            const kv_layer& each = layer(index);
            const std::size_t rows = as_size(each.kv_heads) * as_size(tokens) * 2;
            const std::size_t keys = aligned(rows * as_size(each.k_dim));
            const std::size_t bytes = keys + aligned(rows * as_size(each.v_dim));
            if (bytes > frame_bytes_)
                throw std::invalid_argument("a wide tail of " + std::to_string(tokens) +
                                            " tokens does not fit into a frame");
            if (end + bytes > frame_bytes_) {
                frame = wide_frames_[static_cast<std::size_t>(part)]++;
                end = 0;
            }
            wide_[as_size(index)] = {frame, end, end + keys, end + bytes};
            end += bytes;
        }
    }
}

int kv_layout::first_sliding_block(int tokens) const {
    return std::max(0, group_start(tokens) - window_ + 1) / block_tokens_;
}

std::size_t kv_layout::frames_for(int tokens, int chunk_tokens) const {
    const std::size_t blocks = blocks_of(tokens, block_tokens_);
    // A sequence releases whole blocks, counted back from the last block boundary. A chunk may
    // start at any token of a block, so it touches at most the blocks that chunk_tokens +
    // block_tokens - 1 tokens fill.
    const std::size_t reached =
        blocks_of(std::max(window_ - 1, 0), block_tokens_) +
        blocks_of(std::int64_t{chunk_tokens} + block_tokens_ - 1, block_tokens_);
    const std::size_t ends =
        tokens == 0 ? 0 : (wide_frames() + state_frames()) * (chunk_tokens > 0 ? 2 : 1);
    return blocks * frames_of_block(*this, kv_part::full) +
           std::min(blocks, reached) * frames_of_block(*this, kv_part::sliding) + ends;
}

int kv_layout::tokens_in(std::size_t frames, int chunk_tokens, int tokens_max) const {
    int fits = 0, too_many = static_cast<int>(blocks_of(tokens_max, block_tokens_)) + 1;  // blocks
    while (too_many - fits > 1) {
        const int middle = fits + (too_many - fits) / 2;
        (frames_for(middle * block_tokens_, chunk_tokens) <= frames ? fits : too_many) = middle;
    }
    return fits * block_tokens_;
}

std::uint64_t kv_layout::bytes_for(int tokens) const {
    std::uint64_t bytes = tokens == 0 ? 0 : state_bytes_;
    for (int index = 0; index < layer_count(); ++index) {
        const int window = layer(index).window;
        const int kept = window == 0 ? tokens : std::min(tokens, window);
        for (const kv_region& region : stored(index)) bytes += as_size(kept) * row_cost(region);
        const kv_layer& each = layer(index);
        // The f16 rows of the group that has begun; none without a wide tail.
        bytes += as_size(tokens - group_start(tokens)) * as_size(each.kv_heads) *
                 as_size(each.k_dim + each.v_dim) * 2;
    }
    return bytes;
}

}  // namespace semantic::storage
