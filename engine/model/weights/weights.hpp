#pragma once
// A model's tensors, checked against its config and packed for the kernels.
// Owner: transformer. Immutable after load; safe from any thread.
// Memory: packed weights lie in one anonymous mapping; source pages are let go as soon as they are
// packed, so that a model is never held twice.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/types/load_progress.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// y = W x + bias; an empty bias adds nothing.
struct linear_weights {
    packed_matrix matrix;
    std::vector<float> bias;  // [matrix.rows] or empty

    void add_bias(const kernel_table& kernels, float* row) const {
        if (!bias.empty()) kernels.add(row, bias.data(), bias.size());
    }
};

/// y = down(act(gate(x)) * up(x))
struct gated_weights {
    linear_weights gate, up;  // [inner, hidden]
    linear_weights down;      // [hidden, inner]
};

struct layer_weights {
    std::vector<float> attention_norm;                      // [hidden]
    linear_weights q;                                       // [query_width, hidden or query rank]
    linear_weights k, v;                                    // [kv_heads * head_dim, hidden]
    std::vector<float> q_norm, k_norm;                      // [head_dim] or empty
    linear_weights o;                                       // [hidden, value_width]
    std::vector<float> attention_post_norm, mlp_post_norm;  // [hidden] or empty
    std::vector<float> mlp_norm;                            // [hidden]
    std::vector<float> sinks;                               // [heads] or empty
    // Latent attention only, in place of k and v.
    linear_weights q_down;            // [query rank, hidden] or empty
    std::vector<float> q_down_norm;   // [query rank] or empty
    linear_weights kv_down;           // [rank + rope_dim, hidden]
    std::vector<float> kv_down_norm;  // [rank]
    std::vector<packed_matrix> k_up;  // a head's query to the latent: [rank, plain_dim]
    std::vector<packed_matrix> v_up;  // the latent to a head's value: [value_dim, rank]
    gated_weights mlp;                // of a mixture: the shared experts, or empty
    linear_weights router;            // [experts, hidden] or empty
    std::vector<gated_weights> experts;
};

/// Anonymous memory on huge pages where the system has them, page-aligned.
class weight_arena {
  public:
    weight_arena() = default;
    /// Throws std::bad_alloc when the system refuses.
    explicit weight_arena(std::size_t bytes);
    weight_arena(weight_arena&& from) noexcept
        : data_(std::exchange(from.data_, nullptr)), bytes_(std::exchange(from.bytes_, 0)) {}
    weight_arena& operator=(weight_arena&& from) noexcept {
        std::swap(data_, from.data_);
        std::swap(bytes_, from.bytes_);
        return *this;
    }
    ~weight_arena();
    std::byte* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
};

class model_weights {
  public:
    /// Blocks. Reads a folder's safetensors or a GGUF file (weight_files.hpp). Packs in parallel
    /// inside the calling thread's arena, and on the way quantises as `form` says: matrices whose
    /// inputs are no multiple of 64 and routers stay as they are. `progress` may be empty; it is
    /// called from any thread of the arena, one call at a time. Errors: not_found, corrupt,
    /// incompatible; each names the file, tensor, shape, type or value at fault.
    static storage::result<model_weights> load(const std::string& model, const model_config& config,
                                               const kernel_table& kernels, weight_form form,
                                               const weights_progress& progress);

    /// Blocks. What load() would say of the files' names, shapes and types, without reading their
    /// values. Returns: the bytes that the packed weights would take.
    static storage::result<std::uint64_t> check(const std::string& model,
                                                const model_config& config, weight_form form);

    packed_matrix embedding;  // [vocabulary, hidden]
    std::vector<layer_weights> layers;
    std::vector<float> final_norm;  // [hidden]
    packed_matrix head;             // [vocabulary, hidden]; the embedding itself when tied

    std::uint64_t bytes() const noexcept { return arena_.bytes(); }
    /// XXH3-128 over the XXH3-128 of every file, in name order; another one when loading quantised
    /// a matrix.
    const storage::block_hash& hash() const noexcept { return hash_; }

  private:
    weight_arena arena_;
    storage::block_hash hash_;
};

}  // namespace semantic::engine
