// The functions of the addon. Each file says why Node.js does not offer its functions.
#ifndef NETPLUG_ADDON_H
#define NETPLUG_ADDON_H
#include <node_api.h>

napi_value js_setns(napi_env env, napi_callback_info info);
napi_value js_open_route_socket(napi_env env, napi_callback_info info);
napi_value js_open_filter_socket(napi_env env, napi_callback_info info);
napi_value js_close(napi_env env, napi_callback_info info);
napi_value js_exchange(napi_env env, napi_callback_info info);
napi_value js_exchange_on_worker(napi_env env, napi_callback_info info);
napi_value js_try_lock(napi_env env, napi_callback_info info);
napi_value js_die_with_parent(napi_env env, napi_callback_info info);
napi_value js_open_monitor(napi_env env, napi_callback_info info);
napi_value js_monitor_socket(napi_env env, napi_callback_info info);
napi_value js_tx_checksum(napi_env env, napi_callback_info info);
napi_value js_set_tx_checksum(napi_env env, napi_callback_info info);
napi_value js_join_group(napi_env env, napi_callback_info info);
napi_value js_send_raw(napi_env env, napi_callback_info info);
napi_value js_open_tun(napi_env env, napi_callback_info info);
napi_value js_open_unfragmented(napi_env env, napi_callback_info info);

#endif
