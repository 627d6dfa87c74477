import { stopwatch, timeLimit } from '../../../base/clock.ts';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import type { Store } from '../../../datastore/store.ts';
import type { NamedLease } from '../../../runtime/leader-lease.ts';
import type { UpgradeSession } from './open-upgrade.ts';

/** The name of the Lease, in the namespace of the installation. */
const NAME = 'netplug-upgrade';
/** A call that was killed keeps others out for so long. */
const DURATION_MS = 6000;
/** A write that comes later after the last renewal renews first, as after a pause of the process. */
const FRESH_MS = DURATION_MS / 2;
const POLL_MS = 500;
const RELEASE_MS = 3000;

/**
 * Does the work while no other call changes the release of the cluster, from whichever machine. Once another call has taken
 * over, as after a pause of this one, the signal of the context aborts and nothing more is written. A user
 * without rights on Leases gets a warning, and the work goes on.
 * @throws upgrade/in-progress
 */
export async function withUpgradeLease<T>(
  session: UpgradeSession,
  work: (session: UpgradeSession) => Promise<T>,
): Promise<T> {
  const { context, access } = session;
  const { clock, hostname, openApi, openLease, random } = context.ports;
  const lease = openLease(session.api, {
    namespace: SYSTEM_NAMESPACE,
    name: NAME,
    holder: `${hostname}_${random.id()}`,
    durationMs: DURATION_MS,
  });
  if (!(await acquire(lease, session))) return work(session);
  const [lost, over] = [new AbortController(), new AbortController()];
  let heldForMs = stopwatch(clock);
  const renew = async (signal: AbortSignal): Promise<void> => {
    const ageMs = stopwatch(clock);
    if (!lost.signal.aborted && (await lease.hold(signal))) heldForMs = ageMs;
    else lost.abort(await inProgress(lease, 'has taken over'));
    lost.signal.throwIfAborted();
  };
  const renewing = (async () => {
    while (!over.signal.aborted && !lost.signal.aborted) {
      await clock.sleep(DURATION_MS / 3, over.signal).catch(() => undefined);
      using limit = timeLimit(DURATION_MS / 3);
      // An API server that is upgraded itself does not answer at times.
      await renew(AbortSignal.any([over.signal, limit.signal])).catch(() => undefined);
    }
  })();
  const fence = async (signal: AbortSignal): Promise<void> => {
    if (lost.signal.aborted || heldForMs() > FRESH_MS) await renew(signal);
  };
  try {
    await using api = openApi(access, fence);
    const signal = AbortSignal.any([context.signal, lost.signal]);
    const store = fenced(session.store, async () => fence(signal));
    return await work({ ...session, api, store, context: { ...context, signal } });
  } catch (cause) {
    if (!context.signal.aborted) lost.signal.throwIfAborted();
    throw cause;
  } finally {
    over.abort();
    await renewing;
    using limit = timeLimit(RELEASE_MS);
    await lease.release(limit.signal).catch(() => undefined);
  }
}

const RECORD_WRITES: ReadonlySet<unknown> = new Set<keyof Store>([
  'createResource',
  'updateResource',
  'deleteResource',
  'setPoolStatus',
]);

/** Returns the store with the fence before every write of an upgrade. */
function fenced(store: Store, fence: () => Promise<void>): Store {
  return new Proxy(store, {
    get: (target, key): unknown => {
      const member: unknown = Reflect.get(target, key, target);
      if (typeof member !== 'function') return member;
      if (!RECORD_WRITES.has(key)) return member.bind(target);
      return async (...args: readonly unknown[]): Promise<unknown> => {
        await fence();
        return Reflect.apply(member, target, args);
      };
    },
  });
}

/** Waits for the end of a call that was killed. Returns false when Leases cannot be written. @throws upgrade/in-progress */
async function acquire(lease: NamedLease, session: UpgradeSession): Promise<boolean> {
  const { io, ports, signal } = session.context;
  let endMs: number | undefined;
  try {
    while (!(await lease.hold(signal))) {
      endMs ??= ports.clock.monotonic() + DURATION_MS + 2 * POLL_MS;
      if (ports.clock.monotonic() > endMs) throw await inProgress(lease, 'is at work');
      await ports.clock.sleep(POLL_MS, signal);
    }
    return true;
  } catch (cause) {
    // Its namespace is missing, or a right.
    if (!isNetplugError(cause, 'store/refused')) throw cause;
    io.stderr(`warning: no other call is kept out: ${cause.message}\n`);
    return false;
  }
}

async function inProgress(lease: NamedLease, does: string): Promise<NetplugError> {
  using limit = timeLimit(RELEASE_MS);
  const found = await lease.findHolder(limit.signal).catch(() => undefined);
  const holder = (found ?? '').replace(/_[^_]*$/, '');
  return new NetplugError(
    'upgrade/in-progress',
    `Cannot change the release of this cluster: another call of netplugctl ${does}${holder === '' ? '' : ` on ${holder}`}`,
    {
      hint: `Wait until it ends; "kubectl -n ${SYSTEM_NAMESPACE} get lease ${NAME}" shows it`,
      facts: { holder },
    },
  );
}
