// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/tensor_reader.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "engine/model/weights/gguf_packing.hpp"
#include "engine/model/weights/hybrid_names.hpp"
#include "storage/files/checksum.hpp"

namespace semantic::engine {

namespace {

using storage::dtype;
using storage::errc;

/// Rounded up to the alignment that the kernels need.
std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

std::string shown(const std::vector<std::int64_t>& shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    }
    return text + "]";
}

/// The shape without dimensions of 1: some files have them and some do not.
std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
    std::erase(shape, 1);
    return shape;
}

std::int64_t elements_of(const stored_tensor& tensor) {
    std::int64_t count = 1;
    for (const std::int64_t each : tensor.shape) count *= each;
    return count;
}

bool is_float(const stored_tensor& tensor) {
    const dtype type = tensor.type;
    return !tensor.blocks && (type == dtype::f32 || type == dtype::f16 || type == dtype::bf16);
}

std::vector<std::int64_t> shape_of(const row_range& rows, int width) {
    std::vector<std::int64_t> shape = rows.lead;
    shape.push_back(width);
    return shape;
}

/// Sets a part of a plan to the bytes of `count` rows of a tensor, from range.first on.
void add_rows(packing& plan, int part, const found_tensor& t, const row_range& range, int count) {
    std::size_t rows = 1;
    for (const std::int64_t each : range.lead) rows *= static_cast<std::size_t>(each);
    const std::size_t row_bytes = t.view->bytes.size() / rows;
    plan.from[part] = t.from;
    plan.parts[part] = t.view->bytes.subspan(row_bytes * static_cast<std::size_t>(range.first),
                                             row_bytes * static_cast<std::size_t>(count));
}

float read_element(dtype type, const std::byte* at) {
    if (type == dtype::f32) {
        float value;
        std::memcpy(&value, at, sizeof value);
        return value;
    }
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return type == dtype::f16 ? to_float(bits) : bfloat_to_float(bits);
}

/// The kind that a matrix of `kind` is packed as under --weights. Kinds that are as small already
/// stay.
weight_kind kind_in(weight_form form, weight_kind kind) {
    const bool floats =
        kind == weight_kind::f32 || kind == weight_kind::f16 || kind == weight_kind::bf16;
    if (form == weight_form::q8 && floats) return weight_kind::q8;
    if (form == weight_form::q4 && (floats || kind == weight_kind::q8)) return weight_kind::q4;
    return kind;
}

}  // namespace

tensor_reader::tensor_reader(const std::vector<weight_file>& files, const model_config& config,
                             weight_form form)
    : config_(config), form_(form) {
    for (const weight_file& file : files) {
        number_of_.emplace(&file, number_of_.size());
        for (const stored_tensor& tensor : file.tensors()) {
            const auto [at, fresh] = tensors_.emplace(
                file.is_gguf() ? tensor.name : planned_name(config.family, tensor.name),
                found_tensor{&file, &tensor});
            if (!fresh) {
                refuse(errc::corrupt, file.path() + ": tensor " + tensor.own_name + " is in " +
                                          at->second.from->path() + " too");
            }
        }
        where_ += (where_.empty() ? "" : ", ") + file.path();
    }
}

void tensor_reader::matrix(const std::string& name, int rows, int cols, packed_matrix& out,
                           precision precision) {
    part(name, {{rows}, 0}, false, rows, cols, out, precision);
}

void tensor_reader::part(const std::string& name, const row_range& from, bool transposed, int rows,
                         int cols, packed_matrix& out, precision precision) {
    out.rows = rows;
    out.cols = cols;
    packing plan{.to = &out, .name = name + ".weight", .order = {transposed, 1, 0}};
    const matrix_quantization quantization = config_.quantization_for(name);
    const bool quantised =
        quantization.how != matrix_quantization::mode::none && tensors_.contains(name + ".scales");
    if (quantised && quantization.how == matrix_quantization::mode::mxfp4) {
        mlx_mxfp4_parts(name, from, plan);
    } else if (quantised) {
        mlx_parts(name, quantization.bits, from, plan);
    } else if (const found_tensor* t = find(plan.name, shape_of(from, transposed ? rows : cols))) {
        if (t->view->blocks) {
            block_parts(from, *t, plan);
        } else if (set_float_kind(plan.name, *t, plan)) {
            add_rows(plan, 0, *t, from, transposed ? cols : rows);
        } else {
            return;
        }
        if (t->view->rope_neighbours) plan.order.rope_dim = config_.head_dim;
    }
    // After a failed look-up this does nothing.
    place(std::move(plan), precision);
}

