// The parts of the benchmark by the names they are chosen with.
import type { MeasureRow } from './report.ts';
import { measureAddBesideNetwork } from './rows/add-beside-network.ts';
import { measureAttach } from './rows/attach.ts';
import { measureBurst } from './rows/burst.ts';
import { measureClaims } from './rows/claims.ts';
import { measureConcurrency } from './rows/concurrency.ts';
import { measureControllers } from './rows/controllers.ts';
import { measureConvergenceOfBlocks } from './rows/convergence-block.ts';
import { measureConvergenceAtStart } from './rows/convergence-start.ts';
import { measureFanOut } from './rows/fan-out.ts';
import { measureFanOutAgent } from './rows/fan-out-agent.ts';
import { measureFanOutLarge } from './rows/fan-out-large.ts';
import { measureFirstBlocks } from './rows/first-blocks.ts';
import { measureFloor } from './rows/floor.ts';
import { measureFootprint } from './rows/footprint.ts';
import { measureNodeAtRest } from './rows/node-at-rest.ts';
import { measureOccupancy } from './rows/occupancy.ts';
import { measurePolicyAdd } from './rows/policy-add.ts';
import { measurePolicyBurst } from './rows/policy-burst.ts';
import { measurePolicyPackets } from './rows/policy-packets.ts';
import { measurePolicyScale } from './rows/policy-scale.ts';
import { measurePolicySets } from './rows/policy-sets.ts';
import { measurePolicyTenant } from './rows/policy-tenant.ts';
import { measureRepairs } from './rows/repairs.ts';
import { measureRequestsOnKv } from './rows/requests-kv.ts';
import { measureRequestsOnOrch } from './rows/requests-orch.ts';
import { measureSandbox } from './rows/sandbox.ts';
import { measureSidecar } from './rows/sidecar.ts';
import { measureSidecarPath } from './rows/sidecar-path.ts';
import { measureStatus } from './rows/status.ts';
import { measureThroughput } from './rows/throughput.ts';
import { measureWatchesOnOrch } from './rows/watches-orch.ts';

export const ROWS: Readonly<Record<string, MeasureRow>> = {
  attach: measureAttach,
  occupancy: measureOccupancy,
  burst: measureBurst,
  floor: measureFloor,
  concurrency: measureConcurrency,
  claims: measureClaims,
  'first-blocks': measureFirstBlocks,
  'requests-kv': measureRequestsOnKv,
  'requests-orch': measureRequestsOnOrch,
  'watches-orch': measureWatchesOnOrch,
  sandbox: measureSandbox,
  status: measureStatus,
  footprint: measureFootprint,
  'node-at-rest': measureNodeAtRest,
  throughput: measureThroughput,
  'add-beside-network': measureAddBesideNetwork,
  'convergence-start': measureConvergenceAtStart,
  'convergence-block': measureConvergenceOfBlocks,
  controllers: measureControllers,
  repairs: measureRepairs,
  'policy-packets': measurePolicyPackets,
  'policy-add': measurePolicyAdd,
  'policy-burst': measurePolicyBurst,
  'policy-scale': measurePolicyScale,
  'policy-tenant': measurePolicyTenant,
  'policy-sets': measurePolicySets,
  sidecar: measureSidecar,
  'sidecar-path': measureSidecarPath,
  'fan-out': measureFanOut,
  'fan-out-agent': measureFanOutAgent,
  'fan-out-large': measureFanOutLarge,
};

/** ADD and DEL are measured together. */
const ALIASES: Readonly<Record<string, string>> = { add: 'attach', del: 'attach' };

/** All of them unless some are named. */
export function chooseRows(names: string | undefined): string[] {
  const chosen = list(names).map((name) => ALIASES[name] ?? name);
  for (const name of chosen)
    if (!(name in ROWS)) throw new Error(refusal('row', name, [...Object.keys(ROWS), 'add', 'del']));
  return chosen.length === 0 ? Object.keys(ROWS) : [...new Set(chosen)];
}

/** Names between commas; none for an empty text. */
export function list(text: string | undefined): string[] {
  return (text ?? '').split(',').flatMap((name) => (name.trim() === '' ? [] : [name.trim()]));
}

export function refusal(kind: string, name: string, known: readonly string[]): string {
  return `no ${kind} is named "${name}" (there are ${known.join(', ')})`;
}
