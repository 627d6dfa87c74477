// One table of declarations, as long as the configuration has fields.
import * as v from 'valibot';
import { field, oneOf } from '../model/field.ts';
import { LOG_LEVELS } from '../base/log.ts';
import { AbsolutePath, EndpointList, HttpUrl, NodeNameText, OptionalHttpUrl, OptionalText } from './field-types.ts';
import { wholeNumberField, yesOrNo } from './field-types.ts';

const ONE_UP = { min: 1, max: 1_000_000 };
const AT_LEAST_ONE = 'a whole number from 1 to 1000000';
const DOMAIN = /^(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.?$/i;
const MTU_RULE = '0 or a whole number from 68 to 65535';
const AUTHORITY = 'host:port, such as 127.0.0.1:2379';

/** The connection to a kv datastore. */
export const KV_FIELDS = {
  kv_endpoints: field(EndpointList, 'Endpoints of the kv datastore: URLs separated by commas.'),
  kv_discovery_srv: field(
    v.optional(
      v.pipe(
        v.string('a string'),
        v.check((domain) => domain === '' || DOMAIN.test(domain), 'a domain name'),
        v.transform((domain) => (domain === '' ? undefined : domain)),
      ),
    ),
    'Domain whose SRV records name the endpoints; encrypted ones win. Excludes `kv_endpoints`.',
  ),
  kv_key_file: field(
    OptionalText,
    'Private key of the client certificate. Together with `kv_cert_file` it turns on mutual TLS.',
  ),
  kv_cert_file: field(
    OptionalText,
    'Client certificate of the plugin. Together with `kv_key_file` it turns on mutual TLS.',
  ),
  kv_ca_cert_file: field(
    OptionalText,
    'Root certificates trusted for the server, in place of those of the system; the file may hold several. No TLS file goes with `http` endpoints.',
  ),
  kv_authority: field(
    v.optional(
      v.pipe(
        v.string(AUTHORITY),
        v.check((text) => text === '' || isAuthority(text), AUTHORITY),
        v.transform((text) => (text === '' ? undefined : text)),
      ),
    ),
    'Deprecated, use `kv_endpoints`, which wins when both are set. `127.0.0.1:2379` unless set.',
  ),
  kv_scheme: field(
    v.optional(v.picklist(['http', 'https', ''], '"http" or "https"')),
    'Deprecated, use `kv_endpoints`. Scheme for `kv_authority`; `http` unless set.',
  ),
};

/** The fields that every program reads. */
export const COMMON_FIELDS = {
  name: field(v.string('a string'), 'Network name.'),
  cniVersion: v.optional(
    field(v.string('a string'), 'Version of the CNI specification the configuration is written in.'),
    '0.1.0',
  ),
  nodename: field(
    NodeNameText,
    'Name under which the agent registered the node; needed when it differs from the host name.',
  ),
  datastore_type: field(
    v.optional(oneOf(['kvv3', 'orch']), 'kvv3'),
    'Where netplug keeps its records: a kv datastore, or the API of the orchestrator.',
  ),
  log_level: field(v.optional(oneOf(LOG_LEVELS), 'INFO'), 'Least severe level that is logged.'),
  log_file_path: field(
    AbsolutePath,
    'Log file on the host, in addition to standard error. The shipped configuration sets `/var/log/netplug/cni/cni.log`; removing the option turns file logging off.',
  ),
  log_file_max_size: field(
    v.optional(wholeNumberField(ONE_UP, AT_LEAST_ONE), 100),
    'Size in MB at which the log file is rotated.',
  ),
  log_file_max_age: field(
    v.optional(wholeNumberField(ONE_UP, AT_LEAST_ONE), 30),
    'Days after which a rotated log file is removed.',
  ),
  log_file_max_count: field(
    v.optional(wholeNumberField(ONE_UP, AT_LEAST_ONE), 10),
    'How many rotated log files are kept.',
  ),
  ...KV_FIELDS,
  orch: field(
    v.optional(
      v.looseObject(
        {
          orchconfig: field(AbsolutePath, 'File that gives access to the API of the orchestrator (recommended).'),
          orch_api_root: field(OptionalHttpUrl, 'URL of the API, instead of a file.'),
          node_name: field(
            NodeNameText,
            'Node whose pod CIDR is looked up; the host name unless set. For `usePodCidr` only.',
          ),
        },
        'an object',
      ),
      {},
    ),
    'Access to the API of the orchestrator.',
  ),
};

/** The fields that only the main plugin reads; another main plugin may use the same keys for other purposes. */
export const MAIN_FIELDS = {
  type: field(v.literal('netplug', '"netplug"'), 'Name of the plugin.'),
  container_settings: field(
    v.optional(
      v.looseObject({ allow_ip_forwarding: field(yesOrNo(false), 'IP forwarding inside the container.') }, 'an object'),
      {},
    ),
    'Settings inside the namespace of the container.',
  ),
  readiness_gates: field(
    v.optional(v.array(HttpUrl, 'an array of URLs'), []),
    'URLs that must all answer with success before a pod gets its network.',
  ),
  policy: field(
    v.optional(
      v.looseObject(
        {
          type: field(
            v.optional(v.picklist(['orch', ''], '"orch", the only supported value')),
            '`orch` reads labels and annotations of pods from the orchestrator. Without it, annotations are ignored.',
          ),
        },
        'an object',
      ),
      {},
    ),
    'Integration of network policy.',
  ),
  feature_control: field(
    v.optional(
      v.looseObject(
        {
          ip_addrs_no_ipam: field(yesOrNo(false), 'Allows the annotation `ipAddrsNoIpam`.'),
          floating_ips: field(yesOrNo(false), 'Allows the annotation `floatingIPs`.'),
        },
        'an object',
      ),
      {},
    ),
    'Switches for features that are off by default.',
  ),
  num_queues: field(
    v.optional(wholeNumberField({ min: 1, max: 4096 }, 'a whole number from 1 to 4096'), 1),
    'Receive and transmit queues of each end of the link.',
  ),
  mtu: field(
    v.optional(
      v.pipe(
        v.number(MTU_RULE),
        v.integer(MTU_RULE),
        v.check((mtu) => mtu === 0 || (mtu >= 68 && mtu <= 65_535), MTU_RULE),
      ),
      0,
    ),
    'Largest packet of the link in bytes; 0 leaves it to the kernel.',
  ),
  include_default_routes: field(
    yesOrNo(false),
    'With `host-local` and `ipam.routes`: also installs the default routes.',
  ),
};

function isAuthority(text: string): boolean {
  return /^[^/?#\s@:]+(:\d{1,5})?$|^\[[0-9a-f:.]+\](:\d{1,5})?$/i.test(text) && URL.canParse(`http://${text}`);
}