void tensor_reader::vector(const std::string& name, int count, std::vector<float>& out) {
    const auto at = tensors_.find(name);
    // Any shape with `count` elements will do.
    const bool fits = at != tensors_.end() && elements_of(*at->second.view) == count;
    const found_tensor* t =
        find(name, fits ? at->second.view->shape : std::vector<std::int64_t>{count});
    if (t == nullptr) return;
    if (!is_float(*t->view)) return wrong_type(name, *t, "F32, F16 and BF16");
    out.resize(static_cast<std::size_t>(count));
    const std::size_t each = storage::dtype_bytes(t->view->type);
    const int rope_dim = t->view->rope_neighbours ? config_.head_dim : 0;
    for (int i = 0; i < count; ++i) {
        const auto from = static_cast<std::size_t>(source_row({.rope_dim = rope_dim}, i));
        out[static_cast<std::size_t>(i)] =
            read_element(t->view->type, t->view->bytes.data() + from * each);
    }
}

void tensor_reader::transposed(const std::string& name, int rows, int cols,
                               std::vector<float>& out) {
    const found_tensor* t = find(name, {rows, cols});
    if (t == nullptr) return;
    if (!is_float(*t->view)) return wrong_type(name, *t, "F32, F16 and BF16");
    const auto height = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(cols);
    const std::size_t each = storage::dtype_bytes(t->view->type);
    out.resize(height * width);
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i % width * height + i / width] =
            read_element(t->view->type, t->view->bytes.data() + i * each);
}

void tensor_reader::linear(const std::string& name, int rows, int cols, bool has_bias,
                           linear_weights& out, precision precision) {
    matrix(name, rows, cols, out.matrix, precision);
    if (has_bias) vector(name + ".bias", rows, out.bias);
}

void tensor_reader::table(const std::string& name, int rows, int cols, row_table& out) {
    const found_tensor* t = find(name, {rows, cols});
    if (t == nullptr) return;
    if (!t->view->blocks && !is_float(*t->view)) return wrong_type(name, *t, "F32, F16 and BF16");
    if (t->view->shape.size() != 2)
        return refuse(errc::incompatible, name + ": two dimensions are needed");
    out = row_table(*t->view);
    reads_on_ = true;
}

void tensor_reader::leave_out(const std::string& name) {
    if (const auto at = tensors_.find(name); at != tensors_.end())
        left_out_.insert(at->second.view);
}

void tensor_reader::expert_matrix(const std::string& name, int expert, int rows, int cols,
                                  source_order order, packed_matrix& out) {
    out.rows = rows;
    out.cols = cols;
    packing plan{.to = &out, .name = name, .order = order};
    if (contains(name + "_blocks")) {
        mxfp4_parts(name, expert, plan);
    } else if (const found_tensor* t =
                   find(name, {config_.mixture.experts, cols, rows * order.turns})) {
        if (!set_float_kind(name, *t, plan)) return;
        add_expert_part(plan, 0, *t, expert);
    }
    place(std::move(plan), precision::free);
}

void tensor_reader::expert_vector(const std::string& name, int expert, int count,
                                  source_order order, std::vector<float>& out) {
    const found_tensor* t = find(name, {config_.mixture.experts, count * order.turns});
    if (t == nullptr) return;
    if (!is_float(*t->view)) return wrong_type(name, *t, "F32, F16 and BF16");
    const std::size_t each = storage::dtype_bytes(t->view->type);
    for (int i = 0; i < count; ++i) {
        const int at = (expert * count + i) * order.turns + order.turn;
        out.push_back(read_element(t->view->type,
                                   t->view->bytes.data() + static_cast<std::size_t>(at) * each));
    }
}

