#include "engine/model/weights.hpp"

#include <tbb/parallel_for.h>
#include <tbb/parallel_invoke.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <sys/mman.h>

#include "engine/kernels/gemm.hpp"
#include "storage/file.hpp"
#include "storage/safetensors.hpp"

namespace semantic::engine {

namespace {

using storage::dtype;
using storage::errc;
using storage::failure;
using storage::result;
using storage::safetensors_file;
using storage::tensor_view;

/// Source bytes that one packing task takes; how far the packed copy and its source may overlap in
/// memory, for each thread.
constexpr std::size_t task_source_bytes = 1u << 20;
/// Bytes hashed between two drops of their pages.
constexpr std::size_t hash_piece_bytes = 8u << 20;

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

std::string shown(const std::vector<std::int64_t>& shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    }
    return text + "]";
}

struct weight_file {
    std::string path;
    safetensors_file file;
};

/// A tensor and the file whose pages it lies in.
struct found_tensor {
    const weight_file* from;
    const tensor_view* view;
};

/// How a matrix lies in its tensor. Fused experts hold gate and up in turns: the matrix's row r is
/// row r * turns + turn of the tensor or, transposed, its column of that number.
struct source_order {
    bool transposed = false;
    int turns = 1;
    int turn = 0;
};

/// One matrix to pack, and where from.
struct packing {
    packed_matrix* to;
    const weight_file* from[3];           // per part
    std::span<const std::byte> parts[3];  // float: the matrix; MLX: words, scales, biases;
                                          // MXFP4: blocks, scales
    std::size_t offset;                   // in the arena
    source_order order;
};

/// Source bytes of the rows [begin, end) of a part whose rows all take the same space.
std::span<const std::byte> row_bytes(std::span<const std::byte> part, int rows, int begin,
                                     int end) {
    const std::size_t each = part.size() / static_cast<std::size_t>(rows);
    return part.subspan(each * static_cast<std::size_t>(begin),
                        each * static_cast<std::size_t>(end - begin));
}

result<std::vector<std::string>> list_files(const std::string& directory) {
    storage::file_system& files = storage::posix_file_system();
    const std::string single = "model.safetensors", index = "model.safetensors.index.json";
    auto entries = files.list(directory);
    if (!entries) return entries.error();
    std::vector<std::string> names;
    bool has_index = false;
    for (const storage::directory_entry& entry : *entries) {
        if (entry.is_directory) continue;
        if (entry.name == single) return std::vector<std::string>{single};
        if (entry.name.ends_with(".safetensors")) names.push_back(entry.name);
        has_index = has_index || entry.name == index;
    }
    if (has_index) {
        auto text = storage::read_whole(files, directory + "/" + index, 64u << 20);
        if (!text) return text.error();
        auto listed = parse_weight_index(*text);
        if (listed) return listed;
        return failure{listed.error().code, directory + "/" + index + ": " + listed.error().what};
    }
    if (names.empty()) {
        return failure{errc::not_found, directory + ": there is no *.safetensors file in it"};
    }
    return names;
}

storage::block_hash hash_of(const XXH128_hash_t& digest) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, digest);
    storage::block_hash hash;
    static_assert(sizeof canonical.digest == sizeof hash.bytes);
    std::memcpy(hash.bytes.data(), canonical.digest, sizeof hash.bytes);
    return hash;
}

storage::block_hash hash_file(const safetensors_file& file) {
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                         &XXH3_freeState);
    if (state == nullptr || XXH3_128bits_reset(state.get()) != XXH_OK) throw std::bad_alloc();
    const std::span<const std::byte> bytes = file.bytes();
    for (std::size_t at = 0; at < bytes.size(); at += hash_piece_bytes) {
        const auto piece = bytes.subspan(at, std::min(hash_piece_bytes, bytes.size() - at));
        XXH3_128bits_update(state.get(), piece.data(), piece.size());
        file.drop(piece);
    }
    return hash_of(XXH3_128bits_digest(state.get()));
}

