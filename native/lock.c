// Locks a file until the process ends or closes it, which Node.js does not offer. Other processes see by the lock whether
// the owner of a journal is running. Part of the addon that addon.c registers.
#include <errno.h>
#include <node_api.h>
#include <sys/file.h>

#include "addon.h"

// Returns 0 when this process holds the lock, otherwise the negative errno: -EWOULDBLOCK when another process holds it.
napi_value js_try_lock(napi_env env, napi_callback_info info) {
  napi_value argument, result;
  size_t count = 1;
  int fd;
  if (napi_get_cb_info(env, info, &count, &argument, NULL, NULL) != napi_ok || count < 1 ||
      napi_get_value_int32(env, argument, &fd) != napi_ok) {
    napi_throw_type_error(env, NULL, "wrong arguments");
    return NULL;
  }
  napi_create_int32(env, flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno, &result);
  return result;
}
