// Tensor-core and asynchronous-copy instructions on the CPU, for cuda_emulation.hpp: collective over a warp's fibers.
// Copies happen when their thread waits for them, as late as the hardware may: a missing wait reads poison.
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
