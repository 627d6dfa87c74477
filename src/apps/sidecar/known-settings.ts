// Settings of a proxy of which it is known that no request passes the check unasked by them, and that the application gets the path
// that was judged. Every other one counts as a way around: so does what a later release invents.

export const OF_LISTENER = [
  '@type',
  'name',
  'address',
  'additional_addresses',
  'stat_prefix',
  'filter_chains',
  'default_filter_chain',
  'listener_filters',
  'listener_filters_timeout',
  'continue_on_listener_filters_timeout',
  'traffic_direction',
  'bind_to_port',
  'per_connection_buffer_limit_bytes',
  'max_connections_to_accept_per_socket_event',
  'metadata',
  'transparent',
  'freebind',
  'socket_options',
  'tcp_fast_open_queue_length',
  'tcp_backlog_size',
  'enable_reuse_port',
  'connection_balance_config',
  'ignore_global_conn_limit',
  'bypass_overload_manager',
  'drain_type',
  'access_log',
];

/** One that takes the client's word for its address would let it choose which rules match. */
export const LISTENER_FILTERS = [
  'listener.original_dst.v3.OriginalDst',
  'listener.tls_inspector.v3.TlsInspector',
  'listener.http_inspector.v3.HttpInspector',
];

export const OF_MANAGER = [
  '@type',
  'stat_prefix',
  'codec_type',
  'route_config',
  'http_filters',
  'upgrade_configs',
  'tracing',
  'server_name',
  'server_header_transformation',
  'scheme_header_transformation',
  'common_http_protocol_options',
  'http_protocol_options',
  'http2_protocol_options',
  'max_request_headers_kb',
  'stream_idle_timeout',
  'stream_flush_timeout',
  'request_timeout',
  'request_headers_timeout',
  'drain_timeout',
  'delayed_close_timeout',
  'access_log',
  'access_log_options',
  'use_remote_address',
  'xff_num_trusted_hops',
  'skip_xff_append',
  'internal_address_config',
  'via',
  'generate_request_id',
  'preserve_external_request_id',
  'always_set_request_id_in_response',
  'request_id_extension',
  'forward_client_cert_details',
  'set_current_client_cert_details',
  'proxy_100_continue',
  'normalize_path',
  'merge_slashes',
  'path_with_escaped_slashes_action',
  'local_reply_config',
  'strip_matching_host_port',
  'strip_any_host_port',
  'strip_trailing_host_dot',
  'stream_error_on_invalid_http_message',
  'append_x_forwarded_port',
  'proxy_status_config',
];

const HEADERS = [
  'request_headers_to_add',
  'request_headers_to_remove',
  'response_headers_to_add',
  'response_headers_to_remove',
];

export const OF_ROUTES = [
  'name',
  'virtual_hosts',
  'validate_clusters',
  'internal_only_headers',
  'most_specific_header_mutations_wins',
  'max_direct_response_body_size_bytes',
  'ignore_port_in_host_matching',
  'typed_per_filter_config',
  'metadata',
  ...HEADERS,
];

export const OF_HOST = [
  'name',
  'domains',
  'routes',
  'require_tls',
  'retry_policy',
  'include_request_attempt_count',
  'include_attempt_count_in_response',
  'per_request_buffer_limit_bytes',
  'typed_per_filter_config',
  'metadata',
  ...HEADERS,
];

export const OF_ROUTE = [
  'name',
  'match',
  'route',
  'redirect',
  'direct_response',
  'decorator',
  'tracing',
  'stat_prefix',
  'per_request_buffer_limit_bytes',
  'typed_per_filter_config',
  'metadata',
  ...HEADERS,
];

/** Of what a route does. The cluster is named: one that a header names is chosen by the client. */
export const OF_ACTION = [
  'cluster',
  'weighted_clusters',
  'cluster_not_found_response_code',
  'metadata_match',
  'auto_host_rewrite',
  'host_rewrite_literal',
  'append_x_forwarded_host',
  'timeout',
  'idle_timeout',
  'flush_timeout',
  'max_stream_duration',
  'retry_policy',
  'priority',
  'rate_limits',
  'include_vh_rate_limits',
  'hash_policy',
  'upgrade_configs',
];

/** Until the application has agreed, the proxy forwards nothing of this upgrade. Other ones pass on what was never asked about. */
export const UPGRADE = 'websocket';

/** Of the check. */
export const OF_CHECK = [
  '@type',
  'transport_api_version',
  'stat_prefix',
  'grpc_service',
  'failure_mode_allow',
  'status_on_error',
  'allowed_headers',
  'disallowed_headers',
  'include_peer_certificate',
  'include_tls_session',
  'send_tls_alert_on_denial',
  'encode_raw_headers',
  'clear_route_cache',
  'with_request_body',
  'metadata_context_namespaces',
  'charge_cluster_response_stats',
];
