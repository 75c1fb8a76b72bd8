// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/library_gemm.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <charconv>
#include <memory>

namespace flashrt::cuda {
namespace {

using Route = LibraryChoice::Route;

constexpr int64_t kMaxRowsPerChannel = 8192;  // as many ones are held
constexpr int kRequested = 16;                // the library answers with eight or so
constexpr int64_t kProductAlignment = 32;     // elements of its stride: 128 bytes

template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
  void operator()(Handle handle) const { destroy(handle); }
};
template <class Handle, cublasStatus_t (*destroy)(Handle)>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;

using Operation = Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

std::string describe_call(const LinearArgs& args) {
  const WeightView& w = args.weight;
  return text("linear of x [", args.x.rows, ", ", args.x.width, "] ", args.x.type, " and weight [",
              w.rows, ", ", w.width, "] ", w.type, " to ", args.y.type);
}

void check_library(cublasStatus_t status, const char* function) {
  FLASHRT_CHECK(status == CUBLAS_STATUS_SUCCESS, function, ": ", cublasLtGetStatusName(status));
}
void check_library(cublasStatus_t status, const char* function, const LinearArgs& args) {
  FLASHRT_CHECK(status == CUBLAS_STATUS_SUCCESS, function, " for ", describe_call(args), ": ",
                cublasLtGetStatusName(status));
}

cudaDataType_t library_type(DType type) {
  switch (type) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kE4M3:
      return CUDA_R_8F_E4M3;
    default:
      throw Error(text("cuBLASLt: ", type, " is not a type of a linear"));
  }
}

template <class Value>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check_library(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof(value)),
                "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  check_library(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
      "cublasLtMatmulPreferenceSetAttribute");
}

// The library is column-major: it sees a row-major [rows, width] as [width, rows].
Layout make_layout(DType type, int64_t rows, int64_t width, int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_library(cublasLtMatrixLayoutCreate(&layout, library_type(type), width, rows, stride),
                "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

bool is_number(DType type) { return type != DType::kI32 && type != DType::kU8; }

bool accepts(const LinearArgs& args) {
  return args.x.type == args.weight.type && is_number(args.x.type) && is_number(args.y.type) &&
         !args.glu && !args.rope && !args.euler;
}

// Whether the library can write y with the result that linear_finish would give.
bool can_be_direct(const LinearArgs& args) {
  return !args.bias && !args.shift && args.activation == Activation::kNone &&
         args.y.type != DType::kE4M3 && (!args.residual || args.residual.type == args.y.type) &&
         (args.weight.scale_count <= 1 || args.x.rows <= kMaxRowsPerChannel);
}

// The product in the workspace.
Matrix product_of(const LinearArgs& args, void* workspace) {
  const int64_t stride =
      (args.y.width + kProductAlignment - 1) / kProductAlignment * kProductAlignment;
  return {.data = workspace, .rows = args.y.rows, .width = args.y.width, .stride = stride};
}

size_t product_bytes(const LinearArgs& args, Route route) {
  if (route == Route::kDirect) return 0;
  const Matrix product = product_of(args, nullptr);
  const size_t bytes = product.rows * product.stride * sizeof(float);
  return (bytes + LibraryGemm::kWorkspaceAlignment - 1) / LibraryGemm::kWorkspaceAlignment *
         LibraryGemm::kWorkspaceAlignment;
}

uint32_t alignment_of(const void* data) {
  constexpr uintptr_t kMost = 256;  // beyond it nothing changes
  const auto address = reinterpret_cast<uintptr_t>(data) | kMost;
  return static_cast<uint32_t>(address & -address);
}

cublasLtMatmulAlgo_t algorithm_of(const LibraryChoice& choice) {
  cublasLtMatmulAlgo_t algorithm;
  std::copy(choice.algorithm.begin(), choice.algorithm.end(), algorithm.data);
  return algorithm;
}

LibraryChoice choice_of(Route route, const cublasLtMatmulAlgo_t& algorithm, size_t bytes) {
  LibraryChoice choice{.route = route, .workspace_bytes = bytes};
  std::copy(std::begin(algorithm.data), std::end(algorithm.data), choice.algorithm.begin());
  return choice;
}

constexpr std::string_view kDirectName = "direct", kFinishName = "finish";

std::string_view name_of_route(Route route) {
  return route == Route::kDirect ? kDirectName : kFinishName;
}

template <class Value>
Value configured(const cublasLtMatmulAlgo_t& algorithm,
                 cublasLtMatmulAlgoConfigAttributes_t attribute) {
  Value value{};
  check_library(
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value), nullptr),
      "cublasLtMatmulAlgoConfigGetAttribute");
  return value;
}

}  // namespace