storage::block_hash hash_files(const std::vector<weight_file>& files) {
    std::vector<storage::block_hash> hashes(files.size());
    tbb::parallel_for(std::size_t{0}, files.size(),
                      [&](std::size_t i) { hashes[i] = hash_file(files[i].file); });
    return hash_of(XXH3_128bits(hashes.data(), hashes.size() * sizeof hashes[0]));
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

bool is_float(dtype type) {
    return type == dtype::f32 || type == dtype::f16 || type == dtype::bf16;
}

/// Finds, checks and plans; the first complaint is kept and later look-ups do nothing.
class tensor_reader {
  public:
    tensor_reader(const std::vector<weight_file>& files, const model_config& config)
        : config_(config) {
        for (const weight_file& file : files) {
            for (const auto& [name, view] : file.file.view().tensors) {
                const auto [at, fresh] = tensors_.emplace(name, found_tensor{&file, &view});
                if (!fresh) {
                    refuse(errc::corrupt, file.path + ": tensor " + name + " is in " +
                                              at->second.from->path + " too");
                }
            }
            where_ += (where_.empty() ? "" : ", ") + file.path;
        }
    }

    /// NAME.weight, or the MLX triple NAME.weight, NAME.scales, NAME.biases, as a matrix to pack
    /// later.
    void matrix(const std::string& name, int rows, int cols, packed_matrix& out) {
        out.rows = rows;
        out.cols = cols;
        packing plan{&out, {}, {}, 0, {}};
        if (config_.quantization_bits != 0 && tensors_.contains(name + ".scales")) {
            mlx_parts(name, plan);
        } else if (const found_tensor* t = find(name + ".weight", {rows, cols})) {
            if (!set_float_kind(name + ".weight", *t, out)) return;
            add_part(plan, 0, *t);
        }
        place(plan);
    }

    /// A small tensor, widened to f32 at once.
    void vector(const std::string& name, int count, std::vector<float>& out) {
        const found_tensor* t = find(name, {count});
        if (t == nullptr) return;
        if (!is_float(t->view->type)) return wrong_type(name, *t, "F32, F16 and BF16");
        out.resize(static_cast<std::size_t>(count));
        const std::size_t each = storage::dtype_bytes(t->view->type);
        for (std::size_t i = 0; i < out.size(); ++i) {
            out[i] = read_element(t->view->type, t->view->bytes.data() + i * each);
        }
    }

    void linear(const std::string& name, int rows, int cols, bool has_bias, linear_weights& out) {
        matrix(name, rows, cols, out.matrix);
        if (has_bias) vector(name + ".bias", rows, out.bias);
    }

    /// Expert `expert` of a tensor [experts, ...] that holds one matrix of each: floats or, as
    /// NAME_blocks and NAME_scales, MXFP4, which is not transposed.
    void expert_matrix(const std::string& name, int expert, int rows, int cols, source_order order,
                       packed_matrix& out) {
        out.rows = rows;
        out.cols = cols;
        packing plan{&out, {}, {}, 0, order};
        if (contains(name + "_blocks")) {
            mxfp4_parts(name, expert, plan);
        } else if (const found_tensor* t =
                       find(name, {config_.mixture.experts, cols, rows * order.turns})) {
            if (!set_float_kind(name, *t, out)) return;
            add_expert_part(plan, 0, *t, expert);
        }
        place(plan);
    }

    /// The elements of row `expert` of a tensor [experts, count * turns] that are of this turn.
    void expert_vector(const std::string& name, int expert, int count, source_order order,
                       std::vector<float>& out) {
        const found_tensor* t = find(name, {config_.mixture.experts, count * order.turns});
        if (t == nullptr) return;
        if (!is_float(t->view->type)) return wrong_type(name, *t, "F32, F16 and BF16");
        const std::size_t each = storage::dtype_bytes(t->view->type);
        for (int i = 0; i < count; ++i) {
            const int at = (expert * count + i) * order.turns + order.turn;
            out.push_back(read_element(
                t->view->type, t->view->bytes.data() + static_cast<std::size_t>(at) * each));
        }
    }

    bool contains(const std::string& name) const { return tensors_.contains(name); }
    bool failed() const { return !complaint_.what.empty(); }
    const failure& complaint() const { return complaint_; }
    const std::vector<packing>& plans() const { return plans_; }
    std::size_t bytes() const { return bytes_; }

  private:
    void mlx_parts(const std::string& name, packing& plan) {
        const int bits = config_.quantization_bits;
        packed_matrix& out = *plan.to;
        if (out.cols % group_size != 0) {
            return refuse(errc::incompatible, name + ": quantised over " +
                                                  std::to_string(out.cols) +
                                                  " inputs, which is no multiple of 64");
        }
        const found_tensor* words = find(name + ".weight", {out.rows, out.cols * bits / 32});
        const found_tensor* scales = find(name + ".scales", {out.rows, out.cols / group_size});
        const found_tensor* biases = find(name + ".biases", {out.rows, out.cols / group_size});
        if (words == nullptr || scales == nullptr || biases == nullptr) return;
        if (words->view->type != dtype::u32) return wrong_type(name + ".weight", *words, "U32");
        if (!is_float(scales->view->type))
            return wrong_type(name + ".scales", *scales, "F16, BF16 and F32");
        if (biases->view->type != scales->view->type) {
            return wrong_type(name + ".biases", *biases, storage::to_string(scales->view->type));
        }
        out.kind = bits == 4 ? weight_kind::q4 : weight_kind::q8;
        out.scales = scales->view->type == dtype::f32   ? scale_kind::f32
                     : scales->view->type == dtype::f16 ? scale_kind::f16
                                                        : scale_kind::bf16;
        add_part(plan, 0, *words);
        add_part(plan, 1, *scales);
        add_part(plan, 2, *biases);
    }

    bool set_float_kind(const std::string& name, const found_tensor& t, packed_matrix& out) {
        if (!is_float(t.view->type)) {
            wrong_type(name, t, "F32, F16 and BF16");
            return false;
        }
        out.kind = t.view->type == dtype::f32   ? weight_kind::f32
                   : t.view->type == dtype::f16 ? weight_kind::f16
                                                : weight_kind::bf16;
        return true;
    }

    void mxfp4_parts(const std::string& name, int expert, packing& plan) {
        packed_matrix& out = *plan.to;
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
        out.kind = weight_kind::mxfp4;
        plan.order.transposed = false;
        add_expert_part(plan, 0, *blocks, expert);
        add_expert_part(plan, 1, *scales, expert);
    }

    void place(packing plan) {
        if (failed()) return;
        plan.offset = bytes_;
        bytes_ += padded(plan.to->bytes());
        plans_.push_back(plan);
    }

    void add_expert_part(packing& plan, int part, const found_tensor& t, int expert) const {
        const auto each = t.view->bytes.size() / static_cast<std::size_t>(config_.mixture.experts);
        plan.from[part] = t.from;
        plan.parts[part] = t.view->bytes.subspan(each * static_cast<std::size_t>(expert), each);
    }

    static void add_part(packing& plan, int part, const found_tensor& t) {
        plan.from[part] = t.from;
        plan.parts[part] = t.view->bytes;
    }

    const found_tensor* find(const std::string& name, const std::vector<std::int64_t>& shape) {
        if (failed()) return nullptr;
        const auto at = tensors_.find(name);
        if (at == tensors_.end()) {
            refuse(errc::incompatible,
                   "tensor " + name + " of shape " + shown(shape) + " is missing in " + where_);
            return nullptr;
        }
        if (at->second.view->shape != shape) {
            refuse(errc::incompatible, at->second.from->path + ": tensor " + name + " has shape " +
                                           shown(at->second.view->shape) +
                                           ", config.json asks for " + shown(shape));
            return nullptr;
        }
        return &at->second;
    }

    void wrong_type(const std::string& name, const found_tensor& t, const std::string& supported) {
        refuse(errc::incompatible, t.from->path + ": tensor " + name + " has type " +
                                       storage::to_string(t.view->type) +
                                       ", supported: " + supported);
    }
    void refuse(errc code, std::string what) {
        if (!failed()) complaint_ = {code, std::move(what)};
    }

    const model_config& config_;
    std::map<std::string, found_tensor, std::less<>> tensors_;
    std::string where_;
    failure complaint_{errc::incompatible, ""};
    std::vector<packing> plans_;
    std::size_t bytes_ = 0;
};

/// A run of tiles of one matrix.
struct packing_task {
    const packing* plan;
    int tile_begin, tile_end;
};

std::vector<packing_task> cut(const std::vector<packing>& plans) {
    std::vector<packing_task> tasks;
    for (const packing& plan : plans) {
        std::size_t source = 0;
        for (const auto& part : plan.parts) source += part.size();
        const int tiles = plan.to->tiles();
        const auto pieces = static_cast<int>(
            std::min<std::size_t>(source / task_source_bytes + 1, static_cast<std::size_t>(tiles)));
        for (int i = 0; i < pieces; ++i) {
            tasks.push_back({&plan, static_cast<int>(std::int64_t{tiles} * i / pieces),
                             static_cast<int>(std::int64_t{tiles} * (i + 1) / pieces)});
        }
    }
    return tasks;
}

/// One tile's rows of a transposed matrix, in the order that pack_float reads.
void gather_tile(const packing& plan, int tile, std::vector<std::byte>& out) {
    const packed_matrix& to = *plan.to;
    const std::size_t each = to.kind == weight_kind::f32 ? 4 : 2;
    const int first = tile * lane_count, rows = std::min(lane_count, to.rows - first);
    const auto pitch =
        static_cast<std::size_t>(to.rows) * static_cast<std::size_t>(plan.order.turns);
    out.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(to.cols) * each);
    std::byte* next = out.data();
    for (int row = first; row < first + rows; ++row) {
        const std::byte* from =
            plan.parts[0].data() +
            static_cast<std::size_t>(row * plan.order.turns + plan.order.turn) * each;
        for (int col = 0; col < to.cols; ++col, from += pitch * each, next += each) {
            std::memcpy(next, from, each);
        }
    }
}

