// Reads and sets the checksum offload of a network device in the namespace of the thread, which needs an ioctl. Every
// function returns the negative errno of a failure.
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addon.h"

static int ask_device(const char *name, struct ethtool_value *value) {
  struct ifreq request;
  memset(&request, 0, sizeof request);
  memcpy(request.ifr_name, name, strlen(name));
  request.ifr_data = (void *)value;
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  int result = ioctl(fd, SIOCETHTOOL, &request) == 0 ? 0 : -errno;
  close(fd);
  return result;
}

// The caller is a typed wrapper, so a wrong type is a bug. No device has a name that is too long.
static int read_name(napi_env env, napi_value argument, char name[IFNAMSIZ]) {
  size_t length = 0;
  if (napi_get_value_string_utf8(env, argument, NULL, 0, &length) != napi_ok) {
    napi_throw_type_error(env, NULL, "wrong arguments");
    return -EINVAL;
  }
  if (length >= IFNAMSIZ) return -ENODEV;
  napi_get_value_string_utf8(env, argument, name, IFNAMSIZ, &length);
  return 0;
}

// Returns 1 when the device offloads transmit checksums, otherwise 0.
napi_value js_tx_checksum(napi_env env, napi_callback_info info) {
  napi_value argument, number = NULL;
  size_t count = 1;
  char name[IFNAMSIZ];
  napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
  int result = read_name(env, argument, name);
  if (result == 0) {
    struct ethtool_value value = {ETHTOOL_GTXCSUM, 0};
    result = ask_device(name, &value);
    if (result == 0) result = value.data != 0;
  }
  napi_create_int32(env, result, &number);
  return number;
}

napi_value js_set_tx_checksum(napi_env env, napi_callback_info info) {
  napi_value arguments[2], number = NULL;
  size_t count = 2;
  char name[IFNAMSIZ];
  uint32_t is_on;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  if (napi_get_value_uint32(env, arguments[1], &is_on) != napi_ok) {
    napi_throw_type_error(env, NULL, "wrong arguments");
    return NULL;
  }
  int result = read_name(env, arguments[0], name);
  if (result == 0) {
    struct ethtool_value value = {ETHTOOL_STXCSUM, is_on};
    result = ask_device(name, &value);
  }
  napi_create_int32(env, result, &number);
  return number;
}
