/** Which folders of src/ each folder may import from. `bin` may see all; scripts/check-layers.ts enforces it. */
const core = ['base', 'net', 'model'];
export const MAY_SEE: Readonly<Record<string, readonly string[]>> = {
  base: [],
  net: ['base'],
  model: ['base', 'net'],
  netconf: core,
  'orch-api': core,
  bgp: core,
  datastore: core,
  'datastore/memory': [...core, 'datastore'],
  'datastore/kv': [...core, 'netconf', 'datastore'],
  'datastore/orch': [...core, 'datastore', 'orch-api'],
  dataplane: ['base', 'net'],
  'dataplane/memory': ['base', 'net', 'dataplane'],
  'dataplane/linux': ['base', 'net', 'dataplane'],
  ipam: [...core, 'netconf', 'datastore'],
  resident: [...core, 'netconf', 'datastore', 'ipam'],
  cni: [...core, 'netconf', 'datastore', 'ipam', 'dataplane'],
  agent: [...core, 'netconf', 'datastore', 'ipam', 'dataplane', 'resident', 'cni', 'orch-api', 'routing', 'bgp'],
  routing: [...core, 'datastore', 'dataplane'],
  telemetry: ['base', 'cni'],
  cli: [...core, 'netconf', 'orch-api', 'datastore', 'ipam', 'dataplane', 'resident', 'routing', 'bgp', 'cni'],
};
