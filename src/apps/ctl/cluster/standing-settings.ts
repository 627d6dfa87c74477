import { problemsError } from '../../../base/problem.ts';
import { VERSION } from '../../../base/version.ts';
import type { InstallMethod, PreflightFacts } from '../../../install/cluster/checks/preflight-facts.ts';
import { AGENT_SET, BIRD_SET, CONFIG_MAP, systemObject } from '../../../install/cluster/names.ts';
import { TYPHA } from '../../../model/typha.ts';
import type { ClusterDatastore, Variant } from '../../../install/cluster/settings.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import { decodeResource } from '../../../model/decode-resource.ts';
import { INSTALLATION_NAME, type InstallationSpec } from '../../../model/installation.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { installedSettings } from '../../../upgrade/cluster/installed-spec.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import { referenceOf } from '../../../kube/objects/reference.ts';
import { installationObject } from './cluster-plan.ts';

const INSTALLATION_DEFINITION = 'installations.netplug.io';

/** Settings of the installation that runs. A repeated command keeps those that it does not set. */
export interface StandingSettings {
  readonly spec: InstallationSpec;
  /** Where a manifest has installed, and nothing but its objects tells them. */
  readonly runs: { readonly variant: Variant; readonly datastore: ClusterDatastore } | undefined;
}

/**
 * Returns the settings of the installation that the method finds; undefined without one. An Installation stands also while no
 * operator runs. @throws resource/invalid, store/*
 */
export async function readStandingSettings(
  api: OrchApi,
  { method, facts }: { readonly method: InstallMethod; readonly facts: PreflightFacts },
  signal: AbortSignal,
): Promise<StandingSettings | undefined> {
  const shown = facts.installedBy === 'manifest' ? await readManifestSettings(api, facts, signal) : undefined;
  if (method === 'manifest') return shown;
  const isServed = facts.definitions.some(({ name }) => name === INSTALLATION_DEFINITION);
  const written = isServed ? await readInstallationSettings(api, signal) : undefined;
  if (shown === undefined) return written;
  return { spec: written?.spec ?? withoutPools(shown.spec), runs: shown.runs };
}

/** The operator keeps the pools that exist when none is listed. With host-local, pools tell nothing but families. */
function withoutPools(spec: InstallationSpec): InstallationSpec {
  if (spec.cni?.ipam?.type === 'HostLocal') return spec;
  const { ipPools: _, ...calicoNetwork } = spec.calicoNetwork ?? {};
  return { ...spec, calicoNetwork };
}

async function readManifestSettings(
  api: OrchApi,
  { nodes }: PreflightFacts,
  signal: AbortSignal,
): Promise<StandingSettings> {
  const sources = [
    ['DaemonSet', AGENT_SET],
    ['DaemonSet', BIRD_SET],
    ['Deployment', CONTROLLERS],
    ['Deployment', TYPHA],
    ['ConfigMap', CONFIG_MAP],
  ] as const;
  const found = await Promise.all(
    sources.map(async ([kind, name]) => findObject(api, systemObject(kind, name), signal)),
  );
  const objects = found.filter((live) => live !== undefined);
  const { spec, circumstances } = installedSettings({ objects, pods: [], nodes, tool: VERSION });
  const { variant, datastore } = circumstances;
  return { spec, runs: { variant, datastore } };
}

async function readInstallationSettings(api: OrchApi, signal: AbortSignal): Promise<StandingSettings | undefined> {
  const live = await findObject(api, referenceOf(installationObject({})), signal);
  if (live === undefined) return undefined;
  const metadata = { name: INSTALLATION_NAME };
  const decoded = decodeResource({ apiVersion: API_VERSION, kind: 'Installation', metadata, spec: live['spec'] ?? {} });
  if ('problems' in decoded)
    throw problemsError('the Installation in the cluster', decoded.problems, 'resource/invalid');
  // The kind is that of an Installation.
  return { spec: decoded.resource.spec as InstallationSpec, runs: undefined };
}
