#include "engine/model/weights.hpp"

#include <tbb/parallel_for.h>
#include <tbb/parallel_invoke.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <sys/mman.h>

#include "engine/kernels/gemm.hpp"
#include "engine/model/tensor_reader.hpp"
#include "engine/model/weight_plan.hpp"
#include "storage/file.hpp"
#include "storage/safetensors.hpp"

namespace semantic::engine {

namespace {

using storage::dtype;
using storage::errc;
using storage::failure;
using storage::result;
using storage::safetensors_file;

/// Source bytes that one packing task takes; how far the packed copy and its source may overlap in
/// memory, for each thread.
constexpr std::size_t task_source_bytes = 1u << 20;
/// Bytes hashed between two drops of their pages.
constexpr std::size_t hash_piece_bytes = 8u << 20;

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

/// Element `at` of a matrix of MLX words, as pack_mlx's kernels would widen it.
float unpacked(const packing& plan, std::size_t at) {
    const int bits = plan.unpack_bits;
    const auto word = std::to_integer<unsigned>(plan.parts[0][bits == 8 ? at : at / 2]);
    const unsigned q = bits == 8 ? word : word >> at % 2 * 4 & 15u;
    const scale_kind scales = plan.to->scales;
    const dtype type = scales == scale_kind::f32   ? dtype::f32
                       : scales == scale_kind::f16 ? dtype::f16
                                                   : dtype::bf16;
    const std::size_t group = at / group_size * storage::dtype_bytes(type);
    return std::fma(read_element(type, plan.parts[1].data() + group), static_cast<float>(q),
                    read_element(type, plan.parts[2].data() + group));
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
        auto from = static_cast<std::size_t>(row * plan.order.turns + plan.order.turn);
        for (int col = 0; col < to.cols; ++col, from += pitch, next += each) {
            if (plan.unpack_bits == 0) {
                std::memcpy(next, plan.parts[0].data() + from * each, each);
            } else {
                const half value = to_half(unpacked(plan, from));
                std::memcpy(next, &value, sizeof value);
            }
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
    // Every tile reads all over the source: it can be let go only as a whole. What another task
    // still reads comes back from the page cache.
    if (task.tile_end != plan.to->tiles()) return;
    for (int part = 0; part < 3 && plan.from[part] != nullptr; ++part)
        plan.from[part]->file.drop(plan.parts[part]);
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
    plan_weights(reader, config, out);
    if (reader.failed()) return reader.complaint();
    out.arena_ = weight_arena(reader.bytes());
    tbb::parallel_invoke([&] { out.hash_ = hash_files(files); },
                         [&] { pack_all(reader.plans(), out.arena_.data(), progress); });
    if (config.tied_head) out.head = out.embedding;
    return out;
}

}  // namespace semantic::engine
