// SPDX-License-Identifier: Apache-2.0
#pragma once
// Looks up a model's tensors by name, checks their shapes and types, and makes a list of the
// matrices to pack (`plans`). Used by weights.cpp and weight_plan.cpp only. Owner:
// model_weights::load, on its stack. The plans point into the files, which must outlive them.
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

/// The rows of a tensor that a matrix consists of. A tensor of more than two dimensions counts as
/// one matrix with as many columns as its last dimension.
struct row_range {
    std::vector<std::int64_t> lead;  // all dimensions of the tensor but the last
    int first = 0;
};

/// Whether --weights may quantise a matrix.
enum class precision { free, as_stored };

/// After the first error (complaint()) all later look-ups do nothing, so that callers ask for all
/// tensors and check once at the end.
class tensor_reader {
  public:
    /// `files` and `config` must outlive the reader.
    tensor_reader(const std::vector<weight_file>& files, const model_config& config,
                  weight_form form);

    /// Plans a matrix [rows, cols] from NAME.weight, or from MLX's NAME.weight, NAME.scales and
    /// NAME.biases (no biases for mxfp4). `out` is filled when it is packed.
    void matrix(const std::string& name, int rows, int cols, packed_matrix& out,
                precision precision = precision::free);
    /// Plans a matrix [rows, cols] from some rows of NAME.weight or, if `transposed`, from their
    /// transpose [cols, rows]; otherwise as matrix(). MLX's groups run along the other dimension of
    /// a transpose, so its quantised weights become f16.
    void part(const std::string& name, const row_range& from, bool transposed, int rows, int cols,
              packed_matrix& out, precision precision = precision::free);
    /// Reads a small tensor of `count` elements, of any dimensions, as f32, at once.
    void vector(const std::string& name, int count, std::vector<float>& out);
    /// Reads the transpose [cols, rows] of a tensor [rows, cols] of floats, at once.
    void transposed(const std::string& name, int rows, int cols, std::vector<float>& out);
    /// As matrix(), with NAME.bias if `has_bias`.
    void linear(const std::string& name, int rows, int cols, bool has_bias, linear_weights& out,
                precision precision = precision::free);
    /// Sets up a tensor [rows, cols] whose rows are read from the file while the model runs.
    void table(const std::string& name, int rows, int cols, row_table& out);
    /// Says that the model does not need this tensor, which the files may have.
    void leave_out(const std::string& name);

    /// As part(), for expert `expert` of a tensor [experts, ...] with one matrix for each expert:
    /// floats, or MXFP4 as NAME_blocks and NAME_scales, which is not transposed.
    void expert_matrix(const std::string& name, int expert, int rows, int cols, source_order order,
                       packed_matrix& out);
    /// Reads the elements of row `expert` of a tensor [experts, count * turns] that belong to
    /// order.turn.
    void expert_vector(const std::string& name, int expert, int count, source_order order,
                       std::vector<float>& out);

    bool contains(const std::string& name) const { return tensors_.contains(name); }
    bool failed() const { return !complaint_.what.empty(); }
    const storage::failure& complaint() const { return complaint_; }
    const std::vector<packing>& plans() const { return plans_; }
    /// Bytes of the arena that all plans are packed into.
    std::size_t bytes() const { return bytes_; }
    /// Whether the files must stay open, because a table() is read while the model runs.
    bool reads_on() const { return reads_on_; }
    /// Whether --weights makes some matrix another form than the files have.
    bool quantises() const { return quantises_; }
    /// Sorts the plans in the order of the files, so that reading the files from start to end fills
    /// the arena from start to end.
    void order_by_source();
    /// A hash of the plans: what is packed, in which form and where. Models with equal digests and
    /// equal files have equal arenas.
    storage::block_hash digest() const;
    /// Complains if a GGUF has a tensor that was not asked for, because then the model is not what
    /// its metadata says. Layers that predict further tokens are ignored (gguf_names.hpp).
    void refuse_unused();
    /// The names of tensors that were not asked for.
    std::vector<std::string> list_unused() const;

  private:
    /// Each fills the parts of a plan from tensors in one format.
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
    std::map<const weight_file*, std::size_t> number_of_;  // the file's index among all files
    std::map<std::string, found_tensor, std::less<>> tensors_;
    std::set<const stored_tensor*> used_;      // found by find()
    std::set<const stored_tensor*> left_out_;  // by leave_out()
    std::string where_;                        // the paths of all files, for messages
    storage::failure complaint_{storage::errc::incompatible, ""};  // no text: none
    std::vector<packing> plans_;
    std::size_t bytes_ = 0;  // of all plans in the arena
    bool quantises_ = false;
    bool reads_on_ = false;
};

}  // namespace semantic::engine
