// Runs CUDA C++ kernels on the CPU: every thread of a block (or of a cluster of blocks) is a fiber, switched only at
// barriers and shuffles, so runs are deterministic. Shared memory starts poisoned. Device functions that hold inline PTX
// are cut from the source by emulation.py and defined here under the same names.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

using std::max;
using std::memcpy;
using std::memset;
using std::min;

#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("emulated_shared")))

struct uint2 { unsigned int x, y; };
struct alignas(16) uint4 { unsigned int x, y, z, w; };
struct int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct uint3 { unsigned int x, y, z; };
struct dim3 { unsigned int x, y, z; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;

namespace emulation {

struct Barrier {
    int arrived = 0;
    long generation = 0;
};

struct Warp {
    Barrier barrier;
    unsigned int alive = 0;
    unsigned long long values[2][32] = {};
};

struct Block {
    uint3 index{};
    int alive = 0;
    Barrier barrier;
    std::vector<Warp> warps;
    std::vector<unsigned char> dynamic;  // dynamic shared memory
    std::vector<unsigned char> statics;  // static shared memory while another block runs
};

struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    uint3 index{};
    int block = 0, linear = 0, parity = 0;
    long token = 0;  // generation of the cluster barrier that it arrived at
    bool done = false;
};

extern "C" unsigned char __start_emulated_shared[] __attribute__((weak));
extern "C" unsigned char __stop_emulated_shared[] __attribute__((weak));

static std::vector<Block> blocks;
static std::vector<Fiber> fibers;
static Barrier cluster_barrier;
static Fiber* current = nullptr;
static int resident = -1;  // the block whose static shared memory is in place
static ucontext_t scheduler;
static long progress = 0;
static void (*body)() = nullptr;

inline size_t statics_bytes() { return size_t(__stop_emulated_shared - __start_emulated_shared); }
inline Block& block() { return blocks[current->block]; }
inline Warp& warp() { return block().warps[current->linear / 32]; }
inline int lane() { return current->linear % 32; }
inline void yield() { swapcontext(&current->context, &scheduler); }

inline void release(Barrier& barrier, int expected) {
    if (expected > 0 && barrier.arrived >= expected) {
        barrier.arrived = 0;
        ++barrier.generation;
        ++progress;
    }
}

template <typename Expected> inline void wait(Barrier& barrier, Expected expected) {
    const long mine = barrier.generation;
    ++barrier.arrived;
    release(barrier, expected());
    while (barrier.generation == mine) yield();
}

inline int alive_in_cluster() {
    int alive = 0;
    for (const Block& each : blocks) alive += each.alive;
    return alive;
}

inline void warp_wait(unsigned int mask) {
    Warp& mine = warp();
    wait(mine.barrier, [&] { return __builtin_popcount(mask & mine.alive); });
}

inline void entry() {
    body();
    current->done = true;
    ++progress;
    Block& mine = block();
    --mine.alive;
    warp().alive &= ~(1u << lane());
    release(mine.barrier, mine.alive);
    release(warp().barrier, __builtin_popcount(warp().alive));
    release(cluster_barrier, alive_in_cluster());
    swapcontext(&current->context, &scheduler);
}

inline void enter(Fiber& fiber) {
    if (resident != fiber.block) {
        const size_t bytes = statics_bytes();
        if (resident >= 0 && bytes) memcpy(blocks[resident].statics.data(), __start_emulated_shared, bytes);
        if (bytes) memcpy(__start_emulated_shared, blocks[fiber.block].statics.data(), bytes);
        resident = fiber.block;
    }
    current = &fiber;
    threadIdx = fiber.index;
    blockIdx = blocks[fiber.block].index;
    swapcontext(&scheduler, &fiber.context);
}

// Runs the blocks of one cluster together. Returns 0, or 1 for a deadlock.
inline int run_cluster(const std::vector<uint3>& indices, size_t shared_bytes) {
    const int threads = int(blockDim.x * blockDim.y * blockDim.z);
    constexpr size_t stack_bytes = 256 * 1024;
    blocks.assign(indices.size(), Block{});
    fibers.resize(indices.size() * threads);
    cluster_barrier = Barrier{};
    resident = -1;
    for (size_t b = 0; b < indices.size(); ++b) {
        Block& each = blocks[b];
        each.index = indices[b];
        each.alive = threads;
        each.warps.resize((threads + 31) / 32);
        each.dynamic.assign(shared_bytes + 128, 0xff);
        each.statics.assign(statics_bytes(), 0xff);
        for (int t = 0; t < threads; ++t) {
            Fiber& fiber = fibers[b * threads + t];
            if (!fiber.stack) fiber.stack.reset(new char[stack_bytes]);
            fiber.index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
            fiber.block = int(b);
            fiber.linear = t;
            fiber.parity = 0;
            fiber.done = false;
            each.warps[t / 32].alive |= 1u << (t % 32);
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.get();
            fiber.context.uc_stack.ss_size = stack_bytes;
            fiber.context.uc_link = nullptr;
            makecontext(&fiber.context, entry, 0);
        }
    }
    for (bool running = true; running;) {
        const long before = progress;
        running = false;
        for (Fiber& fiber : fibers) {
            if (fiber.done) continue;
            running = true;
            enter(fiber);
        }
        if (running && progress == before) return 1;
    }
    return 0;
}

inline void* dynamic_shared() {
    const auto address = reinterpret_cast<uintptr_t>(block().dynamic.data());
    return reinterpret_cast<void*>((address + 127) / 128 * 128);
}

// Where block `rank` of the cluster keeps what this block keeps at `mine`.
inline const void* at_peer(const void* mine, unsigned int rank) {
    if (int(rank) == current->block) return mine;
    const auto* address = static_cast<const unsigned char*>(mine);
    if (address >= __start_emulated_shared && address < __stop_emulated_shared) {
        return blocks[rank].statics.data() + (address - __start_emulated_shared);
    }
    const auto base = [](Block& b) { return (reinterpret_cast<uintptr_t>(b.dynamic.data()) + 127) / 128 * 128; };
    return reinterpret_cast<const void*>(base(blocks[rank]) + (reinterpret_cast<uintptr_t>(mine) - base(block())));
}

template <typename T, typename Source> inline T exchange(T value, unsigned int mask, Source source) {
    static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
    Warp& mine = warp();
    auto& slots = mine.values[current->parity ^= 1];
    memcpy(&slots[lane()], &value, sizeof(T));
    warp_wait(mask);
    const int from = source(lane());
    T result = value;
    if (from >= 0 && from < 32) memcpy(&result, &slots[from], sizeof(T));
    return result;
}

template <typename... A, size_t... I> inline void invoke(void (*kernel)(A...), void** args, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_reference_t<A>*>(args[I])...);
}

