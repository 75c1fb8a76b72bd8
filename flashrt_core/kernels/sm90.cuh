// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Instructions of sm_90a that CUDA C++ has no words for: tile copies, clusters, warp-group matrix
// products. Compiles to nothing for other architectures.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cluster.cuh"

namespace flashrt::cuda::sm90 {

inline constexpr int kWarpGroup = 128;              // threads that multiply together
inline constexpr size_t kSharedBytes = 227 * 1024;  // the most a block may have
inline constexpr int kSwizzleBytes = 128;           // of a row of a tile in shared memory
inline constexpr int kSwizzleRows = 8;              // after so many rows the pattern repeats
inline constexpr int kTileAlignment = kSwizzleBytes * kSwizzleRows;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ---- clusters

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// All threads of all blocks of the cluster; orders their accesses to each other's shared memory.
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;\n" ::
          : "memory");
}
// The same, but orders nothing itself: after publish_barriers(), which has.
__device__ __forceinline__ void cluster_start() {
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;\n" ::
          : "memory");
}
__device__ __forceinline__ float4 load_from_cluster(uint32_t address) {
  float4 x;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address)
               : "memory");
  return x;
}

// Arrives at a barrier by its address in the cluster, in this block or another. What was read is
// not ordered by it, as a wider scope would do at the price of a fence: products have read once
// they are done.
__device__ __forceinline__ void arrive_in_cluster(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// True in one lane of the warp, whose instructions the compiler then issues once.
__device__ __forceinline__ bool is_elected() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(elected));
  return elected;
}

// ---- the copy engine

__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// Copies the box of the map at {x, y} to the same place in all blocks of the mask, and reports its
// bytes to the same barrier in each of them. What lies outside the tensor arrives as zeros.
__device__ __forceinline__ void copy_box(const CUtensorMap& map, int x, int y, uint32_t to,
                                         uint32_t barrier, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(mask)
      : "memory");
}
// The same for this block alone.
__device__ __forceinline__ void copy_box(const CUtensorMap& map, int x, int y, uint32_t to,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// The same for boxes of whole blocks of rows (blocked_tensor_map).
struct BlockedAt {
  int row, group, block;
};
__device__ __forceinline__ void copy_blocks(const CUtensorMap& map, const BlockedAt& at,
                                            uint32_t to, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(&map), "r"(0), "r"(at.row), "r"(at.group), "r"(at.block), "r"(barrier)
      : "memory");
}

// The same for boxes of columns of a head (heads_tensor_map).
struct HeadAt {
  int column, head, row, block;
};
__device__ __forceinline__ void copy_head(const CUtensorMap& map, const HeadAt& at, uint32_t to,
                                          uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.head), "r"(at.row), "r"(at.block), "r"(barrier)
      : "memory");
}

// ---- registers: a warp group gives some up, another takes them

template <int kCount>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// ---- shared memory

__device__ __forceinline__ void store_shared(uint32_t address, float4 x) {
  asm volatile("st.shared::cta.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x.x), "f"(x.y),
               "f"(x.z), "f"(x.w)
               : "memory");
}
__device__ __forceinline__ uint4 load_shared(uint32_t address) {
  uint4 x;
  asm volatile("ld.shared::cta.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address)
               : "memory");
  return x;
}
// Orders this thread's accesses to shared memory before those of the copy engine and the matrix
// instructions that a following barrier lets go.
__device__ __forceinline__ void fence_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Four 8 x 8 matrices of 16-bit values, transposed. Lane 4i + j holds (row i, columns 2j, 2j + 1)
// of each; column c of matrix m is written to the 16 bytes at the address of lane 8m + c.
__device__ __forceinline__ void store_transposed(uint32_t address, const uint32_t (&m)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
      : "memory");
}

// The same without the transposition: row r of matrix m is written at the address of lane 8m + r.
__device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&m)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
               : "memory");
}

// ---- warp-group matrix products: d += a b^T, a [64, 32 bytes], b [n, 32 bytes] in shared memory.
// Lane l of warp w of the group holds d[16w + l/4 + 8h][8j + 2(l%4) + i] at d[4j + 2h + i].

