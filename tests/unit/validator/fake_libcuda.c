/* A CUDA driver of one device whose memory is the host's. FAKE_CUDA names what goes wrong. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

static int fault(const char *name) {
    const char *value = getenv("FAKE_CUDA");
    return value && strcmp(value, name) == 0;
}

int cuInit(unsigned flags) { (void)flags; return fault("mismatch") ? 803 : 0; }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
int cuGetErrorName(int code, const char **name) { *name = code == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : "CUDA_ERROR_FAKE"; return 0; }
int cuDeviceGetCount(int *count) { *count = fault("no-device") ? 0 : fault("two-devices") ? 2 : 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index + 7; return 0; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "Fake GPU %d", device); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)device; *value = attribute == 75 ? 9 : 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(uintptr_t)(device + 1); return device == 7 ? 0 : 201; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device == 7 ? 0 : 201; }
int cuCtxSetCurrent(void *context) { return context == (void *)8 ? 0 : 201; }
int cuCtxSynchronize(void) { return 0; }

int cuModuleLoadDataEx(void **module, const char *ptx, unsigned count, int *options, void **values) {
    if (count != 2 || options[0] != 5 || options[1] != 6 || !strstr(ptx, ".target")) return 1;
    if (fault("ptx")) {
        snprintf(values[0], (size_t)values[1], "ptxas fatal : line 3\n");
        return 218;
    }
    *module = (void *)0x55;
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = (void *)0x66;
    return module == (void *)0x55 && strcmp(name, "envsmith_mix") == 0 ? 0 : 500;
}

int cuMemAlloc_v2(uint64_t *address, size_t size) { *address = (uint64_t)(uintptr_t)malloc(size); return fault("memory") ? 2 : 0; }
int cuMemHostAlloc(void **address, size_t size, unsigned flags) { *address = malloc(size); return fault("no-pinned") ? 2 : flags; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { *free = 3u << 20; *total = 4u << 20; return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    memcpy((void *)(uintptr_t)to, from, size);
    if (fault("copy-in")) ((unsigned char *)(uintptr_t)to)[size - 2] ^= 4;
    return 0;
}
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size) {
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
    if (fault("copy-across")) memset((void *)(uintptr_t)(to + 70000), 0, 3);
    if (fault("copy-too-much")) ((unsigned char *)(uintptr_t)to)[size] = 0;
    return 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)(uintptr_t)from, size); return 0; }
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t size) { memset((void *)(uintptr_t)to, value, size); return 0; }

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    if (function != (void *)0x66 || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || stream || extra) return 1;
    const uint32_t *x = *(uint32_t **)parameters[0], *y = *(uint32_t **)parameters[1];
    uint32_t *bits = *(uint32_t **)parameters[2];
    float *sums = *(float **)parameters[3], scale = *(float *)parameters[4];
    uint32_t count = *(uint32_t *)parameters[5];
    for (uint32_t i = 0; i < gx * bx; i++) {
        if (i >= count && !fault("overrun")) continue;
        if (i >= count) { bits[count] = 0; break; }
        bits[i] = (x[i] * 2654435761u + y[i]) ^ i;
        sums[i] = scale * (float)(x[i] & 2047) + (float)(y[i] & 2047);
    }
    if (fault("one-bit")) sums[count - 1] += 1.0f;
    if (fault("segfault")) *(volatile int *)0 = 0;
    return 0;
}