// y^T = alpha W x^T + beta residual^T as the library wants it described: W is its A and x its B.
class LibraryGemm::Problem {
 public:
  Operation operation;
  Layout weight, x, residual, y;
  const void* residual_data;
  void* y_data;
  float alpha = 1, beta = 0;
};

LibraryGemm::LibraryGemm(bool fast_accumulation, bool is_offered)
    : fast_accumulation_(fast_accumulation),
      is_offered_(is_offered),
      ones_(kMaxRowsPerChannel * sizeof(float)) {
  const std::vector<float> ones(kMaxRowsPerChannel, 1.0f);
  check(cudaMemcpy(ones_.data(), ones.data(), ones_.size(), cudaMemcpyHostToDevice),
        "cudaMemcpy of the scales of rows");
  // The streams of programs do not wait for the one of this copy.
  check(cudaStreamSynchronize(cudaStreamLegacy), "cudaMemcpy of the scales of rows");
  check_library(cublasLtCreate(&handle_), "cublasLtCreate");
}

LibraryGemm::~LibraryGemm() { cublasLtDestroy(handle_); }

int LibraryGemm::version() { return static_cast<int>(cublasLtGetVersion()); }

LibraryGemm::Problem LibraryGemm::problem(const LinearArgs& args, Route route,
                                          void* workspace) const {
  const WeightView& w = args.weight;
  cublasLtMatmulDesc_t operation = nullptr;
  check_library(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                "cublasLtMatmulDescCreate");
  const bool is_direct = route == Route::kDirect;
  const Matrix y = is_direct ? args.y : product_of(args, workspace);
  const Matrix residual = is_direct && args.residual ? args.residual : y;
  Problem p{.operation = Operation(operation),
            .weight = make_layout(w.type, w.rows, w.width, w.stride),
            .x = make_layout(args.x.type, args.x.rows, args.x.width, args.x.stride),
            .residual = make_layout(residual.type, y.rows, y.width, residual.stride),
            .y = make_layout(y.type, y.rows, y.width, y.stride),
            .residual_data = residual.data,
            .y_data = y.data};
  set(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (args.x.type == DType::kE4M3) {
    set(p.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(fast_accumulation_));
  }
  if (!is_direct) return p;  // linear_finish scales
  p.alpha = args.x.scale;
  p.beta = args.residual ? 1.0f : 0.0f;
  if (w.scale_count == 0) return p;
  set(p.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(w.scales));
  if (w.scale_count == 1) return p;
  const int32_t per_channel = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  set(p.operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, per_channel);
  set(p.operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, per_channel);
  set(p.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(ones_.data()));
  return p;
}

std::vector<LibraryChoice> LibraryGemm::candidates(const LinearArgs& args) const {
  if (!is_offered_ || !accepts(args)) return {};
  std::vector<LibraryChoice> choices;
  if (can_be_direct(args)) choices = candidates(args, Route::kDirect);
  // Scales per channel are for some devices, and not every pair of types has every output.
  if (choices.empty()) choices = candidates(args, Route::kFinish);
  return choices;
}

std::vector<LibraryChoice> LibraryGemm::candidates(const LinearArgs& args, Route route) const {
  const Problem p = problem(args, route, nullptr);
  cublasLtMatmulPreference_t created = nullptr;
  check_library(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  const Preference preference(created);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kMaxWorkspaceBytes});
  // Partial sums stay float32 and are added in a fixed order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(args.weight.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(args.x.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.residual_data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.y_data));

  std::vector<cublasLtMatmulHeuristicResult_t> results(kRequested);
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, p.operation.get(), p.weight.get(), p.x.get(), p.residual.get(), p.y.get(),
      preference.get(), kRequested, results.data(), &count);
  // The three ways in which the library says that it does not compute this.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
      status == CUBLAS_STATUS_ARCH_MISMATCH)
    return {};
  check_library(status, "cublasLtMatmulAlgoGetHeuristic", args);
  std::vector<LibraryChoice> choices;
  for (int i = 0; i < count; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS)
      choices.push_back(choice_of(route, results[i].algo, results[i].workspaceSize));
  }
  return choices;
}

