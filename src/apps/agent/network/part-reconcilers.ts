import type { RetryPorts } from '../../../base/back-off.ts';
import type { Log } from '../../../base/log.ts';
import { asNodeProblems, type NodeProblem } from '../../../model/node-report.ts';
import { Reconciler, type ReconcilerOptions } from '../../../runtime/reconciler.ts';
import { ADDRESSES_PAUSE_MS } from './host/own-addresses.ts';
import { NETWORK_PROBLEMS, type NetworkPart, PARTS } from './network-parts.ts';

/** Interval at which the node is compared with its desired state without a trigger. */
const SLOW = { resyncMs: 60_000 };
/** The same for what the kernel does not report, or may have lost of its reports: forwarding, and nftables. */
export const USUAL = { resyncMs: 10_000 };

/** Name and times of each part. */
const CADENCE: Readonly<Record<NetworkPart, Pick<ReconcilerOptions, 'name' | 'resyncMs' | 'pauseMs'>>> = {
  podFilter: { name: 'pod filter', ...USUAL },
  // Pods that end set their links down as well.
  podLinks: { name: 'pod links', ...USUAL, pauseMs: 200 },
  hostPorts: { name: 'host ports', ...USUAL },
  tunnelFilter: { name: 'tunnel filter', ...USUAL },
  addresses: { name: 'addresses', ...USUAL, pauseMs: ADDRESSES_PAUSE_MS },
  tunnels: { name: 'tunnels', ...SLOW },
  // Two machines with the same node name would otherwise overwrite each other without a pause.
  facts: { name: 'node facts', ...SLOW, pauseMs: 1000 },
  routes: { name: 'routes', ...SLOW },
  // With another address manager each pod has a record, and many change at the same time.
  endpoints: { name: 'endpoints', resyncMs: 5000, pauseMs: 200 },
  nat: { name: 'nat', ...USUAL },
  passwords: { name: 'passwords', ...SLOW },
  bgp: { name: 'bgp', ...SLOW },
};

/** Returns the reconciler of each part. `onRun` is called after each run of one. */
export function partReconcilers(
  work: Readonly<Record<NetworkPart, ReconcilerOptions['reconcile']>>,
  { clock, random, log }: RetryPorts & { readonly log: Log },
  onRun: () => void,
): Readonly<Record<NetworkPart, Reconciler>> {
  const made = PARTS.map((part) => {
    const options = { clock, random, log, ...CADENCE[part], reconcile: work[part], onRun };
    return [part, new Reconciler(options)] as const;
  });
  return Object.fromEntries(made) as Record<NetworkPart, Reconciler>; // the keys are all the parts
}

/**
 * Returns what the reconcilers fail at. Only those that `affectsPods` names can leave pods without network; one that has not run
 * yet is no error, because a start takes as long as the cluster is large.
 */
export function reconcilerProblems(
  all: readonly Reconciler[],
  affectsPods: (each: Reconciler) => boolean = () => true,
): readonly NodeProblem[] {
  const unrun = all.filter((each) => each.isUnrun);
  const run = all.filter((each) => !each.isUnrun);
  const isFailing = (each: Reconciler): boolean => affectsPods(each) && each.failure !== undefined;
  const { failing, starting, behind } = NETWORK_PROBLEMS;
  return [
    asNodeProblems(
      failing,
      run.filter(isFailing).flatMap((each) => each.explain('failure')),
    ),
    asNodeProblems(
      starting,
      unrun.flatMap((each) => each.explain('lastError')),
    ),
    asNodeProblems(
      behind,
      run.filter((each) => !isFailing(each)).flatMap((each) => each.explain('lastError')),
    ),
  ].flat();
}
