// A UDP socket that never fragments what it sends, which Node.js cannot open: with it a probe finds out whether packets of a size
// reach their destination. Part of the addon that addon.c registers.
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <node_api.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addon.h"

// IP_PMTUDISC_PROBE sets "don't fragment" whatever the kernel has learned of the path. The socket of IPv6 also has IPv4 addresses.
static int forbid_fragments(int fd, int is_v4) {
  int v4 = IP_PMTUDISC_PROBE, v6 = IPV6_PMTUDISC_PROBE, on = 1;
  if (setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &v4, sizeof v4) != 0) return -1;
  if (is_v4) return 0;
  if (setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &v6, sizeof v6) != 0) return -1;
  return setsockopt(fd, IPPROTO_IPV6, IPV6_DONTFRAG, &on, sizeof on);
}

static int bind_any(int fd, int is_v4, int port) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  if (is_v4) return bind(fd, (struct sockaddr *)&v4, sizeof v4);
  return bind(fd, (struct sockaddr *)&v6, sizeof v6);
}

// Opens (family 4 or 6, port; 0 lets the kernel choose) and returns the descriptor, or the negative errno of a failure.
napi_value js_open_unfragmented(napi_env env, napi_callback_info info) {
  napi_value arguments[2], result = NULL;
  size_t count = 2;
  int family, port;
  if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 2 ||
      napi_get_value_int32(env, arguments[0], &family) != napi_ok ||
      napi_get_value_int32(env, arguments[1], &port) != napi_ok) {
    // The caller is a typed wrapper, so a wrong type is a bug.
    napi_throw_type_error(env, NULL, "wrong arguments");
    return NULL;
  }
  int is_v4 = family == 4;
  int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int opened = fd < 0 ? -errno : fd;
  if (fd >= 0 && (forbid_fragments(fd, is_v4) != 0 || bind_any(fd, is_v4, port) != 0)) {
    opened = -errno;
    close(fd);
  }
  napi_create_int32(env, opened, &result);
  return result;
}
