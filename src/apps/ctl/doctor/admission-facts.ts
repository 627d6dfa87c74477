import { reasonOf } from '../../../base/errors.ts';
import { ANNOTATIONS } from '../../../config/annotations.ts';
import type { OrchSettings } from '../../../config/connection.ts';
import type { Netconf } from '../../../config/netconf.ts';
import type { EnforcedPolicy } from '../../../kube/admission-policies.ts';
import { isStoreTrouble, type Sources } from './sources.ts';

/** A switch of `feature_control` that is on, and the annotation that it turns on. */
export interface OpenSwitch {
  readonly name: string;
  readonly annotation: string;
}

export interface AdmissionFacts {
  /** The network configuration that runtimes use; undefined without one. */
  readonly path: string | undefined;
  readonly switches: readonly OpenSwitch[];
  /** Undefined when they cannot be listed; `silence` says why. */
  readonly policies: readonly EnforcedPolicy[] | undefined;
  readonly silence: string | undefined;
}

const NOTHING = { policies: [], silence: undefined } as const;

/** The API server is asked only when a switch is on. */
export async function gatherAdmission(sources: Sources, signal: AbortSignal): Promise<AdmissionFacts> {
  const own = (await sources.confFiles()).find(({ isOurs }) => isOurs);
  const switches = own?.netconf === undefined ? [] : openSwitches(own.netconf);
  const known = { path: own?.path, switches };
  if (own?.netconf === undefined || switches.length === 0) return { ...known, ...NOTHING };
  try {
    const settings = await findApi(sources, own.netconf);
    return {
      ...known,
      policies: await sources.context.ports.listEnforcedPolicies(settings, signal),
      silence: undefined,
    };
  } catch (cause) {
    if (!isStoreTrouble(cause)) throw cause;
    return { ...known, policies: undefined, silence: reasonOf(cause) };
  }
}

/** Without policy.type "orch" no annotation is read. */
function openSwitches({ features, policyType }: Netconf): readonly OpenSwitch[] {
  if (policyType !== 'orch') return [];
  return [
    ...(features.ipAddrsNoIpam ? [{ name: 'ip_addrs_no_ipam', annotation: ANNOTATIONS.ipAddrsNoIpam }] : []),
    ...(features.floatingIps ? [{ name: 'floating_ips', annotation: ANNOTATIONS.floatingIPs }] : []),
  ];
}

/** The connection of the command, whose user may have more rights than the plugin; else that of the plugin. */
async function findApi(sources: Sources, netconf: Netconf): Promise<OrchSettings> {
  const { datastore } = await sources.connection();
  return datastore.type === 'orch' ? datastore.orch : netconf.orch;
}
