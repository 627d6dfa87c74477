import { reasonOf } from '../../../base/errors.ts';
import { ANNOTATIONS } from '../../../model/annotation-keys.ts';
import type { OrchSettings } from '../../../config/connection.ts';
import type { Netconf } from '../../../config/netconf.ts';
import type { EnforcedPolicy } from '../../../kube/admission-policies.ts';
import { isStoreFailure, type Sources } from './sources.ts';

/** A switch of `feature_control` that is on, and the annotation that it enables. */
export interface OpenSwitch {
  readonly name: string;
  readonly annotation: string;
}

export interface AdmissionFacts {
  /** The network configuration that runtimes use; undefined without one. */
  readonly path: string | undefined;
  readonly switches: readonly OpenSwitch[];
  /** Undefined when they cannot be listed; `listError` is the reason. */
  readonly policies: readonly EnforcedPolicy[] | undefined;
  readonly listError: string | undefined;
}

const NOTHING = { policies: [], listError: undefined } as const;

/** Queries the API server only when a switch is on. */
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
      listError: undefined,
    };
  } catch (cause) {
    if (!isStoreFailure(cause)) throw cause;
    return { ...known, policies: undefined, listError: reasonOf(cause) };
  }
}

/** Returns none without policy.type "orch", since then the plugin reads no annotation. */
function openSwitches({ features, policyType }: Netconf): readonly OpenSwitch[] {
  if (policyType !== 'orch') return [];
  return [
    ...(features.ipAddrsNoIpam ? [{ name: 'ip_addrs_no_ipam', annotation: ANNOTATIONS.ipAddrsNoIpam }] : []),
    ...(features.floatingIps ? [{ name: 'floating_ips', annotation: ANNOTATIONS.floatingIPs }] : []),
  ];
}

/** Returns the connection of the command, whose user may have more rights, or else that of the plugin. */
async function findApi(sources: Sources, netconf: Netconf): Promise<OrchSettings> {
  const { datastore } = await sources.connection();
  return datastore.type === 'orch' ? datastore.orch : netconf.orch;
}