// Describes a tile of rows of 128 bytes, swizzled, that starts at a multiple of kTileAlignment, for
// an operand whose rows are added up, as those of v: their next columns lie so many bytes further.
__device__ __forceinline__ uint64_t rows_descriptor(uint32_t address, int next_tile) {
  constexpr int kUnit = 16;                            // addresses are in units of it
  constexpr uint64_t kGroup = kTileAlignment / kUnit;  // from eight rows to the next eight
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | kGroup << 32 | static_cast<uint64_t>(next_tile / kUnit) << 16 |
         (address / kUnit & 0x3fff);
}
// For one whose columns are. Advancing the address by fewer than 128 bytes moves along the rows.
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t address) {
  constexpr int kNotUsed = 16;
  return rows_descriptor(address, kNotUsed);
}
constexpr __device__ uint64_t descriptor_step(int bytes) { return bytes / 16; }

// Orders accesses to the registers of d before the products that follow.
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most so many of the committed groups are unfinished.
template <int kUnfinished>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kUnfinished) : "memory");
}
// Keeps the compiler from reading d, or giving away the registers of an operand, before this point.
template <int N>
__device__ __forceinline__ void settle(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N>
__device__ __forceinline__ void settle(uint32_t (&a)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(a[i])::"memory");
}

template <class Element, int kColumns>
struct Product;  // ::add(d, a, b, is_sum): d = a b^T, or d += a b^T

#define FLASHRT_TEN(t)                                                                             \
  "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t \
  "9"
#define FLASHRT_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FLASHRT_D8(i) FLASHRT_D4(i), FLASHRT_D4(i + 4)
#define FLASHRT_D32(i) FLASHRT_D8(i), FLASHRT_D8(i + 8), FLASHRT_D8(i + 16), FLASHRT_D8(i + 24)

#define FLASHRT_PRODUCT(Type, n, shape, types, tail, list, a_operand, b_operand, sum_operand, ...) \
  template <>                                                                                      \
  struct Product<Type, n> {                                                                        \
    static __device__ __forceinline__ void add(float (&d)[n / 2], uint64_t a, uint64_t b,          \
                                               uint32_t is_sum) {                                  \
      asm volatile(                                                                                \
          "{\n"                                                                                    \
          ".reg .pred p;\n"                                                                        \
          "setp.ne.b32 p, " sum_operand                                                            \
          ", 0;\n"                                                                                 \
          "wgmma.mma_async.sync.aligned." shape "." types " {" list "}, " a_operand ", " b_operand \
          ", p, " tail                                                                             \
          ";\n"                                                                                    \
          "}\n"                                                                                    \
          : __VA_ARGS__                                                                            \
          : "l"(a), "l"(b), "r"(is_sum));                                                          \
    }                                                                                              \
  };
#define FLASHRT_PRODUCTS(n, list, a_operand, b_operand, sum_operand, ...)                      \
  FLASHRT_PRODUCT(__nv_fp8_e4m3, n, "m64n" #n "k32", "f32.e4m3.e4m3", "1, 1", list, a_operand, \
                  b_operand, sum_operand, __VA_ARGS__)                                         \
  FLASHRT_PRODUCT(__nv_bfloat16, n, "m64n" #n "k16", "f32.bf16.bf16", "1, 1, 0, 0", list,      \
                  a_operand, b_operand, sum_operand, __VA_ARGS__)

FLASHRT_PRODUCTS(32, FLASHRT_TEN() ", %10, %11, %12, %13, %14, %15", "%16", "%17", "%18",
                 FLASHRT_D8(0), FLASHRT_D8(8))
FLASHRT_PRODUCTS(48, FLASHRT_TEN() ", " FLASHRT_TEN(1) ", %20, %21, %22, %23", "%24", "%25", "%26",
                 FLASHRT_D8(0), FLASHRT_D8(8), FLASHRT_D8(16))
FLASHRT_PRODUCTS(64, FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", %30, %31", "%32",
                 "%33", "%34", FLASHRT_D32(0))
FLASHRT_PRODUCTS(80, FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(3),
                 "%40", "%41", "%42", FLASHRT_D32(0), FLASHRT_D8(32))
FLASHRT_PRODUCTS(88,
                 FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(
                     3) ", %40, %41, %42, %43",
                 "%44", "%45", "%46", FLASHRT_D32(0), FLASHRT_D8(32), FLASHRT_D4(40))
