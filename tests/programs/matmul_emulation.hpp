// Tensor-core and asynchronous-copy instructions on the CPU, for cuda_emulation.hpp: collective over a warp's fibers.
// Copies happen when their thread waits for them, as late as the hardware may, and leave poison until then: a missing wait
// reads it, and so does a product whose tile they overwrite too early.
#pragma once
#include <functional>
#include <map>

namespace emulation {

struct Copies {
    std::vector<std::vector<std::function<void()>>> groups;
    std::vector<std::function<void()>> open;
};
static std::map<Fiber*, Copies> copies;

inline void copy_later(void* target, const void* source, int size, int bytes) {
    if (reinterpret_cast<uintptr_t>(target) % size || (bytes && reinterpret_cast<uintptr_t>(source) % size)) {
        fprintf(stderr, "misaligned asynchronous copy of %d bytes\n", size);
        abort();
    }
    memset(target, 0xff, size);
    copies[current].open.push_back([=] {
        memset(target, 0, size);
        memcpy(target, source, bytes);
    });
}
inline void copies_close() {
    auto& mine = copies[current];
    mine.groups.push_back(std::move(mine.open));
    mine.open.clear();
}
inline void copies_finish(size_t pending) {
    auto& mine = copies[current];
    while (mine.groups.size() > pending) {
        for (auto& each : mine.groups.front()) each();
        mine.groups.erase(mine.groups.begin());
    }
}

struct Board { unsigned long long words[2][32][8]; };
static std::map<Warp*, Board> boards;

// What every lane of the warp put in: rows of up to eight words.
inline auto publish(const unsigned long long* mine, int count) -> unsigned long long (*)[8] {
    auto& slots = boards[&warp()].words[current->parity ^= 1];
    for (int i = 0; i < count; ++i) slots[lane()][i] = mine[i];
    warp_wait(0xffffffffu);
    return slots;
}

inline void matrices(unsigned int (&result)[4], const void* row, bool transposed) {
    const unsigned long long mine = reinterpret_cast<unsigned long long>(row);
    if (mine % 16) { fprintf(stderr, "misaligned matrix row\n"); abort(); }
    auto rows = publish(&mine, 1);
    const int g = lane() / 4, t = lane() % 4;
    for (int i = 0; i < 4; ++i) {
        const auto at = [&](int r, int c) { return unsigned(reinterpret_cast<const unsigned short*>(rows[8 * i + r][0])[c]); };
        result[i] = transposed ? at(2 * t, g) | at(2 * t + 1, g) << 16 : at(g, 2 * t) | at(g, 2 * t + 1) << 16;
    }
}

// PER_WORD elements lie in each register: two halves or one tf32 number. K is 16 or 8.
template <int PER_WORD, typename Value> void multiply(float (&acc)[4], const unsigned int (&a)[4], unsigned b0, unsigned b1, Value value) {
    const unsigned long long mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    auto all = publish(mine, 6);
    const int g = lane() / 4, t = lane() % 4;
    for (int c = 0; c < 4; ++c) {
        const int n = 2 * t + c % 2;
        float sum = 0;
        for (int k = 0; k < 8 * PER_WORD; ++k) {
            const int within = k % (4 * PER_WORD), half = k / (4 * PER_WORD);
            const unsigned wa = unsigned(all[g * 4 + within / PER_WORD][half * 2 + c / 2]);
            const unsigned wb = unsigned(all[n * 4 + within / PER_WORD][4 + half]);
            sum += value(wa, within % PER_WORD) * value(wb, within % PER_WORD);
        }
        acc[c] += sum;
    }
}

}  // namespace emulation

inline void copy_async_4(void* target, const void* source, int bytes) { emulation::copy_later(target, source, 4, bytes); }
inline void copy_async_8(void* target, const void* source, int bytes) { emulation::copy_later(target, source, 8, bytes); }
inline void copy_async_16(void* target, const void* source, int bytes) { emulation::copy_later(target, source, 16, bytes); }
inline void copies_commit() { emulation::copies_close(); }
template <int PENDING> void copies_wait() { emulation::copies_finish(PENDING); }
inline void load_matrices(unsigned int (&result)[4], const void* row) { emulation::matrices(result, row, false); }
inline void load_matrices_transposed(unsigned int (&result)[4], const void* row) { emulation::matrices(result, row, true); }
inline void multiply_float16(float (&acc)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    emulation::multiply<2>(acc, a, b0, b1, [](unsigned word, int part) {
        return emulated_half_value(static_cast<unsigned short>(word >> 16 * part));
    });
}
inline void multiply_bfloat16(float (&acc)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    emulation::multiply<2>(acc, a, b0, b1, [](unsigned word, int part) {
        return __uint_as_float(part ? word & 0xffff0000u : word << 16);
    });
}
inline unsigned int to_tf32(float x) { return (__float_as_uint(x) + 0x1000u) & ~0x1fffu; }
inline void multiply_tf32(float (&acc)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    emulation::multiply<1>(acc, a, b0, b1, [](unsigned word, int) { return __uint_as_float(word & ~0x1fffu); });
}

