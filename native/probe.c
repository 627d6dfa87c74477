// What a probe of policies needs and Node.js does not offer: a raw packet of the own network namespace, a packet that seems to
// arrive from outside, and membership of a multicast group of netlink. Part of the addon that addon.c registers. Every function
// returns the negative errno of a failure; packets are encoded in TypeScript.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <node_api.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addon.h"

static napi_value to_number(napi_env env, int value) {
  napi_value number = NULL;
  napi_create_int32(env, value, &number);
  return number;
}

// The caller is a typed wrapper, so a wrong type is a bug.
static napi_value wrong_arguments(napi_env env) {
  napi_throw_type_error(env, NULL, "wrong arguments");
  return NULL;
}

// Receives messages of the group, at most 32, from then on. A socket without a port would receive none.
napi_value js_join_group(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  size_t count = 2;
  int fd, group;
  if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 2 ||
      napi_get_value_int32(env, arguments[0], &fd) != napi_ok ||
      napi_get_value_int32(env, arguments[1], &group) != napi_ok)
    return wrong_arguments(env);
  struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1U << (group - 1)};
  return to_number(env, bind(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : -errno);
}

static socklen_t to_socket_address(struct sockaddr_storage *to, const uint8_t *address, size_t length) {
  memset(to, 0, sizeof *to);
  if (length == sizeof(struct in_addr)) {
    struct sockaddr_in *v4 = (struct sockaddr_in *)to;
    v4->sin_family = AF_INET;
    memcpy(&v4->sin_addr, address, length);
    return sizeof *v4;
  }
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
  v6->sin6_family = AF_INET6;
  memcpy(&v6->sin6_addr, address, sizeof v6->sin6_addr);
  return sizeof *v6;
}

// Sends (protocol, source, destination, payload): the kernel adds the IP header. Addresses have 4 or 16 bytes.
napi_value js_send_raw(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  size_t count = 4;
  int protocol;
  uint8_t *bytes[3];
  size_t lengths[3];
  if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 4 ||
      napi_get_value_int32(env, arguments[0], &protocol) != napi_ok)
    return wrong_arguments(env);
  for (int i = 0; i < 3; i++)
    if (napi_get_buffer_info(env, arguments[i + 1], (void **)&bytes[i], &lengths[i]) != napi_ok)
      return wrong_arguments(env);
  int is_v4 = lengths[0] == sizeof(struct in_addr);
  if (lengths[0] != lengths[1] || (!is_v4 && lengths[0] != sizeof(struct in6_addr))) return wrong_arguments(env);
  struct sockaddr_storage source, destination;
  socklen_t size = to_socket_address(&source, bytes[0], lengths[0]);
  to_socket_address(&destination, bytes[1], lengths[1]);
  int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (fd < 0) return to_number(env, -errno);
  int result = bind(fd, (struct sockaddr *)&source, size);
  if (result == 0)
    result = sendto(fd, bytes[2], lengths[2], 0, (struct sockaddr *)&destination, size) < 0 ? -1 : 0;
  int error = result == 0 ? 0 : -errno;
  close(fd);
  return to_number(env, error);
}

// Opens a device through which written packets arrive; it is gone when the descriptor is closed.
napi_value js_open_tun(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  size_t count = 1, length;
  struct ifreq request;
  memset(&request, 0, sizeof request);
  if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 1 ||
      napi_get_value_string_utf8(env, arguments[0], request.ifr_name, IFNAMSIZ, &length) != napi_ok)
    return wrong_arguments(env);
  int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return to_number(env, -errno);
  int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  int is_open = control >= 0 && ioctl(fd, TUNSETIFF, &request) == 0;
  request.ifr_flags = IFF_UP;
  is_open = is_open && ioctl(control, SIOCSIFFLAGS, &request) == 0;
  int error = is_open ? 0 : -errno;
  if (control >= 0) close(control);
  if (!is_open) close(fd);
  return to_number(env, is_open ? fd : error);
}
