// What ClockReader asks NVIDIA's management library for, of one GPU whose clock rises by 15 MHz a look.
#include <string_view>

extern "C" {

int nvmlInit_v2();
int nvmlShutdown();
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device);
int nvmlDeviceGetClockInfo(void* device, int which, unsigned* clock);
int nvmlDeviceGetMaxClockInfo(void* device, int which, unsigned* clock);

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  static int gpu = 0;
  constexpr int kNotFound = 6;
  if (std::string_view(bus) != "0000:17:00.0") return kNotFound;
  *device = &gpu;
  return 0;
}

int nvmlDeviceGetClockInfo(void*, int which, unsigned* clock) {
  static unsigned looks = 0;
  *clock = which == 1 ? 1500 + 15 * looks++ : 2619;
  return 0;
}

int nvmlDeviceGetMaxClockInfo(void*, int which, unsigned* clock) {
  *clock = which == 1 ? 1980 : 2619;
  return 0;
}
}