// Warpgroup products: computed when issued and again when waited for, as hardware may read shared memory at any time
// between the two. Different results mean that a copy overwrote a tile too early.
#ifdef EMULATED_A_TRANSPOSED
namespace emulation {

struct Product { float* sums; int count; bool accumulate; unsigned long long a, b; std::vector<float> early; };
static std::map<Fiber*, std::vector<std::vector<Product>>> products;
static std::map<Fiber*, std::vector<Product>> open_products;

// Without swizzling (the upper two bits) a word of 16 bytes of k lies behind that of the next outer element.
inline float tile_element(unsigned long long descriptor, int outer, int k, bool transposed) {
    constexpr int BYTES = EMULATED_TF32 ? 4 : 2, PACK = 16 / BYTES;
    const unsigned address = unsigned(descriptor & 0x3fff) << 4, panel = unsigned(descriptor >> 16 & 0x3fff) << 4;
    const unsigned step = unsigned(descriptor >> 32 & 0x3fff) << 4;
    const bool plain = descriptor >> 62 == 0;
    const unsigned place = plain        ? outer / 8 * step + outer % 8 * 16 + k / PACK * panel + k % PACK * BYTES
                           : transposed ? outer / 64 * panel + k / 8 * step + k % 8 * 128 + outer % 64 * 2
                                        : outer / 8 * step + outer % 8 * 128 + k * 2;
    // Swizzling acts on address bits: the 16-byte word within 128 bytes is exclusive-ored with the row of eight.
    const unsigned linear = address + place, swizzled = plain ? linear : linear ^ (linear >> 7 & 7) << 4;
    const auto* source = static_cast<unsigned char*>(dynamic_shared()) + swizzled;
    if (EMULATED_TF32) {
        unsigned word;
        memcpy(&word, source, 4);
        return __uint_as_float(word & ~0x1fffu);
    }
    unsigned short bits;
    memcpy(&bits, source, 2);
    return EMULATED_BFLOAT16 ? __uint_as_float(unsigned(bits) << 16) : emulated_half_value(bits);
}

inline std::vector<float> product_sums(const Product& each) {
    const int thread = current->linear % 128, lane = thread % 32;
    std::vector<float> result(each.count);
    constexpr int DEPTH = EMULATED_TF32 ? 8 : 16;
    float a[2][DEPTH];
    for (int h = 0; h < 2; ++h)
        for (int k = 0; k < DEPTH; ++k) a[h][k] = tile_element(each.a, thread / 32 * 16 + lane / 4 + 8 * h, k, EMULATED_A_TRANSPOSED);
    for (int j = 0; j < each.count; ++j) {
        const int n = j / 4 * 8 + lane % 4 * 2 + j % 2;
        for (int k = 0; k < DEPTH; ++k) result[j] += a[j / 2 % 2][k] * tile_element(each.b, n, k, EMULATED_B_TRANSPOSED);
    }
    return result;
}

}  // namespace emulation

inline unsigned int shared_address(const void* p) {
    return unsigned(static_cast<const unsigned char*>(p) - static_cast<unsigned char*>(emulation::dynamic_shared()));
}
template <int COUNT> void multiply_async(float (&sums)[COUNT], unsigned long long a, unsigned long long b, int accumulate) {
    emulation::Product each{sums, COUNT, accumulate != 0, a, b, {}};
    each.early = emulation::product_sums(each);
    emulation::open_products[emulation::current].push_back(each);
}
inline void copies_to_tensor_cores() {}
inline void products_begin() {}
inline void products_commit() {
    auto& open = emulation::open_products[emulation::current];
    emulation::products[emulation::current].push_back(std::move(open));
    open.clear();
}
template <int PENDING> void products_wait() {
    auto& groups = emulation::products[emulation::current];
    while (groups.size() > PENDING) {
        for (auto& each : groups.front()) {
            const std::vector<float> late = emulation::product_sums(each);
            if (memcmp(late.data(), each.early.data(), late.size() * sizeof(float))) {
                fprintf(stderr, "a tile changed under a warpgroup product\n");
                abort();
            }
            for (int j = 0; j < each.count; ++j) each.sums[j] = (each.accumulate ? each.sums[j] : 0.0f) + late[j];
        }
        groups.erase(groups.begin());
    }
}
inline void hold(float&) {}
#endif

// A barrier's word: arrivals wanted, arrivals missing in this phase, phases done.
inline void barrier_set(unsigned long long* barrier, int arrivals) { *barrier = (unsigned long long)arrivals << 48 | (unsigned long long)arrivals << 32; }
inline void barrier_arrive(unsigned long long* barrier) {
    *barrier -= 1ull << 32;
    ++emulation::progress;
    if ((*barrier >> 32 & 0xffff) == 0) *barrier = (*barrier | *barrier >> 16 & 0xffffull << 32) + 1;
}
inline void barrier_await(unsigned long long* barrier, int parity) {
    while ((*barrier & 1) == (unsigned long long)parity) emulation::yield();
}