void pack_transposed(const packing_task& task, std::byte* arena) {
    const packing& plan = *task.plan;
    std::vector<std::byte> rows;
    for (int tile = task.tile_begin; tile < task.tile_end; ++tile) {
        gather_tile(plan, tile, rows);
        packed_matrix one = *plan.to;
        one.rows = std::min(lane_count, one.rows - tile * lane_count);
        pack_float(one, rows.data(), 0, 1,
                   arena + plan.offset + static_cast<std::size_t>(tile) * one.tile_bytes());
    }
    // Every tile reads all over the expert's part: it can be let go only as a whole. What another
    // task still reads comes back from the page cache.
    if (task.tile_end == plan.to->tiles()) plan.from[0]->file.drop(plan.parts[0]);
}

void pack(const packing_task& task, std::byte* arena) {
    const packing& plan = *task.plan;
    const packed_matrix& to = *plan.to;
    if (plan.order.transposed) return pack_transposed(task, arena);
    if (to.kind == weight_kind::mxfp4) {
        const auto skip = [&](int part) {
            const auto turns = static_cast<std::size_t>(plan.order.turns);
            const auto row = plan.parts[part].size() / (static_cast<std::size_t>(to.rows) * turns);
            return plan.parts[part].data() + row * static_cast<std::size_t>(plan.order.turn);
        };
        pack_mxfp4(to, {skip(0), skip(1), plan.order.turns}, task.tile_begin, task.tile_end,
                   arena + plan.offset);
    } else if (plan.from[1] == nullptr) {
        pack_float(to, plan.parts[0].data(), task.tile_begin, task.tile_end, arena + plan.offset);
    } else {
        pack_mlx(to, {plan.parts[0].data(), plan.parts[1].data(), plan.parts[2].data()},
                 task.tile_begin, task.tile_end, arena + plan.offset);
    }
    const int first = task.tile_begin * lane_count,
              last = std::min(task.tile_end * lane_count, to.rows);
    for (int part = 0; part < 3 && plan.from[part] != nullptr; ++part) {
        plan.from[part]->file.drop(row_bytes(plan.parts[part], to.rows, first, last));
    }
}