FLASHRT_PRODUCTS(96,
                 FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(
                     3) ", %40, %41, %42, %43, %44, %45, %46, %47",
                 "%48", "%49", "%50", FLASHRT_D32(0), FLASHRT_D8(32), FLASHRT_D8(40))
FLASHRT_PRODUCTS(112,
                 FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(
                     3) ", " FLASHRT_TEN(4) ", %50, %51, %52, %53, %54, %55",
                 "%56", "%57", "%58", FLASHRT_D32(0), FLASHRT_D8(32), FLASHRT_D8(40),
                 FLASHRT_D8(48))
FLASHRT_PRODUCTS(128,
                 FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(
                     3) ", " FLASHRT_TEN(4) ", " FLASHRT_TEN(5) ", %60, %61, %62, %63",
                 "%64", "%65", "%66", FLASHRT_D32(0), FLASHRT_D32(32))
FLASHRT_PRODUCTS(
    136,
    FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(3) ", " FLASHRT_TEN(
        4) ", " FLASHRT_TEN(5) ", %60, %61, %62, %63, %64, %65, %66, %67",
    "%68", "%69", "%70", FLASHRT_D32(0), FLASHRT_D32(32), FLASHRT_D4(64))
FLASHRT_PRODUCTS(176,
                 FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(
                     3) ", " FLASHRT_TEN(4) ", " FLASHRT_TEN(5) ", " FLASHRT_TEN(6) ", " FLASHRT_TEN(7) ", %80, %81, %82, %83, %84, %85, %86, %87",
                 "%88", "%89", "%90", FLASHRT_D32(0), FLASHRT_D32(32), FLASHRT_D8(64),
                 FLASHRT_D8(72), FLASHRT_D8(80))
FLASHRT_PRODUCTS(200,
                 FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(
                     3) ", " FLASHRT_TEN(4) ", " FLASHRT_TEN(5) ", " FLASHRT_TEN(6) ", " FLASHRT_TEN(7) ", " FLASHRT_TEN(8) ", " FLASHRT_TEN(9),
                 "%100", "%101", "%102", FLASHRT_D32(0), FLASHRT_D32(32), FLASHRT_D32(64),
                 FLASHRT_D4(96))
FLASHRT_PRODUCTS(216,
                 FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(
                     3) ", " FLASHRT_TEN(4) ", " FLASHRT_TEN(5) ", " FLASHRT_TEN(6) ", " FLASHRT_TEN(7) ", " FLASHRT_TEN(8) ", " FLASHRT_TEN(9) ", %100, %101, %102, %103, %104, %105, %106, %107",
                 "%108", "%109", "%110", FLASHRT_D32(0), FLASHRT_D32(32), FLASHRT_D32(64),
                 FLASHRT_D8(96), FLASHRT_D4(104))
FLASHRT_PRODUCTS(256,
                 FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(
                     3) ", " FLASHRT_TEN(4) ", " FLASHRT_TEN(5) ", " FLASHRT_TEN(6) ", " FLASHRT_TEN(7) ", " FLASHRT_TEN(8) ", " FLASHRT_TEN(9) ", " FLASHRT_TEN(10) ", " FLASHRT_TEN(11) ", %120, %121, %122, %123, %124, %125, %126, %127",
                 "%128", "%129", "%130", FLASHRT_D32(0), FLASHRT_D32(32), FLASHRT_D32(64),
                 FLASHRT_D32(96))

// With a [64, 16] in registers: lane 4 g + t of warp w holds of rows 16 w + g and 16 w + g + 8
// columns 2t, 2t + 1, then of both columns 2t + 8, 2t + 9. ..._of_rows: d [64, n] += a b, b [16, n]
// in shared memory with neighbouring columns side by side. ..._of_columns: d += a b^T, b [n, 32
// bytes].
#define FLASHRT_REGISTER_PRODUCT(name, n, is_transposed, list, a_operands, b_operand, sum_operand, \
                                 ...)                                                              \
  __device__ __forceinline__ void name(float(&d)[n / 2], const uint32_t(&a)[4], uint64_t b,        \
                                       uint32_t is_sum) {                                          \
    asm volatile(                                                                                  \
        "{\n"                                                                                      \
        ".reg .pred p;\n"                                                                          \
        "setp.ne.b32 p, " sum_operand                                                              \
        ", 0;\n"                                                                                   \
        "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" list "}, {" a_operands        \
        "}, " b_operand ", p, 1, 1, " is_transposed                                                \
        ";\n"                                                                                      \
        "}\n"                                                                                      \
        : __VA_ARGS__                                                                              \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(is_sum));                        \
  }