static void** arguments = nullptr;

template <auto Kernel> struct Entry;
template <typename... A, void (*Kernel)(A...)> struct Entry<Kernel> {
    static void run() { invoke(Kernel, arguments, std::index_sequence_for<A...>{}); }
    // One letter and the size an argument: p pointer, i integer, f floating point, s struct.
    static const char* signature() {
        static char text[512];
        size_t used = 0;
        ((used += size_t(snprintf(text + used, sizeof(text) - used, "%c%zu ",
            std::is_pointer_v<A> ? 'p' : std::is_floating_point_v<A> ? 'f' : std::is_integral_v<A> ? 'i' : 's', sizeof(A)))),
         ...);
        return text;
    }
};

inline int launch(void (*run)(), const unsigned int* shape, int cluster, size_t shared_bytes, void** args) {
    gridDim = {shape[0], shape[1], shape[2]};
    blockDim = {shape[3], shape[4], shape[5]};
    arguments = args;
    body = run;
    const unsigned int total = gridDim.x * gridDim.y * gridDim.z;
    if (gridDim.x % unsigned(cluster)) return 2;
    for (unsigned int first = 0; first < total; first += unsigned(cluster)) {
        std::vector<uint3> indices;
        for (unsigned int b = first; b < first + unsigned(cluster); ++b) {
            indices.push_back({b % gridDim.x, b / gridDim.x % gridDim.y, b / (gridDim.x * gridDim.y)});
        }
        if (int status = run_cluster(indices, shared_bytes)) return status;
    }
    return 0;
}

}  // namespace emulation