std::string LibraryGemm::name_of(const LibraryChoice& choice) {
  std::string name(name_of_route(choice.route));
  for (const uint64_t word : choice.algorithm) {
    char digits[16];
    char* end = std::to_chars(digits, digits + sizeof(digits), word, 16).ptr;
    name += ' ';
    name.append(digits, end);
  }
  return name;
}

std::optional<LibraryChoice> LibraryGemm::restore(const LinearArgs& args,
                                                  std::string_view name) const {
  const bool is_direct = name.starts_with(kDirectName);
  if (!is_direct && !name.starts_with(kFinishName)) return {};
  const Route route = is_direct ? Route::kDirect : Route::kFinish;
  if (!is_offered_ || !accepts(args) || (is_direct && !can_be_direct(args))) return {};
  name.remove_prefix(name_of_route(route).size());
  cublasLtMatmulAlgo_t algorithm;
  for (uint64_t& word : algorithm.data) {
    if (!name.starts_with(' ')) return {};
    name.remove_prefix(1);
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), word, 16);
    if (error != std::errc()) return {};
    name.remove_prefix(end - name.data());
  }
  if (!name.empty()) return {};

  const Problem p = problem(args, route, nullptr);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle_, p.operation.get(), p.weight.get(), p.x.get(),
                              p.residual.get(), p.y.get(), &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kMaxWorkspaceBytes) return {};
  return choice_of(route, algorithm, result.workspaceSize);
}

std::string LibraryGemm::describe(const LibraryChoice& choice) {
  const cublasLtMatmulAlgo_t algorithm = algorithm_of(choice);
  return text(name_of_route(choice.route), ", algorithm ",
              configured<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID), ", tile ",
              configured<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID), ", stages ",
              configured<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID), ", cluster ",
              configured<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID), ", split ",
              configured<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

size_t LibraryGemm::workspace_bytes(const LinearArgs& args, const LibraryChoice& choice) {
  return product_bytes(args, choice.route) + choice.workspace_bytes;
}

const char* LibraryGemm::run(const LinearArgs& args, const LibraryChoice& choice, void* workspace,
                             const Launch& launch) const {
  FLASHRT_CHECK(reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment == 0, "cuBLASLt for ",
                describe_call(args), ": the workspace is at ", workspace,
                ", expected a multiple of ", kWorkspaceAlignment);
  const Problem p = problem(args, choice.route, workspace);
  const cublasLtMatmulAlgo_t algorithm = algorithm_of(choice);
  std::byte* own = static_cast<std::byte*>(workspace) + product_bytes(args, choice.route);
  check_library(
      cublasLtMatmul(handle_, p.operation.get(), &p.alpha, args.weight.data, p.weight.get(),
                     args.x.data, p.x.get(), &p.beta, p.residual_data, p.residual.get(), p.y_data,
                     p.y.get(), &algorithm, own, choice.workspace_bytes, launch.stream),
      "cublasLtMatmul", args);
  if (choice.route == Route::kDirect) return "cublaslt";
  linear_finish(args, product_of(args, workspace), launch);
  return "cublaslt + linear_finish";
}

}  // namespace flashrt::cuda
