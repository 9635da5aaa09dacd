// What GpuParts asks CUDA's driver for, of one GPU with 132 multiprocessors whose parts are multiples of 8 (as
// Hopper's).
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

constexpr unsigned kAll = 132, kMultiple = 8;
constexpr int kInvalid = 1;

struct Resource {
  int type;
  unsigned char padding[92];
  unsigned multiprocessors;
  unsigned char rest[44];
};

}  // namespace

extern "C" {

int cuDeviceGet(int* device, int ordinal);
int cuDeviceGetDevResource(int device, Resource* resource, int type);
int cuDevSmResourceSplitByCount(Resource* parts, unsigned* count, const Resource* all, Resource* rest, unsigned flags,
                                unsigned least);
int cuDevResourceGenerateDesc(void** description, Resource* resources, unsigned count);
int cuGreenCtxCreate(void** context, void* description, int device, unsigned flags);
int cuGreenCtxDestroy(void* context);
int cuGreenCtxStreamCreate(void** stream, void* context, unsigned flags, int priority);

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? 0 : kInvalid;
}

int cuDeviceGetDevResource(int, Resource* resource, int type) {
  std::memset(resource, 0, sizeof *resource);
  resource->type = type;
  resource->multiprocessors = kAll;
  return 0;
}

int cuDevSmResourceSplitByCount(Resource* parts, unsigned* count, const Resource* all, Resource* rest, unsigned,
                                unsigned least) {
  const unsigned each = (least + kMultiple - 1) / kMultiple * kMultiple;
  *count = std::min(*count, all->multiprocessors / each);
  for (unsigned i = 0; i < *count; ++i) {
    parts[i] = *all;
    parts[i].multiprocessors = each;
  }
  *rest = *all;
  rest->multiprocessors = all->multiprocessors - *count * each;
  return *count > 0 ? 0 : kInvalid;
}

int cuDevResourceGenerateDesc(void** description, Resource* resources, unsigned count) {
  *description = resources;
  return count == 1 ? 0 : kInvalid;
}

int cuGreenCtxCreate(void** context, void* description, int, unsigned flags) {
  static std::uintptr_t contexts = 0;
  *context = reinterpret_cast<void*>(++contexts);
  return description != nullptr && flags == 1 ? 0 : kInvalid;
}
int cuGreenCtxDestroy(void* context) { return context != nullptr ? 0 : kInvalid; }

/// The stream's address is that of its context, of which each has one.
int cuGreenCtxStreamCreate(void** stream, void* context, unsigned flags, int) {
  *stream = context;
  return flags == 1 ? 0 : kInvalid;
}
}
