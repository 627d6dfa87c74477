// Binds the life of a process to that of its parent, which Node.js does not offer. Part of the addon that addon.c registers.
#include <errno.h>
#include <node_api.h>
#include <signal.h>
#include <sys/prctl.h>

#include "addon.h"

// From now on the kernel kills this process when the thread that started it exits, also while it is busy or stopped.
// Returns 0, otherwise the negative errno. Children of this process do not inherit it.
napi_value js_die_with_parent(napi_env env, napi_callback_info info) {
  napi_value result;
  (void)info;
  napi_create_int32(env, prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 ? 0 : -errno, &result);
  return result;
}
