// Registers the functions of the other files: all of them are one addon, which is loaded once.
#include "addon.h"

NAPI_MODULE_INIT() {
  const napi_property_descriptor functions[] = {
    {"setns", NULL, js_setns, NULL, NULL, NULL, napi_enumerable, NULL},
    {"openRouteSocket", NULL, js_open_route_socket, NULL, NULL, NULL, napi_enumerable, NULL},
    {"openFilterSocket", NULL, js_open_filter_socket, NULL, NULL, NULL, napi_enumerable, NULL},
    {"close", NULL, js_close, NULL, NULL, NULL, napi_enumerable, NULL},
    {"tryLock", NULL, js_try_lock, NULL, NULL, NULL, napi_enumerable, NULL},
    {"dieWithParent", NULL, js_die_with_parent, NULL, NULL, NULL, napi_enumerable, NULL},
    {"exchange", NULL, js_exchange, NULL, NULL, NULL, napi_enumerable, NULL},
    {"exchangeOnWorker", NULL, js_exchange_on_worker, NULL, NULL, NULL, napi_enumerable, NULL},
    {"monitorSocket", NULL, js_monitor_socket, NULL, NULL, NULL, napi_enumerable, NULL},
    {"openMonitor", NULL, js_open_monitor, NULL, NULL, NULL, napi_enumerable, NULL},
    {"txChecksum", NULL, js_tx_checksum, NULL, NULL, NULL, napi_enumerable, NULL},
    {"setTxChecksum", NULL, js_set_tx_checksum, NULL, NULL, NULL, napi_enumerable, NULL},
    {"joinGroup", NULL, js_join_group, NULL, NULL, NULL, napi_enumerable, NULL},
    {"sendRaw", NULL, js_send_raw, NULL, NULL, NULL, napi_enumerable, NULL},
    {"openTun", NULL, js_open_tun, NULL, NULL, NULL, napi_enumerable, NULL},
    {"openUnfragmented", NULL, js_open_unfragmented, NULL, NULL, NULL, napi_enumerable, NULL},
  };
  napi_define_properties(env, exports, sizeof functions / sizeof functions[0], functions);
  return exports;
}