void tensor_reader::mlx_parts(const std::string& name, int bits, const row_range& from,
                              packing& plan) {
    const packed_matrix& out = *plan.to;
    const bool transposed = plan.order.transposed;
    const int rows = transposed ? out.cols : out.rows, width = transposed ? out.rows : out.cols;
    if (width % group_size != 0) {
        return refuse(errc::incompatible, name + ": quantised over " + std::to_string(width) +
                                              " inputs, which is no multiple of 64");
    }
    const found_tensor* words = find(name + ".weight", shape_of(from, width * bits / 32));
    const found_tensor* scales = find(name + ".scales", shape_of(from, width / group_size));
    const found_tensor* biases = find(name + ".biases", shape_of(from, width / group_size));
    if (words == nullptr || scales == nullptr || biases == nullptr) return;
    if (words->view->type != dtype::u32) return wrong_type(name + ".weight", *words, "U32");
    if (!is_float(*scales->view)) return wrong_type(name + ".scales", *scales, "F16, BF16 and F32");
    if (biases->view->type != scales->view->type) {
        return wrong_type(name + ".biases", *biases, storage::to_string(scales->view->type));
    }
    plan.kind = bits == 4 ? weight_kind::q4 : weight_kind::q8;
    plan.scales = scales->view->type == dtype::f32   ? scale_kind::f32
                  : scales->view->type == dtype::f16 ? scale_kind::f16
                                                     : scale_kind::bf16;
    add_rows(plan, 0, *words, from, rows);
    add_rows(plan, 1, *scales, from, rows);
    add_rows(plan, 2, *biases, from, rows);
}

/// Plans GGUF blocks. Types that no kernel supports become floats, which does not change a weight.
void tensor_reader::block_parts(const row_range& from, const found_tensor& t, packing& plan) {
    const packed_matrix& out = *plan.to;
    const bool transposed = plan.order.transposed;
    const auto kept = transposed ? std::nullopt : packed_kind(*t.view->blocks, out.cols);
    plan.blocks = t.view->blocks;
    plan.kind = kept.value_or(weight_kind::f32);
    add_rows(plan, 0, t, from, transposed ? out.cols : out.rows);
}

/// Plans MLX's mxfp4, which has eight codes a word: its bytes are in the same order as MXFP4
/// blocks.
void tensor_reader::mlx_mxfp4_parts(const std::string& name, const row_range& from, packing& plan) {
    const int rows = plan.to->rows, cols = plan.to->cols;
    if (plan.order.transposed) {
        return refuse(errc::incompatible, name + " is quantised as mxfp4: supported is affine");
    }
    if (cols % group_size != 0) {
        return refuse(errc::incompatible, name + ": MXFP4 over " + std::to_string(cols) +
                                              " inputs, which is no multiple of 64");
    }
    const found_tensor* words = find(name + ".weight", shape_of(from, cols / 8));
    const found_tensor* scales = find(name + ".scales", shape_of(from, cols / 32));
    if (words == nullptr || scales == nullptr) return;
    if (words->view->type != dtype::u32) return wrong_type(name + ".weight", *words, "U32");
    if (scales->view->type != dtype::u8) return wrong_type(name + ".scales", *scales, "U8");
    plan.name = name + ".scales";
    plan.kind = weight_kind::mxfp4;
    add_rows(plan, 0, *words, from, rows);
    add_rows(plan, 1, *scales, from, rows);
}

bool tensor_reader::set_float_kind(const std::string& name, const found_tensor& t, packing& plan) {
    if (!is_float(*t.view)) {
        wrong_type(name, t, "F32, F16 and BF16");
        return false;
    }
    plan.kind = t.view->type == dtype::f32   ? weight_kind::f32
                : t.view->type == dtype::f16 ? weight_kind::f16
                                             : weight_kind::bf16;
    return true;
}

/// Plans an expert's matrix from NAME_blocks and NAME_scales, where all experts are in one tensor.
void tensor_reader::mxfp4_parts(const std::string& name, int expert, packing& plan) {
    const packed_matrix& out = *plan.to;
    if (out.cols % group_size != 0) {
        return refuse(errc::incompatible, name + ": MXFP4 over " + std::to_string(out.cols) +
                                              " inputs, which is no multiple of 64");
    }
    const int experts = config_.mixture.experts, rows = out.rows * plan.order.turns;
    const found_tensor* blocks = find(name + "_blocks", {experts, rows, out.cols / 32, 16});
    const found_tensor* scales = find(name + "_scales", {experts, rows, out.cols / 32});
    if (blocks == nullptr || scales == nullptr) return;
    if (blocks->view->type != dtype::u8) return wrong_type(name + "_blocks", *blocks, "U8");
    if (scales->view->type != dtype::u8) return wrong_type(name + "_scales", *scales, "U8");
    plan.name = name + "_scales";
    plan.kind = weight_kind::mxfp4;
    plan.order.transposed = false;
    add_expert_part(plan, 0, *blocks, expert);
    add_expert_part(plan, 1, *scales, expert);
}

