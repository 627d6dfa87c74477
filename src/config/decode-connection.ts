import { emptyFindings, type Problem, problemsError } from '../base/problem.ts';
import type { KubeconfigSource } from '../model/kubeconfig-source.ts';
import { isRecord, readEntries } from '../model/read-schema.ts';
import type { Datastore, OrchSettings } from './connection.ts';
import { COMMON_FIELDS, KV_FIELDS } from './fields.ts';
import { decideConnection } from './kv.ts';
import { checkKeys } from './unknown-keys.ts';

/** Keys of the network configuration with their values. Environment variables have the same names in capitals. */
export type RawConnection = Readonly<Record<string, unknown>>;

const FIELDS = { datastore_type: COMMON_FIELDS.datastore_type, ...KV_FIELDS };

export const CONNECTION_KEYS: readonly string[] = Object.keys(FIELDS);
export const ORCH_KEYS = ['orchconfig', 'orch_api_root'] as const;

export interface DecodedConnection {
  readonly datastore: Datastore;
  readonly warnings: readonly string[];
}

/**
 * Decodes the connection by the rules of the network configuration. `config` names the file that it comes from;
 * undefined means the environment. @throws netconf/invalid
 */
export function decodeConnection(
  raw: RawConnection,
  { config, kubeconfig }: { readonly config: string | undefined; readonly kubeconfig: KubeconfigSource | undefined },
): DecodedConnection {
  const findings = emptyFindings();
  if (config !== undefined) {
    checkKeys(
      raw,
      { keys: [...CONNECTION_KEYS, ...ORCH_KEYS, 'orch'], path: '', strictness: 'own-keys-only' },
      findings,
    );
  }
  const { values } = readEntries(FIELDS, raw, { path: '', code: 'netconf/invalid', problems: findings.problems });
  const datastore: Datastore =
    values.datastore_type === 'orch'
      ? { type: 'orch', orch: { ...orchAccess(raw, findings.problems), kubeconfig } }
      : { type: 'kvv3', connection: decideConnection(values, findings) };
  if (findings.problems.length === 0) {
    return { datastore, warnings: findings.warnings.map(({ message }) => message) };
  }
  const where = config === undefined ? 'the environment' : `file "${config}"`;
  const problems = findings.problems.map((problem) =>
    config === undefined ? { ...problem, path: problem.path.toUpperCase() } : problem,
  );
  throw problemsError(`the connection in ${where}`, problems, 'netconf/invalid');
}

/** Reads the keys at the top level, or in the section `orch` as in the network configuration. */
function orchAccess(raw: RawConnection, problems: Problem[]): OrchSettings {
  const section = isRecord(raw['orch']) ? raw['orch'] : {};
  const orch = { orchconfig: raw['orchconfig'], orch_api_root: raw['orch_api_root'], ...section };
  const { values } = readEntries(
    { orch: COMMON_FIELDS.orch },
    { orch },
    { path: '', code: 'netconf/invalid', problems },
  );
  return { orchconfig: values.orch?.orchconfig, apiRoot: values.orch?.orch_api_root, nodeName: undefined };
}