inline void __syncthreads() {
    auto& mine = emulation::block();
    emulation::wait(mine.barrier, [&] { return mine.alive; });
}
inline void __syncwarp(unsigned int mask = 0xffffffffu) { emulation::warp_wait(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}

template <typename T> T __shfl_xor_sync(unsigned int mask, T value, int other, int = 32) {
    return emulation::exchange(value, mask, [=](int lane) { return lane ^ other; });
}
template <typename T> T __shfl_sync(unsigned int mask, T value, int source, int width = 32) {
    return emulation::exchange(value, mask, [=](int lane) { return lane / width * width + source % width; });
}
template <typename T> T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
    return emulation::exchange(value, mask, [=](int lane) { return lane % width + int(delta) < width ? lane + int(delta) : lane; });
}
template <typename T> T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
    return emulation::exchange(value, mask, [=](int lane) { return lane % width >= int(delta) ? lane - int(delta) : lane; });
}
inline unsigned int __ballot_sync(unsigned int mask, int predicate) {
    unsigned int result = 0;
    for (int bit = 0; bit < 32; ++bit) {
        result |= unsigned(__shfl_sync(mask, int(predicate != 0), bit) && (mask >> bit & 1)) << bit;
    }
    return result;
}
inline int __any_sync(unsigned int mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned int mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

template <typename T> T __ldg(const T* p) { return *p; }
template <typename T> T __ldcs(const T* p) { return *p; }
template <typename T> T __ldcg(const T* p) { return *p; }
template <typename T> void __stcs(T* p, T value) { *p = value; }
template <typename T> void __stcg(T* p, T value) { *p = value; }
template <typename T> T atomicAdd(T* p, T value) { T old = *p; *p = old + value; return old; }
template <typename T> T atomicMax(T* p, T value) { T old = *p; *p = max(old, value); return old; }
template <typename T> T atomicExch(T* p, T value) { T old = *p; *p = value; return old; }
template <typename T> T atomicInc(T* p, T limit) { T old = *p; *p = old >= limit ? 0 : old + 1; return old; }

template <typename To, typename From> To emulated_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}
inline float __int_as_float(int x) { return emulated_bits<float>(x); }
inline int __float_as_int(float x) { return emulated_bits<int>(x); }
inline float __uint_as_float(unsigned int x) { return emulated_bits<float>(x); }
inline unsigned int __float_as_uint(float x) { return emulated_bits<unsigned int>(x); }
inline double __longlong_as_double(long long x) { return emulated_bits<double>(x); }
inline size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<size_t>(p); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }

// Rounds a float to the nearest value with `mantissa` bits below the leading one and half-type range; ties to even.
inline unsigned short emulated_half_bits(float x) {
    const unsigned int bits = __float_as_uint(x), sign = bits >> 16 & 0x8000;
    if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<unsigned short>(0x7fff);
    const float magnitude = fabsf(x);
    if (magnitude >= 65520.0f) return static_cast<unsigned short>(sign | 0x7c00);
    if (magnitude < 6.103515625e-05f) return static_cast<unsigned short>(sign | unsigned(rintf(magnitude * 16777216.0f)));
    const unsigned int rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
    return static_cast<unsigned short>(sign | ((rounded >> 13) - (112 << 10)));
}
inline float emulated_half_value(unsigned short bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
        : exponent ? ldexpf(float(1024 + fraction), exponent - 25) : ldexpf(float(fraction), -24);
    return bits >> 15 ? -magnitude : magnitude;
}
inline unsigned short emulated_bfloat16_bits(float x) {
    const unsigned int bits = __float_as_uint(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Replacements of the device prelude's functions that hold PTX.
inline float maximum(float a, float b) { return a > b || a != a ? a : b; }
inline float fast_exp(float x) { return expf(x); }
inline float fast_divide(float a, float b) { return a / b; }
inline float minimum(float a, float b) { return a < b || a != a ? a : b; }
inline uint4 load_word_past_l1(const uint4* source) { return *source; }
inline unsigned int cluster_rank() { return unsigned(emulation::current->block); }
inline void cluster_arrive() {
    auto& barrier = emulation::cluster_barrier;
    emulation::current->token = barrier.generation;
    ++barrier.arrived;
    emulation::release(barrier, emulation::alive_in_cluster());
}
inline void cluster_wait() {
    while (emulation::cluster_barrier.generation == emulation::current->token) emulation::yield();
}
inline void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}
inline unsigned int load_from_peer(const unsigned int* mine, unsigned int rank) {
    return *static_cast<const unsigned int*>(emulation::at_peer(mine, rank));
}
