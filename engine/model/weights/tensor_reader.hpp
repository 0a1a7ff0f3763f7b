// SPDX-License-Identifier: Apache-2.0
#pragma once
// Looks a model's tensors up by name, checks them against what the config asks for, and notes what
// is to be packed and where to. Used by weights.cpp and weight_plan.cpp only.
// Owner: model_weights::load, on its stack. What it notes points into the files, which outlive it.
// Thread: one.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/model/weights/weight_files.hpp"
#include "engine/model/weights/weight_packing.hpp"
#include "engine/model/weights/weights.hpp"

namespace semantic::engine {

/// A tensor and the file whose pages it lies in.
struct found_tensor {
    const weight_file* from;
    const stored_tensor* view;
};

/// Which rows of a tensor a matrix takes. A tensor of more than two dimensions counts as its last
/// two, one below the other.
struct row_range {
    std::vector<std::int64_t> lead;  // the tensor's dimensions but the last
    int first = 0;
};

/// Whether --weights may quantise a matrix.
enum class precision { free, as_stored };

/// Finds, checks and plans; the first complaint is kept and later look-ups do nothing.
class tensor_reader {
  public:
    /// `files` and `config` must outlive the reader.
    tensor_reader(const std::vector<weight_file>& files, const model_config& config,
                  weight_form form);

    /// NAME.weight, or the MLX triple NAME.weight, NAME.scales, NAME.biases (no biases as mxfp4),
    /// as a matrix to pack later. Shape: [rows, cols].
    void matrix(const std::string& name, int rows, int cols, packed_matrix& out,
                precision precision = precision::free);
    /// The same of some rows of NAME.weight or, `transposed`, of their transpose [cols, rows].
    /// Affine groups run across a transpose's products, so its quantised weights become f16.
    void part(const std::string& name, const row_range& from, bool transposed, int rows, int cols,
              packed_matrix& out, precision precision = precision::free);
    /// A small tensor, widened to f32 at once. Its dimensions may be any that hold `count`.
    void vector(const std::string& name, int count, std::vector<float>& out);
    /// A tensor [rows, cols] of floats as its transpose [cols, rows], at once.
    void transposed(const std::string& name, int rows, int cols, std::vector<float>& out);
    void linear(const std::string& name, int rows, int cols, bool has_bias, linear_weights& out,
                precision precision = precision::free);
    /// A tensor [rows, cols] whose rows are read from the file while the model runs.
    void table(const std::string& name, int rows, int cols, row_table& out);
    /// A tensor that the files may have and the model does not need.
    void leave_out(const std::string& name);

    /// Expert `expert` of a tensor [experts, ...] that holds one matrix of each: floats or, as
    /// NAME_blocks and NAME_scales, MXFP4, which is not transposed.
    void expert_matrix(const std::string& name, int expert, int rows, int cols, source_order order,
                       packed_matrix& out);
    /// The elements of row `expert` of a tensor [experts, count * turns] that are of this turn.
    void expert_vector(const std::string& name, int expert, int count, source_order order,
                       std::vector<float>& out);

    bool contains(const std::string& name) const { return tensors_.contains(name); }
    bool failed() const { return !complaint_.what.empty(); }
    const storage::failure& complaint() const { return complaint_; }
    const std::vector<packing>& plans() const { return plans_; }
    /// Of the arena that all plans are packed into.
    std::size_t bytes() const { return bytes_; }
    /// Whether the files must stay open: a table is in use.
    bool reads_on() const { return reads_on_; }
    /// Whether a matrix is held in another form than the files have it because of --weights.
    bool quantises() const { return quantises_; }
    /// Puts the plans into the order in which their files have them, so that a sweep over the files
    /// fills the arena from its first byte to its last.
    void order_by_source();
    /// Of what is packed, in which form and where: two models with the same one have the same arena
    /// if their files have the same bytes.
    storage::block_hash digest() const;
    /// Complains of a tensor of a GGUF that nothing has asked for: the model would not be what its
    /// file says. Layers that predict further tokens are known (gguf_names.hpp).
    void refuse_unused();
    /// The plan's names of tensors that nothing has asked for.
    std::vector<std::string> list_unused() const;

  private:
    void mlx_parts(const std::string& name, int bits, const row_range& from, packing& plan);
    void mlx_mxfp4_parts(const std::string& name, const row_range& from, packing& plan);
    void mxfp4_parts(const std::string& name, int expert, packing& plan);
    void block_parts(const row_range& from, const found_tensor& t, packing& plan);
    bool set_float_kind(const std::string& name, const found_tensor& t, packing& plan);
    void place(packing plan, precision precision);
    void add_expert_part(packing& plan, int part, const found_tensor& t, int expert) const;
    const found_tensor* find(const std::string& name, const std::vector<std::int64_t>& shape);
    void wrong_type(const std::string& name, const found_tensor& t, const std::string& supported);
    void refuse(storage::errc code, std::string message);

    const model_config& config_;
    const weight_form form_;
    std::map<const weight_file*, std::size_t> number_of_;  // of a file among all
    std::map<std::string, found_tensor, std::less<>> tensors_;
    std::set<const stored_tensor*> used_;
    std::set<const stored_tensor*> left_out_;
    std::string where_;
    storage::failure complaint_{storage::errc::incompatible, ""};
    std::vector<packing> plans_;
    std::size_t bytes_ = 0;
    bool quantises_ = false;
    bool reads_on_ = false;
};

}  // namespace semantic::engine