#define FLASHRT_ROW_PRODUCT(n, ...) \
  FLASHRT_REGISTER_PRODUCT(add_product_of_rows, n, "1", __VA_ARGS__)
#define FLASHRT_COLUMN_PRODUCT(n, ...) \
  FLASHRT_REGISTER_PRODUCT(add_product_of_columns, n, "0", __VA_ARGS__)

FLASHRT_ROW_PRODUCT(40, FLASHRT_TEN() ", " FLASHRT_TEN(1), "%20, %21, %22, %23", "%24", "%25",
                    FLASHRT_D8(0), FLASHRT_D8(8), FLASHRT_D4(16))
FLASHRT_ROW_PRODUCT(56,
                    FLASHRT_TEN() ", " FLASHRT_TEN(1) ", %20, %21, %22, %23, %24, %25, %26, %27",
                    "%28, %29, %30, %31", "%32", "%33", FLASHRT_D8(0), FLASHRT_D8(8),
                    FLASHRT_D8(16), FLASHRT_D4(24))
FLASHRT_ROW_PRODUCT(
    72, FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", %30, %31, %32, %33, %34, %35",
    "%36, %37, %38, %39", "%40", "%41", FLASHRT_D32(0), FLASHRT_D4(32))
FLASHRT_ROW_PRODUCT(
    256,
    FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(3) ", " FLASHRT_TEN(
        4) ", " FLASHRT_TEN(5) ", " FLASHRT_TEN(6) ", " FLASHRT_TEN(7) ", " FLASHRT_TEN(8) ", " FLASHRT_TEN(9) ", " FLASHRT_TEN(10) ", " FLASHRT_TEN(11) ", %120, %121, %122, %123, %124, %125, %126, %127",
    "%128, %129, %130, %131", "%132", "%133", FLASHRT_D32(0), FLASHRT_D32(32), FLASHRT_D32(64),
    FLASHRT_D32(96))
FLASHRT_COLUMN_PRODUCT(64, FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", %30, %31",
                       "%32, %33, %34, %35", "%36", "%37", FLASHRT_D32(0))
FLASHRT_COLUMN_PRODUCT(176,
                       FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(
                           3) ", " FLASHRT_TEN(4) ", " FLASHRT_TEN(5) ", " FLASHRT_TEN(6) ", " FLASHRT_TEN(7) ", %80, %81, %82, %83, %84, %85, %86, %87",
                       "%88, %89, %90, %91", "%92", "%93", FLASHRT_D32(0), FLASHRT_D32(32),
                       FLASHRT_D8(64), FLASHRT_D8(72), FLASHRT_D8(80))
FLASHRT_COLUMN_PRODUCT(256,
                       FLASHRT_TEN() ", " FLASHRT_TEN(1) ", " FLASHRT_TEN(2) ", " FLASHRT_TEN(
                           3) ", " FLASHRT_TEN(4) ", " FLASHRT_TEN(5) ", " FLASHRT_TEN(6) ", " FLASHRT_TEN(7) ", " FLASHRT_TEN(8) ", " FLASHRT_TEN(9) ", " FLASHRT_TEN(10) ", " FLASHRT_TEN(11) ", %120, %121, %122, %123, %124, %125, %126, %127",
                       "%128, %129, %130, %131", "%132", "%133", FLASHRT_D32(0), FLASHRT_D32(32),
                       FLASHRT_D32(64), FLASHRT_D32(96))

#undef FLASHRT_COLUMN_PRODUCT
#undef FLASHRT_ROW_PRODUCT
#undef FLASHRT_REGISTER_PRODUCT
#undef FLASHRT_PRODUCTS
#undef FLASHRT_PRODUCT
#undef FLASHRT_D32
#undef FLASHRT_D8
#undef FLASHRT_D4
#undef FLASHRT_TEN

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

}  // namespace flashrt::cuda::sm90