void pack_all(const std::vector<packing>& plans, std::byte* arena,
              const std::function<void(double)>& progress) {
    const std::vector<packing_task> tasks = cut(plans);
    std::mutex mutex;
    std::size_t done = 0;
    tbb::parallel_for(std::size_t{0}, tasks.size(), [&](std::size_t i) {
        pack(tasks[i], arena);
        const std::lock_guard lock(mutex);
        ++done;
        if (progress) progress(static_cast<double>(done) / static_cast<double>(tasks.size()));
    });
    for (const packing& plan : plans) plan.to->data = arena + plan.offset;
}

void plan_attention(tensor_reader& in, const model_config& c, const std::string& prefix,
                    layer_weights& layer) {
    const int q_rows = c.heads * c.head_dim, kv_rows = c.kv_heads * c.head_dim;
    in.linear(prefix + "q_proj", q_rows, c.hidden, c.qkv_bias, layer.q);
    in.linear(prefix + "k_proj", kv_rows, c.hidden, c.qkv_bias, layer.k);
    in.linear(prefix + "v_proj", kv_rows, c.hidden, c.qkv_bias, layer.v);
    in.linear(prefix + "o_proj", c.hidden, q_rows, c.o_bias, layer.o);
    if (c.sinks) in.vector(prefix + "sinks", c.heads, layer.sinks);
    if (!c.qk_norm) return;
    in.vector(prefix + "q_norm.weight", c.head_dim, layer.q_norm);
    in.vector(prefix + "k_norm.weight", c.head_dim, layer.k_norm);
}

void plan_mlp(tensor_reader& in, const model_config& c, const std::string& prefix,
              layer_weights& layer) {
    in.linear(prefix + "gate_proj", c.intermediate, c.hidden, c.mlp_bias, layer.mlp.gate);
    in.linear(prefix + "up_proj", c.intermediate, c.hidden, c.mlp_bias, layer.mlp.up);
    in.linear(prefix + "down_proj", c.hidden, c.intermediate, c.mlp_bias, layer.mlp.down);
}