/// Completes a plan: decides the packed kind and the place in the arena. Only matrices whose inputs
/// are a multiple of 64 can be quantised.
void tensor_reader::place(packing plan, precision precision) {
    if (failed()) return;
    packed_matrix& out = *plan.to;
    out.kind = plan.kind;
    out.scales = plan.scales;
    const bool affine = plan.kind == weight_kind::q4 || plan.kind == weight_kind::q8;
    const weight_kind wanted = plan.blocks ? plan.kind : kind_in(form_, plan.kind);
    if (affine && plan.order.transposed) {
        out.kind = weight_kind::f16;
    } else if (wanted != plan.kind && precision == precision::free && out.cols % group_size == 0) {
        out.kind = wanted;
        out.scales = scale_kind::f16;
        quantises_ = true;
    }
    plan.offset = bytes_;
    bytes_ += padded(out.bytes());
    plans_.push_back(std::move(plan));
}

void tensor_reader::add_expert_part(packing& plan, int part, const found_tensor& t,
                                    int expert) const {
    add_rows(plan, part, t, {{config_.mixture.experts}, expert}, 1);
}

const found_tensor* tensor_reader::find(const std::string& name,
                                        const std::vector<std::int64_t>& shape) {
    if (failed()) return nullptr;
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) {
        refuse(errc::incompatible,
               "tensor " + name + " of shape " + shown(shape) + " is missing in " + where_);
        return nullptr;
    }
    if (without_ones(at->second.view->shape) != without_ones(shape)) {
        const found_tensor& t = at->second;
        refuse(errc::incompatible,
               t.from->path() + ": tensor " + t.view->own_name + " has shape " +
                   shown(t.view->shape) +
                   (t.from->is_gguf() ? ", the metadata asks for " : ", config.json asks for ") +
                   shown(shape));
        return nullptr;
    }
    used_.insert(at->second.view);
    return &at->second;
}

std::vector<std::string> tensor_reader::list_unused() const {
    std::vector<std::string> names;
    for (const auto& [name, t] : tensors_)
        if (!used_.contains(t.view)) names.push_back(name);
    return names;
}

void tensor_reader::order_by_source() {
    if (failed()) return;
    std::ranges::stable_sort(plans_, {}, [this](const packing& plan) {
        return std::pair(number_of_.at(plan.from[0]),
                         reinterpret_cast<std::uintptr_t>(plan.parts[0].data()));
    });
    bytes_ = 0;
    for (packing& plan : plans_) {
        plan.offset = bytes_;
        bytes_ += padded(plan.to->bytes());
    }
}

storage::block_hash tensor_reader::digest() const {
    storage::field_hasher hasher;
    for (const packing& plan : plans_) {
        const packed_matrix& to = *plan.to;
        const source_order& order = plan.order;
        const std::int64_t numbers[] = {static_cast<std::int64_t>(to.kind),
                                        static_cast<std::int64_t>(to.scales),
                                        to.rows,
                                        to.cols,
                                        static_cast<std::int64_t>(plan.offset),
                                        order.transposed,
                                        order.turns,
                                        order.turn,
                                        order.rope_dim};
        hasher.add(plan.name).add(std::as_bytes(std::span(numbers)));
    }
    return hasher.finish();
}

void tensor_reader::refuse_unused() {
    for (const auto& [name, t] : tensors_) {
        if (t.from->is_gguf() && !used_.contains(t.view) && !left_out_.contains(t.view) &&
            !name.starts_with("mtp.")) {
            refuse(errc::incompatible, t.from->path() + ": tensor " + t.view->own_name +
                                           " has no place in the model that the metadata "
                                           "describes");
        }
    }
}

void tensor_reader::wrong_type(const std::string& name, const found_tensor& t,
                               const std::string& supported) {
    refuse(errc::incompatible, t.from->path() + ": tensor " +
                                   (t.from->is_gguf() ? t.view->own_name : name) + " has type " +
                                   t.view->type_name() + ", supported: " + supported);
}

void tensor_reader::refuse(errc code, std::string message) {
    if (!failed()) complaint_ = {code, std::move(message)};
}

}  // namespace semantic::engine
