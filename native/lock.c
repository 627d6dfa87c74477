// The lock of a file for as long as the process lives or keeps it open, which Node does not offer: others can tell by it
// whether the owner of a journal is still there. Part of the addon that addon.c registers.
#include <errno.h>
#include <node_api.h>
#include <sys/file.h>

#include "addon.h"

// 0 when the lock is ours now, otherwise the negative errno: -EWOULDBLOCK when another process has it.
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