/// All experts of a layer in one tensor each for gate and up, in turns, and for down.
void plan_fused_experts(tensor_reader& in, const model_config& c, const std::string& prefix,
                        layer_weights& layer) {
    const int inner = c.mixture.intermediate;
    in.linear(prefix + "router", c.mixture.experts, c.hidden, true, layer.router);
    layer.experts.resize(static_cast<std::size_t>(c.mixture.experts));
    const auto part = [&](const char* name, int expert, int rows, int cols, source_order order,
                          linear_weights& out) {
        in.expert_matrix(prefix + name, expert, rows, cols, order, out.matrix);
        in.expert_vector(prefix + name + "_bias", expert, rows, order, out.bias);
    };
    for (int i = 0; i < c.mixture.experts; ++i) {
        gated_weights& expert = layer.experts[static_cast<std::size_t>(i)];
        part("experts.gate_up_proj", i, inner, c.hidden, {true, 2, 0}, expert.gate);
        part("experts.gate_up_proj", i, inner, c.hidden, {true, 2, 1}, expert.up);
        part("experts.down_proj", i, c.hidden, inner, {true, 1, 0}, expert.down);
    }
}

/// Published names of the norms differ with their number: with two a layer,
/// post_attention_layernorm stands before the MLP.
void plan_norms(tensor_reader& in, const model_config& c, const std::string& prefix,
                layer_weights& layer) {
    const auto norm = [&](const char* name, std::vector<float>& out) {
        in.vector(prefix + name + "_layernorm.weight", c.hidden, out);
    };
    norm("input", layer.attention_norm);
    norm(c.post_norms ? "pre_feedforward" : "post_attention", layer.mlp_norm);
    if (!c.post_norms) return;
    norm("post_attention", layer.attention_post_norm);
    norm("post_feedforward", layer.mlp_post_norm);
}

/// The tensor names of all families. A language model inside a multimodal one has another prefix.
void plan(tensor_reader& in, const model_config& c, model_weights& out) {
    std::string outer, inner = "model.";
    if (in.contains("language_model.model.embed_tokens.weight")) {
        outer = "language_model.";
        inner = "language_model.model.";
    } else if (in.contains("model.language_model.embed_tokens.weight")) {
        inner = "model.language_model.";
    }
    in.matrix(inner + "embed_tokens", c.vocabulary, c.hidden, out.embedding);
    out.layers.resize(c.layers.size());
    for (std::size_t i = 0; i < out.layers.size(); ++i) {
        const std::string prefix = inner + "layers." + std::to_string(i) + ".";
        plan_norms(in, c, prefix, out.layers[i]);
        plan_attention(in, c, prefix + "self_attn.", out.layers[i]);
        if (c.mixture.experts > 0) {
            plan_fused_experts(in, c, prefix + "mlp.", out.layers[i]);
        } else {
            plan_mlp(in, c, prefix + "mlp.", out.layers[i]);
        }
    }
    in.vector(inner + "norm.weight", c.hidden, out.final_norm);
    if (!c.tied_head) in.matrix(outer + "lm_head", c.vocabulary, c.hidden, out.head);
}

}  // namespace

weight_arena::weight_arena(std::size_t bytes) {
    if (bytes == 0) return;
    void* mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(mapped);
    bytes_ = bytes;
    ::madvise(mapped, bytes, MADV_HUGEPAGE);  // a wish: without it reading is a few per cent slower
}

weight_arena::~weight_arena() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
}

result<model_weights> model_weights::load(const std::string& directory, const model_config& config,
                                          const std::function<void(double)>& progress) {
    auto names = list_files(directory);
    if (!names) return names.error();
    std::vector<weight_file> files;
    for (const std::string& name : *names) {
        auto file = safetensors_file::open(directory + "/" + name);
        if (!file) return file.error();
        files.push_back({directory + "/" + name, std::move(*file)});
    }
    model_weights out;
    tensor_reader reader(files, config);
    plan(reader, config, out);
    if (reader.failed()) return reader.complaint();
    out.arena_ = weight_arena(reader.bytes());
    tbb::parallel_invoke([&] { out.hash_ = hash_files(files); },
                         [&] { pack_all(reader.plans(), out.arena_.data(), progress); });
    if (config.tied_head) out.head = out.embedding;
    return out;
}

}  // namespace semantic::engine
